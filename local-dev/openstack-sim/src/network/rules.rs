//! Security group rules.
//!
//! Two rules are the same when they let the same packets pass: a protocol's name equals its number, no prefix equals
//! the whole Internet, and no ports equal all of them. Descriptions do not count. But a prefix is compared as it was
//! written: `10.0.0.9/8` and `10.0.0.0/8` are two rules.

use serde_json::{Value, json};

use super::{
    Error, Result, Rule,
    attributes::Attributes,
    list::{self, Query},
    must_be_member, nameless, owns, quotas, security_groups,
};
use crate::{
    identity::Caller,
    wire::{Reply, Request},
    world::World,
};

const ATTRIBUTES: &[&str] = &[
    "security_group_id",
    "direction",
    "ethertype",
    "protocol",
    "port_range_min",
    "port_range_max",
    "remote_ip_prefix",
    "remote_group_id",
    "remote_address_group_id",
];

const PROTOCOLS: [(&str, u8); 21] = [
    ("ah", 51),
    ("dccp", 33),
    ("egp", 8),
    ("esp", 50),
    ("gre", 47),
    ("hopopt", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ip", 0),
    ("ipip", 4),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("ospf", 89),
    ("pgm", 113),
    ("rsvp", 46),
    ("sctp", 132),
    ("tcp", 6),
    ("udp", 17),
    ("udplite", 136),
    ("vrrp", 112),
    ("ipv6-encap", 41),
];

pub(super) fn view(row: &Rule) -> Value {
    let prefix = row.remote_ip_prefix.as_deref().and_then(|prefix| prefix.parse::<ipnet::IpNet>().ok());
    let normalized = prefix.map(|prefix| prefix.trunc());
    nameless(
        &row.base,
        json!({
            "security_group_id": row.group,
            "direction": row.direction,
            "ethertype": row.ethertype,
            "protocol": row.protocol,
            "port_range_min": row.port_range_min,
            "port_range_max": row.port_range_max,
            "remote_ip_prefix": row.remote_ip_prefix,
            "remote_group_id": row.remote_group_id,
            "remote_address_group_id": null,
            "normalized_cidr": normalized,
            "belongs_to_default_sg": false,
        }),
    )
}

fn visible<'a>(world: &'a World, caller: &Caller, id: &str) -> Result<&'a Rule> {
    let row = world.data.network.rules.get(id).filter(|row| owns(caller, &row.base.project_id));
    row.ok_or_else(|| Error::not_found("SecurityGroupRule", id))
}

pub(super) fn route(world: &mut World, caller: &Caller, method: &str, rest: &[&str], request: &Request) -> Result {
    match (method, rest) {
        ("GET", []) => {
            let query = Query::new(world, request, ATTRIBUTES)?;
            let store = &world.data.network;
            let rows: Vec<&Rule> = match query.values("security_group_id") {
                Some(ids) => {
                    ids.iter().flat_map(|id| store.rules.linked(&format!("group:{id}")).collect::<Vec<_>>()).collect()
                }
                None => store.rules.iter().collect(),
            };
            let rows = rows.into_iter().filter(|row| owns(caller, &row.base.project_id)).map(view);
            query.answer(world, "SecurityGroupRule", "security_group_rules", rows)
        }
        ("POST", []) => create(world, caller, request),
        ("GET", [id]) => Ok(list::show(request, "security_group_rule", view(visible(world, caller, id)?))),
        ("DELETE", [id]) => {
            visible(world, caller, id)?;
            must_be_member(caller, "delete_security_group_rule")?;
            world.data.network.rules.remove(id);
            Ok(Reply::empty(204))
        }
        _ => Err(Error::no_route()),
    }
}

/// The number of a protocol given by name or number; `None` for any.
fn number(protocol: Option<&str>) -> Result<Option<u8>> {
    let Some(text) = protocol else { return Ok(None) };
    let lower = text.to_lowercase();
    if lower == "any" {
        return Ok(None);
    }
    let named = PROTOCOLS.iter().find(|(name, _)| *name == lower).map(|(_, number)| *number);
    named.or_else(|| lower.parse().ok()).map(Some).ok_or_else(|| {
        let names: Vec<String> = PROTOCOLS.iter().map(|(name, _)| format!("'{name}'")).collect();
        Error::new(
            400,
            "SecurityGroupRuleInvalidProtocol",
            format!(
                "Security group rule protocol {text} not supported. Only protocol values [None, {}] and integer \
                 representations [0 to 255] are supported.",
                names.join(", ")
            ),
        )
    })
}

fn create(world: &mut World, caller: &Caller, request: &Request) -> Result {
    must_be_member(caller, "create_security_group_rule")?;
    let sent = Attributes::read(request, "security_group_rule", ATTRIBUTES)?;
    let group = sent.required("security_group_id")?;
    let owner = security_groups::visible(world, caller, &group)?.base.project_id.clone();
    let mut base = sent.base(world, caller)?;
    base.project_id = owner;
    base.revision = 0;
    let direction = sent.required("direction")?;
    if !matches!(direction.as_str(), "ingress" | "egress") {
        return Err(Error::invalid("direction", format!("'{direction}' is not in ['ingress', 'egress']")));
    }
    let ethertype = match sent.text("ethertype")?.unwrap_or_else(|| "IPv4".to_owned()).to_lowercase().as_str() {
        "ipv4" => "IPv4",
        "ipv6" => "IPv6",
        other => {
            let message = format!(
                "Security group rule for ethertype '{other}' not supported. Allowed values are ['IPv4', 'IPv6']."
            );
            return Err(Error::new(400, "SecurityGroupRuleInvalidEtherType", message));
        }
    };
    let protocol = match sent.value("protocol") {
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => sent.text("protocol")?.map(|text| text.to_lowercase()).filter(|text| text != "any"),
    };
    let row = Rule {
        base,
        group,
        direction,
        ethertype: ethertype.to_owned(),
        port_range_min: sent.number("port_range_min")?,
        port_range_max: sent.number("port_range_max")?,
        remote_ip_prefix: prefix(&sent, ethertype)?,
        remote_group_id: sent.text("remote_group_id")?,
        protocol,
    };
    check_ports(&row)?;
    if row.remote_ip_prefix.is_some() && row.remote_group_id.is_some() {
        let message = "Only one of remote_ip_prefix or remote_group_id or remote_address_group_id may be provided.";
        return Err(Error::new(400, "SecurityGroupMultipleRemoteEntites", message));
    }
    if let Some(remote) = &row.remote_group_id {
        security_groups::visible(world, caller, remote)?;
    }
    let wanted = key(&row)?;
    for other in world.data.network.rules.linked(&format!("group:{}", row.group)) {
        if key(other)? == wanted {
            let message = format!("Security group rule already exists. Rule id is {}.", other.base.id);
            return Err(Error::new(409, "SecurityGroupRuleExists", message));
        }
    }
    quotas::check(world, &row.base.project_id, "security_group_rule")?;
    world.data.network.rules.insert(row.clone());
    Ok(Reply::json(201, json!({"security_group_rule": view(&row)})))
}

/// The prefix asked for, as it was given; an address alone becomes a prefix.
fn prefix(sent: &Attributes, ethertype: &str) -> Result<Option<String>> {
    let Some(text) = sent.text("remote_ip_prefix")?.filter(|text| !text.is_empty()) else { return Ok(None) };
    let net = text
        .parse::<ipnet::IpNet>()
        .or_else(|_| text.parse::<std::net::IpAddr>().map(ipnet::IpNet::from))
        .map_err(|_| Error::new(400, "InvalidCIDR", format!("Invalid CIDR {text} given as IP prefix.")))?;
    let version = if net.addr().is_ipv4() { "IPv4" } else { "IPv6" };
    if version != ethertype {
        let message = format!("Conflicting value ethertype {ethertype} for CIDR {text}");
        return Err(Error::new(400, "SecurityGroupRuleParameterConflict", message));
    }
    Ok(Some(net.to_string()))
}

fn check_ports(row: &Rule) -> Result<()> {
    let protocol = number(row.protocol.as_deref())?;
    let (min, max) = (row.port_range_min, row.port_range_max);
    if min.is_none() && max.is_none() {
        return Ok(());
    }
    match protocol {
        None => Err(Error::new(
            400,
            "SecurityGroupProtocolRequiredWithPorts",
            "Must also specify protocol if port range is given.",
        )),
        Some(6 | 17 | 132 | 33 | 136) => {
            if let Some(port) = [min, max].into_iter().flatten().find(|port| !(1..=65535).contains(port)) {
                return Err(Error::new(400, "SecurityGroupInvalidPortValue", format!("Invalid value for port {port}")));
            }
            if min.is_some() && max.is_some() && min <= max {
                return Ok(());
            }
            let message = "For TCP/UDP protocols, port_range_min must be <= port_range_max";
            Err(Error::new(400, "SecurityGroupInvalidPortRange", message))
        }
        Some(1 | 58) => {
            if max.is_some() && min.is_none() {
                let code = max.unwrap_or_default();
                let message =
                    format!("ICMP code (port-range-max) {code} is provided but ICMP type (port-range-min) is missing.");
                return Err(Error::new(400, "SecurityGroupMissingIcmpType", message));
            }
            for (field, value) in [("port_range_min", min), ("port_range_max", max)] {
                if let Some(value) = value.filter(|value| !(0..=255).contains(value)) {
                    let message = format!("Invalid value for ICMP {field} {value}. It must be 0 to 255.");
                    return Err(Error::new(400, "SecurityGroupInvalidIcmpValue", message));
                }
            }
            Ok(())
        }
        Some(other) => {
            let message = format!(
                "Invalid protocol {other} for port range, only supported for TCP, UDP, UDPLITE, SCTP and DCCP."
            );
            Err(Error::new(400, "SecurityGroupInvalidProtocolForPort", message))
        }
    }
}

type Key = (String, String, Option<u8>, i64, i64, Option<String>, Option<String>);

fn key(row: &Rule) -> Result<Key> {
    let prefix = row.remote_ip_prefix.clone().filter(|prefix| !matches!(prefix.as_str(), "0.0.0.0/0" | "::/0"));
    Ok((
        row.direction.clone(),
        row.ethertype.clone(),
        number(row.protocol.as_deref())?,
        row.port_range_min.unwrap_or(1),
        row.port_range_max.unwrap_or(65535),
        prefix,
        row.remote_group_id.clone(),
    ))
}
