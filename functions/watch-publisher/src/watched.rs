//! What is watched, and what of it others refer to.

use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use std::fmt;
use weir_api::{Kind, ObjectRef, labels};

/// A watched kind of object. Some have a function; the others are watched because objects with one wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Watched {
    /// Secrets, by metadata only: a Region names one.
    Secret,
    /// Certificate authorities, that servers trust.
    SshCertificateAuthority,
    /// Regions.
    Region,
    /// Identities.
    Identity,
    /// Networks.
    Network,
    /// Security groups.
    SecurityGroup,
    /// Servers.
    Server,
}

impl Watched {
    /// All that is watched.
    pub const ALL: [Self; 7] = [
        Self::Secret,
        Self::SshCertificateAuthority,
        Self::Region,
        Self::Identity,
        Self::Network,
        Self::SecurityGroup,
        Self::Server,
    ];

    /// Its name in logs, metrics and message ids.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::SshCertificateAuthority => "SSHCertificateAuthority",
            Self::Region => "Region",
            Self::Identity => "Identity",
            Self::Network => "Network",
            Self::SecurityGroup => "SecurityGroup",
            Self::Server => "Server",
        }
    }

    /// The kind whose function works on such objects.
    pub const fn function(self) -> Option<Kind> {
        match self {
            Self::Secret | Self::SshCertificateAuthority => None,
            Self::Region => Some(Kind::Region),
            Self::Identity => Some(Kind::Identity),
            Self::Network => Some(Kind::Network),
            Self::SecurityGroup => Some(Kind::SecurityGroup),
            Self::Server => Some(Kind::Server),
        }
    }

    /// Whether only metadata is asked for, so that contents never reach this process.
    pub const fn metadata_only(self) -> bool {
        matches!(self, Self::Secret)
    }

    /// Whether such an object tells by its `Available` condition when others can use it. One that does not is of use
    /// as soon as it exists, and again whenever it changes.
    pub const fn has_readiness(self) -> bool {
        self.function().is_some()
    }

    /// Where it is in the API.
    pub fn resource(self) -> ApiResource {
        let of = |group: &str, version: &str, kind: &str, plural: &str| ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        match (self, self.function()) {
            (_, Some(kind)) => kind.resource(),
            (Self::SshCertificateAuthority, _) => {
                of("region.unikorn-cloud.org", "v1alpha1", "SSHCertificateAuthority", "sshcertificateauthorities")
            }
            _ => of("", "v1", "Secret", "secrets"),
        }
    }

    /// The objects that an object refers to: whose changes it may be waiting for, and which may wait for its going.
    pub fn references(self, object: &DynamicObject) -> Vec<Node> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let here = |watched: Self, name: &str| Node { watched, namespace: namespace.to_owned(), name: name.to_owned() };
        let mut found = Vec::new();
        if self != Self::Secret {
            for (label, watched) in LINKS {
                found.extend(labels::get(object, label).map(|name| here(watched, name)));
            }
        }
        let spec = &object.data["spec"];
        let ids = |list: &str| {
            let items = spec[list].as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().filter_map(|item| item["id"].as_str())
        };
        match self {
            Self::Region => {
                let secret = &spec["openstack"]["serviceAccountSecret"];
                if let (Some(namespace), Some(name)) = (secret["namespace"].as_str(), secret["name"].as_str()) {
                    found.push(Node { watched: Self::Secret, namespace: namespace.to_owned(), name: name.to_owned() });
                }
            }
            Self::Server => {
                found.extend(ids("networks").map(|id| here(Self::Network, id)));
                found.extend(ids("securityGroups").map(|id| here(Self::SecurityGroup, id)));
                let authority = spec["sshCertificateAuthorityID"].as_str().filter(|id| !id.is_empty());
                found.extend(authority.map(|id| here(Self::SshCertificateAuthority, id)));
            }
            _ => {}
        }
        found.sort();
        found.dedup();
        found.retain(|node| !(node.watched == self && object.metadata.name.as_deref() == Some(&node.name)));
        found
    }

    /// The reason of `Available`, as far as others care.
    pub fn readiness(object: &DynamicObject) -> Option<&str> {
        let conditions = object.data["status"]["conditions"].as_array()?;
        let available = conditions.iter().find(|c| c["type"] == weir_api::conditions::AVAILABLE)?;
        available["reason"].as_str()
    }
}

/// Labels that link an object to those above it.
const LINKS: [(&str, Watched); 3] =
    [(labels::REGION, Watched::Region), (labels::IDENTITY, Watched::Identity), (labels::NETWORK, Watched::Network)];

/// One watched object by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// Its kind.
    pub watched: Watched,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Node {
    /// The node of an object, if its kind is watched.
    pub fn of(object: &ObjectRef) -> Option<Self> {
        let watched = Watched::ALL.into_iter().find(|watched| watched.function() == Some(object.kind))?;
        Some(Self { watched, namespace: object.namespace.clone(), name: object.name.clone() })
    }

    /// The object for its function, if its kind has one.
    pub fn object(&self) -> Option<ObjectRef> {
        Some(ObjectRef::new(self.watched.function()?, &self.namespace, &self.name))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.watched.name(), self.namespace, self.name)
    }
}
