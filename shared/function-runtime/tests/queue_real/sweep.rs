//! Messages that no consumer brings to anybody, and dead letters sent again.

use std::time::Duration;

use async_nats::HeaderMap;
use serde_json::{Value, json};
use weir_function_runtime::queue::inspect::Selector;
use weir_function_runtime::queue::{Queue, Redriven, Swept};
use weir_function_runtime::timer;
use weir_messages::Lane;

use crate::support::{Recorder, Rig, api, changed, count, eventually, server, until_all_is_quiet};

/// Puts something on the queue, as anybody could.
async fn put(queue: &Queue, subject: &str, headers: &[(&str, &str)], body: &[u8]) -> u64 {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, *value);
    }
    let sending = queue.jetstream().publish_with_headers(subject.to_owned(), map, body.to_vec().into());
    sending.await.unwrap().await.unwrap().sequence
}

async fn letters(queue: &Queue) -> Vec<(u64, String, String)> {
    let listing = queue.dead(&Selector::default(), 100).await.unwrap();
    listing.items.into_iter().map(|letter| (letter.sequence, letter.subject, letter.reason)).collect()
}

/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn what_no_function_takes_is_put_among_the_dead_letters_by_a_worker_of_any_kind() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    for subject in ["work.urgent.planet.ns.a", "work.slow.server.ns.a", "work.urgent.server", "work.odd"] {
        put(&queue, subject, &[("X-Own", "kept")], b"\xffbytes").await;
    }
    // These only wait: for the first worker of their kind, and for whoever looks at everything again.
    put(&queue, "work.urgent.volume.ns.v", &[], b"{}").await;
    put(&queue, "work.resync.server", &[], b"").await;
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &["--stray-after", "1s"]).await;
    eventually("four dead letters", || async { (letters(&queue).await.len() >= 4).then_some(()) }).await;
    eventually("the queue to hold the rest", || async { (count(&queue, "WORK", ">").await == 2).then_some(()) }).await;
    let mut found: Vec<(String, String)> = letters(&queue).await.into_iter().map(|(_, s, r)| (s, r)).collect();
    found.sort();
    let expected = [
        ("work.odd", "bad-subject"),
        ("work.slow.server.ns.a", "unknown-lane"),
        ("work.urgent.planet.ns.a", "unknown-kind"),
        ("work.urgent.server", "bad-subject"),
    ];
    assert_eq!(found, expected.map(|(subject, reason)| (subject.to_owned(), reason.to_owned())));
    let dead = queue.jetstream().get_stream("DEAD").await.unwrap();
    let letter = dead.get_last_raw_message_by_subject("dead.work.urgent.planet.ns.a").await.unwrap();
    assert_eq!(&letter.payload[..], b"\xffbytes", "the original bytes");
    assert_eq!(letter.headers.get("Weir-Original-X-Own").unwrap().as_str(), "kept");
    worker.stop().await;
    assert_eq!(handler.calls().len(), 0);
}

/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn a_stray_is_left_alone_while_it_is_young_and_buried_once_by_many_at_once() {
    let rig = Rig::start();
    let queues = [rig.queue().await, rig.queue().await, rig.queue().await];
    put(&queues[0], "work.urgent.planet.ns.a", &[], b"x").await;
    let grace = Duration::from_secs(600);
    assert_eq!(queues[0].sweep(grace).await.unwrap(), Swept::default(), "its function may be about to start");
    assert_eq!(count(&queues[0], "WORK", "work.>").await, 1);
    let swept = futures::future::join_all(queues.iter().map(|queue| queue.sweep(Duration::ZERO))).await;
    assert!(swept.iter().all(Result::is_ok), "{swept:?}");
    assert_eq!(letters(&queues[0]).await.len(), 1);
    assert_eq!(count(&queues[0], "WORK", "work.>").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sweeping_leaves_alone_what_waits_and_what_is_in_hand() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::new(|_, _, _| std::future::pending());
    let worker = rig.worker(&handler, &["--concurrency", "2", "--grace", "0s"]).await;
    for n in 0..6 {
        queue.publish(changed(&format!("a{n}")), Lane::Urgent, None, None).await.unwrap();
    }
    handler.until("two calls", |calls| calls.len() == 2).await;
    let before = api(&queue, "STREAM.INFO.WORK", json!({})).await["state"]["last_seq"].clone();
    assert_eq!(queue.sweep(Duration::ZERO).await.unwrap(), Swept::default());
    assert_eq!(api(&queue, "STREAM.INFO.WORK", json!({})).await["state"]["last_seq"], before);
    worker.stop().await;
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_sent_again_as_it_was_and_is_then_no_dead_letter() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let headers = [("Nats-Msg-Id", "once"), ("ce-id", "7"), ("X-Own", "kept")];
    put(&queue, "work.urgent.planet.ns.a", &headers, b"\x00\xff").await;
    queue.sweep(Duration::ZERO).await.unwrap();
    let [(letter, subject, _)] = &letters(&queue).await[..] else { panic!("one letter") };
    // Inside the duplicate window, with the id that it came with, it would be swallowed.
    let outcome = queue.redrive(*letter).await.unwrap();
    assert!(matches!(&outcome, Redriven::Sent { subject: to, .. } if to == subject), "{outcome:?}");
    assert_eq!(letters(&queue).await, []);
    let work = queue.jetstream().get_stream("WORK").await.unwrap();
    let message = work.get_last_raw_message_by_subject("work.urgent.planet.ns.a").await.unwrap();
    assert_eq!(&message.payload[..], b"\x00\xff");
    let header = |name: &str| message.headers.get(name).map(|value| value.as_str().to_owned());
    assert_eq!((header("ce-id").as_deref(), header("X-Own").as_deref()), (Some("7"), Some("kept")));
    assert_ne!(header("Nats-Msg-Id").as_deref(), Some("once"));
    assert_eq!((header("Weir-Dead-Reason"), header("Weir-Original-ce-id")), (None, None));
    assert_eq!(queue.redrive(*letter).await.unwrap(), Redriven::Gone);
}

/// After the release that understands it is there, a redriven message is worked on like any other.
///
/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_can_be_understood_by_now_leads_to_a_call() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    // Well formed; what made it a dead letter is that its lane's consumer was unknown to whoever swept.
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    let work = queue.jetstream().get_stream("WORK").await.unwrap();
    let good = work.get_last_raw_message_by_subject("work.urgent.server.ns.a").await.unwrap();
    let mut letter = HeaderMap::new();
    for (name, values) in good.headers.iter() {
        letter.insert(format!("Weir-Original-{name}"), values[0].as_str());
    }
    letter.insert("Weir-Dead-Subject", "work.urgent.server.ns.a");
    letter.insert("Weir-Dead-Complete", "true");
    let sending = queue.jetstream().publish_with_headers("dead.work.urgent.server.ns.a", letter, good.payload);
    let kept = sending.await.unwrap().await.unwrap().sequence;
    let waits = queue.redrive(kept).await.unwrap();
    assert!(matches!(waits, Redriven::Waits { .. }), "it does not take the place of what waits: {waits:?}");
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    handler.until("the call", |calls| calls.len() == 1).await;
    until_all_is_quiet(&queue).await;
    assert!(matches!(queue.redrive(kept).await.unwrap(), Redriven::Sent { .. }));
    handler.until("the call for the letter", |calls| calls.len() == 2).await;
    until_all_is_quiet(&queue).await;
    worker.stop().await;
    assert_eq!(letters(&queue).await, []);
}

/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_does_not_tell_its_object_or_did_not_come_from_the_queue_stays_where_it_is() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let (whole, part) = (("Weir-Dead-Complete", "true"), ("Weir-Dead-Complete", "false"));
    for (headers, outcome) in [
        (vec![("Weir-Dead-Subject", "work.urgent.planet.ns.a"), part], Redriven::Incomplete),
        (vec![("Weir-Dead-Subject", "$KV.LEASES.server.ns.a"), whole], Redriven::Foreign),
        (vec![("Weir-Dead-Subject", "timer.server.ns.a"), whole], Redriven::Foreign),
        (vec![("Weir-Dead-Subject", "sqs.servers.fifo"), whole], Redriven::Foreign),
        (vec![whole], Redriven::Foreign),
    ] {
        let letter = put(&queue, "dead.x", &headers, b"x").await;
        assert_eq!(queue.redrive(letter).await.unwrap(), outcome);
        assert!(letters(&queue).await.iter().any(|(number, _, _)| *number == letter), "it is kept");
    }
    let left: Value = api(&queue, "STREAM.INFO.WORK", json!({})).await["state"]["messages"].clone();
    assert_eq!((left, count(&queue, "KV_LEASES", ">").await), (json!(0), 0), "nothing was sent anywhere");
}

/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_sent_as_it_was_can_have_its_object_looked_at_all_the_same() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let part = [("Weir-Dead-Subject", "work.routine.server.ns.large"), ("Weir-Dead-Complete", "false")];
    let large = put(&queue, "dead.work.routine.server.ns.large", &part, b"x").await;
    assert!(matches!(queue.redrive(large).await.unwrap(), Redriven::Sent { .. }));
    let foreign = [("Weir-Dead-Subject", "sqs.servers.fifo"), ("Weir-Dead-Complete", "true")];
    let foreign = put(&queue, "dead.sqs.servers.fifo", &foreign, b"x").await;
    let named = server("named");
    assert!(matches!(queue.redrive_for(foreign, &named).await.unwrap(), Redriven::Sent { .. }));
    assert_eq!(queue.redrive_for(foreign, &named).await.unwrap(), Redriven::Gone);
    assert_eq!(letters(&queue).await, []);
    let another = put(&queue, "dead.x", &[], b"x").await;
    let waits = queue.redrive_for(another, &named).await.unwrap();
    assert!(matches!(waits, Redriven::Waits { .. }), "what waits says the same: {waits:?}");
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    handler.until("both calls", |calls| calls.len() == 2).await;
    until_all_is_quiet(&queue).await;
    worker.stop().await;
}

/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_is_dropped_is_gone_and_no_other() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let mut numbers = vec![];
    for name in ["a", "b", "c"] {
        numbers.push(put(&queue, &format!("dead.{name}"), &[], b"x").await);
    }
    assert!(queue.drop_letter(numbers[1]).await.unwrap());
    assert!(!queue.drop_letter(numbers[1]).await.unwrap(), "it is gone already");
    assert!(!queue.drop_letter(u64::MAX).await.unwrap());
    let left: Vec<u64> = letters(&queue).await.into_iter().map(|(number, _, _)| number).collect();
    assert_eq!(left, [numbers[0], numbers[2]]);
}

/// Two who sent all letters at once sent some of them twice.
///
/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_sent_while_another_sends_it_is_one_message() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    put(&queue, "work.urgent.planet.ns.a", &[], b"x").await;
    queue.sweep(Duration::ZERO).await.unwrap();
    let [(letter, subject, _)] = &letters(&queue).await[..] else { panic!("one letter") };
    // The other has sent it, a worker has taken the message, and the letter is not removed yet.
    let mut config = api(&queue, "STREAM.INFO.DEAD", json!({})).await["config"].clone();
    config["deny_delete"] = true.into();
    let updated = api(&queue, "STREAM.UPDATE.DEAD", config).await;
    assert!(updated.get("error").is_none(), "{updated}");
    queue.redrive(*letter).await.unwrap_err();
    let sent = api(&queue, "STREAM.INFO.WORK", json!({})).await["state"].clone();
    assert_eq!(sent["messages"], 1);
    api(&queue, "STREAM.PURGE.WORK", json!({ "filter": subject })).await;
    queue.redrive(*letter).await.unwrap_err();
    queue.redrive_for(*letter, &server("a")).await.unwrap_err();
    let after = api(&queue, "STREAM.INFO.WORK", json!({})).await["state"].clone();
    assert_eq!((&after["messages"], &after["last_seq"]), (&json!(0), &sent["last_seq"]), "nothing more was stored");
}

/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn of_several_who_send_all_letters_at_once_each_letter_is_sent_by_one() {
    const LETTERS: usize = 60;
    let rig = Rig::start();
    let queues = [rig.queue().await, rig.queue().await, rig.queue().await];
    let mut numbers = Vec::new();
    for n in 0..LETTERS {
        let came_on = format!("work.urgent.planet.ns.{n}");
        let headers = [("Weir-Dead-Subject", came_on.as_str()), ("Weir-Dead-Complete", "true")];
        numbers.push(put(&queues[0], &format!("dead.{came_on}"), &headers, b"x").await);
    }
    let all = queues.iter().map(async |queue| {
        let mut sent = 0;
        for number in &numbers {
            sent += usize::from(matches!(queue.redrive(*number).await.unwrap(), Redriven::Sent { .. }));
        }
        sent
    });
    let sent = futures::future::join_all(all).await;
    assert_eq!(sent.iter().sum::<usize>(), LETTERS, "{sent:?}");
    assert_eq!(letters(&queues[0]).await, []);
    assert_eq!(api(&queues[0], "STREAM.INFO.WORK", json!({})).await["state"]["last_seq"], LETTERS);
}

/// Its acknowledgement was late, and each delivery was buried by itself.
///
/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_understood_is_one_letter_however_often_it_is_delivered() {
    const LETTERS: u64 = 100;
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the worker to be at work", |calls| calls.len() == 1).await;
    until_all_is_quiet(&queue).await;
    let mut config = api(&queue, "CONSUMER.INFO.WORK.server-urgent", json!({})).await["config"].clone();
    config["ack_wait"] = 1_000_000.into();
    let asked = json!({ "stream_name": "WORK", "config": config, "action": "update" });
    let updated = api(&queue, "CONSUMER.CREATE.WORK.server-urgent", asked).await;
    assert!(updated.get("error").is_none(), "{updated}");
    for n in 0..LETTERS {
        queue.client().publish(format!("work.urgent.server.ns.bad{n}"), "x".into()).await.unwrap();
    }
    eventually("all letters", || async { (count(&queue, "DEAD", ">").await >= LETTERS).then_some(()) }).await;
    until_all_is_quiet(&queue).await;
    assert_eq!(count(&queue, "DEAD", ">").await, LETTERS);
    worker.stop().await;
}

/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_timer_can_be_removed_from_among_the_timers_and_a_timer_cannot() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let junk = put(&queue, "timer.server.ns.a", &[], b"junk").await;
    timer::set(&queue, changed("b"), Lane::Urgent, Duration::from_secs(600), None).await.unwrap();
    let work = put(&queue, "work.urgent.server.ns.c", &[], b"{}").await;
    let [timer, _] = &queue.timers(&Selector::default(), 10).await.unwrap().items[..] else { panic!("two") };
    for number in [timer.sequence, work, u64::MAX] {
        assert!(!queue.drop_stuck(number).await.unwrap(), "{number}");
    }
    assert!(queue.drop_stuck(junk).await.unwrap());
    assert!(!queue.drop_stuck(junk).await.unwrap(), "it is gone already");
    assert_eq!((count(&queue, "WORK", "timer.>").await, count(&queue, "WORK", "work.>").await), (1, 1));
}
