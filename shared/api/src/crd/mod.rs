//! The custom resources: every kind of the system whose manifests Weir takes over, as Rust types, and the
//! CustomResourceDefinitions generated from them.
//!
//! Intention: the types here are the only place where a field is spelled. `infra/crds` is generated from them
//! ([`all`], and the `crds` binary), and a test fails when the two drift apart.
//!
//! Invariants:
//! - A manifest that the predecessor accepts is accepted unchanged. No field is stricter than it was, except where a
//!   rule of Weir's own says so (SSH-1, SSH-5, VOL-6, INS-4).
//! - Whatever the schema accepts deserialises. One object that does not would fail every list that holds it, so
//!   numbers without bounds are `i64`, addresses may have leading zeros, quantities may be integers or text.
//! - Schemas are structural, hold no `$ref`, and change only additively (OPS-9).
//! - Secrets are wrapped ([`Confidential`]), so that `{:?}` of an object never shows them.
//!
//! Caveats: kinds that only hold data (OpenstackIdentity, SSHCertificateAuthority, VLANAllocation, Quota, Allocation,
//! QuotaMetadata, Role) have no status subresource, as in the predecessor: their `status` is an ordinary field.
//! Absent fields are left out when serialising, never written as `null`: a merge patch that has to clear a field must
//! say `null` itself.

#![allow(clippy::duplicated_attributes)] // columns of one kind share types and priorities

mod address;
mod allocation;
mod compute_instance;
mod encoding;
mod id;
mod identity;
mod load_balancer;
mod network;
mod openstack_identity;
mod quantity;
mod quota;
mod quota_metadata;
mod reconciled;
mod region;
mod role;
mod schema;
mod security_group;
mod server;
mod shared;
mod ssh_certificate_authority;
mod vlan_allocation;
mod volume;

pub use address::{AddressError, Ipv4Address, Ipv4Prefix};
pub use allocation::{Allocation, AllocationSpec, AllocationStatus, ResourceAllocation};
pub use compute_instance::{
    ComputeInstance, ComputeInstanceSpec, ComputeInstanceStatus, InstanceNetworking, PowerState,
};
pub use encoding::{Base64, Confidential};
pub use id::{
    CertificateAuthorityId, FlavorId, ImageId, NetworkId, SecurityGroupId, ServerId, VolumeClassId, VolumeId,
};
pub use identity::{Identity, IdentitySpec, IdentityStatus};
pub use load_balancer::{
    HealthCheck, Listener, LoadBalancer, LoadBalancerSpec, LoadBalancerStatus, Member, Pool, TransportProtocol,
};
pub use network::{AddressRange, Network, NetworkSpec, NetworkStatus, OpenstackNetworkStatus, Reservations, Route};
pub use openstack_identity::{OpenstackIdentity, OpenstackIdentitySpec, OpenstackIdentityStatus};
pub use quantity::{Quantity, QuantityError};
pub use quota::{Quota, QuotaSpec, QuotaStatus, ResourceQuota};
pub use quota_metadata::{NumberFormat, QuotaMetadata, QuotaMetadataSpec, QuotaMetadataStatus};
pub use reconciled::Reconciled;
pub use region::{
    BlockStorage, Compute, ExternalNetworkSelector, ExternalNetworks, FlavorMetadata, FlavorSelector, Flavors,
    IdentityOptions, ImageOptions, ImageSelector, KubernetesNode, KubernetesRegion, MediaType, NetworkTag,
    NetworkingOptions, OpenstackRegion, Performance, PlacementPreflight, ProviderNetworks, Region, RegionOrganization,
    RegionSecurity, RegionSpec, RegionStatus, SupportedFlavorSelector, SupportedFlavors, VlanOptions, VlanSegment,
    VolumeClassMetadata, VolumeClassSelector, VolumeClasses,
};
pub use role::{Operation, Role, RoleEndpoint, RoleScopes, RoleSpec, RoleStatus};
pub use security_group::{
    Direction, PortRange, RulePort, RuleProtocol, SecurityGroup, SecurityGroupRule, SecurityGroupSpec,
    SecurityGroupStatus,
};
pub use server::{
    AllowedAddressPair, AttachedVolume, AttachmentStatus, PublicIpAllocation, Rebuild, RebuildState, Server,
    ServerImage, ServerNetwork, ServerPhase, ServerSecurityGroup, ServerSpec, ServerStatus, ServerVolume, SshInjection,
};
pub use shared::{Architecture, Cpu, Gpu, GpuVendor, Provider, SecretRef, Tag};
pub use ssh_certificate_authority::{
    SshCertificateAuthority, SshCertificateAuthoritySpec, SshCertificateAuthorityStatus,
};
pub use vlan_allocation::{VlanAllocation, VlanAllocationEntry, VlanAllocationSpec, VlanAllocationStatus};
pub use volume::{ClaimKind, Volume, VolumeClaim, VolumeSpec, VolumeStatus};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// API group of everything that has to do with a region.
pub const REGION_GROUP: &str = "region.unikorn-cloud.org";
/// API group of compute instances.
pub const COMPUTE_GROUP: &str = "compute.unikorn-cloud.org";
/// API group of quotas and roles.
pub const IDENTITY_GROUP: &str = "identity.unikorn-cloud.org";
/// The only version of every kind.
pub const VERSION: &str = "v1alpha1";

/// The CustomResourceDefinition of every kind, in a fixed order, exactly as `infra/crds` holds them.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        schema::reconciled::<Region>(),
        schema::reconciled::<Identity>(),
        schema::data::<OpenstackIdentity>(),
        schema::reconciled::<Network>(),
        schema::reconciled::<SecurityGroup>(),
        schema::reconciled::<Server>(),
        schema::reconciled::<Volume>(),
        schema::reconciled::<LoadBalancer>(),
        schema::data::<SshCertificateAuthority>(),
        schema::data::<VlanAllocation>(),
        schema::reconciled::<ComputeInstance>(),
        schema::data::<Quota>(),
        schema::data::<Allocation>(),
        schema::data::<QuotaMetadata>(),
        schema::data::<Role>(),
    ]
}
