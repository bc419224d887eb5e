//! Batches of SQS: which records fail, and that nothing else is touched by it.

use crate::room::{Room, eventually};
use crate::sqs::{Fifo, Message};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::lease::{self, Acquired};
use weir_function_runtime::queue::Redriven;
use weir_harness::{World, world};
use weir_messages::{Cause, Envelope, Lane, Work};

/// Proves: L-1, L-2, L-6, Q-4
#[tokio::test(flavor = "multi_thread")]
async fn a_record_whose_object_is_held_elsewhere_fails_with_what_follows_it_in_its_group_and_nothing_else() {
    let room = Room::new().await;
    let lambda = room.started(Kind::Identity).await;
    let (free, held) = (room.identity("free").await, room.identity("held").await);
    let (behind, also_free) = (room.identity("behind").await, room.identity("also-free").await);
    let Ok(Acquired::Lease(holder)) = lease::acquire(&room.queue, &held).await else { panic!("no lease") };
    let batch = [
        Message::about(&free).in_group("one"),
        Message::about(&held).in_group("two"),
        Message::about(&behind).in_group("two"),
        Message::about(&also_free).in_group("three"),
        Message::about(&held).in_group("two"),
    ];
    let failed = lambda.batch(&batch).await;
    assert_eq!(
        failed,
        [&batch[1], &batch[2], &batch[4]].map(|message| message.id.clone()),
        "in the order of the batch"
    );
    assert_eq!(room.reason(&free).await.as_deref(), Some("Provisioned"));
    assert_eq!(room.reason(&also_free).await.as_deref(), Some("Provisioned"));
    assert_eq!(room.reason(&held).await, None, "it was left to the holder of its lease");
    assert_eq!(room.reason(&behind).await, None, "a message group keeps its order");
    holder.release().await;
    // As SQS does it: only what failed is delivered again.
    let again: Vec<Message> = batch.into_iter().filter(|message| failed.contains(&message.id)).collect();
    assert_eq!(lambda.batch(&again).await, Vec::<String>::new());
    assert_eq!(room.reason(&held).await.as_deref(), Some("Provisioned"));
    assert_eq!(room.reason(&behind).await.as_deref(), Some("Provisioned"));
    assert_eq!(room.world.made()["projects"], 4, "each was made once");
    assert!(!room.leased().await, "all leases are released before the answer");
}

/// Proves: L-2, Q-10
#[tokio::test(flavor = "multi_thread")]
async fn records_that_cannot_be_understood_become_dead_letters_and_hold_up_nobody() {
    let room = Room::new().await;
    let lambda = room.started(Kind::Identity).await;
    let good = room.identity("good").await;
    let mut from_the_future = Message::about(&good).in_group("one");
    for (name, value) in &mut from_the_future.attributes {
        if name == "ce-type" {
            "weir.work.v99".clone_into(value);
        }
    }
    let another_kind = ObjectRef::new(Kind::Network, World::NAMESPACE, "a-network");
    let batch = [
        Message::new("one", "\u{0}not an envelope\r\n"),
        from_the_future.clone(),
        Message::about(&another_kind).in_group("one"),
        Message::about(&good).in_group("one"),
    ];
    assert_eq!(lambda.batch(&batch).await, Vec::<String>::new(), "none is to be delivered again");
    assert_eq!(room.reason(&good).await.as_deref(), Some("Provisioned"), "behind three bad ones in its group");
    let dead = room.dead().await;
    let header = |at: usize, name: &str| dead[at].headers.get(name).map(|value| value.as_str().to_owned());
    let reasons: Vec<_> = (0..dead.len()).map(|at| header(at, "Weir-Dead-Reason").unwrap_or_default()).collect();
    assert_eq!(reasons, ["missing-header", "future-version", "wrong-function"]);
    assert_eq!(dead[0].payload, batch[0].body, "its bytes are kept");
    assert_eq!(dead[1].payload, from_the_future.body);
    assert_eq!(header(1, "Weir-Original-ce-type").as_deref(), Some("weir.work.v99"));
    let subject = format!("work.urgent.network.{}.a-network", World::NAMESPACE);
    assert_eq!(header(2, "Weir-Dead-Subject"), Some(subject), "so that it can be sent again, to the right function");
    // Delivered once more, because the answer was lost: it is not buried twice.
    assert_eq!(lambda.batch(&batch[..1]).await, Vec::<String>::new());
    assert_eq!(room.dead().await.len(), 3);

    // Each can be sent again or dropped: one that tells its object as it is, one that does not for an object that is named.
    let numbers: Vec<u64> = dead.iter().map(|letter| letter.sequence).collect();
    assert_eq!(room.queue.redrive(numbers[0]).await.unwrap(), Redriven::Foreign, "{:?}", dead[0].headers);
    let sent = |outcome| matches!(outcome, Redriven::Sent { .. });
    assert!(sent(room.queue.redrive_for(numbers[0], &another_kind).await.unwrap()));
    assert!(sent(room.queue.redrive(numbers[1]).await.unwrap()));
    assert!(room.queue.drop_letter(numbers[2]).await.unwrap());
    assert!(room.dead().await.is_empty());
    let mut subjects = room.subjects().await;
    subjects.sort();
    let subject = |object: &ObjectRef| weir_messages::subject::work(Lane::Urgent, object).unwrap();
    assert_eq!(subjects, [subject(&good), subject(&another_kind)]);
}

/// Proves: L-2, Q-3
#[tokio::test(flavor = "multi_thread")]
async fn ten_records_for_one_object_cost_one_call() {
    let room = Room::new().await;
    let lambda = room.started(Kind::Identity).await;
    let object = room.identity("busy").await;
    let batch: Vec<Message> = (0..10).map(|_| Message::about(&object)).collect();
    assert_eq!(lambda.batch(&batch).await, Vec::<String>::new());
    assert_eq!(room.reason(&object).await.as_deref(), Some("Provisioned"));
    assert_eq!(lambda.process.log().matches("outcome=\"settled\"").count(), 1, "{}", lambda.process.log());
}

/// What brings messages from NATS to SQS where only Lambdas run: takes them from `WORK`, and acknowledges them when SQS has
/// them.
async fn bridge(room: &Room, kind: Kind, fifo: &Mutex<Fifo>) {
    let stream = room.queue.jetstream().get_stream("WORK").await.expect("WORK");
    let config = async_nats::jetstream::consumer::pull::Config {
        durable_name: Some(format!("sqs-{kind}")),
        filter_subject: format!("work.*.{kind}.>"),
        ..Default::default()
    };
    let consumer = stream.create_consumer(config).await.expect("a consumer");
    let mut messages = consumer.messages().await.expect("messages");
    while let Some(Ok(message)) = futures::StreamExt::next(&mut messages).await {
        let headers = message.headers.clone().unwrap_or_default();
        let (_, envelope) = Envelope::decode_on(
            &message.subject,
            |name| headers.get(name).map(async_nats::HeaderValue::as_str),
            &message.payload,
        )
        .expect("an envelope");
        fifo.lock().unwrap().send(Message::of(&envelope));
        message.ack().await.expect("acknowledged");
    }
}

/// What Lambda does for a queue: batch after batch, answer after answer.
async fn mapping(lambda: &crate::room::Lambda, fifo: &Mutex<Fifo>) {
    loop {
        let batch = fifo.lock().unwrap().receive();
        if batch.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        }
        let failed = lambda.batch(&batch).await;
        fifo.lock().unwrap().answered(&batch, &failed);
    }
}

/// Proves: L-1, L-3
#[tokio::test(flavor = "multi_thread")]
async fn lambdas_alone_bring_up_and_remove_an_identity_and_its_network_with_timers_on_nats() {
    let room = Room::new().await;
    let kinds = [Kind::Identity, Kind::Network];
    let lambdas = [room.started(Kind::Identity).await, room.started(Kind::Network).await];
    let queues: [Mutex<Fifo>; 2] = Default::default();
    let objects = [
        ObjectRef::new(Kind::Identity, World::NAMESPACE, "identity-a"),
        ObjectRef::new(Kind::Network, World::NAMESPACE, "network-a"),
    ];
    let told = async || {
        for object in &objects {
            room.queue.publish(Work::new(object.clone(), Cause::Changed), Lane::Urgent, None, None).await.unwrap();
        }
    };
    let made = || -> BTreeMap<String, usize> { room.world.made() };
    let story = async {
        // The network first, so that it has to wait for its identity: that it is looked at again is a timer's doing.
        room.world.apply(&world::network("network-a", "identity-a")).await;
        room.queue.publish(Work::new(objects[1].clone(), Cause::Changed), Lane::Urgent, None, None).await.unwrap();
        eventually("the network waits", async || room.reason(&objects[1]).await.is_some()).await;
        assert_ne!(room.reason(&objects[1]).await.as_deref(), Some("Provisioned"));
        room.world.apply(&world::identity("identity-a")).await;
        room.queue.publish(Work::new(objects[0].clone(), Cause::Changed), Lane::Urgent, None, None).await.unwrap();
        for object in &objects {
            let what = format!("{object} is provisioned");
            eventually(&what, async || room.reason(object).await.as_deref() == Some("Provisioned")).await;
        }
        assert_eq!((made()["projects"], made()["networks"], made()["subnets"]), (1, 1, 1));
        eventually("no work and no timer is left", async || room.subjects().await.is_empty()).await;
        for kind in kinds.iter().rev() {
            let object = objects.iter().find(|object| object.kind == *kind).unwrap();
            room.world.delete(object.kind, &object.name).await;
        }
        told().await;
        eventually("all is gone", async || {
            room.world.get(Kind::Identity, "identity-a").await.is_none()
                && room.world.get(Kind::Network, "network-a").await.is_none()
        })
        .await;
        assert_eq!(made(), BTreeMap::new(), "nothing is left in the cloud");
    };
    tokio::select! {
        () = story => {}
        () = async { tokio::join!(bridge(&room, kinds[0], &queues[0]), bridge(&room, kinds[1], &queues[1])); } => panic!("a bridge ended"),
        () = async { tokio::join!(mapping(&lambdas[0], &queues[0]), mapping(&lambdas[1], &queues[1])); } => unreachable!(),
    }
}

/// Proves: L-2
#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_in_structured_mode_is_as_good_in_a_record() {
    let room = Room::new().await;
    let lambda = room.started(Kind::Identity).await;
    let object = room.identity("structured").await;
    let body = structured(&object);
    assert_eq!(lambda.batch(&[Message::new("one", body.to_string())]).await, Vec::<String>::new());
    assert_eq!(room.reason(&object).await.as_deref(), Some("Provisioned"));
    assert!(room.dead().await.is_empty());
}

/// An envelope in structured mode.
pub fn structured(object: &ObjectRef) -> Value {
    let envelope = Envelope::new("/test", Work::new(object.clone(), Cause::Requested), None);
    let mut event = json!({"specversion": "1.0", "id": envelope.id, "source": "/test", "type": "weir.work.v1",
        "datacontenttype": "application/json", "data": envelope.work});
    if let Some(traceparent) = envelope.traceparent {
        event["traceparent"] = json!(traceparent.to_string());
    }
    event
}
