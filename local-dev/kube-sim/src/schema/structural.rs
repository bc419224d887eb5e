//! What makes a schema structural: checks of one node, without its values.

use super::cause::{Cause, shown};
use super::compile::{Place, object};
use super::node::{ListType, Node, Type};
use serde_json::{Map, Value};

pub(super) fn check(source: &Map<String, Value>, path: &str, place: Place, causes: &mut Vec<Cause>) {
    let has = |key: &str| source.contains_key(key);
    let is_true = |key: &str| source.get(key) == Some(&Value::Bool(true));
    if has("$ref") {
        causes.push(Cause::forbidden(&format!("{path}.$ref"), "$ref is not supported"));
        return;
    }
    if is_true("uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(&format!("{path}.uniqueItems"), why));
    }
    if source.get("additionalProperties") == Some(&Value::Bool(false)) {
        causes.push(Cause::forbidden(
            &format!("{path}.additionalProperties"),
            "additionalProperties cannot be set to false",
        ));
    }
    if has("additionalProperties") && object(source, "properties").next().is_some() {
        causes.push(Cause::forbidden(
            &format!("{path}.additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        ));
    }
    if source.get("items").is_some_and(Value::is_array) {
        causes.push(Cause::forbidden(&format!("{path}.items"), "items must be a schema object and not an array"));
    }
    if let Place::Branch { typed } = place {
        check_branch(source, path, typed, causes);
        return;
    }
    check_type(source, path, place, causes);
    if source.get("type").and_then(Value::as_str) == Some("array") && !has("items") {
        causes.push(Cause::required(&format!("{path}.items"), "must be specified"));
    }
    if place == Place::Root
        && let Some(Value::Object(metadata)) = source.get("properties").and_then(|p| p.get("metadata"))
        && !narrows_names_only(metadata)
    {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        causes.push(Cause::forbidden(&format!("{path}.properties[metadata]"), why));
    }
    one_of_words(source, "x-kubernetes-list-type", &["atomic", "set", "map"], path, causes);
    one_of_words(source, "x-kubernetes-map-type", &["atomic", "granular"], path, causes);
    if is_true("x-kubernetes-embedded-resource")
        && object(source, "properties").next().is_none()
        && !is_true("x-kubernetes-preserve-unknown-fields")
    {
        let why =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        causes.push(Cause::required(&format!("{path}.properties"), why));
    }
}

fn check_type(source: &Map<String, Value>, path: &str, place: Place, causes: &mut Vec<Cause>) {
    let field = format!("{path}.type");
    let is_true = |key: &str| source.get(key) == Some(&Value::Bool(true));
    let given = source.get("type").filter(|t| t.as_str() != Some(""));
    if is_true("x-kubernetes-int-or-string") {
        if let Some(given) = given {
            causes.push(Cause::invalid(&field, &shown(given), "must be empty if x-kubernetes-int-or-string is true"));
        }
        return;
    }
    let Some(given) = given else {
        if place == Place::Root {
            causes.push(Cause::required(&field, "must not be empty at the root"));
        } else if !is_true("x-kubernetes-preserve-unknown-fields") {
            let what = if place == Place::Item {
                "must not be empty for specified array items"
            } else {
                "must not be empty for specified object fields"
            };
            causes.push(Cause::required(&field, what));
        }
        return;
    };
    if given.as_str().and_then(Type::parse).is_none() {
        let names: Vec<String> = Type::NAMES.iter().map(|(name, _)| (*name).to_owned()).collect();
        causes.push(Cause::not_supported(&field, &shown(given), &names));
    } else if place == Place::Root && given != "object" {
        causes.push(Cause::invalid(&field, &shown(given), "must be object at the root"));
    }
}

/// Branches only validate: they must not say what a value is, or what it is for.
fn check_branch(source: &Map<String, Value>, path: &str, typed: bool, causes: &mut Vec<Cause>) {
    const SHAPE: [&str; 6] = [
        "additionalProperties",
        "default",
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "description",
    ];
    let forbidden = SHAPE.iter().filter(|key| source.contains_key(**key));
    for key in forbidden.chain((!typed && source.contains_key("type")).then_some(&"type")) {
        causes.push(Cause::forbidden(&format!("{path}.{key}"), "must be empty to be structural"));
    }
}

fn narrows_names_only(metadata: &Map<String, Value>) -> bool {
    metadata.keys().all(|key| matches!(key.as_str(), "type" | "description" | "properties" | "required"))
        && object(metadata, "properties").all(|(name, _)| name == "name" || name == "generateName")
}

fn one_of_words(source: &Map<String, Value>, key: &str, words: &[&str], path: &str, causes: &mut Vec<Cause>) {
    if let Some(given) = source.get(key)
        && !given.as_str().is_some_and(|g| words.contains(&g))
    {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        causes.push(Cause::not_supported(&format!("{path}.{key}"), &shown(given), &words));
    }
}

/// Checks of a list whose items can be told apart.
pub(super) fn check_list(node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let Some(items) = &node.items else { return };
    match node.list_type {
        ListType::Atomic => {}
        ListType::Set => {
            let scalar = !matches!(items.kind, Some(Type::Object | Type::Array));
            let atomic = items.kind == Some(Type::Array) && items.list_type == ListType::Atomic || items.atomic_map;
            if !scalar && !atomic {
                let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
                causes.push(Cause::invalid(&format!("{path}.items.x-kubernetes-map-type"), "null", why));
            }
            if items.nullable {
                causes.push(Cause::forbidden(
                    &format!("{path}.items.nullable"),
                    "cannot be nullable when x-kubernetes-list-type is set",
                ));
            }
        }
        ListType::Map => {
            if node.list_keys.is_empty() {
                let field = format!("{path}.x-kubernetes-list-map-keys");
                causes.push(Cause::required(&field, "must not be empty if x-kubernetes-list-type is map"));
            }
            for (i, key) in node.list_keys.iter().enumerate() {
                let Some(property) = items.properties.get(key) else {
                    let field = format!("{path}.x-kubernetes-list-map-keys[{i}]");
                    causes.push(Cause::invalid(
                        &field,
                        &Value::from(key.as_str()).to_string(),
                        "entries must all be names of item properties",
                    ));
                    continue;
                };
                if matches!(property.kind, Some(Type::Object | Type::Array)) {
                    let field = format!("{path}.items.properties[{key}].type");
                    let kind = property.kind.map_or("", Type::name);
                    causes.push(Cause::invalid(
                        &field,
                        &format!("{kind:?}"),
                        "must be a scalar type if parent array's x-kubernetes-list-type is map",
                    ));
                }
                if property.default.is_none() && !items.required.contains(key) {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    causes.push(Cause::required(&format!("{path}.items.properties[{key}].default"), why));
                }
            }
        }
    }
}
