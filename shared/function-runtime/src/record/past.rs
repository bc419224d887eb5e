//! Reads the past: recorded calls and past events from their streams, and recordings from files.

use std::time::{Duration, SystemTime};

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures::StreamExt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_messages::recording::{self, FORM};
use weir_messages::{Lane, Recording, Work, subject};

use crate::queue::{EVENTS, Error, Queue, TRACES};

/// How long the server may take to come forth with a message that it has.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file that holds calls.
#[derive(Debug, Serialize, Deserialize)]
pub struct Bundle {
    form: u32,
    /// The calls, oldest first.
    recordings: Vec<Value>,
}

impl Bundle {
    /// A file of these calls.
    pub fn of(recordings: &[Recording]) -> Result<Self, serde_json::Error> {
        let recordings = recordings.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        Ok(Self { form: FORM, recordings })
    }

    /// Reads a file of calls, or one call.
    pub fn open(bytes: &[u8]) -> Result<Vec<Recording>, recording::Error> {
        let value: Value = serde_json::from_slice(bytes)?;
        if value.get("recordings").is_none() {
            return Ok(vec![Recording::from_value(value)?]);
        }
        let bundle: Self = serde_json::from_value(value)?;
        bundle.recordings.into_iter().map(Recording::from_value).collect()
    }
}

/// A past event: work as it was published.
#[derive(Clone, Debug)]
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
    /// Recorded calls that `filter` matches: [`recording::filter`], [`recording::filter_id`], [`recording::ALL`].
    pub async fn calls(queue: &Queue, filter: String, since: Option<Timestamp>) -> Result<Self, Error> {
        Self::of(queue, TRACES, filter, since).await
    }

    /// Past events.
    pub async fn events(queue: &Queue, since: Option<Timestamp>) -> Result<Self, Error> {
        Self::of(queue, EVENTS, recording::ALL_EVENTS.to_owned(), since).await
    }

    async fn of(queue: &Queue, name: &str, filter: String, since: Option<Timestamp>) -> Result<Self, Error> {
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
        let config = pull::OrderedConfig { filter_subject: filter, deliver_policy, ..Default::default() };
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

fn read(message: &Message) -> Option<Recording> {
    Recording::decode(&message.inner.payload)
        .inspect_err(|error| tracing::warn!(%error, subject = %message.inner.subject, "passed over"))
        .ok()
}
