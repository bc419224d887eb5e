//! Server groups. Their names are not unique.

use serde_json::{Map, Value, json};

use super::{Context, Error, Group, Result, Version, new_id, quotas};
use crate::{wire::Reply, world::World};

pub(super) fn view(world: &World, row: &Group, version: Version) -> Value {
    let members: Vec<&str> =
        world.data.compute.servers.linked(&format!("group:{}", row.id)).map(|server| server.id.as_str()).collect();
    let mut view = json!({"id": row.id, "name": row.name, "members": members});
    if version >= Version(64) {
        view["policy"] = json!(row.policy);
        view["rules"] = json!(row.rules);
    } else {
        view["policies"] = json!([row.policy]);
        view["metadata"] = json!({});
    }
    if version >= Version(13) {
        view["project_id"] = json!(row.project_id);
        view["user_id"] = json!(row.user_id);
    }
    view
}

pub(super) fn route(world: &mut World, context: &Context, method: &str, rest: &[&str]) -> Result<Option<Reply>> {
    let version = context.version;
    let find = |world: &World, id: &str| {
        let row = world.data.compute.groups.get(id).filter(|row| context.owns(&row.project_id)).cloned();
        row.ok_or_else(|| Error::new(404, format!("Instance group {id} could not be found.")))
    };
    Ok(Some(match (method, rest) {
        ("GET", []) => {
            let all = context.request.param("all_projects").is_some() && context.caller.is_admin();
            let number = |name: &str| context.request.param(name).and_then(|value| value.parse::<usize>().ok());
            let rows: Vec<Value> = world
                .data
                .compute
                .groups
                .iter()
                .filter(|row| all || row.project_id == context.project())
                .skip(number("offset").unwrap_or(0))
                .take(number("limit").filter(|limit| *limit > 0).unwrap_or(world.config.page).min(world.config.page))
                .map(|row| view(world, row, version))
                .collect();
            Reply::json(200, json!({"server_groups": rows}))
        }
        ("POST", []) => create(world, context)?,
        ("GET", [id]) => Reply::json(200, json!({"server_group": view(world, &find(world, id)?, version)})),
        ("DELETE", [id]) => {
            context.must_be_member("os_compute_api:os-server-groups:delete")?;
            find(world, id)?;
            world.data.compute.groups.remove(id);
            let members: Vec<String> =
                world.data.compute.servers.linked(&format!("group:{id}")).map(|server| server.id.clone()).collect();
            for member in members {
                world.data.compute.servers.update(&member, |server| server.group = None);
            }
            Reply::empty(204)
        }
        _ => return Ok(None),
    }))
}

fn create(world: &mut World, context: &Context) -> Result {
    context.must_be_member("os_compute_api:os-server-groups:create")?;
    let version = context.version;
    let body = context.object("server_group")?;
    let modern = version >= Version(64);
    let allowed: &[&str] = if modern { &["name", "policy", "rules"] } else { &["name", "policies"] };
    if let Some(unknown) = body.keys().find(|key| !allowed.contains(&key.as_str())) {
        let problem = format!("Additional properties are not allowed ('{unknown}' was unexpected)");
        return Err(Error::invalid("server_group", &json!(body), &problem));
    }
    let name = body.get("name").and_then(Value::as_str).filter(|name| (1..=255).contains(&name.chars().count()));
    let name = name.ok_or_else(|| Error::invalid("server_group", &json!(body), "'name' is a required property"))?;
    let policy = if modern { body.get("policy") } else { body.get("policies").and_then(|list| list.get(0)) };
    let policy = policy.and_then(Value::as_str).unwrap_or_default();
    let known: &[&str] = if version >= Version(15) {
        &["anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"]
    } else {
        &["anti-affinity", "affinity"]
    };
    if !known.contains(&policy) {
        let problem = format!("'{policy}' is not one of {known:?}").replace('"', "'");
        return Err(Error::invalid("policy", &json!(policy), &problem));
    }
    let rules = body.get("rules").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    let used = world.data.compute.groups.count(&format!("project:{}", context.project()));
    if quotas::is_over(world, context.project(), "server_groups", used, 1) {
        return Err(Error::new(403, "Quota exceeded, too many server groups."));
    }
    let row = Group {
        id: new_id(),
        name: name.to_owned(),
        policy: policy.to_owned(),
        rules,
        project_id: context.project().to_owned(),
        user_id: context.caller.user.clone(),
    };
    world.data.compute.groups.insert(row.clone());
    Ok(Reply::json(200, json!({"server_group": view(world, &row, version)})))
}
