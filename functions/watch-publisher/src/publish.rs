//! From what the watches say to acknowledged messages.
//!
//! Watches hand in what they see and never wait for the queue; one task publishes. When the queue is away the task backs
//! off and tries again, while [`crate::pending`] keeps one message for each object.

use crate::index::{How, Index, Wake};
use crate::metrics;
use crate::pending::Pending;
use crate::seen::Seen;
use crate::watched::{Node, Watched};
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weir_function_runtime::queue::{self, Queue};
use weir_function_runtime::telemetry::HEALTH;
use weir_messages::{Traceparent, Work};

/// How many messages may wait for the stream's acknowledgement at once.
const IN_FLIGHT: usize = 64;
/// The pause after a message could not be published; doubles up to [`LONGEST_PAUSE`].
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A watch that has failed for longer than this is no longer ready (W-7).
const LONGEST_FAILURE: Duration = Duration::from_secs(60);

/// Takes what watches see, publishes who is to be woken.
pub struct Publisher {
    queue: Queue,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    index: Index,
    pending: Pending,
    watches: BTreeMap<Watched, Health>,
}

#[derive(Clone, Copy)]
enum Health {
    Well,
    FailingSince(Instant),
    Ended,
}

impl Publisher {
    /// A publisher onto `queue`.
    pub fn new(queue: Queue) -> Self {
        Self { queue, state: Mutex::default(), news: Notify::new() }
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
        let wakes = state.index.listed(watched, shown);
        self.enqueue(&mut state, wakes);
        tracing::info!(?watched, objects = shown.len(), waiting = state.pending.len(), "listed");
    }

    /// A watch works.
    pub fn watch_is_well(&self, watched: Watched) {
        self.state().watches.insert(watched, Health::Well);
    }

    /// A watch failed; it will be tried again.
    pub fn watch_failed(&self, watched: Watched, error: &kube::runtime::watcher::Error) {
        tracing::warn!(?watched, %error, "a watch failed; trying again");
        metrics::FAILURES.inc(&[watched.name()]);
        let mut state = self.state();
        let health = state.watches.entry(watched).or_insert(Health::FailingSince(Instant::now()));
        if matches!(health, Health::Well) {
            *health = Health::FailingSince(Instant::now());
        }
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
                Some(Health::FailingSince(since)) if since.elapsed() > LONGEST_FAILURE => {
                    Some(format!("the watch of {watched:?} has failed for {} s", since.elapsed().as_secs()))
                }
                Some(_) => None,
            })
            .collect();
        if bad.is_empty() { Ok(()) } else { Err(bad.join("; ")) }
    }

    /// Tells the process's readiness, every few seconds until `stop`, since a failure gets worse only by lasting.
    pub async fn report(self: Arc<Self>, stop: CancellationToken) {
        loop {
            match self.readiness() {
                Ok(()) => HEALTH.ready("watches"),
                Err(reason) => HEALTH.not_ready("watches", reason),
            }
            let (objects, waiting) = self.sizes();
            metrics::OBJECTS.set(&[], i64::try_from(objects).unwrap_or(i64::MAX));
            metrics::WAITING.set(&[], i64::try_from(waiting).unwrap_or(i64::MAX));
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                () = stop.cancelled() => return,
            }
        }
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
                Err(error @ (queue::Error::ServerTooOld { .. } | queue::Error::Incompatible { .. })) => return Err(error.into()),
                Err(error) => {
                    HEALTH.not_ready("queue", error.to_string());
                    tracing::warn!(%error, "the queue is not ready; trying again");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Ok(())
    }

    /// Publishes until `stop`. What is in flight then is finished; what waits is listed by the next publisher.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut flights = FuturesUnordered::new();
        let mut pause = SHORTEST_PAUSE;
        loop {
            while flights.len() < IN_FLIGHT && !stop.is_cancelled() {
                let Some(wake) = self.state().pending.take() else { break };
                flights.push(self.publish(wake));
            }
            tokio::select! {
                Some(landed) = flights.next() => match landed {
                    Ok(()) => pause = SHORTEST_PAUSE,
                    Err(wake) => {
                        self.state().pending.put_back(wake);
                        tokio::select! {
                            () = tokio::time::sleep(pause) => {}
                            () = stop.cancelled() => {}
                        }
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                },
                () = self.news.notified(), if flights.len() < IN_FLIGHT => {}
                () = stop.cancelled(), if flights.is_empty() => return,
            }
        }
    }

    async fn publish(&self, wake: Wake) -> Result<(), Wake> {
        let mut work = Work::new(wake.object.clone(), wake.cause);
        if let (Some(uid), None) = (&wake.uid, &wake.origin) {
            work = work.seen(uid, &wake.version);
        }
        if let Some(origin) = wake.origin.as_ref().and_then(|(node, _)| node.object()) {
            work = work.caused_by(origin);
        }
        match self.queue.publish(work, wake.lane, Some(wake.message_id()), Some(Traceparent::begin())).await {
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
                if matches!(error, queue::Error::NoStream(_)) {
                    // Removed by hand, or lost with a server's memory. What comes of this shows at the next attempt.
                    let _ = self.queue.ensure().await;
                }
                Err(wake)
            }
        }
    }

    fn enqueue(&self, state: &mut State, wakes: Vec<Wake>) {
        if !wakes.is_empty() {
            wakes.into_iter().for_each(|wake| state.pending.push(wake));
            self.news.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is under the lock is consistent between any two lines that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
