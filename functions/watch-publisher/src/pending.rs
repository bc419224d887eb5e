//! What has not been published yet: for each object and lane at most one message of its own and one for each object
//! whose change it is woken by, however many there were.
//!
//! Invariants
//! - A message leaves only by [`Pending::take`], and comes back by [`Pending::put_back`] when it could not be published;
//!   it never replaces a newer one then.
//! - A message takes the place of another only if whoever has published the newer one need not publish the older. So
//!   those with different origins stay apart: the stream may know the one, and store nothing, and not the other.
//! - Urgent before routine; within a lane, in the order of arrival.

use crate::index::Wake;
use crate::watched::Node;
use std::collections::{HashMap, VecDeque};
use weir_api::ObjectRef;
use weir_messages::Lane;

/// Waiting messages. Bounded by the number of objects and of references between them.
#[derive(Default)]
pub struct Pending {
    urgent: Queue,
    routine: Queue,
}

#[derive(Default)]
struct Queue {
    order: VecDeque<Key>,
    latest: HashMap<Key, Wake>,
}

/// What a message is about. The state of an object, when that is published, covers all that a list showed.
type Key = (ObjectRef, Option<Node>);

fn key(wake: &Wake) -> Key {
    let origin = wake.id.as_ref().and(wake.origin.as_ref());
    (wake.object.clone(), origin.cloned())
}

impl Queue {
    fn push(&mut self, wake: Wake) {
        let key = key(&wake);
        if self.latest.insert(key.clone(), wake).is_none() {
            self.order.push_back(key);
        }
    }

    fn put_back(&mut self, wake: Wake) {
        let key = key(&wake);
        if !self.latest.contains_key(&key) {
            self.order.push_front(key.clone());
            self.latest.insert(key, wake);
        }
    }

    fn take(&mut self) -> Option<Wake> {
        self.latest.remove(&self.order.pop_front()?)
    }
}

impl Pending {
    /// A new message; it takes the place of an older one about the same.
    pub fn push(&mut self, wake: Wake) {
        self.queue(wake.lane).push(wake);
    }

    /// A message that could not be published, unless there is news of the object since.
    pub fn put_back(&mut self, wake: Wake) {
        self.queue(wake.lane).put_back(wake);
    }

    /// The next message to publish; an urgent one, if `only_urgent`.
    pub fn take(&mut self, only_urgent: bool) -> Option<Wake> {
        self.urgent.take().or_else(|| if only_urgent { None } else { self.routine.take() })
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
            seen: Some((name.into(), version.into())),
            origin: None,
            id: Some(format!("{name}/{version}")),
        }
    }

    fn version(wake: Wake) -> String {
        wake.seen.unwrap().1
    }

    fn drain(pending: &mut Pending) -> Vec<(String, String)> {
        std::iter::from_fn(|| pending.take(false)).map(|w| (w.object.name.clone(), version(w))).collect()
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
    fn urgent_messages_go_before_routine_ones_and_alone_when_these_are_held() {
        let mut pending = Pending::default();
        pending.push(wake("listed", Lane::Routine, "1"));
        pending.push(wake("edited", Lane::Urgent, "2"));
        assert_eq!(pending.take(true).map(version).as_deref(), Some("2"));
        assert_eq!(pending.take(true), None);
        assert_eq!(drain(&mut pending), [("listed".into(), "1".into())]);
    }

    /// Proves: W-3
    #[test]
    fn a_message_never_takes_the_place_of_one_with_another_origin() {
        let by = |name: &str| {
            let node = Node { watched: crate::watched::Watched::Network, namespace: "ns".into(), name: name.into() };
            Wake { origin: Some(node), id: Some(format!("a/{name}")), ..wake("a", Lane::Urgent, "1") }
        };
        let mut pending = Pending::default();
        for wake in [wake("a", Lane::Urgent, "1"), by("n1"), by("n2"), by("n1")] {
            pending.push(wake);
        }
        assert_eq!(pending.len(), 3);
        // A list's messages are published with the object's state at that time, which covers all of them.
        for name in ["n1", "n2"] {
            pending.push(Wake { id: None, lane: Lane::Routine, ..by(name) });
        }
        assert_eq!(pending.len(), 4);
    }

    /// Proves: W-3
    #[test]
    fn a_message_that_failed_comes_back_first_but_never_over_newer_news() {
        let mut pending = Pending::default();
        pending.push(wake("a", Lane::Urgent, "1"));
        pending.push(wake("b", Lane::Urgent, "2"));
        let failed = pending.take(false).unwrap();
        pending.put_back(failed.clone());
        assert_eq!(pending.take(false).map(version).as_deref(), Some("1"));
        pending.push(wake("a", Lane::Urgent, "3"));
        pending.put_back(failed);
        assert_eq!(drain(&mut pending), [("b".into(), "2".into()), ("a".into(), "3".into())]);
    }
}
