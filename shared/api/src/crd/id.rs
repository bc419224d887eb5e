//! What one resource calls another by. Each is a type of its own, so that a flavor cannot be passed for an image.
//!
//! Invariant: the text is kept exactly as written. Some of these name Kubernetes objects, whose names are compared byte
//! for byte, so nothing here is parsed or normalised.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The ID by its text.
            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            /// The text, as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
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
    )*};
}

ids! {
    /// A flavor of the region: a Nova flavor ID.
    FlavorId;
    /// An image of the region: a Glance image ID.
    ImageId;
    /// The name of a Network object.
    NetworkId;
    /// The name of a SecurityGroup object.
    SecurityGroupId;
    /// The name of a Server object.
    ServerId;
    /// The name of a Volume object.
    VolumeId;
    /// A volume class of the region: a Cinder volume type ID.
    VolumeClassId;
    /// The name of an SSHCertificateAuthority object.
    CertificateAuthorityId;
}
