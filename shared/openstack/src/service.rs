//! What is known of each OpenStack service before any request: its names in a catalog, its path, its pinned version.

use std::fmt;

/// An OpenStack service Weir speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// Keystone.
    Identity,
    /// Nova.
    Compute,
    /// Neutron.
    Network,
    /// Glance.
    Image,
    /// Cinder.
    BlockStorage,
    /// Octavia.
    LoadBalancer,
    /// Placement.
    Placement,
    /// Ironic.
    BareMetal,
}

impl Service {
    /// Every service, in a fixed order.
    pub const ALL: [Self; 8] = [
        Self::Identity,
        Self::Compute,
        Self::Network,
        Self::Image,
        Self::BlockStorage,
        Self::LoadBalancer,
        Self::Placement,
        Self::BareMetal,
    ];

    /// The official service type, which also labels metrics and errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Compute => "compute",
            Self::Network => "network",
            Self::Image => "image",
            Self::BlockStorage => "block-storage",
            Self::LoadBalancer => "load-balancer",
            Self::Placement => "placement",
            Self::BareMetal => "baremetal",
        }
    }

    /// The types a catalog may call it by, best first (OSC-1).
    pub(crate) const fn types(self) -> &'static [&'static str] {
        match self {
            Self::Identity => &["identity"],
            Self::Compute => &["compute"],
            Self::Network => &["network"],
            Self::Image => &["image"],
            // `volume` and `volumev2` are absent on purpose: they name APIs that are no longer spoken.
            Self::BlockStorage => &["block-storage", "volumev3", "block-store"],
            Self::LoadBalancer => &["load-balancer"],
            Self::Placement => &["placement"],
            Self::BareMetal => &["baremetal", "bare-metal"],
        }
    }

    /// The version segment of its URLs; none for Placement, which has no such segment.
    pub(crate) const fn version_segment(self) -> Option<&'static str> {
        match self {
            Self::Identity | Self::BlockStorage => Some("v3"),
            Self::Compute => Some("v2.1"),
            Self::Network | Self::LoadBalancer => Some("v2.0"),
            Self::Image => Some("v2"),
            Self::Placement => None,
            Self::BareMetal => Some("v1"),
        }
    }

    /// The pinned microversion (OSC-2). Nova's stays below 2.93, from which on a rebuild breaks on Ironic.
    pub(crate) const fn microversion(self) -> Option<&'static str> {
        match self {
            Self::Compute => Some("2.90"),
            Self::LoadBalancer => Some("2.22"),
            Self::Placement => Some("1.22"),
            Self::BareMetal => Some("1.11"),
            Self::Identity | Self::Network | Self::Image | Self::BlockStorage => None,
        }
    }

    /// Whether its URLs hold the caller's project when the catalog leaves it out.
    pub(crate) const fn project_in_url(self) -> bool {
        matches!(self, Self::BlockStorage)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which of a service's endpoints to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Interface {
    /// The one for users.
    #[default]
    Public,
    /// The one inside the cloud's own network.
    Internal,
    /// The one for operators.
    Admin,
}

impl Interface {
    /// As a catalog writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}
