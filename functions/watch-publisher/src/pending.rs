//! What has not been published yet: at most one message for each object and lane, however many there were.
//!
//! Invariants
//! - A message leaves only by [`Pending::take`], and comes back by [`Pending::put`] when it could not be published; it
//!   never replaces a newer one of the same object then.
//! - Urgent before routine; within a lane, in the order of arrival.

use crate::index::Wake;
use std::collections::{HashMap, VecDeque};
use weir_api::ObjectRef;
use weir_messages::Lane;

/// Waiting messages. Bounded by the number of objects: a message for an object that has one waiting takes its place.
#[derive(Default)]
pub struct Pending {
    urgent: Queue,
    routine: Queue,
}

#[derive(Default)]
struct Queue {
    order: VecDeque<ObjectRef>,
    latest: HashMap<ObjectRef, Wake>,
}

impl Queue {
    fn push(&mut self, wake: Wake) {
        if self.latest.insert(wake.object.clone(), wake.clone()).is_none() {
            self.order.push_back(wake.object);
        }
    }

    fn put_back(&mut self, wake: Wake) {
        if !self.latest.contains_key(&wake.object) {
            self.order.push_front(wake.object.clone());
            self.latest.insert(wake.object.clone(), wake);
        }
    }

    fn take(&mut self) -> Option<Wake> {
        self.latest.remove(&self.order.pop_front()?)
    }
}

impl Pending {
    /// A new message; what waits for the same object in the same lane is replaced by it. An urgent message makes a
    /// routine one for the same object needless.
    pub fn push(&mut self, wake: Wake) {
        if wake.lane == Lane::Routine && self.urgent.latest.contains_key(&wake.object) {
            return;
        }
        self.queue(wake.lane).push(wake);
    }

    /// A message that could not be published, unless there is news of the object since.
    pub fn put_back(&mut self, wake: Wake) {
        self.queue(wake.lane).put_back(wake);
    }

    /// The next message to publish.
    pub fn take(&mut self) -> Option<Wake> {
        self.urgent.take().or_else(|| self.routine.take())
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.urgent.latest.len() + self.routine.latest.len()
    }

    /// Whether none wait.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn queue(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::Urgent => &mut self.urgent,
            Lane::Routine => &mut self.routine,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use weir_api::Kind;
    use weir_messages::Cause;

    fn wake(name: &str, lane: Lane, version: &str) -> Wake {
        Wake {
            object: ObjectRef::new(Kind::Server, "ns", name),
            lane,
            cause: Cause::Changed,
            uid: Some(name.into()),
            version: version.into(),
            origin: None,
        }
    }

    fn drain(pending: &mut Pending) -> Vec<(String, String)> {
        std::iter::from_fn(|| pending.take()).map(|w| (w.object.name, w.version)).collect()
    }

    /// Proves: Q-3, W-3
    #[test]
    fn a_thousand_changes_of_one_object_wait_as_one_message_the_latest() {
        let mut pending = Pending::default();
        for version in 0..1000 {
            pending.push(wake("a", Lane::Urgent, &version.to_string()));
        }
        assert_eq!(pending.len(), 1);
        assert_eq!(drain(&mut pending), [("a".into(), "999".into())]);
    }

    /// Proves: W-2
    #[test]
    fn urgent_messages_go_before_routine_ones_and_make_them_needless() {
        let mut pending = Pending::default();
        pending.push(wake("listed", Lane::Routine, "1"));
        pending.push(wake("edited", Lane::Urgent, "2"));
        pending.push(wake("edited", Lane::Routine, "2"));
        assert_eq!(drain(&mut pending), [("edited".into(), "2".into()), ("listed".into(), "1".into())]);
    }

    /// Proves: W-3
    #[test]
    fn a_message_that_failed_comes_back_first_but_never_over_newer_news() {
        let mut pending = Pending::default();
        pending.push(wake("a", Lane::Urgent, "1"));
        pending.push(wake("b", Lane::Urgent, "2"));
        let failed = pending.take().unwrap();
        pending.put_back(failed.clone());
        assert_eq!(pending.take().unwrap().version, "1");
        pending.push(wake("a", Lane::Urgent, "3"));
        pending.put_back(failed);
        assert_eq!(drain(&mut pending), [("b".into(), "2".into()), ("a".into(), "3".into())]);
    }
}
