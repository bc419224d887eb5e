//! Secrets that are known by how they look, whatever stands around them: tokens of well-known makers, and private keys of other forms
//! than PEM.

use std::ops::Range;

/// How a token begins, and how many letters follow at least.
const PREFIXES: [(&str, usize); 15] = [
    // GitHub, GitLab, Slack.
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxe-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    // Fernet, which is what Keystone's are; age.
    ("gAAAAA", 30),
    ("AGE-SECRET-KEY-1", 30),
];
/// The same, two letters of each, for a quick look: see [`super::values`].
pub(super) const PAIRS: [&[u8; 2]; 8] = [b"gh", b"b_", b"gl", b"xo", b"gA", b"AG", b"IA", b"yJ"];
/// A shorter text has no token, in bytes.
pub(super) const SHORTEST: usize = 14;
/// Nor a shorter one a private key.
pub(super) const SHORTEST_BLOCK: usize = 38;
/// How many letters an access key of AWS has behind its first four, and a secret one in all.
const AWS: (usize, usize) = (16, 40);
/// So far behind an access key the secret one is looked for, in bytes.
const NEAR: usize = 120;

/// Private keys that are no PEM, as most know it: behind what they begin, before what they end.
const BLOCKS: [(&str, &str); 2] =
    [("BEGIN PGP PRIVATE KEY BLOCK-----", "-----END PGP"), ("Private-Lines:", "Private-MAC:")];

/// Adds the places of the tokens.
pub(super) fn tokens(text: &str, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !is_letter(bytes[at]) {
            at += 1;
            continue;
        }
        // What is glued to a name or a path begins behind the sign: see `is_letter`.
        let end = bytes[at..].iter().position(|b| !is_letter(*b)).map_or(bytes.len(), |many| at + many);
        at = match token(text, at, end) {
            Some(token) => {
                found.push(token.clone());
                if bytes[token.start..].starts_with(b"A") {
                    found.extend(secret_key(text, token.end));
                }
                token.end
            }
            None => end,
        };
    }
}

/// Adds the places of private keys.
pub(super) fn blocks(text: &str, found: &mut Vec<Range<usize>>) {
    for (begin, end) in BLOCKS {
        let mut from = 0;
        while let Some(at) = text[from..].find(begin) {
            let open = from + at + begin.len();
            from = text[open..].find(end).map_or(text.len(), |at| open + at);
            let inner = text[open..from].trim();
            let start = open + (text[open..from].len() - text[open..from].trim_start().len());
            if !inner.is_empty() {
                found.push(start..start + inner.len());
            }
        }
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The token that a word is, or that is glued on at its end.
fn token(text: &str, from: usize, end: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let glued = (from + 1..end).filter(|at| matches!(bytes[at - 1], b'_' | b'-'));
    std::iter::once(from).chain(glued).find_map(|at| {
        let rest = &text[at..end];
        // Most words are told by their first letter.
        if !matches!(bytes[at], b'g' | b'x' | b'A' | b'e') || rest.len() < 5 {
            return None;
        }
        if PREFIXES.iter().any(|(begin, many)| rest.len() >= begin.len() + many && rest.starts_with(begin)) {
            let padding = bytes[end..].iter().take_while(|b| **b == b'=').count().min(2);
            return Some(at..end + padding);
        }
        if rest.starts_with("AKIA") || rest.starts_with("ASIA") {
            let is_it = rest.len() == 4 + AWS.0 && rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
            return is_it.then_some(at..end);
        }
        // A web token: three parts or five, the first of which is an object of JSON, and so mostly the second.
        if rest.starts_with("eyJ") && rest.len() >= 10 && bytes.get(end) == Some(&b'.') {
            let whole =
                bytes[at..].iter().position(|b| !is_letter(*b) && *b != b'.').map_or(text.len(), |many| at + many);
            let parts: Vec<&str> = text[at..whole].trim_end_matches('.').split('.').collect();
            let is_it = (3..=5).contains(&parts.len()) && parts[1..].iter().map(|part| part.len()).sum::<usize>() >= 10;
            return is_it.then(|| at..at + parts.iter().map(|part| part.len() + 1).sum::<usize>() - 1);
        }
        None
    })
}

/// The secret access key that stands behind an access key.
fn secret_key(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'+');
    let until = bytes.len().min(from + NEAR);
    let mut at = from;
    while at < until {
        let end = bytes[at..].iter().position(|b| !is_letter(*b)).map_or(bytes.len(), |many| at + many);
        if end - at == AWS.1 {
            return Some(at..end);
        }
        at = end + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str) -> String {
        let mut found = Vec::new();
        tokens(text, &mut found);
        blocks(text, &mut found);
        found.sort_unstable_by_key(|at| at.start);
        let mut out = text.to_owned();
        for value in found.into_iter().rev() {
            out.replace_range(value, "*");
        }
        out
    }

    /// Proves: OSC-13, R-2
    #[test]
    fn tokens_of_well_known_makers_are_known_by_their_looks() {
        let x = "x1Y".repeat(20);
        for begin in PREFIXES.map(|(begin, _)| begin) {
            let token = format!("{begin}{x}");
            assert!(token.as_bytes().windows(2).any(|pair| PAIRS.iter().any(|known| *known == pair)), "{begin}");
            for (before, after) in
                [("", ""), ("is ", " gone"), ("https://", "@host"), ("a=", ","), ("v-", "\n"), ("é", "é")]
            {
                assert_eq!(without(&format!("{before}{token}{after}")), format!("{before}*{after}"));
            }
        }
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefg_hijk-lmn";
        let aws = "wJalrXUtnFEMIxK7MDENGxbPxRfiCYEXAMPLEKEY";
        for (text, expected) in [
            (format!("of {jwt}."), "of *.".to_owned()),
            (format!("\"{jwt}\""), "\"*\"".to_owned()),
            ("AKIAIOSFODNN7EXAMPLE".to_owned(), "*".to_owned()),
            (format!("ASIAIOSFODNN7EXAMPLE and {aws}"), "* and *".to_owned()),
            ("gAAAAAB1x_-yZ012345678901234567890123456==, x".to_owned(), "*, x".to_owned()),
            (
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nabc\n=x\n-----END PGP PRIVATE KEY BLOCK-----".to_owned(),
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n*\n-----END PGP PRIVATE KEY BLOCK-----".to_owned(),
            ),
            (
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc".to_owned(),
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\n*".to_owned(),
            ),
            (
                "PuTTY-User-Key-File-3: ssh-ed25519\nPublic-Lines: 1\nAAAA\nPrivate-Lines: 1\nAbc\nPrivate-MAC: 0"
                    .to_owned(),
                "PuTTY-User-Key-File-3: ssh-ed25519\nPublic-Lines: 1\nAAAA\nPrivate-Lines: *\nPrivate-MAC: 0"
                    .to_owned(),
            ),
        ] {
            assert_eq!(without(&text), expected);
        }
    }

    /// Proves: R-3
    #[test]
    fn names_and_ids_are_no_tokens() {
        for text in [
            "ghp_short",
            "github_pat_",
            "eyJhbGciOiJIUzI1NiJ9",
            "eyJhbGciOiJIUzI1NiJ9.txt",
            "AKIA",
            "AKIAiosfodnn7example",
            "highest-gl-region_one",
            "b0000000-0000-4000-8000-00000000000a",
            "the ASIA-PACIFIC region",
            "gAAAAAB kind",
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\nabc",
            "xoxo-xoxo-xoxo",
            "xoxb-",
        ] {
            assert_eq!(without(text), text);
        }
    }
}
