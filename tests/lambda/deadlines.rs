//! The deadline of an invocation.

use crate::emulator::Answer;
use crate::room::{Room, SOON};
use crate::sqs::{self, Message};
use std::time::{Duration, Instant};
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::reconcile::Reconciler;
use weir_function_runtime::worker::{Call, Handler, Verdict};
use weir_harness::{World, world};
use weir_identity::Identities;
use weir_messages::{Cause, Work};
use weir_openstack_sim::{Action, Fault};

/// Proves: L-4
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_does_not_fit_into_one_invocation_is_carried_on_by_the_next_ones_and_makes_nothing_twice() {
    /// Such that all requests together take longer than an invocation, and a look at what is there does not: whoever gives
    /// a function less time than it needs to look gets nowhere.
    const LATENCY: u64 = 200;
    let room = Room::new().await;
    let lambda = room.started(Kind::Identity).await;
    let object = room.identity("slow").await;
    let timeout = Duration::from_secs(4);
    room.world.cloud.faults().add(Fault::new(Action::Latency(LATENCY))).expect("a fault");
    let until = Instant::now() + SOON;
    let mut invocations = 0;
    let timer = format!("timer.identity.{}.slow", World::NAMESPACE);
    while room.reason(&object).await.as_deref() != Some("Provisioned") {
        assert!(
            Instant::now() < until,
            "{:?}\n{}",
            room.world.condition(Kind::Identity, "slow").await,
            lambda.process.log()
        );
        let (answer, took) = lambda.api.invoke(sqs::event(&[Message::about(&object)]), timeout).await;
        let Answer::Response(answer) = answer else { panic!("{answer:?} after {took:?}\n{}", lambda.process.log()) };
        assert!(took < timeout, "answered after {took:?}");
        assert_eq!(sqs::failed(&answer), Vec::<String>::new(), "what was done is done, the rest is a timer's");
        assert!(!room.leased().await, "the lease is released before the answer");
        invocations += 1;
        let (reason, message) =
            room.world.condition(Kind::Identity, "slow").await.expect("status is written each time");
        let going_on = room.subjects().await.iter().any(|subject| *subject == timer || subject.starts_with("work."));
        assert!(reason == "Provisioned" || going_on, "{reason}: {message}, and nobody will look again");
    }
    println!("{invocations} invocations");
    assert!(invocations > 1, "it must not fit into one");
    room.world.cloud.faults().clear();
    assert_eq!(room.world.made()["projects"], 1);
    assert_eq!(room.world.made()["users"], 1);
}

/// Proves: L-4
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_time_is_up_writes_nothing_to_the_cloud_but_says_in_status_that_it_goes_on() {
    let world = World::new().await;
    world.apply(&world::identity("late")).await;
    let handler = Reconciler::new(Identities, world.function_client.clone(), world.provider.clone());
    let object = ObjectRef::new(Kind::Identity, World::NAMESPACE, "late");
    let mut call = Call::direct(Work::new(object, Cause::Changed));
    call.deadline = Instant::now();
    world.settle();
    assert_eq!(handler.handle(&call).await, Verdict::After { delay: Duration::from_secs(1) });
    assert_eq!(world.writes().1, 0, "nothing was begun in the cloud");
    let (reason, message) = world.condition(Kind::Identity, "late").await.expect("status is written");
    assert_eq!(reason, "Provisioning");
    assert!(message.contains("going on"), "{message}");
}

/// Proves: L-4
#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_does_not_answer_at_all_costs_a_retry_and_not_the_invocation() {
    let room = Room::new().await;
    let lambda = room.started(Kind::Identity).await;
    let object = room.identity("stuck").await;
    let id =
        room.world.cloud.faults().add(Fault::new(Action::Latency(20_000)).on("POST", "/projects$")).expect("a fault");
    let timeout = Duration::from_secs(3);
    let (answer, took) = lambda.api.invoke(sqs::event(&[Message::about(&object)]), timeout).await;
    assert!(room.world.cloud.faults().fired(id) > 0, "the fault has struck");
    let Answer::Response(answer) = answer else { panic!("{answer:?} after {took:?}\n{}", lambda.process.log()) };
    assert_eq!(sqs::failed(&answer), Vec::<String>::new());
    let (reason, message) = room.world.condition(Kind::Identity, "stuck").await.expect("status is written");
    assert_eq!(reason, "Errored", "{message}");
    assert!(
        lambda.process.log().contains("outcome=\"failed\""),
        "it is retried with back-off:\n{}",
        lambda.process.log()
    );
}
