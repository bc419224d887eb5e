//! The ports by which routers reach subnets.

use serde_json::{Value, json};

use super::{Error, FixedIp, Port, Result, Subnet, addresses, owns, ports, quotas, subnets};
use crate::{
    identity::Caller,
    wire::{Reply, Request},
    world::World,
};

pub(super) const OWNER: &str = "network:router_interface";

/// The interfaces of a router.
pub(super) fn of<'a>(world: &'a World, router: &str) -> impl Iterator<Item = &'a Port> + use<'a> {
    world.data.network.ports.linked(&format!("device:{router}")).filter(|port| port.device_owner == OWNER)
}

/// The router that a subnet hangs on, if it has a gateway to this external network.
pub(super) fn router_to(world: &World, subnet: &str, external: &str) -> Option<String> {
    let store = &world.data.network;
    store
        .ports
        .linked(&format!("subnet:{subnet}"))
        .filter(|port| port.device_owner == OWNER)
        .find(|port| {
            let gateway = store.routers.get(&port.device_id).and_then(|router| router.gateway.as_ref());
            gateway.is_some_and(|gateway| gateway.network_id == external)
        })
        .map(|port| port.device_id.clone())
}

fn answer(world: &World, router: &str, port: &Port) -> Value {
    let project = world.data.network.routers.get(router).map_or("", |row| row.base.project_id.as_str());
    let subnets: Vec<&str> = port.fixed_ips.iter().map(|ip| ip.subnet_id.as_str()).collect();
    json!({
        "id": router,
        "project_id": project,
        "port_id": port.base.id,
        "network_id": port.network_id,
        "subnet_id": subnets.first(),
        "subnet_ids": subnets,
    })
}

pub(super) fn change(world: &mut World, caller: &Caller, router: &str, add: bool, request: &Request) -> Result {
    let body = request.json().filter(Value::is_object).ok_or_else(|| Error::bad("Body contains invalid data"))?;
    let (subnet, port) = (body["subnet_id"].as_str(), body["port_id"].as_str());
    match (add, subnet, port) {
        (true, Some(_), Some(_)) => Err(Error::router("Cannot specify both subnet-id and port-id")),
        (_, None, None) => Err(Error::router("Either subnet_id or port_id must be specified")),
        (true, Some(subnet), None) => add_subnet(world, caller, router, subnet),
        (true, None, Some(port)) => add_port(world, caller, router, port),
        (false, subnet, port) => remove(world, router, subnet, port),
    }
}

/// Refuses a subnet that the router has, or whose addresses it has.
fn check(world: &World, router: &str, subnet: &Subnet) -> Result<()> {
    for ip in of(world, router).flat_map(|port| &port.fixed_ips) {
        if ip.subnet_id == subnet.base.id {
            return Err(Error::router(format!("Router already has a port on subnet {}", subnet.base.id)));
        }
        let Some(other) = world.data.network.subnets.get(&ip.subnet_id) else { continue };
        if subnets::overlap(other.cidr, subnet.cidr) {
            return Err(Error::router(format!(
                "Cidr {} of subnet {} overlaps with cidr {} of subnet {}",
                subnet.cidr, subnet.base.id, other.cidr, other.base.id
            )));
        }
    }
    Ok(())
}

fn add_subnet(world: &mut World, caller: &Caller, router: &str, subnet: &str) -> Result {
    let subnet = subnets::visible(world, caller, subnet)?.clone();
    let Some(gateway) = subnet.gateway_ip else {
        return Err(Error::router("Subnet for router interface must have a gateway IP"));
    };
    check(world, router, &subnet)?;
    let project = world.data.network.routers.get(router).map(|row| row.base.project_id.clone()).unwrap_or_default();
    quotas::check(world, &project, "port")?;
    let ip = addresses::claim(world, &subnet, gateway)?;
    let port = ports::internal(world, &subnet.network_id, &project, (OWNER, router), vec![ip]);
    Ok(Reply::json(200, answer(world, router, &port)))
}

fn add_port(world: &mut World, caller: &Caller, router: &str, port: &str) -> Result {
    let mut row = ports::visible(world, caller, port)?.clone();
    if !owns(caller, &row.base.project_id) {
        return Err(Error::not_found("Port", port));
    }
    if !row.device_id.is_empty() {
        let message = format!(
            "Unable to complete operation on port {port} for network {}. Port already has an attached device {}.",
            row.network_id, row.device_id
        );
        return Err(Error::new(409, "PortInUse", message));
    }
    if row.fixed_ips.is_empty() {
        return Err(Error::router("A router port must have at least one IP"));
    }
    for FixedIp { subnet_id, .. } in &row.fixed_ips {
        if let Some(subnet) = world.data.network.subnets.get(subnet_id) {
            check(world, router, subnet)?;
        }
    }
    router.clone_into(&mut row.device_id);
    OWNER.clone_into(&mut row.device_owner);
    row.active = true;
    world.data.network.ports.update(port, |old| *old = row.clone());
    Ok(Reply::json(200, answer(world, router, &row)))
}

fn remove(world: &mut World, router: &str, subnet: Option<&str>, port: Option<&str>) -> Result {
    let found = of(world, router).find(|row| {
        port.is_none_or(|port| row.base.id == port)
            && subnet.is_none_or(|subnet| row.fixed_ips.iter().any(|ip| ip.subnet_id == subnet))
    });
    let Some(row) = found.cloned() else {
        return Err(match (subnet, port) {
            (Some(subnet), None) if !world.data.network.subnets.contains(subnet) => Error::not_found("Subnet", subnet),
            (Some(subnet), None) => Error::new(
                404,
                "RouterInterfaceNotFoundForSubnet",
                format!("Router {router} has no interface on subnet {subnet}"),
            ),
            (_, port) => Error::new(
                404,
                "RouterInterfaceNotFound",
                format!("Router {router} does not have an interface with id {}", port.unwrap_or_default()),
            ),
        });
    };
    let store = &world.data.network;
    for ip in &row.fixed_ips {
        let needed = store.floating_ips.linked(&format!("router:{router}")).any(|floating| {
            let inside = floating.port_id.as_deref().and_then(|id| store.ports.get(id));
            inside.is_some_and(|port| port.fixed_ips.iter().any(|fixed| fixed.subnet_id == ip.subnet_id))
        });
        if needed {
            let message = format!(
                "Router interface for subnet {} on router {router} cannot be deleted, as it is required by one or more \
                 floating IPs.",
                ip.subnet_id
            );
            return Err(Error::new(409, "RouterInterfaceInUseByFloatingIP", message));
        }
    }
    let answer = answer(world, router, &row);
    ports::remove(world, &row.base.id);
    Ok(Reply::json(200, answer))
}
