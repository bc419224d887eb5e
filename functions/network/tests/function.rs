//! The network function against both simulators.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weir_api::Kind;
use weir_function_runtime::worker::Verdict;
use weir_harness::{Caller, World, drive, vanishing, world};
use weir_network::Networks;
use weir_openstack_sim::{Action, Fault};

const IDENTITY: &str = "identity-a";
const NAME: &str = "network-a";

async fn with_identity() -> (World, Caller) {
    let world = World::new().await;
    world.apply(&world::identity(IDENTITY)).await;
    assert!(matches!(drive(&world, &Caller::new(&world, weir_identity::Identities), IDENTITY).await, Verdict::Settled));
    let caller = Caller::new(&world, Networks);
    (world, caller)
}

async fn settled() -> (World, Caller) {
    let (world, caller) = with_identity().await;
    world.apply(&world::network(NAME, IDENTITY)).await;
    assert!(
        matches!(drive(&world, &caller, NAME).await, Verdict::Settled),
        "{:?}",
        world.condition(Kind::Network, NAME).await
    );
    (world, caller)
}

async fn status(world: &World, name: &str) -> Value {
    world.get(Kind::Network, name).await.unwrap().data["status"].clone()
}

fn vlans(more: &Value) -> Value {
    let mut options = json!({"physicalNetwork": "physnet1"});
    if !more.is_null() {
        options["vlan"] = json!({"segments": more});
    }
    json!({"network": {"providerNetworks": options}})
}

/// Proves: NET-1, NET-2, NET-3, NET-6
#[tokio::test]
async fn a_network_is_four_things_and_its_status_names_them() {
    let (world, _) = settled().await;
    let status = status(&world, NAME).await;
    let openstack = &status["openstack"];
    assert_eq!(openstack["storageRange"], json!({"startIP": "10.20.0.16", "endIP": "10.20.0.127"}));
    assert_eq!(openstack.get("vlanID"), None);
    for (field, kind) in [("networkID", "networks"), ("subnetID", "subnets")] {
        let id = openstack[field].as_str().unwrap();
        assert!(world.cloud.state()[kind].to_string().contains(id), "{field}");
    }
    let state = world.cloud.state()["subnets"].to_string();
    for part in ["\"10.20.0.1\"", "\"10.20.0.128\"", "\"10.20.0.254\"", "\"9.9.9.9\"", "\"10.30.0.0/16\""] {
        assert!(state.contains(part), "{part} in {state}");
    }
    assert_eq!(world.made().get("routers"), Some(&1));
}

/// Proves: NET-4
#[tokio::test]
async fn dns_servers_and_routes_are_changed_and_cleared_in_place() {
    let (world, caller) = settled().await;
    let mut network = world::network(NAME, IDENTITY);
    network["spec"].as_object_mut().unwrap().remove("routes");
    network["spec"]["dnsNameservers"] = json!(["1.1.1.1", "8.8.8.8"]);
    world.apply(&network).await;
    world.settle();
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Settled));
    assert_eq!(world.writes().1, 1, "one PUT for both");
    let state = world.cloud.state()["subnets"].to_string();
    assert!(state.contains("\"8.8.8.8\"") && !state.contains("10.30.0.0/16"), "{state}");
}

/// Proves: NET-3, NET-4
#[tokio::test]
async fn changed_reservations_are_refused_and_those_it_was_made_with_are_not() {
    let (world, caller) = settled().await;
    let mut network = world::network(NAME, IDENTITY);
    for (reservations, refused) in
        [(json!({"prefixLength": 28}), true), (json!({"prefixLength": 25, "providerReservedPrefixLength": 28}), false)]
    {
        network["spec"]["reservations"] = reservations;
        world.apply(&network).await;
        world.settle();
        let verdict = drive(&world, &caller, NAME).await;
        let (reason, message) = world.condition(Kind::Network, NAME).await.unwrap();
        if refused {
            assert!(matches!(verdict, Verdict::Parked), "{verdict:?}");
            assert_eq!(reason, "Errored");
            assert!(message.contains("given the addresses 10.20.0.128 to 10.20.0.254"), "{message}");
            let told = status(&world, NAME).await["openstack"]["storageRange"].clone();
            assert_eq!(told, json!({"startIP": "10.20.0.16", "endIP": "10.20.0.127"}), "that of what is there");
        } else {
            assert!(matches!(verdict, Verdict::Settled), "{message}");
        }
        assert_eq!(world.writes().1, 0, "nothing in the cloud is changed");
    }
}

/// Proves: NET-5
#[tokio::test]
async fn a_region_without_an_external_network_says_so_and_recovers() {
    let (world, caller) = with_identity().await;
    world.apply_region(json!({"network": {"externalNetworks": {"selector": {"tags": ["no-such"]}}}})).await;
    world.apply(&world::network(NAME, IDENTITY)).await;
    caller.call(NAME).await;
    let (_, message) = world.condition(Kind::Network, NAME).await.unwrap();
    assert!(message.contains("no external network"), "{message}");
    world.apply_region(json!({"network": {"externalNetworks": {"selector": {"tags": []}}}})).await;
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Settled));
}

/// Proves: NET-12
#[tokio::test]
async fn a_network_whose_identity_was_never_realised_goes_at_once() {
    let world = World::new().await;
    let caller = Caller::new(&world, Networks);
    world.apply(&world::network(NAME, IDENTITY)).await;
    assert!(matches!(caller.call(NAME).await, Verdict::Waiting));
    let (reason, message) = world.condition(Kind::Network, NAME).await.unwrap();
    assert_eq!((reason.as_str(), message.as_str()), ("DependencyNotFound", "Identity identity-a does not exist"));
    world.delete(Kind::Network, NAME).await;
    assert!(matches!(caller.call(NAME).await, Verdict::Gone));
    assert!(world.get(Kind::Network, NAME).await.is_none());
}

/// Proves: NET-11
#[tokio::test]
async fn a_reference_of_somebody_else_blocks_deletion_and_is_named() {
    let (world, caller) = settled().await;
    let mut network = world::network(NAME, IDENTITY);
    network["metadata"]["finalizers"] = json!(["unikorn", "clusters.kubernetes.example.com/c1"]);
    world.apply(&network).await;
    world.delete(Kind::Network, NAME).await;
    world.settle();
    assert!(matches!(caller.call(NAME).await, Verdict::Waiting));
    let (_, message) = world.condition(Kind::Network, NAME).await.unwrap();
    assert!(message.contains("clusters.kubernetes.example.com/c1"), "{message}");
    assert_eq!(world.writes().1, 0, "nothing is torn down under whoever uses it");
    let patch = json!({"metadata": {"finalizers": ["unikorn"]}});
    world
        .api(Kind::Network)
        .patch(NAME, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch))
        .await
        .unwrap();
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Gone));
}

/// Proves: NET-7, NET-8, NET-9
#[tokio::test(flavor = "multi_thread")]
async fn ten_networks_at_once_get_ten_vlans_and_give_them_back() {
    let (world, caller) = with_identity().await;
    world.apply_region(vlans(&json!([{"startId": 100, "endId": 109}]))).await;
    let names: Vec<String> = (0..10).map(|n| format!("network-{n}")).collect();
    for name in &names {
        world.apply(&world::network(name, IDENTITY)).await;
    }
    let settle = join_all(names.iter().map(|name| drive(&world, &caller, name))).await;
    assert!(settle.iter().all(|verdict| matches!(verdict, Verdict::Settled)), "{settle:?}");
    let mut ids = BTreeSet::new();
    for name in &names {
        ids.insert(status(&world, name).await["openstack"]["vlanID"].as_i64().unwrap());
    }
    assert_eq!(ids, (100..=109).collect());
    world.apply(&world::network("one-too-many", IDENTITY)).await;
    caller.call("one-too-many").await;
    let (_, message) = world.condition(Kind::Network, "one-too-many").await.unwrap();
    assert!(message.contains("no free VLAN"), "{message}");

    let freed = status(&world, "network-4").await["openstack"]["vlanID"].clone();
    world.delete(Kind::Network, "network-4").await;
    assert!(matches!(drive(&world, &caller, "network-4").await, Verdict::Gone));
    assert!(matches!(drive(&world, &caller, "one-too-many").await, Verdict::Settled));
    assert_eq!(status(&world, "one-too-many").await["openstack"]["vlanID"], freed);
}

/// Proves: NET-9
#[tokio::test]
async fn a_vlan_stays_taken_while_its_network_may_be_there() {
    let (world, caller) = with_identity().await;
    world.apply_region(vlans(&Value::Null)).await;
    world.apply(&world::network(NAME, IDENTITY)).await;
    // The create is done, and its answer lost, as often as anybody tries.
    let lost = Fault::new(Action::ResetAfter).on("POST", "/network/v2.0/networks").times(1);
    world.cloud.faults().add(lost).unwrap();
    caller.call(NAME).await;
    let table = || async {
        let table = world::vlans_api(&world.client).get("openstack.region-a").await.unwrap();
        serde_json::to_value(table).unwrap()["spec"]["allocations"].clone()
    };
    assert_eq!(table().await, json!([{"id": 1, "physicalNetworkID": NAME}]));
    // Now the object is deleted, and so is the network: accepted, but it did not happen.
    world.delete(Kind::Network, NAME).await;
    let refused = Fault::status(500).on("DELETE", "/network/v2.0/networks/").times(1);
    world.cloud.faults().add(refused).unwrap();
    assert!(matches!(caller.call(NAME).await, Verdict::Retry { .. }));
    assert_eq!(table().await, json!([{"id": 1, "physicalNetworkID": NAME}]), "not after a failed delete");
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Gone));
    assert_eq!(table().await, Value::Null, "freed once it was seen gone");
}

/// Proves: NET-10
#[tokio::test]
async fn a_foreign_port_blocks_deletion_before_anything_is_touched() {
    let (world, caller) = settled().await;
    let network = status(&world, NAME).await["openstack"]["networkID"].as_str().unwrap().to_owned();
    let port = world::foreign_port(&world, &network).await;
    world.delete(Kind::Network, NAME).await;
    world.settle();
    assert!(matches!(caller.call(NAME).await, Verdict::After { .. }));
    let (_, message) = world.condition(Kind::Network, NAME).await.unwrap();
    assert!(message.contains("10.20.0."), "{message}");
    assert!(!message.contains(&port) && !message.contains(&network), "no IDs of the cloud: {message}");
    assert_eq!(world.writes().1, 0);
    world::remove_port(&world, &port).await;
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Gone));
}

/// Proves: OWN-8
#[tokio::test]
async fn a_label_that_is_dropped_or_changed_neither_moves_nor_loses_what_is_in_the_cloud() {
    let (world, caller) = settled().await;
    world.apply(&world::identity("identity-b")).await;
    let identities = Caller::new(&world, weir_identity::Identities);
    assert!(matches!(drive(&world, &identities, "identity-b").await, Verdict::Settled));
    for label in [json!("identity-b"), Value::Null] {
        let patch = json!({"metadata": {"labels": {"regions.unikorn-cloud.org/identity-id": label}}});
        world
            .api(Kind::Network)
            .patch(NAME, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch))
            .await
            .unwrap();
        world.settle();
        assert!(matches!(caller.call(NAME).await, Verdict::Parked));
        let (_, message) = world.condition(Kind::Network, NAME).await.unwrap();
        assert!(message.contains("must stay identity-a"), "{message}");
        assert_eq!(world.writes().1, 0);
    }
    world.delete(Kind::Identity, IDENTITY).await;
    assert!(matches!(identities.call(IDENTITY).await, Verdict::Waiting), "its project is still needed");
    let (_, message) = world.condition(Kind::Identity, IDENTITY).await.unwrap();
    assert!(message.contains("Network network-a, whose label"), "{message}");
    world.delete(Kind::Network, NAME).await;
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Gone));
    assert_eq!(world.made().get("routers"), None);
    assert!(matches!(drive(&world, &identities, IDENTITY).await, Verdict::Gone));
}

/// Proves: SRV-4, OWN-8
#[tokio::test]
async fn nothing_is_made_through_an_identity_record_or_region_that_could_vanish() {
    let (world, caller) = with_identity().await;
    world.apply(&world::network(NAME, IDENTITY)).await;
    let identities = Caller::new(&world, weir_identity::Identities);
    vanishing::hold_to_it(&world, &caller, NAME, &identities, IDENTITY).await;
}
