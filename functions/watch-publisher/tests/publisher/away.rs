//! Nothing is lost, whoever is away (W-3).

use crate::rig::{Ear, IDENTITY, PATIENCE, Rig, held, id, of_kind, server, until, uuid};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use weir_api::Kind;
use weir_function_runtime::queue::{DEAD, EVENTS, Queue, REQUESTS, WORK};
use weir_function_runtime::timer::{self, Repeating};
use weir_harness::world::{identity, network};
use weir_kube_sim::{Action, Disruption, Fault};
use weir_messages::{Cause, Lane, subject};
use weir_watch_publisher::Settings;
use weir_watch_publisher::watched::Watched;

const NETWORKS: &str = r"networks\.region\.unikorn-cloud\.org";

/// Proves: W-3
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_nats_is_away_is_published_when_it_is_back() {
    let mut rig = Rig::start().await;
    let publisher = rig.publisher().await;
    rig.world.apply(&held(identity(IDENTITY))).await;
    rig.world.apply(&network("last", IDENTITY)).await;
    rig.world.apply(&of_kind(Kind::Network, "edited")).await;
    until("nothing to wait", || publisher.publisher.sizes().1 == 0).await;
    drop(Ear::consumer(&rig.queue().await).await);

    rig.nats.kill();
    let mut expected = Vec::new();
    for n in 0..100 {
        expected.push(rig.world.apply(&of_kind(Kind::Network, &format!("n{n}"))).await);
    }
    for n in 0..50 {
        rig.change(Kind::Network, "edited", json!({"metadata": {"annotations": {"n": n.to_string()}}})).await;
    }
    expected.push(rig.world.get(Kind::Network, "edited").await.unwrap());
    rig.world.delete(Kind::Identity, IDENTITY).await;
    rig.world.delete(Kind::Network, "last").await;
    publisher.knows(Watched::Network, "last", false).await;
    // All changes of one object wait as one message: a hundred new ones, one edited, two deleted that wake each other.
    until("all to wait", || publisher.publisher.sizes().1 >= 100).await;
    assert!(publisher.publisher.sizes().1 <= 105, "{:?}", publisher.publisher.sizes());

    rig.nats.restart().unwrap();
    let ear = Ear::consumer(&rig.queue().await).await;
    for object in &expected {
        ear.hear("a change", |heard| heard.id.as_ref() == Some(&id(object))).await;
    }
    // Whether for itself or for its last network: what waits for one object is one message.
    ear.hear("the identity", |heard| heard.object.kind == Kind::Identity).await;
    assert!(
        ear.heard().iter().filter(|heard| heard.object.name.starts_with('n')).all(|heard| heard.lane == Lane::Urgent)
    );
    publisher.stop().await;
}

/// Proves: W-3
#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_that_starts_while_nats_is_away_publishes_when_it_is_there() {
    let mut rig = Rig::start().await;
    rig.nats.kill();
    let publisher = rig.publisher_with(rig.world.client.clone(), &Settings::default()).await;
    rig.world.apply(&of_kind(Kind::Network, &uuid("n"))).await;
    rig.nats.restart().unwrap();
    let ear = Ear::consumer(&rig.queue().await).await;
    ear.hear("the network", |heard| heard.object.name == uuid("n")).await;
    publisher.stop().await;
}

/// Proves: W-3, W-5
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_no_publisher_runs_is_published_by_the_next_one() {
    let rig = Rig::start().await;
    let ear = Ear::consumer(&rig.queue().await).await;
    let first = rig.publisher().await;
    rig.world.apply(&held(identity("goes"))).await;
    rig.world.apply(&network("last", "goes")).await;
    rig.world.apply(&network(&uuid("n"), IDENTITY)).await;
    rig.world.apply(&server("waits", "n", &[], None)).await;
    rig.world.apply(&of_kind(Kind::Network, "edited")).await;
    rig.world.delete(Kind::Identity, "goes").await;
    let deleting = rig.world.get(Kind::Identity, "goes").await.unwrap();
    ear.hear("the deletion", |heard| heard.id == Some(id(&deleting))).await;
    for name in ["waits", "edited", "last"] {
        ear.hear(name, |heard| heard.object.name == name).await;
    }
    first.stop().await;
    ear.forget();

    // Of the first two, the object to wake is as it was when it was published a moment ago: only what it waits for is not.
    rig.world.delete(Kind::Network, "last").await;
    rig.available(Kind::Network, &uuid("n"), "Provisioned").await;
    rig.change(Kind::Network, "edited", json!({"metadata": {"annotations": {"a": "b"}}})).await;
    rig.world.apply(&of_kind(Kind::Network, "new")).await;
    let second = rig.publisher().await;
    for name in ["goes", "waits", "edited", "new"] {
        let heard = ear.hear(name, |heard| heard.object.name == name).await;
        assert_eq!(heard.lane, Lane::Routine);
    }
    second.stop().await;
}

/// Proves: W-3, W-5, W-2
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_before_a_410_in_mid_watch_is_published_after_it() {
    let rig = Rig::start().await;
    let ear = Ear::consumer(&rig.queue().await).await;
    let publisher = rig.publisher().await;
    rig.world.apply(&held(identity("goes"))).await;
    rig.world.apply(&network("last", "goes")).await;
    rig.world.apply(&network(&uuid("n"), IDENTITY)).await;
    rig.world.apply(&server("waits", "n", &[], None)).await;
    rig.world.apply(&server("waits-longer", "late", &[], None)).await;
    rig.world.apply(&of_kind(Kind::Network, "edited")).await;
    rig.world.delete(Kind::Identity, "goes").await;
    for (watched, name) in [(Watched::Network, "edited"), (Watched::Server, "waits-longer")] {
        publisher.knows(watched, name, true).await;
    }
    let deleting = rig.world.get(Kind::Identity, "goes").await.unwrap();
    ear.hear("the deletion", |heard| heard.id == Some(id(&deleting))).await;

    // The watch breaks and cannot be resumed; when it can, its position is too old.
    let faults = rig.world.kubernetes.faults();
    let refused = faults.add(Fault::status(500).verb("watch").resource(NETWORKS)).unwrap();
    let end = Fault::new(Action::Watch { disruption: Disruption::End { after_ms: 0 } });
    faults.add(end.resource(NETWORKS).times(1)).unwrap();
    until("the watch to have been refused", || {
        faults.list().iter().any(|fault| fault.id == refused && fault.strikes > 0)
    })
    .await;
    ear.forget();
    rig.world.delete(Kind::Network, "last").await;
    rig.available(Kind::Network, &uuid("n"), "Provisioned").await;
    rig.change(Kind::Network, "edited", json!({"metadata": {"annotations": {"a": "b"}}})).await;
    rig.world.apply(&network(&uuid("late"), IDENTITY)).await;
    rig.available(Kind::Network, &uuid("late"), "Provisioned").await;
    let gone = Fault::new(Action::Watch { disruption: Disruption::Gone });
    let gone = faults.add(gone.resource(NETWORKS).times(1)).unwrap();
    faults.remove(refused);

    for name in ["goes", "waits", "waits-longer", "edited", &uuid("late")] {
        let heard = ear.hear(name, |heard| heard.object.name == name).await;
        assert_eq!(heard.lane, Lane::Routine, "{heard:?}");
    }
    assert!(faults.list().iter().any(|fault| fault.id == gone && fault.strikes == 1), "the 410 has not struck");
    ear.forget();
    rig.fence(&ear, Kind::Network).await;
    publisher.stop().await;
}

/// Proves: W-3
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_stays_open_and_delivers_nothing_is_noticed() {
    let rig = Rig::start().await;
    let ear = Ear::consumer(&rig.queue().await).await;
    let line = Line::to(rig.world.kubernetes.url()).await;
    let mut config = kube::Config::new(line.url.parse().unwrap());
    config.auth_info.token = Some(rig.world.kubernetes.token().to_owned().into());
    let settings = Settings { watch_seconds: 2, ..Settings::default() };
    let publisher = rig.publisher_with(kube::Client::try_from(config).unwrap(), &settings).await;
    publisher.ready().await;
    rig.world.apply(&of_kind(Kind::Network, "before")).await;
    ear.hear("what was before", |heard| heard.object.name == "before").await;

    line.freeze();
    rig.world.apply(&of_kind(Kind::Network, "unheard")).await;
    rig.world.delete(Kind::Network, "before").await;
    ear.hear("the change", |heard| heard.object.name == "unheard" && heard.cause == Cause::Changed).await;
    publisher.knows(Watched::Network, "before", false).await;
    publisher.stop().await;
}

/// A line to a server on which nothing arrives any more when it is frozen. Those that are opened later work.
struct Line {
    url: String,
    frozen: Arc<std::sync::Mutex<CancellationToken>>,
}

impl Line {
    async fn to(url: &str) -> Self {
        let target = url.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let frozen = Arc::new(std::sync::Mutex::new(CancellationToken::new()));
        let current = frozen.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (target, frozen) = (target.clone(), current.lock().unwrap().clone());
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(target).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        // Both ends stay open, and nobody reads.
                        () = frozen.cancelled() => std::future::pending().await,
                    }
                });
            }
        });
        Self { url, frozen }
    }

    fn freeze(&self) {
        std::mem::take(&mut *self.frozen.lock().unwrap()).cancel();
    }
}

/// Proves: Q-14, W-3
#[tokio::test(flavor = "multi_thread")]
async fn what_a_queue_has_forgotten_is_published_again_though_nothing_has_changed() {
    let mut rig = Rig::start().await;
    let publisher = rig.publisher().await;
    publisher.ready().await;
    let ear = Ear::consumer(&rig.queue().await).await;
    for word in ["a", "b"] {
        rig.world.apply(&of_kind(Kind::Network, word)).await;
        ear.hear("its creation", |heard| heard.object.name == word).await;
    }
    drop(ear);
    rig.nats.kill();
    rig.nats.lose_everything().unwrap();
    rig.nats.restart().unwrap();
    let ear = Ear::consumer(&rig.queue().await).await;
    for word in ["a", "b"] {
        let heard = ear.hear("what was lost", |heard| heard.object.name == word).await;
        assert_eq!((heard.lane, heard.cause), (Lane::Routine, Cause::Listed));
    }
    // Nor is a stream missed that goes while the connection stays.
    drop(ear);
    let queue = rig.queue().await;
    queue.jetstream().delete_stream(WORK).await.unwrap();
    queue.ensure().await.unwrap();
    let ear = Ear::consumer(&queue).await;
    for word in ["a", "b"] {
        ear.hear("what was in the stream", |heard| heard.object.name == word && heard.cause == Cause::Listed).await;
    }
    publisher.stop().await;
}

/// The sequence and the interval of a schedule that is there.
async fn schedule(queue: &Queue, kind: Kind) -> Option<(u64, String)> {
    let stream = queue.jetstream().get_stream(WORK).await.ok()?;
    let there = stream.get_last_raw_message_by_subject(&subject::tick_schedule(kind)).await.ok()?;
    Some((there.sequence, there.headers.get("Nats-Schedule")?.as_str().to_owned()))
}

/// Polls until `kind` has a schedule that `fits`.
async fn scheduled(queue: &Queue, kind: Kind, fits: impl Fn(&str) -> bool) -> u64 {
    let look = async {
        loop {
            match schedule(queue, kind).await {
                Some((sequence, interval)) if fits(&interval) => return sequence,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("a schedule")
}

/// Nothing told of a purge: the stream is the same, and the objects and the schedules of their resyncs were gone for good.
///
/// Proves: Q-14, Q-17, W-3
#[tokio::test(flavor = "multi_thread")]
async fn what_was_purged_is_published_again_and_its_schedules_are_set_again() {
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    let ear = Ear::consumer(&queue).await;
    let publishers = [rig.publisher().await, rig.publisher().await];
    for word in ["a", "b"] {
        rig.world.apply(&of_kind(Kind::Network, word)).await;
        ear.hear("its creation", |heard| heard.object.name == word).await;
    }
    for kind in weir_harness::cluster::KINDS {
        scheduled(&queue, kind, |interval| interval == "@every 1800s").await;
    }
    ear.forget();
    // What it has just held, the stream may know by their ids still.
    queue.jetstream().get_stream(WORK).await.unwrap().purge().await.unwrap();
    for word in ["a", "b"] {
        let heard = ear.hear(word, |heard| heard.object.name == word && heard.cause == Cause::Listed).await;
        assert_eq!(heard.lane, Lane::Routine);
    }
    for kind in weir_harness::cluster::KINDS {
        scheduled(&queue, kind, |interval| interval == "@every 1800s").await;
    }
    for publisher in publishers {
        publisher.stop().await;
    }
}

/// Proves: Q-14, Q-17, W-4
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_is_deleted_or_overwritten_is_set_again_and_one_of_another_interval_is_left_alone() {
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    let publisher = rig.publisher().await;
    let stream = queue.jetstream().get_stream(WORK).await.unwrap();
    let [first, .., last] = weir_harness::cluster::KINDS;
    let before = scheduled(&queue, last, |_| true).await;
    scheduled(&queue, first, |_| true).await;
    // As another publisher has it, that was started later.
    let hourly = Duration::from_secs(3600);
    assert!(timer::repeat(&queue, &Repeating::Tick(first), hourly).await.unwrap());
    let others = schedule(&queue, first).await;
    let put = queue.jetstream().publish(subject::tick_schedule(last), "abc".into()).await.unwrap();
    let junk = put.await.unwrap().sequence;
    assert!(junk > before);
    let mended = scheduled(&queue, last, |interval| interval == "@every 1800s").await;
    assert!(mended > junk);
    assert!(stream.delete_message(mended).await.unwrap());
    assert!(scheduled(&queue, last, |interval| interval == "@every 1800s").await > mended);
    assert_eq!(schedule(&queue, first).await, others, "both looks have passed it by");
    publisher.stop().await;
}

/// Only the server writes into these, and it tells nobody that they are gone.
///
/// Proves: Q-14
#[tokio::test(flavor = "multi_thread")]
async fn streams_that_nobody_would_miss_are_made_again() {
    let rig = Rig::start().await;
    let queue = rig.queue().await;
    let publisher = rig.publisher().await;
    for stream in [EVENTS, REQUESTS, DEAD] {
        queue.jetstream().delete_stream(stream).await.unwrap();
    }
    let made = async {
        while !queue.absent().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, made).await.expect("the streams");
    publisher.stop().await;
}
