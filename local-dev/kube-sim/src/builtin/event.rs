//! Events, which are one object in two forms: `v1` and `events.k8s.io/v1`. They are stored in the core form.

use serde_json::{Map, Value, json};

use super::time;
use crate::object;
use crate::resource::selectable_text;
use crate::status::{Cause, field};

pub const CORE_FIELDS: &[&str] = &[
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "series",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];
pub const MODERN_FIELDS: &[&str] = &[
    "eventTime",
    "series",
    "reportingController",
    "reportingInstance",
    "action",
    "reason",
    "regarding",
    "related",
    "note",
    "type",
    "deprecatedSource",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedCount",
];

/// Core name, modern name.
const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename(value: &mut Value, pairs: impl Iterator<Item = (&'static str, &'static str)>, api_version: &str) {
    if let Some(map) = value.as_object_mut() {
        for (from, to) in pairs {
            if let Some(found) = map.remove(from) {
                map.insert(to.into(), found);
            }
        }
        map.insert("apiVersion".into(), json!(api_version));
    }
}

/// From events.k8s.io/v1 to v1.
pub fn to_core(value: &mut Value) {
    rename(value, RENAMED.iter().map(|(core, modern)| (*modern, *core)), "v1");
    if let Some(map) = value.as_object_mut() {
        fill(map);
    }
}

/// From v1 to events.k8s.io/v1.
pub fn to_modern(value: &mut Value) {
    rename(value, RENAMED.iter().copied(), "events.k8s.io/v1");
    if let Some(map) = value.as_object_mut() {
        for empty in ["reportingController", "reportingInstance"] {
            if map.get(empty).and_then(Value::as_str) == Some("") {
                map.remove(empty);
            }
        }
    }
}

/// What the core form always shows.
fn fill(map: &mut Map<String, Value>) {
    for (key, empty) in [
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ] {
        map.entry(key).or_insert(empty);
    }
}

/// Decodes either form in place.
pub fn decode(value: &mut Value) -> Result<(), String> {
    time::micro(value.get_mut("eventTime"))?;
    time::micro(value.get_mut("series").and_then(|s| s.get_mut("lastObservedTime")))?;
    let modern = value.get("apiVersion").and_then(Value::as_str) == Some("events.k8s.io/v1");
    if let (false, Some(map)) = (modern, value.as_object_mut()) {
        fill(map);
    }
    Ok(())
}

/// Validates an event in core form that came (`modern`) through events.k8s.io.
pub fn validate(value: &Value, old: Option<&Value>, modern: bool) -> Vec<Cause> {
    const NO_VALUE: Value = Value::String(String::new());
    let mut causes = Vec::new();
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let has_time = value.get("eventTime").is_some_and(Value::is_string);
    if !modern && !has_time {
        let involved =
            value.get("involvedObject").and_then(|o| o.get("namespace")).and_then(Value::as_str).unwrap_or_default();
        let own = object::meta_str(value, "namespace");
        if involved != own && !(involved.is_empty() && own == "default") {
            causes.push(field::invalid("involvedObject.namespace", &json!(involved), "does not match event.namespace"));
        }
        return causes;
    }
    if modern {
        if !has_time {
            causes.push(field::required("eventTime", ""));
        } else if old.is_none() {
            if text("reportingComponent").is_empty() {
                causes.push(field::required("reportingController", ""));
            }
            if let Some(problem) = crate::meta::label_key_problem(text("reportingComponent")) {
                causes.push(field::invalid("reportingController", &json!(text("reportingComponent")), &problem));
            }
            for key in ["reportingInstance", "action", "reason"] {
                if text(key).is_empty() {
                    causes.push(field::required(key, ""));
                }
            }
        }
        if !["Normal", "Warning"].contains(&text("type")) {
            causes.push(field::invalid("type", &NO_VALUE, &format!("has invalid value: {}", text("type"))));
        }
    }
    if text("message").len() > 1024 {
        causes.push(field::invalid("message", &NO_VALUE, "can have at most 1024 characters"));
    }
    if let (true, Some(old)) = (modern, old) {
        for key in [
            "involvedObject",
            "reason",
            "message",
            "type",
            "eventTime",
            "action",
            "related",
            "reportingComponent",
            "reportingInstance",
        ] {
            if value.get(key) != old.get(key) {
                causes.push(field::invalid(key, value.get(key).unwrap_or(&Value::Null), "field is immutable"));
            }
        }
    }
    causes
}

/// Fields that selectors may name, of both forms.
pub fn selectable(key: &str, value: &Value) -> Option<String> {
    let text = |pointer: &str| selectable_text(value.pointer(pointer));
    let field = key.strip_prefix("involvedObject.").or_else(|| key.strip_prefix("regarding."));
    Some(match (field, key) {
        (Some(part @ ("kind" | "namespace" | "name" | "uid" | "apiVersion" | "resourceVersion" | "fieldPath")), _) => {
            text(&format!("/involvedObject/{part}"))
        }
        (None, "reason") => text("/reason"),
        (None, "type") => text("/type"),
        (None, "source") => text("/source/component"),
        (None, "reportingComponent" | "reportingController") => text("/reportingComponent"),
        _ => return None,
    })
}
