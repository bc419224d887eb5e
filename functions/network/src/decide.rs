//! What to do next about a network. Pure.

use crate::observe::{Observed, vlan_of};
use crate::ranges::Ranges;
use ipnet::Ipv4Net;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use weir_api::Problem;
use weir_api::crd::{AddressRange, NetworkSpec};
use weir_openstack::network::{HostRoute, Subnet};
use weir_openstack::{NetworkId, RouterId, SubnetId};

/// What a Network asks for, derived from its spec and its region.
#[derive(Clone, Debug)]
pub struct Desired {
    /// The prefix.
    pub prefix: Ipv4Net,
    /// How it is divided.
    pub ranges: Ranges,
    /// Whether that is asked for, and not only the default.
    pub divided: bool,
    /// DNS servers, each once, in the order in which they are asked.
    pub dns: Vec<String>,
    /// Routes that DHCP hands out.
    pub routes: Vec<HostRoute>,
    /// The physical network of a provider network (NET-7).
    pub physical_network: Option<String>,
}

impl Desired {
    /// Reads a spec.
    pub fn of(spec: &NetworkSpec, physical_network: Option<&str>) -> Result<Self, Problem> {
        let route =
            |r: &weir_api::crd::Route| HostRoute { destination: r.prefix.to_string(), nexthop: r.next_hop.to_string() };
        let mut routes: Vec<HostRoute> = spec.routes.iter().map(route).collect();
        routes.sort();
        routes.dedup();
        let mut dns: Vec<String> = Vec::new();
        for server in spec.dns_nameservers.iter().map(ToString::to_string) {
            // Neutron refuses a list that names one twice.
            if !dns.contains(&server) {
                dns.push(server);
            }
        }
        Ok(Self {
            prefix: spec.prefix.net(),
            ranges: Ranges::of(spec.prefix, spec.reservations)?,
            divided: spec.reservations.is_some(),
            dns,
            routes,
            physical_network: physical_network.map(str::to_owned),
        })
    }
}

/// One step towards a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Give the network a VLAN in the region's table.
    AllocateVlan,
    /// Write a VLAN into the region's table that the network has already.
    RecordVlan(u16),
    /// Make the network.
    CreateNetwork { vlan: Option<u16> },
    /// Make the subnet.
    CreateSubnet(NetworkId),
    /// Change what a subnet hands out: the parts that differ.
    UpdateSubnet { subnet: SubnetId, dns: bool, routes: bool },
    /// Make the router.
    CreateRouter(NetworkId),
    /// Connect the router to the outside.
    SetGateway(RouterId, NetworkId),
    /// Connect the router to the subnet.
    Attach(RouterId, SubnetId),
    /// Nothing is missing.
    Done,
}

/// The next step, from what is wanted and what is there.
///
/// # Errors
/// What is there contradicts what is wanted, so that no safe step leads from one to the other.
pub fn decide(desired: &Desired, observed: &Observed) -> Result<Step, Problem> {
    let Some(network) = &observed.network else {
        return Ok(match (&desired.physical_network, observed.vlan) {
            (None, _) => Step::CreateNetwork { vlan: None },
            (Some(_), None) => Step::AllocateVlan,
            (Some(_), vlan) => Step::CreateNetwork { vlan },
        });
    };
    if let Some(live) = vlan_of(Some(network))
        && observed.vlan != Some(live)
    {
        return Ok(Step::RecordVlan(live));
    }
    let Some(subnet) = &observed.subnet else {
        return Ok(Step::CreateSubnet(network.id.clone()));
    };
    if subnet.network_id != network.id {
        return Err(Problem::operator(
            "the cloud has a subnet of this network's name on another network; an operator has to look",
        ));
    }
    if let Some(problem) = changed(desired, subnet) {
        return Err(problem);
    }
    let (dns, routes) = (subnet.dns_nameservers != desired.dns, set(&subnet.host_routes) != set(&desired.routes));
    if dns || routes {
        return Ok(Step::UpdateSubnet { subnet: subnet.id.clone(), dns, routes });
    }
    let external = || observed.external.clone().ok_or_else(Problem::reread);
    let Some(router) = &observed.router else {
        return Ok(Step::CreateRouter(external()?));
    };
    if router.gateway.is_none() {
        return Ok(Step::SetGateway(router.id.clone(), external()?));
    }
    if !observed.interfaces.contains(&subnet.id) {
        return Ok(Step::Attach(router.id.clone(), subnet.id.clone()));
    }
    Ok(Step::Done)
}

/// One step towards nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Disconnect the router from a subnet.
    Detach(RouterId, SubnetId),
    /// Remove the router.
    DeleteRouter(RouterId),
    /// Remove the subnet.
    DeleteSubnet(SubnetId),
    /// Remove the network.
    DeleteNetwork(NetworkId),
    /// Give the VLAN back: the network is gone.
    FreeVlan,
    /// Nothing is left.
    Done,
}

/// The next step of a removal (NET-10). Every step is decided on a fresh observation: that the network is gone, so that
/// its VLAN may be given to another, is never inferred from a deletion that was accepted (NET-9).
///
/// # Errors
/// Somebody else's ports are on the network.
pub fn decide_removal(observed: &Observed) -> Result<Removal, Problem> {
    if !observed.foreign.is_empty() {
        return Err(Problem::yielding(format!(
            "still in use by {}; waiting for them to go",
            weir_provider::described(&observed.foreign)
        )));
    }
    if let Some(router) = &observed.router {
        return Ok(match observed.interfaces.first() {
            Some(subnet) => Removal::Detach(router.id.clone(), subnet.clone()),
            None => Removal::DeleteRouter(router.id.clone()),
        });
    }
    if let Some(subnet) = &observed.subnet {
        return Ok(Removal::DeleteSubnet(subnet.id.clone()));
    }
    if let Some(network) = &observed.network {
        return Ok(Removal::DeleteNetwork(network.id.clone()));
    }
    Ok(if observed.vlan.is_some() { Removal::FreeVlan } else { Removal::Done })
}

/// Why the subnet that is there cannot become the one that is asked for.
fn changed(desired: &Desired, subnet: &Subnet) -> Option<Problem> {
    let Ok(prefix) = subnet.cidr.parse::<Ipv4Net>() else {
        return Some(Problem::retry("the cloud says of the network's subnet a prefix that is none; trying again"));
    };
    if prefix != desired.prefix {
        return Some(Problem::user_action(format!(
            "the prefix of a network cannot be changed; set spec.prefix back to {prefix}, or make another network"
        )));
    }
    if !desired.divided || given_out(subnet).is_empty() || is_divided_so(subnet, &desired.ranges) {
        return None;
    }
    let ranges: Vec<String> = given_out(subnet).iter().map(|(from, to)| format!("{from} to {to}")).collect();
    Some(Problem::user_action(format!(
        "the reservations of a network cannot be changed: its servers are given the addresses {}; set spec.reservations \
         back, or make another network",
        ranges.join(", ")
    )))
}

/// What may be told to be kept for storage: nothing that the subnet gives out to servers, which one that was made otherwise
/// may do; and what was `told`, where what is asked for now cannot be had.
pub fn storage(desired: &Desired, observed: &Observed, told: Option<AddressRange>) -> Option<AddressRange> {
    if observed.subnet.as_ref().is_some_and(|subnet| changed(desired, subnet).is_some()) {
        return told;
    }
    let given_out = observed.subnet.as_ref().map(given_out).unwrap_or_default();
    let is_kept =
        |range: &AddressRange| given_out.iter().all(|(from, to)| range.end_ip.0 < *from || range.start_ip.0 > *to);
    desired.ranges.storage.filter(is_kept)
}

/// The addresses that a subnet's DHCP gives out; none if the cloud does not tell.
fn given_out(subnet: &Subnet) -> Vec<(Ipv4Addr, Ipv4Addr)> {
    let pools = subnet.allocation_pools.iter().map(|pool| (pool.start, pool.end));
    pools
        .filter_map(|pool| match pool {
            (IpAddr::V4(from), IpAddr::V4(to)) => Some((from, to)),
            _ => None,
        })
        .collect()
}

/// Whether the subnet gives out what is not reserved. In several pieces or in one is the same.
fn is_divided_so(subnet: &Subnet, ranges: &Ranges) -> bool {
    let mut pools = given_out(subnet);
    pools.sort_unstable();
    let joined = pools.into_iter().try_fold(None, |so_far: Option<(Ipv4Addr, Ipv4Addr)>, (from, to)| match so_far {
        None => Some(Some((from, to))),
        Some((first, last)) if u32::from(last).checked_add(1) == Some(from.into()) => Some(Some((first, to))),
        Some(_) => None,
    });
    joined.flatten() == Some(ranges.dhcp)
}

fn set(routes: &[HostRoute]) -> BTreeSet<&HostRoute> {
    routes.iter().collect()
}

#[cfg(test)]
mod tests;
