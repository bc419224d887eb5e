//! Fresh reads of everything a network is made of, gathered into one plain value.

use weir_api::{Problem, crd, names};
use weir_function_runtime::{Foothold, Scope};
use weir_openstack::Session;
use weir_openstack::network::{Network, Port, PortFilter, Router, Subnet};
use weir_openstack::{NetworkId, SubnetId};
use weir_provider::During;

/// What the cloud and the region's VLAN table hold for one network.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The Neutron network.
    pub network: Option<Network>,
    /// Its subnet.
    pub subnet: Option<Subnet>,
    /// Its router.
    pub router: Option<Router>,
    /// The subnets that the router has an interface on.
    pub interfaces: Vec<SubnetId>,
    /// The external network that a router without a gateway would get.
    pub external: Option<NetworkId>,
    /// The VLAN that the region's table gives the network.
    pub vlan: Option<u16>,
    /// Ports on the network that are nobody's but somebody else's: not the router's, not the cloud's own.
    pub foreign: Vec<Port>,
}

/// The session for everything about networks (NET-1).
pub fn session(foothold: &Foothold) -> Session {
    foothold.manager()
}

/// Reads what is needed to bring a network about.
pub async fn observe(scope: &Scope, foothold: &Foothold, object: &str) -> Result<Observed, Problem> {
    let mut observed = topology(foothold, object).await?;
    if observed.router.as_ref().is_none_or(|router| router.gateway.is_none()) {
        observed.external = Some(foothold.region.external_network().await?.id);
    }
    if physical_network(&foothold.region.config).is_some() || vlan_of(observed.network.as_ref()).is_some() {
        observed.vlan = vlan(scope, foothold, object).await?;
    }
    Ok(observed)
}

/// Reads what is needed to remove a network.
pub async fn observe_remains(scope: &Scope, foothold: &Foothold, object: &str) -> Result<Observed, Problem> {
    let mut observed = topology(foothold, object).await?;
    if let Some(network) = &observed.network {
        let session = session(foothold);
        let filter = PortFilter { network: Some(&network.id), ..PortFilter::default() };
        let ports = session.network().visible_ports(&filter).await.during("looking for ports on the network")?;
        let router = observed.router.as_ref().map(|router| router.id.as_str());
        observed.foreign = ports.into_iter().filter(|port| !belongs(port, router)).collect();
    }
    observed.vlan = vlan(scope, foothold, object).await?;
    Ok(observed)
}

async fn topology(foothold: &Foothold, object: &str) -> Result<Observed, Problem> {
    let (session, name) = (session(foothold), names::network(object));
    let client = session.network();
    let network = client.find_network_by_name(&name).await.during("looking for the network")?;
    let subnet = client.find_subnet_by_name(&name).await.during("looking for the subnet")?;
    let router = client.find_router_by_name(&name).await.during("looking for the router")?;
    let mut interfaces = Vec::new();
    if let Some(router) = &router {
        // Whatever its owner is called: a distributed or highly available router's interfaces have names of their own.
        let filter = PortFilter { device_id: Some(router.id.as_str()), ..PortFilter::default() };
        let ports = client.ports(&filter).await.during("looking for the router's interfaces")?;
        interfaces = ports
            .iter()
            .filter(|port| port.device_id == router.id.as_str() && port.device_owner != "network:router_gateway")
            .flat_map(|port| port.fixed_ips.iter().map(|ip| ip.subnet_id.clone()))
            .collect();
        interfaces.sort();
        interfaces.dedup();
    }
    Ok(Observed { network, subnet, router, interfaces, ..Observed::default() })
}

async fn vlan(scope: &Scope, foothold: &Foothold, object: &str) -> Result<Option<u16>, Problem> {
    let table = scope.get::<crd::VlanAllocation>(&names::vlan_allocation(&foothold.region.name)).await?;
    table.map_or(Ok(None), |table| crate::vlan::of(&table.spec.allocations, object))
}

/// Whether a port goes with the network by itself: our router's, or one that the cloud keeps for DHCP and metadata.
fn belongs(port: &Port, router: Option<&str>) -> bool {
    let ours = router.is_some_and(|router| port.device_id == router);
    ours || ["network:dhcp", "network:distributed"].contains(&port.device_owner.as_str())
}

/// The VLAN of a network, as the cloud tells it.
pub fn vlan_of(network: Option<&Network>) -> Option<u16> {
    network?.segment()?.vlan_id()
}

/// The physical network that the region makes provider networks on, if it does (NET-7).
pub fn physical_network(region: &crd::OpenstackRegion) -> Option<&str> {
    region.network.as_ref()?.provider_networks.as_ref()?.physical_network.as_deref().filter(|name| !name.is_empty())
}
