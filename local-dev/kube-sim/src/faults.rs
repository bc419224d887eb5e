//! Faults: what a test, or `POST /_sim/faults`, makes go wrong.
//!
//! A fault names the calls it strikes and what happens to them. The first fault that matches a call, has strikes left and wins its dice
//! throw is carried out. Dice are seeded, so a run can be repeated.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use regex::Regex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// A call, as faults see it.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// `servers.compute.example.com`, `configmaps`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    pub user_agent: String,
}

/// What happens to a call that is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// Answered with this code; nothing is done.
    Status {
        code: u16,
        /// Seconds, as `Retry-After`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
    },
    /// The connection is closed without an answer; nothing is done.
    Drop,
    /// The write is done and answered with this code all the same.
    LostWrite { code: u16 },
    /// The write is done and the connection closed without an answer.
    LostAnswer,
    /// The answer comes late.
    Latency { ms: u64 },
    /// A watch is affected.
    Watch { disruption: Disruption },
}

/// What happens to a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Disruption {
    /// It ends cleanly after a while.
    End {
        #[serde(default)]
        after_ms: u64,
    },
    /// It stays open and delivers nothing.
    Hang,
    /// It is told that its resource version is too old.
    Gone,
}

/// Which calls to strike, how often, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// Verbs; none: all.
    #[serde(default)]
    pub verbs: Vec<String>,
    /// Regular expression over the whole of `plural.group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Regular expression over the whole name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Regular expression over the whole namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The subresource, `""` for the object itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// Regular expression found anywhere in the User-Agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// This many matching calls pass first.
    #[serde(default)]
    pub skip: u64,
    /// Strikes at most so often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Strikes with this probability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Of the dice.
    #[serde(default)]
    pub seed: u64,
    pub action: Action,
}

impl Fault {
    /// A fault that strikes every call.
    pub fn new(action: Action) -> Fault {
        Fault {
            verbs: Vec::new(),
            resource: None,
            name: None,
            namespace: None,
            subresource: None,
            user_agent: None,
            skip: 0,
            count: None,
            probability: None,
            seed: 0,
            action,
        }
    }

    /// Answers `code`; nothing is done.
    pub fn status(code: u16) -> Fault {
        Fault::new(Action::Status { code, retry_after: None })
    }

    /// Does the write and answers 500.
    pub fn lost_write() -> Fault {
        Fault::new(Action::LostWrite { code: 500 })
    }

    #[must_use]
    pub fn verb(mut self, verb: &str) -> Fault {
        self.verbs.push(verb.into());
        self
    }

    /// Regular expression over the whole of `plural.group`.
    #[must_use]
    pub fn resource(mut self, pattern: &str) -> Fault {
        self.resource = Some(pattern.into());
        self
    }

    /// Regular expression over the whole name.
    #[must_use]
    pub fn name(mut self, pattern: &str) -> Fault {
        self.name = Some(pattern.into());
        self
    }

    #[must_use]
    pub fn subresource(mut self, name: &str) -> Fault {
        self.subresource = Some(name.into());
        self
    }

    #[must_use]
    pub fn user_agent(mut self, pattern: &str) -> Fault {
        self.user_agent = Some(pattern.into());
        self
    }

    #[must_use]
    pub fn skip(mut self, calls: u64) -> Fault {
        self.skip = calls;
        self
    }

    #[must_use]
    pub fn times(mut self, count: u64) -> Fault {
        self.count = Some(count);
        self
    }

    #[must_use]
    pub fn probability(mut self, probability: f64, seed: u64) -> Fault {
        self.probability = Some(probability);
        self.seed = seed;
        self
    }
}

/// A fault that cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{field}: {source}")]
    Pattern { field: &'static str, source: Box<regex::Error> },
    #[error("probability must be between 0 and 1")]
    Probability,
}

struct Active {
    id: u64,
    fault: Fault,
    resource: Option<Regex>,
    name: Option<Regex>,
    namespace: Option<Regex>,
    user_agent: Option<Regex>,
    dice: StdRng,
    seen: u64,
    strikes: u64,
}

/// A fault as it is listed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    pub id: u64,
    /// How often it has struck.
    pub strikes: u64,
    #[serde(flatten)]
    pub fault: Fault,
}

#[derive(Default)]
struct Inner {
    next: u64,
    active: Vec<Active>,
}

/// The faults of one server. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Faults {
    inner: Arc<Mutex<Inner>>,
    changed: Arc<watch::Sender<u64>>,
}

impl Default for Faults {
    fn default() -> Self {
        Faults { inner: Arc::default(), changed: Arc::new(watch::Sender::new(0)) }
    }
}

fn whole(pattern: Option<&str>, field: &'static str) -> Result<Option<Regex>, Error> {
    let compile =
        |p: &str| Regex::new(&format!("^(?:{p})$")).map_err(|e| Error::Pattern { field, source: Box::new(e) });
    pattern.map(compile).transpose()
}

impl Active {
    fn matches(&self, call: &Call) -> bool {
        let fits = |pattern: &Option<Regex>, text: &str| pattern.as_ref().is_none_or(|p| p.is_match(text));
        (self.fault.verbs.is_empty() || self.fault.verbs.contains(&call.verb))
            && self.fault.subresource.as_ref().is_none_or(|s| *s == call.subresource)
            && fits(&self.resource, &call.resource)
            && fits(&self.name, &call.name)
            && fits(&self.namespace, &call.namespace)
            && fits(&self.user_agent, &call.user_agent)
    }

    fn strikes(&mut self, call: &Call) -> bool {
        if !self.matches(call) || self.fault.count.is_some_and(|c| self.strikes >= c) {
            return false;
        }
        self.seen += 1;
        if self.seen <= self.fault.skip || self.fault.probability.is_some_and(|p| !self.dice.random_bool(p)) {
            return false;
        }
        self.strikes += 1;
        true
    }
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a fault. Open watches are struck at once if it is about watches.
    pub fn add(&self, fault: Fault) -> Result<u64, Error> {
        if fault.probability.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
            return Err(Error::Probability);
        }
        let user_agent = fault.user_agent.as_deref().map(Regex::new).transpose();
        let active = Active {
            id: 0,
            resource: whole(fault.resource.as_deref(), "resource")?,
            name: whole(fault.name.as_deref(), "name")?,
            namespace: whole(fault.namespace.as_deref(), "namespace")?,
            user_agent: user_agent.map_err(|e| Error::Pattern { field: "userAgent", source: Box::new(e) })?,
            dice: StdRng::seed_from_u64(fault.seed),
            seen: 0,
            strikes: 0,
            fault,
        };
        let id = {
            let mut inner = self.lock();
            inner.next += 1;
            let id = inner.next;
            inner.active.push(Active { id, ..active });
            id
        };
        self.changed.send_replace(id);
        Ok(id)
    }

    /// Takes a fault back; false: there is none of this number.
    pub fn remove(&self, id: u64) -> bool {
        let mut inner = self.lock();
        let before = inner.active.len();
        inner.active.retain(|a| a.id != id);
        inner.active.len() < before
    }

    /// Takes all faults back.
    pub fn clear(&self) {
        self.lock().active.clear();
    }

    /// All faults, with how often they have struck.
    pub fn list(&self) -> Vec<Listed> {
        self.lock().active.iter().map(|a| Listed { id: a.id, strikes: a.strikes, fault: a.fault.clone() }).collect()
    }

    /// What happens to this call.
    pub(crate) fn strike(&self, call: &Call) -> Option<Action> {
        let mut inner = self.lock();
        let about_watches = |a: &Active| matches!(a.fault.action, Action::Watch { .. });
        inner
            .active
            .iter_mut()
            .find_map(|a| ((call.verb == "watch" || !about_watches(a)) && a.strikes(call)).then_some(a.fault.action))
    }

    /// What a newly set fault does to a watch that is open.
    pub(crate) fn disruption_of_open_watch(&self, call: &Call) -> Option<Disruption> {
        let mut inner = self.lock();
        inner.active.iter_mut().find_map(|a| {
            let Action::Watch { disruption } = a.fault.action else { return None };
            a.strikes(call).then_some(disruption)
        })
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn call(verb: &str, name: &str) -> Call {
        Call { verb: verb.into(), resource: "widgets.demo.weir.dev".into(), name: name.into(), ..Call::default() }
    }

    #[test]
    fn a_fault_strikes_the_calls_it_names_and_no_others() {
        let faults = Faults::default();
        faults.add(Fault::status(409).verb("update").resource(r"widgets\..*").name("a.*").skip(1).times(1)).unwrap();
        assert_eq!(faults.strike(&call("create", "a1")), None);
        assert_eq!(faults.strike(&call("update", "b")), None);
        assert_eq!(faults.strike(&call("update", "a1")), None, "the first is skipped");
        assert_eq!(faults.strike(&call("update", "a1")), Some(Action::Status { code: 409, retry_after: None }));
        assert_eq!(faults.strike(&call("update", "a1")), None, "once only");
        assert_eq!(faults.list()[0].strikes, 1);
    }

    #[test]
    fn dice_with_the_same_seed_fall_the_same() {
        let run = || {
            let faults = Faults::default();
            faults.add(Fault::status(500).probability(0.5, 7)).unwrap();
            (0..64).map(|_| faults.strike(&call("get", "a")).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
        assert!(run().contains(&true) && run().contains(&false));
    }

    #[test]
    fn a_bad_pattern_is_refused() {
        assert!(Faults::default().add(Fault::status(500).name("(")).is_err());
        assert!(Faults::default().add(Fault::status(500).probability(2.0, 0)).is_err());
    }

    #[test]
    fn a_fault_reads_from_json() {
        let text = r#"{"verbs":["watch"],"resource":"servers\\..*","action":{"type":"watch","disruption":{"end":{"afterMs":5}}}}"#;
        let fault: Fault = serde_json::from_str(text).unwrap();
        assert_eq!(fault.action, Action::Watch { disruption: Disruption::End { after_ms: 5 } });
        let text = r#"{"action":{"type":"lostWrite","code":500},"count":1}"#;
        assert_eq!(serde_json::from_str::<Fault>(text).unwrap().count, Some(1));
    }
}
