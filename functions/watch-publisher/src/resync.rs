//! Everything looked at again from time to time: for what no event tells, such as a cloud changed by hand.
//!
//! The clock is the server's. For each kind a schedule in the stream, `timer.resync.<kind>`, puts a tick on
//! `work.resync.<kind>` at every interval, whether publishers run or not. A consumer that all publishers share gives each
//! tick to one of them, which sets a timer for each object of the kind, at a time by chance within a fifth of the interval,
//! and only then acknowledges the tick. The timers put the work into the routine lane.
//!
//! Invariants
//! - An object's own timer is left alone: these have subjects of their own, `timer.resync.<kind>.<namespace>.<name>`.
//! - The schedules are kept by [`crate::memory`], which also says how long one that was removed is missed.
//! - The looks are spread over a fifth of the interval of the schedule that made the tick, which the tick says, and not of the
//!   setting of whoever takes it: publishers may differ in that, in the middle of a change of it.
//! - Ticks do not queue up: there is at most one of each kind, as of all work.

use crate::metrics;
use crate::publish::Publisher;
use crate::watched::Watched;
use async_nats::jetstream::{self, AckKind, consumer::pull};
use futures::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use weir_api::Kind;
use weir_function_runtime::queue::{Queue, WORK};
use weir_function_runtime::timer;
use weir_messages::{Tick, subject};

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

/// Answers ticks, until `stop`. One that does not tell its interval counts as if it were `every`.
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

/// The kinds that are looked at again.
pub(crate) fn kinds() -> impl Iterator<Item = (Watched, Kind)> {
    Watched::ALL.into_iter().filter_map(|watched| Some((watched, watched.function()?)))
}

async fn serve(publisher: &Publisher, queue: &Queue, every: Duration) -> anyhow::Result<()> {
    let config = pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        description: Some("Weir: ticks that have every object of a kind looked at again".to_owned()),
        filter_subject: subject::ALL_TICKS.to_owned(),
        ack_wait: ACK_WAIT,
        max_deliver: -1,
        ..pull::Config::default()
    };
    let work = queue.jetstream().get_stream_no_info(WORK).await?;
    let consumer = work.get_or_create_consumer(CONSUMER, config).await?;
    let mut ticks = consumer.stream().max_messages_per_batch(1).expires(Duration::from_secs(30)).messages().await?;
    while let Some(tick) = ticks.next().await {
        let tick = tick?;
        if let Some((watched, _)) = kinds().find(|(_, kind)| tick.subject.as_str() == subject::tick(*kind)) {
            resync(publisher, queue, watched, window(&tick.payload, every), &tick).await?;
        }
        // One that names no kind, of a release to come perhaps, is not this one's to keep for ever.
        tick.ack().await.map_err(|error| anyhow::anyhow!("acknowledging a tick: {error}"))?;
    }
    anyhow::bail!("the consumer of ticks has ended")
}

/// Over how long the looks are spread that a tick asks for. One of an earlier release does not tell its interval: then it is
/// taken for `own`.
fn window(tick: &[u8], own: Duration) -> Duration {
    let told = serde_json::from_slice::<Tick>(tick).ok().and_then(|tick| tick.every_seconds);
    told.map_or(own, |seconds| Duration::from_secs(seconds.into()).min(timer::LONGEST)) / 5
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
            .map(|object| async move {
                timer::resync(queue, &object, window.mul_f64(rand::random_range(0.0..1.0))).await
            })
            .buffer_unordered(IN_FLIGHT)
            .try_collect::<()>()
            .await?;
        tick.ack_with(AckKind::Progress).await.map_err(|error| anyhow::anyhow!("reporting progress: {error}"))?;
    }
    metrics::RESYNCS.inc(&[watched.name()]);
    tracing::info!(?watched, objects = objects.len(), ?window, "set to be looked at again");
    Ok(())
}
