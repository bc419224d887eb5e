//! Nova, and Cinder's limits.

use std::collections::BTreeMap;

use weir_openstack::block_storage;
use weir_openstack::compute::{Attach, ImageRef, NewServer, Observed, QuotaSet, Reboot, Server, ServerStatus};
use weir_openstack::{Class, NovaServerId, OrAbsent, Service};

use crate::cloud::{eventually, on_each_cloud};
use crate::tenant::{Tenant, refused, with_tenant};

const NOWHERE: &str = "00000000-0000-4000-8000-00000000dead";

/// A public key, made for this test; nobody holds its private half.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGt9C3vE0Zt9Y3nq0y3vB3m6c1i0bqv1s7xkL0m1l2aZ contract";

async fn settled(tenant: &Tenant<'_>, id: &NovaServerId, status: &ServerStatus) -> Server {
    let what = format!("{status:?} at rest of server {id}");
    eventually(&what, async || {
        let server = tenant.member.compute().server(id).await.expect("the server");
        (server.status == *status && server.task_state.is_nothing()).then_some(server)
    })
    .await
}

async fn attach(tenant: &Tenant<'_>) -> [Attach; 1] {
    let net = tenant.network("network-a").await;
    tenant.subnet(&net, "10.31.0.0/24").await;
    [Attach::Port(tenant.port("server-a", &net).await.id)]
}

/// Proves: FLV-1, OSC-10
#[tokio::test]
async fn flavors_are_listed_and_read_with_their_sizes() {
    on_each_cloud(async |cloud| {
        let inventory = cloud.inventory();
        let flavors = inventory.compute().flavors().await.unwrap();
        for wanted in &cloud.facts.flavors {
            let flavor = flavors.iter().find(|flavor| flavor.id.as_str() == wanted.id).expect("a flavor");
            assert!(flavor.is_public && flavor.vcpus > 0 && flavor.ram > 0 && !flavor.name.is_empty());
        }
        let paged = inventory.clone().with_page_size(1);
        assert_eq!(paged.compute().flavors().await.unwrap().len(), flavors.len());
        let one = inventory.compute().flavor(&cloud.flavor()).await.unwrap();
        assert_eq!(one.id, cloud.flavor());
        refused(inventory.compute().flavor(&NOWHERE.into()).await, Class::NotFound);
    })
    .await;
}

/// Proves: IDN-3, IDN-7
#[tokio::test]
async fn a_key_pair_is_known_by_its_name() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let compute = tenant.member.compute();
            let name = "unikorn-openstack-provider";
            assert!(compute.find_keypair_by_name(name).await.unwrap().is_none());
            let made = compute.create_keypair(name, KEY).await.unwrap();
            assert_eq!((made.name.as_str(), made.public_key.trim()), (name, KEY));
            refused(compute.create_keypair(name, KEY).await, Class::Conflict);
            refused(compute.create_keypair("other", "not a key").await, Class::BadRequest);
            assert_eq!(compute.find_keypair_by_name(name).await.unwrap().unwrap().fingerprint, made.fingerprint);
            // It is the user's: the region's credential, in the same project, does not see it.
            assert!(tenant.manager().compute().find_keypair_by_name(name).await.unwrap().is_none());
            compute.delete_keypair(name).await.unwrap();
            refused(compute.delete_keypair(name).await, Class::NotFound);
        })
        .await;
    })
    .await;
}

/// Proves: IDN-6, OSC-5, OSC-6
#[tokio::test]
async fn a_server_group_is_found_by_its_exact_name() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let compute = tenant.member.compute();
            for name in ["group", "group-2", "twice", "twice"] {
                let group = compute.create_server_group(name, "soft-anti-affinity").await.unwrap();
                assert_eq!((group.name.as_str(), group.policy.as_str()), (name, "soft-anti-affinity"));
            }
            let found = compute.find_server_group_by_name("group").await.unwrap().unwrap();
            assert_eq!(found.name, "group");
            assert!(compute.find_server_group_by_name("grou").await.unwrap().is_none());
            refused(compute.find_server_group_by_name("twice").await, Class::Inconsistent);
            for size in [1, 2, 3, 4, 5] {
                let paged = tenant.member.clone().with_page_size(size);
                assert_eq!(paged.compute().server_groups().await.unwrap().len(), 4, "in pages of {size}");
            }
            refused(compute.create_server_group("bad", "no-such-policy").await, Class::BadRequest);
            compute.delete_server_group(&found.id).await.unwrap();
            refused(compute.delete_server_group(&found.id).await, Class::NotFound);
        })
        .await;
    })
    .await;
}

/// Proves: SRV-2, SRV-3, SRV-10, RTY-2, OSC-7, RBD-1
#[tokio::test]
async fn a_server_lives_from_build_to_gone() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let compute = tenant.member.compute();
            let networks = attach(tenant).await;
            let (flavor, image, other) = (cloud.flavor(), cloud.image(0), cloud.image(1));
            let metadata: BTreeMap<_, _> =
                [("serverID".to_owned(), "a1".to_owned()), ("region:server_id".to_owned(), "a1".to_owned())].into();
            compute.create_keypair("key", KEY).await.unwrap();
            let group = compute.create_server_group("group", "soft-anti-affinity").await.unwrap();
            let new = NewServer {
                metadata: &metadata,
                key_name: Some("key"),
                user_data: Some(b"#cloud-config\n{}\n"),
                server_group: Some(&group.id),
                ..NewServer::new("web", &flavor, &image, &networks)
            };
            let id = compute.create_server(&new).await.unwrap();

            // At once, while the server may be no more than a request to build one.
            let found = compute.find_server_by_name("web").await.unwrap().expect("the server just made");
            assert_eq!(found.id, id);
            assert_eq!(found.status, ServerStatus::Build);
            assert_eq!(found.launched_at, Observed::Nothing);

            let server = settled(tenant, &id, &ServerStatus::Active).await;
            assert!(matches!(server.launched_at, Observed::Value(_)));
            assert_eq!(server.image, ImageRef::Image(image.clone()));
            assert_eq!(server.metadata, metadata);
            assert_eq!(server.key_name.as_deref(), Some("key"));
            assert_eq!(server.project_id.as_ref(), Some(&tenant.project));
            let port = tenant.member.network().find_port_by_name("server-a").await.unwrap().unwrap();
            assert_eq!(port.device_id, id.as_str());
            let addresses = &server.addresses["network-a"];
            assert_eq!(addresses[0].addr, port.fixed_ips[0].ip_address);
            assert_eq!(addresses[0].mac.as_deref(), Some(port.mac_address.as_str()));
            let members = compute.find_server_group_by_name("group").await.unwrap().unwrap().members;
            assert_eq!(members, std::slice::from_ref(&id));

            refused(compute.start_server(&id).await, Class::Conflict);
            compute.stop_server(&id).await.unwrap();
            settled(tenant, &id, &ServerStatus::Shutoff).await;
            compute.start_server(&id).await.unwrap();
            settled(tenant, &id, &ServerStatus::Active).await;
            compute.reboot_server(&id, Reboot::Hard).await.unwrap();
            settled(tenant, &id, &ServerStatus::Active).await;

            compute.rebuild_server(&id, &other).await.unwrap();
            let accepted = compute.server(&id).await.unwrap();
            assert_eq!(accepted.image, ImageRef::Image(other.clone()), "the image flips when a rebuild is accepted");
            assert!(matches!(accepted.task_state, Observed::Value(_)) || accepted.task_state.is_nothing());
            refused(compute.rebuild_server(&id, &image).await, Class::NotNow);
            let rebuilt = settled(tenant, &id, &ServerStatus::Active).await;
            assert_eq!(rebuilt.image, ImageRef::Image(other));
            refused(compute.rebuild_server(&id, &NOWHERE.into()).await, Class::BadRequest);

            compute.delete_server(&id).await.unwrap();
            eventually("end of the server", async || {
                compute.server(&id).await.or_absent().unwrap().is_none().then_some(())
            })
            .await;
            assert!(compute.find_server_by_name("web").await.unwrap().is_none());
            refused(compute.delete_server(&id).await, Class::NotFound);
            refused(compute.stop_server(&id).await, Class::NotFound);
            let port = tenant
                .member
                .network()
                .port(&port.id)
                .await
                .expect("a server's end leaves a port that was given to it");
            assert_eq!(port.device_id, "");
        })
        .await;
    })
    .await;
}

/// Proves: OSC-5, OSC-6, SRV-2
#[tokio::test]
async fn servers_are_found_by_their_exact_names_from_the_first_moment() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let compute = tenant.member.compute();
            let (flavor, image) = (cloud.flavor(), cloud.image(0));
            let names = ["server-4", "server-45", "a.c", "abc", "A.C", "a|c", "x (1) [y] {z}+$^?*\\", "twice", "twice"];
            let nothing: [Attach; 0] = [];
            for name in names {
                compute.create_server(&NewServer::new(name, &flavor, &image, &nothing)).await.unwrap();
                if name != "twice" {
                    let found = compute.find_server_by_name(name).await.unwrap();
                    assert_eq!(found.expect(name).name, name, "at once");
                }
            }
            refused(compute.find_server_by_name("twice").await, Class::Inconsistent);
            eventually("end of all builds", async || {
                let servers = compute.servers().await.unwrap();
                servers.iter().all(|server| server.status == ServerStatus::Active).then_some(())
            })
            .await;
            for name in names.iter().filter(|name| **name != "twice") {
                assert_eq!(compute.find_server_by_name(name).await.unwrap().expect(name).name, *name);
            }
            for name in ["server-", "server-4$", "a", ".*", "c", "SERVER-4", "twic"] {
                assert!(compute.find_server_by_name(name).await.unwrap().is_none(), "{name}");
            }
            refused(compute.find_server_by_name("twice").await, Class::Inconsistent);
            for size in [1, 4, 9, 10] {
                let paged = tenant.member.clone().with_page_size(size);
                assert_eq!(paged.compute().servers().await.unwrap().len(), names.len(), "in pages of {size}");
            }
        })
        .await;
    })
    .await;
}

/// Proves: RTY-1, RTY-2, SRV-10
#[tokio::test]
async fn a_server_whose_build_failed_says_why_and_never_launched() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let compute = tenant.member.compute();
            let (flavor, image) = (cloud.flavor(), cloud.image(0));
            // What makes a build fail in the simulator, and in a laboratory of real services.
            let metadata: BTreeMap<_, _> =
                ["sim-fail", "oslab-fail"].map(|key| (key.to_owned(), "spawn".to_owned())).into();
            let nothing: [Attach; 0] = [];
            let new = NewServer { metadata: &metadata, ..NewServer::new("web", &flavor, &image, &nothing) };
            let id = compute.create_server(&new).await.unwrap();
            let server = settled(tenant, &id, &ServerStatus::Error).await;
            assert_eq!(server.launched_at, Observed::Nothing);
            assert!(!server.fault.unwrap().message.is_empty());
            compute.delete_server(&id).await.unwrap();
            eventually("end of the server", async || {
                compute.find_server_by_name("web").await.unwrap().is_none().then_some(())
            })
            .await;
        })
        .await;
    })
    .await;
}

/// Proves: PIN-1, OPS-14
#[tokio::test]
async fn a_server_is_pinned_to_a_host_by_the_manager_only() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let (flavor, image) = (cloud.flavor(), cloud.image(0));
            let host = cloud.facts.hosts.last().unwrap().as_str();
            let nothing: [Attach; 0] = [];
            let new = NewServer { hypervisor_hostname: Some(host), ..NewServer::new("web", &flavor, &image, &nothing) };
            refused(tenant.member.compute().create_server(&new).await, Class::Forbidden);
            let manager = tenant.manager();
            let id = manager.compute().create_server(&new).await.unwrap();
            settled(tenant, &id, &ServerStatus::Active).await;
            let nowhere = NewServer { hypervisor_hostname: Some("no-such-host"), ..new };
            refused(manager.compute().create_server(&nowhere).await, Class::BadRequest);
        })
        .await;
    })
    .await;
}

/// Proves: OSC-7, SRV-8
#[tokio::test]
async fn a_server_that_cannot_be_is_refused_at_once() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let compute = tenant.member.compute();
            let (flavor, image) = (cloud.flavor(), cloud.image(0));
            let nothing: [Attach; 0] = [];
            let new = NewServer::new("web", &flavor, &image, &nothing);
            let missing_image = NOWHERE.into();
            refused(
                compute.create_server(&NewServer { image: &missing_image, ..new.clone() }).await,
                Class::BadRequest,
            );
            let missing_flavor = NOWHERE.into();
            refused(
                compute.create_server(&NewServer { flavor: &missing_flavor, ..new.clone() }).await,
                Class::BadRequest,
            );
            let key = NewServer { key_name: Some("no-such-key"), ..new.clone() };
            refused(compute.create_server(&key).await, Class::BadRequest);
            let port = [Attach::Port(NOWHERE.into())];
            refused(compute.create_server(&NewServer { networks: &port, ..new.clone() }).await, Class::BadRequest);
            let long = vec![b'x'; 65_535];
            let error = refused(
                compute.create_server(&NewServer { user_data: Some(&long), ..new.clone() }).await,
                Class::BadRequest,
            );
            assert!(!error.detail().contains("eHh4eHh4eHh4"), "user data is not quoted");
            assert!(compute.servers().await.unwrap().is_empty());
            refused(compute.server(&NOWHERE.into()).await, Class::NotFound);
        })
        .await;
    })
    .await;
}

/// Proves: IDN-5, OSC-7
#[tokio::test]
async fn the_manager_sets_a_project_s_limits_on_servers_and_they_hold() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let (manager, none) = (tenant.manager(), Some(-1));
            let unlimited = QuotaSet {
                instances: none,
                cores: none,
                ram: none,
                key_pairs: none,
                metadata_items: none,
                server_groups: none,
                server_group_members: none,
            };
            manager.compute().set_quotas(&tenant.project, &unlimited).await.unwrap();
            assert_eq!(manager.compute().quotas(&tenant.project).await.unwrap(), unlimited);
            let zero = QuotaSet { cores: Some(0), ..Default::default() };
            manager.compute().set_quotas(&tenant.project, &zero).await.unwrap();
            let (flavor, image) = (cloud.flavor(), cloud.image(0));
            let nothing: [Attach; 0] = [];
            let new = NewServer::new("web", &flavor, &image, &nothing);
            refused(tenant.member.compute().create_server(&new).await, Class::QuotaExceeded);
            let read = manager.compute().quotas(&tenant.project).await.unwrap();
            assert_eq!((read.cores, read.ram), (Some(0), none), "what was not sent is as it was");
        })
        .await;
    })
    .await;
}

/// Proves: IDN-5
#[tokio::test]
async fn the_manager_sets_a_project_s_limits_on_volumes_where_there_are_any() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let (manager, none) = (tenant.manager(), Some(-1));
            if !manager.offers(Service::BlockStorage).await.unwrap() {
                refused(manager.block_storage().quotas(&tenant.project).await, Class::Unsupported);
                return;
            }
            let unlimited = block_storage::QuotaSet {
                volumes: none,
                gigabytes: none,
                snapshots: none,
                backups: none,
                backup_gigabytes: none,
                per_volume_gigabytes: none,
                groups: none,
            };
            manager.block_storage().set_quotas(&tenant.project, &unlimited).await.unwrap();
            assert_eq!(manager.block_storage().quotas(&tenant.project).await.unwrap(), unlimited);
        })
        .await;
    })
    .await;
}
