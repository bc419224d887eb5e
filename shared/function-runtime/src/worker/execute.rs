//! One call from lease to release.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tracing::Instrument;
use uuid::Uuid;
use weir_api::ObjectRef;

use super::caller::{Caller, Fate, combine};
use super::delivery::Delivery;
use super::hand::Hand;
use super::{Call, Point};
use crate::lease::{self, Acquired};
use crate::queue::{Error, Queue};
use crate::settings;
use crate::telemetry::metrics;

/// What a handler that was told to stop, by its deadline, is given before it is ended.
const OVERRUN: Duration = Duration::from_secs(5);

/// What all calls of a worker share.
pub(super) struct Context {
    pub(super) caller: Caller,
    pub(super) queue: Queue,
    pub(super) settings: settings::Worker,
    pub(super) hand: Hand,
    /// A call has found that something is missing on the server.
    pub(super) trouble: Notify,
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
                // wrong is looked after.
                tracing::warn!(%object, %error, "no lease; the message will come back");
                self.hand.done(object);
                self.trouble.notify_one();
                return;
            }
        };
        let messages = batch.iter().map(|delivery| (delivery.lane, delivery.receipt.sequence, &delivery.envelope));
        let Some((work, lane, traceparent)) = combine(messages) else { return };
        let deadline = Instant::now() + self.settings.call_timeout;
        let call = Arc::new(Call {
            id: Uuid::new_v4(),
            work,
            lane,
            lease,
            traceparent,
            deadline,
            end: deadline + OVERRUN,
            stopping: self.caller.stopping.clone(),
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
        let ended = self.caller.make(call).await;
        if let Err(error) = self.finish(call, batch, ended.fate).await {
            // Not acknowledged, so it comes back: the call is made again, which costs time and nothing else.
            tracing::warn!(%error, "the end of a call could not be recorded; it will be made again");
        }
        self.hand.done(&call.work.object);
        call.lease.release().await;
    }

    /// The end of a call: what Q-7 has between the timer and the release of the lease.
    async fn finish(&self, call: &Call, batch: &[Delivery], fate: Result<Fate, Error>) -> Result<(), Error> {
        let client = self.queue.client();
        match fate? {
            Fate::Leave => {}
            Fate::GiveBack => {
                for delivery in batch {
                    delivery.receipt.give_back(client, None).await;
                }
            }
            Fate::Acknowledge => {
                for delivery in batch {
                    delivery.receipt.acknowledge(client).await?;
                }
                self.caller.probe(Point::Acknowledged, &call.work.object).await;
            }
        }
        Ok(())
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

/// How long to leave a message be whose object is held elsewhere: a fifth of a second at first, up to two for a long call.
/// This is the only use of a delayed negative acknowledgement.
fn contention_delay(delivered: u64) -> Duration {
    let doublings = u32::try_from(delivered.saturating_sub(1)).unwrap_or(u32::MAX).min(4);
    let ceiling = (Duration::from_millis(200) * 2_u32.pow(doublings)).min(Duration::from_secs(2));
    ceiling.mul_f64(rand::random_range(0.5..1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contention_waits_longer_the_longer_it_lasts_but_never_long() {
        assert!(contention_delay(1) < Duration::from_millis(200));
        for delivered in [5, 1000, u64::MAX] {
            let delay = contention_delay(delivered);
            assert!(delay >= Duration::from_secs(1) && delay <= Duration::from_secs(2), "{delay:?}");
        }
    }
}
