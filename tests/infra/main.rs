//! The rights in `infra/rbac` are what each function uses: no less, and no more.
//!
//! Each function is run through its life against kube-sim, which tells what it was asked. What was asked must be granted;
//! what is granted must have been asked for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../faults/cases.rs"]
#[allow(dead_code)]
mod cases;

use cases::Subject;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use weir_api::Kind;
use weir_function_runtime::worker::Verdict;
use weir_harness::{Caller, World, drive, world};

/// A right: verb and resource, as in `patch servers/status`.
type Right = String;

fn documents(function: &str) -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../infra/rbac/{function}.yaml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_yaml_ng::Deserializer::from_str(&text).map(|document| Value::deserialize(document).unwrap()).collect()
}

/// What a function's roles grant.
fn granted(function: &str) -> BTreeSet<Right> {
    let texts = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let mut rights = BTreeSet::new();
    for role in documents(function).iter().filter(|document| document["kind"] == "ClusterRole") {
        for rule in role["rules"].as_array().unwrap() {
            for resource in texts(&rule["resources"]) {
                rights.extend(texts(&rule["verbs"]).iter().map(|verb| format!("{verb} {resource}")));
            }
        }
    }
    rights
}

/// What functions have asked of Kubernetes since the world was settled last.
fn used(world: &World) -> BTreeSet<Right> {
    let requests = world.kubernetes.requests().all();
    let of_functions = requests.iter().filter(|request| request.user_agent.contains(World::FUNCTION));
    of_functions
        .map(|request| {
            let resource = request.resource.split('.').next().unwrap_or_default();
            match request.subresource.as_str() {
                "" => format!("{} {resource}", request.verb),
                subresource => format!("{} {resource}/{subresource}", request.verb),
            }
        })
        .collect()
}

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
    let world = World::new().await;
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
    Subject::ServerWithAuthority.create(&world, "b0000000-0000-4000-8000-0000000000f1").await;
    Subject::ServerWithAuthority.delete(&world, "b0000000-0000-4000-8000-0000000000f1").await;
    must_agree("server", &used(&world));
}

/// Proves: IDN-8
#[test]
fn the_records_of_identities_are_read_by_who_works_in_them_and_listed_by_nobody() {
    let functions = ["identity", "network", "region", "security-group", "server", "watch-publisher"];
    let who = |verb: &str| -> Vec<&str> {
        let right = format!("{verb} openstackidentities");
        functions.into_iter().filter(|function| granted(function).contains(&right)).collect()
    };
    assert_eq!(who("get"), ["identity", "network", "security-group", "server"]);
    for verb in ["create", "patch", "delete"] {
        assert_eq!(who(verb), ["identity"], "{verb}");
    }
    for verb in ["list", "watch", "update", "deletecollection", "*"] {
        assert_eq!(who(verb), [""; 0], "{verb}");
    }
}
