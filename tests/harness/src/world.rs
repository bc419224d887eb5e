//! A Kubernetes and an OpenStack, with the custom resources applied and a region ready to be used.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::discovery::ApiResource;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_api::{Kind, crd};
use weir_kube_sim::KubeSim;
use weir_openstack::network::NewPort;
use weir_openstack::{Auth, CallTag, Credential, HttpTransport, Interface, Scope, Session, Tls, TokenCache};
use weir_openstack_sim::Sim;
use weir_provider::Provider;

/// Both simulators, and what functions need to be called.
pub struct World {
    /// The cloud.
    pub cloud: Sim,
    /// The Kubernetes API.
    pub kubernetes: KubeSim,
    /// A client of it for the test itself.
    pub client: Client,
    /// A client of it for the functions, which tells itself apart by its user agent, [`World::FUNCTION`].
    pub function_client: Client,
    /// What functions share in a process.
    pub provider: Arc<Provider>,
}

impl World {
    /// Where all objects are.
    pub const NAMESPACE: &str = "weir";
    /// The user agent of functions.
    pub const FUNCTION: &str = "weir-function";
    /// The region's name.
    pub const REGION: &str = "region-a";
    /// The name of the region's Secret.
    pub const SECRET: &str = "region-a-credential";

    /// A world whose region can be used: it holds its Secret and is held, as its function leaves it. Nobody has looked at the
    /// cloud.
    pub async fn new() -> Self {
        Self::with_cloud(weir_openstack_sim::Config::default()).await
    }

    /// The same with a cloud of one's own.
    pub async fn with_cloud(config: weir_openstack_sim::Config) -> Self {
        let world = Self::unheld(config).await;
        world.hold(Kind::Region, Self::REGION, true).await;
        world.hold_secret(true).await;
        world
    }

    /// A world whose region and Secret have just been applied, for the region's function to be the first to come.
    pub async fn fresh() -> Self {
        Self::unheld(weir_openstack_sim::Config::default()).await
    }

    async fn unheld(config: weir_openstack_sim::Config) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let cloud = Sim::start(config).await.expect("openstack-sim starts");
        let kubernetes = KubeSim::start(weir_kube_sim::Config::plain()).await.expect("kube-sim starts");
        let (client, function_client) = (client(&kubernetes, "test"), client(&kubernetes, Self::FUNCTION));
        let world = Self { cloud, kubernetes, client, function_client, provider: Arc::new(Provider::default()) };
        world.prepare().await;
        world
    }

    async fn prepare(&self) {
        prepare(&self.client).await;
        self.apply_secret(|_| {}).await;
        self.apply_region(json!({})).await;
    }

    /// Applies the region's Secret, changed by `change`.
    pub async fn apply_secret(&self, change: impl FnOnce(&mut Value)) {
        let mut values = serde_json::to_value(self.cloud.bootstrap().credential).unwrap();
        change(&mut values);
        // Not as `stringData`: a key that is left out of that stays in `data`.
        let encoded = |value: &Value| json!(STANDARD.encode(value.as_str().expect("text")));
        let data: BTreeMap<_, _> = values.as_object().expect("values").iter().map(|(k, v)| (k, encoded(v))).collect();
        let metadata = json!({"name": Self::SECRET, "namespace": Self::NAMESPACE});
        self.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})).await;
    }

    /// Applies the region, with more in `spec.openstack`.
    pub async fn apply_region(&self, more: Value) {
        let mut openstack = json!({
            "endpoint": self.cloud.bootstrap().endpoint,
            "serviceAccountSecret": {"namespace": Self::NAMESPACE, "name": Self::SECRET},
        });
        merge(&mut openstack, more);
        let spec = json!({"provider": "openstack", "openstack": openstack});
        self.apply(&object(Kind::Region, Self::REGION, &[], spec)).await;
    }

    /// Puts the finalizer of its function on an object, or takes it off.
    pub async fn hold(&self, kind: Kind, name: &str, held: bool) {
        let patch = finalizers(held.then(|| weir_api::labels::FINALIZER.to_owned()));
        self.api(kind).patch(name, &PatchParams::default(), &patch).await.expect("accepted");
    }

    /// The same for an identity's record.
    pub async fn hold_record(&self, identity: &str, held: bool) {
        let patch = finalizers(held.then(|| weir_api::labels::FINALIZER.to_owned()));
        record_api(&self.client).patch(identity, &PatchParams::default(), &patch).await.expect("accepted");
    }

    /// Puts the region's reference on its Secret, or takes it off.
    pub async fn hold_secret(&self, held: bool) {
        let patch = finalizers(held.then(|| Kind::Region.reference(Self::REGION)));
        let api: Api<Secret> = Api::namespaced(self.client.clone(), Self::NAMESPACE);
        api.patch(Self::SECRET, &PatchParams::default(), &patch).await.expect("accepted");
    }

    /// Applies an object, as `kubectl apply --server-side` does, and returns what was stored.
    pub async fn apply(&self, object: &Value) -> DynamicObject {
        apply(&self.client, object).await
    }

    /// The same, where a refusal is of interest.
    pub async fn try_apply(&self, object: &Value) -> Result<DynamicObject, kube::Error> {
        try_apply(&self.client, object).await
    }

    /// An object as it is now.
    pub async fn get(&self, kind: Kind, name: &str) -> Option<DynamicObject> {
        get(&self.client, kind, name).await
    }

    /// Asks for an object to be deleted.
    pub async fn delete(&self, kind: Kind, name: &str) {
        delete(&self.client, kind, name).await;
    }

    /// Reason and message of an object's `Available`.
    pub async fn condition(&self, kind: Kind, name: &str) -> Option<(String, String)> {
        condition(&self.client, kind, name).await
    }

    /// Objects of a kind that has a function.
    pub fn api(&self, kind: Kind) -> Api<DynamicObject> {
        api(&self.client, kind)
    }

    /// How many resources of each kind the cloud holds that it did not hold when it was new. Without the `default` security
    /// group that Neutron makes by itself for each project that touches it, and lets only its administrator remove.
    pub fn made(&self) -> BTreeMap<String, usize> {
        let fresh = fresh();
        let beyond = |(kind, count): (String, usize)| {
            let more = count.saturating_sub(fresh.get(&kind).copied().unwrap_or_default());
            (more > 0 && kind != "default_security_groups").then_some((kind, more))
        };
        self.cloud.counts().into_iter().filter_map(beyond).collect()
    }

    /// Forgets which requests were made, and lifts all faults.
    pub fn settle(&self) {
        self.cloud.faults().clear();
        self.kubernetes.faults().clear();
        self.cloud.clear_requests();
        self.kubernetes.requests().reset();
    }

    /// How many writes changed something since [`World::settle`], in Kubernetes and in the cloud.
    pub fn writes(&self) -> (u64, usize) {
        let cloud = self.cloud.requests().iter().filter(|r| r.effect && !r.path.ends_with("/auth/tokens")).count();
        (self.kubernetes.requests().changes(|_| true), cloud)
    }
}

/// A patch of all of an object's finalizers.
fn finalizers(finalizer: Option<String>) -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"finalizers": Vec::from_iter(finalizer)}}))
}

/// What a cloud holds when nobody has used it.
fn fresh() -> &'static BTreeMap<String, usize> {
    static FRESH: std::sync::OnceLock<BTreeMap<String, usize>> = std::sync::OnceLock::new();
    FRESH.get_or_init(|| {
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime
                .block_on(async { Sim::start(weir_openstack_sim::Config::default()).await.expect("a cloud").counts() })
        })
        .join()
        .expect("counted")
    })
}

/// Makes what every world has: the custom resources and the namespace.
pub async fn prepare(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crd::all() {
        definitions.create(&kube::api::PostParams::default(), &definition).await.expect("the CRD is accepted");
    }
    apply(client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": World::NAMESPACE}})).await;
}

/// [`World::apply`].
pub async fn apply(client: &Client, object: &Value) -> DynamicObject {
    try_apply(client, object).await.unwrap_or_else(|error| panic!("{object} is refused: {error}"))
}

async fn try_apply(client: &Client, object: &Value) -> Result<DynamicObject, kube::Error> {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let params = PatchParams::apply("test").force();
    objects(client, object).patch(name, &params, &Patch::Apply(object)).await
}

/// Merges `more` into an object's spec.
pub async fn merge_spec(client: &Client, kind: Kind, name: &str, more: &Value) {
    let patch = Patch::Merge(json!({ "spec": more }));
    api(client, kind).patch(name, &PatchParams::default(), &patch).await.expect("accepted");
}

/// [`World::get`].
pub async fn get(client: &Client, kind: Kind, name: &str) -> Option<DynamicObject> {
    api(client, kind).get_opt(name).await.expect("kube-sim answers")
}

/// [`World::delete`].
pub async fn delete(client: &Client, kind: Kind, name: &str) {
    match api(client, kind).delete(name, &DeleteParams::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{kind} {name} cannot be deleted: {error}"),
    }
}

/// [`World::condition`].
pub async fn condition(client: &Client, kind: Kind, name: &str) -> Option<(String, String)> {
    let object = get(client, kind, name).await?;
    let conditions = object.data["status"]["conditions"].as_array()?;
    let available = conditions.iter().find(|c| c["type"] == "Available")?;
    let text = |key: &str| available[key].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}

fn api(client: &Client, kind: Kind) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), World::NAMESPACE, &kind.resource())
}

/// Objects like `object`, where that says they are.
fn objects(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |key: &str| object[key].as_str().expect("apiVersion and kind").to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let plural = match kind.as_str() {
        "Identity" => "identities".to_owned(),
        "SSHCertificateAuthority" => "sshcertificateauthorities".to_owned(),
        other => format!("{}s", other.to_lowercase()),
    };
    let resource =
        ApiResource { group: group.into(), version: version.into(), api_version: api_version.clone(), kind, plural };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// A client of a simulator, with all rights.
pub fn client(kubernetes: &KubeSim, user_agent: &str) -> Client {
    let mut config = Config::new(kubernetes.url().parse().expect("a URL"));
    config.auth_info.token = Some(kubernetes.token().to_owned().into());
    World::NAMESPACE.clone_into(&mut config.default_namespace);
    config.headers.push((http::header::USER_AGENT, user_agent.parse().expect("a user agent")));
    Client::try_from(config).expect("a client")
}

/// An object, labelled as the predecessor labels them, and with `links` to those above it.
#[allow(clippy::needless_pass_by_value)] // callers build it in place
pub fn object(kind: Kind, name: &str, links: &[(&str, &str)], spec: Value) -> Value {
    let mut labels = json!({
        "unikorn-cloud.org/name": format!("the-{name}"),
        "unikorn-cloud.org/organization": "organization-a",
        "unikorn-cloud.org/project": "project-a",
    });
    for (label, value) in links {
        labels[*label] = json!(value);
    }
    json!({
        "apiVersion": format!("{}/v1alpha1", kind.group()), "kind": kind.kubernetes(),
        "metadata": {"name": name, "namespace": World::NAMESPACE, "labels": labels}, "spec": spec,
    })
}

/// Labels that put an object into the world's region and an identity.
pub fn links(identity: &str) -> [(&'static str, &str); 2] {
    [(weir_api::labels::REGION, World::REGION), (weir_api::labels::IDENTITY, identity)]
}

/// An Identity.
pub fn identity(name: &str) -> Value {
    object(Kind::Identity, name, &[(weir_api::labels::REGION, World::REGION)], json!({"provider": "openstack"}))
}

/// A Network of an identity.
pub fn network(name: &str, identity: &str) -> Value {
    let spec = json!({"prefix": "10.20.0.0/24", "dnsNameservers": ["9.9.9.9"],
        "routes": [{"prefix": "10.30.0.0/16", "nextHop": "10.20.0.9"}]});
    object(Kind::Network, name, &links(identity), spec)
}

/// An SSHCertificateAuthority.
pub fn certificate_authority(name: &str) -> Value {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBM2yqBN3sDzFi1rj7MMPiZl5JyHmQlc3YZdX6yYQ1Vh";
    json!({"apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "SSHCertificateAuthority",
        "metadata": {"name": name, "namespace": World::NAMESPACE}, "spec": {"publicKey": key}})
}

/// A SecurityGroup of an identity.
pub fn security_group(name: &str, identity: &str) -> Value {
    let rules = json!([
        {"direction": "ingress", "protocol": "tcp", "port": {"number": 22}},
        {"direction": "ingress", "protocol": "icmp", "cidr": "10.20.0.0/24"},
    ]);
    object(Kind::SecurityGroup, name, &links(identity), json!({ "rules": rules }))
}

/// The records of identities.
pub fn record_api(client: &Client) -> Api<crd::OpenstackIdentity> {
    Api::namespaced(client.clone(), World::NAMESPACE)
}

/// The VLAN tables of regions.
pub fn vlans_api(client: &Client) -> Api<crd::VlanAllocation> {
    Api::namespaced(client.clone(), World::NAMESPACE)
}

/// The region's Secret, if it is there.
pub async fn secret(world: &World) -> Option<Secret> {
    let api: Api<Secret> = Api::namespaced(world.client.clone(), World::NAMESPACE);
    api.get_opt(World::SECRET).await.expect("kube-sim answers")
}

/// Asks for the region's Secret to be deleted.
pub async fn delete_secret(world: &World) {
    let api: Api<Secret> = Api::namespaced(world.client.clone(), World::NAMESPACE);
    api.delete(World::SECRET, &DeleteParams::default()).await.expect("deleted");
}

/// A session of the cloud's administrator.
pub fn administrator(world: &World) -> Session {
    let admin = world.cloud.bootstrap().admin;
    let credential =
        Credential::Password { user_id: admin.user_id.as_str().into(), password: admin.password.as_str().into() };
    let scope = Scope::Project(admin.project_id.as_str().into());
    let auth = Auth { endpoint: world.cloud.bootstrap().endpoint, credential, scope };
    let transport = Arc::new(HttpTransport::new(&Tls::default()).expect("a transport"));
    Session::new(transport, TokenCache::default(), auth, Interface::Public, CallTag::new(uuid::Uuid::new_v4()))
}

/// Gives the region's user another password, in the cloud only.
pub async fn rotate_password(world: &World, password: &str) {
    let user = world.cloud.bootstrap().credential.user_id;
    let set = administrator(world).identity().set_password(&user.as_str().into(), &password.into()).await;
    set.expect("the password is set");
}

/// A session with an identity's own credential.
pub async fn tenant(world: &World, identity: &str) -> Session {
    let record = record_api(&world.client).get(identity).await.expect("a record").spec;
    let id = record.application_credential_id.expect("an application credential");
    let secret = record.application_credential_secret.expect("its secret");
    let credential =
        Credential::ApplicationCredential { id: id.as_str().into(), secret: secret.expose().as_str().into() };
    let auth = Auth { endpoint: world.cloud.bootstrap().endpoint, credential, scope: Scope::Own };
    let transport = Arc::new(HttpTransport::new(&Tls::default()).expect("a transport"));
    Session::new(transport, TokenCache::default(), auth, Interface::Public, CallTag::new(uuid::Uuid::new_v4()))
}

/// Somebody else's port on a network; returns its id.
pub async fn foreign_port(world: &World, network: &str) -> String {
    let new = NewPort {
        name: "somebody else's",
        description: "",
        network_id: &network.into(),
        security_groups: None,
        allowed_address_pairs: &[],
    };
    administrator(world).network().create_port(&new).await.expect("a port").id.to_string()
}

/// A port of an identity's own in a security group; returns its id.
pub async fn port_in_group(world: &World, identity: &str, network: &str, group: &str) -> String {
    let session = tenant(world, identity).await;
    let group = session.network().find_security_group_by_name(group).await.expect("an answer").expect("the group").id;
    let new = NewPort {
        name: "a port of the tenant's",
        description: "",
        network_id: &network.into(),
        security_groups: Some(&[group]),
        allowed_address_pairs: &[],
    };
    session.network().create_port(&new).await.expect("a port").id.to_string()
}

/// Removes a port.
pub async fn remove_port(world: &World, port: &str) {
    administrator(world).network().delete_port(&port.into()).await.expect("deleted");
}

/// Adds a role to the cloud, as its administrator does.
pub async fn create_role(world: &World, name: &str) {
    let bootstrap = world.cloud.bootstrap();
    let token = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {"id": bootstrap.admin.user_id, "password": bootstrap.admin.password}}},
        "scope": {"project": {"id": bootstrap.admin.project_id}},
    }});
    let http = reqwest::Client::new();
    let answer = http.post(format!("{}/auth/tokens", bootstrap.endpoint)).json(&token).send().await.expect("a token");
    let token = answer.headers()["x-subject-token"].to_str().expect("a token").to_owned();
    let role = http.post(format!("{}/roles", bootstrap.endpoint)).header("x-auth-token", token);
    let made = role.json(&json!({"role": {"name": name}})).send().await.expect("an answer");
    assert!(made.status().is_success(), "the role is made: {}", made.status());
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
