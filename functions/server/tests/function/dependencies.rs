//! What a server needs first.

use crate::world::{AUTHORITY, GROUP, IDENTITY, NETWORK, PUBLIC_KEY, SERVER, World, authority, manifest};
use serde_json::{Value, json};
use weir_api::{Kind, crd};
use weir_function_runtime::worker::Verdict;

/// Proves: SRV-4
#[tokio::test]
async fn a_server_waits_for_what_is_not_ready_as_the_table_says() {
    let table: Value = serde_json::from_str(include_str!("../tables/dependency_gate.json")).unwrap();
    let mut reasons: Vec<(Value, Value)> = Vec::new();
    for case in table["cases"].as_array().unwrap() {
        if case["input"]["found"].is_null() {
            reasons.push((case["input"]["available"].clone(), case["expect"].clone()));
        }
    }
    // What the table leaves out: whatever is neither provisioned nor errored is not ready.
    for reason in ["Deprovisioning", "Unknown", "DependencyNotReady", "Cancelled"] {
        reasons.push((json!(reason), json!({"outcome": "yield", "reason": "DependencyNotReady"})));
    }
    let world = World::start().await;
    world.create_server(&json!({})).await;
    for (available, expect) in reasons {
        for (kind, id) in [("Identity", IDENTITY), ("Network", NETWORK), ("SecurityGroup", GROUP)] {
            let tell = async |reason: String| match kind {
                "Identity" => world.tell::<crd::Identity>(id, &reason).await,
                "Network" => world.tell::<crd::Network>(id, &reason).await,
                _ => world.tell::<crd::SecurityGroup>(id, &reason).await,
            };
            match available.as_str() {
                Some("Provisioned") => continue,
                Some(reason) => tell(reason.to_owned()).await,
                None => match kind {
                    "Identity" => world.patch_status::<crd::Identity>(id).await,
                    "Network" => world.patch_status::<crd::Network>(id).await,
                    _ => world.patch_status::<crd::SecurityGroup>(id).await,
                },
            }
            let mutations = world.cloud.mutations();
            assert_eq!(world.drive().await, Verdict::Waiting, "an event wakes it, not a timer");
            let (reason, message) = world.available().await;
            assert_eq!(reason, expect["reason"].as_str().unwrap(), "{available}");
            let end = if reason == "DependencyFailed" { "has failed" } else { "is not ready" };
            assert_eq!(message, format!("{kind} \"the-{id}\" ({id}) {end}"));
            assert_eq!(world.cloud.mutations(), mutations);
            assert!(!world.holds::<crd::Network>(NETWORK).await);
            tell("Provisioned".to_owned()).await;
        }
    }
    assert_eq!(world.drive().await, Verdict::Settled);
}

/// Proves: SRV-4
#[tokio::test]
async fn a_server_says_which_object_does_not_exist_and_goes_on_when_it_does() {
    let world = World::start().await;
    world.create_server(&json!({"securityGroups": [{"id": "c0000000-0000-4000-8000-00000000000f"}]})).await;
    assert_eq!(world.drive().await, Verdict::Waiting);
    let (reason, message) = world.available().await;
    assert_eq!(reason, "DependencyNotFound");
    assert_eq!(message, "SecurityGroup c0000000-0000-4000-8000-00000000000f does not exist");
    assert_eq!(world.cloud.mutations(), {
        let before = world.cloud.mutations();
        world.drive().await;
        before
    });
    world.patch::<crd::Server>(SERVER, json!({"spec": {"securityGroups": [{"id": GROUP}]}})).await;
    assert_eq!(world.drive().await, Verdict::Settled);
}

/// Proves: SRV-4, SRV-9
#[tokio::test]
async fn an_authority_is_waited_for_and_held() {
    let world = World::start().await;
    world.create_server(&json!({"sshInjection": null, "sshCertificateAuthorityID": AUTHORITY})).await;
    assert_eq!(world.drive().await, Verdict::Waiting);
    assert_eq!(world.available().await.0, "DependencyNotFound");
    assert_eq!(world.counts(), (0, 0, 0));
    world.create::<crd::SshCertificateAuthority>(authority(PUBLIC_KEY)).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    assert!(world.holds::<crd::SshCertificateAuthority>(AUTHORITY).await);
    // Marked for deletion it stays as long as the server does, and the server goes on as before.
    world.delete::<crd::SshCertificateAuthority>(AUTHORITY).await;
    assert_eq!(world.call(SERVER).await, Verdict::Settled);
    assert!(world.get::<crd::SshCertificateAuthority>(AUTHORITY).await.is_some());
    world.delete::<crd::Server>(SERVER).await;
    assert_eq!(world.drive().await, Verdict::Gone);
    assert!(world.get::<crd::SshCertificateAuthority>(AUTHORITY).await.is_none());
}

/// Proves: SRV-9
#[tokio::test]
async fn references_are_there_before_anything_is_made() {
    let world = World::start().await;
    world.create_server(&json!({})).await;
    world.cloud.faults().add(weir_openstack_sim::Fault::status(503).on("POST", "/ports$").times(1)).unwrap();
    assert!(matches!(world.call(SERVER).await, Verdict::Retry { .. }));
    assert_eq!(world.counts().0, 0);
    assert!(world.holds::<crd::Network>(NETWORK).await && world.holds::<crd::SecurityGroup>(GROUP).await);
}

/// Proves: SRV-9
#[tokio::test]
async fn many_servers_hold_and_release_one_network_at_once() {
    let world = World::start().await;
    let names: Vec<String> = (0..16).map(|at| format!("d0000000-0000-4000-8000-0000000001{at:02x}")).collect();
    for (at, name) in names.iter().enumerate() {
        world.create::<crd::Server>(manifest(name, &format!("web-{at}"), &json!({}), &world.cloud)).await;
    }
    let all = || futures::future::join_all(names.iter().map(|name| world.drive_named(name)));
    assert_eq!(all().await, vec![Verdict::Settled; names.len()]);
    assert_eq!(world.counts(), (16, 16, 16));
    let holders = async || {
        let network = world.get::<crd::Network>(NETWORK).await.unwrap();
        let group = world.get::<crd::SecurityGroup>(GROUP).await.unwrap();
        (network.metadata.finalizers.unwrap().len(), group.metadata.finalizers.unwrap().len())
    };
    assert_eq!(holders().await, (17, 17), "one of each and the function's own");
    for name in &names {
        world.delete::<crd::Server>(name).await;
    }
    assert_eq!(all().await, vec![Verdict::Gone; names.len()]);
    assert_eq!((world.counts(), holders().await), ((0, 0, 0), (1, 1)));
}

/// Each of what a server needs, unheld by its own function or on its way out: it could be gone before the server is.
///
/// Proves: SRV-4, SRV-9
#[tokio::test]
async fn a_server_is_made_with_nothing_that_could_vanish() {
    let world = World::start().await;
    world.create_server(&json!({})).await;
    let waits = async |says: &str| {
        let mutations = world.cloud.mutations();
        assert_eq!(world.drive().await, Verdict::Waiting, "{says}");
        let (reason, message) = world.available().await;
        assert!(reason == "DependencyNotReady" && message.contains(says), "{reason}: {message}, not {says}");
        assert_eq!(world.cloud.mutations(), mutations, "{says}");
        assert!(!world.holds::<crd::Network>(NETWORK).await && !world.holds::<crd::SecurityGroup>(GROUP).await);
    };
    for (kind, name) in [(Kind::Identity, IDENTITY), (Kind::Network, NETWORK), (Kind::SecurityGroup, GROUP)] {
        world.hold(kind, name, false).await;
        waits(&format!("({name}) is not ready")).await;
        world.hold(kind, name, true).await;
    }
    world.hold(Kind::Region, weir_harness::World::REGION, false).await;
    waits("Region region-a is not ready").await;
    world.hold(Kind::Region, weir_harness::World::REGION, true).await;
    world.hold_secret(false).await;
    waits("is not held by its Region yet").await;
    world.hold_secret(true).await;
    world.delete::<crd::Network>(NETWORK).await;
    waits(&format!("({NETWORK}) is being deleted")).await;
}

/// Between the look at a network and the reference that a server puts on it, the network goes.
///
/// Proves: SRV-9
#[tokio::test]
async fn a_reference_to_what_has_gone_since_it_was_read_is_no_reference() {
    let world = World::start().await;
    let read: crd::Network = world.get(NETWORK).await.unwrap();
    let api = kube::Api::<crd::Network>::namespaced(world.client.clone(), weir_harness::World::NAMESPACE);
    let hold = async || weir_function_runtime::kubernetes::hold(&api, &read, "servers/s").await;
    world.delete::<crd::Network>(NETWORK).await;
    assert_eq!(hold().await.unwrap_err().consequence, weir_api::Consequence::Reread, "being deleted");
    world.hold(Kind::Network, NETWORK, false).await;
    assert!(world.get::<crd::Network>(NETWORK).await.is_none());
    assert_eq!(hold().await.unwrap_err().consequence, weir_api::Consequence::Reread, "gone");
}
