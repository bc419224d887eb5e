//! Which kinds Weir reconciles, and how one object of them is named.
//!
//! Invariant: a [`Kind`]'s token is what stands in subjects, metrics, lease keys and on the command line; it never
//! changes once released, because messages of an older version carry it.

use kube::core::{ApiResource, GroupVersionKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kind of custom resource that has, or will have, a function of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A cloud to build in.
    Region,
    /// A tenant's foothold in a region.
    Identity,
    /// A network with its subnet and router.
    Network,
    /// A set of packet filter rules.
    SecurityGroup,
    /// A server.
    Server,
    /// A block storage volume.
    Volume,
    /// A load balancer.
    LoadBalancer,
    /// What tenants see of a server.
    Instance,
    /// All servers of a region, as the monitor looks at them. No kind of object: it goes by the name of the Region.
    ServerMonitor,
}

/// A token that names no [`Kind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown kind {0:?}; known are: region, identity, network, security-group, server, volume, load-balancer, instance, \
     server-monitor"
)]
pub struct UnknownKind(pub String);

impl Kind {
    /// Every kind of object, in the order in which they depend on each other.
    pub const ALL: [Self; 8] = [
        Self::Region,
        Self::Identity,
        Self::Network,
        Self::SecurityGroup,
        Self::Server,
        Self::Volume,
        Self::LoadBalancer,
        Self::Instance,
    ];

    /// The stable lower-case token, as in `work.urgent.security-group.<namespace>.<name>`.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Identity => "identity",
            Self::Network => "network",
            Self::SecurityGroup => "security-group",
            Self::Server => "server",
            Self::Volume => "volume",
            Self::LoadBalancer => "load-balancer",
            Self::Instance => "instance",
            Self::ServerMonitor => "server-monitor",
        }
    }

    /// The Kubernetes `kind`.
    pub const fn kubernetes(self) -> &'static str {
        match self {
            Self::Region | Self::ServerMonitor => "Region",
            Self::Identity => "Identity",
            Self::Network => "Network",
            Self::SecurityGroup => "SecurityGroup",
            Self::Server => "Server",
            Self::Volume => "Volume",
            Self::LoadBalancer => "LoadBalancer",
            Self::Instance => "ComputeInstance",
        }
    }

    /// The plural resource name in Kubernetes paths.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Region | Self::ServerMonitor => "regions",
            Self::Identity => "identities",
            Self::Network => "networks",
            Self::SecurityGroup => "securitygroups",
            Self::Server => "servers",
            Self::Volume => "volumes",
            Self::LoadBalancer => "loadbalancers",
            Self::Instance => "computeinstances",
        }
    }

    /// The API group.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Instance => "compute.unikorn-cloud.org",
            _ => "region.unikorn-cloud.org",
        }
    }

    /// Where it is in the API, for clients that learn the kind only when they run.
    pub fn resource(self) -> ApiResource {
        let of = GroupVersionKind::gvk(self.group(), "v1alpha1", self.kubernetes());
        ApiResource::from_gvk_with_plural(&of, self.plural())
    }

    /// The finalizer by which an object of this kind, named `name`, holds another one (SRV-9, NET-11):
    /// `<plural>.<group>/<name>`.
    pub fn reference(self, name: &str) -> String {
        format!("{}.{}/{name}", self.plural(), self.group())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.token())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(token: &str) -> Result<Self, Self::Err> {
        let mut known = Self::ALL.into_iter().chain([Self::ServerMonitor]);
        known.find(|kind| kind.token() == token).ok_or_else(|| UnknownKind(token.to_owned()))
    }
}

/// One object, by kind, namespace and name. Never by UID: what a message means is *look at whatever has this name now*.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObjectRef {
    /// The object's kind.
    pub kind: Kind,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl ObjectRef {
    /// An object by its parts.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}
