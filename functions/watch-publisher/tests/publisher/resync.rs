//! Everything looked at again at an interval.

use crate::rig::{Ear, PATIENCE, Rig, of_kind};
use std::time::Duration;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::{Queue, WORK};
use weir_function_runtime::timer;
use weir_harness::World;
use weir_messages::{Cause, Lane, Work, subject};
use weir_watch_publisher::Settings;

const OBJECTS: usize = 10;
/// The schedule that a publisher sees to first.
const FIRST: &str = "timer.resync.region";
/// The one that it sees to last.
const LAST: &str = "timer.resync.server";

/// The sequence and the content of what is stored on a subject.
async fn stored(queue: &Queue, subject: &str) -> Option<(u64, String)> {
    let stream = queue.jetstream().get_stream(WORK).await.unwrap();
    let message = stream.get_last_raw_message_by_subject(subject).await.ok()?;
    let schedule = message.headers.get("Nats-Schedule").map(|value| value.as_str().to_owned());
    Some((message.sequence, schedule.unwrap_or_default()))
}

async fn is_stored(queue: &Queue, subject: &str) -> (u64, String) {
    let look = async {
        loop {
            if let Some(found) = stored(queue, subject).await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("something on the subject")
}

/// Proves: Q-17, W-4
#[tokio::test(flavor = "multi_thread")]
async fn each_tick_has_everything_looked_at_once_by_whichever_publisher_takes_it() {
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    let ear = Ear::consumer(&queue).await;
    for n in 0..OBJECTS {
        rig.world.apply(&of_kind(Kind::Network, &format!("n{n}"))).await;
    }
    // An object's own timer is not moved by a resync.
    let own = ObjectRef::new(Kind::Network, World::NAMESPACE, "n0");
    timer::set(&queue, Work::new(own.clone(), Cause::Requeued), Lane::Routine, Duration::from_secs(3600), None)
        .await
        .unwrap();
    let timer = stored(&queue, &subject::timer(&own).unwrap()).await.unwrap();

    let settings = Settings { resync_seconds: 5, ..Settings::default() };
    let first = rig.publisher_with(rig.world.client.clone(), &settings).await;
    first.ready().await;
    let schedule = is_stored(&queue, "timer.resync.network").await;
    assert_eq!(schedule.1, "@every 5s");
    let second = rig.publisher_with(rig.world.client.clone(), &settings).await;
    second.ready().await;

    let looked = |heard: &[crate::rig::Heard], at_least: usize| {
        (0..OBJECTS).all(|n| {
            let name = format!("n{n}");
            heard.iter().filter(|h| h.cause == Cause::Resync && h.object.name == name).count() >= at_least
        })
    };
    let heard = ear.until("two resyncs", |heard| looked(heard, 2)).await;
    let resyncs: Vec<_> = heard.iter().filter(|heard| heard.cause == Cause::Resync).collect();
    assert!(resyncs.iter().all(|heard| heard.lane == Lane::Routine), "{resyncs:?}");
    for n in 0..OBJECTS {
        let name = format!("n{n}");
        let count = resyncs.iter().filter(|heard| heard.object.name == name).count();
        assert!(count <= 3, "{name} was looked at {count} times in two intervals");
    }
    assert!(resyncs.iter().any(|heard| heard.object.kind == Kind::Region));
    assert_eq!(stored(&queue, &subject::timer(&own).unwrap()).await.unwrap(), timer);
    first.stop().await;
    second.stop().await;
}

/// Proves: Q-17
#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_that_starts_leaves_the_schedule_running_and_another_interval_replaces_it() {
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    let hourly = Settings { resync_seconds: 3600, ..Settings::default() };
    let publisher = rig.publisher_with(rig.world.client.clone(), &hourly).await;
    is_stored(&queue, LAST).await;
    let schedule = is_stored(&queue, FIRST).await;
    publisher.stop().await;

    // When the last schedule is there again, the first one has been dealt with.
    queue.jetstream().get_stream(WORK).await.unwrap().purge().filter(LAST).await.unwrap();
    let again = rig.publisher_with(rig.world.client.clone(), &hourly).await;
    is_stored(&queue, LAST).await;
    assert_eq!(is_stored(&queue, FIRST).await, schedule);
    again.stop().await;

    let daily = Settings { resync_seconds: 86_400, ..Settings::default() };
    let changed = rig.publisher_with(rig.world.client.clone(), &daily).await;
    let replaced = async {
        while stored(&queue, FIRST).await.unwrap().1 != "@every 86400s" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, replaced).await.expect("the new interval");
    changed.stop().await;
}
