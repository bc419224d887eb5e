//! Whether what a tenant's text takes for a secret could be one. What could not is replaced where it stands, as all else that is
//! called a secret, and not searched for elsewhere: it is a word that others use.
//!
//! Caveat: a password that is one word of letters, a number or a date is not found where something else quotes it.

use std::net::{IpAddr, SocketAddr};

/// No word of a language, nor a name of an API, is longer.
const LONGEST_WORD: usize = 24;
/// The shortest of several words that are written as one.
const SHORTEST_WORD: usize = 3;

/// Whether this could be a secret.
pub(super) fn is_plausible(secret: &str) -> bool {
    let secret = secret.trim();
    !(is_word(secret)
        || is_number(secret)
        || is_version(secret)
        || is_time(secret)
        || is_address(secret)
        || is_heading(secret))
}

/// `server`, `ACTIVE`, `securityGroups`, `RegionOne`: letters, of which a capital begins a word.
fn is_word(text: &str) -> bool {
    if text.len() > LONGEST_WORD || !text.bytes().all(|b| b.is_ascii_alphabetic()) {
        return false;
    }
    let mut from = 0;
    let bytes = text.as_bytes();
    let ends = (1..bytes.len()).filter(|at| bytes[*at].is_ascii_uppercase() && bytes[at - 1].is_ascii_lowercase());
    ends.chain([bytes.len()]).all(|end| {
        let word = &bytes[from..end];
        from = end;
        let rest = word.get(1..).unwrap_or_default();
        word.len() >= SHORTEST_WORD
            && (rest.iter().all(u8::is_ascii_lowercase) || word.iter().all(u8::is_ascii_uppercase))
    })
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+')) && text.parse::<f64>().is_ok()
}

/// `v1alpha1`, `v2.1`, `1.2.3`, `apps/v1`.
fn is_version(text: &str) -> bool {
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let of_group = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-');
    let plain = version.strip_prefix('v').unwrap_or(version);
    let (number, stage) = plain.find(|c: char| c.is_ascii_alphabetic()).map_or((plain, ""), |at| plain.split_at(at));
    group.bytes().all(of_group)
        && number.split('.').all(digits)
        && (stage.is_empty() || ["alpha", "beta"].iter().any(|name| stage.strip_prefix(name).is_some_and(digits)))
}

fn is_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_at_checked(10) else { return false };
    date.parse::<jiff::civil::Date>().is_ok()
        && rest.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'T' | b'Z' | b':' | b'.' | b'+' | b'-' | b' '))
}

/// An address, of IP or of a network card, or a range of such.
fn is_address(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    let is_card = |text: &str| {
        let mut parts = text.split(':');
        text.len() == 17 && parts.all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    bits.parse::<u8>().is_ok()
        && (address.parse::<IpAddr>().is_ok() || address.parse::<SocketAddr>().is_ok() || is_card(address))
}

/// The first line of user data that has no other.
fn is_heading(text: &str) -> bool {
    !text.contains('\n') && (text.starts_with("#!") || text.starts_with("#cloud-") || text.starts_with("#include"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves
    #[test]
    fn words_numbers_and_addresses_are_no_secrets_and_passwords_are() {
        for word in [
            "network",
            "securitygroups",
            "securityGroups",
            "RegionOne",
            "ACTIVE",
            "loadBalancerVIP",
            "v1alpha1",
            "v2.1",
            "region.unikorn-cloud.org/v1alpha1",
            "1.29.4",
            "1000000",
            "-1.5",
            "2026-01-01",
            "2026-01-01T00:00:00.000000Z",
            "10.0.0.4",
            "10.0.0.0/24",
            "fd00::1/64",
            "127.0.0.1:8080",
            "fa:16:3e:05:ae:76",
            "#cloud-config",
            "#!/bin/sh -e",
        ] {
            assert!(!is_plausible(word), "{word}");
        }
        for secret in [
            "hunter2",
            "correct-horse-battery",
            "correct horse",
            "kQzVxwPl",
            "xkQzRtYpLmNbVcDsWqEeRtYu",
            "averyveryveryverylongpassword",
            "v1alpha1x",
            "2026-01-01!",
            "fa:16:3e:05:ae:7g",
            "#Horse9",
            "Pässword",
            "f3a9bc77",
            "12345e67",
        ] {
            assert!(is_plausible(secret), "{secret}");
        }
    }
}
