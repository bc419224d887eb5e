//! Tables and metadata-only forms of objects: what `kubectl get` shows.

use serde_json::{Map, Value, json};

use crate::object;
use crate::resource::{Column, Flavour, Resource};

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// What a row carries beside its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

/// The columns of a resource.
pub fn columns(resource: &Resource) -> Value {
    let name = column("Name", "string", "name", NAME_DESCRIPTION, 0);
    let mut out = Vec::new();
    if let Flavour::Custom(custom) = &resource.flavour {
        out.push(name);
        out.extend(custom.columns.iter().map(|c| column(&c.name, &c.kind, &c.format, &c.description, c.priority)));
        return Value::Array(out);
    }
    if matches!(resource.flavour, Flavour::Event { .. }) {
        for (title, priority) in [
            ("Last Seen", 0),
            ("Type", 0),
            ("Reason", 0),
            ("Object", 0),
            ("Subobject", 1),
            ("Source", 1),
            ("Message", 0),
            ("First Seen", 1),
            ("Count", 1),
        ] {
            out.push(column(title, "string", "", title, priority));
        }
        out.push(column("Name", "string", "name", NAME_DESCRIPTION, 1));
        return Value::Array(out);
    }
    out.push(name);
    for title in middle(resource) {
        out.push(column(title, "string", "", title, 0));
    }
    out.push(match resource.flavour {
        Flavour::Definition => column("Created At", "date", "", AGE_DESCRIPTION, 0),
        _ => column("Age", "string", "", AGE_DESCRIPTION, 0),
    });
    Value::Array(out)
}

/// The columns between name and age of built-in kinds.
fn middle(resource: &Resource) -> &'static [&'static str] {
    match (&resource.flavour, resource.kind.as_str()) {
        (Flavour::Namespace, _) => &["Status"],
        (Flavour::Secret, _) => &["Type", "Data"],
        (Flavour::ConfigMap, _) => &["Data"],
        (Flavour::Lease, _) => &["Holder"],
        (_, "Deployment") => &["Ready", "Up-to-date", "Available"],
        (_, "Pod") => &["Ready", "Status", "Restarts"],
        (_, "Service") => &["Type", "Cluster-IP", "External-IP", "Port(s)"],
        _ => &[],
    }
}

fn column(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

/// One row.
pub fn row(resource: &Resource, value: &Value, include: Include) -> Value {
    let object = match include {
        Include::None => Value::Null,
        Include::Metadata => partial(value),
        Include::Object => value.clone(),
    };
    json!({"cells": cells(resource, value), "object": object})
}

/// The row of a bookmark: an empty name and nothing else.
pub fn bookmark_row(resource: &Resource, value: &Value, include: Include) -> Value {
    let count = columns(resource).as_array().map_or(1, Vec::len);
    let mut cells = vec![Value::Null; count];
    if let Some(first) = cells.first_mut() {
        *first = json!("");
    }
    json!({"cells": cells, "object": if include == Include::None { Value::Null } else { partial(value) }})
}

/// A table of rows.
pub fn table(beta: bool, metadata: Map<String, Value>, columns: Value, rows: Vec<Value>) -> Value {
    let version = if beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" };
    // Put together by hand: the macro would copy all rows.
    let mut table = Map::new();
    table.insert("kind".into(), json!("Table"));
    table.insert("apiVersion".into(), json!(version));
    table.insert("metadata".into(), Value::Object(metadata));
    table.insert("columnDefinitions".into(), columns);
    table.insert("rows".into(), Value::Array(rows));
    Value::Object(table)
}

/// `PartialObjectMetadata` of an object.
pub fn partial(value: &Value) -> Value {
    let metadata = value.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

fn cells(resource: &Resource, value: &Value) -> Vec<Value> {
    let name = json!(object::meta_str(value, "name"));
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let count = |pointer: &str| value.pointer(pointer).and_then(Value::as_object).map_or(0, Map::len);
    let number = |pointer: &str| value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let mut out = vec![name];
    match &resource.flavour {
        Flavour::Custom(custom) => {
            out.extend(custom.columns.iter().map(|c| cell(c, value)));
            return out;
        }
        Flavour::Event { .. } => return event_cells(value),
        Flavour::Definition => {
            out.push(json!(text("/metadata/creationTimestamp")));
            return out;
        }
        Flavour::Namespace => out.push(json!(text("/status/phase"))),
        Flavour::Secret => out.extend([json!(text("/type")), json!(count("/data"))]),
        Flavour::ConfigMap => out.push(json!(count("/data") + count("/binaryData"))),
        Flavour::Lease => out.push(json!(text("/spec/holderIdentity"))),
        _ => match resource.kind.as_str() {
            "Deployment" => {
                let wanted = value.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
                out.push(json!(format!("{}/{wanted}", number("/status/readyReplicas"))));
                out.extend([json!(number("/status/updatedReplicas")), json!(number("/status/availableReplicas"))]);
            }
            "Pod" => {
                let containers = value.pointer("/spec/containers").and_then(Value::as_array).map_or(0, Vec::len);
                let phase = if text("/status/phase").is_empty() { "Pending" } else { text("/status/phase") };
                out.extend([json!(format!("0/{containers}")), json!(phase), json!("0")]);
            }
            "Service" => {
                let or = |found: &str, other: &str| json!(if found.is_empty() { other } else { found });
                out.extend([
                    or(text("/spec/type"), "ClusterIP"),
                    or(text("/spec/clusterIP"), "<none>"),
                    json!("<none>"),
                    json!(ports(value)),
                ]);
            }
            _ => {}
        },
    }
    out.push(json!(age(text("/metadata/creationTimestamp"))));
    out
}

fn ports(value: &Value) -> String {
    let list = value.pointer("/spec/ports").and_then(Value::as_array);
    let shown: Vec<String> = list
        .into_iter()
        .flatten()
        .map(|p| {
            let port = p.get("port").and_then(Value::as_i64).unwrap_or(0);
            format!("{port}/{}", p.get("protocol").and_then(Value::as_str).unwrap_or("TCP"))
        })
        .collect();
    if shown.is_empty() { "<none>".into() } else { shown.join(",") }
}

/// Events are stored, and shown here, in the core form or in the modern one.
fn event_cells(value: &Value) -> Vec<Value> {
    let first_of = |pointers: &[&str]| {
        pointers.iter().find_map(|p| value.pointer(p).filter(|v| !v.is_null())).cloned().unwrap_or(Value::Null)
    };
    let text = |pointers: &[&str]| first_of(pointers).as_str().unwrap_or_default().to_owned();
    let event_time = text(&["/eventTime"]);
    let last = text(&["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp"]);
    let first = text(&["/firstTimestamp", "/deprecatedFirstTimestamp"]);
    let or = |found: String, other: &str| if found.is_empty() { other.to_owned() } else { found };
    let kind = text(&["/involvedObject/kind", "/regarding/kind"]).to_lowercase();
    let name = text(&["/involvedObject/name", "/regarding/name"]);
    let count = first_of(&["/series/count", "/count", "/deprecatedCount"]).as_i64().unwrap_or(1);
    vec![
        json!(age(&or(last, &event_time))),
        json!(text(&["/type"])),
        json!(text(&["/reason"])),
        json!(format!("{kind}/{name}")),
        json!(text(&["/involvedObject/fieldPath", "/regarding/fieldPath"])),
        json!(or(
            text(&["/source/component", "/deprecatedSource/component"]),
            &text(&["/reportingComponent", "/reportingController"])
        )),
        json!(text(&["/message", "/note"]).trim()),
        json!(age(&or(first, &event_time))),
        json!(count),
        json!(object::meta_str(value, "name")),
    ]
}

/// A custom resource's cell: null when there is nothing to show.
fn cell(column: &Column, value: &Value) -> Value {
    let found = column.path.find(value);
    let Some(first) = found.first().filter(|v| !v.is_null()) else { return Value::Null };
    match column.kind.as_str() {
        "integer" if first.is_i64() => (*first).clone(),
        #[allow(clippy::cast_possible_truncation)]
        "integer" => first.as_f64().map_or(Value::Null, |f| json!(f as i64)),
        "number" if first.is_number() => (*first).clone(),
        "boolean" if first.is_boolean() => (*first).clone(),
        "date" => first.as_str().map_or(Value::Null, |t| json!(age(t))),
        "string" => {
            let shown: Vec<String> = found
                .iter()
                .map(|v| match v {
                    Value::String(text) => text.clone(),
                    Value::Number(n) => crate::wire::number(n),
                    other => other.to_string(),
                })
                .collect();
            json!(shown.join(" "))
        }
        _ => Value::Null,
    }
}

/// The age of a time, as `kubectl` shows it.
pub fn age(time: &str) -> String {
    match time.parse::<jiff::Timestamp>() {
        Ok(then) => duration(jiff::Timestamp::now().as_second() - then.as_second()),
        Err(_) if time.is_empty() => "<unknown>".into(),
        Err(_) => "<invalid>".into(),
    }
}

/// `90s`, `5m30s`, `4h10m`, `3d2h`, `2y30d`.
fn duration(seconds: i64) -> String {
    let pair = |big: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if seconds < -1 => "<invalid>".into(),
        () if seconds < 0 => "0s".into(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => pair(days, 'd', hours % 24, 'h'),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => pair(days / 365, 'y', days % 365, 'd'),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        for (seconds, wanted) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (3_600, "60m"),
            (15_000, "4h10m"),
            (100_000, "27h"),
            (266_400, "3d2h"),
            (8_640_000, "100d"),
        ] {
            assert_eq!(duration(seconds), wanted);
        }
    }
}
