//! Identifiers of OpenStack resources, one type each, so that they cannot be swapped.
//!
//! OpenStack promises no form for most of them (a flavor's may be `1`, a user's may be a hash of an LDAP entry), so they are
//! opaque text. What cannot stand in a URL path (empty, `.`, `..`) is refused where a request is built.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes the text as it is.
            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            /// The identifier as OpenStack wrote it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self(id)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    )*};
}

ids! {
    /// A Keystone domain.
    DomainId;
    /// A Keystone project.
    ProjectId;
    /// A Keystone user.
    UserId;
    /// A Keystone role.
    RoleId;
    /// A Keystone application credential.
    ApplicationCredentialId;
    /// A server in Nova; not the name of a Server resource.
    NovaServerId;
    /// A Nova flavor.
    FlavorId;
    /// A Nova server group.
    ServerGroupId;
    /// A Glance image.
    ImageId;
    /// A Neutron network; not the name of a Network resource.
    NetworkId;
    /// A Neutron subnet.
    SubnetId;
    /// A Neutron router.
    RouterId;
    /// A Neutron port.
    PortId;
    /// A Neutron security group.
    SecurityGroupId;
    /// A Neutron security group rule.
    SecurityGroupRuleId;
    /// A Neutron floating IP.
    FloatingIpId;
    /// A Cinder volume.
    VolumeId;
    /// A resource provider in Placement: a hypervisor, or an Ironic node.
    ResourceProviderId;
}
