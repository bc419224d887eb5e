//! Quotas and their enforcement.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Error, Result};
use crate::{
    identity::Caller,
    wire::{Reply, Request},
    world::World,
};

const DEFAULTS: [(&str, i64); 10] = [
    ("network", 100),
    ("subnet", 100),
    ("subnetpool", -1),
    ("port", 500),
    ("router", 10),
    ("floatingip", 50),
    ("security_group", 10),
    ("security_group_rule", 100),
    ("rbac_policy", 10),
    ("trunk", -1),
];

fn limit(world: &World, project: &str, resource: &str) -> i64 {
    let set = world.data.network.quotas.get(project).and_then(|set| set.get(resource)).copied();
    set.or_else(|| DEFAULTS.iter().find(|(name, _)| *name == resource).map(|(_, limit)| *limit)).unwrap_or(-1)
}

/// Refuses one more of a resource when the project is at its limit. What is the cloud's own counts for nobody.
pub(super) fn check(world: &World, project: &str, resource: &str) -> Result<()> {
    check_more(world, project, resource, 1)
}

/// The same for several at once.
pub(super) fn check_more(world: &World, project: &str, resource: &str, more: usize) -> Result<()> {
    let limit = limit(world, project, resource);
    if limit < 0 || project.is_empty() {
        return Ok(());
    }
    let link = format!("project:{project}");
    let store = &world.data.network;
    let used = match resource {
        "network" => store.networks.count(&link),
        "subnet" => store.subnets.count(&link),
        "port" => store.ports.count(&link),
        "router" => store.routers.count(&link),
        "floatingip" => store.floating_ips.count(&link),
        "security_group" => store.groups.count(&link),
        "security_group_rule" => store.rules.count(&link),
        _ => 0,
    };
    let fits = i64::try_from(used + more).is_ok_and(|wanted| wanted <= limit);
    if fits { Ok(()) } else { Err(Error::over_quota(resource)) }
}

pub(super) fn route(world: &mut World, caller: &Caller, method: &str, rest: &[&str], request: &Request) -> Result {
    let view = |set: Option<&BTreeMap<String, i64>>| -> Value {
        let limits = DEFAULTS
            .iter()
            .map(|(name, limit)| ((*name).to_owned(), json!(set.and_then(|set| set.get(*name)).unwrap_or(limit))));
        json!({"quota": limits.collect::<serde_json::Map<_, _>>()})
    };
    match (method, rest) {
        ("GET", [project] | [project, "default"]) => {
            if !super::owns(caller, project) {
                return Err(Error::policy("get_quota"));
            }
            let set = (rest.len() == 1).then(|| world.data.network.quotas.get(*project)).flatten();
            Ok(Reply::json(200, view(set)))
        }
        ("PUT", [project]) => {
            if !caller.manages_project(world, project) {
                return Err(Error::policy("update_quota"));
            }
            let body = request.json().ok_or_else(|| Error::bad("Body contains invalid data"))?;
            let wanted =
                body["quota"].as_object().ok_or_else(|| Error::bad("Unable to find 'quota' in request body"))?;
            let mut set = world.data.network.quotas.get(*project).cloned().unwrap_or_default();
            for (key, value) in wanted {
                if key == "tenant_id" || key == "project_id" {
                    continue;
                }
                if !DEFAULTS.iter().any(|(name, _)| name == key) {
                    return Err(Error::bad(format!("Unrecognized attribute(s) '{key}'")));
                }
                let number = value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
                let number = number.filter(|number| (-1..=i64::from(i32::MAX)).contains(number));
                let number = number
                    .ok_or_else(|| Error::invalid(key, format!("'{value}' is not an integer or out of range")))?;
                set.insert(key.clone(), number);
            }
            let reply = Reply::json(200, view(Some(&set)));
            world.data.network.quotas.insert((*project).to_owned(), set);
            Ok(reply)
        }
        ("DELETE", [project]) => {
            if !caller.manages_project(world, project) {
                return Err(Error::policy("delete_quota"));
            }
            world.data.network.quotas.remove(*project);
            Ok(Reply::empty(204))
        }
        _ => Err(Error::no_route()),
    }
}
