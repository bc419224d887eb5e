//! Subnets: prefixes, pools, gateways and what DHCP would tell.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::{Map, Value, json};

use super::{
    Error, Result, Subnet,
    attributes::{Attributes, address},
    list::{self, Query},
    must_be_member, networks, owns, quotas, with,
};
use crate::{
    identity::Caller,
    wire::{Reply, Request},
    world::World,
};

const ATTRIBUTES: &[&str] = &[
    "network_id",
    "ip_version",
    "cidr",
    "gateway_ip",
    "allocation_pools",
    "dns_nameservers",
    "host_routes",
    "enable_dhcp",
    "ipv6_address_mode",
    "ipv6_ra_mode",
    "subnetpool_id",
    "segment_id",
    "service_types",
    "dns_publish_fixed_ip",
    "shared",
];

pub(super) fn view(row: &Subnet) -> Value {
    let pools: Vec<Value> = row.pools.iter().map(|(start, end)| json!({"start": start, "end": end})).collect();
    let routes: Vec<Value> = row
        .host_routes
        .iter()
        .map(|(destination, nexthop)| json!({"destination": destination, "nexthop": nexthop}))
        .collect();
    with(
        &row.base,
        json!({
            "network_id": row.network_id,
            "ip_version": 4,
            "cidr": row.cidr,
            "gateway_ip": row.gateway_ip,
            "allocation_pools": pools,
            "dns_nameservers": row.dns_nameservers,
            "host_routes": routes,
            "enable_dhcp": row.enable_dhcp,
            "ipv6_address_mode": null,
            "ipv6_ra_mode": null,
            "subnetpool_id": null,
            "service_types": [],
        }),
    )
}

/// A subnet that the caller can see: its own, or one of a shared or external network.
pub(super) fn visible<'a>(world: &'a World, caller: &Caller, id: &str) -> Result<&'a Subnet> {
    let public = |row: &Subnet| {
        world.data.network.networks.get(&row.network_id).is_some_and(|network| network.shared || network.external)
    };
    let row = world.data.network.subnets.get(id);
    row.filter(|row| owns(caller, &row.base.project_id) || public(row)).ok_or_else(|| Error::not_found("Subnet", id))
}

fn own<'a>(world: &'a World, caller: &Caller, id: &str, rule: &str) -> Result<&'a Subnet> {
    let row = visible(world, caller, id)?;
    must_be_member(caller, rule)?;
    if owns(caller, &row.base.project_id) { Ok(row) } else { Err(Error::policy(rule)) }
}

pub(super) fn route(world: &mut World, caller: &Caller, method: &str, rest: &[&str], request: &Request) -> Result {
    match (method, rest) {
        ("GET", []) => {
            let query = Query::new(world, request, ATTRIBUTES)?;
            let store = &world.data.network;
            let rows: Box<dyn Iterator<Item = &Subnet>> = match query.values("network_id") {
                Some(ids) => {
                    let links: Vec<String> = ids.iter().map(|id| format!("network:{id}")).collect();
                    Box::new(links.into_iter().flat_map(|link| store.subnets.linked(&link).collect::<Vec<_>>()))
                }
                None => Box::new(store.subnets.iter()),
            };
            let rows =
                rows.filter(|row| query.may_match(&row.base) && visible(world, caller, &row.base.id).is_ok()).map(view);
            query.answer(world, "Subnet", "subnets", rows)
        }
        ("POST", []) => create(world, caller, request),
        ("GET", [id]) => Ok(list::show(request, "subnet", view(visible(world, caller, id)?))),
        ("PUT", [id]) => update(world, caller, id, request),
        ("DELETE", [id]) => delete(world, caller, id),
        (_, [id, "tags", rest @ ..]) => {
            let have = own(world, caller, id, "update_subnets_tags")?.base.tags.clone();
            let (tags, reply) = list::tags(method, rest, request, have)?;
            if let Some(tags) = tags {
                world.data.network.subnets.update(id, |row| row.base.tags = tags);
            }
            Ok(reply)
        }
        _ => Err(Error::no_route()),
    }
}

fn create(world: &mut World, caller: &Caller, request: &Request) -> Result {
    must_be_member(caller, "create_subnet")?;
    let sent = Attributes::read(request, "subnet", ATTRIBUTES)?;
    let network_id = sent.required("network_id")?;
    let network = networks::visible(world, caller, &network_id)?;
    if !owns(caller, &network.base.project_id) {
        return Err(Error::policy("create_subnet"));
    }
    match sent.number("ip_version")? {
        Some(4) => {}
        Some(6) => return Err(Error::input("this simulator has no IPv6")),
        Some(other) => return Err(Error::invalid("ip_version", format!("'{other}' is not in [4, 6]"))),
        None => return Err(Error::bad("Failed to parse request. Required attribute 'ip_version' not specified")),
    }
    let cidr = sent.text("cidr")?.ok_or_else(|| {
        Error::new(400, "BadRequest", "Bad subnets request: a subnetpool must be specified in the absence of a cidr.")
    })?;
    let cidr: Ipv4Net =
        cidr.parse::<Ipv4Net>().map_err(|_| Error::input(format!("{cidr} is not in a CIDR format")))?.trunc();
    let base = sent.base(world, caller)?;
    if world.data.network.subnets.linked(&format!("network:{network_id}")).any(|row| overlap(row.cidr, cidr)) {
        return Err(Error::input(format!(
            "Requested subnet with cidr: {cidr} for network: {network_id} overlaps with another subnet"
        )));
    }
    let gateway_ip = if sent.has("gateway_ip") { sent.address("gateway_ip")? } else { cidr.hosts().next() };
    if gateway_ip.is_some_and(|gateway| gateway == cidr.network() || gateway == cidr.broadcast())
        && cidr.prefix_len() < 31
    {
        return Err(Error::input("Gateway is not valid on subnet"));
    }
    let pools = match sent.objects("allocation_pools")? {
        Some(pools) => read_pools(cidr, gateway_ip, &pools)?,
        None => default_pools(cidr, gateway_ip),
    };
    let enable_dhcp = sent.flag("enable_dhcp")?.unwrap_or(true);
    if enable_dhcp && cidr.prefix_len() > 30 {
        return Err(Error::input("Subnet has a prefix length that is incompatible with DHCP service enabled"));
    }
    quotas::check(world, &base.project_id, "subnet")?;
    let row = Subnet {
        base,
        network_id,
        cidr,
        gateway_ip,
        pools,
        dns_nameservers: read_servers(&sent)?.unwrap_or_default(),
        host_routes: read_routes(&sent)?.unwrap_or_default(),
        enable_dhcp,
        cursor: None,
    };
    world.data.network.subnets.insert(row.clone());
    Ok(Reply::json(201, json!({"subnet": view(&row)})))
}

pub(super) fn overlap(a: Ipv4Net, b: Ipv4Net) -> bool {
    a.contains(&b) || b.contains(&a)
}

/// All host addresses but the gateway's.
fn default_pools(cidr: Ipv4Net, gateway: Option<Ipv4Addr>) -> Vec<(Ipv4Addr, Ipv4Addr)> {
    let (mut first, mut last) = (u32::from(cidr.network()), u32::from(cidr.broadcast()));
    if cidr.prefix_len() < 31 {
        first += 1;
        last -= 1;
    }
    let pool = |first: u32, last: u32| (first <= last).then(|| (Ipv4Addr::from(first), Ipv4Addr::from(last)));
    match gateway.map(u32::from).filter(|gateway| (first..=last).contains(gateway)) {
        None => pool(first, last).into_iter().collect(),
        Some(gateway) => {
            let before = gateway.checked_sub(1).and_then(|last| pool(first, last));
            let after = gateway.checked_add(1).and_then(|first| pool(first, last));
            before.into_iter().chain(after).collect()
        }
    }
}

fn read_pools(
    cidr: Ipv4Net,
    gateway: Option<Ipv4Addr>,
    pools: &[Map<String, Value>],
) -> Result<Vec<(Ipv4Addr, Ipv4Addr)>> {
    let mut read = Vec::new();
    for pool in pools {
        let end = |key: &str| address("allocation_pools", pool.get(key).and_then(Value::as_str).unwrap_or_default());
        let (start, end) = (end("start")?, end("end")?);
        if start > end {
            let message = format!("The allocation pool {{'start': '{start}', 'end': '{end}'}} is not valid.");
            return Err(Error::new(400, "InvalidAllocationPool", message));
        }
        let inside = |address: Ipv4Addr| {
            cidr.contains(&address)
                && (cidr.prefix_len() >= 31 || (address != cidr.network() && address != cidr.broadcast()))
        };
        if !inside(start) || !inside(end) {
            let message = format!("The allocation pool {start}-{end} spans beyond the subnet cidr {cidr}.");
            return Err(Error::new(400, "OutOfBoundsAllocationPool", message));
        }
        if let Some(gateway) = gateway.filter(|gateway| (start..=end).contains(gateway)) {
            let message = format!("Gateway ip {gateway} conflicts with allocation pool {start}-{end}.");
            return Err(Error::new(409, "GatewayConflictWithAllocationPools", message));
        }
        if read.iter().any(|(first, last)| start <= *last && *first <= end) {
            let message = format!("Found overlapping allocation pools: {start}-{end} for subnet {cidr}.");
            return Err(Error::new(409, "OverlappingAllocationPools", message));
        }
        read.push((start, end));
    }
    Ok(read)
}

fn read_servers(sent: &Attributes) -> Result<Option<Vec<String>>> {
    let Some(servers) = sent.texts("dns_nameservers")? else { return Ok(None) };
    for (index, server) in servers.iter().enumerate() {
        if server.parse::<std::net::IpAddr>().is_err() {
            return Err(Error::invalid("dns_nameservers", format!("'{server}' is not a valid nameserver")));
        }
        if servers.iter().take(index).any(|earlier| earlier == server) {
            return Err(Error::invalid("dns_nameservers", format!("Duplicate nameserver '{server}'")));
        }
    }
    if servers.len() > 5 {
        let message = "Unable to complete operation for new subnet. The number of DNS nameservers exceeds the limit 5.";
        return Err(Error::new(400, "DNSNameServersExhausted", message));
    }
    Ok(Some(servers))
}

fn read_routes(sent: &Attributes) -> Result<Option<Vec<(String, String)>>> {
    let Some(routes) = sent.objects("host_routes")? else { return Ok(None) };
    let mut read = Vec::new();
    for route in routes {
        let part = |key: &str| route.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (destination, nexthop) = (part("destination"), part("nexthop"));
        if destination.parse::<Ipv4Net>().is_err() || nexthop.parse::<Ipv4Addr>().is_err() {
            return Err(Error::invalid("host_routes", format!("'{}' is not a valid route", json!(route))));
        }
        if read.contains(&(destination.clone(), nexthop.clone())) {
            return Err(Error::invalid("host_routes", format!("Duplicate hostroute '{}'", json!(route))));
        }
        read.push((destination, nexthop));
    }
    if read.len() > 20 {
        return Err(Error::new(400, "HostRoutesExhausted", "Too many host routes: the maximum is 20."));
    }
    Ok(Some(read))
}

fn update(world: &mut World, caller: &Caller, id: &str, request: &Request) -> Result {
    let mut row = own(world, caller, id, "update_subnet")?.clone();
    let allowed = [
        "gateway_ip",
        "allocation_pools",
        "dns_nameservers",
        "host_routes",
        "enable_dhcp",
        "dns_publish_fixed_ip",
        "service_types",
    ];
    let sent = Attributes::read(request, "subnet", &allowed)?;
    sent.rename(&mut row.base)?;
    if sent.has("gateway_ip") {
        row.gateway_ip = sent.address("gateway_ip")?;
    }
    if let Some(pools) = sent.objects("allocation_pools")? {
        row.pools = read_pools(row.cidr, row.gateway_ip, &pools)?;
    }
    if let Some((start, end)) =
        row.pools.iter().find(|(start, end)| row.gateway_ip.is_some_and(|ip| *start <= ip && ip <= *end))
    {
        let gateway = row.gateway_ip.map(|ip| ip.to_string()).unwrap_or_default();
        let message = format!("Gateway ip {gateway} conflicts with allocation pool {start}-{end}.");
        return Err(Error::new(409, "GatewayConflictWithAllocationPools", message));
    }
    row.dns_nameservers = read_servers(&sent)?.unwrap_or(row.dns_nameservers);
    row.host_routes = read_routes(&sent)?.unwrap_or(row.host_routes);
    row.enable_dhcp = sent.flag("enable_dhcp")?.unwrap_or(row.enable_dhcp);
    row.base.touch(world.clock.now());
    world.data.network.subnets.update(id, |old| *old = row.clone());
    Ok(Reply::json(200, json!({"subnet": view(&row)})))
}

fn delete(world: &mut World, caller: &Caller, id: &str) -> Result {
    own(world, caller, id, "delete_subnet")?;
    if world.data.network.ports.count(&format!("subnet:{id}")) > 0 {
        let message = format!(
            "Unable to complete operation on subnet {id}: One or more ports have an IP allocation from this subnet."
        );
        return Err(Error::new(409, "SubnetInUse", message));
    }
    world.data.network.subnets.remove(id);
    Ok(Reply::empty(204))
}
