//! The clouds under test.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use weir_openstack::{
    Auth, CallTag, Credential, DomainId, FlavorId, HttpTransport, ImageId, Interface, NetworkId, ProjectId, Scope,
    Secret, Session, Tls, TokenCache, Transport, UserId,
};
use weir_openstack_sim::{Config, Equipment, Sim};

/// The description of a cloud, as `prepare-cloud` and the simulator's `/_sim/bootstrap` write it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Facts {
    pub endpoint: String,
    pub credential: RegionCredential,
    /// The smallest first.
    pub flavors: Vec<Named>,
    /// Public ones, of which the first two fit the smallest flavor.
    pub images: Vec<Named>,
    pub external_network_id: String,
    pub hosts: Vec<String>,
    pub physical_networks: Vec<String>,
    /// A resource provider with one unit of a class and a trait of its own, if the cloud has Placement.
    pub placement: Option<Placement>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Placement {
    pub provider: String,
    pub resource_class: String,
    #[serde(rename = "trait")]
    pub trait_: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RegionCredential {
    pub domain_id: String,
    pub project_id: String,
    pub user_id: String,
    pub password: Secret,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Named {
    pub id: String,
}

/// A cloud under test.
pub struct Cloud {
    pub facts: Facts,
    /// The simulator, if it is one: faults can be set on it.
    pub sim: Option<Sim>,
    transport: Arc<dyn Transport>,
    tokens: TokenCache,
}

impl Cloud {
    async fn simulated(config: Config) -> Self {
        let sim = Sim::start(config).await.expect("the simulator starts");
        let facts = serde_json::from_value(sim.bootstrap().to_json()).expect("the simulator describes itself");
        Self::new(facts, Some(sim))
    }

    fn given() -> Option<Self> {
        let text = std::env::var("WEIR_CONTRACT_CLOUD").ok().filter(|text| !text.trim().is_empty())?;
        let json = if text.trim_start().starts_with('{') {
            text
        } else {
            std::fs::read_to_string(&text).expect("WEIR_CONTRACT_CLOUD names a file")
        };
        Some(Self::new(serde_json::from_str(&json).expect("WEIR_CONTRACT_CLOUD describes a cloud"), None))
    }

    fn new(facts: Facts, sim: Option<Sim>) -> Self {
        let transport = Arc::new(HttpTransport::new(&Tls::default()).expect("a transport"));
        Self { facts, sim, transport, tokens: TokenCache::default() }
    }

    pub fn session(&self, credential: Credential, scope: Scope) -> Session {
        let auth = Auth { endpoint: self.facts.endpoint.clone(), credential, scope };
        // Generous: a small machine that runs a whole cloud has slow moments.
        let call = CallTag::new(uuid::Uuid::new_v4()).with_deadline(Duration::from_secs(120));
        Session::new(self.transport.clone(), self.tokens.clone(), auth, Interface::Public, call)
    }

    pub fn password(&self, user: &UserId, password: &Secret, scope: Scope) -> Session {
        self.session(Credential::Password { user_id: user.clone(), password: password.clone() }, scope)
    }

    fn region(&self, scope: Scope) -> Session {
        self.password(&self.region_user(), &self.facts.credential.password, scope)
    }

    /// The region's credential on its domain.
    pub fn manager(&self) -> Session {
        self.region(Scope::Domain(self.domain()))
    }

    /// The region's credential in its own project.
    pub fn inventory(&self) -> Session {
        self.region(Scope::Project(self.region_project()))
    }

    /// The region's credential in another project.
    pub fn manager_in(&self, project: &ProjectId) -> Session {
        self.region(Scope::Project(project.clone()))
    }

    pub fn domain(&self) -> DomainId {
        self.facts.credential.domain_id.clone().into()
    }

    pub fn region_project(&self) -> ProjectId {
        self.facts.credential.project_id.clone().into()
    }

    pub fn region_user(&self) -> UserId {
        self.facts.credential.user_id.clone().into()
    }

    pub fn flavor(&self) -> FlavorId {
        self.facts.flavors[0].id.clone().into()
    }

    pub fn image(&self, n: usize) -> ImageId {
        self.facts.images[n].id.clone().into()
    }

    pub fn external_network(&self) -> NetworkId {
        self.facts.external_network_id.clone().into()
    }
}

/// Runs `test` on the simulator and, if one is given, on the real cloud.
pub async fn on_each_cloud(test: impl AsyncFn(&Cloud)) {
    on_sim(&test).await;
    if let Some(cloud) = Cloud::given() {
        eprintln!("--- on {}", cloud.facts.endpoint);
        test(&cloud).await;
    }
}

/// Runs `test` on the simulator only: for what a real cloud cannot be made to do.
pub async fn on_sim(test: impl AsyncFn(&Cloud)) {
    let quick = Duration::from_millis(400);
    let config = Config { build: quick, delete: quick / 2, ..Config::default() };
    let equipment = Equipment {
        resources: [("CUSTOM_CONTRACT".to_owned(), 1)].into(),
        traits: ["CUSTOM_CONTRACT_READY".to_owned()].into(),
    };
    let equipment = [(config.hosts[0].clone(), equipment)].into();
    let cloud = Cloud::simulated(Config { equipment, ..config }).await;
    test(&cloud).await;
}

/// A name nothing else in the cloud has.
pub fn unique(what: &str) -> String {
    let id = uuid::Uuid::new_v4().simple().to_string();
    format!("contract-{what}-{}", &id[..8])
}

/// Asks until `check` is satisfied; panics with `what` after two minutes.
pub async fn eventually<T, F>(what: &str, mut check: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let started = Instant::now();
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "in two minutes there was no {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
