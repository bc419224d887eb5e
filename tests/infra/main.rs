//! The rights in `infra/rbac` are what each function uses: no less, and no more.
//!
//! Each function is run through its life against kube-sim, which tells what it was asked. What was asked must be granted;
//! what is granted must have been asked for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../faults/cases.rs"]
#[allow(dead_code)]
mod cases;

use cases::Subject;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::collections::BTreeSet;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::worker::{Call, Handler, Verdict};
use weir_harness::rights::{Right, granted, used};
use weir_harness::{Caller, World, drive, world};
use weir_messages::{Cause, Work};

async fn life(subject: Subject, used_rights: &mut BTreeSet<Right>) {
    let world = World::new().await;
    subject.prepare(&world).await;
    world.settle();
    subject.create(&world, "b0000000-0000-4000-8000-0000000000f1").await;
    subject.delete(&world, "b0000000-0000-4000-8000-0000000000f1").await;
    used_rights.extend(used(&world));
}

fn must_agree(function: &str, used: &BTreeSet<Right>) {
    let granted = granted(function);
    let lacking: Vec<_> = used.difference(&granted).collect();
    let needless: Vec<_> = granted.difference(used).collect();
    assert!(lacking.is_empty() && needless.is_empty(), "{function}: lacks {lacking:?}, has no use for {needless:?}");
}

/// Proves: IDN-8
#[tokio::test(flavor = "multi_thread")]
async fn the_identity_function_has_the_rights_that_it_uses() {
    let mut rights = BTreeSet::new();
    life(Subject::Identity, &mut rights).await;
    must_agree("identity", &rights);
}

/// Proves: IDN-8
#[tokio::test(flavor = "multi_thread")]
async fn the_network_function_has_the_rights_that_it_uses() {
    let mut rights = BTreeSet::new();
    life(Subject::ProviderNetwork, &mut rights).await;
    must_agree("network", &rights);
}

/// Proves: IDN-8
#[tokio::test(flavor = "multi_thread")]
async fn the_security_group_function_has_the_rights_that_it_uses() {
    let mut rights = BTreeSet::new();
    life(Subject::SecurityGroup, &mut rights).await;
    must_agree("security-group", &rights);
}

/// Proves: IDN-8
#[tokio::test(flavor = "multi_thread")]
async fn the_region_function_has_the_rights_that_it_uses() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, weir_region::Regions);
    world.settle();
    assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Settled));
    world
        .apply(&json!({"apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "VLANAllocation",
        "metadata": {"name": "openstack.region-a", "namespace": World::NAMESPACE}, "spec": {}}))
        .await;
    world.delete(Kind::Region, World::REGION).await;
    assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Gone));
    must_agree("region", &used(&world));
}

/// Proves: IDN-8, SRV-9
#[tokio::test(flavor = "multi_thread")]
async fn the_server_function_has_the_rights_that_it_uses() {
    let world = World::new().await;
    Subject::Server.prepare(&world).await;
    world.apply(&world::certificate_authority(cases::AUTHORITY)).await;
    world.settle();
    let name = "b0000000-0000-4000-8000-0000000000f1";
    let failure = weir_openstack_sim::Action::Server(weir_openstack_sim::Failure::NoHost);
    world.cloud.faults().add(weir_openstack_sim::Fault::new(failure).on("POST", "/servers$").times(1)).unwrap();
    // A group that is not there is looked for by its name.
    let caller = Caller::new(&world, weir_server::Servers);
    let mut server = Subject::ServerWithAuthority.object(&world, name);
    server["spec"]["securityGroups"] = json!([{"id": "b0000000-0000-4000-8000-0000000000ff"}]);
    world.apply(&server).await;
    assert_eq!(drive(&world, &caller, name).await, Verdict::Waiting);
    Subject::ServerWithAuthority.create(&world, name).await;
    // It does not start, which is told by an event when it is made again.
    world.cloud.advance(std::time::Duration::from_secs(60));
    let errored = json!({"type": "Healthy", "status": "False", "reason": "Errored", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = json!({"status": {"conditions": [errored]}});
    world.api(Kind::Server).patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert!(matches!(drive(&world, &caller, name).await, Verdict::Settled));
    Subject::ServerWithAuthority.delete(&world, name).await;
    must_agree("server", &used(&world));
}

/// Proves: IDN-8
#[tokio::test(flavor = "multi_thread")]
async fn the_server_monitor_has_the_rights_that_it_uses() {
    struct Nobody;
    impl weir_server_monitor::act::Wake for Nobody {
        fn wake(&self, _: ObjectRef) -> futures::future::BoxFuture<'_, Result<(), weir_api::Problem>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }
    let world = World::new().await;
    Subject::Server.prepare(&world).await;
    Subject::Server.create(&world, "b0000000-0000-4000-8000-0000000000f1").await;
    world.settle();
    weir_server_monitor::schedule::regions(&world.function_client).await.unwrap();
    let monitor = weir_server_monitor::Monitor::new(
        world.function_client.clone(),
        world.provider.clone(),
        std::sync::Arc::new(Nobody),
    );
    let region = ObjectRef::new(Kind::ServerMonitor, World::NAMESPACE, World::REGION);
    let call = Call::direct(Work::new(region, Cause::Resync));
    assert_eq!(monitor.handle(&call).await, Verdict::Settled);
    let mut rights = used(&world);
    // The credential of the region is in a role of its own.
    rights.insert("get secrets".to_owned());
    must_agree("server-monitor", &rights);
}

/// Proves: IDN-8
#[test]
fn the_records_of_identities_are_read_by_who_works_in_them_and_listed_by_nobody() {
    let functions = ["identity", "network", "region", "security-group", "server", "server-monitor", "watch-publisher"];
    let who = |verb: &str| -> Vec<&str> {
        let right = format!("{verb} openstackidentities");
        functions.into_iter().filter(|function| granted(function).contains(&right)).collect()
    };
    assert_eq!(who("get"), ["identity", "network", "security-group", "server", "server-monitor"]);
    for verb in ["create", "patch", "delete"] {
        assert_eq!(who(verb), ["identity"], "{verb}");
    }
    for verb in ["list", "watch", "update", "deletecollection", "*"] {
        assert_eq!(who(verb), [""; 0], "{verb}");
    }
}
