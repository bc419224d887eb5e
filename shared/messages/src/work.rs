//! The one thing that is asked for on the queue: look at an object.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_api::ObjectRef;

/// The CloudEvents type of [`Work`] without its version.
pub const TYPE: &str = "weir.work";
/// The version of [`Work`] that this release writes, and the highest that it reads.
pub const VERSION: u32 = 1;
/// The name of the schema of [`Work`], and of its file in `queue-schemas/`, without `.json`.
pub const SCHEMA: &str = "work.v1";

/// Look at this object.
///
/// Everything but [`object`](Self::object) is for back-off, metrics and people. Nothing here decides what is done to
/// the object: that comes from fresh reads alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Work {
    /// The object to look at.
    pub object: ObjectRef,
    /// Why it is looked at.
    pub cause: Cause,
    /// How many calls for this object have failed in a row; 0 for anything new. Drives the back-off of retries.
    #[serde(default)]
    pub attempt: u32,
    /// The object's UID when the message was written, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The object's resource version when the message was written, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// The object whose change is the cause, when that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ObjectRef>,
}

/// Why an object is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// It was created, changed or marked for deletion.
    Changed,
    /// It was in a list: a watch began, or began again.
    Listed,
    /// Another object that it waits for changed.
    Dependency,
    /// It asked to be looked at again, with nothing wrong.
    Requeued,
    /// The last call for it failed.
    Retry,
    /// The periodic look at everything.
    Resync,
    /// A monitor observed something about it.
    Observed,
    /// Somebody asked for it: the front door, or a person at the command line.
    Requested,
    /// A past event or a dead letter was sent again.
    Replayed,
    /// A cause that this release does not know.
    #[serde(other)]
    Other,
}

impl Cause {
    /// The cause's token, as in JSON; also its value in metrics and logs.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Listed => "listed",
            Self::Dependency => "dependency",
            Self::Requeued => "requeued",
            Self::Retry => "retry",
            Self::Resync => "resync",
            Self::Observed => "observed",
            Self::Requested => "requested",
            Self::Replayed => "replayed",
            Self::Other => "other",
        }
    }
}

impl Work {
    /// New work, not yet attempted.
    pub fn new(object: ObjectRef, cause: Cause) -> Self {
        Self { object, cause, attempt: 0, uid: None, resource_version: None, origin: None }
    }

    /// The same with the identity of what was seen, which also makes its message id.
    #[must_use]
    pub fn seen(mut self, uid: impl Into<String>, resource_version: impl Into<String>) -> Self {
        self.uid = Some(uid.into());
        self.resource_version = Some(resource_version.into());
        self
    }

    /// The same, caused by a change of `origin`.
    #[must_use]
    pub fn caused_by(mut self, origin: ObjectRef) -> Self {
        self.origin = Some(origin);
        self
    }

    /// The next look at the same object.
    #[must_use]
    pub fn again(&self, cause: Cause, attempt: u32) -> Self {
        Self { object: self.object.clone(), cause, attempt, uid: None, resource_version: None, origin: None }
    }

    /// `<uid>/<resourceVersion>`, the message id of a watch event; `None` for anything else, since a second
    /// legitimate requeue inside the server's duplicate window must not be swallowed.
    pub fn message_id(&self) -> Option<String> {
        match (self.cause, &self.uid, &self.resource_version) {
            (Cause::Changed | Cause::Listed, Some(uid), Some(version)) => Some(format!("{uid}/{version}")),
            _ => None,
        }
    }
}
