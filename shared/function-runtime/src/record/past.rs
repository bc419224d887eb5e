//! Reads the past: recorded calls and past events from their streams, and recordings from files.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures::StreamExt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_api::{Kind, ObjectRef};
use weir_messages::recording::{self, FORM};
use weir_messages::{Lane, Recording, Work, subject};

use crate::queue::{EVENTS, Error, Queue, TRACES};

/// How long the server may take to come forth with a message that it has.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file that holds calls; and, to begin from in another stack, the objects that they were about and the events that led to them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Bundle {
    form: u32,
    /// The calls, oldest first.
    recordings: Vec<Value>,
    /// Custom resources and Secrets as the calls last read them: what was asked for, and nothing of what was made of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Value>,
    /// Events, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

impl Bundle {
    /// A file of these calls.
    ///
    /// # Errors
    /// They cannot be written as JSON.
    pub fn of(recordings: &[Recording]) -> Result<Self, serde_json::Error> {
        let values = recordings.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        Ok(Self { form: FORM, recordings: values, ..Self::default() })
    }

    /// The same with what is needed to begin from it in another stack.
    #[must_use]
    pub fn with(mut self, recordings: &[Recording], events: Vec<Event>) -> Self {
        self.objects = super::objects::of(recordings);
        self.events = events;
        self
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is no such file, or one from the future.
    pub fn read(bytes: &[u8]) -> Result<Self, recording::Error> {
        let value: Value = serde_json::from_slice(bytes)?;
        match value.get("form").and_then(Value::as_u64) {
            Some(form) if form > u64::from(FORM) => Err(recording::Error::Future(form)),
            _ => Ok(serde_json::from_value(value)?),
        }
    }

    /// Reads the calls of a file, or one call.
    ///
    /// # Errors
    /// It is no such file, or one from the future.
    pub fn open(bytes: &[u8]) -> Result<Vec<Recording>, recording::Error> {
        let value: Value = serde_json::from_slice(bytes)?;
        if value.get("recordings").is_none() {
            return Ok(vec![Recording::from_value(value)?]);
        }
        Self::read(bytes)?.recordings.into_iter().map(Recording::from_value).collect()
    }
}

/// A past event: work as it was published.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub time: Timestamp,
    /// The lane it was published to.
    pub lane: Lane,
    /// What was asked for.
    pub work: Work,
}

/// Reads a stream of the past from some moment on, oldest first.
pub struct Past {
    messages: pull::Ordered,
    /// How many are yet to come, of those that were there last time anybody looked.
    left: u64,
}

/// One message of it.
struct Message {
    inner: async_nats::jetstream::Message,
    time: Timestamp,
}

impl Past {
    /// Recorded calls that one of `filters`, which do not overlap, matches: [`recording::filter`], [`recording::filter_id`], [`recording::ALL`].
    pub async fn calls(
        queue: &Queue,
        filters: impl IntoIterator<Item = String>,
        since: Option<Timestamp>,
    ) -> Result<Self, Error> {
        Self::of(queue, TRACES, filters.into_iter().collect(), since).await
    }

    /// Past events.
    pub async fn events(queue: &Queue, since: Option<Timestamp>) -> Result<Self, Error> {
        Self::of(queue, EVENTS, vec![recording::ALL_EVENTS.to_owned()], since).await
    }

    async fn of(queue: &Queue, name: &str, filters: Vec<String>, since: Option<Timestamp>) -> Result<Self, Error> {
        let refused = |error: String| Error::Refused { what: format!("reading {name}"), reason: error };
        let stream = queue.jetstream().get_stream(name).await.map_err(|error| match error.kind() {
            async_nats::jetstream::context::GetStreamErrorKind::JetStream(e)
                if e.error_code() == async_nats::jetstream::ErrorCode::STREAM_NOT_FOUND =>
            {
                Error::NoStream(name.to_owned())
            }
            _ => refused(error.to_string()),
        })?;
        let deliver_policy = since.map_or(DeliverPolicy::All, |since| DeliverPolicy::ByStartTime {
            start_time: SystemTime::from(since).into(),
        });
        let config = pull::OrderedConfig { filter_subjects: filters, deliver_policy, ..Default::default() };
        let consumer = stream.create_consumer(config).await.map_err(|error| refused(error.to_string()))?;
        let left = consumer.cached_info().num_pending;
        let messages = consumer.messages().await.map_err(|error| refused(error.to_string()))?;
        Ok(Self { messages, left })
    }

    async fn message(&mut self) -> Result<Option<Message>, Error> {
        let Some(message) = self.messages.next().await else { return Ok(None) };
        let refused = |error: String| Error::Refused { what: "reading the past".to_owned(), reason: error };
        let inner = message.map_err(|error| refused(error.to_string()))?;
        let (pending, published) = {
            let info = inner.info().map_err(|error| refused(error.to_string()))?;
            (info.pending, info.published.unix_timestamp_nanos())
        };
        self.left = pending;
        Ok(Some(Message { inner, time: Timestamp::from_nanosecond(published).unwrap_or_default() }))
    }

    /// The next message that is there; `None` when there is none.
    async fn there(&mut self) -> Result<Option<Message>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        tokio::time::timeout(PATIENCE, self.message())
            .await
            .map_err(|_| Error::TimedOut { what: "reading the past".to_owned() })?
    }

    /// The next recorded call that is there; `None` when there is none. What cannot be read is passed over, with a warning.
    pub async fn call(&mut self) -> Result<Option<Recording>, Error> {
        while let Some(message) = self.there().await? {
            if let Some(recording) = read(&message) {
                return Ok(Some(recording));
            }
        }
        Ok(None)
    }

    /// The next recorded call, whenever it comes; `None` when the connection is closed.
    pub async fn next_call(&mut self) -> Result<Option<Recording>, Error> {
        while let Some(message) = self.message().await? {
            if let Some(recording) = read(&message) {
                return Ok(Some(recording));
            }
        }
        Ok(None)
    }

    /// The next event that is there; `None` when there is none.
    pub async fn event(&mut self) -> Result<Option<Event>, Error> {
        while let Some(message) = self.there().await? {
            let on = message.inner.subject.strip_prefix(recording::EVENT).unwrap_or_default();
            // What could not be understood then is a dead letter, and no event.
            if let Ok(subject::Subject::Work { lane, object }) = subject::parse(on)
                && let Ok(work) = serde_json::from_slice::<Work>(&message.inner.payload)
                && work.object == object
            {
                return Ok(Some(Event { time: message.time, lane, work }));
            }
        }
        Ok(None)
    }
}

/// The objects of a kind in a namespace of which calls are recorded.
///
/// # Errors
/// The queue cannot be used.
pub async fn recorded(queue: &Queue, kind: Kind, namespace: &str) -> Result<Vec<ObjectRef>, Error> {
    let refused = |reason: String| Error::Refused { what: format!("looking through {TRACES}"), reason };
    let filter = recording::filter(&ObjectRef::new(kind, namespace, "x"))?.replace(".x.*", ".>");
    let stream = queue.jetstream().get_stream_no_info(TRACES).await.map_err(|error| refused(error.to_string()))?;
    let subjects = stream.info_with_subjects(filter).await.map_err(|error| refused(error.to_string()))?;
    let mut names = BTreeSet::new();
    let mut subjects = std::pin::pin!(subjects);
    while let Some(subject) = subjects.next().await {
        let (subject, _) = subject.map_err(|error| refused(error.to_string()))?;
        names.extend(subject.split('.').nth(3).map(|name| name.replace('~', ".")));
    }
    Ok(names.into_iter().map(|name| ObjectRef::new(kind, namespace, name)).collect())
}

fn read(message: &Message) -> Option<Recording> {
    Recording::decode(&message.inner.payload)
        .inspect_err(|error| tracing::warn!(%error, subject = %message.inner.subject, "passed over"))
        .ok()
}
