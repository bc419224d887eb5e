//! What was asked: a log of requests, and counts of the writes that changed something.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::faults::Call;

const KEPT: usize = 100_000;

/// One request for a resource.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub sequence: u64,
    pub verb: String,
    /// `plural.group`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    /// What the client saw; 0: nothing, the connection was dropped.
    pub status: u16,
    pub user_agent: String,
    /// The store has changed.
    pub changed: bool,
    /// A fault had a hand in it.
    pub fault: bool,
}

/// Writes that changed something, by resource and verb. A write to a subresource counts as `verb/subresource`.
pub type Counts = BTreeMap<String, BTreeMap<String, u64>>;

#[derive(Default)]
struct Inner {
    next: u64,
    log: VecDeque<Request>,
    counts: Counts,
}

/// The log of one server. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Requests {
    inner: Arc<Mutex<Inner>>,
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, call: Call, status: u16, changed: bool, fault: bool) {
        let mut inner = self.lock();
        if changed {
            let verb = if call.subresource.is_empty() {
                call.verb.clone()
            } else {
                format!("{}/{}", call.verb, call.subresource)
            };
            *inner.counts.entry(call.resource.clone()).or_default().entry(verb).or_default() += 1;
        }
        inner.next += 1;
        let request = Request {
            sequence: inner.next,
            verb: call.verb,
            resource: call.resource,
            namespace: call.namespace,
            name: call.name,
            subresource: call.subresource,
            status,
            user_agent: call.user_agent,
            changed,
            fault,
        };
        if inner.log.len() == KEPT {
            inner.log.pop_front();
        }
        inner.log.push_back(request);
    }

    /// All requests since the start or the last reset, oldest first (at most the last 100,000).
    pub fn all(&self) -> Vec<Request> {
        self.lock().log.iter().cloned().collect()
    }

    /// How many requests for resources there have been since the start, whatever has been reset.
    pub fn served(&self) -> u64 {
        self.lock().next
    }

    /// Writes of clients that changed something. What the server's own controllers do is not counted.
    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// All writes that changed something, of resources whose name passes `of`.
    pub fn changes(&self, of: impl Fn(&str) -> bool) -> u64 {
        self.lock().counts.iter().filter(|(resource, _)| of(resource)).flat_map(|(_, verbs)| verbs.values()).sum()
    }

    /// Forgets log and counts.
    pub fn reset(&self) {
        let mut inner = self.lock();
        inner.log.clear();
        inner.counts.clear();
    }
}
