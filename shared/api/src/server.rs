//! What a Server's status says beyond `Available`: how it is, what it is doing, and whether it calls for its function.
//!
//! Intention: the monitor writes these, the server function writes some of them when it has acted, the watch-publisher wakes
//! by them, and the front door shows them; here is the one place where they are spelled.
//!
//! Invariants: the message of `Active` is a function of its reason. A Server that calls for its function ([`calls`]) goes on
//! doing so until the function has dealt with it: it is a level, not an edge, so that no lost event matters (RBD-20, RTY-4).

use crate::conditions::{self, Provisioning, Truth};
use crate::crd::{RebuildState, ServerStatus};
use serde_json::Value;

/// Reasons of `Active`: what a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Active {
    /// Nothing has been seen of it yet.
    Pending,
    /// A machine for it is not ready yet.
    Queued,
    /// It is being made.
    Building,
    /// Its image is being changed.
    Rebuilding,
    /// It runs.
    Running,
    /// It was asked to stop.
    Stopping,
    /// It is off.
    Stopped,
    /// The cloud has given up on it.
    Error,
}

impl Active {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Queued,
        Self::Building,
        Self::Rebuilding,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Error,
    ];

    /// The text in the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Queued => "Queued",
            Self::Building => "Building",
            Self::Rebuilding => "Rebuilding",
            Self::Running => "Running",
            Self::Stopping => "Stopping",
            Self::Stopped => "Stopped",
            Self::Error => "Error",
        }
    }

    /// The condition's message.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Pending => "the server is awaiting provider scheduling",
            Self::Queued => "the server is queued awaiting hardware",
            Self::Building => "the server is being built",
            Self::Rebuilding => "the server is being rebuilt",
            Self::Running => "the server is running",
            Self::Stopping => "the server is stopping",
            Self::Stopped => "the server is stopped",
            Self::Error => "the server is in an error state",
        }
    }

    /// The condition's status: true only for [`Active::Running`].
    pub const fn truth(self) -> Truth {
        match self {
            Self::Running => Truth::True,
            _ => Truth::False,
        }
    }

    /// The reason that a text stands for.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// What a status says, if it says anything known.
    pub fn of(status: &ServerStatus) -> Option<Self> {
        Self::parse(&conditions::get(&status.conditions, conditions::ACTIVE)?.reason)
    }
}

/// Reasons of `Healthy`: whether the cloud finds a server well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Health {
    /// It is well.
    Healthy,
    /// It is in a state that is neither good nor bad.
    Degraded,
    /// The cloud has given up on it.
    Errored,
    /// Nothing can be said.
    Unknown,
    /// It is being worked on.
    Provisioning,
}

impl Health {
    /// The text in the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Degraded => "Degraded",
            Self::Errored => "Errored",
            Self::Unknown => "Unknown",
            Self::Provisioning => "Provisioning",
        }
    }

    /// The condition's status.
    pub const fn truth(self) -> Truth {
        match self {
            Self::Healthy => Truth::True,
            Self::Unknown => Truth::Unknown,
            Self::Degraded | Self::Errored | Self::Provisioning => Truth::False,
        }
    }
}

/// Whether the monitor has found the server in error.
pub fn is_errored(status: &ServerStatus) -> bool {
    conditions::get(&status.conditions, conditions::HEALTHY).is_some_and(|c| c.reason == Health::Errored.as_str())
}

/// Whether a Server with this status calls for its function, whatever else has changed (RBD-20, RTY-4).
pub fn calls(status: &ServerStatus) -> bool {
    Level {
        rebuild: status.rebuild.as_ref().map(|rebuild| rebuild.state),
        parked: conditions::available_reason(&status.conditions) == Some("Errored"),
        errored: is_errored(status),
        provisioned: status.provisioned_at.is_some(),
    }
    .calls()
}

/// The same for a `status` that has not been read into its type, as watches show it. What is not understood calls for nothing.
pub fn calls_in(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let reason = |kind: &str| conditions.iter().find(|c| c["type"] == kind).and_then(|c| c["reason"].as_str());
    Level {
        rebuild: serde_json::from_value(status["rebuild"]["state"].clone()).ok(),
        parked: reason(conditions::AVAILABLE) == Some("Errored"),
        errored: reason(conditions::HEALTHY) == Some(Health::Errored.as_str()),
        provisioned: status["provisionedAt"].is_string(),
    }
    .calls()
}

struct Level {
    rebuild: Option<RebuildState>,
    parked: bool,
    errored: bool,
    provisioned: bool,
}

impl Level {
    fn calls(&self) -> bool {
        let settles = match self.rebuild {
            Some(RebuildState::Succeeded) => true,
            Some(RebuildState::Failed) => !self.parked,
            // Nothing has been seen of an end: the cloud is at work, or has not been asked (RBD-20).
            Some(RebuildState::Initiated | RebuildState::Rebuilding | RebuildState::Unknown) | None => false,
        };
        settles || (self.errored && !self.provisioned && !self.parked)
    }
}

/// How far a server is: while a change of image stands, it is not done (RBD-21).
pub fn provisioning(status: &ServerStatus, deleting: bool) -> Provisioning {
    match Provisioning::of(conditions::available_reason(&status.conditions), deleting) {
        Provisioning::Provisioned if status.rebuild.is_some() => Provisioning::Provisioning,
        provisioning => provisioning,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn cases(table: &str) -> Vec<Value> {
        serde_json::from_str::<Value>(table).unwrap()["cases"].as_array().unwrap().clone()
    }

    fn status(available: &Value, marker: &Value, healthy: Option<&str>) -> Value {
        let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "False", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let mut conditions = Vec::new();
        conditions.extend(available.as_str().map(|reason| condition("Available", reason)));
        conditions.extend(healthy.map(|reason| condition("Healthy", reason)));
        let mut status = json!({ "conditions": conditions });
        if let Some(state) = marker.as_str() {
            status["rebuild"] = json!({"targetImageID": "22222222-2222-4222-a222-222222222222", "state": state});
        }
        status
    }

    fn both(status: &Value) -> bool {
        let calls = calls_in(status);
        assert_eq!(calls, super::calls(&serde_json::from_value(status.clone()).unwrap()), "{status}");
        calls
    }

    /// Proves: RBD-20
    #[test]
    fn a_rebuild_that_has_ended_calls_as_the_table_says() {
        for case in cases(include_str!("../tests/tables/rebuild_wake_predicate.json")) {
            let input = &case["input"];
            let status = if input["newObjectNil"] == true {
                Value::Null
            } else {
                let status = status(&input["availableReason"], &input["newState"], None);
                both(&status);
                status
            };
            assert_eq!(json!(calls_in(&status)), case["expect"]["wake"], "{}", case["case"]);
        }
        for state in ["Initiated", "Rebuilding", "Verifying"] {
            assert!(!both(&status(&json!("Provisioning"), &json!(state), None)), "{state}");
        }
        assert!(
            both(&status(&json!("Errored"), &json!("Succeeded"), None)),
            "a success is dealt with even when parked"
        );
    }

    /// Proves: RTY-4
    #[test]
    fn a_server_in_error_calls_until_it_has_run_or_is_parked() {
        let errored = status(&json!("Provisioning"), &Value::Null, Some("Errored"));
        assert!(both(&errored));
        assert!(!both(&status(&json!("Errored"), &Value::Null, Some("Errored"))));
        assert!(!both(&status(&json!("Provisioning"), &Value::Null, Some("Degraded"))));
        let mut provisioned = errored;
        provisioned["provisionedAt"] = json!("2026-01-01T00:00:00Z");
        assert!(!both(&provisioned));
    }

    #[test]
    fn a_status_that_makes_no_sense_calls_for_nothing() {
        for status in [json!(null), json!(7), json!({"rebuild": 1, "conditions": {}}), json!({"conditions": [null, 3]})]
        {
            assert!(!calls_in(&status));
        }
    }

    /// Proves: RBD-21
    #[test]
    fn while_a_marker_stands_a_server_shows_as_the_table_says() {
        for case in cases(include_str!("../tests/tables/server_read_rebuild_pending.json")) {
            let status = status(&case["input"]["available"], &case["input"]["marker"], None);
            let status: ServerStatus = serde_json::from_value(status).unwrap();
            let shown = provisioning(&status, false).as_str();
            assert_eq!(shown, case["expect"]["provisioningStatus"], "{}", case["case"]);
            assert_eq!(provisioning(&status, true), Provisioning::Deprovisioning, "{}", case["case"]);
        }
    }

    /// Proves: MON-5
    #[test]
    fn each_reason_of_active_has_the_status_and_message_of_the_table() {
        let cases = cases(include_str!("../tests/tables/active_condition_projection.json"));
        assert_eq!(cases.len(), Active::ALL.len());
        for case in cases {
            let active = Active::parse(case["input"]["reason"].as_str().unwrap()).unwrap();
            assert_eq!(active.truth().as_str(), case["expect"]["status"], "{active:?}");
            assert_eq!(active.message(), case["expect"]["message"], "{active:?}");
        }
    }
}
