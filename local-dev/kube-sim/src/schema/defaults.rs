//! Pruning and defaulting.

use super::node::Node;
use serde_json::Value;
use std::fmt::Write as _;

/// Members of every object with an identity of its own: never pruned.
const IDENTITY: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Fills in defaults and drops nulls that must not be there.
pub(super) fn default(node: &Node, value: &mut Value) {
    fill(node, value);
    drop_nulls(node, value);
}

fn is_stray_null(node: &Node, value: &Value) -> bool {
    value.is_null() && !node.nullable
}

fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, property) in &node.properties {
                if let Some(default) = &property.default
                    && members.get(name).is_none_or(|v| is_stray_null(property, v))
                {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (name, member) in members.iter_mut() {
                if let Some(schema) = node.member(name) {
                    fill_null(schema, member);
                    fill(schema, member);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for item in list {
                    fill_null(items, item);
                    fill(items, item);
                }
            }
        }
        _ => {}
    }
}

fn fill_null(node: &Node, value: &mut Value) {
    if is_stray_null(node, value)
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
}

/// Nulls in lists stay: to drop one would move the others. Validation refuses them.
fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| !node.member(name).is_some_and(|schema| is_stray_null(schema, member)));
            for (name, member) in members.iter_mut() {
                if let Some(schema) = node.member(name) {
                    drop_nulls(schema, member);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for item in list {
                    drop_nulls(items, item);
                }
            }
        }
        _ => {}
    }
}

/// Removes undeclared fields of an object with an identity; the sorted paths of what was removed.
pub(super) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut removed = Vec::new();
    walk(root, object, true, &mut String::new(), &mut removed);
    removed.sort();
    removed
}

/// As [`prune`], for a value inside an object.
pub(super) fn prune_below(node: &Node, value: &mut Value) -> Vec<String> {
    let mut removed = Vec::new();
    walk(node, value, node.embedded, &mut String::new(), &mut removed);
    removed
}

fn walk(node: &Node, value: &mut Value, has_identity: bool, path: &mut String, removed: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::Object(members) => members.retain(|name, member| {
            if has_identity && IDENTITY.contains(&name.as_str()) {
                return true;
            }
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
            let keep = match node.member(name) {
                Some(schema) => {
                    walk(schema, member, schema.embedded, path, removed);
                    true
                }
                None if node.keeps_undeclared() => true,
                None => {
                    removed.push(path.clone());
                    false
                }
            };
            path.truncate(length);
            keep
        }),
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for (i, item) in list.iter_mut().enumerate() {
                    let _ = write!(path, "[{i}]");
                    walk(items, item, items.embedded, path, removed);
                    path.truncate(length);
                }
            }
        }
        _ => {}
    }
}
