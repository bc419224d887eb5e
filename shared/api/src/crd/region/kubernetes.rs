//! Regions that are Kubernetes clusters. Defined so that their manifests apply; Weir does not serve them.

use crate::crd::{Cpu, Gpu, Quantity, SecretRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How to reach a Kubernetes cluster, and what it offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesRegion {
    /// The Secret that holds the cluster's kubeconfig.
    pub kube_config_secret: SecretRef,
    /// The DNS domain under which things in the region are found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_name: Option<String>,
    /// The kinds of node that there are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub nodes: Vec<KubernetesNode>,
}

/// A kind of node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KubernetesNode {
    /// What the API calls it.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Its CPUs.
    pub cpu: Cpu,
    /// Its memory.
    pub memory: Quantity,
    /// Its disk.
    pub disk: Quantity,
    /// Its GPUs, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
}
