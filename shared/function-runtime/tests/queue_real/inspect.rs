//! Looking into the queue.

use std::time::Duration;

use weir_api::{Kind, ObjectRef};
use weir_function_runtime::lease;
use weir_function_runtime::queue::Error;
use weir_function_runtime::queue::inspect::Selector;
use weir_function_runtime::timer::{self, Repeating};
use weir_function_runtime::worker::Verdict;
use weir_messages::{Cause, Lane};

use crate::support::{Recorder, Rig, changed, server};

/// Proves: R-6
#[tokio::test(flavor = "multi_thread")]
async fn the_overview_tells_what_waits_what_is_in_hand_and_who_holds_it() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::new(|_, _, _| std::future::pending::<Verdict>());
    let worker = rig.worker(&handler, &["--concurrency", "1", "--name", "worker-1", "--grace", "0s"]).await;
    queue.publish(changed("held"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the call", |calls| calls.len() == 1).await;
    for (name, lane) in [("w1", Lane::Urgent), ("w2", Lane::Urgent), ("w3", Lane::Routine)] {
        queue.publish(changed(name), lane, None, None).await.unwrap();
    }
    queue.client().request("work.urgent.planet.ns.x", "x".into()).await.unwrap();
    timer::set(&queue, changed("later"), Lane::Urgent, Duration::from_secs(600), None).await.unwrap();

    let overview = queue.overview().await.unwrap();
    let depth = |kind: &str, lane: &str| {
        overview.lanes.iter().find(|depth| (depth.kind.as_str(), depth.lane.as_str()) == (kind, lane)).unwrap()
    };
    // The worker may have been given more than it can begin, and what it gives back counts as given until it goes out again.
    let (urgent, routine) = (depth("server", "urgent"), depth("server", "routine"));
    assert_eq!((urgent.waiting + urgent.in_flight, routine.waiting + routine.in_flight), (3, 1));
    assert!(urgent.in_flight >= 1);
    assert_eq!(depth("server", "urgent").consumer.as_deref(), Some("server-urgent"));
    assert!(depth("server", "urgent").oldest.unwrap() <= overview.now);
    let stray = depth("planet", "urgent");
    assert_eq!((stray.waiting, stray.consumer.as_deref()), (1, None), "what nobody takes is shown too");
    assert_eq!((overview.timers, overview.leases, overview.dead), (Some(1), Some(1), Some(0)));
    assert_eq!(overview.missing, [""; 0]);
    assert_eq!((urgent.working, routine.working, stray.working), (1, 1, 0), "of the kind, whichever lane asked");
    assert_eq!((urgent.most, stray.most), (Some(2000), None));

    let leases = queue.leases(&Selector::default(), 10).await.unwrap();
    let held = &leases.items[0];
    assert_eq!((held.object.clone(), held.holder.as_deref()), (Some(server("held")), Some("worker-1")));
    let (renewed, expires) = (held.renewed.unwrap(), held.expires.unwrap());
    assert_eq!(expires.duration_since(renewed).as_secs(), 10, "the bucket's time to live");
    worker.stop().await;
}

/// Proves: R-6
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_goes_on_shows_though_its_message_was_replaced_and_whoever_makes_it() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::new(|_, _, _| std::future::pending::<Verdict>());
    let worker = rig.worker(&handler, &["--concurrency", "1", "--grace", "0s"]).await;
    queue.publish(changed("held"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the call", |calls| calls.len() == 1).await;
    // The newer message takes the place of the one in hand, which the server then counts no more.
    queue.publish(changed("held"), Lane::Urgent, None, None).await.unwrap();
    let lambda = lease::acquire(&queue, &ObjectRef::new(Kind::Network, "ns", "elsewhere")).await.unwrap();
    let overview = queue.overview().await.unwrap();
    let of = |kind: &str| overview.lanes.iter().find(|depth| depth.kind == kind).unwrap();
    assert_eq!(of("server").working, 1);
    let network = of("network");
    assert_eq!((network.working, network.lane.as_str(), network.consumer.as_deref()), (1, "-", None));
    assert_eq!(overview.leases, Some(2));
    drop(lambda);
    worker.stop().await;
}

/// Proves: R-6
#[tokio::test(flavor = "multi_thread")]
async fn work_and_timers_are_listed_by_what_they_are_for_up_to_a_bound() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    for n in 0..5 {
        queue.publish(changed(&format!("a{n}")), Lane::Urgent, None, None).await.unwrap();
    }
    queue.publish(changed("a.b"), Lane::Routine, None, None).await.unwrap();
    let garbled = queue.client().request("work.urgent.server.ns.bad", "\u{1b}[2J".into()).await.unwrap();
    assert!(!garbled.payload.is_empty());
    for (name, seconds) in [("late", 900), ("soon", 60), ("middle", 300)] {
        let again = changed(name).again(Cause::Retry, 4);
        timer::set(&queue, again, Lane::Urgent, Duration::from_secs(seconds), None).await.unwrap();
    }

    let some = queue.work(&Selector::default(), 3).await.unwrap();
    assert_eq!((some.items.len(), some.total), (3, 7));
    assert_eq!(some.items[0].object, Some(server("a0")), "the oldest first");
    let dotted = queue.work(&"server/ns/a.b".parse().unwrap(), 10).await.unwrap();
    assert_eq!(dotted.items.len(), 1);
    assert_eq!((dotted.items[0].lane, dotted.items[0].cause), (Some(Lane::Routine), Some(Cause::Changed)));
    let lane = Selector { lane: Some(Lane::Routine), ..Selector::default() };
    assert_eq!(queue.work(&lane, 10).await.unwrap().total, 1);
    let bad = queue.work(&"server/ns/bad".parse().unwrap(), 10).await.unwrap();
    assert!(bad.items[0].problem.is_some() && bad.items[0].object.is_none());
    let raw = queue.raw_work(bad.items[0].sequence).await.unwrap().unwrap();
    assert_eq!((raw.text.as_str(), raw.size), ("\u{1b}[2J", 4));
    assert!(queue.raw_work(9999).await.unwrap().is_none());
    assert_eq!(queue.work(&"network".parse().unwrap(), 10).await.unwrap().total, 0);

    let timers = queue.timers(&Selector::default(), 2).await.unwrap();
    let names: Vec<&str> = timers.items.iter().map(|t| t.object.as_ref().unwrap().name.as_str()).collect();
    assert_eq!((names, timers.total), (vec!["soon", "middle"], 3), "the first to fall due come first");
    assert_eq!((timers.items[0].cause, timers.items[0].attempt), (Some(Cause::Retry), 4));
    assert_eq!(timers.items[0].target.as_deref(), Some("work.urgent.server.ns.soon"));

    // What a resync has set, and what repeats, belongs to the kind as well; and only to it.
    timer::resync(&queue, &server("a0"), Duration::from_secs(30)).await.unwrap();
    assert!(timer::repeat(&queue, &Repeating::Tick(Kind::Server), Duration::from_secs(1800)).await.unwrap());
    assert!(!timer::repeat(&queue, &Repeating::Tick(Kind::Server), Duration::from_secs(1800)).await.unwrap());
    let monitored = Repeating::Object(ObjectRef::new(Kind::ServerMonitor, "server", "region-a"));
    assert!(timer::repeat(&queue, &monitored, Duration::from_secs(60)).await.unwrap());
    let of_servers = queue.timers(&"server".parse().unwrap(), 10).await.unwrap();
    let subjects: Vec<&str> = of_servers.items.iter().map(|timer| timer.subject.as_str()).collect();
    assert_eq!(of_servers.total, 5, "{subjects:?}");
    assert_eq!((subjects[0], subjects[4]), ("timer.resync.server.ns.a0", "timer.resync.server"));
    assert_eq!(queue.timers(&"server-monitor".parse().unwrap(), 10).await.unwrap().total, 1);
    assert_eq!(queue.timers(&"server/ns/a0".parse().unwrap(), 10).await.unwrap().total, 1);
    assert_eq!(queue.timers(&Selector::default(), 10).await.unwrap().total, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_makes_nothing() {
    let rig = Rig::start();
    let queue = rig.bare_queue().await;
    let all = Selector::default();
    for refused in [
        queue.overview().await.map(drop),
        queue.work(&all, 1).await.map(drop),
        queue.leases(&all, 1).await.map(drop),
        queue.dead(&all, 1).await.map(drop),
        queue.redrive(1).await.map(drop),
    ] {
        assert!(matches!(refused, Err(Error::NoStream(_))), "{refused:?}");
    }
    let streams = queue.jetstream().request::<_, _, serde_json::Value>("STREAM.NAMES", &serde_json::json!({})).await;
    assert_eq!(streams.unwrap()["total"], 0);
}

/// Proves: R-6
#[tokio::test(flavor = "multi_thread")]
async fn what_there_is_shows_when_a_stream_is_missing() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    let held = lease::acquire(&queue, &server("held")).await.unwrap();
    queue.jetstream().delete_stream("DEAD").await.unwrap();
    let overview = queue.overview().await.unwrap();
    assert_eq!((overview.timers, overview.leases, overview.dead), (Some(0), Some(1), None));
    assert_eq!((overview.missing, overview.lanes[0].waiting), (vec!["DEAD"], 1));
    queue.jetstream().delete_stream("KV_LEASES").await.unwrap();
    assert_eq!(queue.overview().await.unwrap().missing, ["KV_LEASES", "DEAD"]);
    drop(held);
    queue.ensure().await.unwrap();
    queue.jetstream().delete_stream("WORK").await.unwrap();
    let overview = queue.overview().await.unwrap();
    assert_eq!((overview.timers, overview.leases, overview.dead), (None, Some(0), Some(0)));
    assert_eq!(overview.missing, ["WORK"]);
    assert_eq!(queue.absent().await.unwrap(), ["WORK"]);
}
