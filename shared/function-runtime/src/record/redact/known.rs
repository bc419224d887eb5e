//! The secrets that are known, and all of them found in one pass over a text: by their
//! first bytes.
//!
//! Invariants
//! - A secret is found as it is, as it is written inside JSON, in URLs, in hexadecimal digits, and anywhere within base64, whatever
//!   stands before it there.
//! - Of secrets that begin at one place the longest is replaced; of one that is only begun, since services shorten what they
//!   quote, as much as is there, if it is enough to know it by.
//! - Bounded: when there are too many, all are forgotten, and learnt anew as they are met.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

/// A shorter secret is not searched for: it would tear ordinary words apart.
pub const SHORTEST: usize = 6;
/// A shorter secret is not searched for inside base64.
const SHORTEST_ENCODED: usize = 8;
/// Of a longer secret this much is enough to know it by.
const TELLING: usize = 24;
/// Of user data, whose beginnings are much alike, this much.
const TELLING_DATA: usize = 64;
/// No more secrets are known at a time.
const MOST: usize = 8192;
/// Nor do they take more memory than this, in bytes, about.
const MOST_BYTES: usize = 8 << 20;
/// So many bits there are for each form, of which it takes [`STRIDE`].
const BITS: usize = 32;
/// By so many bytes most places of a text are told from all beginnings.
const GRAM: usize = 4;
/// Of so many places in a row one is enough to look at: whatever begins at any of them has its bytes.
const STRIDE: usize = SHORTEST - GRAM + 1;

/// What a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// A password, a token.
    Word,
    /// User data.
    Data,
    /// The public half of a key: no secret, and replaced by that of the key that stands in for the private one.
    Half,
}

/// A text to find, and what to put in its place.
struct Form {
    text: Box<str>,
    /// So much of it has to be there.
    telling: usize,
    by: Arc<str>,
}

/// Forms, by how they begin. One that is added is found from then on: nothing has to be made anew of all, as an automaton
/// would, when secrets are learnt call by call.
#[derive(Default)]
struct Finder {
    forms: HashMap<[u8; SHORTEST], Vec<Form>, foldhash::fast::RandomState>,
    many: usize,
    /// A bit for each [`GRAM`] bytes in a row of a beginning, at a place that hangs on them. Of a power of two bits.
    bits: Vec<u64>,
}

impl Finder {
    fn add(&mut self, form: Form) {
        let Some(beginning) = form.text.as_bytes().first_chunk().copied() else { return };
        self.forms.entry(beginning).or_default().push(form);
        self.many += 1;
        if self.many * BITS > self.bits.len() * 64 {
            self.bits = vec![0; (self.many * BITS / 64).next_power_of_two() * 2];
            let all: Vec<_> = self.forms.keys().copied().collect();
            for beginning in all {
                self.mark(beginning);
            }
        } else {
            self.mark(beginning);
        }
    }

    fn mark(&mut self, beginning: [u8; SHORTEST]) {
        for gram in beginning.windows(GRAM) {
            let (at, bit) = self.place(gram);
            if let Some(bits) = self.bits.get_mut(at) {
                *bits |= bit;
            }
        }
    }

    /// Which bit is whose.
    fn place(&self, gram: &[u8]) -> (usize, u64) {
        let gram = gram.first_chunk().map_or(0, |gram| u64::from(u32::from_le_bytes(*gram)));
        let hash = gram.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The high bits hang on all others.
        let at = (hash >> 40) as usize & (self.bits.len().wrapping_sub(1));
        (at, 1 << (hash >> 34 & 63))
    }

    /// The first form in `text` from some place on: where it is, how much of it there is, what it becomes.
    fn find(&self, text: &str, from: usize) -> Option<(usize, usize, &str)> {
        if self.many == 0 {
            return None;
        }
        let bytes = text.as_bytes();
        let grams = bytes.get(from + STRIDE - 1..)?.windows(GRAM).step_by(STRIDE);
        for (at, gram) in grams.enumerate() {
            let (place, bit) = self.place(gram);
            if self.bits.get(place).is_none_or(|bits| bits & bit == 0) {
                continue;
            }
            let first = from + at * STRIDE;
            for at in first..first + STRIDE {
                if let Some((mut many, by)) = self.best(&bytes[at..]) {
                    while !text.is_char_boundary(at + many) {
                        many -= 1;
                    }
                    return Some((at, many, by));
                }
            }
        }
        None
    }

    /// Of the forms that begin so, the one of which most is there.
    fn best(&self, rest: &[u8]) -> Option<(usize, &str)> {
        let same = |form: &Form| rest.iter().zip(form.text.as_bytes()).take_while(|(one, other)| one == other).count();
        let forms = self.forms.get(rest.first_chunk::<SHORTEST>()?)?.iter().map(|form| (same(form), form));
        let best = forms.filter(|(same, form)| *same >= form.telling).max_by_key(|(same, _)| *same);
        best.map(|(many, form)| (many, &*form.by))
    }
}

/// The secrets that are known.
#[derive(Default)]
pub(super) struct Known {
    by: HashMap<Box<str>, Arc<str>>,
    finder: Finder,
    bytes: usize,
    learnt: u64,
    forgot: u64,
}

impl Known {
    /// What stands for a secret, if it is known.
    pub(super) fn get(&self, secret: &str) -> Option<&str> {
        self.by.get(secret).map(|by| &**by)
    }

    /// Whether this is what stands for one.
    pub(super) fn stands_for_one(&self, text: &str) -> bool {
        self.by.values().any(|by| **by == *text)
    }

    /// Grows with each secret that is learnt.
    pub(super) const fn learnt(&self) -> u64 {
        self.learnt
    }

    /// Grows each time that all are forgotten.
    pub(super) const fn forgot(&self) -> u64 {
        self.forgot
    }

    /// Remembers a secret and what stands for it. Nothing that is too short to be told from other words.
    pub(super) fn add(&mut self, secret: &str, by: &str, sort: Sort) {
        if secret.len() < SHORTEST || self.by.contains_key(secret) {
            return;
        }
        if self.by.len() >= MOST || self.bytes >= MOST_BYTES {
            *self = Self { learnt: self.learnt, forgot: self.forgot + 1, ..Self::default() };
        }
        self.learnt += 1;
        let by: Arc<str> = by.into();
        self.by.insert(secret.into(), by.clone());
        let forms = forms(secret, sort);
        self.bytes += secret.len() + forms.iter().map(String::len).sum::<usize>() + 64 * forms.len();
        for text in forms {
            let telling = match sort {
                Sort::Word => TELLING.min(text.len()),
                Sort::Data => TELLING_DATA.min(text.len()),
                Sort::Half => text.len(),
            };
            self.finder.add(Form { text: text.into(), telling, by: by.clone() });
        }
    }

    /// Whether one of them stands in `text`.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.finder.find(text, 0).is_some()
    }

    /// The text without them; `None` if there is none in it.
    pub(super) fn replace(&self, text: &str) -> Option<String> {
        let mut out: Option<String> = None;
        let mut at = 0;
        while let Some((from, many, by)) = self.finder.find(text, at) {
            let out = out.get_or_insert_default();
            out.push_str(&text[at..from]);
            out.push_str(by);
            at = from + many;
        }
        let mut out = out?;
        out.push_str(&text[at..]);
        Some(out)
    }
}

/// How a secret may be written.
fn forms(secret: &str, sort: Sort) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    let mut also = |form: String| {
        if form.len() >= SHORTEST && !forms.contains(&form) {
            forms.push(form);
        }
    };
    let escaped = Value::String(secret.to_owned()).to_string();
    also(escaped[1..escaped.len() - 1].to_owned());
    if sort == Sort::Half {
        return forms;
    }
    for (space, upper) in [("%20", true), ("%20", false), ("+", true), ("+", false)] {
        also(percent(secret, space, upper));
    }
    if secret.len() >= SHORTEST_ENCODED {
        also(hex(secret));
        for before in 0..3 {
            let padded = [&b"\0\0"[..before], secret.as_bytes()].concat();
            // The ends differ with what stands next to it.
            let from = [0, 2, 3][before];
            let until = |encoded: &str| if padded.len().is_multiple_of(3) { encoded.len() } else { encoded.len() - 1 };
            for encoded in [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)] {
                also(encoded[from..until(&encoded)].to_owned());
            }
        }
    }
    forms
}

/// A text in hexadecimal digits.
pub(super) fn hex(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len() * 2), |mut out, byte| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// A text as it is written in URLs.
pub(super) fn percent(text: &str, space: &str, upper: bool) -> String {
    let mut out = String::with_capacity(text.len() * 3 / 2);
    for byte in text.bytes() {
        match byte {
            b' ' => out.push_str(space),
            b'-' | b'_' | b'.' | b'~' => out.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => out.push(byte.into()),
            _ => {
                // Writing to a String cannot fail.
                let _ = if upper { write!(out, "%{byte:02X}") } else { write!(out, "%{byte:02x}") };
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    fn known(secrets: &[&str]) -> Known {
        let mut known = Known::default();
        for secret in secrets {
            known.add(secret, "X", Sort::Word);
        }
        known
    }

    /// Proves: R-2
    #[test]
    fn the_longest_is_replaced_and_one_that_is_only_begun_as_far_as_it_is_there() {
        let long = "0123456789abcdefghijklmnopqrstuvwxyz";
        let known = known(&["abcdef", "abcdefghijk", "fghijk-lmnop", long]);
        for (text, without) in [
            ("an abcdef, an abcdefghijk and an abcdefg", "an X, an X and an Xg"),
            ("0123456789abcdefghijklmno… is too long", "X… is too long"),
            ("0123456789 is a number", "0123456789 is a number"),
            ("abcdé", "abcdé"),
        ] {
            assert_eq!(known.replace(text).unwrap_or_else(|| text.to_owned()), without);
        }
    }

    /// Proves: R-2
    #[test]
    fn a_secret_is_found_at_every_place_of_a_text() {
        let known = known(&["abcdef", "éa\u{1f511}bc"]);
        for before in 0..9 {
            for (secret, after) in [("abcdef", ""), ("éa\u{1f511}bc", "é"), ("abcdef", "abcdef")] {
                let text = format!("{}{secret}{after}", "abcé".chars().cycle().take(before).collect::<String>());
                let expected = text.replace(secret, "X");
                assert_eq!(known.replace(&text), Some(expected), "{text}");
            }
        }
    }

    /// Proves: R-2
    #[test]
    fn a_secret_is_found_however_it_is_written() {
        let secret = "pass word?/é\"~1";
        let known = known(&[secret]);
        let escaped = serde_json::to_string(secret).unwrap();
        let texts = ["a", "ab", "abc"].map(|before| STANDARD.encode(format!("{before}{secret}more")));
        for text in texts.into_iter().chain([escaped, percent(secret, "%20", true), percent(secret, "+", false)]) {
            let without = known.replace(&text).unwrap();
            assert!(known.is_in(&text) && !known.is_in(&without), "{text} {without}");
        }
    }

    #[test]
    fn many_are_known_and_too_many_are_forgotten_together() {
        let mut known = Known::default();
        for number in 0..200 {
            known.add(&format!("{number:03}-secret"), "X", Sort::Word);
        }
        assert_eq!(known.replace("000-secret 031-secret 199-secret").as_deref(), Some("X X X"));
        let (large, learnt) = ("x".repeat(1 << 20), known.learnt());
        for number in 0..20 {
            known.add(&format!("{number:03}{large}"), "X", Sort::Data);
        }
        assert!(known.forgot() > 0 && known.learnt() == learnt + 20);
        assert!(!known.is_in("000-secret"));
    }
}
