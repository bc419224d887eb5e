//! Custom resource definitions: their defaults, their conditions, and the resources that come of them.
//!
//! What the real server's controllers do a few milliseconds after a write is done here in the writing request, before it is answered:
//! the conditions are set (two events: names accepted, then established), and the resource is served at once. With a readiness delay the
//! resource answers 429 for a while first, as the real server's does.

mod validate;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

pub use validate::validate;

use crate::jsonpath::JsonPath;
use crate::meta::NameRule;
use crate::object::{self, Object};
use crate::openapi;
use crate::resource::{CUSTOM_VERBS, Column, Custom, Flavour, Resource};
use crate::schema::Schema;
use crate::wire::Order;

/// The finalizer that keeps a definition until its instances are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn strings(value: &Value, pointer: &str) -> Vec<String> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn versions(value: &Value) -> &[Value] {
    value.pointer("/spec/versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Fills in the defaults of a definition.
pub fn default(value: &mut Value) {
    let kind = text(value, "/spec/names/kind").to_owned();
    let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        if names.get("singular").and_then(Value::as_str).is_none_or(str::is_empty) {
            names.insert("singular".into(), Value::String(kind.to_lowercase()));
        }
        if names.get("listKind").and_then(Value::as_str).is_none_or(str::is_empty) {
            names.insert("listKind".into(), Value::String(format!("{kind}List")));
        }
    }
}

/// The status of a new definition.
pub fn prepare_create(value: &mut Value) {
    let stored: Vec<&str> = versions(value)
        .iter()
        .filter(|v| v.get("storage") == Some(&Value::Bool(true)))
        .map(|v| text(v, "/name"))
        .collect();
    let stored = if stored.is_empty() { Value::Null } else { json!(stored) };
    let status = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
    if let Some(map) = value.as_object_mut() {
        map.insert("status".into(), status);
    }
}

/// Notes a changed storage version among the stored ones.
pub fn prepare_update(value: &mut Value) {
    let storage: Vec<String> = versions(value)
        .iter()
        .filter(|v| v.get("storage") == Some(&Value::Bool(true)))
        .map(|v| text(v, "/name").to_owned())
        .collect();
    if let Some(stored) = value.pointer_mut("/status/storedVersions").and_then(Value::as_array_mut) {
        for name in storage {
            if !stored.iter().any(|s| s.as_str() == Some(&name)) {
                stored.push(Value::String(name));
            }
        }
    }
}

pub fn condition<'a>(value: &'a Value, kind: &str) -> Option<&'a Value> {
    let list = value.pointer("/status/conditions").and_then(Value::as_array)?;
    list.iter().find(|c| c.get("type").and_then(Value::as_str) == Some(kind))
}

fn is_true(value: &Value, kind: &str) -> bool {
    condition(value, kind).and_then(|c| c.get("status")).and_then(Value::as_str) == Some("True")
}

/// Sets a condition; the transition time changes with the status only. Answers whether anything changed.
pub fn set_condition(value: &mut Value, kind: &str, status: &str, reason: &str, message: &str) -> bool {
    let mut entry = json!({"type": kind, "status": status, "lastTransitionTime": object::now(), "reason": reason, "message": message});
    if let Some(old) = condition(value, kind)
        && old.get("status").and_then(Value::as_str) == Some(status)
    {
        let same = |key: &str, wanted: &str| old.get(key).and_then(Value::as_str) == Some(wanted);
        if same("reason", reason) && same("message", message) {
            return false;
        }
        entry["lastTransitionTime"] = old.get("lastTransitionTime").cloned().unwrap_or(Value::Null);
    }
    let Some(status_map) = value.get_mut("status").and_then(Value::as_object_mut) else { return false };
    let list = status_map.entry("conditions").or_insert(Value::Null);
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(items) = list.as_array_mut() {
        match items.iter_mut().find(|c| c.get("type").and_then(Value::as_str) == Some(kind)) {
            Some(found) => *found = entry,
            None => items.push(entry),
        }
    }
    true
}

/// Names within a group that one definition has been granted.
struct Taken<'a> {
    owner: &'a str,
    value: &'a Value,
}

impl Taken<'_> {
    fn all(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::from([
            text(self.value, "/spec/names/plural").to_owned(),
            text(self.value, "/spec/names/singular").to_owned(),
        ]);
        names.extend(strings(self.value, "/spec/names/shortNames"));
        names
    }
}

/// Why a definition cannot have its names, if it cannot.
fn name_conflict(value: &Value, others: &[Taken<'_>]) -> Option<(&'static str, String)> {
    let same_group = others.iter().filter(|o| {
        o.owner != object::meta_str(value, "name") && text(o.value, "/spec/group") == text(value, "/spec/group")
    });
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for other in same_group {
        resources.extend(other.all());
        kinds.insert(text(other.value, "/spec/names/kind").to_owned());
        kinds.insert(text(other.value, "/spec/names/listKind").to_owned());
    }
    let used = |name: &str| format!("\"{name}\" is already in use");
    let names = |key: &str| text(value, &format!("/spec/names/{key}")).to_owned();
    // The last check that fails gives the reason, as in the real server.
    let mut found = None;
    for (key, reason) in [("plural", "PluralConflict"), ("singular", "SingularConflict")] {
        if resources.contains(&names(key)) {
            found = Some((reason, used(&names(key))));
        }
    }
    if let Some(short) = strings(value, "/spec/names/shortNames").iter().find(|s| resources.contains(*s)) {
        found = Some(("ShortNamesConflict", used(short)));
    }
    for (key, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        if kinds.contains(&names(key)) {
            found = Some((reason, used(&names(key))));
        }
    }
    found
}

/// The next state a definition's conditions should have; `None`: it is as it should be. Called until it says so.
pub fn next_conditions(value: &Value, all: &[Arc<Object>]) -> Option<Value> {
    let accepted: Vec<Taken<'_>> = all
        .iter()
        .filter(|o| is_true(o.value(), "NamesAccepted"))
        .map(|o| Taken { owner: o.name(), value: o.value() })
        .collect();
    let mut next = value.clone();
    if let Some((reason, message)) = name_conflict(value, &accepted) {
        let plural = if reason == "PluralConflict" { "" } else { text(value, "/spec/names/plural") };
        if text(value, "/status/acceptedNames/kind").is_empty() {
            next["status"]["acceptedNames"] = json!({"plural": plural, "kind": ""});
        }
        let mut changed = set_condition(&mut next, "NamesAccepted", "False", reason, &message);
        if !is_true(value, "Established") {
            changed |= set_condition(&mut next, "Established", "False", "NotAccepted", "not all names are accepted");
        }
        return changed.then_some(next);
    }
    let names = value.pointer("/spec/names").cloned().unwrap_or_else(|| json!({}));
    let same = value.pointer("/status/acceptedNames") == Some(&names);
    next["status"]["acceptedNames"] = names;
    if set_condition(&mut next, "NamesAccepted", "True", "NoConflicts", "no conflicts found") || !same {
        if !is_true(value, "Established") {
            set_condition(&mut next, "Established", "False", "Installing", "the initial names have been accepted");
        }
        return Some(next);
    }
    if is_true(value, "Established") {
        return None;
    }
    set_condition(&mut next, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted");
    Some(next)
}

/// Compiled versions, kept as long as a definition's spec stays the same.
#[derive(Default)]
pub struct Cache {
    /// By definition name: what it was compiled from.
    entries: HashMap<String, (Value, bool, Vec<Built>)>,
    ready: HashMap<String, Instant>,
}

type Built = (Arc<Resource>, openapi::CustomResource);

impl Cache {
    /// The resources of all established definitions. `delay`: how long a new one answers 429.
    pub fn resources(&mut self, definitions: &[Arc<Object>], delay: Duration) -> Vec<Built> {
        let alive: BTreeSet<&str> = definitions.iter().map(|d| d.name()).collect();
        self.entries.retain(|name, _| alive.contains(name.as_str()));
        self.ready.retain(|uid, _| definitions.iter().any(|d| d.uid() == uid));
        let mut out = Vec::new();
        for definition in definitions.iter().filter(|d| is_true(d.value(), "Established")) {
            let spec = definition.value().get("spec").cloned().unwrap_or(Value::Null);
            let ready_at = (!delay.is_zero())
                .then(|| *self.ready.entry(definition.uid().to_owned()).or_insert_with(|| Instant::now() + delay));
            let fresh = self
                .entries
                .get(definition.name())
                .is_some_and(|(s, t, _)| *s == spec && *t == definition.is_deleting());
            if !fresh {
                let built = build(definition, ready_at);
                self.entries.insert(definition.name().to_owned(), (spec, definition.is_deleting(), built));
            }
            if let Some((_, _, built)) = self.entries.get(definition.name()) {
                out.extend(built.iter().cloned());
            }
        }
        out
    }
}

fn build(definition: &Object, ready_at: Option<Instant>) -> Vec<Built> {
    let value = definition.value();
    let storage =
        versions(value).iter().find(|v| v.get("storage") == Some(&Value::Bool(true))).map_or("", |v| text(v, "/name"));
    let served = versions(value).iter().filter(|v| v.get("served") == Some(&Value::Bool(true)));
    served.filter_map(|version| build_version(definition, version, storage, ready_at)).collect()
}

fn build_version(definition: &Object, version: &Value, storage: &str, ready_at: Option<Instant>) -> Option<Built> {
    let value = definition.value();
    let schema_json = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({"type": "object"}));
    let schema = match Schema::compile(&schema_json) {
        Ok(schema) => schema,
        Err(causes) => {
            // Definitions are checked when they are written, so this is one that an older version of this program let in.
            tracing::warn!(definition = definition.name(), ?causes, "not served: its schema does not compile");
            return None;
        }
    };
    let names = |key: &str| text(value, &format!("/spec/names/{key}")).to_owned();
    let selectable_fields = strings_at(version.get("selectableFields"), "jsonPath");
    let custom = Custom {
        schema,
        columns: columns(version),
        selectable: selectable_fields
            .iter()
            .filter_map(|p| Some((p.trim_start_matches('.').to_owned(), JsonPath::parse(p)?)))
            .collect(),
        terminating: definition.is_deleting(),
        ready_at,
    };
    let group = text(value, "/spec/group").to_owned();
    let plural = names("plural");
    let namespaced = text(value, "/spec/scope") == "Namespaced";
    let status = version.pointer("/subresources/status").is_some_and(Value::is_object);
    let resource = Resource {
        table: crate::status::qualified(&plural, &group).into(),
        version: text(version, "/name").into(),
        singular: names("singular"),
        kind: names("kind"),
        list_kind: names("listKind"),
        short_names: strings(value, "/spec/names/shortNames"),
        categories: strings(value, "/spec/names/categories"),
        namespaced,
        status,
        verbs: CUSTOM_VERBS,
        storage_version: storage.into(),
        order: Order::Sorted,
        name_rule: NameRule::Subdomain,
        flavour: Flavour::Custom(Arc::new(custom)),
        group: group.clone(),
        plural: plural.clone(),
    };
    let document = openapi::CustomResource {
        group,
        version: resource.version.clone(),
        kind: resource.kind.clone(),
        list_kind: resource.list_kind.clone(),
        plural,
        namespaced,
        has_status: status,
        schema: schema_json,
        selectable_fields,
    };
    Some((Arc::new(resource), document))
}

fn strings_at(list: Option<&Value>, key: &str) -> Vec<String> {
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|e| e.get(key).and_then(Value::as_str)).map(str::to_owned).collect()
}

fn columns(version: &Value) -> Vec<Column> {
    let list = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let default = || {
        Map::from_iter(
            [("name", "Age"), ("type", "date"), ("jsonPath", ".metadata.creationTimestamp")]
                .map(|(k, v)| (k.to_owned(), json!(v))),
        )
    };
    let entries: Vec<Value> = match list {
        Some(list) if !list.is_empty() => list.clone(),
        _ => vec![Value::Object(default())],
    };
    entries
        .iter()
        .filter_map(|entry| {
            let path = text(entry, "/jsonPath");
            let description = text(entry, "/description");
            Some(Column {
                name: text(entry, "/name").into(),
                kind: text(entry, "/type").into(),
                format: text(entry, "/format").into(),
                description: if description.is_empty() {
                    format!("Custom resource definition column (in JSONPath format): {path}")
                } else {
                    description.into()
                },
                priority: entry.get("priority").and_then(Value::as_i64).unwrap_or(0),
                path: JsonPath::parse(path)?,
            })
        })
        .collect()
}
