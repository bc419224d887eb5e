//! Deleting.

use crate::world::{GROUP, IDENTITY, NETWORK, SERVER, World};
use serde_json::json;
use std::time::Duration;
use weir_api::crd;
use weir_function_runtime::worker::Verdict;
use weir_openstack_sim::{Config, Failure, Fault};

/// Proves: SRV-9, SRV-10, Q-8
#[tokio::test]
async fn the_server_goes_first_and_everything_and_every_reference_with_it() {
    let world = World::settled(&json!({})).await;
    world.cloud.advance(Duration::from_secs(10));
    world.cloud.clear_requests();
    world.delete::<crd::Server>(SERVER).await;
    assert_eq!(world.call(SERVER).await, Verdict::After { delay: Duration::from_secs(1) }, "Nova has just begun");
    assert_eq!(world.call(SERVER).await, Verdict::After { delay: Duration::from_secs(10) }, "and still is at it");
    assert_eq!(world.available().await.0, "Deprovisioning");
    assert_eq!(world.counts(), (1, 1, 1), "port and floating IP stay until the server is gone");
    assert!(world.holds::<crd::Network>(NETWORK).await);
    world.cloud.advance(Duration::from_secs(10));
    assert_eq!(world.drive().await, Verdict::Gone);
    let deleted: Vec<String> = world
        .cloud
        .requests()
        .into_iter()
        .filter(|entry| entry.method == "DELETE")
        .map(|entry| entry.path.rsplit('/').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(deleted, ["servers", "floatingips", "ports"]);
    assert_eq!(world.counts(), (0, 0, 0));
    assert!(!world.holds::<crd::Network>(NETWORK).await && !world.holds::<crd::SecurityGroup>(GROUP).await);
    assert!(world.get::<crd::Server>(SERVER).await.is_none());
}

/// Proves: SRV-10
#[tokio::test]
async fn a_cloud_that_deletes_at_once_is_done_in_one_call() {
    let world = World::start_with(Config { delete: Duration::ZERO, ..Config::default() }).await;
    world.create_server(&json!({})).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    world.delete::<crd::Server>(SERVER).await;
    assert_eq!(world.call(SERVER).await, Verdict::Gone);
    assert_eq!(world.counts(), (0, 0, 0));
}

/// A cloud that takes deletions and does nothing, or fails at each, is not asked every second.
///
/// Proves: Q-8
#[tokio::test]
async fn a_deletion_that_gets_nowhere_is_not_hurried() {
    for (failed, ignored) in [(false, true), (true, false)] {
        let world = World::start().await;
        if failed {
            let fault = Fault::new(weir_openstack_sim::Action::Server(Failure::Spawn)).on("POST", "/servers$");
            world.cloud.faults().add(fault).unwrap();
        }
        world.create_server(&json!({})).await;
        assert_eq!(world.call(SERVER).await, Verdict::Settled);
        world.cloud.advance(Duration::from_secs(10));
        world.delete::<crd::Server>(SERVER).await;
        if ignored {
            world.cloud.faults().add(Fault::status(204).on("DELETE", "/servers/")).unwrap();
        }
        assert_eq!(world.call(SERVER).await, Verdict::After { delay: Duration::from_secs(10) }, "{failed} {ignored}");
        world.cloud.faults().clear();
        assert_eq!(world.drive().await, Verdict::Gone);
    }
}

/// Proves: SRV-10
#[tokio::test]
async fn a_server_is_deleted_while_it_builds_and_when_it_has_failed() {
    for failure in [None, Some(Failure::NoHost), Some(Failure::Spawn)] {
        let world = World::start().await;
        if let Some(failure) = failure {
            let fault = Fault::new(weir_openstack_sim::Action::Server(failure)).on("POST", "/servers$");
            world.cloud.faults().add(fault).unwrap();
        }
        world.create_server(&json!({})).await;
        assert_eq!(world.call(SERVER).await, Verdict::Settled);
        if failure.is_some() {
            world.cloud.advance(Duration::from_secs(10));
        }
        world.delete::<crd::Server>(SERVER).await;
        assert_eq!(world.drive().await, Verdict::Gone);
        assert_eq!(world.counts(), (0, 0, 0), "{failure:?}");
    }
}

/// Proves: SRV-10, OWN-8
#[tokio::test]
async fn a_deletion_needs_neither_status_nor_parents() {
    let world = World::settled(&json!({})).await;
    world.cloud.advance(Duration::from_secs(10));
    world.delete::<crd::Server>(SERVER).await;
    let patch = json!({"status": null});
    let api: kube::Api<crd::Server> = kube::Api::namespaced(world.client.clone(), weir_harness::World::NAMESPACE);
    api.patch_status(SERVER, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    world.patch::<crd::Network>(NETWORK, json!({"metadata": {"finalizers": null}})).await;
    world.delete::<crd::Network>(NETWORK).await;
    world.patch::<crd::SecurityGroup>(GROUP, json!({"metadata": {"finalizers": null}})).await;
    world.delete::<crd::SecurityGroup>(GROUP).await;
    assert_eq!(world.drive().await, Verdict::Gone);
    assert_eq!(world.counts(), (0, 0, 0));
}

/// Proves: SRV-10, OWN-8
#[tokio::test]
async fn whatever_has_gone_before_the_rest_is_removed() {
    for lost in ["server", "port", "floatingip", "everything"] {
        let world = World::settled(&json!({})).await;
        world.cloud.advance(Duration::from_secs(10));
        let neutron = world.session.network();
        let port = neutron.find_port_by_name(&format!("server-{SERVER}")).await.unwrap().unwrap();
        let ips = neutron.floating_ips(&weir_openstack::network::FloatingIpFilter::default()).await.unwrap();
        let server = world.session.compute().find_server_by_name("web").await.unwrap().unwrap();
        let all = lost == "everything";
        if all || lost == "server" {
            world.session.compute().delete_server(&server.id).await.unwrap();
            world.cloud.advance(Duration::from_secs(10));
        }
        if all || lost == "floatingip" {
            neutron.delete_floating_ip(&ips[0].id).await.unwrap();
        }
        if all || lost == "port" {
            neutron.delete_port(&port.id).await.unwrap();
        }
        world.delete::<crd::Server>(SERVER).await;
        assert_eq!(world.drive().await, Verdict::Gone, "{lost}");
        assert_eq!(world.counts(), (0, 0, 0), "{lost}");
    }
}

/// Proves: SRV-10, OWN-8
#[tokio::test]
async fn a_deletion_is_done_at_once_when_the_identity_was_never_realised() {
    let world = World::start().await;
    world.create_server(&json!({})).await;
    world.tell::<crd::Network>(NETWORK, "Provisioning").await;
    assert_eq!(world.drive().await, Verdict::Waiting);
    world.patch::<crd::OpenstackIdentity>(IDENTITY, json!({"metadata": {"finalizers": null}})).await;
    world.delete::<crd::OpenstackIdentity>(IDENTITY).await;
    world.delete::<crd::Server>(SERVER).await;
    assert_eq!(world.call(SERVER).await, Verdict::Gone);
}

/// Proves: OWN-8
#[tokio::test]
async fn an_object_is_not_released_while_a_look_finds_something() {
    for path in ["/servers/", "/floatingips/", "/ports/"] {
        let world = World::settled(&json!({})).await;
        world.cloud.advance(Duration::from_secs(10));
        world.delete::<crd::Server>(SERVER).await;
        // A deletion is answered as if it had worked, and does nothing.
        world.cloud.faults().add(Fault::status(204).on("DELETE", path)).unwrap();
        for _ in 0..3 {
            assert_ne!(world.call(SERVER).await, Verdict::Gone, "{path}");
            world.cloud.advance(Duration::from_secs(10));
        }
        assert!(world.get::<crd::Server>(SERVER).await.is_some(), "{path}");
        world.cloud.faults().clear();
        assert_eq!(world.drive().await, Verdict::Gone, "{path}");
        assert_eq!(world.counts(), (0, 0, 0), "{path}");
    }
}
