//! What a look at the servers writes, and what it leaves alone.

use crate::world::{World, shows};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::time::Duration;
use weir_api::{Kind, crd};
use weir_openstack_sim::{Action, Fault, Mangle};

const LATER: Duration = Duration::from_secs(60);

fn names(count: usize) -> Vec<String> {
    (1..=count).map(|n| format!("d0000000-0000-4000-8000-{n:012}")).collect()
}

/// Proves: MON-2, MON-3, MON-4, MON-5, OWN-4
#[tokio::test]
async fn a_look_is_one_list_for_each_project_and_one_patch_for_each_server_with_news() {
    let world = World::start().await;
    let names = names(6);
    for (number, part) in names.chunks(3).enumerate() {
        let tenant = world.tenant(number).await;
        world.fill(&tenant, part).await;
    }
    world.tenant(9).await;
    world.settle();
    assert_eq!(world.look().await.written, 6);
    assert_eq!(world.shown(&names[0]).await, shows("Degraded", "Building"));
    world.cloud.advance(LATER);
    world.settle();
    let round = world.look().await;
    assert_eq!((round.projects, round.servers, round.written, round.skipped, round.failed), (2, 6, 6, 0, 0));
    assert_eq!(world.asked("GET", "/servers/detail"), 2, "one list for each project that has servers");
    assert_eq!(world.shown(&names[5]).await, shows("Healthy", "Running"));
    let status = world.status(&names[5]).await;
    assert!(
        status.launched_at.is_some() && status.scheduled_at.is_some() && status.provisioned_at == status.launched_at
    );
    world.settle();
    assert_eq!(world.look().await.written, 0);
    assert_eq!(world.writes(), (0, 0), "no news, no writes");
    assert!(world.woken().is_empty());
}

/// Proves: MON-2
#[tokio::test]
async fn pages_are_read_to_their_end() {
    let config = weir_openstack_sim::Config { page: 2, ..weir_openstack_sim::Config::default() };
    let world = World::of(weir_harness::World::with_cloud(config).await).await;
    let tenant = world.tenant(0).await;
    let names = names(5);
    world.fill(&tenant, &names).await;
    world.cloud.advance(LATER);
    world.settle();
    let round = world.look().await;
    assert_eq!((round.written, round.gone), (5, 0));
    assert_eq!(world.asked("GET", "/servers/detail"), 3);
}

/// Proves: MON-2, SRV-2
#[tokio::test]
async fn servers_are_found_by_their_exact_name_and_by_what_they_say_of_themselves() {
    let world = World::start().await;
    let tenant = world.tenant(0).await;
    for name in ["web", "moved", "stolen", "twice"] {
        world.object(&tenant, name).await;
    }
    world.server(&tenant, "web-2", None).await;
    world.server(&tenant, "WEB", None).await;
    world.server(&tenant, "renamed", Some("moved")).await;
    world.server(&tenant, "stolen", Some("another")).await;
    world.server(&tenant, "twice", None).await;
    world.server(&tenant, "twice", None).await;
    world.cloud.advance(LATER);
    let round = world.look().await;
    assert_eq!((round.gone, round.skipped), (2, 1));
    assert_eq!(world.shown("web").await, shows("Unknown", "Pending"));
    assert_eq!(world.shown("moved").await, shows("Healthy", "Running"));
    assert_eq!(world.shown("stolen").await, shows("Unknown", "Pending"));
    assert_eq!(world.shown("twice").await, shows("", ""), "of two nobody can tell which");
    world.server(&tenant, "twice", Some("twice")).await;
    world.cloud.advance(LATER);
    world.look().await;
    assert_eq!(world.shown("twice").await, shows("Healthy", "Running"), "but one that says whose it is");
}

/// Proves: MON-9
#[tokio::test]
async fn what_cannot_be_read_does_not_keep_the_others_from_being_looked_at() {
    let world = World::start().await;
    let tenant = world.tenant(0).await;
    let names = names(4);
    world.fill(&tenant, &names).await;
    world.cloud.advance(LATER);
    world.look().await;
    world.patch_status(&names[0], json!({"status": {"conditions": null}})).await;
    let nameless = || Fault::new(Action::Mangle(Mangle { pointer: "/servers/1/id".into(), replace: None }));
    world.cloud.faults().add(nameless().on("GET", "/servers/detail$").times(1)).unwrap();
    let round = world.look().await;
    assert_eq!((round.servers, round.skipped, round.gone), (4, 1, 0), "one that cannot be read is not gone");
    assert!(world.woken().is_empty());
    // One that does not even tell its name may be any of those that are missing.
    let both = [nameless(), Fault::new(Action::Mangle(Mangle { pointer: "/servers/1/name".into(), replace: None }))];
    for fault in both {
        world.cloud.faults().add(fault.on("GET", "/servers/detail$").times(1)).unwrap();
    }
    let round = world.look().await;
    assert_eq!((round.skipped, round.gone), (1, 0));
}

/// Proves: MON-1, MON-9
#[tokio::test]
async fn a_project_that_fails_does_not_hold_up_the_others() {
    let world = World::start().await;
    let names = names(4);
    for (number, part) in names.chunks(1).enumerate() {
        let tenant = world.tenant(number).await;
        world.fill(&tenant, part).await;
    }
    world.cloud.advance(LATER);
    world.cloud.faults().add(Fault::status(503).on("GET", "/servers/detail$").times(1)).unwrap();
    let round = world.look().await;
    assert_eq!((round.failed, round.projects, round.written), (1, 3, 3));
    assert_eq!(world.look().await.written, 1, "the next look makes up for it");
}

/// Proves: MON-3, OWN-1
#[tokio::test]
async fn a_server_that_somebody_else_writes_is_left_for_the_next_look() {
    let world = World::start().await;
    let tenant = world.tenant(0).await;
    let names = names(3);
    world.fill(&tenant, &names).await;
    world.cloud.advance(LATER);
    let conflict = weir_kube_sim::Fault::status(409).subresource("status").times(1);
    world.kubernetes.faults().add(conflict).unwrap();
    let round = world.look().await;
    assert_eq!((round.written, round.skipped), (2, 1));
    assert_eq!(world.look().await.written, 1);
}

/// Proves: MON-8
#[tokio::test]
async fn a_machine_that_is_being_built_is_asked_after_and_what_goes_wrong_with_that_does_no_harm() {
    let world = World::start().await;
    let tenant = world.tenant(0).await;
    let flavor = world.cloud.bootstrap().flavors[0].0.clone();
    world.object(&tenant, "metal").await;
    let server = world.server(&tenant, "metal", None).await;
    world.settle();
    world.look().await;
    assert_eq!(world.asked("GET", "/nodes"), 0, "not a flavor of machines");
    let metadata = json!({"compute": {"flavors": {"metadata": [{"id": flavor, "baremetal": true}]}}});
    world.apply_region(metadata).await;
    world.look().await;
    assert_eq!(world.shown("metal").await.1, "Queued", "no machine yet");
    for (state, active) in
        [("cleaning", "Queued"), ("deploying", "Building"), ("deploy failed", "Building"), ("odd", "Queued")]
    {
        world.cloud.set_node(server.as_str(), Some(state));
        world.settle();
        world.look().await;
        assert_eq!(world.shown("metal").await.1, active, "{state}");
        let asked: Vec<_> = world.cloud.requests().into_iter().filter(|entry| entry.path.ends_with("/nodes")).collect();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].user.as_deref(), Some(world.region.user.as_str()), "with the region's credential");
        assert_eq!(asked[0].project.as_deref(), Some(tenant.project.as_str()), "in the identity's project");
        assert!(asked[0].query.contains(server.as_str()));
    }
    for fault in [Fault::status(403), Fault::status(500), Fault::status(404), Fault::new(Action::ResetBefore)] {
        world.cloud.faults().add(fault.on("GET", "/nodes$")).unwrap();
        assert_eq!(world.look().await.failed, 0);
        assert_eq!(world.shown("metal").await.1, "Building");
        world.settle();
    }
    world.cloud.advance(LATER);
    world.settle();
    world.look().await;
    assert_eq!(world.shown("metal").await, shows("Healthy", "Running"));
    assert_eq!(world.asked("GET", "/nodes"), 0, "only while it is being built");
}

/// Proves: MON-12
#[tokio::test]
async fn a_server_that_is_gone_shows_so_and_its_function_is_told_until_it_is_written_down() {
    let world = World::start().await;
    let tenant = world.tenant(0).await;
    world.object(&tenant, "web").await;
    assert_eq!(world.look().await.gone, 1);
    assert!(world.woken().is_empty(), "one that was never there is being made");
    let server = world.server(&tenant, "web", None).await;
    world.cloud.advance(LATER);
    world.look().await;
    tenant.session.compute().delete_server(&server).await.unwrap();
    world.cloud.advance(LATER);
    let lost = weir_kube_sim::Fault::status(500).subresource("status").times(1);
    world.kubernetes.faults().add(lost).unwrap();
    for _ in 0..2 {
        world.look().await;
        assert_eq!(world.woken(), ["web"]);
    }
    assert_eq!(world.shown("web").await, shows("Unknown", "Running"));
    world.look().await;
    assert!(world.woken().is_empty());
}

/// Proves: RBD-20, RTY-4
#[tokio::test]
async fn a_server_that_calls_for_its_function_wakes_it_at_each_look_until_it_is_heard() {
    let world = World::start().await;
    let tenant = world.tenant(0).await;
    world.object(&tenant, "web").await;
    world.server(&tenant, "web", None).await;
    world.cloud.advance(LATER);
    let image = world.cloud.bootstrap().images[0].0.clone();
    world.patch_status("web", json!({"status": {"rebuild": {"targetImageID": image, "state": "Initiated"}}})).await;
    for _ in 0..2 {
        world.look().await;
        assert_eq!(world.woken(), ["web"]);
        assert_eq!(world.status("web").await.rebuild.unwrap().state, crd::RebuildState::Succeeded);
    }
    world.patch_status("web", json!({"status": {"rebuild": null}})).await;
    world.look().await;
    assert!(world.woken().is_empty());
}

/// Proves: OWN-6
#[tokio::test]
async fn paused_servers_are_not_looked_at() {
    let world = World::start().await;
    let tenant = world.tenant(0).await;
    world.object(&tenant, "web").await;
    world.server(&tenant, "web", None).await;
    world.patch("web", json!({"spec": {"pause": true}})).await;
    world.settle();
    assert_eq!(world.look().await.servers, 0);
    assert_eq!(world.asked("GET", "/servers/detail"), 0);
    assert_eq!(world.writes(), (0, 0));
}

/// Proves: MON-1
#[tokio::test]
async fn a_region_that_cannot_be_reached_fails_by_itself_and_one_that_is_gone_is_none() {
    let world = World::start().await;
    let tenant = world.tenant(0).await;
    world.fill(&tenant, &names(1)).await;
    let api = world.api::<crd::Region>();
    let nowhere = json!({"spec": {"openstack": {"endpoint": "http://127.0.0.1:1"}}});
    api.patch(weir_harness::World::REGION, &PatchParams::default(), &Patch::Merge(nowhere)).await.unwrap();
    assert_eq!(world.look().await.failed, 1);
    world.hold(Kind::Region, weir_harness::World::REGION, false).await;
    world.delete(Kind::Region, weir_harness::World::REGION).await;
    assert_eq!(world.call().await, weir_function_runtime::worker::Verdict::Gone);
}
