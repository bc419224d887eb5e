//! The region function against both simulators.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod tls;

use serde_json::json;
use std::time::{Duration, Instant};
use weir_api::{Kind, labels};
use weir_function_runtime::worker::Verdict;
use weir_harness::{Caller, World, drive, world};
use weir_openstack_sim::Fault;
use weir_region::Regions;

async fn told(world: &World) -> String {
    let (reason, message) = world.condition(Kind::Region, World::REGION).await.expect("a condition");
    format!("{reason}: {message}")
}

/// Proves: REG-1
#[tokio::test]
async fn a_region_whose_cloud_has_everything_is_provisioned_and_then_rests() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Settled));
    assert_eq!(told(&world).await, "Provisioned: provisioned");
    world.settle();
    assert!(matches!(caller.call(World::REGION).await, Verdict::Settled));
    assert_eq!(world.writes(), (0, 0));
}

/// Proves: REG-1, OWN-7
#[tokio::test]
async fn a_secret_that_lacks_a_key_is_told_with_the_key_and_recovers() {
    for key in ["domain-id", "project-id", "user-id", "password"] {
        let world = World::fresh().await;
        let caller = Caller::new(&world, Regions);
        world.apply_secret(|secret| drop(secret.as_object_mut().unwrap().remove(key))).await;
        assert!(matches!(caller.call(World::REGION).await, Verdict::Waiting), "the Secret's event wakes it");
        let message = told(&world).await;
        assert!(message.starts_with("Errored") && message.contains(&format!("the key {key} is missing")), "{message}");
        world.apply_secret(|_| {}).await;
        assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Settled));
    }
}

/// Proves: REG-1, OWN-5, OSC-13
#[tokio::test]
async fn a_wrong_password_is_told_without_showing_it() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    world.apply_secret(|secret| secret["password"] = json!("hunter2-hunter2")).await;
    let Verdict::Retry { after } = caller.call(World::REGION).await else { panic!("it tries again") };
    assert_eq!(after, None, "ever more rarely, or the cloud locks the user out");
    let message = told(&world).await;
    assert!(message.contains("refuses the credential") && !message.contains("hunter2"), "{message}");
}

/// Proves: REG-1
#[tokio::test]
async fn an_endpoint_that_refuses_or_swallows_connections_is_told_within_ten_seconds() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    world.apply_region(json!({"endpoint": "http://127.0.0.1:9/v3"})).await;
    caller.call(World::REGION).await;
    assert!(told(&world).await.contains("does not answer"), "{}", told(&world).await);
    // Accepts, and never says a word.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/v3", silent.local_addr().unwrap());
    world.apply_region(json!({ "endpoint": endpoint })).await;
    let begun = Instant::now();
    caller.call(World::REGION).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(told(&world).await.contains("does not answer"), "{}", told(&world).await);
    world.apply_region(json!({})).await;
    assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Settled));
}

/// Proves: REG-1, IDN-4
#[tokio::test]
async fn a_role_that_is_missing_is_named_and_noticed_when_it_comes() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    world.apply_region(json!({"identity": {"clusterRoles": ["member", "moon-walker"]}})).await;
    assert!(matches!(caller.call(World::REGION).await, Verdict::Retry { .. }));
    assert!(told(&world).await.contains("no role named moon-walker"), "{}", told(&world).await);
    world::create_role(&world, "moon-walker").await;
    assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Settled));
}

/// Proves: REG-1
#[tokio::test]
async fn a_cloud_that_fails_for_a_while_is_told_and_forgiven() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    world.cloud.faults().add(Fault::status(503).on("GET", "/identity/v3/roles").times(5)).unwrap();
    assert!(matches!(caller.call(World::REGION).await, Verdict::Retry { .. }));
    assert!(told(&world).await.contains("roles cannot be listed"), "{}", told(&world).await);
    assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Settled));
}

/// Proves: REG-1, OWN-8
#[tokio::test]
async fn a_region_holds_its_secret_and_goes_after_its_identities() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    drive(&world, &caller, World::REGION).await;
    world.apply(&world::identity("identity-a")).await;
    world.delete(Kind::Region, World::REGION).await;
    world::delete_secret(&world).await;
    assert!(matches!(caller.call(World::REGION).await, Verdict::Waiting));
    assert!(told(&world).await.contains("1 identity"), "{}", told(&world).await);
    assert!(world::secret(&world).await.is_some(), "the credential is still needed");
    world.delete(Kind::Identity, "identity-a").await;
    assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Gone));
    assert!(world::secret(&world).await.is_none(), "and then it goes");
}

/// Its status tells those who wait for a held Secret that there is one, and nothing else does.
///
/// Proves: REG-1, W-5
#[tokio::test]
async fn a_secret_that_comes_between_two_looks_is_held_before_the_region_is_provisioned() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    let not_there = weir_kube_sim::Fault::status(404).user_agent(World::FUNCTION).verb("get").resource("secrets");
    world.kubernetes.faults().add(not_there.times(1)).unwrap();
    assert!(matches!(caller.call(World::REGION).await, Verdict::Settled));
    assert_eq!(told(&world).await, "Provisioned: provisioned");
    let held = world::secret(&world).await.unwrap().metadata.finalizers.unwrap_or_default();
    assert_eq!(held, [Kind::Region.reference(World::REGION)]);
}

/// Whoever names a region may have used it, however far it has come: no status tells, and no label that was changed since.
///
/// Proves: OWN-8
#[tokio::test]
async fn a_region_goes_after_all_that_name_it_whatever_their_labels_say_by_now() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    drive(&world, &caller, World::REGION).await;
    let (group, network) = (world::security_group("group-a", "nobody"), world::network("network-a", "nobody"));
    let mut moved = world::identity("moved");
    moved["metadata"]["labels"][labels::REGION] = json!("region-b");
    moved["metadata"]["annotations"] = json!({labels::REGION: World::REGION});
    for object in [&group, &network, &moved, &world::identity("identity-a"), &world::identity("identity-b")] {
        world.apply(object).await;
    }
    world.delete(Kind::Region, World::REGION).await;
    let says = async |what: &str| {
        assert!(matches!(caller.call(World::REGION).await, Verdict::Waiting), "{what}");
        assert!(told(&world).await.contains(what), "{}", told(&world).await);
        assert!(world::secret(&world).await.unwrap().metadata.finalizers.is_some(), "the credential is still needed");
    };
    says("1 security group, 1 network, 2 identities").await;
    world.delete(Kind::SecurityGroup, "group-a").await;
    world.delete(Kind::Identity, "identity-a").await;
    world.delete(Kind::Identity, "identity-b").await;
    says("deleted: 1 network").await;
    world.delete(Kind::Network, "network-a").await;
    says("Identity moved, whose label regions.unikorn-cloud.org/region-id was changed").await;
    world.delete(Kind::Identity, "moved").await;
    assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Gone));
}

/// Proves: REG-1
#[tokio::test]
async fn what_is_wrong_with_an_endpoint_is_told_as_that() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    let nowhere = format!("{}/nothing/v3", world.cloud.url());
    for (endpoint, says) in [("notaurl", "must be the http or https URL"), (nowhere.as_str(), "knows neither Keystone")]
    {
        world.apply_region(json!({ "endpoint": endpoint })).await;
        caller.call(World::REGION).await;
        let message = told(&world).await;
        assert!(message.contains(says) && message.contains("spec.openstack.endpoint"), "{endpoint}: {message}");
    }
}

/// Proves: REG-1
#[tokio::test]
async fn a_secret_that_somebody_deletes_alone_is_told_with_what_to_do() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    drive(&world, &caller, World::REGION).await;
    world::delete_secret(&world).await;
    assert!(matches!(caller.call(World::REGION).await, Verdict::Waiting));
    let message = told(&world).await;
    assert!(message.contains("has deleted the region's Secret"), "{message}");
}

/// Proves: REG-1, OWN-8
#[tokio::test]
async fn a_secret_that_is_no_longer_named_is_let_go_and_can_be_deleted() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Settled));
    world::delete_secret(&world).await;
    // What the message says to do.
    let mut other = serde_json::to_value(world::secret(&world).await.unwrap()).unwrap();
    other["metadata"] = json!({"name": "another", "namespace": World::NAMESPACE});
    (other["apiVersion"], other["kind"]) = (json!("v1"), json!("Secret"));
    world.apply(&other).await;
    world.apply_region(json!({"serviceAccountSecret": {"name": "another"}})).await;
    // The first write of the change is lost, and then its answer.
    for fault in [weir_kube_sim::Fault::status(500), weir_kube_sim::Fault::lost_write()] {
        world.kubernetes.faults().add(fault.user_agent(World::FUNCTION).verb("patch").times(1)).unwrap();
        assert!(matches!(caller.call(World::REGION).await, Verdict::Retry { .. }));
    }
    assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Settled));
    assert!(world::secret(&world).await.is_none(), "nobody holds it any more");
    world.settle();
    assert!(matches!(caller.call(World::REGION).await, Verdict::Settled));
    assert_eq!(world.writes(), (0, 0));
    let api: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::namespaced(world.client.clone(), World::NAMESPACE);
    assert_eq!(api.get("another").await.unwrap().metadata.finalizers.unwrap().len(), 1);
    world.delete(Kind::Region, World::REGION).await;
    assert!(matches!(drive(&world, &caller, World::REGION).await, Verdict::Gone));
    assert_eq!(api.get("another").await.unwrap().metadata.finalizers, None);
}
