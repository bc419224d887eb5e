//! Quota: how much an organization may have.

use super::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much may be had.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "identity.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "Quota",
    plural = "quotas",
    namespaced,
    status = "QuotaStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "qta",
    doc = "How much of each kind of resource an organization may have.",
    printcolumn(
        name = "organization",
        type_ = "string",
        json_path = r".metadata.labels['unikorn-cloud\.org/organization']",
        priority = 1
    ),
    printcolumn(name = "age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct QuotaSpec {
    /// The limit of each kind. A kind without one has the default of its QuotaMetadata.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind"]))]
    pub quotas: Vec<ResourceQuota>,
}

/// The limit of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceQuota {
    /// The kind of resource: servers, gpus, floatingips, clusters, networks, volumes, volumesGiB or loadbalancers.
    pub kind: String,
    /// How many.
    pub quantity: Quantity,
}

/// Nothing but which spec it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaStatus {
    /// The generation of the spec that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
