//! LoadBalancer: one address for several servers.

use super::{Ipv4Address, Ipv4Prefix, Tag, shared::ConditionSchema};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The load balancer to make. Region, identity and network are named by labels `regions.unikorn-cloud.org/…-id`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "region.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "LoadBalancer",
    plural = "loadbalancers",
    namespaced,
    status = "LoadBalancerStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "lb",
    doc = "One address in front of several servers, with one listener for each port.",
    printcolumn(
        name = "display name",
        type_ = "string",
        json_path = r".metadata.labels['unikorn-cloud\.org/name']",
        priority = 1
    ),
    printcolumn(name = "status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Available")].reason"#),
    printcolumn(name = "health", type_ = "string", json_path = r#".status.conditions[?(@.type=="Healthy")].reason"#),
    printcolumn(name = "vipAddress", type_ = "string", json_path = ".status.vipAddress"),
    printcolumn(name = "publicIP", type_ = "string", json_path = ".status.publicIP"),
    printcolumn(
        name = "message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].message"#,
        priority = 1
    ),
    printcolumn(name = "age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerSpec {
    /// Set to true to leave the cloud alone: nothing is read, changed or deleted until it is false again.
    #[serde(default)]
    pub pause: bool,
    /// Names and values of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// The address to have on the network; any free one if absent.
    #[serde(default, rename = "requestedVIPAddress", skip_serializing_if = "Option::is_none")]
    pub requested_vip_address: Option<Ipv4Address>,
    /// Whether to have a public address too.
    #[serde(default, rename = "publicIP")]
    pub public_ip: bool,
    /// The ports to listen on, each under a name of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub listeners: Vec<Listener>,
}

/// A port to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.protocol == 'tcp' || !has(self.idleTimeoutSeconds)",
        "message": "idleTimeoutSeconds is for tcp only: remove it, or set protocol to tcp",
    },
    {
        "rule": "self.protocol == 'tcp' || !has(self.pool.proxyProtocolV2) || self.pool.proxyProtocolV2 == false",
        "message": "pool.proxyProtocolV2 is for tcp only: remove it, or set protocol to tcp",
    },
]))]
pub struct Listener {
    /// Its name: lower-case letters, digits and hyphens, beginning with a letter.
    #[schemars(length(max = 63), extend("pattern" = "^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The protocol. Cannot be changed under the same name.
    pub protocol: TransportProtocol,
    /// The port. Cannot be changed under the same name.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// Who may connect; everybody if absent.
    #[serde(default, rename = "allowedCIDRs", skip_serializing_if = "Vec::is_empty")]
    pub allowed_cidrs: Vec<Ipv4Prefix>,
    /// How long a connection may be silent before it is closed. For tcp only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub idle_timeout_seconds: Option<u32>,
    /// Where to send the connections.
    pub pool: Pool,
}

/// A protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TransportProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Where to send connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Whether to tell members, by the PROXY protocol version 2, who connects. For tcp only.
    #[serde(default)]
    pub proxy_protocol_v2: bool,
    /// The servers; may be empty.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["address", "port"]))]
    pub members: Vec<Member>,
    /// How to find out which members are well. Without it all of them count as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
}

/// A server behind a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// Its address on the network.
    pub address: Ipv4Address,
    /// Its port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
}

/// How to find out which members are well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.timeoutSeconds < self.intervalSeconds",
    "message": "timeoutSeconds must be less than intervalSeconds, so that one check ends before the next begins",
}]))]
pub struct HealthCheck {
    /// Seconds from one check to the next.
    #[schemars(range(min = 1, max = 300))]
    pub interval_seconds: u32,
    /// Seconds after which a check has failed. Less than `intervalSeconds`.
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: u32,
    /// After how many good checks in a row a member is well.
    #[schemars(range(min = 1, max = 10))]
    pub healthy_threshold: u32,
    /// After how many failed checks in a row a member is not well.
    #[schemars(range(min = 1, max = 10))]
    pub unhealthy_threshold: u32,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerStatus {
    /// What is known about it. `Available` says how far it is and why, `Healthy` whether all members are well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        with = "Vec<ConditionSchema>",
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The address on the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip_address: Option<Ipv4Address>,
    /// The public address.
    #[serde(default, rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<Ipv4Address>,
}
