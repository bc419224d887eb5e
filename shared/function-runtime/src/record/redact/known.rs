//! The secrets that are known, and all of them found in one pass over a text.
//!
//! Invariants
//! - A secret is found as it is, as it is written inside JSON, in URLs, and anywhere within base64, whatever stands before it there.
//! - Of secrets that begin at one place the longest is replaced; of one that is only begun, since services shorten what they
//!   quote, as much as is there, if it is enough to know it by.
//! - Bounded: when there are too many, all are forgotten, and learnt anew as they are met.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt::Write;

use aho_corasick::{AhoCorasick, MatchKind};
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
/// So many new ones are searched for by themselves, before all are brought together.
const NEW: usize = 32;

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
    by: Box<str>,
}

/// Forms, by how they begin.
#[derive(Default)]
struct Finder {
    forms: HashMap<[u8; SHORTEST], Vec<Form>>,
    /// Made when it is needed: secrets are learnt several at a time.
    beginnings: OnceCell<Option<AhoCorasick>>,
    secrets: usize,
}

impl Finder {
    fn add(&mut self, form: Form) {
        let Some(beginning) = beginning(form.text.as_bytes()) else { return };
        self.beginnings.take();
        let alike = self.forms.entry(beginning).or_default();
        if !alike.iter().any(|other| other.text == form.text) {
            alike.push(form);
            alike.sort_by_key(|form| std::cmp::Reverse(form.text.len()));
        }
    }

    fn beginnings(&self) -> Option<&AhoCorasick> {
        if self.forms.is_empty() {
            return None;
        }
        // There is nothing in short texts of plain bytes that it could refuse.
        let build = || AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(self.forms.keys()).ok();
        self.beginnings.get_or_init(build).as_ref()
    }

    fn join(&mut self, other: &mut Self) {
        for form in other.forms.drain().flat_map(|(_, forms)| forms) {
            self.add(form);
        }
        self.secrets += std::mem::take(&mut other.secrets);
        other.beginnings.take();
    }

    /// The first form in `text` from some place on: where it is, how much of it there is, what it becomes.
    fn find(&self, text: &str, mut from: usize) -> Option<(usize, usize, &str)> {
        let beginnings = self.beginnings()?;
        while let Some(found) = text.get(from..).and_then(|rest| beginnings.find(rest)) {
            let at = from + found.start();
            let rest = &text.as_bytes()[at..];
            let forms = beginning(rest).and_then(|beginning| self.forms.get(&beginning));
            let same =
                |form: &Form| rest.iter().zip(form.text.as_bytes()).take_while(|(one, other)| one == other).count();
            let best =
                forms.into_iter().flatten().map(|form| (same(form), form)).filter(|(same, form)| *same >= form.telling);
            if let Some((mut many, form)) = best.max_by_key(|(same, _)| *same) {
                while !text.is_char_boundary(at + many) {
                    many -= 1;
                }
                return Some((at, many, &form.by));
            }
            from = at + 1;
            while !text.is_char_boundary(from) {
                from += 1;
            }
        }
        None
    }
}

fn beginning(text: &[u8]) -> Option<[u8; SHORTEST]> {
    text.first_chunk().copied()
}

/// The secrets that are known.
#[derive(Default)]
pub(super) struct Known {
    by: HashMap<Box<str>, Box<str>>,
    old: Finder,
    new: Finder,
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
        self.by.insert(secret.into(), by.into());
        let forms = forms(secret, sort);
        self.bytes += secret.len() + forms.iter().map(String::len).sum::<usize>() + 64 * forms.len();
        for text in forms {
            let telling = match sort {
                Sort::Word => TELLING.min(text.len()),
                Sort::Data => TELLING_DATA.min(text.len()),
                Sort::Half => text.len(),
            };
            self.new.add(Form { text: text.into(), telling, by: by.into() });
        }
        self.new.secrets += 1;
        if self.new.secrets >= NEW {
            self.old.join(&mut self.new);
        }
    }

    /// Whether one of them stands in `text`.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.new.find(text, 0).is_some() || self.old.find(text, 0).is_some()
    }

    /// The text without them; `None` if there is none in it.
    pub(super) fn replace(&self, text: &str) -> Option<String> {
        let mut out: Option<String> = None;
        let mut at = 0;
        loop {
            let (new, old) = (self.new.find(text, at), self.old.find(text, at));
            // The one that begins first, and of two the longer.
            let Some((from, many, by)) =
                new.into_iter().chain(old).min_by_key(|(from, many, _)| (*from, std::cmp::Reverse(*many)))
            else {
                break;
            };
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
