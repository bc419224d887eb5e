//! Placement: which hosts have room.

use weir_openstack::placement::{ResourceClass, Trait};
use weir_openstack::{Class, Service};

use crate::cloud::{Cloud, Placement, on_each_cloud};
use crate::tenant::{refused, with_tenant};

/// Runs `test` in a tenant of each cloud that has a provider to be found.
async fn on_each_placement(test: impl AsyncFn(&Cloud, &crate::tenant::Tenant<'_>, &Placement)) {
    on_each_cloud(async |cloud| {
        let Some(placement) = &cloud.facts.placement else {
            assert!(cloud.sim.is_none(), "the simulator has Placement");
            return;
        };
        with_tenant(cloud, async |tenant| test(cloud, tenant, placement).await).await;
    })
    .await;
}

/// Proves: PIN-2, OSC-1, OSC-2
#[tokio::test]
async fn the_hosts_with_room_and_the_traits_asked_for_are_told_to_the_region() {
    on_each_placement(async |_, tenant, fact| {
        let manager = tenant.manager();
        assert!(manager.offers(Service::Placement).await.unwrap());
        let class = ResourceClass::custom(&fact.resource_class).unwrap();
        let own = Trait::required(&fact.trait_).unwrap();
        let avx = Trait::required("HW_CPU_X86_AVX").unwrap();
        let no_own = Trait::forbidden(&fact.trait_).unwrap();
        let no_avx = Trait::forbidden("HW_CPU_X86_AVX").unwrap();
        for (traits, found) in [
            (vec![], true),
            (vec![own.clone()], true),
            (vec![own.clone(), no_avx], true),
            (vec![no_own.clone()], false),
            (vec![avx], false),
            (vec![own, no_own], false),
        ] {
            let providers = manager.placement().providers_with(&class, &traits).await.unwrap();
            let names: Vec<_> = providers.iter().map(|provider| provider.name.as_str()).collect();
            let expected = if found { vec![fact.provider.as_str()] } else { vec![] };
            assert_eq!(names, expected, "{traits:?}");
            assert!(providers.iter().all(|provider| uuid::Uuid::try_parse(provider.uuid.as_str()).is_ok()));
        }
    })
    .await;
}

/// Proves: PIN-2, OSC-7
#[tokio::test]
async fn a_class_or_trait_that_placement_does_not_know_is_refused_not_unmet() {
    on_each_placement(async |_, tenant, fact| {
        let manager = tenant.manager();
        let class = ResourceClass::custom(&fact.resource_class).unwrap();
        let unknown = Trait::required("CUSTOM_NO_SUCH_TRAIT").unwrap();
        refused(manager.placement().providers_with(&class, &[unknown]).await.map(drop), Class::BadRequest);
        let unknown = ResourceClass::custom("NO_SUCH_CLASS").unwrap();
        refused(manager.placement().providers_with(&unknown, &[]).await.map(drop), Class::BadRequest);
    })
    .await;
}

/// Proves: OPS-14
#[tokio::test]
async fn nobody_but_the_region_is_told_of_hosts_and_it_only_in_a_project() {
    on_each_placement(async |cloud, tenant, fact| {
        let class = ResourceClass::custom(&fact.resource_class).unwrap();
        let (user, manager) = tenant.another("manager").await;
        for session in [&tenant.member, &manager, &cloud.manager()] {
            refused(session.placement().providers_with(&class, &[]).await.map(drop), Class::Forbidden);
        }
        cloud.manager().identity().delete_user(&user).await.unwrap();
    })
    .await;
}
