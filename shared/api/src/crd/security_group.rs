//! SecurityGroup: a set of packet filter rules.

use super::{Ipv4Prefix, Tag, shared::ConditionSchema};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rules to enforce. Region, identity and network are named by labels `regions.unikorn-cloud.org/…-id`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "region.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "SecurityGroup",
    plural = "securitygroups",
    namespaced,
    status = "SecurityGroupStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "sg",
    doc = "A set of packet filter rules for servers: what may come in and go out. What no rule allows is dropped.",
    printcolumn(
        name = "display name",
        type_ = "string",
        json_path = r".metadata.labels['unikorn-cloud\.org/name']",
        priority = 1
    ),
    printcolumn(name = "status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Available")].reason"#),
    printcolumn(
        name = "message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].message"#,
        priority = 1
    ),
    printcolumn(name = "age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroupSpec {
    /// Set to true to leave the cloud alone: nothing is read, changed or deleted until it is false again.
    #[serde(default)]
    pub pause: bool,
    /// Names and values of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// What is allowed. Outgoing traffic is allowed also without a rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<SecurityGroupRule>,
}

/// Traffic that is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecurityGroupRule {
    /// Whether it comes in or goes out.
    pub direction: Direction,
    /// Of which protocol.
    pub protocol: RuleProtocol,
    /// To which port or ports; all of them if absent. Only for tcp and udp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<RulePort>,
    /// From or to which addresses; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<Ipv4Prefix>,
}

/// Which way traffic goes, seen from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the server.
    Ingress,
    /// From the server.
    Egress,
}

/// A protocol over IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleProtocol {
    /// All protocols.
    Any,
    /// ICMP.
    Icmp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// VRRP.
    Vrrp,
}

/// One port, or a range of ports. With both, the number counts.
///
/// Numbers are wide: only the outer bounds of a range are checked at admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.number) || has(self.range))",
    "message": "a port needs a number or a range: set one of them, or leave port out to allow every port",
}]))]
pub struct RulePort {
    /// One port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    /// Several ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<PortRange>,
}

/// Ports from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortRange {
    /// The first port.
    #[schemars(extend("minimum" = 1))]
    pub start: i64,
    /// The last port.
    #[schemars(extend("maximum" = 65535))]
    pub end: i64,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroupStatus {
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
}
