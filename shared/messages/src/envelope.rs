//! The envelope: CloudEvents 1.0 in binary mode, attributes in `ce-*` headers, JSON data in the payload.
//!
//! Invariants: what [`Envelope::encode`] writes, [`Envelope::decode`] reads back unchanged. Decoding checks size before
//! it parses, and the version before the shape, so that a message from the future is named as such and not as garbage.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use weir_api::{Kind, ObjectRef};

use crate::work::{self, Cause, Work};
use crate::{Traceparent, subject, trace};

/// The largest payload that is decoded, in bytes. A [`Work`] takes a few hundred.
pub const MAX_PAYLOAD: usize = 64 * 1024;
/// The longest header value that is accepted, in bytes.
pub const MAX_HEADER: usize = 1024;
/// How a schema of `queue-schemas/` is named in `ce-dataschema`: this, then the file's name without `.json`.
pub const SCHEMA_URN: &str = "urn:weir:queue-schemas:";

/// The headers of every message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Headers {
    /// The version of CloudEvents, `1.0`.
    #[serde(rename = "ce-specversion")]
    pub specversion: String,
    /// What identifies the event, together with its source.
    #[serde(rename = "ce-id")]
    pub id: String,
    /// Who wrote it, such as `/weir/watch-publisher`.
    #[serde(rename = "ce-source")]
    pub source: String,
    /// What it is, and its version: `weir.work.v1`, `weir.tick.v1`.
    #[serde(rename = "ce-type")]
    pub kind: String,
    /// When it was written, in RFC 3339.
    #[serde(rename = "ce-time")]
    pub time: String,
    /// What it is about: `<kind>/<namespace>/<name>`; of a tick, the kind alone.
    #[serde(rename = "ce-subject")]
    pub subject: String,
    /// The schema of its payload: `urn:weir:queue-schemas:work.v1`.
    #[serde(rename = "ce-dataschema")]
    pub dataschema: String,
    /// The form of its payload, `application/json`.
    #[serde(rename = "content-type")]
    pub content_type: String,
    /// W3C trace context, version 00.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// The name of the schema of [`Headers`], and of its file in `queue-schemas/`, without `.json`.
pub const HEADERS_SCHEMA: &str = "headers.v1";

/// [`Work`] with what CloudEvents says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// What identifies the event, together with its source.
    pub id: String,
    /// Who wrote it, such as `/weir/watch-publisher`.
    pub source: String,
    /// When it was written; `None` if its writer did not say, or not intelligibly.
    pub time: Option<Timestamp>,
    /// The trace it belongs to.
    pub traceparent: Option<Traceparent>,
    /// What is asked for.
    pub work: Work,
}

/// An envelope as it goes on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Header names and values. No value holds a control character.
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub payload: Vec<u8>,
}

/// Why an envelope cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The object has a name that may not become part of a subject.
    #[error(transparent)]
    Object(#[from] subject::Error),
    /// An attribute is too long for a header, or holds a control character.
    #[error("{0} cannot be sent as a header")]
    Header(&'static str),
    /// The payload would exceed [`MAX_PAYLOAD`].
    #[error("payload of {0} bytes is too large")]
    TooLarge(usize),
    /// The payload cannot be written as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Why a message cannot be understood. None of these gets better by trying again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A header that every message must have is missing.
    #[error("header {0} is missing")]
    MissingHeader(&'static str),
    /// A header's value is longer than [`MAX_HEADER`].
    #[error("header {0} is longer than {MAX_HEADER} bytes")]
    HeaderTooLong(&'static str),
    /// It is a CloudEvent of another major version.
    #[error("CloudEvents version {0:?} is not 1.x")]
    Specversion(String),
    /// It is something else than work.
    #[error("unknown message type {0:?}")]
    UnknownType(String),
    /// It was written by a later release, in a form that this one cannot know.
    #[error("schema version {found} is from the future: this release reads up to {}", work::VERSION)]
    FutureVersion {
        /// The version that the message says it has.
        found: u32,
    },
    /// The payload is not JSON by its own account.
    #[error("content type {0:?} is not application/json")]
    ContentType(String),
    /// The payload exceeds [`MAX_PAYLOAD`].
    #[error("payload of {0} bytes is larger than {MAX_PAYLOAD}")]
    TooLarge(usize),
    /// The payload is not the JSON that it should be.
    #[error("payload is not as its schema says: {0}")]
    Json(String),
    /// The payload names a kind that this release does not know.
    #[error(transparent)]
    UnknownKind(#[from] weir_api::kind::UnknownKind),
    /// The payload names an object that cannot exist.
    #[error(transparent)]
    Object(#[from] subject::Error),
    /// The payload is about another object than the subject.
    #[error("the payload is about {payload}, the subject about {subject}")]
    WrongSubject {
        /// The object in the payload.
        payload: String,
        /// What the message came on.
        subject: String,
    },
}

impl DecodeError {
    /// A stable token for metrics and for the header of a dead letter.
    pub const fn token(&self) -> &'static str {
        match self {
            Self::MissingHeader(_) => "missing-header",
            Self::HeaderTooLong(_) => "header-too-long",
            Self::Specversion(_) => "specversion",
            Self::UnknownType(_) => "unknown-type",
            Self::FutureVersion { .. } => "future-version",
            Self::ContentType(_) => "content-type",
            Self::TooLarge(_) => "too-large",
            Self::Json(_) => "bad-json",
            Self::UnknownKind(_) => "unknown-kind",
            Self::Object(_) => "bad-object",
            Self::WrongSubject { .. } => "wrong-subject",
        }
    }
}

/// `Work` with its kind still a string, to tell an unknown kind from bad JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    object: WireObject,
    cause: Cause,
    #[serde(default)]
    attempt: u32,
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default)]
    origin: Option<WireObject>,
}

#[derive(Deserialize)]
struct WireObject {
    kind: String,
    namespace: String,
    name: String,
}

impl TryFrom<WireObject> for ObjectRef {
    type Error = DecodeError;

    fn try_from(wire: WireObject) -> Result<Self, DecodeError> {
        let object = ObjectRef::new(wire.kind.parse::<Kind>()?, wire.namespace, wire.name);
        subject::check(&object)?;
        Ok(object)
    }
}

impl Envelope {
    /// New work from `source`, in the trace of `traceparent` or in one of its own.
    pub fn new(source: impl Into<String>, work: Work, traceparent: Option<Traceparent>) -> Self {
        Self {
            id: work.message_id().unwrap_or_else(|| Uuid::new_v4().to_string()),
            source: source.into(),
            time: Some(Timestamp::now()),
            traceparent: Some(traceparent.map_or_else(Traceparent::begin, Traceparent::child)),
            work,
        }
    }

    /// The envelope as it goes on the wire.
    pub fn encode(&self) -> Result<Encoded, EncodeError> {
        subject::check(&self.work.object)?;
        let object = &self.work.object;
        let about = format!("{}/{}/{}", object.kind, object.namespace, object.name);
        let (kind, schema) = (format!("{}.v{}", work::TYPE, work::VERSION), work::SCHEMA);
        let mut headers = headers(self.id.clone(), self.source.clone(), kind, about, schema);
        if let Some(time) = self.time {
            headers.push(("ce-time", time.to_string()));
        }
        if let Some(traceparent) = self.traceparent {
            headers.push((trace::HEADER, traceparent.to_string()));
        }
        check(&headers)?;
        let payload = serde_json::to_vec(&self.work)?;
        if payload.len() > MAX_PAYLOAD {
            return Err(EncodeError::TooLarge(payload.len()));
        }
        Ok(Encoded { headers, payload })
    }

    /// Reads an envelope from what came off the wire. `header` looks a header up by name.
    pub fn decode<'a>(header: impl Fn(&str) -> Option<&'a str>, payload: &[u8]) -> Result<Self, DecodeError> {
        if payload.len() > MAX_PAYLOAD {
            return Err(DecodeError::TooLarge(payload.len()));
        }
        let bounded = |name: &'static str| match header(name) {
            Some(value) if value.len() > MAX_HEADER => Err(DecodeError::HeaderTooLong(name)),
            other => Ok(other),
        };
        let required = |name: &'static str| bounded(name)?.ok_or(DecodeError::MissingHeader(name));

        let specversion = required("ce-specversion")?;
        if !specversion.starts_with("1.") {
            return Err(DecodeError::Specversion(specversion.to_owned()));
        }
        check_type(required("ce-type")?)?;
        if let Some(content_type) = bounded("content-type")? {
            let media_type = content_type.split(';').next().unwrap_or_default().trim();
            if !media_type.eq_ignore_ascii_case("application/json") {
                return Err(DecodeError::ContentType(content_type.to_owned()));
            }
        }
        let id = required("ce-id")?.to_owned();
        let source = required("ce-source")?.to_owned();
        let time = bounded("ce-time")?.and_then(|value| value.parse().ok());
        // An unusable traceparent begins a new trace; it is no reason to refuse the work.
        let traceparent = header(trace::HEADER).and_then(|value| value.parse().ok());

        let wire: Wire = serde_json::from_slice(payload).map_err(|error| DecodeError::Json(error.to_string()))?;
        let work = Work {
            object: wire.object.try_into()?,
            cause: wire.cause,
            attempt: wire.attempt,
            uid: wire.uid,
            resource_version: wire.resource_version,
            // Only for people to read, so one that is not understood (a kind to come) is left out.
            origin: wire.origin.and_then(|origin| origin.try_into().ok()),
        };
        Ok(Self { id, source, time, traceparent, work })
    }

    /// [`decode`](Self::decode), and a check that subject and payload are about the same object. A message on an
    /// object's subject that speaks of another would be coalesced with, and serialised by, the wrong one.
    pub fn decode_on<'a>(
        on: &str,
        header: impl Fn(&str) -> Option<&'a str>,
        payload: &[u8],
    ) -> Result<(crate::Lane, Self), DecodeError> {
        let envelope = Self::decode(header, payload)?;
        match subject::parse(on)? {
            subject::Subject::Work { lane, object } if object == envelope.work.object => Ok((lane, envelope)),
            _ => Err(DecodeError::WrongSubject {
                payload: envelope.work.object.to_string(),
                subject: on.chars().take(MAX_HEADER).collect(),
            }),
        }
    }
}

/// The headers that every message has.
pub(crate) fn headers(
    id: String,
    source: String,
    kind: String,
    about: String,
    schema: &str,
) -> Vec<(&'static str, String)> {
    vec![
        ("ce-specversion", "1.0".to_owned()),
        ("ce-id", id),
        ("ce-source", source),
        ("ce-type", kind),
        ("ce-subject", about),
        ("ce-dataschema", format!("{SCHEMA_URN}{schema}")),
        ("content-type", "application/json".to_owned()),
    ]
}

/// Refuses what would break a header.
pub(crate) fn check(headers: &[(&'static str, String)]) -> Result<(), EncodeError> {
    match headers.iter().find(|(_, value)| value.len() > MAX_HEADER || value.chars().any(char::is_control)) {
        Some((name, _)) => Err(EncodeError::Header(name)),
        None => Ok(()),
    }
}

/// `weir.work.v<n>`, with an `n` that this release knows.
fn check_type(value: &str) -> Result<(), DecodeError> {
    let unknown = || DecodeError::UnknownType(value.to_owned());
    let version = value.strip_prefix(work::TYPE).and_then(|rest| rest.strip_prefix(".v")).ok_or_else(unknown)?;
    match version.parse::<u32>() {
        Ok(0) | Err(_) => Err(unknown()),
        Ok(found) if found > work::VERSION => Err(DecodeError::FutureVersion { found }),
        Ok(_) => Ok(()),
    }
}
