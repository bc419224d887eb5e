//! Leases.

use std::time::{Duration, Instant};

use serde_json::json;
use weir_function_runtime::lease::{self, Acquired, Lease};
use weir_function_runtime::queue::Queue;

use crate::support::{Rig, api, count, eventually, server, within};

async fn take(queue: &Queue, name: &str) -> Option<Lease> {
    match lease::acquire(queue, &server(name)).await.unwrap() {
        Acquired::Lease(lease) => Some(lease),
        Acquired::Held => None,
    }
}

/// Proves: Q-4
#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_many_gets_a_lease_and_revisions_only_grow() {
    let rig = Rig::hurried();
    let (a, b) = (rig.queue().await, rig.queue().await);
    let asked = futures::future::join_all((0..20).map(|n| take(if n % 2 == 0 { &a } else { &b }, "x"))).await;
    let mut held: Vec<Lease> = asked.into_iter().flatten().collect();
    assert_eq!(held.len(), 1);
    let first = held.remove(0);
    first.check().unwrap();
    assert!(take(&a, "y").await.is_some(), "another object is another lease");
    first.release().await;
    first.check().unwrap_err();
    let second = take(&b, "x").await.expect("free again at once");
    assert!(second.revision() > first.revision(), "the fencing token grows");
    first.release().await;
    second.check().unwrap();
    assert!(take(&a, "x").await.is_none(), "who has released cannot release the next one's");
}

/// Proves: Q-4
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lives_as_long_as_it_is_renewed_and_expires_with_its_holder() {
    let rig = Rig::with_lease_ttl("4s");
    let (a, b) = (rig.queue().await, rig.queue().await);
    let held = take(&a, "x").await.unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        held.check().unwrap();
        assert!(take(&b, "x").await.is_none(), "two and a half times its time to live, and still held");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(held);
    let dropped = Instant::now();
    eventually("the lease to expire", || take(&b, "x")).await;
    assert!(dropped.elapsed() < Duration::from_secs(4 + 3), "within its time to live: {:?}", dropped.elapsed());
}

/// Proves: Q-4
#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_renew_knows_before_the_server_lets_anybody_else_in() {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let held = take(&queue, "x").await.unwrap();
    let began = Instant::now();
    rig.nats.pause().unwrap();
    // The last moment at which a write was allowed; how late a busy machine finds that it no longer is does not matter.
    let mut allowed = began;
    loop {
        let now = Instant::now();
        if held.check().is_err() {
            break;
        }
        allowed = now;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let allowed = allowed - began;
    assert!(
        allowed < Duration::from_secs(2),
        "before its time to live is over, reckoned from the last renewal: {allowed:?}"
    );
    within("the lease to be known as lost", held.ended()).await;
    held.check().unwrap_err();
    rig.nats.resume().unwrap();
    // What was lost stays lost, whatever arrives late.
    eventually("the server to answer", || async { take(&queue, "y").await }).await;
    held.check().unwrap_err();
}

/// Proves: Q-4
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_somebody_has_taken_away_is_lost_at_the_next_renewal() {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let held = take(&queue, "x").await.unwrap();
    api(&queue, "STREAM.PURGE.KV_LEASES", json!({ "filter": "$KV.LEASES.server.ns.x" })).await;
    let other = take(&rig.queue().await, "x").await.unwrap();
    within("the loss to be noticed", held.ended()).await;
    held.check().unwrap_err();
    held.release().await;
    other.check().unwrap();
    assert_eq!(count(&queue, "KV_LEASES", ">").await, 1, "the loser has not removed the winner's");
}

/// Proves: Q-4
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_whose_answer_was_lost_does_not_cost_the_lease() {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let held = take(&queue, "x").await.unwrap();
    // As if a renewal had arrived and its answer had not: the entry is ours, at a revision that we have not heard of.
    let stream = queue.jetstream().get_stream("KV_LEASES").await.unwrap();
    let entry = stream.get_last_raw_message_by_subject("$KV.LEASES.server.ns.x").await.unwrap();
    let put = queue.jetstream().publish("$KV.LEASES.server.ns.x", entry.payload).await.unwrap().await.unwrap();
    eventually("the lease to be renewed from there", || async { (held.revision() > put.sequence).then_some(()) }).await;
    held.check().unwrap();
    held.release().await;
    assert_eq!(count(&queue, "KV_LEASES", ">").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_processes_go_by_the_buckets_time_to_live_not_by_their_own_setting() {
    let rig = Rig::hurried();
    rig.queue().await;
    let other = rig.settings(&["--lease-ttl", "60s"]);
    let queue = weir_function_runtime::queue::connect(&other).await.unwrap();
    within("a connection", queue.connected()).await;
    queue.ensure().await.unwrap();
    assert_eq!(queue.lease_ttl(), Duration::from_secs(2));
}
