//! Addresses: which are free, and who gets them.

use std::net::Ipv4Addr;

use super::{Error, FixedIp, Result, Subnet};
use crate::world::World;

fn taken(world: &World, subnet: &str, address: Ipv4Addr) -> bool {
    world.data.network.ports.count(&format!("ip:{subnet}/{address}")) > 0
}

/// Takes an address that was asked for by name.
pub(super) fn claim(world: &World, subnet: &Subnet, address: Ipv4Addr) -> Result<FixedIp> {
    let id = &subnet.base.id;
    let edge = address == subnet.cidr.network() || address == subnet.cidr.broadcast();
    if !subnet.cidr.contains(&address) || (edge && subnet.cidr.prefix_len() < 31) {
        let message = format!("IP address {address} is not a valid IP for the specified subnet.");
        return Err(Error::new(400, "InvalidIpForSubnet", message));
    }
    if taken(world, id, address) {
        let message = format!("IP address {address} already allocated in subnet {id}");
        return Err(Error::new(409, "IpAddressAlreadyAllocated", message));
    }
    Ok(FixedIp { subnet_id: id.clone(), ip_address: address })
}

/// Takes any free address of a subnet's pools. Addresses are handed out in turn, so that one that was given back is not
/// at once somebody else's.
pub(super) fn allocate(world: &mut World, subnet_id: &str) -> Option<FixedIp> {
    let subnet = world.data.network.subnets.get(subnet_id)?;
    let after = subnet.cursor.map_or(0, |cursor| u64::from(u32::from(cursor)) + 1);
    let pools = || subnet.pools.iter().map(|(first, last)| (u64::from(u32::from(*first)), u64::from(u32::from(*last))));
    let ahead = pools().flat_map(|(first, last)| first.max(after)..=last);
    let behind = pools().flat_map(|(first, last)| first..=last.min(after));
    let mut candidates = ahead.chain(behind).filter_map(|number| u32::try_from(number).ok()).map(Ipv4Addr::from);
    let free = candidates.find(|address| Some(*address) != subnet.gateway_ip && !taken(world, subnet_id, *address))?;
    world.data.network.subnets.update(subnet_id, |row| row.cursor = Some(free));
    Some(FixedIp { subnet_id: subnet_id.to_owned(), ip_address: free })
}

/// Takes a free address on a network. A network without subnets gives none, which is no error for a port.
pub(super) fn on_network(world: &mut World, network: &str) -> Result<Vec<FixedIp>> {
    let link = format!("network:{network}");
    let subnets: Vec<String> = world.data.network.subnets.linked(&link).map(|row| row.base.id.clone()).collect();
    if subnets.is_empty() {
        return Ok(Vec::new());
    }
    for subnet in subnets {
        if let Some(ip) = allocate(world, &subnet) {
            return Ok(vec![ip]);
        }
    }
    let message = format!("No more IP addresses available on network {network}.");
    Err(Error::new(409, "IpAddressGenerationFailure", message))
}
