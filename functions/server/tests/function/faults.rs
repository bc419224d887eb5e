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
pub fn kinds() -> Vec<(&'static str, Fault)> {
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

/// How many calls to the cloud a create makes, and a deletion, when nothing goes wrong.
async fn calls(world: &World) -> (u64, u64) {
    world.cloud.clear_requests();
    world.create_server(&json!({})).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    let create = world.cloud.requests().len();
    world.cloud.advance(Duration::from_secs(10));
    world.cloud.clear_requests();
    world.delete::<crd::Server>(SERVER).await;
    assert_eq!(world.drive().await, Verdict::Gone);
    (create as u64, world.cloud.requests().len() as u64)
}

/// Whether a fault had a part in anything since. Repeated pages are only for lists.
fn has_struck(world: &World, id: u64, fault: &Fault) -> bool {
    fault.action == Action::RepeatPage || world.cloud.requests().iter().any(|entry| entry.faults.contains(&id))
}

async fn create_under(world: &World, fault: Fault, what: &str) {
    world.cloud.clear_requests();
    let id = world.cloud.faults().add(fault.clone()).unwrap();
    world.create_server(&json!({})).await;
    assert_eq!(world.drive().await, Verdict::Settled, "{what}: {:?}", world.available().await);
    assert_eq!(world.counts(), (1, 1, 1), "{what}");
    assert!(has_struck(world, id, &fault), "{what}: the fault has struck");
    world.cloud.faults().clear();
    let mutations = world.cloud.mutations();
    assert_eq!(world.call(SERVER).await, Verdict::Settled, "{what}");
    assert_eq!(world.cloud.mutations(), mutations, "{what}: a second pass writes nothing");
}

async fn delete_under(world: &World, fault: Option<Fault>, what: &str) {
    world.cloud.clear_requests();
    let id = fault.clone().map(|fault| world.cloud.faults().add(fault).unwrap());
    world.cloud.advance(Duration::from_secs(10));
    world.delete::<crd::Server>(SERVER).await;
    assert_eq!(world.drive().await, Verdict::Gone, "{what}");
    assert_eq!(world.counts(), (0, 0, 0), "{what}");
    assert!(id.zip(fault).is_none_or(|(id, fault)| has_struck(world, id, &fault)), "{what}: the fault has struck");
    world.cloud.faults().clear();
}

/// Proves: SRV-10, SRV-11, SRV-12, OWN-8
#[tokio::test]
async fn a_fault_at_any_call_leaves_one_of_each_and_after_a_deletion_nothing() {
    let world = World::start().await;
    // The first round also fetches tokens; in the others they are at hand.
    calls(&world).await;
    let (creates, deletes) = calls(&world).await;
    assert!(creates >= 9 && deletes >= 9, "{creates} {deletes}");
    for (name, fault) in kinds() {
        for at in 0..creates {
            create_under(&world, fault.clone().after(at), &format!("{name} at {at} of a create")).await;
            delete_under(&world, None, name).await;
        }
        for at in 0..deletes {
            world.create_server(&json!({})).await;
            assert_eq!(world.drive().await, Verdict::Settled);
            delete_under(&world, Some(fault.clone().after(at)), &format!("{name} at {at} of a deletion")).await;
        }
    }
}

/// Proves: OWN-7
#[tokio::test]
async fn a_fault_while_a_token_is_fetched_is_over_when_it_ends() {
    for (name, fault) in kinds() {
        let world = World::start().await;
        create_under(&world, fault, name).await;
    }
}

/// Proves: SRV-11
#[tokio::test]
async fn a_failed_write_to_kubernetes_makes_nothing_twice() {
    let world = World::start().await;
    world.create_server(&json!({})).await;
    world.kubernetes.requests().reset();
    assert_eq!(world.drive().await, Verdict::Settled);
    let calls = world.kubernetes.requests().all().len() as u64;
    assert!(calls >= 10, "{calls}");
    delete_under(&world, None, "undisturbed").await;
    for at in 0..calls {
        for kind in ["500", "409", "lost"] {
            let fault = || match kind {
                "500" => weir_kube_sim::Fault::status(500),
                "409" => weir_kube_sim::Fault::status(409),
                _ => weir_kube_sim::Fault::lost_write(),
            };
            world.create_server(&json!({})).await;
            world.kubernetes.faults().add(fault().skip(at).times(1)).unwrap();
            assert_eq!(world.drive().await, Verdict::Settled, "{kind} at {at}");
            assert_eq!(world.counts(), (1, 1, 1), "{kind} at {at}");
            world.kubernetes.faults().clear();
            world.delete::<crd::Server>(SERVER).await;
            world.kubernetes.faults().add(fault().skip(at).times(1)).unwrap();
            assert_eq!(world.drive().await, Verdict::Gone, "{kind} at {at}");
            world.kubernetes.faults().clear();
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
