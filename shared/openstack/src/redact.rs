//! What must not be seen, removed (OSC-13). In the details of errors; and what tells a secret from other things, wherever it is met.

mod names;
mod said;
mod sentences;
mod tokens;
mod values;

use std::collections::BTreeSet;
use std::ops::Range;

use base64::Engine as _;
use http::HeaderName;
use serde_json::Value;

use crate::Secret;

use names::is_plain_inside;
pub use names::{Field, field, is_its_own, is_name, is_value};
pub use said::{lines, said};
pub use values::{userinfo, values};

/// What stands where a secret stood.
const MARK: &str = "***";

const HEADERS: &[&str] =
    &["x-auth-token", "x-subject-token", "x-service-token", "authorization", "cookie", "set-cookie"];

/// Whether a header's value is a credential.
pub fn is_secret_header(name: &HeaderName) -> bool {
    HEADERS.contains(&name.as_str())
}

/// The secrets that a JSON body holds, as they stand there and, where that is base64, as what they say: whole, line by line, and each
/// secret in it by itself, since services quote all of these. An object that is called a secret is gone through: it names who asked,
/// too.
pub(crate) fn held(value: &Value) -> Vec<Secret> {
    let mut found = Vec::new();
    hold(value, None, &mut found);
    found
}

/// `holder`: the name of a secret that all of this is, unless it says otherwise.
fn hold(value: &Value, holder: Option<&str>, found: &mut Vec<Secret>) {
    match value {
        Value::Object(map) => {
            let named = named(map);
            for (key, inner) in map {
                let called = named.filter(|_| is_value(key)).unwrap_or(key);
                let own = (field(called) != Field::Plain).then_some(called);
                hold(inner, own.or(holder.filter(|holder| !is_plain_inside(holder, key))), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| hold(item, holder, found)),
        Value::String(text) if holder.is_some() && !text.is_empty() => {
            found.push(Secret::new(text.as_str()));
            if let Ok(plain) = base64::engine::general_purpose::STANDARD.decode(text.trim()) {
                // What is no text is quoted like that, if at all.
                hold_text(&String::from_utf8_lossy(&plain), found);
            }
        }
        _ => {}
    }
}

/// What a text says that is a secret: all of it, its lines, and what it gives names of secrets or to programs.
fn hold_text(plain: &str, found: &mut Vec<Secret>) {
    let lines = plain.lines().map(str::trim).filter(|line| line.len() >= said::SHORTEST_LINE);
    found.extend(std::iter::once(plain).chain(lines.take(MOST_LINES)).map(Secret::new));
    let mut words = BTreeSet::new();
    let mut add = |value: &str| {
        let value = value.trim().trim_matches(['"', '\'']);
        for value in [value, value.split_once(" #").map_or("", |(value, _)| value.trim())] {
            if value.len() >= values::SHORTEST && words.len() < MOST_WORDS && !words.contains(value) {
                words.insert(value.to_owned());
            }
        }
    };
    for at in values(plain).into_iter().chain(userinfo(plain)) {
        add(&plain[at]);
    }
    said(plain, add);
    found.extend(words.into_iter().map(Secret::from));
}

/// What the value of `{"name": …, "value": …}` is called, if that tells of a secret.
pub fn named(map: &serde_json::Map<String, Value>) -> Option<&str> {
    let names = map.iter().filter(|(key, _)| is_name(key)).filter_map(|(_, name)| name.as_str());
    names.into_iter().find(|name| field(name) != Field::Plain)
}

/// More lines of one text are not looked for by themselves.
const MOST_LINES: usize = 1000;
/// Nor more secrets of one text by themselves.
const MOST_WORDS: usize = 4096;
/// How what stands for a secret in a recording begins; sixteen hexadecimal digits follow.
const PLACEHOLDER: &str = "redacted-";

/// A secret of which this much is seen is taken for the secret: services shorten what they quote.
const TELLING: usize = 16;

/// Free text without `secrets`, whole or begun, and without the value of any secret field, or a password in a URL: error
/// messages like to quote the request they refuse. What stands for a secret in a recording is removed as the secret would be, so that
/// a call that runs again on what was recorded says the same (R-3).
pub(crate) fn text(text: &str, secrets: &[&Secret]) -> String {
    let mut out = text.to_owned();
    for secret in secrets {
        let secret = secret.reveal();
        let quoted = Value::String(secret.to_owned()).to_string();
        out = without(&out, secret);
        let quoted = &quoted[1..quoted.len() - 1];
        if quoted != secret {
            out = without(&out, quoted);
        }
    }
    out = without_placeholders(out);
    for find in [userinfo, values] {
        if let Some(changed) = replaced(&out, find(&out).into_iter().map(|place| (place, MARK))) {
            out = changed;
        }
    }
    out
}

/// A text with other words in some places, which are in order; `None` if there are none.
pub fn replaced(text: &str, places: impl Iterator<Item = (Range<usize>, impl AsRef<str>)>) -> Option<String> {
    let mut out = String::new();
    let mut from = 0;
    for (place, by) in places {
        out.push_str(&text[from..place.start]);
        out.push_str(by.as_ref());
        from = place.end;
    }
    (from > 0).then(|| out + &text[from..])
}

fn without_placeholders(text: String) -> String {
    if !text.contains(PLACEHOLDER) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(PLACEHOLDER) {
        let end = at + PLACEHOLDER.len() + 16;
        let is_it =
            rest.get(at + PLACEHOLDER.len()..end).is_some_and(|hash| hash.bytes().all(|b| b.is_ascii_hexdigit()));
        let (until, by) = if is_it { (end, MARK) } else { (at + PLACEHOLDER.len(), PLACEHOLDER) };
        out.push_str(&rest[..at]);
        out.push_str(by);
        rest = &rest[until..];
    }
    out.push_str(rest);
    out
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
            "server": {"adminPass": "a", "user_data": "b", "name": "web", "list": [{"secret": "c"}],
                "metadata": [{"key": "db-password", "value": "d"}, {"key": "zone", "value": "a"}]},
            "credentials": {"name": "x", "blob": "e"},
        });
        let held = super::held(&value);
        let mut held: Vec<&str> = held.iter().map(Secret::reveal).collect();
        held.sort_unstable();
        assert_eq!(held, ["a", "b", "c", "d", "e", "hunter2"]);
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
    fn a_message_that_quotes_one_secret_of_user_data_loses_it_whatever_stands_around_it() {
        let data = b"#cloud-config\n# \xe9\x1b\npassword: hunter-it # agreed\nchpasswd: {list: 'root:staple-it'}\n\
            runcmd:\n- join --token correct-it\n- curl https://me:battery-it@h/\n"
            .to_vec();
        let sent = base64::engine::general_purpose::STANDARD.encode(data);
        let held = super::held(&json!({"server": {"user_data": sent}}));
        let held: Vec<&Secret> = held.iter().collect();
        for secret in ["hunter-it", "staple-it", "correct-it", "battery-it"] {
            for quoted in [format!("cannot set '{secret}'"), format!("<html>Bad gateway {secret}</html>")] {
                let left = super::text(&quoted, &held);
                assert!(!left.contains(secret) && left.contains(MARK), "{left}");
            }
        }
    }

    /// Proves: R-3
    #[test]
    fn what_stands_for_a_secret_is_shown_as_the_secret_would_be() {
        let shown =
            |said: &str| super::text(&format!("cannot set {said}: it is redacted-or-so"), &[&Secret::new("hunter2it")]);
        assert_eq!(shown("hunter2it"), shown("redacted-0123456789abcdef"));
        assert_eq!(shown("hunter2it"), "cannot set ***: it is redacted-or-so");
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
            (
                "refused: db_password=hunter2, https://me:hunter2@host/",
                "refused: db_password=***, https://me:***@host/",
            ),
            ("of key_name=web, X-Auth-Token: gAAAAAB1", "of key_name=web, X-Auth-Token: ***"),
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
