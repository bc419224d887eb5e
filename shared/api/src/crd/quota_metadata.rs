//! QuotaMetadata: what kinds of resource can be limited, and how.

use super::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of resource that can be limited.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "identity.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "QuotaMetadata",
    plural = "quotametadata",
    namespaced,
    status = "QuotaMetadataStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "qmeta",
    doc = "A kind of resource that a Quota can limit: what to call it, and how much of it one may have by default.",
    printcolumn(name = "display name", type_ = "string", json_path = ".spec.displayName"),
    printcolumn(name = "default", type_ = "string", json_path = ".spec.default"),
    printcolumn(name = "age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct QuotaMetadataSpec {
    /// What to call it on a screen.
    pub display_name: String,
    /// What it is, in a sentence.
    pub description: String,
    /// How many an organization may have without a Quota of its own.
    #[serde(rename = "default")]
    pub default_quantity: Quantity,
    /// How to show a number of it: `decimal` as it is, `binary` in Ki, Mi, Gi.
    #[serde(default)]
    #[schemars(extend("x-default" = "decimal"))]
    pub format: NumberFormat,
}

/// How to show a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NumberFormat {
    /// As it is.
    #[default]
    Decimal,
    /// In Ki, Mi, Gi.
    Binary,
}

/// Nothing but which spec it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaMetadataStatus {
    /// The generation of the spec that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
