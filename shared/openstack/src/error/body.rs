//! Reading an error's body, whatever its shape: seven forms of JSON, HTML, plain text, or nothing.

use serde_json::{Map, Value};

/// What a service said about a failure. Raw: it has not been through [`crate::redact`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The service's own name for it: a Neutron exception type, a Nova fault key, a Placement code.
    pub(crate) kind: Option<String>,
    /// Its words.
    pub(crate) message: String,
}

/// More of a body than this is not looked at. Nova quotes user data twice when it refuses it, and that is still read as JSON.
const READ_LIMIT: usize = 512 * 1024;

impl Fault {
    /// Never fails: what cannot be read as anything is text.
    pub(crate) fn read(body: &[u8]) -> Self {
        let body = &body[..body.len().min(READ_LIMIT)];
        match serde_json::from_slice::<Value>(body) {
            Ok(Value::Object(map)) => {
                Self::from_object(&map).unwrap_or_else(|| Self { kind: None, message: Value::Object(map).to_string() })
            }
            Ok(Value::String(text)) => Self { kind: None, message: text },
            Ok(Value::Null) => Self::default(),
            Ok(other) => Self { kind: None, message: other.to_string() },
            Err(_) => Self { kind: None, message: plain(&String::from_utf8_lossy(body)) },
        }
    }

    fn from_object(map: &Map<String, Value>) -> Option<Self> {
        neutron(map)
            .or_else(|| keystone(map))
            .or_else(|| octavia(map))
            .or_else(|| placement(map))
            .or_else(|| ironic(map))
            .or_else(|| webob(map))
            .or_else(|| nova(map))
    }
}

fn string(map: &Map<String, Value>, key: &str) -> Option<String> {
    map.get(key)?.as_str().map(str::to_owned)
}

/// `{"NeutronError": {"type", "message", "detail"}}`, in old releases `{"NeutronError": "text"}`.
fn neutron(map: &Map<String, Value>) -> Option<Fault> {
    match map.get("NeutronError")? {
        Value::String(text) => Some(Fault { kind: None, message: text.clone() }),
        Value::Object(inner) => {
            let mut message = string(inner, "message").unwrap_or_default();
            if let Some(detail) = string(inner, "detail").filter(|detail| !detail.is_empty()) {
                message = format!("{message} {detail}");
            }
            Some(Fault { kind: string(inner, "type"), message })
        }
        _ => None,
    }
}

/// `{"error": {"code", "message", "title"}}`; also what the token middleware answers for every service.
fn keystone(map: &Map<String, Value>) -> Option<Fault> {
    match map.get("error")? {
        Value::String(text) => Some(Fault { kind: None, message: text.clone() }),
        Value::Object(inner) => Some(Fault { kind: string(inner, "title"), message: string(inner, "message")? }),
        _ => None,
    }
}

/// `{"faultcode", "faultstring", "debuginfo"}`.
fn octavia(map: &Map<String, Value>) -> Option<Fault> {
    Some(Fault { kind: string(map, "faultcode"), message: string(map, "faultstring")? })
}

/// `{"errors": [{"status", "title", "detail", "code"}]}`.
fn placement(map: &Map<String, Value>) -> Option<Fault> {
    let first = map.get("errors")?.as_array()?.first()?.as_object()?;
    Some(Fault {
        kind: string(first, "code").or_else(|| string(first, "title")),
        message: string(first, "detail").or_else(|| string(first, "title")).unwrap_or_default(),
    })
}

/// `{"error_message": …}`, in which there is Octavia's form, an object or a string holding JSON.
fn ironic(map: &Map<String, Value>) -> Option<Fault> {
    match map.get("error_message")? {
        Value::Object(inner) => octavia(inner).or_else(|| webob(inner)),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Object(inner)) => octavia(&inner).or_else(|| webob(&inner)),
            _ => None,
        }
        .or_else(|| Some(Fault { kind: None, message: text.clone() })),
        _ => None,
    }
}

/// `{"message", "code": "404 Not Found", "title"}`: Glance, and unknown paths of Nova and Cinder. Has HTML in it.
fn webob(map: &Map<String, Value>) -> Option<Fault> {
    let message = string(map, "message").or_else(|| string(map, "description"));
    let title = string(map, "title");
    if message.is_none() && title.is_none() {
        return None;
    }
    let message = message.map(|text| plain(&text)).filter(|text| !text.is_empty()).or_else(|| title.clone());
    Some(Fault { kind: title, message: message.unwrap_or_default() })
}

/// `{"<kind>": {"code", "message"}}`: Nova and Cinder.
fn nova(map: &Map<String, Value>) -> Option<Fault> {
    map.iter().find_map(|(kind, value)| {
        let message = value.as_object()?.get("message")?.as_str()?;
        Some(Fault { kind: Some(kind.clone()), message: message.to_owned() })
    })
}

/// Text without tags, scripts and styles, with single spaces.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        out.push_str(&rest[..start]);
        out.push(' ');
        rest = &rest[start..];
        let hidden = ["style", "script"]
            .iter()
            .find(|name| rest.get(1..=name.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(name)));
        if let Some(name) = hidden {
            let end = format!("</{name}");
            rest = rest.to_ascii_lowercase().find(&end).map_or("", |at| &rest[at..]);
        }
        rest = rest.find('>').map_or("", |end| &rest[end + 1..]);
    }
    out.push_str(rest);
    let words: Vec<&str> = out.split_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    fn read(body: &str) -> (Option<String>, String) {
        let Fault { kind, message } = Fault::read(body.as_bytes());
        (kind, message)
    }

    /// Proves: OSC-7
    #[test]
    fn every_service_s_form_of_error_is_read() {
        let rows = [
            (r#"{"itemNotFound": {"code": 404, "message": "gone"}}"#, Some("itemNotFound"), "gone"),
            (r#"{"NeutronError": {"type": "OverQuota", "message": "no", "detail": ""}}"#, Some("OverQuota"), "no"),
            (r#"{"NeutronError": {"type": "X", "message": "no", "detail": "why"}}"#, Some("X"), "no why"),
            (r#"{"NeutronError": "old"}"#, None, "old"),
            (r#"{"error": {"code": 403, "message": "no", "title": "Forbidden"}}"#, Some("Forbidden"), "no"),
            (r#"{"error": "invalid"}"#, None, "invalid"),
            (r#"{"faultcode": "Client", "faultstring": "immutable", "debuginfo": null}"#, Some("Client"), "immutable"),
            (r#"{"errors": [{"status": 409, "title": "Conflict", "detail": "d", "code": "c"}]}"#, Some("c"), "d"),
            (
                r#"{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"locked\"}"}"#,
                Some("Client"),
                "locked",
            ),
            (r#"{"error_message": {"faultstring": "locked"}}"#, None, "locked"),
            (r#"{"error_message": "bare"}"#, None, "bare"),
            (
                r#"{"message": "No image<br /><br />\n\n", "code": "404 Not Found", "title": "Not Found"}"#,
                Some("Not Found"),
                "No image",
            ),
            (r#"{"code": 404, "title": "Not Found", "description": ""}"#, Some("Not Found"), "Not Found"),
            (
                "<html><head><title>502</title><style>p { x }</style></head><body><h1>Bad</h1> gateway</body>",
                None,
                "502 Bad gateway",
            ),
            ("plain text", None, "plain text"),
            ("", None, ""),
            ("null", None, ""),
            ("[1]", None, "[1]"),
            (r#"{"odd": 1}"#, None, r#"{"odd":1}"#),
            ("<unclosed", None, ""),
        ];
        for (body, kind, message) in rows {
            assert_eq!(read(body), (kind.map(str::to_owned), message.to_owned()), "{body}");
        }
    }

    proptest! {
        /// Proves: OSC-7
        #[test]
        fn no_body_makes_the_reader_fail(body in proptest::collection::vec(any::<u8>(), 0..400)) {
            Fault::read(&body);
        }

        #[test]
        fn no_text_with_tags_makes_the_reader_fail(body in "(<|>|/|script|STYLE|é|[a-z ]{0,3}|\\{|\"){0,40}") {
            Fault::read(body.as_bytes());
            prop_assert!(!plain(&body).contains('<'));
        }
    }
}
