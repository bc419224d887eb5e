//! Looking at the queue without touching it: for `weir queue`, for tests, and for [sweeping](Queue::sweep).
//!
//! Invariants
//! - Nothing here writes, creates or delivers anything; streams that are missing are reported as [`Error::NoStream`].
//! - What is shown came from others. Text is passed on as it was found; whoever prints it makes it harmless first.
//! - Every list has a bound that the caller sets, and says how much there is in all.
//!
//! Caveat: a view is put together from several answers while the queue goes on; its numbers need not add up to the last one.

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessageErrorKind;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use weir_api::{Kind, ObjectRef};
use weir_messages::{Cause, Envelope, Lane, lease, subject};

use super::streams::{Refusal, STREAM_NOT_FOUND};
use super::{DEAD, Error, LEASES_STREAM, Queue, WORK};

/// Beyond any number of subjects: what is asked for from here on is nothing but the count.
const BEYOND: u64 = 1 << 40;
/// The most timers that are read to find those that are due first.
const MOST_TIMERS: usize = 20_000;

/// Which objects to look at. Empty fields stand for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// A lane.
    pub lane: Option<Lane>,
    /// A kind's token; that of a kind which this release does not know will do.
    pub kind: Option<String>,
    /// A namespace.
    pub namespace: Option<String>,
    /// A name.
    pub name: Option<String>,
}

/// A selector that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not KIND, KIND/NAMESPACE or KIND/NAMESPACE/NAME, as in server/default/web-1")]
pub struct BadSelector(String);

impl std::str::FromStr for Selector {
    type Err = BadSelector;

    /// Reads `KIND`, `KIND/NAMESPACE` or `KIND/NAMESPACE/NAME`. A known kind may be named as Kubernetes names it.
    fn from_str(text: &str) -> Result<Self, BadSelector> {
        let bad = || BadSelector(text.chars().take(80).collect());
        let mut parts = text.split('/');
        let mut part = |dots: bool| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || (dots && c == '.');
            match parts.next() {
                None => Ok(None),
                Some(part) if !part.is_empty() && part.len() <= subject::MAX_NAME && part.chars().all(allowed) => {
                    Ok(Some(part.to_owned()))
                }
                Some(_) => Err(bad()),
            }
        };
        let (kind, namespace, name) = (part(false)?, part(true)?, part(true)?);
        if parts.next().is_some() {
            return Err(bad());
        }
        Ok(Self { lane: None, kind: kind.map(|kind| kind_token(&kind)), namespace, name })
    }
}

/// A kind's token from whatever a person calls it.
fn kind_token(text: &str) -> String {
    let names =
        |kind: &Kind| [kind.token(), kind.kubernetes(), kind.plural()].iter().any(|n| n.eq_ignore_ascii_case(text));
    Kind::ALL.iter().find(|kind| names(kind)).map_or_else(|| text.to_owned(), |kind| kind.token().to_owned())
}

impl Selector {
    fn filter(&self, prefix: &str, dot: &str) -> String {
        let token = |part: &Option<String>| part.as_ref().map_or_else(|| "*".to_owned(), |part| part.replace('.', dot));
        match (&self.kind, &self.namespace, &self.name) {
            (None, None, None) => format!("{prefix}.>"),
            (_, None, None) => format!("{prefix}.{}.>", token(&self.kind)),
            _ => format!("{prefix}.{}.{}.{}", token(&self.kind), token(&self.namespace), token(&self.name)),
        }
    }

    /// The filter of the work that it selects.
    pub fn work(&self) -> String {
        match (self.lane, &self.kind) {
            (None, None) => self.filter("work", "~"),
            (lane, _) => self.filter(&format!("work.{}", lane.map_or("*", Lane::token)), "~"),
        }
    }

    fn timers(&self) -> String {
        self.filter("timer", "~")
    }

    fn leases(&self) -> String {
        self.filter("$KV.LEASES", "=")
    }

    fn dead(&self) -> String {
        match (self.lane, &self.kind) {
            (None, None) => subject::ALL_DEAD.to_owned(),
            _ => format!("dead.{}", self.work()),
        }
    }
}

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
    /// How many timers are set.
    pub timers: u64,
    /// How many leases are held.
    pub leases: u64,
    /// How many dead letters are kept.
    pub dead: u64,
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
    /// Messages that somebody has been given and has not acknowledged.
    pub in_flight: u64,
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

/// A consumer of the stream of work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consumer {
    pub(crate) name: String,
    pub(crate) filters: Vec<String>,
    pub(crate) pending: u64,
    pub(crate) in_flight: u64,
    /// The highest sequence in the stream that it has given out.
    pub(crate) delivered: u64,
    redelivered: u64,
    requests: u64,
    paused: bool,
}

impl Consumer {
    /// How many messages it will bring, or has brought and waits to hear of.
    pub(crate) fn known(&self) -> u64 {
        self.pending.saturating_add(self.in_flight)
    }

    fn read(info: &Value) -> Option<Self> {
        let number = |pointer: &str| info.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
        let config = info.get("config")?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let several = config.get("filter_subjects").and_then(Value::as_array);
        let one = config.get("filter_subject").and_then(text);
        let filters: Vec<String> = several.into_iter().flatten().filter_map(text).chain(one).collect();
        Some(Self {
            name: info.get("name")?.as_str()?.to_owned(),
            // Without a filter it takes everything.
            filters: if filters.is_empty() { vec![">".to_owned()] } else { filters },
            pending: number("/num_pending"),
            in_flight: number("/num_ack_pending"),
            delivered: number("/delivered/stream_seq"),
            redelivered: number("/num_redelivered"),
            requests: number("/num_waiting"),
            paused: info.get("paused").and_then(Value::as_bool).unwrap_or_default(),
        })
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

impl Queue {
    /// The queue at a glance.
    pub async fn overview(&self) -> Result<Overview, Error> {
        let now = self.info(WORK, None).await?.get("ts").and_then(Value::as_str).and_then(|ts| ts.parse().ok());
        let consumers = self.consumers().await?;
        let mut lanes = Vec::new();
        let mut covered = 0;
        for consumer in &consumers {
            for filter in &consumer.filters {
                covered += self.count(WORK, filter).await?;
            }
            let filter = consumer.filters.first().map(String::as_str).unwrap_or_default();
            let (lane, kind) = place(filter);
            let (name, paused) = (Some(consumer.name.clone()), consumer.paused);
            let (waiting, in_flight) = (consumer.pending, consumer.in_flight);
            let oldest = self.oldest(filter).await?;
            let Consumer { requests, redelivered, .. } = *consumer;
            lanes.push(Depth { kind, lane, waiting, in_flight, oldest, consumer: name, requests, redelivered, paused });
        }
        if self.count(WORK, subject::ALL_WORK).await? > covered {
            self.untaken(&consumers, &mut lanes).await?;
        }
        let order = |kind: &str| Kind::ALL.iter().position(|known| known.token() == kind).unwrap_or(usize::MAX);
        lanes.sort_by(|a, b| {
            (order(&a.kind), &a.kind).cmp(&(order(&b.kind), &b.kind)).then_with(|| b.lane.cmp(&a.lane))
        });
        Ok(Overview {
            now: now.unwrap_or_else(|| self.server_now()),
            lanes,
            timers: self.count(WORK, subject::ALL_TIMERS).await?,
            leases: self.count(LEASES_STREAM, ">").await?,
            dead: self.messages_in(DEAD).await?,
        })
    }

    /// Counts what no consumer takes, by kind and lane.
    async fn untaken(&self, consumers: &[Consumer], lanes: &mut Vec<Depth>) -> Result<(), Error> {
        let from = lanes.len();
        for subject in self.subjects(WORK, subject::ALL_WORK).await? {
            if consumers.iter().flat_map(|consumer| &consumer.filters).any(|filter| matches(filter, &subject)) {
                continue;
            }
            let (lane, kind) = place(&subject);
            let same = lanes.iter_mut().skip(from).find(|depth| depth.lane == lane && depth.kind == kind);
            if let Some(depth) = same {
                depth.waiting += 1;
                continue;
            }
            let filter = if lane == "-" { subject.clone() } else { format!("work.{lane}.{kind}.>") };
            let oldest = self.oldest(&filter).await?;
            let (waiting, in_flight, requests, redelivered) = (1, 0, 0, 0);
            lanes.push(Depth {
                kind,
                lane,
                waiting,
                in_flight,
                oldest,
                consumer: None,
                requests,
                redelivered,
                paused: false,
            });
        }
        Ok(())
    }

    /// Work that waits or is in hand, oldest first.
    pub async fn work(&self, selector: &Selector, limit: usize) -> Result<Listing<Message>, Error> {
        let filter = selector.work();
        let items = self.walk(WORK, &filter, limit).await?;
        Ok(Listing { items: items.iter().map(Message::read).collect(), total: self.count(WORK, &filter).await? })
    }

    /// Timers, those that are due first at the beginning and those that repeat at the end.
    pub async fn timers(&self, selector: &Selector, limit: usize) -> Result<Listing<Timer>, Error> {
        let filter = selector.timers();
        let mut items: Vec<Timer> = self.walk(WORK, &filter, MOST_TIMERS).await?.iter().map(Timer::read).collect();
        items.sort_by_key(|timer| (timer.due.is_none(), timer.due, timer.sequence));
        items.truncate(limit);
        Ok(Listing { items, total: self.count(WORK, &filter).await? })
    }

    /// Leases that are held.
    pub async fn leases(&self, selector: &Selector, limit: usize) -> Result<Listing<Held>, Error> {
        let filter = selector.leases();
        let info = self.info(LEASES_STREAM, None).await?;
        let nanos = info.pointer("/config/max_age").and_then(Value::as_i64).filter(|nanos| *nanos > 0);
        let lifetime = nanos.map(SignedDuration::from_nanos);
        let items = self.walk(LEASES_STREAM, &filter, limit).await?;
        let items = items.iter().map(|message| Held::read(message, lifetime)).collect();
        Ok(Listing { items, total: self.count(LEASES_STREAM, &filter).await? })
    }

    /// Dead letters, oldest first.
    pub async fn dead(&self, selector: &Selector, limit: usize) -> Result<Listing<Letter>, Error> {
        let filter = selector.dead();
        let items = self.walk(DEAD, &filter, limit).await?;
        let info = self.info(DEAD, Some((&filter, 0))).await?;
        let counts = info.pointer("/state/subjects").and_then(Value::as_object);
        let total = counts.into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
        Ok(Listing { items: items.iter().map(Letter::read).collect(), total })
    }

    /// One message of the stream of work, timers included, as it is.
    pub async fn raw_work(&self, sequence: u64) -> Result<Option<Raw>, Error> {
        Ok(self.message(WORK, sequence).await?.as_ref().map(Raw::read))
    }

    /// One dead letter as it is.
    pub async fn raw_dead(&self, sequence: u64) -> Result<Option<Raw>, Error> {
        Ok(self.message(DEAD, sequence).await?.as_ref().map(Raw::read))
    }

    /// The consumers of the stream of work.
    pub(crate) async fn consumers(&self) -> Result<Vec<Consumer>, Error> {
        let mut consumers = Vec::new();
        loop {
            let asked = json!({ "offset": consumers.len() });
            let answer = self.api(&format!("CONSUMER.LIST.{WORK}"), &asked).await.map_err(|e| missing(WORK, e))?;
            let page = answer.get("consumers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let total = answer.get("total").and_then(Value::as_u64).unwrap_or_default();
            consumers.extend(page.iter().filter_map(Consumer::read));
            if page.is_empty() || consumers.len() as u64 >= total {
                return Ok(consumers);
            }
        }
    }

    /// How many subjects that match `filter` hold messages: of streams with one message for each subject, how many messages.
    pub(crate) async fn count(&self, stream: &'static str, filter: &str) -> Result<u64, Error> {
        let info = self.info(stream, Some((filter, BEYOND))).await?;
        Ok(info.get("total").and_then(Value::as_u64).unwrap_or_default())
    }

    /// The subjects that match `filter` and hold messages, a hundred thousand at most.
    pub(crate) async fn subjects(&self, stream: &'static str, filter: &str) -> Result<Vec<String>, Error> {
        let info = self.info(stream, Some((filter, 0))).await?;
        let subjects = info.pointer("/state/subjects").and_then(Value::as_object);
        Ok(subjects.into_iter().flatten().map(|(subject, _)| subject.clone()).collect())
    }

    async fn messages_in(&self, stream: &'static str) -> Result<u64, Error> {
        let info = self.info(stream, None).await?;
        Ok(info.pointer("/state/messages").and_then(Value::as_u64).unwrap_or_default())
    }

    async fn oldest(&self, filter: &str) -> Result<Option<Timestamp>, Error> {
        Ok(self.first(WORK, filter, 1).await?.as_ref().and_then(stored_at))
    }

    async fn info(&self, stream: &'static str, subjects: Option<(&str, u64)>) -> Result<Value, Error> {
        let asked = match subjects {
            Some((filter, offset)) => json!({ "subjects_filter": filter, "offset": offset }),
            None => json!({}),
        };
        self.api(&format!("STREAM.INFO.{stream}"), &asked).await.map_err(|error| missing(stream, error))
    }

    /// Messages that match `filter`, oldest first.
    async fn walk(&self, stream: &'static str, filter: &str, limit: usize) -> Result<Vec<StreamMessage>, Error> {
        let mut messages = Vec::new();
        let mut next = 1;
        while messages.len() < limit {
            let Some(message) = self.first(stream, filter, next).await? else { break };
            next = message.sequence + 1;
            messages.push(message);
        }
        Ok(messages)
    }

    /// The first message that matches `filter` at or after a sequence.
    pub(crate) async fn first(
        &self,
        stream: &'static str,
        filter: &str,
        from: u64,
    ) -> Result<Option<StreamMessage>, Error> {
        let found = async {
            let stream = self.jetstream().get_stream_no_info(stream).await.map_err(|error| error.to_string())?;
            Ok(stream.get_first_raw_message_by_subject(filter, from).await)
        };
        answer(stream, found).await
    }

    /// The message with this sequence.
    pub(crate) async fn message(&self, stream: &'static str, sequence: u64) -> Result<Option<StreamMessage>, Error> {
        let found = async {
            let stream = self.jetstream().get_stream_no_info(stream).await.map_err(|error| error.to_string())?;
            Ok(stream.get_raw_message(sequence).await)
        };
        answer(stream, found).await
    }
}

type Fetched = Result<StreamMessage, async_nats::jetstream::stream::RawMessageError>;

async fn answer(
    stream: &'static str,
    fetch: impl Future<Output = Result<Fetched, String>>,
) -> Result<Option<StreamMessage>, Error> {
    let what = || format!("a look into {stream}");
    let fetched = tokio::time::timeout(super::REQUEST_TIMEOUT * 2, fetch).await;
    let fetched = fetched.map_err(|_| Error::TimedOut { what: what() })?;
    match fetched.map_err(|reason| Error::Refused { what: what(), reason })? {
        Ok(message) => Ok(Some(message)),
        Err(error) => match error.kind() {
            RawMessageErrorKind::NoMessageFound => Ok(None),
            RawMessageErrorKind::JetStream(error) if u64::from(error.error_code().0) == STREAM_NOT_FOUND => {
                Err(Error::NoStream(stream.to_owned()))
            }
            RawMessageErrorKind::Other => Err(Error::Answer { what: what() }),
            _ => Err(Error::Refused { what: what(), reason: error.to_string() }),
        },
    }
}

fn missing(stream: &str, refusal: Refusal) -> Error {
    match refusal {
        Refusal::Code(STREAM_NOT_FOUND, _) => Error::NoStream(stream.to_owned()),
        other => other.into(),
    }
}

/// When a message was stored.
pub(crate) fn stored_at(message: &StreamMessage) -> Option<Timestamp> {
    Timestamp::from_nanosecond(message.time.unix_timestamp_nanos()).ok()
}

fn header<'a>(message: &'a StreamMessage, name: &str) -> Option<&'a str> {
    message.headers.get(name).map(async_nats::HeaderValue::as_str)
}

/// Lane and kind of a subject or filter of work, as they stand there.
fn place(subject: &str) -> (String, String) {
    let mut tokens = subject.split('.');
    match (tokens.next(), tokens.next(), tokens.next(), tokens.next()) {
        (Some("work"), Some(lane), Some(kind), Some(_)) => (lane.to_owned(), kind.to_owned()),
        _ => ("-".to_owned(), subject.to_owned()),
    }
}

/// Whether a NATS filter matches a subject.
pub(crate) fn matches(filter: &str, subject: &str) -> bool {
    let (mut filter, mut subject) = (filter.split('.'), subject.split('.'));
    loop {
        match (filter.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(wanted), Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
}

impl Message {
    fn read(message: &StreamMessage) -> Self {
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
            trace: envelope.and_then(|envelope| Some(envelope.traceparent?.trace_id().to_string())),
            problem,
        }
    }
}

impl Timer {
    fn read(message: &StreamMessage) -> Self {
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
    fn read(message: &StreamMessage, lifetime: Option<SignedDuration>) -> Self {
        let key = message.subject.strip_prefix("$KV.LEASES.").unwrap_or(&message.subject).to_owned();
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
    fn read(message: &StreamMessage) -> Self {
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
    fn read(message: &StreamMessage) -> Self {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn filters_match_as_the_server_has_it() {
        for (filter, subject, is) in [
            ("work.>", "work.a", true),
            ("work.>", "work", false),
            ("work.*.b", "work.a.b", true),
            ("work.*.b", "work.a.b.c", false),
            ("work.*", "work.a.b", false),
            (">", "a", true),
            ("work.a", "work.a", true),
            ("work.a.b", "work.a", false),
        ] {
            assert_eq!(matches(filter, subject), is, "{filter} {subject}");
        }
    }

    #[test]
    fn a_selector_takes_kinds_by_any_of_their_names_and_nothing_that_could_widen_it() {
        let selector: Selector = "SecurityGroup/team-a/web.1".parse().unwrap();
        assert_eq!(selector.work(), "work.*.security-group.team-a.web~1");
        assert_eq!(selector.leases(), "$KV.LEASES.security-group.team-a.web=1");
        assert_eq!(selector.dead(), "dead.work.*.security-group.team-a.web~1");
        let kind: Selector = "planet".parse().unwrap();
        assert_eq!((kind.work().as_str(), kind.timers().as_str()), ("work.*.planet.>", "timer.planet.>"));
        let namespace: Selector = "servers/ns".parse().unwrap();
        assert_eq!(namespace.timers(), "timer.server.ns.*");
        assert_eq!(Selector::default().work(), "work.>");
        let lane = Selector { lane: Some(Lane::Urgent), ..Selector::default() };
        assert_eq!((lane.work().as_str(), lane.dead().as_str()), ("work.urgent.>", "dead.work.urgent.>"));
        for bad in ["", "a/b/c/d", "a//c", "*", "a/>", "a b", "a.b", "server/n s"] {
            assert!(bad.parse::<Selector>().is_err(), "{bad}");
        }
    }
}
