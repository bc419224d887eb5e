//! Which changes are published, how, and how often (W-1, W-2, W-4).

use crate::rig::{Ear, IDENTITY, Rig, held, id, of_kind, server, uuid};
use serde_json::json;
use weir_api::Kind;
use weir_harness::World;
use weir_harness::world::{identity, network};
use weir_messages::{Cause, Lane};

/// Proves: W-1
#[tokio::test(flavor = "multi_thread")]
async fn a_status_write_alone_publishes_nothing_for_its_own_object() {
    let rig = Rig::start().await;
    let ear = Ear::consumer(&rig.queue().await).await;
    let publisher = rig.publisher().await;
    for kind in [Kind::Identity, Kind::Network, Kind::SecurityGroup, Kind::Server] {
        rig.world.apply(&of_kind(kind, "written")).await;
        ear.hear("its creation", |heard| heard.object.kind == kind && heard.object.name == "written").await;
        ear.forget();
        for reason in ["Provisioning", "Provisioned", "Errored", "Provisioned"] {
            rig.available(kind, "written", reason).await;
        }
        rig.fence(&ear, kind).await;
        let about: Vec<_> = ear.heard().into_iter().filter(|heard| heard.object.name == "written").collect();
        assert!(about.is_empty(), "{about:?}");
    }
    publisher.stop().await;
}

/// Proves: W-1, W-2, Q-15, Q-18
#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_what_is_wanted_is_published_urgently_under_its_version() {
    let rig = Rig::start().await;
    let ear = Ear::consumer(&rig.queue().await).await;
    let publisher = rig.publisher().await;
    let created = rig.world.apply(&held(of_kind(Kind::Network, "n"))).await;
    let mut expected = vec![created];
    let finalizers = json!(["unikorn", "servers.region.unikorn-cloud.org/s"]);
    for change in [
        json!({"spec": {"dnsNameservers": ["1.1.1.1"]}}),
        json!({"metadata": {"labels": {"unikorn-cloud.org/name": "renamed"}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"metadata": {"finalizers": finalizers}}),
    ] {
        // One after the other is heard: else several may be published as one.
        let last = expected.last().map(id);
        ear.hear("the last change", |heard| heard.id == last).await;
        expected.push(rig.change(Kind::Network, "n", change).await);
    }
    let last = expected.last().map(id);
    ear.hear("the last change", |heard| heard.id == last).await;
    rig.world.delete(Kind::Network, "n").await;
    expected.push(rig.world.get(Kind::Network, "n").await.expect("it is held"));
    for object in &expected {
        let heard = ear.hear("a change", |heard| heard.id.as_ref() == Some(&id(object))).await;
        assert_eq!((heard.lane, heard.cause, heard.object.kind), (Lane::Urgent, Cause::Changed, Kind::Network));
    }
    publisher.stop().await;
}

/// Proves: W-1, W-3
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_nothing_held_up_is_published_too() {
    let rig = Rig::start().await;
    let ear = Ear::consumer(&rig.queue().await).await;
    let publisher = rig.publisher().await;
    rig.world.apply(&of_kind(Kind::Network, "n")).await;
    ear.hear("its creation", |heard| heard.object.name == "n").await;
    ear.forget();
    rig.world.delete(Kind::Network, "n").await;
    let heard = ear.hear("its deletion", |heard| heard.object.name == "n").await;
    assert_eq!((heard.lane, heard.cause), (Lane::Urgent, Cause::Changed));
    publisher.stop().await;
}

/// Proves: W-2
#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_when_a_publisher_starts_is_routine_and_published_once() {
    let rig = Rig::start().await;
    rig.world.apply(&identity(IDENTITY)).await;
    for n in 0..20 {
        let word = format!("n{n}");
        rig.world.apply(&network(&uuid(&word), IDENTITY)).await;
        rig.world.apply(&server(&format!("s{n}"), &word, &[], None)).await;
        rig.available(Kind::Network, &uuid(&word), "Provisioned").await;
    }
    let ear = Ear::consumer(&rig.queue().await).await;
    let publisher = rig.publisher().await;
    ear.until("all to be published", |heard| heard.len() >= 42).await;
    rig.fence(&ear, Kind::Network).await;
    let listed: Vec<_> = ear.heard().into_iter().filter(|heard| !heard.object.name.starts_with("fence")).collect();
    assert!(listed.iter().all(|heard| heard.lane == Lane::Routine), "{listed:?}");
    assert!(ear.tally().values().all(|count| *count == 1), "{:?}", ear.tally());
    assert!(listed.iter().any(|heard| heard.object.name == World::REGION));
    publisher.stop().await;
}

/// Proves: W-4, Q-18
#[tokio::test(flavor = "multi_thread")]
async fn a_second_publisher_doubles_the_publications_and_none_of_the_calls() {
    const OBJECTS: usize = 50;
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    rig.world.apply(&identity(IDENTITY)).await;
    let (calls, wire) = (Ear::consumer(&queue).await, Ear::wire(&queue).await);
    let (first, second) = (rig.publisher().await, rig.publisher().await);
    wire.until("both to have listed", |heard| heard.len() >= 4).await;
    calls.until("the list", |heard| heard.len() >= 2).await;
    wire.forget();
    calls.forget();

    rig.world.apply(&network(&uuid("shared"), IDENTITY)).await;
    for n in 0..OBJECTS {
        rig.world.apply(&server(&format!("s{n}"), "shared", &[], None)).await;
    }
    wire.until("both publishers", |heard| heard.len() >= 2 * (OBJECTS + 1)).await;
    rig.available(Kind::Network, &uuid("shared"), "Provisioned").await;
    wire.until("both publishers", |heard| heard.len() >= 2 * (2 * OBJECTS + 1)).await;
    let tally = calls
        .until("the calls", |heard| heard.iter().filter(|heard| heard.cause == Cause::Dependency).count() >= OBJECTS)
        .await;
    // A call for the creation of each, and one when its network became ready; one may have come to wait for the other.
    assert!(tally.len() <= 2 * OBJECTS + 1, "{} calls", tally.len());
    rig.fence(&calls, Kind::Server).await;
    let ids: std::collections::HashSet<_> = calls.heard().iter().map(|heard| heard.id.clone()).collect();
    assert_eq!(ids.len(), calls.heard().len(), "the same news was given out twice");
    first.stop().await;
    second.stop().await;
}

/// Proves: W-4
#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_that_lists_what_another_has_just_published_costs_no_call() {
    const OBJECTS: usize = 20;
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    rig.world.apply(&identity(IDENTITY)).await;
    let (calls, wire) = (Ear::consumer(&queue).await, Ear::wire(&queue).await);
    let first = rig.publisher().await;
    for n in 0..OBJECTS {
        rig.world.apply(&network(&format!("n{n}"), IDENTITY)).await;
    }
    calls.until("the first publisher", |heard| heard.len() >= OBJECTS + 2).await;
    wire.forget();
    let second = rig.publisher().await;
    wire.until("the second's list", |heard| heard.len() >= OBJECTS + 2).await;
    rig.fence(&calls, Kind::Network).await;
    assert_eq!(calls.heard().len(), OBJECTS + 3, "{:?}", calls.tally());
    first.stop().await;
    second.stop().await;
}
