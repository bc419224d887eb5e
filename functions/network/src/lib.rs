//! Networks: a Neutron network with a subnet and a router to the outside (NET-1..12).
//!
//! Everything is found by the name `network-<name of the object>` in the identity's project, with the region's credential
//! there, because provider networks need it; nothing depends on status.
//!
//! Invariants
//! - A VLAN is written into the region's table before the Neutron network is asked for, and taken out only after a fresh
//!   look has shown no network of the name (NET-9). A create whose answer was lost keeps its VLAN.
//! - Removal looks again after every step. Whoever else uses the network is waited for before anything is touched.
//!
//! Choices
//! - The external network of a router is chosen when the router gets its gateway and kept: a changed selector moves no
//!   running network to another address.
//! - DNS servers are compared in order, since that is the order in which they are asked; routes as a set.
//! - A changed `spec.prefix` is refused in the condition: Neutron cannot change a subnet's, and a new one would cut off
//!   everything that is on it. So are changed `spec.reservations`: what becomes reserved may be in use by servers. A subnet
//!   made otherwise for a Network that asks for no reservation (by an earlier system) is left as it is, and no storage range
//!   is told that it gives out.

pub mod act;
pub mod decide;
pub mod observe;
pub mod ranges;
pub mod vlan;

use decide::{Desired, Removal, Step};
use kube::ResourceExt;
use observe::{Observed, vlan_of};
use weir_api::Problem;
use weir_api::crd::{Network, NetworkStatus, OpenstackNetworkStatus};
use weir_function_runtime::{Foothold, Function, Scope};

/// More steps than any network needs. Reaching it means that the cloud undoes what is done.
const STEPS: usize = 32;

/// The network function.
pub struct Networks;

impl Function for Networks {
    type Object = Network;

    async fn reconcile(&self, scope: &Scope, object: &Network, status: &mut NetworkStatus) -> Result<(), Problem> {
        let foothold = scope.identity(object).await?;
        let desired = Desired::of(&object.spec, observe::physical_network(&foothold.region.config))?;
        let mut observed = observe::observe(scope, &foothold, &object.name_any()).await?;
        let result = converge(scope, &foothold, &object.name_any(), &desired, &mut observed).await;
        tell(status, &desired, &observed);
        result
    }

    async fn finalize(&self, scope: &Scope, object: &Network, _: &mut NetworkStatus) -> Result<(), Problem> {
        let Some(foothold) = scope.foothold(object).await? else {
            return Ok(());
        };
        let name = object.name_any();
        for _ in 0..STEPS {
            let observed = observe::observe_remains(scope, &foothold, &name).await?;
            match decide::decide_removal(&observed)? {
                Removal::Done => return Ok(()),
                step => {
                    tracing::info!(?step, "removing");
                    act::remove(scope, &foothold, &name, step).await?;
                }
            }
        }
        Err(Problem::yielding("the cloud does not let go of the network; looking again"))
    }
}

async fn converge(
    scope: &Scope,
    foothold: &Foothold,
    name: &str,
    desired: &Desired,
    observed: &mut Observed,
) -> Result<(), Problem> {
    for _ in 0..STEPS {
        match decide::decide(desired, observed)? {
            Step::Done => return Ok(()),
            step => {
                tracing::info!(?step, "taking a step");
                act::act(scope, foothold, name, desired, step, observed).await?;
            }
        }
    }
    Err(Problem::yielding("the cloud does not keep what was made for the network; looking again"))
}

/// What the status shows, also of a network that is not finished (NET-6).
fn tell(status: &mut NetworkStatus, desired: &Desired, observed: &Observed) {
    let told = status.openstack.take().and_then(|openstack| openstack.storage_range);
    status.openstack = Some(OpenstackNetworkStatus {
        network_id: observed.network.as_ref().map(|n| n.id.to_string()),
        subnet_id: observed.subnet.as_ref().map(|s| s.id.to_string()),
        vlan_id: vlan_of(observed.network.as_ref()).map(i64::from),
        storage_range: decide::storage(desired, observed, told),
    });
}
