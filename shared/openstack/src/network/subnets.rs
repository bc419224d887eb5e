use std::net::IpAddr;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Client, request};
use crate::{NetworkId, ProjectId, Result, SubnetId, lenient};

/// A subnet.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Subnet {
    /// Its id.
    pub id: SubnetId,
    /// Its name, which Neutron does not keep unique.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// The project it is in.
    #[serde(default, deserialize_with = "lenient::field")]
    pub project_id: Option<ProjectId>,
    /// Its network.
    pub network_id: NetworkId,
    /// Its prefix.
    #[serde(default, deserialize_with = "lenient::field")]
    pub cidr: String,
    /// The gateway its hosts use.
    #[serde(default, deserialize_with = "lenient::field")]
    pub gateway_ip: Option<IpAddr>,
    /// The ranges addresses are given out from.
    #[serde(default, deserialize_with = "lenient::list")]
    pub allocation_pools: Vec<AllocationPool>,
    /// The name servers its hosts use, in order.
    #[serde(default, deserialize_with = "lenient::list")]
    pub dns_nameservers: Vec<String>,
    /// The routes its hosts get.
    #[serde(default, deserialize_with = "lenient::list")]
    pub host_routes: Vec<HostRoute>,
}

/// A range of addresses, both ends in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationPool {
    /// The first.
    pub start: IpAddr,
    /// The last.
    pub end: IpAddr,
}

/// A route given to hosts by DHCP.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostRoute {
    /// A prefix.
    pub destination: String,
    /// An address.
    pub nexthop: String,
}

/// A subnet to be made.
#[derive(Debug, Clone, Serialize)]
pub struct NewSubnet<'a> {
    /// Its name.
    pub name: &'a str,
    /// For people.
    pub description: &'a str,
    /// Its network.
    pub network_id: &'a NetworkId,
    /// 4 or 6.
    pub ip_version: u8,
    /// Its prefix.
    pub cidr: &'a str,
    /// The gateway its hosts use.
    pub gateway_ip: IpAddr,
    /// The ranges addresses are given out from.
    pub allocation_pools: &'a [AllocationPool],
    /// The name servers its hosts use.
    pub dns_nameservers: &'a [String],
    /// The routes its hosts get.
    pub host_routes: &'a [HostRoute],
}

/// What to change of a subnet; `None` is left as it is, an empty list clears.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SubnetUpdate<'a> {
    /// The name servers its hosts use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_nameservers: Option<&'a [String]>,
    /// The routes its hosts get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_routes: Option<&'a [HostRoute]>,
    /// The ranges addresses are given out from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_pools: Option<&'a [AllocationPool]>,
}

impl Client<'_> {
    /// Makes a subnet with DHCP.
    pub async fn create_subnet(&self, subnet: &NewSubnet<'_>) -> Result<Subnet> {
        let request = request(Method::POST, "subnets", &["subnets"]).body(json!({ "subnet": subnet }));
        self.send_one(request, "subnet").await
    }

    /// A subnet by id.
    pub async fn subnet(&self, id: &SubnetId) -> Result<Subnet> {
        self.send_one(request(Method::GET, "subnets", &["subnets", id.as_str()]), "subnet").await
    }

    /// The project's subnets of a network.
    pub async fn subnets(&self, network: &NetworkId) -> Result<Vec<Subnet>> {
        let request = request(Method::GET, "subnets", &["subnets"]).query("network_id", network.as_str());
        self.list(request, "subnets").await
    }

    /// The project's subnet of exactly this name.
    pub async fn find_subnet_by_name(&self, name: &str) -> Result<Option<Subnet>> {
        self.find("subnets", "subnets", name).await
    }

    /// Changes what `update` names.
    pub async fn update_subnet(&self, id: &SubnetId, update: &SubnetUpdate<'_>) -> Result<Subnet> {
        let request = request(Method::PUT, "subnets", &["subnets", id.as_str()]).body(json!({ "subnet": update }));
        self.send_one(request, "subnet").await
    }

    /// Deletes a subnet; [`crate::Class::Conflict`] with kind `SubnetInUse` while a port has an address of it.
    pub async fn delete_subnet(&self, id: &SubnetId) -> Result<()> {
        self.delete("subnets", id.as_str()).await
    }
}
