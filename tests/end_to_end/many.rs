//! Fifty servers at once, applied together with all that they wait for.

use crate::job::{GROUP, IDENTITY, NETWORK, all_available, apply, delete, nothing_left};
use serde_json::Value;
use std::time::Instant;
use weir_harness::cluster::KINDS;
use weir_harness::{Stack, world};

const SERVERS: usize = 50;

/// Proves: W-5
#[tokio::test(flavor = "multi_thread")]
async fn fifty_servers_applied_with_all_they_need_wait_for_events_and_never_for_a_clock() {
    let stack = Stack::start().await;
    // Servers first: each of them has to wait for everything.
    let mut objects: Vec<Value> = (0..SERVERS)
        .map(|i| stack.server(&format!("b0000000-0000-4000-8000-0000000001{i:02}"), IDENTITY, NETWORK, GROUP))
        .collect();
    objects.push(world::security_group(GROUP, IDENTITY));
    objects.push(world::network(NETWORK, IDENTITY));
    objects.push(world::identity(IDENTITY));
    objects.push(stack.region(None));
    objects.push(stack.secret(|_| {}));
    let began = Instant::now();
    apply(&stack, &objects).await;
    let applied = began.elapsed();
    all_available(&stack, SERVERS + 4).await;
    println!("{SERVERS} servers: applied in {applied:?}, available after {:?}", began.elapsed());
    let made = stack.made().await;
    assert_eq!((made["servers"], made["ports"], made["projects"]), (SERVERS as u64, SERVERS as u64, 1), "{made:?}");
    // Nothing was looked at again because time had passed: no call ended in a wait for a clock, or failed. (Those that
    // wait for an event have a timer too, of minutes: a safety net, which the time taken shows was not used.)
    for kind in KINDS {
        for outcome in ["yielded", "failed", "panicked", "overran"] {
            let many = stack.calls(kind, outcome).await;
            assert_eq!(many, 0, "calls for {kind} that {outcome}\n{}", stack.report().await);
        }
    }
    assert!(stack.calls(weir_api::Kind::Server, "waiting").await > 0, "servers had to wait for what they need");
    delete(&stack, &objects).await;
    nothing_left(&stack, "fifty servers were deleted").await;
    assert!(stack.made().await.is_empty(), "{:?}", stack.made().await);
}
