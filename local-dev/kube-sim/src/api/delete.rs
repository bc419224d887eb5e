//! DELETE of an object and of a collection, and what the garbage collector shares with them.

use serde_json::{Value, json};

use super::options::{Query, dry_run};
use super::read::{ListOptions, Selectors};
use super::write::Body;
use super::{Answer, Target, served};
use crate::cluster::{Cluster, FIXED_NAMESPACES};
use crate::decode;
use crate::definition;
use crate::object::{self, Object};
use crate::resource::{Flavour, Resource};
use crate::status::{Status, field};
use crate::store::{Key, Refused};

/// What happens to dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Foreground,
    Background,
    Orphan,
}

/// `DeleteOptions`, from the body or the query.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
}

impl DeleteOptions {
    pub fn parse(query: &Query, body: Body<'_>) -> Result<DeleteOptions, Status> {
        let decoded = if body.bytes.is_empty() { json!({}) } else { decode_options(body)? };
        let mut causes = Vec::new();
        let text = |key: &str| decoded.get(key).and_then(Value::as_str).map(str::to_owned);
        let policy = text("propagationPolicy").or_else(|| query.text("propagationPolicy").map(str::to_owned));
        let orphan = decoded.get("orphanDependents").and_then(Value::as_bool);
        if let (Some(policy), Some(_)) = (&policy, orphan) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(field::invalid("propagationPolicy", &json!(policy), detail));
        }
        let propagation = match policy.as_deref() {
            None => orphan.map(|o| if o { Propagation::Orphan } else { Propagation::Background }),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                causes.push(field::not_supported("propagationPolicy", &format!("{other:?}"), &supported));
                None
            }
        };
        let in_body = decoded.get("dryRun").and_then(Value::as_array).and_then(|a| a.first()).and_then(Value::as_str);
        let dry_run = dry_run(in_body.or_else(|| query.get("dryRun")), &mut causes);
        if !causes.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", causes));
        }
        let precondition =
            |key: &str| decoded.pointer(&format!("/preconditions/{key}")).and_then(Value::as_str).map(str::to_owned);
        Ok(DeleteOptions {
            propagation,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            dry_run,
        })
    }
}

fn decode_options(body: Body<'_>) -> Result<Value, Status> {
    let decoded = decode::object(body.content_type, body.bytes).map_err(|error| match error {
        decode::Error::MediaType | decode::Error::UnknownProtobuf(_) => {
            Status::unsupported_media_type("application/json, application/yaml, application/vnd.kubernetes.protobuf")
        }
        decode::Error::Syntax(why) => {
            Status::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
        }
    })?;
    let value = decoded.value;
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    if !value.is_object() || (!kind.is_empty() && kind != "DeleteOptions") {
        let version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        return Err(Status::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    Ok(value)
}

/// How a deletion went.
#[derive(Debug)]
pub enum Deleted {
    /// Gone; the last state.
    Now(Value),
    /// Waits for its finalizers.
    Waiting { object: std::sync::Arc<Object>, changed: bool },
    /// What a dry run would leave.
    Dry(Value),
}

/// DELETE of one object.
pub fn delete(cluster: &Cluster, target: &Target, options: &DeleteOptions) -> Result<Answer, Status> {
    let resource = &target.resource;
    let outcome = remove(cluster, resource, &target.key(), options)?;
    let keeps_object = matches!(resource.flavour, Flavour::ServiceAccount | Flavour::Namespace);
    Ok(match outcome {
        Deleted::Waiting { object, changed } => Answer::stored(200, resource, &object, changed),
        Deleted::Now(value) | Deleted::Dry(value) if keeps_object => {
            Answer::of(200, served(resource, &value), !options.dry_run)
        }
        Deleted::Dry(value) if object::is_deleting(&value) => Answer::of(200, served(resource, &value), false),
        Deleted::Now(value) | Deleted::Dry(value) => {
            let status =
                Status::deleted(&resource.group, &resource.plural, &target.name, object::meta_str(&value, "uid"));
            let json = serde_json::from_str(&status.to_json()).unwrap_or(Value::Null);
            let mut answer = Answer::of(200, json, !options.dry_run);
            answer.encoded = Some(format!("{}\n", status.to_json()).into());
            answer
        }
    })
}

/// Deletes, or marks as being deleted.
pub fn remove(cluster: &Cluster, resource: &Resource, key: &Key, options: &DeleteOptions) -> Result<Deleted, Status> {
    if matches!(resource.flavour, Flavour::Namespace) && FIXED_NAMESPACES.contains(&key.name.as_str()) {
        return Err(Status::forbidden("", "namespaces", &key.name, "this namespace may not be deleted"));
    }
    for _ in 0..64 {
        let Some(current) = cluster.store.get(&resource.table, key) else {
            return Err(Status::not_found(&resource.group, &resource.plural, &key.name));
        };
        preconditions(resource, &current, options)?;
        let marked = mark(resource, &current, options);
        let value = marked.as_ref().unwrap_or(current.value());
        let immediate = !matches!(resource.flavour, Flavour::Namespace | Flavour::Definition)
            && object::finalizers(value).is_empty();
        if options.dry_run {
            return Ok(Deleted::Dry(if immediate { current.value().clone() } else { value.clone() }));
        }
        let outcome = if immediate {
            cluster
                .store
                .delete(&resource.table, key, current.revision())
                .map(|gone| Deleted::Now(gone.value().clone()))
        } else if let Some(marked) = marked {
            cluster
                .store
                .update(&resource.table, current.revision(), marked)
                .map(|object| Deleted::Waiting { object, changed: true })
        } else {
            Ok(Deleted::Waiting { object: current, changed: false })
        };
        match outcome {
            Ok(outcome) => {
                match resource.flavour {
                    Flavour::Namespace => cluster.note_terminating(&key.name),
                    Flavour::Definition => cluster.sync_definitions(),
                    _ => {}
                }
                return Ok(outcome);
            }
            Err(Refused::Moved) => {}
            Err(Refused::Exists { .. }) => return Err(Status::internal("a deletion found its object in the way")),
            Err(Refused::Journal(why)) => {
                return Err(Status::internal(format!("the change could not be stored: {why}")));
            }
        }
    }
    Err(Status::modified(&resource.group, &resource.plural, &key.name))
}

fn preconditions(resource: &Resource, current: &Object, options: &DeleteOptions) -> Result<(), Status> {
    let refuse = |why: String| Err(Status::conflict(&resource.group, &resource.kind, current.name(), &why));
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current.uid()) {
        return refuse(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            current.uid()
        ));
    }
    let revision = current.revision().to_string();
    if let Some(wanted) = options.resource_version.as_deref().filter(|v| *v != revision) {
        return refuse(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        ));
    }
    Ok(())
}

/// The object with the marks of its deletion; `None` if it has them already.
fn mark(resource: &Resource, current: &Object, options: &DeleteOptions) -> Option<Value> {
    const FOREGROUND: &str = "foregroundDeletion";
    const ORPHAN: &str = "orphan";
    let mut value = current.value().clone();
    let mut finalizers: Vec<String> = object::finalizers(&value).into_iter().map(str::to_owned).collect();
    if let Some(policy) = options.propagation {
        finalizers.retain(|f| f != FOREGROUND && f != ORPHAN);
        match policy {
            Propagation::Foreground => finalizers.push(FOREGROUND.into()),
            Propagation::Orphan => finalizers.push(ORPHAN.into()),
            Propagation::Background => {}
        }
    }
    let definition = matches!(resource.flavour, Flavour::Definition);
    if definition && !finalizers.iter().any(|f| f == definition::FINALIZER) {
        finalizers.push(definition::FINALIZER.into());
    }
    if finalizers.is_empty() {
        object::remove_meta(&mut value, "finalizers");
    } else {
        object::set_meta(&mut value, "finalizers", json!(finalizers));
    }
    if !object::is_deleting(&value) {
        object::set_meta(&mut value, "deletionTimestamp", json!(object::now()));
        if !definition && !matches!(resource.flavour, Flavour::Namespace) {
            object::set_meta(&mut value, "deletionGracePeriodSeconds", json!(0));
        }
        if let (true, Some(generation)) =
            (resource.is_custom(), object::meta(&value).and_then(|m| m.get("generation")).and_then(Value::as_i64))
        {
            object::set_meta(&mut value, "generation", json!(generation + 1));
        }
        if matches!(resource.flavour, Flavour::Namespace) {
            value["status"]["phase"] = json!("Terminating");
        }
    }
    (value != *current.value()).then_some(value)
}

/// DELETE of a collection: the objects as they were before.
pub fn delete_collection(
    cluster: &Cluster,
    target: &Target,
    query: &Query,
    options: &DeleteOptions,
) -> Result<(super::read::List, bool), Status> {
    let resource = &target.resource;
    let selectors = Selectors::parse(resource, query)?;
    let mut list = super::read::list(cluster, target, &ListOptions::everything(), &selectors)?;
    let mut changed = false;
    for object in &list.items {
        match remove(cluster, resource, &Key::of(object.value()), options) {
            Ok(Deleted::Now(_) | Deleted::Waiting { changed: true, .. }) => changed = true,
            Ok(_) => {}
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    list.remaining = None;
    Ok((list, changed))
}
