//! Neutron v2.0: networks, subnets, routers, ports, security groups, floating IPs and quotas.
//!
//! Invariants: an address is held by one port of its subnet; what something hangs on cannot go before it, and says by
//! which error; a project sees its own things and the shared and external networks, and nothing else exists for it.
//!
//! Caveats: IPv4 only; no agents, so ports that anything uses are ACTIVE at once; no bulk create, no RBAC, no trunks,
//! no address scopes.

mod addresses;
mod attributes;
mod error;
mod floating_ips;
mod list;
mod networks;
mod ports;
mod quotas;
mod router_interfaces;
mod routers;
mod rules;
mod security_groups;
mod subnets;

use std::{collections::BTreeMap, net::Ipv4Addr};

use ipnet::Ipv4Net;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub(crate) use self::{
    error::{Error, Result},
    ports::{bind, create_for_server, unbind},
    security_groups::default_group,
};
use crate::{
    clock::seconds,
    config,
    identity::{Caller, authenticate},
    service::unauthorized,
    table::{Row, Table},
    wire::{Reply, Request},
    world::World,
};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Store {
    pub networks: Table<Network>,
    pub subnets: Table<Subnet>,
    pub routers: Table<Router>,
    pub ports: Table<Port>,
    pub groups: Table<Group>,
    pub rules: Table<Rule>,
    pub floating_ips: Table<FloatingIp>,
    /// Limits that differ from the defaults, by project.
    pub quotas: BTreeMap<String, BTreeMap<String, i64>>,
    /// The last segment handed to a network that asked for none.
    pub last_segment: u64,
}

/// What every resource has.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Base {
    pub id: String,
    pub name: String,
    pub description: String,
    /// Empty for what belongs to the cloud: gateway and floating IP ports.
    pub project_id: String,
    pub tags: Vec<String>,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub revision: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub network_type: String,
    pub physical_network: Option<String>,
    pub segmentation_id: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools)] // they are Neutron's, and independent
pub(crate) struct Network {
    pub base: Base,
    pub admin_state_up: bool,
    pub shared: bool,
    pub external: bool,
    pub mtu: u64,
    pub port_security_enabled: bool,
    pub segment: Segment,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Subnet {
    pub base: Base,
    pub network_id: String,
    pub cidr: Ipv4Net,
    pub gateway_ip: Option<Ipv4Addr>,
    /// First and last address of each pool.
    pub pools: Vec<(Ipv4Addr, Ipv4Addr)>,
    pub dns_nameservers: Vec<String>,
    /// Destination and next hop.
    pub host_routes: Vec<(String, String)>,
    pub enable_dhcp: bool,
    /// Where to look for a free address next.
    pub cursor: Option<Ipv4Addr>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Gateway {
    pub network_id: String,
    pub enable_snat: bool,
    pub port_id: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Router {
    pub base: Base,
    pub admin_state_up: bool,
    pub gateway: Option<Gateway>,
    pub routes: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FixedIp {
    pub subnet_id: String,
    pub ip_address: Ipv4Addr,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AddressPair {
    pub ip_address: String,
    pub mac_address: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(clippy::struct_field_names)] // the names are Neutron's
pub(crate) struct Port {
    pub base: Base,
    pub network_id: String,
    pub mac_address: String,
    pub fixed_ips: Vec<FixedIp>,
    pub security_groups: Vec<String>,
    pub address_pairs: Vec<AddressPair>,
    pub device_id: String,
    pub device_owner: String,
    pub admin_state_up: bool,
    pub port_security_enabled: bool,
    pub vnic_type: String,
    /// Empty while unbound.
    pub host: String,
    pub active: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Group {
    pub base: Base,
    pub stateful: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Rule {
    pub base: Base,
    pub group: String,
    pub direction: String,
    pub ethertype: String,
    pub protocol: Option<String>,
    pub port_range_min: Option<i64>,
    pub port_range_max: Option<i64>,
    pub remote_ip_prefix: Option<String>,
    pub remote_group_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FloatingIp {
    pub base: Base,
    pub network_id: String,
    pub address: Ipv4Addr,
    pub port_id: Option<String>,
    pub fixed_ip: Option<Ipv4Addr>,
    pub router_id: Option<String>,
    /// The cloud's own port that holds the address.
    pub holder: String,
}

macro_rules! row {
    ($type:ty, $row:ident => $($link:expr),* $(,)?) => {
        impl Row for $type {
            fn id(&self) -> &str {
                &self.base.id
            }
            fn links(&self) -> Vec<String> {
                let $row = self;
                let mut links = vec![format!("project:{}", $row.base.project_id)];
                $(links.extend($link);)*
                links
            }
        }
    };
}

row!(Network, row => (row.shared || row.external).then(|| "public".to_owned()));
row!(Subnet, row => [format!("network:{}", row.network_id)]);
row!(Router, row => row.gateway.iter().map(|gateway| format!("network:{}", gateway.network_id)));
row!(Port, row =>
    [format!("network:{}", row.network_id), format!("mac:{}/{}", row.network_id, row.mac_address)],
    (!row.device_id.is_empty()).then(|| format!("device:{}", row.device_id)),
    row.security_groups.iter().map(|id| format!("group:{id}")),
    row.fixed_ips.iter().map(|ip| format!("subnet:{}", ip.subnet_id)),
    row.fixed_ips.iter().map(|ip| format!("ip:{}/{}", ip.subnet_id, ip.ip_address)),
);
row!(Group, row => []);
row!(Rule, row => [format!("group:{}", row.group)], row.remote_group_id.iter().map(|id| format!("remote:{id}")));
row!(FloatingIp, row =>
    [format!("network:{}", row.network_id)],
    row.port_id.iter().map(|id| format!("port:{id}")),
    row.router_id.iter().map(|id| format!("router:{id}")),
);

impl Base {
    /// What any list can be filtered by.
    const ATTRIBUTES: [&'static str; 8] =
        ["id", "name", "description", "project_id", "tenant_id", "revision_number", "created_at", "updated_at"];

    /// The attributes that every resource shows.
    fn view(&self) -> Map<String, Value> {
        let view = json!({
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "project_id": self.project_id,
            "tenant_id": self.project_id,
            "tags": self.tags,
            "created_at": seconds(self.created),
            "updated_at": seconds(self.updated),
            "revision_number": self.revision,
        });
        match view {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    fn touch(&mut self, now: Timestamp) {
        self.updated = now;
        self.revision += 1;
    }
}

/// The same for a resource that has no name.
fn nameless(base: &Base, own: Value) -> Value {
    let mut view = with(base, own);
    if let Value::Object(map) = &mut view {
        map.remove("name");
    }
    view
}

/// A resource's shared attributes with its own.
fn with(base: &Base, own: Value) -> Value {
    let mut map = base.view();
    if let Value::Object(own) = own {
        map.extend(own);
    }
    Value::Object(map)
}

pub(crate) fn seed(world: &mut World) {
    let now = world.clock.now();
    let base = |id: &str, name: &str| Base {
        id: id.to_owned(),
        name: name.to_owned(),
        description: String::new(),
        project_id: config::ADMIN_PROJECT.to_owned(),
        tags: vec!["weir".to_owned()],
        created: now,
        updated: now,
        revision: 1,
    };
    let store = &mut world.data.network;
    store.networks.insert(Network {
        base: base(config::EXTERNAL_NETWORK, "public"),
        admin_state_up: true,
        shared: false,
        external: true,
        mtu: 1500,
        port_security_enabled: true,
        segment: Segment {
            network_type: "flat".to_owned(),
            physical_network: Some("public".to_owned()),
            segmentation_id: None,
        },
    });
    // The benchmarking range: room for thousands of floating IPs, and nobody's address.
    let last = Ipv4Addr::new(198, 18, 255, 254);
    if let Ok(cidr) = Ipv4Net::new(Ipv4Addr::new(198, 18, 0, 0), 16) {
        store.subnets.insert(Subnet {
            base: base(config::EXTERNAL_SUBNET, "public-v4"),
            network_id: config::EXTERNAL_NETWORK.to_owned(),
            cidr,
            gateway_ip: Some(Ipv4Addr::new(198, 18, 0, 1)),
            pools: vec![(Ipv4Addr::new(198, 18, 0, 2), last)],
            dns_nameservers: Vec::new(),
            host_routes: Vec::new(),
            enable_dhcp: false,
            cursor: None,
        });
    }
}

/// The path below `/network`.
pub(crate) fn handle(world: &mut World, rest: &[&str], request: &Request) -> Reply {
    route(world, rest, request).unwrap_or_else(|error| error.reply())
}

fn route(world: &mut World, rest: &[&str], request: &Request) -> Result {
    let version = json!({
        "id": "v2.0",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": format!("{}/network/v2.0/", world.url)}],
    });
    let path = match rest {
        [] => return Ok(Reply::json(200, json!({"versions": [version]}))),
        ["v2.0", path @ ..] => path,
        _ => return Err(Error::no_route()),
    };
    let Some(caller) = authenticate(world, request) else { return Ok(unauthorized(&world.url)) };
    if caller.project().is_none() && !caller.is_admin() && !request.is_read() {
        return Err(Error::policy("get_networks"));
    }
    let method = request.method.as_str();
    let (kind, rest) = match path {
        [] => return Ok(Reply::json(200, json!({"resources": list::resources(&world.url)}))),
        [kind, rest @ ..] => (kind.strip_suffix(".json").unwrap_or(kind), rest),
    };
    match kind {
        "extensions" => extensions(method, rest),
        "networks" => networks::route(world, &caller, method, rest, request),
        "subnets" => subnets::route(world, &caller, method, rest, request),
        "ports" => ports::route(world, &caller, method, rest, request),
        "routers" => routers::route(world, &caller, method, rest, request),
        "security-groups" => security_groups::route(world, &caller, method, rest, request),
        "security-group-rules" => rules::route(world, &caller, method, rest, request),
        "floatingips" => floating_ips::route(world, &caller, method, rest, request),
        "quotas" => quotas::route(world, &caller, method, rest, request),
        _ => Err(Error::no_route()),
    }
}

const EXTENSIONS: [&str; 19] = [
    "allowed-address-pairs",
    "binding",
    "default-subnetpools",
    "dns-integration",
    "external-net",
    "extraroute",
    "ext-gw-mode",
    "filter-validation",
    "multi-provider",
    "net-mtu",
    "pagination",
    "port-security",
    "project-id",
    "provider",
    "quotas",
    "router",
    "security-group",
    "sorting",
    "standard-attr-tag",
];

fn extensions(method: &str, rest: &[&str]) -> Result {
    let view = |alias: &str| json!({"alias": alias, "name": alias, "description": "", "links": [], "updated": "2012-01-01T00:00:00-00:00"});
    match (method, rest) {
        ("GET", []) => Ok(Reply::json(200, json!({"extensions": EXTENSIONS.map(view)}))),
        ("GET", [alias]) if EXTENSIONS.contains(alias) => Ok(Reply::json(200, json!({"extension": view(alias)}))),
        ("GET", [alias]) => {
            let mut body = crate::wire::webob(404, "The resource could not be found.");
            body["message"] = json!(format!(
                "The resource could not be found.<br /><br />\nExtension with alias {alias} does not exist\n\n"
            ));
            Ok(Reply::json(404, body))
        }
        _ => Err(Error::no_route()),
    }
}

/// Whether the caller may see or change what belongs to this project.
fn owns(caller: &Caller, project: &str) -> bool {
    caller.is_admin() || caller.project() == Some(project)
}

/// Every mutation takes a member.
fn must_be_member(caller: &Caller, rule: &str) -> Result<()> {
    if caller.is_admin() || caller.has("member") { Ok(()) } else { Err(Error::policy(rule)) }
}

pub(crate) fn state(world: &World) -> Map<String, Value> {
    let store = &world.data.network;
    let mut map = Map::new();
    map.insert("networks".into(), store.networks.iter().map(|row| networks::view(world, row, true)).collect());
    map.insert("subnets".into(), store.subnets.iter().map(subnets::view).collect());
    map.insert("routers".into(), store.routers.iter().map(|row| routers::view(world, row)).collect());
    map.insert("ports".into(), store.ports.iter().map(|row| ports::view(row, true)).collect());
    map.insert("security_groups".into(), store.groups.iter().map(|row| security_groups::view(world, row)).collect());
    map.insert("floatingips".into(), store.floating_ips.iter().map(|row| floating_ips::view(world, row)).collect());
    map
}
