//! Identity: a tenant's foothold in a region.

use super::{Provider, Tag, shared::ConditionSchema};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whom to make a foothold for. The region is named by the label `regions.unikorn-cloud.org/region-id`, the owner by
/// the labels `unikorn-cloud.org/organization` and `unikorn-cloud.org/project`.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "region.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "Identity",
    plural = "identities",
    namespaced,
    status = "IdentityStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "idn",
    doc = "One tenant's foothold in a region: a project, a user and an application credential of its own. Networks, servers and volumes are made inside it.",
    printcolumn(
        name = "display name",
        type_ = "string",
        json_path = r".metadata.labels['unikorn-cloud\.org/name']",
        priority = 1
    ),
    printcolumn(name = "provider", type_ = "string", json_path = ".spec.provider"),
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
pub struct IdentitySpec {
    /// Set to true to leave the cloud alone: nothing is read, changed or deleted until it is false again.
    #[serde(default)]
    pub pause: bool,
    /// What kind of cloud the region is; the same as the Region's.
    pub provider: Provider,
    /// Names and values of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityStatus {
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
