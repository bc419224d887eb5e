//! W3C trace context, level 1: the one header that ties a REST request to the last OpenStack call.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// The header's name, on NATS as on HTTP.
pub const HEADER: &str = "traceparent";

/// A `traceparent`: which trace this belongs to, and which step of it was the last.
///
/// Invariant: neither identifier is all zeroes; such a value does not parse.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Traceparent {
    trace: u128,
    span: u64,
    flags: u8,
}

/// A value that is no usable `traceparent`. The standard says to begin a new trace then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C traceparent")]
pub struct Invalid;

impl Traceparent {
    /// Begins a trace.
    pub fn begin() -> Self {
        Self { trace: Uuid::new_v4().as_u128(), span: random_span(), flags: 1 }
    }

    /// The next step of the same trace.
    #[must_use]
    pub fn child(self) -> Self {
        Self { span: random_span(), ..self }
    }

    /// The trace's identifier, as 32 hexadecimal digits: what to search logs for.
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace)
    }
}

/// The random half of a version 4 UUID: never zero, since its variant bits are set.
fn random_span() -> u64 {
    Uuid::new_v4().as_u64_pair().1
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl fmt::Debug for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Traceparent {
    type Err = Invalid;

    fn from_str(value: &str) -> Result<Self, Invalid> {
        let hex = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let mut parts = value.split('-');
        let (Some(version), Some(trace), Some(span), Some(flags)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Invalid);
        };
        // A later version may append fields; version 00 may not. Version ff is forbidden.
        if !hex(version, 2) || version == "ff" || (version == "00" && parts.next().is_some()) {
            return Err(Invalid);
        }
        if !hex(trace, 32) || !hex(span, 16) || !hex(flags, 2) {
            return Err(Invalid);
        }
        let trace = u128::from_str_radix(trace, 16).map_err(|_| Invalid)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| Invalid)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| Invalid)?;
        if trace == 0 || span == 0 { Err(Invalid) } else { Ok(Self { trace, span, flags }) }
    }
}
