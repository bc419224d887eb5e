//! Changing the image of a server.

use crate::life::{Watch, change, effects, image, live, nova, reason, state, status};
use crate::world::{SERVER, World};
use serde_json::json;
use std::time::Duration;
use weir_api::crd::{self, RebuildState};
use weir_function_runtime::worker::Verdict;
use weir_openstack::compute::ImageRef;
use weir_openstack_sim::{Action, Failure, Fault};

/// A server that has booted, and whose monitor has seen it.
async fn running() -> (World, Watch) {
    let world = World::start().await;
    let watch = Watch::new(&world);
    world.create_server(&json!({})).await;
    assert_eq!(live(&world, &watch).await, Verdict::Settled);
    world.cloud.clear_requests();
    (world, watch)
}

async fn has_image(world: &World, at: usize) -> bool {
    nova(world).await.image == ImageRef::Image(image(world, at).as_str().into())
}

/// Proves: RBD-1, RBD-4, RBD-8, RBD-12, RBD-14, RBD-17, RBD-18, MON-10
#[tokio::test]
async fn a_changed_image_rebuilds_the_server_once_in_a_call_after_the_one_that_armed() {
    let (world, watch) = running().await;
    let before = nova(&world).await;
    change(&world, 1).await;
    assert!(matches!(world.call(SERVER).await, Verdict::After { .. }));
    assert_eq!(state(&world).await, Some(RebuildState::Initiated));
    assert_eq!(effects(&world, "POST", "/action"), 0, "the call that arms does not submit");
    assert_eq!(world.call(SERVER).await, Verdict::Waiting);
    assert_eq!(effects(&world, "POST", "/action"), 1);
    assert_eq!(world.body("POST", "/action"), json!({"rebuild": {"imageRef": image(&world, 1)}}));
    assert_eq!(state(&world).await, Some(RebuildState::Rebuilding));
    let shown = (reason(&world, "Available").await, reason(&world, "Healthy").await, reason(&world, "Active").await);
    assert_eq!(shown, ("Provisioning".into(), "Provisioning".into(), "Rebuilding".into()));
    // While Nova is at work neither side does anything.
    assert!(!watch.tick().await);
    assert_eq!(world.call(SERVER).await, Verdict::Waiting);
    assert_eq!(live(&world, &watch).await, Verdict::Settled);
    assert_eq!(state(&world).await, None);
    assert_eq!(effects(&world, "POST", "/action"), 1);
    let after = nova(&world).await;
    assert!(has_image(&world, 1).await);
    assert_eq!((&after.id, &after.metadata, &after.addresses), (&before.id, &before.metadata, &before.addresses));
    assert_eq!(reason(&world, "Active").await, "Running");
    assert_eq!(reason(&world, "Available").await, "Provisioned");
    let mutations = world.cloud.mutations();
    assert_eq!(world.call(SERVER).await, Verdict::Settled);
    assert_eq!(world.cloud.mutations(), mutations);
}

/// Proves: RBD-1, RBD-2
#[tokio::test]
async fn before_the_first_boot_a_changed_image_waits_whatever_status_says() {
    let world = World::start().await;
    let watch = Watch::new(&world);
    world.create_server(&json!({})).await;
    assert_eq!(world.call(SERVER).await, Verdict::Settled);
    change(&world, 1).await;
    let latches = json!({"status": {"launchedAt": "2026-01-01T00:00:00Z", "provisionedAt": "2026-01-01T00:00:00Z"}});
    world.patch_status_with(latches).await;
    for _ in 0..3 {
        assert_eq!(world.call(SERVER).await, Verdict::After { delay: Duration::from_secs(10) });
        assert_eq!(state(&world).await, None);
    }
    assert_eq!(live(&world, &watch).await, Verdict::Settled);
    assert!(has_image(&world, 1).await);
    assert_eq!(effects(&world, "POST", "/action"), 1);
    assert_eq!(effects(&world, "POST", "/servers"), 1);
}

/// Proves: RBD-10, RBD-11, RBD-20, RBD-21
#[tokio::test]
async fn a_failed_rebuild_is_parked_with_what_to_do_and_another_image_brings_the_server_back() {
    for failure in [Failure::Spawn, Failure::NoHost] {
        let (world, watch) = running().await;
        world.cloud.faults().add(Fault::new(Action::Server(failure)).on("POST", "/action$").times(1)).unwrap();
        change(&world, 1).await;
        assert_eq!(live(&world, &watch).await, Verdict::Parked);
        assert_eq!(state(&world).await, Some(RebuildState::Failed));
        let (reason_shown, message) = world.available().await;
        assert_eq!(reason_shown, "Errored");
        assert!(message.contains("choose another image"), "{message}");
        assert_eq!(
            (reason(&world, "Healthy").await.as_str(), reason(&world, "Active").await.as_str()),
            ("Errored", "Error")
        );
        let mutations = world.cloud.mutations();
        assert_eq!(world.call(SERVER).await, Verdict::Parked);
        assert!(!watch.tick().await, "nobody is woken for what is parked");
        assert_eq!(world.cloud.mutations(), mutations);
        change(&world, 2).await;
        assert_eq!(live(&world, &watch).await, Verdict::Settled, "{:?}", status(&world).await);
        assert!(has_image(&world, 2).await);
        assert_eq!(state(&world).await, None);
    }
}

/// Proves: RBD-14, RBD-15
#[tokio::test]
async fn while_nova_is_busy_with_something_else_the_marker_stays_and_nothing_is_said() {
    let (world, watch) = running().await;
    world.session.compute().stop_server(&nova(&world).await.id).await.unwrap();
    world.cloud.clear_requests();
    change(&world, 1).await;
    assert!(matches!(world.call(SERVER).await, Verdict::After { .. }));
    let before = status(&world).await;
    assert_eq!(world.call(SERVER).await, Verdict::After { delay: Duration::from_secs(10) });
    assert_eq!(effects(&world, "POST", "/action"), 0);
    let after = status(&world).await;
    assert_eq!(after.rebuild, before.rebuild);
    for kind in ["Healthy", "Active"] {
        let of = |status: &crd::ServerStatus| weir_api::conditions::get(&status.conditions, kind).cloned();
        assert_eq!(of(&after), of(&before), "{kind}");
    }
    // Nova may also say so itself.
    world.cloud.advance(Duration::from_secs(10));
    world.cloud.faults().add(Fault::status(409).on("POST", "/action$").times(1)).unwrap();
    assert_eq!(world.call(SERVER).await, Verdict::After { delay: Duration::from_secs(10) });
    assert_eq!(state(&world).await, Some(RebuildState::Initiated));
    assert_eq!(live(&world, &watch).await, Verdict::Settled);
    assert_eq!(effects(&world, "POST", "/action"), 1);
    assert!(has_image(&world, 1).await);
}

/// Proves: RBD-5, RBD-19
#[tokio::test]
async fn whatever_goes_wrong_at_any_call_the_server_is_rebuilt_once() {
    let world = World::start().await;
    let watch = Watch::new(&world);
    world.create_server(&json!({})).await;
    assert_eq!(live(&world, &watch).await, Verdict::Settled);
    let mut at = 0;
    // Twice as many as any change takes.
    for after in 0..60 {
        for kind in ["cloud 500", "cloud 500 after", "cluster 500", "cluster conflict", "cluster lost"] {
            at = (at + 1) % 3;
            world.cloud.clear_requests();
            change(&world, at).await;
            let fault = match kind {
                "cloud 500" => Ok(Fault::status(500)),
                "cloud 500 after" => Ok(Fault::status_after(500)),
                "cluster 500" => Err(weir_kube_sim::Fault::status(500)),
                "cluster conflict" => Err(weir_kube_sim::Fault::status(409)),
                _ => Err(weir_kube_sim::Fault::lost_write()),
            };
            match fault {
                Ok(cloud) => world.cloud.faults().add(cloud.after(after).times(1)).unwrap(),
                Err(cluster) => world.kubernetes.faults().add(cluster.skip(after).times(1)).unwrap(),
            };
            let mut last = live(&world, &watch).await;
            world.cloud.faults().clear();
            world.kubernetes.faults().clear();
            // A look of the monitor may have been struck: the next one makes up for it.
            if last != Verdict::Settled {
                assert!(watch.tick().await || state(&world).await.is_some(), "{kind} at {after}");
                watch.tick().await;
                last = live(&world, &watch).await;
            }
            assert_eq!(last, Verdict::Settled, "{kind} at {after}: {:?}", status(&world).await);
            assert!(has_image(&world, at).await, "{kind} at {after}");
            assert_eq!(state(&world).await, None, "{kind} at {after}");
            assert_eq!(effects(&world, "POST", "/action"), 1, "{kind} at {after}");
        }
    }
}

/// A process that dies at this request of its call, before it has an effect: the call is dropped where it waits.
async fn die(world: &World, in_cloud: bool, after: u64) -> bool {
    let forever = 600_000;
    if in_cloud {
        world.cloud.faults().add(Fault::new(Action::Latency(forever)).after(after).times(1)).unwrap();
    } else {
        let hang = weir_kube_sim::Fault::new(weir_kube_sim::Action::Latency { ms: forever });
        world.kubernetes.faults().add(hang.user_agent(weir_harness::World::FUNCTION).skip(after).times(1)).unwrap();
    }
    let mut died = false;
    for _ in 0..6 {
        match tokio::time::timeout(Duration::from_millis(700), world.call(SERVER)).await {
            Err(_) => {
                died = true;
                break;
            }
            Ok(Verdict::After { delay }) => world.cloud.advance(delay),
            Ok(_) => break,
        }
    }
    world.cloud.faults().clear();
    world.kubernetes.faults().clear();
    died
}

/// Proves: RBD-4, RBD-5, RBD-19
#[tokio::test]
async fn a_process_that_dies_at_any_request_leaves_one_rebuild_to_be_finished() {
    let (world, watch) = running().await;
    let (mut at, mut deaths) = (0, 0);
    for in_cloud in [true, false] {
        for after in 0.. {
            at = (at + 1) % 3;
            world.cloud.clear_requests();
            change(&world, at).await;
            let died = die(&world, in_cloud, after).await;
            assert_eq!(live(&world, &watch).await, Verdict::Settled, "{after}: {:?}", status(&world).await);
            assert!(has_image(&world, at).await && state(&world).await.is_none(), "{after}");
            assert_eq!(effects(&world, "POST", "/action"), 1, "{after}");
            if !died {
                break;
            }
            deaths += 1;
        }
    }
    assert!(deaths > 20, "it died at each request that a change takes: {deaths}");
}

/// Proves: RBD-2, RBD-11
#[tokio::test]
async fn replacing_the_server_also_ends_a_park() {
    let (world, watch) = running().await;
    world.cloud.faults().add(Fault::new(Action::Server(Failure::Spawn)).on("POST", "/action$").times(1)).unwrap();
    change(&world, 1).await;
    assert_eq!(live(&world, &watch).await, Verdict::Parked);
    world.session.compute().delete_server(&nova(&world).await.id).await.unwrap();
    world.cloud.advance(Duration::from_secs(10));
    assert!(watch.tick().await, "the function is told that the server is gone");
    assert_eq!(live(&world, &watch).await, Verdict::Settled);
    assert_eq!(state(&world).await, None);
    assert!(has_image(&world, 1).await);
}
