//! What befalls the way to NATS, as opposed to NATS itself: delays, cuts, refusals, black holes.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use tempfile::TempDir;
use weir_messages::Lane;

use crate::processes::{Worker, created, lines, until_created, until_lines};
use crate::proxy::{Proxy, Weather};
use crate::support::{Rig, changed, eventually, until_all_is_quiet};

async fn proxy(rig: &Rig) -> Proxy {
    Proxy::start(SocketAddr::from(([127, 0, 0, 1], rig.nats.port()))).await.unwrap()
}

fn url(proxy: &Proxy) -> String {
    format!("nats://{}", proxy.address())
}

/// Proves: Q-4
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_nats_has_vanished_from_writes_nothing_once_another_may() {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let way = proxy(&rig).await;
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    fs::write(path.join("hold"), "").unwrap();
    let cut_off = Worker::start_at(&url(&way), path, "", "");
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    until_lines(path, "calls", 1).await;
    way.set(Weather::BlackHole);
    fs::remove_file(path.join("hold")).unwrap();
    // The process runs on, and its connection looks as it always did.
    let other = Worker::start(&rig, path, "", "");
    until_created(path, 1).await;
    fs::write(path.join("go"), "").unwrap();
    let late = until_lines(path, "late", 1).await;
    assert_eq!(late, [format!("refused {}", cut_off.id())]);
    until_lines(path, "done", 1).await;
    // What it had said into the hole (renewals, signs of life) arrives now, and changes nothing.
    way.set(Weather::Fair);
    until_all_is_quiet(&queue).await;
    assert_eq!(created(path), ["a"], "one create");
    queue.publish(changed("b"), Lane::Urgent, None, None).await.unwrap();
    drop(other);
    until_lines(path, "done", 2).await;
    until_all_is_quiet(&queue).await;
    assert_eq!(created(path), ["a", "b"], "and it is of use again");
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_way_to_nats_does_nothing_is_lost_and_nothing_made_twice() {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let way = proxy(&rig).await;
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let workers = [Worker::start_at(&url(&way), path, "", ""), Worker::start_at(&url(&way), path, "", "")];
    let mut sent = 0;
    let mut send = async |many: usize| {
        for _ in 0..many {
            queue.publish(changed(&format!("a{sent}")), Lane::Urgent, None, None).await.unwrap();
            sent += 1;
        }
        sent
    };
    let all = send(5).await;
    until_created(path, all).await;
    way.set(Weather::Slow(Duration::from_millis(100)));
    let all = send(5).await;
    until_created(path, all).await;
    way.set(Weather::Fair);
    // In mid-call, in mid-acknowledgement, in the middle of a request: it is cut at no particular moment.
    for _ in 0..15 {
        send(1).await;
        tokio::time::sleep(Duration::from_millis(70)).await;
        way.cut();
    }
    let all = send(1).await;
    until_created(path, all).await;
    way.set(Weather::Refusing);
    send(5).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    way.set(Weather::Fair);
    let all = send(1).await;
    until_created(path, all).await;
    // Longer than a lease lives, with calls in hand.
    send(5).await;
    way.set(Weather::BlackHole);
    tokio::time::sleep(Duration::from_secs(4)).await;
    way.set(Weather::Fair);
    let all = send(1).await;
    until_created(path, all).await;
    until_all_is_quiet(&queue).await;
    drop(workers);
    let names = created(path);
    let mut once = names.clone();
    once.dedup();
    assert_eq!((once.len(), names.len()), (all, all), "each created once: {names:?}");
    let mut done = lines(path, "done");
    done.sort();
    done.dedup();
    assert_eq!(done.len(), all, "each brought to its end");
}

/// Proves: Q-14
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_reach_nats_does_not_spin_whatever_the_reason() {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let way = proxy(&rig).await;
    let folder = TempDir::new().unwrap();
    let worker = Worker::start_at(&url(&way), folder.path(), "", "");
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    until_lines(folder.path(), "done", 1).await;
    // The black hole is longer than it takes to give a silent peer up and to try again in vain.
    for (weather, seconds) in
        [(Weather::Slow(Duration::from_millis(300)), 4), (Weather::Refusing, 4), (Weather::BlackHole, 18)]
    {
        way.set(weather);
        let before = worker.processor_time();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let used = worker.processor_time() - before;
        assert!(
            used < 0.1 * f64::from(u32::try_from(seconds).unwrap()),
            "{used} s of processor time in {seconds} s: {weather:?}"
        );
        way.set(Weather::Fair);
        let before = lines(folder.path(), "done").len();
        queue.publish(changed(&format!("b{seconds}-{before}")), Lane::Urgent, None, None).await.unwrap();
        until_lines(folder.path(), "done", before + 1).await;
    }
}

/// What a worker is without for a minute.
#[derive(Clone, Copy, Debug)]
enum Outage {
    /// The server, which comes back with what it had.
    Killed,
    /// The server, which comes back with nothing.
    Emptied,
    /// The way there, which swallows everything.
    Silent,
}

/// A worker process lives through a minute of `outage`, and then goes on as if nothing had been.
async fn outlives(outage: Outage) {
    let mut rig = Rig::hurried();
    let (queue, way) = (rig.queue().await, proxy(&rig).await);
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let mut worker = Worker::start_at(&url(&way), path, "--concurrency 4", "");
    queue.publish(changed("before"), Lane::Urgent, None, None).await.unwrap();
    until_lines(path, "done", 1).await;
    // Its calls are cut off in the middle, and more waits.
    for n in 0..12 {
        queue.publish(changed(&format!("a{n}")), Lane::ALL[n % 2], None, None).await.unwrap();
    }
    until_created(path, 3).await;
    match outage {
        Outage::Killed => rig.nats.kill(),
        Outage::Emptied => rig.nats.lose_everything().unwrap(),
        Outage::Silent => way.set(Weather::BlackHole),
    }
    let before = worker.processor_time();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let used = worker.processor_time() - before;
    assert!(used < 3.0, "{used} s of processor time in a minute without NATS: {outage:?}");
    match outage {
        Outage::Killed | Outage::Emptied => rig.nats.restart().unwrap(),
        Outage::Silent => way.set(Weather::Fair),
    }
    eventually("a publication", || async { queue.publish(changed("after"), Lane::Urgent, None, None).await.ok() })
        .await;
    let mut all: Vec<String> = (0..12).map(|n| format!("a{n}")).chain(["before", "after"].map(str::to_owned)).collect();
    all.sort();
    if matches!(outage, Outage::Emptied) {
        // What a server has lost it has lost; who goes through Kubernetes' list again puts it back.
        for name in &all {
            queue.publish(changed(name), Lane::Routine, None, None).await.unwrap();
        }
    }
    eventually("everything to be done", || {
        let mut done = lines(path, "done");
        done.sort();
        done.dedup();
        std::future::ready((done == all).then_some(()))
    })
    .await;
    until_all_is_quiet(&queue).await;
    assert_eq!(created(path), all, "each created once: {outage:?}");
    assert!(worker.runs(), "it was never started again");
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_outlives_a_minute_without_nats_and_one_of_silence_and_one_after_which_the_server_has_nothing() {
    tokio::join!(outlives(Outage::Killed), outlives(Outage::Emptied), outlives(Outage::Silent));
}
