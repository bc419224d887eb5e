//! What is written in base64 or in percent signs inside texts, and documents in strings.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::node::Node;

/// A base64 text of fewer characters is not looked into.
const SHORTEST: usize = 12;
/// By its first so many characters a base64 text is told from an ID.
const PROBE: usize = 16;
/// In no more places of one word a base64 text is looked for.
const MOST_PLACES: usize = 16;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// How compressed data begins: nobody can say what is in it.
const COMPRESSED: [&[u8]; 5] =
    [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd], &[0xfd, b'7', b'z', b'X', b'Z'], b"BZh", b"PK\x03\x04"];

/// What a base64 text holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inside {
    Text(String),
    /// The bytes.
    Compressed(Vec<u8>),
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
}

fn decode(text: &str, into: &mut [u8]) -> Option<usize> {
    let engine = if text.bytes().any(|b| matches!(b, b'-' | b'_')) { &URL_SAFE } else { &STANDARD };
    engine.decode_slice(text, into).ok()
}

/// What each letter of base64 stands for, for URLs or not; 64 is none.
static DIGITS: [u8; 256] = {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut digits = [64; 256];
    let mut digit = 0_u8;
    while digit < 64 {
        digits[letters[digit as usize] as usize] = digit;
        digit += 1;
    }
    digits[b'-' as usize] = 62;
    digits[b'_' as usize] = 63;
    digits
};

/// Whether its first three bytes could be those of a text, or of compressed data. Quick: most words are told by these.
fn begins(text: &[u8]) -> bool {
    let Some(first) = text.first_chunk::<4>() else { return false };
    let [a, b, c, d] = first.map(|letter| DIGITS[usize::from(letter)]);
    if (a | b | c | d) & 64 != 0 {
        return false;
    }
    let could_be = |byte: u8| byte >= 0x80 || !byte.is_ascii_control() || matches!(byte, b'\n' | b'\r' | b'\t');
    match [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d] {
        [0x1f, 0x8b, _] | [b'P', b'K', _] => true,
        bytes => bytes.into_iter().all(could_be),
    }
}

/// Whether what begins so could be a text, or compressed data. Many an ID is base64 by chance; what comes of it is neither.
fn promises(text: &str) -> bool {
    if !begins(text.as_bytes()) {
        return false;
    }
    let mut bytes = [0; PROBE];
    let probe = text.get(..PROBE.min(text.len() / 4 * 4)).unwrap_or_default();
    let Some(many) = decode(probe, &mut bytes) else { return false };
    let bytes = &bytes[..many];
    if COMPRESSED.iter().any(|magic| bytes.starts_with(magic)) {
        return true;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // A character that is cut off says nothing against it.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    is_text(text)
}

fn is_text(text: &str) -> bool {
    text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'))
}

/// What is inside a text that is base64 from end to end, broken into lines perhaps.
pub(super) fn inside(text: &str) -> Option<Inside> {
    let trimmed = text.trim();
    if trimmed.len() < SHORTEST || !trimmed.bytes().all(|b| is_base64(b) || matches!(b, b'\n' | b'\r')) {
        return None;
    }
    let compact: Cow<'_, str> = if trimmed.contains(['\n', '\r']) {
        trimmed.chars().filter(|c| !c.is_ascii_whitespace()).collect::<String>().into()
    } else {
        trimmed.into()
    };
    if !promises(&compact) {
        return None;
    }
    let mut bytes = vec![0; compact.len()];
    let many = decode(&compact, &mut bytes)?;
    bytes.truncate(many);
    if COMPRESSED.iter().any(|magic| bytes.starts_with(magic)) {
        return Some(Inside::Compressed(bytes));
    }
    String::from_utf8(bytes).ok().filter(|inner| is_text(inner)).map(Inside::Text)
}

/// Whether any part of a text could be a text in base64, or compressed data: if not, neither [`inside`] nor [`words`] finds any in it,
/// nor in the strings of the JSON that it is. Base64 that is broken into lines is not looked for, so a text that has lines, or escapes
/// that may stand for such, counts as one.
pub(super) fn is_encoded_in(text: &str) -> bool {
    text.bytes().any(|b| matches!(b, b'\\' | b'\n' | b'\r'))
        || runs(text).any(|(at, end)| word(text, at, end).is_some())
}

/// Where there is nothing but letters of base64, long enough to be looked into.
fn runs(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let bytes = text.as_bytes();
    let mut next = 0;
    std::iter::from_fn(move || {
        loop {
            let at = next + bytes[next..].iter().position(|b| is_base64(*b))?;
            let end = bytes[at..].iter().position(|b| !is_base64(*b)).map_or(bytes.len(), |many| at + many);
            next = end;
            if end - at >= SHORTEST {
                return Some((at, end));
            }
        }
    })
}

/// Words of a text that are base64, in order: where each is, and what is inside. It may be glued to what stands before it, as in
/// `name=…` and `/path/…`.
pub(super) fn words(text: &str) -> Vec<(std::ops::Range<usize>, Inside)> {
    // IDs are of hexadecimal digits, and what they would be in base64 is no text.
    let is_id = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-');
    runs(text)
        .filter(|(at, end)| !text[*at..*end].bytes().all(is_id))
        .filter_map(|(at, end)| word(text, at, end))
        .collect()
}

fn word(text: &str, from: usize, end: usize) -> Option<(std::ops::Range<usize>, Inside)> {
    let glue = |at: usize| matches!(text.as_bytes()[at], b'/' | b'-' | b'_' | b'+' | b'=');
    let starts = std::iter::once(from).chain((from..end).filter(|at| glue(*at)).map(|at| at + 1)).take(MOST_PLACES);
    for start in starts.filter(|start| end - start >= SHORTEST && promises(&text[*start..end])) {
        // To the end, or to where something else is glued on.
        let ends = std::iter::once(end).chain((start + SHORTEST..end).filter(|at| glue(*at))).take(MOST_PLACES);
        for end in ends {
            if let Some(inside) = inside(&text[start..end]) {
                return Some((start..end, inside));
            }
        }
    }
    None
}

/// Words of a text in which percent signs stand for something: where each is, and what it says.
pub(super) fn percents(text: &str) -> Vec<(std::ops::Range<usize>, String)> {
    let mut found = Vec::new();
    let mut from = 0;
    for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '&')) {
        let range = from..from
            + word.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '&')).len();
        from += word.len();
        if let Some(said) = percent_decoded(&text[range.clone()]) {
            found.push((range, said));
        }
    }
    found
}

/// What a text with percent signs says; `None` if nothing else than the text itself.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    text.contains('%').then_some(())?;
    let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = (bytes[at] == b'%').then(|| Some((hex(*bytes.get(at + 1)?)?, hex(*bytes.get(at + 2)?)?))).flatten();
        if let Some((high, low)) = pair {
            out.push(high << 4 | low);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    (out.len() < bytes.len()).then_some(())?;
    String::from_utf8(out).ok()
}

/// A document in a string.
pub(super) struct Document<'a> {
    pub(super) value: Node<'a>,
    pub(super) yaml: bool,
}

/// A document in a string: JSON, or the YAML of credentials.
pub(super) fn document(text: &str) -> Option<Document<'_>> {
    let trimmed = text.trim_start();
    if trimmed.starts_with(['{', '[', '"']) {
        return Some(Document { value: serde_json::from_str(text).ok()?, yaml: false });
    }
    let yaml = ["clouds:", "apiVersion:", "---", "auth:"].iter().any(|beginning| trimmed.starts_with(beginning));
    let value = yaml.then(|| serde_yaml_ng::from_str::<Node<'_>>(text).ok()).flatten();
    value.filter(|value| matches!(value, Node::Map(_))).map(|value| Document { value, yaml: true })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use base64::engine::general_purpose::{STANDARD as B64, URL_SAFE_NO_PAD};

    #[test]
    fn a_word_in_base64_is_found_wherever_it_is_glued_to() {
        let inner = "user: me, password: hunter2?>";
        for encoded in [B64.encode(inner), URL_SAFE_NO_PAD.encode(inner)] {
            for text in [
                encoded.clone(),
                format!("x={encoded}"),
                format!("/a/path/{encoded}"),
                format!("Basic {encoded}."),
                format!("a-name-{encoded}"),
            ] {
                let found = words(&text);
                assert_eq!(found.len(), 1, "{text}");
                assert_eq!(
                    (&text[found[0].0.clone()], &found[0].1),
                    (encoded.as_str(), &Inside::Text(inner.to_owned()))
                );
            }
        }
    }

    #[test]
    fn ids_and_words_are_not_taken_for_base64() {
        for text in [
            "b0000000-0000-4000-8000-00000000000a",
            "6f9619ff-8b86-d011-b42d-00c04fc964ff",
            "availabilityzone",
            "2026-01-01T00:00:00.000000Z",
            "/compute/v2.1/servers/detail?name=web&limit=1000",
        ] {
            assert!(words(text).is_empty(), "{text}: {:?}", words(text));
        }
        let compressed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        assert_eq!(inside(&B64.encode(&compressed)), Some(Inside::Compressed(compressed)));
    }

    /// Proves: R-2
    #[test]
    fn where_no_base64_is_seen_in_a_whole_none_is_in_its_parts() {
        let inner = "user: me, password: hunter2?>";
        for part in
            [B64.encode(inner), format!("x={}", URL_SAFE_NO_PAD.encode(inner)), B64.encode("line\nline\nline\n")]
        {
            assert!(is_encoded_in(&format!(r#"{{"a":"b","c":"{part}"}}"#)), "{part}");
        }
        let lines = serde_json::to_string(&B64.encode(inner.repeat(9)).replace("dXNl", "dXNl\n")).unwrap();
        assert!(is_encoded_in(&lines), "{lines}");
        let ids = r#"{"id":"b0000000-0000-4000-8000-00000000000a","status":"ACTIVE","availability_zone":"nova","when":"2026-01-01T00:00:00Z"}"#;
        assert!(!is_encoded_in(ids));
    }

    #[test]
    fn percent_signs_are_read_where_they_stand_for_something() {
        assert_eq!(percents("see /a%20b?x=%7B%22 and 100% or %zz"), [(4..19, "/a b?x={\"".to_owned())]);
        assert!(percents("%ff").is_empty());
    }
}
