//! Values that are secrets by the words before them, with no sign between: `Authorization: Bearer x`, `--token x`, `curl -u me:x`,
//! `token x is expired`, `the password is x`, `Password for me: x`, the `password x` of a netrc.
//!
//! Intention: `the password is required` and `token expired` stay as they are, or nobody could read an error any more. So a word is
//! taken only if it is none of a language: see [`is_credible`].

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::names::{Field, field};
use super::values::{SHORTEST, close};

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);

/// Names that say it in a sentence, at the end of a word. Any `secret` there is the name of one: `secret "x" not found`.
const NAMES: [&str; 6] = ["password", "passwd", "passphrase", "passcode", "token", "pwd"];

/// Two letters of each of these, of `Bearer` and `Basic`, and before each flag, large or small, for a quick look: see [`super::values`].
pub(super) const PAIRS: [&[u8; 2]; 13] =
    [b"ss", b"wd", b"ok", b"be", b"c ", b"c\n", b"c\t", b" -", b"\n-", b"\t-", b"\"-", b"'-", b"(-"];

/// What people write about an option, rather than behind it.
const ABOUT: [&str; 30] = [
    "a",
    "and",
    "are",
    "argument",
    "arguments",
    "be",
    "but",
    "can",
    "cannot",
    "flag",
    "for",
    "has",
    "if",
    "in",
    "is",
    "may",
    "must",
    "not",
    "of",
    "option",
    "or",
    "parameter",
    "required",
    "requires",
    "the",
    "to",
    "was",
    "when",
    "with",
    "without",
];

/// Words with digits that say how something is written.
const MANNERS: [&str; 18] = [
    "2fa", "aes", "base64", "bcrypt", "ed25519", "es256", "http", "hs256", "ipv", "md5", "oauth", "p256", "rfc",
    "rs256", "rsa", "sha", "utf", "x509",
];

/// What the words so far make of the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Anything,
    /// Behind `Bearer`.
    Bearer,
    /// Behind `Basic`.
    Basic,
    /// Behind `--password` and the like.
    Argument,
    /// Behind `-u`: a name and a password.
    User,
    /// Behind a name that says it; in a netrc perhaps.
    Named(Kind),
    /// Behind a name and `is`.
    Linked(Kind),
    /// Behind a name and `for`: whose it is.
    Whose(Kind),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Password,
    Token,
    /// A password of a netrc, which may look like any word.
    Netrc,
}

/// Adds the places of the values, in order.
pub(super) fn sentences(text: &str, found: &mut Vec<Range<usize>>) {
    let mut next = 0;
    let mut expected = Next::Anything;
    let mut machine = false;
    while let Some(at) = word(text, next) {
        next = at.end;
        let said = &text[at.clone()];
        if let Some(value) = value(text, &at, expected) {
            // A quoted one may have several words.
            next = value.end.max(at.end);
            found.push(value);
            expected = Next::Anything;
            continue;
        }
        machine |= matches!(said, "machine" | "default");
        expected = after(said, expected, machine);
    }
}

/// The word that begins at `from` or later.
fn word(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let at = from + bytes[from..].iter().position(|b| !b.is_ascii_whitespace())?;
    let end = bytes[at..].iter().position(u8::is_ascii_whitespace).map_or(bytes.len(), |many| at + many);
    Some(at..end)
}

fn after(said: &str, before: Next, machine: bool) -> Next {
    let quote = |c: char| matches!(c, '"' | '\'' | '`' | '\\' | '(' | '[' | '{' | ',');
    let bare = said.trim_start_matches(quote);
    if bare.starts_with('-') {
        let flag = bare.trim_end_matches(quote);
        return match flag {
            "-u" | "-U" | "--user" | "--proxy-user" => Next::User,
            _ if !flag.contains(['=', ':']) && field(flag) == Field::Secret => Next::Argument,
            _ => Next::Anything,
        };
    }
    match before {
        Next::Named(kind) if matches!(said, "is" | "was") => return Next::Linked(kind),
        Next::Named(kind) if said == "for" => return Next::Whose(kind),
        Next::Whose(kind) if said.ends_with(':') => return Next::Linked(kind),
        _ => {}
    }
    let bare = bare.trim_end_matches(['"', '\'', '`', '\\']);
    // The last letters of all that is asked for below, so that most words are told by one comparison.
    let Some(b'r' | b'c' | b'd' | b'e' | b'n' | b'R' | b'C' | b'D' | b'E' | b'N') = bare.as_bytes().last() else {
        return Next::Anything;
    };
    if bare.eq_ignore_ascii_case("bearer") {
        return Next::Bearer;
    }
    if bare.eq_ignore_ascii_case("basic") {
        return Next::Basic;
    }
    let ends = |name: &&str| {
        let from = bare.len().checked_sub(name.len());
        from.and_then(|from| bare.get(from..)).is_some_and(|end| end.eq_ignore_ascii_case(name))
    };
    let is_name = || bare.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    match NAMES.iter().find(|name| ends(name)) {
        Some(_) if !is_name() || field(bare) != Field::Secret => Next::Anything,
        Some(&"token") => Next::Named(Kind::Token),
        Some(_) if machine && said == "password" => Next::Named(Kind::Netrc),
        Some(_) => Next::Named(Kind::Password),
        None => Next::Anything,
    }
}

/// The place of the secret that the word at `at`, or the quoted text that begins there, is.
fn value(text: &str, at: &Range<usize>, expected: Next) -> Option<Range<usize>> {
    if expected == Next::Anything {
        return None;
    }
    let (place, quoted) = match quoted(text, at.start) {
        Some(place) => (place, true),
        None => (bare(text, at), false),
    };
    let said = &text[place.clone()];
    let is_it = match expected {
        Next::Anything | Next::Whose(_) => false,
        Next::Bearer => is_credible(said),
        Next::Basic => BASE64.decode(said).is_ok_and(|pair| pair.contains(&b':') && pair.is_ascii()),
        Next::Argument => {
            quoted || !said.starts_with(['-', '/', '<', '~']) && !is_reference(said) && !ABOUT.contains(&said)
        }
        Next::User => {
            let (user, password) = said.split_once(':')?;
            let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
            let from = place.start + user.len() + 1;
            // `-u 1000:1000` is the user of a container.
            let is_it = !is_number(user) && !password.starts_with("//") && !is_reference(password) && from < place.end;
            return is_it.then_some(from..place.end);
        }
        Next::Named(kind) | Next::Linked(kind) => match kind {
            Kind::Netrc => true,
            Kind::Password => {
                is_credible(said)
                    || said.len() >= SHORTEST && said.bytes().all(|b| b.is_ascii_digit())
                    || quoted && said.len() >= SHORTEST && !said.contains(' ')
            }
            Kind::Token => is_credible(said),
        },
    };
    (is_it && !said.is_empty()).then_some(place)
}

/// What is quoted from here on.
fn quoted(text: &str, at: usize) -> Option<Range<usize>> {
    let escapes = text[at..].bytes().take_while(|b| *b == b'\\').count();
    let quote = text[at + escapes..].chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let open = at + escapes + 1;
    Some(open..close(text, open, quote, escapes))
}

/// A word without what stands around it.
fn bare(text: &str, at: &Range<usize>) -> Range<usize> {
    let said = &text[at.clone()];
    let left = said.trim_start_matches(['(', '[', '{', ',', ';']);
    let from = at.end - left.len();
    let left = left.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '"', '\'', '`', '\\']);
    from..from + left.len()
}

/// Whether a word stands for what is said elsewhere: `$PASSWORD`, `${x}`, `{{ x }}`, `%s`.
fn is_reference(word: &str) -> bool {
    let named = word
        .strip_prefix('$')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || "_{(".contains(c)));
    named || word.starts_with("{{") || word == "%s" || word == "{}"
}

/// Whether a word could be a secret and is no word of a language: it has digits among its letters, signs, or capitals inside.
pub(super) fn is_credible(word: &str) -> bool {
    if word.len() < SHORTEST || word.starts_with(['/', '<']) || word.contains("://") || is_reference(word) {
        return false;
    }
    let (mut digits, mut letters, mut odd, mut turns, mut before) = (0, 0, false, 0, b' ');
    for byte in word.bytes() {
        match byte {
            b'0'..=b'9' => digits += 1,
            b'A'..=b'Z' => {
                letters += 1;
                turns += usize::from(before.is_ascii_lowercase());
            }
            b'a'..=b'z' => letters += 1,
            b'-' | b'_' | b'.' | b'\'' | b'/' | b',' | b':' | b'(' | b')' | b'[' | b']' | b'<' | b'>' | b'"' => {}
            // Words of other languages have other letters.
            _ => odd |= byte.is_ascii(),
        }
        before = byte;
    }
    if letters == 0 || digits == 0 {
        return letters > 0 && (odd || turns > 1);
    }
    let manner = || {
        let begins = |manner: &&str| word.get(..manner.len()).is_some_and(|head| head.eq_ignore_ascii_case(manner));
        word.len() <= 16 && MANNERS.iter().any(begins)
    };
    !manner() && !is_time(word)
}

/// Whether a word begins like a date: `2026-01-…`.
fn is_time(word: &str) -> bool {
    let digit = |at: usize| word.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    word.len() <= 35
        && (0..4).all(digit)
        && word.as_bytes().get(4) == Some(&b'-')
        && digit(5)
        && digit(6)
        && word.as_bytes().get(7) == Some(&b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str) -> String {
        let mut found = Vec::new();
        sentences(text, &mut found);
        let mut out = text.to_owned();
        for value in found.into_iter().rev() {
            out.replace_range(value, "*");
        }
        out
    }

    /// Proves: OSC-13, R-2
    #[test]
    fn what_words_say_to_be_a_secret_is_found() {
        for (text, expected) in [
            ("sent Authorization: Bearer tok_3n-x.y", "sent Authorization: Bearer *"),
            ("sent (authorization: bearer Zm9vYmFyXQ9), again", "sent (authorization: bearer *), again"),
            ("curl -H 'Authorization: Bearer abcDEF123'", "curl -H 'Authorization: Bearer *'"),
            ("it was Basic bWU6aHVudGVyMml0, they say", "it was Basic *, they say"),
            ("ran openstack --os-token gAB-cd_e --debug", "ran openstack --os-token * --debug"),
            ("ran nova --os-password 'hunter two' list", "ran nova --os-password '*' list"),
            ("--token hunter --password=x", "--token * --password=x"),
            ("curl -u admin:hunter http://h/", "curl -u admin:* http://h/"),
            ("curl --user \"admin:hunter two\" http://h/", "curl --user \"admin:*\" http://h/"),
            (r#"Token "a1b2c3d4e5" not found"#, r#"Token "*" not found"#),
            (r#"{\"x\": \"Token \"a1b2c3d4e5\"\"}"#, r#"{\"x\": \"Token \"*\"\"}"#),
            ("the token 0f3a1c2d4b5e69788796a5b4c3d2e1f0 is expired", "the token * is expired"),
            ("the password is hunter2it.", "the password is *."),
            ("the password was 'hunter', no more", "the password was '*', no more"),
            ("the password is 12345678", "the password is *"),
            ("Password for admin: Horse!battery", "Password for admin: *"),
            ("using password cOrrEcthorse now", "using password * now"),
            ("auth_token X9f3a9B is bad", "auth_token * is bad"),
            ("machine h\n  login me\n  password correct\n", "machine h\n  login me\n  password *\n"),
        ] {
            assert_eq!(without(text), expected, "{text}");
            for text in [text.to_owned(), text.to_ascii_uppercase(), text.replace(' ', "\n")] {
                let mut found = Vec::new();
                sentences(&text, &mut found);
                let seen = super::super::values(&text);
                assert!(
                    found.iter().all(|at| seen.iter().any(|seen| seen.start <= at.start && at.end <= seen.end)),
                    "{text}"
                );
            }
        }
    }

    /// Proves: OSC-13, R-3
    #[test]
    fn what_is_said_about_secrets_stays_readable() {
        for text in [
            "token expired",
            "the token is expired, and the password is required",
            "the password is case-sensitive and the token is base64-encoded",
            "the token was revoked at 2026-01-01T00:00:00Z",
            "password policy v2 requires 12 characters",
            "invalid user name or password",
            "Basic authentication or Bearer tokens; Basic HTTP/1.1",
            "Bearer authentication failed",
            "the --password option is required, --token must be set, --password $PASSWORD, --token <token>",
            "docker run -u 1000:1000 -u root",
            "Access denied for user 'root'@'10.0.0.1' (using password: YES)",
            "Unexpected token '<' at position 1, unexpected token 'function'",
            "secrets \"region-credentials-1\" not found",
            "no password for root: not allowed",
            "POST /v3/auth?grant_type=password hunter2it",
            "token 2026-01-01 is a date; password 8 long; token /var/run/token1",
            "the key pair web-1 of user 0f3a1c2d4b5e69788796a5b4c3d2e1f0",
            "password authentication failed for user \"nova_api1\"",
            "please login with password or token first",
        ] {
            assert_eq!(without(text), text);
        }
    }
}
