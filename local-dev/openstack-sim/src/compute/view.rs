//! Servers and flavors as JSON, by microversion.

use serde_json::{Map, Value, json};

use super::{Flavor, Server, Version, VmState};
use crate::{
    clock::{micros, seconds},
    world::World,
};

pub(super) fn links(world: &World, kind: &str, id: &str) -> Value {
    json!([
        {"rel": "self", "href": format!("{}/compute/v2.1/{kind}/{id}", world.url)},
        {"rel": "bookmark", "href": format!("{}/compute/{kind}/{id}", world.url)},
    ])
}

/// What `GET /servers` shows.
pub(super) fn brief(world: &World, server: &Server) -> Value {
    json!({"id": server.id, "name": server.name, "links": links(world, "servers", &server.id)})
}

fn addresses(world: &World, server: &Server) -> Value {
    let store = &world.data.network;
    let mut networks = Map::new();
    if !server.is_plugged() {
        return Value::Object(networks);
    }
    for port in server.nics.iter().filter_map(|nic| store.ports.get(&nic.port)) {
        let Some(network) = store.networks.get(&port.network_id) else { continue };
        let entry = |address: &std::net::Ipv4Addr, kind: &str| {
            json!({
                "version": 4,
                "addr": address,
                "OS-EXT-IPS:type": kind,
                "OS-EXT-IPS-MAC:mac_addr": port.mac_address,
            })
        };
        let fixed = port.fixed_ips.iter().map(|ip| entry(&ip.ip_address, "fixed"));
        let floating = store.floating_ips.linked(&format!("port:{}", port.base.id));
        let floating = floating.map(|row| entry(&row.address, "floating"));
        if let Some(list) = networks.entry(network.base.name.clone()).or_insert_with(|| json!([])).as_array_mut() {
            list.extend(fixed.chain(floating));
        }
    }
    Value::Object(networks)
}

/// A server in full. `admin` shows where it runs.
pub(super) fn detail(world: &World, server: &Server, version: Version, admin: bool) -> Value {
    let now = world.clock.now();
    let status = server.status();
    let power = match server.vm_state {
        VmState::Active => 1,
        VmState::Stopped => 4,
        _ => 0,
    };
    let host_id = server.host.as_ref().map(|host| crate::identity::hash(&format!("{}{host}", server.project_id)));
    let mut view = json!({
        "id": server.id,
        "name": server.name,
        "status": status,
        "tenant_id": server.project_id,
        "user_id": server.user_id,
        "metadata": server.metadata,
        "hostId": host_id.map_or(String::new(), |hash| hash.chars().take(56).collect()),
        "image": {"id": server.image, "links": [
            {"rel": "bookmark", "href": format!("{}/compute/images/{}", world.url, server.image)},
        ]},
        "created": seconds(server.created),
        "updated": seconds(server.updated),
        "addresses": addresses(world, server),
        "accessIPv4": "",
        "accessIPv6": "",
        "links": links(world, "servers", &server.id),
        "OS-DCF:diskConfig": "MANUAL",
        "OS-EXT-AZ:availability_zone": server.host.as_ref().map_or(server.availability_zone.as_deref().unwrap_or_default(), |_| {
            server.availability_zone.as_deref().unwrap_or("nova")
        }),
        "config_drive": if server.config_drive { "True" } else { "" },
        "key_name": server.key_name,
        "OS-SRV-USG:launched_at": server.launched.map(micros),
        "OS-SRV-USG:terminated_at": (server.vm_state == VmState::Deleted).then(|| micros(server.updated)),
        "OS-EXT-STS:task_state": server.task(now),
        "OS-EXT-STS:vm_state": server.vm_state,
        "OS-EXT-STS:power_state": power,
        "os-extended-volumes:volumes_attached": [],
        "flavor": flavor_of(world, &server.flavor, version),
    });
    if matches!(status, "ACTIVE" | "BUILD" | "REBUILD") {
        view["progress"] = json!(if status == "ACTIVE" { 100 } else { 0 });
    }
    if !server.nics.is_empty() {
        view["security_groups"] = security_groups(world, server);
    }
    if let Some(fault) = server.fault.as_ref().filter(|_| matches!(status, "ERROR" | "DELETED")) {
        view["fault"] = json!({"code": 500, "created": seconds(fault.at), "message": fault.message});
        if admin {
            view["fault"]["details"] = json!("");
        }
    }
    if admin && version >= Version(3) {
        view["OS-EXT-SRV-ATTR:instance_name"] = json!(format!("instance-{}", &server.id[..8.min(server.id.len())]));
    }
    if admin {
        view["OS-EXT-SRV-ATTR:host"] = json!(server.host);
        view["OS-EXT-SRV-ATTR:hypervisor_hostname"] = json!(server.host);
    }
    let newer: [(u32, &str, Value); 8] = [
        (9, "locked", json!(false)),
        (19, "description", json!(server.description)),
        (26, "tags", json!(server.tags)),
        (63, "trusted_image_certificates", Value::Null),
        (71, "server_groups", server.group.iter().map(|group| json!(group)).collect()),
        (73, "locked_reason", Value::Null),
        (90, "OS-EXT-SRV-ATTR:hostname", json!(server.hostname)),
        (96, "pinned_availability_zone", json!(server.availability_zone)),
    ];
    for (since, key, value) in newer {
        // The server group is shown with one server only, not in lists; the caller takes it out.
        if version >= Version(since) {
            view[key] = value;
        }
    }
    view
}

fn security_groups(world: &World, server: &Server) -> Value {
    let store = &world.data.network;
    let mut names: Vec<&str> = server
        .nics
        .iter()
        .filter_map(|nic| store.ports.get(&nic.port))
        .flat_map(|port| &port.security_groups)
        .filter_map(|id| store.groups.get(id))
        .map(|group| group.base.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| json!({"name": name})).collect()
}

fn flavor_of(world: &World, flavor: &Flavor, version: Version) -> Value {
    if version < Version(47) {
        let href = format!("{}/compute/flavors/{}", world.url, flavor.id);
        return json!({"id": flavor.id, "links": [{"rel": "bookmark", "href": href}]});
    }
    json!({
        "vcpus": flavor.vcpus,
        "ram": flavor.ram,
        "disk": flavor.disk,
        "ephemeral": 0,
        "swap": 0,
        "original_name": flavor.name,
        "extra_specs": flavor.extra_specs,
    })
}

/// A flavor in full.
pub(super) fn flavor(world: &World, flavor: &Flavor, version: Version) -> Value {
    let mut view = json!({
        "id": flavor.id,
        "name": flavor.name,
        "vcpus": flavor.vcpus,
        "ram": flavor.ram,
        "disk": flavor.disk,
        "swap": if version >= Version(75) { json!(0) } else { json!("") },
        "rxtx_factor": 1.0,
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "OS-FLV-DISABLED:disabled": false,
        "os-flavor-access:is_public": true,
        "links": links(world, "flavors", &flavor.id),
    });
    if version >= Version(55) {
        view["description"] = Value::Null;
    }
    if version >= Version(61) {
        view["extra_specs"] = json!(flavor.extra_specs);
    }
    view
}
