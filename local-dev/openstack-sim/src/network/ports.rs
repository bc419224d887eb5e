//! Ports: addresses, security groups, and what they are plugged into.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use rand::Rng;
use serde_json::{Map, Value, json};

use super::{
    AddressPair, Base, Error, FixedIp, Port, Result, Subnet, addresses,
    attributes::{Attributes, address},
    floating_ips,
    list::{self, Query},
    must_be_member, networks, owns, quotas, security_groups, with,
};
use crate::{
    identity::Caller,
    wire::{Reply, Request},
    world::World,
};

const ATTRIBUTES: &[&str] = &[
    "network_id",
    "admin_state_up",
    "status",
    "mac_address",
    "fixed_ips",
    "device_id",
    "device_owner",
    "security_groups",
    "allowed_address_pairs",
    "port_security_enabled",
    "binding:host_id",
    "binding:vnic_type",
    "ip_allocation",
];

/// `binding` says whether the attributes for administrators are shown.
pub(super) fn view(row: &Port, binding: bool) -> Value {
    let mut view = with(
        &row.base,
        json!({
            "network_id": row.network_id,
            "admin_state_up": row.admin_state_up,
            "status": if row.active { "ACTIVE" } else { "DOWN" },
            "mac_address": row.mac_address,
            "fixed_ips": row.fixed_ips,
            "device_id": row.device_id,
            "device_owner": row.device_owner,
            "security_groups": row.security_groups,
            "allowed_address_pairs": row.address_pairs,
            "port_security_enabled": row.port_security_enabled,
            "binding:vnic_type": row.vnic_type,
            "extra_dhcp_opts": [],
            "qos_policy_id": null,
            "qos_network_policy_id": null,
            "ip_allocation": if row.fixed_ips.is_empty() { "none" } else { "immediate" },
            "dns_name": "",
            "dns_assignment": [],
        }),
    );
    if binding {
        view["binding:host_id"] = json!(row.host);
        view["binding:vif_type"] = json!(if row.host.is_empty() { "unbound" } else { "ovs" });
        view["binding:vif_details"] = json!({});
        view["binding:profile"] = json!({});
    }
    view
}

/// A port that the caller can see: its own, or one on its own network.
pub(super) fn visible<'a>(world: &'a World, caller: &Caller, id: &str) -> Result<&'a Port> {
    let store = &world.data.network;
    let on_own_network =
        |row: &Port| store.networks.get(&row.network_id).is_some_and(|network| owns(caller, &network.base.project_id));
    let row = store.ports.get(id).filter(|row| owns(caller, &row.base.project_id) || on_own_network(row));
    row.ok_or_else(|| Error::not_found("Port", id))
}

fn own<'a>(world: &'a World, caller: &Caller, id: &str, rule: &str) -> Result<&'a Port> {
    let row = visible(world, caller, id)?;
    must_be_member(caller, rule)?;
    Ok(row)
}

pub(super) fn route(world: &mut World, caller: &Caller, method: &str, rest: &[&str], request: &Request) -> Result {
    match (method, rest) {
        ("GET", []) => {
            let query = Query::new(world, request, ATTRIBUTES)?;
            let store = &world.data.network;
            // The narrowest index there is; everything is filtered again afterwards.
            let links = |key: &str, kind: &str| -> Option<Vec<String>> {
                let ids = query.values(key).filter(|ids| ids.iter().all(|id| !id.is_empty()))?;
                Some(ids.iter().map(|id| format!("{kind}:{id}")).collect())
            };
            let links = links("device_id", "device").or_else(|| links("network_id", "network"));
            let rows: Vec<&Port> = match links {
                Some(links) => links.iter().flat_map(|link| store.ports.linked(link)).collect(),
                None => store.ports.iter().collect(),
            };
            let rows = rows
                .into_iter()
                .filter(|row| query.may_match(&row.base) && visible(world, caller, &row.base.id).is_ok())
                .map(|row| view(row, caller.is_admin()));
            query.answer(world, "Port", "ports", rows)
        }
        ("POST", []) => create(world, caller, request),
        ("GET", [id]) => Ok(list::show(request, "port", view(visible(world, caller, id)?, caller.is_admin()))),
        ("PUT", [id]) => update(world, caller, id, request),
        ("DELETE", [id]) => {
            let row = own(world, caller, id, "delete_port")?;
            if row.device_owner.starts_with("network:router") || row.device_owner == "network:floatingip" {
                let message = format!(
                    "Port {id} cannot be deleted directly via the port API: has device owner {}.",
                    row.device_owner
                );
                return Err(Error::new(409, "ServicePortInUse", message));
            }
            remove(world, id);
            Ok(Reply::empty(204))
        }
        (_, [id, "tags", rest @ ..]) => {
            let have = own(world, caller, id, "update_ports_tags")?.base.tags.clone();
            let (tags, reply) = list::tags(method, rest, request, have)?;
            if let Some(tags) = tags {
                world.data.network.ports.update(id, |row| row.base.tags = tags);
            }
            Ok(reply)
        }
        _ => Err(Error::no_route()),
    }
}

/// Removes a port; a floating IP that pointed at it points nowhere.
pub(super) fn remove(world: &mut World, id: &str) {
    floating_ips::forget_port(world, id);
    world.data.network.ports.remove(id);
}

fn new_mac(world: &World, network: &str) -> String {
    loop {
        let [a, b, c] = rand::rng().random::<[u8; 3]>();
        let mac = format!("fa:16:3e:{a:02x}:{b:02x}:{c:02x}");
        if world.data.network.ports.count(&format!("mac:{network}/{mac}")) == 0 {
            return mac;
        }
    }
}

fn valid_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && u8::from_str_radix(part, 16).is_ok())
}

fn create(world: &mut World, caller: &Caller, request: &Request) -> Result {
    must_be_member(caller, "create_port")?;
    let mut allowed = ATTRIBUTES.to_vec();
    allowed.extend(["extra_dhcp_opts", "qos_policy_id", "dns_name", "binding:profile"]);
    let sent = Attributes::read(request, "port", &allowed)?;
    let network_id = sent.required("network_id")?;
    let network = networks::visible(world, caller, &network_id)?;
    let (owner, external) = (network.base.project_id.clone(), network.external && !network.shared);
    if external && !owns(caller, &owner) {
        let message =
            format!("Tenant {} not allowed to create port on this network", caller.project().unwrap_or_default());
        return Err(Error::new(403, "HTTPForbidden", message));
    }
    if sent.value("mac_address").is_some() && !owns(caller, &owner) {
        return Err(Error::policy("create_port"));
    }
    let base = sent.base(world, caller)?;
    quotas::check(world, &base.project_id, "port")?;
    let mac_address = match sent.text("mac_address")? {
        Some(mac) if !valid_mac(&mac) => {
            return Err(Error::invalid("mac_address", format!("'{mac}' is not a valid MAC address")));
        }
        Some(mac) if world.data.network.ports.count(&format!("mac:{network_id}/{}", mac.to_lowercase())) > 0 => {
            let message =
                format!("Unable to complete operation for network {network_id}. The mac address {mac} is in use.");
            return Err(Error::new(409, "MacAddressInUse", message));
        }
        Some(mac) => mac.to_lowercase(),
        None => new_mac(world, &network_id),
    };
    let secured = sent.flag("port_security_enabled")?.unwrap_or(true);
    let security_groups = match sent.texts("security_groups")? {
        Some(ids) => check_groups(world, caller, ids)?,
        None if secured => vec![security_groups::default_group(world, &base.project_id)],
        None => Vec::new(),
    };
    let address_pairs = read_pairs(&sent, &mac_address)?.unwrap_or_default();
    let fixed_ips = match sent.objects("fixed_ips")? {
        Some(asked) => choose(world, &network_id, &asked)?,
        None => addresses::on_network(world, &network_id)?,
    };
    let row = Port {
        base,
        network_id,
        mac_address,
        fixed_ips,
        security_groups,
        address_pairs,
        device_id: sent.text("device_id")?.unwrap_or_default(),
        device_owner: sent.text("device_owner")?.unwrap_or_default(),
        admin_state_up: sent.flag("admin_state_up")?.unwrap_or(true),
        port_security_enabled: secured,
        vnic_type: sent.text("binding:vnic_type")?.unwrap_or_else(|| "normal".to_owned()),
        host: String::new(),
        active: false,
    };
    world.data.network.ports.insert(row.clone());
    Ok(Reply::json(201, json!({"port": view(&row, caller.is_admin())})))
}

fn check_groups(world: &World, caller: &Caller, ids: Vec<String>) -> Result<Vec<String>> {
    let mut groups = Vec::new();
    for id in ids {
        if uuid::Uuid::try_parse(&id).is_err() {
            return Err(Error::invalid("security_groups", format!("'{id}' is not a valid UUID")));
        }
        let known = world.data.network.groups.get(&id).is_some_and(|group| owns(caller, &group.base.project_id));
        if !known {
            return Err(Error::not_found("SecurityGroup", &id));
        }
        if !groups.contains(&id) {
            groups.push(id);
        }
    }
    Ok(groups)
}

fn read_pairs(sent: &Attributes, own_mac: &str) -> Result<Option<Vec<AddressPair>>> {
    let Some(asked) = sent.objects("allowed_address_pairs")? else { return Ok(None) };
    let mut pairs = Vec::new();
    for pair in asked {
        let part = |key: &str| pair.get(key).and_then(Value::as_str);
        let ip = part("ip_address").ok_or_else(|| {
            Error::new(400, "AllowedAddressPairsMissingIP", "AllowedAddressPair must contain ip_address")
        })?;
        if ip.parse::<Ipv4Net>().is_err() && ip.parse::<Ipv4Addr>().is_err() {
            return Err(Error::invalid("allowed_address_pairs", format!("'{ip}' is not a valid IP address")));
        }
        let mac = part("mac_address").filter(|mac| !mac.is_empty()).unwrap_or(own_mac);
        if !valid_mac(mac) {
            return Err(Error::invalid("allowed_address_pairs", format!("'{mac}' is not a valid MAC address")));
        }
        let pair = AddressPair { ip_address: ip.to_owned(), mac_address: mac.to_lowercase() };
        if pairs.contains(&pair) {
            return Err(Error::new(
                400,
                "DuplicateAddressPairInRequest",
                format!("Request contains duplicate address pair: mac_address {mac} ip_address {ip}."),
            ));
        }
        pairs.push(pair);
    }
    Ok(Some(pairs))
}

/// The addresses asked for: by subnet, by address, or both.
fn choose(world: &mut World, network: &str, asked: &[Map<String, Value>]) -> Result<Vec<FixedIp>> {
    let mut ips: Vec<FixedIp> = Vec::new();
    for wish in asked {
        let part = |key: &str| wish.get(key).and_then(Value::as_str);
        let ip = part("ip_address").map(|text| address("fixed_ips", text)).transpose()?;
        let store = &world.data.network.subnets;
        let on_network: Vec<&Subnet> = store.linked(&format!("network:{network}")).collect();
        let subnet = match (part("subnet_id"), ip) {
            (Some(id), _) => on_network.iter().find(|subnet| subnet.base.id == id).ok_or_else(|| {
                if !store.contains(id) {
                    return Error::not_found("Subnet", id);
                }
                Error::input(format!(
                    "Failed to create port on network {network}, because fixed_ips included invalid subnet {id}"
                ))
            })?,
            (None, Some(ip)) => on_network.iter().find(|subnet| subnet.cidr.contains(&ip)).ok_or_else(|| {
                let message =
                    format!("IP address {ip} is not a valid IP for any of the subnets on the specified network.");
                Error::new(400, "InvalidIpForNetwork", message)
            })?,
            (None, None) => return Err(Error::input("IP allocation requires subnet_id or ip_address")),
        };
        let subnet = (*subnet).clone();
        let taken = match ip {
            Some(ip) => addresses::claim(world, &subnet, ip)?,
            None => addresses::allocate(world, &subnet.base.id).ok_or_else(|| {
                let message = format!("No more IP addresses available on network {network}.");
                Error::new(409, "IpAddressGenerationFailure", message)
            })?,
        };
        if ips.contains(&taken) {
            return Err(Error::input("Duplicate fixed_ips"));
        }
        ips.push(taken);
    }
    Ok(ips)
}

fn update(world: &mut World, caller: &Caller, id: &str, request: &Request) -> Result {
    let mut row = own(world, caller, id, "update_port")?.clone();
    let mut allowed = ATTRIBUTES.to_vec();
    allowed.retain(|key| !matches!(*key, "network_id" | "status" | "ip_allocation"));
    allowed.extend(["extra_dhcp_opts", "qos_policy_id", "dns_name", "binding:profile"]);
    let sent = Attributes::read(request, "port", &allowed)?;
    if !caller.is_admin() && (sent.has("binding:host_id") || sent.has("binding:profile") || sent.has("mac_address")) {
        return Err(Error::policy("update_port"));
    }
    sent.rename(&mut row.base)?;
    if let Some(ids) = sent.texts("security_groups")? {
        row.security_groups = check_groups(world, caller, ids)?;
    }
    if let Some(pairs) = read_pairs(&sent, &row.mac_address)? {
        row.address_pairs = pairs;
    }
    if let Some(asked) = sent.objects("fixed_ips")? {
        // What the port holds already is free to itself.
        let held = std::mem::take(&mut row.fixed_ips);
        world.data.network.ports.update(id, |port| port.fixed_ips.clear());
        let chosen = choose(world, &row.network_id, &asked);
        world.data.network.ports.update(id, |port| port.fixed_ips = held);
        row.fixed_ips = chosen?;
    }
    row.device_id = sent.text("device_id")?.unwrap_or(row.device_id);
    row.device_owner = sent.text("device_owner")?.unwrap_or(row.device_owner);
    row.admin_state_up = sent.flag("admin_state_up")?.unwrap_or(row.admin_state_up);
    row.port_security_enabled = sent.flag("port_security_enabled")?.unwrap_or(row.port_security_enabled);
    row.vnic_type = sent.text("binding:vnic_type")?.unwrap_or(row.vnic_type);
    if let Some(host) = sent.text("binding:host_id")? {
        row.active = !host.is_empty();
        row.host = host;
    }
    row.base.touch(world.clock.now());
    world.data.network.ports.update(id, |old| *old = row.clone());
    Ok(Reply::json(200, json!({"port": view(&row, caller.is_admin())})))
}

/// A port that a service makes for itself: a gateway, an interface, a floating IP's holder.
pub(super) fn internal(
    world: &mut World,
    network: &str,
    project: &str,
    owner: (&str, &str),
    fixed_ips: Vec<FixedIp>,
) -> Port {
    let now = world.clock.now();
    let row = Port {
        base: Base {
            id: uuid::Uuid::new_v4().to_string(),
            name: String::new(),
            description: String::new(),
            project_id: project.to_owned(),
            tags: Vec::new(),
            created: now,
            updated: now,
            revision: 1,
        },
        network_id: network.to_owned(),
        mac_address: new_mac(world, network),
        fixed_ips,
        security_groups: Vec::new(),
        address_pairs: Vec::new(),
        device_owner: owner.0.to_owned(),
        device_id: owner.1.to_owned(),
        admin_state_up: true,
        port_security_enabled: false,
        vnic_type: "normal".to_owned(),
        host: String::new(),
        active: owner.0 != "network:floatingip",
    };
    world.data.network.ports.insert(row.clone());
    row
}

/// The port Nova makes for a server that asked for a network.
pub(crate) fn create_for_server(world: &mut World, project: &str, network: &str, groups: &[String]) -> Result<String> {
    quotas::check(world, project, "port")?;
    let fixed_ips = addresses::on_network(world, network)?;
    let groups = if groups.is_empty() { vec![security_groups::default_group(world, project)] } else { groups.to_vec() };
    let mut row = internal(world, network, project, ("", ""), fixed_ips);
    row.security_groups = groups;
    row.port_security_enabled = true;
    row.active = false;
    let id = row.base.id.clone();
    world.data.network.ports.insert(row);
    Ok(id)
}

/// Plugs a port into a server; without a host it is only spoken for.
pub(crate) fn bind(world: &mut World, id: &str, server: &str, host: Option<&str>) {
    let now = world.clock.now();
    world.data.network.ports.update(id, |row| {
        server.clone_into(&mut row.device_id);
        row.device_owner = host.map_or(String::new(), |_| "compute:nova".to_owned());
        host.unwrap_or_default().clone_into(&mut row.host);
        row.active = host.is_some();
        row.base.touch(now);
    });
}

/// Takes a port out of a server: one that Nova made goes, one that the user made stays.
pub(crate) fn unbind(world: &mut World, id: &str, server: &str, made_by_nova: bool) {
    if world.data.network.ports.get(id).is_none_or(|row| row.device_id != server) {
        return;
    }
    if made_by_nova {
        remove(world, id);
        return;
    }
    let now = world.clock.now();
    world.data.network.ports.update(id, |row| {
        row.device_id.clear();
        row.device_owner.clear();
        row.host.clear();
        row.active = false;
        row.base.touch(now);
    });
}
