//! What the faults strike.

use serde_json::json;
use weir_api::Kind;
use weir_function_runtime::worker::Verdict;
use weir_harness::{Caller, World, drive, world};

/// What is created and deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Identity,
    Network,
    ProviderNetwork,
    SecurityGroup,
    Server,
    ServerWithAuthority,
}

const IDENTITY: &str = "identity-a";
/// References in a Server must be UUIDs.
const NETWORK: &str = "b0000000-0000-4000-8000-00000000000a";
pub const AUTHORITY: &str = "b0000000-0000-4000-8000-00000000000c";
const GROUP: &str = "b0000000-0000-4000-8000-00000000000b";

impl Subject {
    fn kind(self) -> Kind {
        match self {
            Self::Identity => Kind::Identity,
            Self::Network | Self::ProviderNetwork => Kind::Network,
            Self::SecurityGroup => Kind::SecurityGroup,
            Self::Server | Self::ServerWithAuthority => Kind::Server,
        }
    }

    /// The name of its function.
    pub fn function(self) -> &'static str {
        match self.kind() {
            Kind::Identity => "identity",
            Kind::Network => "network",
            Kind::SecurityGroup => "security-group",
            _ => "server",
        }
    }

    fn caller(world: &World, kind: Kind) -> Caller {
        match kind {
            Kind::Identity => Caller::new(world, weir_identity::Identities),
            Kind::Network => Caller::new(world, weir_network::Networks),
            Kind::SecurityGroup => Caller::new(world, weir_security_group::SecurityGroups),
            _ => Caller::new(world, weir_server::Servers),
        }
    }

    async fn settle(world: &World, kind: Kind, name: &str) {
        let verdict = drive(world, &Self::caller(world, kind), name).await;
        let told = world.condition(kind, name).await;
        assert!(matches!(verdict, Verdict::Settled), "{kind} {name}: {verdict:?}, {told:?}");
        assert_eq!(told.expect("a condition").0, "Provisioned", "{kind} {name}");
    }

    /// Makes what the subject needs.
    pub async fn prepare(self, world: &World) {
        if self == Self::ProviderNetwork {
            let vlan = json!({"physicalNetwork": "physnet1", "vlan": {"segments": [{"startId": 100, "endId": 102}]}});
            world.apply_region(json!({"network": {"providerNetworks": vlan}})).await;
        }
        if self != Self::Identity {
            world.apply(&world::identity(IDENTITY)).await;
            Self::settle(world, Kind::Identity, IDENTITY).await;
        }
        if matches!(self, Self::Server | Self::ServerWithAuthority) {
            world.apply(&world::network(NETWORK, IDENTITY)).await;
            Self::settle(world, Kind::Network, NETWORK).await;
            world.apply(&world::security_group(GROUP, IDENTITY)).await;
            Self::settle(world, Kind::SecurityGroup, GROUP).await;
        }
    }

    /// One of them.
    pub fn object(self, world: &World, name: &str) -> serde_json::Value {
        match self {
            Self::Identity => world::identity(name),
            Self::Network | Self::ProviderNetwork => world::network(name, IDENTITY),
            Self::SecurityGroup => world::security_group(name, IDENTITY),
            Self::Server | Self::ServerWithAuthority => {
                let cloud = world.cloud.bootstrap();
                let mut spec = json!({"flavorID": cloud.flavors[1].0, "image": {"id": cloud.images[0].0},
                    "networks": [{"id": NETWORK}], "securityGroups": [{"id": GROUP}],
                    "publicIPAllocation": {"enabled": true}});
                if self == Self::ServerWithAuthority {
                    spec["sshCertificateAuthorityID"] = json!(AUTHORITY);
                }
                world::object(Kind::Server, name, &world::links(IDENTITY), spec)
            }
        }
    }

    /// Creates one, and calls its function until it has settled.
    pub async fn create(self, world: &World, name: &str) {
        world.apply(&self.object(world, name)).await;
        Self::settle(world, self.kind(), name).await;
    }

    /// Calls once more: nothing may be written, anywhere (OWN-4).
    pub async fn must_rest(self, world: &World, name: &str, told: &str) {
        // What was asked for is there; what is still being built is let finish.
        world.cloud.advance(std::time::Duration::from_secs(60));
        world.settle();
        let verdict = Self::caller(world, self.kind()).call(name).await;
        assert!(matches!(verdict, Verdict::Settled), "{told}: {verdict:?}");
        assert_eq!(
            world.writes(),
            (0, 0),
            "{told}: {:?}",
            world.cloud.requests().iter().filter(|r| r.effect).collect::<Vec<_>>()
        );
    }

    /// Deletes one, and calls its function until it has gone.
    pub async fn delete(self, world: &World, name: &str) {
        world.delete(self.kind(), name).await;
        let verdict = drive(world, &Self::caller(world, self.kind()), name).await;
        let told = world.condition(self.kind(), name).await;
        assert!(matches!(verdict, Verdict::Gone), "{} {name}: {verdict:?}, {told:?}", self.kind());
        assert!(world.get(self.kind(), name).await.is_none(), "{} {name} is still there", self.kind());
    }
}
