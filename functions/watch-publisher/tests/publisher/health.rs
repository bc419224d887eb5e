//! Readiness and size (W-6, W-7).

use crate::rig::{Rig, of_kind, until};
use futures::StreamExt;
use kube::api::{DeleteParams, PostParams};
use std::sync::Arc;
use std::time::Duration;
use weir_api::Kind;
use weir_function_runtime::queue;
use weir_function_runtime::settings;
use weir_kube_sim::{Action, Disruption, Fault};
use weir_watch_publisher::watch::Error;
use weir_watch_publisher::watched::Watched;
use weir_watch_publisher::{Publisher, Settings, metrics};

/// Proves: W-6
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_objects_that_come_and_go_leave_nothing_behind() {
    const OBJECTS: usize = 10_000;
    let rig = Rig::start().await;
    let publisher = rig.publisher().await;
    let before = publisher.publisher.sizes().0;
    let api = rig.world.api(Kind::Network);
    let names = || futures::stream::iter(0..OBJECTS).map(|n| format!("n{n}"));
    names()
        .for_each_concurrent(32, |name| {
            let (api, object) = (api.clone(), serde_json::from_value(of_kind(Kind::Network, &name)).unwrap());
            async move { drop(api.create(&PostParams::default(), &object).await.unwrap()) }
        })
        .await;
    until("all to be known", || publisher.publisher.sizes().0 == before + OBJECTS).await;
    names()
        .for_each_concurrent(32, |name| {
            let api = api.clone();
            async move { drop(api.delete(&name, &DeleteParams::default()).await.unwrap()) }
        })
        .await;
    until("all to be forgotten", || publisher.publisher.sizes() == (before, 0)).await;
    publisher.stop().await;
}

/// Proves: W-7
#[tokio::test(start_paused = true)]
async fn a_watch_that_has_ended_or_has_failed_for_a_minute_is_not_ready() {
    // Nobody listens there: readiness is about watches alone.
    let settings = settings::Settings::from_arguments(["--nats", "nats://127.0.0.1:1"]).unwrap();
    let publisher = Publisher::new(queue::connect(&settings).await.unwrap());
    let failure = || Error::Unusable("the test has it fail");
    publisher.watch_failed(Watched::Network, &failure());
    assert!(publisher.readiness().unwrap_err().contains("Network has not begun"));
    for watched in Watched::ALL {
        publisher.watch_is_well(watched);
    }
    assert_eq!(publisher.readiness(), Ok(()));

    publisher.watch_failed(Watched::Network, &failure());
    tokio::time::advance(Duration::from_secs(59)).await;
    publisher.watch_failed(Watched::Network, &failure());
    assert_eq!(publisher.readiness(), Ok(()), "it may yet recover");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(publisher.readiness().unwrap_err().contains("Network has failed for 61 s"), "{:?}", publisher.readiness());

    publisher.watch_is_well(Watched::Network);
    assert_eq!(publisher.readiness(), Ok(()));
    publisher.watch_ended(Watched::Server);
    assert_eq!(publisher.readiness(), Err("the watch of Server has ended".to_owned()));
}

/// Proves: W-7
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_works_again_is_well_again_though_nothing_changes() {
    let rig = Rig::start().await;
    metrics::register();
    let publisher = rig.publisher_with(rig.world.client.clone(), &Settings::default()).await;
    publisher.ready().await;
    let shown = |line: &str| weir_function_runtime::telemetry::metrics::render().lines().any(|found| found == line);
    until("the metric", || shown(r#"weir_watch_up{watched="Server"} 1"#)).await;

    let faults = rig.world.kubernetes.faults();
    let servers = r"servers\.region\.unikorn-cloud\.org";
    let refused = faults.add(Fault::status(500).verb("watch").resource(servers)).unwrap();
    let end = Fault::new(Action::Watch { disruption: Disruption::End { after_ms: 0 } });
    faults.add(end.resource(servers).times(1)).unwrap();
    until("the failure to show", || shown(r#"weir_watch_up{watched="Server"} 0"#)).await;
    assert!(metrics::FAILURES.get(&["Server"]) > 0);
    faults.remove(refused);
    until("the watch to be well", || shown(r#"weir_watch_up{watched="Server"} 1"#)).await;
    publisher.stop().await;
}

/// Proves: W-7
#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_that_has_stopped_is_not_ready() {
    let rig = Rig::start().await;
    let publisher = rig.publisher().await;
    let inner = Arc::clone(&publisher.publisher);
    publisher.stop().await;
    assert!(inner.readiness().unwrap_err().contains("has ended"));
}
