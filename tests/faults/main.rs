//! Each fault of a cloud, at each call that each kind makes of it, creating and deleting (issue "The main job runs").
//!
//! For every kind the calls of a clean run are counted first. Then each fault is injected at each of them in turn. After
//! it, the object must settle, the cloud must hold exactly what a clean run leaves, a second pass must write nothing, and
//! the deletion must leave nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cases;

use cases::Subject;
use weir_harness::{Case, World, rights};

/// How many calls of the cloud, tokens included, and of Kubernetes the functions have made.
fn calls(world: &World) -> (u64, u64) {
    let kubernetes = world.kubernetes.requests().all();
    let of_functions = kubernetes.iter().filter(|request| request.user_agent.contains(World::FUNCTION)).count();
    (world.cloud.requests().len() as u64, of_functions as u64)
}

async fn matrix(subject: Subject) {
    let world = World::new().await;
    subject.prepare(&world).await;
    let before = world.made();
    // A clean run, to know what is right.
    let (create, delete, right) = {
        world.settle();
        subject.create(&world, "clean").await;
        let (create, right) = (calls(&world), world.made());
        world.settle();
        subject.delete(&world, "clean").await;
        assert_eq!(world.made(), before, "{subject:?}: a clean deletion leaves something");
        (create, calls(&world), right)
    };
    assert!(create.0 > 2 && create.1 > 2, "{subject:?}: {create:?} calls to create");
    assert!(delete.0 > 1 && delete.1 > 1, "{subject:?}: {delete:?} calls to delete");
    let (mut struck, mut tried) = (0, 0);
    let granted = rights::granted(subject.function());
    // Also under faults, a function asks Kubernetes for nothing that it has no right to.
    let settle = |told: &str| {
        let lacking: Vec<_> = rights::used(&world).difference(&granted).cloned().collect();
        assert!(lacking.is_empty(), "{told}: has no right to {lacking:?}");
        world.settle();
    };
    for case in Case::ALL {
        let of = |calls: (u64, u64)| if case.of_kubernetes() { calls.1 } else { calls.0 };
        let (create, delete) = (of(create), of(delete));
        tried += create + delete;
        for at in 0..create {
            let name = format!("c-{}-{at}", case.name());
            let told = format!("{subject:?}: {case:?} at call {at} of a creation");
            settle(&told);
            let fault = case.inject(&world, at);
            subject.create(&world, &name).await;
            struck += u64::from(case.struck(&world, fault));
            assert_eq!(world.made(), right, "{told}");
            subject.must_rest(&world, &name, &told).await;
            settle(&told);
            subject.delete(&world, &name).await;
            assert_eq!(world.made(), before, "{told}, then deleted");
        }
        for at in 0..delete {
            let name = format!("d-{}-{at}", case.name());
            let told = format!("{subject:?}: {case:?} at call {at} of a deletion");
            settle(&told);
            subject.create(&world, &name).await;
            let fault = case.inject(&world, at);
            subject.delete(&world, &name).await;
            struck += u64::from(case.struck(&world, fault));
            assert_eq!(world.made(), before, "{told}");
        }
    }
    println!("{subject:?}: {tried} runs, the fault struck in {struck}");
    assert!(struck * 4 > tried, "{subject:?}: the faults must strike: {struck} of {tried}");
}

/// Proves: IDN-3, IDN-7, OWN-4, OWN-7, OWN-8
#[tokio::test(flavor = "multi_thread")]
async fn an_identity_survives_every_fault_at_every_call() {
    matrix(Subject::Identity).await;
}

/// Proves: NET-10, OWN-4, OWN-7, OWN-8
#[tokio::test(flavor = "multi_thread")]
async fn a_network_survives_every_fault_at_every_call() {
    matrix(Subject::Network).await;
}

/// Proves: NET-9, NET-10, OWN-4, OWN-8
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_network_survives_every_fault_at_every_call() {
    matrix(Subject::ProviderNetwork).await;
}

/// Proves: SEC-4, OWN-4, OWN-7, OWN-8
#[tokio::test(flavor = "multi_thread")]
async fn a_security_group_survives_every_fault_at_every_call() {
    matrix(Subject::SecurityGroup).await;
}

/// Proves: SRV-10, SRV-11, SRV-12, OWN-4, OWN-7, OWN-8
#[tokio::test(flavor = "multi_thread")]
async fn a_server_survives_every_fault_at_every_call() {
    matrix(Subject::Server).await;
}
