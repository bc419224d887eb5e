//! From what the watches say to acknowledged messages.
//!
//! Watches hand in what they see and never wait for the queue; one task publishes. When the queue is away the task waits
//! for it, while [`crate::pending`] keeps the latest message of each kind for each object.
//!
//! What lists show at the start is held back until everything has been listed: until then it is not known what an object
//! waits for, so that it would be published once for itself and again for each of these.

use crate::index::{How, Index, Wake};
use crate::metrics;
use crate::pending::Pending;
use crate::seen::Seen;
use crate::watched::{Node, Watched};
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use weir_api::ObjectRef;
use weir_function_runtime::queue::{self, Queue};
use weir_function_runtime::telemetry::HEALTH;
use weir_messages::{Traceparent, Work};

/// How many messages may wait for the stream's acknowledgement at once.
const IN_FLIGHT: usize = 64;
/// The pause after a message could not be published; doubles up to [`LONGEST_PAUSE`].
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long what lists show is held back for a kind that cannot be listed.
const LONGEST_HOLD: Duration = Duration::from_secs(15);
/// A watch that has failed for longer than this is no longer ready (W-7).
const LONGEST_FAILURE: Duration = Duration::from_secs(60);

/// Takes what watches see, publishes who is to be woken.
pub struct Publisher {
    queue: Queue,
    state: Mutex<State>,
    news: Notify,
    held_until: Instant,
}

#[derive(Default)]
struct State {
    index: Index,
    pending: Pending,
    watches: BTreeMap<Watched, Health>,
}

#[derive(Clone, Copy)]
enum Health {
    /// It is open, as far as can be told.
    Well,
    /// It has not been open since.
    Down(Instant),
    /// It will not be opened again.
    Ended,
}

impl Publisher {
    /// A publisher onto `queue`.
    pub fn new(queue: Queue) -> Self {
        Self { queue, state: Mutex::default(), news: Notify::new(), held_until: Instant::now() + LONGEST_HOLD }
    }

    /// Where it publishes to.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// A watch showed an object.
    pub fn applied(&self, seen: Seen, how: How) {
        let mut state = self.state();
        let wakes = state.index.applied(seen, how);
        self.enqueue(&mut state, wakes);
    }

    /// A watch showed that an object has gone.
    pub fn deleted(&self, node: &Node, version: &str) {
        let mut state = self.state();
        let wakes = state.index.deleted(node, version, How::Watch);
        self.enqueue(&mut state, wakes);
    }

    /// A list is complete.
    pub fn listed(&self, watched: Watched, shown: &HashSet<Node>) {
        let mut state = self.state();
        // The first list is what there is to be ready for; later ones do not tell that the watch works again.
        state.watches.entry(watched).or_insert(Health::Well);
        let wakes = state.index.listed(watched, shown);
        self.enqueue(&mut state, wakes);
        // What was held may be free to go.
        self.news.notify_one();
        tracing::info!(?watched, objects = shown.len(), waiting = state.pending.len(), "listed");
    }

    /// The queue has lost what it held: all that exists is published again. For `mark` see [`Index::all`].
    pub fn again(&self, mark: Option<&str>) {
        let mut state = self.state();
        let wakes = state.index.all(mark);
        tracing::warn!(objects = wakes.len(), "the queue has lost its messages; everything is to be looked at again");
        self.enqueue(&mut state, wakes);
    }

    /// A watch works.
    pub fn watch_is_well(&self, watched: Watched) {
        self.state().watches.insert(watched, Health::Well);
    }

    /// A watch is not open: it is about to be opened, or opened again.
    pub fn watch_is_down(&self, watched: Watched) {
        self.is_down_since(watched, Instant::now());
    }

    fn is_down_since(&self, watched: Watched, since: Instant) {
        match self.state().watches.get_mut(&watched) {
            Some(health @ Health::Well) => *health = Health::Down(since),
            Some(Health::Down(before)) => *before = since.min(*before),
            Some(Health::Ended) | None => {}
        }
    }

    /// A watch failed; it will be tried again.
    pub fn watch_failed(&self, watched: Watched, error: &crate::watch::Error) {
        tracing::warn!(?watched, %error, "a watch failed; trying again");
        metrics::FAILURES.inc(&[watched.name()]);
        self.is_down_since(watched, error.since());
    }

    /// A watch is over.
    pub fn watch_ended(&self, watched: Watched) {
        self.state().watches.insert(watched, Health::Ended);
    }

    /// Whether every watch works, and if not, which ones do not (W-7).
    pub fn readiness(&self) -> Result<(), String> {
        let state = self.state();
        let bad: Vec<String> = Watched::ALL
            .into_iter()
            .filter_map(|watched| match state.watches.get(&watched) {
                None => Some(format!("the watch of {watched:?} has not begun")),
                Some(Health::Ended) => Some(format!("the watch of {watched:?} has ended")),
                Some(Health::Down(since)) if since.elapsed() > LONGEST_FAILURE => {
                    Some(format!("the watch of {watched:?} has failed for {} s", since.elapsed().as_secs()))
                }
                Some(_) => None,
            })
            .collect();
        if bad.is_empty() { Ok(()) } else { Err(bad.join("; ")) }
    }

    /// Tells the process's readiness and sizes, every second until `stop`, since a failure gets worse only by lasting.
    pub async fn report(self: Arc<Self>, stop: CancellationToken) {
        loop {
            match self.readiness() {
                Ok(()) => HEALTH.ready("watches"),
                Err(reason) => HEALTH.not_ready("watches", reason),
            }
            if self.queue.connection().borrow().connected {
                HEALTH.ready("queue");
            } else {
                HEALTH.not_ready("queue", "not connected to NATS");
            }
            self.measure();
            tokio::select! {
                () = sleep(Duration::from_secs(1)) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    fn measure(&self) {
        let (objects, waiting) = self.sizes();
        metrics::OBJECTS.set(&[], i64::try_from(objects).unwrap_or(i64::MAX));
        metrics::WAITING.set(&[], i64::try_from(waiting).unwrap_or(i64::MAX));
        let state = self.state();
        for watched in Watched::ALL {
            let up = matches!(state.watches.get(&watched), Some(Health::Well));
            metrics::UP.set(&[watched.name()], up.into());
        }
    }

    /// The objects of a kind, as far as known.
    pub fn objects(&self, watched: Watched) -> Vec<ObjectRef> {
        self.state().index.of(watched)
    }

    /// How many objects are known, and how many messages wait.
    pub fn sizes(&self) -> (usize, usize) {
        let state = self.state();
        (state.index.len(), state.pending.len())
    }

    /// Makes sure that the streams are there, waiting for the queue as long as it takes.
    ///
    /// # Errors
    /// What no waiting mends: a server too old, a stream that cannot be used.
    pub async fn ensure(&self, stop: &CancellationToken) -> anyhow::Result<()> {
        let mut pause = SHORTEST_PAUSE;
        while !stop.is_cancelled() {
            match self.queue.ensure().await {
                Ok(()) => return Ok(()),
                Err(error @ (queue::Error::ServerTooOld { .. } | queue::Error::Incompatible { .. })) => {
                    return Err(error.into());
                }
                Err(error) => {
                    HEALTH.not_ready("queue", error.to_string());
                    tracing::warn!(%error, "the queue is not ready; trying again");
                }
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.cancelled() => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Ok(())
    }

    /// Publishes until `stop`. What is in flight then is finished; what waits is listed by the next publisher.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut connection = self.queue.connection();
        let mut flights = FuturesUnordered::new();
        let mut pause = SHORTEST_PAUSE;
        let mut not_before = Instant::now();
        loop {
            let now = Instant::now();
            // Without a connection a message would wait in the client and fail by time-out, and each failure costs a pause.
            let goes = connection.borrow_and_update().connected && now >= not_before && !stop.is_cancelled();
            while goes && flights.len() < IN_FLIGHT {
                let Some((wake, id)) = self.next(now) else { break };
                flights.push(self.publish(wake, id));
            }
            let pending_time = if now < not_before { not_before } else { self.held_until };
            tokio::select! {
                Some(landed) = flights.next() => match landed {
                    Ok(()) => pause = SHORTEST_PAUSE,
                    Err(wake) => {
                        self.state().pending.put_back(wake);
                        // Those that were in flight together fail together: one pause for all of them.
                        if Instant::now() >= not_before {
                            not_before = Instant::now() + pause;
                            pause = (pause * 2).min(LONGEST_PAUSE);
                        }
                    }
                },
                () = self.news.notified(), if flights.len() < IN_FLIGHT => {}
                () = sleep_until(pending_time), if now < pending_time => {}
                Ok(()) = connection.changed() => {}
                () = stop.cancelled(), if flights.is_empty() => return,
            }
        }
    }

    /// The next message, with its id.
    fn next(&self, now: Instant) -> Option<(Wake, Option<String>)> {
        let mut state = self.state();
        let hold = !state.index.is_complete() && now < self.held_until;
        let wake = state.pending.take(hold)?;
        let id = wake.id.clone().or_else(|| state.index.state_id(&wake.object));
        Some((wake, id))
    }

    async fn publish(&self, wake: Wake, id: Option<String>) -> Result<(), Wake> {
        let mut work = Work::new(wake.object.clone(), wake.cause);
        if let Some((uid, version)) = &wake.seen {
            work = work.seen(uid, version);
        }
        if let Some(origin) = wake.origin.as_ref().and_then(Node::object) {
            work = work.caused_by(origin);
        }
        match self.queue.publish(work, wake.lane, id, Some(Traceparent::begin())).await {
            Ok(_) => {
                tracing::debug!(object = %wake.object, lane = %wake.lane, cause = wake.cause.token(), "published");
                Ok(())
            }
            // No subject for it, however often it is tried. Every legal name has one, so this is a fault of ours.
            Err(error @ (queue::Error::Encode(_) | queue::Error::TooLarge)) => {
                tracing::error!(object = %wake.object, %error, "the object cannot be published");
                Ok(())
            }
            Err(error) => {
                tracing::warn!(object = %wake.object, %error, "could not publish; trying again");
                Err(wake)
            }
        }
    }

    fn enqueue(&self, state: &mut State, wakes: Vec<Wake>) {
        if !wakes.is_empty() {
            for wake in wakes {
                state.pending.push(wake);
            }
            self.news.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is under the lock is consistent between any two lines that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
