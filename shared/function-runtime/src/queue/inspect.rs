//! Looking at the queue without touching it: for `weir queue`, for tests, and for [sweeping](Queue::sweep).
//!
//! Invariants
//! - Nothing here writes, creates or delivers anything; streams that are missing are reported as [`Error::NoStream`], or, where
//!   others have something to show, in [`Overview::missing`].
//! - What is shown came from others. Text is passed on as it was found; whoever prints it makes it harmless first.
//! - Every list has a bound that the caller sets, and says how much there is in all.
//!
//! Caveat: a view is put together from several answers while the queue goes on; its numbers need not add up to the last one.

mod selector;
mod view;

use std::collections::BTreeMap;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessageErrorKind;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use weir_api::Kind;
use weir_messages::subject;

use super::streams::{Refusal, STREAM_NOT_FOUND, covers};
use super::{DEAD, Error, LEASE_KEYS, LEASES_STREAM, Queue, WORK};

pub use selector::{BadSelector, Selector, kind};
pub(crate) use view::stored_at;
pub use view::{Depth, Held, Letter, Listing, Message, Overview, Raw, Timer};

/// Beyond any number of subjects: what is asked for from here on is nothing but the count.
const BEYOND: u64 = 1 << 40;
/// The most timers that are read to find those that are due first.
const MOST_TIMERS: usize = 20_000;

/// A consumer of the stream of work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consumer {
    pub(crate) name: String,
    pub(crate) filters: Vec<String>,
    pub(crate) pending: u64,
    pub(crate) in_flight: u64,
    /// The highest sequence in the stream that it has given out.
    pub(crate) delivered: u64,
    pub(crate) redelivered: u64,
    pub(crate) requests: u64,
    pub(crate) most: Option<u64>,
    pub(crate) paused: bool,
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
            // Zero and less mean that there is no limit.
            most: config.get("max_ack_pending").and_then(Value::as_u64).filter(|most| *most > 0),
            paused: info.get("paused").and_then(Value::as_bool).unwrap_or_default(),
        })
    }
}

impl Queue {
    /// The queue at a glance: as much of it as there is.
    pub async fn overview(&self) -> Result<Overview, Error> {
        let mut missing = Vec::new();
        let work = there(WORK, self.depths().await, &mut missing)?;
        let held = there(LEASES_STREAM, self.held().await, &mut missing)?;
        let dead = there(DEAD, self.messages_in(DEAD).await, &mut missing)?;
        if work.is_none() && held.is_none() && dead.is_none() {
            return Err(Error::NoStream(WORK.to_owned()));
        }
        let leases = held.as_ref().map(|held| held.values().sum::<u64>());
        let (now, mut lanes, timers) = match work {
            Some((now, lanes, timers)) => (now, lanes, Some(timers)),
            None => (None, Vec::new(), None),
        };
        for (kind, held) in held.unwrap_or_default() {
            let before = lanes.len();
            lanes.iter_mut().filter(|depth| depth.kind == kind).for_each(|depth| depth.working = held);
            if !lanes[..before].iter().any(|depth| depth.kind == kind) {
                // Held by somebody who does not take work from here: a function on Lambda, say.
                lanes.push(Depth { working: held, ..Depth::untaken("-".to_owned(), kind) });
            }
        }
        let order = |kind: &str| Kind::ALL.iter().position(|known| known.token() == kind).unwrap_or(usize::MAX);
        lanes.sort_by(|a, b| {
            (order(&a.kind), &a.kind).cmp(&(order(&b.kind), &b.kind)).then_with(|| b.lane.cmp(&a.lane))
        });
        Ok(Overview { now: now.unwrap_or_else(|| self.server_now()), lanes, timers, leases, dead, missing })
    }

    /// What the stream of work has to show: its server's time, how much waits for whom, and the number of timers.
    async fn depths(&self) -> Result<(Option<Timestamp>, Vec<Depth>, u64), Error> {
        let now = self.info(WORK, None).await?.get("ts").and_then(Value::as_str).and_then(|ts| ts.parse().ok());
        let consumers = self.consumers().await?;
        let mut lanes = Vec::new();
        let mut covered = 0;
        for consumer in &consumers {
            for filter in &consumer.filters {
                covered += self.count(WORK, filter).await?;
            }
            let filter = consumer.filters.first().map(String::as_str).unwrap_or_default();
            let oldest = self.oldest(filter).await?;
            lanes.push(Depth { oldest, ..Depth::of(consumer, place(filter)) });
        }
        if self.count(WORK, subject::ALL_WORK).await? > covered {
            self.untaken(&consumers, &mut lanes).await?;
        }
        Ok((now, lanes, self.count(WORK, subject::ALL_TIMERS).await?))
    }

    /// How many leases are held, by kind.
    async fn held(&self) -> Result<BTreeMap<String, u64>, Error> {
        let mut held = BTreeMap::new();
        for subject in self.subjects(LEASES_STREAM, &format!("{LEASE_KEYS}>")).await? {
            if let Some((kind, _)) = subject.strip_prefix(LEASE_KEYS).and_then(|key| key.split_once('.')) {
                *held.entry(kind.to_owned()).or_default() += 1;
            }
        }
        Ok(held)
    }

    /// Counts what no consumer takes, by kind and lane.
    async fn untaken(&self, consumers: &[Consumer], lanes: &mut Vec<Depth>) -> Result<(), Error> {
        let from = lanes.len();
        for subject in self.subjects(WORK, subject::ALL_WORK).await? {
            if consumers.iter().flat_map(|consumer| &consumer.filters).any(|filter| covers(filter, &subject)) {
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
            lanes.push(Depth { waiting: 1, oldest, ..Depth::untaken(lane, kind) });
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
        let (mut items, mut total) = (Vec::new(), 0);
        for filter in selector.timers() {
            items.extend(self.walk(WORK, &filter, MOST_TIMERS).await?.iter().map(Timer::read));
            total += self.count(WORK, &filter).await?;
        }
        items.sort_by_key(|timer| (timer.due.is_none(), timer.due, timer.sequence));
        items.truncate(limit);
        Ok(Listing { items, total })
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

    /// One dead letter.
    pub async fn letter(&self, sequence: u64) -> Result<Option<Letter>, Error> {
        Ok(self.message(DEAD, sequence).await?.as_ref().map(Letter::read))
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
            RawMessageErrorKind::JetStream(error) if error.error_code().0 == STREAM_NOT_FOUND => {
                Err(Error::NoStream(stream.to_owned()))
            }
            RawMessageErrorKind::Other => Err(Error::Answer { what: what() }),
            _ => Err(Error::Refused { what: what(), reason: error.to_string() }),
        },
    }
}

/// What a stream has to show; none, and its name among the missing, when there is no such stream.
fn there<T>(
    stream: &'static str,
    shown: Result<T, Error>,
    missing: &mut Vec<&'static str>,
) -> Result<Option<T>, Error> {
    match shown {
        Ok(shown) => Ok(Some(shown)),
        Err(Error::NoStream(_)) => {
            missing.push(stream);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn missing(stream: &str, refusal: Refusal) -> Error {
    match refusal {
        Refusal::Code(STREAM_NOT_FOUND, _) => Error::NoStream(stream.to_owned()),
        other => other.into(),
    }
}

/// Lane and kind of a subject or filter of work, as they stand there.
fn place(subject: &str) -> (String, String) {
    let mut tokens = subject.split('.');
    match (tokens.next(), tokens.next(), tokens.next(), tokens.next()) {
        (Some("work"), Some(lane), Some(kind), Some(_)) => (lane.to_owned(), kind.to_owned()),
        _ => ("-".to_owned(), subject.to_owned()),
    }
}
