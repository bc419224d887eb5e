//! OpenAPI v2: one document with all definitions, as JSON and in the protobuf form that kubectl asks for.
//!
//! kubectl looks here for how lists of a kind merge. Its `paths` are empty: clients that want operations read version 3.

use super::builtins::{self, SCHEMAS, V3_PREFIX};
use super::{CustomResource, Document, builtin_kinds, v3};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const V2_PREFIX: &str = "#/definitions/";

pub(super) fn build(custom: &[CustomResource]) -> (Document, Bytes) {
    let mut definitions: BTreeMap<String, Value> =
        SCHEMAS.iter().map(|(name, schema)| (name.clone(), schema.clone())).collect();
    for kind in builtin_kinds() {
        let name = builtins::name_of(&kind.group, &kind.version, &kind.kind);
        let schema = definitions.entry(name).or_insert_with(|| builtins::open_schema(&kind.kind));
        builtins::tag(schema, &kind.group, &kind.version, &kind.kind);
    }
    for resource in custom {
        let name = v3::custom_name(&resource.group, &resource.version, &resource.kind);
        let list_name = v3::custom_name(&resource.group, &resource.version, &resource.list_kind);
        let mut list = builtins::list_schema(&resource.kind, &name);
        builtins::tag(&mut list, &resource.group, &resource.version, &resource.list_kind);
        definitions.insert(name, v3::custom_schema(resource));
        definitions.insert(list_name, list);
    }
    let definitions: Map<String, Value> =
        definitions.into_iter().map(|(name, schema)| (name, downgraded(schema))).collect();
    let document = json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": env!("CARGO_PKG_VERSION")},
        "paths": {},
        "definitions": definitions,
    });
    (Document::of(&document), super::protobuf::document(&document))
}

/// A schema in the words of version 2, which knows neither branches nor `nullable`.
fn downgraded(schema: Value) -> Value {
    let Value::Object(mut members) = schema else { return schema };
    // The way of version 3 to describe a reference.
    let target = members
        .get("allOf")
        .and_then(Value::as_array)
        .filter(|all| all.len() == 1)
        .and_then(|all| all[0].get("$ref"))
        .cloned();
    for key in ["allOf", "anyOf", "oneOf", "not", "nullable"] {
        members.remove(key);
    }
    if let Some(target) = target.or_else(|| members.get("$ref").cloned()) {
        let name = target.as_str().map(|t| t.trim_start_matches(V3_PREFIX)).unwrap_or_default();
        members.insert("$ref".into(), format!("{V2_PREFIX}{name}").into());
        members.remove("default");
    }
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(|property| *property = downgraded(property.take()));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = members.get_mut(key) {
            *inner = downgraded(inner.take());
        }
    }
    Value::Object(members)
}
