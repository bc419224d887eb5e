//! What must stay impossible, with the policy files of `infra/openstack-policy` in place (OPS-14).

use weir_openstack::identity::{NewProject, NewUser};
use weir_openstack::network::{NewNetwork, Quota, Segment};
use weir_openstack::{Class, Secret, Service, block_storage, compute};

use crate::cloud::{on_each_cloud, unique};
use crate::tenant::{refused, with_tenant};

/// Proves: OPS-14
#[tokio::test]
async fn a_member_may_not_do_what_the_manager_may() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let (member, project) = (&tenant.member, &tenant.project);
            let quota = Quota { network: Some(5), ..Default::default() };
            refused(member.network().set_quotas(project, &quota).await, Class::Forbidden);
            let quotas = compute::QuotaSet { cores: Some(5), ..Default::default() };
            refused(member.compute().set_quotas(project, &quotas).await, Class::Forbidden);
            if member.offers(Service::BlockStorage).await.unwrap() {
                let quotas = block_storage::QuotaSet { volumes: Some(5), ..Default::default() };
                refused(member.block_storage().set_quotas(project, &quotas).await, Class::Forbidden);
            }
            refused(member.identity().delete_project(project).await, Class::Forbidden);
            refused(member.identity().delete_user(&cloud.region_user()).await, Class::Forbidden);
            let find = member.identity();
            refused(find.find_user_by_name(&cloud.domain(), "x").await.map(drop), Class::Forbidden);
        })
        .await;
    })
    .await;
}

/// Many clouds have tenants who manage their own project. What Weir's credential may do, they may not: neither to their own
/// project nor, least of all, to another.
///
/// Proves: OPS-14
#[tokio::test]
async fn an_ordinary_manager_of_a_project_gains_nothing() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |mine| {
            with_tenant(cloud, async |other| {
                let (user, manager) = mine.another("manager").await;
                for project in [&mine.project, &other.project] {
                    let quota = Quota { network: Some(5), ..Default::default() };
                    refused(manager.network().set_quotas(project, &quota).await, Class::Forbidden);
                    let quotas = compute::QuotaSet { cores: Some(5), ..Default::default() };
                    refused(manager.compute().set_quotas(project, &quotas).await, Class::Forbidden);
                    if manager.offers(Service::BlockStorage).await.unwrap() {
                        let quotas = block_storage::QuotaSet { volumes: Some(5), ..Default::default() };
                        refused(manager.block_storage().set_quotas(project, &quotas).await, Class::Forbidden);
                    }
                }
                let vlan = [Segment::vlan(cloud.facts.physical_networks[0].as_str(), 3999)];
                let new = NewNetwork { name: "network-a", description: "", segments: &vlan };
                refused(manager.network().create_network(&new).await, Class::Forbidden);
                let (flavor, image) = (cloud.flavor(), cloud.image(0));
                let host = Some(cloud.facts.hosts[0].as_str());
                let nothing: [compute::Attach; 0] = [];
                let pinned = compute::NewServer {
                    hypervisor_hostname: host,
                    ..compute::NewServer::new("web", &flavor, &image, &nothing)
                };
                refused(manager.compute().create_server(&pinned).await, Class::Forbidden);
                cloud.manager().identity().delete_user(&user).await.unwrap();
            })
            .await;
        })
        .await;
    })
    .await;
}

/// The region's credential in one project reaches nothing of another. (Network quotas are the exception that Neutron forces,
/// see `infra/openstack-policy/neutron.yaml`.)
///
/// Proves: OPS-14
#[tokio::test]
async fn the_region_s_credential_in_one_project_reaches_no_other() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |mine| {
            with_tenant(cloud, async |other| {
                let manager = mine.manager();
                let theirs = &other.project;
                let quotas = compute::QuotaSet { cores: Some(5), ..Default::default() };
                refused(manager.compute().set_quotas(theirs, &quotas).await, Class::Forbidden);
                if manager.offers(Service::BlockStorage).await.unwrap() {
                    let quotas = block_storage::QuotaSet { volumes: Some(5), ..Default::default() };
                    refused(manager.block_storage().set_quotas(theirs, &quotas).await, Class::Forbidden);
                }
                let net = other.network("network-a").await;
                refused(manager.network().network(&net.id).await, Class::NotFound);
                refused(manager.network().delete_network(&net.id).await, Class::NotFound);
                assert!(manager.network().find_network_by_name("network-a").await.unwrap().is_none());
            })
            .await;
        })
        .await;
    })
    .await;
}

/// Proves: OPS-14
#[tokio::test]
async fn the_domain_s_manager_has_no_power_outside_its_domain_nor_over_the_cloud() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let manager = cloud.manager();
            let identity = manager.identity();
            let outside = "default".into();
            let name = unique("outside");
            let project = NewProject { name: &name, domain_id: &outside, description: "", tags: &[] };
            refused(identity.create_project(&project).await, Class::Forbidden);
            let password = Secret::new("password-1");
            let user = NewUser {
                name: &name,
                domain_id: &outside,
                password: &password,
                default_project_id: None,
                description: "",
            };
            refused(identity.create_user(&user).await, Class::Forbidden);
            let admin = identity.find_role_by_name("admin").await.unwrap().expect("every cloud has the role admin");
            let (project, user) = (&tenant.project, &tenant.user);
            refused(identity.grant_project_role(project, user, &admin.id).await, Class::Forbidden);
            // What makes the region's user special it cannot hand on.
            if let Some(region) = identity.find_role_by_name("weir_region").await.unwrap() {
                refused(identity.grant_project_role(project, user, &region.id).await, Class::Forbidden);
            }
            assert!(!identity.has_project_role(project, user, &admin.id).await.unwrap_or(false));
        })
        .await;
    })
    .await;
}
