//! A stored object: immutable once stored, shared by every list and watch, encoded at most once.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::wire::{self, Order};

/// An object at one resource version.
#[derive(Debug)]
pub struct Object {
    value: Value,
    order: Order,
    revision: u64,
    encoded: OnceLock<Bytes>,
}

impl Object {
    /// `value` must carry `metadata`; its `resourceVersion` is set to `revision`.
    pub fn new(mut value: Value, revision: u64, order: Order) -> Self {
        set_meta(&mut value, "resourceVersion", Value::String(revision.to_string()));
        Object { value, order, revision, encoded: OnceLock::new() }
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The JSON text, made at the first use.
    pub fn encoded(&self) -> Bytes {
        self.encoded.get_or_init(|| wire::encode_bytes(&self.value, self.order)).clone()
    }

    /// The same object under another revision: what a deletion's event carries.
    pub fn at_revision(&self, revision: u64) -> Object {
        Object::new(self.value.clone(), revision, self.order)
    }

    pub fn name(&self) -> &str {
        meta_str(&self.value, "name")
    }

    pub fn namespace(&self) -> &str {
        meta_str(&self.value, "namespace")
    }

    pub fn uid(&self) -> &str {
        meta_str(&self.value, "uid")
    }

    pub fn is_deleting(&self) -> bool {
        is_deleting(&self.value)
    }

    pub fn finalizers(&self) -> Vec<&str> {
        finalizers(&self.value)
    }

    pub fn owners(&self) -> Vec<Owner<'_>> {
        owners(&self.value)
    }
}

/// One entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub block_deletion: bool,
}

/// `metadata` of an object, if it is a map.
pub fn meta(value: &Value) -> Option<&Map<String, Value>> {
    value.get("metadata").and_then(Value::as_object)
}

/// `metadata`, made when it is missing.
pub fn meta_mut(value: &mut Value) -> Option<&mut Map<String, Value>> {
    let map = value.as_object_mut()?;
    map.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

pub fn meta_str<'a>(value: &'a Value, key: &str) -> &'a str {
    meta(value).and_then(|m| m.get(key)).and_then(Value::as_str).unwrap_or_default()
}

pub fn set_meta(value: &mut Value, key: &str, to: Value) {
    if let Some(meta) = meta_mut(value) {
        meta.insert(key.to_owned(), to);
    }
}

pub fn remove_meta(value: &mut Value, key: &str) {
    if let Some(meta) = meta_mut(value) {
        meta.remove(key);
    }
}

pub fn is_deleting(value: &Value) -> bool {
    meta(value).and_then(|m| m.get("deletionTimestamp")).is_some_and(Value::is_string)
}

pub fn finalizers(value: &Value) -> Vec<&str> {
    meta(value)
        .and_then(|m| m.get("finalizers"))
        .and_then(Value::as_array)
        .map(|a| a.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

pub fn owners(value: &Value) -> Vec<Owner<'_>> {
    let list = meta(value).and_then(|m| m.get("ownerReferences")).and_then(Value::as_array);
    list.map(|a| a.iter().map(owner).collect()).unwrap_or_default()
}

fn owner(entry: &Value) -> Owner<'_> {
    fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
        entry.get(key).and_then(Value::as_str).unwrap_or_default()
    }
    Owner {
        api_version: text(entry, "apiVersion"),
        kind: text(entry, "kind"),
        name: text(entry, "name"),
        uid: text(entry, "uid"),
        block_deletion: entry.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or(false),
    }
}

/// Now, as Kubernetes writes times: whole seconds, UTC.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
