//! A cluster and a cloud in this process, with a region, an identity, a network and two security groups that are ready,
//! and the server function to be called by hand.
//!
//! The function is called as the worker calls it; what it asks to be called again for is done at once, after the cloud's
//! clock has been moved on by as long.

use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::ops::Deref;
use weir_api::conditions::{self, AVAILABLE};
use weir_api::{Kind, crd};
use weir_function_runtime::worker::Verdict;
use weir_harness::world::{links, object};
use weir_harness::{Caller, drive};
use weir_openstack::compute::QuotaSet;
use weir_openstack::identity::{NewProject, NewUser};
use weir_openstack::network::{AllocationPool, Gateway, NewNetwork, NewRouter, NewSecurityGroup, NewSubnet};
use weir_openstack::{ProjectId, Secret, Session};
use weir_openstack_sim::Sim;
use weir_provider::{Purpose, Region};
use weir_server::Servers;

/// Names of objects.
pub const NETWORK: &str = "b0000000-0000-4000-8000-000000000001";
pub const GROUP: &str = "c0000000-0000-4000-8000-000000000001";
pub const OTHER_GROUP: &str = "c0000000-0000-4000-8000-000000000002";
pub const SERVER: &str = "d0000000-0000-4000-8000-000000000001";
pub const AUTHORITY: &str = "e0000000-0000-4000-8000-000000000001";
/// The identity's.
pub const IDENTITY: &str = "a0000000-0000-4000-8000-000000000001";
/// The identity's key pair.
pub const KEY_PAIR: &str = "unikorn-openstack-provider";
/// A public key.
pub const PUBLIC_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

/// Simulators, and what is ready in them.
pub struct World {
    base: weir_harness::World,
    pub region: Region,
    pub project: ProjectId,
    /// The identity's session.
    pub session: Session,
    caller: Caller,
}

impl Deref for World {
    type Target = weir_harness::World;

    fn deref(&self) -> &Self::Target {
        &self.base
    }
}

/// A Server's manifest, its spec changed by a merge of the top level.
pub fn manifest(name: &str, display: &str, change: &Value, cloud: &Sim) -> Value {
    let bootstrap = cloud.bootstrap();
    let mut spec = json!({
        "flavorID": bootstrap.flavors[0].0,
        "image": {"id": bootstrap.images[0].0},
        "networks": [{"id": NETWORK}],
        "securityGroups": [{"id": GROUP}],
        "publicIPAllocation": {"enabled": true},
        "sshInjection": "none",
    });
    for (key, value) in change.as_object().unwrap() {
        match value {
            Value::Null => drop(spec.as_object_mut().unwrap().remove(key)),
            value => spec[key] = value.clone(),
        }
    }
    let mut object = object(Kind::Server, name, &links(IDENTITY), spec);
    object["metadata"]["labels"]["unikorn-cloud.org/name"] = json!(display);
    object
}

/// An object that another function has been at.
fn held(kind: Kind, name: &str, spec: Value) -> Value {
    let mut object = object(kind, name, &links(IDENTITY), spec);
    object["metadata"]["finalizers"] = json!(["unikorn"]);
    object
}

/// An SSHCertificateAuthority's manifest.
pub fn authority(public_key: &str) -> Value {
    json!({
        "apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "SSHCertificateAuthority",
        "metadata": {"name": AUTHORITY}, "spec": {"publicKey": public_key},
    })
}

impl World {
    /// Everything ready, and no server.
    pub async fn start() -> Self {
        Self::start_with(weir_openstack_sim::Config::default()).await
    }

    /// The same with a cloud of another kind.
    pub async fn start_with(config: weir_openstack_sim::Config) -> Self {
        let world = weir_harness::World::with_cloud(config).await;
        world.cloud.freeze();
        let (client, name) = (&world.client, weir_harness::World::REGION);
        let call = weir_openstack::CallTag::new(uuid::Uuid::new_v4());
        let at = (weir_harness::World::NAMESPACE, name);
        let region = world.provider.region(client, at, Purpose::Making, call, &|t| t).await.unwrap();
        let (project, session) = seed_identity(client, &region).await;
        let caller = Caller::new(&world, Servers);
        let world = Self { base: world, region, project, session, caller };
        world.seed_network().await;
        world.settle();
        world
    }

    async fn seed_network(&self) {
        let session = self.region.manager_in_project(&self.project);
        let unlimited = QuotaSet { instances: Some(-1), cores: Some(-1), ram: Some(-1), ..QuotaSet::default() };
        session.compute().set_quotas(&self.project, &unlimited).await.unwrap();
        let neutron = session.network();
        let name = format!("network-{NETWORK}");
        let network =
            neutron.create_network(&NewNetwork { name: &name, description: "", segments: &[] }).await.unwrap();
        let pool = AllocationPool { start: "10.0.0.10".parse().unwrap(), end: "10.0.0.254".parse().unwrap() };
        let subnet = NewSubnet {
            name: &name,
            description: "",
            network_id: &network.id,
            ip_version: 4,
            cidr: "10.0.0.0/24",
            gateway_ip: "10.0.0.1".parse().unwrap(),
            allocation_pools: &[pool],
            dns_nameservers: &[],
            host_routes: &[],
        };
        let subnet = neutron.create_subnet(&subnet).await.unwrap();
        let external = self.region.external_network().await.unwrap();
        let gateway = Gateway { network_id: external.id };
        let router = NewRouter { name: &name, description: "", gateway: Some(&gateway) };
        let router = neutron.create_router(&router).await.unwrap();
        neutron.add_router_interface(&router.id, &subnet.id).await.unwrap();
        self.create::<crd::Network>(held(Kind::Network, NETWORK, json!({"prefix": "10.0.0.0/24"}))).await;
        self.tell::<crd::Network>(NETWORK, "Provisioned").await;
        for group in [GROUP, OTHER_GROUP] {
            let name = format!("securitygroup-{group}");
            neutron.create_security_group(&NewSecurityGroup { name: &name, description: "" }).await.unwrap();
            self.create::<crd::SecurityGroup>(held(Kind::SecurityGroup, group, json!({"rules": []}))).await;
            self.tell::<crd::SecurityGroup>(group, "Provisioned").await;
        }
    }

    /// Creates an object from its manifest.
    pub async fn create<K>(&self, manifest: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        create(&self.client, manifest).await
    }

    /// Creates a Server.
    pub async fn create_server(&self, change: &Value) {
        self.create::<crd::Server>(manifest(SERVER, "web", change, &self.cloud)).await;
    }

    /// Sets `Available` of an object to a reason.
    pub async fn tell<K>(&self, name: &str, reason: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        tell::<K>(&self.client, name, reason).await;
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), weir_harness::World::NAMESPACE)
    }

    /// The object, if there is one.
    pub async fn get<K>(&self, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().get_opt(name).await.unwrap()
    }

    /// The Server.
    pub async fn server(&self) -> crd::Server {
        self.get(SERVER).await.expect("there is a Server")
    }

    /// The reason and message of the Server's `Available`.
    pub async fn available(&self) -> (String, String) {
        let status = self.server().await.status.unwrap_or_default();
        let condition = conditions::get(&status.conditions, AVAILABLE).expect("there is a condition");
        (condition.reason.clone(), condition.message.clone())
    }

    /// Changes an object by a merge patch.
    pub async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Marks an object for deletion.
    pub async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// One call.
    pub async fn call(&self, name: &str) -> Verdict {
        self.caller.call(name).await
    }

    /// Calls until nothing is left to do or an event has to come, and returns the last verdict.
    pub async fn drive(&self) -> Verdict {
        drive(&self.base, &self.caller, SERVER).await
    }

    /// The same for a Server of another name.
    pub async fn drive_named(&self, name: &str) -> Verdict {
        drive(&self.base, &self.caller, name).await
    }

    /// Creates the Server and drives it until it is settled.
    pub async fn settled(change: &Value) -> Self {
        let world = Self::start().await;
        world.create_server(change).await;
        assert_eq!(world.drive().await, Verdict::Settled, "{:?}", world.available().await);
        world
    }

    /// Type, reason and message of the Kubernetes Events, the oldest first.
    pub async fn events(&self) -> Vec<(String, String, String)> {
        let mut events: Vec<_> = self.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        events.sort_by_key(|event| event.metadata.resource_version.as_ref().unwrap().parse::<u64>().unwrap());
        let told = |event: Event| (event.type_.unwrap(), event.reason.unwrap(), event.message.unwrap());
        events.into_iter().map(told).collect()
    }

    /// How many ports, floating IPs and servers there are.
    pub fn counts(&self) -> (usize, usize, usize) {
        let counts = self.cloud.counts();
        (counts["ports"], counts["floatingips"], counts["servers"])
    }

    /// Whether the Server holds the object.
    pub async fn holds<K>(&self, name: &str) -> bool
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let object: K = self.get(name).await.unwrap();
        object.finalizers().contains(&format!("servers.region.unikorn-cloud.org/{SERVER}"))
    }

    /// The body of the one request of this method whose path ends so.
    pub fn body(&self, method: &str, path: &str) -> Value {
        let mut found: Vec<_> = self.cloud.requests();
        found.retain(|entry| entry.method == method && entry.path.ends_with(path));
        assert_eq!(found.len(), 1, "{method} {path}: {found:?}");
        found.remove(0).body.expect("a body")
    }
}

async fn create<K>(client: &Client, manifest: Value) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(manifest).unwrap();
    Api::<K>::namespaced(client.clone(), weir_harness::World::NAMESPACE)
        .create(&PostParams::default(), &object)
        .await
        .unwrap()
}

async fn tell<K>(client: &Client, name: &str, reason: &str)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let condition = json!({
        "type": AVAILABLE, "status": if reason == "Provisioned" { "True" } else { "False" },
        "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let patch = json!({"status": {"conditions": [condition]}});
    let api = Api::<K>::namespaced(client.clone(), weir_harness::World::NAMESPACE);
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn seed_identity(client: &Client, region: &Region) -> (ProjectId, Session) {
    let manager = region.manager();
    let keystone = manager.identity();
    let name = format!("unikorn-identity-{IDENTITY}");
    let project = NewProject { name: &name, domain_id: &region.domain, description: "", tags: &[] };
    let project = keystone.create_project(&project).await.unwrap().id;
    let password = Secret::new("horse");
    let user = NewUser {
        name: &name,
        domain_id: &region.domain,
        password: &password,
        default_project_id: Some(&project),
        description: "",
    };
    let user = keystone.create_user(&user).await.unwrap().id;
    for (role, who) in [("manager", &region.user), ("member", &user)] {
        let role = keystone.find_role_by_name(role).await.unwrap().unwrap();
        keystone.grant_project_role(&project, who, &role.id).await.unwrap();
    }
    let session = region.user_in_project(user.clone(), password, &project);
    session.compute().create_keypair(KEY_PAIR, PUBLIC_KEY).await.unwrap();
    let object = |kind, spec| held(kind, IDENTITY, spec);
    create::<crd::Identity>(client, object(Kind::Identity, json!({"provider": "openstack"}))).await;
    tell::<crd::Identity>(client, IDENTITY, "Provisioned").await;
    let record = json!({"projectID": project, "userID": user, "password": "horse", "sshKeyName": KEY_PAIR});
    let mut object = object(Kind::Identity, record);
    object["kind"] = json!("OpenstackIdentity");
    create::<crd::OpenstackIdentity>(client, object).await;
    (project, session)
}

impl World {
    /// Changes the Server's status by a merge patch.
    pub async fn patch_status_with(&self, patch: Value) {
        self.api::<crd::Server>().patch_status(SERVER, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Takes all conditions from an object.
    pub async fn patch_status<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let patch = json!({"status": {"conditions": null}});
        self.api::<K>().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}
