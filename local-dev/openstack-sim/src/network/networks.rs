//! Networks and their segments.

use serde_json::{Value, json};

use super::{
    Error, Network, Result, Segment,
    attributes::Attributes,
    list::{self, Query},
    must_be_member, owns, quotas, with,
};
use crate::{
    identity::Caller,
    wire::{Reply, Request},
    world::World,
};

const PROVIDER: [&str; 3] = ["provider:network_type", "provider:physical_network", "provider:segmentation_id"];

const ATTRIBUTES: &[&str] = &[
    "admin_state_up",
    "shared",
    "router:external",
    "mtu",
    "status",
    "port_security_enabled",
    "provider:network_type",
    "provider:physical_network",
    "provider:segmentation_id",
    "is_default",
];

/// `segment` says whether the provider attributes are shown.
pub(super) fn view(world: &World, row: &Network, segment: bool) -> Value {
    let store = &world.data.network;
    let subnets: Vec<&str> =
        store.subnets.linked(&format!("network:{}", row.base.id)).map(|subnet| subnet.base.id.as_str()).collect();
    let mut view = with(
        &row.base,
        json!({
            "admin_state_up": row.admin_state_up,
            "status": "ACTIVE",
            "subnets": subnets,
            "shared": row.shared,
            "router:external": row.external,
            "mtu": row.mtu,
            "port_security_enabled": row.port_security_enabled,
            "availability_zone_hints": [],
            "availability_zones": [],
            "ipv4_address_scope": null,
            "ipv6_address_scope": null,
            "qos_policy_id": null,
            "dns_domain": "",
        }),
    );
    if row.external {
        view["is_default"] = json!(false);
    }
    if segment {
        view["provider:network_type"] = json!(row.segment.network_type);
        view["provider:physical_network"] = json!(row.segment.physical_network);
        view["provider:segmentation_id"] = json!(row.segment.segmentation_id);
    }
    view
}

fn sees_segment(world: &World, caller: &Caller, row: &Network) -> bool {
    caller.manages_project(world, &row.base.project_id)
}

/// A network that the caller can see at all.
pub(super) fn visible<'a>(world: &'a World, caller: &Caller, id: &str) -> Result<&'a Network> {
    let row = world.data.network.networks.get(id);
    row.filter(|row| row.shared || row.external || owns(caller, &row.base.project_id))
        .ok_or_else(|| Error::not_found("Network", id))
}

/// A network that the caller may change.
fn own<'a>(world: &'a World, caller: &Caller, id: &str, rule: &str) -> Result<&'a Network> {
    let row = visible(world, caller, id)?;
    must_be_member(caller, rule)?;
    if owns(caller, &row.base.project_id) { Ok(row) } else { Err(Error::policy(rule)) }
}

pub(super) fn route(world: &mut World, caller: &Caller, method: &str, rest: &[&str], request: &Request) -> Result {
    match (method, rest) {
        ("GET", []) => {
            let query = Query::new(world, request, ATTRIBUTES)?;
            let store = &world.data.network;
            let project = caller.project().unwrap_or_default();
            let all = caller.is_admin().then(|| store.networks.iter());
            let mine = (!caller.is_admin()).then(|| {
                let public =
                    store.networks.linked("public").filter(|row| !project.is_empty() && row.base.project_id != project);
                store.networks.linked(&format!("project:{project}")).chain(public)
            });
            let rows = all.into_iter().flatten().chain(mine.into_iter().flatten());
            let rows = rows
                .filter(|row| query.may_match(&row.base))
                .map(|row| view(world, row, sees_segment(world, caller, row)));
            query.answer(world, "Network", "networks", rows)
        }
        ("POST", []) => create(world, caller, request),
        ("GET", [id]) => {
            let row = visible(world, caller, id)?;
            Ok(list::show(request, "network", view(world, row, sees_segment(world, caller, row))))
        }
        ("PUT", [id]) => update(world, caller, id, request),
        ("DELETE", [id]) => delete(world, caller, id),
        (_, [id, "tags", rest @ ..]) => {
            let have = if method == "GET" {
                visible(world, caller, id)?
            } else {
                own(world, caller, id, "update_networks_tags")?
            };
            let (tags, reply) = list::tags(method, rest, request, have.base.tags.clone())?;
            if let Some(tags) = tags {
                world.data.network.networks.update(id, |row| row.base.tags = tags);
            }
            Ok(reply)
        }
        _ => Err(Error::no_route()),
    }
}

fn create(world: &mut World, caller: &Caller, request: &Request) -> Result {
    must_be_member(caller, "create_network")?;
    let mut allowed = ATTRIBUTES.to_vec();
    allowed.extend(["segments", "availability_zone_hints", "qos_policy_id", "dns_domain"]);
    let sent = Attributes::read(request, "network", &allowed)?;
    let base = sent.base(world, caller)?;
    let (shared, external) = (sent.flag("shared")?.unwrap_or(false), sent.flag("router:external")?.unwrap_or(false));
    for (asked, attribute) in [(shared, "shared"), (external, "router:external")] {
        if asked && !caller.is_admin() {
            return Err(denied(&[attribute]));
        }
    }
    let asked = segment(&sent)?;
    if asked.is_some() && !caller.manages_project(world, &base.project_id) {
        return Err(denied(&PROVIDER));
    }
    quotas::check(world, &base.project_id, "network")?;
    let segment = if let Some(asked) = asked {
        claim(world, asked)?
    } else {
        world.data.network.last_segment += 1;
        let id = Some(world.data.network.last_segment);
        Segment { network_type: "geneve".to_owned(), physical_network: None, segmentation_id: id }
    };
    let mtu = sent.number("mtu")?.and_then(|mtu| u64::try_from(mtu).ok()).filter(|mtu| *mtu > 0);
    let row = Network {
        base,
        admin_state_up: sent.flag("admin_state_up")?.unwrap_or(true),
        shared,
        external,
        mtu: mtu.unwrap_or(if segment.network_type == "geneve" { 1442 } else { 1500 }),
        port_security_enabled: sent.flag("port_security_enabled")?.unwrap_or(true),
        segment,
    };
    world.data.network.networks.insert(row.clone());
    let _ = super::default_group(world, &row.base.project_id);
    Ok(Reply::json(201, json!({"network": view(world, &row, sees_segment(world, caller, &row))})))
}

fn denied(attributes: &[&str]) -> Error {
    let rules: Vec<String> = attributes.iter().map(|name| format!("rule:create_network:{name}")).collect();
    let nested = rules.iter().fold("rule:create_network".to_owned(), |all, rule| format!("({all} and {rule})"));
    let message = format!("{nested} is disallowed by policy");
    Error::new(403, "PolicyNotAuthorized", message)
}

/// The segment asked for, by provider attributes or as a list of one.
fn segment(sent: &Attributes) -> Result<Option<Segment>> {
    let listed = sent.objects("segments")?.filter(|segments| !segments.is_empty());
    let direct = PROVIDER.iter().any(|key| sent.value(key).is_some());
    let sent = match listed {
        Some(_) if direct => return Err(Error::bad("Plural and singular provider attributes cannot be mixed")),
        Some(segments) if segments.len() > 1 => return Err(Error::input("only one segment is supported")),
        Some(segments) => Attributes(segments.into_iter().next().unwrap_or_default()),
        None if direct => Attributes(sent.0.clone()),
        None => return Ok(None),
    };
    let number = sent.number("provider:segmentation_id")?;
    let number = number.map(|number| u64::try_from(number).map_err(|_| Error::input("segmentation_id out of range")));
    Ok(Some(Segment {
        network_type: sent.text("provider:network_type")?.ok_or_else(|| Error::input("network_type required"))?,
        physical_network: sent.text("provider:physical_network")?,
        segmentation_id: number.transpose()?,
    }))
}

/// Checks the segment, and gives it an id if it asks for any.
fn claim(world: &mut World, mut asked: Segment) -> Result<Segment> {
    let taken = |world: &World, id: u64, asked: &Segment| {
        world.data.network.networks.iter().any(|row| {
            row.segment.network_type == asked.network_type
                && row.segment.physical_network == asked.physical_network
                && row.segment.segmentation_id == Some(id)
        })
    };
    match asked.network_type.as_str() {
        "vlan" => {
            let physical = asked
                .physical_network
                .clone()
                .ok_or_else(|| Error::input("physical_network required for VLAN provider network"))?;
            if !world.config.physical_networks.contains(&physical) {
                return Err(Error::input(format!("physical_network '{physical}' unknown for VLAN provider network")));
            }
            if let Some(id) = asked.segmentation_id {
                if !(1..=4094).contains(&id) {
                    return Err(Error::input("segmentation_id out of range (1 through 4094)"));
                }
                if taken(world, id, &asked) {
                    let message = format!(
                        "Unable to create the network. The VLAN {id} on physical network {physical} is in use."
                    );
                    return Err(Error::new(409, "VlanIdInUse", message));
                }
            } else {
                asked.segmentation_id = (100..=3999).find(|id| !taken(world, *id, &asked));
                if asked.segmentation_id.is_none() {
                    let message =
                        "Unable to create the network. No available network found in maximum allowed attempts.";
                    return Err(Error::new(409, "NoNetworkFoundInMaximumAllowedAttempts", message));
                }
            }
        }
        "flat" => {
            let physical = asked
                .physical_network
                .clone()
                .ok_or_else(|| Error::input("physical_network required for flat provider network"))?;
            asked.segmentation_id = None;
            if world.data.network.networks.iter().any(|row| row.segment == asked) {
                let message = format!("Unable to create the flat network. Physical network {physical} is in use.");
                return Err(Error::new(409, "FlatNetworkInUse", message));
            }
        }
        "geneve" | "vxlan" => {
            asked.physical_network = None;
            let id = asked.segmentation_id.unwrap_or(world.data.network.last_segment + 1);
            if taken(world, id, &asked) {
                let message = format!("Unable to create the network. The tunnel ID {id} is in use.");
                return Err(Error::new(409, "TunnelIdInUse", message));
            }
            world.data.network.last_segment = world.data.network.last_segment.max(id);
            asked.segmentation_id = Some(id);
        }
        other => return Err(Error::input(format!("network_type value '{other}' not supported"))),
    }
    Ok(asked)
}

fn update(world: &mut World, caller: &Caller, id: &str, request: &Request) -> Result {
    let mut row = own(world, caller, id, "update_network")?.clone();
    let sent = Attributes::read(request, "network", ATTRIBUTES)?;
    if PROVIDER.iter().any(|key| sent.has(key)) {
        return Err(Error::input("Plugin does not support updating provider attributes"));
    }
    sent.rename(&mut row.base)?;
    for (key, field) in [("shared", &mut row.shared), ("router:external", &mut row.external)] {
        if let Some(value) = sent.flag(key)? {
            if !caller.is_admin() && value != *field {
                return Err(Error::policy("update_network"));
            }
            *field = value;
        }
    }
    row.admin_state_up = sent.flag("admin_state_up")?.unwrap_or(row.admin_state_up);
    row.port_security_enabled = sent.flag("port_security_enabled")?.unwrap_or(row.port_security_enabled);
    if let Some(mtu) = sent.number("mtu")?.and_then(|mtu| u64::try_from(mtu).ok()) {
        row.mtu = mtu;
    }
    row.base.touch(world.clock.now());
    world.data.network.networks.update(id, |old| *old = row.clone());
    Ok(Reply::json(200, json!({"network": view(world, &row, sees_segment(world, caller, &row))})))
}

fn delete(world: &mut World, caller: &Caller, id: &str) -> Result {
    own(world, caller, id, "delete_network")?;
    let store = &mut world.data.network;
    let link = format!("network:{id}");
    let ports: Vec<&str> = store.ports.linked(&link).map(|port| port.base.id.as_str()).collect();
    if !ports.is_empty() {
        let message = format!(
            "Unable to complete operation on network {id}. There are one or more ports still in use on the network, id for \
             these ports is: {}.",
            ports.join(",")
        );
        return Err(Error::new(409, "NetworkInUse", message));
    }
    let subnets: Vec<String> = store.subnets.linked(&link).map(|subnet| subnet.base.id.clone()).collect();
    for subnet in subnets {
        store.subnets.remove(&subnet);
    }
    store.networks.remove(id);
    Ok(Reply::empty(204))
}
