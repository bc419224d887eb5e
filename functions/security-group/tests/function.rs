//! The security group function against both simulators.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;
use weir_api::Kind;
use weir_function_runtime::worker::Verdict;
use weir_harness::{Caller, World, drive, vanishing, world};
use weir_openstack_sim::Fault;
use weir_security_group::SecurityGroups;

const IDENTITY: &str = "identity-a";
const NAME: &str = "group-a";

async fn with_identity() -> (World, Caller) {
    let world = World::new().await;
    world.apply(&world::identity(IDENTITY)).await;
    assert!(matches!(drive(&world, &Caller::new(&world, weir_identity::Identities), IDENTITY).await, Verdict::Settled));
    let caller = Caller::new(&world, SecurityGroups);
    (world, caller)
}

async fn settled() -> (World, Caller) {
    let (world, caller) = with_identity().await;
    world.apply(&world::security_group(NAME, IDENTITY)).await;
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Settled));
    (world, caller)
}

/// Proves: SEC-1, SEC-2
#[tokio::test]
async fn rules_converge_as_a_set_and_the_cloud_s_own_are_kept() {
    let (world, caller) = settled().await;
    assert_eq!(world.made().get("security_groups"), Some(&1));
    assert_eq!(world.made().get("security_group_rules"), Some(&4), "two of ours, two of Neutron's");
    let mut group = world::security_group(NAME, IDENTITY);
    group["spec"]["rules"] = json!([
        {"direction": "ingress", "protocol": "tcp", "port": {"number": 22}},
        {"direction": "ingress", "protocol": "tcp", "port": {"range": {"start": 22, "end": 22}}, "cidr": "0.0.0.0/0"},
        {"direction": "egress", "protocol": "any"},
        {"direction": "ingress", "protocol": "vrrp"},
    ]);
    world.apply(&group).await;
    world.settle();
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Settled));
    assert_eq!(world.writes().1, 2, "vrrp made, icmp deleted, and the spellings of one rule are one rule");
    assert_eq!(world.made().get("security_group_rules"), Some(&4));
}

/// Proves: SEC-4
#[tokio::test]
async fn a_rule_that_fails_three_times_leaves_one_group() {
    let (world, caller) = with_identity().await;
    world.apply(&world::security_group(NAME, IDENTITY)).await;
    let fault = Fault::status(500).on("POST", "/network/v2.0/security-group-rules").times(3);
    let fault = world.cloud.faults().add(fault).unwrap();
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Settled));
    assert_eq!(world.cloud.faults().fired(fault), 3);
    assert_eq!(world.made().get("security_groups"), Some(&1));
    assert_eq!(world.made().get("security_group_rules"), Some(&4));
}

/// Proves: SEC-4
#[tokio::test]
async fn a_rule_that_exists_already_counts_as_made() {
    let (world, caller) = with_identity().await;
    world.apply(&world::security_group(NAME, IDENTITY)).await;
    // Every rule is made, and its answer lost.
    let fault = Fault::status_after(500).on("POST", "/network/v2.0/security-group-rules").times(2);
    world.cloud.faults().add(fault).unwrap();
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Settled));
    assert_eq!(world.made().get("security_group_rules"), Some(&4));
}

/// Proves: SEC-3
#[tokio::test]
async fn a_rule_that_contradicts_itself_is_its_owner_s_matter() {
    let (world, caller) = with_identity().await;
    let mut group = world::security_group(NAME, IDENTITY);
    group["spec"]["rules"] = json!([{"direction": "ingress", "protocol": "icmp", "port": {"number": 22}}]);
    world.apply(&group).await;
    world.settle();
    assert!(matches!(caller.call(NAME).await, Verdict::Parked));
    let (reason, message) = world.condition(Kind::SecurityGroup, NAME).await.unwrap();
    assert!(reason == "Errored" && message.contains("cannot have a port"), "{reason}: {message}");
    assert_eq!(world.writes().1, 0, "nothing is opened");
}

/// Proves: SEC-5
#[tokio::test]
async fn a_group_in_use_waits_and_says_by_what() {
    let (world, caller) = settled().await;
    world.apply(&world::network("network-a", IDENTITY)).await;
    assert!(matches!(drive(&world, &Caller::new(&world, weir_network::Networks), "network-a").await, Verdict::Settled));
    let network = world.get(Kind::Network, "network-a").await.unwrap();
    let network = network.data["status"]["openstack"]["networkID"].as_str().unwrap().to_owned();
    let port = world::port_in_group(&world, IDENTITY, &network, "securitygroup-group-a").await;
    world.delete(Kind::SecurityGroup, NAME).await;
    assert!(matches!(caller.call(NAME).await, Verdict::After { .. }));
    let (reason, message) = world.condition(Kind::SecurityGroup, NAME).await.unwrap();
    assert!(reason == "Deprovisioning" && message.contains("10.20.0."), "{reason}: {message}");
    world::remove_port(&world, &port).await;
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Gone));
    assert_eq!(world.made().get("security_groups"), None);
}

/// Proves: SRV-4, OWN-8
#[tokio::test]
async fn nothing_is_made_through_an_identity_record_or_region_that_could_vanish() {
    let (world, caller) = with_identity().await;
    world.apply(&world::security_group(NAME, IDENTITY)).await;
    let identities = Caller::new(&world, weir_identity::Identities);
    vanishing::hold_to_it(&world, &caller, NAME, &identities, IDENTITY).await;
}

/// As it is while its identity is being made, and for ever if that is deleted meanwhile.
///
/// Proves: NET-12, OWN-8
#[tokio::test]
async fn a_group_goes_when_its_identity_has_a_project_and_no_credential() {
    let (world, caller) = settled().await;
    world.delete(Kind::Identity, IDENTITY).await;
    let nothing = json!({"applicationCredentialID": null, "applicationCredentialSecret": null, "password": null});
    let patch = json!({ "spec": nothing });
    let patch = kube::api::Patch::Merge(patch);
    let api = world::record_api(&world.client);
    api.patch(IDENTITY, &kube::api::PatchParams::default(), &patch).await.unwrap();
    world.delete(Kind::SecurityGroup, NAME).await;
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Gone));
    assert_eq!(world.made().get("security_groups"), None);
}
