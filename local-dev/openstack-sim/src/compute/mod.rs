//! Nova 2.1 to 2.103: flavors, servers, key pairs, server groups and quotas.
//!
//! Invariants: what a server is doing is an operation with a start and a length, and everything that happens in it
//! (binding its ports, turning ACTIVE, going) happens when its time has come and somebody looks; one operation at a time;
//! image and task of a rebuild flip together.
//!
//! Caveats: no volumes, resizing, shelving or live migration yet; one server per create. A key pair made without a
//! public key gets one of the right form that no private key belongs to.

mod actions;
mod create;
mod error;
mod flavors;
mod groups;
mod keypairs;
mod lifecycle;
mod quotas;
mod servers;
mod version;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub(crate) use self::{
    error::{Error, Result},
    lifecycle::{Outcome, settle},
};
use self::{lifecycle::Operation, version::Version};
use crate::{
    config,
    identity::{Caller, authenticate},
    service::unauthorized,
    table::{Row, Table},
    wire::{Reply, Request, webob},
    world::World,
};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Store {
    pub flavors: Table<Flavor>,
    pub servers: Table<Server>,
    pub keypairs: Table<Keypair>,
    pub groups: Table<Group>,
    /// Limits that differ from the defaults, by project.
    pub quotas: BTreeMap<String, BTreeMap<String, i64>>,
    /// When something happens to which server next.
    #[serde(skip)]
    pub agenda: BTreeSet<(Timestamp, String)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Flavor {
    pub id: String,
    pub name: String,
    pub vcpus: u64,
    /// In MiB.
    pub ram: u64,
    /// In GiB.
    pub disk: u64,
    pub extra_specs: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VmState {
    Building,
    Active,
    Stopped,
    Error,
    Deleted,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Mishap {
    pub message: String,
    pub at: Timestamp,
}

/// A port of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Nic {
    pub port: String,
    pub made_by_nova: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Server {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub hostname: String,
    pub project_id: String,
    pub user_id: String,
    pub flavor: Flavor,
    pub image: String,
    pub metadata: BTreeMap<String, String>,
    pub tags: Vec<String>,
    pub key_name: Option<String>,
    pub config_drive: bool,
    pub availability_zone: Option<String>,
    pub security_groups: Vec<String>,
    pub nics: Vec<Nic>,
    pub group: Option<String>,
    pub pinned: Option<String>,
    pub host: Option<String>,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub launched: Option<Timestamp>,
    pub vm_state: VmState,
    pub fault: Option<Mishap>,
    pub operation: Option<Operation>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Keypair {
    /// User and name.
    pub key: String,
    pub user_id: String,
    pub name: String,
    pub kind: String,
    pub public_key: String,
    pub fingerprint: String,
    pub created: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Group {
    pub id: String,
    pub name: String,
    pub policy: String,
    pub rules: Map<String, Value>,
    pub project_id: String,
    pub user_id: String,
}

impl Row for Flavor {
    fn id(&self) -> &str {
        &self.id
    }
    fn links(&self) -> Vec<String> {
        Vec::new()
    }
}
impl Row for Server {
    fn id(&self) -> &str {
        &self.id
    }
    fn links(&self) -> Vec<String> {
        let mut links = vec![format!("project:{}", self.project_id), format!("image:{}", self.image)];
        links.extend(self.host.iter().map(|host| format!("host:{host}")));
        links.extend(self.group.iter().map(|group| format!("group:{group}")));
        links
    }
}
impl Row for Keypair {
    fn id(&self) -> &str {
        &self.key
    }
    fn links(&self) -> Vec<String> {
        vec![format!("user:{}", self.user_id)]
    }
}
impl Row for Group {
    fn id(&self) -> &str {
        &self.id
    }
    fn links(&self) -> Vec<String> {
        vec![format!("project:{}", self.project_id)]
    }
}

pub(crate) fn seed(world: &mut World) {
    for (id, name, vcpus, ram, disk) in config::FLAVORS {
        let mut extra_specs = BTreeMap::new();
        if vcpus >= 4 {
            extra_specs.insert("hw:cpu_policy".to_owned(), "shared".to_owned());
        }
        extra_specs.extend(world.config.extra_specs.get(name).cloned().unwrap_or_default());
        let (id, name) = (id.to_owned(), name.to_owned());
        world.data.compute.flavors.insert(Flavor { id, name, vcpus, ram, disk, extra_specs });
    }
}

/// Takes up after a restart what servers were doing.
pub(crate) fn resume(world: &mut World) {
    let ids: Vec<String> = world.data.compute.servers.iter().map(|server| server.id.clone()).collect();
    for id in ids {
        lifecycle::schedule(world, &id);
    }
    settle(world);
}

/// The path below `/compute`.
pub(crate) fn handle(world: &mut World, rest: &[&str], request: &Request) -> Reply {
    let path = match rest {
        [] => return Reply::json(200, version::documents(&world.url)),
        ["v2.1"] => return Reply::json(200, json!({"version": version::document(&world.url)})),
        ["v2.1", path @ ..] => path,
        _ => return Reply::json(404, webob(404, "The resource could not be found.")),
    };
    if request.body.len() > 114_688 {
        return Reply::json(413, crate::identity::too_large());
    }
    let Some(caller) = authenticate(world, request) else { return unauthorized(&world.url) };
    let version = match version::requested(request) {
        Ok(version) => version,
        Err((version, error)) => return version::stamp(error.reply(), &version),
    };
    // Some clients put the project into the path.
    let path = match path {
        [project, path @ ..] if caller.project() == Some(project) => path,
        path => path,
    };
    match route(world, &caller, version, path, request) {
        Ok(Some(reply)) => version::stamp(reply, &version.to_string()),
        Ok(None) => Reply::json(404, webob(404, "The resource could not be found.")),
        Err(error) => version::stamp(error.reply(), &version.to_string()),
    }
}

/// Who may do what is decided by the handlers; every one of them works in the caller's project.
fn route(
    world: &mut World,
    caller: &Caller,
    version: Version,
    path: &[&str],
    request: &Request,
) -> Result<Option<Reply>> {
    let method = request.method.as_str();
    if caller.project().is_none() && !caller.is_admin() {
        return Err(Error::policy("os_compute_api:servers:index"));
    }
    let context = Context { caller, version, request };
    match path {
        ["flavors", rest @ ..] => flavors::route(world, &context, method, rest),
        ["servers", id, "action"] if method == "POST" => actions::act(world, &context, id).map(Some),
        ["servers", rest @ ..] => servers::route(world, &context, method, rest),
        ["os-keypairs", rest @ ..] => keypairs::route(world, &context, method, rest),
        ["os-server-groups", rest @ ..] => groups::route(world, &context, method, rest),
        ["os-quota-sets", rest @ ..] => quotas::route(world, &context, method, rest),
        ["limits"] if method == "GET" => Ok(Some(quotas::limits(world, &context))),
        ["os-hypervisors", ..] if !caller.is_admin() => Err(Error::policy("os_compute_api:os-hypervisors:list")),
        ["os-hypervisors", ..] if method == "GET" => {
            let hosts = world.config.hosts.iter().enumerate();
            let rows: Vec<Value> = hosts
                .map(|(index, host)| json!({"id": index + 1, "hypervisor_hostname": host, "state": "up", "status": "enabled"}))
                .collect();
            Ok(Some(Reply::json(200, json!({"hypervisors": rows}))))
        }
        _ => Ok(None),
    }
}

/// What every handler needs to know of a request.
struct Context<'a> {
    caller: &'a Caller,
    version: Version,
    request: &'a Request,
}

impl Context<'_> {
    fn project(&self) -> &str {
        self.caller.project().unwrap_or_default()
    }

    fn owns(&self, project: &str) -> bool {
        self.caller.is_admin() || self.caller.project() == Some(project)
    }

    fn must_be_member(&self, rule: &str) -> Result<()> {
        if self.caller.is_admin() || self.caller.has("member") { Ok(()) } else { Err(Error::policy(rule)) }
    }

    /// The body as JSON.
    fn body(&self) -> Result<Value> {
        self.request.json().filter(Value::is_object).ok_or_else(|| Error::bad("Malformed request body"))
    }

    /// The object under `key` of the body.
    fn object(&self, key: &str) -> Result<Map<String, Value>> {
        match self.body()?.get(key) {
            Some(Value::Object(map)) => Ok(map.clone()),
            Some(other) => Err(Error::invalid(key, other, &format!("{other} is not of type 'object'"))),
            None => Err(Error::bad(format!("'{key}' is a required property"))),
        }
    }
}

/// Nova writes ids of its own with dashes.
fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn is_uuid(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok()
}

pub(crate) fn state(world: &World) -> Map<String, Value> {
    let store = &world.data.compute;
    let mut map = Map::new();
    let servers = store.servers.iter().map(|server| view::detail(world, server, Version::LATEST, true)).collect();
    map.insert("servers".into(), servers);
    map.insert("keypairs".into(), store.keypairs.iter().map(keypairs::view).collect());
    map.insert(
        "server_groups".into(),
        store.groups.iter().map(|group| groups::view(world, group, Version::LATEST)).collect(),
    );
    map.insert("compute_quotas".into(), json!(store.quotas));
    map
}
