//! Addresses and URLs in CEL.

use super::value::{Error, Val, failed, no_overload};
use crate::schema::formats::cidr;
use std::net::IpAddr;

/// The parts of an absolute URL, or of an absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Option<Url> {
        if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return None;
        }
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = if text.starts_with('/') { ("", text) } else { text.split_once(':')? };
        let mut letters = scheme.chars();
        let scheme_ok = scheme.is_empty()
            || letters.next().is_some_and(|c| c.is_ascii_alphabetic())
                && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        if !scheme_ok {
            return None;
        }
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) => match rest.find('/') {
                Some(at) => rest.split_at(at),
                None => (rest, ""),
            },
            None => ("", rest),
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        Some(Url { scheme: scheme.to_ascii_lowercase(), host: host.into(), path: path.into(), query: query.into() })
    }

    fn port(&self) -> &str {
        match self.host.rsplit_once(':') {
            Some((_, port)) if port.bytes().all(|b| b.is_ascii_digit()) => port,
            _ => "",
        }
    }

    fn hostname(&self) -> &str {
        let host = match self.port() {
            "" => self.host.trim_end_matches(':'),
            port => &self.host[..self.host.len() - port.len() - 1],
        };
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

/// An address as CEL accepts it: without a zone, and not an IPv4 address in IPv6 clothes.
pub(crate) fn ip(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        _ => Some(address),
    }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

fn contains(network: (IpAddr, u8), address: IpAddr) -> bool {
    network.0.is_ipv4() == address.is_ipv4() && masked(network.0, network.1) == masked(address, network.1)
}

pub(crate) fn is_global_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            !v4.is_unspecified() && !v4.is_loopback() && !v4.is_multicast() && !v4.is_link_local() && !v4.is_broadcast()
        }
        IpAddr::V6(v6) => {
            !v6.is_unspecified() && !v6.is_loopback() && !v6.is_multicast() && !v6.is_unicast_link_local()
        }
    }
}

fn to_cidr(value: &Val<'_>) -> Result<(IpAddr, u8), Error> {
    match value {
        Val::Cidr(address, length) => Ok((*address, *length)),
        Val::String(text) => cidr(text)
            .map_or_else(|| failed(format!("network address parse error during conversion from string: {text:?}")), Ok),
        _ => no_overload(),
    }
}

fn to_ip(value: &Val<'_>) -> Result<IpAddr, Error> {
    match value {
        Val::Ip(address) => Ok(*address),
        Val::String(text) => ip(text)
            .map_or_else(|| failed(format!("IP Address {text:?} parse error during conversion from string")), Ok),
        _ => no_overload(),
    }
}

/// Functions on addresses, networks and URLs; `None` when `name` is not one of them.
pub(crate) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Result<Val<'a>, Error>> {
    let value = match (name, args) {
        ("ip", [Val::Cidr(address, _)]) => Val::Ip(*address),
        ("ip", [text]) => return Some(to_ip(text).map(Val::Ip)),
        ("cidr", [text]) => return Some(to_cidr(text).map(|(address, length)| Val::Cidr(address, length))),
        ("isIP", [Val::String(text)]) => Val::Bool(ip(text).is_some()),
        ("isCIDR", [Val::String(text)]) => Val::Bool(cidr(text).is_some()),
        ("ip.isCanonical", [Val::String(text)]) => {
            Val::Bool(ip(text).is_some_and(|address| address.to_string() == **text))
        }
        ("family", [Val::Ip(address)]) => Val::Int(if address.is_ipv4() { 4 } else { 6 }),
        ("isUnspecified", [Val::Ip(address)]) => Val::Bool(address.is_unspecified()),
        ("isLoopback", [Val::Ip(address)]) => Val::Bool(address.is_loopback()),
        ("isGlobalUnicast", [Val::Ip(address)]) => Val::Bool(is_global_unicast(*address)),
        ("isLinkLocalUnicast", [Val::Ip(address)]) => Val::Bool(match address {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        }),
        ("isLinkLocalMulticast", [Val::Ip(address)]) => Val::Bool(match address {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        }),
        ("containsIP", [Val::Cidr(network, length), address]) => {
            return Some(to_ip(address).map(|address| Val::Bool(contains((*network, *length), address))));
        }
        ("containsCIDR", [Val::Cidr(network, length), inner]) => {
            return Some(
                to_cidr(inner).map(|inner| Val::Bool(inner.1 >= *length && contains((*network, *length), inner.0))),
            );
        }
        ("masked", [Val::Cidr(address, length)]) => Val::Cidr(masked(*address, *length), *length),
        ("prefixLength", [Val::Cidr(_, length)]) => Val::Int(i64::from(*length)),
        ("isURL", [Val::String(text)]) => Val::Bool(Url::parse(text).is_some()),
        ("url", [Val::String(text)]) => match Url::parse(text) {
            Some(url) => Val::Url(url.into()),
            None => {
                return Some(failed(format!(
                    "URL parse error during conversion from string: parse {text:?}: invalid URI for request"
                )));
            }
        },
        ("getScheme", [Val::Url(url)]) => Val::text(url.scheme.as_str()),
        ("getHost", [Val::Url(url)]) => Val::text(url.host.as_str()),
        ("getHostname", [Val::Url(url)]) => Val::text(url.hostname()),
        ("getPort", [Val::Url(url)]) => Val::text(url.port()),
        ("getEscapedPath", [Val::Url(url)]) => Val::text(url.path.as_str()),
        ("getQuery", [Val::Url(url)]) => {
            let mut map = std::collections::BTreeMap::<String, Vec<Val<'a>>>::new();
            for pair in url.query.split('&').filter(|p| !p.is_empty()) {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                map.entry(key.to_owned()).or_default().push(Val::text(value));
            }
            let map = map.into_iter().map(|(k, v)| (super::value::Key::String(k), Val::list_of(v))).collect();
            Val::Map(std::sync::Arc::new(map))
        }
        _ => return None,
    };
    Some(Ok(value))
}
