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

/// Puts `news` into the list. Other conditions, and their order, are left alone (OWN-1). True if anything changed.
pub fn set(conditions: &mut Vec<Condition>, news: News, now: Time) -> bool {
    let status = if news.status { "True" } else { "False" };
    let reason = news.reason.as_str();
    if let Some(old) = conditions.iter_mut().find(|c| c.type_ == news.kind) {
        let moved = old.status != status || old.reason != reason;
        let told = old.message != news.message || old.observed_generation != news.observed_generation;
        if moved {
            old.last_transition_time = now;
        }
        if moved || told {
            status.clone_into(&mut old.status);
            reason.clone_into(&mut old.reason);
            old.message = news.message;
            old.observed_generation = news.observed_generation;
        }
        return moved || told;
    }
    conditions.push(Condition {
        type_: news.kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: news.message,
        observed_generation: news.observed_generation,
        last_transition_time: now,
    });
    true
}
