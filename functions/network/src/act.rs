//! Carries out one step about a network.

use crate::decide::{Desired, Removal, Step};
use crate::observe::{Observed, session};
use kube::Resource;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use std::net::IpAddr;
use weir_api::crd::{VlanAllocation, VlanAllocationEntry, VlanAllocationSpec, VlanSegment};
use weir_api::{Problem, labels, names};
use weir_function_runtime::kubernetes::{self, MANAGER};
use weir_function_runtime::{Foothold, Scope};
use weir_openstack::OrAbsent;
use weir_openstack::network::{
    AllocationPool, Gateway, NewNetwork, NewRouter, NewSubnet, RouterUpdate, Segment, SubnetUpdate,
};
use weir_provider::During;

/// Says in the cloud who made a thing, for whoever finds it there.
const DESCRIPTION: &str = "managed by Weir: change the Network in Kubernetes instead";

/// Takes one step, and brings the observation up to date with its answer.
pub async fn act(
    scope: &Scope,
    foothold: &Foothold,
    object: &str,
    desired: &Desired,
    step: Step,
    observed: &mut Observed,
) -> Result<(), Problem> {
    let (session, name) = (session(foothold), names::network(object));
    let client = session.network();
    match step {
        Step::AllocateVlan => {
            let segments = segments(foothold);
            observed.vlan =
                Some(change_table(scope, foothold, |table| crate::vlan::allocate(table, segments, object)).await?);
        }
        Step::RecordVlan(vlan) => {
            let record = |table: &[VlanAllocationEntry]| Ok((vlan, crate::vlan::record(table, vlan, object)?));
            observed.vlan = Some(change_table(scope, foothold, record).await?);
        }
        Step::CreateNetwork { vlan } => {
            let segment =
                vlan.zip(desired.physical_network.as_deref()).map(|(id, physical)| Segment::vlan(physical, id));
            let new = NewNetwork { name: &name, description: DESCRIPTION, segments: segment.as_slice() };
            let network = client.create_network(&new).await.map_err(|error| match error.kind() {
                Some("VlanIdInUse") => Problem::retry("the VLAN that the region gives the network is used by something else in the cloud; an operator has to free it, or take it out of the region's segments")
                    .with_detail(error.detail().to_owned()),
                _ => weir_provider::problem(&error, "creating the network"),
            })?;
            observed.network = Some(network);
        }
        Step::CreateSubnet(network) => {
            let new = NewSubnet {
                name: &name,
                description: DESCRIPTION,
                network_id: &network,
                ip_version: 4,
                cidr: &desired.prefix.to_string(),
                gateway_ip: IpAddr::V4(desired.ranges.gateway),
                allocation_pools: &[AllocationPool {
                    start: IpAddr::V4(desired.ranges.dhcp.0),
                    end: IpAddr::V4(desired.ranges.dhcp.1),
                }],
                dns_nameservers: &desired.dns,
                host_routes: &desired.routes,
            };
            observed.subnet = Some(client.create_subnet(&new).await.during("creating the subnet")?);
        }
        Step::UpdateSubnet { subnet, dns, routes } => {
            let update = SubnetUpdate {
                dns_nameservers: dns.then_some(&desired.dns),
                host_routes: routes.then_some(&desired.routes),
                ..SubnetUpdate::default()
            };
            observed.subnet = Some(client.update_subnet(&subnet, &update).await.during("updating the subnet")?);
        }
        Step::CreateRouter(external) => {
            let gateway = Gateway { network_id: external };
            let new = NewRouter { name: &name, description: DESCRIPTION, gateway: Some(&gateway) };
            observed.router = Some(client.create_router(&new).await.during("creating the router")?);
        }
        Step::SetGateway(router, external) => {
            let gateway = Gateway { network_id: external };
            let update = RouterUpdate { gateway: Some(Some(&gateway)) };
            observed.router =
                Some(client.update_router(&router, &update).await.during("connecting the router to the outside")?);
        }
        Step::Attach(router, subnet) => {
            client.add_router_interface(&router, &subnet).await.during("connecting the router to the subnet")?;
            observed.interfaces.push(subnet);
        }
        Step::Done => {}
    }
    Ok(())
}

/// Takes one step of a removal. What is gone already is as good as removed.
pub async fn remove(scope: &Scope, foothold: &Foothold, object: &str, step: Removal) -> Result<(), Problem> {
    let session = session(foothold);
    let client = session.network();
    match step {
        Removal::Detach(router, subnet) => {
            client.remove_router_interface(&router, &subnet).await.or_absent().during("disconnecting the router")?;
        }
        Removal::DeleteRouter(router) => {
            client.delete_router(&router).await.or_absent().during("deleting the router")?;
        }
        Removal::DeleteSubnet(subnet) => {
            client.delete_subnet(&subnet).await.or_absent().during("deleting the subnet")?;
        }
        Removal::DeleteNetwork(network) => {
            client.delete_network(&network).await.or_absent().during("deleting the network")?;
        }
        Removal::FreeVlan => {
            change_table(scope, foothold, |table| Ok(((), crate::vlan::free(table, object)?))).await?;
        }
        Removal::Done => {}
    }
    Ok(())
}

fn segments(foothold: &Foothold) -> &[VlanSegment] {
    let options = foothold.region.config.network.as_ref().and_then(|n| n.provider_networks.as_ref());
    options.and_then(|p| p.vlan.as_ref()).map_or(&[], |vlan| &vlan.segments)
}

/// Reads the region's VLAN table, lets `change` make a new one of it, and writes that under the version that was read:
/// of two networks that take the same ID at once, one reads again (NET-8).
async fn change_table<T>(
    scope: &Scope,
    foothold: &Foothold,
    change: impl FnOnce(&[VlanAllocationEntry]) -> Result<(T, Option<Vec<VlanAllocationEntry>>), Problem>,
) -> Result<T, Problem> {
    let name = names::vlan_allocation(&foothold.region.name);
    let table = scope.get::<VlanAllocation>(&name).await?;
    let before = table.as_ref().map_or(&[][..], |table| &table.spec.allocations);
    let (result, after) = change(before)?;
    let Some(allocations) = after else {
        return Ok(result);
    };
    let api = scope.api::<VlanAllocation>();
    let written = if let Some(table) = &table {
        let patch = json!({"metadata": {"resourceVersion": table.meta().resource_version}, "spec": {"allocations": allocations}});
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        api.patch(&name, &params, &Patch::Merge(patch)).await
    } else {
        let region = [(labels::REGION.to_owned(), foothold.region.name.clone())];
        let metadata = ObjectMeta { name: Some(name), labels: Some(region.into()), ..ObjectMeta::default() };
        let table = VlanAllocation { metadata, spec: VlanAllocationSpec { allocations }, status: None };
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        api.create(&params, &table).await
    };
    written.map(|_| result).map_err(|error| kubernetes::unwritten(&error, "writing the region's VLAN table"))
}
