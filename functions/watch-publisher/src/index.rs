//! Who is woken by what: the rules W-1, W-2 and W-5, without I/O.
//!
//! Invariants
//! - An object's own function is woken when its intent changed, never for its status alone (W-1).
//! - Those who refer to an object are woken when what it offers changed: it became ready, failed, began to go, came to
//!   exist where nothing else tells that it is of use, or went.
//! - Those who are being deleted and wait for others to go first are woken whenever one of these goes.
//! - What a watch shows while it runs is urgent; what a list shows, and a wake of very many, is routine (W-2).

use crate::seen::Seen;
use crate::watched::{Node, Watched};
use std::collections::{HashMap, HashSet};
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
    /// The UID of the object, if known.
    pub uid: Option<String>,
    /// The resource version that makes this news: the object's own, or that of `origin`.
    pub version: String,
    /// The object whose change wakes this one, with its UID.
    pub origin: Option<(Node, String)>,
}

impl Wake {
    /// The message id by which the stream knows the same news from another publisher (Q-18, W-4).
    pub fn message_id(&self) -> String {
        let uid = self.uid.as_deref().unwrap_or(&self.object.name);
        match &self.origin {
            None => format!("{uid}/{}", self.version),
            Some((node, origin)) => format!("{uid}/{}/{origin}/{}", node.watched.name(), self.version),
        }
    }
}

struct Entry {
    uid: String,
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

    /// An object was created or changed, or was in a list.
    pub fn applied(&mut self, seen: Seen, how: How) -> Vec<Wake> {
        let mut wakes = Vec::new();
        let old = self.objects.get(&seen.node);
        // Deleted and made again under the same name while nobody watched: the old one went.
        let replaced = old.is_some_and(|entry| entry.uid != seen.uid);
        if replaced {
            wakes.extend(self.deleted(&seen.node, &seen.version, how));
        }
        let old = self.objects.get(&seen.node);
        let (intent_changed, offer_changed) = match old {
            Some(entry) => (entry.intent != seen.intent, entry.offer != seen.offer),
            // A new object that is of no use yet is no news to those who wait for it; and what a first list shows is
            // listed itself, dependants included.
            None => (true, seen.ready && how == How::Watch),
        };
        if intent_changed && let Some(object) = seen.node.object() {
            let (lane, cause) = match how {
                How::Watch => (Lane::Urgent, Cause::Changed),
                How::List => (Lane::Routine, Cause::Listed),
            };
            let (uid, version) = (Some(seen.uid.clone()), seen.version.clone());
            wakes.push(Wake { object, lane, cause, uid, version, origin: None });
        }
        if offer_changed {
            wakes.extend(self.wake_dependants(&seen.node, &seen.uid, &seen.version, how));
        }
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
        let waiting = entry.references.iter().filter(|parent| self.objects.get(parent).is_some_and(|p| p.deleting));
        let origin = (node.clone(), entry.uid.clone());
        wakes.extend(waiting.filter_map(|parent| self.wake(parent, lane(how, 1), version, &origin)));
        wakes
    }

    /// A list of a kind is complete: what it did not show has gone.
    pub fn listed(&mut self, watched: Watched, shown: &HashSet<Node>) -> Vec<Wake> {
        let gone: Vec<Node> =
            self.objects.keys().filter(|node| node.watched == watched && !shown.contains(node)).cloned().collect();
        gone.iter().flat_map(|node| self.deleted(node, "gone", How::List)).collect()
    }

    fn wake_dependants(&self, node: &Node, uid: &str, version: &str, how: How) -> Vec<Wake> {
        let Some(dependants) = self.dependants.get(node) else {
            return Vec::new();
        };
        let lane = lane(how, dependants.len());
        let origin = (node.clone(), uid.to_owned());
        let mut wakes: Vec<Wake> = dependants.iter().filter_map(|d| self.wake(d, lane, version, &origin)).collect();
        wakes.sort_by(|a, b| a.object.cmp(&b.object));
        wakes
    }

    fn wake(&self, node: &Node, lane: Lane, version: &str, origin: &(Node, String)) -> Option<Wake> {
        let uid = self.objects.get(node).map(|entry| entry.uid.clone());
        let (version, origin) = (version.to_owned(), Some(origin.clone()));
        Some(Wake { object: node.object()?, lane, cause: Cause::Dependency, uid, version, origin })
    }

    fn store(&mut self, seen: Seen) {
        let Seen { node, uid, intent, offer, deleting, references, .. } = seen;
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
        self.objects.insert(node, Entry { uid, intent, offer, deleting, references });
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

fn lane(how: How, many: usize) -> Lane {
    if how == How::Watch && many <= URGENT_FANOUT { Lane::Urgent } else { Lane::Routine }
}

#[cfg(test)]
mod tests;
