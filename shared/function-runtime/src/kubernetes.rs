//! Kubernetes as functions use it: errors turned into consequences, and the few writes that all of them share.
//!
//! Invariant: every write carries the resource version that was read (OWN-1). A conflict is [`Consequence::Reread`],
//! never a reason to force.

use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use weir_api::conditions::Reason;
use weir_api::{Consequence, Problem, labels};

/// The field manager under which Weir writes.
pub const MANAGER: &str = "weir";

/// What a failed Kubernetes request leads to. `doing` completes "while …".
pub fn problem(error: &kube::Error, doing: &str) -> Problem {
    match error {
        kube::Error::Api(status) if status.code == 409 => Problem::reread().with_detail(format!("{doing}: {error}")),
        kube::Error::Api(status) if status.code == 429 => {
            let wait = status.details.as_ref().map(|details| u64::from(details.retry_after_seconds));
            let mut problem = Problem::retry("the Kubernetes API asks to slow down; trying again");
            problem.consequence = Consequence::Retry(wait.filter(|s| *s > 0).map(std::time::Duration::from_secs));
            problem.with_detail(format!("{doing}: {error}"))
        }
        kube::Error::Api(status) if status.code == 403 => {
            Problem::operator("Weir lacks a permission in Kubernetes; an operator has to grant it")
                .with_detail(format!("{doing}: {error}"))
        }
        _ => Problem::retry("the Kubernetes API could not be used; trying again")
            .with_detail(format!("{doing}: {error}")),
    }
}

/// What a failed write of an object that has been read leads to. That it is gone is no failure: reading again shows it, and
/// what follows from it. `doing` completes "while …".
pub fn unwritten(error: &kube::Error, doing: &str) -> Problem {
    if is_not_found(error) {
        return Problem::reread().with_detail(format!("{doing}: the object is gone"));
    }
    problem(error, doing)
}

/// True if the error is a 404.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// An object without its `managedFields`, which nobody here looks at, and which no write sends back.
///
/// They list every finalizer under who has put it there, and take many times their length in memory: of a network with a
/// hundred servers they would be most of what a call holds while it waits for the cloud.
pub fn lean<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

/// Puts a finalizer on an object, or takes it off, leaving all others as they were read. Does nothing, and returns
/// `None`, when it is so already.
pub async fn set_finalizer<K>(api: &Api<K>, object: &K, finalizer: &str, present: bool) -> Result<Option<K>, Problem>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut list = object.finalizers().to_vec();
    if list.iter().any(|f| f == finalizer) == present {
        return Ok(None);
    }
    if present {
        list.push(finalizer.to_owned());
    } else {
        list.retain(|f| f != finalizer);
    }
    let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": list}});
    match api.patch(&object.name_any(), &params(), &Patch::Merge(patch)).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if !present && is_not_found(&error) => Ok(None),
        Err(error) => Err(unwritten(&error, "writing a finalizer")),
    }
}

/// Takes hold of an object: puts on its function's finalizer and keeps its [`labels::ANCHORS`], in one write. Does nothing,
/// and returns `None`, when both are there.
pub async fn take_hold<K>(api: &Api<K>, object: &K, finalizer: bool) -> Result<Option<K>, Problem>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let held = !finalizer || labels::is_held(object);
    let unkept = labels::unkept(object);
    if held && unkept.is_empty() {
        return Ok(None);
    }
    let mut metadata = json!({"resourceVersion": object.resource_version()});
    if !held {
        let mut finalizers = object.finalizers().to_vec();
        finalizers.push(labels::FINALIZER.to_owned());
        metadata["finalizers"] = json!(finalizers);
    }
    for (key, value) in unkept {
        metadata["annotations"][key] = json!(value);
    }
    let patched = api.patch(&object.name_any(), &params(), &Patch::Merge(json!({ "metadata": metadata }))).await;
    patched.map(Some).map_err(|error| unwritten(&error, "taking hold of the object"))
}

/// Puts a reference to the object at hand onto another object, so that the other cannot go first (SRV-9).
///
/// The entry is appended by the server, without a resource version: many servers that refer to one network at once do
/// not conflict, and nobody's entry is overwritten. Does nothing when the entry is there.
///
/// # Errors
/// The other is being deleted; or it has gone since it was read, for which it is read again.
pub async fn hold<K>(api: &Api<K>, object: &K, reference: &str) -> Result<(), Problem>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let finalizers = object.finalizers();
    if finalizers.iter().any(|f| f == reference) {
        return Ok(());
    }
    if object.meta().deletion_timestamp.is_some() {
        return Err(Problem::waiting(Reason::DependencyNotReady, format!("{} is being deleted", object.name_any())));
    }
    if finalizers.is_empty() {
        return set_finalizer(api, object, reference, true).await.map(|_| ());
    }
    let patch = json!([{"op": "add", "path": "/metadata/finalizers/-", "value": reference}]);
    json_patch(api, &object.name_any(), patch).await?.map_err(|error| unwritten(&error, "referring to another object"))
}

/// Takes a reference off another object again. The other may be gone; nothing else of it is touched.
pub async fn release<K>(api: &Api<K>, object: &K, reference: &str) -> Result<(), Problem>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let Some(at) = object.finalizers().iter().position(|f| f == reference) else {
        return Ok(());
    };
    let path = format!("/metadata/finalizers/{at}");
    let patch = json!([{"op": "test", "path": path, "value": reference}, {"op": "remove", "path": path}]);
    match json_patch(api, &object.name_any(), patch).await? {
        Err(error) if !is_not_found(&error) => Err(problem(&error, "letting go of another object")),
        _ => Ok(()),
    }
}

/// Applies a JSON patch. The inner error is the API's; the outer one asks to read again or is a fault of ours.
async fn json_patch<K>(api: &Api<K>, name: &str, operations: Value) -> Result<Result<(), kube::Error>, Problem>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let operations = serde_json::from_value(operations).map_err(|error| {
        Problem::retry("Kubernetes could not be written; trying again").with_detail(error.to_string())
    })?;
    match api.patch(name, &params(), &Patch::<()>::Json(operations)).await {
        // The object has changed since it was read: an entry is somewhere else in the list by now, or it is being deleted.
        Err(kube::Error::Api(status)) if status.code == 422 => {
            Err(Problem::reread().with_detail(status.message.clone()))
        }
        outcome => Ok(outcome.map(drop)),
    }
}

/// Writes the difference between two statuses, and nothing at all when there is none (OWN-4).
pub async fn patch_status<K>(api: &Api<K>, object: &K, old: &Value, new: &Value) -> Result<bool, Problem>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let Some(difference) = merge_difference(old, new) else {
        return Ok(false);
    };
    let patch = json!({"metadata": {"resourceVersion": object.resource_version()}, "status": difference});
    match api.patch_status(&object.name_any(), &params(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(true),
        Err(error) => Err(unwritten(&error, "writing status")),
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// The JSON merge patch that turns `old` into `new`, or `None` when they are equal. Lists are replaced whole, which is
/// safe because the patch carries the resource version that `old` was read at.
fn merge_difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return Some(new.clone());
    };
    let gone = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter_map(|(key, value)| {
        let was = before.get(key).unwrap_or(&Value::Null);
        // An object that was not there is sent whole; a member of an object that was, as a difference.
        merge_difference(was, value).map(|difference| (key.clone(), difference))
    });
    let patch: serde_json::Map<String, Value> = gone.chain(changed).collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: OWN-4
    #[test]
    fn equal_statuses_make_no_patch() {
        let status = json!({"conditions": [{"type": "Available"}], "openstack": {"vlanID": 4}});
        assert_eq!(merge_difference(&status, &status.clone()), None);
    }

    /// Proves: OWN-1
    #[test]
    fn a_patch_names_only_the_fields_that_differ() {
        let old = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1], "f": 7});
        let new = json!({"a": 1, "b": {"c": 2, "d": 4}, "e": [1, 2]});
        assert_eq!(merge_difference(&old, &new), Some(json!({"b": {"d": 4}, "e": [1, 2], "f": null})));
    }
}
