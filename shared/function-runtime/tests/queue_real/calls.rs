//! Calls: coalescing, serialisation, fairness, failures, dead letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use serde_json::{Value, json};
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::Queue;
use weir_function_runtime::telemetry::metrics;
use weir_function_runtime::worker::Verdict;
use weir_messages::{Cause, Lane, Traceparent, Work};

use crate::support::{Recorder, Rig, api, changed, count, eventually, until_all_is_quiet, within};

/// A handler whose first call for each object waits for `go`.
fn gated(go: &tokio::sync::watch::Sender<bool>) -> Arc<Recorder> {
    let go = go.subscribe();
    Recorder::new(move |_, _, nth| {
        let mut go = go.clone();
        async move {
            if nth == 0 {
                let _ = go.wait_for(|go| *go).await;
            }
            Verdict::Settled
        }
    })
}

async fn consumer(queue: &Queue, name: &str) -> Value {
    api(queue, &format!("CONSUMER.INFO.WORK.{name}"), json!({})).await
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_messages_during_a_call_cost_one_call_more() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let go = tokio::sync::watch::Sender::new(false);
    let waits = go.subscribe();
    let handler = Recorder::of(Kind::Volume, move |_, _, nth| {
        let mut go = waits.clone();
        async move {
            if nth == 0 {
                let _ = go.wait_for(|go| *go).await;
            }
            Verdict::Settled
        }
    });
    let work = || Work::new(ObjectRef::new(Kind::Volume, "ns", "a"), Cause::Changed);
    let worker = rig.worker(&handler, &["--concurrency", "8"]).await;
    queue.publish(work(), Lane::Urgent, None, None).await.unwrap();
    handler.until("the first call", |calls| calls.len() == 1).await;
    for _ in 0..1000 {
        queue.publish(work(), Lane::Urgent, None, None).await.unwrap();
    }
    // All that the server has delivered has to have arrived: only then is it known what the call that runs covers.
    eventually("everything to be delivered", || async {
        let info = consumer(&queue, "volume-urgent").await;
        let delivered = info["delivered"]["consumer_seq"].as_u64();
        (info["num_pending"] == 0 && delivered == Some(metrics::DELIVERED.get(&["volume", "urgent"]))).then_some(())
    })
    .await;
    go.send_replace(true);
    until_all_is_quiet(&queue).await;
    worker.stop().await;
    assert_eq!(handler.calls().len(), 2);
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_wait_for_their_object_take_no_place_from_others() {
    let rig = Rig::with_lease_ttl("4s");
    let queue = rig.queue().await;
    let go = tokio::sync::watch::Sender::new(false);
    let others: Vec<String> = (0..5).map(|n| format!("b{n}")).collect();
    let go_on = go.subscribe();
    let handler = Recorder::new(move |_, seen, nth| {
        let mut go = go_on.clone();
        async move {
            if seen.object.name == "a" && nth == 0 {
                let _ = go.wait_for(|go| *go).await;
            }
            Verdict::Settled
        }
    });
    let worker = rig.worker(&handler, &["--concurrency", "2"]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the first call", |calls| calls.len() == 1).await;
    for lane in Lane::ALL {
        queue.publish(changed("a"), lane, None, None).await.unwrap();
    }
    for other in &others {
        queue.publish(changed(other), Lane::Urgent, None, None).await.unwrap();
    }
    handler.until("the others", |calls| calls.len() == 6).await;
    assert_eq!(handler.calls_for("a").len(), 1, "one at a time");
    // Longer than the message would be left to a worker that says nothing: it does not come to anybody twice.
    tokio::time::sleep(Duration::from_secs(6)).await;
    go.send_replace(true);
    until_all_is_quiet(&queue).await;
    worker.stop().await;
    assert_eq!(handler.calls_for("a").len(), 2, "one call for both lanes");
    let redelivered = consumer(&queue, "server-urgent").await["num_redelivered"].clone();
    assert_eq!(redelivered, 0, "progress was said");
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn two_workers_never_call_for_one_object_at_once_and_contention_costs_little() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let created = Arc::new((AtomicBool::new(false), AtomicUsize::new(0)));
    let cloud = created.clone();
    let handler = Recorder::new(move |_, _, _| {
        let cloud = cloud.clone();
        async move {
            // Look, think, create: two at once would both find nothing.
            let exists = cloud.0.load(Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(1500)).await;
            if !exists {
                cloud.0.store(true, Ordering::SeqCst);
                cloud.1.fetch_add(1, Ordering::SeqCst);
            }
            Verdict::Settled
        }
    });
    let workers = [rig.worker(&handler, &[]).await, rig.worker(&handler, &[]).await];
    for lane in [Lane::Urgent, Lane::Routine, Lane::Urgent, Lane::Routine] {
        queue.publish(changed("a"), lane, None, None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    until_all_is_quiet(&queue).await;
    assert_eq!(handler.most_at_once(), 1);
    assert_eq!(created.1.load(Ordering::SeqCst), 1, "one create");
    let mut delivered = 0;
    for lane in Lane::ALL {
        delivered += consumer(&queue, &format!("server-{lane}")).await["delivered"]["consumer_seq"].as_u64().unwrap();
    }
    assert!(delivered < 40, "{delivered} deliveries for four messages: contention spins");
    for worker in workers {
        worker.stop().await;
    }
}

/// Proves: Q-11
#[tokio::test(flavor = "multi_thread")]
async fn urgent_goes_first_and_routine_gets_one_call_in_eight() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    for n in 0..70 {
        queue.publish(changed(&format!("u{n}")), Lane::Urgent, None, None).await.unwrap();
        queue.publish(changed(&format!("r{n}")), Lane::Routine, None, None).await.unwrap();
    }
    let handler = Recorder::new(|_, _, _| async {
        tokio::time::sleep(Duration::from_millis(15)).await;
        Verdict::Settled
    });
    let worker = rig.worker(&handler, &["--concurrency", "1"]).await;
    let calls = handler.until("everything", |calls| calls.len() == 140).await;
    worker.stop().await;
    let lanes: Vec<Lane> = calls.iter().map(|seen| seen.lane).collect();
    let last_urgent = lanes.iter().rposition(|lane| *lane == Lane::Urgent).unwrap();
    for (start, window) in lanes[..last_urgent].windows(8).enumerate() {
        assert!(window.contains(&Lane::Routine), "starved from call {start}: {lanes:?}");
    }
    assert!(last_urgent < 90, "urgent work was held up: its last call was number {last_urgent}");
}

/// Proves: Q-11
#[tokio::test(flavor = "multi_thread")]
async fn an_urgent_call_starts_within_a_second_while_ten_thousand_routine_ones_wait() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let names: Vec<String> = (0..10_000).map(|n| format!("r{n}")).collect();
    let sent = names.iter().map(|name| queue.publish(changed(name), Lane::Routine, None, None));
    assert!(futures::future::join_all(sent).await.iter().all(Result::is_ok));
    let handler = Recorder::new(|_, seen, _| async move {
        if seen.lane == Lane::Routine {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        Verdict::Settled
    });
    let worker = rig.worker(&handler, &["--concurrency", "4"]).await;
    handler.until("routine calls", |calls| calls.len() >= 4).await;
    let mut waited = Vec::new();
    for n in 0..100 {
        let name = format!("u{n}");
        let published = std::time::Instant::now();
        queue.publish(changed(&name), Lane::Urgent, None, None).await.unwrap();
        handler.until("the urgent call", |calls| calls.iter().any(|seen| seen.object.name == name)).await;
        waited.push(handler.calls_for(&name)[0].at.saturating_duration_since(published));
    }
    waited.sort();
    assert!(waited[98] < Duration::from_secs(1), "p99 {:?}", waited[98]);
    assert!(count(&queue, "WORK", "work.routine.>").await > 1000, "there was enough to wait for");
    worker.stop().await;
}

/// Proves: Q-11
#[tokio::test(flavor = "multi_thread")]
async fn routine_calls_that_take_long_do_not_take_every_place() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    for n in 0..20 {
        queue.publish(changed(&format!("r{n}")), Lane::Routine, None, None).await.unwrap();
    }
    let go = tokio::sync::watch::Sender::new(false);
    let waits = go.subscribe();
    let handler = Recorder::new(move |_, seen, _| {
        let mut go = waits.clone();
        async move {
            if seen.lane == Lane::Routine {
                let _ = go.wait_for(|go| *go).await;
            }
            Verdict::Settled
        }
    });
    let worker = rig.worker(&handler, &["--concurrency", "4"]).await;
    handler.until("the routine calls", |calls| calls.len() == 3).await;
    queue.publish(changed("u"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the urgent call", |calls| calls.iter().any(|seen| seen.object.name == "u")).await;
    assert_eq!(handler.most_at_once(), 4);
    go.send_replace(true);
    until_all_is_quiet(&queue).await;
    worker.stop().await;
}

/// Proves: Q-9
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_is_called_again_with_a_count_and_all_others_go_on() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::new(|_, seen, _| async move {
        assert!(seen.object.name != "bad", "this object makes the handler panic, always");
        Verdict::Settled
    });
    let worker = rig.worker(&handler, &["--concurrency", "1"]).await;
    queue.publish(changed("bad"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the first panic", |calls| calls.len() == 1).await;
    for n in 0..10 {
        queue.publish(changed(&format!("good{n}")), Lane::Urgent, None, None).await.unwrap();
    }
    handler.until("all others", |calls| calls.iter().filter(|seen| seen.object.name != "bad").count() == 10).await;
    handler.until("more panics", |calls| calls.iter().filter(|seen| seen.object.name == "bad").count() >= 3).await;
    worker.stop().await;
    let attempts: Vec<u32> = handler.calls_for("bad").iter().map(|seen| seen.attempt).collect();
    assert_eq!(attempts[..3], [0, 1, 2]);
    assert!(handler.calls_for("bad").iter().skip(1).all(|seen| seen.cause == Cause::Retry));
}

/// Proves: Q-9
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_never_returns_is_ended_and_tried_again() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::new(|_, _, nth| async move {
        if nth == 0 {
            std::future::pending::<()>().await;
        }
        Verdict::Settled
    });
    let worker = rig.worker(&handler, &["--concurrency", "1", "--call-timeout", "1s"]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    let calls = handler.until("a second call", |calls| calls.len() == 2).await;
    assert_eq!(calls[1].attempt, 1, "it counts as a failure");
    until_all_is_quiet(&queue).await;
    worker.stop().await;
}

/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_understood_is_kept_with_its_reason_and_its_bytes_and_others_go_on() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("ce-specversion", "1.0"),
        ("ce-id", "7"),
        ("ce-source", "/future"),
        ("ce-type", "weir.work.v9"),
        ("Nats-Msg-Id", "once"),
        ("X-Own", "kept"),
    ] {
        headers.insert(name, value);
    }
    let body = b"\xff\x00 anything at all";
    let send = |subject: &'static str, headers: HeaderMap| {
        let queue = queue.clone();
        async move {
            queue.jetstream().publish_with_headers(subject, headers, body.to_vec().into()).await.unwrap().await.unwrap()
        }
    };
    let sent = send("work.urgent.server.ns.future", headers).await;
    send("work.routine.server.ns.garbage", HeaderMap::new()).await;
    queue.publish(changed("good"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the good one", |calls| calls.len() == 1).await;
    eventually("two dead letters", || async { (count(&queue, "DEAD", "dead.>").await == 2).then_some(()) }).await;
    until_all_is_quiet(&queue).await;
    worker.stop().await;

    let dead = queue.jetstream().get_stream("DEAD").await.unwrap();
    let letter = dead.get_last_raw_message_by_subject("dead.work.urgent.server.ns.future").await.unwrap();
    assert_eq!(&letter.payload[..], body, "the original bytes");
    let header = |name: &str| letter.headers.get(name).map(|value| value.as_str().to_owned()).unwrap_or_default();
    assert_eq!(header("Weir-Dead-Reason"), "future-version");
    assert!(header("Weir-Dead-Detail").contains('9'));
    assert_eq!(header("Weir-Dead-Subject"), "work.urgent.server.ns.future");
    assert_eq!(header("Weir-Dead-Sequence"), sent.sequence.to_string());
    assert_eq!(header("Weir-Original-X-Own"), "kept");
    assert_eq!(header("Weir-Original-ce-type"), "weir.work.v9");
    let garbage = dead.get_last_raw_message_by_subject("dead.work.routine.server.ns.garbage").await.unwrap();
    assert_eq!(garbage.headers.get("Weir-Dead-Reason").unwrap().as_str(), "missing-header");
    assert!(metrics::DEAD_LETTERS.get(&["future-version"]) >= 1);
    assert_eq!(handler.calls().len(), 1, "no call was made for either");
}

/// Proves: Q-15
#[tokio::test(flavor = "multi_thread")]
async fn the_trace_of_a_message_goes_on_in_the_call() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    let trace = Traceparent::begin();
    queue.publish(changed("a"), Lane::Urgent, None, Some(trace)).await.unwrap();
    let calls = handler.until("the call", |calls| calls.len() == 1).await;
    let inside: Traceparent = calls[0].traceparent.parse().unwrap();
    assert_eq!(inside.trace_id(), trace.trace_id());
    assert_ne!(inside, trace);
    worker.stop().await;
}

/// Proves: Q-13
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_stop_finishes_what_it_has_and_begins_nothing() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let go = tokio::sync::watch::Sender::new(false);
    let handler = gated(&go);
    let worker = rig.worker(&handler, &["--concurrency", "1"]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the first call", |calls| calls.len() == 1).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    queue.publish(changed("b"), Lane::Urgent, None, None).await.unwrap();
    worker.stop.cancel();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!worker.task.is_finished(), "the call in hand may finish");
    go.send_replace(true);
    worker.stop().await;
    assert_eq!(handler.calls().len(), 1, "nothing was begun");
    assert_eq!(count(&queue, "KV_LEASES", ">").await, 0, "the lease is released");

    let next = Recorder::settling();
    let worker = rig.worker(&next, &[]).await;
    next.until("what was handed back", |calls| calls.len() == 2).await;
    until_all_is_quiet(&queue).await;
    worker.stop().await;
}

/// Proves: Q-13
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_finish_within_the_grace_period_is_handed_back_at_once() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let stuck = Recorder::new(|_, _, _| std::future::pending::<Verdict>());
    let worker = rig.worker(&stuck, &["--grace", "300ms"]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    stuck.until("the call", |calls| calls.len() == 1).await;
    worker.stop().await;
    assert_eq!(count(&queue, "KV_LEASES", ">").await, 0, "the lease is released");
    let next = Recorder::settling();
    let began = std::time::Instant::now();
    let worker = rig.worker(&next, &[]).await;
    next.until("what was handed back", |calls| calls.len() == 1).await;
    assert!(began.elapsed() < Duration::from_secs(8), "handed back, not left to expire: {:?}", began.elapsed());
    until_all_is_quiet(&queue).await;
    worker.stop().await;
}

/// Proves: Q-12
#[tokio::test(flavor = "multi_thread")]
async fn a_process_works_on_no_more_objects_at_once_than_it_is_told() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    for n in 0..40 {
        queue.publish(changed(&format!("a{n}")), Lane::Urgent, None, None).await.unwrap();
    }
    let handler = Recorder::new(|_, _, _| async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Verdict::Settled
    });
    let worker = rig.worker(&handler, &["--concurrency", "5"]).await;
    handler.until("everything", |calls| calls.len() == 40).await;
    assert_eq!(handler.most_at_once(), 5);
    within("the end", worker.stop()).await;
}
