//! What must stay impossible, with the policy files of `infra/openstack-policy` in place (OPS-14).

use weir_openstack::identity::{NewProject, NewUser};
use weir_openstack::network::Quota;
use weir_openstack::{Class, Service, block_storage, compute};

use crate::cloud::{on_each_cloud, unique};
use crate::tenant::{refused, with_tenant};
use weir_openstack::Secret;

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

/// The region's credential in one project has no power over another: not over its limits, nor over what is in it.
///
/// Proves: OPS-14
#[tokio::test]
async fn the_manager_of_one_project_may_do_nothing_to_another() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |mine| {
            with_tenant(cloud, async |other| {
                let manager = mine.manager();
                let theirs = &other.project;
                let quota = Quota { network: Some(5), ..Default::default() };
                refused(manager.network().set_quotas(theirs, &quota).await, Class::Forbidden);
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
            assert!(!identity.has_project_role(project, user, &admin.id).await.unwrap_or(false));
        })
        .await;
    })
    .await;
}
