//! IPv4 addresses and prefixes as manifests spell them.
//!
//! Invariant: what the pattern accepts parses. Octets are decimal and may have leading zeros (`010.0.0.1` is
//! `10.0.0.1`); a prefix is normalised to its network address (`10.0.0.7/24` is `10.0.0.0/24`).

use ipnet::Ipv4Net;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// Dotted decimal, each octet 0 to 255 in at most three digits.
const ADDRESS_PATTERN: &str = r"^((25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])$";
/// An address, a slash, and a mask of 0 to 32.
const PREFIX_PATTERN: &str =
    r"^((25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])/(3[0-2]|[12]?[0-9])$";

/// Text that is no IPv4 address or prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not four decimal octets.
    #[error("not an IPv4 address such as 192.0.2.1")]
    Address,
    /// Not an address, a slash and a length of 0 to 32.
    #[error("not an IPv4 prefix such as 192.0.2.0/24")]
    Prefix,
}

/// An IPv4 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ipv4Address(pub Ipv4Addr);

/// An IPv4 prefix, normalised to its network address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ipv4Prefix(Ipv4Net);

impl Ipv4Prefix {
    /// The prefix of a network; host bits are cleared.
    pub fn new(net: Ipv4Net) -> Self {
        Self(net.trunc())
    }

    /// The network, host bits cleared.
    pub fn net(&self) -> Ipv4Net {
        self.0
    }
}

/// One to three decimal digits, at most 255.
fn octet(text: &str) -> Option<u8> {
    let plain = (1..=3).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

impl FromStr for Ipv4Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut octets = [0; 4];
        let mut parts = text.split('.');
        for slot in &mut octets {
            *slot = parts.next().and_then(octet).ok_or(AddressError::Address)?;
        }
        match parts.next() {
            None => Ok(Self(Ipv4Addr::from(octets))),
            Some(_) => Err(AddressError::Address),
        }
    }
}

impl FromStr for Ipv4Prefix {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, length) = text.split_once('/').ok_or(AddressError::Prefix)?;
        let address: Ipv4Address = address.parse().map_err(|_| AddressError::Prefix)?;
        let length = octet(length).ok_or(AddressError::Prefix)?;
        Ipv4Net::new(address.0, length).map(Self::new).map_err(|_| AddressError::Prefix)
    }
}

macro_rules! text {
    ($name:ident, $title:literal, $max:literal, $pattern:ident) => {
        impl TryFrom<String> for $name {
            type Error = AddressError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $title.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "maxLength": $max, "pattern": $pattern })
            }
        }
    };
}

text!(Ipv4Address, "Ipv4Address", 15, ADDRESS_PATTERN);
text!(Ipv4Prefix, "Ipv4Prefix", 18, PREFIX_PATTERN);

impl From<Ipv4Addr> for Ipv4Address {
    fn from(address: Ipv4Addr) -> Self {
        Self(address)
    }
}

impl From<Ipv4Net> for Ipv4Prefix {
    fn from(net: Ipv4Net) -> Self {
        Self::new(net)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn octets_are_decimal_even_with_leading_zeros() {
        assert_eq!("010.001.000.09".parse::<Ipv4Address>().unwrap().to_string(), "10.1.0.9");
    }

    #[test]
    fn a_prefix_is_normalised_to_its_network_address() {
        assert_eq!("10.0.0.7/24".parse::<Ipv4Prefix>().unwrap().to_string(), "10.0.0.0/24");
        assert_eq!("192.168.255.255/0".parse::<Ipv4Prefix>().unwrap().to_string(), "0.0.0.0/0");
    }

    #[test]
    fn text_that_is_no_address_is_refused() {
        for text in ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.0004", "1.2.3.+4", "1.2.3. 4", "::1", "1.2.3.4/24"] {
            assert_eq!(text.parse::<Ipv4Address>(), Err(AddressError::Address), "{text}");
        }
        for text in ["", "1.2.3.4", "1.2.3.4/", "1.2.3.4/33", "1.2.3.4/-1", "1.2.3/8", "::/0"] {
            assert_eq!(text.parse::<Ipv4Prefix>(), Err(AddressError::Prefix), "{text}");
        }
    }
}
