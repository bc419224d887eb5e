//! Everything looked at again at an interval.

use crate::rig::{Ear, PATIENCE, Rig, of_kind};
use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::inspect::Selector;
use weir_function_runtime::queue::{EVENTS, Queue, WORK};
use weir_function_runtime::timer::{self, Repeating};
use weir_harness::World;
use weir_messages::subject::{self, Subject};
use weir_messages::{Cause, Envelope, Lane, Tick, Work, envelope, schema};
use weir_watch_publisher::Settings;
use weir_watch_publisher::watched::Watched;

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

/// Proves: Q-17, W-1
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_that_has_a_function_is_watched_and_ticks() {
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    let publisher = rig.publisher().await;
    for kind in weir_harness::cluster::KINDS {
        assert!(Watched::ALL.iter().any(|watched| watched.function() == Some(kind)), "{kind} is not watched");
        assert_eq!(is_stored(&queue, &subject::tick_schedule(kind)).await.1, "@every 1800s", "{kind}");
    }
    publisher.stop().await;
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

async fn raw(queue: &Queue, subject: String, headers: &[(&str, &str)]) {
    put(queue, subject, headers, vec![]).await;
}

async fn put(queue: &Queue, subject: String, headers: &[(&str, &str)], payload: Vec<u8>) {
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        all.insert(*name, *value);
    }
    queue.jetstream().publish_with_headers(subject, all, payload.into()).await.unwrap().await.unwrap();
}

/// When the objects' looks are due, once there are as many as there are objects.
async fn due(queue: &Queue) -> Vec<Timestamp> {
    let timers = async {
        loop {
            let timers = queue.timers(&Selector::default(), 1000).await.unwrap().items;
            let due: Vec<_> =
                timers.iter().filter(|t| t.subject.starts_with("timer.resync.")).filter_map(|t| t.due).collect();
            if due.len() >= OBJECTS {
                return due;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, timers).await.expect("a timer for each object")
}

fn after(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

/// Proves: Q-17
#[tokio::test(flavor = "multi_thread")]
async fn by_default_everything_is_looked_at_every_half_hour_at_times_spread_over_a_fifth_of_it() {
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    for n in 0..OBJECTS {
        rig.world.apply(&of_kind(Kind::Network, &format!("n{n}"))).await;
    }
    let publisher = rig.publisher().await;
    assert_eq!(is_stored(&queue, "timer.resync.network").await.1, "@every 1800s");
    // Of an earlier release, which put nothing into its ticks.
    let before = Timestamp::now();
    raw(&queue, subject::tick(Kind::Network), &[]).await;
    let due = due(&queue).await;
    assert!(due.iter().all(|due| (before..after(before, 360 + 60)).contains(due)), "{before}: {due:?}");
    let minutes: HashSet<i64> = due.iter().map(|due| due.as_second() / 10).collect();
    assert!(minutes.len() > 3, "not all at once: {due:?}");
    publisher.stop().await;
}

/// Proves: Q-17, W-4
#[tokio::test(flavor = "multi_thread")]
async fn the_looks_are_spread_by_the_interval_of_the_tick_whatever_that_of_the_publisher_which_takes_it() {
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    for n in 0..OBJECTS {
        rig.world.apply(&of_kind(Kind::Network, &format!("n{n}"))).await;
    }
    let hourly = Settings { resync_seconds: 3600, ..Settings::default() };
    let publisher = rig.publisher_with(rig.world.client.clone(), &hourly).await;
    publisher.ready().await;
    // As the schedule of another publisher would have it, that looks at everything once a day.
    let tick = Tick { kind: Kind::Network, every_seconds: Some(86_400) }.encode("/another").unwrap();
    let headers: Vec<(&str, &str)> = tick.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let before = Timestamp::now();
    put(&queue, subject::tick(Kind::Network), &headers, tick.payload.clone()).await;
    let due = due(&queue).await;
    // By its own setting all would be due within twelve minutes, by the tick's within almost five hours. That all ten fall into
    // the first twelve minutes by chance happens once in 10^13 runs.
    assert!(due.iter().any(|due| *due > after(before, 720 + 60)), "{before}: {due:?}");
    assert!(due.iter().all(|due| *due < after(before, 86_400 / 5 + 60)), "{before}: {due:?}");
    publisher.stop().await;
}

/// Proves: Q-17
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_is_replaced_ticks_no_more_at_its_old_interval() {
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    let every = |kind, seconds| {
        let queue = queue.clone();
        async move { timer::repeat(&queue, &Repeating::Tick(kind), Duration::from_secs(seconds)).await.unwrap() }
    };
    let stream = queue.jetstream().get_stream(WORK).await.unwrap();
    let sequence = async |kind| match stream.get_last_raw_message_by_subject(&subject::tick(kind)).await {
        Ok(tick) => tick.sequence,
        Err(_) => 0,
    };
    // A tick replaces the one that waits, so that its sequence tells one from the next.
    let ticked = async |kind, after: u64| {
        let look = async {
            loop {
                let found = sequence(kind).await;
                if found > after {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.expect("a tick")
    };
    assert!(every(Kind::Network, 1).await && every(Kind::Server, 1).await);
    ticked(Kind::Network, 0).await;
    assert!(every(Kind::Network, 3600).await, "another interval replaces it");
    assert!(!every(Kind::Network, 3600).await, "and is then left alone");
    let last = sequence(Kind::Network).await;
    // The other kind's ticks are the clock.
    let mut clock = sequence(Kind::Server).await;
    for _ in 0..3 {
        clock = ticked(Kind::Server, clock).await;
    }
    assert_eq!(sequence(Kind::Network).await, last);
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_with_nothing_ticks_again() {
    let mut rig = Rig::start().await;
    let settings = Settings { resync_seconds: 1, ..Settings::default() };
    rig.world.apply(&of_kind(Kind::Network, "n")).await;
    let publisher = rig.publisher_with(rig.world.client.clone(), &settings).await;
    publisher.ready().await;
    let queue = rig.queue().await;
    is_stored(&queue, LAST).await;
    rig.nats.lose_everything().unwrap();
    rig.nats.restart().unwrap();
    let queue = rig.queue().await;
    let ear = Ear::consumer(&queue).await;
    ear.hear("a resync", |heard| heard.cause == Cause::Resync && heard.object.name == "n").await;
    is_stored(&queue, LAST).await;
    publisher.stop().await;
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_stored_is_a_cloud_event_as_the_schemas_have_it_and_what_was_published_is_kept_as_it_was() {
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    // An earlier release's schedule, in which there is nothing, is replaced though its interval is the same.
    let empty = [("Nats-Schedule", "@every 1s"), ("Nats-Schedule-Target", "work.resync.network")];
    raw(&queue, subject::tick_schedule(Kind::Network), &empty).await;
    let ear = Ear::consumer(&queue).await;
    let settings = Settings { resync_seconds: 1, ..Settings::default() };
    rig.world.apply(&of_kind(Kind::Network, "listed")).await;
    let publisher = rig.publisher_with(rig.world.client.clone(), &settings).await;
    publisher.ready().await;
    let own = ObjectRef::new(Kind::Network, World::NAMESPACE, "listed");
    let later = Work::new(own, Cause::Requeued);
    timer::set(&queue, later, Lane::Urgent, Duration::from_secs(3600), None).await.unwrap();
    rig.world.apply(&of_kind(Kind::Network, "changed")).await;
    for (what, cause) in [("changed", Cause::Changed), ("listed", Cause::Listed), ("changed", Cause::Resync)] {
        ear.hear(what, |heard| heard.object.name == what && heard.cause == cause).await;
    }
    // A tick of a schedule that this release has set. Nobody takes it any more, so that it can be looked at.
    publisher.stop().await;
    let work = queue.jetstream().get_stream(WORK).await.unwrap();
    let ticked = async {
        while work.get_last_raw_message_by_subject("work.resync.server").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ticked).await.expect("a tick");
    let schema =
        schema::files().unwrap().into_iter().find(|(name, _)| name.starts_with(envelope::HEADERS_SCHEMA)).unwrap().1;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let required: Vec<&str> = schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mut seen = BTreeSet::new();
    for stream in [EVENTS, WORK] {
        for message in everything_in(&queue, stream).await {
            let on = message.subject.strip_prefix("events.").unwrap_or(&message.subject).to_owned();
            let header = |name: &str| message.headers.get(name).map(async_nats::HeaderValue::as_str);
            let legacy =
                matches!(subject::parse(&on), Ok(Subject::Tick { kind: Kind::Network })) && message.payload.is_empty();
            if legacy {
                continue;
            }
            for name in &required {
                assert!(
                    header(name).is_some_and(|value| !value.is_empty()),
                    "{on} has no {name}: {:?}",
                    message.headers
                );
            }
            assert_eq!((header("ce-specversion"), header("content-type")), (Some("1.0"), Some("application/json")));
            let (form, object) = match subject::parse(&on).unwrap_or_else(|error| panic!("{on}: {error}")) {
                Subject::Tick { kind } | Subject::TickSchedule { kind } => {
                    let tick: Tick = serde_json::from_slice(&message.payload).unwrap();
                    assert_eq!(tick, Tick { kind, every_seconds: Some(1) }, "{on}");
                    ("tick.v1", None)
                }
                Subject::Work { object, .. } | Subject::Timer { object } | Subject::Resync { object } => {
                    ("work.v1", Some(object))
                }
                Subject::Repeating { object } => ("work.v1", Some(object)),
            };
            assert_eq!(header("ce-dataschema"), Some(format!("urn:weir:queue-schemas:{form}").as_str()), "{on}");
            assert_eq!(header("ce-type"), Some(format!("weir.{form}").as_str()), "{on}");
            if let Some(object) = object {
                let read = Envelope::decode(header, &message.payload).unwrap();
                assert_eq!(read.work.object, object, "{on}");
                assert!(read.time.is_some() && read.traceparent.is_some(), "{on}");
            }
            seen.insert(format!("{stream} {}", on.split('.').take(2).collect::<Vec<_>>().join(".")));
        }
    }
    for wanted in
        ["EVENTS work.urgent", "EVENTS work.routine", "WORK work.resync", "WORK timer.network", "WORK timer.resync"]
    {
        assert!(seen.contains(wanted), "{wanted}: {seen:?}");
    }
}

async fn everything_in(queue: &Queue, stream: &str) -> Vec<StreamMessage> {
    let stream = queue.jetstream().get_stream(stream).await.unwrap();
    let last = stream.get_info().await.unwrap().state.last_sequence;
    let mut all = Vec::new();
    for sequence in 1..=last {
        // What was replaced or taken is no longer there.
        all.extend(stream.get_raw_message(sequence).await.ok());
    }
    assert!(!all.is_empty());
    all
}

/// Proves: Q-17
#[test]
fn no_interval_is_so_long_that_its_spread_could_not_be_had() {
    let longest = Duration::from_secs(86_400) / 5;
    assert!(longest <= timer::LONGEST);
    assert_eq!(Settings::default().resync_seconds, 30 * 60);
}
