//! Making, adopting and changing.

use crate::world::{GROUP, NETWORK, OTHER_GROUP, SERVER, World, manifest};
use serde_json::{Value, json};
use std::time::Duration;
use weir_api::crd;
use weir_function_runtime::worker::Verdict;
use weir_openstack::FlavorId;
use weir_openstack::ImageId;
use weir_openstack::compute::NewServer;
use weir_openstack::network::{FloatingIpFilter, Gateway, NewFloatingIp, PortUpdate, RouterUpdate};
use weir_openstack_sim::Fault;

/// Proves: SRV-1, SRV-3, SRV-7, SRV-9
#[tokio::test]
async fn a_server_is_a_port_a_floating_ip_and_a_server_in_this_order() {
    let tags = json!([{"name": "app.unikorn-cloud.org/env", "value": "prod"}, {"name": "plain", "value": "x"}]);
    let world = World::settled(&json!({ "tags": tags })).await;
    assert_eq!(world.counts(), (1, 1, 1));
    let made: Vec<String> = world
        .cloud
        .requests()
        .into_iter()
        .filter(|entry| entry.method == "POST" && !entry.path.contains("auth"))
        .map(|entry| entry.path.rsplit('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(made, ["ports", "floatingips", "servers"]);
    let port = world.session.network().find_port_by_name(&format!("server-{SERVER}")).await.unwrap().unwrap();
    let server = world.session.compute().find_server_by_name("web").await.unwrap().unwrap();
    for (key, value) in
        [("app:env", "prod"), ("serverID", SERVER), ("region:server_id", SERVER), ("organizationID", "organization-a")]
    {
        assert_eq!(server.metadata[key], value, "{key}");
    }
    assert_eq!(server.metadata.len(), 9);
    let status = world.server().await.status.unwrap();
    assert_eq!(status.private_ip, Some(port.fixed_ips[0].ip_address.clone()));
    let ips = world.session.network().floating_ips(&FloatingIpFilter { port: Some(&port.id) }).await.unwrap();
    assert_eq!(status.public_ip, Some(ips[0].floating_ip_address.clone()));
    assert!(world.holds::<crd::Network>(NETWORK).await && world.holds::<crd::SecurityGroup>(GROUP).await);
    assert!(!world.holds::<crd::SecurityGroup>(OTHER_GROUP).await);
}

/// Proves: OWN-4
#[tokio::test]
async fn a_second_pass_writes_nothing() {
    let world = World::settled(&json!({})).await;
    for after in [0, 60] {
        world.cloud.advance(Duration::from_secs(after));
        world.kubernetes.requests().reset();
        let before = world.cloud.mutations();
        assert_eq!(world.call(SERVER).await, Verdict::Settled);
        assert_eq!(world.cloud.mutations(), before);
        assert_eq!(world.kubernetes.requests().changes(|_| true), 0);
    }
}

/// Proves: SRV-2, SRV-11
#[tokio::test]
async fn what_exists_under_our_names_is_adopted() {
    let world = World::settled(&json!({})).await;
    let before = world.server().await.status.unwrap();
    // The object as it was on the first day, beside a cloud that has everything.
    world.patch::<crd::Server>(SERVER, json!({"metadata": {"finalizers": null}})).await;
    world.delete::<crd::Server>(SERVER).await;
    world.create_server(&json!({})).await;
    let mutations = world.cloud.mutations();
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.cloud.mutations(), mutations);
    let after = world.server().await.status.unwrap();
    assert_eq!((after.private_ip, after.public_ip), (before.private_ip, before.public_ip));
}

/// Proves: SRV-2
#[tokio::test]
async fn names_that_only_look_alike_are_not_ours() {
    let world = World::start().await;
    let bootstrap = world.cloud.bootstrap();
    let (flavor, image) =
        (FlavorId::from(bootstrap.flavors[0].0.as_str()), ImageId::from(bootstrap.images[0].0.as_str()));
    for name in ["WEB", "web2", "aweb", "we.b"] {
        world.session.compute().create_server(&NewServer::new(name, &flavor, &image, &[])).await.unwrap();
    }
    world.create_server(&json!({})).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.counts().2, 5);
}

/// Proves: SRV-2
#[tokio::test]
async fn several_servers_of_the_name_are_reported_and_left_alone() {
    let world = World::start().await;
    let bootstrap = world.cloud.bootstrap();
    let (flavor, image) =
        (FlavorId::from(bootstrap.flavors[0].0.as_str()), ImageId::from(bootstrap.images[0].0.as_str()));
    let mut made = Vec::new();
    for _ in 0..2 {
        made.push(world.session.compute().create_server(&NewServer::new("web", &flavor, &image, &[])).await.unwrap());
    }
    world.create_server(&json!({})).await;
    assert!(matches!(world.call(SERVER).await, Verdict::Retry { .. }));
    let (reason, message) = world.available().await;
    assert_eq!(reason, "Errored");
    assert!(message.contains("more than one"), "{message}");
    assert_eq!(world.counts().2, 2);
    world.delete::<crd::Server>(SERVER).await;
    assert!(matches!(world.call(SERVER).await, Verdict::Retry { .. }));
    assert_eq!(world.counts().2, 2, "none is deleted by guess");
    // Once an operator has removed the wrong one it goes on by itself.
    world.session.compute().delete_server(&made[0]).await.unwrap();
    world.cloud.advance(Duration::from_secs(10));
    assert_eq!(world.drive().await, Verdict::Gone);
    assert_eq!(world.counts(), (0, 0, 0));
}

/// Proves: SRV-2
#[tokio::test]
async fn a_server_that_is_another_objects_is_neither_used_nor_deleted() {
    let world = World::settled(&json!({"publicIPAllocation": null})).await;
    let second = "d0000000-0000-4000-8000-000000000002";
    world.create::<crd::Server>(manifest(second, "web", &json!({}), &world.cloud)).await;
    assert!(matches!(world.call(second).await, Verdict::Retry { .. }));
    let status = world.get::<crd::Server>(second).await.unwrap().status.unwrap();
    assert!(status.conditions[0].message.contains("name"), "{}", status.conditions[0].message);
    world.delete::<crd::Server>(second).await;
    assert_eq!(world.call(second).await, Verdict::Gone);
    assert_eq!(world.counts(), (1, 0, 1));
    assert_eq!(world.call(SERVER).await, Verdict::Settled);
}

/// Proves: SRV-2
#[tokio::test]
async fn a_server_whose_name_label_has_changed_is_still_the_same() {
    let world = World::settled(&json!({})).await;
    world.patch::<crd::Server>(SERVER, json!({"metadata": {"labels": {"unikorn-cloud.org/name": "www"}}})).await;
    world.cloud.advance(Duration::from_secs(5));
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.counts(), (1, 1, 1));
    world.delete::<crd::Server>(SERVER).await;
    assert_eq!(world.drive().await, Verdict::Gone);
    assert_eq!(world.counts(), (0, 0, 0));
}

/// Proves: SRV-11
#[tokio::test]
async fn a_create_that_no_list_by_name_shows_yet_is_not_repeated() {
    let world = World::start().await;
    world.create_server(&json!({"publicIPAllocation": null})).await;
    // The create is lost, and for a while a list by name does not show the server.
    let lost = Fault::status_after(503).on("POST", "/servers$").times(1);
    world.cloud.faults().add(lost).unwrap();
    assert!(matches!(world.call(SERVER).await, Verdict::Retry { .. }));
    let hidden = weir_openstack_sim::Action::Mangle(weir_openstack_sim::Mangle {
        pointer: "/servers".into(),
        replace: Some(json!([])),
    });
    world.cloud.faults().add(Fault::new(hidden).on("GET", "/servers/detail$").times(1)).unwrap();
    assert_eq!(world.call(SERVER).await, Verdict::Settled);
    assert_eq!(world.counts(), (1, 0, 1));
}

/// Proves: SRV-5, SRV-9
#[tokio::test]
async fn a_port_follows_its_groups_and_pairs_in_place() {
    let world = World::settled(&json!({"publicIPAllocation": null})).await;
    let name = format!("server-{SERVER}");
    let before = world.session.network().find_port_by_name(&name).await.unwrap().unwrap();
    world.cloud.clear_requests();
    let pairs = json!([{"cidr": "10.9.0.7/24"}, {"cidr": "10.8.0.1/32", "macAddress": "FA:16:3E:00:00:09"}]);
    let patch = json!({"spec": {"securityGroups": [{"id": OTHER_GROUP}], "networks": [{"id": NETWORK, "allowedAddressPairs": pairs}]}});
    world.patch::<crd::Server>(SERVER, patch).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    let after = world.session.network().find_port_by_name(&name).await.unwrap().unwrap();
    assert_eq!((after.id, &after.fixed_ips), (before.id, &before.fixed_ips));
    let group =
        world.session.network().find_security_group_by_name(&format!("securitygroup-{OTHER_GROUP}")).await.unwrap();
    assert_eq!(after.security_groups, [group.unwrap().id]);
    assert_eq!(after.allowed_address_pairs.len(), 2);
    // The group that is no longer used is let go, and nothing else is written.
    assert!(world.holds::<crd::SecurityGroup>(OTHER_GROUP).await && !world.holds::<crd::SecurityGroup>(GROUP).await);
    let mutations = world.cloud.mutations();
    assert_eq!(world.call(SERVER).await, Verdict::Settled);
    assert_eq!(world.cloud.mutations(), mutations);
    // And back to none of either.
    world.patch::<crd::Server>(SERVER, json!({"spec": {"securityGroups": [], "networks": [{"id": NETWORK}]}})).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    let bare = world.session.network().find_port_by_name(&name).await.unwrap().unwrap();
    assert!(bare.security_groups.is_empty() && bare.allowed_address_pairs.is_empty());
    assert!(!world.holds::<crd::SecurityGroup>(OTHER_GROUP).await);
}

/// Proves: SRV-5
#[tokio::test]
async fn a_port_that_somebody_has_changed_is_put_right() {
    let world = World::settled(&json!({})).await;
    let port = world.session.network().find_port_by_name(&format!("server-{SERVER}")).await.unwrap().unwrap();
    let update = PortUpdate { security_groups: Some(&[]), allowed_address_pairs: None };
    world.session.network().update_port(&port.id, &update).await.unwrap();
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.session.network().port(&port.id).await.unwrap().security_groups.len(), 1);
}

/// Proves: SRV-6, SRV-7
#[tokio::test]
async fn a_floating_ip_comes_and_goes_with_the_wish_for_one() {
    let world = World::settled(&json!({})).await;
    let wish = |enabled: bool| json!({"spec": {"publicIPAllocation": {"enabled": enabled}}});
    world.patch::<crd::Server>(SERVER, wish(false)).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!((world.counts(), world.server().await.status.unwrap().public_ip), ((1, 0, 1), None));
    world.patch::<crd::Server>(SERVER, wish(true)).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.counts(), (1, 1, 1));
    assert!(world.server().await.status.unwrap().public_ip.is_some());
}

/// Proves: SRV-6
#[tokio::test]
async fn however_often_attaching_fails_there_is_one_floating_ip() {
    let world = World::settled(&json!({})).await;
    let port = world.session.network().find_port_by_name(&format!("server-{SERVER}")).await.unwrap().unwrap();
    let ips = world.session.network().floating_ips(&FloatingIpFilter { port: Some(&port.id) }).await.unwrap();
    world.session.network().associate_floating_ip(&ips[0].id, None).await.unwrap();
    for fault in [Fault::status(500), Fault::status(409), Fault::status_after(500), Fault::status(503)] {
        world.cloud.faults().add(fault.on("PUT", "/floatingips/").times(1)).unwrap();
    }
    world.cloud.faults().add(Fault::status(500).on("POST", "/floatingips").times(1)).unwrap();
    assert_eq!(world.drive().await, Verdict::Settled);
    let after = world.session.network().floating_ips(&FloatingIpFilter::default()).await.unwrap();
    assert_eq!(after.len(), 1);
    assert_eq!((&after[0].id, after[0].port_id.as_ref()), (&ips[0].id, Some(&port.id)));
}

/// Proves: SRV-6
#[tokio::test]
async fn a_floating_ip_of_the_predecessor_which_wrote_no_description_is_ours() {
    let world = World::settled(&json!({"publicIPAllocation": null})).await;
    let neutron = world.session.network();
    let port = neutron.find_port_by_name(&format!("server-{SERVER}")).await.unwrap().unwrap();
    let external = world.region.external_network().await.unwrap();
    let old = NewFloatingIp { floating_network_id: &external.id, port_id: Some(&port.id), description: "" };
    let old = neutron.create_floating_ip(&old).await.unwrap();
    world.patch::<crd::Server>(SERVER, json!({"spec": {"publicIPAllocation": {"enabled": true}}})).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.server().await.status.unwrap().public_ip, Some(old.floating_ip_address));
    assert_eq!(world.counts(), (1, 1, 1));
    world.patch::<crd::Server>(SERVER, json!({"spec": {"publicIPAllocation": {"enabled": false}}})).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.counts(), (1, 0, 1));
}

/// Proves: SRV-6
#[tokio::test]
async fn a_foreign_floating_ip_is_reported_and_left_alone() {
    let world = World::settled(&json!({"publicIPAllocation": null})).await;
    let neutron = world.session.network();
    let port = neutron.find_port_by_name(&format!("server-{SERVER}")).await.unwrap().unwrap();
    let external = world.region.external_network().await.unwrap();
    let theirs = NewFloatingIp { floating_network_id: &external.id, port_id: Some(&port.id), description: "mine" };
    let theirs = neutron.create_floating_ip(&theirs).await.unwrap();
    for enabled in [false, true] {
        world.patch::<crd::Server>(SERVER, json!({"spec": {"publicIPAllocation": {"enabled": enabled}}})).await;
        assert_eq!(world.drive().await, Verdict::Waiting);
        let (reason, message) = world.available().await;
        assert_eq!(reason, "Errored");
        assert!(message.contains("floating IP"), "{message}");
        assert_eq!(world.server().await.status.unwrap().public_ip, None);
        assert_eq!(world.counts(), (1, 1, 1));
    }
    world.delete::<crd::Server>(SERVER).await;
    assert_eq!(world.drive().await, Verdict::Gone);
    assert_eq!(world.counts(), (0, 1, 0));
    assert_eq!(neutron.floating_ip(&theirs.id).await.unwrap().description, "mine");
}

/// Proves: SRV-8
#[tokio::test]
async fn a_changed_flavor_is_not_applied_to_a_server_that_exists() {
    let world = World::settled(&json!({})).await;
    let other = world.cloud.bootstrap().flavors[1].0.clone();
    world.patch::<crd::Server>(SERVER, json!({"spec": {"flavorID": other}})).await;
    let mutations = world.cloud.mutations();
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.cloud.mutations(), mutations);
    // Its owner is told, once.
    let told = world.events().await;
    let [(kind, reason, message)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((kind.as_str(), reason.as_str()), ("Warning", "FlavorNotChanged"));
    assert!(message.contains("set it back"), "{message}");
    assert_eq!(world.call(SERVER).await, Verdict::Settled);
    // Set back, or with a flavor that the cloud does not know any more, there is nothing to tell.
    for flavor in [world.cloud.bootstrap().flavors[0].0.clone(), "f0000000-0000-4000-8000-0000000000ff".into()] {
        world.patch::<crd::Server>(SERVER, json!({"spec": {"flavorID": flavor}})).await;
        assert_eq!(world.drive().await, Verdict::Settled);
    }
    assert_eq!(world.events().await.len(), 1);
}

/// Proves: PIN-1
#[tokio::test]
async fn a_pinned_server_runs_on_its_host_in_the_identitys_project() {
    let world = World::start().await;
    let host = world.cloud.bootstrap().hosts[1].clone();
    world.create_server(&json!({ "infrastructureRef": host })).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.body("POST", "/servers")["server"]["hypervisor_hostname"], Value::from(host));
    let server = world.session.compute().find_server_by_name("web").await.unwrap().unwrap();
    assert_eq!(server.project_id, Some(world.project.clone()));
    world.delete::<crd::Server>(SERVER).await;
    assert_eq!(world.drive().await, Verdict::Gone);
    assert_eq!(world.counts(), (0, 0, 0));
}

/// Proves: SRV-6
#[tokio::test]
async fn without_a_way_out_the_owner_is_told_and_it_recovers() {
    let world = World::start().await;
    let neutron = world.region.manager_in_project(&world.project);
    let router = neutron.network().find_router_by_name(&format!("network-{NETWORK}")).await.unwrap().unwrap();
    let closed = RouterUpdate { gateway: Some(None) };
    neutron.network().update_router(&router.id, &closed).await.unwrap();
    world.create_server(&json!({})).await;
    assert!(matches!(world.call(SERVER).await, Verdict::Retry { .. }));
    let (reason, message) = world.available().await;
    assert_eq!(reason, "Errored");
    assert!(message.contains("external network"), "{message}");
    let external = world.region.external_network().await.unwrap();
    let gateway = Gateway { network_id: external.id };
    neutron.network().update_router(&router.id, &RouterUpdate { gateway: Some(Some(&gateway)) }).await.unwrap();
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.counts(), (1, 1, 1));
}

/// Proves: PIN-1, OWN-7
#[tokio::test]
async fn what_the_cloud_refuses_to_make_is_told_and_tried_again() {
    for (change, named) in [
        (json!({"infrastructureRef": "no-such-host"}), "host"),
        (json!({"flavorID": "f0000000-0000-4000-8000-0000000000ff"}), "flavor"),
        (json!({"image": {"id": "a0000000-0000-4000-8000-0000000000ff"}}), "image"),
    ] {
        let world = World::start().await;
        world.create_server(&change).await;
        for _ in 0..2 {
            assert!(matches!(world.call(SERVER).await, Verdict::Retry { .. }));
            let (reason, message) = world.available().await;
            assert_eq!(reason, "Errored");
            assert!(message.contains("refuses") && message.contains(named), "{message}");
            assert_eq!(world.counts(), (1, 1, 0));
        }
        world.delete::<crd::Server>(SERVER).await;
        assert_eq!(world.drive().await, Verdict::Gone);
        assert_eq!(world.counts(), (0, 0, 0));
    }
}

#[tokio::test]
async fn another_network_is_refused_and_nothing_is_moved() {
    let world = World::settled(&json!({})).await;
    let other = "b0000000-0000-4000-8000-000000000002";
    world
        .create::<crd::Network>(json!({
            "apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "Network",
            "metadata": {"name": other, "finalizers": ["unikorn"]}, "spec": {"prefix": "10.1.0.0/24"},
        }))
        .await;
    world.tell::<crd::Network>(other, "Provisioned").await;
    let session = world.region.manager_in_project(&world.project);
    let name = format!("network-{other}");
    let network = weir_openstack::network::NewNetwork { name: &name, description: "", segments: &[] };
    session.network().create_network(&network).await.unwrap();
    world.patch::<crd::Server>(SERVER, json!({"spec": {"networks": [{"id": other}]}})).await;
    let mutations = world.cloud.mutations();
    assert_eq!(world.drive().await, Verdict::Parked);
    assert!(world.available().await.1.contains("network"));
    assert_eq!(world.cloud.mutations(), mutations);
    // The references of both networks are gone with the server.
    world.delete::<crd::Server>(SERVER).await;
    assert_eq!(world.drive().await, Verdict::Gone);
    assert!(!world.holds::<crd::Network>(NETWORK).await && !world.holds::<crd::Network>(other).await);
}
