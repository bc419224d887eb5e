//! Servers that do not start.

use crate::life::{Watch, effects, live, nova, reason, status};
use crate::world::{SERVER, World};
use serde_json::json;
use std::time::Duration;
use weir_api::crd;
use weir_function_runtime::worker::Verdict;
use weir_openstack_sim::{Action, Failure, Fault};

/// Lets servers fail to start, this many times.
fn no_hosts(world: &World, times: u64) {
    let failure = Fault::new(Action::Server(Failure::NoHost)).on("POST", "/servers$").times(times);
    world.cloud.faults().add(failure).unwrap();
}

/// Proves: RTY-1, RTY-3, RTY-4, RTY-5, RTY-7
#[tokio::test]
async fn a_server_that_never_starts_is_made_three_times_and_parked_until_an_operator_resets_it() {
    let world = World::start().await;
    let watch = Watch::new(&world);
    no_hosts(&world, 3);
    world.create_server(&json!({})).await;
    assert_eq!(live(&world, &watch).await, Verdict::Waiting);
    assert_eq!((effects(&world, "POST", "/servers"), world.counts()), (3, (1, 1, 1)));
    let parked = status(&world).await;
    assert_eq!((parked.provider_create_failures, parked.provider_create_retrying), (Some(3), Some(false)));
    assert_eq!(world.available().await, ("Errored".into(), "provider server create failed after 3 attempts".into()));
    let told = world.events().await;
    let reasons: Vec<_> = told.iter().map(|(kind, reason, _)| (kind.as_str(), reason.as_str())).collect();
    let (retrying, ready) = (("Normal", "ProviderCreateRetrying"), ("Normal", "ProviderCreateRetryReady"));
    assert_eq!(reasons, [retrying, ready, retrying, ready, ("Warning", "ProviderCreateFailed")]);
    assert!(told[0].2.contains("1/3") && told[2].2.contains("2/3"), "{told:?}");
    // Nothing more happens, also if the last one goes by other hands.
    assert!(!watch.tick().await);
    assert_eq!(world.call(SERVER).await, Verdict::Waiting);
    world.session.compute().delete_server(&nova(&world).await.id).await.unwrap();
    world.cloud.advance(Duration::from_secs(10));
    watch.tick().await;
    assert_eq!(world.call(SERVER).await, Verdict::Waiting);
    assert_eq!(effects(&world, "POST", "/servers"), 3);
    assert_eq!(world.events().await.len(), told.len());
    world.patch_status_with(json!({"status": {"providerCreateFailures": 0}})).await;
    assert_eq!(live(&world, &watch).await, Verdict::Settled);
    assert_eq!(effects(&world, "POST", "/servers"), 4);
    assert_eq!(reason(&world, "Active").await, "Running");
}

/// Proves: RTY-6
#[tokio::test]
async fn a_retry_forgets_the_failed_server_and_keeps_what_is_never_forgotten() {
    let world = World::start().await;
    let watch = Watch::new(&world);
    no_hosts(&world, 1);
    world.create_server(&json!({})).await;
    assert_eq!(world.call(SERVER).await, Verdict::Settled);
    world.cloud.advance(Duration::from_secs(10));
    watch.tick().await;
    world.patch_status_with(json!({"status": {"macAddress": "fa:16:3e:00:00:01"}})).await;
    assert!(status(&world).await.scheduled_at.is_some());
    loop {
        let Verdict::After { delay } = world.call(SERVER).await else { panic!("it is made again") };
        world.cloud.advance(delay);
        let now = status(&world).await;
        if now.provider_create_failures == Some(1) && now.provider_create_retrying == Some(false) {
            assert_eq!((now.private_ip, now.public_ip, now.scheduled_at, now.launched_at), (None, None, None, None));
            assert_eq!(now.mac_address.as_deref(), Some("fa:16:3e:00:00:01"));
            break;
        }
    }
    assert_eq!(reason(&world, "Active").await, "Pending");
    assert_eq!(live(&world, &watch).await, Verdict::Settled);
    assert_eq!(effects(&world, "POST", "/servers"), 2);
}

/// Proves: RTY-5
#[tokio::test]
async fn a_failure_is_counted_in_a_call_before_the_one_that_deletes() {
    let world = World::start().await;
    let watch = Watch::new(&world);
    no_hosts(&world, 1);
    world.create_server(&json!({})).await;
    assert_eq!(world.call(SERVER).await, Verdict::Settled);
    world.cloud.advance(Duration::from_secs(10));
    assert_eq!(world.call(SERVER).await, Verdict::Waiting, "nothing is done before the monitor has seen it");
    assert!(watch.tick().await);
    assert!(matches!(world.call(SERVER).await, Verdict::After { .. }));
    let counted = status(&world).await;
    assert_eq!((counted.provider_create_failures, counted.provider_create_retrying), (Some(1), Some(true)));
    assert_eq!(effects(&world, "DELETE", nova(&world).await.id.as_str()), 0);
    assert!(matches!(world.call(SERVER).await, Verdict::After { .. }));
    assert_eq!(world.cloud.requests().iter().filter(|entry| entry.method == "DELETE" && entry.effect).count(), 1);
}

/// Proves: RTY-1, RTY-5
#[tokio::test]
async fn whatever_goes_wrong_at_any_call_there_are_three_creates() {
    for after in 0..8 {
        for (at, kind) in ["500", "409", "lost"].into_iter().enumerate() {
            let world = World::start().await;
            let watch = Watch::new(&world);
            no_hosts(&world, 20);
            world.create_server(&json!({})).await;
            let fault = match kind {
                "500" => weir_kube_sim::Fault::status(500),
                "409" => weir_kube_sim::Fault::status(409),
                _ => weir_kube_sim::Fault::lost_write(),
            };
            world.kubernetes.faults().add(fault.skip(after * 6 + at as u64 * 2).times(1)).unwrap();
            live(&world, &watch).await;
            world.kubernetes.faults().clear();
            for _ in 0..3 {
                watch.tick().await;
                live(&world, &watch).await;
            }
            assert_eq!(effects(&world, "POST", "/servers"), 3, "{kind} at {after}");
            assert_eq!(world.available().await.0, "Errored", "{kind} at {after}");
            assert_eq!(world.events().await.iter().filter(|event| event.1 == "ProviderCreateFailed").count(), 1);
        }
    }
}

/// Proves: RTY-2
#[tokio::test]
async fn a_server_that_has_run_is_never_deleted_also_if_its_status_is_wiped() {
    let world = World::start().await;
    let watch = Watch::new(&world);
    world.create_server(&json!({})).await;
    assert_eq!(live(&world, &watch).await, Verdict::Settled);
    // It breaks by a rebuild that is none of ours.
    world.cloud.faults().add(Fault::new(Action::Server(Failure::Spawn)).on("POST", "/action$").times(1)).unwrap();
    let server = nova(&world).await;
    let image = world.cloud.bootstrap().images[0].0.clone();
    world.session.compute().rebuild_server(&server.id, &image.as_str().into()).await.unwrap();
    world.cloud.advance(Duration::from_secs(60));
    for wiped in [false, true] {
        if wiped {
            let keep = world.server().await;
            let gone: serde_json::Map<_, _> = serde_json::to_value(keep.status)
                .unwrap()
                .as_object()
                .unwrap()
                .keys()
                .map(|key| (key.clone(), serde_json::Value::Null))
                .collect();
            world.patch_status_with(json!({ "status": gone })).await;
        }
        for _ in 0..3 {
            watch.tick().await;
            live(&world, &watch).await;
        }
        assert_eq!(nova(&world).await.id, server.id);
        assert_eq!(reason(&world, "Healthy").await, "Errored");
    }
    assert_eq!(effects(&world, "DELETE", server.id.as_str()), 0);
    assert_eq!(world.get::<crd::Server>(SERVER).await.unwrap().status.unwrap().provider_create_failures, None);
}
