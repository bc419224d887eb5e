//! Quota sets, limits and their enforcement.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Context, Error, Flavor, Result, Version};
use crate::{wire::Reply, world::World};

/// Name, default, and the first version that has it no more.
const DEFAULTS: [(&str, i64, u32); 14] = [
    ("instances", 10, u32::MAX),
    ("cores", 20, u32::MAX),
    ("ram", 51200, u32::MAX),
    ("metadata_items", 128, u32::MAX),
    ("key_pairs", 100, u32::MAX),
    ("server_groups", 10, u32::MAX),
    ("server_group_members", 10, u32::MAX),
    ("injected_files", 5, 57),
    ("injected_file_content_bytes", 10240, 57),
    ("injected_file_path_bytes", 255, 57),
    ("fixed_ips", -1, 36),
    ("floating_ips", -1, 36),
    ("security_groups", -1, 36),
    ("security_group_rules", -1, 36),
];

fn limit(world: &World, project: &str, resource: &str) -> i64 {
    let set = world.data.compute.quotas.get(project).and_then(|set| set.get(resource)).copied();
    set.or_else(|| DEFAULTS.iter().find(|row| row.0 == resource).map(|row| row.1)).unwrap_or(-1)
}

/// Whether so many more would be too many.
pub(super) fn is_over(world: &World, project: &str, resource: &str, used: usize, more: usize) -> bool {
    let limit = limit(world, project, resource);
    limit >= 0 && i64::try_from(used + more).is_ok_and(|wanted| wanted > limit)
}

struct Usage {
    instances: u64,
    cores: u64,
    ram: u64,
}

fn usage(world: &World, project: &str) -> Usage {
    let mut usage = Usage { instances: 0, cores: 0, ram: 0 };
    for server in world.data.compute.servers.linked(&format!("project:{project}")) {
        usage.instances += 1;
        usage.cores += server.flavor.vcpus;
        usage.ram += server.flavor.ram;
    }
    usage
}

/// Refuses one more server when the project has no room for it.
pub(super) fn check_server(world: &World, project: &str, flavor: &Flavor) -> Result<()> {
    let resources = ["instances", "cores", "ram"];
    if resources.iter().all(|resource| limit(world, project, resource) < 0) {
        return Ok(());
    }
    let usage = usage(world, project);
    let wanted =
        [("cores", flavor.vcpus, usage.cores), ("instances", 1, usage.instances), ("ram", flavor.ram, usage.ram)];
    let over: Vec<(&str, u64, u64, i64)> = wanted
        .into_iter()
        .map(|(name, more, used)| (name, more, used, limit(world, project, name)))
        .filter(|(_, more, used, limit)| *limit >= 0 && i64::try_from(used + more).is_ok_and(|wanted| wanted > *limit))
        .collect();
    if over.is_empty() {
        return Ok(());
    }

    let names = join(over.iter().map(|row| row.0));
    let message = format!(
        "Quota exceeded for {names}: Requested {}, but already used {} of {} {names}",
        join(over.iter().map(|row| row.1)),
        join(over.iter().map(|row| row.2)),
        join(over.iter().map(|row| row.3)),
    );
    Err(Error::new(403, message))
}

fn join(items: impl Iterator<Item = impl ToString>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

fn view(set: Option<&BTreeMap<String, i64>>, version: Version, id: Option<&str>) -> Value {
    let mut map: Map<String, Value> = DEFAULTS
        .iter()
        .filter(|row| version < Version(row.2))
        .map(|(name, default, _)| ((*name).to_owned(), json!(set.and_then(|set| set.get(*name)).unwrap_or(default))))
        .collect();
    if let Some(id) = id {
        map.insert("id".to_owned(), json!(id));
    }
    json!({"quota_set": map})
}

pub(super) fn route(world: &mut World, context: &Context, method: &str, rest: &[&str]) -> Result<Option<Reply>> {
    let version = context.version;
    Ok(Some(match (method, rest) {
        ("GET", [project] | [project, "defaults" | "detail"]) => {
            if !context.owns(project) {
                return Err(Error::policy("os_compute_api:os-quota-sets:show"));
            }
            let set = world.data.compute.quotas.get(*project).filter(|_| rest.get(1) != Some(&"defaults"));
            let mut view = view(set, version, Some(project));
            if rest.get(1) == Some(&"detail") {
                let usage = usage(world, project);
                if let Some(map) = view["quota_set"].as_object_mut() {
                    for (name, value) in map.iter_mut().filter(|(name, _)| *name != "id") {
                        let used = match name.as_str() {
                            "instances" => usage.instances,
                            "cores" => usage.cores,
                            "ram" => usage.ram,
                            _ => 0,
                        };
                        *value = json!({"limit": value, "in_use": used, "reserved": 0});
                    }
                }
            }
            Reply::json(200, view)
        }
        ("PUT", [project]) => {
            if !context.caller.manages_project(world, project) {
                return Err(Error::policy("os_compute_api:os-quota-sets:update"));
            }
            if !world.data.identity.projects.contains(project) {
                return Err(Error::bad(format!("Project ID {project} is not a valid project.")));
            }
            update(world, context, project)?
        }
        ("DELETE", [project]) => {
            if !context.caller.manages_project(world, project) {
                return Err(Error::policy("os_compute_api:os-quota-sets:delete"));
            }
            world.data.compute.quotas.remove(*project);
            Reply::empty(202)
        }
        _ => return Ok(None),
    }))
}

fn update(world: &mut World, context: &Context, project: &str) -> Result {
    let version = context.version;
    let body = context.object("quota_set")?;
    let force = body.get("force").is_some_and(|force| force == true || force == "True" || force == "true");
    let usage = usage(world, project);
    let mut set = world.data.compute.quotas.get(project).cloned().unwrap_or_default();
    for (key, value) in &body {
        if key == "force" || key == "tenant_id" {
            continue;
        }
        if !DEFAULTS.iter().any(|row| row.0 == key && version < Version(row.2)) {
            let problem = format!("Additional properties are not allowed ('{key}' was unexpected)");
            return Err(Error::invalid("quota_set", &json!(body), &problem));
        }
        let number = value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
        let number = number.filter(|number| (-1..=0x7FFF_FFFF).contains(number));
        let number =
            number.ok_or_else(|| Error::invalid(key, value, &format!("{value} is less than the minimum of -1")))?;
        let used = match key.as_str() {
            "instances" => usage.instances,
            "cores" => usage.cores,
            "ram" => usage.ram,
            _ => 0,
        };
        if !force && number >= 0 && i64::try_from(used).is_ok_and(|used| number < used) {
            return Err(Error::bad(format!(
                "Quota limit {number} for {key} must be greater than or equal to already used and reserved {used}."
            )));
        }
        set.insert(key.clone(), number);
    }
    let reply = Reply::json(200, view(Some(&set), version, None));
    world.data.compute.quotas.insert(project.to_owned(), set);
    Ok(reply)
}

pub(super) fn limits(world: &World, context: &Context) -> Reply {
    let project = context.project();
    let usage = usage(world, project);
    Reply::json(
        200,
        json!({"limits": {"rate": [], "absolute": {
            "maxTotalInstances": limit(world, project, "instances"),
            "maxTotalCores": limit(world, project, "cores"),
            "maxTotalRAMSize": limit(world, project, "ram"),
            "maxTotalKeypairs": limit(world, project, "key_pairs"),
            "maxServerMeta": limit(world, project, "metadata_items"),
            "maxServerGroups": limit(world, project, "server_groups"),
            "maxServerGroupMembers": limit(world, project, "server_group_members"),
            "totalInstancesUsed": usage.instances,
            "totalCoresUsed": usage.cores,
            "totalRAMUsed": usage.ram,
            "totalServerGroupsUsed": world.data.compute.groups.count(&format!("project:{project}")),
        }}}),
    )
}

/// How many metadata items a server may have.
pub(super) fn check_metadata(world: &World, project: &str, items: usize) -> Result<()> {
    if is_over(world, project, "metadata_items", 0, items) {
        let limit = limit(world, project, "metadata_items");
        return Err(Error::new(403, format!("Maximum number of metadata items exceeds {limit}")));
    }
    Ok(())
}
