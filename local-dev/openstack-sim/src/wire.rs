//! Requests and replies as the services see them: parsed, bounded, without any HTTP machinery.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

/// The data of an image upload: only what can be checked afterwards is kept.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    pub size: u64,
    pub sha512: String,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub method: Method,
    /// The whole path, as sent.
    pub path: String,
    /// The query string, as sent.
    pub raw_query: String,
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Set for image data only, which is hashed while it streams in and never kept.
    pub upload: Option<Upload>,
    /// `req-<uuid>`, answered in `x-openstack-request-id`.
    pub id: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The first value of a query parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a repeated query parameter.
    pub fn params<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; `None` when it is not.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    pub fn is_read(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }

    /// The query with `limit` and `marker` set for the next page and everything else kept.
    pub fn query_for_page(&self, limit: usize, marker: &str, reverse: bool) -> String {
        let mut query = form(
            self.query
                .iter()
                .filter(|(key, _)| !matches!(key.as_str(), "marker" | "limit" | "page_reverse"))
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .chain([("limit", limit.to_string().as_str()), ("marker", marker)]),
        );
        if reverse {
            query.push_str("&page_reverse=True");
        }
        query
    }
}

/// Writes a query string.
pub(crate) fn form<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    pairs.map(|(key, value)| format!("{}={}", encode(key), encode(value))).collect::<Vec<_>>().join("&")
}

/// Reads a query string. What cannot be decoded is kept as it stands.
pub(crate) fn parse_query(raw: &str) -> Vec<(String, String)> {
    raw.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        })
        .collect()
}

/// Percent-decoding; `plus` says that `+` is a space, as in a query.
pub(crate) fn decode(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = text.get(at + 1..at + 3).filter(|_| byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(value) = hex {
            out.push(value);
            at += 3;
        } else {
            out.push(if plus && byte == b'+' { b' ' } else { byte });
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn encode(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b':') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Payload {
    Empty,
    Json(Value),
    Text(&'static str, String),
}

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub payload: Payload,
    /// Whether the handler ran to success on a mutating request; set by the dispatcher.
    pub effect: bool,
}

impl Reply {
    pub fn json(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), payload: Payload::Json(body), effect: false }
    }

    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), payload: Payload::Empty, effect: false }
    }

    pub fn text(status: u16, content_type: &'static str, body: String) -> Self {
        Self { status, headers: Vec::new(), payload: Payload::Text(content_type, body), effect: false }
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sets a header unless the handler has.
    pub fn with_default(mut self, name: &str, value: impl Into<String>) -> Self {
        if !self.headers.iter().any(|(have, _)| have.eq_ignore_ascii_case(name)) {
            self.headers.push((name.to_owned(), value.into()));
        }
        self
    }
}

/// `404 Not Found`.
pub(crate) fn status_line(status: u16) -> String {
    format!("{status} {}", reason(status))
}

pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        413 => "Request Entity Too Large",
        other => StatusCode::from_u16(other).ok().and_then(|code| code.canonical_reason()).unwrap_or("Unknown"),
    }
}

/// The body that WebOb writes for an error it raised itself: Glance always, the others for unknown routes.
pub(crate) fn webob(status: u16, message: &str) -> Value {
    serde_json::json!({
        "message": format!("{message}<br /><br />\n\n\n"),
        "code": status_line(status),
        "title": reason(status),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_percent_signs_are_kept_as_text() {
        for (input, wanted) in [("%", "%"), ("%zz", "%zz"), ("a%2", "a%2"), ("%41+b", "A b"), ("%é", "%é")] {
            assert_eq!(decode(input, true), wanted);
        }
    }

    #[test]
    fn what_is_encoded_decodes_to_itself() {
        let text = "^web.1 (x)&=%+é$";
        assert_eq!(parse_query(&form([("name", text)].into_iter())), [("name".to_owned(), text.to_owned())]);
    }
}
