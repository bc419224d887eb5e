//! What a simulated cloud is made of at its first start, and how it behaves.
//!
//! Ids are fixed, so that samples and tests can name them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, json};

/// Settings of one simulator.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The base URL written into the catalog and into links, when it differs from the address listened on.
    pub public_url: Option<String>,
    /// Where to keep the state over a restart. Without it the state dies with the process.
    pub data: Option<PathBuf>,
    /// From a server's create to ACTIVE; also the length of a rebuild.
    pub build: Duration,
    /// From a server's delete to its being gone.
    pub delete: Duration,
    /// How long a token lives.
    pub token_life: Duration,
    /// Whether the product's policy files are in place: the region's user sets quotas, makes provider networks and pins
    /// servers in the projects of its domain, and grants `load-balancer_member` there.
    pub product_policy: bool,
    /// Whether `name=` in Neutron, Glance and Keystone matches prefixes of any case, as on some clouds.
    pub fuzzy_filters: bool,
    /// Whether `/_sim` answers callers that are not on the loopback interface.
    pub expose_admin: bool,
    /// How many requests the log keeps.
    pub journal: usize,
    /// The largest page of Nova and Glance.
    pub page: usize,
    /// Names of the compute hosts, which are their hypervisor host names too.
    pub hosts: Vec<String>,
    /// What hosts have that flavors can ask for by name, by host. Without it there is nothing but vCPUs, memory and disk.
    pub equipment: BTreeMap<String, Equipment>,
    /// Extra specs of flavors, by the flavor's name, besides those that they have anyhow.
    pub extra_specs: BTreeMap<String, BTreeMap<String, String>>,
    /// Physical networks that VLAN networks can be made on.
    pub physical_networks: Vec<String>,
    /// The password of the region's service user and of the administrator.
    pub password: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            public_url: None,
            data: None,
            build: Duration::from_millis(1500),
            delete: Duration::from_millis(500),
            token_life: Duration::from_secs(3600),
            product_policy: true,
            fuzzy_filters: false,
            expose_admin: false,
            journal: 200_000,
            page: 1000,
            hosts: vec!["sim-compute-1".to_owned(), "sim-compute-2".to_owned()],
            equipment: BTreeMap::new(),
            extra_specs: BTreeMap::new(),
            physical_networks: vec!["physnet1".to_owned()],
            password: "openstack-sim".to_owned(),
        }
    }
}

/// What a host has of its own, as Placement tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Equipment {
    /// How much of which custom resource class, such as `CUSTOM_GPU`.
    pub resources: BTreeMap<String, u64>,
    /// Traits, such as `CUSTOM_READY`.
    pub traits: BTreeSet<String>,
}

pub(crate) const DEFAULT_DOMAIN: &str = "default";
pub(crate) const DOMAIN: &str = "0d00000000004000800000000000da01";
pub(crate) const PROJECT: &str = "0d00000000004000800000000000fe01";
pub(crate) const REGION_USER: &str = "0d00000000004000800000000000ce01";
pub(crate) const ADMIN_PROJECT: &str = "0d00000000004000800000000000fe02";
pub(crate) const ADMIN_USER: &str = "0d00000000004000800000000000ce02";
pub(crate) const EXTERNAL_NETWORK: &str = "e0000000-0000-4000-8000-000000000001";
pub(crate) const EXTERNAL_SUBNET: &str = "e0000000-0000-4000-8000-000000000002";

/// Roles, in the order of their ids.
pub(crate) const ROLES: [&str; 7] =
    ["admin", "manager", "member", "reader", "load-balancer_member", "service", REGION_ROLE];

/// What the product's policy files grant to. Only the region's user holds it: on its domain and, inherited, on the projects
/// in it.
pub(crate) const REGION_ROLE: &str = "weir_region";

pub(crate) fn role_id(index: usize) -> String {
    format!("0d000000000040008000000000000a{:02}", index + 1)
}

/// Id, name, vCPUs, memory in MiB, disk in GiB.
pub(crate) const FLAVORS: [(&str, &str, u64, u64, u64); 4] = [
    ("f0000000-0000-4000-8000-000000000001", "sim.nano", 1, 256, 1),
    ("f0000000-0000-4000-8000-000000000002", "sim.small", 1, 2048, 20),
    ("f0000000-0000-4000-8000-000000000003", "sim.medium", 2, 4096, 40),
    ("f0000000-0000-4000-8000-000000000004", "sim.large", 4, 8192, 80),
];

/// Id, name, distribution, version, codename, minimum memory in MiB.
pub(crate) const IMAGES: [(&str, &str, &str, &str, &str, u64); 4] = [
    ("a0000000-0000-4000-8000-000000000001", "sim-ubuntu-24.04", "ubuntu", "24.04", "noble", 0),
    ("a0000000-0000-4000-8000-000000000002", "sim-ubuntu-22.04", "ubuntu", "22.04", "jammy", 0),
    ("a0000000-0000-4000-8000-000000000003", "sim-debian-13", "debian", "13", "trixie", 0),
    ("a0000000-0000-4000-8000-000000000004", "sim-demanding", "ubuntu", "24.04", "noble", 4096),
];

/// How a region reaches this cloud: the four keys of its Secret.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Credential {
    /// The domain that the region's user manages.
    pub domain_id: String,
    /// The region's own project.
    pub project_id: String,
    /// The region's service user.
    pub user_id: String,
    /// Its password.
    pub password: String,
}

/// Everything a test or a sample needs to know of a fresh cloud.
#[derive(Debug, Clone)]
pub struct Bootstrap {
    /// The Keystone endpoint, version included.
    pub endpoint: String,
    /// The region's credential.
    pub credential: Credential,
    /// An administrator's credential, for tests that prepare or check what the region may not.
    pub admin: Credential,
    /// Id and name of each flavor, smallest first.
    pub flavors: Vec<(String, String)>,
    /// Id and name of each public image. The last one needs more memory than the smallest flavors have.
    pub images: Vec<(String, String)>,
    /// The network with `router:external`.
    pub external_network: String,
    /// Names of the compute hosts.
    pub hosts: Vec<String>,
    /// What of it has equipment of its own.
    pub equipment: BTreeMap<String, Equipment>,
    /// Physical networks for VLANs.
    pub physical_networks: Vec<String>,
}

impl Bootstrap {
    pub(crate) fn new(config: &Config, url: &str) -> Self {
        let credential = |domain: &str, project: &str, user: &str| Credential {
            domain_id: domain.to_owned(),
            project_id: project.to_owned(),
            user_id: user.to_owned(),
            password: config.password.clone(),
        };
        Self {
            endpoint: format!("{url}/identity/v3"),
            credential: credential(DOMAIN, PROJECT, REGION_USER),
            admin: credential(DEFAULT_DOMAIN, ADMIN_PROJECT, ADMIN_USER),
            flavors: FLAVORS.iter().map(|f| (f.0.to_owned(), f.1.to_owned())).collect(),
            images: IMAGES.iter().map(|i| (i.0.to_owned(), i.1.to_owned())).collect(),
            external_network: EXTERNAL_NETWORK.to_owned(),
            hosts: config.hosts.clone(),
            equipment: config.equipment.clone(),
            physical_networks: config.physical_networks.clone(),
        }
    }

    /// The document of `GET /_sim/bootstrap`.
    pub fn to_json(&self) -> Value {
        let named = |rows: &[(String, String)]| -> Vec<Value> {
            rows.iter().map(|(id, name)| json!({"id": id, "name": name})).collect()
        };
        // A host with a class and a trait of its own, if there is one.
        let placement = self.equipment.iter().find_map(|(host, equipment)| {
            let (class, name) = (equipment.resources.keys().next()?, equipment.traits.first()?);
            Some(json!({"provider": host, "resource-class": class, "trait": name}))
        });
        json!({
            "endpoint": self.endpoint,
            "credential": self.credential,
            "admin": self.admin,
            "flavors": named(&self.flavors),
            "images": named(&self.images),
            "external-network-id": self.external_network,
            "hosts": self.hosts,
            "placement": placement,
            "physical-networks": self.physical_networks,
        })
    }
}
