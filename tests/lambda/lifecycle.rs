//! Start, freeze, and a NATS that goes away.

use crate::batches::structured;
use crate::emulator::Answer;
use crate::room::{Room, TIMEOUT, eventually};
use crate::sqs::{self, Message};
use nix::sys::signal::Signal;
use serde_json::json;
use std::time::{Duration, Instant};
use weir_api::{Kind, ObjectRef};
use weir_harness::World;
use weir_harness::cluster::KINDS;
use weir_harness::process::Process;

/// Proves: L-1
#[tokio::test(flavor = "multi_thread")]
async fn every_function_serves_lambda_when_lambda_starts_it() {
    let room = Room::new().await;
    for kind in KINDS.into_iter().chain([Kind::ServerMonitor]) {
        let lambda = room.started(kind).await;
        let nobody = ObjectRef::new(kind, World::NAMESPACE, "nobody");
        let gone = Answer::Response(json!({"object": nobody.to_string(), "outcome": "gone"}));
        assert_eq!(lambda.invoke(structured(&nobody)).await, gone, "{kind}\n{}", lambda.process.log());
    }
}

/// Proves: L-1
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_is_told_to_lambda_with_the_reason() {
    let room = Room::new().await;
    let lambda = room.lambda(Kind::Identity).await;
    let mut process = lambda.process.env("KUBECONFIG", room.kubeconfig().with_file_name("missing"));
    process.start().expect("it starts");
    let (kind, body) = lambda.api.failed_start().await;
    assert_eq!(kind, "Weir.start");
    assert!(body["errorMessage"].as_str().is_some_and(|message| message.contains("KUBECONFIG")), "{body}");
    eventually("the process has ended", async || process.ended().is_some()).await;
    assert_eq!(process.ended().and_then(|status| status.code()), Some(1));
}

/// Proves: L-1
#[tokio::test(flavor = "multi_thread")]
async fn a_setting_that_is_refused_is_told_without_its_value() {
    let room = Room::new().await;
    let lambda = room.lambda(Kind::Identity).await;
    let mut process = lambda.process.env("WEIR_NATS_URL", "nats://me:hunter2@localhost");
    process.start().expect("it starts");
    let (_, body) = lambda.api.failed_start().await;
    assert!(body["errorMessage"].as_str().is_some_and(|message| message.contains("--nats")), "{body}");
    eventually("the process has ended", async || process.ended().is_some()).await;
    assert!(
        !body.to_string().contains("hunter2") && !process.log().contains("hunter2"),
        "a password is nobody's to read"
    );
}

/// Proves: L-3, Q-14
#[tokio::test(flavor = "multi_thread")]
async fn while_nats_is_away_records_fail_in_time_and_are_worked_on_when_it_is_back() {
    let mut room = Room::new().await;
    let lambda = room.started(Kind::Identity).await;
    let object = room.identity("patient").await;
    assert_eq!(lambda.batch(&[Message::about(&object)]).await, Vec::<String>::new());
    room.nats.kill();
    let (answer, took) = lambda.api.invoke(sqs::event(&[Message::about(&object)]), Duration::from_secs(3)).await;
    assert!(matches!(answer, Answer::Error(ref kind, _) if kind == "Weir.queue"), "{answer:?} after {took:?}");
    room.nats.lose_everything().expect("killed");
    room.nats.restart().expect("restarted");
    // Its first invocation finds no streams, and makes them.
    assert_eq!(lambda.batch(&[Message::about(&object)]).await, Vec::<String>::new());
}

/// Proves: L-3
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_frozen_while_nats_restarted_works_at_once_when_it_is_thawed() {
    let mut room = Room::new().await;
    let lambda = room.started(Kind::Identity).await;
    let object = room.identity("frozen").await;
    assert_eq!(lambda.batch(&[Message::about(&object)]).await, Vec::<String>::new());
    // Between two invocations, as Lambda does it.
    lambda.process.signal(Signal::SIGSTOP).expect("frozen");
    room.nats.kill();
    room.nats.restart().expect("restarted");
    lambda.process.signal(Signal::SIGCONT).expect("thawed");
    assert_eq!(lambda.batch(&[Message::about(&object)]).await, Vec::<String>::new());
}

/// Proves: L-3, Q-4
#[tokio::test(flavor = "multi_thread")]
async fn an_environment_that_is_killed_in_mid_call_is_replaced_by_another_and_nothing_is_made_twice() {
    let room = Room::new().await;
    let mut first = room.started(Kind::Identity).await;
    let object = room.identity("killed").await;
    let slow = weir_openstack_sim::Fault::new(weir_openstack_sim::Action::Latency(300));
    room.world.cloud.faults().add(slow).expect("a fault");
    let message = Message::about(&object);
    let killed = async {
        eventually("something is made", async || room.world.made().contains_key("projects")).await;
        first.process.kill();
    };
    tokio::select! {
        answer = first.api.invoke(sqs::event(std::slice::from_ref(&message)), TIMEOUT) => panic!("{answer:?}"),
        () = killed => {}
    }
    room.world.cloud.faults().clear();
    let second = room.started(Kind::Identity).await;
    // As SQS does it: delivered again until it is done. The lease of the dead one has to expire first.
    eventually("it is done", async || second.batch(std::slice::from_ref(&message)).await.is_empty()).await;
    assert_eq!(room.reason(&object).await.as_deref(), Some("Provisioned"));
    assert_eq!((room.world.made()["projects"], room.world.made()["users"]), (1, 1));
}

/// Seconds of processor time that a process has had so far.
fn processor_time(process: &Process) -> f64 {
    let id = process.pid().expect("it runs");
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("its statistics");
    // After the name, in parentheses, the 12th and 13th fields are the ticks in user and system mode, 100 to a second.
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name") + 2..].split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

/// In a release build it is the time that counts. A debug build is run beside other tests, which make it wait; so there the
/// same bound is held to the work, in processor time, which a start that does something needless shows as well.
///
/// Proves: L-5
#[tokio::test(flavor = "multi_thread")]
async fn a_cold_start_is_quick() {
    const BOUND: Duration = if cfg!(debug_assertions) { Duration::from_secs(10) } else { Duration::from_millis(150) };
    const WORK: f64 = 0.15;
    let room = Room::new().await;
    let object = room.identity("cold").await;
    let (mut times, mut work) = (vec![], vec![]);
    for run in 0..6 {
        let mut lambda = room.lambda(Kind::Identity).await;
        let begun = Instant::now();
        lambda.process.start().expect("it starts");
        let answer = lambda.invoke(structured(&object)).await;
        assert!(matches!(answer, Answer::Response(_)), "{answer:?}\n{}", lambda.process.log());
        // The first finds everything cold: simulators, streams, the file's pages.
        if run > 0 {
            times.push(begun.elapsed());
            work.push(processor_time(&lambda.process));
        }
    }
    times.sort();
    work.sort_by(f64::total_cmp);
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("cold start, {build} build: {:?}, {} s of processor time", times[times.len() / 2], work[work.len() / 2]);
    assert!(times[times.len() / 2] < BOUND, "{times:?}");
    assert!(work[work.len() / 2] < WORK, "{work:?} s of processor time");
}
