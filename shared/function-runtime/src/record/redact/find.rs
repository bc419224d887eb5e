//! Finds, in texts and documents, the places where a secret could stand.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;

/// A base64 text of fewer characters is not looked into.
pub(super) const SHORTEST_BASE64: usize = 12;
/// How the first line of a private key ends.
pub(super) const PRIVATE: &str = "PRIVATE KEY-----";
const PEM_BEGIN: &str = "-----BEGIN ";

/// Cheap: whether it is worth looking for quoted secrets in a text.
pub(super) fn mentions_a_secret(text: &str) -> bool {
    let quoted = text.contains(['\'', '"']);
    quoted
        && ["pass", "Pass", "secret", "Secret", "private", "token", "user_data"].iter().any(|word| text.contains(word))
}

/// Whether a URL is of Kubernetes Secrets.
pub(super) fn is_secrets(url: &str) -> bool {
    url.starts_with("/api/v1/") && url.split(['/', '?']).any(|part| part == "secrets")
}

/// Makes Secrets known as such that do not say so themselves: those of a list do not.
pub(super) fn mark(url: &str, value: &mut Value) {
    if !is_secrets(url) {
        return;
    }
    let mark_one = |value: &mut Value| {
        if let Value::Object(map) = value
            && (map.contains_key("data") || map.contains_key("stringData"))
        {
            map.insert("kind".to_owned(), "Secret".into());
            map.insert("apiVersion".to_owned(), "v1".into());
        }
    };
    match value.get_mut("items").and_then(Value::as_array_mut) {
        Some(items) => items.iter_mut().for_each(mark_one),
        None => mark_one(value),
    }
}

/// What precedes the first private key of a text, the key, what follows it.
pub(super) fn private_key(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let begin = from + text[from..].find(PEM_BEGIN)?;
        let line = text[begin..].lines().next().unwrap_or_default();
        from = begin + PEM_BEGIN.len();
        if !line.contains(PRIVATE) {
            continue;
        }
        // A key that has no end takes all the rest with it.
        let end = text[from..].find("-----END ").map_or(text.len(), |at| {
            let tail = from + at + "-----END ".len();
            text[tail..].find("-----").map_or(text.len(), |more| tail + more + "-----".len())
        });
        return Some((&text[..begin], &text[begin..end], &text[end..]));
    }
}

/// The text inside a base64 text; `None` if there is none.
pub(super) fn decoded(text: &str) -> Option<String> {
    let trimmed = text.trim();
    if trimmed.len() < SHORTEST_BASE64
        || trimmed.bytes().any(|b| !(b.is_ascii_alphanumeric() || b"+/=-_\n\r".contains(&b)))
    {
        return None;
    }
    let compact: String = trimmed.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(&compact).or_else(|_| URL_SAFE_NO_PAD.decode(&compact)).ok()?;
    let inner = String::from_utf8(bytes).ok()?;
    // Many an ID is base64 by chance; what comes of it is no text then.
    inner.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t')).then_some(inner)
}

pub(super) struct Document {
    pub(super) value: Value,
    pub(super) yaml: bool,
}

/// A document in a string: JSON, or the YAML of credentials.
pub(super) fn document(text: &str) -> Option<Document> {
    let trimmed = text.trim_start();
    if trimmed.starts_with(['{', '[']) {
        return Some(Document { value: serde_json::from_str(text).ok()?, yaml: false });
    }
    let yaml = ["clouds:", "apiVersion:", "---", "auth:"].iter().any(|beginning| trimmed.starts_with(beginning));
    let value = yaml.then(|| serde_yaml_ng::from_str::<Value>(text).ok()).flatten().filter(Value::is_object)?;
    Some(Document { value, yaml: true })
}
