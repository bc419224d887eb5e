//! Allocation: what one resource is charged with.

use super::{Quantity, Tag};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is charged.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "identity.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "Allocation",
    plural = "allocations",
    namespaced,
    status = "AllocationStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "alloc",
    doc = "What one resource is charged with against its organization's Quota.",
    printcolumn(name = "kind", type_ = "string", json_path = r".metadata.labels['unikorn-cloud\.org/resource-kind']"),
    printcolumn(name = "id", type_ = "string", json_path = r".metadata.labels['unikorn-cloud\.org/resource-id']"),
    printcolumn(name = "age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AllocationSpec {
    /// Names and values of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// What is charged, by kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind"]))]
    pub allocations: Vec<ResourceAllocation>,
}

/// What is charged of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceAllocation {
    /// The kind of resource, as in a Quota.
    pub kind: String,
    /// How many are in use.
    pub committed: Quantity,
    /// How many more may come into use without being asked for again, as by scaling.
    pub reserved: Quantity,
}

/// Nothing but which spec it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocationStatus {
    /// The generation of the spec that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
