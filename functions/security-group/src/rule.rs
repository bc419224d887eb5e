//! What makes two rules the same (SEC-2).
//!
//! A rule is its direction, protocol, ports and prefix, normalised: no prefix is `0.0.0.0/0`, `any` is no protocol, one
//! port is a range of one, a protocol's number is its name. Two spellings of one rule must not become two rules, nor a
//! deletion and a creation at every pass.

use ipnet::Ipv4Net;
use std::fmt;
use weir_api::Problem;
use weir_api::crd::{Direction, RuleProtocol, SecurityGroupRule as Spec};
use weir_openstack::network::SecurityGroupRule as Live;

/// The identity of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Which way packets go.
    pub direction: Direction,
    /// The protocol's name; none for any.
    pub protocol: Option<String>,
    /// First and last port; none for all.
    pub ports: Option<(u16, u16)>,
    /// Where packets come from, or go to.
    pub prefix: Ipv4Net,
}

impl Rule {
    /// A rule of a spec.
    ///
    /// # Errors
    /// It contradicts itself. A port on a protocol that has none is refused, not dropped: dropping it would open more
    /// than was asked for.
    pub fn of(spec: &Spec) -> Result<Self, Problem> {
        let protocol = match spec.protocol {
            RuleProtocol::Any => None,
            RuleProtocol::Icmp => Some("icmp"),
            RuleProtocol::Tcp => Some("tcp"),
            RuleProtocol::Udp => Some("udp"),
            RuleProtocol::Vrrp => Some("vrrp"),
        };
        let ports = match &spec.port {
            None => None,
            Some(_) if !matches!(spec.protocol, RuleProtocol::Tcp | RuleProtocol::Udp) => {
                let name = protocol.unwrap_or("any");
                return Err(Problem::user_action(format!(
                    "a rule for {name} cannot have a port; remove the port, or use tcp or udp"
                )));
            }
            Some(port) => Some(match (port.number, &port.range) {
                (Some(number), None) => range(number, number)?,
                (None, Some(ports)) => range(ports.start, ports.end)?,
                _ => {
                    return Err(Problem::user_action(
                        "a rule's port needs either a number or a range; set one of them",
                    ));
                }
            }),
        };
        let prefix = spec.cidr.map_or_else(Ipv4Net::default, |prefix| prefix.net());
        Ok(Self { direction: spec.direction, protocol: protocol.map(str::to_owned), ports, prefix })
    }

    /// A rule of the cloud; `None` if no spec could ask for it (IPv6, or members of another group).
    pub fn live(live: &Live) -> Option<Self> {
        if live.ethertype != "IPv4" || live.remote_group_id.is_some() {
            return None;
        }
        let direction = match live.direction.as_str() {
            "ingress" => Direction::Ingress,
            "egress" => Direction::Egress,
            _ => return None,
        };
        let ports = match (live.port_range_min, live.port_range_max) {
            (None, None) => None,
            (Some(min), Some(max)) => Some((min, max)),
            _ => return None,
        };
        let prefix = match live.remote_ip_prefix.as_deref() {
            None | Some("") => Ipv4Net::default(),
            Some(text) => text.parse::<Ipv4Net>().ok()?.trunc(),
        };
        Some(Self { direction, protocol: live.protocol.as_deref().and_then(named), ports, prefix })
    }

    /// Whether packets of any kind may go anywhere: what Neutron puts into every new group.
    pub fn is_default(live: &Live) -> bool {
        let everywhere = matches!(live.remote_ip_prefix.as_deref(), None | Some("" | "0.0.0.0/0" | "::/0"));
        let any = live.protocol.as_deref().and_then(named).is_none() && live.port_range_min.is_none();
        live.direction == "egress" && any && everywhere && live.remote_group_id.is_none()
    }
}

/// A protocol by its name; `None` for any.
fn named(protocol: &str) -> Option<String> {
    match protocol.to_ascii_lowercase().as_str() {
        "" | "any" | "0" => None,
        "1" | "icmp" => Some("icmp".to_owned()),
        "6" | "tcp" => Some("tcp".to_owned()),
        "17" | "udp" => Some("udp".to_owned()),
        "112" | "vrrp" => Some("vrrp".to_owned()),
        other => Some(other.to_owned()),
    }
}

fn range(start: i64, end: i64) -> Result<(u16, u16), Problem> {
    let port = |n: i64| u16::try_from(n).ok().filter(|n| *n > 0);
    match (port(start), port(end)) {
        (Some(start), Some(end)) if start <= end => Ok((start, end)),
        _ => Err(Problem::user_action(format!(
            "the ports {start} to {end} are no range between 1 and 65535; mend the rule"
        ))),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = match self.direction {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        };
        let (from, to) = self.ports.unwrap_or_default();
        write!(f, "{direction} {} {from}-{to} {}", self.protocol.as_deref().unwrap_or("any"), self.prefix)
    }
}
