//! What this process has in hand, by object.
//!
//! Invariant: an object is in the map exactly while a call for it runs here or is about to. Messages that arrive for it
//! meanwhile wait here, at most one for each lane: a newer one on the same subject has replaced the older in the stream
//! as well (Q-3, Q-5).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_api::ObjectRef;

use super::delivery::{Delivery, Receipt};

#[derive(Default)]
pub(super) struct Hand {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: HashMap<ObjectRef, Entry>,
    /// Nothing is begun any more.
    closed: bool,
}

#[derive(Default)]
struct Entry {
    running: Vec<Receipt>,
    waiting: Vec<Delivery>,
}

/// What has become of a message that was offered.
pub(super) enum Offer {
    /// Its object is not in hand; here it is back.
    Free(Box<Delivery>),
    /// It waits for the call in hand to end. The one it stands in for, if any, can be acknowledged: the stream has
    /// replaced it.
    Waits { replaced: Option<Receipt> },
    /// Nothing is begun any more: give it back to the server.
    Closed(Receipt),
}

impl Hand {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a message wait if its object is in hand.
    pub(super) fn offer(&self, delivery: Delivery) -> Offer {
        let mut state = self.state();
        if state.closed {
            return Offer::Closed(delivery.receipt);
        }
        let Some(entry) = state.objects.get_mut(&delivery.envelope.work.object) else {
            return Offer::Free(Box::new(delivery));
        };
        let older = entry.waiting.iter().position(|waiting| waiting.lane == delivery.lane);
        let replaced = older.map(|index| entry.waiting.swap_remove(index));
        match replaced {
            // The same message, delivered again, or one that comes late: the newer one stays.
            Some(waiting) if waiting.receipt.sequence > delivery.receipt.sequence => {
                entry.waiting.push(waiting);
                Offer::Waits { replaced: Some(delivery.receipt) }
            }
            Some(waiting) if waiting.receipt.sequence == delivery.receipt.sequence => {
                entry.waiting.push(delivery);
                Offer::Waits { replaced: None }
            }
            replaced => {
                entry.waiting.push(delivery);
                Offer::Waits { replaced: replaced.map(|replaced| replaced.receipt) }
            }
        }
    }

    /// Takes an object in hand that is not. `batch` is not empty and all for `object`.
    pub(super) fn begin(&self, object: &ObjectRef, batch: &[Delivery]) {
        let running = batch.iter().map(|delivery| delivery.receipt.clone()).collect();
        self.state().objects.insert(object.clone(), Entry { running, waiting: Vec::new() });
    }

    /// After a call: what has arrived meanwhile, to be looked at next, or `None` and the object is no longer in hand.
    pub(super) fn next(&self, object: &ObjectRef) -> Option<Vec<Delivery>> {
        let mut state = self.state();
        let entry = state.objects.get_mut(object)?;
        if entry.waiting.is_empty() {
            state.objects.remove(object);
            return None;
        }
        let batch = std::mem::take(&mut entry.waiting);
        entry.running = batch.iter().map(|delivery| delivery.receipt.clone()).collect();
        Some(batch)
    }

    /// Drops an object whose call ended in a way that should not be.
    pub(super) fn forget(&self, object: &ObjectRef) {
        self.state().objects.remove(object);
    }

    /// The call's messages have been dealt with: no more is to be said about them.
    pub(super) fn done(&self, object: &ObjectRef) {
        if let Some(entry) = self.state().objects.get_mut(object) {
            entry.running.clear();
        }
    }

    /// Every message in hand, to tell the server that work on them goes on.
    pub(super) fn receipts(&self) -> Vec<Receipt> {
        let state = self.state();
        let waiting = |entry: &Entry| entry.waiting.iter().map(|delivery| delivery.receipt.clone()).collect::<Vec<_>>();
        state.objects.values().flat_map(|entry| entry.running.iter().cloned().chain(waiting(entry))).collect()
    }

    /// From now on nothing is begun. Returns what waited.
    pub(super) fn close(&self) -> Vec<Receipt> {
        let mut state = self.state();
        state.closed = true;
        let waiting = state.objects.values_mut().flat_map(|entry| std::mem::take(&mut entry.waiting));
        waiting.map(|delivery| delivery.receipt).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use weir_api::Kind;
    use weir_messages::{Cause, Envelope, Lane, Work};

    fn delivery(lane: Lane, sequence: u64) -> Delivery {
        let work = Work::new(ObjectRef::new(Kind::Server, "ns", "a"), Cause::Changed);
        let receipt = Receipt { reply: "r".into(), sequence, delivered: 1, published: None };
        Delivery { receipt, lane, envelope: Envelope::new("/test", work, None) }
    }

    /// Proves: Q-3, Q-5
    #[test]
    fn what_arrives_during_a_call_waits_for_its_end_and_only_the_newest_of_each_lane() {
        let hand = Hand::default();
        let first = delivery(Lane::Urgent, 1);
        let object = first.envelope.work.object.clone();
        let Offer::Free(first) = hand.offer(first) else { panic!("nothing is in hand yet") };
        hand.begin(&object, &[*first]);
        assert!(matches!(hand.offer(delivery(Lane::Urgent, 2)), Offer::Waits { replaced: None }));
        assert!(matches!(hand.offer(delivery(Lane::Routine, 3)), Offer::Waits { replaced: None }));
        let Offer::Waits { replaced: Some(old) } = hand.offer(delivery(Lane::Urgent, 5)) else { panic!() };
        assert_eq!(old.sequence, 2);
        let Offer::Waits { replaced: Some(late) } = hand.offer(delivery(Lane::Urgent, 4)) else { panic!() };
        assert_eq!(late.sequence, 4, "a straggler does not replace what is newer");
        assert!(matches!(hand.offer(delivery(Lane::Urgent, 5)), Offer::Waits { replaced: None }), "a redelivery");

        let mut next: Vec<u64> = hand.next(&object).unwrap().iter().map(|d| d.receipt.sequence).collect();
        next.sort_unstable();
        assert_eq!(next, [3, 5]);
        assert!(hand.next(&object).is_none());
        assert!(matches!(hand.offer(delivery(Lane::Urgent, 6)), Offer::Free(_)), "no longer in hand");
    }

    /// Proves: Q-13
    #[test]
    fn a_closed_hand_gives_back_what_waits_and_begins_nothing() {
        let hand = Hand::default();
        let first = delivery(Lane::Urgent, 1);
        let object = first.envelope.work.object.clone();
        hand.begin(&object, &[first]);
        hand.offer(delivery(Lane::Routine, 2));
        assert_eq!(hand.close().iter().map(|r| r.sequence).collect::<Vec<_>>(), [2]);
        assert!(matches!(hand.offer(delivery(Lane::Routine, 3)), Offer::Closed(_)));
        assert!(hand.next(&object).is_none());
    }
}
