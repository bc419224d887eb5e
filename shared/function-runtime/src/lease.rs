//! Leases: at most one call per object at a time, over all processes.
//!
//! Intention: JetStream delivers a newer message for an object while an older one is in hand. Before anything is done for
//! an object, its lease is taken: a key in a bucket whose entries die when they are not renewed. The entry's revision is
//! the fencing token: renewing and releasing name it, so nobody can touch a successor's lease.
//!
//! Invariants
//! - [`Lease::check`] says *held* only while the entry cannot have expired. It reckons from the moment *before* the last
//!   successful request was sent, since the server's count begins after that, and takes a margin off. It asks no
//!   network, so it may be asked before every write.
//! - A process that slept (stopped, swapped out, its machine suspended) learns of it at the first check: both the
//!   monotonic clock, which nobody can set, and the wall clock, which goes on during a suspension, have to agree that
//!   there is time left.
//! - Releasing removes the entry at its own revision or not at all, and leaves no marker behind: the next taking costs
//!   one request again.
//!
//! Caveats: a write that is on the wire when the lease ends cannot be recalled; Kubernetes' resource versions and the
//! look-up before each create catch that. Shortening the bucket's maximum age while workers run breaks the first
//! invariant; stop them first. So does deleting the bucket, until the next renewal tells the holders: it is made again at once,
//! and who asks then finds nobody in it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishErrorKind;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use weir_api::ObjectRef;
use weir_messages::{lease::Record, subject};

use crate::queue::{Error, LEASE_KEYS, LEASES_STREAM, Queue};
use crate::telemetry::metrics;

/// The lease is lost, or nobody can say any more that it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease is lost")]
pub struct Lost;

/// What came of asking for a lease.
#[derive(Debug)]
pub enum Acquired {
    /// It is ours.
    Lease(Lease),
    /// Another call holds it.
    Held,
}

/// A lease on an object. Renewed in the background until it is released, dropped or lost.
///
/// Dropping it stops the renewal and leaves the entry to expire, as a crash would; [`release`](Self::release) frees the
/// object at once.
pub struct Lease {
    shared: Arc<Shared>,
    renewal: Option<Renewal>,
}

struct Renewal {
    queue: Queue,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    object: ObjectRef,
    id: Uuid,
    revision: AtomicU64,
    until: Mutex<Until>,
    /// `true` once the lease is known to be lost or released. `check` does not need it; waiters do.
    ended: watch::Sender<bool>,
}

#[derive(Clone, Copy)]
enum Until {
    /// Held until both clocks are past these.
    Deadline(Instant, SystemTime),
    /// Held until dropped; see [`Lease::always`].
    Always,
    /// Not held.
    Ended,
}

impl Until {
    /// The end of a lease for which a request that succeeded was sent at the given times.
    fn from_request(sent: Instant, sent_wall: SystemTime, ttl: Duration) -> Self {
        let usable = ttl.saturating_sub(margin(ttl));
        Self::Deadline(sent + usable, sent_wall + usable)
    }

    fn holds(self) -> bool {
        match self {
            Self::Deadline(instant, wall) => Instant::now() < instant && SystemTime::now() < wall,
            Self::Always => true,
            Self::Ended => false,
        }
    }
}

/// What is taken off the time to live: for clocks that run at different speeds, and for the write that follows a check.
fn margin(ttl: Duration) -> Duration {
    (ttl / 10).clamp(Duration::from_millis(100), Duration::from_secs(2)).min(ttl / 2)
}

/// Asks for the lease on `object`, once, without waiting for its holder. A bucket that is gone is made again.
pub async fn acquire(queue: &Queue, object: &ObjectRef) -> Result<Acquired, Error> {
    let key = format!("{LEASE_KEYS}{}", subject::lease_key(object)?);
    let record = Record { holder: queue.name().to_owned(), id: Uuid::new_v4(), since: Timestamp::now().to_string() };
    let value = serde_json::to_vec(&record).map_err(|error| Error::Encode(error.into()))?;
    let mut mended = false;
    let (sent, sent_wall, revision) = loop {
        let (sent, sent_wall) = (Instant::now(), SystemTime::now());
        match write(queue, &key, &value, 0).await {
            Ok(revision) => break (sent, sent_wall, revision),
            Err(WriteError::WrongRevision) => return Ok(Acquired::Held),
            Err(WriteError::Other(missing @ Error::NoStream(_))) => {
                if mended || !queue.mend(Duration::ZERO).await? {
                    return Err(missing);
                }
                mended = true;
            }
            Err(WriteError::Other(error)) => return Err(error),
        }
    };
    let shared = Arc::new(Shared {
        object: object.clone(),
        id: record.id,
        revision: AtomicU64::new(revision),
        until: Mutex::new(Until::from_request(sent, sent_wall, queue.lease_ttl())),
        ended: watch::Sender::new(false),
    });
    let stop = CancellationToken::new();
    let task = tokio::spawn(renew(queue.clone(), shared.clone(), key, value, stop.clone()));
    let renewal = Renewal { queue: queue.clone(), stop, task: Mutex::new(Some(task)) };
    Ok(Acquired::Lease(Lease { shared, renewal: Some(renewal) }))
}

impl Lease {
    /// A lease that nobody else knows of and that always holds: to run a call by hand, and for tests.
    pub fn always(object: ObjectRef) -> Self {
        let shared = Arc::new(Shared {
            object,
            id: Uuid::nil(),
            revision: AtomicU64::new(0),
            until: Mutex::new(Until::Always),
            ended: watch::Sender::new(false),
        });
        Self { shared, renewal: None }
    }

    /// A lease that is lost already: for tests of what a call does then.
    pub fn lost_already(object: ObjectRef) -> Self {
        let lease = Self::always(object);
        lease.shared.end();
        lease
    }

    /// Whether the lease is held for certain. Synchronous and cheap: ask before every write.
    pub fn check(&self) -> Result<(), Lost> {
        if self.shared.until().holds() { Ok(()) } else { Err(Lost) }
    }

    /// The fencing token: later takings and renewals of the same object's lease have greater ones.
    pub fn revision(&self) -> u64 {
        self.shared.revision.load(Ordering::Acquire)
    }

    /// The object that it is a lease on.
    pub fn object(&self) -> &ObjectRef {
        &self.shared.object
    }

    /// What tells this taking of the lease from others.
    pub fn id(&self) -> Uuid {
        self.shared.id
    }

    /// Waits until the lease is lost or released.
    pub async fn ended(&self) {
        let mut ended = self.shared.ended.subscribe();
        loop {
            let until = self.shared.until();
            if !until.holds() {
                return;
            }
            // Awake at the deadline, to see whether it has been moved; the wall clock is looked at now and then, in
            // case it has been the one to jump.
            let nap = match until {
                Until::Deadline(instant, _) => {
                    instant.saturating_duration_since(Instant::now()).min(Duration::from_secs(1))
                }
                _ => Duration::from_secs(1),
            };
            let _ = tokio::time::timeout(nap + Duration::from_millis(1), ended.wait_for(|ended| *ended)).await;
        }
    }

    /// Gives the object free, unless somebody else has it by now. From here on, [`check`](Self::check) fails.
    pub async fn release(&self) {
        let held = !matches!(self.shared.until(), Until::Ended);
        self.shared.end();
        let Some(renewal) = &self.renewal else { return };
        renewal.stop.cancel();
        let task = renewal.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A renewal that is on its way must be over first: it would bring the entry back at a revision that is not
            // removed below. It ends by itself, since its request has a time limit.
            let _ = task.await;
        }
        if !held {
            return;
        }
        let Ok(key) = subject::lease_key(&self.shared.object) else { return };
        // Everything on the key up to and including our revision, which is our entry or nothing.
        let request = json!({ "filter": format!("{LEASE_KEYS}{key}"), "seq": self.revision() + 1 });
        let answer = renewal.queue.jetstream().request(format!("STREAM.PURGE.{LEASES_STREAM}"), &request);
        let failure = match tokio::time::timeout(Duration::from_secs(2), answer).await {
            Ok(Ok::<Value, _>(answer)) => answer.get("error").map(ToString::to_string),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".to_owned()),
        };
        if let Some(error) = failure {
            tracing::warn!(object = %self.shared.object, error, "the lease could not be released; it will expire");
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(renewal) = &self.renewal {
            renewal.stop.cancel();
        }
        self.shared.end();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("object", &self.shared.object)
            .field("revision", &self.revision())
            .field("held", &self.check().is_ok())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn until(&self) -> Until {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Until::Ended;
        self.ended.send_replace(true);
    }

    /// Moves the deadline, unless the lease has ended: what is lost stays lost.
    fn extend(&self, until: Until) {
        let mut now = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if now.holds() {
            *now = until;
        } else {
            *now = Until::Ended;
            drop(now);
            self.ended.send_replace(true);
        }
    }
}

/// Renews the lease at a third of its time to live, more often after a failure, until it is stopped or lost.
async fn renew(queue: Queue, lease: Arc<Shared>, key: String, value: Vec<u8>, stop: CancellationToken) {
    let mut pause = queue.lease_ttl() / 3;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if !lease.until().holds() {
            break;
        }
        let ttl = queue.lease_ttl();
        let (sent, sent_wall) = (Instant::now(), SystemTime::now());
        let revision = lease.revision.load(Ordering::Acquire);
        let request = write(&queue, &key, &value, revision);
        match tokio::time::timeout(ttl / 3, request).await {
            Ok(Ok(revision)) => {
                lease.revision.store(revision, Ordering::Release);
                lease.extend(Until::from_request(sent, sent_wall, ttl));
                pause = ttl / 3;
            }
            Ok(Err(WriteError::WrongRevision)) => match own_revision(&queue, &key, lease.id).await {
                // An earlier renewal that was given up had arrived after all. Renew from there at once: when it
                // arrived, and so how long it lives, nobody here knows.
                Some(revision) if revision != lease.revision.load(Ordering::Acquire) => {
                    lease.revision.store(revision, Ordering::Release);
                    pause = Duration::ZERO;
                }
                _ => break,
            },
            Ok(Err(WriteError::Other(error))) => {
                tracing::debug!(object = %lease.object, %error, "lease not renewed; trying again");
                pause = ttl / 20;
            }
            Err(_) => pause = ttl / 20,
        }
    }
    if !stop.is_cancelled() {
        metrics::LEASES_LOST.inc(&[lease.object.kind.token()]);
        tracing::warn!(object = %lease.object, "lease lost");
        lease.end();
    }
}

/// The revision of the entry on `key`, if it is the one that `id` made.
async fn own_revision(queue: &Queue, key: &str, id: Uuid) -> Option<u64> {
    let request = json!({ "last_by_subj": key });
    let answer = queue.jetstream().request(format!("STREAM.MSG.GET.{LEASES_STREAM}"), &request);
    let answer: Value = tokio::time::timeout(Duration::from_secs(1), answer).await.ok()?.ok()?;
    let message = answer.get("message")?;
    let data = message.get("data")?.as_str()?;
    let record: Record = serde_json::from_slice(&base64_decode(data)?).ok()?;
    (record.id == id).then(|| message.get("seq")?.as_u64()).flatten()
}

/// JetStream hands messages out of its API in standard base64.
fn base64_decode(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

enum WriteError {
    WrongRevision,
    Other(Error),
}

/// Writes `value` to `key` if the entry's revision is still `expected`; 0 stands for no entry. Returns the new revision.
async fn write(queue: &Queue, key: &str, value: &[u8], expected: u64) -> Result<u64, WriteError> {
    let mut headers = HeaderMap::new();
    headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected.to_string());
    let ack =
        async { queue.jetstream().publish_with_headers(key.to_owned(), headers, value.to_vec().into()).await?.await };
    let what = || "a write to the leases".to_owned();
    match tokio::time::timeout(Duration::from_secs(5), ack).await {
        Ok(Ok(ack)) => Ok(ack.sequence),
        Ok(Err(error)) => Err(match error.kind() {
            PublishErrorKind::WrongLastSequence => WriteError::WrongRevision,
            PublishErrorKind::TimedOut => WriteError::Other(Error::TimedOut { what: what() }),
            PublishErrorKind::StreamNotFound => WriteError::Other(Error::NoStream(key.to_owned())),
            _ => WriteError::Other(Error::Refused { what: what(), reason: error.to_string() }),
        }),
        Err(_) => Err(WriteError::Other(Error::TimedOut { what: what() })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_when_either_clock_says_so() {
        let (now, wall, second) = (Instant::now(), SystemTime::now(), Duration::from_secs(1));
        assert!(Until::Deadline(now + second, wall + second).holds());
        assert!(!Until::Deadline(now.checked_sub(second).unwrap_or(now), wall + second).holds());
        assert!(
            !Until::Deadline(now + second, wall - second).holds(),
            "a suspended machine's monotonic clock stood still"
        );
    }

    #[test]
    fn the_margin_leaves_something_of_every_lease() {
        for millis in [1, 100, 1_000, 10_000, 300_000] {
            let ttl = Duration::from_millis(millis);
            assert!(margin(ttl) < ttl, "{ttl:?}");
        }
        assert_eq!(margin(Duration::from_secs(10)), Duration::from_secs(1));
    }
}
