//! Create and replace, and what every change of a stored object goes through.

use std::sync::Arc;

use serde_json::{Value, json};

use super::options::WriteOptions;
use super::{Answer, Target, fields, input, served, stored};
use crate::builtin;
use crate::cluster::{Cluster, stamp};
use crate::definition;
use crate::meta;
use crate::object::{self, Object};
use crate::resource::{Flavour, Resource};
use crate::status::{Cause, Status, field};
use crate::store::Refused;

/// What etcd takes in one request.
const OBJECT_MAX: usize = 1_536 * 1024;
/// A change that loses the race against others this often is given up.
const ATTEMPTS: usize = 64;

/// A request's body.
#[derive(Debug, Clone, Copy)]
pub struct Body<'a> {
    pub content_type: Option<&'a str>,
    pub bytes: &'a [u8],
}

/// POST.
pub fn create(cluster: &Cluster, target: &Target, body: Body<'_>, options: &WriteOptions) -> Result<Answer, Status> {
    let input = input::object(&target.resource, body.content_type, body.bytes, options.validation)?;
    let mut value = input.value;
    let name = (!target.name.is_empty()).then_some(target.name.as_str());
    input::check_place(&mut value, target.resource.namespaced, &target.namespace, name)?;
    admit(cluster, &target.resource, &target.namespace, object::meta_str(&value, "name"))?;
    warned(insert(cluster, &target.resource, value, options, None), input.warnings)
}

/// Whether objects may be created here at all.
pub fn admit(cluster: &Cluster, resource: &Resource, namespace: &str, name: &str) -> Result<(), Status> {
    if resource.namespaced {
        let Some(found) = cluster.namespace(namespace) else {
            return Err(Status::not_found("", "namespaces", namespace));
        };
        if found.is_deleting() {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let mut status = Status::forbidden(&resource.group, &resource.plural, name, &why);
            if let Some(details) = &mut status.details {
                details.causes.push(Cause {
                    reason: "NamespaceTerminating".into(),
                    message: format!("namespace {namespace} is being terminated"),
                    field: "metadata.namespace".into(),
                });
            }
            return Err(status);
        }
    }
    if resource.custom().is_some_and(|c| c.terminating) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(&resource.group, &resource.plural, name, why));
    }
    Ok(())
}

/// Stores a new object: `value` is in the requested version, decoded and defaulted. `managed`: already tracked by an apply.
pub fn insert(
    cluster: &Cluster,
    resource: &Resource,
    mut value: Value,
    options: &WriteOptions,
    applied: Option<()>,
) -> Result<Answer, Status> {
    if !object::meta_str(&value, "resourceVersion").is_empty() && applied.is_none() {
        return Err(Status::internal("resourceVersion should not be set on objects to be created"));
    }
    for key in
        ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"]
    {
        object::remove_meta(&mut value, key);
    }
    let prefix = object::meta_str(&value, "generateName").to_owned();
    if object::meta_str(&value, "name").is_empty() && !prefix.is_empty() {
        object::set_meta(&mut value, "name", json!(meta::generated_name(&prefix)));
    }
    stamp(&mut value);
    if resource.has_generation() {
        object::set_meta(&mut value, "generation", json!(1));
    }
    match &resource.flavour {
        Flavour::Custom(_) if resource.status => drop_key(&mut value, "status"),
        Flavour::Definition => definition::prepare_create(&mut value),
        flavour => builtin::prepare_create(flavour, &mut value),
    }
    let warnings = meta::finalizer_warnings(&value);
    let name = object::meta_str(&value, "name").to_owned();
    validate(resource, &value, None, &name)?;
    if applied.is_none() {
        value = fields::track(resource, None, value, options, None);
    }
    check_size(&value)?;
    let key = crate::store::Key::of(&value);
    if options.dry_run {
        if let Some(found) = cluster.store.get(&resource.table, &key) {
            return Err(Status::already_exists(&resource.group, &resource.plural, &name, found.is_deleting()));
        }
        return Ok(Answer::of(201, value, false).warn(warnings));
    }
    let created = cluster.store.create(&resource.table, resource.order, stored(resource, value));
    let created = created.map_err(|refused| refusal(resource, &name, &refused))?;
    after_write(cluster, resource, &created);
    Ok(Answer::stored(201, resource, &created, true).warn(warnings))
}

fn drop_key(value: &mut Value, key: &str) {
    if let Some(map) = value.as_object_mut() {
        map.remove(key);
    }
}

fn refusal(resource: &Resource, name: &str, refused: &Refused) -> Status {
    match refused {
        Refused::Exists { being_deleted } => {
            Status::already_exists(&resource.group, &resource.plural, name, *being_deleted)
        }
        Refused::Moved => Status::modified(&resource.group, &resource.plural, name),
        Refused::Journal(why) => Status::internal(format!("the change could not be stored: {why}")),
    }
}

fn check_size(value: &Value) -> Result<(), Status> {
    // Counted roughly first: encoding every object twice would be waste.
    fn rough(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len() + 2,
            Value::Array(items) => items.iter().map(rough).sum::<usize>() + 2,
            Value::Object(map) => map.iter().map(|(k, v)| k.len() + 4 + rough(v)).sum::<usize>() + 2,
            _ => 5,
        }
    }
    if rough(value) > OBJECT_MAX { Err(Status::internal("etcdserver: request is too large")) } else { Ok(()) }
}

/// What a successful write sets off before it is answered.
fn after_write(cluster: &Cluster, resource: &Resource, object: &Object) {
    match resource.flavour {
        Flavour::Definition => cluster.sync_definitions(),
        Flavour::Namespace if !object.is_deleting() => cluster.furnish_namespace(object.name()),
        _ => {}
    }
}

fn validate(resource: &Resource, value: &Value, old: Option<&Value>, name: &str) -> Result<(), Status> {
    let mut causes = meta::validate(value, resource.name_rule);
    if let Some(old) = old {
        let changed = meta::validate_update(value, old);
        if resource.is_custom() {
            // The real server checks a custom resource's metadata twice on update, and says so twice.
            causes.extend(changed.clone());
        }
        causes.extend(changed);
    }
    let causes = match &resource.flavour {
        Flavour::Custom(custom) => custom.schema.validate_after(value, old, causes),
        Flavour::Definition => {
            causes.extend(definition::validate(value, old));
            causes
        }
        Flavour::Event { modern: true } => {
            let (mut core, mut old_core) = (value.clone(), old.cloned());
            builtin::to_core(&mut core);
            if let Some(old) = &mut old_core {
                builtin::to_core(old);
            }
            causes.extend(builtin::validate(&resource.flavour, &core, old_core.as_ref()));
            causes
        }
        flavour => {
            causes.extend(builtin::validate(flavour, value, old));
            causes
        }
    };
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(resource.storage_group(), &resource.kind, name, causes))
    }
}

/// How an update came to be: what differs between PUT and PATCH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Put,
    Patch,
    /// The field managers have already been written.
    Apply,
}

/// PUT.
pub fn update(cluster: &Cluster, target: &Target, body: Body<'_>, options: &WriteOptions) -> Result<Answer, Status> {
    let input = input::object(&target.resource, body.content_type, body.bytes, options.validation)?;
    let mut value = input.value;
    input::check_place(&mut value, target.resource.namespaced, &target.namespace, Some(&target.name))?;
    warned(change(cluster, target, options, How::Put, |_| Ok(value.clone())), input.warnings)
}

/// Warnings go out with a failure, too.
pub fn warned(outcome: Result<Answer, Status>, mut warnings: Vec<String>) -> Result<Answer, Status> {
    match outcome {
        Ok(answer) => Ok(answer.warn(warnings)),
        Err(mut status) => {
            warnings.append(&mut status.warnings);
            status.warnings = warnings;
            Err(status)
        }
    }
}

/// Changes a stored object: computes the new one from the current (in the requested version), and tries again when it has moved meanwhile.
pub fn change(
    cluster: &Cluster,
    target: &Target,
    options: &WriteOptions,
    how: How,
    mut compute: impl FnMut(&Value) -> Result<Value, Status>,
) -> Result<Answer, Status> {
    let resource = &target.resource;
    for _ in 0..ATTEMPTS {
        let Some(current) = cluster.store.get(&resource.table, &target.key()) else {
            return Err(Status::not_found(&resource.group, &resource.plural, &target.name));
        };
        let old = served(resource, current.value());
        let new = compute(&old)?;
        if let Some(answer) = replace(cluster, target, options, how, &current, &old, new)? {
            return Ok(answer);
        }
    }
    Err(Status::modified(&resource.group, &resource.plural, &target.name))
}

/// One attempt; `None`: somebody else was faster, and the client did not say which version it meant.
fn replace(
    cluster: &Cluster,
    target: &Target,
    options: &WriteOptions,
    how: How,
    current: &Arc<Object>,
    old: &Value,
    mut new: Value,
) -> Result<Option<Answer>, Status> {
    let resource = &target.resource;
    check_identity(target, how, old, &new)?;
    check_version(target, how, current, &new)?;
    prepare(target, old, &mut new);
    let warnings = meta::finalizer_warnings(&new);
    validate(resource, &new, Some(old), &target.name)?;
    if how != How::Apply {
        new = fields::track(resource, Some(old), new, options, target.subresource());
    }
    object::set_meta(&mut new, "resourceVersion", json!(current.revision().to_string()));
    let done = object::is_deleting(&new) && object::finalizers(&new).is_empty() && finalized(resource, &new);
    if new == *old && !done {
        return Ok(Some(Answer::stored(200, resource, current, false).warn(warnings)));
    }
    check_size(&new)?;
    if options.dry_run {
        return Ok(Some(Answer::of(200, new, false).warn(warnings)));
    }
    if done {
        return match cluster.store.delete(&resource.table, &target.key(), current.revision()) {
            Ok(gone) => {
                after_write(cluster, resource, &gone);
                Ok(Some(Answer::of(200, new, true).warn(warnings)))
            }
            Err(Refused::Moved) => Ok(None),
            Err(refused) => Err(refusal(resource, &target.name, &refused)),
        };
    }
    match cluster.store.update(&resource.table, current.revision(), stored(resource, new)) {
        Ok(object) => {
            after_write(cluster, resource, &object);
            Ok(Some(Answer::stored(200, resource, &object, true).warn(warnings)))
        }
        Err(Refused::Moved) => Ok(None),
        Err(refused) => Err(refusal(resource, &target.name, &refused)),
    }
}

/// A namespace goes when its own kind of finalizers is gone, too.
fn finalized(resource: &Resource, value: &Value) -> bool {
    let pending = || value.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty());
    !matches!(resource.flavour, Flavour::Namespace) || !pending()
}

fn check_identity(target: &Target, how: How, old: &Value, new: &Value) -> Result<(), Status> {
    let (uid, have) = (object::meta_str(new, "uid"), object::meta_str(old, "uid"));
    if how == How::Patch || uid.is_empty() || uid == have {
        return Ok(());
    }
    let resource = &target.resource;
    let place =
        if target.namespace.is_empty() { target.name.clone() } else { format!("{}/{}", target.namespace, target.name) };
    let group = if resource.group.is_empty() { String::new() } else { format!("{}/", resource.group) };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{place}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {have}",
        resource.plural
    );
    Err(Status::conflict(&resource.group, &resource.plural, &target.name, &why))
}

fn check_version(target: &Target, how: How, current: &Object, new: &Value) -> Result<(), Status> {
    let resource = &target.resource;
    let text = object::meta_str(new, "resourceVersion");
    let wanted = if text.is_empty() {
        0
    } else {
        text.parse::<u64>()
            .map_err(|_| Status::internal(format!("strconv.ParseUint: parsing {text:?}: invalid syntax")))?
    };
    if wanted == 0 {
        if how == How::Put && resource.needs_resource_version() {
            let cause = field::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
            return Err(Status::invalid(&resource.group, &resource.plural, &target.name, vec![cause]));
        }
        return Ok(());
    }
    if wanted == current.revision() {
        Ok(())
    } else {
        Err(Status::modified(&resource.group, &resource.plural, &target.name))
    }
}

/// Puts back what this write may not change, and counts the generation.
fn prepare(target: &Target, old: &Value, new: &mut Value) {
    let resource = &target.resource;
    let from_old = |new: &mut Value, key: &str| match object::meta(old).and_then(|m| m.get(key)) {
        Some(found) => object::set_meta(new, key, found.clone()),
        None => object::remove_meta(new, key),
    };
    match (target.subresource(), &resource.flavour) {
        (Some("status"), Flavour::Custom(_)) => {
            // Only the status, and the record of who wrote it, come from the request.
            let managed = object::meta(new).and_then(|m| m.get("managedFields")).cloned();
            let mut kept = old.clone();
            if let Some(map) = kept.as_object_mut() {
                match new.get("status") {
                    Some(status) => map.insert("status".into(), status.clone()),
                    None => map.remove("status"),
                };
            }
            *new = kept;
            match managed {
                Some(managed) => object::set_meta(new, "managedFields", managed),
                None => object::remove_meta(new, "managedFields"),
            }
        }
        (Some("status"), _) => copy_key(old, new, "spec"),
        (Some(_), _) | (None, Flavour::Namespace) => {}
        (None, _) if resource.status => copy_key(old, new, "status"),
        (None, _) => {}
    }
    builtin::prepare_update(&resource.flavour, new, old, target.subresource());
    if matches!(resource.flavour, Flavour::Definition) && target.subresource().is_none() {
        definition::prepare_update(new);
    }
    for key in ["creationTimestamp", "generation"] {
        from_old(new, key);
    }
    if object::meta_str(new, "uid").is_empty() {
        from_old(new, "uid");
    }
    if object::is_deleting(old) || object::meta(new).is_some_and(|m| !m.contains_key("deletionTimestamp")) {
        from_old(new, "deletionTimestamp");
        from_old(new, "deletionGracePeriodSeconds");
    }
    if resource.has_generation() && content_changed(resource, old, new) {
        let generation = object::meta(old).and_then(|m| m.get("generation")).and_then(Value::as_i64).unwrap_or(0);
        object::set_meta(new, "generation", json!(generation + 1));
    }
}

fn copy_key(old: &Value, new: &mut Value, key: &str) {
    if let Some(map) = new.as_object_mut() {
        match old.get(key) {
            Some(found) => map.insert(key.into(), found.clone()),
            None => map.remove(key),
        };
    }
}

/// Whether anything but metadata (and status, where it is a subresource) differs.
fn content_changed(resource: &Resource, old: &Value, new: &Value) -> bool {
    let ignored = |key: &str| key == "metadata" || (key == "status" && resource.status);
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    let keys = old.keys().chain(new.keys().filter(|k| !old.contains_key(*k)));
    keys.filter(|k| !ignored(k)).any(|k| old.get(k) != new.get(k))
}
