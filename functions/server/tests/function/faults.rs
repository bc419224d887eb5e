//! Whatever the cloud or the cluster does wrong, at whichever call: in the end there is one of each, and after a deletion
//! none.

use crate::world::{SERVER, World};
use serde_json::json;
use std::collections::HashMap;
use std::time::Duration;
use weir_api::crd;
use weir_function_runtime::worker::Verdict;
use weir_openstack_sim::{Action, Answer, Fault};

/// What a cloud does wrong, by name. Each strikes one call, or a few in a row.
fn kinds() -> Vec<(&'static str, Fault)> {
    let too_many = Answer { code: 429, body: None, headers: HashMap::from([("Retry-After".into(), "7".into())]) };
    vec![
        ("500 before the effect", Fault::status(500).times(1)),
        ("500 after the effect", Fault::status_after(500).times(1)),
        ("reset before the effect", Fault::new(Action::ResetBefore).times(1)),
        ("reset after the effect", Fault::new(Action::ResetAfter).times(1)),
        ("503 for a while", Fault::status(503).times(5)),
        ("404", Fault::status(404).times(1)),
        ("409", Fault::status(409).times(1)),
        ("429", Fault::new(Action::Status(too_many)).times(1)),
        ("an expired token", Fault::new(Action::TokenExpired).times(1)),
        ("a repeated page", Fault::new(Action::RepeatPage).times(1)),
    ]
}

/// Calls to the cloud that one undisturbed run makes.
fn calls(world: &World) -> u64 {
    world.cloud.requests().len() as u64
}

/// Proves: SRV-11, SRV-12
#[tokio::test]
async fn a_fault_at_any_call_of_a_create_leaves_one_of_each() {
    let clean = World::settled(&json!({})).await;
    let calls = calls(&clean);
    assert!(calls >= 8, "{calls}");
    for (name, fault) in kinds() {
        for at in 0..calls {
            let world = World::start().await;
            world.cloud.faults().add(fault.clone().after(at)).unwrap();
            world.create_server(&json!({})).await;
            assert_eq!(world.drive().await, Verdict::Settled, "{name} at {at}: {:?}", world.available().await);
            assert_eq!(world.counts(), (1, 1, 1), "{name} at {at}");
            world.cloud.faults().clear();
            let mutations = world.cloud.mutations();
            assert_eq!(world.call(SERVER).await, Verdict::Settled, "{name} at {at}");
            assert_eq!(world.cloud.mutations(), mutations, "{name} at {at}");
        }
    }
}

/// Proves: SRV-10, OWN-8
#[tokio::test]
async fn a_fault_at_any_call_of_a_deletion_leaves_nothing() {
    let clean = World::settled(&json!({})).await;
    clean.cloud.advance(Duration::from_secs(10));
    clean.cloud.clear_requests();
    clean.delete::<crd::Server>(SERVER).await;
    assert_eq!(clean.drive().await, Verdict::Gone);
    let calls = calls(&clean);
    assert!(calls >= 8, "{calls}");
    for (name, fault) in kinds() {
        for at in 0..calls {
            let world = World::settled(&json!({})).await;
            world.cloud.advance(Duration::from_secs(10));
            world.delete::<crd::Server>(SERVER).await;
            world.cloud.faults().add(fault.clone().after(at)).unwrap();
            assert_eq!(world.drive().await, Verdict::Gone, "{name} at {at}");
            assert_eq!(world.counts(), (0, 0, 0), "{name} at {at}");
        }
    }
}

/// Proves: SRV-11
#[tokio::test]
async fn a_failed_write_to_kubernetes_makes_nothing_twice() {
    let clean = World::start().await;
    clean.create_server(&json!({})).await;
    clean.cluster.requests().reset();
    assert_eq!(clean.drive().await, Verdict::Settled);
    let calls = clean.cluster.requests().all().len() as u64;
    for at in 0..calls {
        for kind in ["500", "409", "lost"] {
            let world = World::start().await;
            world.create_server(&json!({})).await;
            let fault = match kind {
                "500" => weir_kube_sim::Fault::status(500),
                "409" => weir_kube_sim::Fault::status(409),
                _ => weir_kube_sim::Fault::lost_write(),
            };
            world.cluster.faults().add(fault.skip(at).times(1)).unwrap();
            assert_eq!(world.drive().await, Verdict::Settled, "{kind} at {at}");
            assert_eq!(world.counts(), (1, 1, 1), "{kind} at {at}");
            world.delete::<crd::Server>(SERVER).await;
            assert_eq!(world.drive().await, Verdict::Gone, "{kind} at {at}");
            assert_eq!(world.counts(), (0, 0, 0), "{kind} at {at}");
        }
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
