//! What the monitor tells of servers, and of itself (MON-11).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use weir_api::server::Active;
use weir_api::{crd, labels};
use weir_function_runtime::telemetry::metrics::{Counter, Gauge, Histogram, register as add};

use crate::decide::News;

/// Servers, by what they are doing.
pub static SERVERS: Gauge =
    Gauge::new("weir_servers", "Servers, by what they are doing.", &["region", "flavor", "state"]);
/// From the creation of a Server object to that of its server.
pub static CREATED: Histogram = Histogram::new(
    "weir_server_created_seconds",
    "From an object's creation to its server's in the cloud.",
    &["region"],
);
/// From the creation of a Server object to its server's first boot.
pub static LAUNCHED: Histogram = Histogram::new(
    "weir_server_launched_seconds",
    "From an object's creation to its server's first boot.",
    &["region"],
);
/// Rounds, by how they ended.
pub static ROUNDS: Counter =
    Counter::new("weir_monitor_rounds_total", "Looks at all servers of a region.", &["region", "outcome"]);
/// How long rounds took.
pub static ROUND_SECONDS: Histogram =
    Histogram::new("weir_monitor_round_seconds", "Duration of such a look.", &["region"]);

/// Adds these to what the process exposes.
pub fn register() {
    add(&SERVERS);
    add(&CREATED);
    add(&LAUNCHED);
    add(&ROUNDS);
    add(&ROUND_SECONDS);
}

/// Counts what happens once to a server. A clock that is behind makes a time negative, which is left out.
pub(crate) fn observe(object: &crd::Server, news: &News) {
    let region = labels::get(object, labels::REGION).unwrap_or_default();
    if let Some(created) = news.created {
        CREATED.observe(&[region], created);
    }
    if let Some(launched) = news.launched {
        LAUNCHED.observe(&[region], launched);
    }
}

/// How many servers there are, by flavor and state.
pub type Census = BTreeMap<(String, &'static str), i64>;

/// Adds a server to a census.
pub(crate) fn count(census: &mut Census, object: &crd::Server, status: &crd::ServerStatus) {
    let state = Active::of(status).unwrap_or(Active::Pending).as_str();
    *census.entry((object.spec.flavor_id.to_string(), state)).or_default() += 1;
}

/// The last census of each region, to tell which flavors and states have no servers any more.
#[derive(Default)]
pub(crate) struct Censuses(Mutex<HashMap<String, Census>>);

impl Censuses {
    /// Shows a region's census.
    pub(crate) fn show(&self, region: &str, census: Census) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (flavor, state) in all.get(region).into_iter().flat_map(BTreeMap::keys) {
            SERVERS.set(&[region, flavor, state], 0);
        }
        for ((flavor, state), servers) in &census {
            SERVERS.set(&[region, flavor, state], *servers);
        }
        all.insert(region.to_owned(), census);
    }
}
