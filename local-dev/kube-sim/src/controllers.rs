//! The controllers that a cluster cannot do without: garbage collection by owner references, and the end of namespaces and definitions.
//!
//! One task, woken by every write. It works from the store's present state only, so nothing is lost when it is late or the process
//! starts anew.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::delete::{DeleteOptions, Propagation, remove};
use crate::cluster::{Cluster, definitions_table, namespaces_table};
use crate::definition;
use crate::object::{self, Object, Owner};
use crate::resource::Resource;
use crate::store::{Key, Refused, TableName, Work};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Runs until the shutdown.
pub async fn run(cluster: Arc<Cluster>) {
    loop {
        step(&cluster);
        tokio::select! {
            () = cluster.store.work_ready() => {}
            () = cluster.shutdown.cancelled() => return,
        }
        // Lets the writer that woke us finish what it is about, and a burst gather.
        tokio::task::yield_now().await;
    }
}

/// Does everything that can be done now.
fn step(cluster: &Cluster) {
    while let Some(work) = cluster.store.take_work() {
        match work {
            Work::Gone { uid, owners } => {
                for (table, key) in cluster.store.dependents(&uid) {
                    check(cluster, &table, &key);
                }
                for owner in owners {
                    if let Some((table, key)) = cluster.store.locate(&owner) {
                        check(cluster, &table, &key);
                    }
                }
            }
            Work::Check { table, key } => check(cluster, &table, &key),
        }
    }
    for what in cluster.terminating() {
        match what.split_once('/') {
            Some(("ns", name)) => end_namespace(cluster, &what, name),
            Some((_, name)) => end_definition(cluster, &what, name),
            None => {}
        }
    }
}

fn background(object: &Object) -> DeleteOptions {
    DeleteOptions {
        propagation: Some(Propagation::Background),
        uid: Some(object.uid().to_owned()),
        ..DeleteOptions::default()
    }
}

fn resource_of(cluster: &Cluster, table: &TableName) -> Option<Arc<Resource>> {
    cluster.registry().by_table(table).cloned()
}

/// Changes the stored form of an object, trying again when it moves.
fn edit(cluster: &Cluster, table: &TableName, key: &Key, uid: &str, change: impl Fn(&mut Value)) {
    while let Some(current) = cluster.store.get(table, key).filter(|o| o.uid() == uid) {
        let mut value = current.value().clone();
        change(&mut value);
        if value == *current.value() {
            return;
        }
        // A namespace goes in its own way, when its content has gone.
        let ended =
            *table != namespaces_table() && object::is_deleting(&value) && object::finalizers(&value).is_empty();
        let outcome = if ended {
            cluster.store.delete(table, key, current.revision())
        } else {
            cluster.store.update(table, current.revision(), value)
        };
        match outcome {
            Err(Refused::Moved) => {}
            Err(error) => {
                tracing::error!(?error, ?table, ?key, "the garbage collector could not write");
                return;
            }
            Ok(_) => return,
        }
    }
}

fn remove_finalizer(value: &mut Value, name: &str) {
    let left: Vec<String> = object::finalizers(value).into_iter().filter(|f| *f != name).map(str::to_owned).collect();
    if left.is_empty() {
        object::remove_meta(value, "finalizers");
    } else {
        object::set_meta(value, "finalizers", json!(left));
    }
}

fn drop_owners(value: &mut Value, uids: &[String]) {
    let Some(meta) = object::meta_mut(value) else { return };
    let Some(list) = meta.get_mut("ownerReferences").and_then(Value::as_array_mut) else { return };
    list.retain(|o| !o.get("uid").and_then(Value::as_str).is_some_and(|u| uids.iter().any(|gone| gone == u)));
    if list.is_empty() {
        meta.remove("ownerReferences");
    }
}

fn check(cluster: &Cluster, table: &TableName, key: &Key) {
    let Some(object) = cluster.store.get(table, key) else { return };
    if object.is_deleting() {
        let finalizers = object.finalizers();
        if finalizers.contains(&ORPHAN) {
            orphan_dependents(cluster, &object);
            edit(cluster, table, key, object.uid(), |value| remove_finalizer(value, ORPHAN));
        } else if finalizers.contains(&FOREGROUND) && !blocked(cluster, &object) {
            edit(cluster, table, key, object.uid(), |value| remove_finalizer(value, FOREGROUND));
        }
        return;
    }
    if !object.owners().is_empty() {
        follow_owners(cluster, table, key, &object);
    }
}

fn orphan_dependents(cluster: &Cluster, owner: &Object) {
    let uid = owner.uid().to_owned();
    for (table, key) in cluster.store.dependents(&uid) {
        let Some(dependent) = cluster.store.get(&table, &key) else { continue };
        edit(cluster, &table, &key, dependent.uid(), |value| drop_owners(value, std::slice::from_ref(&uid)));
    }
}

/// Deletes what depends on an object that is being deleted in the foreground; whether it has to wait for any of it.
fn blocked(cluster: &Cluster, owner: &Object) -> bool {
    let mut waiting = false;
    for (table, key) in cluster.store.dependents(owner.uid()) {
        let Some(dependent) = cluster.store.get(&table, &key) else { continue };
        check(cluster, &table, &key);
        let alive = cluster.store.get(&table, &key).filter(|d| d.uid() == dependent.uid());
        waiting |= alive.is_some_and(|d| d.owners().iter().any(|o| o.uid == owner.uid() && o.block_deletion));
    }
    waiting
}

enum OwnerState {
    Solid,
    /// Being deleted in the foreground: its dependents go first.
    Waiting,
    Dangling,
}

fn state_of(cluster: &Cluster, dependent: &Object, owner: &Owner<'_>) -> OwnerState {
    let found = cluster.store.locate(owner.uid).and_then(|(table, key)| cluster.store.get(&table, &key));
    match found {
        Some(found) if found.namespace().is_empty() || found.namespace() == dependent.namespace() => {
            if found.is_deleting() && found.finalizers().contains(&FOREGROUND) {
                OwnerState::Waiting
            } else {
                OwnerState::Solid
            }
        }
        _ => OwnerState::Dangling,
    }
}

fn follow_owners(cluster: &Cluster, table: &TableName, key: &Key, object: &Object) {
    let (mut solid, mut waiting, mut lost) = (0, 0, Vec::new());
    for owner in object.owners() {
        match state_of(cluster, object, &owner) {
            OwnerState::Solid => solid += 1,
            OwnerState::Waiting => {
                waiting += 1;
                lost.push(owner.uid.to_owned());
            }
            OwnerState::Dangling => lost.push(owner.uid.to_owned()),
        }
    }
    if solid > 0 {
        if !lost.is_empty() {
            edit(cluster, table, key, object.uid(), |value| drop_owners(value, &lost));
        }
        return;
    }
    let Some(resource) = resource_of(cluster, table) else { return };
    let mut options = background(object);
    if waiting > 0 && !cluster.store.dependents(object.uid()).is_empty() {
        options.propagation = Some(Propagation::Foreground);
    } else if object.finalizers().contains(&ORPHAN) {
        options.propagation = Some(Propagation::Orphan);
    }
    if let Err(status) = remove(cluster, &resource, key, &options)
        && !matches!(status.code, 404 | 409)
    {
        tracing::warn!(message = status.message, "the garbage collector could not delete");
    }
}

/// Deletes all objects of a table (in one namespace, if given); what is left.
fn clear(cluster: &Cluster, resource: &Resource, namespace: Option<&str>) -> usize {
    for object in cluster.store.list(&resource.table, namespace).items.iter().filter(|o| !o.is_deleting()) {
        if let Err(status) = remove(cluster, resource, &Key::of(object.value()), &background(object))
            && !matches!(status.code, 404 | 409)
        {
            tracing::warn!(message = status.message, "could not delete");
        }
    }
    cluster.store.list(&resource.table, namespace).items.len()
}

fn end_namespace(cluster: &Cluster, what: &str, name: &str) {
    let (table, key) = (namespaces_table(), Key::new("", name));
    let Some(namespace) = cluster.store.get(&table, &key).filter(|n| n.is_deleting()) else {
        cluster.forget_terminating(what);
        return;
    };
    let left: Vec<(Arc<Resource>, usize)> = cluster
        .tables()
        .into_iter()
        .filter(|r| r.namespaced)
        .map(|r| {
            let count = clear(cluster, &r, Some(name));
            (r, count)
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    if left.is_empty() {
        // Its own finalizers hold it, as those of any object would.
        if namespace.finalizers().is_empty() && cluster.store.delete(&table, &key, namespace.revision()).is_ok() {
            cluster.forget_terminating(what);
        }
        return;
    }
    edit(cluster, &table, &key, namespace.uid(), |value| describe_rest(cluster, name, &left, value));
}

fn describe_rest(cluster: &Cluster, name: &str, left: &[(Arc<Resource>, usize)], value: &mut Value) {
    let mut finalizers: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for (resource, _) in left {
        for object in cluster.store.list(&resource.table, Some(name)).items {
            for finalizer in object.finalizers() {
                *finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }
    let instances: Vec<String> =
        left.iter().map(|(r, n)| format!("{} has {n} resource instances", r.qualified())).collect();
    let holders: Vec<String> = finalizers.iter().map(|(f, n)| format!("{f} in {n} resource instances")).collect();
    for (kind, status, reason, message) in [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", instances.join(", ")),
        ),
        (
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {}", holders.join(", ")),
        ),
    ] {
        definition::set_condition(value, kind, status, reason, &message);
    }
}

fn end_definition(cluster: &Cluster, what: &str, name: &str) {
    let (table, key) = (definitions_table(), Key::new("", name));
    let Some(found) = cluster.store.get(&table, &key).filter(|d| d.is_deleting()) else {
        cluster.forget_terminating(what);
        return;
    };
    if found.finalizers().contains(&definition::FINALIZER) {
        edit(cluster, &table, &key, found.uid(), |value| {
            let message = "CustomResource deletion is in progress";
            definition::set_condition(value, "Terminating", "True", "InstanceDeletionInProgress", message);
        });
        let instances: TableName = name.into();
        let left = match resource_of(cluster, &instances) {
            Some(resource) => clear(cluster, &resource, None),
            None => 0,
        };
        if left > 0 {
            return;
        }
        edit(cluster, &table, &key, found.uid(), |value| remove_finalizer(value, definition::FINALIZER));
    }
    if cluster.store.get(&table, &key).is_none() {
        cluster.forget_terminating(what);
        cluster.sync_definitions();
    }
}
