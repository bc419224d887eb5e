//! Server: a virtual or bare-metal server.

use super::{
    Base64, CertificateAuthorityId, FlavorId, ImageId, Ipv4Prefix, NetworkId, Provider, SecurityGroupId, Tag, VolumeId,
    shared::ConditionSchema,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The server to make. Its host name is the label `unikorn-cloud.org/name`; region, identity and network are named by
/// labels `regions.unikorn-cloud.org/…-id`.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "region.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "Server",
    plural = "servers",
    namespaced,
    status = "ServerStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "srv",
    doc = "A server, virtual or bare metal, on a Network, with security groups, volumes and, if asked for, a public address.",
    printcolumn(
        name = "display name",
        type_ = "string",
        json_path = r".metadata.labels['unikorn-cloud\.org/name']",
        priority = 1
    ),
    printcolumn(name = "status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Available")].reason"#),
    printcolumn(name = "health", type_ = "string", json_path = r#".status.conditions[?(@.type=="Healthy")].reason"#),
    printcolumn(name = "state", type_ = "string", json_path = r#".status.conditions[?(@.type=="Active")].reason"#),
    printcolumn(name = "privateIP", type_ = "string", json_path = ".status.privateIP"),
    printcolumn(name = "publicIP", type_ = "string", json_path = ".status.publicIP"),
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
        "rule": "!has(oldSelf.infrastructureRef) == !has(self.infrastructureRef) && (!has(self.infrastructureRef) || self.infrastructureRef == oldSelf.infrastructureRef)",
        "message": "infrastructureRef is decided when a server is created and cannot be added, removed or changed: create a new server on the other host",
    },
    {
        "rule": "(has(self.sshInjection) ? self.sshInjection : (has(self.sshCertificateAuthorityID) ? 'ca' : 'identityKeypair')) == (has(oldSelf.sshInjection) ? oldSelf.sshInjection : (has(oldSelf.sshCertificateAuthorityID) ? 'ca' : 'identityKeypair'))",
        "message": "how SSH access is set up (sshInjection) is decided when a server is created and cannot be changed: create a new server",
    },
    {
        "rule": "has(self.sshCertificateAuthorityID) == has(oldSelf.sshCertificateAuthorityID) && (!has(self.sshCertificateAuthorityID) || self.sshCertificateAuthorityID == oldSelf.sshCertificateAuthorityID)",
        "message": "sshCertificateAuthorityID is decided when a server is created and cannot be added, removed or changed: create a new server",
    },
]))]
pub struct ServerSpec {
    /// Set to true to leave the cloud alone: nothing is read, changed or deleted until it is false again.
    #[serde(default)]
    pub pause: bool,
    /// Names and values of your own. Those of the form `<service>.<domain>/<name>` become metadata of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// What kind of cloud the region is. Not needed; kept for manifests that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The flavor: how many CPUs, how much memory and disk. A change has no effect on a server that exists.
    #[serde(rename = "flavorID")]
    #[schemars(extend("format" = "uuid"))]
    pub flavor_id: FlavorId,
    /// The image to boot from. A change rebuilds the server with the new image; its root disk is lost.
    pub image: ServerImage,
    /// Security groups of the server's port, by the names of SecurityGroup objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<ServerSecurityGroup>,
    /// Whether to have a public address.
    #[serde(default, rename = "publicIPAllocation", skip_serializing_if = "Option::is_none")]
    pub public_ip_allocation: Option<PublicIpAllocation>,
    /// The network to be on. Only the first is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<ServerNetwork>,
    /// Volumes to attach, by the names of Volume objects. Removing one detaches it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub volumes: Vec<ServerVolume>,
    /// Whose SSH certificates the server accepts: the name of an SSHCertificateAuthority. Cannot be changed.
    #[serde(default, rename = "sshCertificateAuthorityID", skip_serializing_if = "Option::is_none")]
    pub ssh_certificate_authority_id: Option<CertificateAuthorityId>,
    /// How SSH access is set up: `ca` trusts the certificate authority, `identityKeypair` puts in the identity's key,
    /// `none` does nothing. If absent, `ca` with a certificate authority, otherwise `identityKeypair`. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_injection: Option<SshInjection>,
    /// User data for cloud-init, in base64. A change has no effect on a server that exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<Base64>,
    /// The host to run on, for regions that allow it. Cannot be changed, and needs an `sshInjection` other than
    /// `identityKeypair`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<String>,
}

impl ServerSpec {
    /// How SSH access is set up, the default resolved (SSH-1).
    pub fn resolved_ssh_injection(&self) -> SshInjection {
        match (self.ssh_injection, &self.ssh_certificate_authority_id) {
            (Some(injection), _) => injection,
            (None, Some(_)) => SshInjection::Ca,
            (None, None) => SshInjection::IdentityKeypair,
        }
    }

    /// Whether a public address is asked for (SRV-6).
    pub fn wants_public_ip(&self) -> bool {
        self.public_ip_allocation.as_ref().is_some_and(|allocation| allocation.enabled)
    }
}

/// An image to boot from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerImage {
    /// The image's ID.
    #[schemars(extend("format" = "uuid"))]
    pub id: ImageId,
}

/// A security group to be in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSecurityGroup {
    /// The name of the SecurityGroup object.
    #[schemars(extend("format" = "uuid"))]
    pub id: SecurityGroupId,
}

/// Whether to have a public address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PublicIpAllocation {
    /// True for a public address; false takes it away again.
    #[serde(default)]
    pub enabled: bool,
}

/// A network to be on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerNetwork {
    /// The name of the Network object.
    #[schemars(extend("format" = "uuid"))]
    pub id: NetworkId,
    /// Addresses besides its own that the server may send from, for routers and virtual addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_address_pairs: Vec<AllowedAddressPair>,
}

/// Addresses that a server may send from besides its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedAddressPair {
    /// The addresses.
    pub cidr: Ipv4Prefix,
    /// With which MAC address; the port's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
}

/// A volume to attach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerVolume {
    /// The name of the Volume object.
    pub id: VolumeId,
}

/// How SSH access is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SshInjection {
    /// The server trusts a certificate authority.
    Ca,
    /// The server gets the identity's key.
    IdentityKeypair,
    /// Nothing is done.
    None,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    /// What is known about it. `Available` says how far it is and why, `Healthy` whether the cloud finds it well,
    /// `Active` what it is doing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        with = "Vec<ConditionSchema>",
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Replaced by the condition `Active`. Accepted from manifests that have it, never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ServerPhase>,
    /// The address on its network.
    #[serde(default, rename = "privateIP", skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<String>,
    /// The public address.
    #[serde(default, rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<String>,
    /// The MAC address of its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// When the cloud last started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launched_at: Option<Time>,
    /// When the cloud found a host for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Time>,
    /// When it first ran. Written once, never cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned_at: Option<Time>,
    /// How many attempts to create it have failed. Set it to 0 to allow new ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_create_failures: Option<i32>,
    /// True while a server that failed is being removed before the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_create_retrying: Option<bool>,
    /// The change of image that is going on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Rebuild>,
    /// Volumes, and how far each is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub volumes: Vec<AttachedVolume>,
}

/// What a server is doing, in the words of earlier versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServerPhase {
    /// Not yet begun.
    Pending,
    /// Waiting for a host.
    Queued,
    /// Being made.
    Building,
    /// Running.
    Running,
    /// Being stopped.
    Stopping,
    /// Stopped.
    Stopped,
}

/// A change of image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Rebuild {
    /// The image that it changes to.
    #[serde(rename = "targetImageID")]
    #[schemars(extend("format" = "uuid"))]
    pub target_image_id: ImageId,
    /// How far it is.
    pub state: RebuildState,
}

/// How far a change of image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RebuildState {
    /// Decided; the cloud may or may not have been asked.
    Initiated,
    /// The cloud is at work.
    Rebuilding,
    /// The server runs with the new image.
    Succeeded,
    /// It failed.
    Failed,
    /// A state of a release to come, which is left as it is.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// A volume, and how far its attachment is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttachedVolume {
    /// The name of the Volume object.
    pub id: VolumeId,
    /// How far it is.
    pub provisioning_status: AttachmentStatus,
    /// The device it appears as, such as `/dev/vdb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Why, in words.
    pub message: String,
}

/// How far an attachment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttachmentStatus {
    /// Being attached.
    Provisioning,
    /// Attached.
    Provisioned,
    /// It failed; the message says what to do.
    Errored,
    /// Being detached.
    Deprovisioning,
}
