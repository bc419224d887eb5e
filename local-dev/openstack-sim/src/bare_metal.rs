//! Ironic, as far as its users look: nodes, and which server each is for.
//!
//! Nodes are put there by a test ([`crate::Sim::set_node`]) or over `/_sim/nodes`; nothing happens to them by itself. Only
//! the region's own role sees them (`baremetal:node:list_all`), as the product's policy grants.
//!
//! Caveat: one page, no sorting, and no filter but `instance_uuid`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    config::REGION_ROLE,
    identity::{authenticate, hash},
    service::unauthorized,
    wire::{Reply, Request},
    world::World,
};

/// The oldest version in which a node's state is called `available`, which is the one that the product asks for.
const OLDEST: (u32, u32) = (1, 1);
const LATEST: (u32, u32) = (1, 104);

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Store {
    /// Provision states, by the server that the node is for.
    pub nodes: BTreeMap<String, String>,
}

/// The answer of Ironic to what it refuses: JSON in a string in JSON.
pub(crate) fn refusal(status: u16, message: &str) -> Reply {
    let inner =
        json!({"faultcode": if status < 500 { "Client" } else { "Server" }, "faultstring": message, "debuginfo": null});
    Reply::json(status, json!({"error_message": inner.to_string()}))
}

fn version(request: &Request) -> Result<(u32, u32), Reply> {
    let Some(text) = request.header("x-openstack-ironic-api-version") else { return Ok(OLDEST) };
    let parsed = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    match parsed {
        Some(version) if (OLDEST..=LATEST).contains(&version) => Ok(version),
        _ => Err(refusal(406, &format!("Version {text} was requested but is not supported by this service."))),
    }
}

/// The path below `/baremetal`.
pub(crate) fn handle(world: &World, rest: &[&str], request: &Request) -> Reply {
    let document = json!({"id": "v1", "status": "CURRENT", "min_version": "1.1", "version": "1.104",
        "links": [{"rel": "self", "href": format!("{}/baremetal/v1/", world.url)}]});
    let path = match rest {
        [] => {
            return Reply::json(
                200,
                json!({"name": "OpenStack Ironic API", "versions": [document], "default_version": document}),
            );
        }
        ["v1", path @ ..] => path,
        _ => return refusal(404, "Not Found"),
    };
    let version = match version(request) {
        Ok((major, minor)) => format!("{major}.{minor}"),
        Err(refused) => return refused,
    };
    answer(world, path, request)
        .with("X-OpenStack-Ironic-API-Version", version)
        .with("X-OpenStack-Ironic-API-Minimum-Version", "1.1")
        .with("X-OpenStack-Ironic-API-Maximum-Version", "1.104")
}

fn answer(world: &World, path: &[&str], request: &Request) -> Reply {
    let Some(caller) = authenticate(world, request) else { return unauthorized(&world.url) };
    if !(caller.is_admin() || caller.has(REGION_ROLE)) {
        return refusal(403, "Access was denied to the following resource: baremetal:node:list_all");
    }
    match (request.method.as_str(), path) {
        ("GET", []) => Reply::json(200, json!({"id": "v1"})),
        ("GET", ["nodes"]) => {
            let wanted = request.param("instance_uuid");
            let fields: Option<Vec<&str>> = request.param("fields").map(|fields| fields.split(',').collect());
            let nodes =
                world.data.bare_metal.nodes.iter().filter(|(server, _)| wanted.is_none_or(|wanted| wanted == *server));
            let nodes: Vec<Value> = nodes.map(|(server, state)| view(server, state, fields.as_deref())).collect();
            Reply::json(200, json!({ "nodes": nodes }))
        }
        _ => refusal(404, "The resource could not be found."),
    }
}

fn view(server: &str, state: &str, fields: Option<&[&str]>) -> Value {
    let digits = hash(server);
    let uuid = format!("{}-{}-4000-8000-{}", &digits[..8], &digits[8..12], &digits[12..24]);
    let all = json!({
        "uuid": uuid, "instance_uuid": server, "provision_state": state, "power_state": "power on", "maintenance": false,
        "name": format!("node-{}", &digits[..6]),
    });
    match (fields, all) {
        (Some(fields), Value::Object(all)) => {
            all.into_iter().filter(|(field, _)| fields.contains(&field.as_str())).collect::<Map<_, _>>().into()
        }
        (_, all) => all,
    }
}

pub(crate) fn state(world: &World) -> Map<String, Value> {
    std::iter::once(("nodes".to_owned(), json!(world.data.bare_metal.nodes))).collect()
}
