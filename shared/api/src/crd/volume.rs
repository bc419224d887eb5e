//! Volume: a block storage volume.

use super::{NetworkId, Quantity, Tag, VolumeClassId, shared::ConditionSchema};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The volume to make.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "region.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "Volume",
    plural = "volumes",
    namespaced,
    status = "VolumeStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "vol",
    doc = "A block storage volume. It outlives the servers that it is attached to.",
    printcolumn(
        name = "display name",
        type_ = "string",
        json_path = r".metadata.labels['unikorn-cloud\.org/name']",
        priority = 1
    ),
    printcolumn(name = "status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Available")].reason"#),
    printcolumn(name = "network", type_ = "string", json_path = ".spec.networkID"),
    printcolumn(name = "size", type_ = "string", json_path = ".spec.size"),
    printcolumn(name = "class", type_ = "string", json_path = ".spec.volumeClassID", priority = 1),
    printcolumn(name = "server", type_ = "string", json_path = ".spec.claimRef.id", priority = 1),
    printcolumn(
        name = "message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].message"#,
        priority = 1
    ),
    printcolumn(name = "age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.networkID == oldSelf.networkID",
        "message": "networkID cannot be changed: create a new volume on the other network and copy the data",
    },
    {
        "rule": "self.size == oldSelf.size || (type(self.size) == string && type(oldSelf.size) == string && quantity(self.size).compareTo(quantity(oldSelf.size)) == 0)",
        "message": "size cannot be changed: create a new volume of the size wanted and copy the data",
    },
    {
        "rule": "self.volumeClassID == oldSelf.volumeClassID",
        "message": "volumeClassID cannot be changed: create a new volume of the class wanted and copy the data",
    },
]))]
pub struct VolumeSpec {
    /// Set to true to leave the cloud alone: nothing is read, changed or deleted until it is false again.
    #[serde(default)]
    pub pause: bool,
    /// Names and values of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// The Network whose servers may use it. Cannot be changed.
    #[serde(rename = "networkID")]
    pub network_id: NetworkId,
    /// The class of storage, one that the region offers. Cannot be changed.
    #[serde(rename = "volumeClassID")]
    pub volume_class_id: VolumeClassId,
    /// How large, such as `100Gi`; rounded up to whole GiB. Cannot be changed.
    pub size: Quantity,
    /// Who has it. One server at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<VolumeClaim>,
}

/// Who has a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeClaim {
    /// The kind of who has it.
    pub kind: ClaimKind,
    /// The name of who has it.
    pub id: String,
}

/// What may claim a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClaimKind {
    /// A Server.
    Server,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatus {
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
    /// How large the volume is in the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
}
