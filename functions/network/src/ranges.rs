//! How a network's prefix is divided (NET-2, NET-3).
//!
//! ```text
//! prefix      |.0 |.1 gateway|        reservation          |   DHCP: servers and load balancers   |broadcast|
//! reservation |   provider's part   |   storage            |
//! ```
//!
//! The reservation is the first `2^(32 - prefixLength)` addresses. The provider keeps the first
//! `2^(32 - providerReservedPrefixLength)` of those, or, with no length given, `.0` and the gateway; what is left is for
//! storage.

use std::net::Ipv4Addr;
use weir_api::Problem;
use weir_api::crd::{AddressRange, Ipv4Prefix, Reservations};

/// What applies to a network that asks for no reservation.
pub const DEFAULT: Reservations = Reservations { prefix_length: 25, provider_reserved_prefix_length: Some(28) };

/// A prefix, divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// The router's address.
    pub gateway: Ipv4Addr,
    /// First and last address that DHCP gives out.
    pub dhcp: (Ipv4Addr, Ipv4Addr),
    /// What is reserved for storage, if anything.
    pub storage: Option<AddressRange>,
}

impl Ranges {
    /// Divides `prefix`.
    ///
    /// # Errors
    /// The prefix cannot hold the reservation; its owner has to change one of the two.
    pub fn of(prefix: Ipv4Prefix, reservations: Option<Reservations>) -> Result<Self, Problem> {
        let net = prefix.net();
        let chosen = reservations.unwrap_or(DEFAULT);
        let (length, provider) = (chosen.prefix_length, chosen.provider_reserved_prefix_length);
        if length <= net.prefix_len() || length > 30 {
            let message = match reservations {
                None => format!(
                    "the prefix {prefix} is too small for the default reservation of a /{length}; use a larger prefix, or set \
                     spec.reservations.prefixLength to something between {} and 30",
                    net.prefix_len().saturating_add(1)
                ),
                Some(_) => format!(
                    "spec.reservations.prefixLength must be longer than the prefix {prefix} and at most 30, and is {length}"
                ),
            };
            // Nothing longer than a /29 has room for a reservation, a gateway and a server.
            let message = if net.prefix_len() > 29 {
                format!("the prefix {prefix} is too small; use a /29 or larger")
            } else {
                message
            };
            return Err(Problem::user_action(message));
        }
        if provider.is_some_and(|p| p < length || p > 30) {
            return Err(Problem::user_action(format!(
                "spec.reservations.providerReservedPrefixLength must be between prefixLength ({length}) and 30"
            )));
        }
        let (first, last) = (u32::from(net.network()), u32::from(net.broadcast()));
        let reserved = first + size(length);
        let storage_start = provider.map_or(first + 2, |p| first + size(p));
        let storage = (provider != Some(length)).then(|| AddressRange {
            start_ip: Ipv4Addr::from(storage_start).into(),
            end_ip: Ipv4Addr::from(reserved - 1).into(),
        });
        Ok(Self {
            gateway: Ipv4Addr::from(first + 1),
            dhcp: (Ipv4Addr::from(reserved), Ipv4Addr::from(last - 1)),
            storage,
        })
    }
}

/// The number of addresses under a prefix length of 1 to 32.
fn size(length: u8) -> u32 {
    1_u32 << (32 - u32::from(length))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use serde_json::Value;

    fn ranges(prefix: &str, reservations: Option<(u8, Option<u8>)>) -> Result<Ranges, Problem> {
        let reservations = reservations.map(|(prefix_length, provider_reserved_prefix_length)| Reservations {
            prefix_length,
            provider_reserved_prefix_length,
        });
        Ranges::of(prefix.parse().unwrap(), reservations)
    }

    /// Proves: NET-2, NET-3
    #[test]
    fn the_table_of_the_predecessor_holds() {
        let table: Value = serde_json::from_str(include_str!("../tests/tables/network_ranges.json")).unwrap();
        for case in table["cases"].as_array().unwrap() {
            let input = &case["input"];
            let length = |key: &str| input[key].as_u64().map(|n| u8::try_from(n).unwrap());
            let reservations = length("prefixLength").map(|l| (l, length("providerReservedPrefixLength")));
            let got = ranges(input["prefix"].as_str().unwrap(), reservations).unwrap();
            let expect = &case["expect"];
            if let Some(gateway) = expect["gateway"].as_str() {
                assert_eq!(got.gateway.to_string(), gateway, "{case}");
            }
            let storage = got.storage.map(|s| (s.start_ip.to_string(), s.end_ip.to_string()));
            match (expect["start"].as_str(), expect.get("storage")) {
                (Some(start), _) => {
                    assert_eq!(storage, Some((start.to_owned(), expect["end"].as_str().unwrap().to_owned())), "{case}");
                }
                (None, Some(Value::Null)) => assert_eq!(storage, None, "{case}"),
                _ => {}
            }
        }
    }

    /// Proves: NET-2, NET-3
    #[test]
    fn a_prefix_is_divided_without_gap_or_overlap() {
        let rows = [
            ("10.0.0.0/24", None, "10.0.0.16-10.0.0.127", "10.0.0.128-10.0.0.254"),
            ("10.1.0.7/16", None, "10.1.0.16-10.1.0.127", "10.1.0.128-10.1.255.254"),
            ("10.0.0.0/24", Some((26, Some(27))), "10.0.0.32-10.0.0.63", "10.0.0.64-10.0.0.254"),
            ("10.0.0.0/24", Some((30, None)), "10.0.0.2-10.0.0.3", "10.0.0.4-10.0.0.254"),
            ("10.0.0.8/29", Some((30, None)), "10.0.0.10-10.0.0.11", "10.0.0.12-10.0.0.14"),
            ("10.0.0.0/24", Some((28, Some(28))), "", "10.0.0.16-10.0.0.254"),
            ("0.0.0.0/0", Some((1, Some(30))), "0.0.0.4-127.255.255.255", "128.0.0.0-255.255.255.254"),
        ];
        for (prefix, reservations, storage, dhcp) in rows {
            let got = ranges(prefix, reservations).expect(prefix);
            let shown = got.storage.map_or_else(String::new, |s| format!("{}-{}", s.start_ip, s.end_ip));
            assert_eq!(
                (shown.as_str(), format!("{}-{}", got.dhcp.0, got.dhcp.1).as_str()),
                (storage, dhcp),
                "{prefix}"
            );
        }
    }

    /// Proves: NET-2
    #[test]
    fn a_prefix_that_cannot_hold_the_reservation_is_refused_with_what_to_do() {
        let rows = [
            ("10.0.0.0/25", None, "between 26 and 30"),
            ("10.0.0.0/28", None, "between 29 and 30"),
            ("10.0.0.0/30", None, "/29 or larger"),
            ("10.0.0.0/32", None, "/29 or larger"),
            ("10.0.0.0/24", Some((24, None)), "longer than the prefix"),
            ("10.0.0.0/24", Some((31, None)), "at most 30"),
            ("10.0.0.0/24", Some((26, Some(25))), "between prefixLength (26) and 30"),
        ];
        for (prefix, reservations, says) in rows {
            let problem = ranges(prefix, reservations).expect_err(prefix);
            assert!(problem.message.contains(says), "{prefix}: {}", problem.message);
            assert_eq!(problem.consequence, weir_api::Consequence::UserAction);
        }
    }
}
