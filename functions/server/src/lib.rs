//! The server function: a Nova server on a Neutron port of its own, with a floating IP if asked for (SRV, SSH, PIN).
//!
//! Invariants
//! - Everything in the cloud is found by its name, and an existing one is used, never made again: port `server-<name>`,
//!   floating IP by its port, server by the display name (SRV-2, SRV-11, SRV-12).
//! - What a server needs is held by a reference before anything is made, and let go when nothing uses it (SRV-9).
//! - How SSH access is set up, and user data, count when a server is made, never after (SSH-1).
//! - A deletion needs names only, and ends with a fresh look that shows nothing (SRV-10, OWN-8).
//!
//! `Available` is true once the cloud has accepted what was asked; whether a server is well, and what it is doing, is
//! the monitor's to say.
//!
//! Caveats: a create that the cloud accepts and carries out only after it has told nobody, and after the next look some
//! seconds later, would be made twice. Nova offers nothing to rule that out; its refusal of a port that is in use keeps the
//! second from running. A renamed Server keeps its name in the cloud. A changed flavor is told by an event and changes
//! nothing (SRV-8); changed user data and tags change nothing, and Nova does not tell what they were.
//!
//! A server that does not start is made again a few times, and a changed image rebuilds the server: [`retry`], [`rebuild`].
//! Volumes have their room in `decide`, and are refused until it is furnished.

mod act;
mod authority;
mod decide;
mod dependencies;
mod desired;
mod life;
mod metadata;
mod observe;
mod preflight;
pub mod rebuild;
pub mod retry;
mod user_data;

use act::{Change, Cloud};
use decide::Step;
use dependencies::Dependencies;
use desired::{Desired, Surroundings};
use kube::ResourceExt;
use life::{Life, Stage};
use observe::{Names, Observed};
use weir_api::{Problem, crd, labels, names};
use weir_function_runtime::{Foothold, Function, Scope};

/// No server needs more steps in one call.
const MOST_STEPS: usize = 32;

/// Reconciles Server objects, with [`retry::ATTEMPTS`] creates for each at most.
pub struct Servers;

/// The same with another number of creates; less than one is one.
#[derive(Clone, Copy, Debug)]
pub struct BoundedServers {
    /// How many creates there may be before a server that does not start is left to an operator (RTY-1).
    pub attempts: i32,
}

impl Function for Servers {
    type Object = crd::Server;

    async fn reconcile(
        &self,
        scope: &Scope,
        server: &crd::Server,
        status: &mut crd::ServerStatus,
    ) -> Result<(), Problem> {
        BoundedServers { attempts: retry::ATTEMPTS }.reconcile(scope, server, status).await
    }

    async fn finalize(
        &self,
        scope: &Scope,
        server: &crd::Server,
        status: &mut crd::ServerStatus,
    ) -> Result<(), Problem> {
        BoundedServers { attempts: retry::ATTEMPTS }.finalize(scope, server, status).await
    }
}

impl Function for BoundedServers {
    type Object = crd::Server;

    async fn reconcile(
        &self,
        scope: &Scope,
        server: &crd::Server,
        status: &mut crd::ServerStatus,
    ) -> Result<(), Problem> {
        let foothold = scope.identity(server).await?;
        let needs = Dependencies::read(scope, server).await?;
        let desired = desired(server, &foothold, &needs)?;
        needs.hold(scope, server).await?;
        let session = foothold.session()?;
        let mut observed = observe::whole(&session, &server.name_any(), &desired).await?;
        let cloud = Cloud { foothold: &foothold, session: &session };
        let life = Life::of(status, self.attempts);
        let outcome = converge(&cloud, &desired, &mut observed, &life).await;
        show(&observed, &desired, status);
        if observed.port.as_ref().is_some_and(|port| decide::is_as_desired(port, &desired, &observed)) {
            needs.release_unused(scope, server).await?;
        }
        let stage =
            Stage { scope, cloud: &cloud, object: server, server: observed.server.as_ref(), attempts: self.attempts };
        stage.compare_flavor(status.observed_generation).await;
        match outcome? {
            End::Settled => Ok(()),
            End::Retry(step) => {
                tracing::info!(step = format!("retry {step:?}"), "acting");
                stage.retry(step, status).await
            }
            End::Image(step) => {
                tracing::info!(step = format!("rebuild {step:?}"), "acting");
                stage.image(step, status).await
            }
        }
    }

    async fn finalize(&self, scope: &Scope, server: &crd::Server, _: &mut crd::ServerStatus) -> Result<(), Problem> {
        if let Some(foothold) = scope.foothold(server).await? {
            remove(&foothold, server).await?;
        }
        dependencies::release_all(scope, server).await
    }
}

fn desired(server: &crd::Server, foothold: &Foothold, needs: &Dependencies) -> Result<Desired, Problem> {
    let authority = needs.authority.as_ref().map(|found| found.as_ref().map(|ca| ca.spec.public_key.as_str()));
    let around =
        Surroundings { region: &foothold.region.config, key_pair: foothold.record.ssh_key_name.as_deref(), authority };
    Desired::of(server, &around)
}

/// What the last step of a call is.
enum End {
    Settled,
    Retry(retry::Step),
    Image(rebuild::Step),
}

/// Takes steps until there are none, or one has to be waited for, or ends the call. `observed` tells afterwards how far it got.
async fn converge(cloud: &Cloud<'_>, desired: &Desired, observed: &mut Observed, life: &Life) -> Result<End, Problem> {
    for _ in 0..MOST_STEPS {
        let change = match decide::converge(desired, observed, life) {
            Step::Done => return Ok(End::Settled),
            Step::Retry(step) => return Ok(End::Retry(step)),
            Step::Image(step) => return Ok(End::Image(step)),
            Step::Halt(halt) => return Err(halt.problem()),
            step => {
                tracing::info!(step = step.name(), "acting");
                cloud.make(&step, desired, observed).await?
            }
        };
        observed.apply(change);
    }
    Err(Problem::reread().with_detail("more steps than any server needs"))
}

/// Addresses as far as they are known (SRV-7).
fn show(observed: &Observed, desired: &Desired, status: &mut crd::ServerStatus) {
    status.private_ip = observed.port.as_ref().and_then(|port| port.addresses.first().cloned());
    let public = observed.floating_ips.iter().find(|ip| ip.attached && !ip.foreign);
    let public = public.filter(|ip| desired.public && observe::is_address(&ip.address));
    status.public_ip = public.map(|ip| ip.address.clone());
}

/// Removes everything, in order, until a fresh look shows nothing.
async fn remove(foothold: &Foothold, server: &crd::Server) -> Result<(), Problem> {
    let session = foothold.any_session();
    let cloud = Cloud { foothold, session: &session };
    let id = server.name_any();
    let (port, name) = (names::server_port(&id), labels::display_name(server));
    let names = Names { id: &id, port: &port, server: &name };
    let mut observed = observe::remains(&session, &names, true).await?;
    let mut fresh = true;
    let mut deleted = None;
    for _ in 0..MOST_STEPS {
        let change = match decide::remove(&observed, deleted.as_ref()) {
            Step::Done if fresh => return Ok(()),
            Step::Done => {
                observed = observe::remains(&session, &names, true).await?;
                fresh = true;
                continue;
            }
            Step::Halt(halt) => return Err(halt.problem()),
            step => {
                tracing::info!(step = step.name(), "removing");
                cloud.remove(&step, &id).await?
            }
        };
        fresh = false;
        if let Change::Deleting(server, _) = &change {
            deleted = Some(server.clone());
        }
        observed.apply(change);
    }
    Err(Problem::reread().with_detail("more steps than any server needs"))
}
