//! What the cloud does wrong and what is told of it. Every fault at every call of a server's creation and deletion is tried
//! with those of the other kinds, in the workspace's test `faults`.

use crate::world::{SERVER, World};
use serde_json::json;
use std::collections::HashMap;
use weir_function_runtime::worker::Verdict;
use weir_harness::Case;
use weir_openstack_sim::{Action, Answer, Fault};

/// Proves: OWN-7
#[tokio::test]
async fn a_fault_while_a_token_is_fetched_is_over_when_it_ends() {
    for case in Case::AT_ANY_CALL {
        let world = World::start().await;
        let fault = case.inject(&world, 0);
        world.create_server(&json!({})).await;
        assert_eq!(world.drive().await, Verdict::Settled, "{case:?}: {:?}", world.available().await);
        assert!(case.struck(&world, fault), "{case:?}");
        assert_eq!(world.counts(), (1, 1, 1), "{case:?}");
    }
}

/// Proves: OWN-5
#[tokio::test]
async fn what_the_cloud_says_is_not_what_the_owner_reads() {
    let world = World::start().await;
    let answer = Answer {
        code: 500,
        body: Some(json!({"computeFault": {"code": 500, "message": "Traceback: host cn-17 password=hunter2"}})),
        headers: HashMap::new(),
    };
    world.cloud.faults().add(Fault::new(Action::Status(answer)).on("POST", "/servers$").times(1)).unwrap();
    world.create_server(&json!({})).await;
    assert!(matches!(world.call(SERVER).await, Verdict::Retry { .. }));
    let status = serde_json::to_string(&world.server().await.status).unwrap();
    for secret in ["cn-17", "hunter2", "Traceback"] {
        assert!(!status.contains(secret), "{status}");
    }
    assert_eq!(world.drive().await, Verdict::Settled);
}

/// Proves: SRV-12
#[tokio::test]
async fn creates_that_fail_again_and_again_use_the_same_port_and_floating_ip() {
    let world = World::start().await;
    world.cloud.faults().add(Fault::status(500).on("POST", "/servers$").times(6)).unwrap();
    world.create_server(&json!({})).await;
    let mut seen = Vec::new();
    for _ in 0..6 {
        assert!(matches!(world.call(SERVER).await, Verdict::Retry { after: Some(_) }));
        assert_eq!(world.counts(), (1, 1, 0));
        seen.push(world.server().await.status.unwrap().public_ip);
    }
    assert_eq!(world.drive().await, Verdict::Settled);
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:?}");
}
