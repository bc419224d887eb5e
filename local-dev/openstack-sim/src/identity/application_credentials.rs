//! Application credentials: made by a user for itself, in the project it is scoped to.

use base64::Engine;
use rand::RngCore;
use serde_json::{Value, json};

use super::{ApplicationCredential, Caller, Error, Result, Target, auth, hash, list, name_link, new_id};
use crate::{
    wire::{Reply, Request},
    world::World,
};

pub(super) fn view(world: &World, row: &ApplicationCredential) -> Value {
    let store = &world.data.identity;
    let roles: Vec<Value> = row
        .roles
        .iter()
        .filter_map(|id| store.roles.get(id))
        .map(|role| json!({"id": role.id, "name": role.name, "domain_id": null}))
        .collect();
    json!({
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "user_id": row.user_id,
        "project_id": row.project_id,
        "roles": roles,
        "expires_at": row.expires_at,
        "unrestricted": row.unrestricted,
        "system": null,
        "links": {
            "self": format!("{}/identity/v3/users/{}/application_credentials/{}", world.url, row.user_id, row.id)
        },
    })
}

pub(super) fn route(world: &mut World, caller: &Caller, method: &str, path: &[&str], request: &Request) -> Result {
    let ["users", user, "application_credentials", rest @ ..] = path else { return Ok(super::unknown_route()) };
    let action = match (method, rest) {
        ("GET", []) => "identity:list_application_credentials",
        ("POST", []) => "identity:create_application_credential",
        ("DELETE", [_]) => "identity:delete_application_credential",
        ("GET", [_]) => "identity:get_application_credential",
        _ => return Ok(super::unknown_route()),
    };
    // An administrator may look and delete; only the user itself creates.
    if caller.user != *user && (method == "POST" || !caller.is_admin()) {
        return Err(Error::forbidden(action));
    }
    if method != "GET" && matches!(caller.application_credential, Some((_, false))) {
        let action =
            "Using method 'application_credential' is not allowed for managing additional application credentials.";
        return Err(Error::forbidden(action));
    }
    let find = |world: &World, id: &str| {
        let row = world.data.identity.app_credentials.get(id).filter(|row| row.user_id == *user).cloned();
        row.ok_or_else(|| Error::not_found("Application Credential", id))
    };
    match (method, rest) {
        ("GET", []) => {
            let rows = world.data.identity.app_credentials.linked(&format!("user:{user}"));
            let rows = rows.map(|row| view(world, row)).collect();
            Ok(list::page(world, request, "application_credentials", &["name"], rows))
        }
        ("POST", []) => create(world, caller, request),
        ("DELETE", [id]) => {
            find(world, id)?;
            world.data.identity.app_credentials.remove(id);
            Ok(Reply::empty(204))
        }
        (_, [id]) => Ok(Reply::json(200, json!({"application_credential": view(world, &find(world, id)?)}))),
        _ => Ok(super::unknown_route()),
    }
}

fn create(world: &mut World, caller: &Caller, request: &Request) -> Result {
    let body = list::body(request, "application_credential")?;
    let name =
        list::required(list::name(&body, "application_credential", 255)?, &body, "application_credential", "name")?;
    let Some(project) = caller.project().map(str::to_owned) else {
        return Err(Error::new(400, "Invalid application credential: the token is not scoped to a project."));
    };
    let store = &world.data.identity;
    let held = auth::effective(world, &caller.user, &Target::Project(project.clone()));
    let mut roles = Vec::new();
    match body.get("roles").and_then(Value::as_array) {
        Some(asked) if !asked.is_empty() => {
            for role in asked {
                let found = match (role["id"].as_str(), role["name"].as_str()) {
                    (Some(id), _) => store.roles.get(id).ok_or_else(|| Error::not_found("role", id))?,
                    (None, Some(name)) => store
                        .roles
                        .linked(&name_link("", name))
                        .next()
                        .ok_or_else(|| Error::new(404, format!("Role {name} is not defined")))?,
                    (None, None) => return Err(Error::invalid("roles", role, "'id' is a required property")),
                };
                if !held.contains(&found.id) {
                    let message =
                        "Invalid application credential: Cannot create an application credential with unassigned role";
                    return Err(Error::new(400, message));
                }
                roles.push(found.id.clone());
            }
        }
        _ => roles.extend(held),
    }
    if store.app_credentials.linked(&format!("user:{}", caller.user)).any(|row| row.name == name) {
        let message = format!(
            "Conflict occurred attempting to store application_credential - Duplicate entry found with name {name}."
        );
        return Err(Error::new(409, message));
    }
    let secret = list::text(&body, "secret", "application_credential")?.unwrap_or_else(|| {
        let mut bytes = [0_u8; 64];
        rand::rng().fill_bytes(&mut bytes);
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
    });
    let row = ApplicationCredential {
        id: new_id(),
        name,
        user_id: caller.user.clone(),
        project_id: project,
        description: list::text(&body, "description", "application_credential")?,
        secret: hash(&secret),
        roles,
        expires_at: list::text(&body, "expires_at", "application_credential")?,
        unrestricted: list::flag(&body, "unrestricted")?.unwrap_or(false),
    };
    world.data.identity.app_credentials.insert(row.clone());
    let mut view = view(world, &row);
    view["secret"] = json!(secret);
    Ok(Reply::json(201, json!({"application_credential": view})))
}
