//! Tokens: issuing, judging, showing and revoking.

use std::collections::BTreeSet;

use base64::Engine;
use rand::RngCore;
use serde_json::{Value, json};

use super::{Error, Grant, Result, Target, Token, User, hash, name_link, password_hash, projects};
use crate::{
    clock::{later, signed},
    config,
    wire::{Reply, Request},
    world::World,
};

/// Who asks, within what.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub token: String,
    pub user: String,
    pub scope: Scope,
    /// Names of the roles, implied ones included.
    pub roles: BTreeSet<String>,
    /// Set when the token came from an application credential: its id, and whether it may manage others.
    pub application_credential: Option<(String, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    None,
    Project(String),
    Domain(String),
    System,
}

impl Caller {
    pub fn has(&self, role: &str) -> bool {
        self.roles.contains(role)
    }

    pub fn is_admin(&self) -> bool {
        self.has("admin")
    }

    pub fn project(&self) -> Option<&str> {
        match &self.scope {
            Scope::Project(id) => Some(id),
            _ => None,
        }
    }

    pub fn domain(&self) -> Option<&str> {
        match &self.scope {
            Scope::Domain(id) => Some(id),
            _ => None,
        }
    }

    /// Whether the caller holds `role` on this domain, or is an administrator.
    pub fn in_domain(&self, role: &str, domain: &str) -> bool {
        self.is_admin() || (self.domain() == Some(domain) && self.has(role))
    }

    /// The domain that an administrator's new things go to when none is named.
    pub fn own_domain(&self, world: &World) -> Option<String> {
        let project = self.project().filter(|_| self.is_admin()).and_then(|id| world.data.identity.projects.get(id));
        project.map(|project| project.domain_id.clone())
    }

    /// Whether the caller may list what is in some domain.
    pub fn reads_a_domain(&self) -> bool {
        self.is_admin() || (self.domain().is_some() && self.has("reader"))
    }

    /// Whether the product's policy lets the caller do what otherwise only an administrator may, in its own project.
    pub fn manages_project(&self, world: &World, project: &str) -> bool {
        self.is_admin()
            || (world.config.product_policy && self.project() == Some(project) && self.has(config::REGION_ROLE))
    }
}

fn with_implied(name: &str) -> &'static [&'static str] {
    match name {
        "admin" => &["admin", "manager", "member", "reader"],
        "manager" => &["manager", "member", "reader"],
        "member" => &["member", "reader"],
        _ => &[],
    }
}

/// The ids of the roles a user holds on a target, implied ones included.
pub(super) fn effective(world: &World, user: &str, target: &Target) -> BTreeSet<String> {
    let first = Grant { user: user.to_owned(), target: target.clone(), role: String::new() };
    let grants = world.data.identity.grants.range(first..);
    let held = grants.take_while(|grant| grant.user == user && grant.target == *target);
    expand(world, held.map(|grant| grant.role.clone()).chain(inherited(world, user, target)))
}

/// The region's role, held on a domain, is held on its projects: `prepare-cloud` grants it so.
fn inherited(world: &World, user: &str, target: &Target) -> Option<String> {
    let Target::Project(project) = target else { return None };
    let store = &world.data.identity;
    let role = store.roles.linked(&name_link("", config::REGION_ROLE)).next()?.id.clone();
    let target = Target::Domain(store.projects.get(project)?.domain_id.clone());
    let grant = Grant { user: user.to_owned(), target, role };
    store.grants.contains(&grant).then_some(grant.role)
}

pub(super) fn expand(world: &World, roles: impl Iterator<Item = String>) -> BTreeSet<String> {
    let store = &world.data.identity;
    let mut all = BTreeSet::new();
    for id in roles {
        let implied = store.roles.get(&id).map_or(&[][..], |role| with_implied(&role.name));
        all.extend(
            implied
                .iter()
                .filter_map(|name| store.roles.linked(&name_link("", name)).next())
                .map(|role| role.id.clone()),
        );
        all.insert(id);
    }
    all
}

/// The caller of a request, if its token is still worth anything.
pub(crate) fn authenticate(world: &World, request: &Request) -> Option<Caller> {
    judge(world, request.header("x-auth-token")?)
}

fn judge(world: &World, token: &str) -> Option<Caller> {
    let store = &world.data.identity;
    let row = store.tokens.get(&hash(token))?;
    let user = store.users.get(&row.user_id).filter(|user| user.enabled)?;
    if row.expires_at <= world.clock.now() {
        return None;
    }
    let credential = match &row.application_credential {
        Some(id) => Some(store.app_credentials.get(id)?),
        None => None,
    };
    let (scope, roles) = match &row.scope {
        None => (Scope::None, BTreeSet::new()),
        Some(target) => {
            let mut roles = effective(world, &user.id, target);
            if let Some(credential) = credential {
                let allowed = expand(world, credential.roles.iter().cloned());
                roles.retain(|role| allowed.contains(role));
            }
            if roles.is_empty() {
                return None;
            }
            let scope = match target {
                Target::Project(id) => {
                    store.projects.get(id).filter(|project| project.enabled)?;
                    Scope::Project(id.clone())
                }
                Target::Domain(id) => {
                    store.domains.get(id).filter(|domain| domain.enabled)?;
                    Scope::Domain(id.clone())
                }
                Target::System => Scope::System,
            };
            (scope, roles)
        }
    };
    let roles = roles.iter().filter_map(|id| store.roles.get(id)).map(|role| role.name.clone()).collect();
    Some(Caller {
        token: row.id.clone(),
        user: user.id.clone(),
        scope,
        roles,
        application_credential: credential.map(|credential| (credential.id.clone(), credential.unrestricted)),
    })
}

/// Why Keystone itself refuses a token: one whose user or project is gone is told so.
pub(super) fn refusal(world: &World, request: &Request) -> Error {
    let store = &world.data.identity;
    let token = request.header("x-auth-token").and_then(|token| store.tokens.get(&hash(token)));
    if let Some(token) = token.filter(|token| !store.users.contains(&token.user_id)) {
        return Error::not_found("user", &token.user_id);
    }
    match token.and_then(|token| token.scope.as_ref()) {
        Some(Target::Project(id)) if !store.projects.contains(id) => Error::not_found("project", id),
        _ => Error::unauthorized(),
    }
}

/// Ends the token a request carries, and says whether there was one.
pub(crate) fn revoke(world: &mut World, request: &Request) -> bool {
    let Some(token) = request.header("x-auth-token").map(hash) else { return false };
    world.data.identity.tokens.remove(&token).is_some()
}

/// Ends all of a user's tokens.
pub(super) fn revoke_user(world: &mut World, user: &str) {
    let store = &mut world.data.identity;
    let ids: Vec<String> = store.tokens.linked(&format!("user:{user}")).map(|token| token.id.clone()).collect();
    for id in ids {
        store.tokens.remove(&id);
    }
}

/// `POST /auth/tokens`.
pub(super) fn issue(world: &mut World, request: &Request) -> Result {
    let body = request.json().ok_or_else(Error::malformed)?;
    let Some(auth) = body.get("auth") else { return Err(Error::expecting("auth", "request body")) };
    let identity = &auth["identity"];
    let methods: Vec<String> = match identity["methods"].as_array() {
        Some(methods) => methods.iter().filter_map(|method| method.as_str().map(str::to_owned)).collect(),
        None if identity.is_null() => return Err(Error::new(400, "'identity' is a required property")),
        None => return Err(Error::new(400, "Invalid input for field 'identity': 'methods' is a required property")),
    };
    let scope = &auth["scope"];
    if let Some(method) = methods.iter().find(|method| identity.get(method.as_str()).is_none()) {
        return Err(Error::expecting(method, "identity"));
    }
    let (user, target, application_credential) = match methods.first().map(String::as_str) {
        Some("password") => {
            let asked = &identity["password"]["user"];
            let user = find_user(world, asked).ok_or_else(Error::unauthorized)?;
            let given = asked["password"].as_str().unwrap_or_default();
            if !user.enabled || user.password.as_deref() != Some(password_hash(&user.id, given).as_str()) {
                return Err(Error::unauthorized());
            }
            (user.id.clone(), find_scope(world, scope, user)?, None)
        }
        Some("token") => {
            let given = identity["token"]["id"].as_str().unwrap_or_default();
            let caller = judge(world, given).ok_or_else(Error::no_token)?;
            let user = world.data.identity.users.get(&caller.user).ok_or_else(Error::unauthorized)?;
            (caller.user.clone(), find_scope(world, scope, user)?, None)
        }
        Some("application_credential") => {
            if !scope.is_null() {
                let problem = "Application credentials cannot request a scope.";
                return Err(Error::new(401, format!("Error authenticating with application credential: {problem}")));
            }
            let (user, project, id) =
                find_credential(world, &identity["application_credential"]).ok_or_else(Error::unauthorized)?;
            if !world.data.identity.projects.contains(&project) {
                return Err(Error::not_found("project", &project));
            }
            (user, Some(Target::Project(project)), Some(id))
        }
        _ => return Err(Error::unauthorized()),
    };
    let token = new_token();
    let now = world.clock.now();
    let row = Token {
        id: hash(&token),
        user_id: user,
        scope: target,
        methods,
        application_credential,
        audit_id: base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(uuid::Uuid::new_v4().as_bytes()),
        issued_at: now,
        expires_at: later(now, signed(world.config.token_life)),
    };
    let store = &mut world.data.identity;
    let stale: Vec<String> = store
        .tokens
        .linked(&format!("user:{}", row.user_id))
        .filter(|old| old.expires_at <= now)
        .map(|old| old.id.clone())
        .collect();
    for id in stale {
        store.tokens.remove(&id);
    }
    store.tokens.insert(row);
    // A scope on which the user holds nothing is refused like a wrong password.
    let Some(caller) = judge(world, &token) else {
        world.data.identity.tokens.remove(&hash(&token));
        return Err(Error::unauthorized());
    };
    let body = view(world, &caller.token, request).ok_or_else(Error::unauthorized)?;
    Ok(Reply::json(201, body).with("X-Subject-Token", token).with("Vary", "X-Auth-Token"))
}

fn new_token() -> String {
    let mut bytes = [0_u8; 132];
    rand::rng().fill_bytes(&mut bytes);
    format!("gAAAAAB{}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

fn find_domain(world: &World, asked: &Value) -> Option<String> {
    let store = &world.data.identity;
    if let Some(id) = asked["id"].as_str() {
        return store.domains.get(id).map(|domain| domain.id.clone());
    }
    store.domains.linked(&name_link("", asked["name"].as_str()?)).next().map(|domain| domain.id.clone())
}

fn find_user<'a>(world: &'a World, asked: &Value) -> Option<&'a User> {
    let store = &world.data.identity;
    if let Some(id) = asked["id"].as_str() {
        return store.users.get(id);
    }
    let domain = find_domain(world, &asked["domain"])?;
    store.users.linked(&name_link(&domain, asked["name"].as_str()?)).next()
}

fn find_scope(world: &World, scope: &Value, user: &User) -> Result<Option<Target>> {
    let store = &world.data.identity;
    match scope {
        Value::Null => Ok(user
            .default_project_id
            .clone()
            .map(Target::Project)
            .filter(|target| !effective(world, &user.id, target).is_empty())),
        Value::String(text) if text == "unscoped" => Ok(None),
        Value::Object(map) => {
            if let Some(project) = map.get("project") {
                let found = match project["id"].as_str() {
                    Some(id) => store.projects.get(id),
                    None => find_domain(world, &project["domain"])
                        .zip(project["name"].as_str())
                        .and_then(|(domain, name)| store.projects.linked(&name_link(&domain, name)).next()),
                };
                return found.map(|project| Some(Target::Project(project.id.clone()))).ok_or_else(Error::unauthorized);
            }
            if let Some(domain) = map.get("domain") {
                return find_domain(world, domain).map(|id| Some(Target::Domain(id))).ok_or_else(Error::unauthorized);
            }
            match map.get("system") {
                Some(_) => Ok(Some(Target::System)),
                None => Err(Error::new(400, "Invalid input for field 'scope'")),
            }
        }
        _ => Err(Error::new(400, "Invalid input for field 'scope'")),
    }
}

/// The user, project and id of an application credential that was shown with its secret.
fn find_credential(world: &World, asked: &Value) -> Option<(String, String, String)> {
    let store = &world.data.identity;
    let row = if let Some(id) = asked["id"].as_str() {
        store.app_credentials.get(id)?
    } else {
        let user = find_user(world, &asked["user"])?;
        store.app_credentials.linked(&format!("user:{}", user.id)).find(|row| asked["name"] == row.name)?
    };
    let live = row
        .expires_at
        .as_deref()
        .and_then(|at| format!("{}Z", at.trim_end_matches('Z')).parse::<jiff::Timestamp>().ok())
        .is_none_or(|at| at > world.clock.now());
    let right = row.secret == hash(asked["secret"].as_str()?);
    (live && right).then(|| (row.user_id.clone(), row.project_id.clone(), row.id.clone()))
}

/// `/auth/…` beside the issuing of tokens.
pub(super) fn route(world: &mut World, caller: &Caller, method: &str, path: &[&str], request: &Request) -> Result {
    match (method, path) {
        ("GET" | "HEAD", ["auth", "tokens"]) => {
            let subject = request.header("x-subject-token").unwrap_or_default().to_owned();
            let row = judge(world, &subject).ok_or_else(Error::no_token)?;
            if row.user != caller.user && !caller.is_admin() && !caller.has("service") {
                return Err(Error::forbidden("identity:validate_token"));
            }
            let body = view(world, &row.token, request).ok_or_else(Error::unauthorized)?;
            Ok(Reply::json(200, body).with("X-Subject-Token", subject).with("Vary", "X-Auth-Token"))
        }
        ("DELETE", ["auth", "tokens"]) => {
            let subject = request.header("x-subject-token").unwrap_or_default();
            let row = judge(world, subject).ok_or_else(Error::no_token)?;
            if row.user != caller.user && !caller.is_admin() {
                return Err(Error::forbidden("identity:revoke_token"));
            }
            world.data.identity.tokens.remove(&row.token);
            Ok(Reply::empty(204))
        }
        ("GET", ["auth", "projects"]) => Ok(projects::of_user(world, request, &caller.user)),
        ("GET", ["auth", "domains"]) => {
            let store = &world.data.identity;
            let rows: BTreeSet<&str> = store
                .grants
                .iter()
                .filter(|grant| grant.user == caller.user)
                .filter_map(|grant| if let Target::Domain(id) = &grant.target { Some(id.as_str()) } else { None })
                .collect();
            let rows = rows
                .into_iter()
                .filter_map(|id| store.domains.get(id))
                .map(|row| projects::domain_view(world, row))
                .collect();
            Ok(super::list::page(world, request, "domains", &["name"], rows))
        }
        ("GET", ["auth", "catalog"]) => match &caller.scope {
            Scope::None => Err(Error::forbidden("No catalog for an unscoped token")),
            scope => Ok(Reply::json(200, json!({"catalog": catalog(world, scope), "links": {}}))),
        },
        _ => Ok(super::unknown_route()),
    }
}

fn view(world: &World, row: &str, request: &Request) -> Option<Value> {
    let store = &world.data.identity;
    let token = store.tokens.get(row)?;
    let user = store.users.get(&token.user_id)?;
    let domain = |id: &str| json!({"id": id, "name": store.domains.get(id).map(|domain| domain.name.as_str())});
    let time = |at: jiff::Timestamp| at.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
    let mut body = json!({
        "methods": token.methods,
        "user": {"id": user.id, "name": user.name, "domain": domain(&user.domain_id), "password_expires_at": null},
        "audit_ids": [token.audit_id],
        "issued_at": time(token.issued_at),
        "expires_at": time(token.expires_at),
    });
    let mut scope = Scope::None;
    if let Some(target) = &token.scope {
        let mut roles = effective(world, &user.id, target);
        if let Some(credential) = token.application_credential.as_ref().and_then(|id| store.app_credentials.get(id)) {
            let allowed = expand(world, credential.roles.iter().cloned());
            roles.retain(|role| allowed.contains(role));
            body["application_credential"] =
                json!({"id": credential.id, "name": credential.name, "restricted": !credential.unrestricted});
        }
        body["roles"] = roles
            .iter()
            .filter_map(|id| store.roles.get(id))
            .map(|role| json!({"id": role.id, "name": role.name}))
            .collect();
        match target {
            Target::Project(id) => {
                let project = store.projects.get(id)?;
                body["project"] = json!({"id": id, "name": project.name, "domain": domain(&project.domain_id)});
                body["is_domain"] = json!(false);
                scope = Scope::Project(id.clone());
            }
            Target::Domain(id) => {
                body["domain"] = domain(id);
                scope = Scope::Domain(id.clone());
            }
            Target::System => {
                body["system"] = json!({"all": true});
                scope = Scope::System;
            }
        }
    }
    if scope != Scope::None && request.param("nocatalog").is_none() {
        body["catalog"] = catalog(world, &scope);
    }
    Some(json!({"token": body}))
}

fn catalog(world: &World, scope: &Scope) -> Value {
    let mut services = vec![
        ("identity", "keystone", "/identity".to_owned()),
        ("compute", "nova", "/compute/v2.1".to_owned()),
        ("network", "neutron", "/network".to_owned()),
        ("image", "glance", "/image".to_owned()),
        ("baremetal", "ironic", "/baremetal".to_owned()),
        ("placement", "placement", "/placement".to_owned()),
    ];
    // An endpoint with a project in its URL is left out of a catalog that has none.
    if let Scope::Project(project) = scope {
        services.push(("block-storage", "cinder", format!("/volume/v3/{project}")));
    }
    services
        .into_iter()
        .map(|(kind, name, path)| {
            let endpoints: Vec<Value> = ["public", "internal", "admin"]
                .into_iter()
                .map(|interface| {
                    let id = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, format!("{kind}/{interface}").as_bytes());
                    json!({
                        "id": id.simple().to_string(),
                        "interface": interface,
                        "region": "RegionOne",
                        "region_id": "RegionOne",
                        "url": format!("{}{path}", world.url),
                    })
                })
                .collect();
            let id = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, kind.as_bytes()).simple().to_string();
            json!({"id": id, "type": kind, "name": name, "endpoints": endpoints})
        })
        .collect()
}
