use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Client, request};
use crate::paging::Paging;
use crate::request::Request;
use crate::{NetworkId, PortId, ProjectId, Result, SecurityGroupId, SubnetId, lenient};

/// A port.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Port {
    /// Its id.
    pub id: PortId,
    /// Its name, which Neutron does not keep unique.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// The project it is in.
    #[serde(default, deserialize_with = "lenient::field")]
    pub project_id: Option<ProjectId>,
    /// Its network.
    pub network_id: NetworkId,
    /// `ACTIVE`, `DOWN`, `BUILD`.
    #[serde(default, deserialize_with = "lenient::field")]
    pub status: String,
    /// Its MAC.
    #[serde(default, deserialize_with = "lenient::field")]
    pub mac_address: String,
    /// Its addresses, in order.
    #[serde(default, deserialize_with = "lenient::list")]
    pub fixed_ips: Vec<FixedIp>,
    /// Its security groups.
    #[serde(default, deserialize_with = "lenient::list")]
    pub security_groups: Vec<SecurityGroupId>,
    /// Addresses beyond its own that it may use.
    #[serde(default, deserialize_with = "lenient::list")]
    pub allowed_address_pairs: Vec<AddressPair>,
    /// The server or router it serves; empty: none.
    #[serde(default, deserialize_with = "lenient::field")]
    pub device_id: String,
    /// What kind of device that is.
    #[serde(default, deserialize_with = "lenient::field")]
    pub device_owner: String,
}

impl Port {
    /// The device owner of a router's port in a subnet.
    pub const ROUTER_INTERFACE: &'static str = "network:router_interface";
}

/// An address of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedIp {
    /// The subnet it is of.
    pub subnet_id: SubnetId,
    /// The address.
    pub ip_address: String,
}

/// An address that a port may use beyond its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AddressPair {
    /// An address or prefix.
    pub ip_address: String,
    /// With which MAC; the port's own if none. Neutron always answers with one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::field")]
    pub mac_address: Option<String>,
}

/// Which ports to list, of the session's project.
#[derive(Debug, Clone, Default)]
pub struct PortFilter<'a> {
    /// On this network.
    pub network: Option<&'a NetworkId>,
    /// Serving this device.
    pub device_id: Option<&'a str>,
    /// Serving this kind of device.
    pub device_owner: Option<&'a str>,
}

impl PortFilter<'_> {
    fn request(&self) -> Request {
        request(Method::GET, "ports", &["ports"])
            .query_some("network_id", self.network)
            .query_some("device_id", self.device_id)
            .query_some("device_owner", self.device_owner)
    }
}

/// A port to be made.
#[derive(Debug, Clone, Serialize)]
pub struct NewPort<'a> {
    /// Its name.
    pub name: &'a str,
    /// For people.
    pub description: &'a str,
    /// Its network.
    pub network_id: &'a NetworkId,
    /// Its security groups; `None`: the project's default group, empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<&'a [SecurityGroupId]>,
    /// Addresses beyond its own that it may use.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub allowed_address_pairs: &'a [AddressPair],
}

/// What to change of a port; `None` is left as it is, an empty list clears.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PortUpdate<'a> {
    /// Its security groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<&'a [SecurityGroupId]>,
    /// Addresses beyond its own that it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_address_pairs: Option<&'a [AddressPair]>,
}

impl Client<'_> {
    /// Makes a port.
    pub async fn create_port(&self, port: &NewPort<'_>) -> Result<Port> {
        let request = request(Method::POST, "ports", &["ports"]).body(json!({ "port": port }));
        self.send_one(request, "port").await
    }

    /// A port by id.
    pub async fn port(&self, id: &PortId) -> Result<Port> {
        self.send_one(request(Method::GET, "ports", &["ports", id.as_str()]), "port").await
    }

    /// The project's ports that match.
    pub async fn ports(&self, filter: &PortFilter<'_>) -> Result<Vec<Port>> {
        self.list(filter.request(), "ports").await
    }

    /// The ports that match, of every project the scope may see: on one's own network, other people's too. What stops a
    /// network from being deleted is found by this. Ports of a router's interface belong to the router's project, those of
    /// DHCP to the network's, gateways of floating IPs to none.
    pub async fn visible_ports(&self, filter: &PortFilter<'_>) -> Result<Vec<Port>> {
        self.session.list(filter.request(), "ports", Paging::Links).await
    }

    /// The project's port of exactly this name.
    pub async fn find_port_by_name(&self, name: &str) -> Result<Option<Port>> {
        self.find("ports", "ports", name).await
    }

    /// Changes what `update` names.
    pub async fn update_port(&self, id: &PortId, update: &PortUpdate<'_>) -> Result<Port> {
        let request = request(Method::PUT, "ports", &["ports", id.as_str()]).body(json!({ "port": update }));
        self.send_one(request, "port").await
    }

    /// Deletes a port; a floating IP on it is left without one.
    pub async fn delete_port(&self, id: &PortId) -> Result<()> {
        self.delete("ports", id.as_str()).await
    }
}
