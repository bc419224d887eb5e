//! What has gone wrong for others who built on the same ground, and must not here. Each test says what happened.

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use weir_function_runtime::lease::{self, Acquired};
use weir_function_runtime::queue::Queue;
use weir_function_runtime::worker::Verdict;
use weir_messages::{Cause, Lane, subject};

use crate::support::{Recorder, Rig, api, changed, count, eventually, server, until_all_is_quiet};

/// A consumer as somebody else has made it.
async fn make_consumer(queue: &Queue, lane: Lane, more: Value) {
    let name = format!("server-{lane}");
    let mut config = json!({
        "durable_name": name, "name": name, "ack_policy": "explicit", "deliver_policy": "all",
        "filter_subject": format!("work.{lane}.server.>"), "ack_wait": 1_000_000_000_u64
    });
    let config_fields = config.as_object_mut().unwrap();
    if more.get("filter_subjects").is_some() {
        config_fields.remove("filter_subject");
    }
    config_fields.extend(more.as_object().unwrap().clone());
    let request = json!({ "stream_name": "WORK", "config": config, "action": "" });
    let made = api(queue, &format!("CONSUMER.CREATE.WORK.{name}"), request).await;
    assert!(made.get("error").is_none(), "{made}");
}

/// A requeue carried the message id of what had caused it, and was swallowed as a duplicate: the object waited for ever.
///
/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn requeues_inside_the_duplicate_window_are_none_of_them_swallowed() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::new(|_, _, nth| async move {
        match nth {
            0..3 => Verdict::After { delay: Duration::from_millis(60) },
            3..6 => Verdict::After { delay: Duration::from_millis(300) },
            _ => Verdict::Settled,
        }
    });
    let worker = rig.worker(&handler, &[]).await;
    let event = changed("a").seen("uid-1", "42");
    queue.publish(event.clone(), Lane::Urgent, event.message_id(), None).await.unwrap();
    let calls = handler.until("every requeue", |calls| calls.len() == 7).await;
    assert!(calls.iter().skip(1).all(|seen| seen.cause == Cause::Requeued));
    until_all_is_quiet(&queue).await;
    let again = queue.publish(event.clone(), Lane::Urgent, event.message_id(), None).await.unwrap();
    assert!(again.duplicate, "all of it was inside the window");
    worker.stop().await;
    assert_eq!(handler.calls().len(), 7);
}

/// A message had been delivered as often as its consumer allowed. It was never delivered again, and lay in the stream;
/// nor did lifting the limit bring it back.
///
/// Proves: Q-9
#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_deliveries_had_run_out_is_looked_at_all_the_same() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    make_consumer(&queue, Lane::Urgent, json!({ "max_deliver": 2 })).await;
    for name in ["a", "b"] {
        queue.publish(changed(name), Lane::Urgent, None, None).await.unwrap();
    }
    // Somebody takes each of them twice and gives it back.
    eventually("both to be given up", || async {
        // A message comes under its own subject, so it cannot be awaited as an answer.
        let inbox = queue.client().new_inbox();
        let mut messages = queue.client().subscribe(inbox.clone()).await.unwrap();
        let asked = json!({ "batch": 1, "no_wait": true }).to_string();
        let next = "$JS.API.CONSUMER.MSG.NEXT.WORK.server-urgent";
        queue.client().publish_with_reply(next, inbox, asked.into()).await.unwrap();
        if let Some(reply) = messages.next().await.unwrap().reply {
            queue.client().publish(reply, "-NAK".into()).await.unwrap();
            queue.client().flush().await.unwrap();
        }
        let info = api(&queue, "CONSUMER.INFO.WORK.server-urgent", json!({})).await;
        let given_up = info["num_pending"] == 0 && info["num_ack_pending"] == 0;
        (given_up && info["delivered"]["consumer_seq"] == 4).then_some(())
    })
    .await;
    assert_eq!(count(&queue, "WORK", "work.>").await, 2, "there they lie");
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &["--stray-after", "1s"]).await;
    handler.until("both", |calls| calls.len() == 2).await;
    until_all_is_quiet(&queue).await;
    let info = api(&queue, "CONSUMER.INFO.WORK.server-urgent", json!({})).await;
    assert_eq!(info["config"]["max_deliver"], -1, "it cannot happen again");
    worker.stop().await;
    assert_eq!(handler.calls().len(), 2, "once each");
}

/// Contention for an object counted as deliveries, and used them up.
///
/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_held_elsewhere_for_long_is_looked_at_in_the_end() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    make_consumer(&queue, Lane::Urgent, json!({ "max_deliver": 3 })).await;
    let Acquired::Lease(held) = lease::acquire(&queue, &server("a")).await.unwrap() else { panic!("nobody has it") };
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    eventually("more deliveries than the limit that there was", || async {
        let info = api(&queue, "CONSUMER.INFO.WORK.server-urgent", json!({})).await;
        (info["delivered"]["consumer_seq"].as_u64() > Some(5)).then_some(())
    })
    .await;
    assert_eq!(handler.calls().len(), 0, "it is held");
    held.release().await;
    handler.until("the call", |calls| calls.len() == 1).await;
    until_all_is_quiet(&queue).await;
    worker.stop().await;
}

/// A consumer was deleted while its workers had messages in hand: what they acknowledged was acknowledged to nobody.
///
/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_deleted_in_the_middle_of_a_call_loses_nothing() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let go = tokio::sync::watch::Sender::new(false);
    let waits = go.subscribe();
    let handler = Recorder::new(move |_, seen, nth| {
        let mut go = waits.clone();
        async move {
            if seen.object.name == "a" && nth == 0 {
                let _ = go.wait_for(|go| *go).await;
            }
            Verdict::Settled
        }
    });
    let worker = rig.worker(&handler, &[]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the call", |calls| calls.len() == 1).await;
    api(&queue, "CONSUMER.DELETE.WORK.server-urgent", json!({})).await;
    queue.publish(changed("b"), Lane::Urgent, None, None).await.unwrap();
    handler.until("another object", |calls| calls.iter().any(|seen| seen.object.name == "b")).await;
    assert_eq!(handler.most_at_once(), 2);
    go.send_replace(true);
    // Delivered by the new consumer as well, it is looked at once more rather than never.
    until_all_is_quiet(&queue).await;
    worker.stop().await;
    assert!(handler.calls_for("a").len() <= 2, "{:?}", handler.calls());
}

/// An upgrade changed the stream's subjects. What waited on the old ones was lost, or what was published on the new ones.
///
/// Proves: Q-1
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_and_a_consumer_of_another_release_are_brought_up_to_date_and_what_waits_is_done() {
    let rig = Rig::start();
    let queue = rig.bare_queue().await;
    let old = json!({
        "name": "WORK", "subjects": ["work.urgent.>", "jobs.>"], "retention": "workqueue", "storage": "file",
        "num_replicas": 1, "discard": "old", "max_age": 0, "max_bytes": -1, "max_msgs": -1, "max_consumers": -1
    });
    let made = api(&queue, "STREAM.CREATE.WORK", old).await;
    assert!(made.get("error").is_none(), "{made}");
    let narrow = json!({ "filter_subject": "work.urgent.server.*.*", "max_ack_pending": 1 });
    make_consumer(&queue, Lane::Urgent, narrow).await;
    queue.publish(changed("before"), Lane::Urgent, None, None).await.unwrap();
    queue.client().request("jobs.x", "not ours".into()).await.unwrap();
    let handler = Recorder::new(|_, seen, nth| async move {
        let yields = nth == 0 && seen.lane == Lane::Routine;
        if yields { Verdict::After { delay: Duration::from_millis(300) } } else { Verdict::Settled }
    });
    let worker = rig.worker(&handler, &["--stray-after", "1s"]).await;
    handler.until("what waited", |calls| calls.iter().any(|seen| seen.object.name == "before")).await;
    queue.publish(changed("after"), Lane::Routine, None, None).await.unwrap();
    // With a timer between: its subject is new as well.
    handler
        .until("what came later", |calls| calls.iter().filter(|seen| seen.object.name == "after").count() == 2)
        .await;
    eventually("all work to be done", || async { (count(&queue, "WORK", "work.>").await == 0).then_some(()) }).await;
    worker.stop().await;
    assert_eq!(count(&queue, "WORK", "jobs.>").await, 1, "what is none of ours stays");
    assert_eq!(count(&queue, "DEAD", "dead.>").await, 0);
    let info = api(&queue, "CONSUMER.INFO.WORK.server-urgent", json!({})).await;
    assert_eq!(info["config"]["filter_subject"], subject::work_filter(Lane::Urgent, weir_api::Kind::Server));
}

/// In a rolling upgrade each release set streams and consumers as it wanted them, and each change lost what waited.
///
/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn releases_that_want_different_streams_and_consumers_take_turns_and_lose_nothing() {
    const EACH: usize = 20;
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::settling();
    let mut workers = Vec::new();
    let mut sent = 0;
    for round in 0..6 {
        // Each start brings back what this release wants; the other one's processes start in between.
        workers.push(rig.worker(&handler, &["--max-ack-pending", &(50 + round).to_string()]).await);
        for _ in 0..EACH {
            queue.publish(changed(&format!("o{sent}")), Lane::ALL[sent % 2], None, None).await.unwrap();
            sent += 1;
        }
        let later = round % 2 == 0;
        let mut stream = api(&queue, "STREAM.INFO.WORK", json!({})).await["config"].clone();
        let (subjects, most) = if later { (json!(["work.>", "timer.>", "jobs.>"]), 3) } else { (json!(["work.>"]), 1) };
        stream["subjects"] = subjects;
        stream["max_msgs_per_subject"] = most.into();
        let updated = api(&queue, "STREAM.UPDATE.WORK", stream).await;
        assert!(updated.get("error").is_none(), "{updated}");
        for lane in Lane::ALL {
            let (one, more) = (format!("work.{lane}.server.>"), format!("work.{lane}.rack.>"));
            let mut config = if later {
                json!({ "filter_subjects": [one, more], "max_deliver": -1 })
            } else {
                json!({ "filter_subject": one, "max_deliver": 3 })
            };
            // The server lets nobody change this.
            config["max_waiting"] = 4096.into();
            make_consumer(&queue, lane, config).await;
        }
        for _ in 0..EACH {
            queue.publish(changed(&format!("o{sent}")), Lane::ALL[sent % 2], None, None).await.unwrap();
            sent += 1;
        }
        if workers.len() > 2 {
            workers.remove(0).stop().await;
        }
    }
    handler
        .until("every object", |calls| {
            let names: std::collections::HashSet<&str> = calls.iter().map(|seen| seen.object.name.as_str()).collect();
            names.len() == sent
        })
        .await;
    eventually("all work to be done", || async { (count(&queue, "WORK", "work.>").await == 0).then_some(()) }).await;
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(count(&queue, "DEAD", "dead.>").await, 0);
}

/// Every event of a burst for one object started a call of its own, side by side.
///
/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn ten_events_in_one_second_for_one_object_are_a_few_calls_one_after_another_the_last_after_the_last_event() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::new(|_, _, _| async {
        tokio::time::sleep(Duration::from_millis(350)).await;
        Verdict::Settled
    });
    let workers = [rig.worker(&handler, &[]).await, rig.worker(&handler, &[]).await];
    let mut last = std::time::Instant::now();
    for n in 0..10 {
        let event = changed("a").seen("uid-1", n.to_string());
        last = std::time::Instant::now();
        queue.publish(event.clone(), Lane::Urgent, event.message_id(), None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    until_all_is_quiet(&queue).await;
    for worker in workers {
        worker.stop().await;
    }
    let calls = handler.calls();
    assert_eq!(handler.most_at_once(), 1);
    assert!(calls.last().unwrap().at > last, "the state after the last event is looked at");
    assert!(calls.len() <= 6, "{} calls for ten events", calls.len());
}

/// A list of everything waited in front of a person's edit of an object that was on the list as well.
///
/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_an_object_deep_in_the_list_comes_first_and_takes_its_place_in_the_list_along() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    for n in 0..200 {
        queue.publish(changed(&format!("o{n}")), Lane::Routine, None, None).await.unwrap();
    }
    queue.publish(changed("o199"), Lane::Urgent, None, None).await.unwrap();
    let handler = Recorder::new(|_, _, _| async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Verdict::Settled
    });
    let worker = rig.worker(&handler, &["--concurrency", "1"]).await;
    handler.until("everything", |calls| calls.len() >= 201).await;
    until_all_is_quiet(&queue).await;
    worker.stop().await;
    let calls = handler.calls();
    let edit = calls.iter().position(|seen| seen.lane == Lane::Urgent).unwrap();
    assert!(edit < 8, "it was call number {edit}");
    assert_eq!(calls[edit].object, server("o199"));
}
