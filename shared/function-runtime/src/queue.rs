//! The queue: a connection to NATS JetStream, the streams on it, and publishing.
//!
//! Invariants
//! - A publication has succeeded when JetStream has acknowledged it, not before.
//! - Streams are created or updated in place ([`Queue::ensure`]), never deleted, never created anew.
//! - A connection that is lost is sought again for ever. Nothing here gives up; callers bound their own waiting.
//!
//! Caveat: while NATS is away, requests wait in the client and may reach the server late, after their caller has given
//! up. Everything that is sent bears that: publications are idempotent in meaning, leases are fenced by revision.

mod consumer;
mod dead;
pub mod inspect;
mod redrive;
mod streams;
mod sweep;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, context::PublishErrorKind};
use async_nats::{ConnectOptions, Event, HeaderMap};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Mutex, watch};
use weir_messages::{Envelope, Lane, Traceparent, Work, subject};

use crate::settings::{Credentials, CredentialsError, Settings};
use crate::telemetry::metrics;

pub use consumer::name as consumer_name;
pub(crate) use dead::{Found, Reason};
pub use redrive::Redriven;
pub use sweep::Swept;

/// The stream of work and timers.
pub const WORK: &str = "WORK";
/// The stream of dead letters.
pub const DEAD: &str = "DEAD";
/// The stream of recorded calls.
pub const TRACES: &str = "TRACES";
/// The stream of past events: whatever was published as work.
pub const EVENTS: &str = "EVENTS";
/// The stream of what the front door was asked.
pub const REQUESTS: &str = "REQUESTS";
/// The bucket of leases.
pub const LEASES: &str = "LEASES";
/// The stream behind the bucket of leases.
pub(crate) const LEASES_STREAM: &str = "KV_LEASES";
/// What the subjects in it begin with.
pub(crate) const LEASE_KEYS: &str = "$KV.LEASES.";

/// How long one request to the queue may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// What can go wrong with the queue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The credentials cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The client cannot be set up.
    #[error("cannot set up the connection to NATS: {0}")]
    Connect(String),
    /// There is no connection at present.
    #[error("not connected to NATS")]
    Disconnected,
    /// The server lacks a feature that Weir cannot do without.
    #[error("the NATS server is {found}, but {feature} needs {needed} or newer")]
    ServerTooOld {
        /// What Weir needs it for.
        feature: &'static str,
        /// The first version that has the feature.
        needed: &'static str,
        /// The server's version.
        found: String,
    },
    /// JetStream is off, or not for this account.
    #[error("JetStream is not available on this NATS server or to this account")]
    NoJetStream,
    /// A stream of Weir's name exists with a property that cannot be changed in place.
    #[error(
        "stream {stream} exists with {field} {found}, and Weir needs {needed}; it is left as it is: rename or remove it by hand"
    )]
    Incompatible {
        /// The stream.
        stream: &'static str,
        /// The property.
        field: &'static str,
        /// What it is.
        found: String,
        /// What it has to be.
        needed: String,
    },
    /// The server refused a request.
    #[error("NATS refused {what}: {reason}")]
    Refused {
        /// What was asked for.
        what: String,
        /// The server's words.
        reason: String,
    },
    /// No answer in time. What was asked may have been done.
    #[error("no answer from NATS to {what} in time")]
    TimedOut {
        /// What was asked for.
        what: String,
    },
    /// The message cannot be written.
    #[error(transparent)]
    Encode(#[from] weir_messages::EncodeError),
    /// The stream does not exist (any more).
    #[error("there is no stream for {0}")]
    NoStream(String),
    /// The message is larger than the server takes.
    #[error("the message is larger than the server takes")]
    TooLarge,
    /// What was to be written only if nothing had changed meanwhile was not written.
    #[error("{0} has changed meanwhile")]
    Changed(String),
    /// The server has answered with something that it should not.
    #[error("cannot make sense of NATS's answer to {what}")]
    Answer {
        /// What was asked for.
        what: String,
    },
    /// A delay that no timer has.
    #[error("a delay of {0:?} is longer than a day")]
    Delay(Duration),
}

impl From<subject::Error> for Error {
    fn from(error: subject::Error) -> Self {
        Self::Encode(error.into())
    }
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Whether there is one.
    pub connected: bool,
    /// How often there has been a new one: what was asked for on an earlier one will not be answered.
    pub epoch: u64,
}

/// The queue. Cheap to clone; all clones share one connection.
#[derive(Clone)]
pub struct Queue {
    inner: Arc<Inner>,
}

struct Inner {
    client: async_nats::Client,
    jetstream: jetstream::Context,
    connection: watch::Receiver<Connection>,
    name: String,
    limits: Limits,
    wanted_lease_ttl: Duration,
    /// Milliseconds; see [`Queue::lease_ttl`].
    lease_ttl: AtomicU64,
    /// By how many microseconds the server's clock is ahead of this machine's.
    clock_offset: AtomicI64,
    mended: Mutex<Option<Mended>>,
}

/// The last time that something was missed and made again.
#[derive(Clone, Copy)]
struct Mended {
    begun: Instant,
    well: bool,
}

/// What streams begin with.
#[derive(Clone, Copy, Debug)]
struct Limits {
    replicas: u8,
    /// How long the past is kept.
    age: Duration,
    /// How much of it.
    bytes: u64,
}

/// Connects to the queue. Returns at once; if NATS is away, the connection is sought in the background for ever.
pub async fn connect(settings: &Settings) -> Result<Queue, Error> {
    open(settings, true).await
}

/// Connects to the queue, or fails with the reason: for a person who waits for an answer. A connection that is lost later
/// is sought again as by [`connect`].
pub async fn connect_now(settings: &Settings) -> Result<Queue, Error> {
    let queue = open(settings, false).await?;
    // The event of the connection may be on its way still.
    let _ = tokio::time::timeout(REQUEST_TIMEOUT, queue.connected()).await;
    Ok(queue)
}

async fn open(settings: &Settings, patient: bool) -> Result<Queue, Error> {
    let nats = &settings.nats;
    let name = nats.process_name();
    let (state, connection) = watch::channel(Connection::default());
    let mut options = ConnectOptions::new()
        .name(&name)
        .max_reconnects(None)
        .connection_timeout(Duration::from_secs(5))
        .request_timeout(Some(REQUEST_TIMEOUT))
        // A peer that has gone silent is given up after two of these.
        .ping_interval(Duration::from_secs(5))
        .reconnect_delay_callback(reconnect_delay)
        .event_callback(move |event| {
            on_event(&state, &event);
            std::future::ready(())
        });
    if patient {
        options = options.retry_on_initial_connect();
    }
    options = match nats.credentials()? {
        Credentials::None => options,
        Credentials::File(path) => options.credentials_file(&path).await.map_err(|error| {
            Error::Credentials(CredentialsError::File { path: path.display().to_string(), source: error })
        })?,
        Credentials::NKey(seed) => options.nkey(seed.reveal().to_owned()),
        Credentials::Password(user, password) => options.user_and_password(user, password.reveal().to_owned()),
        Credentials::Token(token) => options.token(token.reveal().to_owned()),
    };
    if let Some(ca) = &nats.ca {
        options = options.add_root_certificates(ca.clone()).require_tls(true);
    }
    if let (Some(cert), Some(key)) = (&nats.cert, &nats.key) {
        options = options.add_client_certificate(cert.clone(), key.clone()).require_tls(true);
    }
    let client = options.connect(&nats.servers).await.map_err(|error| Error::Connect(with_causes(&error)))?;
    let jetstream = jetstream::context::ContextBuilder::new()
        .timeout(REQUEST_TIMEOUT)
        .ack_timeout(REQUEST_TIMEOUT)
        .build(client.clone());
    Ok(Queue {
        inner: Arc::new(Inner {
            client,
            jetstream,
            connection,
            name,
            limits: Limits {
                replicas: nats.replicas,
                age: settings.record.age,
                bytes: u64::from(settings.record.size) << 20,
            },
            wanted_lease_ttl: nats.lease_ttl,
            lease_ttl: AtomicU64::new(millis(nats.lease_ttl)),
            clock_offset: AtomicI64::new(0),
            mended: Mutex::new(None),
        }),
    })
}

/// An error with what is behind it: *IO error* alone helps nobody.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

/// Doubling from 50 ms to 2 s, with jitter, so that a thousand processes do not come back as one.
fn reconnect_delay(attempts: usize) -> Duration {
    if attempts <= 1 {
        return Duration::ZERO;
    }
    let exponent = u32::try_from(attempts - 2).unwrap_or(u32::MAX).min(6);
    let ceiling = Duration::from_millis(50) * 2_u32.pow(exponent);
    ceiling.min(Duration::from_secs(2)).mul_f64(rand::random_range(0.5..1.0))
}

fn on_event(state: &watch::Sender<Connection>, event: &Event) {
    match event {
        Event::Connected => {
            tracing::info!("connected to NATS");
            state.send_modify(|now| *now = Connection { connected: true, epoch: now.epoch + 1 });
        }
        Event::Disconnected | Event::Closed => {
            tracing::warn!("connection to NATS lost");
            state.send_modify(|now| now.connected = false);
        }
        Event::LameDuckMode => tracing::info!("the NATS server is about to stop"),
        Event::Draining => {}
        Event::SlowConsumer(id) => tracing::warn!(subscription = id, "NATS sends faster than is read"),
        Event::ServerError(error) => tracing::warn!(%error, "NATS server error"),
        Event::ClientError(error) => tracing::warn!(%error, "NATS client error"),
    }
}

impl Queue {
    /// Publishes `work` to `lane` and waits until the server has stored it. Returns its sequence in the stream, and
    /// whether the server knew `message_id` already and stored nothing.
    ///
    /// `message_id` is for watch events only: [`Work::message_id`].
    pub async fn publish(
        &self,
        work: Work,
        lane: Lane,
        message_id: Option<String>,
        traceparent: Option<Traceparent>,
    ) -> Result<Published, Error> {
        let subject = subject::work(lane, &work.object)?;
        let kind = work.object.kind.token();
        let mut headers = HeaderMap::new();
        if let Some(id) = message_id {
            headers.insert(async_nats::header::NATS_MESSAGE_ID, clean_id(&id)?);
        }
        let published = self.publish_envelope(subject, work, headers, traceparent).await?;
        metrics::PUBLISHED.inc(&[kind, lane.token()]);
        Ok(published)
    }

    /// Publishes `work` under `subject`, with `headers` besides those of its envelope.
    pub(crate) async fn publish_envelope(
        &self,
        subject: String,
        work: Work,
        mut headers: HeaderMap,
        traceparent: Option<Traceparent>,
    ) -> Result<Published, Error> {
        let encoded = Envelope::new(format!("/weir/{}", self.inner.name), work, traceparent).encode()?;
        for (name, value) in encoded.headers {
            headers.insert(name, value);
        }
        self.store(subject, headers, encoded.payload.into(), Duration::ZERO).await
    }

    /// Publishes and waits for JetStream's acknowledgement. If the stream is gone, because a server has lost its memory or
    /// somebody has deleted it, it is made again first: see [`mend`](Self::mend).
    pub(crate) async fn store(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
        breath: Duration,
    ) -> Result<Published, Error> {
        match self.store_once(subject.clone(), headers.clone(), payload.clone()).await {
            Err(missing @ Error::NoStream(_)) => {
                if self.mend(breath).await? {
                    self.store_once(subject, headers, payload).await
                } else {
                    Err(missing)
                }
            }
            other => other,
        }
    }

    /// Makes what is missing, for whoever has missed it just now: true when that has been done and it is worth trying again.
    ///
    /// Of many who miss something at once, one makes it for all. And what the server would not make is not asked of it again
    /// within `breath` of the last time: that is for streams which work goes on without.
    pub(crate) async fn mend(&self, breath: Duration) -> Result<bool, Error> {
        let missed = Instant::now();
        let mut last = self.inner.mended.lock().await;
        match *last {
            Some(mended) if mended.begun >= missed => return Ok(mended.well),
            Some(mended) if mended.begun.elapsed() < breath => return Ok(false),
            _ => {}
        }
        let begun = Instant::now();
        let made = self.ensure().await;
        *last = Some(Mended { begun, well: made.is_ok() });
        made.map(|()| true)
    }

    async fn store_once(&self, subject: String, headers: HeaderMap, payload: Bytes) -> Result<Published, Error> {
        let what = || format!("publishing {subject}");
        let sending = self.inner.jetstream.publish_with_headers(subject.clone(), headers, payload);
        // The client waits for room in its buffer before it begins to wait for the answer, so this bounds both.
        let acknowledged = tokio::time::timeout(REQUEST_TIMEOUT, async { sending.await?.await })
            .await
            .map_err(|_| Error::TimedOut { what: what() })?;
        match acknowledged {
            Ok(ack) => Ok(Published { sequence: ack.sequence, duplicate: ack.duplicate }),
            Err(error) => Err(match error.kind() {
                PublishErrorKind::StreamNotFound => Error::NoStream(subject),
                PublishErrorKind::TimedOut => Error::TimedOut { what: what() },
                PublishErrorKind::MaxPayloadExceeded => Error::TooLarge,
                PublishErrorKind::WrongLastSequence => Error::Changed(subject),
                _ => Error::Refused { what: what(), reason: error.to_string() },
            }),
        }
    }

    /// How this process calls itself.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// How long a lease lives without being renewed: the bucket's own maximum age once [`ensure`](Self::ensure) has
    /// seen it. All processes must agree on it, and the bucket is what they have in common.
    pub fn lease_ttl(&self) -> Duration {
        Duration::from_millis(self.inner.lease_ttl.load(Ordering::Relaxed))
    }

    /// The state of the connection, and its changes.
    pub fn connection(&self) -> watch::Receiver<Connection> {
        self.inner.connection.clone()
    }

    /// Waits for a connection, for as long as it takes.
    pub async fn connected(&self) {
        // An error says that the client is gone, and with it all who could wait.
        let _ = self.connection().wait_for(|now| now.connected).await;
    }

    /// The client, for what is not wrapped here.
    pub fn client(&self) -> &async_nats::Client {
        &self.inner.client
    }

    /// The JetStream context, for what is not wrapped here.
    pub fn jetstream(&self) -> &jetstream::Context {
        &self.inner.jetstream
    }

    /// Now, by the server's clock: a timer that was set by a machine whose clock is wrong must not fire too soon, and
    /// spin, or too late.
    pub(crate) fn server_now(&self) -> Timestamp {
        let offset = SignedDuration::from_micros(self.inner.clock_offset.load(Ordering::Relaxed));
        Timestamp::now().saturating_add(offset).unwrap_or_else(|_| Timestamp::now())
    }

    /// Sends everything that waits in the client, and closes the connection.
    pub async fn close(&self) {
        let _ = tokio::time::timeout(Duration::from_secs(2), self.inner.client.flush()).await;
        let _ = tokio::time::timeout(Duration::from_secs(2), self.inner.client.drain()).await;
    }
}

/// A message that the server has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its sequence in the stream.
    pub sequence: u64,
    /// Whether the server knew its message id and stored nothing.
    pub duplicate: bool,
}

fn clean_id(id: &str) -> Result<String, Error> {
    let fits = !id.is_empty() && id.len() <= weir_messages::envelope::MAX_HEADER && !id.chars().any(char::is_control);
    fits.then(|| id.to_owned()).ok_or(Error::Encode(weir_messages::EncodeError::Header("Nats-Msg-Id")))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
