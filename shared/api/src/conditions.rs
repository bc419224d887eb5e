//! Conditions: how far an object is, and why (OWN-2, OWN-3).
//!
//! Invariants: the list is a map by `type`; `lastTransitionTime` moves only when `status` or `reason` does, so that
//! writing the same news twice is no write at all (OWN-4); the message of `Active` is a function of its reason.
//! Nothing here reads a clock: `now` is given.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use std::fmt;

/// Whether the object's own function has done what was asked.
pub const AVAILABLE: &str = "Available";
/// Whether what is in the cloud is well. Written by the monitor.
pub const HEALTHY: &str = "Healthy";
/// What a server is doing. Written by the monitor.
pub const ACTIVE: &str = "Active";

/// Why an object is, or is not, available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Work is going on, or waits for something.
    Provisioning,
    /// All that was asked for is there.
    Provisioned,
    /// It failed; the message says what to do.
    Errored,
    /// It is being removed.
    Deprovisioning,
    /// It has been removed.
    Deprovisioned,
    /// Somebody else's work was cut short.
    Cancelled,
    /// Nothing is known; also while the object is paused.
    Unknown,
    /// Something it needs exists but is not ready.
    DependencyNotReady,
    /// Something it needs has failed.
    DependencyFailed,
    /// Something it needs does not exist.
    DependencyNotFound,
    /// A reason of one protocol only, such as `server_rebuild_failed`.
    Typed(&'static str),
}

impl Reason {
    /// The text in the condition.
    pub const fn as_str(&self) -> &str {
        match self {
            Self::Provisioning => "Provisioning",
            Self::Provisioned => "Provisioned",
            Self::Errored => "Errored",
            Self::Deprovisioning => "Deprovisioning",
            Self::Deprovisioned => "Deprovisioned",
            Self::Cancelled => "Cancelled",
            Self::Unknown => "Unknown",
            Self::DependencyNotReady => "DependencyNotReady",
            Self::DependencyFailed => "DependencyFailed",
            Self::DependencyNotFound => "DependencyNotFound",
            Self::Typed(reason) => reason,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The condition of a type, if there is one.
pub fn get<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == kind)
}

/// The reason of `Available`, if the object has that condition.
pub fn available_reason(conditions: &[Condition]) -> Option<&str> {
    get(conditions, AVAILABLE).map(|c| c.reason.as_str())
}

/// How far an object is, in the words of the predecessor's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provisioning {
    /// Nobody has looked at it yet.
    Pending,
    /// Work is going on, or waits for something.
    Provisioning,
    /// All that was asked for is there.
    Provisioned,
    /// It is being removed.
    Deprovisioning,
    /// It failed, and somebody has to change something.
    Error,
}

impl Provisioning {
    /// What a reason of `Available` says. One that is not known is of something that goes on.
    pub fn of(available: Option<&str>, deleting: bool) -> Self {
        match available {
            _ if deleting => Self::Deprovisioning,
            None => Self::Pending,
            Some("Provisioned") => Self::Provisioned,
            Some("Errored" | "DependencyNotFound") => Self::Error,
            Some("Deprovisioning" | "Deprovisioned") => Self::Deprovisioning,
            Some(_) => Self::Provisioning,
        }
    }

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Provisioning => "provisioning",
            Self::Provisioned => "provisioned",
            Self::Deprovisioning => "deprovisioning",
            Self::Error => "error",
        }
    }
}

/// Whether `Available` says *Provisioned*: what dependants wait for (SRV-4).
pub fn is_provisioned(conditions: &[Condition]) -> bool {
    available_reason(conditions) == Some("Provisioned")
}

/// What to set a condition to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The condition's type: [`AVAILABLE`], [`HEALTHY`] or [`ACTIVE`].
    pub kind: &'static str,
    /// `status` of the condition.
    pub status: bool,
    /// `reason` of the condition.
    pub reason: Reason,
    /// `message` of the condition, for the object's owner (OWN-5).
    pub message: String,
    /// The generation of the object that this was decided from.
    pub observed_generation: Option<i64>,
}

/// `status` of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It cannot be told.
    Unknown,
}

impl Truth {
    /// The text in the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Puts `news` into the list. Other conditions, and their order, are left alone (OWN-1). True if anything changed.
pub fn set(conditions: &mut Vec<Condition>, news: &News, now: Time) -> bool {
    let told = Told {
        kind: news.kind,
        truth: news.status.into(),
        reason: news.reason.as_str(),
        message: &news.message,
        observed_generation: news.observed_generation,
    };
    put(conditions, &told, now)
}

/// What a condition is to say, in its own words: for those whose reasons are not [`Reason`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    /// The condition's type.
    pub kind: &'a str,
    /// Its `status`.
    pub truth: Truth,
    /// Its `reason`.
    pub reason: &'a str,
    /// Its `message`, for the object's owner (OWN-5).
    pub message: &'a str,
    /// The generation of the object that this was decided from.
    pub observed_generation: Option<i64>,
}

/// Puts a condition into the list. Others, and their order, are left alone (OWN-1). True if anything changed.
pub fn put(conditions: &mut Vec<Condition>, told: &Told<'_>, now: Time) -> bool {
    let status = told.truth.as_str();
    let Some(old) = conditions.iter_mut().find(|c| c.type_ == told.kind) else {
        conditions.push(Condition {
            type_: told.kind.to_owned(),
            status: status.to_owned(),
            reason: told.reason.to_owned(),
            message: told.message.to_owned(),
            observed_generation: told.observed_generation,
            last_transition_time: now,
        });
        return true;
    };
    let moved = old.status != status || old.reason != told.reason;
    let reworded = old.message != told.message || old.observed_generation != told.observed_generation;
    if moved {
        old.last_transition_time = now;
    }
    if moved || reworded {
        status.clone_into(&mut old.status);
        told.reason.clone_into(&mut old.reason);
        told.message.clone_into(&mut old.message);
        old.observed_generation = told.observed_generation;
    }
    moved || reworded
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn news(status: bool, reason: Reason, message: &str, generation: i64) -> News {
        News { kind: AVAILABLE, status, reason, message: message.into(), observed_generation: Some(generation) }
    }

    fn at(second: i64) -> Time {
        Time(k8s_openapi::jiff::Timestamp::from_second(second).unwrap())
    }

    /// Proves: OWN-2
    #[test]
    fn the_transition_time_moves_only_when_status_or_reason_does() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, &news(false, Reason::Provisioning, "making it", 1), at(1)));
        assert!(
            !set(&mut conditions, &news(false, Reason::Provisioning, "making it", 1), at(2)),
            "the same news is none"
        );
        assert!(set(&mut conditions, &news(false, Reason::Provisioning, "still", 2), at(3)));
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert!(set(&mut conditions, &news(false, Reason::Errored, "still", 2), at(4)));
        assert_eq!(conditions[0].last_transition_time, at(4));
        assert!(set(&mut conditions, &news(true, Reason::Provisioned, "provisioned", 2), at(5)));
        assert_eq!((conditions.len(), conditions[0].last_transition_time.clone()), (1, at(5)));
    }

    /// Proves: OWN-1
    #[test]
    fn conditions_of_others_and_their_order_are_left_alone() {
        let mut conditions = Vec::new();
        for kind in [HEALTHY, AVAILABLE, ACTIVE] {
            let news = News { kind, ..news(false, Reason::Unknown, "", 1) };
            set(&mut conditions, &news, at(1));
        }
        let before = conditions.clone();
        set(&mut conditions, &news(true, Reason::Provisioned, "provisioned", 1), at(2));
        assert_eq!((&conditions[0], &conditions[2]), (&before[0], &before[2]));
        assert_eq!(conditions.iter().map(|c| c.type_.as_str()).collect::<Vec<_>>(), [HEALTHY, AVAILABLE, ACTIVE]);
    }

    /// Proves: OWN-3
    #[test]
    fn how_far_an_object_is_is_what_the_table_says() {
        let table = include_str!("../tests/tables/provisioning_status_projection.json");
        let table: serde_json::Value = serde_json::from_str(table).unwrap();
        for case in table["cases"].as_array().unwrap() {
            let (input, expect) = (&case["input"], &case["expect"]);
            let far = Provisioning::of(input["availableReason"].as_str(), input["deleting"].as_bool().unwrap());
            assert_eq!(far.as_str(), expect["provisioningStatus"], "{}", case["case"]);
        }
        for reason in [None, Some("Errored"), Some("Deprovisioned"), Some("SomethingNew")] {
            assert_eq!(Provisioning::of(reason, true), Provisioning::Deprovisioning, "{reason:?}");
        }
        for reason in ["Unknown", "Cancelled", "", "provisioned"] {
            assert_eq!(Provisioning::of(Some(reason), false), Provisioning::Provisioning, "{reason:?}");
        }
    }

    /// Proves: OWN-3
    #[test]
    fn the_reasons_are_spelled_as_the_predecessor_s_clients_know_them() {
        let reasons = [
            Reason::Provisioning,
            Reason::Provisioned,
            Reason::Errored,
            Reason::Deprovisioning,
            Reason::Deprovisioned,
            Reason::Cancelled,
            Reason::Unknown,
        ];
        let spelled = "Provisioning Provisioned Errored Deprovisioning Deprovisioned Cancelled Unknown";
        assert_eq!(reasons.iter().map(Reason::as_str).collect::<Vec<_>>().join(" "), spelled);
    }
}
