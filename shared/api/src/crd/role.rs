//! Role: what its holders may do.

use super::Tag;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What its holders may do.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "identity.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "Role",
    plural = "roles",
    namespaced,
    status = "RoleStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "urole",
    doc = "What the holders of a role may do through the REST API. Not a role of Kubernetes: use the short name, or roles.identity.unikorn-cloud.org, to get it.",
    printcolumn(name = "display name", type_ = "string", json_path = r".metadata.labels['unikorn-cloud\.org/name']"),
    printcolumn(name = "age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RoleSpec {
    /// Names and values of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// True for roles of the system, which nobody can give away through the API.
    #[serde(default)]
    pub protected: bool,
    /// What may be done, by how far it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<RoleScopes>,
}

/// Permissions by how far they reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleScopes {
    /// Everywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub global: Vec<RoleEndpoint>,
    /// In the holder's organization, all its projects included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub organization: Vec<RoleEndpoint>,
    /// In the holder's project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub project: Vec<RoleEndpoint>,
}

/// What may be done with one kind of thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleEndpoint {
    /// The kind of thing, such as `compute:instances`.
    pub name: String,
    /// What may be done with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Operation>,
}

/// What may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Make new ones.
    Create,
    /// See them.
    Read,
    /// Change them.
    Update,
    /// Remove them.
    Delete,
}

/// Nothing but which spec it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleStatus {
    /// The generation of the spec that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
