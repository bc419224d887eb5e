//! What Lambda hands over: a batch of SQS, or one envelope.
//!
//! An SQS record holds an envelope in one of the two modes of CloudEvents. *Binary*, as on NATS: each header a message
//! attribute of the same name, the payload the body. *Structured*, for senders that cannot set attributes, and for direct
//! invocation: one JSON object with the attributes under their own names and the payload in `data`.
//!
//! Invariant: each record is read by itself. Whatever is wrong with one has no bearing on the others.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use weir_api::{Kind, ObjectRef};
use weir_messages::envelope::MAX_PAYLOAD;
use weir_messages::{Cause, DecodeError, Envelope, Lane, subject};

use super::Failure;

/// SQS allows ten attributes; anything beyond this many is not looked at.
const MAX_HEADERS: usize = 32;
/// What the attributes of an envelope in structured mode may take, in bytes, besides its data.
const MAX_ATTRIBUTES: usize = 16 * 1024;

/// What the function was invoked with.
#[derive(Debug)]
pub(super) enum Invocation {
    /// Records of SQS, in their order.
    Batch(Vec<Record>),
    /// One envelope, invoked directly.
    Envelope(Raw),
}

/// A record of SQS.
#[derive(Debug)]
pub(super) struct Record {
    /// What SQS calls it, in answers too.
    pub(super) id: String,
    /// The message group, if the queue is a FIFO queue. Records of one group are worked on in their order.
    pub(super) group: Option<String>,
    /// The queue that it came from.
    pub(super) queue: String,
    pub(super) raw: Raw,
    pub(super) content: Result<Envelope, DecodeError>,
}

/// What is needed of a record, in SQS's own words. What is absent may also be `null`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SqsMessage {
    body: Option<String>,
    attributes: Option<HashMap<String, String>>,
    message_attributes: Option<HashMap<String, SqsAttribute>>,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SqsAttribute {
    string_value: Option<String>,
}

/// An envelope that has not been decoded: in binary mode, however it came.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) headers: Vec<(String, String)>,
    pub(super) payload: Vec<u8>,
}

impl Invocation {
    /// Reads the payload of an invocation.
    pub(super) fn read(payload: Value) -> Result<Self, Failure> {
        let Value::Object(mut event) = payload else { return Err(Failure::Event("it is no JSON object")) };
        match event.remove("Records") {
            Some(Value::Array(records)) => {
                records.into_iter().map(Record::read).collect::<Result<_, _>>().map(Self::Batch)
            }
            Some(_) => Err(Failure::Event("Records is no list")),
            None if event.contains_key("specversion") => Ok(Self::Envelope(Raw::structured(event))),
            None => Err(Failure::Event("it has neither Records nor specversion")),
        }
    }
}

impl Record {
    /// Fails only for what is no record of SQS at all, so that nobody could be told about it.
    fn read(record: Value) -> Result<Self, Failure> {
        let source = record.get("eventSource").and_then(Value::as_str);
        if source.is_some_and(|source| source != "aws:sqs") {
            return Err(Failure::Event("a record is not from aws:sqs"));
        }
        let Some(id) = record.get("messageId").and_then(Value::as_str).map(str::to_owned) else {
            return Err(Failure::Event("a record has no messageId"));
        };
        Ok(match serde_json::from_value::<SqsMessage>(record) {
            Ok(message) => {
                let arn = message.event_source_arn.as_deref().unwrap_or_default();
                let queue = arn.rsplit(':').next().unwrap_or_default().to_owned();
                let group = message.attributes.as_ref().and_then(|all| all.get("MessageGroupId")).cloned();
                let raw = Raw::of(message);
                let content = raw.decode();
                Self { id, group, queue, raw, content }
            }
            Err(error) => {
                let content = Err(DecodeError::Json(error.to_string()));
                Self { id, group: None, queue: String::new(), raw: Raw::default(), content }
            }
        })
    }

    /// The object that it is about, if it can be understood.
    pub(super) fn object(&self) -> Option<&ObjectRef> {
        self.content.as_ref().ok().map(|envelope| &envelope.work.object)
    }

    /// The subject that it would have had on NATS, so that a dead letter can be sent there again; or where it came from,
    /// if that cannot be told.
    pub(super) fn subject(&self) -> String {
        let claimed = || {
            let mut parts = self.raw.header("ce-subject")?.split('/');
            let (kind, namespace, name) = (parts.next()?.parse::<Kind>().ok()?, parts.next()?, parts.next()?);
            Some(ObjectRef::new(kind, namespace, name))
        };
        let lane = self.content.as_ref().map_or(Lane::Urgent, lane);
        let object = self.object().cloned().or_else(claimed);
        object.and_then(|object| subject::work(lane, &object).ok()).unwrap_or_else(|| format!("sqs.{}", self.queue))
    }
}

impl Raw {
    fn of(message: SqsMessage) -> Self {
        let body = message.body.unwrap_or_default();
        let headers: Vec<(String, String)> = message
            .message_attributes
            .unwrap_or_default()
            .into_iter()
            .filter(|(name, _)| is_header(name))
            .filter_map(|(name, attribute)| Some((name, attribute.string_value?)))
            .take(MAX_HEADERS)
            .collect();
        let binary = headers.iter().any(|(name, _)| name == "ce-specversion");
        if !binary
            && body.len() <= MAX_PAYLOAD + MAX_ATTRIBUTES
            && let Ok(Value::Object(event)) = serde_json::from_str(&body)
            && event.contains_key("specversion")
        {
            return Self::structured(event);
        }
        Self { headers, payload: body.into_bytes() }
    }

    /// An envelope in structured mode, turned into one in binary mode.
    fn structured(mut event: Map<String, Value>) -> Self {
        let data = event.remove("data").unwrap_or_default();
        let header = |(name, value): (String, Value)| {
            let Value::String(value) = value else { return None };
            let name = match name.as_str() {
                "datacontenttype" => "content-type".to_owned(),
                "traceparent" => name,
                _ => format!("ce-{name}"),
            };
            is_header(&name).then_some((name, value))
        };
        let headers = event.into_iter().filter_map(header).take(MAX_HEADERS).collect();
        Self { headers, payload: data.to_string().into_bytes() }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn decode(&self) -> Result<Envelope, DecodeError> {
        Envelope::decode(|name| self.header(name), &self.payload)
    }
}

/// The characters of SQS's attribute names, all of which may stand in a header's.
fn is_header(name: &str) -> bool {
    !name.is_empty() && name.len() <= 256 && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// The lane of an envelope, which on SQS is not said: what nobody in particular has asked for is routine.
pub(super) fn lane(envelope: &Envelope) -> Lane {
    match envelope.work.cause {
        Cause::Listed | Cause::Resync => Lane::Routine,
        _ => Lane::Urgent,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use serde_json::json;
    use weir_messages::Work;

    #[allow(clippy::needless_pass_by_value)] // reads better at all its callers
    fn read(record: Value) -> Record {
        match Invocation::read(json!({ "Records": [record] })) {
            Ok(Invocation::Batch(mut records)) if records.len() == 1 => records.remove(0),
            other => panic!("{other:?}"),
        }
    }

    fn envelope(cause: Cause) -> Envelope {
        Envelope::new("/test", Work::new(ObjectRef::new(Kind::Server, "ns", "a.b"), cause), None)
    }

    /// A record of a FIFO queue, as Lambda shows it.
    fn record(headers: &[(&str, String)], body: &str) -> Value {
        let attribute =
            |value| json!({"stringValue": value, "stringListValues": [], "binaryListValues": [], "dataType": "String"});
        let attributes = headers.iter().map(|(name, value)| ((*name).to_owned(), attribute(value.clone())));
        json!({"messageId": "11d6ee51-4cc7-4302-9e22-7cd8afdaadf5", "receiptHandle": "AQEB", "body": body,
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1573251510774", "MessageGroupId": "g",
                "SequenceNumber": "18849496460467696128", "SenderId": "A", "MessageDeduplicationId": "1",
                "ApproximateFirstReceiveTimestamp": "1573251510774"},
            "messageAttributes": attributes.collect::<Map<_, _>>(), "md5OfBody": "e4e6", "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-2:123456789012:weir.fifo", "awsRegion": "us-east-2"})
    }

    /// Proves: L-2, L-6
    #[test]
    fn both_modes_of_an_envelope_are_read_alike() {
        let envelope = envelope(Cause::Changed);
        let encoded = envelope.encode().unwrap();
        let binary = read(record(&encoded.headers, std::str::from_utf8(&encoded.payload).unwrap()));
        assert_eq!(binary.content, Ok(envelope.clone()));
        assert_eq!(binary.group.as_deref(), Some("g"));
        let event = json!({"specversion": "1.0", "id": envelope.id, "source": envelope.source, "type": "weir.work.v1",
            "time": envelope.time.unwrap().to_string(), "datacontenttype": "application/json",
            "traceparent": envelope.traceparent.unwrap().to_string(), "data": envelope.work, "subject": "server/ns/a.b"});
        assert_eq!(read(record(&[], &event.to_string())).content, Ok(envelope));
        assert_eq!(binary.subject(), "work.urgent.server.ns.a~b");
    }

    #[test]
    fn what_is_wrong_with_a_record_stays_with_it_and_its_bytes_are_kept() {
        for body in ["", "null", "[", "{\"specversion\": 1}", "{\"specversion\": \"1.0\"}", "\u{0}"] {
            let record = read(record(&[], body));
            assert!(record.content.is_err(), "{body:?}");
            assert_eq!(record.subject(), "sqs.weir.fifo", "{body:?}");
        }
        let absent = read(json!({"messageId": "1", "body": null, "attributes": null, "messageAttributes": null}));
        assert_eq!(absent.content, Err(DecodeError::MissingHeader("ce-specversion")));
        let misshapen = read(json!({"messageId": "1", "body": {"not": "text"}}));
        assert!(matches!(misshapen.content, Err(DecodeError::Json(_))));
        let huge = format!("{{\"specversion\":\"1.0\",\"data\":\"{}\"}}", "x".repeat(MAX_PAYLOAD + MAX_ATTRIBUTES));
        assert!(matches!(
            read(record(&[], &huge)).content,
            Err(DecodeError::MissingHeader(_) | DecodeError::TooLarge(_))
        ));
    }

    #[test]
    fn nothing_becomes_a_header_that_could_not_be_one() {
        let headers =
            [("ce-specversion", "1.0".to_owned()), ("a: b\r\nNats-Rollup", "all".to_owned()), ("", "x".to_owned())];
        let record = read(record(&headers, "{}"));
        assert_eq!(record.raw.headers, [("ce-specversion".to_owned(), "1.0".to_owned())]);
        let event = json!({"specversion": "1.0", "x:y": "z", "n": 1, "data": {}});
        let Ok(Invocation::Envelope(raw)) = Invocation::read(event) else { panic!("no envelope") };
        assert_eq!(raw.headers, [("ce-specversion".to_owned(), "1.0".to_owned())]);
    }

    /// Proves: L-3
    #[test]
    fn what_nobody_in_particular_has_asked_for_is_routine() {
        assert_eq!(lane(&envelope(Cause::Resync)), Lane::Routine);
        assert_eq!(lane(&envelope(Cause::Changed)), Lane::Urgent);
    }
}
