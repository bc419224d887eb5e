//! The OpenstackIdentity: the only state of a cloud that Weir keeps, because its secrets cannot be found again.
//!
//! Invariants
//! - It exists, with a finalizer, before anything is made in the cloud, and goes last: nothing that deletes it by hand, a
//!   whole namespace included, makes Weir forget what is still there.
//! - Each field is written as soon as it is known, under the version that was read.

use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use weir_api::crd::{Identity, OpenstackIdentity, OpenstackIdentitySpec};
use weir_api::{Problem, labels};
use weir_function_runtime::Scope;
use weir_function_runtime::kubernetes::{self, MANAGER};

/// Makes the record of an identity, empty. It takes the identity's labels and annotations along, as the predecessor's do.
pub async fn create(scope: &Scope, identity: &Identity) -> Result<OpenstackIdentity, Problem> {
    let name = identity.name_any();
    let mut labels = identity.labels().clone();
    labels.insert(labels::IDENTITY.to_owned(), name.clone());
    let mut annotations = identity.annotations().clone();
    annotations.retain(|key, _| !key.starts_with("kubectl.kubernetes.io/"));
    let metadata = ObjectMeta {
        name: Some(name),
        labels: Some(labels),
        annotations: Some(annotations),
        finalizers: Some(vec![labels::FINALIZER.to_owned()]),
        ..ObjectMeta::default()
    };
    let record = OpenstackIdentity { metadata, spec: OpenstackIdentitySpec::default(), status: None };
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    let created = scope.api().create(&params, &record).await;
    created.map_err(|error| kubernetes::problem(&error, "making the identity's record"))
}

/// Writes some fields of the record.
pub async fn save(scope: &Scope, record: &OpenstackIdentity, fields: Value) -> Result<OpenstackIdentity, Problem> {
    let patch = json!({"metadata": {"resourceVersion": record.meta().resource_version}, "spec": fields});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let saved = scope.api().patch(&record.name_any(), &params, &Patch::Merge(patch)).await;
    saved.map_err(|error| kubernetes::unwritten(&error, "writing the identity's record"))
}

/// Keeps a record that was made by others from going before its time.
pub async fn hold(scope: &Scope, record: &OpenstackIdentity) -> Result<OpenstackIdentity, Problem> {
    let held = kubernetes::set_finalizer(&scope.api(), record, labels::FINALIZER, true).await?;
    Ok(held.unwrap_or_else(|| record.clone()))
}

/// Removes the record: nothing is left in the cloud.
pub async fn remove(scope: &Scope, record: &OpenstackIdentity) -> Result<(), Problem> {
    let api = scope.api::<OpenstackIdentity>();
    if record.meta().deletion_timestamp.is_none() {
        let preconditions = Preconditions { uid: record.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match api.delete(&record.name_any(), &params).await {
            Ok(_) => {}
            Err(error) if kubernetes::is_not_found(&error) => return Ok(()),
            Err(error) => return Err(kubernetes::problem(&error, "removing the identity's record")),
        }
    }
    let Some(record) = scope.get::<OpenstackIdentity>(&record.name_any()).await? else {
        return Ok(());
    };
    kubernetes::set_finalizer(&api, &record, labels::FINALIZER, false).await?;
    Ok(())
}
