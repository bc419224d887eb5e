//! Projects full of servers, and a monitor to look at them.

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use weir_api::{Kind, ObjectRef, Problem, conditions, crd};
use weir_function_runtime::Scope;
use weir_function_runtime::worker::{Call, Handler, Verdict};
use weir_harness::world::{links, object};
use weir_messages::{Cause, Work};
use weir_openstack::compute::{NewServer, QuotaSet};
use weir_openstack::identity::{NewProject, NewUser};
use weir_openstack::{CallTag, FlavorId, ImageId, NovaServerId, ProjectId, Secret, Session};
use weir_provider::{Purpose, Region};
use weir_server_monitor::act::Wake;
use weir_server_monitor::{Monitor, Round};

/// Wakes, as they were asked for.
#[derive(Clone, Default)]
pub struct Wakes(Arc<Mutex<Vec<ObjectRef>>>);

impl Wake for Wakes {
    fn wake(&self, object: ObjectRef) -> BoxFuture<'_, Result<(), Problem>> {
        self.0.lock().unwrap().push(object);
        Box::pin(std::future::ready(Ok(())))
    }
}

pub struct World {
    base: weir_harness::World,
    pub region: Region,
    monitor: Monitor,
    wakes: Wakes,
}

impl Deref for World {
    type Target = weir_harness::World;

    fn deref(&self) -> &Self::Target {
        &self.base
    }
}

/// An identity with a project.
pub struct Tenant {
    pub identity: String,
    pub project: ProjectId,
    pub session: Session,
}

impl World {
    pub async fn start() -> Self {
        Self::of(weir_harness::World::new().await).await
    }

    pub async fn of(base: weir_harness::World) -> Self {
        base.cloud.freeze();
        let (namespace, name) = (weir_harness::World::NAMESPACE, weir_harness::World::REGION);
        let region = base
            .provider
            .region(&base.client, (namespace, name), Purpose::Making, CallTag::new(uuid::Uuid::new_v4()), &|t| t)
            .await
            .unwrap();
        let wakes = Wakes::default();
        let monitor = Monitor::new(base.function_client.clone(), base.provider.clone(), Arc::new(wakes.clone()));
        Self { base, region, monitor, wakes }
    }

    /// One look at everything.
    pub async fn look(&self) -> Round {
        let region = ObjectRef::new(Kind::ServerMonitor, weir_harness::World::NAMESPACE, weir_harness::World::REGION);
        let call = Call::direct(Work::new(region, Cause::Resync));
        let scope = Scope::new(&call, &self.function_client, self.provider.clone());
        self.monitor.round(&scope, weir_harness::World::REGION).await.unwrap().expect("there is a region")
    }

    /// One call of the monitor, as the worker makes it.
    pub async fn call(&self) -> Verdict {
        let region = ObjectRef::new(Kind::ServerMonitor, weir_harness::World::NAMESPACE, weir_harness::World::REGION);
        self.monitor.handle(&Call::direct(Work::new(region, Cause::Resync))).await
    }

    /// The names of the servers whose functions were woken since this was asked last.
    pub fn woken(&self) -> Vec<String> {
        let mut woken: Vec<String> = self.wakes.0.lock().unwrap().drain(..).map(|object| object.name).collect();
        woken.sort();
        woken
    }

    pub fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), weir_harness::World::NAMESPACE)
    }

    async fn create<K>(&self, manifest: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let object: K = serde_json::from_value(manifest).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap();
    }

    /// An identity of this number.
    pub async fn tenant(&self, number: usize) -> Tenant {
        let identity = format!("a0000000-0000-4000-8000-{number:012}");
        let manager = self.region.manager();
        let keystone = manager.identity();
        let name = format!("unikorn-identity-{identity}");
        let project = NewProject { name: &name, domain_id: &self.region.domain, description: "", tags: &[] };
        let project = keystone.create_project(&project).await.unwrap().id;
        let password = Secret::new("horse");
        let user = NewUser {
            name: &name,
            domain_id: &self.region.domain,
            password: &password,
            default_project_id: Some(&project),
            description: "",
        };
        let user = keystone.create_user(&user).await.unwrap().id;
        for (role, who) in [("manager", &self.region.user), ("member", &user)] {
            let role = keystone.find_role_by_name(role).await.unwrap().unwrap();
            keystone.grant_project_role(&project, who, &role.id).await.unwrap();
        }
        let unlimited = QuotaSet { instances: Some(-1), cores: Some(-1), ram: Some(-1), ..QuotaSet::default() };
        self.region.manager_in_project(&project).compute().set_quotas(&project, &unlimited).await.unwrap();
        let region = [(weir_api::labels::REGION, weir_harness::World::REGION)];
        self.create::<crd::Identity>(object(Kind::Identity, &identity, &region, json!({"provider": "openstack"})))
            .await;
        let record = json!({"projectID": project, "userID": user, "password": "horse"});
        let mut record = object(Kind::Identity, &identity, &links(&identity), record);
        record["kind"] = json!("OpenstackIdentity");
        self.create::<crd::OpenstackIdentity>(record).await;
        let session = self.region.user_in_project(user, password, &project);
        Tenant { identity, project, session }
    }

    /// A Server object of a tenant's, whose server has the same name.
    pub async fn object(&self, tenant: &Tenant, name: &str) {
        let bootstrap = self.cloud.bootstrap();
        let spec = json!({
            "flavorID": bootstrap.flavors[0].0, "image": {"id": bootstrap.images[0].0}, "networks": [{"id": "b0000000-0000-4000-8000-000000000001"}],
        });
        let mut object = object(Kind::Server, name, &links(&tenant.identity), spec);
        object["metadata"]["labels"]["unikorn-cloud.org/name"] = json!(name);
        self.create::<crd::Server>(object).await;
    }

    /// A server in the cloud, that says it belongs to an object.
    pub async fn server(&self, tenant: &Tenant, name: &str, belongs_to: Option<&str>) -> NovaServerId {
        let bootstrap = self.cloud.bootstrap();
        let (flavor, image) =
            (FlavorId::from(bootstrap.flavors[0].0.as_str()), ImageId::from(bootstrap.images[0].0.as_str()));
        let metadata: BTreeMap<_, _> =
            belongs_to.map(|id| ("region:server_id".to_owned(), id.to_owned())).into_iter().collect();
        let server = NewServer { metadata: &metadata, ..NewServer::new(name, &flavor, &image, &[]) };
        tenant.session.compute().create_server(&server).await.unwrap()
    }

    /// Objects and servers of these names.
    pub async fn fill(&self, tenant: &Tenant, names: &[String]) {
        stream::iter(names)
            .map(async |name| {
                self.object(tenant, name).await;
                self.server(tenant, name, Some(name)).await;
                Ok::<_, ()>(())
            })
            .buffer_unordered(8)
            .try_collect::<()>()
            .await
            .unwrap();
    }

    pub async fn status(&self, name: &str) -> crd::ServerStatus {
        self.api::<crd::Server>().get(name).await.unwrap().status.unwrap_or_default()
    }

    /// The reasons of `Healthy` and `Active`.
    pub async fn shown(&self, name: &str) -> (String, String) {
        let status = self.status(name).await;
        let reason = |kind| conditions::get(&status.conditions, kind).map(|c| c.reason.clone()).unwrap_or_default();
        (reason("Healthy"), reason("Active"))
    }

    pub async fn patch_status(&self, name: &str, patch: Value) {
        self.api::<crd::Server>().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn patch(&self, name: &str, patch: Value) {
        self.api::<crd::Server>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// How many requests the cloud got, of this method and a path that ends so.
    pub fn asked(&self, method: &str, path: &str) -> usize {
        self.cloud.requests().iter().filter(|entry| entry.method == method && entry.path.ends_with(path)).count()
    }
}

/// What a server shows as, for comparisons.
pub fn shows(healthy: &str, active: &str) -> (String, String) {
    (healthy.to_owned(), active.to_owned())
}
