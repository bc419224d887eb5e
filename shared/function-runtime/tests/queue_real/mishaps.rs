//! What befalls NATS, and is borne.

use std::time::Duration;

use serde_json::json;
use weir_function_runtime::queue;
use weir_function_runtime::worker::Verdict;
use weir_messages::Lane;

use crate::support::{Recorder, Rig, api, changed, eventually, until_all_is_quiet, within};

/// Proves: Q-14
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_outlives_a_restart_of_nats_and_finds_what_was_published_before() {
    let mut rig = Rig::hurried();
    let queue = rig.queue().await;
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    for round in 0..3 {
        let name = format!("before{round}");
        queue.publish(changed(&name), Lane::Urgent, None, None).await.unwrap();
        handler.until(&name, |calls| calls.iter().any(|seen| seen.object.name == name)).await;
        rig.nats.restart().unwrap();
        let name = format!("after{round}");
        eventually("a publication", || async { queue.publish(changed(&name), Lane::Routine, None, None).await.ok() })
            .await;
        handler.until(&name, |calls| calls.iter().any(|seen| seen.object.name == name)).await;
    }
    worker.stop().await;
}

/// Proves: Q-14
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_deleted_by_hand_is_made_again_and_nothing_is_lost() {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the first call", |calls| calls.len() == 1).await;
    for lane in Lane::ALL {
        api(&queue, &format!("CONSUMER.DELETE.WORK.server-{lane}"), json!({})).await;
    }
    for (name, lane) in [("b", Lane::Urgent), ("c", Lane::Routine)] {
        queue.publish(changed(name), lane, None, None).await.unwrap();
        handler.until(name, |calls| calls.iter().any(|seen| seen.object.name == name)).await;
    }
    until_all_is_quiet(&queue).await;
    worker.stop().await;
}

/// Proves: Q-14
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_with_nothing_gets_its_streams_and_consumers_again() {
    let mut rig = Rig::hurried();
    let queue = rig.queue().await;
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the first call", |calls| calls.len() == 1).await;
    rig.nats.lose_everything().unwrap();
    rig.nats.restart().unwrap();
    eventually("a publication", || async { queue.publish(changed("b"), Lane::Urgent, None, None).await.ok() }).await;
    handler.until("a call", |calls| calls.iter().any(|seen| seen.object.name == "b")).await;
    worker.stop().await;
}

/// Proves: Q-14
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_starts_before_nats_waits_for_it() {
    let mut rig = Rig::start();
    rig.nats.kill();
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    rig.nats.restart().unwrap();
    let queue = rig.queue().await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the call", |calls| calls.len() == 1).await;
    worker.stop().await;
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_lease_is_lost_is_ended_and_made_again() {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let handler = Recorder::new(|_, _, nth| async move {
        if nth == 0 {
            std::future::pending::<()>().await;
        }
        Verdict::Settled
    });
    let worker = rig.worker(&handler, &[]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the call", |calls| calls.len() == 1).await;
    rig.nats.pause().unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    rig.nats.resume().unwrap();
    handler.until("another call", |calls| calls.len() == 2).await;
    until_all_is_quiet(&queue).await;
    worker.stop().await;
}

/// What filled the queue once: a delay by negative acknowledgement keeps a message pending, and a few of those stop all.
///
/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn many_objects_that_wait_keep_nobody_from_being_served() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::new(|_, seen, _| async move {
        if seen.object.name.starts_with("wait") {
            Verdict::After { delay: Duration::from_secs(3600) }
        } else {
            Verdict::Settled
        }
    });
    let worker = rig.worker(&handler, &["--max-ack-pending", "3", "--concurrency", "8"]).await;
    for n in 0..30 {
        queue.publish(changed(&format!("wait{n}")), Lane::Urgent, None, None).await.unwrap();
    }
    handler.until("all that wait", |calls| calls.len() == 30).await;
    queue.publish(changed("now"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the one that does not", |calls| calls.len() == 31).await;
    eventually("nothing to be pending", || async {
        let info = api(&queue, "CONSUMER.INFO.WORK.server-urgent", json!({})).await;
        (info["num_ack_pending"] == 0).then_some(())
    })
    .await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publication_while_nats_is_away_fails_and_says_so() {
    let mut rig = Rig::start();
    let queue = rig.queue().await;
    rig.nats.kill();
    let failure = within("the failure", queue.publish(changed("a"), Lane::Urgent, None, None)).await.unwrap_err();
    assert!(matches!(failure, queue::Error::TimedOut { .. } | queue::Error::Refused { .. }), "{failure}");
}

/// Proves: Q-14
#[tokio::test(flavor = "multi_thread")]
async fn streams_that_are_deleted_by_hand_are_made_again_by_whoever_misses_them() {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    for (round, stream) in ["KV_LEASES", "WORK"].into_iter().enumerate() {
        let (before, after) = (format!("before{round}"), format!("after{round}"));
        queue.publish(changed(&before), Lane::Urgent, None, None).await.unwrap();
        handler.until(&before, |calls| calls.iter().any(|seen| seen.object.name == before)).await;
        api(&queue, &format!("STREAM.DELETE.{stream}"), json!({})).await;
        queue.publish(changed(&after), Lane::Urgent, None, None).await.unwrap();
        handler.until(&after, |calls| calls.iter().any(|seen| seen.object.name == after)).await;
    }
    worker.stop().await;
}

/// A dead letter could not be put aside, and was tried again for ever.
///
/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_whose_stream_is_deleted_by_hand_get_it_again_from_whoever_needs_it() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the call", |calls| calls.len() == 1).await;
    api(&queue, "STREAM.DELETE.DEAD", json!({})).await;
    // Of many that miss it at once, one makes it.
    for n in 0..20 {
        queue.client().publish(format!("work.urgent.server.ns.bad{n}"), "x".into()).await.unwrap();
    }
    eventually("all letters", || async {
        let info = api(&queue, "STREAM.INFO.DEAD", json!({})).await;
        (info["state"]["messages"] == 20).then_some(())
    })
    .await;
    until_all_is_quiet(&queue).await;
    let info = api(&queue, "CONSUMER.INFO.WORK.server-urgent", json!({})).await;
    assert_eq!(info["delivered"]["consumer_seq"], 21, "each at its first delivery");
    worker.stop().await;
}

/// What was delivered while the bucket was gone came back only when the time for its acknowledgement was over.
///
/// Proves: Q-14
#[tokio::test(flavor = "multi_thread")]
async fn leases_whose_bucket_is_deleted_by_hand_are_taken_at_the_first_delivery() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    queue.publish(changed("before"), Lane::Urgent, None, None).await.unwrap();
    handler.until("the first call", |calls| calls.len() == 1).await;
    until_all_is_quiet(&queue).await;
    api(&queue, "STREAM.DELETE.KV_LEASES", json!({})).await;
    for n in 0..3 {
        queue.publish(changed(&format!("after{n}")), Lane::Urgent, None, None).await.unwrap();
    }
    handler.until("the others", |calls| calls.len() == 4).await;
    until_all_is_quiet(&queue).await;
    let info = api(&queue, "CONSUMER.INFO.WORK.server-urgent", json!({})).await;
    assert_eq!(info["delivered"]["consumer_seq"], 4);
    worker.stop().await;
}
