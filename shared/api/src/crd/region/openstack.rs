//! Regions that are OpenStack clouds.

use super::BlockStorage;
use crate::crd::{Architecture, Base64, Cpu, FlavorId, Gpu, Quantity, SecretRef, Tag};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// How to reach an OpenStack cloud, and what of it to offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenstackRegion {
    /// The URL of Keystone, such as `https://keystone.example.com:5000`.
    pub endpoint: String,
    /// The Secret with the credential to work with: `domain-id`, `project-id`, `user-id` and `password`. If need be also
    /// `ca.crt`, the certificate authorities in PEM to trust instead of the system's, and `insecure-skip-tls-verify`, `true`
    /// to check no certificate at all.
    pub service_account_secret: SecretRef,
    /// The architecture of flavors and images that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "x86_64"))]
    pub default_architecture: Option<Architecture>,
    /// How to make identities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityOptions>,
    /// How to make servers, and which flavors to offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<Compute>,
    /// Which images to offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageOptions>,
    /// How to make networks, and which external ones to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkingOptions>,
    /// Which classes of volumes to offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_storage: Option<BlockStorage>,
}

/// How to make identities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityOptions {
    /// The roles of an identity's user in its project. If empty, `member` and `load-balancer_member`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_roles: Vec<String>,
}

/// How to make servers, and which flavors to offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compute {
    /// The policy of an identity's server group. If absent, `soft-anti-affinity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_group_policy: Option<String>,
    /// Whether to ask Placement for room before a server is created on a given host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_preflight: Option<PlacementPreflight>,
    /// Which flavors to offer, and what to say about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavors: Option<Flavors>,
}

/// Whether to ask Placement for room before a server is created on a given host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPreflight {
    /// True to ask.
    #[serde(default)]
    pub enabled: bool,
    /// Traits that the host must have besides those of the flavor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_traits: Vec<String>,
}

/// Which flavors to offer, and what to say about them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flavors {
    /// Which to offer. Without it all public ones are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<FlavorSelector>,
    /// What to say about them that Nova does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<FlavorMetadata>,
}

/// Which flavors to offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlavorSelector {
    /// Their IDs. An empty list offers all public flavors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<FlavorId>,
}

/// What to say about a flavor that Nova does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlavorMetadata {
    /// The Nova flavor.
    pub id: FlavorId,
    /// True if its servers are whole machines.
    #[serde(default)]
    pub baremetal: bool,
    /// True if its servers must name their host.
    #[serde(default)]
    pub pinned_only: bool,
    /// Its CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Its memory; overrides what Nova says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
    /// Its GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
}

/// Which images to offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageOptions {
    /// Which to offer. Without it all public ones that describe themselves are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<ImageSelector>,
}

/// Which images to offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSelector {
    /// The key that must have signed an image: an ECDSA public key, PEM in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<Base64>,
}

/// How to make networks, and which external ones to use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkingOptions {
    /// The networks that lead outside, for routers and public addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_networks: Option<ExternalNetworks>,
    /// Whether networks are VLANs of a physical network, as bare metal needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_networks: Option<ProviderNetworks>,
}

/// The networks that lead outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExternalNetworks {
    /// Which of them to use. Without it all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<ExternalNetworkSelector>,
}

/// Which external networks to use. With IDs and tags, both must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExternalNetworkSelector {
    /// Their Neutron IDs; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Tags, all of which a network must have; any network if empty. Each is the text of a Neutron tag, or a name and a
    /// value that stand for the tag `name=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<NetworkTag>,
}

/// A tag of a Neutron network.
///
/// Neutron's tags are plain text, while a tag elsewhere in a manifest is a name and a value; both are understood.
/// Kubernetes cannot check which of the two an item is, so anything else is kept as well, and fits no network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NetworkTag {
    /// The text of the tag.
    Text(String),
    /// A name and a value.
    Pair(Tag),
    /// Something that is no tag.
    Other(serde_json::Value),
}

impl NetworkTag {
    /// The tag as Neutron has it; `None` if it is not one.
    pub fn neutron(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Pair(Tag { name, value }) => Some(Cow::Owned(format!("{name}={value}"))),
            Self::Other(_) => None,
        }
    }
}

impl JsonSchema for NetworkTag {
    fn schema_name() -> Cow<'static, str> {
        "NetworkTag".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The text of a Neutron tag, or an object with name and value, which stands for the tag name=value.",
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

/// Whether networks are VLANs of a physical network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderNetworks {
    /// The name of the physical network in Neutron. With it, every network gets a VLAN there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_network: Option<String>,
    /// Which VLANs to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<VlanOptions>,
}

/// Which VLANs to use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VlanOptions {
    /// The VLANs, in one or more ranges. If absent, 1 to 4094.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub segments: Vec<VlanSegment>,
}

/// VLANs from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VlanSegment {
    /// The first.
    #[schemars(extend("minimum" = 1))]
    pub start_id: i64,
    /// The last.
    #[schemars(extend("maximum" = 4094))]
    pub end_id: i64,
}
