//! The identity function against both simulators.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use weir_api::Kind;
use weir_function_runtime::worker::Verdict;
use weir_harness::{Caller, World, drive, world};
use weir_identity::Identities;

const NAME: &str = "identity-a";

async fn settled() -> (World, Caller) {
    let world = World::new().await;
    let caller = Caller::new(&world, Identities);
    world.apply(&world::identity(NAME)).await;
    let verdict = drive(&world, &caller, NAME).await;
    assert!(matches!(verdict, Verdict::Settled), "{verdict:?} {:?}", world.condition(Kind::Identity, NAME).await);
    (world, caller)
}

/// Everything in the cloud of one kind.
fn all(world: &World, kind: &str) -> Vec<Value> {
    world.cloud.state()[kind].as_array().cloned().unwrap_or_else(|| {
        world.cloud.state()[kind].as_object().map(|map| map.values().cloned().collect()).unwrap_or_default()
    })
}

fn named(world: &World, kind: &str, name: &str) -> Vec<Value> {
    all(world, kind).into_iter().filter(|item| item["name"] == name).collect()
}

async fn record(world: &World) -> Value {
    let api = weir_harness::world::record_api(&world.client);
    serde_json::to_value(api.get(NAME).await.expect("the record")).unwrap()
}

/// Proves: IDN-1, IDN-2, IDN-6
#[tokio::test]
async fn an_identity_is_a_project_a_user_a_credential_a_group_and_a_key_by_their_names() {
    let (world, _) = settled().await;
    let name = "unikorn-identity-identity-a";
    let projects = named(&world, "projects", name);
    assert_eq!(projects.len(), 1);
    assert_eq!(projects[0]["tags"], json!(["organization=organization-a", "project=project-a"]));
    for kind in ["users", "application_credentials", "server_groups"] {
        assert_eq!(named(&world, kind, name).len(), 1, "{kind}: {}", world.cloud.state()[kind]);
    }
    assert_eq!(named(&world, "keypairs", "unikorn-openstack-provider").len(), 1);
    let record = record(&world).await;
    let spec = &record["spec"];
    assert_eq!(spec["cloud"], "cloud");
    assert_eq!(spec["sshKeyName"], "unikorn-openstack-provider");
    for field in [
        "projectID",
        "userID",
        "password",
        "applicationCredentialID",
        "applicationCredentialSecret",
        "cloudConfig",
        "serverGroupID",
        "sshPrivateKey",
    ] {
        assert!(spec[field].as_str().is_some_and(|text| !text.is_empty()), "{field}");
    }
    assert_eq!(record["metadata"]["labels"]["regions.unikorn-cloud.org/identity-id"], NAME);
    assert_eq!(record["metadata"]["finalizers"], json!(["unikorn"]));
    assert_eq!(named(&world, "server_groups", name)[0]["policy"], "soft-anti-affinity");
}

/// Proves: IDN-9
#[tokio::test]
async fn a_rotated_region_secret_leaves_identities_as_they_are() {
    let (world, caller) = settled().await;
    let before = record(&world).await;
    world::rotate_password(&world, "rotated").await;
    assert!(matches!(caller.call(NAME).await, Verdict::Retry { .. }), "the old password is refused");
    world.apply_secret(|secret| secret["password"] = json!("rotated")).await;
    world.settle();
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Settled));
    let (_, cloud) = world.writes();
    assert_eq!(cloud, 0, "nothing is made again");
    assert_eq!(record(&world).await["spec"], before["spec"]);
}

/// Proves: IDN-3
#[tokio::test]
async fn what_others_removed_or_changed_is_mended() {
    let (world, caller) = settled().await;
    let before = record(&world).await;
    let mut changed = before.clone();
    changed["spec"].as_object_mut().unwrap().remove("applicationCredentialSecret");
    changed["spec"].as_object_mut().unwrap().remove("password");
    world::record_api(&world.client)
        .replace(NAME, &kube::api::PostParams::default(), &serde_json::from_value(changed).unwrap())
        .await
        .unwrap();
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Settled));
    let after = record(&world).await;
    assert_ne!(after["spec"]["password"], before["spec"]["password"]);
    assert_ne!(after["spec"]["applicationCredentialID"], before["spec"]["applicationCredentialID"]);
    assert_eq!(after["spec"]["sshPrivateKey"], before["spec"]["sshPrivateKey"], "a key that servers have is kept");
    for (kind, count) in
        [("projects", 1), ("users", 1), ("application_credentials", 1), ("keypairs", 1), ("server_groups", 1)]
    {
        assert_eq!(world.made().get(kind), Some(&count), "{kind}");
    }
}

/// Proves: IDN-4
#[tokio::test]
async fn a_role_that_the_cloud_lacks_is_named_to_the_user() {
    let world = World::new().await;
    world.apply_region(json!({"identity": {"clusterRoles": ["member", "moon-walker"]}})).await;
    world.apply(&world::identity(NAME)).await;
    let caller = Caller::new(&world, Identities);
    assert!(matches!(caller.call(NAME).await, Verdict::Retry { .. }));
    let (reason, message) = world.condition(Kind::Identity, NAME).await.unwrap();
    assert!(reason == "Errored" && message.contains("moon-walker"), "{reason}: {message}");
    assert_eq!(world.made().get("users"), None, "no user that could not be used");
}

/// Proves: IDN-7
#[tokio::test]
async fn an_identity_waits_for_its_dependants_and_says_for_how_many() {
    let (world, caller) = settled().await;
    world.apply(&world::network("n1", NAME)).await;
    world.apply(&world::security_group("g1", NAME)).await;
    world.apply(&world::security_group("g2", NAME)).await;
    world.delete(Kind::Identity, NAME).await;
    world.settle();
    assert!(matches!(caller.call(NAME).await, Verdict::Waiting));
    let (reason, message) = world.condition(Kind::Identity, NAME).await.unwrap();
    assert_eq!(reason, "Deprovisioning");
    assert!(message.contains("2 security groups, 1 network"), "{message}");
    assert_eq!(world.writes().1, 0);
    for (kind, name) in [(Kind::Network, "n1"), (Kind::SecurityGroup, "g1"), (Kind::SecurityGroup, "g2")] {
        world.delete(kind, name).await;
    }
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Gone));
    assert_eq!(world.made(), [].into());
    assert!(world::record_api(&world.client).get_opt(NAME).await.unwrap().is_none(), "the record goes last");
}

/// Proves: IDN-7, OWN-8
#[tokio::test]
async fn an_identity_goes_even_when_its_user_was_broken_and_its_record_deleted() {
    let (world, caller) = settled().await;
    let params = kube::api::DeleteParams::default();
    world::record_api(&world.client).delete(NAME, &params).await.unwrap();
    assert!(world::record_api(&world.client).get_opt(NAME).await.unwrap().is_some(), "the finalizer holds it");
    let spoil = json!({"spec": {"password": "not-it-any-more"}});
    world::record_api(&world.client)
        .patch(NAME, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(spoil))
        .await
        .unwrap();
    world.delete(Kind::Identity, NAME).await;
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Gone));
    assert_eq!(world.made(), [].into());
}

/// Proves: OWN-8
#[tokio::test]
async fn an_identity_of_a_region_that_never_worked_goes_at_once() {
    let world = World::new().await;
    world.apply_region(json!({"endpoint": "http://127.0.0.1:9/v3"})).await;
    world.apply(&world::identity(NAME)).await;
    let caller = Caller::new(&world, Identities);
    assert!(matches!(caller.call(NAME).await, Verdict::Retry { .. }));
    world.delete(Kind::Identity, NAME).await;
    assert!(matches!(caller.call(NAME).await, Verdict::Gone));
}

/// What stands between `kubectl apply` and the region's function, and between `kubectl delete` and it.
///
/// Proves: IDN-7, OWN-8
#[tokio::test]
async fn nothing_is_made_through_a_region_or_secret_that_could_vanish_and_nothing_is_left_when_it_does() {
    for (held, secret_held, deleting, says) in [
        (false, false, false, "Region region-a is not ready"),
        (false, true, false, "Region region-a is not ready"),
        (true, true, true, "Region region-a is being deleted"),
        (true, false, false, "region-a-credential is not held by its Region yet"),
    ] {
        let world = World::new().await;
        let caller = Caller::new(&world, Identities);
        world.hold(Kind::Region, World::REGION, held).await;
        world.hold_secret(secret_held).await;
        if deleting {
            world.delete(Kind::Region, World::REGION).await;
        }
        world.apply(&world::identity(NAME)).await;
        world.cloud.clear_requests();
        assert!(matches!(caller.call(NAME).await, Verdict::Waiting), "an event wakes it: {says}");
        let (reason, message) = world.condition(Kind::Identity, NAME).await.unwrap();
        assert!(reason == "DependencyNotReady" && message.contains(says), "{reason}: {message}, not {says}");
        assert!(world.cloud.requests().is_empty(), "the cloud is not even asked: {says}");
        assert!(world::record_api(&world.client).get_opt(NAME).await.unwrap().is_none(), "{says}");
        // Now they vanish, as nothing keeps them from doing, and the identity has nothing to look for.
        world.hold(Kind::Region, World::REGION, false).await;
        world.hold_secret(false).await;
        if !deleting {
            world.delete(Kind::Region, World::REGION).await;
        }
        world::delete_secret(&world).await;
        world.delete(Kind::Identity, NAME).await;
        assert!(matches!(caller.call(NAME).await, Verdict::Gone), "{says}");
    }
}

/// Proves: IDN-7
#[tokio::test]
async fn an_identity_is_made_as_soon_as_region_and_secret_are_held() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Identities);
    world.apply(&world::identity(NAME)).await;
    assert!(matches!(caller.call(NAME).await, Verdict::Waiting));
    drive(&world, &Caller::new(&world, weir_region::Regions), World::REGION).await;
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Settled));
}

/// Proves: IDN-7, OWN-8
#[tokio::test]
async fn an_identity_is_removed_through_a_region_and_a_secret_that_are_going_or_held_by_nobody() {
    for held in [true, false] {
        let (world, caller) = settled().await;
        if held {
            world.delete(Kind::Region, World::REGION).await;
            world::delete_secret(&world).await;
        } else {
            world.hold(Kind::Region, World::REGION, false).await;
            world.hold_secret(false).await;
        }
        world.delete(Kind::Identity, NAME).await;
        assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Gone), "{held}");
        assert_eq!(world.made(), [].into(), "{held}");
    }
}

/// Its finalizer was taken off by hand: nothing else makes a region go before its identities.
///
/// Proves: OWN-8, OWN-5
#[tokio::test]
async fn an_identity_whose_region_is_gone_says_what_can_be_done_and_goes_when_the_region_is_back() {
    let (world, caller) = settled().await;
    world.hold(Kind::Region, World::REGION, false).await;
    world.delete(Kind::Region, World::REGION).await;
    world.delete(Kind::Identity, NAME).await;
    assert!(matches!(caller.call(NAME).await, Verdict::Waiting));
    let (reason, message) = world.condition(Kind::Identity, NAME).await.unwrap();
    assert_eq!(reason, "DependencyNotFound");
    assert!(message.contains("make the Region and its Secret again"), "{message}");
    assert!(message.contains("take the finalizer unikorn off"), "{message}");
    world.apply_region(json!({})).await;
    assert!(matches!(drive(&world, &caller, NAME).await, Verdict::Gone));
    assert_eq!(world.made(), [].into());
}

/// Proves: OWN-1
#[tokio::test]
async fn an_object_that_vanishes_while_it_is_taken_hold_of_is_gone_and_no_failure() {
    let world = World::new().await;
    let caller = Caller::new(&world, Identities);
    // The write is told that there is no such object; reading again shows what is true.
    let gone = || weir_kube_sim::Fault::status(404).user_agent(World::FUNCTION).verb("patch").resource("identities");
    world.kubernetes.faults().add(gone().times(1)).unwrap();
    world.apply(&world::identity(NAME)).await;
    assert!(matches!(caller.call(NAME).await, Verdict::Settled));
}

/// Proves: OWN-6
#[tokio::test]
async fn a_paused_identity_is_left_alone_in_both_directions() {
    let (world, caller) = settled().await;
    let mut paused = world::identity(NAME);
    paused["spec"]["pause"] = json!(true);
    world.apply(&paused).await;
    world.settle();
    assert!(matches!(caller.call(NAME).await, Verdict::Parked));
    let (reason, message) = world.condition(Kind::Identity, NAME).await.unwrap();
    assert!(reason == "Provisioned" && message.starts_with("paused"), "{reason}: {message}");
    world.delete(Kind::Identity, NAME).await;
    assert!(matches!(caller.call(NAME).await, Verdict::Parked));
    assert!(world.cloud.requests().is_empty(), "nothing is even read");
    assert_eq!(world.made().get("projects"), Some(&1));
}

/// Proves: IDN-8, OSC-13
#[tokio::test]
async fn no_secret_is_in_a_condition_or_in_what_debug_shows() {
    let (world, _) = settled().await;
    let object = world::record_api(&world.client).get(NAME).await.unwrap();
    let shown = format!("{object:?}");
    let record = record(&world).await;
    for field in ["password", "applicationCredentialSecret", "sshPrivateKey", "cloudConfig"] {
        let secret = record["spec"][field].as_str().unwrap();
        assert!(!shown.contains(secret), "{field}");
    }
}
