//! One call from lease to release.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use uuid::Uuid;
use weir_api::ObjectRef;
use weir_messages::{Lane, Traceparent, Work};

use super::backoff::{self, Plan};
use super::delivery::Delivery;
use super::hand::Hand;
use super::{Call, Handler, Point, Probe, Verdict};
use crate::lease::{self, Acquired};
use crate::queue::{Error, Queue};
use crate::settings;
use crate::telemetry::metrics;
use crate::timer;

/// What a handler that was told to stop, by its deadline, is given before it is ended.
const OVERRUN: Duration = Duration::from_secs(5);

/// What all calls of a worker share.
pub(super) struct Context {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) queue: Queue,
    pub(super) settings: settings::Worker,
    pub(super) hand: Hand,
    /// The process is about to stop.
    pub(super) stopping: CancellationToken,
    /// The grace period is over: end what runs.
    pub(super) ending: CancellationToken,
    /// A call has found that something is missing on the server.
    pub(super) trouble: Notify,
    pub(super) probe: Option<Probe>,
}

/// How a call ended.
enum Outcome {
    Verdict(Verdict),
    /// The handler panicked.
    Panicked,
    /// The handler ran past its deadline and was ended.
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

/// Lets go of an object even if this task should panic.
struct InHand<'a> {
    hand: &'a Hand,
    object: &'a ObjectRef,
    held: bool,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        if self.held {
            self.hand.forget(self.object);
        }
    }
}

/// Runs a call for `batch`, messages for one object that has been taken in hand, and then for what has arrived meanwhile,
/// until nothing has.
pub(super) async fn drive(context: Arc<Context>, object: ObjectRef, batch: Vec<Delivery>) {
    let mut in_hand = InHand { hand: &context.hand, object: &object, held: true };
    let mut next = Some(batch);
    while let Some(batch) = next {
        context.once(&object, &batch).await;
        next = context.hand.next(&object);
    }
    in_hand.held = false;
}

impl Context {
    async fn once(&self, object: &ObjectRef, batch: &[Delivery]) {
        let kind = object.kind.token();
        let lease = match lease::acquire(&self.queue, object).await {
            Ok(Acquired::Lease(lease)) => Arc::new(lease),
            Ok(Acquired::Held) => {
                metrics::CONTENDED.inc(&[kind]);
                self.hand.done(object);
                for delivery in batch {
                    let delay = contention_delay(delivery.receipt.delivered);
                    delivery.receipt.give_back(self.queue.client(), Some(delay)).await;
                }
                return;
            }
            Err(error) => {
                // Not a negative acknowledgement: the message comes back when its time is up, and until then whatever is
                // wrong is looked after. The bucket may be gone.
                tracing::warn!(%object, %error, "no lease; the message will come back");
                self.hand.done(object);
                self.trouble.notify_one();
                return;
            }
        };
        let Some((work, lane, traceparent)) = combine(batch) else { return };
        let call = Arc::new(Call {
            id: Uuid::new_v4(),
            work,
            lane,
            lease,
            traceparent,
            deadline: Instant::now() + self.settings.call_timeout,
            stopping: self.stopping.clone(),
        });
        let span = tracing::info_span!(
            "call",
            object = %object, id = %call.id, lane = %lane, cause = call.work.cause.token(), attempt = call.work.attempt,
            trace = %call.traceparent.trace_id()
        );
        self.observe_start(batch, &call);
        self.call(&call, batch).instrument(span).await;
    }

    async fn call(&self, call: &Arc<Call>, batch: &[Delivery]) {
        let kind = call.work.object.kind.token();
        self.probe(Point::Leased, call).await;
        metrics::IN_FLIGHT.add(&[kind], 1);
        let begun = Instant::now();
        let outcome = self.handle(call).await;
        metrics::IN_FLIGHT.add(&[kind], -1);
        metrics::CALL_SECONDS.observe(&[kind], begun.elapsed());
        metrics::CALLS.inc(&[kind, call.lane.token(), outcome.token()]);
        tracing::debug!(outcome = outcome.token(), took = ?begun.elapsed(), "called");
        if let Err(error) = self.finish(call, batch, &outcome).await {
            // Not acknowledged, so it comes back: the call is made again, which costs time and nothing else.
            tracing::warn!(%error, "the end of a call could not be recorded; it will be made again");
        }
        self.hand.done(&call.work.object);
        call.lease.release().await;
    }

    /// Runs the handler in a task of its own, whose panic is its own, until it returns or must not go on.
    async fn handle(&self, call: &Arc<Call>) -> Outcome {
        let (handler, its_call) = (self.handler.clone(), call.clone());
        let mut task = tokio::spawn(async move { handler.handle(&its_call).await }.in_current_span());
        let outcome = tokio::select! {
            joined = &mut task => return match joined {
                Ok(verdict) => Outcome::Verdict(verdict),
                Err(error) => {
                    tracing::error!(%error, "the handler panicked");
                    Outcome::Panicked
                }
            },
            () = call.lease.ended() => Outcome::Verdict(Verdict::Abandoned),
            () = tokio::time::sleep_until((call.deadline + OVERRUN).into()) => Outcome::Overran,
            () = self.ending.cancelled() => Outcome::HandedBack,
        };
        tracing::warn!(outcome = outcome.token(), "the handler is ended");
        task.abort();
        // The lease must not be released while the handler still runs. If it has returned in the meantime, fine: what it
        // has written is written, and the call will be made again.
        let _ = task.await;
        outcome
    }

    /// The end of a call, in the order of Q-7, but for the release of the lease.
    async fn finish(&self, call: &Call, batch: &[Delivery], outcome: &Outcome) -> Result<(), Error> {
        let client = self.queue.client();
        let Some(verdict) = outcome.verdict() else {
            for delivery in batch {
                delivery.receipt.give_back(client, None).await;
            }
            return Ok(());
        };
        self.probe(Point::Handled, call).await;
        // Whoever holds the lease by now sets the timer; ours would undo it.
        if call.lease.check().is_err() {
            return Ok(());
        }
        let fraction = rand::random_range(0.0..1.0);
        match backoff::plan(verdict, &call.work, call.lane, fraction, self.settings.safety_net) {
            None => return Ok(()),
            Some(Plan::Clear) => timer::clear(&self.queue, &call.work.object).await?,
            Some(Plan::Set { work, lane, delay }) => {
                timer::set(&self.queue, work, lane, delay, Some(call.traceparent)).await?;
            }
        }
        self.probe(Point::Timed, call).await;
        for delivery in batch {
            delivery.receipt.acknowledge(client).await?;
        }
        self.probe(Point::Acknowledged, call).await;
        Ok(())
    }

    async fn probe(&self, point: Point, call: &Call) {
        if let Some(probe) = &self.probe {
            probe(point, &call.work.object).await;
        }
    }

    fn observe_start(&self, batch: &[Delivery], call: &Call) {
        let kind = call.work.object.kind.token();
        for _ in 1..batch.len() {
            metrics::COALESCED.inc(&[kind]);
        }
        let oldest = batch.iter().filter_map(|delivery| delivery.receipt.published).min();
        if let Some(published) = oldest {
            let waited = self.queue.server_now().duration_since(published);
            metrics::WAIT_SECONDS.observe(&[kind, call.lane.token()], Duration::try_from(waited).unwrap_or_default());
        }
    }
}

/// What one call does for several messages: the newest of the most urgent lane says why, and the fewest failures count,
/// since whoever changed something begins anew (Q-8).
fn combine(batch: &[Delivery]) -> Option<(Work, Lane, Traceparent)> {
    let lead = batch.iter().min_by_key(|delivery| (delivery.lane, u64::MAX - delivery.receipt.sequence))?;
    let mut work = lead.envelope.work.clone();
    work.attempt = batch.iter().map(|delivery| delivery.envelope.work.attempt).min().unwrap_or_default();
    let traceparent = lead.envelope.traceparent.map_or_else(Traceparent::begin, Traceparent::child);
    Some((work, lead.lane, traceparent))
}

/// How long to leave a message be whose object is held elsewhere: a fifth of a second at first, up to two for a long call.
/// This is the only use of a delayed negative acknowledgement (Q-6).
fn contention_delay(delivered: u64) -> Duration {
    let doublings = u32::try_from(delivered.saturating_sub(1)).unwrap_or(u32::MAX).min(4);
    let ceiling = (Duration::from_millis(200) * 2_u32.pow(doublings)).min(Duration::from_secs(2));
    ceiling.mul_f64(rand::random_range(0.5..1.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::delivery::Receipt;
    use super::*;
    use weir_api::Kind;
    use weir_messages::{Cause, Envelope};

    fn delivery(lane: Lane, sequence: u64, cause: Cause, attempt: u32) -> Delivery {
        let work = Work { attempt, ..Work::new(ObjectRef::new(Kind::Server, "ns", "a"), cause) };
        let receipt = Receipt { reply: "r".into(), sequence, delivered: 1, published: None };
        Delivery { receipt, lane, envelope: Envelope::new("/test", work, None) }
    }

    /// Proves: Q-8
    #[test]
    fn a_change_by_a_user_resets_the_count_of_failures_that_a_timer_carries() {
        let batch = [
            delivery(Lane::Routine, 9, Cause::Retry, 7),
            delivery(Lane::Urgent, 4, Cause::Changed, 0),
            delivery(Lane::Urgent, 3, Cause::Dependency, 2),
        ];
        let (work, lane, traceparent) = combine(&batch).unwrap();
        assert_eq!((work.cause, work.attempt, lane), (Cause::Changed, 0, Lane::Urgent));
        assert_eq!(traceparent.trace_id(), batch[1].envelope.traceparent.unwrap().trace_id());
    }

    #[test]
    fn contention_waits_longer_the_longer_it_lasts_but_never_long() {
        assert!(contention_delay(1) < Duration::from_millis(200));
        for delivered in [5, 1000, u64::MAX] {
            let delay = contention_delay(delivered);
            assert!(delay >= Duration::from_secs(1) && delay <= Duration::from_secs(2), "{delay:?}");
        }
    }
}
