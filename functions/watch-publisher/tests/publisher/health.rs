//! Readiness and size (W-6, W-7).

use crate::rig::{Rig, of_kind, until};
use futures::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::api::{DeleteParams, PostParams};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
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

/// What a Kubernetes does with requests from here on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// It answers lists with nothing, and opens watches on which nothing happens.
    Answers,
    /// It takes requests and never answers them.
    Hangs,
}

/// A watch that stays open and on which nothing comes.
struct Silence;

impl http_body::Body for Silence {
    type Data = bytes::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, std::io::Error>>> {
        Poll::Pending
    }
}

/// A client of a Kubernetes without a network, whose time is the test's.
fn cluster(mood: watch::Receiver<Mood>) -> kube::Client {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let mood = *mood.borrow();
        async move {
            if mood == Mood::Hangs {
                std::future::pending::<()>().await;
            }
            let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let list = r#"{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}"#;
            let body = if watch {
                UnsyncBoxBody::new(Silence)
            } else {
                UnsyncBoxBody::new(Full::from(list).map_err(|never| match never {}))
            };
            Ok::<_, tower::BoxError>(http::Response::new(body))
        }
    });
    kube::Client::new(service, "default")
}

/// Time goes by itself here, whenever nothing else can: that a minute is a minute shows without waiting for one.
///
/// Proves: W-3, W-7
#[tokio::test(start_paused = true)]
async fn a_kubernetes_that_takes_requests_and_never_answers_shows_within_a_minute_and_is_well_again_when_it_answers() {
    let settings = settings::Settings::from_arguments(["--nats", "nats://127.0.0.1:1"]).unwrap();
    let longest = Settings { watch_seconds: 50, ..Settings::default() };
    for settings_of_watches in [Settings::default(), longest] {
        let publisher = Arc::new(Publisher::new(queue::connect(&settings).await.unwrap()));
        let (mood, moods) = watch::channel(Mood::Answers);
        let stop = CancellationToken::new();
        for watched in Watched::ALL {
            let (client, settings) = (cluster(moods.clone()), settings_of_watches.clone());
            tokio::spawn(weir_watch_publisher::watch::run(watched, client, settings, publisher.clone(), stop.clone()));
        }
        // As the process itself looks: once a second.
        let look = async |what: &str, ready: bool, most: u64| {
            let began = Instant::now();
            while publisher.readiness().is_ok() != ready {
                assert!(began.elapsed() <= Duration::from_secs(most), "{what}: {:?}", publisher.readiness());
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            began.elapsed()
        };
        look("all is listed", true, 5).await;
        let hung = Instant::now();
        mood.send_replace(Mood::Hangs);
        look("it hangs", false, 61).await;
        let reason = publisher.readiness().unwrap_err();
        assert!(reason.contains("has failed for"), "{reason}");
        println!("noticed after {:?} with watches of {} s", hung.elapsed(), settings_of_watches.watch_seconds);
        mood.send_replace(Mood::Answers);
        look("it answers again", true, 60).await;
        // And quiet as it is, it stays well: one watch after the other ends in silence, and is opened again.
        let quiet = Instant::now();
        while quiet.elapsed() < Duration::from_secs(600) {
            assert_eq!(publisher.readiness(), Ok(()), "after {:?}", quiet.elapsed());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        stop.cancel();
    }
}
