//! Listing, showing, changing and deleting servers.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};

use super::{
    Context, Error, Result, Server, Version, create,
    lifecycle::{Kind, Outcome, begin},
    view,
};
use crate::{wire::Reply, world::World};

pub(super) fn find<'a>(world: &'a World, context: &Context, id: &str) -> Result<&'a Server> {
    let server = world.data.compute.servers.get(id).filter(|server| context.owns(&server.project_id));
    server.ok_or_else(|| Error::not_found("Instance", id))
}

/// Cuts a list to a page, and says where the next one is. Nova says so whenever a page is full, even the last.
pub(super) fn page(world: &World, context: &Context, key: &str, rows: Vec<(&str, Value)>) -> Result {
    let request = context.request;
    let largest = world.config.page;
    let limit = match request.param("limit") {
        None => largest,
        Some(text) => match text.parse::<usize>() {
            Ok(limit) => limit.min(largest),
            Err(_) => {
                return Err(Error::bad(format!(
                    "Invalid input for query parameters limit. Value: {text}. '{text}' does not match '^[0-9]*$'"
                )));
            }
        },
    };
    let start = match request.param("marker") {
        None => 0,
        Some(marker) => match rows.iter().position(|(id, _)| *id == marker) {
            Some(at) => at + 1,
            None => return Err(Error::bad(format!("marker [{marker}] not found"))),
        },
    };
    let mut last = None;
    let rows: Vec<Value> = rows
        .into_iter()
        .skip(start)
        .take(limit)
        .map(|(id, row)| {
            last = Some(id.to_owned());
            row
        })
        .collect();
    let mut body = json!({key: rows});
    if let Some(last) = last.filter(|_| rows.len() == limit) {
        let wanted = request.param("limit").and_then(|text| text.parse().ok()).unwrap_or(limit);
        let query = if request.param("limit").is_some() {
            request.query_for_page(wanted, &last, false)
        } else {
            // Without a limit of its own the link names none either.
            let kept = request.query.iter().filter(|(key, _)| key != "marker");
            let kept = kept.map(|(key, value)| (key.as_str(), value.as_str()));
            crate::wire::form(kept.chain([("marker", last.as_str())]))
        };
        body[format!("{key}_links")] =
            json!([{"rel": "next", "href": format!("{}{}?{query}", world.url, request.path)}]);
    }
    Ok(Reply::json(200, body))
}

pub(super) fn route(world: &mut World, context: &Context, method: &str, rest: &[&str]) -> Result<Option<Reply>> {
    Ok(Some(match (method, rest) {
        ("GET", []) => list(world, context, false)?,
        ("GET", ["detail"]) => list(world, context, true)?,
        ("POST", []) => create::create(world, context)?,
        ("GET", [id]) => {
            let server = find(world, context, id)?;
            Reply::json(200, json!({"server": view::detail(world, server, context.version, context.caller.is_admin())}))
        }
        ("PUT", [id]) => update(world, context, id)?,
        ("DELETE", [id]) => {
            let server = find(world, context, id)?;
            let deleting = matches!(&server.operation, Some(operation) if operation.kind == Kind::Delete);
            context.must_be_member("os_compute_api:servers:delete")?;
            if !deleting {
                begin(world, id, Kind::Delete, Outcome::Well);
            }
            Reply::empty(204)
        }
        ("GET", [id, "metadata"]) => Reply::json(200, json!({"metadata": find(world, context, id)?.metadata})),
        ("PUT" | "POST", [id, "metadata"]) => {
            let mut metadata =
                if method == "POST" { find(world, context, id)?.metadata.clone() } else { BTreeMap::new() };
            find(world, context, id)?;
            context.must_be_member("os_compute_api:server-metadata:update_all")?;
            metadata.extend(create::metadata(&context.object("metadata")?)?);
            super::quotas::check_metadata(world, context.project(), metadata.len())?;
            world.data.compute.servers.update(id, |server| server.metadata.clone_from(&metadata));
            Reply::json(200, json!({"metadata": metadata}))
        }
        ("DELETE", [id, "metadata", key]) => {
            let server = find(world, context, id)?;
            context.must_be_member("os_compute_api:server-metadata:delete")?;
            if !server.metadata.contains_key(*key) {
                return Err(Error::new(404, "Metadata item was not found"));
            }
            world.data.compute.servers.update(id, |server| server.metadata.remove(*key));
            Reply::empty(204)
        }
        ("GET", [id, "os-interface"]) => Reply::json(200, interfaces(world, find(world, context, id)?)),
        ("GET", [id, "os-security-groups"]) => {
            let groups = view::detail(world, find(world, context, id)?, context.version, false);
            Reply::json(200, json!({"security_groups": groups["security_groups"]}))
        }
        ("GET", [id, "os-volume_attachments"]) => {
            find(world, context, id)?;
            Reply::json(200, json!({"volumeAttachments": []}))
        }
        _ => return Ok(None),
    }))
}

fn interfaces(world: &World, server: &Server) -> Value {
    let ports = server.nics.iter().filter_map(|nic| world.data.network.ports.get(&nic.port));
    let rows: Vec<Value> = ports
        .map(|port| {
            json!({
                "port_id": port.base.id,
                "net_id": port.network_id,
                "mac_addr": port.mac_address,
                "port_state": if port.active { "ACTIVE" } else { "DOWN" },
                "fixed_ips": port.fixed_ips,
            })
        })
        .collect();
    json!({"interfaceAttachments": rows})
}

const FILTERS: [&str; 26] = [
    "name",
    "status",
    "image",
    "flavor",
    "host",
    "project_id",
    "tenant_id",
    "user_id",
    "uuid",
    "key_name",
    "all_tenants",
    "limit",
    "marker",
    "sort_key",
    "sort_dir",
    "deleted",
    "changes-since",
    "changes-before",
    "ip",
    "ip6",
    "locked",
    "tags",
    "tags-any",
    "not-tags",
    "vm_state",
    "task_state",
];

const SORT_KEYS: [&str; 8] =
    ["created_at", "updated_at", "display_name", "uuid", "vm_state", "task_state", "launched_at", "image_ref"];

const STATUSES: [&str; 21] = [
    "ACTIVE",
    "BUILD",
    "DELETED",
    "ERROR",
    "HARD_REBOOT",
    "MIGRATING",
    "PASSWORD",
    "PAUSED",
    "REBOOT",
    "REBUILD",
    "RESCUE",
    "RESIZE",
    "REVERT_RESIZE",
    "SHELVED",
    "SHELVED_OFFLOADED",
    "SHUTOFF",
    "SOFT_DELETED",
    "SUSPENDED",
    "UNKNOWN",
    "VERIFY_RESIZE",
    "STOPPED",
];

/// The name filter: an unanchored regular expression. The database compares without case and takes `|` for itself;
/// servers the scheduler still has are compared in Nova, with case.
struct NameFilter {
    stored: Regex,
    building: Regex,
}

impl NameFilter {
    fn new(pattern: &str) -> Result<Self> {
        let bad = || Error::query("name", pattern, "regex");
        if pattern.is_empty() {
            return Err(bad());
        }
        let build = |pattern: &str, any_case: bool| {
            RegexBuilder::new(pattern).case_insensitive(any_case).size_limit(1 << 20).build().map_err(|_| bad())
        };
        Ok(Self { building: build(pattern, false)?, stored: build(&pattern.replace('|', "\\|"), true)? })
    }

    fn matches(&self, server: &Server) -> bool {
        if server.is_build_request() {
            self.building.is_match(&server.name)
        } else {
            self.stored.is_match(&server.name)
        }
    }
}

fn list(world: &World, context: &Context, detail: bool) -> Result {
    let request = context.request;
    if context.version >= Version(75)
        && let Some((unknown, _)) =
            request.query.iter().find(|(key, _)| !FILTERS.contains(&key.as_str()) && !key.starts_with('_'))
    {
        return Err(Error::bad(format!("'{unknown}' does not match any of the regexes: '^_'")));
    }
    if let Some(key) = request.params("sort_key").find(|key| !SORT_KEYS.contains(key)) {
        let known = format!("{SORT_KEYS:?}").replace('"', "'");
        return Err(Error::bad(format!(
            "Invalid input for query parameters sort_key. Value: {key}. '{key}' is not one of {known}"
        )));
    }
    let flags = ["0", "1", "f", "false", "n", "no", "off", "on", "t", "true", "y", "yes"];
    if let Some(odd) = request
        .param("all_tenants")
        .filter(|value| !value.is_empty() && !flags.contains(&value.to_lowercase().as_str()))
    {
        let known = format!("{flags:?}").replace('"', "'");
        let known = known.trim_matches(['[', ']']);
        return Err(Error::bad(format!("Unrecognized value '{odd}', acceptable values are: {known}")));
    }
    if request.param("sort_dir").is_some_and(|dir| dir != "asc" && dir != "desc") {
        return Err(Error::bad("Invalid input received: Unknown sort direction, must be 'desc' or 'asc'"));
    }
    let all = request
        .param("all_tenants")
        .is_some_and(|value| !matches!(value.to_lowercase().as_str(), "0" | "f" | "false" | "n" | "no" | "off"));
    if all && !context.caller.is_admin() {
        return Err(Error::policy("os_compute_api:servers:index:get_all_tenants"));
    }
    let name = request.params("name").last().map(NameFilter::new).transpose()?;
    let store = &world.data.compute.servers;
    let link = format!("project:{}", context.project());
    let every = all.then(|| store.iter().rev());
    let mine = (!all).then(|| store.linked(&link).rev());
    let now = world.clock.now();
    let statuses: Vec<String> = request.params("status").map(str::to_uppercase).collect();
    if context.version >= Version(38) && statuses.iter().any(|status| !STATUSES.contains(&status.as_str())) {
        return Err(Error::bad("Invalid status value"));
    }
    let wanted = |server: &&Server| {
        let is = |key: &str, have: &str| request.param(key).is_none_or(|wanted| wanted == have);
        // A deleted server is shown for a moment by its id, but in no list.
        server.status() != "DELETED"
            && name.as_ref().is_none_or(|name| name.matches(server))
            && (statuses.is_empty() || statuses.iter().any(|status| status == server.status()))
            && is("image", &server.image)
            && is("flavor", &server.flavor.id)
            && is("uuid", &server.id)
            && request.param("key_name").is_none_or(|wanted| server.key_name.as_deref() == Some(wanted))
            && request
                .param("tags")
                .is_none_or(|tags| tags.split(',').all(|tag| server.tags.iter().any(|have| have == tag)))
            && request.param("task_state").is_none_or(|wanted| server.task(now) == Some(wanted))
            && (!context.caller.is_admin()
                || (request.param("host").is_none_or(|wanted| server.host.as_deref() == Some(wanted))
                    && is("project_id", &server.project_id)
                    && is("tenant_id", &server.project_id)))
    };
    let mut servers: Vec<&Server> =
        every.into_iter().flatten().chain(mine.into_iter().flatten()).filter(wanted).collect();
    let descending = request.param("sort_dir").is_none_or(|dir| dir == "desc");
    match request.param("sort_key") {
        None | Some("created_at") if descending => {}
        None | Some("created_at") => servers.reverse(),
        Some(key) => {
            servers.sort_by_key(|server| match key {
                "display_name" => server.name.clone(),
                "image_ref" => server.image.clone(),
                "updated_at" => server.updated.to_string(),
                "launched_at" => server.launched.map(|at| at.to_string()).unwrap_or_default(),
                _ => server.id.clone(),
            });
            if descending {
                servers.reverse();
            }
        }
    }
    // Only what is shown is turned into JSON: a project may have thousands.
    let limit = request.param("limit").and_then(|limit| limit.parse().ok()).unwrap_or(world.config.page);
    let from =
        request.param("marker").and_then(|marker| servers.iter().position(|server| server.id == marker)).unwrap_or(0);
    let shown = from..from.saturating_add(limit.min(world.config.page)).saturating_add(1);
    let rows = servers
        .iter()
        .enumerate()
        .map(|(index, server)| {
            let view = match (shown.contains(&index), detail) {
                (false, _) => Value::Null,
                (true, false) => view::brief(world, server),
                (true, true) => without_groups(view::detail(world, server, context.version, context.caller.is_admin())),
            };
            (server.id.as_str(), view)
        })
        .collect();
    page(world, context, "servers", rows)
}

/// Lists do not show a server's group.
fn without_groups(mut view: Value) -> Value {
    if let Value::Object(map) = &mut view {
        map.remove("server_groups");
    }
    view
}

fn update(world: &mut World, context: &Context, id: &str) -> Result {
    find(world, context, id)?;
    context.must_be_member("os_compute_api:servers:update")?;
    let body: Map<String, Value> = context.object("server")?;
    let name = body.get("name").map(create::server_name).transpose()?;
    let now = world.clock.now();
    world.data.compute.servers.update(id, |server| {
        server.name = name.unwrap_or_else(|| server.name.clone());
        if let Some(description) = body.get("description").filter(|_| context.version >= Version(19)) {
            server.description = description.as_str().map(str::to_owned);
        }
        server.updated = now;
    });
    let server = find(world, context, id)?;
    let view = without_groups(view::detail(world, server, context.version, context.caller.is_admin()));
    Ok(Reply::json(200, json!({"server": view})))
}
