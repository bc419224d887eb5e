//! The API's verbs, from a parsed request to an answer, without HTTP.

pub mod admin;
pub mod delete;
pub mod discovery;
pub mod fields;
pub mod input;
pub mod options;
pub mod patch;
pub mod read;
pub mod review;
pub mod watch;
pub mod write;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::object::Object;
use crate::resource::{Flavour, Resource};
use crate::wire;

/// What a request is about.
#[derive(Debug, Clone)]
pub struct Target {
    pub resource: Arc<Resource>,
    /// Empty: cluster-wide, or all namespaces.
    pub namespace: String,
    /// Empty: the collection.
    pub name: String,
    pub subresource: String,
}

impl Target {
    pub fn key(&self) -> crate::store::Key {
        crate::store::Key::new(&self.namespace, &self.name)
    }

    pub fn subresource(&self) -> Option<&str> {
        (!self.subresource.is_empty()).then_some(self.subresource.as_str())
    }
}

/// An object that has been read or written, in the form of the requested version.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub value: Value,
    /// The encoded value, when it is at hand.
    pub encoded: Option<Bytes>,
    pub changed: bool,
    pub warnings: Vec<String>,
}

impl Answer {
    pub fn stored(code: u16, resource: &Resource, object: &Object, changed: bool) -> Answer {
        let encoded = resource.is_stored_form().then(|| object.encoded());
        Answer { code, value: served(resource, object.value()), encoded, changed, warnings: Vec::new() }
    }

    pub fn of(code: u16, value: Value, changed: bool) -> Answer {
        Answer { code, value, encoded: None, changed, warnings: Vec::new() }
    }

    /// Adds warnings before those that are there.
    pub fn warn(mut self, mut warnings: Vec<String>) -> Answer {
        warnings.append(&mut self.warnings);
        self.warnings = warnings;
        self
    }

    pub fn bytes(&self, resource: &Resource) -> Bytes {
        self.encoded.clone().unwrap_or_else(|| wire::encode_bytes(&self.value, resource.order))
    }
}

/// A stored object in the form of the requested version.
pub fn served(resource: &Resource, stored: &Value) -> Value {
    let mut value = stored.clone();
    if !resource.is_stored_form() {
        match resource.flavour {
            Flavour::Event { modern: true } => crate::builtin::to_modern(&mut value),
            _ => set_version(&mut value, &resource.api_version()),
        }
    }
    value
}

/// An object in the form of the requested version as it is stored.
pub fn stored(resource: &Resource, mut value: Value) -> Value {
    if !resource.is_stored_form() {
        match resource.flavour {
            Flavour::Event { modern: true } => crate::builtin::to_core(&mut value),
            _ => set_version(&mut value, &resource.storage_api_version()),
        }
    }
    value
}

fn set_version(value: &mut Value, api_version: &str) {
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".into(), Value::String(api_version.to_owned()));
    }
}

/// The encoded form of a stored object in the requested version; shared when they are the same.
pub fn encoded(resource: &Resource, object: &Object) -> Bytes {
    if resource.is_stored_form() {
        object.encoded()
    } else {
        wire::encode_bytes(&served(resource, object.value()), resource.order)
    }
}
