//! Floating IPs.

use serde_json::{Value, json};

use super::{
    Error, FloatingIp, Port, Result, addresses,
    attributes::{Attributes, address},
    list::{self, Query},
    must_be_member, nameless, networks, owns, ports, quotas, router_interfaces,
};
use crate::{
    identity::Caller,
    wire::{Reply, Request},
    world::World,
};

const ATTRIBUTES: &[&str] =
    &["floating_network_id", "port_id", "fixed_ip_address", "floating_ip_address", "router_id", "status", "subnet_id"];

pub(super) fn view(world: &World, row: &FloatingIp) -> Value {
    let port = row.port_id.as_deref().and_then(|id| world.data.network.ports.get(id));
    let details = port.map(|port| {
        json!({
            "name": port.base.name,
            "network_id": port.network_id,
            "mac_address": port.mac_address,
            "admin_state_up": port.admin_state_up,
            "status": if port.active { "ACTIVE" } else { "DOWN" },
            "device_id": port.device_id,
            "device_owner": port.device_owner,
        })
    });
    nameless(
        &row.base,
        json!({
            "floating_ip_address": row.address,
            "floating_network_id": row.network_id,
            "router_id": row.router_id,
            "port_id": row.port_id,
            "fixed_ip_address": row.fixed_ip,
            "status": if row.port_id.is_some() { "ACTIVE" } else { "DOWN" },
            "port_details": details,
            "port_forwardings": [],
            "qos_policy_id": null,
            "dns_domain": "",
            "dns_name": "",
        }),
    )
}

fn visible<'a>(world: &'a World, caller: &Caller, id: &str) -> Result<&'a FloatingIp> {
    let row = world.data.network.floating_ips.get(id).filter(|row| owns(caller, &row.base.project_id));
    row.ok_or_else(|| Error::not_found("FloatingIP", id))
}

pub(super) fn route(world: &mut World, caller: &Caller, method: &str, rest: &[&str], request: &Request) -> Result {
    match (method, rest) {
        ("GET", []) => {
            let query = Query::new(world, request, ATTRIBUTES)?;
            let store = &world.data.network;
            let rows: Vec<&FloatingIp> = match query.values("port_id") {
                Some(ids) if ids.iter().all(|id| !id.is_empty()) => ids
                    .iter()
                    .flat_map(|id| store.floating_ips.linked(&format!("port:{id}")).collect::<Vec<_>>())
                    .collect(),
                _ => store.floating_ips.iter().collect(),
            };
            let rows = rows
                .into_iter()
                .filter(|row| owns(caller, &row.base.project_id) && query.may_match(&row.base))
                .map(|row| view(world, row));
            query.answer(world, "FloatingIP", "floatingips", rows)
        }
        ("POST", []) => create(world, caller, request),
        ("GET", [id]) => Ok(list::show(request, "floatingip", view(world, visible(world, caller, id)?))),
        ("PUT", [id]) => update(world, caller, id, request),
        ("DELETE", [id]) => {
            let holder = visible(world, caller, id)?.holder.clone();
            must_be_member(caller, "delete_floatingip")?;
            world.data.network.floating_ips.remove(id);
            world.data.network.ports.remove(&holder);
            Ok(Reply::empty(204))
        }
        (_, [id, "tags", rest @ ..]) => {
            let have = visible(world, caller, id)?.base.tags.clone();
            must_be_member(caller, "update_floatingips_tags")?;
            let (tags, reply) = list::tags(method, rest, request, have)?;
            if let Some(tags) = tags {
                world.data.network.floating_ips.update(id, |row| row.base.tags = tags);
            }
            Ok(reply)
        }
        _ => Err(Error::no_route()),
    }
}

fn create(world: &mut World, caller: &Caller, request: &Request) -> Result {
    must_be_member(caller, "create_floatingip")?;
    let mut allowed = ATTRIBUTES.to_vec();
    allowed.extend(["qos_policy_id", "dns_name", "dns_domain"]);
    let sent = Attributes::read(request, "floatingip", &allowed)?;
    let network_id = sent.required("floating_network_id")?;
    if !networks::visible(world, caller, &network_id)?.external {
        return Err(Error::floating_ip(format!("Network {network_id} is not a valid external network")));
    }
    let base = sent.base(world, caller)?;
    quotas::check(world, &base.project_id, "floatingip")?;
    let mut row = FloatingIp {
        base,
        network_id: network_id.clone(),
        address: std::net::Ipv4Addr::UNSPECIFIED,
        port_id: None,
        fixed_ip: None,
        router_id: None,
        holder: String::new(),
    };
    if let Some(port) = sent.text("port_id")? {
        associate(world, caller, &mut row, &port, &sent)?;
    }
    let ips = match sent.text("floating_ip_address")? {
        Some(_) if !caller.is_admin() => return Err(Error::policy("create_floatingip")),
        Some(text) => {
            let wanted = address("floating_ip_address", &text)?;
            let link = format!("network:{network_id}");
            let subnet = world.data.network.subnets.linked(&link).find(|subnet| subnet.cidr.contains(&wanted)).cloned();
            let subnet =
                subnet.ok_or_else(|| Error::floating_ip(format!("{wanted} is on no subnet of the network")))?;
            vec![addresses::claim(world, &subnet, wanted)?]
        }
        None => addresses::on_network(world, &network_id)?,
    };
    let Some(ip) = ips.first() else {
        return Err(Error::floating_ip(format!("Network {network_id} does not contain any IPv4 subnet")));
    };
    row.address = ip.ip_address;
    row.holder = ports::internal(world, &network_id, "", ("network:floatingip", &row.base.id), ips).base.id;
    world.data.network.floating_ips.insert(row.clone());
    Ok(Reply::json(201, json!({"floatingip": view(world, &row)})))
}

/// Points a floating IP at a port that the external network can reach.
fn associate(world: &World, caller: &Caller, row: &mut FloatingIp, port_id: &str, sent: &Attributes) -> Result<()> {
    let port = ports::visible(world, caller, port_id)?;
    let wanted = sent.address("fixed_ip_address")?;
    let fixed = match wanted {
        Some(wanted) => port
            .fixed_ips
            .iter()
            .find(|ip| ip.ip_address == wanted)
            .ok_or_else(|| Error::floating_ip(format!("Port {port_id} does not have fixed ip {wanted}")))?,
        None if port.fixed_ips.len() > 1 => {
            return Err(Error::floating_ip(format!(
                "Port {port_id} has multiple fixed IPv4 addresses. Must provide a specific IPv4 address when assigning a \
                 floating IP"
            )));
        }
        None => port.fixed_ips.first().ok_or_else(|| {
            Error::floating_ip(format!("Cannot add floating IP to port {port_id} that has no fixed IPv4 addresses"))
        })?,
    };
    taken(world, row, port, fixed.ip_address)?;
    let router = router_interfaces::router_to(world, &fixed.subnet_id, &row.network_id).ok_or_else(|| {
        let message = format!(
            "External network {} is not reachable from subnet {}.  Therefore, cannot associate Port {port_id} with a \
             Floating IP.",
            row.network_id, fixed.subnet_id
        );
        Error::new(404, "ExternalGatewayForFloatingIPNotFound", message)
    })?;
    row.port_id = Some(port_id.to_owned());
    row.fixed_ip = Some(fixed.ip_address);
    row.router_id = Some(router);
    Ok(())
}

fn taken(world: &World, row: &FloatingIp, port: &Port, fixed: std::net::Ipv4Addr) -> Result<()> {
    let id = &port.base.id;
    let mut others = world.data.network.floating_ips.linked(&format!("port:{id}"));
    let other = others.find(|other| {
        other.base.id != row.base.id && other.fixed_ip == Some(fixed) && other.network_id == row.network_id
    });
    let Some(other) = other else { return Ok(()) };
    let message = format!(
        "Cannot associate floating IP {} ({}) with port {id} using fixed IP {fixed}, as that fixed IP already has a floating \
         IP on external network {}.",
        other.address, other.base.id, row.network_id
    );
    Err(Error::new(409, "FloatingIPPortAlreadyAssociated", message))
}

fn update(world: &mut World, caller: &Caller, id: &str, request: &Request) -> Result {
    let mut row = visible(world, caller, id)?.clone();
    must_be_member(caller, "update_floatingip")?;
    let sent = Attributes::read(request, "floatingip", &["port_id", "fixed_ip_address", "qos_policy_id"])?;
    sent.rename(&mut row.base)?;
    if sent.has("port_id") {
        match sent.text("port_id")? {
            Some(port) => associate(world, caller, &mut row, &port, &sent)?,
            None => clear(&mut row),
        }
    }
    row.base.touch(world.clock.now());
    world.data.network.floating_ips.update(id, |old| *old = row.clone());
    Ok(Reply::json(200, json!({"floatingip": view(world, &row)})))
}

fn clear(row: &mut FloatingIp) {
    row.port_id = None;
    row.fixed_ip = None;
    row.router_id = None;
}

/// A port goes: its floating IPs stay, pointing nowhere.
pub(super) fn forget_port(world: &mut World, port: &str) {
    let now = world.clock.now();
    let store = &mut world.data.network.floating_ips;
    let ids: Vec<String> = store.linked(&format!("port:{port}")).map(|row| row.base.id.clone()).collect();
    for id in ids {
        store.update(&id, |row| {
            clear(row);
            row.base.touch(now);
        });
    }
}
