//! What a look at a server means for its object's status. Pure.
//!
//! Invariants: only what the monitor owns is touched (OWN): `Healthy`, `Active`, `macAddress`, `launchedAt`, `scheduledAt`,
//! `provisionedAt`, and the state of a rebuild that stands. What was read once is never cleared, and `provisionedAt` never
//! changed: that a server has run keeps it from being deleted and made again (RTY-2).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use std::time::Duration;
use weir_api::conditions::{self, HEALTHY};
use weir_api::crd::{self, ServerStatus};
use weir_api::names;
use weir_api::server::{Active, Health};
use weir_openstack::bare_metal::Node;
use weir_openstack::compute::{self, ServerStatus as NovaStatus};
use weir_provider::server::{self, View};

use crate::rebuild;

/// What follows from a look.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// The status as it is to be.
    pub status: ServerStatus,
    /// Whether the server's function has to look at it: the server is gone (MON-12), or its status calls for it (RBD-20, RTY-4).
    pub wake: bool,
    /// From the object's creation to the server's, once for each server (MON-11).
    pub created: Option<Duration>,
    /// From the object's creation to its first boot, once.
    pub launched: Option<Duration>,
}

/// Whether Ironic has to be asked what `BUILD` means (MON-8).
pub fn asks_ironic(status: &NovaStatus, region: &crd::OpenstackRegion, flavor: &crd::FlavorId) -> bool {
    let flavors = region.compute.as_ref().and_then(|compute| compute.flavors.as_ref());
    let metadata = flavors.map_or(&[][..], |flavors| &flavors.metadata);
    *status == NovaStatus::Build && metadata.iter().any(|known| known.id == *flavor && known.baremetal)
}

/// What a server in `BUILD` is doing, by its machine (MON-8). A failure on the way to running is still on the way: whether it
/// goes well is for `Healthy` to say.
pub fn building(node: Option<&Node>) -> Active {
    match node.and_then(|node| node.provision_state.as_deref()) {
        Some(
            "deploying" | "wait call-back" | "deploy hold" | "active" | "clean failed" | "inspect failed"
            | "adopt failed" | "deploy failed" | "error",
        ) => Active::Building,
        _ => Active::Queued,
    }
}

/// What to write about a server that the cloud shows, or shows no more.
pub fn decide(object: &crd::Server, server: Option<&compute::Server>, building: Active, now: &Time) -> News {
    let before = object.status.clone().unwrap_or_default();
    let mut news = News { status: before.clone(), wake: false, created: None, launched: None };
    let status = &mut news.status;
    let view = server.map(View::of);
    let (health, message) = server::health(view.as_ref().map(|view| &view.status));
    let active = server::activity(view.as_ref(), building, Active::of(&before));
    server::show(&mut status.conditions, (health, &message), active, object.metadata.generation, now);
    let (Some(server), Some(view)) = (server, view) else {
        let last = conditions::get(&before.conditions, HEALTHY).map(|healthy| healthy.reason.as_str());
        // One that was never seen is its function's to make, which is at it.
        news.wake = last.is_some_and(|reason| reason != Health::Unknown.as_str());
        return news;
    };
    if let Some(created) = time(&server.created) {
        status.scheduled_at = Some(created);
    }
    if let Some(launched) = server.launched_at.value().and_then(|text| time(text)) {
        status.provisioned_at = status.provisioned_at.take().or_else(|| Some(launched.clone()));
        status.launched_at = Some(launched);
    }
    if let Some(mac) = mac(object, server) {
        status.mac_address = Some(mac);
    }
    if let Some(marker) = &mut status.rebuild
        && let Some(state) = rebuild::advance(marker, &view)
    {
        marker.state = state;
    }
    let since = |then: &Option<Time>| {
        let from = object.metadata.creation_timestamp.as_ref()?.0;
        Duration::try_from(then.as_ref()?.0.duration_since(from)).ok()
    };
    // What calls for its function does so until it is heard: a write that was lost, or changed nothing, is made up for.
    news.wake = weir_api::server::calls(&news.status);
    let first_attempt = before.provider_create_failures.unwrap_or_default() == 0;
    if before.scheduled_at.is_none() && first_attempt {
        news.created = since(&news.status.scheduled_at);
    }
    if before.provisioned_at.is_none() {
        news.launched = since(&news.status.provisioned_at);
    }
    news
}

/// The MAC on the server's first network, once it runs (MON-7): before that, a bare-metal port has one that will not stay.
fn mac(object: &crd::Server, server: &compute::Server) -> Option<String> {
    if server.status != NovaStatus::Active {
        return None;
    }
    let network = names::network(object.spec.networks.first()?.id.as_str());
    let macs = server.addresses.get(&network)?.iter().filter_map(|address| address.mac.as_deref());
    // From the cloud, and shown: nothing that is no MAC gets through.
    let plain = |mac: &&str| mac.len() == 17 && mac.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
    macs.map(str::trim).find(plain).map(str::to_owned)
}

/// A time as Nova writes it, with a zone (`created`) or without, which then is UTC (`launched_at`). In whole seconds, as
/// Kubernetes keeps it: a fraction would differ from what is read back, and be written again for ever.
fn time(text: &str) -> Option<Time> {
    let read = text.parse::<Timestamp>().ok();
    let read = read.or_else(|| Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp()))?;
    Timestamp::from_second(read.as_second()).ok().map(Time)
}

#[cfg(test)]
mod tests;
