//! Regions: whether a cloud has what Weir needs of it, for the credential it was given (REG-1).
//!
//! A Region makes nothing in its cloud. Its function asks the cloud afresh and says in `Available` all that is missing,
//! each with what to do. While something is missing it asks again every few seconds, since nothing tells Weir when a
//! cloud has been mended; a changed Region or Secret is an event, and is looked at at once. A credential that the cloud
//! refuses is tried ever more rarely: clouds lock users out.
//!
//! Invariants
//! - A Region holds its Secret by a finalizer, and goes after all that name it: whatever order things are deleted in, the
//!   credential is there for as long as something in the cloud has to be removed with it. Until both are held nobody makes
//!   anything with them. Which Secret that is stands in an annotation before it is held, so that one that is no longer named
//!   is let go.
//! - The region's VLAN table goes with it, when it is empty.

pub mod decide;
pub mod observe;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use std::time::Duration;
use weir_api::conditions::Reason;
use weir_api::crd::{Region, RegionStatus, SecretRef, VlanAllocation};
use weir_api::{Consequence, Kind, Problem, labels, names};
use weir_function_runtime::kubernetes::{self, MANAGER};
use weir_function_runtime::{Function, Scope, dependants};

/// How soon a region with a fault is looked at again.
const AGAIN: Duration = Duration::from_secs(5);

/// Who may have something in a region's cloud. Each has the region's label, and may go by it where its identity's says another.
const DEPENDANTS: [Kind; 4] = [Kind::Server, Kind::SecurityGroup, Kind::Network, Kind::Identity];

/// The region function.
pub struct Regions;

impl Function for Regions {
    type Object = Region;

    async fn reconcile(&self, scope: &Scope, object: &Region, _: &mut RegionStatus) -> Result<(), Problem> {
        let Some(openstack) = &object.spec.openstack else {
            return Err(Problem::user_action("only regions of the provider openstack are served"));
        };
        let at = &openstack.service_account_secret;
        keep_note(scope, object, at).await?;
        let secrets: Api<Secret> = scope.api_in(&at.namespace);
        let secret = get(&secrets, &at.name).await?;
        let found = secret.is_some();
        let going = secret.as_ref().is_some_and(|secret| secret.metadata.deletion_timestamp.is_some());
        if let Some(secret) = secret.filter(|_| !going) {
            kubernetes::hold(&secrets, &secret, &reference(object)).await?;
        }
        let cloud = scope.open(object).await?;
        // Of use is the region only once its Secret is held, and its status is what tells those who wait for that.
        if !found {
            return Err(Problem::reread().with_detail("the region's Secret has come meanwhile"));
        }
        let observed = observe::observe(cloud).await;
        let faults = decide::faults(&observed, &weir_provider::identity_roles(openstack));
        if !faults.is_empty() {
            let mut problem = Problem::retry(faults.join("; ")).with_detail(observed.errors());
            // What is wrong with a credential is mended in the Secret, which is an event. Asking on and on may lock it out.
            problem.consequence = Consequence::Retry((!decide::is_refused(&observed)).then_some(AGAIN));
            return Err(problem);
        }
        if going {
            let message = format!(
                "somebody has deleted the region's Secret {}/{}; it is kept until the region has gone, at the longest: make \
                 another Secret and name it in spec.openstack.serviceAccountSecret",
                at.namespace, at.name
            );
            return Err(Problem::waiting(Reason::Errored, message));
        }
        Ok(())
    }

    async fn finalize(&self, scope: &Scope, object: &Region, _: &mut RegionStatus) -> Result<(), Problem> {
        let name = object.name_any();
        dependants::none_left(scope, labels::REGION, &name, &DEPENDANTS).await?;
        remove_vlans(scope, &name).await?;
        release_secret(scope, object).await
    }
}

/// How the region's Secret names who holds it.
fn reference(region: &Region) -> String {
    Kind::Region.reference(&region.name_any())
}

async fn get<K>(api: &Api<K>, name: &str) -> Result<Option<K>, Problem>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.get_opt(name).await.map_err(|error| kubernetes::problem(&error, "reading the region's Secret"))
}

/// The Secret that an annotation says is held; `None` if there is none, or it makes no sense.
fn noted(object: &Region) -> Option<SecretRef> {
    let (namespace, name) = object.annotations().get(labels::HELD_SECRET)?.split_once('/')?;
    let named = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
    named.then(|| SecretRef { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// Lets go of the Secret that was named before, and notes the one that is named now.
async fn keep_note(scope: &Scope, object: &Region, at: &SecretRef) -> Result<(), Problem> {
    let noted = noted(object);
    if noted.as_ref() == Some(at) {
        return Ok(());
    }
    if let Some(earlier) = noted {
        tracing::info!(namespace = earlier.namespace, name = earlier.name, "letting go of the earlier Secret");
        release(scope, object, &earlier).await?;
    }
    let note = format!("{}/{}", at.namespace, at.name);
    let patch =
        json!({"metadata": {"resourceVersion": object.resource_version(), "annotations": {labels::HELD_SECRET: note}}});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let written = scope.api::<Region>().patch(&object.name_any(), &params, &Patch::Merge(patch)).await;
    written.map_err(|error| kubernetes::unwritten(&error, "noting which Secret the region holds"))?;
    Err(Problem::reread())
}

async fn release_secret(scope: &Scope, object: &Region) -> Result<(), Problem> {
    let named = object.spec.openstack.as_ref().map(|openstack| openstack.service_account_secret.clone());
    let noted = noted(object).filter(|noted| Some(noted) != named.as_ref());
    for at in noted.iter().chain(&named) {
        release(scope, object, at).await?;
    }
    Ok(())
}

async fn release(scope: &Scope, object: &Region, at: &SecretRef) -> Result<(), Problem> {
    let secrets: Api<Secret> = scope.api_in(&at.namespace);
    match get(&secrets, &at.name).await? {
        Some(secret) => kubernetes::release(&secrets, &secret, &reference(object)).await,
        None => Ok(()),
    }
}

/// Removes the region's VLAN table. One that still names networks is kept, with a warning: those VLANs may be in use.
async fn remove_vlans(scope: &Scope, region: &str) -> Result<(), Problem> {
    let name = names::vlan_allocation(region);
    let Some(table) = scope.get::<VlanAllocation>(&name).await? else {
        return Ok(());
    };
    if !table.spec.allocations.is_empty() {
        tracing::warn!(table = name, "the region's VLAN table still names networks; it is kept");
        return Ok(());
    }
    let preconditions = Preconditions { uid: table.uid(), resource_version: table.resource_version() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match scope.api::<VlanAllocation>().delete(&name, &params).await {
        Ok(_) => Ok(()),
        Err(error) if kubernetes::is_not_found(&error) => Ok(()),
        Err(error) => Err(kubernetes::problem(&error, "removing the region's VLAN table")),
    }
}
