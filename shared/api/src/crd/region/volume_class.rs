//! Which volume types of a cloud to offer, and what to say about them (VCL).

use crate::crd::{FlavorId, VolumeClassId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lower case with hyphens, so that one UUID has one spelling and a set can see duplicates.
const UUID_PATTERN: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";

/// What of the block storage to offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockStorage {
    /// The classes of volumes. Without it there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_classes: Option<VolumeClasses>,
}

/// The classes of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeClasses {
    /// Which Cinder volume types to offer. Without it none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<VolumeClassSelector>,
    /// What to say about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub metadata: Vec<VolumeClassMetadata>,
}

/// Which Cinder volume types to offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeClassSelector {
    /// Their IDs. What is not listed is not offered; an empty list offers nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<VolumeClassId>,
}

/// What to say about a class of volumes. Nothing of it is read from Cinder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.minimumSizeGiB) || !has(self.maximumSizeGiB) || self.maximumSizeGiB >= self.minimumSizeGiB",
    "message": "maximumSizeGiB must be at least minimumSizeGiB: swap or remove one of them",
}]))]
pub struct VolumeClassMetadata {
    /// The Cinder volume type.
    pub id: VolumeClassId,
    /// What it is stored on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaType>,
    /// How fast it can get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performance: Option<Performance>,
    /// Whether it is encrypted at rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// The smallest volume that may be asked for, in GiB.
    #[serde(default, rename = "minimumSizeGiB", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub minimum_size_gib: Option<i64>,
    /// The largest volume that may be asked for, in GiB.
    #[serde(default, rename = "maximumSizeGiB", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub maximum_size_gib: Option<i64>,
    /// Which flavors can use it; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supported_flavors: Option<SupportedFlavors>,
}

impl VolumeClassMetadata {
    /// The flavors that can use the class; empty if all can (VCL-2). Both places where they may stand count.
    pub fn supported_flavor_ids(&self) -> impl Iterator<Item = &FlavorId> {
        self.supported_flavors
            .iter()
            .flat_map(|flavors| flavors.ids.iter().chain(flavors.selector.iter().flat_map(|selector| &selector.ids)))
    }
}

/// What a volume is stored on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MediaType {
    /// Spinning disks.
    Hdd,
    /// Solid-state disks.
    Ssd,
    /// Solid-state disks over NVMe.
    Nvme,
}

/// Caps on how fast a volume gets; not promises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Performance {
    /// Operations a second at most.
    #[serde(default, rename = "maxIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub max_iops: Option<i64>,
    /// MiB a second at most.
    #[serde(default, rename = "maxThroughputMiBps", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub max_throughput_mibps: Option<i64>,
}

/// Which flavors can use a class of volumes: those under `selector.ids`, and those under `ids`. All can if both are
/// empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SupportedFlavors {
    /// The flavors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<SupportedFlavorSelector>,
    /// The flavors, in the short form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<FlavorUuid>", extend("x-kubernetes-list-type" = "set"))]
    pub ids: Vec<FlavorId>,
}

/// The flavors that can use a class of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SupportedFlavorSelector {
    /// Their IDs: UUIDs in lower case with hyphens, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<FlavorUuid>", extend("x-kubernetes-list-type" = "set"))]
    pub ids: Vec<FlavorId>,
}

/// A flavor's ID: a UUID in lower case with hyphens.
#[derive(JsonSchema)]
#[schemars(extend("format" = "uuid", "pattern" = UUID_PATTERN))]
#[allow(dead_code)]
struct FlavorUuid(String);
