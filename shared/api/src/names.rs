//! The names by which Weir finds its things in a cloud again.
//!
//! Invariants: deterministic; the name used to look up and the name used to create come from one function here.
//! Names in OpenStack are not unique: whoever looks one up compares exactly and treats two matches as an error (OSC-5).

use uuid::Uuid;

/// Project, user, application credential and server group of an identity (IDN-2).
pub fn identity(identity: &str) -> String {
    format!("unikorn-identity-{identity}")
}

/// The identity's key pair (IDN-2). It is one per user, so it needs no identity in it.
pub const KEY_PAIR: &str = "unikorn-openstack-provider";

/// The cloud's name in an identity's `clouds.yaml` (IDN-1).
pub const CLOUD: &str = "cloud";

/// Network, subnet and router of a Network (NET-1).
pub fn network(network: &str) -> String {
    format!("network-{network}")
}

/// A security group (SEC-1).
pub fn security_group(group: &str) -> String {
    format!("securitygroup-{group}")
}

/// A server's port (SRV-1). The server itself goes by its display name.
pub fn server_port(server: &str) -> String {
    format!("server-{server}")
}

/// The VLANAllocation object of an OpenStack region.
pub fn vlan_allocation(region: &str) -> String {
    format!("openstack.{region}")
}

/// A resource name derived from a network and a display name (INS-3): UUIDv5, hashed again over its own bytes while its
/// first digit is not a letter, because Kubernetes wants some names to begin with one.
pub fn derived(network: Uuid, display_name: &str) -> Uuid {
    let mut id = Uuid::new_v5(&network, display_name.as_bytes());
    while id.as_bytes()[0] >> 4 < 0xa {
        id = Uuid::new_v5(&network, id.as_bytes());
    }
    id
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::Value;

    /// Proves: INS-3
    #[test]
    fn a_derived_name_is_the_one_of_the_table() {
        let table: Value = serde_json::from_str(include_str!("../tests/tables/uuid_v5_naming.json")).unwrap();
        for case in table["cases"].as_array().unwrap() {
            let (input, expect) = (&case["input"], &case["expect"]);
            let network = input["namespace"].as_str().unwrap().parse().unwrap();
            let id = derived(network, input["name"].as_str().unwrap());
            assert_eq!(id.to_string(), expect["id"], "{}", case["case"]);
        }
    }

    /// Proves: IDN-2, NET-1, SEC-1, SRV-1
    #[test]
    fn names_in_the_cloud_are_those_that_the_predecessor_has_given() {
        assert_eq!(identity("a1"), "unikorn-identity-a1");
        assert_eq!(network("b2"), "network-b2");
        assert_eq!(security_group("c3"), "securitygroup-c3");
        assert_eq!(server_port("d4"), "server-d4");
        assert_eq!(vlan_allocation("e5"), "openstack.e5");
        assert_eq!((KEY_PAIR, CLOUD), ("unikorn-openstack-provider", "cloud"));
    }
}
