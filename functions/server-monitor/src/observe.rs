//! Reads a region's identities, their Server objects, and what the cloud has of them.
//!
//! Invariants: reads only. Server objects are read before the cloud is asked: what the cloud then shows is newer than the
//! marker that it is held against, and the patch that follows carries the object's resource version, so that the marker is
//! still the one that was read (RBD-9). The cloud is asked once for each identity, page by page, however many servers there are
//! (MON-2). What cannot be decoded, in Kubernetes or in the cloud, is left out by itself (MON-9).

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use weir_api::{Problem, crd, labels};
use weir_function_runtime::{Scope, kubernetes};
use weir_openstack::Session;
use weir_openstack::compute::{Server, Unreadable};
use weir_provider::{During, Record, server};

/// How many objects are read at once.
const PAGE: u32 = 500;

/// The names of the region's identities.
pub async fn identities(scope: &Scope, region: &str) -> Result<Vec<String>, Problem> {
    let identities: Vec<crd::Identity> = list(scope, &format!("{}={region}", labels::REGION)).await?;
    Ok(identities.iter().map(ResourceExt::name_any).collect())
}

/// What an identity has in the cloud; `None` while it has no project. Read one by one: records hold credentials, and nobody
/// is to list those.
pub async fn record(scope: &Scope, identity: &str) -> Result<Option<Record>, Problem> {
    let record = scope.get::<crd::OpenstackIdentity>(identity).await?;
    Ok(record.as_ref().and_then(Record::of))
}

/// The Server objects of an identity.
pub async fn objects(scope: &Scope, identity: &str) -> Result<Vec<crd::Server>, Problem> {
    let raw: Vec<Raw> = list(scope, &format!("{}={identity}", labels::IDENTITY)).await?;
    let mut objects = Vec::with_capacity(raw.len());
    for object in raw {
        let name = object.name_any();
        match object.read() {
            Ok(object) => objects.push(object),
            Err(error) => tracing::error!(server = name, %error, "a Server cannot be understood; it is left out"),
        }
    }
    Ok(objects)
}

/// A Server object that is not decoded yet: one that cannot be would fail a list of all.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Raw {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

impl Raw {
    fn read(mut self) -> serde_json::Result<crd::Server> {
        let mut take = |key: &str| self.rest.remove(key).unwrap_or_default();
        let (spec, status) = (serde_json::from_value(take("spec"))?, serde_json::from_value(take("status"))?);
        Ok(crd::Server { metadata: self.metadata, spec, status })
    }
}

impl Resource for Raw {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        crd::Server::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        crd::Server::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        crd::Server::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        crd::Server::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

async fn list<K>(scope: &Scope, selector: &str) -> Result<Vec<K>, Problem>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let mut params = ListParams::default().labels(selector).limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = scope.api::<K>().list(&params).await;
        let page = page.map_err(|error| kubernetes::problem(&error, &format!("listing {}", K::plural(&()))))?;
        found.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(found),
        }
    }
}

/// All servers of a project.
#[derive(Debug, Default)]
pub struct Cloud {
    servers: Vec<Server>,
    by_name: HashMap<String, Vec<usize>>,
    by_claim: HashMap<String, Vec<usize>>,
    /// Names of servers that are there and cannot be read.
    unreadable: HashSet<String>,
    /// Whether there is one that cannot be read and does not tell its name.
    nameless: bool,
}

/// What the cloud has of a Server object.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// This.
    Here(&'a Server),
    /// Nothing.
    Gone,
    /// It cannot be told: there are several, or what there is cannot be read.
    Unclear,
}

/// Reads a project's servers, in one paged list.
pub async fn cloud(session: &Session) -> Result<Cloud, Problem> {
    Ok(Cloud::of(session.compute().each_server().await.during("listing the servers")?))
}

impl Cloud {
    /// The servers of a list.
    pub fn of(list: Vec<Result<Server, Unreadable>>) -> Self {
        let mut cloud = Self::default();
        for item in list {
            match item {
                Ok(server) if server.status.is_gone() => {}
                Ok(server) => {
                    let at = cloud.servers.len();
                    if let Some(Some(id)) = server::claimed(&server.metadata) {
                        cloud.by_claim.entry(id.to_owned()).or_default().push(at);
                    }
                    cloud.by_name.entry(server.name.clone()).or_default().push(at);
                    cloud.servers.push(server);
                }
                Err(Unreadable { name: Some(name) }) => drop(cloud.unreadable.insert(name)),
                Err(Unreadable { name: None }) => cloud.nameless = true,
            }
        }
        if cloud.nameless || !cloud.unreadable.is_empty() {
            tracing::warn!(names = ?cloud.unreadable, "servers in the cloud that cannot be understood are left out");
        }
        cloud
    }

    /// What there is of an object: the server of exactly its name (SRV-2), unless that says it is another object's; else one
    /// that says it is this object's, since anybody with the identity's credential may rename a server.
    pub fn find(&self, object: &crd::Server) -> Found<'_> {
        let (id, name) = (object.name_any(), labels::display_name(object));
        if self.unreadable.contains(&name) {
            return Found::Unclear;
        }
        let at =
            |list: Option<&Vec<usize>>| list.into_iter().flatten().map(|&at| &self.servers[at]).collect::<Vec<_>>();
        let claim = |server: &Server| server::claimed(&server.metadata).map(|claimed| claimed == Some(id.as_str()));
        let mut named = at(self.by_name.get(&name));
        named.retain(|server| claim(server) != Some(false));
        if named.len() > 1 {
            named.retain(|server| claim(server) == Some(true));
            return if let [one] = named[..] { Found::Here(one) } else { Found::Unclear };
        }
        if named.is_empty() {
            named = at(self.by_claim.get(&id));
        }
        match named[..] {
            [one] => Found::Here(one),
            [] if !self.nameless => Found::Gone,
            _ => Found::Unclear,
        }
    }
}
