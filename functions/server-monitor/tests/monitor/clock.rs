//! The clock, on a real NATS server.

use crate::world::World;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use weir_api::Kind;
use weir_function_runtime::queue::{self, Queue, WORK};
use weir_function_runtime::settings::Settings;
use weir_function_runtime::worker;
use weir_harness::nats::NatsServer;
use weir_server_monitor::{Monitor, schedule};

const SCHEDULE: &str = "timer.every.server-monitor.weir.region-a";
const PATIENCE: Duration = Duration::from_secs(30);

async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn sequence(queue: &Queue) -> Option<u64> {
    let stream = queue.jetstream().get_stream(WORK).await.unwrap();
    stream.get_last_raw_message_by_subject(SCHEDULE).await.ok().map(|message| message.sequence)
}

/// Proves: MON-1
#[tokio::test(flavor = "multi_thread")]
async fn a_region_ticks_until_it_is_gone_and_a_monitor_that_was_away_catches_up() {
    let nats = NatsServer::start().unwrap();
    let world = World::start().await;
    let tenant = world.tenant(0).await;
    world.object(&tenant, "web").await;
    world.server(&tenant, "web", None).await;
    let settings = Settings::from_arguments(["--nats", &nats.url(), "--grace", "1s"]).unwrap();
    let queue = queue::connect(&settings).await.unwrap();
    queue.connected().await;
    queue.ensure().await.unwrap();
    let client = world.function_client.clone();
    let mut begun = BTreeSet::new();
    schedule::keep(&client, &queue, Duration::from_secs(1), &mut begun).await.unwrap();
    let set = sequence(&queue).await.expect("there is a schedule");
    schedule::keep(&client, &queue, Duration::from_secs(1), &mut begun).await.unwrap();
    assert_eq!(sequence(&queue).await, Some(set), "a schedule that is there is left alone");
    let (mut begun_by_another, minute) = (BTreeSet::new(), Duration::from_secs(60));
    schedule::keep(&client, &queue, minute, &mut begun_by_another).await.unwrap();
    let anothers = sequence(&queue).await;
    assert_ne!(anothers, Some(set), "one that starts has it at its own interval");
    schedule::keep(&client, &queue, Duration::from_secs(1), &mut begun).await.unwrap();
    assert_eq!(sequence(&queue).await, anothers, "and those that run do not fight over that");
    queue.jetstream().get_stream(WORK).await.unwrap().purge().await.unwrap();
    schedule::keep(&client, &queue, Duration::from_secs(1), &mut begun).await.unwrap();
    assert!(sequence(&queue).await > anothers, "one that is gone is set again");
    // Ticks pass while no monitor runs; that is one look late, and nothing lost.
    world.cloud.advance(Duration::from_secs(60));
    let stop = CancellationToken::new();
    let monitor = Arc::new(Monitor::new(client.clone(), world.provider.clone(), Arc::new(queue.clone())));
    let task = tokio::spawn({
        let (queue, settings, stop) = (queue.clone(), settings.clone(), stop.clone());
        async move { worker::run(monitor, queue, &settings, stop).await }
    });
    until("the first look", async || world.shown("web").await.1 == "Running").await;
    world.settle();
    until("more looks, one after the other", async || world.asked("GET", "/servers/detail") >= 3).await;
    assert!(world.kubernetes.requests().changes(|_| true) == 0, "looks without news write nothing");
    world.delete(Kind::Region, weir_harness::World::REGION).await;
    until("the schedule goes with its region", async || {
        schedule::keep(&client, &queue, Duration::from_secs(1), &mut BTreeSet::new()).await.unwrap();
        sequence(&queue).await.is_none()
    })
    .await;
    stop.cancel();
    task.await.unwrap().unwrap();
}
