//! Reading request bodies: which attributes there are, and of what kind.

use std::net::Ipv4Addr;

use serde_json::{Map, Value};

use super::{Base, Error, Result};
use crate::{identity::Caller, wire::Request, world::World};

/// The attributes of one resource as sent.
pub(super) struct Attributes(pub Map<String, Value>);

const COMMON: [&str; 5] = ["name", "description", "project_id", "tenant_id", "tags"];

impl Attributes {
    /// Reads `{key: {…}}`; an attribute that is neither common nor in `allowed` is refused.
    pub fn read(request: &Request, key: &str, allowed: &[&str]) -> Result<Self> {
        let body = request.json().filter(Value::is_object).ok_or_else(|| Error::bad("Body contains invalid data"))?;
        let map = match body.get(key) {
            Some(Value::Object(map)) => map.clone(),
            _ => return Err(Error::bad(format!("Unable to find '{key}' in request body"))),
        };
        let unknown: Vec<String> = map
            .keys()
            .filter(|name| !COMMON.contains(&name.as_str()) && !allowed.contains(&name.as_str()))
            .map(|name| format!("'{name}'"))
            .collect();
        if !unknown.is_empty() {
            return Err(Error::bad(format!("Unrecognized attribute(s) {}", unknown.join(", "))));
        }
        // Lists can be filtered by these; nobody can set them.
        if let Some(key) = ["status", "ip_allocation"].into_iter().find(|key| map.contains_key(*key)) {
            return Err(Error::bad(format!("Attribute '{key}' not allowed in {}", request.method)));
        }
        Ok(Self(map))
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// What was sent, if it was not null.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub fn text(&self, key: &str) -> Result<Option<String>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() > 255 => {
                Err(Error::invalid(key, format!("'{text}' exceeds maximum length of 255")))
            }
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(Error::invalid(key, format!("'{other}' is not a valid string"))),
        }
    }

    pub fn required(&self, key: &str) -> Result<String> {
        let missing = || Error::bad(format!("Failed to parse request. Required attribute '{key}' not specified"));
        self.text(key)?.ok_or_else(missing)
    }

    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(Value::String(text)) => Err(Error::input(format!("'{text}' cannot be converted to boolean"))),
            Some(other) => Err(Error::input(format!("'{other}' cannot be converted to boolean"))),
        }
    }

    pub fn number(&self, key: &str) -> Result<Option<i64>> {
        let wrong = |value: &Value| Error::invalid(key, format!("'{value}' is not an integer"));
        match self.value(key) {
            None => Ok(None),
            Some(value @ Value::String(text)) => text.parse().map(Some).map_err(|_| wrong(value)),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| wrong(value)),
        }
    }

    pub fn address(&self, key: &str) -> Result<Option<Ipv4Addr>> {
        self.text(key)?.map(|text| address(key, &text)).transpose()
    }

    /// A list of strings; null counts as empty.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        if value.is_null() {
            return Ok(Some(Vec::new()));
        }
        let texts = serde_json::from_value(value.clone());
        texts.map(Some).map_err(|_| Error::invalid(key, format!("'{value}' is not a list")))
    }

    /// A list of objects; null counts as empty.
    pub fn objects(&self, key: &str) -> Result<Option<Vec<Map<String, Value>>>> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        if value.is_null() {
            return Ok(Some(Vec::new()));
        }
        let objects = serde_json::from_value(value.clone());
        objects.map(Some).map_err(|_| Error::invalid(key, format!("'{value}' is not a list of dictionaries")))
    }

    /// The shared part of a new resource; only an administrator makes things for other projects.
    pub fn base(&self, world: &World, caller: &Caller) -> Result<Base> {
        let own = caller.project().unwrap_or_default();
        let asked = self.text("project_id")?.or(self.text("tenant_id")?);
        let project_id = asked.unwrap_or_else(|| own.to_owned());
        if project_id != own && !caller.is_admin() {
            let message = "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request is not allowed \
                           for current user.";
            return Err(Error::bad(message));
        }
        let now = world.clock.now();
        Ok(Base {
            id: uuid::Uuid::new_v4().to_string(),
            name: self.text("name")?.unwrap_or_default(),
            description: self.text("description")?.unwrap_or_default(),
            project_id,
            tags: self.texts("tags")?.unwrap_or_default(),
            created: now,
            updated: now,
            revision: 1,
        })
    }

    /// Name and description of a change.
    pub fn rename(&self, base: &mut Base) -> Result<()> {
        if let Some(name) = self.text("name")? {
            base.name = name;
        }
        if let Some(description) = self.text("description")? {
            base.description = description;
        }
        Ok(())
    }
}

pub(super) fn address(key: &str, text: &str) -> Result<Ipv4Addr> {
    text.parse().map_err(|_| Error::invalid(key, format!("'{text}' is not a valid IP address")))
}
