//! What a call decided, in a form in which two runs of it can be compared.
//!
//! Invariant: two decisions of one code on one input are equal to the byte. What is random by its nature is therefore left
//! out of it: placeholders of secrets, which are made anew in each run.

use serde::Serialize;
use serde_json::Value;
use weir_api::{Kind, ObjectRef};
use weir_messages::Recording;
use weir_messages::recording::{Body, Entry, Exchange, PLACEHOLDER, Peer};
use weir_openstack::redact::{is_value, named};

use super::redact::is_random;

/// What a call decided: steps and writes in order, and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// Steps and writes.
    pub lines: Vec<Line>,
    /// The verdict, with its delay.
    pub verdict: String,
    /// What the owner of the object is told stands in the way, if anything.
    pub problem: Option<String>,
}

/// A step, a wake or a write.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    /// A step, as the function names it.
    Step(String),
    /// Another object's function was to be told to look at it.
    Wake(ObjectRef),
    /// Something was to be changed.
    Write {
        /// Whom it was sent to.
        peer: Peer,
        /// The HTTP method.
        method: String,
        /// The URL.
        url: String,
        /// The body.
        body: Option<Value>,
    },
}

impl Decision {
    /// The decision of a recorded call.
    pub fn of(recording: &Recording) -> Self {
        let lines = recording.entries.iter().filter_map(|entry| match entry {
            Entry::Step { step, .. } => Some(Line::Step(normal_text(step))),
            Entry::Wake { object, .. } => Some(Line::Wake(object.clone())),
            Entry::Exchange(exchange) if exchange.writes() => Some(Line::write(exchange)),
            _ => None,
        });
        let mut lines: Vec<Line> = lines.collect();
        if recording.object().kind == Kind::ServerMonitor {
            // Many servers are looked at side by side: which comes first means nothing.
            lines.sort_by_cached_key(|line| serde_json::to_string(line).unwrap_or_default());
        }
        let outcome = &recording.outcome;
        let delay = outcome.delay.map(|delay| format!(", again after {delay} ms")).unwrap_or_default();
        Self {
            lines,
            verdict: format!("{}{delay}", outcome.verdict),
            problem: outcome.problem.as_ref().map(|p| format!("{}: {}", p.consequence, normal_text(&p.message))),
        }
    }

    /// The decision as bytes: equal decisions have equal ones.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings, lists and JSON values: there is nothing in it that could not be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Where two decisions part: the index of the first line that differs; the number of lines if only their ends do.
    pub fn parts_from(&self, other: &Self) -> Option<usize> {
        let first = self.lines.iter().zip(&other.lines).position(|(one, other)| one != other);
        if first.is_some() {
            return first;
        }
        let shorter = self.lines.len().min(other.lines.len());
        (self != other).then_some(shorter)
    }
}

impl Line {
    fn write(exchange: &Exchange) -> Self {
        Self::Write {
            peer: exchange.peer,
            method: exchange.method.clone(),
            url: normal_text(&exchange.url),
            body: exchange.body.as_ref().map(normal),
        }
    }

    /// The line in few words.
    pub fn brief(&self) -> String {
        match self {
            Self::Step(step) => format!("step {step}"),
            Self::Wake(object) => format!("wake {object}"),
            // Whose field it is says nothing here.
            Self::Write { method, url, .. } => {
                format!("{method} {}", brief_url(url).trim_end_matches("?&fieldManager=weir"))
            }
        }
    }
}

/// A URL without its host.
pub(super) fn brief_url(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    if rest.len() == url.len() { url } else { rest.find('/').map_or(rest, |at| &rest[at..]) }
}

/// A body with one placeholder for all secrets.
pub fn normal(body: &Body) -> Value {
    match body {
        Body::Json(value) => normal_json(value),
        Body::Omitted { bytes, why } => omitted(*bytes, why),
    }
}

/// What stands for a body that is not there.
pub(super) fn omitted(bytes: u64, why: &str) -> Value {
    Value::String(format!("({bytes} bytes, {why})"))
}

pub(super) fn normal_json(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let called = named(map);
            let member = |(name, value): (&String, &Value)| match value {
                // Made at random, or out of what has been redacted: what stands in for it is of another length or shape.
                Value::String(text)
                    if is_random(called.filter(|_| is_value(name)).unwrap_or(name)) && !text.is_empty() =>
                {
                    (name.clone(), Value::String(format!("{PLACEHOLDER}*")))
                }
                other => (name.clone(), normal_json(other)),
            };
            Value::Object(map.iter().map(member).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(normal_json).collect()),
        Value::String(text) => Value::String(normal_text(text)),
        other => other.clone(),
    }
}

/// Text with one placeholder for all secrets.
pub(super) fn normal_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PLACEHOLDER) {
        let hash = &rest[at + PLACEHOLDER.len()..];
        let digits = hash.bytes().take(16).take_while(u8::is_ascii_hexdigit).count();
        out.push_str(&rest[..at + PLACEHOLDER.len()]);
        out.push_str(if digits == 16 { "*" } else { "" });
        rest = &hash[if digits == 16 { 16 } else { 0 }..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Proves: R-3
    #[test]
    fn what_is_random_is_not_compared_and_all_else_is() {
        let body = |secret: &str, name: &str| {
            Body::Json(json!({"password": secret, "name": name, "x": [format!("a {secret} b")],
                "tags": [{"name": "db-password", "value": secret}]}))
        };
        let (one, other) = ("redacted-0123456789abcdef", "redacted-fedcba9876543210");
        assert_eq!(normal(&body(one, "n")), normal(&body(other, "n")));
        assert_ne!(normal(&body(one, "n")), normal(&body(one, "m")));
        let tag = |value: &str| normal(&Body::Json(json!({"name": "db-password", "value": value})));
        assert_eq!(tag("as an older version left it"), tag(one));
        assert_eq!(normal_text("redacted-xyz redacted-0123456789abcdef!"), "redacted-xyz redacted-*!");
    }

    #[test]
    fn a_url_is_shown_from_its_path_on() {
        assert_eq!(brief_url("http://h:1/v3/x?y"), "/v3/x?y");
        assert_eq!(brief_url("/apis/x"), "/apis/x");
        assert_eq!(brief_url("http://h"), "h");
    }
}
