//! Network: a network with its subnet and router.

use super::{Ipv4Address, Ipv4Prefix, Provider, Tag, shared::ConditionSchema};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The network to make. Region and identity are named by the labels `regions.unikorn-cloud.org/region-id` and
/// `regions.unikorn-cloud.org/identity-id`.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "region.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "Network",
    plural = "networks",
    namespaced,
    status = "NetworkStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "net",
    doc = "A network in a region: a Neutron network, a subnet with DHCP, and a router to the outside.",
    printcolumn(
        name = "display name",
        type_ = "string",
        json_path = r".metadata.labels['unikorn-cloud\.org/name']",
        priority = 1
    ),
    printcolumn(name = "prefix", type_ = "string", json_path = ".spec.prefix"),
    printcolumn(name = "status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Available")].reason"#),
    printcolumn(name = "networkID", type_ = "string", json_path = ".status.openstack.networkID", priority = 1),
    printcolumn(name = "vlanID", type_ = "integer", json_path = ".status.openstack.vlanID", priority = 1),
    printcolumn(
        name = "message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].message"#,
        priority = 1
    ),
    printcolumn(name = "age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": r#"!has(self.reservations) || (self.reservations.prefixLength > int(self.prefix.split("/")[1]))"#,
    "message": "reservations.prefixLength must be longer than the length of prefix, because a reservation is a part of the network: for a prefix of /24 use 25 or more",
}]))]
pub struct NetworkSpec {
    /// Set to true to leave the cloud alone: nothing is read, changed or deleted until it is false again.
    #[serde(default)]
    pub pause: bool,
    /// Names and values of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// What kind of cloud the region is. Not needed; kept for manifests that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The addresses of the network, such as `192.168.0.0/24`. The first usable one is the gateway.
    pub prefix: Ipv4Prefix,
    /// Addresses at the start of the prefix that DHCP leaves alone. Without it, the first /25 is reserved, and of that
    /// the first /28 for the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservations: Option<Reservations>,
    /// Name servers to hand out by DHCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_nameservers: Vec<Ipv4Address>,
    /// Routes to hand out by DHCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// Addresses at the start of a prefix that DHCP leaves alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.providerReservedPrefixLength) || (self.providerReservedPrefixLength >= self.prefixLength)",
    "message": "providerReservedPrefixLength must be at least prefixLength, because the provider's part lies inside the reservation",
}]))]
pub struct Reservations {
    /// How much to reserve, as a prefix length: 25 reserves the first 128 addresses. Longer than the prefix's own.
    #[schemars(range(min = 0, max = 30))]
    pub prefix_length: u8,
    /// How much of the reservation belongs to the provider, as a prefix length; the rest is for storage. At least
    /// `prefixLength`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 30))]
    pub provider_reserved_prefix_length: Option<u8>,
}

/// A way to a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Where it leads.
    pub prefix: Ipv4Prefix,
    /// The router to send to, an address on this network.
    pub next_hop: Ipv4Address,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// What is known about it. `Available` says how far it is, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        with = "Vec<ConditionSchema>",
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What has been made in OpenStack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openstack: Option<OpenstackNetworkStatus>,
}

/// A network as OpenStack knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenstackNetworkStatus {
    /// The Neutron network.
    #[serde(default, rename = "networkID", skip_serializing_if = "Option::is_none")]
    pub network_id: Option<String>,
    /// The Neutron subnet.
    #[serde(default, rename = "subnetID", skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<String>,
    /// The VLAN, if the region has provider networks.
    #[serde(default, rename = "vlanID", skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<i64>,
    /// The part of the reservation that storage may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_range: Option<AddressRange>,
}

/// Addresses from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddressRange {
    /// The first address.
    #[serde(rename = "startIP")]
    pub start_ip: Ipv4Address,
    /// The last address.
    #[serde(rename = "endIP")]
    pub end_ip: Ipv4Address,
}
