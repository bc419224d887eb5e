//! SQS, as far as Lambda shows it: events of a FIFO queue in their real shape, and a queue that heeds the answers.

use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use uuid::Uuid;
use weir_api::ObjectRef;
use weir_messages::{Cause, Envelope, Work};

/// The most that SQS hands over at once from a FIFO queue.
const BATCH: usize = 10;

/// A message as it was sent to the queue.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: String,
    pub group: String,
    pub body: String,
    pub attributes: Vec<(String, String)>,
    received: u32,
}

impl Message {
    /// A message with this body and nothing else.
    pub fn new(group: &str, body: impl Into<String>) -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            group: group.to_owned(),
            body: body.into(),
            attributes: vec![],
            received: 0,
        }
    }

    /// An envelope in binary mode, in the group of its object.
    pub fn about(object: &ObjectRef) -> Self {
        Self::of(&Envelope::new("/test", Work::new(object.clone(), Cause::Changed), None))
    }

    /// An envelope in binary mode, in the group of its object.
    pub fn of(envelope: &Envelope) -> Self {
        let encoded = envelope.encode().expect("an envelope");
        let mut message =
            Self::new(&envelope.work.object.to_string(), String::from_utf8(encoded.payload).expect("JSON"));
        message.attributes = encoded.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert!(message.attributes.len() <= 10, "SQS takes ten attributes");
        message
    }

    #[must_use]
    pub fn in_group(mut self, group: &str) -> Self {
        group.clone_into(&mut self.group);
        self
    }

    fn record(&self, sequence: usize) -> Value {
        let attribute = |value: &str| json!({"stringValue": value, "stringListValues": [], "binaryListValues": [], "dataType": "String"});
        let attributes = self.attributes.iter().map(|(name, value)| (name.clone(), attribute(value)));
        json!({
            "messageId": self.id,
            "receiptHandle": "AQEBXmhbmVjZXNzYXJ5IGJ1dCBvcGFxdWU=",
            "body": self.body,
            "attributes": {
                "ApproximateReceiveCount": self.received.to_string(),
                "AWSTraceHeader": "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=0",
                "SentTimestamp": "1795000000774",
                "SequenceNumber": format!("188494964604676{sequence:05}"),
                "MessageGroupId": self.group,
                "SenderId": "AIDAIO23YVJENQZJOL4VO",
                "MessageDeduplicationId": self.id,
                "ApproximateFirstReceiveTimestamp": "1795000000774"
            },
            "messageAttributes": attributes.collect::<serde_json::Map<_, _>>(),
            "md5OfMessageAttributes": "00484c68f5b7f1a6e0e0f9b0f0f1d8a2",
            "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:weir.fifo",
            "awsRegion": "eu-central-1"
        })
    }
}

/// The event for some messages.
pub fn event(messages: &[Message]) -> Value {
    let records = messages.iter().enumerate().map(|(sequence, message)| message.record(sequence));
    json!({ "Records": records.collect::<Vec<_>>() })
}

/// The ids that an answer reports as failed, in its order.
pub fn failed(answer: &Value) -> Vec<String> {
    let failures = answer["batchItemFailures"].as_array().unwrap_or_else(|| panic!("no answer to SQS: {answer}"));
    failures.iter().map(|failure| failure["itemIdentifier"].as_str().expect("an id").to_owned()).collect()
}

/// A FIFO queue. Nothing of a group is handed over while something of it is in flight.
#[derive(Default)]
pub struct Fifo {
    waiting: VecDeque<Message>,
    in_flight: Vec<Message>,
}

impl Fifo {
    pub fn send(&mut self, message: Message) {
        self.waiting.push_back(message);
    }

    /// The next batch, if there is anything to hand over.
    pub fn receive(&mut self) -> Vec<Message> {
        let busy: BTreeSet<String> = self.in_flight.iter().map(|message| message.group.clone()).collect();
        let (mut batch, mut rest) = (vec![], VecDeque::new());
        for mut message in self.waiting.drain(..) {
            if batch.len() < BATCH && !busy.contains(&message.group) {
                message.received += 1;
                batch.push(message);
            } else {
                rest.push_back(message);
            }
        }
        self.waiting = rest;
        self.in_flight.extend(batch.iter().cloned());
        batch
    }

    /// Deletes what was handed over, except for what `failed` names: that is handed over again, in its old order.
    pub fn answered(&mut self, batch: &[Message], failed: &[String]) {
        self.in_flight.retain(|message| !batch.iter().any(|done| done.id == message.id));
        for message in batch.iter().rev().filter(|message| failed.contains(&message.id)) {
            self.waiting.push_front(message.clone());
        }
    }
}
