//! The part of a call that is the same whoever asked for it: the handler, and then the timer.
//!
//! Whoever calls takes the lease before, says what became of the messages after, and then releases the lease: that is
//! where a queue and a Lambda invocation differ.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;
use weir_api::ObjectRef;
use weir_messages::{Envelope, Lane, Traceparent, Work};

use super::backoff::{self, Plan};
use super::{Call, Handler, Point, Probe, Verdict};
use crate::queue::{Error, Queue};
use crate::telemetry::metrics;
use crate::timer;

/// What all calls of a process share.
pub(crate) struct Caller {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) queue: Queue,
    /// See [`crate::settings::Worker::safety_net`].
    pub(crate) safety_net: Duration,
    /// The process is about to stop.
    pub(crate) stopping: CancellationToken,
    /// The process stops now: end what runs.
    pub(crate) ending: CancellationToken,
    pub(crate) probe: Option<Probe>,
}

/// How a call ended.
pub(crate) struct Ended {
    /// In one word, for logs and metrics.
    pub(crate) outcome: &'static str,
    /// What becomes of the messages that asked for it. An error says that the end could not be recorded, and that the
    /// call has to be made again.
    pub(crate) fate: Result<Fate, Error>,
}

/// What becomes of the messages that asked for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// They are done with.
    Acknowledge,
    /// They go back at once, as they are.
    GiveBack,
    /// They come back by themselves: another call has the object by now.
    Leave,
}

/// How a handler ended.
enum Outcome {
    Verdict(Verdict),
    /// The handler panicked.
    Panicked,
    /// The handler ran past its time and was ended.
    Overran,
    /// The process had to stop, and the handler was ended.
    HandedBack,
}

impl Outcome {
    const fn token(&self) -> &'static str {
        match self {
            Self::Verdict(Verdict::Settled) => "settled",
            Self::Verdict(Verdict::Gone) => "gone",
            Self::Verdict(Verdict::After { .. }) => "yielded",
            Self::Verdict(Verdict::Retry { .. }) => "failed",
            Self::Verdict(Verdict::Waiting) => "waiting",
            Self::Verdict(Verdict::Parked) => "parked",
            Self::Verdict(Verdict::Abandoned) => "abandoned",
            Self::Panicked => "panicked",
            Self::Overran => "overran",
            Self::HandedBack => "handed-back",
        }
    }

    /// The verdict it amounts to; `None` when the messages are to come back as they are.
    const fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Verdict(verdict) => Some(*verdict),
            Self::Panicked | Self::Overran => Some(Verdict::Retry { after: None }),
            Self::HandedBack => None,
        }
    }
}

impl Caller {
    /// Makes `call` and sets or clears the object's timer. The lease is held on return, unless it was lost.
    ///
    /// Dropping the future ends the handler.
    pub(crate) async fn make(&self, call: &Arc<Call>) -> Ended {
        let kind = call.work.object.kind.token();
        self.probe(Point::Leased, &call.work.object).await;
        metrics::IN_FLIGHT.add(&[kind], 1);
        let begun = Instant::now();
        let outcome = self.handle(call).await;
        metrics::IN_FLIGHT.add(&[kind], -1);
        metrics::CALL_SECONDS.observe(&[kind], begun.elapsed());
        metrics::CALLS.inc(&[kind, call.lane.token(), outcome.token()]);
        tracing::debug!(outcome = outcome.token(), took = ?begun.elapsed(), "called");
        Ended { outcome: outcome.token(), fate: self.conclude(call, &outcome).await }
    }

    /// Runs the handler in a task of its own, whose panic is its own, until it returns or must not go on.
    async fn handle(&self, call: &Arc<Call>) -> Outcome {
        let (handler, its_call) = (self.handler.clone(), call.clone());
        let task = tokio::spawn(async move { handler.handle(&its_call).await }.in_current_span());
        let mut task = AbortOnDropHandle::new(task);
        let outcome = tokio::select! {
            joined = &mut task => return match joined {
                Ok(verdict) => Outcome::Verdict(verdict),
                Err(error) => {
                    tracing::error!(%error, "the handler panicked");
                    Outcome::Panicked
                }
            },
            () = call.lease.ended() => Outcome::Verdict(Verdict::Abandoned),
            () = tokio::time::sleep_until(call.end.into()) => Outcome::Overran,
            () = self.ending.cancelled() => Outcome::HandedBack,
        };
        tracing::warn!(outcome = outcome.token(), "the handler is ended");
        task.abort();
        // The lease must not be released while the handler still runs. If it has returned in the meantime, fine: what it
        // has written is written, and the call will be made again.
        let _ = task.await;
        outcome
    }

    /// Sets or clears the timer, and says what becomes of the messages.
    async fn conclude(&self, call: &Call, outcome: &Outcome) -> Result<Fate, Error> {
        let Some(verdict) = outcome.verdict() else { return Ok(Fate::GiveBack) };
        self.probe(Point::Handled, &call.work.object).await;
        // Whoever holds the lease by now sets the timer; ours would undo it.
        if call.lease.check().is_err() {
            return Ok(Fate::Leave);
        }
        let fraction = rand::random_range(0.0..1.0);
        match backoff::plan(verdict, &call.work, call.lane, fraction, self.safety_net) {
            None => return Ok(Fate::Leave),
            Some(Plan::Clear) => timer::clear(&self.queue, &call.work.object).await?,
            Some(Plan::Set { work, lane, delay }) => {
                timer::set(&self.queue, work, lane, delay, Some(call.traceparent)).await?;
            }
        }
        self.probe(Point::Timed, &call.work.object).await;
        Ok(Fate::Acknowledge)
    }

    /// Awaits the probe, if there is one.
    pub(crate) async fn probe(&self, point: Point, object: &ObjectRef) {
        if let Some(probe) = &self.probe {
            probe(point, object).await;
        }
    }
}

/// What one call does for several messages, each with its lane and its place in the queue: the newest of the most urgent
/// lane says why, and the fewest failures count, since whoever changed something begins anew.
pub(crate) fn combine<'a>(
    messages: impl Iterator<Item = (Lane, u64, &'a Envelope)> + Clone,
) -> Option<(Work, Lane, Traceparent)> {
    let (lane, _, lead) = messages.clone().min_by_key(|(lane, place, _)| (*lane, u64::MAX - place))?;
    let mut work = lead.work.clone();
    work.attempt = messages.map(|(_, _, envelope)| envelope.work.attempt).min().unwrap_or_default();
    let traceparent = lead.traceparent.map_or_else(Traceparent::begin, Traceparent::child);
    Some((work, lane, traceparent))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use weir_api::Kind;
    use weir_messages::Cause;

    /// Proves: Q-8
    #[test]
    fn a_change_by_a_user_resets_the_count_of_failures_that_a_timer_carries() {
        let envelope = |cause, attempt| {
            let work = Work { attempt, ..Work::new(ObjectRef::new(Kind::Server, "ns", "a"), cause) };
            Envelope::new("/test", work, None)
        };
        let batch = [
            (Lane::Routine, 9, envelope(Cause::Retry, 7)),
            (Lane::Urgent, 4, envelope(Cause::Changed, 0)),
            (Lane::Urgent, 3, envelope(Cause::Dependency, 2)),
        ];
        let (work, lane, traceparent) = combine(batch.iter().map(|(l, place, e)| (*l, *place, e))).unwrap();
        assert_eq!((work.cause, work.attempt, lane), (Cause::Changed, 0, Lane::Urgent));
        assert_eq!(traceparent.trace_id(), batch[1].2.traceparent.unwrap().trace_id());
    }
}
