//! Strategic merge patch, for the built-in kinds that are served.
//!
//! Lists merge by a key or as sets where the kind's Go type says so; elsewhere they are replaced. The directives `$patch`,
//! `$deleteFromPrimitiveList`, `$setElementOrder` and `$retainKeys` are understood.

use super::Error;
use super::json_patch::{decode, go_kind};
use serde_json::{Map, Value};

/// How a list merges.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Merge {
    Replace,
    Set,
    By(&'static str),
}

fn strategy(kind: &str, path: &str) -> Merge {
    match (kind, path) {
        (_, "metadata.ownerReferences") => Merge::By("uid"),
        (_, "metadata.finalizers") => Merge::Set,
        ("ServiceAccount", "secrets" | "imagePullSecrets") => Merge::By("name"),
        ("Namespace", "status.conditions") => Merge::By("type"),
        _ => Merge::Replace,
    }
}

/// The document of a built-in `kind` after a strategic merge patch; `patch` is the request body.
pub fn strategic_merge(kind: &str, document: &Value, patch: &[u8]) -> Result<Value, Error> {
    let patch: Value = decode(patch)?;
    let Value::Object(members) = &patch else {
        return Err(Error::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_kind(&patch)
        )));
    };
    let mut result = document.clone();
    object(kind, &mut result, members, "")?;
    Ok(result)
}

fn object(kind: &str, target: &mut Value, patch: &Map<String, Value>, path: &str) -> Result<(), Error> {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else { return Ok(()) };
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => members.clear(),
        Some("delete") => {
            members.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(Error::Malformed(format!("unknown patch type: {other}"))),
    }
    if let Some(Value::Array(keys)) = patch.get("$retainKeys") {
        members.retain(|name, _| keys.iter().any(|key| key == name));
    }
    for (name, value) in patch {
        if name == "$patch" || name == "$retainKeys" || name.starts_with("$setElementOrder/") {
            continue;
        }
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(items)), Value::Array(gone)) = (members.get_mut(list), value) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::Null => {
                members.remove(name);
            }
            Value::Object(inner) => object(kind, members.entry(name.clone()).or_insert(Value::Null), inner, &path)?,
            Value::Array(items) => {
                let order = patch.get(&format!("$setElementOrder/{name}")).and_then(Value::as_array);
                list(kind, members.entry(name.clone()).or_insert(Value::Null), items, order, &path)?;
            }
            other => {
                members.insert(name.clone(), other.clone());
            }
        }
    }
    Ok(())
}

fn list(kind: &str, target: &mut Value, patch: &[Value], order: Option<&Vec<Value>>, path: &str) -> Result<(), Error> {
    let merge = strategy(kind, path);
    if merge == Merge::Replace {
        *target = Value::Array(patch.to_vec());
        return Ok(());
    }
    let mut items = target.as_array().cloned().unwrap_or_default();
    for one in patch {
        let Merge::By(key) = merge else {
            if !items.contains(one) {
                items.push(one.clone());
            }
            continue;
        };
        let Value::Object(members) = one else {
            return Err(Error::Malformed(format!("expected a map in the list {path}, found {}", go_kind(one))));
        };
        let directive = members.get("$patch").and_then(Value::as_str);
        if directive == Some("replace") && !members.contains_key(key) {
            items.clear();
            continue;
        }
        let Some(wanted) = members.get(key) else {
            return Err(Error::Malformed(format!("map: {one} does not contain declared merge key: {key}")));
        };
        let at = items.iter().position(|item| item.get(key) == Some(wanted));
        match (directive, at) {
            (Some("delete"), Some(at)) => {
                items.remove(at);
            }
            (Some("delete"), None) => {}
            (_, Some(at)) => object(kind, &mut items[at], members, path)?,
            (_, None) => {
                let mut fresh = Value::Null;
                object(kind, &mut fresh, members, path)?;
                items.push(fresh);
            }
        }
    }
    if let Some(order) = order {
        let rank = |item: &Value| {
            let is = |wanted: &Value| match merge {
                Merge::By(key) => wanted.get(key) == item.get(key),
                _ => wanted == item,
            };
            order.iter().position(is).unwrap_or(usize::MAX)
        };
        items.sort_by_key(rank);
    }
    *target = Value::Array(items);
    Ok(())
}
