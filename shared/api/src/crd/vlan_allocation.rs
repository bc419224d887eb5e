//! VLANAllocation: which network has which VLAN.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which VLANs are taken.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "region.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "VLANAllocation",
    root = "VlanAllocation",
    plural = "vlanallocations",
    namespaced,
    status = "VlanAllocationStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "vlan",
    doc = "The VLANs of one region and the networks that have them. Written by Weir only; its name is that of the provider and the region.",
    printcolumn(name = "age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct VlanAllocationSpec {
    /// The VLANs that are taken, each by one network. An ID that stands here twice is corruption, and no VLAN is given
    /// out until it is mended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<VlanAllocationEntry>,
}

/// A VLAN that is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VlanAllocationEntry {
    /// The VLAN's ID, 1 to 4094.
    pub id: i64,
    /// The name of the Network object that has it.
    #[serde(rename = "physicalNetworkID")]
    pub physical_network_id: String,
}

/// Nothing but which spec it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VlanAllocationStatus {
    /// The generation of the spec that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
