//! Routers and their external gateways.

use serde_json::{Value, json};

use super::{
    Error, FixedIp, Gateway, Result, Router, addresses,
    attributes::{Attributes, address},
    list::{self, Query},
    must_be_member, networks, owns, ports, quotas, router_interfaces, with,
};
use crate::{
    identity::Caller,
    wire::{Reply, Request},
    world::World,
};

const ATTRIBUTES: &[&str] = &["admin_state_up", "status", "external_gateway_info", "routes"];

pub(super) fn view(world: &World, row: &Router) -> Value {
    let gateway = row.gateway.as_ref().map(|gateway| {
        let ips = world.data.network.ports.get(&gateway.port_id).map_or(&[][..], |port| port.fixed_ips.as_slice());
        json!({"network_id": gateway.network_id, "enable_snat": gateway.enable_snat, "external_fixed_ips": ips})
    });
    with(
        &row.base,
        json!({
            "admin_state_up": row.admin_state_up,
            "status": "ACTIVE",
            "external_gateway_info": gateway,
            "routes": row.routes,
            "availability_zone_hints": [],
            "availability_zones": [],
            "flavor_id": null,
        }),
    )
}

pub(super) fn visible<'a>(world: &'a World, caller: &Caller, id: &str) -> Result<&'a Router> {
    let row = world.data.network.routers.get(id).filter(|row| owns(caller, &row.base.project_id));
    row.ok_or_else(|| Error::not_found("Router", id))
}

pub(super) fn route(world: &mut World, caller: &Caller, method: &str, rest: &[&str], request: &Request) -> Result {
    match (method, rest) {
        ("GET", []) => {
            let query = Query::new(world, request, ATTRIBUTES)?;
            let rows = world
                .data
                .network
                .routers
                .iter()
                .filter(|row| owns(caller, &row.base.project_id) && query.may_match(&row.base))
                .map(|row| view(world, row));
            query.answer(world, "Router", "routers", rows)
        }
        ("POST", []) => create(world, caller, request),
        ("GET", [id]) => Ok(list::show(request, "router", view(world, visible(world, caller, id)?))),
        ("PUT", [id]) => update(world, caller, id, request),
        ("DELETE", [id]) => delete(world, caller, id),
        ("PUT", [id, action @ ("add_router_interface" | "remove_router_interface")]) => {
            visible(world, caller, id)?;
            must_be_member(caller, action)?;
            router_interfaces::change(world, caller, id, *action == "add_router_interface", request)
        }
        (_, [id, "tags", rest @ ..]) => {
            let have = visible(world, caller, id)?.base.tags.clone();
            must_be_member(caller, "update_routers_tags")?;
            let (tags, reply) = list::tags(method, rest, request, have)?;
            if let Some(tags) = tags {
                world.data.network.routers.update(id, |row| row.base.tags = tags);
            }
            Ok(reply)
        }
        _ => Err(Error::no_route()),
    }
}

/// The gateway that was asked for: its network, whether to translate addresses, and the addresses wished for.
struct Wish {
    network: String,
    snat: bool,
    ips: Vec<Value>,
}

/// What a body says of the gateway.
enum Said {
    Nothing,
    Clear,
    Open(Wish),
}

fn read_gateway(sent: &Attributes) -> Result<Said> {
    match sent.0.get("external_gateway_info") {
        None => Ok(Said::Nothing),
        Some(Value::Null) => Ok(Said::Clear),
        Some(Value::Object(map)) if map.is_empty() => Ok(Said::Clear),
        Some(info) => {
            let network = info["network_id"].as_str().ok_or_else(|| {
                Error::invalid(
                    "external_gateway_info",
                    "Validation of dictionary's keys failed: 'network_id' is missing",
                )
            })?;
            Ok(Said::Open(Wish {
                network: network.to_owned(),
                snat: info["enable_snat"].as_bool().unwrap_or(true),
                ips: info["external_fixed_ips"].as_array().cloned().unwrap_or_default(),
            }))
        }
    }
}

fn open_gateway(world: &mut World, caller: &Caller, router: &str, wish: Wish) -> Result<Gateway> {
    let network = networks::visible(world, caller, &wish.network)?;
    if !network.external {
        return Err(Error::router(format!("Network {} is not an external network", wish.network)));
    }
    let mut ips: Vec<FixedIp> = Vec::new();
    for ip in &wish.ips {
        let subnet = ip["subnet_id"].as_str().and_then(|id| world.data.network.subnets.get(id)).cloned();
        let asked = ip["ip_address"].as_str().map(|text| address("external_fixed_ips", text)).transpose()?;
        match (subnet, asked) {
            (Some(subnet), Some(asked)) => ips.push(addresses::claim(world, &subnet, asked)?),
            (Some(subnet), None) => ips.extend(addresses::allocate(world, &subnet.base.id)),
            (None, _) => return Err(Error::input("external_fixed_ips needs a subnet_id")),
        }
    }
    if ips.is_empty() {
        ips = addresses::on_network(world, &wish.network)?;
    }
    if ips.is_empty() {
        return Err(Error::router(format!("No subnets on external network {}", wish.network)));
    }
    // The gateway's port is the cloud's, not the project's.
    let port = ports::internal(world, &wish.network, "", ("network:router_gateway", router), ips);
    Ok(Gateway { network_id: wish.network, enable_snat: wish.snat, port_id: port.base.id })
}

fn create(world: &mut World, caller: &Caller, request: &Request) -> Result {
    must_be_member(caller, "create_router")?;
    let mut allowed = ATTRIBUTES.to_vec();
    allowed.extend(["availability_zone_hints", "flavor_id", "ha", "distributed"]);
    let sent = Attributes::read(request, "router", &allowed)?;
    let base = sent.base(world, caller)?;
    quotas::check(world, &base.project_id, "router")?;
    let admin_state_up = sent.flag("admin_state_up")?.unwrap_or(true);
    let gateway = match read_gateway(&sent)? {
        Said::Open(wish) => Some(open_gateway(world, caller, &base.id, wish)?),
        Said::Nothing | Said::Clear => None,
    };
    let row = Router { base, admin_state_up, gateway, routes: Vec::new() };
    world.data.network.routers.insert(row.clone());
    Ok(Reply::json(201, json!({"router": view(world, &row)})))
}

fn gateway_in_use(world: &World, id: &str) -> Result<()> {
    if world.data.network.floating_ips.count(&format!("router:{id}")) == 0 {
        return Ok(());
    }
    let network = world.data.network.routers.get(id).and_then(|row| row.gateway.as_ref());
    let message = format!(
        "Gateway cannot be updated for router {id}, since a gateway to external network {} is required by one or more \
         floating IPs.",
        network.map_or("", |gateway| gateway.network_id.as_str())
    );
    Err(Error::new(409, "RouterExternalGatewayInUseByFloatingIp", message))
}

fn update(world: &mut World, caller: &Caller, id: &str, request: &Request) -> Result {
    let mut row = visible(world, caller, id)?.clone();
    must_be_member(caller, "update_router")?;
    let sent = Attributes::read(request, "router", &["admin_state_up", "external_gateway_info", "routes"])?;
    sent.rename(&mut row.base)?;
    row.admin_state_up = sent.flag("admin_state_up")?.unwrap_or(row.admin_state_up);
    if let Some(routes) = sent.objects("routes")? {
        row.routes = routes.into_iter().map(Value::Object).collect();
    }
    match read_gateway(&sent)? {
        Said::Nothing => {}
        Said::Open(wish) if row.gateway.as_ref().is_some_and(|have| have.network_id == wish.network) => {
            if let Some(gateway) = &mut row.gateway {
                gateway.enable_snat = wish.snat;
            }
        }
        said => {
            if row.gateway.is_some() {
                gateway_in_use(world, id)?;
            }
            let old = row.gateway.take();
            row.gateway = match said {
                Said::Open(wish) => Some(open_gateway(world, caller, id, wish)?),
                Said::Nothing | Said::Clear => None,
            };
            if let Some(old) = old {
                ports::remove(world, &old.port_id);
            }
        }
    }
    row.base.touch(world.clock.now());
    world.data.network.routers.update(id, |old| *old = row.clone());
    Ok(Reply::json(200, json!({"router": view(world, &row)})))
}

fn delete(world: &mut World, caller: &Caller, id: &str) -> Result {
    let gateway = visible(world, caller, id)?.gateway.clone();
    must_be_member(caller, "delete_router")?;
    let interfaces: Vec<&str> = router_interfaces::of(world, id).map(|port| port.base.id.as_str()).collect();
    if !interfaces.is_empty() {
        let message = format!("Router {id} has ports still attached: {}", interfaces.join(", "));
        return Err(Error::new(409, "RouterInUse", message));
    }
    gateway_in_use(world, id)?;
    if let Some(gateway) = gateway {
        ports::remove(world, &gateway.port_id);
    }
    world.data.network.routers.remove(id);
    Ok(Reply::empty(204))
}
