//! What several kinds have in common.

use super::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A name and a value that the owner attaches to a resource. Names of the form `<service>.<domain>/<name>` are passed
/// on to the cloud as metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Tag {
    /// The tag's name.
    pub name: String,
    /// The tag's value.
    pub value: String,
}

/// What kind of cloud is behind a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// An OpenStack cloud.
    Openstack,
    /// A Kubernetes cluster. Defined for compatibility; Weir does not serve it.
    Kubernetes,
    /// No cloud at all. Defined for compatibility; Weir does not serve it.
    Simulated,
}

impl Provider {
    /// The text in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Openstack => "openstack",
            Self::Kubernetes => "kubernetes",
            Self::Simulated => "simulated",
        }
    }
}

/// A CPU architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Architecture {
    /// 64-bit Intel and AMD.
    #[default]
    #[serde(rename = "x86_64")]
    X86_64,
    /// 64-bit Arm.
    #[serde(rename = "aarch64")]
    Aarch64,
}

impl Architecture {
    /// The text in manifests and in Glance.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }
}

/// The CPUs of a flavor or node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// The architecture; overrides the region's default architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// How many; overrides what the flavor says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// The family in words, such as `AMD EPYC 9354`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
}

/// Who makes a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum GpuVendor {
    /// NVIDIA.
    #[serde(rename = "NVIDIA")]
    Nvidia,
    /// AMD.
    #[serde(rename = "AMD")]
    Amd,
}

/// The GPUs of a flavor or node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gpu {
    /// Who makes them.
    pub vendor: GpuVendor,
    /// The model in words, such as `H100`.
    pub model: String,
    /// How many cards there are.
    pub physical_count: i64,
    /// How many GPUs the operating system sees; more than `physicalCount` where a card holds several.
    pub logical_count: i64,
    /// Memory of one logical GPU.
    pub memory: Quantity,
}

/// Where a Secret is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
}

/// One thing that is known about a resource.
// Only its schema is used: Kubernetes' own type comes with another text, and does not bound `status`.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[allow(dead_code)]
pub(super) struct ConditionSchema {
    /// What it is about: `Available`, `Healthy` or `Active`.
    #[schemars(rename = "type")]
    kind: String,
    /// Whether it is so.
    status: ConditionStatus,
    /// Why, in one word that programs may rely on.
    reason: String,
    /// Why, and what to do about it, for people.
    message: String,
    /// When `status` or `reason` last changed.
    #[schemars(extend("format" = "date-time"))]
    last_transition_time: String,
    /// The generation of the spec that this was decided from.
    observed_generation: Option<i64>,
}

#[derive(JsonSchema)]
#[allow(dead_code)]
enum ConditionStatus {
    True,
    False,
    Unknown,
}
