//! What stands in the way of an object, and what follows from it.
//!
//! Intention: a failure's consequence is part of its type, so that no caller has to guess from a text whether to come
//! back, when, or whether to wait for a person. The text in `message` is for the object's owner: written here in the
//! project, never taken from a provider's answer (OWN-5). What a provider said goes into `detail`, which only logs and
//! recordings see.

use crate::conditions::Reason;
use std::fmt;
use std::time::Duration;

/// How long a plain yield waits before the next look.
pub const YIELD: Duration = Duration::from_secs(10);

/// What follows from a [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Not yet; the cloud is at work. Look again after this long; does not count as a failure.
    Yield(Duration),
    /// Not yet; a change of another object will wake this one (W-5), so nothing is polled.
    Await,
    /// Parked until its owner changes it.
    UserAction,
    /// An operator has to act. Nothing tells us when that was done, so the object is looked at again, slowly.
    Operator,
    /// Somebody else wrote what this call had read: read again at once, never force (OWN-1).
    Reread,
    /// Transient. Back off, or wait as long as the cloud asked for (OSC-8).
    Retry(Option<Duration>),
}

/// Why a call could not finish its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What follows from it.
    pub consequence: Consequence,
    /// The reason to show in `Available`; `None` for the usual one of the consequence.
    pub reason: Option<Reason>,
    /// For the object's owner: what is wrong and what to do. No IDs of the provider, no raw diagnostics.
    pub message: String,
    /// For operators, in logs and recordings only.
    pub detail: Option<String>,
}

impl Problem {
    /// Not yet: look again after [`YIELD`].
    pub fn yielding(message: impl Into<String>) -> Self {
        Self { consequence: Consequence::Yield(YIELD), reason: None, message: message.into(), detail: None }
    }

    /// Not yet: another object's change will wake this one.
    pub fn waiting(reason: Reason, message: impl Into<String>) -> Self {
        Self { consequence: Consequence::Await, reason: Some(reason), message: message.into(), detail: None }
    }

    /// The owner has to change something first.
    pub fn user_action(message: impl Into<String>) -> Self {
        Self { consequence: Consequence::UserAction, reason: None, message: message.into(), detail: None }
    }

    /// An operator has to act first.
    pub fn operator(message: impl Into<String>) -> Self {
        Self { consequence: Consequence::Operator, reason: None, message: message.into(), detail: None }
    }

    /// What was read is out of date: read again at once.
    pub fn reread() -> Self {
        let message = "the object changed while it was being worked on; looking again".to_owned();
        Self { consequence: Consequence::Reread, reason: None, message, detail: None }
    }

    /// Transient: try again, backing off.
    pub fn retry(message: impl Into<String>) -> Self {
        Self { consequence: Consequence::Retry(None), reason: None, message: message.into(), detail: None }
    }

    /// The same problem with a text for operators.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same problem under another reason.
    #[must_use]
    pub fn with_reason(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }

    /// The reason that `Available` shows for it: given, or the usual one. `deleting` tells which of the two directions
    /// the object was going.
    pub fn shown_reason(&self, deleting: bool) -> Reason {
        match (&self.reason, self.consequence) {
            (Some(reason), _) => reason.clone(),
            (None, Consequence::Yield(_) | Consequence::Await | Consequence::Reread) if deleting => {
                Reason::Deprovisioning
            }
            (None, Consequence::Yield(_) | Consequence::Await | Consequence::Reread) => Reason::Provisioning,
            (None, _) => Reason::Errored,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::Value;

    /// What the rows say of a problem. How `Ok`, a pause and references show is the reconciler's.
    ///
    /// Proves: OWN-3
    #[test]
    fn a_problem_shows_and_comes_again_as_the_table_says() {
        let table: Value = serde_json::from_str(include_str!("../tests/tables/disposition_to_condition.json")).unwrap();
        let mut tried = 0;
        for case in table["cases"].as_array().unwrap() {
            let (input, expect) = (&case["input"], &case["expect"]);
            let Some(result) = input["result"].as_str().filter(|result| !["ok", "cancelled"].contains(result)) else {
                continue;
            };
            let (class, typed) = result.split_once(' ').unwrap_or((result, ""));
            let problem = match class {
                "yield" => Problem::yielding("<message>"),
                "terminal" => Problem::operator("<message>"),
                "userAction" => Problem::user_action("<message>"),
                _ => Problem::retry("an unexpected error occurred"),
            };
            let problem = match typed {
                "" => problem,
                "DependencyNotReady" => problem.with_reason(Reason::DependencyNotReady),
                "server_rebuild_failed" => problem.with_reason(Reason::Typed("server_rebuild_failed")),
                other => unreachable!("{other}"),
            };
            let shown = problem.shown_reason(input["op"] == "delete");
            if let Some(reason) = expect["available"][1].as_str() {
                assert!(reason.starts_with(shown.as_str()), "{}: {shown}", case["case"]);
            }
            match (problem.consequence, expect["requeue"].as_str()) {
                (Consequence::Yield(delay), Some("10s")) => assert_eq!(delay.as_secs(), 10),
                // Parked; an operator's park is looked at again when everything is (OWN-7).
                (Consequence::UserAction | Consequence::Operator, None)
                | (Consequence::Retry(_), Some("10s" | "exponential")) => {}
                other => unreachable!("{}: {other:?}", case["case"]),
            }
            tried += 1;
        }
        assert_eq!(tried, 7);
    }
}
