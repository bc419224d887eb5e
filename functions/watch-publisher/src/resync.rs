//! Everything looked at again from time to time: for what no event tells, such as a cloud changed by hand.
//!
//! The clock is the server's. For each kind a schedule in the stream, `timer.resync.<kind>`, puts a tick on
//! `work.resync.<kind>` at every interval, whether publishers run or not. A consumer that all publishers share gives each
//! tick to one of them, which sets a timer for each object of the kind, at a time by chance within a fifth of the interval,
//! and only then acknowledges the tick. The timers put the work into the routine lane.
//!
//! Invariants
//! - An object's own timer is left alone: these have subjects of their own, `timer.resync.<kind>.<namespace>.<name>`.
//! - A schedule that is there with the same interval is left alone too. Set again at each start of a publisher, it would
//!   never come to fire where publishers start more often.
//! - Ticks do not queue up: there is at most one of each kind, as of all work.

use crate::metrics;
use crate::publish::Publisher;
use crate::watched::Watched;
use async_nats::HeaderMap;
use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_SCHEDULE, NATS_SCHEDULE_TARGET};
use async_nats::jetstream::{self, AckKind, consumer::pull, stream::LastRawMessageErrorKind};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::{Queue, WORK};
use weir_messages::{Cause, Envelope, Lane, Work, subject};

/// The consumer of ticks.
const CONSUMER: &str = "resync";
/// How long a publisher may take between two signs of life while it sets timers; after that another one does it.
const ACK_WAIT: Duration = Duration::from_secs(60);
/// How many timers are set between two signs of life.
const BATCH: usize = 1000;
/// How many timers may wait for the stream's acknowledgement at once.
const IN_FLIGHT: usize = 64;
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(2);
/// How long an answer from the queue may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keeps the schedules, and answers ticks, until `stop`.
pub async fn run(publisher: Arc<Publisher>, every: Duration, stop: CancellationToken) {
    let queue = publisher.queue().clone();
    loop {
        tokio::select! {
            ended = serve(&publisher, &queue, every) => {
                if let Err(error) = ended {
                    tracing::warn!(error = format!("{error:#}"), "resyncs are not served; trying again");
                }
            }
            () = stop.cancelled() => return,
        }
        tokio::select! {
            () = async { sleep(PAUSE).await; queue.connected().await } => {}
            () = stop.cancelled() => return,
        }
    }
}

fn kinds() -> impl Iterator<Item = (Watched, Kind)> {
    Watched::ALL.into_iter().filter_map(|watched| Some((watched, watched.function()?)))
}

async fn serve(publisher: &Publisher, queue: &Queue, every: Duration) -> anyhow::Result<()> {
    let work = queue.jetstream().get_stream_no_info(WORK).await?;
    for (_, kind) in kinds() {
        schedule(queue, &work, kind, every).await?;
    }
    let config = pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        description: Some("Weir: ticks that have every object of a kind looked at again".to_owned()),
        filter_subject: "work.resync.*".to_owned(),
        ack_wait: ACK_WAIT,
        max_deliver: -1,
        ..pull::Config::default()
    };
    let consumer = work.get_or_create_consumer(CONSUMER, config).await?;
    let mut ticks = consumer.stream().max_messages_per_batch(1).expires(Duration::from_secs(30)).messages().await?;
    while let Some(tick) = ticks.next().await {
        let tick = tick?;
        if let Some((watched, _)) = kinds().find(|(_, kind)| tick.subject.as_str() == target(*kind)) {
            resync(publisher, queue, watched, every / 5, &tick).await?;
        }
        // One that names no kind, of a release to come perhaps, is not this one's to keep for ever.
        tick.ack().await.map_err(|error| anyhow::anyhow!("acknowledging a tick: {error}"))?;
    }
    anyhow::bail!("the consumer of ticks has ended")
}

fn target(kind: Kind) -> String {
    format!("work.resync.{kind}")
}

/// Makes the stream tick for `kind`, unless it does already.
async fn schedule<I>(
    queue: &Queue,
    work: &jetstream::stream::Stream<I>,
    kind: Kind,
    every: Duration,
) -> anyhow::Result<()> {
    let subject = format!("timer.resync.{kind}");
    let wanted = format!("@every {}s", every.as_secs());
    let last = match work.get_last_raw_message_by_subject(&subject).await {
        Ok(message) if message.headers.get(NATS_SCHEDULE).is_some_and(|found| found.as_str() == wanted) => {
            return Ok(());
        }
        Ok(message) => message.sequence,
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => 0,
        Err(error) => return Err(error.into()),
    };
    let mut headers = HeaderMap::new();
    headers.insert(NATS_SCHEDULE, wanted.as_str());
    headers.insert(NATS_SCHEDULE_TARGET, target(kind));
    // Of several publishers that begin at once the first one sets it.
    headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, last.to_string());
    match store(queue, subject, headers, Vec::new()).await {
        Err(Store::Refused(jetstream::context::PublishErrorKind::WrongLastSequence, _)) => Ok(()),
        other => Ok(other?),
    }
}

/// Sets a timer for each object of a kind, within `window`.
async fn resync(
    publisher: &Publisher,
    queue: &Queue,
    watched: Watched,
    window: Duration,
    tick: &jetstream::Message,
) -> anyhow::Result<()> {
    // A kind that has not been listed yet is about to be, and then everything of it is looked at.
    let objects = publisher.objects(watched);
    for batch in objects.chunks(BATCH) {
        stream::iter(batch.to_vec())
            .map(|object| set_timer(queue.clone(), object, window.mul_f64(rand::random_range(0.0..1.0))))
            .buffer_unordered(IN_FLIGHT)
            .try_collect::<()>()
            .await?;
        tick.ack_with(AckKind::Progress).await.map_err(|error| anyhow::anyhow!("reporting progress: {error}"))?;
    }
    metrics::RESYNCS.inc(&[watched.name()]);
    tracing::info!(?watched, objects = objects.len(), ?window, "set to be looked at again");
    Ok(())
}

async fn set_timer(queue: Queue, object: ObjectRef, delay: Duration) -> anyhow::Result<()> {
    let source = format!("/weir/{}", queue.name());
    let encoded = Envelope::new(source, Work::new(object.clone(), Cause::Resync), None).encode()?;
    let mut headers = HeaderMap::new();
    for (name, value) in encoded.headers {
        headers.insert(name, value);
    }
    let due = Timestamp::now().saturating_add(SignedDuration::try_from(delay)?)?;
    headers.insert(NATS_SCHEDULE, format!("@at {due}"));
    headers.insert(NATS_SCHEDULE_TARGET, subject::work(Lane::Routine, &object)?);
    let subject = subject::timer(&object)?.replacen("timer.", "timer.resync.", 1);
    Ok(store(&queue, subject, headers, encoded.payload).await?)
}

/// Why something was not stored.
#[derive(Debug, thiserror::Error)]
enum Store {
    #[error("publishing {1}: {0}")]
    Refused(jetstream::context::PublishErrorKind, String),
    #[error("no answer to publishing {0}")]
    TimedOut(String),
}

async fn store(queue: &Queue, subject: String, headers: HeaderMap, payload: Vec<u8>) -> Result<(), Store> {
    let sending = queue.jetstream().publish_with_headers(subject.clone(), headers, payload.into());
    match timeout(PATIENCE, async { sending.await?.await }).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Store::Refused(error.kind(), subject)),
        Err(_) => Err(Store::TimedOut(subject)),
    }
}
