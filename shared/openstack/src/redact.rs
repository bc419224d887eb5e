//! What must not be seen, removed (OSC-13). In the details of errors.

use base64::Engine as _;
use http::HeaderName;
use serde_json::Value;

use crate::Secret;

/// What stands where a secret stood.
const MARK: &str = "***";

/// JSON fields that hold a secret wherever they occur, in lower case. `user_data` is here because people put passwords in it.
const FIELDS: &[&str] = &[
    "password",
    "original_password",
    "adminpass",
    "admin_pass",
    "secret",
    "private_key",
    "user_data",
    "token_id",
    "auth_token",
];

const HEADERS: &[&str] =
    &["x-auth-token", "x-subject-token", "x-service-token", "authorization", "cookie", "set-cookie"];

/// Whether a header's value is a credential.
pub fn is_secret_header(name: &HeaderName) -> bool {
    HEADERS.contains(&name.as_str())
}

fn is_secret_field(name: &str) -> bool {
    FIELDS.contains(&name.to_ascii_lowercase().as_str())
}

/// The secrets that a JSON body holds, as they stand there and, where that is base64, as what they say: whole, and line by line,
/// since services quote both. A `password` that is an object (a token request's method) is gone through, and names who asked.
pub(crate) fn held(value: &Value) -> Vec<Secret> {
    let mut found = Vec::new();
    hold(value, false, &mut found);
    found
}

fn hold(value: &Value, is_secret: bool, found: &mut Vec<Secret>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, inner)| hold(inner, is_secret_field(key) && !inner.is_object(), found));
        }
        Value::Array(items) => items.iter().for_each(|item| hold(item, is_secret, found)),
        Value::String(text) if is_secret && !text.is_empty() => {
            found.push(Secret::new(text.as_str()));
            let plain = base64::engine::general_purpose::STANDARD.decode(text.trim()).ok();
            if let Some(plain) = plain.and_then(|plain| String::from_utf8(plain).ok()) {
                let lines = plain.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
                found.extend(std::iter::once(plain.as_str()).chain(lines.take(MOST_LINES)).map(Secret::new));
            }
        }
        _ => {}
    }
}

/// A shorter line of what is secret is not looked for by itself.
const SHORTEST_LINE: usize = 8;
/// Nor more lines of one text.
const MOST_LINES: usize = 1000;

/// A secret of which this much is seen is taken for the secret: services shorten what they quote.
const TELLING: usize = 16;

/// Free text without `secrets`, whole or begun, and without the quoted value of any secret field: error messages like to
/// quote the request they refuse.
pub(crate) fn text(text: &str, secrets: &[&Secret]) -> String {
    let mut out = text.to_owned();
    for secret in secrets {
        let secret = secret.reveal();
        let quoted = Value::String(secret.to_owned()).to_string();
        for form in [secret, quoted.trim_matches('"')] {
            out = without(&out, form);
        }
    }
    fields(&out)
}

fn without(text: &str, secret: &str) -> String {
    // Shorter ones would tear ordinary words apart, and are no secrets.
    if secret.len() < 4 {
        return text.to_owned();
    }
    let telling = secret.char_indices().map(|(at, _)| at).find(|at| *at >= TELLING).unwrap_or(secret.len());
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(&secret[..telling]) {
        out.push_str(&rest[..at]);
        out.push_str(MARK);
        let same: usize =
            rest[at..].chars().zip(secret.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        rest = &rest[at + same..];
    }
    out.push_str(rest);
    out
}

/// Finds `"name": "value"` and `'name': 'value'` for the secret names, in any mixture of quotes and escapes, and removes the value.
fn fields(text: &str) -> String {
    let lower = text.to_ascii_lowercase(); // same length: byte positions agree
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some((start, name)) = next_field(&lower, at) {
        let after = start + name.len();
        let Some((open, quote)) = value_start(&lower, after) else {
            out.push_str(&text[at..after]);
            at = after;
            continue;
        };
        out.push_str(&text[at..open]);
        out.push_str(MARK);
        at = value_end(&lower, open, quote);
    }
    out.push_str(&text[at..]);
    out
}

fn next_field(lower: &str, from: usize) -> Option<(usize, &'static str)> {
    FIELDS
        .iter()
        .filter_map(|name| lower[from..].find(name).map(|at| (from + at, *name)))
        .min_by_key(|(at, name)| (*at, std::cmp::Reverse(name.len())))
}

/// The position of the value after a field's name: a quote, a colon or equals sign, a quote; escapes are allowed between.
fn value_start(lower: &str, after: usize) -> Option<(usize, u8)> {
    let bytes = lower.as_bytes();
    let mut at = after;
    let mut separated = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b':' | b'=' => separated = true,
            b'"' | b'\'' if separated => return Some((at + 1, *byte)),
            b'\\' | b' ' | b'"' | b'\'' => {}
            // Python's `u'…'`
            b'u' if separated => {}
            _ => return None,
        }
        at += 1;
    }
    None
}

/// The position of the closing quote; the end of the text if there is none.
fn value_end(lower: &str, open: usize, quote: u8) -> usize {
    let bytes = lower.as_bytes();
    let escaped_opening = open >= 2 && bytes[open - 2] == b'\\';
    let mut at = open;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if escaped_opening && bytes.get(at + 1) == Some(&quote) => return at,
            b'\\' => at += 1,
            byte if byte == quote => return at,
            _ => {}
        }
        at += 1;
    }
    // An escape may have carried `at` past the end.
    bytes.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Proves: OSC-13
    #[test]
    fn secret_fields_are_found_at_any_depth_and_nothing_else_is() {
        let value = json!({
            "auth": {"identity": {"password": {"user": {"id": "u", "password": "hunter2"}}}},
            "server": {"adminPass": "a", "user_data": "b", "name": "web", "list": [{"secret": "c"}]},
        });
        let held = super::held(&value);
        let mut held: Vec<&str> = held.iter().map(Secret::reveal).collect();
        held.sort_unstable();
        assert_eq!(held, ["a", "b", "c", "hunter2"]);
    }

    /// Proves: OSC-13
    #[test]
    fn a_message_that_quotes_user_data_loses_it_as_it_was_sent_and_as_what_it_says() {
        let plain = "#cloud-config\npassword: hunter2\nPW=correct-horse\n";
        let sent = base64::engine::general_purpose::STANDARD.encode(plain);
        let held = super::held(
            &json!({"server": {"name": "web-server-1", "user_data": sent, "list": [{"secret": "a-b-c-d"}]}}),
        );
        let held: Vec<&Secret> = held.iter().collect();
        for quoted in [plain, &sent, "PW=correct-horse", "a-b-c-d", &plain.replace('\n', "\\n")] {
            let left = super::text(&format!("Invalid input for web-server-1. Value: {quoted}. It is too long"), &held);
            for secret in ["hunter2", "correct-horse", "a-b-c-d", &sent[20..]] {
                assert!(!left.contains(secret), "{secret} is in {left}");
            }
            assert!(left.starts_with("Invalid input for web-server-1"), "{left}");
        }
    }

    /// Proves: OSC-13
    #[test]
    fn a_message_that_quotes_the_request_loses_its_secrets() {
        let rows = [
            (
                r"Value: {'name': 'x', 'password': 'hunter2 it', 'y': 1}",
                r"Value: {'name': 'x', 'password': '***', 'y': 1}",
            ),
            (r#"{"password": "a\"b", "z": "c"}"#, r#"{"password": "***", "z": "c"}"#),
            (r#"in a string {\"secret\": \"hunter2\", \"z\": 1}"#, r#"in a string {\"secret\": \"***\", \"z\": 1}"#),
            (r"adminPass=u'hunter2'", r"adminPass=u'***'"),
            ("the password is too short", "the password is too short"),
            (r#"{"password": "open"#, r#"{"password": "***"#),
        ];
        for (text, redacted) in rows {
            assert_eq!(super::text(text, &[]), redacted);
        }
        assert_eq!(super::text("token gAAAAAB1 refused", &[&Secret::new("gAAAAAB1")]), "token *** refused");
        let long = Secret::new("0123456789abcdefghijklmnop");
        assert_eq!(super::text("Value: 0123456789abcdefgh… is not", &[&long]), "Value: ***… is not", "a shortened one");
        assert_eq!(super::text(r#"a"b\"c\\d"#, &[&Secret::new(r#"b"c\d"#)]), r#"a"***"#, "an escaped one");
    }

    /// Proves: OSC-13
    #[test]
    fn credentials_headers_are_known() {
        assert!(is_secret_header(&HeaderName::from_static("x-auth-token")));
        assert!(is_secret_header(&HeaderName::from_static("x-subject-token")));
        assert!(!is_secret_header(&HeaderName::from_static("content-type")));
    }

    proptest! {
        /// Proves: OSC-13
        #[test]
        fn a_quoted_secret_never_survives(
            before in "[a-z {}':,é]{0,20}",
            secret in "[A-Z0-9]{8,20}",
            after in "[a-z {}:,é]{0,20}",
            quote in prop_oneof![Just('\''), Just('"')],
        ) {
            let message = format!("{before}{quote}password{quote}: {quote}{secret}{quote}{after}");
            prop_assert!(!text(&message, &[]).contains(&secret));
        }

        #[test]
        fn no_text_makes_it_fail(message in "(password|secret|'|\"|\\\\|:|=| |é|[a-z]{0,3}){0,40}") {
            text(&message, &[&Secret::new("aaaa")]);
            held(&json!({"user_data": message}));
        }
    }
}
