//! Filters and pages of Keystone's lists, and reading its request bodies.

use serde_json::{Map, Value, json};

use super::{Error, Result};
use crate::{
    wire::{Reply, Request},
    world::World,
};

/// Applies the filters that name one of `attributes`; unknown parameters are ignored, as Keystone does.
pub(super) fn page(world: &World, request: &Request, key: &str, attributes: &[&str], rows: Vec<Value>) -> Reply {
    let fuzzy = world.config.fuzzy_filters;
    let mut rows: Vec<Value> = rows
        .into_iter()
        .filter(|row| {
            request.query.iter().all(|(parameter, wanted)| {
                let (attribute, how) = parameter.split_once("__").unwrap_or((parameter, "exact"));
                if !attributes.contains(&attribute) {
                    return true;
                }
                let have = match &row[attribute] {
                    Value::String(text) => text.to_lowercase(),
                    Value::Bool(value) => value.to_string(),
                    _ => String::new(),
                };
                let wanted = wanted.to_lowercase();
                match how.trim_start_matches('i') {
                    "contains" => have.contains(&wanted),
                    "startswith" => have.starts_with(&wanted),
                    "endswith" => have.ends_with(&wanted),
                    _ if fuzzy && attribute == "name" => have.starts_with(&wanted),
                    _ => have == wanted,
                }
            })
        })
        .filter(|row| tags_match(row, request))
        .collect();
    let base = format!("{}{}", world.url, request.path);
    let itself = if request.raw_query.is_empty() { base.clone() } else { format!("{base}?{}", request.raw_query) };
    if let Some(at) = request.param("marker").and_then(|marker| rows.iter().position(|row| row["id"] == marker)) {
        rows.drain(..=at);
    }
    let mut next = Value::Null;
    if let Some(limit) = request.param("limit").and_then(|limit| limit.parse::<usize>().ok()).filter(|limit| *limit > 0)
        && rows.len() > limit
    {
        rows.truncate(limit);
        let marker = rows.last().and_then(|row| row["id"].as_str()).unwrap_or_default();
        next = json!(format!("{base}?{}", request.query_for_page(limit, marker, false)));
    }
    let truncated = !next.is_null();
    let mut body = json!({key: rows, "links": {"next": next, "self": itself, "previous": null}});
    if truncated {
        body["truncated"] = json!(true);
    }
    Reply::json(200, body)
}

fn tags_match(row: &Value, request: &Request) -> bool {
    let has = |tag: &str| row["tags"].as_array().is_some_and(|tags| tags.iter().any(|have| have == tag));
    let list = |name: &'static str| request.param(name).map(|tags| tags.split(',').collect::<Vec<_>>());
    list("tags").is_none_or(|tags| tags.into_iter().all(has))
        && list("tags-any").is_none_or(|tags| tags.into_iter().any(has))
        && list("not-tags").is_none_or(|tags| !tags.into_iter().all(has))
        && list("not-tags-any").is_none_or(|tags| !tags.into_iter().any(has))
}

/// The object under `key` of a JSON body.
pub(super) fn body(request: &Request, key: &str) -> Result<Map<String, Value>> {
    let body = request.json().ok_or_else(Error::malformed)?;
    match body.get(key) {
        Some(Value::Object(map)) => Ok(map.clone()),
        _ => Err(Error::new(400, format!("'{key}' is a required property"))),
    }
}

/// An optional string attribute; null counts as absent.
pub(super) fn text(map: &Map<String, Value>, key: &str, within: &str) -> Result<Option<String>> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => {
            Err(Error::invalid(&format!("{within}/{key}"), other, &format!("{other} is not of type 'string'")))
        }
    }
}

pub(super) fn flag(map: &Map<String, Value>, key: &str) -> Result<Option<bool>> {
    match map.get(key) {
        None => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(other) => Err(Error::invalid(key, other, &format!("{other} is not of type 'boolean'"))),
    }
}

/// A name of 1 to 255 characters that is not all spaces (64 in a project's case).
pub(super) fn name(map: &Map<String, Value>, within: &str, longest: usize) -> Result<Option<String>> {
    let Some(name) = text(map, "name", within)? else { return Ok(None) };
    if name.trim().is_empty() {
        return Err(Error::invalid("name", &json!(name), "'' should be non-empty"));
    }
    if name.chars().count() > longest {
        return Err(Error::invalid("name", &json!(name), &format!("'{name}' is too long")));
    }
    Ok(Some(name))
}

pub(super) fn required(value: Option<String>, map: &Map<String, Value>, within: &str, key: &str) -> Result<String> {
    // The value is shown by its keys only: a user's body carries a password.
    value.ok_or_else(|| {
        let keys: Vec<String> = map.keys().map(|key| format!("'{key}': …")).collect();
        let problem = format!("'{key}' is a required property");
        Error::new(
            400,
            format!("Invalid input for field/attribute {within}. Value: {{{}}}. {problem}", keys.join(", ")),
        )
    })
}
