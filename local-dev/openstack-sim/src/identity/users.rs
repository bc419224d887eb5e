//! Users and their passwords.

use serde_json::{Value, json};

use super::{Caller, Error, Result, User, auth, list, name_link, new_id, password_hash, projects};
use crate::{
    wire::{Reply, Request},
    world::World,
};

pub(super) fn view(world: &World, row: &User) -> Value {
    let mut view = json!({
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id,
        "enabled": row.enabled,
        "options": {},
        "password_expires_at": null,
        "links": {"self": format!("{}/identity/v3/users/{}", world.url, row.id)},
    });
    for (key, value) in
        [("default_project_id", &row.default_project_id), ("description", &row.description), ("email", &row.email)]
    {
        if let Some(value) = value {
            view[key] = json!(value);
        }
    }
    view
}

fn permitted<'a>(world: &'a World, caller: &Caller, id: &str, role: &str, action: &str) -> Result<&'a User> {
    match world.data.identity.users.get(id) {
        Some(user) if caller.in_domain(role, &user.domain_id) => Ok(user),
        Some(user) if role == "reader" && caller.user == id => Ok(user),
        None if caller.is_admin() => Err(Error::not_found("user", id)),
        _ => Err(Error::forbidden(action)),
    }
}

pub(super) fn route(world: &mut World, caller: &Caller, method: &str, path: &[&str], request: &Request) -> Result {
    match (method, path) {
        ("GET", ["users"]) => {
            if !caller.reads_a_domain() {
                return Err(Error::forbidden("identity:list_users"));
            }
            let rows = world.data.identity.users.iter().filter(|row| caller.in_domain("reader", &row.domain_id));
            let rows = rows.map(|row| view(world, row)).collect();
            Ok(list::page(world, request, "users", &["name", "domain_id", "enabled"], rows))
        }
        ("POST", ["users"]) => create(world, caller, request),
        ("GET", ["users", id]) => {
            let user = permitted(world, caller, id, "reader", "identity:get_user")?;
            Ok(Reply::json(200, json!({"user": view(world, user)})))
        }
        ("PATCH", ["users", id]) => update(world, caller, id, request),
        ("DELETE", ["users", id]) => {
            permitted(world, caller, id, "manager", "identity:delete_user")?;
            delete(world, id);
            Ok(Reply::empty(204))
        }
        ("GET", ["users", id, "projects"]) => {
            permitted(world, caller, id, "reader", "identity:list_user_projects")?;
            Ok(projects::of_user(world, request, id))
        }
        ("POST", ["users", id, "password"]) => change_password(world, caller, id, request),
        _ => Ok(super::unknown_route()),
    }
}

fn create(world: &mut World, caller: &Caller, request: &Request) -> Result {
    let body = list::body(request, "user")?;
    let asked = list::text(&body, "domain_id", "user")?;
    let domain = asked.or_else(|| caller.own_domain(world)).unwrap_or_default();
    let name = list::required(list::name(&body, "user", 255)?, &body, "user", "name")?;
    if !caller.in_domain("manager", &domain) {
        return Err(Error::forbidden("identity:create_user"));
    }
    if !world.data.identity.domains.contains(&domain) {
        return Err(Error::not_found("domain", &domain));
    }
    if world.data.identity.users.count(&name_link(&domain, &name)) > 0 {
        return Err(Error::duplicate("user", &name, &domain));
    }
    let id = new_id();
    let row = User {
        name,
        domain_id: domain,
        default_project_id: list::text(&body, "default_project_id", "user")?,
        description: list::text(&body, "description", "user")?,
        email: list::text(&body, "email", "user")?,
        enabled: list::flag(&body, "enabled")?.unwrap_or(true),
        password: password(&body)?.map(|password| password_hash(&id, &password)),
        id,
    };
    world.data.identity.users.insert(row.clone());
    Ok(Reply::json(201, json!({"user": view(world, &row)})))
}

/// The password of a body; errors never show it.
fn password(body: &serde_json::Map<String, Value>) -> Result<Option<String>> {
    match body.get("password") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Error::new(
            400,
            "Invalid input for field/attribute password. The value is not of type 'string', 'null'",
        )),
    }
}

fn update(world: &mut World, caller: &Caller, id: &str, request: &Request) -> Result {
    let domain = permitted(world, caller, id, "manager", "identity:update_user")?.domain_id.clone();
    let body = list::body(request, "user")?;
    let name = list::name(&body, "user", 255)?;
    if let Some(name) = &name
        && world.data.identity.users.linked(&name_link(&domain, name)).any(|row| row.id != id)
    {
        return Err(Error::duplicate("user", name, &domain));
    }
    let password = password(&body)?;
    let enabled = list::flag(&body, "enabled")?;
    let texts = ["default_project_id", "description", "email"].map(|key| list::text(&body, key, "user"));
    let [project, description, email] = texts;
    let (project, description, email) = (project?, description?, email?);
    if password.is_some() || enabled == Some(false) {
        auth::revoke_user(world, id);
    }
    let row = world.data.identity.users.update(id, |row| {
        row.name = name.unwrap_or_else(|| row.name.clone());
        row.enabled = enabled.unwrap_or(row.enabled);
        row.default_project_id = project.or_else(|| row.default_project_id.clone());
        row.description = description.or_else(|| row.description.clone());
        row.email = email.or_else(|| row.email.clone());
        if let Some(password) = password {
            row.password = Some(password_hash(&row.id, &password));
        }
        row.clone()
    });
    let row = row.ok_or_else(|| Error::not_found("user", id))?;
    Ok(Reply::json(200, json!({"user": view(world, &row)})))
}

fn change_password(world: &mut World, caller: &Caller, id: &str, request: &Request) -> Result {
    let body = list::body(request, "user")?;
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
    let (old, new) = (password_hash(id, text("original_password")), password_hash(id, text("password")));
    let right = world.data.identity.users.get(id).is_some_and(|row| row.password.as_ref() == Some(&old));
    if caller.user != id || !right {
        return Err(Error::unauthorized());
    }
    auth::revoke_user(world, id);
    world.data.identity.users.update(id, |row| row.password = Some(new));
    Ok(Reply::empty(204))
}

/// Deletes a user with everything in Keystone that hangs on it. Its key pairs in Nova are orphaned, as in a real cloud.
fn delete(world: &mut World, id: &str) {
    let store = &mut world.data.identity;
    store.users.remove(id);
    store.grants.retain(|grant| grant.user != id);
    let link = format!("user:{id}");
    let credentials: Vec<String> = store.app_credentials.linked(&link).map(|row| row.id.clone()).collect();
    for credential in credentials {
        store.app_credentials.remove(&credential);
    }
}
