//! The secrets that are known, how each may be written, and which of them are searched for where.
//!
//! Invariants
//! - A secret is found as it is, as it is written inside JSON, in URLs, in hexadecimal digits, and anywhere within base64, whatever
//!   stands before it there.
//! - Of secrets that begin at one place the longest is replaced; of one that is only begun, since services shorten what they
//!   quote, as much as is there, if it is enough to know it by.
//! - What a cloud or Kubernetes calls a secret is one for all calls that follow. What only a tenant's text makes look like one is so
//!   for the call that has met it, and is told anew by each that meets it: nobody can wreck others' recordings by what he writes.
//! - Nothing is forgotten during a call. When there is too much at its beginning, all is. What one call alone teaches is bounded as
//!   well; beyond that it is not learnt, and [`Known::is_full`] says that nothing of the call can be trusted to be clean.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

pub use super::finder::SHORTEST;
use super::finder::{Counts, Finder, Form, Found, Tail};

/// A shorter secret is not searched for inside base64.
const SHORTEST_ENCODED: usize = 8;
/// Of a longer secret this much is enough to know it by.
const TELLING: usize = 24;
/// Of user data, whose beginnings are much alike, this much.
const TELLING_DATA: usize = 64;
/// Of a longer secret only the beginning is kept as it would be written elsewhere, in bytes; what follows there goes with it.
const LONG: usize = 128;
/// With more secrets than this no call begins.
const MOST: usize = 8192;
/// Nor with more memory taken by them than this, in bytes, about.
const MOST_BYTES: usize = 8 << 20;
/// No call makes more known than this many times as much.
const IN_CALL: usize = 6;

/// What a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// A password, a token.
    Word,
    /// User data.
    Data,
    /// A line of it: of these there are many, so each is known as it is quoted, in a text or in JSON, and no other way.
    Line,
    /// The public half of a key: no secret, and replaced by that of the key that stands in for the private one.
    Half,
}

/// Who says that something is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// A tenant's text makes it look like one.
    Told,
    /// A cloud, or Kubernetes.
    Sure,
}

/// Which secrets are searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    All,
    /// Those of which it is sure.
    Sure,
}

/// No call has this number.
const NEVER: u64 = u64::MAX;

struct Entry {
    by: Arc<str>,
    trust: Trust,
    /// The last call that has met it.
    told: u64,
    /// The last call in which it was the name of something.
    published: u64,
    /// What is met whenever this is: the secrets that it holds.
    with: Option<Arc<[u32]>>,
}

/// The secrets that are known.
#[derive(Default)]
pub(super) struct Known {
    index: HashMap<Box<str>, u32>,
    entries: Vec<Entry>,
    finder: Finder,
    bytes: usize,
    learnt: u64,
    forgot: u64,
    call: u64,
    /// Of this call.
    told: usize,
    published: usize,
    full: bool,
}

impl Known {
    /// Another call begins.
    pub(super) fn begin(&mut self) {
        let call = self.call + 1;
        if self.full || self.entries.len() >= MOST || self.bytes >= MOST_BYTES {
            *self = Self { learnt: self.learnt, forgot: self.forgot + 1, ..Self::default() };
        }
        (self.call, self.told, self.published) = (call, 0, 0);
    }

    /// Whether there was more to learn in this call than can be known at a time.
    pub(super) const fn is_full(&self) -> bool {
        self.full
    }

    /// What stands for a secret, if it is known.
    pub(super) fn get(&self, secret: &str) -> Option<&str> {
        self.entry(*self.index.get(secret)?).map(|entry| &*entry.by)
    }

    /// Whether this is what stands for one.
    pub(super) fn stands_for_one(&self, text: &str) -> bool {
        self.entries.iter().any(|entry| *entry.by == *text)
    }

    /// Grows with each secret that is learnt for all calls that follow.
    pub(super) const fn learnt(&self) -> u64 {
        self.learnt
    }

    /// Grows each time that all are forgotten.
    pub(super) const fn forgot(&self) -> u64 {
        self.forgot
    }

    /// How many this call was told by tenants' texts.
    pub(super) const fn told(&self) -> usize {
        self.told
    }

    /// How many of these are not searched for.
    pub(super) const fn published(&self) -> usize {
        self.published
    }

    fn entry(&self, index: u32) -> Option<&Entry> {
        self.entries.get(usize::try_from(index).ok()?)
    }

    /// What is met whenever that one is.
    pub(super) fn with(&self, index: u32) -> Option<Arc<[u32]>> {
        self.entry(index)?.with.clone()
    }

    /// From now on these are met whenever that one is.
    pub(super) fn tie(&mut self, secret: &str, with: &[u32]) {
        let entry = self.index.get(secret).and_then(|index| self.entries.get_mut(usize::try_from(*index).ok()?));
        if let Some(entry) = entry {
            entry.with = Some(with.into());
        }
    }

    /// A secret is met that may be known already.
    pub(super) fn again(&mut self, secret: &str, trust: Trust) -> Option<u32> {
        let index = *self.index.get(secret)?;
        self.meet(index, trust);
        for with in self.with(index).iter().flat_map(|with| with.iter()) {
            self.meet(*with, trust);
        }
        Some(index)
    }

    /// What a body has told that is met again.
    pub(super) fn recall(&mut self, told: &[u32]) {
        for index in told {
            self.meet(*index, Trust::Told);
        }
    }

    fn meet(&mut self, index: u32, trust: Trust) {
        let Some(entry) = usize::try_from(index).ok().and_then(|index| self.entries.get_mut(index)) else { return };
        match (entry.trust, trust) {
            (Trust::Sure, _) => {}
            (Trust::Told, Trust::Sure) => {
                entry.trust = Trust::Sure;
                self.learnt += 1;
                self.told -= usize::from(entry.told == self.call);
            }
            (Trust::Told, Trust::Told) => {
                self.told += usize::from(entry.told != self.call);
                entry.told = self.call;
            }
        }
    }

    /// Remembers a secret and what stands for it. Nothing that is too short to be told from other words.
    pub(super) fn add(&mut self, secret: &str, by: &str, sort: Sort, trust: Trust) -> Option<u32> {
        if secret.len() < SHORTEST {
            return None;
        }
        if let Some(index) = self.again(secret, trust) {
            return Some(index);
        }
        let room = self.entries.len() < IN_CALL * MOST && self.bytes < IN_CALL * MOST_BYTES;
        let Some(index) = u32::try_from(self.entries.len()).ok().filter(|_| room) else {
            self.full = true;
            return None;
        };
        let told = if trust == Trust::Told { self.call } else { NEVER };
        self.entries.push(Entry { by: by.into(), trust, told, published: NEVER, with: None });
        self.index.insert(secret.into(), index);
        match trust {
            Trust::Told => self.told += 1,
            Trust::Sure => self.learnt += 1,
        }
        let forms = forms(secret, sort);
        self.bytes += secret.len() + forms.iter().map(|(text, _)| text.len() + 64).sum::<usize>();
        for (text, tail) in forms {
            let telling = match sort {
                Sort::Word | Sort::Line => TELLING.min(text.len()),
                Sort::Data => TELLING_DATA.min(text.len()),
                Sort::Half => text.len(),
            };
            self.finder.add(Form { text: text.into(), telling, tail, of: index });
        }
        Some(index)
    }

    fn find(&self, text: &str, from: usize, which: Which) -> Option<Found> {
        self.finder.find(text, from, |of| {
            let entry = self.entry(of)?;
            let is_told = || which == Which::All && entry.told == self.call && entry.published != self.call;
            match entry.trust {
                Trust::Sure => Some(Counts::Always),
                Trust::Told => is_told().then_some(Counts::IfCutOff),
            }
        })
    }

    /// Whether one of them stands in `text`.
    pub(super) fn is_in(&self, text: &str, which: Which) -> bool {
        self.find(text, 0, which).is_some()
    }

    /// The text without them; `None` if there is none in it.
    pub(super) fn replace(&self, text: &str, which: Which) -> Option<String> {
        let mut out: Option<String> = None;
        let mut at = 0;
        while let Some(found) = self.find(text, at, which) {
            let out = out.get_or_insert_default();
            out.push_str(&text[at..found.at]);
            out.push_str(self.entry(found.of).map_or("", |entry| &entry.by));
            at = found.at + found.many;
        }
        let mut out = out?;
        out.push_str(&text[at..]);
        Some(out)
    }

    /// Takes `text` for the name of something, which everybody goes by. What stands in it by itself and is a secret to a tenant's text
    /// only is not searched for in this call.
    pub(super) fn publish(&mut self, text: &str) {
        let mut at = 0;
        while let Some(found) = self.find(text, at, Which::All) {
            let place = found.at..found.at + found.many;
            at = place.end;
            let alone = stands_alone(text, place.start) && stands_alone(text, place.end);
            // As it is and as a whole.
            if !alone || self.index.get(&text[place.clone()]) != Some(&found.of) {
                continue;
            }
            let entry = usize::try_from(found.of).ok().and_then(|of| self.entries.get_mut(of));
            if let Some(entry) = entry.filter(|entry| entry.trust == Trust::Told) {
                entry.published = self.call;
                self.published += 1;
                // Another may be a part of it.
                at = place.start;
            }
        }
    }
}

/// Whether a word ends or begins at this place.
fn stands_alone(text: &str, at: usize) -> bool {
    let before = text[..at].chars().next_back().is_some_and(char::is_alphanumeric);
    !before || !text[at..].chars().next().is_some_and(char::is_alphanumeric)
}

/// How a secret may be written.
fn forms(secret: &str, sort: Sort) -> Vec<(String, Tail)> {
    let mut forms = vec![(secret.to_owned(), Tail::Nothing)];
    let mut also = |form: String, tail: Tail| {
        if form.len() >= SHORTEST && !forms.iter().any(|(other, _)| *other == form) {
            forms.push((form, tail));
        }
    };
    let escaped = Value::String(secret.to_owned()).to_string();
    also(escaped[1..escaped.len() - 1].to_owned(), Tail::Nothing);
    if matches!(sort, Sort::Half | Sort::Line) {
        return forms;
    }
    if !secret.is_ascii() {
        also(ascii(&escaped[1..escaped.len() - 1], false), Tail::Nothing);
        also(ascii(secret, true), Tail::Nothing);
    }
    let begin = &secret[..(0..=LONG.min(secret.len())).rev().find(|at| secret.is_char_boundary(*at)).unwrap_or(0)];
    let tail = |tail| if begin.len() < secret.len() { tail } else { Tail::Nothing };
    for (space, upper) in [("%20", true), ("%20", false), ("+", true), ("+", false)] {
        also(percent(begin, space, upper), tail(Tail::Percent));
    }
    if secret.len() >= SHORTEST_ENCODED {
        let hex = hex(begin);
        also(hex.to_ascii_uppercase(), tail(Tail::Hex));
        also(hex, tail(Tail::Hex));
        for before in 0..3 {
            let padded = [&b"\0\0"[..before], begin.as_bytes()].concat();
            // The ends differ with what stands next to it.
            let from = [0, 2, 3][before];
            let until = |encoded: &str| if padded.len().is_multiple_of(3) { encoded.len() } else { encoded.len() - 1 };
            for encoded in [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)] {
                also(encoded[from..until(&encoded)].to_owned(), tail(Tail::Base64));
            }
        }
    }
    forms
}

/// A text as Python writes it that keeps to ASCII: as JSON, or as a literal of its own.
fn ascii(text: &str, literal: bool) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        // Writing to a String cannot fail.
        let _ = match (c, u32::from(c)) {
            (c, 0..=0x7f) => write!(out, "{c}"),
            (_, code @ ..=0xff) if literal => write!(out, "\\x{code:02x}"),
            (_, code @ 0x1_0000..) if literal => write!(out, "\\U{code:08x}"),
            (c, _) => c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}")),
        };
    }
    out
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
            known.add(secret, "X", Sort::Word, Trust::Sure);
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
            assert_eq!(known.replace(text, Which::Sure).unwrap_or_else(|| text.to_owned()), without);
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
                assert_eq!(known.replace(&text, Which::Sure), Some(expected), "{text}");
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
        let python = [r#"pass word?/\u00e9\"~1"#, r#"pass word?/\xe9"~1"#].map(str::to_owned);
        let hex = [hex(secret), hex(secret).to_ascii_uppercase()];
        let urls = [percent(secret, "%20", true), percent(secret, "+", false)];
        for text in texts.into_iter().chain([escaped]).chain(python).chain(hex).chain(urls) {
            let without = known.replace(&text, Which::Sure).unwrap();
            let is_in = |text: &str| known.is_in(text, Which::Sure);
            assert!(is_in(&text) && !is_in(&without), "{text} {without}");
        }
    }

    /// Proves: R-2
    #[test]
    fn what_is_long_goes_to_its_end_however_it_is_written_and_takes_little_more_room_than_itself() {
        let secret = "a line of it?\n".repeat(400);
        let mut known = Known::default();
        known.add(&secret, "X", Sort::Data, Trust::Sure);
        assert!(known.bytes < secret.len() * 3 + 8192, "{} bytes for {}", known.bytes, secret.len());
        let escaped = serde_json::to_string(&secret).unwrap();
        let texts = [secret.clone(), escaped, STANDARD.encode(&secret), hex(&secret), percent(&secret, "%20", true)];
        for text in texts {
            let left = known.replace(&format!("see <{text}> there"), Which::Sure).unwrap();
            assert!(left.starts_with("see <") && left.ends_with("> there") && left.len() < 24, "{left}");
        }
    }

    /// Proves: R-2
    #[test]
    fn nothing_is_forgotten_during_a_call_and_too_much_before_the_next_one() {
        let mut known = known(&["000-secret", "199-secret"]);
        let large = "x".repeat(1 << 20);
        for number in 0..20 {
            known.add(&format!("{number:03}{large}"), "X", Sort::Data, Trust::Told);
        }
        assert!(!known.is_full() && known.forgot() == 0);
        assert_eq!(known.replace("000-secret 199-secret", Which::All).as_deref(), Some("X X"));
        known.begin();
        assert!(known.forgot() == 1 && !known.is_in("000-secret", Which::All));
        for number in 0..200 {
            known.add(&format!("{number:03}{large}"), "X", Sort::Data, Trust::Told);
        }
        assert!(known.is_full() && known.bytes < (IN_CALL + 1) * MOST_BYTES);
        known.begin();
        assert!(!known.is_full());
    }

    /// Proves: R-2, R-3
    #[test]
    fn what_tenants_tell_counts_in_the_calls_that_meet_it_and_where_it_is_no_name() {
        let mut known = Known::default();
        known.add("hunter-2", "X", Sort::Word, Trust::Told);
        known.add("whole-hunter-2", "Y", Sort::Data, Trust::Told);
        let with = known.again("hunter-2", Trust::Told).unwrap();
        known.tie("whole-hunter-2", &[with]);
        let left = |known: &Known, which| known.replace("is hunter-2", which);
        assert_eq!((left(&known, Which::All).as_deref(), left(&known, Which::Sure)), (Some("is X"), None));
        known.begin();
        assert_eq!((left(&known, Which::All), known.told()), (None, 0), "another call has not met it");
        known.again("whole-hunter-2", Trust::Told);
        assert_eq!((left(&known, Which::All).as_deref(), known.told()), (Some("is X"), 2), "with all that it holds");
        known.publish("a name with hunter-23 in it");
        assert_eq!(known.published(), 0, "a part of a word is none");
        known.publish("name-hunter-2.example");
        assert_eq!((left(&known, Which::All), known.published()), (None, 1));
        known.begin();
        known.recall(&[with]);
        assert_eq!(left(&known, Which::All).as_deref(), Some("is X"), "what was a name in one call is none in another");
        let id = "b0000000-0000-4000-8000-00000000000a";
        known.add(id, "Z", Sort::Word, Trust::Told);
        let (begun, other) = (&id[..30], format!("{}b", &id[..35]));
        assert_eq!(known.replace(&format!("{begun}… {other}"), Which::All), Some(format!("Z… {other}")));
        known.again("hunter-2", Trust::Sure);
        known.publish("hunter-2");
        known.begin();
        assert_eq!(left(&known, Which::Sure).as_deref(), Some("is X"), "once it is sure, it stays");
    }
}
