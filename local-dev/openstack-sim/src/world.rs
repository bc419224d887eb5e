//! The whole simulated cloud behind one lock.
//!
//! Every handler is a plain function over `&mut World`: a request sees and leaves a consistent cloud, and nothing
//! awaits while the lock is held. Services are stores side by side; a later service is one more field of [`Data`], one
//! more arm of [`World::handle`] and one more line of the catalog.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Config, Service, bare_metal,
    clock::Clock,
    compute, identity, image, network, placement, volume,
    wire::{Reply, Request},
};

/// What survives a restart.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Data {
    pub identity: identity::Store,
    pub network: network::Store,
    pub compute: compute::Store,
    pub image: image::Store,
    pub volume: volume::Store,
    #[serde(default)]
    pub bare_metal: bare_metal::Store,
}

pub(crate) struct World {
    pub config: Arc<Config>,
    /// The base of every link and catalog entry, without a slash at its end.
    pub url: String,
    pub clock: Clock,
    pub data: Data,
    /// Requests that changed something, tokens aside.
    pub mutations: u64,
    /// How the server that the request in hand starts to build will end, if a fault says so.
    pub mishap: Option<compute::Outcome>,
}

impl World {
    /// A fresh cloud, or the one that `data` describes.
    pub fn new(config: Arc<Config>, url: String, data: Option<Data>) -> Self {
        let fresh = data.is_none();
        let mut world =
            Self { config, url, clock: Clock::default(), data: data.unwrap_or_default(), mutations: 0, mishap: None };
        if fresh {
            identity::seed(&mut world);
            compute::seed(&mut world);
            image::seed(&mut world);
            network::seed(&mut world);
        } else {
            compute::resume(&mut world);
        }
        world
    }

    /// Answers a request to a service. `rest` is the path below the service's prefix.
    pub fn handle(&mut self, service: Service, rest: &[&str], request: &Request) -> Reply {
        compute::settle(self);
        image::settle(self);
        let mut reply = match service {
            Service::Identity => identity::handle(self, rest, request),
            Service::Compute => compute::handle(self, rest, request),
            Service::Network => network::handle(self, rest, request),
            Service::Image => image::handle(self, rest, request),
            Service::Volume => volume::handle(self, rest, request),
            Service::BareMetal => bare_metal::handle(self, rest, request),
            Service::Placement => placement::handle(self, rest, request),
        };
        self.mishap = None;
        reply.effect = !request.is_read() && reply.status < 300;
        let is_token = service == Service::Identity && rest.contains(&"tokens");
        if reply.effect && !is_token {
            self.mutations += 1;
        }
        reply
    }

    pub fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        compute::settle(self);
    }

    /// Every resource by kind. What is being deleted is there until it is gone; secrets never are.
    pub fn state(&mut self) -> Value {
        compute::settle(self);
        let mut state = json!({});
        if let Some(map) = state.as_object_mut() {
            map.extend(identity::state(self));
            map.extend(compute::state(self));
            map.extend(network::state(self));
            map.extend(image::state(self));
            map.extend(volume::state(self));
            map.extend(bare_metal::state(self));
        }
        state
    }

    /// How many resources of each kind there are.
    pub fn counts(&mut self) -> std::collections::BTreeMap<String, usize> {
        compute::settle(self);
        let Data { identity, network, compute, image, .. } = &self.data;
        // What Neutron makes by itself is counted apart or not at all: ports of routers and floating IPs, and every
        // project's default security group, which outlives its project.
        let own_ports = network.ports.iter().filter(|port| port.device_owner.starts_with("network:")).count();
        let defaults = || network.groups.iter().filter(|group| group.base.name == "default");
        let default_rules: usize =
            defaults().map(|group| network.rules.linked(&format!("group:{}", group.base.id)).count()).sum();
        let defaults = defaults().count();
        [
            ("domains", identity.domains.len()),
            ("projects", identity.projects.len()),
            ("users", identity.users.len()),
            ("roles", identity.roles.len()),
            ("role_assignments", identity.grants.len()),
            ("application_credentials", identity.app_credentials.len()),
            ("networks", network.networks.len()),
            ("subnets", network.subnets.len()),
            ("routers", network.routers.len()),
            ("ports", network.ports.len() - own_ports),
            ("network_ports", own_ports),
            ("floatingips", network.floating_ips.len()),
            ("security_groups", network.groups.len() - defaults),
            ("default_security_groups", defaults),
            ("security_group_rules", network.rules.len() - default_rules),
            ("servers", compute.servers.len()),
            ("flavors", compute.flavors.len()),
            ("keypairs", compute.keypairs.len()),
            ("server_groups", compute.groups.len()),
            ("images", image.images.len()),
        ]
        .into_iter()
        .map(|(kind, count)| (kind.to_owned(), count))
        .collect()
    }
}
