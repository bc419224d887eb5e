//! Lists: filters, fields, sorting and pages, the same for every resource.

use serde_json::{Map, Value, json};

use super::{Base, Error, Result};
use crate::{
    wire::{Reply, Request},
    world::World,
};

pub(super) fn resources(url: &str) -> Vec<Value> {
    ["networks", "subnets", "ports", "routers", "security-groups", "security-group-rules", "floatingips", "quotas"]
        .map(|kind| json!({"name": kind, "links": [{"rel": "self", "href": format!("{url}/network/v2.0/{kind}")}]}))
        .to_vec()
}

const CONTROL: [&str; 6] = ["fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"];
const TAGS: [&str; 4] = ["tags", "tags-any", "not-tags", "not-tags-any"];

/// What a list's query asks for, checked against the attributes that the resource has.
pub(super) struct Query<'a> {
    request: &'a Request,
    filters: Vec<(&'a str, Vec<&'a str>)>,
    fuzzy: bool,
}

impl<'a> Query<'a> {
    pub fn new(world: &World, request: &'a Request, attributes: &[&str]) -> Result<Self> {
        let mut filters: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut unknown = Vec::new();
        for (key, value) in &request.query {
            if CONTROL.contains(&key.as_str()) || TAGS.contains(&key.as_str()) {
                continue;
            }
            if !attributes.contains(&key.as_str()) && !super::Base::ATTRIBUTES.contains(&key.as_str()) {
                unknown.push(format!("'{key}'"));
                continue;
            }
            match filters.iter_mut().find(|(have, _)| have == key) {
                Some((_, values)) => values.push(value),
                None => filters.push((key, vec![value])),
            }
        }
        if !unknown.is_empty() {
            return Err(Error::bad(format!("[{}] is invalid attribute for filtering", unknown.join(", "))));
        }
        Ok(Self { request, filters, fuzzy: world.config.fuzzy_filters })
    }

    /// The values that an attribute is filtered by.
    pub fn values(&self, key: &str) -> Option<&[&'a str]> {
        self.filters.iter().find(|(have, _)| *have == key).map(|(_, values)| values.as_slice())
    }

    /// Decides by name and id alone, before a row is turned into JSON: most look-ups need no more.
    pub fn may_match(&self, base: &Base) -> bool {
        let passes = |key: &str, have: &str| {
            self.values(key).is_none_or(|values| values.iter().any(|v| self.equal(key, have, v)))
        };
        passes("name", &base.name) && passes("id", &base.id)
    }

    fn equal(&self, key: &str, have: &str, wanted: &str) -> bool {
        if self.fuzzy && key == "name" {
            return have.to_lowercase().starts_with(&wanted.to_lowercase());
        }
        have.len() == wanted.len() && (have == wanted || have.to_lowercase() == wanted.to_lowercase())
    }

    fn matches(&self, row: &Value) -> bool {
        self.filters.iter().all(|(key, values)| values.iter().any(|wanted| self.value_matches(key, &row[*key], wanted)))
            && self.tags_match(row)
    }

    fn value_matches(&self, key: &str, have: &Value, wanted: &str) -> bool {
        match have {
            Value::String(text) => self.equal(key, text, wanted),
            Value::Bool(value) => match wanted.to_lowercase().as_str() {
                "true" | "1" => *value,
                "false" | "0" => !*value,
                _ => false,
            },
            Value::Number(number) => number.to_string() == wanted,
            // `fixed_ips=ip_address=10.0.0.5`, `security_groups=<id>`
            Value::Array(rows) => rows.iter().any(|row| match (row, wanted.split_once('=')) {
                (Value::Object(map), Some((inner, wanted))) => map.get(inner).is_some_and(|have| have == wanted),
                (Value::String(text), _) => text == wanted,
                _ => false,
            }),
            Value::Null | Value::Object(_) => false,
        }
    }

    fn tags_match(&self, row: &Value) -> bool {
        let has = |tag: &str| row["tags"].as_array().is_some_and(|tags| tags.iter().any(|have| have == tag));
        let list = |name: &'static str| self.request.param(name).map(|tags| tags.split(',').collect::<Vec<_>>());
        list("tags").is_none_or(|tags| tags.into_iter().all(has))
            && list("tags-any").is_none_or(|tags| tags.into_iter().any(has))
            && list("not-tags").is_none_or(|tags| !tags.into_iter().all(has))
            && list("not-tags-any").is_none_or(|tags| !tags.into_iter().any(has))
    }

    /// Filters, sorts, cuts and answers. `kind` names the resource in errors.
    pub fn answer(&self, world: &World, kind: &str, collection: &str, rows: impl Iterator<Item = Value>) -> Result {
        let request = self.request;
        if request.params("sort_key").count() != request.params("sort_dir").count() {
            return Err(Error::bad("The number of sort_keys and sort_dirs must be same"));
        }
        let mut rows: Vec<Value> = rows.filter(|row| self.matches(row)).collect();
        self.sort(&mut rows);
        let limit = match request.param("limit") {
            None => None,
            Some(text) => match text.parse::<usize>() {
                Ok(0) => None,
                Ok(limit) => Some(limit),
                Err(_) => {
                    let message = format!("Bad limit request: Limit must be an integer 0 or greater and not '{text}'.");
                    return Err(Error::new(400, "BadRequest", message));
                }
            },
        };
        let reverse = request.param("page_reverse").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if let Some(marker) = request.param("marker") {
            let at = rows.iter().position(|row| row["id"] == marker).ok_or_else(|| Error::not_found(kind, marker))?;
            if reverse {
                rows.truncate(at);
            } else {
                rows.drain(..=at);
            }
        }
        let mut links = Vec::new();
        if let Some(limit) = limit {
            let more = rows.len() > limit;
            if reverse {
                rows.drain(..rows.len().saturating_sub(limit));
            } else {
                rows.truncate(limit);
            }
            let mut link = |rel: &str, row: Option<&Value>, back: bool| {
                if let Some(id) = row.and_then(|row| row["id"].as_str()) {
                    let query = request.query_for_page(limit, id, back);
                    links.push(json!({"rel": rel, "href": format!("{}{}?{query}", world.url, request.path)}));
                }
            };
            // Neutron knows a page is the last only when it is short, so a full one may lead to an empty one.
            if rows.len() == limit && (more || !reverse) {
                link("next", rows.last(), false);
            }
            if request.param("marker").is_some() || reverse {
                link("previous", rows.first(), true);
            }
        }
        let fields: Vec<&str> = request.params("fields").collect();
        if !fields.is_empty() {
            rows = rows.into_iter().map(|row| select(row, &fields)).collect();
        }
        let mut body = Map::new();
        body.insert(collection.to_owned(), Value::Array(rows));
        if !links.is_empty() {
            body.insert(format!("{collection}_links"), Value::Array(links));
        }
        Ok(Reply::json(200, Value::Object(body)))
    }

    fn sort(&self, rows: &mut [Value]) {
        let directions: Vec<&str> = self.request.params("sort_dir").collect();
        let keys: Vec<(&str, bool)> = self
            .request
            .params("sort_key")
            .enumerate()
            .map(|(index, key)| (key, directions.get(index).is_some_and(|dir| *dir == "desc")))
            .chain([("id", false)])
            .collect();
        rows.sort_by(|a, b| {
            keys.iter().fold(std::cmp::Ordering::Equal, |order, (key, down)| {
                order.then_with(|| {
                    let by_key = compare(&a[*key], &b[*key]);
                    if *down { by_key.reverse() } else { by_key }
                })
            })
        });
    }
}

fn compare(a: &Value, b: &Value) -> std::cmp::Ordering {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => a.as_i64().cmp(&b.as_i64()),
        _ => std::cmp::Ordering::Equal,
    }
}

fn select(row: Value, fields: &[&str]) -> Value {
    match row {
        Value::Object(map) => map.into_iter().filter(|(key, _)| fields.contains(&key.as_str())).collect(),
        other => other,
    }
}

/// One resource, cut down to the fields asked for.
pub(super) fn show(request: &Request, key: &str, row: Value) -> Reply {
    let fields: Vec<&str> = request.params("fields").collect();
    let row = if fields.is_empty() { row } else { select(row, &fields) };
    Reply::json(200, json!({key: row}))
}

/// `…/tags`, the same for every resource.
pub(super) fn tags(
    method: &str,
    rest: &[&str],
    request: &Request,
    have: Vec<String>,
) -> Result<(Option<Vec<String>>, Reply)> {
    match (method, rest) {
        ("GET", []) => Ok((None, Reply::json(200, json!({"tags": have})))),
        ("PUT", []) => {
            let body = request.json().unwrap_or_default();
            let tags: Vec<String> =
                serde_json::from_value(body["tags"].clone()).map_err(|_| Error::bad("Invalid tags body"))?;
            let reply = Reply::json(200, json!({"tags": tags}));
            Ok((Some(tags), reply))
        }
        ("PUT", [tag]) => {
            let mut tags = have;
            if !tags.iter().any(|have| have == tag) {
                tags.push((*tag).to_owned());
            }
            Ok((Some(tags), Reply::empty(201)))
        }
        ("DELETE", []) => Ok((Some(Vec::new()), Reply::empty(204))),
        ("DELETE", [tag]) if have.iter().any(|t| t == tag) => {
            Ok((Some(have.into_iter().filter(|t| t != tag).collect()), Reply::empty(204)))
        }
        ("DELETE" | "GET", [tag]) => Err(Error::new(404, "TagNotFound", format!("Tag {tag} could not be found."))),
        _ => Err(Error::no_route()),
    }
}
