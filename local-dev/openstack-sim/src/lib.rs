//! An OpenStack for tests and laptops: Keystone, Nova, Neutron, Glance and Placement as their users see them, in one process on
//! one port, in memory.
//!
//! What it is for: running Weir without a cloud, and breaking that cloud on purpose. So it is strict where the real
//! services are (scopes, policy, quotas, references, error bodies, microversions), asynchronous where they are (a server
//! builds for a while, a delete takes time), and it can be told to fail ([`Fault`]), to show everything it holds
//! ([`Sim::state`]) and to tell what it was asked ([`Sim::requests`]).
//!
//! Invariants: a request sees and leaves a consistent cloud; time is read from one clock that a test may move, and no
//! background task changes anything; no secret is in the state, the log or the data file.
//!
//! Caveats: there is no data plane; IPv4 only; one region; the services that later issues need are not there yet. What
//! the answers look like was taken from OpenStack 2026.1 and is held to it by the contract suite, which runs against both.
//!
//! ```no_run
//! # async fn example() -> Result<(), weir_openstack_sim::Error> {
//! use weir_openstack_sim::{Config, Fault, Sim};
//! let sim = Sim::start(Config::default()).await?;
//! sim.faults().add(Fault::status_after(500).on("POST", "/compute/v2.1/servers$").times(1)).ok();
//! println!("{}", sim.bootstrap().endpoint);
//! sim.stop().await;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod admin;
mod bare_metal;
mod clock;
mod compute;
mod config;
mod connection;
mod faults;
mod identity;
mod image;
mod journal;
mod network;
mod persist;
mod placement;
mod server;
mod service;
mod table;
mod volume;
mod wire;
mod world;

use std::{collections::BTreeMap, io, net::SocketAddr, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

pub use self::{
    config::{Bootstrap, Config, Credential, Equipment},
    faults::{Action, Answer, Error as FaultError, Failure, Fault, Faults, Mangle},
    journal::Entry,
    persist::Error as DataError,
    service::Service,
};
use self::{server::Shared, world::World};

/// Why a simulator does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The data file cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// A running simulator. Dropping it stops it without waiting; [`Sim::stop`] also waits and keeps the data.
pub struct Sim {
    shared: Arc<Shared>,
    address: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

impl Sim {
    /// Starts a simulator and returns when it accepts connections.
    pub async fn start(config: Config) -> Result<Self, Error> {
        let address = config.listen;
        let failed = |source| Error::Listen { address, source };
        let data = config.data.as_deref().map(persist::load).transpose()?.flatten();
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let url = config
            .public_url
            .as_deref()
            .map_or_else(|| format!("http://{bound}"), |url| url.trim_end_matches('/').to_owned());
        let config = Arc::new(config);
        let world = World::new(Arc::clone(&config), url.clone(), data);
        let shared = Arc::new(Shared::new(config, url, world));
        let tasks = vec![
            tokio::spawn(server::run(Arc::clone(&shared), listener)),
            tokio::spawn(persist::keep(Arc::clone(&shared))),
        ];
        Ok(Self { shared, address: bound, tasks })
    }

    /// The address listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL that the catalog names, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Endpoint, credentials and ids of what a fresh cloud holds.
    pub fn bootstrap(&self) -> Bootstrap {
        Bootstrap::new(&self.shared.config, &self.shared.url)
    }

    /// The faults in force.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Every resource by kind, as an administrator would see it.
    pub fn state(&self) -> Value {
        self.shared.world().state()
    }

    /// How many resources of each kind there are.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        self.shared.world().counts()
    }

    /// How many requests changed something so far, tokens aside.
    pub fn mutations(&self) -> u64 {
        self.shared.world().mutations
    }

    /// The requests answered since the last [`Sim::clear_requests`], oldest first.
    pub fn requests(&self) -> Vec<Entry> {
        self.shared.journal().entries()
    }

    /// Empties the log of requests.
    pub fn clear_requests(&self) {
        self.shared.journal().clear();
    }

    /// Says that Ironic has a node for a server, in this provision state; `None` takes it away.
    pub fn set_node(&self, server: &str, state: Option<&str>) {
        let mut world = self.shared.world();
        match state {
            Some(state) => drop(world.data.bare_metal.nodes.insert(server.to_owned(), state.to_owned())),
            None => drop(world.data.bare_metal.nodes.remove(server)),
        }
    }

    /// Moves the simulator's clock forward.
    pub fn advance(&self, by: Duration) {
        self.shared.world().advance(by);
    }

    /// Stops the simulator's clock; [`Sim::advance`] still moves it.
    pub fn freeze(&self) {
        self.shared.world().clock.freeze();
    }

    /// Lets the clock run again from where it stands.
    pub fn thaw(&self) {
        self.shared.world().clock.thaw();
    }

    /// Stops listening, lets requests in hand finish, and keeps the data if there is a data file.
    pub async fn stop(mut self) {
        self.shared.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            let _ = task.await;
        }
        if let Some(path) = self.shared.config.data.clone() {
            persist::write(&self.shared, &path).await;
        }
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}
