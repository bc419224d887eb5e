//! The worker: takes messages of one kind off the queue and has a [`Handler`] look at their objects.
//!
//! Invariants
//! - No call without the object's lease, and in one process no two calls for one object: a second message waits here,
//!   unacknowledged, and is looked at afterwards.
//! - At the end of a call, in this order: the handler has written status, the timer is set or cleared, the message is
//!   acknowledged and the server has confirmed it, the lease is released. What is cut short anywhere comes back.
//! - Nothing is pulled that cannot be begun soon; what has waited for a second goes back, for another process.
//! - `urgent` goes first, `routine` gets at least one call in eight and never all places.
//! - Failure of a call, of a worker or of NATS is never a reason to stop: the only way out is to be told.
//!
//! Caveat: a handler is ended, when its time is up or its lease is lost, at its next await. One that computes for minutes
//! without awaiting cannot be ended, only refused its next write.

mod backoff;
pub(crate) mod caller;
mod delivery;
mod execute;
mod hand;
mod pull;
mod run;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use weir_api::{Kind, ObjectRef};
use weir_messages::{Lane, Traceparent, Work};

use crate::lease::Lease;

pub use run::{run, run_with};

/// What looks at objects.
pub trait Handler: Send + Sync + 'static {
    /// The kind whose messages it takes.
    fn kind(&self) -> Kind;

    /// Looks at the object of `call`, does what can be done now, writes status, and says what is to happen next.
    ///
    /// It asks `call.lease` before every write, and is done with the cloud by `call.deadline`. It may be ended at any
    /// await: when its lease is lost, when its time is up, when the process has to stop. A panic counts as
    /// [`Verdict::Retry`].
    fn handle<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Verdict>;

    /// Brings what it has kept back to where it belongs. Awaited before the process lets go of the queue.
    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// One look at one object.
#[derive(Debug)]
pub struct Call {
    /// What tells this call from others, in logs and recordings.
    pub id: Uuid,
    /// What is asked for.
    pub work: Work,
    /// The lane it waited in.
    pub lane: Lane,
    /// The lease on the object.
    pub lease: Arc<Lease>,
    /// The step of the trace that this call is.
    pub traceparent: Traceparent,
    /// When the call has to come to its end: nothing more is begun in the cloud from then on.
    pub deadline: Instant,
    /// When the handler is ended, if it still runs. Later than [`deadline`](Self::deadline), so that it can write status.
    pub end: Instant,
    /// Cancelled when the process is about to stop: a good moment to return early with [`Verdict::After`].
    pub stopping: CancellationToken,
}

impl Call {
    /// When a handler that waits for an answer gives up on it: halfway between deadline and end, to leave time for status.
    pub fn cut(&self) -> Instant {
        self.deadline + self.end.saturating_duration_since(self.deadline) / 2
    }

    /// A call outside any queue, with a lease that always holds: to run a handler by hand, and for tests.
    pub fn direct(work: Work) -> Self {
        let lease = Arc::new(Lease::always(work.object.clone()));
        let deadline = Instant::now() + Duration::from_secs(120);
        Self {
            id: Uuid::new_v4(),
            work,
            lane: Lane::Urgent,
            lease,
            traceparent: Traceparent::begin(),
            deadline,
            end: deadline + Duration::from_secs(5),
            stopping: CancellationToken::new(),
        }
    }
}

/// What is to happen after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The object is as it should be. Its timer is cleared.
    Settled,
    /// The object does not exist. Its timer is cleared.
    Gone,
    /// Not there yet, nothing wrong: look again after `delay`. Does not count as a failure.
    After {
        /// How long to wait.
        delay: Duration,
    },
    /// It failed: look again, backing off unless `after` says how long to wait.
    Retry {
        /// How long to wait, if whoever refused said so.
        after: Option<Duration>,
    },
    /// An event will wake the object. It is looked at once more after a long time, in case the event is lost.
    Waiting,
    /// Nothing will change until somebody changes the object. Its timer is cleared.
    Parked,
    /// The lease was lost during the call. Nothing more is done; the message comes back by itself.
    Abandoned,
}

/// A place at the end of a call, between two of the steps whose order Q-7 demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The lease is held, the handler has not begun.
    Leased,
    /// The handler has returned: status is written.
    Handled,
    /// The timer is set or cleared.
    Timed,
    /// The message is acknowledged, the lease not yet released.
    Acknowledged,
}

/// Awaited at each [`Point`] of each call. For tests that stop or kill a process there; [`run`] has none.
pub type Probe = Arc<dyn Fn(Point, &ObjectRef) -> BoxFuture<'static, ()> + Send + Sync>;
