//! The clock: a schedule in the stream for each region, which ticks whether monitors run or not (MON-1).
//!
//! A tick is work for the region's own subject, `work.routine.server-monitor.<namespace>.<region>`. So there is one at most that
//! waits, and the lease on it makes two rounds of one region impossible.
//!
//! Invariants: a schedule that is there with the same interval is left alone: set again at each start it would never fire
//! where monitors start more often. Of several monitors that begin at once, the first one sets it.

use async_nats::HeaderMap;
use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_SCHEDULE, NATS_SCHEDULE_TARGET};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use weir_api::{Kind, ObjectRef, crd};
use weir_function_runtime::queue::{Queue, WORK};
use weir_messages::{Cause, Envelope, Lane, Work, subject};

/// How often the regions are looked through.
const EVERY: Duration = Duration::from_secs(5);
/// How long an answer from the queue may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// What all schedules begin with.
const PREFIX: &str = "timer.every.server-monitor.";

/// Keeps a schedule for each region that exists, until `stop`.
pub async fn run(client: Client, queue: Queue, interval: Duration, stop: CancellationToken) {
    loop {
        let kept = async {
            queue.connected().await;
            keep(&client, &queue, interval).await
        };
        tokio::select! {
            kept = kept => if let Err(error) = kept {
                tracing::warn!(error = format!("{error:#}"), "the monitor's schedules could not be kept; trying again");
            },
            () = stop.cancelled() => return,
        }
        tokio::select! {
            () = sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Brings the schedules in line with the regions.
///
/// # Errors
/// Kubernetes or the queue cannot be used.
pub async fn keep(client: &Client, queue: &Queue, interval: Duration) -> anyhow::Result<()> {
    let regions = regions(client).await?;
    let stream = queue.jetstream().get_stream(WORK).await?;
    let mut wanted = HashSet::new();
    for region in &regions {
        if region.deletion_timestamp.is_some() {
            continue;
        }
        let name = region.name.clone().unwrap_or_default();
        let object = ObjectRef::new(Kind::ServerMonitor, region.namespace.clone().unwrap_or_default(), name);
        let subject = schedule_subject(&object)?;
        if set(queue, &stream, &object, &subject, interval).await? {
            // The first tick of a schedule is an interval away.
            queue.publish(Work::new(object, Cause::Resync), Lane::Routine, None, None).await?;
        }
        wanted.insert(subject);
    }
    let mut found = stream.info_with_subjects(format!("{PREFIX}>")).await?;
    let mut gone = Vec::new();
    while let Some(subject) = found.next().await {
        let (subject, _) = subject?;
        if !wanted.contains(&subject) {
            gone.push(subject);
        }
    }
    for subject in gone {
        stream.purge().filter(&subject).await?;
        tracing::info!(subject, "the region is gone; its servers are watched no more");
    }
    Ok(())
}

/// What is known of all regions' names.
///
/// # Errors
/// Kubernetes cannot be used.
pub async fn regions(client: &Client) -> anyhow::Result<Vec<ObjectMeta>> {
    let api: Api<crd::Region> = Api::all(client.clone());
    let mut params = ListParams::default().limit(500);
    let mut regions = Vec::new();
    loop {
        let page = api.list_metadata(&params).await?;
        regions.extend(page.items.into_iter().map(|region: PartialObjectMeta<crd::Region>| region.metadata));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(regions),
        }
    }
}

fn schedule_subject(region: &ObjectRef) -> Result<String, subject::Error> {
    Ok(subject::timer(region)?.replacen("timer.", "timer.every.", 1))
}

/// Sets a region's schedule, unless it is there already. True if it was set.
async fn set<I>(
    queue: &Queue,
    stream: &Stream<I>,
    region: &ObjectRef,
    subject: &str,
    interval: Duration,
) -> anyhow::Result<bool> {
    let wanted = format!("@every {}s", interval.as_secs().max(1));
    let last = match stream.get_last_raw_message_by_subject(subject).await {
        Ok(found) if found.headers.get(NATS_SCHEDULE).is_some_and(|schedule| schedule.as_str() == wanted) => {
            return Ok(false);
        }
        Ok(found) => found.sequence,
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => 0,
        Err(error) => return Err(error.into()),
    };
    let work = Work::new(region.clone(), Cause::Resync);
    let encoded = Envelope::new(format!("/weir/{}", queue.name()), work, None).encode()?;
    let mut headers = HeaderMap::new();
    for (name, value) in encoded.headers {
        headers.insert(name, value);
    }
    headers.insert(NATS_SCHEDULE, wanted.as_str());
    headers.insert(NATS_SCHEDULE_TARGET, subject::work(Lane::Routine, region)?);
    headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, last.to_string());
    let sending = queue.jetstream().publish_with_headers(subject.to_owned(), headers, encoded.payload.into());
    match timeout(PATIENCE, async { sending.await?.await }).await? {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(false),
        Err(error) => Err(error.into()),
    }
}
