//! Keystone v3: domains, projects, users, roles, grants, application credentials and tokens.
//!
//! Invariants: a name is unique in its domain, whatever its case; roles imply the ones below them; a token is worth
//! what its user is granted *now*, and dies with its user, project, application credential or the user's password.
//! Passwords, secrets and tokens are kept as hashes only.
//!
//! Caveats: no groups, no federation, no trusts, no project trees, role inheritance for the region's own role only. A domain's manager gets 403 for
//! a user or project that does not exist, as the real policy gives when it has no target to look at.

mod application_credentials;
mod auth;
mod error;
mod grants;
mod list;
mod projects;
mod users;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

pub(crate) use self::{
    auth::{Caller, authenticate, revoke},
    error::{Error, Result},
};
use crate::{
    config,
    table::{Row, Table},
    wire::{Reply, Request},
    world::World,
};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Store {
    pub domains: Table<Domain>,
    pub projects: Table<Project>,
    pub users: Table<User>,
    pub roles: Table<Role>,
    pub grants: BTreeSet<Grant>,
    pub app_credentials: Table<ApplicationCredential>,
    pub tokens: Table<Token>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Domain {
    pub id: String,
    pub name: String,
    pub description: String,
    pub enabled: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Project {
    pub id: String,
    pub name: String,
    pub domain_id: String,
    pub description: String,
    pub enabled: bool,
    pub tags: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct User {
    pub id: String,
    pub name: String,
    pub domain_id: String,
    pub default_project_id: Option<String>,
    pub description: Option<String>,
    pub email: Option<String>,
    pub enabled: bool,
    pub password: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Role {
    pub id: String,
    pub name: String,
}

/// What a role is granted on, or a token is scoped to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Target {
    Project(String),
    Domain(String),
    System,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub user: String,
    pub target: Target,
    pub role: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ApplicationCredential {
    pub id: String,
    pub name: String,
    pub user_id: String,
    pub project_id: String,
    pub description: Option<String>,
    pub secret: String,
    pub roles: Vec<String>,
    pub expires_at: Option<String>,
    pub unrestricted: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Token {
    /// The hash of the token itself.
    pub id: String,
    pub user_id: String,
    pub scope: Option<Target>,
    pub methods: Vec<String>,
    pub application_credential: Option<String>,
    pub audit_id: String,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Row for Domain {
    fn id(&self) -> &str {
        &self.id
    }
    fn links(&self) -> Vec<String> {
        vec![name_link("", &self.name)]
    }
}
impl Row for Project {
    fn id(&self) -> &str {
        &self.id
    }
    fn links(&self) -> Vec<String> {
        vec![format!("domain:{}", self.domain_id), name_link(&self.domain_id, &self.name)]
    }
}
impl Row for User {
    fn id(&self) -> &str {
        &self.id
    }
    fn links(&self) -> Vec<String> {
        vec![format!("domain:{}", self.domain_id), name_link(&self.domain_id, &self.name)]
    }
}
impl Row for Role {
    fn id(&self) -> &str {
        &self.id
    }
    fn links(&self) -> Vec<String> {
        vec![name_link("", &self.name)]
    }
}
impl Row for ApplicationCredential {
    fn id(&self) -> &str {
        &self.id
    }
    fn links(&self) -> Vec<String> {
        vec![format!("user:{}", self.user_id)]
    }
}
impl Row for Token {
    fn id(&self) -> &str {
        &self.id
    }
    fn links(&self) -> Vec<String> {
        vec![format!("user:{}", self.user_id)]
    }
}

/// Names are compared without case, as Keystone's database does.
pub(crate) fn name_link(domain: &str, name: &str) -> String {
    format!("name:{domain}/{}", name.to_lowercase())
}

pub(crate) fn hash(text: &str) -> String {
    use std::fmt::Write;
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

pub(crate) fn password_hash(user: &str, password: &str) -> String {
    hash(&format!("{user}:{password}"))
}

/// Keystone's ids have no dashes.
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

pub(crate) fn seed(world: &mut World) {
    let password = world.config.password.clone();
    let store = &mut world.data.identity;
    for (id, name, description) in
        [(config::DEFAULT_DOMAIN, "Default", "The default domain"), (config::DOMAIN, "weir", "What the region manages")]
    {
        let (id, name) = (id.to_owned(), name.to_owned());
        store.domains.insert(Domain { id, name, description: description.to_owned(), enabled: true });
    }
    for (index, name) in config::ROLES.iter().enumerate() {
        store.roles.insert(Role { id: config::role_id(index), name: (*name).to_owned() });
    }
    for (domain, project, project_name, user, user_name, role) in [
        (config::DOMAIN, config::PROJECT, "weir", config::REGION_USER, "weir", 1),
        (config::DEFAULT_DOMAIN, config::ADMIN_PROJECT, "admin", config::ADMIN_USER, "admin", 0),
    ] {
        store.projects.insert(Project {
            id: project.to_owned(),
            name: project_name.to_owned(),
            domain_id: domain.to_owned(),
            description: String::new(),
            enabled: true,
            tags: Vec::new(),
        });
        store.users.insert(User {
            id: user.to_owned(),
            name: user_name.to_owned(),
            domain_id: domain.to_owned(),
            default_project_id: None,
            description: None,
            email: None,
            enabled: true,
            password: Some(password_hash(user, &password)),
        });
        for target in [Target::Domain(domain.to_owned()), Target::Project(project.to_owned())] {
            store.grants.insert(Grant { user: user.to_owned(), target, role: config::role_id(role) });
        }
        if user == config::REGION_USER {
            let role = config::ROLES.iter().position(|name| *name == config::REGION_ROLE).map(config::role_id);
            let target = Target::Domain(domain.to_owned());
            store.grants.extend(role.map(|role| Grant { user: user.to_owned(), target, role }));
        }
    }
}

/// The path below `/identity`.
pub(crate) fn handle(world: &mut World, rest: &[&str], request: &Request) -> Reply {
    route(world, rest, request).unwrap_or_else(|error| error.reply(&world.url))
}

fn route(world: &mut World, rest: &[&str], request: &Request) -> Result {
    let method = request.method.as_str();
    let path = match rest {
        [] => return Ok(versions(world)),
        ["v3"] => return Ok(Reply::json(200, json!({"version": version(world)}))),
        ["v3", path @ ..] => path,
        _ => return Ok(unknown_route()),
    };
    // Keystone refuses bodies of this size before it looks at them.
    if request.body.len() > 114_688 {
        return Ok(Reply::json(413, too_large()));
    }
    if let ("POST", ["auth", "tokens"]) = (method, path) {
        return auth::issue(world, request);
    }
    let caller = authenticate(world, request).ok_or_else(|| auth::refusal(world, request))?;
    match path {
        ["auth", ..] => auth::route(world, &caller, method, path, request),
        ["projects" | "domains", _, "users", ..] | ["role_assignments"] => {
            grants::route(world, &caller, method, path, request)
        }
        ["roles", ..] => grants::roles(world, &caller, method, path, request),
        ["users", _, "application_credentials", ..] => {
            application_credentials::route(world, &caller, method, path, request)
        }
        ["projects" | "domains", ..] => projects::route(world, &caller, method, path, request),
        ["users", ..] => users::route(world, &caller, method, path, request),
        _ => Ok(unknown_route()),
    }
}

pub(crate) fn unknown_route() -> Reply {
    let body = "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n<p>The requested URL was not found \
                on the server. If you entered the URL manually please check your spelling and try again.</p>\n";
    Reply::text(404, "text/html; charset=utf-8", body.to_owned())
}

pub(crate) fn too_large() -> Value {
    crate::wire::webob(413, "Request is too large. Larger than max_request_body_size (%s).")
}

fn version(world: &World) -> Value {
    json!({
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{}/identity/v3/", world.url)}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    })
}

fn versions(world: &World) -> Reply {
    Reply::json(300, json!({"versions": {"values": [version(world)]}}))
        .with("Location", format!("{}/identity/v3/", world.url))
}

pub(crate) fn state(world: &World) -> Map<String, Value> {
    let store = &world.data.identity;
    let mut map = Map::new();
    map.insert("projects".into(), store.projects.iter().map(|row| projects::view(world, row)).collect());
    map.insert("users".into(), store.users.iter().map(|row| users::view(world, row)).collect());
    let credentials = store.app_credentials.iter().map(|row| application_credentials::view(world, row)).collect();
    map.insert("application_credentials".into(), credentials);
    map.insert("role_assignments".into(), store.grants.iter().map(|grant| grants::view(world, grant, false)).collect());
    map
}
