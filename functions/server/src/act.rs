//! Carries out one step, and brings the observation up to date with the cloud's answer.
//!
//! Invariant: a create is sent once. When its answer is lost, nothing is assumed: the call ends, and the next one looks
//! (SRV-11).

use crate::decide::{self, Step};
use crate::desired::{Creation, Desired, Host, Pair};
use crate::observe::{FloatingIp, Observed, Port, Server};
use crate::preflight;
use weir_api::problem::YIELD;
use weir_api::{Consequence, Problem};
use weir_function_runtime::Foothold;
use weir_openstack::compute::{Attach, NewServer};
use weir_openstack::network::{AddressPair, NewFloatingIp, NewPort, PortUpdate};
use weir_openstack::{Class, Error, NovaServerId, OrAbsent, PortId, SecurityGroupId, Session};
use weir_provider::During;

/// What the port says of itself in the cloud.
const DESCRIPTION: &str = "unikorn managed server port";

/// Where steps are carried out.
pub struct Cloud<'a> {
    /// The identity's place in the region.
    pub foothold: &'a Foothold,
    /// Its session.
    pub session: &'a Session,
}

/// What a step has changed.
pub enum Change {
    /// The port is now so.
    Port(Port),
    /// This floating IP is now there, on the port.
    FloatingIp(FloatingIp),
    /// This floating IP is gone.
    NoFloatingIp(weir_openstack::FloatingIpId),
    /// This server was accepted.
    Server(Server),
    /// The deletion of this server was accepted, and this is what a look afterwards has shown.
    Deleting(NovaServerId, Option<Server>),
    /// The port is gone.
    NoPort,
}

impl Observed {
    /// Takes a change in.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Port(port) => self.port = Some(port),
            Change::FloatingIp(ip) => {
                self.floating_ips.retain(|other| other.id != ip.id);
                self.floating_ips.push(ip);
            }
            Change::NoFloatingIp(id) => self.floating_ips.retain(|ip| ip.id != id),
            Change::Server(server) => self.server = Some(server),
            Change::Deleting(_, server) => self.server = server,
            Change::NoPort => self.port = None,
        }
    }
}

impl Cloud<'_> {
    /// Carries out a step that makes or changes something.
    pub async fn make(&self, step: &Step<'_>, desired: &Desired, observed: &Observed) -> Result<Change, Problem> {
        let neutron = self.session.network();
        match step {
            Step::CreatePort(network) => {
                let (groups, pairs) = wanted(desired, observed);
                let port = NewPort {
                    name: &desired.port,
                    description: DESCRIPTION,
                    network_id: network,
                    security_groups: Some(&groups),
                    allowed_address_pairs: &pairs,
                };
                let port = neutron.create_port(&port).await.during("creating the server's port")?;
                as_desired(Port::of(&port), desired, observed)
            }
            Step::UpdatePort(id) => {
                let (groups, pairs) = wanted(desired, observed);
                let update = PortUpdate { security_groups: Some(&groups), allowed_address_pairs: Some(&pairs) };
                let port = neutron.update_port(id, &update).await.during("updating the server's port")?;
                as_desired(Port::of(&port), desired, observed)
            }
            Step::CreateFloatingIp(port) => {
                let network = self.foothold.region.external_network().await?;
                // Made on the port at once: an attachment that fails leaves nothing behind (SRV-6).
                let ip =
                    NewFloatingIp { floating_network_id: &network.id, port_id: Some(port), description: &desired.port };
                let ip = neutron.create_floating_ip(&ip).await.map_err(|error| no_floating_ip(&error))?;
                attached(FloatingIp::of(&ip, Some(port), &desired.port))
            }
            Step::AttachFloatingIp(id, port) => {
                let ip = neutron.associate_floating_ip(id, Some(port)).await.during("attaching the floating IP")?;
                attached(FloatingIp::of(&ip, Some(port), &desired.port))
            }
            Step::DeleteFloatingIp(id) => {
                neutron.delete_floating_ip(id).await.or_absent().during("deleting the floating IP")?;
                Ok(Change::NoFloatingIp((*id).clone()))
            }
            Step::CreateServer(port, creation) => self.create_server(port, creation, desired).await,
            Step::DeleteServer(_)
            | Step::DeletePort(_)
            | Step::Retry(_)
            | Step::Image(_)
            | Step::Halt(_)
            | Step::Done => Err(Problem::reread()),
        }
    }

    async fn create_server(&self, port: &PortId, creation: &Creation, desired: &Desired) -> Result<Change, Problem> {
        let networks = [Attach::Port(port.clone())];
        let server = NewServer {
            metadata: &creation.metadata,
            key_name: creation.key_name.as_deref(),
            user_data: creation.user_data.as_deref(),
            hypervisor_hostname: creation.host.as_ref().map(|host| host.name.as_str()),
            ..NewServer::new(&desired.server, &creation.flavor, &desired.image, &networks)
        };
        // A destination takes a manager (PIN-1); the server is in the identity's project either way.
        let manager = creation.host.as_ref().map(|_| self.foothold.manager());
        let session = manager.as_ref().unwrap_or(self.session);
        if let Some(Host { name, checked_for: Some(traits) }) = &creation.host {
            preflight::check(session, &creation.flavor, name, traits).await?;
        }
        let id = session.compute().create_server(&server).await.map_err(|error| not_created(&error, creation))?;
        Ok(Change::Server(Server::accepted(id, desired.image.clone())))
    }

    /// Carries out a step that removes something.
    pub async fn remove(&self, step: &Step<'_>, id: &str) -> Result<Change, Problem> {
        let neutron = self.session.network();
        match step {
            Step::DeleteServer(server) => {
                let nova = self.session.compute();
                nova.delete_server(server).await.or_absent().during("deleting the server")?;
                // One look: clouds often have done it by now.
                let left = nova.server(server).await.or_absent().during("looking whether the server is gone")?;
                let left = left.filter(|server| !server.status.is_gone()).map(|server| Server::of(&server, id));
                Ok(Change::Deleting((*server).clone(), left))
            }
            Step::DeleteFloatingIp(ip) => {
                neutron.delete_floating_ip(ip).await.or_absent().during("deleting the floating IP")?;
                Ok(Change::NoFloatingIp((*ip).clone()))
            }
            Step::DeletePort(port) => {
                neutron.delete_port(port).await.or_absent().during("deleting the server's port")?;
                Ok(Change::NoPort)
            }
            _ => Err(Problem::reread()),
        }
    }
}

fn wanted(desired: &Desired, observed: &Observed) -> (Vec<SecurityGroupId>, Vec<AddressPair>) {
    (observed.groups.iter().cloned().collect(), desired.pairs.iter().map(Pair::request).collect())
}

/// The port, if the cloud has taken what was asked. Otherwise to decide again would be to ask again, for ever.
fn as_desired(port: Port, desired: &Desired, observed: &Observed) -> Result<Change, Problem> {
    if decide::is_as_desired(&port, desired, observed) {
        return Ok(Change::Port(port));
    }
    Err(Problem::retry(
        "the cloud has not taken over the security groups and address pairs of the server's port; trying again",
    ))
}

fn attached(ip: Option<FloatingIp>) -> Result<Change, Problem> {
    match ip {
        Some(ip) if ip.attached => Ok(Change::FloatingIp(ip)),
        _ => Err(Problem::retry("the cloud has not put the floating IP on the server's port; trying again")),
    }
}

/// What a floating IP that was not made leads to.
fn no_floating_ip(error: &Error) -> Problem {
    let problem = weir_provider::problem(error, "creating the floating IP");
    if error.class() != Class::NotFound {
        return problem;
    }
    // Neutron does not find a router that leads from the one network to the other.
    let mut told = Problem::retry(
        "the cloud has no way from the server's network to the external network, so there can be no public address; trying again",
    );
    told.detail = problem.detail;
    told
}

/// What a create that failed leads to.
fn not_created(error: &Error, creation: &Creation) -> Problem {
    let mut problem = weir_provider::problem(error, "creating the server");
    match error.class() {
        Class::BadRequest => {
            let parts = if creation.host.is_some() { "flavor, image and host" } else { "flavor and image" };
            problem.message = format!(
                "the cloud refuses to create the server; check that {parts} exist and fit each other; trying again"
            );
        }
        // It may have been accepted, and need not show yet: the next look is not at once.
        Class::Unavailable | Class::NotUnderstood if problem.consequence == Consequence::Retry(None) => {
            problem.consequence = Consequence::Retry(Some(YIELD));
        }
        _ => {}
    }
    problem
}
