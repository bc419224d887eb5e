//! The Kubernetes API as a person with `kubectl` uses it, patient with one that is down at times.

use crate::World;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, ValidationDirective};
use kube::discovery::ApiResource;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use weir_api::{Kind, ObjectRef, crd};

/// How long the API may be away.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(50);

/// The kinds that have a function.
pub const KINDS: [Kind; 5] = [Kind::Region, Kind::Identity, Kind::Network, Kind::SecurityGroup, Kind::Server];

/// A cluster.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
}

impl Cluster {
    /// The cluster that a configuration leads to.
    pub fn new(mut config: Config) -> Self {
        config.proxy_url = None;
        config.connect_timeout = Some(Duration::from_secs(5));
        config.read_timeout = Some(Duration::from_secs(30));
        config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static("weir-test")));
        Self { client: Client::try_from(config).expect("a client") }
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Applies the custom resources and the test's namespace.
    pub async fn prepare(&self) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for definition in crd::all() {
            let params = PatchParams::apply("weir-test").force();
            let applied = definitions.patch(&definition.name_any(), &params, &Patch::Apply(&definition)).await;
            applied.expect("the CRD is accepted");
        }
        self.apply(&namespace(World::NAMESPACE)).await;
    }

    /// Applies an object as `kubectl apply --server-side` does, with strict validation. Tries again while the API is away.
    pub async fn apply(&self, object: &Value) -> DynamicObject {
        match patiently(async || self.try_apply(object).await).await {
            Ok(stored) => stored,
            Err(error) => panic!("{object} is refused: {error}"),
        }
    }

    /// The same once, where a refusal is of interest.
    pub async fn try_apply(&self, object: &Value) -> Result<DynamicObject, kube::Error> {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let mut params = PatchParams::apply("weir-test").force();
        params.field_validation = Some(ValidationDirective::Strict);
        self.of(object).patch(name, &params, &Patch::Apply(object)).await
    }

    /// Asks for the deletion of an object that was applied, whatever its kind; it may have gone.
    pub async fn delete(&self, object: &Value) {
        let (name, api) = (object["metadata"]["name"].as_str().expect("a name"), self.of(object));
        match patiently(async || api.delete(name, &DeleteParams::background()).await).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("{name} cannot be deleted: {error}"),
        }
    }

    /// An object that was applied, as it is now.
    pub async fn get(&self, object: &Value) -> Option<DynamicObject> {
        let (name, api) = (object["metadata"]["name"].as_str().expect("a name"), self.of(object));
        patiently(async || api.get_opt(name).await).await.expect("an answer")
    }

    /// Merges a patch into an object that was applied.
    pub async fn merge(&self, object: &Value, patch: &Value) {
        let (name, api) = (object["metadata"]["name"].as_str().expect("a name"), self.of(object));
        let params = PatchParams::default();
        patiently(async || api.patch(name, &params, &Patch::Merge(patch)).await).await.expect("patched");
    }

    /// Status, reason and message of `Available` of an object that was applied.
    pub async fn condition(&self, object: &Value) -> Option<Condition> {
        Condition::of(&self.get(object).await?)
    }

    /// All objects of a kind in the test's namespace.
    pub async fn list(&self, kind: Kind) -> Vec<DynamicObject> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), World::NAMESPACE, &kind.resource());
        patiently(async || api.list(&ListParams::default()).await).await.expect("a list").items
    }

    /// All objects of all kinds that have a function.
    pub async fn objects(&self) -> Vec<ObjectRef> {
        let mut all = vec![];
        for kind in KINDS {
            all.extend(self.list(kind).await.iter().map(|o| ObjectRef::new(kind, World::NAMESPACE, o.name_any())));
        }
        all
    }

    /// How many objects of all kinds there are, and how many of them are available.
    pub async fn available(&self) -> (usize, usize) {
        let (mut all, mut available) = (0, 0);
        for kind in KINDS {
            let objects = self.list(kind).await;
            all += objects.len();
            available +=
                objects.iter().filter_map(Condition::of).filter(|condition| condition.status == "True").count();
        }
        (all, available)
    }

    /// Objects of a kind that no function has, such as records, in the test's namespace.
    pub async fn records(&self, plural: &str) -> Vec<DynamicObject> {
        let path = format!("/apis/region.unikorn-cloud.org/v1alpha1/namespaces/{}/{plural}", World::NAMESPACE);
        let list = self.raw("GET", &path, None).await;
        serde_json::from_value(list["items"].clone()).expect("a list")
    }

    /// One line for each object: how far it is. For reports, so it does not fail.
    pub async fn standing(&self) -> Vec<String> {
        let mut lines = vec![];
        for kind in KINDS {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), World::NAMESPACE, &kind.resource());
            let listed = tokio::time::timeout(Duration::from_secs(5), api.list(&ListParams::default())).await;
            let Ok(Ok(listed)) = listed else {
                lines.push(format!("{kind}: the API does not answer"));
                continue;
            };
            for object in listed.items {
                let going = if object.metadata.deletion_timestamp.is_some() { ", being deleted" } else { "" };
                let told = Condition::of(&object).map(|c| format!("{}: {}", c.reason, c.message));
                lines.push(format!("{kind} {}{going}: {told:?}, held by {:?}", object.name_any(), object.finalizers()));
            }
        }
        lines
    }

    /// A request to kube-sim's own `/_sim`.
    pub async fn sim(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.raw(method, &format!("/_sim/{path}"), body).await
    }

    async fn raw(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = async || {
            let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
            self.client.request::<Value>(request.body(body.clone()).expect("a request")).await
        };
        patiently(request).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn of(&self, object: &Value) -> Api<DynamicObject> {
        let text = |key: &str| object[key].as_str().expect("apiVersion and kind").to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let known = Kind::ALL.iter().find(|known| known.kubernetes() == kind && known.group() == group);
        let plural = known.map_or_else(|| format!("{}s", kind.to_lowercase()), |kind| kind.plural().to_owned());
        let resource = ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: api_version.clone(),
            kind,
            plural,
        };
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

/// What `Available` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `True` or `False`.
    pub status: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl Condition {
    fn of(object: &DynamicObject) -> Option<Self> {
        let conditions = object.data["status"]["conditions"].as_array()?;
        let available = conditions.iter().find(|condition| condition["type"] == "Available")?;
        let text = |key: &str| available[key].as_str().unwrap_or_default().to_owned();
        Some(Self { status: text("status"), reason: text("reason"), message: text("message") })
    }
}

/// A Namespace.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Asks again while the API is away or fails, as `kubectl`'s user would.
async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, kube::Error>) -> Result<T, kube::Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Err(kube::Error::Api(status))
                if (400..500).contains(&status.code) && ![409, 429].contains(&status.code) =>
            {
                return Err(kube::Error::Api(status));
            }
            Err(_) if Instant::now() < until => tokio::time::sleep(AGAIN).await,
            answer => return answer,
        }
    }
}
