//! Reads the past: recorded calls and past events from their streams; and recordings from files ([`read`]).

mod bundle;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures::StreamExt;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use weir_api::{Kind, ObjectRef};
use weir_messages::recording;
use weir_messages::{Recording, Work, subject};

pub use bundle::{Error as FileError, Event, Rest, Writer, open, read};

use crate::queue::{EVENTS, Error, Queue, TRACES};

/// How long the server may take to come forth with a message that it has.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a stream of the past from some moment on, oldest first.
pub struct Past {
    messages: pull::Ordered,
    left: u64,
}

/// One message of it.
struct Message {
    inner: async_nats::jetstream::Message,
    time: Timestamp,
}

/// A recorded call as it lies in the stream. It is opened only if somebody wants it: of thousands, few are.
pub struct Kept(Message);

impl Kept {
    /// The object that the call was for, as the subject says.
    pub fn object(&self) -> Option<ObjectRef> {
        let mut tokens = self.0.inner.subject.split('.').skip(1);
        let kind: Kind = tokens.next()?.parse().ok()?;
        let mut name = || tokens.next().map(|token| token.replace('~', "."));
        Some(ObjectRef::new(kind, name()?, name()?))
    }

    /// Whether a text is anywhere in it.
    pub fn mentions(&self, text: &str) -> bool {
        std::str::from_utf8(&self.0.inner.payload).is_ok_and(|payload| payload.contains(text))
    }

    /// The call; with [`serde::de::IgnoredAny`] for `J`, without the bodies of its requests and answers, which are most of it. `None`, and a
    /// warning, if it cannot be read.
    pub fn open<J: DeserializeOwned>(&self) -> Option<Recording<J>> {
        let passed = |error: &recording::Error| {
            tracing::warn!(%error, subject = %self.0.inner.subject, "passed over");
        };
        Recording::decode(&self.0.inner.payload).inspect_err(passed).ok()
    }
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

    /// How many messages are yet to come, of those that were there last time anybody looked.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// The next recorded call that is there, unopened; `None` when there is none.
    pub async fn kept(&mut self) -> Result<Option<Kept>, Error> {
        Ok(self.there().await?.map(Kept))
    }

    /// The next recorded call, unopened, whenever it comes; `None` when the connection is closed.
    pub async fn next_kept(&mut self) -> Result<Option<Kept>, Error> {
        Ok(self.message().await?.map(Kept))
    }

    /// The next recorded call that is there; `None` when there is none. What cannot be read is passed over, with a warning.
    pub async fn call(&mut self) -> Result<Option<Recording>, Error> {
        while let Some(kept) = self.kept().await? {
            if let Some(recording) = kept.open::<Value>() {
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
    let filter = recording::filter(&ObjectRef::new(kind, namespace, "x"))?.replace(".x.*", ".>");
    let name = |subject: &str| subject.split('.').nth(3).map(|name| name.replace('~', "."));
    let names = among_subjects(queue, filter, name).await?;
    Ok(names.into_iter().map(|name| ObjectRef::new(kind, namespace, name)).collect())
}

/// The IDs of recorded calls that begin so, in whatever case.
///
/// # Errors
/// The queue cannot be used.
pub async fn ids(queue: &Queue, beginning: &str) -> Result<BTreeSet<String>, Error> {
    let begins = |id: &&str| id.get(..beginning.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(beginning));
    let id = |subject: &str| subject.rsplit('.').next().filter(begins).map(str::to_owned);
    among_subjects(queue, recording::ALL.to_owned(), id).await
}

/// What is found among the subjects of recorded calls.
async fn among_subjects(
    queue: &Queue,
    filter: String,
    find: impl Fn(&str) -> Option<String>,
) -> Result<BTreeSet<String>, Error> {
    let refused = |reason: String| Error::Refused { what: format!("looking through {TRACES}"), reason };
    let stream = queue.jetstream().get_stream_no_info(TRACES).await.map_err(|error| refused(error.to_string()))?;
    let subjects = stream.info_with_subjects(filter).await.map_err(|error| refused(error.to_string()))?;
    let mut found = BTreeSet::new();
    let mut subjects = std::pin::pin!(subjects);
    while let Some(subject) = subjects.next().await {
        let (subject, _) = subject.map_err(|error| refused(error.to_string()))?;
        found.extend(find(&subject));
    }
    Ok(found)
}
