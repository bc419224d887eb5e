//! What is recorded reaches its stream, within its bounds, and costs a call little.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _};
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::{self, Queue};
use weir_function_runtime::record::past::Past;
use weir_function_runtime::record::{Mode, Recorder};
use weir_function_runtime::settings::Settings;
use weir_function_runtime::worker::Call;
use weir_harness::nats::NatsServer;
use weir_harness::{World, world};
use weir_messages::{Cause, Lane, Work, recording};

use crate::must_replay;
use crate::studio::{IDENTITY, Studio};

/// A queue to which everything is recorded.
async fn of(nats: &NatsServer) -> (Settings, Queue) {
    let settings = Settings::from_arguments(["--nats", &nats.url(), "--record", "all"]).unwrap();
    let queue = queue::connect(&settings).await.unwrap();
    queue.connected().await;
    queue.ensure().await.unwrap();
    (settings, queue)
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn recordings_and_events_reach_their_streams_which_stay_within_their_bounds() {
    let nats = NatsServer::start().unwrap();
    let settings = Settings::from_arguments(["--nats", &nats.url(), "--record", "all", "--record-size", "1"]).unwrap();
    let queue = queue::connect(&settings).await.unwrap();
    queue.connected().await;
    queue.ensure().await.unwrap();
    let studio = Studio::open().await;
    let object = ObjectRef::new(Kind::Region, World::NAMESPACE, World::REGION);
    let work = Work::new(object.clone(), Cause::Changed);
    queue.publish(work.clone(), Lane::Urgent, None, None).await.unwrap();
    let region = studio.function(Kind::Region, Recorder::of(&settings, &queue));
    let mut calls = 0;
    let bytes = async || {
        let mut stream = queue.jetstream().get_stream(queue::TRACES).await.unwrap();
        let state = stream.info().await.unwrap().state.clone();
        (state.bytes, state.first_sequence)
    };
    // Until the oldest have had to go.
    while bytes().await.1 <= 1 {
        for _ in 0..20 {
            region.handle(&Call::direct(work.clone())).await;
        }
        region.flush().await;
        calls += 20;
        assert!(calls < 5000, "the stream is never full: {:?}", bytes().await);
    }
    let (held, first) = bytes().await;
    println!("{calls} calls: {held} bytes are kept, from number {first} on");
    assert!(held <= 1 << 20, "{held}");
    let mut past = Past::calls(&queue, [recording::filter(&object).unwrap()], None).await.unwrap();
    let mut last = None;
    while let Some(call) = past.call().await.unwrap() {
        last = Some(call);
    }
    let last = last.expect("a call");
    must_replay(&last).await;
    let mut one = Past::calls(&queue, [recording::filter_id(&last.id)], None).await.unwrap();
    assert_eq!(one.call().await.unwrap(), Some(last));
    let mut events = Past::events(&queue, None).await.unwrap();
    let event = events.event().await.unwrap().expect("what was published is an event");
    assert_eq!((event.work, event.lane), (work, Lane::Urgent));
    assert!(events.event().await.unwrap().is_none(), "once");
    // The same of events.
    let publish = |number: usize| {
        let (queue, object) =
            (queue.clone(), ObjectRef::new(Kind::Server, World::NAMESPACE, format!("server-{number}")));
        async move { queue.publish(Work::new(object, Cause::Changed), Lane::Urgent, None, None).await.map(drop) }
    };
    futures::stream::iter(0..4000).map(publish).buffer_unordered(64).try_collect::<()>().await.unwrap();
    let began = Instant::now();
    loop {
        let mut stream = queue.jetstream().get_stream(queue::EVENTS).await.unwrap();
        let state = stream.info().await.unwrap().state.clone();
        assert!(state.bytes <= 512 << 10, "{} bytes", state.bytes);
        if state.first_sequence > 1 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the stream is never full: {state:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Proves: R-1
#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_kept_is_counted_and_told_of_by_what_follows() {
    let mut nats = NatsServer::start().unwrap();
    let (settings, queue) = of(&nats).await;
    let studio = Studio::open().await;
    let object = ObjectRef::new(Kind::Region, World::NAMESPACE, World::REGION);
    let region = studio.function(Kind::Region, Recorder::of(&settings, &queue));
    let call = async || {
        region.handle(&Call::direct(Work::new(object.clone(), Cause::Changed))).await;
        region.flush().await;
    };
    call().await;
    nats.kill();
    for _ in 0..3 {
        region.handle(&Call::direct(Work::new(object.clone(), Cause::Changed))).await;
    }
    // They are given up after some seconds, whatever the client of NATS does with them when the server is back.
    let began = Instant::now();
    let lost = || metrics("weir_recordings_total{outcome=\"failed\"}");
    while lost() < 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "they are never given up");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    nats.restart().unwrap();
    queue.connected().await;
    loop {
        call().await;
        let mut past = Past::calls(&queue, [recording::filter(&object).unwrap()], None).await.unwrap();
        let mut counts = vec![];
        while let Some(call) = past.call().await.unwrap() {
            counts.push(call.lost);
        }
        if counts.last().is_some_and(|lost| *lost >= 3) {
            assert_eq!(counts[0], 0, "{counts:?}");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(90), "{counts:?}");
    }
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn recordings_whose_stream_is_deleted_by_hand_get_it_again() {
    let nats = NatsServer::start().unwrap();
    let (settings, queue) = of(&nats).await;
    let studio = Studio::open().await;
    let object = ObjectRef::new(Kind::Region, World::NAMESPACE, World::REGION);
    let region = studio.function(Kind::Region, Recorder::of(&settings, &queue));
    queue.jetstream().delete_stream(queue::TRACES).await.unwrap();
    region.handle(&Call::direct(Work::new(object.clone(), Cause::Changed))).await;
    region.flush().await;
    let past = Past::calls(&queue, [recording::filter(&object).unwrap()], None).await.unwrap();
    assert_eq!(past.left(), 1);
}

/// What this process exposes of a series.
fn metrics(series: &str) -> u64 {
    let text = weir_function_runtime::telemetry::metrics::render();
    text.lines().filter_map(|line| line.strip_prefix(series)?.trim().parse::<u64>().ok()).sum()
}

/// Proves: R-7
#[tokio::test(flavor = "multi_thread")]
async fn recording_costs_a_call_little() {
    let studio = Studio::open().await;
    studio.world.apply(&world::identity(IDENTITY)).await;
    studio.settle(Kind::Identity, IDENTITY).await;
    let (recorder, _kept) = Recorder::collecting(Mode::All);
    let work = Work::new(ObjectRef::new(Kind::Identity, World::NAMESPACE, IDENTITY), Cause::Changed);
    let mut took = [Vec::new(), Vec::new()];
    // In turn, so that whatever else this machine does falls on both alike.
    for _ in 0..60 {
        for (at, recorder) in [Recorder::off(), recorder.clone()].into_iter().enumerate() {
            let function = studio.function(Kind::Identity, recorder);
            let begun = Instant::now();
            function.handle(&Call::direct(work.clone())).await;
            took[at].push(begun.elapsed());
        }
    }
    let [off, on] = took.map(|mut took| {
        took.sort_unstable();
        took[took.len() / 2]
    });
    let cost = (on.as_secs_f64() / off.as_secs_f64() - 1.0) * 100.0;
    let nats = NatsServer::start().unwrap();
    let (settings, queue) = of(&nats).await;
    let recorder = Recorder::of(&settings, &queue);
    let mut rates = [0.0, 0.0];
    for _ in 0..3 {
        for (at, recorder) in [Recorder::off(), recorder.clone()].into_iter().enumerate() {
            let function = studio.function(Kind::Identity, recorder);
            let begun = Instant::now();
            // Eight at a time, on one object, which rests.
            for _ in 0..10 {
                let calls = [(); 8].map(|()| Call::direct(work.clone()));
                futures::future::join_all(calls.iter().map(|call| function.handle(call))).await;
            }
            function.flush().await;
            rates[at] += 80.0 / begun.elapsed().as_secs_f64() / 3.0;
        }
    }
    println!("{:.0} calls a second unrecorded, {:.0} recorded into the stream", rates[0], rates[1]);
    println!("a call takes {off:?} unrecorded and {on:?} recorded, its redaction included: {cost:+.1} %");
    // Generous: a debug build on a busy machine, and against simulators that answer at once. What is printed counts.
    assert!(on < off * 2 + Duration::from_millis(20), "{on:?} against {off:?}");
}
