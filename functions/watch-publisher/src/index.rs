//! Who is woken by what: the rules W-1, W-2 and W-5, without I/O.
//!
//! Invariants
//! - An object's own function is woken when its intent changed, never for its status alone (W-1); but for a Server whose
//!   status calls for its function, which is heard at each of its changes (RBD-20, RTY-4).
//! - Those who refer to an object are woken when what it offers changed: it became ready, failed, began to go, came to
//!   exist where nothing else tells that it is of use, or went.
//! - Those who are being deleted and wait for others to go first are woken whenever one of these goes, or lets go.
//! - What a watch shows while it runs is urgent; what a list shows, and a wake of very many, is routine (W-2).
//! - A message id stands for news that, once published by anybody, need not be published again. For an event it is the
//!   event's own version. A list shows a state, not an event: its id is made from all that the object's function
//!   reads, see [`Index::state_id`], since `<uid>/<resourceVersion>` of an object says nothing of those it waits for.

use crate::seen::{Seen, hash};
use crate::watched::{Node, Watched};
use std::collections::{BTreeSet, HashMap, HashSet};
use weir_api::ObjectRef;
use weir_messages::{Cause, Lane};

/// More dependants than this are woken through the routine lane: a region with ten thousand servers that flaps must not
/// stand before one person's edit.
const URGENT_FANOUT: usize = 250;

/// How something was learnt of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By an event of a running watch.
    Watch,
    /// From a list: at the start, or after a gap.
    List,
}

/// A message to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Whose function to wake.
    pub object: ObjectRef,
    /// In which lane.
    pub lane: Lane,
    /// Why.
    pub cause: Cause,
    /// The object's own UID and resource version, when these are the news.
    pub seen: Option<(String, String)>,
    /// The object whose change wakes this one, when that is another one.
    pub origin: Option<Node>,
    /// The message id by which the stream knows the same news from another publisher (Q-18, W-4); `None` when it is to be
    /// made from the state at publication, by [`Index::state_id`].
    pub id: Option<String>,
}

struct Entry {
    uid: String,
    version: String,
    intent: u64,
    offer: u64,
    deleting: bool,
    references: Box<[Node]>,
}

/// All objects that exist, as far as the watches have told.
#[derive(Default)]
pub struct Index {
    objects: HashMap<Node, Entry>,
    dependants: HashMap<Node, HashSet<Node>>,
    /// The kinds that have been listed at least once.
    listed: BTreeSet<Watched>,
}

impl Index {
    /// How many objects are known.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Whether every kind has been listed at least once.
    pub fn is_complete(&self) -> bool {
        self.listed.len() == Watched::ALL.len()
    }

    /// The objects of a kind; none until the kind has been listed.
    pub fn of(&self, watched: Watched) -> Vec<ObjectRef> {
        let known = self.objects.keys().filter(|node| node.watched == watched && self.listed.contains(&watched));
        known.filter_map(Node::object).collect()
    }

    /// A message for everything that exists and has a function, as if a list had shown it for the first time. With `mark`, under an
    /// id of its own: for a stream that has lost messages, and perhaps not the ids by which it knows them.
    pub fn all(&self, mark: Option<&str>) -> Vec<Wake> {
        let objects = self.objects.iter();
        let wake = |(node, entry): (&Node, &Entry)| {
            let wake = own(node, &entry.uid, &entry.version, Cause::Listed, How::List)?;
            let id = mark.map(|mark| format!("{}/{}/{mark}", entry.uid, entry.version));
            Some(Wake { id, ..wake })
        };
        objects.filter_map(wake).collect()
    }

    /// An object was created or changed, or was in a list.
    pub fn applied(&mut self, seen: Seen, how: How) -> Vec<Wake> {
        let mut wakes = Vec::new();
        // Deleted and made again under the same name while nobody watched: the old one went.
        if self.objects.get(&seen.node).is_some_and(|entry| entry.uid != seen.uid) {
            wakes.extend(self.deleted(&seen.node, &seen.version, how));
        }
        let (intent_changed, offer_changed, left) = match self.objects.get(&seen.node) {
            Some(entry) => {
                let left =
                    entry.references.iter().filter(|target| !seen.references.contains(target)).cloned().collect();
                (entry.intent != seen.intent, entry.offer != seen.offer, left)
            }
            // A new object that is of no use yet is no news to those who wait for it.
            None => (true, seen.ready, Vec::new()),
        };
        if intent_changed {
            let cause = if how == How::Watch { Cause::Changed } else { Cause::Listed };
            wakes.extend(own(&seen.node, &seen.uid, &seen.version, cause, how));
        } else if seen.calls && self.objects.get(&seen.node).is_some_and(|entry| entry.version != seen.version) {
            // A level, not an edge: whatever changed, as long as it calls.
            wakes.extend(own(&seen.node, &seen.uid, &seen.version, Cause::Observed, how));
        }
        if offer_changed {
            wakes.extend(self.wake_dependants(&seen.node, &seen.uid, &seen.version, how));
        }
        wakes.extend(self.wake_waiting(&left, &seen.node, &seen.uid, &seen.version, how));
        self.store(seen);
        wakes
    }

    /// An object has gone. `version` is the resource version of its going, as far as known.
    pub fn deleted(&mut self, node: &Node, version: &str, how: How) -> Vec<Wake> {
        let Some(entry) = self.objects.remove(node) else {
            return Vec::new();
        };
        self.unlink(node, &entry.references);
        let mut wakes = self.wake_dependants(node, &entry.uid, version, how);
        wakes.extend(self.wake_waiting(&entry.references, node, &entry.uid, version, how));
        if !entry.deleting {
            // It had nobody's finalizer, so that no deletion timestamp has ever told of its deletion.
            wakes.extend(own(node, &entry.uid, version, Cause::Changed, how));
        }
        wakes
    }

    /// A list of a kind is complete: what it did not show has gone.
    pub fn listed(&mut self, watched: Watched, shown: &HashSet<Node>) -> Vec<Wake> {
        self.listed.insert(watched);
        let gone: Vec<Node> =
            self.objects.keys().filter(|node| node.watched == watched && !shown.contains(node)).cloned().collect();
        gone.iter().flat_map(|node| self.deleted(node, "gone", How::List)).collect()
    }

    /// The message id of an object's state: of itself and of all whose state its function goes by.
    ///
    /// It is `<uid>/<resourceVersion>`, as for an event, if nothing that counts has changed since: whoever published that
    /// event did so when all was as it is now. This compares resource versions over kinds, which are revisions of one
    /// store. Were a kind kept in a store of its own, a list could be taken for news that is up to two minutes (the
    /// stream's duplicate window) older than it; the safety net of whoever waits, and the resync, bound that.
    ///
    /// `None`, for no id at all, while not everything has been listed: what is not known cannot be taken for unchanged.
    pub fn state_id(&self, object: &ObjectRef) -> Option<String> {
        let node = Node::of(object)?;
        let entry = self.objects.get(&node)?;
        if !self.is_complete() {
            return None;
        }
        let revision = |version: &str| version.parse::<u64>().ok();
        let own = revision(&entry.version);
        let older = |target: &Node| {
            let theirs = self.objects.get(target).and_then(|entry| revision(&entry.version));
            theirs.zip(own).is_some_and(|(theirs, own)| theirs <= own)
        };
        // Nothing tells when those who are gone went: neither what it refers to, nor what it waits for if it is deleted.
        if !entry.deleting && entry.references.iter().all(older) {
            return Some(format!("{}/{}", entry.uid, entry.version));
        }
        let state = |node: &Node| hash((node, self.objects.get(node).map(|entry| (&entry.uid, &entry.version))));
        let mut states = entry.references.iter().map(state).fold(0, u64::wrapping_add);
        if entry.deleting {
            let waiting_for = self.dependants.get(&node).into_iter().flatten();
            states = waiting_for.map(|node| hash((node, 1))).fold(states, u64::wrapping_add);
        }
        Some(format!("{}/{}/{states:016x}", entry.uid, entry.version))
    }

    fn wake_dependants(&self, node: &Node, uid: &str, version: &str, how: How) -> Vec<Wake> {
        let Some(dependants) = self.dependants.get(node) else {
            return Vec::new();
        };
        let lane = lane(how, dependants.len());
        let mut wakes: Vec<Wake> =
            dependants.iter().filter_map(|d| self.wake(d, lane, (node, uid, version), how)).collect();
        wakes.sort_by(|a, b| a.object.cmp(&b.object));
        wakes
    }

    /// Wakes those of `targets` that are being deleted, and so wait for `node` to go.
    fn wake_waiting(&self, targets: &[Node], node: &Node, uid: &str, version: &str, how: How) -> Vec<Wake> {
        let waiting = targets.iter().filter(|target| self.objects.get(target).is_some_and(|entry| entry.deleting));
        waiting.filter_map(|target| self.wake(target, lane(how, 1), (node, uid, version), how)).collect()
    }

    fn wake(&self, node: &Node, lane: Lane, origin: (&Node, &str, &str), how: How) -> Option<Wake> {
        let object = node.object()?;
        let (by, by_uid, version) = origin;
        let id = match how {
            How::Watch => {
                let uid = &self.objects.get(node)?.uid;
                Some(format!("{uid}/{}/{by_uid}/{version}", by.watched.name()))
            }
            How::List => None,
        };
        Some(Wake { object, lane, cause: Cause::Dependency, seen: None, origin: Some(by.clone()), id })
    }

    fn store(&mut self, seen: Seen) {
        let Seen { node, uid, version, intent, offer, deleting, references, .. } = seen;
        let old = self.objects.get_mut(&node);
        if old.as_ref().is_none_or(|entry| entry.references != references) {
            if let Some(entry) = old {
                let before = std::mem::take(&mut entry.references);
                self.unlink(&node, &before);
            }
            for target in &references {
                self.dependants.entry(target.clone()).or_default().insert(node.clone());
            }
        }
        self.objects.insert(node, Entry { uid, version, intent, offer, deleting, references });
    }

    fn unlink(&mut self, node: &Node, references: &[Node]) {
        for target in references {
            if let Some(dependants) = self.dependants.get_mut(target) {
                dependants.remove(node);
                if dependants.is_empty() {
                    self.dependants.remove(target);
                }
            }
        }
    }
}

/// News of an object itself, for its own function if it has one.
fn own(node: &Node, uid: &str, version: &str, cause: Cause, how: How) -> Option<Wake> {
    let id = (how == How::Watch).then(|| format!("{uid}/{version}"));
    let seen = Some((uid.to_owned(), version.to_owned()));
    Some(Wake { object: node.object()?, lane: lane(how, 1), cause, seen, origin: None, id })
}

fn lane(how: How, many: usize) -> Lane {
    if how == How::Watch && many <= URGENT_FANOUT { Lane::Urgent } else { Lane::Routine }
}

#[cfg(test)]
mod tests;
