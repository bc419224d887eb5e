//! The server monitor, invoked by a clock: each invocation is a tick, and looks at all servers of a region once.

use crate::batches::structured;
use crate::emulator::Answer;
use crate::room::{Lambda, Room, eventually};
use crate::sqs::{self, Message};
use serde_json::{Value, json};
use std::time::Duration;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::lease::{self, Acquired};
use weir_harness::World;
use weir_harness::process::{Process, built};
use weir_harness::world::{links, object};
use weir_openstack_sim::{Action, Fault};

fn region() -> ObjectRef {
    ObjectRef::new(Kind::ServerMonitor, World::NAMESPACE, World::REGION)
}

/// What a scheduler sends, always the same: as the template has it.
pub fn tick() -> Value {
    json!({
        "specversion": "1.0", "id": "tick", "source": "/schedule", "type": "weir.work.v1",
        "data": {"object": {"kind": "server-monitor", "namespace": World::NAMESPACE, "name": World::REGION}, "cause": "resync"}
    })
}

/// A region in which an identity has a project, and a Server object that has no server.
async fn with_server(room: &Room) -> Lambda {
    let identities = room.started(Kind::Identity).await;
    let owner = room.identity("owner").await;
    assert!(matches!(identities.invoke(structured(&owner)).await, Answer::Response(_)));
    let bootstrap = room.world.cloud.bootstrap();
    let spec = json!({"flavorID": bootstrap.flavors[0].0, "image": {"id": bootstrap.images[0].0},
        "networks": [{"id": "b0000000-0000-4000-8000-000000000001"}]});
    room.world.apply(&object(Kind::Server, "web", &links("owner"), spec)).await;
    room.started(Kind::ServerMonitor).await
}

/// What the server shows as, which is the monitor's to write.
async fn active(room: &Room) -> Option<String> {
    let server = room.world.get(Kind::Server, "web").await?;
    let conditions = server.data["status"]["conditions"].as_array()?.clone();
    let active = conditions.into_iter().find(|condition| condition["type"] == "Active")?;
    active["reason"].as_str().map(str::to_owned)
}

/// Proves: L-1, L-2, L-3, MON-1
#[tokio::test(flavor = "multi_thread")]
async fn an_invocation_is_a_tick_and_two_of_one_region_are_never_at_work_at_once() {
    let room = Room::new().await;
    let monitor = with_server(&room).await;
    let settled = Answer::Response(json!({"object": region().to_string(), "outcome": "settled"}));
    assert_eq!(monitor.invoke(tick()).await, settled);
    assert_eq!(active(&room).await.as_deref(), Some("Pending"));
    assert!(!room.leased().await, "the lease is released before the answer");
    assert_eq!(room.subjects().await, [""; 0], "whoever invokes is the clock: no timer, no schedule");

    let Ok(Acquired::Lease(holder)) = lease::acquire(&room.queue, &region()).await else { panic!("no lease") };
    match monitor.invoke(tick()).await {
        Answer::Error(kind, _) => assert_eq!(kind, "Weir.contended"),
        other => panic!("{other:?}"),
    }
    assert_eq!(monitor.batch(&[Message::about(&region())]).await.len(), 1, "nor by way of SQS");
    holder.release().await;
    assert_eq!(monitor.batch(&[Message::about(&region())]).await, Vec::<String>::new());
    assert_eq!(monitor.invoke(tick()).await, settled, "the very same event, again");
}

/// Proves: L-4
#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_does_not_fit_into_an_invocation_ends_in_time_and_leaves_the_rest_to_the_next_tick() {
    let room = Room::new().await;
    let monitor = with_server(&room).await;
    let stuck = Fault::new(Action::Latency(20_000)).on("GET", "/servers/detail$");
    let stuck = room.world.cloud.faults().add(stuck).expect("a fault");
    let timeout = Duration::from_secs(3);
    for event in [tick(), sqs::event(&[Message::about(&region())])] {
        let (answer, took) = monitor.api.invoke(event, timeout).await;
        assert!(matches!(answer, Answer::Response(_)), "{answer:?} after {took:?}\n{}", monitor.process.log());
    }
    assert!(room.world.cloud.faults().fired(stuck) >= 2, "the fault has struck");
    assert!(monitor.process.log().contains("out of time"), "{}", monitor.process.log());
    assert_eq!(active(&room).await, None);
    assert_eq!(room.subjects().await, [""; 0], "it is no failed call: the next tick is the retry");
    assert!(!room.leased().await);
    room.world.cloud.faults().clear();
    assert!(matches!(monitor.invoke(tick()).await, Answer::Response(_)));
    assert_eq!(active(&room).await.as_deref(), Some("Pending"));
}

/// Proves: L-3
#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_has_changed_something_is_recorded_before_the_answer() {
    let room = Room::new().await;
    drop(with_server(&room).await);
    let lambda = room.lambda(Kind::ServerMonitor).await;
    let mut process = lambda.process.env("WEIR_RECORD", "all");
    process.start().expect("it starts");
    let answer = lambda.api.invoke(tick(), crate::room::TIMEOUT).await.0;
    process.signal(nix::sys::signal::Signal::SIGSTOP).expect("frozen");
    assert!(matches!(answer, Answer::Response(_)), "{answer:?}");
    let mut traces = room.queue.jetstream().get_stream("TRACES").await.expect("TRACES");
    assert_eq!(traces.info().await.expect("info").state.messages, 1);
}

/// Proves: L-1
#[tokio::test(flavor = "multi_thread")]
async fn the_watch_publisher_refuses_to_run_on_lambda_and_tells_lambda_and_whoever_starts_it_why() {
    let room = Room::new().await;
    let lambda = room.lambda(Kind::Identity).await;
    let environment = lambda.api.environment().into_iter();
    let process = Process::new("watch-publisher", built("watch-publisher"), room.kubeconfig().parent().unwrap());
    let mut process = environment.fold(process, |process, (name, value)| process.env(name, value));
    process.start().expect("it starts");
    let (kind, body) = lambda.api.failed_start().await;
    assert_eq!(kind, "Weir.start");
    let message = body["errorMessage"].as_str().expect("a message");
    assert!(message.contains("does not run on Lambda") && message.contains("watches"), "{message}");
    eventually("the process has ended", async || process.ended().is_some()).await;
    assert_eq!(process.ended().and_then(|status| status.code()), Some(1));
    assert!(process.log().contains("does not run on Lambda") && process.log().contains("watches"), "{}", process.log());
}
