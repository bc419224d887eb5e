//! Region: a cloud to build in.

mod kubernetes;
mod openstack;
mod volume_class;

pub use kubernetes::{KubernetesNode, KubernetesRegion};
pub use openstack::{
    Compute, ExternalNetworkSelector, ExternalNetworks, FlavorMetadata, FlavorSelector, Flavors, IdentityOptions,
    ImageOptions, ImageSelector, NetworkTag, NetworkingOptions, OpenstackRegion, PlacementPreflight, ProviderNetworks,
    VlanOptions, VlanSegment,
};
pub use volume_class::{
    BlockStorage, MediaType, Performance, SupportedFlavorSelector, SupportedFlavors, VolumeClassMetadata,
    VolumeClassSelector, VolumeClasses,
};

use super::{Provider, Tag, shared::ConditionSchema};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the cloud is, and what of it to offer.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "region.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "Region",
    plural = "regions",
    namespaced,
    status = "RegionStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "rgn",
    doc = "A cloud to build in: where it is, with which credential to work in it, and what of it to offer.",
    printcolumn(name = "display name", type_ = "string", json_path = r".metadata.labels['unikorn-cloud\.org/name']"),
    printcolumn(name = "provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(name = "endpoint", type_ = "string", json_path = ".spec.openstack.endpoint", priority = 1),
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
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": r#"self.provider == "openstack" ? has(self.openstack) : true"#,
        "message": "a region with provider openstack needs spec.openstack: set its endpoint and serviceAccountSecret",
    },
    {
        "rule": r#"self.provider == "kubernetes" ? has(self.kubernetes) : true"#,
        "message": "a region with provider kubernetes needs spec.kubernetes: set its kubeConfigSecret",
    },
]))]
pub struct RegionSpec {
    /// Names and values of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// Who may see the region; everybody if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<RegionSecurity>,
    /// What kind of cloud it is.
    pub provider: Provider,
    /// How to reach a Kubernetes cluster, and what it offers. Needed when `provider` is `kubernetes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesRegion>,
    /// How to reach an OpenStack cloud, and what of it to offer. Needed when `provider` is `openstack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openstack: Option<OpenstackRegion>,
}

/// Who may see a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegionSecurity {
    /// The organizations that may see it; all of them if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub organizations: Vec<RegionOrganization>,
}

/// An organization that may see a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegionOrganization {
    /// The organization's ID.
    pub id: String,
}

/// What is known about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegionStatus {
    /// What is known about it. `Available` says whether every service, role and privilege that Weir needs is there, and
    /// names what is missing.
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
