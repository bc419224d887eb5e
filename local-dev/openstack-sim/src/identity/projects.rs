//! Projects and domains.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Caller, Domain, Error, Project, Result, Target, list, name_link, new_id};
use crate::{
    wire::{Reply, Request},
    world::World,
};

pub(super) fn view(world: &World, row: &Project) -> Value {
    json!({
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id,
        "description": row.description,
        "enabled": row.enabled,
        "parent_id": row.domain_id,
        "is_domain": false,
        "tags": row.tags,
        "options": {},
        "links": {"self": format!("{}/identity/v3/projects/{}", world.url, row.id)},
    })
}

pub(super) fn domain_view(world: &World, row: &Domain) -> Value {
    json!({
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "enabled": row.enabled,
        "tags": [],
        "options": {},
        "links": {"self": format!("{}/identity/v3/domains/{}", world.url, row.id)},
    })
}

const FILTERS: &[&str] = &["name", "domain_id", "enabled", "parent_id", "is_domain"];

/// The projects a user holds a role on.
pub(super) fn of_user(world: &World, request: &Request, user: &str) -> Reply {
    let store = &world.data.identity;
    let ids: BTreeSet<&str> = store
        .grants
        .iter()
        .filter(|grant| grant.user == user)
        .filter_map(|grant| if let Target::Project(id) = &grant.target { Some(id.as_str()) } else { None })
        .collect();
    let rows = ids.into_iter().filter_map(|id| store.projects.get(id)).map(|row| view(world, row)).collect();
    list::page(world, request, "projects", FILTERS, rows)
}

/// The project, if the caller may do this to it. A caller whose right depends on the target is refused before it
/// learns that there is none.
fn permitted<'a>(world: &'a World, caller: &Caller, id: &str, role: &str, action: &str) -> Result<&'a Project> {
    match world.data.identity.projects.get(id) {
        Some(project) if caller.in_domain(role, &project.domain_id) => Ok(project),
        Some(project) if role == "reader" && caller.project() == Some(id) => Ok(project),
        None if caller.is_admin() => Err(Error::not_found("project", id)),
        _ => Err(Error::forbidden(action)),
    }
}

pub(super) fn route(world: &mut World, caller: &Caller, method: &str, path: &[&str], request: &Request) -> Result {
    match (method, path) {
        ("GET", ["domains"]) => {
            let rows = world.data.identity.domains.iter().filter(|row| caller.in_domain("reader", &row.id));
            let rows: Vec<Value> = rows.map(|row| domain_view(world, row)).collect();
            if rows.is_empty() {
                return Err(Error::forbidden("identity:list_domains"));
            }
            Ok(list::page(world, request, "domains", &["name", "enabled"], rows))
        }
        ("GET", ["domains", id]) => {
            let own = caller
                .project()
                .and_then(|id| world.data.identity.projects.get(id))
                .is_some_and(|p| p.domain_id == *id);
            match world.data.identity.domains.get(id) {
                Some(row) if own || caller.in_domain("reader", id) => {
                    Ok(Reply::json(200, json!({"domain": domain_view(world, row)})))
                }
                None if caller.is_admin() => Err(Error::not_found("domain", id)),
                _ => Err(Error::forbidden("identity:get_domain")),
            }
        }
        ("POST", ["domains"]) => create_domain(world, caller, request),
        ("GET", ["projects"]) => {
            let allowed = |project: &Project| caller.in_domain("reader", &project.domain_id);
            if !caller.reads_a_domain() {
                return Err(Error::forbidden("identity:list_projects"));
            }
            let rows =
                world.data.identity.projects.iter().filter(|row| allowed(row)).map(|row| view(world, row)).collect();
            Ok(list::page(world, request, "projects", FILTERS, rows))
        }
        ("POST", ["projects"]) => create(world, caller, request),
        ("GET", ["projects", id]) => {
            let project = permitted(world, caller, id, "reader", "identity:get_project")?;
            Ok(Reply::json(200, json!({"project": view(world, project)})))
        }
        ("PATCH", ["projects", id]) => update(world, caller, id, request),
        ("DELETE", ["projects", id]) => {
            permitted(world, caller, id, "manager", "identity:delete_project")?;
            delete(world, id);
            Ok(Reply::empty(204))
        }
        (_, ["projects", id, "tags", rest @ ..]) => tags(world, caller, method, id, rest, request),
        _ => Ok(super::unknown_route()),
    }
}

fn create_domain(world: &mut World, caller: &Caller, request: &Request) -> Result {
    if !caller.is_admin() {
        return Err(Error::forbidden("identity:create_domain"));
    }
    let body = list::body(request, "domain")?;
    let name = list::required(list::name(&body, "domain", 64)?, &body, "domain", "name")?;
    let store = &mut world.data.identity;
    if store.domains.count(&name_link("", &name)) > 0 {
        let message = format!("Conflict occurred attempting to store domain - Duplicate entry found with name {name}.");
        return Err(Error::new(409, message));
    }
    let description = list::text(&body, "description", "domain")?.unwrap_or_default();
    let row = Domain { id: new_id(), name, description, enabled: true };
    store.domains.insert(row.clone());
    Ok(Reply::json(201, json!({"domain": domain_view(world, &row)})))
}

fn read_tags(value: Option<&Value>) -> Result<Option<Vec<String>>> {
    let Some(value) = value else { return Ok(None) };
    let bad = || Error::invalid("tags", value, "tags must be unique strings of 1 to 255 characters without ',' or '/'");
    let tags: Vec<String> = serde_json::from_value(value.clone()).map_err(|_| bad())?;
    let unique: BTreeSet<&String> = tags.iter().collect();
    let good = |tag: &String| !tag.is_empty() && tag.chars().count() <= 255 && !tag.contains([',', '/']);
    if unique.len() != tags.len() || tags.len() > 80 || !tags.iter().all(good) {
        return Err(bad());
    }
    Ok(Some(tags))
}

fn create(world: &mut World, caller: &Caller, request: &Request) -> Result {
    let body = list::body(request, "project")?;
    let asked = list::text(&body, "domain_id", "project")?;
    // A domain's manager has to name the domain; for an administrator it is that of the token.
    let domain = asked.or_else(|| caller.own_domain(world)).unwrap_or_default();
    if !caller.in_domain("manager", &domain) {
        return Err(Error::forbidden("identity:create_project"));
    }
    let name = list::required(list::name(&body, "project", 64)?, &body, "project", "name")?;
    if !world.data.identity.domains.contains(&domain) {
        return Err(Error::not_found("domain", &domain));
    }
    unique(world, &domain, &name, None)?;
    let row = Project {
        id: new_id(),
        name,
        domain_id: domain,
        description: list::text(&body, "description", "project")?.unwrap_or_default(),
        enabled: list::flag(&body, "enabled")?.unwrap_or(true),
        tags: read_tags(body.get("tags"))?.unwrap_or_default(),
    };
    world.data.identity.projects.insert(row.clone());
    Ok(Reply::json(201, json!({"project": view(world, &row)})))
}

fn unique(world: &World, domain: &str, name: &str, except: Option<&str>) -> Result<()> {
    let mut others = world.data.identity.projects.linked(&name_link(domain, name));
    let Some(other) = others.find(|row| Some(row.id.as_str()) != except) else { return Ok(()) };
    let message = format!(
        "Conflict occurred attempting to store project - it is not permitted to have two projects with either the same name \
         or same id in the same domain: name is {name}, project id {}.",
        other.id
    );
    Err(Error::new(409, message))
}

fn update(world: &mut World, caller: &Caller, id: &str, request: &Request) -> Result {
    let project = permitted(world, caller, id, "manager", "identity:update_project")?;
    let domain = project.domain_id.clone();
    let body = list::body(request, "project")?;
    let name = list::name(&body, "project", 64)?;
    if let Some(name) = &name {
        unique(world, &domain, name, Some(id))?;
    }
    let description = list::text(&body, "description", "project")?;
    let enabled = list::flag(&body, "enabled")?;
    let tags = read_tags(body.get("tags"))?;
    let row = world.data.identity.projects.update(id, |row| {
        row.name = name.unwrap_or_else(|| row.name.clone());
        row.description = description.unwrap_or_else(|| row.description.clone());
        row.enabled = enabled.unwrap_or(row.enabled);
        row.tags = tags.unwrap_or_else(|| row.tags.clone());
        row.clone()
    });
    let row = row.ok_or_else(|| Error::not_found("project", id))?;
    Ok(Reply::json(200, json!({"project": view(world, &row)})))
}

/// Deletes a project with its grants. Application credentials for it stay with their users, worthless; tokens scoped to it
/// die by being judged; what other services keep in it stays behind. All as in a real cloud.
fn delete(world: &mut World, id: &str) {
    let store = &mut world.data.identity;
    store.projects.remove(id);
    store.grants.retain(|grant| grant.target != Target::Project(id.to_owned()));
}

fn tags(world: &mut World, caller: &Caller, method: &str, id: &str, rest: &[&str], request: &Request) -> Result {
    let read = matches!(method, "GET" | "HEAD");
    let (role, action) =
        if read { ("reader", "identity:get_project_tag") } else { ("manager", "identity:update_project_tags") };
    let have = permitted(world, caller, id, role, action)?.tags.clone();
    let missing = |tag: &str| Error::not_found("project tag", tag);
    match (method, rest) {
        ("GET", []) => Ok(Reply::json(200, json!({"tags": have, "links": {}}))),
        ("GET" | "HEAD", [tag]) if have.iter().any(|t| t == tag) => Ok(Reply::empty(204)),
        ("PUT", []) => {
            let body = request.json().ok_or_else(Error::malformed)?;
            let tags = read_tags(body.get("tags"))?.unwrap_or_default();
            world.data.identity.projects.update(id, |row| row.tags.clone_from(&tags));
            Ok(Reply::json(200, json!({"tags": tags, "links": {}})))
        }
        ("PUT", [tag]) => {
            let mut tags = have;
            if !tags.iter().any(|t| t == tag) {
                tags.push((*tag).to_owned());
            }
            let tags = read_tags(Some(&json!(tags)))?.unwrap_or_default();
            world.data.identity.projects.update(id, |row| row.tags = tags);
            Ok(Reply::empty(201))
        }
        ("DELETE", []) => {
            world.data.identity.projects.update(id, |row| row.tags.clear());
            Ok(Reply::empty(204))
        }
        ("DELETE", [tag]) if have.iter().any(|t| t == tag) => {
            world.data.identity.projects.update(id, |row| row.tags.retain(|t| t != tag));
            Ok(Reply::empty(204))
        }
        ("GET" | "HEAD" | "DELETE", [tag]) => Err(missing(tag)),
        _ => Ok(super::unknown_route()),
    }
}
