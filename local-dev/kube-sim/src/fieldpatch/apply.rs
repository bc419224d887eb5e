//! Server-side apply, and the ownership that other writes leave.

use super::Writer;
use super::error::{Conflict, Error};
use super::managed::{self, Entry, Operation};
use super::set::FieldSet;
use super::typed::{self, Shape};
use crate::schema::Schema;
use serde_json::{Value, json};

/// What nobody owns: the server's own, and what an object is found by.
const UNOWNED: [&str; 13] = [
    "name",
    "namespace",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "apiVersion",
    "kind",
];

fn owned(mut set: FieldSet, writer: &Writer<'_>) -> FieldSet {
    for name in UNOWNED {
        set.remove(&["f:metadata", &format!("f:{name}")]);
    }
    for name in ["apiVersion", "kind", "metadata"] {
        set.remove(&[&format!("f:{name}")]);
    }
    // Each of the resource and its status subresource leaves the other alone.
    match writer.subresource {
        Some("status") => set.retain(|element| element == "f:status"),
        None if writer.has_status => set.retain(|element| element != "f:status"),
        _ => {}
    }
    set
}

fn without_record(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or("")
}

/// Sets `metadata.managedFields` of `new`, the object that a create, replace or patch is about to store, after defaulting.
///
/// `live` is the stored object of an update. What the writer's request says about `managedFields` is still in `new`: entries as they
/// were read are the base, `[{}]` removes the record, and an object without a record is not tracked until it is applied.
pub fn track_update(schema: &Schema, live: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    if managed::is_reset(new) {
        managed::write(new, Vec::new());
        return;
    }
    let sent = managed::read(new);
    let mut entries = if sent.is_empty() || writer.subresource.is_some() {
        live.map(managed::read).unwrap_or_default()
    } else {
        sent
    };
    if live.is_some() && entries.is_empty() {
        managed::write(new, Vec::new());
        return;
    }
    let zero = typed::zero(kind(new));
    let before = live.map_or(zero, without_record);
    let shape = Shape::of(typed::schema_for(schema, new));
    let changes = typed::compare(shape, &before, &without_record(new));
    let taken = owned(changes.added.union(&changes.modified), writer);
    for entry in &mut entries {
        entry.fields = entry.fields.difference(&taken).difference(&changes.removed);
    }
    if !taken.is_empty() {
        match entries.iter_mut().find(|e| e.is_of(writer, Operation::Update)) {
            Some(entry) => {
                entry.fields = entry.fields.union(&taken);
                writer.time.clone_into(&mut entry.time);
            }
            None => entries.push(Entry::new(writer, Operation::Update, taken)),
        }
    }
    managed::write(new, entries);
}

/// The object after a server-side apply of `applied`, with its `managedFields`; before pruning, defaulting and validation.
///
/// `live` is the stored object, if there is one; what has not changed is returned as it is. `applied` is the decoded request: its
/// `apiVersion` and `kind` have been checked, its name filled in. Errors: [`Error::Untyped`]; [`Error::Conflicts`] unless `force`.
pub fn apply(
    schema: &Schema,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, Error> {
    let shape = Shape::of(typed::schema_for(schema, applied));
    let problems = typed::misfits(shape, applied);
    if !problems.is_empty() {
        return Err(untyped(applied, &problems));
    }
    let applied = relevant(applied, writer);
    let mut entries = live.map(managed::read).unwrap_or_default();
    let old = live.map_or_else(|| json!({}), without_record);
    if live.is_some() && entries.is_empty() {
        let before = Writer { manager: "before-first-apply", subresource: None, has_status: false, ..*writer };
        let all = typed::compare(shape, &typed::zero(kind(&old)), &old).added;
        entries.push(Entry::new(&before, Operation::Update, owned(all, &before)));
    }
    let before = entries.clone();

    let claimed = typed::claimed(shape, &applied);
    let mine = owned(claimed.clone(), writer);
    let last = entries.iter().position(|e| e.is_of(writer, Operation::Apply)).map(|at| entries.remove(at));
    let mut new = typed::merged(shape, &old, &applied);
    if let Some(last) = &last {
        // What this manager applied before and now leaves out goes, unless someone else has it too.
        let kept = entries.iter().fold(claimed, |all, entry| all.union(&entry.fields)).with_parents();
        let mut gone = last.fields.with_parents().difference(&kept);
        gone.remove(&["f:metadata"]);
        new = typed::without(shape, &new, &gone);
    }

    let changes = typed::compare(shape, &old, &new);
    let taken = owned(changes.added.union(&changes.modified), writer);
    let mut conflicts = Vec::new();
    for entry in &mut entries {
        let contested = entry.fields.intersection(&taken);
        conflicts.extend(contested.paths().into_iter().map(|field| Conflict { manager: entry.shown(), field }));
        entry.fields = entry.fields.difference(&contested).difference(&changes.removed);
    }
    if !force && !conflicts.is_empty() {
        conflicts.sort_by(|a, b| a.manager.cmp(&b.manager));
        return Err(Error::Conflicts(conflicts));
    }
    let mut entry = Entry::new(writer, Operation::Apply, mine);
    if let Some(last) = last {
        let unchanged = last.fields == entry.fields && last.api_version == entry.api_version;
        if unchanged && new == old && entries.iter().all(|e| before.contains(e)) {
            entry.time = last.time;
        }
    }
    entries.push(entry);
    if !new.get("metadata").is_some_and(Value::is_object) {
        new["metadata"] = json!({});
    }
    managed::write(&mut new, entries);
    Ok(new)
}

/// What an apply may say: on the status subresource only status, elsewhere all but status.
fn relevant(applied: &Value, writer: &Writer<'_>) -> Value {
    let mut applied = without_record(applied);
    let Some(members) = applied.as_object_mut() else { return applied };
    match writer.subresource {
        Some("status") => {
            members.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
            if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|name, _| UNOWNED.contains(&name.as_str()));
            }
        }
        None if writer.has_status => {
            members.remove("status");
        }
        _ => {}
    }
    applied
}

fn untyped(applied: &Value, problems: &[String]) -> Error {
    let text = |pointer: &str| applied.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let object = format!(
        "{}/{}; {}, Kind={}",
        text("/metadata/namespace"),
        text("/metadata/name"),
        text("/apiVersion"),
        text("/kind")
    );
    let problem = match problems {
        [only] => only.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    Error::Untyped { object, problem }
}
