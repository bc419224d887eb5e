//! Who is woken by a change of another object, with the custom resources as they are (W-5).

use crate::rig::{Ear, IDENTITY, Rig, Running, authority, held, server, uuid};
use serde_json::json;
use weir_api::Kind;
use weir_harness::World;
use weir_harness::world::{identity, network, security_group};
use weir_messages::{Cause, Lane};
use weir_watch_publisher::watched::Watched;

/// A region, its secret, an identity, and in it a network, a group and a server that uses both and trusts an authority.
async fn everything() -> (Rig, Running, Ear) {
    let rig = Rig::start().await;
    let ear = Ear::consumer(&rig.queue().await).await;
    let publisher = rig.publisher().await;
    for object in [
        held(identity(IDENTITY)),
        authority("ca", "A"),
        network(&uuid("n"), IDENTITY),
        security_group(&uuid("g"), IDENTITY),
        server("s", "n", &["g"], Some("ca")),
    ] {
        rig.world.apply(&object).await;
    }
    for (watched, name) in
        [(Watched::Identity, IDENTITY), (Watched::Network, &uuid("n")), (Watched::SecurityGroup, &uuid("g"))]
    {
        publisher.knows(watched, name, true).await;
    }
    for name in [World::REGION, IDENTITY, &uuid("n"), &uuid("g"), "s"] {
        ear.hear("all objects", |heard| heard.object.name == name).await;
    }
    ear.forget();
    (rig, publisher, ear)
}

/// Waits for the kinds that are woken, and those only, by a change of another object.
async fn wakes(ear: &Ear, what: &str, expected: &[Kind]) {
    let woken = |heard: &[crate::rig::Heard]| -> Vec<Kind> {
        let mut kinds: Vec<Kind> =
            heard.iter().filter(|h| h.cause == Cause::Dependency).map(|h| h.object.kind).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    };
    let heard = ear.until(what, |heard| woken(heard).len() >= expected.len()).await;
    assert_eq!(woken(&heard), expected, "{what}");
    assert!(heard.iter().all(|heard| heard.lane == Lane::Urgent), "{heard:?}");
    ear.forget();
}

/// Proves: W-5
#[tokio::test(flavor = "multi_thread")]
async fn whatever_becomes_ready_or_fails_wakes_those_who_refer_to_it() {
    let (rig, publisher, ear) = everything().await;
    for reason in ["Provisioned", "Errored", "Provisioned"] {
        rig.available(Kind::Region, World::REGION, reason).await;
        wakes(&ear, "the region", &[Kind::Identity, Kind::Network, Kind::SecurityGroup, Kind::Server]).await;
        rig.available(Kind::Identity, IDENTITY, reason).await;
        wakes(&ear, "the identity", &[Kind::Network, Kind::SecurityGroup, Kind::Server]).await;
        rig.available(Kind::Network, &uuid("n"), reason).await;
        wakes(&ear, "the network", &[Kind::Server]).await;
        rig.available(Kind::SecurityGroup, &uuid("g"), reason).await;
        wakes(&ear, "the group", &[Kind::Server]).await;
    }
    publisher.stop().await;
}

/// Proves: W-5
#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_readiness_wakes_those_who_refer_to_it_whenever_it_changes() {
    let (rig, publisher, ear) = everything().await;
    rig.world.apply_secret(|data| data["password"] = json!("rotated")).await;
    wakes(&ear, "the secret", &[Kind::Region]).await;
    rig.world.apply(&authority("ca", "B")).await;
    wakes(&ear, "the authority", &[Kind::Server]).await;
    rig.world.apply_region(json!({"network": {"providerNetworks": {"physicalNetwork": "physnet1"}}})).await;
    wakes(&ear, "the region's spec", &[Kind::Identity, Kind::Network, Kind::SecurityGroup, Kind::Server]).await;
    publisher.stop().await;
}

/// Proves: W-5
#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_is_made_and_ready_after_its_server_wakes_it() {
    let (rig, publisher, ear) = everything().await;
    rig.world.apply(&server("early", "late", &["late-g"], Some("late-authority"))).await;
    ear.hear("the server", |heard| heard.object.name == "early").await;
    ear.forget();
    rig.world.apply(&authority("late-authority", "C")).await;
    wakes(&ear, "the authority", &[Kind::Server]).await;
    rig.world.apply(&network(&uuid("late"), IDENTITY)).await;
    rig.available(Kind::Network, &uuid("late"), "Provisioned").await;
    wakes(&ear, "the network", &[Kind::Server]).await;
    rig.world.apply(&security_group(&uuid("late-g"), IDENTITY)).await;
    rig.available(Kind::SecurityGroup, &uuid("late-g"), "Provisioned").await;
    wakes(&ear, "the group", &[Kind::Server]).await;
    publisher.stop().await;
}

/// Proves: W-5
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_being_deleted_is_woken_by_each_that_goes_before_it() {
    let (rig, publisher, ear) = everything().await;
    rig.world.delete(Kind::Identity, IDENTITY).await;
    wakes(&ear, "the identity begins to go", &[Kind::Network, Kind::SecurityGroup, Kind::Server]).await;
    for (kind, name) in [(Kind::Server, "s"), (Kind::SecurityGroup, &uuid("g")), (Kind::Network, &uuid("n"))] {
        rig.world.delete(kind, name).await;
        wakes(&ear, "one less", &[Kind::Identity]).await;
    }
    rig.change(Kind::Region, World::REGION, json!({"metadata": {"finalizers": ["unikorn"]}})).await;
    rig.world.delete(Kind::Region, World::REGION).await;
    wakes(&ear, "the region begins to go", &[Kind::Identity]).await;
    rig.change(Kind::Identity, IDENTITY, json!({"metadata": {"finalizers": null}})).await;
    wakes(&ear, "the identity goes", &[Kind::Region]).await;
    publisher.stop().await;
}

/// Proves: W-5
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_being_deleted_is_woken_by_one_that_lets_go() {
    let (rig, publisher, ear) = everything().await;
    rig.world.delete(Kind::Identity, IDENTITY).await;
    wakes(&ear, "the identity begins to go", &[Kind::Network, Kind::SecurityGroup, Kind::Server]).await;
    rig.change(Kind::Network, &uuid("n"), json!({"metadata": {"labels": {weir_api::labels::IDENTITY: "another"}}}))
        .await;
    let heard = ear.hear("the identity", |heard| heard.object.kind == Kind::Identity).await;
    assert_eq!(heard.origin.map(|origin| origin.name).as_deref(), Some(&*uuid("n")));
    publisher.stop().await;
}
