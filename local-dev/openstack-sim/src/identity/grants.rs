//! Roles and who holds them on what.

use serde_json::{Value, json};

use super::{Caller, Error, Grant, Result, Role, Target, auth, list, name_link, new_id};
use crate::{
    config,
    wire::{Reply, Request},
    world::World,
};

fn role_view(world: &World, row: &Role) -> Value {
    json!({
        "id": row.id,
        "name": row.name,
        "domain_id": null,
        "description": null,
        "options": {},
        "links": {"self": format!("{}/identity/v3/roles/{}", world.url, row.id)},
    })
}

/// One entry of `GET /role_assignments`.
pub(super) fn view(world: &World, grant: &Grant, names: bool) -> Value {
    let store = &world.data.identity;
    let mut user = json!({"id": grant.user});
    let mut role = json!({"id": grant.role});
    let domain = |id: &str| json!({"id": id, "name": store.domains.get(id).map(|row| row.name.as_str())});
    if names {
        if let Some(row) = store.users.get(&grant.user) {
            user["name"] = json!(row.name);
            user["domain"] = domain(&row.domain_id);
        }
        role["name"] = json!(store.roles.get(&grant.role).map(|row| row.name.as_str()));
    }
    let scope = match &grant.target {
        Target::Project(id) => match store.projects.get(id).filter(|_| names) {
            Some(row) => json!({"project": {"id": id, "name": row.name, "domain": domain(&row.domain_id)}}),
            None => json!({"project": {"id": id}}),
        },
        Target::Domain(id) if names => json!({"domain": domain(id)}),
        Target::Domain(id) => json!({"domain": {"id": id}}),
        Target::System => json!({"system": {"all": true}}),
    };
    json!({"user": user, "role": role, "scope": scope, "links": {}})
}

/// `/roles`.
pub(super) fn roles(world: &mut World, caller: &Caller, method: &str, path: &[&str], request: &Request) -> Result {
    let may_read = caller.is_admin() || (caller.domain().is_some() && caller.has("manager"));
    let store = &world.data.identity;
    match (method, path) {
        ("GET", ["roles"]) if may_read => {
            let rows = store.roles.iter().map(|row| role_view(world, row)).collect();
            Ok(list::page(world, request, "roles", &["name"], rows))
        }
        ("GET", ["roles"]) => Err(Error::forbidden("identity:list_roles")),
        ("GET", ["roles", id]) if may_read => match store.roles.get(id) {
            Some(row) => Ok(Reply::json(200, json!({"role": role_view(world, row)}))),
            None => Err(Error::not_found("role", id)),
        },
        ("GET", ["roles", _]) => Err(Error::forbidden("identity:get_role")),
        ("POST", ["roles"]) if caller.is_admin() => {
            let body = list::body(request, "role")?;
            let name = list::required(list::name(&body, "role", 255)?, &body, "role", "name")?;
            if store.roles.count(&name_link("", &name)) > 0 {
                let message =
                    format!("Conflict occurred attempting to store role - Duplicate entry found with name {name}.");
                return Err(Error::new(409, message));
            }
            let row = Role { id: new_id(), name };
            world.data.identity.roles.insert(row.clone());
            Ok(Reply::json(201, json!({"role": role_view(world, &row)})))
        }
        ("POST", ["roles"]) => Err(Error::forbidden("identity:create_role")),
        ("DELETE", ["roles", id]) if caller.is_admin() => {
            if world.data.identity.roles.remove(id).is_none() {
                return Err(Error::not_found("role", id));
            }
            world.data.identity.grants.retain(|grant| grant.role != *id);
            Ok(Reply::empty(204))
        }
        ("DELETE", ["roles", _]) => Err(Error::forbidden("identity:delete_role")),
        _ => Ok(super::unknown_route()),
    }
}

/// `/projects/{p}/users/{u}/roles…`, `/domains/{d}/users/{u}/roles…` and `/role_assignments`.
pub(super) fn route(world: &mut World, caller: &Caller, method: &str, path: &[&str], request: &Request) -> Result {
    match (method, path) {
        ("GET", ["role_assignments"]) => assignments(world, caller, request),
        ("GET", [kind, target, "users", user, "roles"]) => {
            let (target, domain) = find_target(world, kind, target)?;
            permitted(world, caller, "reader", &domain, user, "identity:list_grants")?;
            let store = &world.data.identity;
            let held = store.grants.iter().filter(|grant| grant.user == *user && grant.target == target);
            let rows = held.filter_map(|grant| store.roles.get(&grant.role)).map(|row| role_view(world, row)).collect();
            Ok(list::page(world, request, "roles", &["name"], rows))
        }
        (_, [kind, target, "users", user, "roles", role]) => one(world, caller, method, (kind, target), user, role),
        _ => Ok(super::unknown_route()),
    }
}

fn find_target(world: &World, kind: &str, id: &str) -> Result<(Target, String)> {
    let store = &world.data.identity;
    if kind == "projects" {
        let row = store.projects.get(id).ok_or_else(|| Error::not_found("project", id))?;
        return Ok((Target::Project(id.to_owned()), row.domain_id.clone()));
    }
    let row = store.domains.get(id).ok_or_else(|| Error::not_found("domain", id))?;
    Ok((Target::Domain(id.to_owned()), row.id.clone()))
}

/// Both the user and what the role is on have to be in the caller's domain.
fn permitted(world: &World, caller: &Caller, role: &str, domain: &str, user: &str, action: &str) -> Result<()> {
    let users_domain = world.data.identity.users.get(user).map(|row| row.domain_id.as_str());
    if caller.is_admin() || (caller.in_domain(role, domain) && users_domain.is_none_or(|d| caller.in_domain(role, d))) {
        return Ok(());
    }
    Err(Error::forbidden(action))
}

fn one(world: &mut World, caller: &Caller, method: &str, on: (&str, &str), user: &str, role: &str) -> Result {
    let (target, domain) = find_target(world, on.0, on.1)?;
    let known = world.data.identity.users.contains(user);
    if method == "DELETE" && !known && !caller.is_admin() {
        return Err(Error::forbidden("identity:revoke_grant"));
    }
    if method != "DELETE" && !known {
        return Err(Error::not_found("user", user));
    }
    let (needs, action) = match method {
        "GET" | "HEAD" => ("reader", "identity:check_grant"),
        "PUT" => ("manager", "identity:create_grant"),
        "DELETE" => ("manager", "identity:revoke_grant"),
        _ => return Ok(super::unknown_route()),
    };
    permitted(world, caller, needs, &domain, user, action)?;
    let name = world.data.identity.roles.get(role).map(|row| row.name.clone());
    if name.is_none() {
        return Err(Error::not_found("role", role));
    }
    // A domain's manager hands out these and no others.
    let grantable = |name: &str| {
        matches!(name, "manager" | "member" | "reader")
            || (world.config.product_policy && caller.has(config::REGION_ROLE) && name == "load-balancer_member")
    };
    if needs == "manager" && !caller.is_admin() && !name.as_deref().is_some_and(grantable) {
        return Err(Error::forbidden(action));
    }
    let grant = Grant { user: user.to_owned(), target, role: role.to_owned() };
    let store = &mut world.data.identity;
    let missing = || {
        Error::new(
            404,
            format!(
                "Could not find role assignment with role: {role}, user or group: {user}, project, domain, or system: {}.",
                on.1
            ),
        )
    };
    match method {
        "PUT" => {
            store.grants.insert(grant);
        }
        "DELETE" => {
            if !store.grants.remove(&grant) {
                return Err(missing());
            }
        }
        _ if store.grants.contains(&grant) => {}
        _ => return Err(missing()),
    }
    Ok(Reply::empty(204))
}

fn assignments(world: &World, caller: &Caller, request: &Request) -> Result {
    if !caller.reads_a_domain() {
        return Err(Error::forbidden("identity:list_role_assignments"));
    }
    let store = &world.data.identity;
    let flag = |name: &str| request.param(name).is_some_and(|value| !matches!(value, "0" | "False" | "false"));
    let domain_of = |target: &Target| match target {
        Target::Project(id) => store.projects.get(id).map(|row| row.domain_id.clone()),
        Target::Domain(id) => Some(id.clone()),
        Target::System => None,
    };
    let wanted = |grant: &&Grant| {
        let (project, domain) = match &grant.target {
            Target::Project(id) => (Some(id.as_str()), None),
            Target::Domain(id) => (None, Some(id.as_str())),
            Target::System => (None, None),
        };
        (caller.is_admin() || domain_of(&grant.target).as_deref() == caller.domain())
            && request.param("user.id").is_none_or(|id| id == grant.user)
            && request.param("scope.project.id").is_none_or(|id| Some(id) == project)
            && request.param("scope.domain.id").is_none_or(|id| Some(id) == domain)
    };
    let mut rows = Vec::new();
    for grant in store.grants.iter().filter(wanted) {
        let roles = if flag("effective") {
            auth::expand(world, std::iter::once(grant.role.clone()))
        } else {
            std::iter::once(grant.role.clone()).collect()
        };
        for role in roles.into_iter().filter(|role| request.param("role.id").is_none_or(|id| id == role)) {
            rows.push(view(world, &Grant { role, ..grant.clone() }, flag("include_names")));
        }
    }
    Ok(list::page(world, request, "role_assignments", &[], rows))
}
