//! What to do next about a server: pure, one step at a time.
//!
//! Order: what stands in the way comes before anything is made, then port, floating IP, server (SRV-1). In deletion:
//! server, and once it is gone, floating IP and port (SRV-10).
//!
//! What becomes of a server once it is there is decided beside this: whether one that does not start is made again in
//! [`retry`], a changed image in [`rebuild`]. Volumes have their room in [`Halt::Volumes`], and are refused until it is furnished.

use crate::desired::{Creation, Desired};
use crate::life::Life;
use crate::metadata::Claim;
use crate::observe::{FloatingIp, Observed, Port, Server};
use crate::{rebuild, retry};
use std::time::Duration;
use weir_api::{Consequence, Problem, crd};
use weir_openstack::{FloatingIpId, NetworkId, NovaServerId, PortId};

/// How soon to look again for a server whose deletion this call has just begun. Most clouds have a server gone within a
/// second or two, so one early look spares the usual wait of ten. It is the only early one: a call that finds a deletion
/// under way waits as usual, and so does one that deletes a server in ERROR, which may be there because its deletion fails
/// each time.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Make the port on this network, with the security groups that were observed.
    CreatePort(&'a NetworkId),
    /// Set the port's security groups and address pairs.
    UpdatePort(&'a PortId),
    /// Make a floating IP on this port.
    CreateFloatingIp(&'a PortId),
    /// Put a floating IP of ours back on this port.
    AttachFloatingIp(&'a FloatingIpId, &'a PortId),
    /// Delete a floating IP of ours.
    DeleteFloatingIp(&'a FloatingIpId),
    /// Make the server on this port.
    CreateServer(&'a PortId, &'a Creation),
    /// Delete the server.
    DeleteServer(&'a NovaServerId),
    /// Delete the port.
    DeletePort(&'a PortId),
    /// Deal with a server that may have failed to start.
    Retry(retry::Step),
    /// Deal with the server's image.
    Image(rebuild::Step),
    /// Nothing can be done now.
    Halt(Halt),
    /// Nothing is left to do.
    Done,
}

impl Step<'_> {
    /// What it does, for logs: a step may hold user data, which is for none.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CreatePort(_) => "create port",
            Self::UpdatePort(_) => "update port",
            Self::CreateFloatingIp(_) => "create floating IP",
            Self::AttachFloatingIp(..) => "attach floating IP",
            Self::DeleteFloatingIp(_) => "delete floating IP",
            Self::CreateServer(..) => "create server",
            Self::DeleteServer(_) => "delete server",
            Self::DeletePort(_) => "delete port",
            Self::Retry(_) => "retry",
            Self::Image(_) => "image",
            Self::Halt(_) => "halt",
            Self::Done => "done",
        }
    }
}

/// Why nothing can be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// No server can be made of what is asked for.
    Refused(Problem),
    /// A server of that name says that it is another object's.
    NameTaken,
    /// Somebody is deleting the server in the cloud.
    BeingDeleted,
    /// The network, which its object says is there, is not.
    NoNetwork,
    /// The same of some security groups.
    NoSecurityGroups,
    /// The server is there and its port is not.
    PortLost,
    /// The port is on another network than is asked for.
    NetworkChanged,
    /// Something else is on the server's port.
    PortInUse,
    /// There is more than one floating IP that could be the server's.
    SeveralFloatingIps,
    /// A floating IP that is not ours is on the port.
    ForeignFloatingIp,
    /// Volumes are asked for.
    Volumes,
    /// In deletion: Nova has just begun to delete the server.
    Going,
    /// In deletion: the server is not gone yet.
    NotGone,
}

impl Halt {
    /// What to tell the server's owner, and when to look again. Nothing tells Weir of changes in the cloud, so whatever
    /// can be mended there is looked at again (OWN-7).
    pub fn problem(self) -> Problem {
        match self {
            Self::Refused(problem) => problem,
            Self::NameTaken => Problem::retry(
                "another Server of the same identity has this name in the cloud; give one of them another name (label \
                 unikorn-cloud.org/name)",
            ),
            Self::BeingDeleted => {
                Problem::yielding("the server is being deleted in the cloud; it is made again once it is gone")
            }
            Self::NoNetwork => Problem::retry("the network is gone from the cloud; waiting until it is there again"),
            Self::NoSecurityGroups => {
                Problem::retry("a security group is gone from the cloud; waiting until it is there again")
            }
            Self::PortLost => Problem::operator(
                "the server runs, but its port is gone from the cloud, which cannot be mended; delete this Server and create it \
                 again",
            ),
            Self::NetworkChanged => Problem::user_action(
                "the network of a server cannot be changed: set spec.networks back, or create the server again",
            ),
            Self::PortInUse => {
                Problem::retry("the server's port is in use by something else in the cloud; waiting until it is free")
            }
            Self::SeveralFloatingIps => Problem::operator(
                "there is more than one floating IP for the server; an operator has to remove all but one",
            ),
            Self::ForeignFloatingIp => Problem::operator(
                "a floating IP that Weir has not made is on the server's port; it is left alone; remove it from the port",
            ),
            Self::Volumes => Problem::user_action("attaching volumes is not supported yet: remove spec.volumes"),
            Self::Going => Problem { consequence: Consequence::Yield(FIRST_LOOK), ..Self::NotGone.problem() },
            Self::NotGone => Problem::yielding("waiting until the cloud has deleted the server"),
        }
    }
}

/// What brings the cloud to what is asked for.
pub fn converge<'a>(desired: &'a Desired, observed: &'a Observed, life: &Life) -> Step<'a> {
    let server = observed.server.as_ref();
    if let Some(halt) = server.and_then(in_the_way) {
        return Step::Halt(halt);
    }
    if let (None, Err(problem)) = (server, &desired.creation) {
        return Step::Halt(Halt::Refused(problem.clone()));
    }
    let Some(network) = &observed.network else {
        return Step::Halt(Halt::NoNetwork);
    };
    if !observed.missing_groups.is_empty() {
        return Step::Halt(Halt::NoSecurityGroups);
    }
    let Some(port) = &observed.port else {
        return if server.is_some() { Step::Halt(Halt::PortLost) } else { Step::CreatePort(network) };
    };
    if port.network != *network {
        return Step::Halt(Halt::NetworkChanged);
    }
    if port.device.is_some() && port.device.as_ref() != server.map(|server| &server.id) {
        return Step::Halt(Halt::PortInUse);
    }
    if !is_as_desired(port, desired, observed) {
        return Step::UpdatePort(&port.id);
    }
    if let Some(step) = floating_ip(desired.public, &observed.floating_ips, &port.id) {
        return step;
    }
    match retry::decide(&life.record, server.map(|server| &server.view), life.attempts) {
        retry::Step::Proceed => {}
        step => return Step::Retry(step),
    }
    match (server, &desired.creation) {
        // A marker is of the server it was made for: that there is none any more is stored before another one is made.
        (None, _) if life.marker.is_some() => return Step::Image(rebuild::Step::Mark(None)),
        (None, Ok(creation)) => return Step::CreateServer(&port.id, creation),
        (None, Err(problem)) => return Step::Halt(Halt::Refused(problem.clone())),
        (Some(server), _) => {
            let image = crd::ImageId::from(desired.image.as_str());
            match rebuild::decide(&image, life.marker.as_ref(), &server.view) {
                rebuild::Step::Done => {}
                step => return Step::Image(step),
            }
        }
    }
    // Told last: the server is made all the same.
    if observed.floating_ips.iter().any(|ip| ip.foreign) {
        return Step::Halt(Halt::ForeignFloatingIp);
    }
    if desired.volumes { Step::Halt(Halt::Volumes) } else { Step::Done }
}

fn in_the_way(server: &Server) -> Option<Halt> {
    match server {
        Server { claim: Claim::Another, .. } => Some(Halt::NameTaken),
        Server { deleting: true, .. } => Some(Halt::BeingDeleted),
        _ => None,
    }
}

/// Whether the port has the security groups and address pairs that are asked for (SRV-5).
pub fn is_as_desired(port: &Port, desired: &Desired, observed: &Observed) -> bool {
    port.groups == observed.groups && port.pairs == desired.pairs
}

/// What to do about floating IPs, if anything (SRV-6).
fn floating_ip<'a>(wanted: bool, found: &'a [FloatingIp], port: &'a PortId) -> Option<Step<'a>> {
    let mut attached = found.iter().filter(|ip| ip.attached && !ip.foreign);
    if !wanted {
        return attached.next().map(|ip| Step::DeleteFloatingIp(&ip.id));
    }
    match (attached.next(), attached.next()) {
        (Some(_), Some(_)) => return Some(Step::Halt(Halt::SeveralFloatingIps)),
        (Some(_), None) => return None,
        (None, _) => {}
    }
    // A port's address has room for one, so beside somebody else's there is none for ours.
    if found.iter().any(|ip| ip.attached) {
        return None;
    }
    let mut orphaned = found.iter().filter(|ip| !ip.attached);
    match (orphaned.next(), orphaned.next()) {
        (Some(_), Some(_)) => Some(Step::Halt(Halt::SeveralFloatingIps)),
        (Some(ip), None) => Some(Step::AttachFloatingIp(&ip.id, port)),
        (None, _) => Some(Step::CreateFloatingIp(port)),
    }
}

/// What removes everything. `deleted` is what this call has already deleted: Nova need not show it at once.
pub fn remove<'a>(observed: &'a Observed, deleted: Option<&NovaServerId>) -> Step<'a> {
    // A server in our place that says it is another object's is that object's to delete.
    if let Some(server) = observed.server.as_ref().filter(|server| server.claim != Claim::Another) {
        return match (deleted == Some(&server.id), server.deleting) {
            (true, true) if !server.view.is_error() => Step::Halt(Halt::Going),
            (false, false) => Step::DeleteServer(&server.id),
            _ => Step::Halt(Halt::NotGone),
        };
    }
    if let Some(ip) = observed.floating_ips.iter().find(|ip| !ip.foreign) {
        return Step::DeleteFloatingIp(&ip.id);
    }
    match &observed.port {
        Some(port) => Step::DeletePort(&port.id),
        None => Step::Done,
    }
}
#[cfg(test)]
mod tests;
