//! The main job: Region, Identity, Network, SecurityGroup and Server, made and unmade by the real functions in each cloud.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_api::{Kind, ObjectRef, names};
use weir_function_runtime::worker::{Call, Handler, Verdict};
use weir_function_runtime::{Function, reconcile::Reconciler};
use weir_harness::world;
use weir_kube_sim::KubeSim;
use weir_messages::{Cause, Work};

use crate::cloud::{Cloud, on_each_cloud, unique};

/// How long a cloud may take for one object. A small machine that runs a whole cloud is slow.
const PATIENCE: Duration = Duration::from_secs(240);

/// A Kubernetes API and the functions, called by hand.
struct Job<'a> {
    cloud: &'a Cloud,
    kubernetes: KubeSim,
    client: kube::Client,
    provider: std::sync::Arc<weir_provider::Provider>,
    identity: String,
}

impl<'a> Job<'a> {
    async fn new(cloud: &'a Cloud) -> Self {
        let kubernetes = KubeSim::start(weir_kube_sim::Config::plain()).await.expect("kube-sim starts");
        let client = world::client(&kubernetes, "weir-function");
        world::prepare(&client).await;
        let provider = std::sync::Arc::default();
        Self { cloud, kubernetes, client, provider, identity: unique("identity") }
    }

    async fn apply_all(&self) {
        let facts = &self.cloud.facts;
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "credential", "namespace": world::World::NAMESPACE},
            "stringData": {"domain-id": facts.credential.domain_id, "project-id": facts.credential.project_id,
                "user-id": facts.credential.user_id, "password": facts.credential.password.reveal()}});
        let region = json!({"provider": "openstack", "openstack": {"endpoint": facts.endpoint,
            "network": {"externalNetworks": {"selector": {"ids": [facts.external_network_id]}}},
            "serviceAccountSecret": {"namespace": world::World::NAMESPACE, "name": "credential"}}});
        let server = json!({"flavorID": facts.flavors[0].id, "image": {"id": facts.images[0].id},
            "networks": [{"id": NETWORK}], "securityGroups": [{"id": GROUP}], "publicIPAllocation": {"enabled": true}});
        world::apply(&self.client, &secret).await;
        world::apply(&self.client, &world::object(Kind::Region, world::World::REGION, &[], region)).await;
        world::apply(&self.client, &world::identity(&self.identity)).await;
        world::apply(&self.client, &world::network(NETWORK, &self.identity)).await;
        world::apply(&self.client, &world::security_group(GROUP, &self.identity)).await;
        let server = world::object(Kind::Server, SERVER, &world::links(&self.identity), server);
        world::apply(&self.client, &server).await;
    }

    fn handler(&self, kind: Kind) -> Box<dyn Handler> {
        match kind {
            Kind::Region => self.reconciler(weir_region::Regions),
            Kind::Identity => self.reconciler(weir_identity::Identities),
            Kind::Network => self.reconciler(weir_network::Networks),
            Kind::SecurityGroup => self.reconciler(weir_security_group::SecurityGroups),
            _ => self.reconciler(weir_server::Servers),
        }
    }

    fn reconciler(&self, function: impl Function) -> Box<dyn Handler> {
        Box::new(Reconciler::new(function, self.client.clone(), self.provider.clone()))
    }

    fn objects(&self) -> [(Kind, &str); 5] {
        [
            (Kind::Region, world::World::REGION),
            (Kind::Identity, &self.identity),
            (Kind::Network, NETWORK),
            (Kind::SecurityGroup, GROUP),
            (Kind::Server, SERVER),
        ]
    }

    async fn call(&self, kind: Kind, name: &str) -> Verdict {
        let work = Work::new(ObjectRef::new(kind, world::World::NAMESPACE, name), Cause::Changed);
        self.handler(kind).handle(&Call::direct(work)).await
    }

    /// Calls until the object has come to rest, at the cloud's own pace.
    async fn until(&self, kind: Kind, name: &str, rest: impl Fn(&Verdict) -> bool) {
        let begun = Instant::now();
        loop {
            let verdict = self.call(kind, name).await;
            if rest(&verdict) {
                return;
            }
            let told = world::condition(&self.client, kind, name).await;
            assert!(begun.elapsed() < PATIENCE, "{kind} {name}: {verdict:?}, {told:?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn delete_all(&self) {
        for (kind, name) in self.objects() {
            world::delete(&self.client, kind, name).await;
        }
        for (kind, name) in self.objects().into_iter().rev() {
            self.until(kind, name, |verdict| matches!(verdict, Verdict::Gone)).await;
        }
    }

    /// What the cloud holds under the names of this job.
    async fn left(&self) -> Vec<String> {
        let (manager, name) = (self.cloud.manager(), names::identity(&self.identity));
        let (keystone, domain) = (manager.identity(), self.cloud.domain());
        let project = keystone.find_project_by_name(&domain, &name).await.expect("an answer");
        let user = keystone.find_user_by_name(&domain, &name).await.expect("an answer");
        project.map(|p| p.name).into_iter().chain(user.map(|u| u.name)).collect()
    }
}

const NETWORK: &str = "b0000000-0000-4000-8000-00000000000a";
const GROUP: &str = "b0000000-0000-4000-8000-00000000000b";
const SERVER: &str = "b0000000-0000-4000-8000-00000000000c";

/// Proves: IDN-1, NET-1, SEC-1, SRV-1, SRV-10, OWN-4, OWN-8
#[tokio::test(flavor = "multi_thread")]
async fn the_main_job_is_done_rests_and_leaves_nothing() {
    on_each_cloud(async |cloud| {
        let job = Job::new(cloud).await;
        job.apply_all().await;
        for (kind, name) in job.objects() {
            job.until(kind, name, |verdict| matches!(verdict, Verdict::Settled)).await;
            let told = world::condition(&job.client, kind, name).await.expect("a condition");
            assert_eq!(told.0, "Provisioned", "{kind}: {}", told.1);
        }
        let server = world::get(&job.client, Kind::Server, SERVER).await.expect("the server");
        let address = |field: &str| server.data["status"][field].as_str().map(str::to_owned).unwrap_or_default();
        assert!(address("privateIP").starts_with("10.20.0."), "{}", server.data["status"]);
        assert!(!address("publicIP").is_empty(), "{}", server.data["status"]);

        // A server that is still being built changes by itself; what Weir has written does not.
        job.kubernetes.requests().reset();
        let writes = || cloud.sim.as_ref().map(weir_openstack_sim::Sim::mutations);
        let before = writes();
        for (kind, name) in job.objects() {
            let verdict = job.call(kind, name).await;
            assert!(matches!(verdict, Verdict::Settled), "{kind}: {verdict:?}");
        }
        assert_eq!(job.kubernetes.requests().changes(|_| true), 0, "a second pass writes nothing");
        assert_eq!(writes(), before);

        job.delete_all().await;
        assert_eq!(job.left().await, [""; 0]);
    })
    .await;
}

/// Proves: NET-7, NET-9
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_network_is_made_on_its_vlan_and_gives_it_back() {
    on_each_cloud(async |cloud| {
        let Some(physical) = cloud.facts.physical_networks.first() else {
            panic!("the description of the cloud names no physical network");
        };
        let job = Job::new(cloud).await;
        job.apply_all().await;
        let vlan = json!({"openstack": {"network": {"providerNetworks": {"physicalNetwork": physical,
            "vlan": {"segments": [{"startId": 3100, "endId": 3900}]}}}}});
        world::merge_spec(&job.client, Kind::Region, world::World::REGION, &vlan).await;
        for (kind, name) in
            [(Kind::Region, world::World::REGION), (Kind::Identity, &job.identity), (Kind::Network, NETWORK)]
        {
            job.until(kind, name, |verdict| matches!(verdict, Verdict::Settled)).await;
        }
        let network = world::get(&job.client, Kind::Network, NETWORK).await.expect("the network");
        let id = network.data["status"]["openstack"]["vlanID"].as_i64();
        assert!(id.is_some_and(|id| (3100..=3900).contains(&id)), "{id:?}");
        job.delete_all().await;
        assert_eq!(job.left().await, [""; 0]);
        let table = world::vlans_api(&job.client).get_opt(&names::vlan_allocation(world::World::REGION)).await;
        assert_eq!(table.expect("an answer").map_or(Value::Null, |t| json!(t.spec.allocations)), Value::Null);
    })
    .await;
}
