//! A recorded call: what a function was called for, what it read, did and decided.
//!
//! Intention: a recording is enough to run the call again, offline, and to see by reading alone why it did what it did.
//!
//! Invariants
//! - It holds no secret; where one stood is a placeholder that begins with [`PLACEHOLDER`]. Equal secrets have equal
//!   placeholders within the recordings of one process, and none tells anything about its secret.
//! - A reader ignores fields and entries that it does not know, so a recording made by an older or a somewhat newer release
//!   opens; one of a form from the future is refused by name.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_api::ObjectRef;

use crate::work::Work;
use crate::{Lane, subject};

/// The form of [`Recording`] that this release writes, and the highest that it reads.
pub const FORM: u32 = 1;
/// The name of the schema of [`Recording`], and of its file in `queue-schemas/`, without `.json`.
pub const SCHEMA: &str = "recording.v1";
/// How a placeholder begins that stands where a secret stood.
pub const PLACEHOLDER: &str = "redacted-";
/// The filter that matches all recordings.
pub const ALL: &str = "trace.>";
/// The filter that matches all past events: what was published to `work.…`, under the same subject after `events.`.
pub const ALL_EVENTS: &str = "events.>";
/// What the subject of work is prefixed with in the stream of events.
pub const EVENT: &str = "events.";
/// The filter that matches all requests to the front door. Nothing writes any until there is one.
pub const ALL_REQUESTS: &str = "request.>";

/// One call of a function. `J` is how the JSON in it is held: whoever only writes it need not take it apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[serde(bound(deserialize = "J: Deserialize<'de>"))]
#[schemars(rename = "Recording")]
pub struct Recording<J = Value> {
    /// The form of this document, [`FORM`].
    pub form: u32,
    /// The call's correlation ID, a UUID: also the request ID that clouds have logged.
    pub id: String,
    /// What was running.
    pub versions: Versions,
    /// Why the function was called.
    pub trigger: Trigger,
    /// When the call began, in RFC 3339.
    pub began: String,
    /// How long it took, in microseconds.
    pub took: u64,
    /// Answers that the call used and that another call had asked for: tokens that the process held already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Exchange<J>>,
    /// What happened, in order.
    pub entries: Vec<Entry<J>>,
    /// How it ended.
    pub outcome: Outcome,
    /// `false` when something had to be left out, because it was too large; such a call may not replay.
    #[serde(default = "yes")]
    pub complete: bool,
    /// How many calls the process had not been able to keep by then, in all: what lies between two recordings of one process
    /// has gaps if this has grown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

const fn yes() -> bool {
    true
}

/// What was running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Versions {
    /// Weir's.
    pub weir: String,
    /// The process that made the call.
    #[serde(default)]
    pub process: String,
}

/// Why a function was called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    /// What it was asked.
    pub work: Work,
    /// The lane that it waited in.
    pub lane: Lane,
    /// The step of the trace that the call is (W3C).
    pub traceparent: String,
}

/// One thing that happened during a call. `at` is in microseconds since the call began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "entry", rename_all = "camelCase")]
#[serde(bound(deserialize = "J: Deserialize<'de>"))]
#[schemars(rename = "Entry")]
pub enum Entry<J = Value> {
    /// A request and its answer.
    Exchange(Exchange<J>),
    /// A step that the function decided on.
    Step {
        /// When.
        at: u64,
        /// The step, as the function names it.
        step: String,
    },
    /// The function looked at the clock.
    Clock {
        /// What it saw, in RFC 3339.
        time: String,
    },
    /// Another object's function was told to look at it.
    Wake {
        /// When.
        at: u64,
        /// Whose.
        object: ObjectRef,
        /// Why it could not be told, in words for operators; absent if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
    },
    /// The call was stopped in what it did.
    Stopped {
        /// When.
        at: u64,
        /// What by, as a token: `time-up`, the call's deadline kept it from writing more; `no-answer`, an answer was not waited
        /// for any longer; `panic`, the function panicked.
        by: String,
    },
    /// Something that this release does not know.
    #[serde(other)]
    Other,
}

/// Whom a request went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Peer {
    /// The Kubernetes API.
    Kubernetes,
    /// An OpenStack service.
    Openstack,
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[serde(bound(deserialize = "J: Deserialize<'de>"))]
#[schemars(rename = "Exchange")]
pub struct Exchange<J = Value> {
    /// When it was sent, in microseconds since the call began.
    pub at: u64,
    /// How long it took, in microseconds.
    pub took: u64,
    /// Whom it went to.
    pub peer: Peer,
    /// The HTTP method.
    pub method: String,
    /// The URL: whole for OpenStack, from the path on for Kubernetes.
    pub url: String,
    /// Request headers that matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The request's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body<J>>,
    /// What came back.
    pub answer: Answer<J>,
}

/// A body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[serde(bound(deserialize = "J: Deserialize<'de>"))]
#[schemars(rename = "Body")]
pub enum Body<J = Value> {
    /// JSON.
    Json(J),
    /// Something that is not recorded: it could not be understood, so nobody can say what is in it; or it is too large.
    Omitted {
        /// How long it was.
        bytes: u64,
        /// Why it is not here.
        why: String,
    },
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[serde(bound(deserialize = "J: Deserialize<'de>"))]
#[schemars(rename = "Answer")]
pub enum Answer<J = Value> {
    /// An answer, whatever its status.
    Response {
        /// The HTTP status.
        status: u16,
        /// Headers that matter.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        headers: Vec<(String, String)>,
        /// The body.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Body<J>>,
    },
    /// None.
    Failed {
        /// Which kind of failure, as a token: `connect`, `broken`, `timeout`, `too-large`, `withheld`, `kubernetes`.
        failure: String,
        /// In words.
        detail: String,
    },
    /// The function did not wait for one: its deadline for this request passed, or the call was ended.
    Abandoned,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// `settled`, `gone`, `yielded`, `failed`, `waiting`, `parked`, `abandoned`; or `ended`, when it was cut short or panicked.
    pub verdict: String,
    /// How soon to look again, in milliseconds, where the verdict says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<u64>,
    /// What stood in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// What stood in the way of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What follows from it, as a token: `yield`, `await`, `user-action`, `operator`, `reread`, `retry`.
    pub consequence: String,
    /// What the object's owner is told.
    pub message: String,
    /// What operators are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not the JSON that it should be.
    #[error("not a recording: {0}")]
    Json(#[from] serde_json::Error),
    /// A later release wrote it, in a form that this one cannot know.
    #[error("the recording is of form {0}, from the future: this release reads up to {FORM}")]
    Future(u64),
}

impl Recording {
    /// Reads a recording out of JSON.
    pub fn from_value(value: Value) -> Result<Self, Error> {
        match value.get("form").and_then(Value::as_u64) {
            Some(form) if form > u64::from(FORM) => Err(Error::Future(form)),
            _ => Ok(serde_json::from_value(value)?),
        }
    }
}

impl<J: DeserializeOwned> Recording<J> {
    /// Reads a recording; with [`serde::de::IgnoredAny`] for `J`, without the bodies of its requests and answers, which are most of it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Form {
            #[serde(default)]
            form: u64,
        }
        match serde_json::from_slice::<Form>(bytes)?.form {
            form if form > u64::from(FORM) => Err(Error::Future(form)),
            _ => Ok(serde_json::from_slice(bytes)?),
        }
    }
}

impl<J> Recording<J> {
    /// The object that the function was called for.
    pub const fn object(&self) -> &ObjectRef {
        &self.trigger.work.object
    }

    /// The exchanges of the call itself, in the order in which they were begun.
    pub fn exchanges(&self) -> impl Iterator<Item = &Exchange<J>> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Exchange(exchange) => Some(exchange),
            _ => None,
        })
    }

    /// The steps, in the order in which they were decided.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Step { step, .. } => Some(step.as_str()),
            _ => None,
        })
    }
}

impl<J> Exchange<J> {
    /// Whether it may have changed something. Getting a token changes nothing.
    pub fn writes(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS") && !self.authenticates()
    }

    /// Whether it asked for a token.
    pub fn authenticates(&self) -> bool {
        self.peer == Peer::Openstack && self.method == "POST" && self.url.ends_with("/auth/tokens")
    }
}

/// The subject of the recording of call `id` for `object`.
pub fn subject(object: &ObjectRef, id: &str) -> Result<String, subject::Error> {
    // The same tokens as the object's timer has.
    let timer = subject::timer(object)?;
    let object = timer.strip_prefix("timer.").unwrap_or(&timer);
    let id: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
    Ok(format!("trace.{object}.{id}"))
}

/// The filter that matches the recordings of one object.
pub fn filter(object: &ObjectRef) -> Result<String, subject::Error> {
    Ok(subject(object, "")? + "*")
}

/// The filter that matches the recording of one call.
pub fn filter_id(id: &str) -> String {
    let id: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
    format!("trace.*.*.*.{id}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use weir_api::Kind;

    /// Proves: R-1
    #[test]
    fn a_recording_of_a_somewhat_newer_release_opens_and_one_from_the_future_is_refused() {
        let mut value = json!({
            "form": 1, "id": "x", "versions": {"weir": "9", "moon": "full"}, "began": "2026-01-01T00:00:00Z", "took": 1,
            "trigger": {"work": {"object": {"kind": "server", "namespace": "ns", "name": "a"}, "cause": "changed"},
                "lane": "urgent", "traceparent": ""},
            "entries": [{"entry": "step", "at": 1, "step": "x"}, {"entry": "telepathy", "with": ["whom"]}],
            "outcome": {"verdict": "settled"},
        });
        let recording = Recording::from_value(value.clone()).unwrap();
        assert_eq!(recording.entries[1], Entry::Other);
        assert!(recording.complete);
        value["form"] = json!(2);
        assert!(Recording::from_value(value).unwrap_err().to_string().contains("form 2"));
    }

    #[test]
    fn subjects_name_the_object_and_the_call_and_nothing_else_gets_in() {
        let object = ObjectRef::new(Kind::Server, "ns", "a.b");
        assert_eq!(subject(&object, "1-2").unwrap(), "trace.server.ns.a~b.1-2");
        assert_eq!(filter(&object).unwrap(), "trace.server.ns.a~b.*");
        assert_eq!(filter_id("a.>*"), "trace.*.*.*.a");
        assert!(subject(&ObjectRef::new(Kind::Server, "ns", "*"), "x").is_err());
    }
}
