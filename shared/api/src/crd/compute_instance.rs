//! ComputeInstance: what tenants see of a server.

use super::{
    Base64, CertificateAuthorityId, FlavorId, ImageId, Ipv4Prefix, Quantity, SecurityGroupId, ServerVolume, Tag,
    shared::ConditionSchema,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The instance to have. Its name is the label `unikorn-cloud.org/name`; region and network are named by labels
/// `regions.unikorn-cloud.org/…-id`.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "compute.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "ComputeInstance",
    plural = "computeinstances",
    namespaced,
    status = "ComputeInstanceStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "inst",
    doc = "A compute instance, as tenants see it. The Server behind it is made and kept by Weir.",
    printcolumn(name = "display name", type_ = "string", json_path = r".metadata.labels['unikorn-cloud\.org/name']"),
    printcolumn(name = "status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Available")].reason"#),
    printcolumn(name = "health", type_ = "string", json_path = r#".status.conditions[?(@.type=="Healthy")].reason"#),
    printcolumn(name = "state", type_ = "string", json_path = r#".status.conditions[?(@.type=="Active")].reason"#),
    printcolumn(name = "privateIp", type_ = "string", json_path = ".status.privateIp"),
    printcolumn(name = "publicIp", type_ = "string", json_path = ".status.publicIp"),
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
    "rule": "has(self.sshCertificateAuthorityId) == has(oldSelf.sshCertificateAuthorityId) && (!has(self.sshCertificateAuthorityId) || self.sshCertificateAuthorityId == oldSelf.sshCertificateAuthorityId)",
    "message": "sshCertificateAuthorityId is decided when an instance is created and cannot be added, removed or changed: create a new instance",
}]))]
pub struct ComputeInstanceSpec {
    /// Set to true to leave the cloud alone: nothing is read, changed or deleted until it is false again.
    #[serde(default)]
    pub pause: bool,
    /// Names and values of your own. The name `compute.unikorn-cloud.org/instance-id` is reserved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// The flavor: how many CPUs, how much memory and disk. A change replaces the server behind the instance.
    pub flavor_id: FlavorId,
    /// The image to boot from. A change rebuilds the server with the new image; its root disk is lost.
    pub image_id: ImageId,
    /// Not used; kept for manifests that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_size: Option<Quantity>,
    /// Not used; kept for manifests that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i64>,
    /// How to reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<InstanceNetworking>,
    /// Whose SSH certificates the instance accepts: the name of an SSHCertificateAuthority. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_certificate_authority_id: Option<CertificateAuthorityId>,
    /// User data for cloud-init, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<Base64>,
    /// Volumes to attach, by the names of Volume objects. Removing one detaches it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub volumes: Vec<ServerVolume>,
}

/// How to reach an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceNetworking {
    /// Whether to have a public address.
    #[serde(default)]
    pub public_ip: bool,
    /// Security groups, by the names of SecurityGroup objects on the same network.
    #[serde(default, rename = "securityGroupIDs", skip_serializing_if = "Vec::is_empty")]
    pub security_group_ids: Vec<SecurityGroupId>,
    /// Addresses besides its own that the instance may send from, for routers and virtual addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_source_addresses: Vec<Ipv4Prefix>,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComputeInstanceStatus {
    /// What is known about it. `Available` says how far it is and why, `Healthy` whether the cloud finds it well,
    /// `Active` what it is doing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        with = "Vec<ConditionSchema>",
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Replaced by the condition `Active`. Accepted from manifests that have it, never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,
    /// The address on its network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<String>,
    /// The public address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<String>,
}

/// What an instance is doing, in the words of earlier versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PowerState {
    /// Not yet running.
    Pending,
    /// Running.
    Running,
    /// Being stopped.
    Stopping,
    /// Stopped.
    Stopped,
}
