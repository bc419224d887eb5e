//! What there is to be seen on the queue, read from its messages.
//!
//! Invariant: a message that cannot be understood is shown all the same, with why; reading never fails.

use async_nats::jetstream::message::StreamMessage;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use weir_api::ObjectRef;
use weir_messages::{Cause, Envelope, Lane, lease, subject};

use super::{Consumer, LEASE_KEYS};

/// A part of a list, and how much there is.
#[derive(Clone, Debug, Serialize)]
pub struct Listing<T> {
    /// As many as were asked for, at most.
    pub items: Vec<T>,
    /// How many there are in all.
    pub total: u64,
}

/// The queue at a glance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The server's time.
    pub now: Timestamp,
    /// What waits and what is in hand, by kind and lane.
    pub lanes: Vec<Depth>,
    /// How many timers are set; none if their stream is missing.
    pub timers: Option<u64>,
    /// How many leases are held; none if their stream is missing.
    pub leases: Option<u64>,
    /// How many dead letters are kept; none if their stream is missing.
    pub dead: Option<u64>,
    /// The streams that are not there, so that what they hold does not show.
    pub missing: Vec<&'static str>,
}

/// How much there is of one kind in one lane.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Depth {
    /// The kind's token, as it stands in the subject.
    pub kind: String,
    /// The lane's token, as it stands in the subject.
    pub lane: String,
    /// Messages that nobody has been given yet.
    pub waiting: u64,
    /// Messages that somebody has been given and has not acknowledged. One that was given back is among them until it is
    /// given out again; one that a newer message for its object has replaced is not, though its call may go on: for that see
    /// [`working`](Self::working).
    pub in_flight: u64,
    /// How many messages may be in flight, over all processes; none when there is no limit.
    pub most: Option<u64>,
    /// Objects of the kind that are being worked on, whichever lane asked for it, and by whomever: the leases that are held.
    pub working: u64,
    /// When the oldest message that is still there was stored.
    pub oldest: Option<Timestamp>,
    /// The durable consumer that takes them; none when no function ever has.
    pub consumer: Option<String>,
    /// Requests for messages that wait at the consumer: one or two for each idle worker.
    pub requests: u64,
    /// Messages in hand that have been given out more than once.
    pub redelivered: u64,
    /// Whether the consumer has been paused by hand.
    pub paused: bool,
}

impl Depth {
    pub(super) fn of(consumer: &Consumer, (lane, kind): (String, String)) -> Self {
        Self {
            waiting: consumer.pending,
            in_flight: consumer.in_flight,
            most: consumer.most,
            consumer: Some(consumer.name.clone()),
            requests: consumer.requests,
            redelivered: consumer.redelivered,
            paused: consumer.paused,
            ..Self::untaken(lane, kind)
        }
    }

    /// One that nobody takes.
    pub(super) fn untaken(lane: String, kind: String) -> Self {
        Self {
            kind,
            lane,
            waiting: 0,
            in_flight: 0,
            most: None,
            working: 0,
            oldest: None,
            consumer: None,
            requests: 0,
            redelivered: 0,
            paused: false,
        }
    }
}

/// A message of work, waiting or in hand.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its sequence in the stream.
    pub sequence: u64,
    /// The subject that it is on.
    pub subject: String,
    /// When it was stored.
    pub stored: Option<Timestamp>,
    /// The object to look at, if the message can be understood.
    pub object: Option<ObjectRef>,
    /// The lane, if the message can be understood.
    pub lane: Option<Lane>,
    /// Why the object is to be looked at.
    pub cause: Option<Cause>,
    /// How many calls for the object have failed in a row.
    pub attempt: u32,
    /// Who wrote it.
    pub source: Option<String>,
    /// The trace it belongs to.
    pub trace: Option<String>,
    /// Why it cannot be understood, when it cannot be.
    pub problem: Option<String>,
}

/// A timer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timer {
    /// Its sequence in the stream.
    pub sequence: u64,
    /// The subject that it is kept on.
    pub subject: String,
    /// The object that it is for, if it is one object's.
    pub object: Option<ObjectRef>,
    /// When it is due; none for one that repeats, and for one that never comes.
    pub due: Option<Timestamp>,
    /// The schedule as it was set; none for what is no timer at all.
    pub schedule: Option<String>,
    /// The subject that it will put its message on.
    pub target: Option<String>,
    /// Why the object will be looked at.
    pub cause: Option<Cause>,
    /// How many calls for the object have failed in a row.
    pub attempt: u32,
}

/// A lease that is held.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// The fencing token.
    pub revision: u64,
    /// The key in the bucket.
    pub key: String,
    /// The object that is being worked on.
    pub object: Option<ObjectRef>,
    /// The process that holds it.
    pub holder: Option<String>,
    /// When it was taken, by the holder's clock.
    pub since: Option<String>,
    /// When it was last renewed.
    pub renewed: Option<Timestamp>,
    /// When it ends unless it is renewed.
    pub expires: Option<Timestamp>,
}

/// A dead letter.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    /// Its sequence in the stream of dead letters: what `weir queue redrive` takes.
    pub sequence: u64,
    /// Why it is here, as a token.
    pub reason: String,
    /// Why it is here, in words.
    pub detail: String,
    /// The subject that it came on.
    pub subject: String,
    /// When it was stored.
    pub stored: Option<Timestamp>,
    /// The process that found it hopeless.
    pub by: String,
    /// Whether it is all there.
    pub complete: bool,
    /// How many bytes it has.
    pub size: usize,
}

/// A message as it is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Raw {
    /// Its sequence in the stream.
    pub sequence: u64,
    /// The subject that it is on.
    pub subject: String,
    /// When it was stored.
    pub stored: Option<Timestamp>,
    /// Names and values, in no order.
    pub headers: Vec<(String, String)>,
    /// The payload as text; what is no text in it is replaced.
    pub text: String,
    /// How many bytes the payload has.
    pub size: usize,
}

/// When a message was stored.
pub(crate) fn stored_at(message: &StreamMessage) -> Option<Timestamp> {
    Timestamp::from_nanosecond(message.time.unix_timestamp_nanos()).ok()
}

fn header<'a>(message: &'a StreamMessage, name: &str) -> Option<&'a str> {
    message.headers.get(name).map(async_nats::HeaderValue::as_str)
}

impl Message {
    pub(super) fn read(message: &StreamMessage) -> Self {
        let decoded = Envelope::decode_on(&message.subject, |name| header(message, name), &message.payload);
        let (lane, envelope, problem) = match decoded {
            Ok((lane, envelope)) => (Some(lane), Some(envelope), None),
            Err(error) => (None, None, Some(error.to_string())),
        };
        let work = envelope.as_ref().map(|envelope| &envelope.work);
        Self {
            sequence: message.sequence,
            subject: message.subject.to_string(),
            stored: stored_at(message),
            object: work.map(|work| work.object.clone()),
            lane,
            cause: work.map(|work| work.cause),
            attempt: work.map(|work| work.attempt).unwrap_or_default(),
            source: envelope.as_ref().map(|envelope| envelope.source.clone()),
            trace: envelope.and_then(|envelope| Some(envelope.traceparent?.trace_id())),
            problem,
        }
    }
}

impl Timer {
    pub(super) fn read(message: &StreamMessage) -> Self {
        let schedule = header(message, "Nats-Schedule").map(str::to_owned);
        let work = Envelope::decode(|name| header(message, name), &message.payload).ok().map(|envelope| envelope.work);
        Self {
            sequence: message.sequence,
            subject: message.subject.to_string(),
            object: work.as_ref().map(|work| work.object.clone()),
            due: schedule.as_deref().and_then(|text| text.strip_prefix("@at ")?.trim().parse().ok()),
            schedule,
            target: header(message, "Nats-Schedule-Target").map(str::to_owned),
            cause: work.as_ref().map(|work| work.cause),
            attempt: work.map(|work| work.attempt).unwrap_or_default(),
        }
    }
}

impl Held {
    pub(super) fn read(message: &StreamMessage, lifetime: Option<SignedDuration>) -> Self {
        let key = message.subject.strip_prefix(LEASE_KEYS).unwrap_or(&message.subject).to_owned();
        let record: Option<lease::Record> = serde_json::from_slice(&message.payload).ok();
        let renewed = stored_at(message);
        Self {
            revision: message.sequence,
            object: subject::parse_lease_key(&key).ok(),
            key,
            holder: record.as_ref().map(|record| record.holder.clone()),
            since: record.map(|record| record.since),
            renewed,
            expires: renewed.zip(lifetime).and_then(|(renewed, lifetime)| renewed.checked_add(lifetime).ok()),
        }
    }
}

impl Letter {
    pub(super) fn read(message: &StreamMessage) -> Self {
        let text = |name: &str| header(message, name).unwrap_or_default().to_owned();
        Self {
            sequence: message.sequence,
            reason: text("Weir-Dead-Reason"),
            detail: text("Weir-Dead-Detail"),
            subject: text("Weir-Dead-Subject"),
            stored: stored_at(message),
            by: text("Weir-Dead-By"),
            complete: header(message, "Weir-Dead-Complete") == Some("true"),
            size: message.payload.len(),
        }
    }
}

impl Raw {
    pub(super) fn read(message: &StreamMessage) -> Self {
        let headers = message
            .headers
            .iter()
            .flat_map(|(name, values)| values.iter().map(move |value| (name.to_string(), value.as_str().to_owned())));
        Self {
            sequence: message.sequence,
            subject: message.subject.to_string(),
            stored: stored_at(message),
            headers: headers.collect(),
            text: String::from_utf8_lossy(&message.payload).into_owned(),
            size: message.payload.len(),
        }
    }
}
