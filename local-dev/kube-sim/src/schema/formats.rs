//! The string formats which the API server checks. Formats it does not know are notes to the reader, and are not checked.

use regex::Regex;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

fn regex(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

macro_rules! pattern {
    ($name:ident, $pattern:literal) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| regex($pattern));
    };
}

pattern!(BYTE, r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$");
pattern!(UUID, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
pattern!(UUID3, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
pattern!(UUID4, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
pattern!(UUID5, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
pattern!(DATE_TIME, r"(?i)^\d{4}-\d{2}-\d{2}t\d{2}:\d{2}:\d{2}(\.\d+)?(z|[+-]\d{2}:\d{2})$");
pattern!(DATE, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$");
pattern!(MAC, r"(?i)^([0-9a-f]{2}([:-])[0-9a-f]{2}([:-][0-9a-f]{2}){4}|[0-9a-f]{4}(\.[0-9a-f]{4}){2})$");
pattern!(
    HOSTNAME,
    r"^[a-zA-Z0-9_]([-a-zA-Z0-9_]{0,61}[a-zA-Z0-9_])?(\.[a-zA-Z0-9_]([-a-zA-Z0-9_]{0,61}[a-zA-Z0-9_])?)*\.?$"
);
pattern!(EMAIL, r"^[^\s@<>,;:]+@[^\s@<>,;:]+$");
pattern!(URI, r"^([a-zA-Z][a-zA-Z0-9+.-]*:\S*|/\S*)$");
pattern!(HEX_COLOR, r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
pattern!(SHORT_NAME, r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$");
pattern!(LONG_NAME, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$");
pattern!(
    DURATION,
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)\s?(ns|us|µs|μs|ms|s|m|h|d|w|[a-z]+)(\s?([0-9]+(\.[0-9]*)?|\.[0-9]+)\s?(ns|us|µs|μs|ms|s|m|h|d|w|[a-z]+))*$"
);

fn is(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|p| p.is_match(text))
}

/// Whether `text` has the format; true for formats that are not checked.
pub(crate) fn holds(format: &str, text: &str) -> bool {
    match format {
        "byte" => is(&BYTE, text),
        "uuid" => is(&UUID, text),
        "uuid3" => is(&UUID3, text),
        "uuid4" => is(&UUID4, text),
        "uuid5" => is(&UUID5, text),
        "date-time" | "datetime" => date_time(text).is_some(),
        "date" => date(text).is_some(),
        "duration" => is(&DURATION, text) || text == "0",
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text).is_some(),
        "mac" => is(&MAC, text),
        "hostname" => text.len() <= 255 && is(&HOSTNAME, text),
        "email" => is(&EMAIL, text),
        "uri" => is(&URI, text),
        "hexcolor" => is(&HEX_COLOR, text),
        "k8s-short-name" => is(&SHORT_NAME, text),
        "k8s-long-name" => text.len() <= 253 && is(&LONG_NAME, text),
        _ => true,
    }
}

/// RFC 3339, with `t` and `z` in either case, to the nanosecond.
pub(crate) fn date_time(text: &str) -> Option<jiff::Timestamp> {
    if !is(&DATE_TIME, text) {
        return None;
    }
    text.to_ascii_uppercase().parse().ok()
}

/// A calendar day, as its first instant in UTC.
pub(crate) fn date(text: &str) -> Option<jiff::Timestamp> {
    if !is(&DATE, text) {
        return None;
    }
    format!("{text}T00:00:00Z").parse().ok()
}

/// An address with a prefix length, `10.0.0.1/8`; the address as it is written.
pub(crate) fn cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let canonical = length == "0" || (!length.starts_with('0') && length.bytes().all(|b| b.is_ascii_digit()));
    let length: u8 = length.parse().ok().filter(|_| canonical)?;
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}
