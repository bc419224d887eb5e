//! Direct invocation, with one envelope.

use crate::batches::structured;
use crate::emulator::Answer;
use crate::room::{Room, TIMEOUT};
use nix::sys::signal::Signal;
use serde_json::json;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::lease::{self, Acquired};
use weir_harness::World;

fn refused(answer: Answer) -> String {
    match answer {
        Answer::Error(kind, _) => kind,
        other => panic!("{other:?}"),
    }
}

/// Proves: L-2
#[tokio::test(flavor = "multi_thread")]
async fn one_envelope_is_one_call_whose_outcome_is_told_and_what_cannot_be_done_is_an_error() {
    let room = Room::new().await;
    let lambda = room.started(Kind::Identity).await;
    let object = room.identity("direct").await;
    let outcome = |outcome: &str| Answer::Response(json!({"object": object.to_string(), "outcome": outcome}));
    assert_eq!(lambda.invoke(structured(&object)).await, outcome("settled"));
    assert_eq!(room.reason(&object).await.as_deref(), Some("Provisioned"));

    let Ok(Acquired::Lease(holder)) = lease::acquire(&room.queue, &object).await else { panic!("no lease") };
    assert_eq!(refused(lambda.invoke(structured(&object)).await), "Weir.contended");
    holder.release().await;
    assert_eq!(lambda.invoke(structured(&object)).await, outcome("settled"));

    let network = ObjectRef::new(Kind::Network, World::NAMESPACE, "a-network");
    assert_eq!(refused(lambda.invoke(structured(&network)).await), "Weir.wrong-function");
    let mut unknown = structured(&object);
    unknown["data"]["object"]["kind"] = json!("teapot");
    assert_eq!(refused(lambda.invoke(unknown).await), "Weir.unknown-kind");
    for nonsense in [json!(null), json!([]), json!({}), json!({"Records": 1}), json!({"Records": [{}]})] {
        assert_eq!(refused(lambda.invoke(nonsense).await), "Weir.event");
    }
    let from_s3 = json!({"Records": [{"eventSource": "aws:s3", "messageId": "1"}]});
    assert_eq!(refused(lambda.invoke(from_s3).await), "Weir.event");
    assert_eq!(lambda.invoke(structured(&object)).await, outcome("settled"), "and it goes on");
    assert!(room.dead().await.is_empty(), "whoever invokes has been told");
}

/// Proves: L-3
#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_stored_before_the_answer_since_the_process_may_be_frozen_after_it() {
    let room = Room::new().await;
    let lambda = room.lambda(Kind::Identity).await;
    let mut process = lambda.process.env("WEIR_RECORD", "all");
    process.start().expect("it starts");
    let object = room.identity("recorded").await;
    let answer = lambda.api.invoke(structured(&object), TIMEOUT).await.0;
    process.signal(Signal::SIGSTOP).expect("frozen");
    assert!(matches!(answer, Answer::Response(_)), "{answer:?}");
    let mut traces = room.queue.jetstream().get_stream("TRACES").await.expect("TRACES");
    assert_eq!(traces.info().await.expect("info").state.messages, 1);
}
