//! Amounts as Kubernetes spells them: `10Gi`, `500M`, `1e3`, `20`.
//!
//! Invariant: the text is kept as written, and any text or integer deserialises; whether it is an amount is asked
//! when it is read ([`Quantity::ceil`]), so that one odd object does not spoil a list.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::borrow::Cow;
use std::fmt;

/// What Kubernetes accepts as a quantity.
const PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Longer text is no amount anybody means; bounded so that reading one is cheap.
const LONGEST: usize = 64;

/// Bytes of a GiB.
const GIB: u64 = 1 << 30;

/// Why a [`Quantity`] is no amount of whole units.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not of the form that Kubernetes accepts.
    #[error("not a quantity such as 10Gi or 500M")]
    Malformed,
    /// Less than zero.
    #[error("a quantity below zero")]
    Negative,
    /// More than 2^64-1.
    #[error("a quantity too large to be meant")]
    TooLarge,
}

/// An amount, as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Quantity(String);

impl Quantity {
    /// A quantity by its text, unchecked.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The amount in whole units, fractions rounded up, as Kubernetes does.
    pub fn ceil(&self) -> Result<u64, QuantityError> {
        ceil(&self.0)
    }

    /// The amount of bytes in whole GiB, rounded up.
    pub fn gib(&self) -> Result<u64, QuantityError> {
        Ok(self.ceil()?.div_ceil(GIB))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<u64> for Quantity {
    fn from(units: u64) -> Self {
        Self(units.to_string())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: an integer, or text such as 10Gi")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
                Ok(Quantity(units.to_string()))
            }

            fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
                Ok(Quantity(units.to_string()))
            }

            // The integer 10 may come as 10.0: JSON does not tell them apart.
            fn visit_f64<E: de::Error>(self, units: f64) -> Result<Quantity, E> {
                Ok(Quantity(units.to_string()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true, "pattern": PATTERN })
    }
}

/// Exact decimal arithmetic: `digits × 2^binary × 10^decimal`, rounded up.
fn ceil(text: &str) -> Result<u64, QuantityError> {
    if text.len() > LONGEST {
        return Err(QuantityError::Malformed);
    }
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (binary, decimal) = scale(suffix)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(QuantityError::Malformed);
    }
    let digits = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    if negative {
        return Err(QuantityError::Negative);
    }
    // At most 64 digits were read, so the exponent stays small and nothing here can overflow.
    let places = i64::try_from(fraction.len()).map_err(|_| QuantityError::Malformed)?;
    let exponent = decimal - places;
    let kept = digits.trim_end_matches('0');
    let trimmed = i64::try_from(digits.len() - kept.len()).map_err(|_| QuantityError::Malformed)?;
    scaled(kept, binary, exponent + trimmed)
}

/// The powers of two and of ten that a suffix stands for.
fn scale(suffix: &str) -> Result<(u32, i64), QuantityError> {
    Ok(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Malformed)?;
            let exponent: i64 = exponent.parse().map_err(|_| QuantityError::Malformed)?;
            (0, exponent.clamp(-1000, 1000))
        }
    })
}

/// `digits × 2^binary × 10^exponent`, rounded up; `digits` has no zero at either end.
fn scaled(digits: &str, binary: u32, exponent: i64) -> Result<u64, QuantityError> {
    let places = usize::try_from(exponent.unsigned_abs()).map_err(|_| QuantityError::TooLarge)?;
    let (whole, fraction) = if exponent >= 0 {
        if digits.len() + places > 38 {
            return Err(QuantityError::TooLarge);
        }
        (digits.to_owned() + &"0".repeat(places), String::new())
    } else if digits.len() > places {
        let (whole, fraction) = digits.split_at(digits.len() - places);
        (whole.to_owned(), fraction.to_owned())
    } else {
        ("0".to_owned(), "0".repeat(places - digits.len()) + digits)
    };
    let whole: u128 = whole.parse().map_err(|_| QuantityError::TooLarge)?;
    let unit = 1_u128 << binary;
    let whole = whole.checked_mul(unit).ok_or(QuantityError::TooLarge)?;
    u64::try_from(whole + fraction_times(&fraction, unit)).map_err(|_| QuantityError::TooLarge)
}

/// `0.fraction × unit`, rounded up. Long division, digit by digit from the back, so that no digit is lost.
fn fraction_times(fraction: &str, unit: u128) -> u128 {
    let mut carried = 0_u128;
    let mut rest = false;
    for digit in fraction.bytes().rev() {
        let sum = u128::from(digit - b'0') * unit + carried;
        rest |= !sum.is_multiple_of(10);
        carried = sum / 10;
    }
    carried + u128::from(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<u64, QuantityError> {
        Quantity::new(text).ceil()
    }

    #[test]
    fn amounts_are_read_exactly_and_rounded_up() {
        for (text, units) in [
            ("0", 0),
            ("20", 20),
            ("+20", 20),
            ("20.", 20),
            (".5", 1),
            ("10Gi", 10 << 30),
            ("1.5Gi", 3 << 29),
            ("0.1Ki", 103),
            ("500M", 500_000_000),
            ("1e3", 1000),
            ("1E3", 1000),
            ("12E", 12_000_000_000_000_000_000),
            ("1e-3", 1),
            ("100m", 1),
            ("1500m", 2),
            ("1n", 1),
            ("2000000000n", 2),
            ("0.000000000000000000001", 1),
            ("00010", 10),
            ("-0", 0),
            ("18446744073709551615", u64::MAX),
            ("1e-999", 1),
        ] {
            assert_eq!(read(text), Ok(units), "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_an_error_not_a_guess() {
        for text in ["", ".", "Gi", "1.2.3", "10gi", "10 Gi", "1e", "1e1.5", "0x10", "١"] {
            assert_eq!(read(text), Err(QuantityError::Malformed), "{text}");
        }
        assert_eq!(read(&"9".repeat(65)), Err(QuantityError::Malformed));
        assert_eq!(read("-1"), Err(QuantityError::Negative));
        for text in ["18446744073709551616", "16Ei", "1e999", &"9".repeat(64)] {
            assert_eq!(read(text), Err(QuantityError::TooLarge), "{text}");
        }
    }

    #[test]
    fn sizes_are_rounded_up_to_whole_gib() {
        assert_eq!(Quantity::new("10Gi").gib(), Ok(10));
        assert_eq!(Quantity::new("10G").gib(), Ok(10));
        assert_eq!(Quantity::new("10737418241").gib(), Ok(11));
    }

    #[test]
    fn integers_and_text_both_deserialise() {
        for json in ["10", "\"10\"", "10.0"] {
            let quantity: Result<Quantity, _> = serde_json::from_str(json);
            assert_eq!(quantity.ok(), Some(Quantity::new("10")), "{json}");
        }
    }
}
