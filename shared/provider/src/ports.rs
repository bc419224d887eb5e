//! Ports as a person may be told of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_openstack::network::Port;

/// Ports by what they belong to, with their addresses: what an owner can recognise.
pub fn described(ports: &[Port]) -> String {
    const SHOWN: usize = 4;
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for port in ports {
        let kind = match port.device_owner.as_str() {
            owner if owner.starts_with("compute:") => "servers",
            "Octavia" | "neutron:LOADBALANCERV2" => "load balancers",
            owner if owner.starts_with("network:router") => "other routers",
            _ => "other ports",
        };
        // What a cloud calls an address is shown if it is one.
        let addresses = port.fixed_ips.iter().map(|ip| ip.ip_address.as_str());
        kinds.entry(kind).or_default().extend(addresses.filter(|address| address.parse::<IpAddr>().is_ok()));
    }
    let describe = |(kind, addresses): (&&str, &Vec<&str>)| {
        let shown = addresses.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
        match addresses.len() {
            0 => (*kind).to_owned(),
            n if n > SHOWN => format!("{kind} ({shown} and {} more)", n - SHOWN),
            _ => format!("{kind} ({shown})"),
        }
    };
    kinds.iter().map(describe).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    /// Proves: OWN-5
    #[test]
    fn ports_are_told_by_owner_and_address_never_by_id() {
        let port = |owner: &str, address: &str| {
            let port = json!({"id": "secret-id", "network_id": "n", "device_owner": owner, "device_id": "secret-device",
                "fixed_ips": [{"subnet_id": "s", "ip_address": address}]});
            serde_json::from_value::<Port>(port).unwrap()
        };
        let mut ports: Vec<Port> = (1..=6).map(|n| port("compute:nova", &format!("10.0.0.{n}"))).collect();
        ports.push(port("Octavia", "10.0.0.9"));
        ports.push(port("Octavia", "host cn-17: see 10.0.0.9"));
        let told = described(&ports);
        assert_eq!(told, "load balancers (10.0.0.9), servers (10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4 and 2 more)");
    }
}
