//! The clock: a schedule in the stream for each region, which ticks whether monitors run or not (MON-1).
//!
//! A tick is work for the region's own subject, `work.routine.server-monitor.<namespace>.<region>`. So there is one at most that
//! waits, and the lease on it makes two rounds of one region impossible.
//!
//! Invariant: a schedule that is there with the same interval is left alone, whoever starts: see [`timer::repeat`]. One of another
//! interval is replaced once, when a monitor first sees its region: two that differ in that do not fight over it ([`timer::keep`]).

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use weir_api::{Kind, ObjectRef, crd};
use weir_function_runtime::queue::{Queue, WORK};
use weir_function_runtime::timer::{self, Kept, Repeating};
use weir_messages::{Cause, Lane, Work, subject};

/// How often the regions are looked through.
const EVERY: Duration = Duration::from_secs(5);
/// What all schedules begin with.
const PREFIX: &str = "timer.every.server-monitor";

/// Keeps a schedule for each region that exists, until `stop`.
pub async fn run(client: Client, queue: Queue, interval: Duration, stop: CancellationToken) {
    let mut begun = BTreeSet::new();
    loop {
        let kept = async {
            queue.connected().await;
            keep(&client, &queue, interval, &mut begun).await
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

/// Brings the schedules in line with the regions. `begun` are those of which the schedule has been set to this interval before.
///
/// # Errors
/// Kubernetes or the queue cannot be used.
pub async fn keep(
    client: &Client,
    queue: &Queue,
    interval: Duration,
    begun: &mut BTreeSet<ObjectRef>,
) -> anyhow::Result<()> {
    let regions = regions(client).await?;
    let stream = queue.jetstream().get_stream(WORK).await?;
    let mut wanted = HashSet::new();
    for region in &regions {
        if region.deletion_timestamp.is_some() {
            continue;
        }
        let name = region.name.clone().unwrap_or_default();
        let object = ObjectRef::new(Kind::ServerMonitor, region.namespace.clone().unwrap_or_default(), name);
        wanted.insert(subject::repeating(&object)?);
        let schedule = Repeating::Object(object.clone());
        let is_new = if begun.contains(&object) {
            timer::keep(queue, &schedule, interval).await? != Kept::There
        } else {
            timer::repeat(queue, &schedule, interval).await?
        };
        begun.insert(object.clone());
        if is_new {
            // The first tick of a schedule is an interval away.
            queue.publish(Work::new(object, Cause::Resync), Lane::Routine, None, None).await?;
        }
    }
    let mut found = stream.info_with_subjects(format!("{PREFIX}.>")).await?;
    let mut gone = Vec::new();
    while let Some(subject) = found.next().await {
        let (subject, _) = subject?;
        if !wanted.contains(&subject) {
            gone.push(subject);
        }
    }
    begun.retain(|object| subject::repeating(object).is_ok_and(|subject| wanted.contains(&subject)));
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
