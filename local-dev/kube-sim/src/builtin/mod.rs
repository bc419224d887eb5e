//! The built-in kinds: which there are, and what the API server itself does to them on the way in.
//!
//! Secrets, ConfigMaps, Events, Leases, Namespaces and ServiceAccounts are decoded, defaulted and validated as the real server does it, as
//! far as clients notice. Workloads and the rest are stored and served without validation, so that manifests which hold them can be
//! applied; no controller runs behind them. RBAC objects are stored and **not enforced**.

mod event;
mod kinds;
mod time;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

pub use event::{to_core, to_modern};
pub use kinds::resources;

use crate::meta::go_kind;
use crate::object;
use crate::resource::{Flavour, Resource};
use crate::status::{Cause, field};

const SECRET_MAX: usize = 1024 * 1024;

/// Top-level fields that a kind declares beside `kind`, `apiVersion` and `metadata`; `None`: not checked.
fn known_fields(flavour: &Flavour) -> Option<&'static [&'static str]> {
    Some(match flavour {
        Flavour::Namespace | Flavour::Definition => &["spec", "status"],
        Flavour::Secret => &["data", "stringData", "type", "immutable"],
        Flavour::ConfigMap => &["data", "binaryData", "immutable"],
        Flavour::Lease => &["spec"],
        Flavour::ServiceAccount => &["secrets", "imagePullSecrets", "automountServiceAccountToken"],
        Flavour::Event { modern: true } => event::MODERN_FIELDS,
        Flavour::Event { modern: false } => event::CORE_FIELDS,
        Flavour::Plain | Flavour::Custom(_) => return None,
    })
}

/// Removes and names fields that the kind does not have.
pub fn prune(flavour: &Flavour, value: &mut Value) -> Vec<String> {
    let (Some(known), Some(map)) = (known_fields(flavour), value.as_object_mut()) else { return Vec::new() };
    let mut unknown: Vec<String> = map
        .keys()
        .filter(|k| !["kind", "apiVersion", "metadata"].contains(&k.as_str()) && !known.contains(&k.as_str()))
        .cloned()
        .collect();
    for key in &unknown {
        map.remove(key);
    }
    if let (Flavour::Definition, Some(spec)) = (flavour, map.get_mut("spec").and_then(Value::as_object_mut)) {
        const SPEC: [&str; 6] = ["conversion", "group", "names", "preserveUnknownFields", "scope", "versions"];
        let unknown_in_spec: Vec<String> = spec.keys().filter(|k| !SPEC.contains(&k.as_str())).cloned().collect();
        spec.retain(|k, _| SPEC.contains(&k.as_str()));
        unknown.extend(unknown_in_spec.into_iter().map(|k| format!("spec.{k}")));
    }
    unknown
}

/// Brings an object into the form that is stored; the error is Go's decoding error.
pub fn decode(resource: &Resource, value: &mut Value) -> Result<(), String> {
    match &resource.flavour {
        Flavour::Secret => decode_secret(value),
        Flavour::ConfigMap => decode_config_map(value),
        Flavour::Lease => {
            for key in ["acquireTime", "renewTime"] {
                time::micro(value.get_mut("spec").and_then(|s| s.get_mut(key)))?;
            }
            drop_nulls(value, "spec");
            Ok(())
        }
        Flavour::Event { .. } => event::decode(value),
        Flavour::Namespace | Flavour::Definition | Flavour::Plain => decode_parts(&resource.kind, value),
        Flavour::ServiceAccount | Flavour::Custom(_) => Ok(()),
    }
}

/// `spec` and `status` are objects where there are any: what comes after relies on it.
fn decode_parts(kind: &str, value: &mut Value) -> Result<(), String> {
    let Some(map) = value.as_object_mut() else { return Ok(()) };
    for (key, of) in [("spec", "Spec"), ("status", "Status")] {
        match map.get(key) {
            None | Some(Value::Object(_)) => {}
            Some(Value::Null) => {
                map.remove(key);
            }
            Some(other) => return Err(wrong(other, &format!("{kind}.{key}"), &format!("v1.{kind}{of}"))),
        }
    }
    Ok(())
}

fn drop_nulls(value: &mut Value, key: &str) {
    if let Some(map) = value.get_mut(key).and_then(Value::as_object_mut) {
        map.retain(|_, v| !v.is_null());
    }
}

fn wrong(value: &Value, place: &str, of: &str) -> String {
    format!("json: cannot unmarshal {} into Go struct field {place} of type {of}", go_kind(value))
}

fn decode_secret(value: &mut Value) -> Result<(), String> {
    let Some(map) = value.as_object_mut() else { return Ok(()) };
    let mut data = bytes_map(map, "data", "Secret")?;
    let strings = string_map(map, "stringData", "Secret")?;
    map.remove("stringData");
    for (key, text) in strings {
        data.insert(key, Value::String(STANDARD.encode(text.as_str().unwrap_or_default())));
    }
    put_map(map, "data", data);
    if map.get("type").is_none_or(Value::is_null) {
        map.insert("type".into(), json!("Opaque"));
    }
    decode_immutable(map, "Secret")
}

fn decode_config_map(value: &mut Value) -> Result<(), String> {
    let Some(map) = value.as_object_mut() else { return Ok(()) };
    let data = string_map(map, "data", "ConfigMap")?;
    let binary = bytes_map(map, "binaryData", "ConfigMap")?;
    put_map(map, "data", data);
    put_map(map, "binaryData", binary);
    decode_immutable(map, "ConfigMap")
}

fn decode_immutable(map: &mut Map<String, Value>, kind: &str) -> Result<(), String> {
    match map.get("immutable") {
        None | Some(Value::Bool(_)) => Ok(()),
        Some(Value::Null) => {
            map.remove("immutable");
            Ok(())
        }
        Some(other) => Err(wrong(other, &format!("{kind}.immutable"), "bool")),
    }
}

fn put_map(map: &mut Map<String, Value>, key: &str, to: Map<String, Value>) {
    if to.is_empty() {
        map.remove(key);
    } else {
        map.insert(key.into(), Value::Object(to));
    }
}

fn string_map(map: &Map<String, Value>, key: &str, kind: &str) -> Result<Map<String, Value>, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(entries)) => entries
            .iter()
            .map(|(k, v)| match v {
                Value::String(_) => Ok((k.clone(), v.clone())),
                Value::Null => Ok((k.clone(), json!(""))),
                other => Err(wrong(other, &format!("{kind}.{key}"), "string")),
            })
            .collect(),
        Some(other) => Err(wrong(other, &format!("{kind}.{key}"), "map[string]string")),
    }
}

fn bytes_map(map: &Map<String, Value>, key: &str, kind: &str) -> Result<Map<String, Value>, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(entries)) => entries
            .iter()
            .map(|(k, v)| match v {
                Value::String(text) => Ok((k.clone(), Value::String(normal_base64(text)?))),
                Value::Null => Ok((k.clone(), json!(""))),
                other => Err(wrong(other, &format!("{kind}.{key}"), "[]uint8")),
            })
            .collect(),
        Some(other) => Err(wrong(other, &format!("{kind}.{key}"), "map[string][]uint8")),
    }
}

/// Padded standard base64; line ends are allowed and dropped.
fn normal_base64(text: &str) -> Result<String, String> {
    let clean: String = text.chars().filter(|c| *c != '\n' && *c != '\r').collect();
    match STANDARD.decode(&clean) {
        Ok(_) => Ok(clean),
        Err(_) => Err("illegal base64 data at input byte 0".into()),
    }
}

/// Fills in what a new object of a kind gets from the server.
pub fn prepare_create(flavour: &Flavour, value: &mut Value) {
    match flavour {
        Flavour::Namespace => {
            restore_namespace(value);
            if let Some(map) = value.as_object_mut() {
                map.insert("spec".into(), json!({"finalizers": ["kubernetes"]}));
                map.insert("status".into(), json!({"phase": "Active"}));
            }
        }
        Flavour::Lease => {
            if let Some(map) = value.as_object_mut() {
                map.entry("spec").or_insert_with(|| json!({}));
            }
        }
        _ => {}
    }
}

/// Puts back what clients cannot change by a plain update.
pub fn prepare_update(flavour: &Flavour, value: &mut Value, old: &Value, subresource: Option<&str>) {
    if !matches!(flavour, Flavour::Namespace) {
        return;
    }
    let kept: &[&str] = match subresource {
        None => &["spec", "status"],
        Some("status") => &["spec"],
        Some(_) => &["status"],
    };
    if let Some(map) = value.as_object_mut() {
        for key in kept {
            match old.get(*key) {
                Some(found) => map.insert((*key).into(), found.clone()),
                None => map.remove(*key),
            };
        }
    }
    restore_namespace(value);
}

/// Every namespace carries its name as a label, whatever clients say.
fn restore_namespace(value: &mut Value) {
    let name = object::meta_str(value, "name").to_owned();
    if let Some(labels) =
        object::meta_mut(value).and_then(|m| m.entry("labels").or_insert_with(|| json!({})).as_object_mut())
    {
        labels.insert("kubernetes.io/metadata.name".into(), Value::String(name));
    }
}

/// Validates a built-in object (without its metadata).
pub fn validate(flavour: &Flavour, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    match flavour {
        Flavour::Secret => validate_secret(value, old),
        Flavour::ConfigMap => validate_config_map(value, old),
        Flavour::Lease => validate_lease(value),
        Flavour::Event { modern } => event::validate(value, old, *modern),
        _ => Vec::new(),
    }
}

fn key_problems(value: &Value, field_name: &str, causes: &mut Vec<Cause>) -> usize {
    let mut size = 0;
    for (key, entry) in value.get(field_name).and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{field_name}[{key}]");
        let wrong_characters =
            || !key.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) || key.is_empty();
        if key.len() > 253 {
            causes.push(field::invalid(&path, &json!(key), "must be no more than 253 bytes"));
        } else if wrong_characters() {
            causes.push(field::invalid(&path, &json!(key), "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"));
        } else if key == "." || key.starts_with("..") {
            let detail = if key == "." || key == ".." {
                format!("must not be '{key}'")
            } else {
                "must not start with '..'".into()
            };
            causes.push(field::invalid(&path, &json!(key), &detail));
        }
        size += entry.as_str().map_or(0, str::len);
    }
    size
}

fn immutability(value: &Value, old: &Value, fields: &[&str], causes: &mut Vec<Cause>) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    if value.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(field::forbidden("immutable", DETAIL));
    }
    for key in fields {
        if value.get(*key) != old.get(*key) {
            causes.push(field::forbidden(key, DETAIL));
        }
    }
}

fn validate_secret(value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    // Sizes count the decoded bytes; three quarters of the text is near enough to the byte, padding aside.
    if key_problems(value, "data", &mut causes) / 4 * 3 > SECRET_MAX {
        causes.push(field::too_long("data", SECRET_MAX));
    }
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
    let required: &[&str] = match kind {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    for key in required {
        if value.get("data").and_then(|d| d.get(*key)).is_none() {
            causes.push(field::required(&format!("data[{key}]"), ""));
        }
    }
    if let Some(old) = old {
        if value.get("type") != old.get("type") {
            causes.push(field::invalid("type", value.get("type").unwrap_or(&Value::Null), "field is immutable"));
        }
        immutability(value, old, &["data"], &mut causes);
    }
    causes
}

fn validate_config_map(value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let binary = value.get("binaryData").and_then(Value::as_object);
    for key in value.get("data").and_then(Value::as_object).into_iter().flatten().map(|(k, _)| k) {
        if binary.is_some_and(|b| b.contains_key(key)) {
            causes.push(field::invalid(&format!("data[{key}]"), &json!(key), "duplicate of key present in binaryData"));
        }
    }
    let size = key_problems(value, "data", &mut causes) + key_problems(value, "binaryData", &mut causes) / 4 * 3;
    if size > SECRET_MAX {
        causes.push(field::too_long("", SECRET_MAX));
    }
    if let Some(old) = old {
        immutability(value, old, &["data", "binaryData"], &mut causes);
    }
    causes
}

fn validate_lease(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let number = |key: &str| value.get("spec").and_then(|s| s.get(key)).and_then(Value::as_i64);
    if let Some(n) = number("leaseDurationSeconds").filter(|n| *n <= 0) {
        causes.push(field::invalid("spec.leaseDurationSeconds", &json!(n), "must be greater than 0"));
    }
    if let Some(n) = number("leaseTransitions").filter(|n| *n < 0) {
        causes.push(field::invalid("spec.leaseTransitions", &json!(n), "must be greater than or equal to 0"));
    }
    causes
}

/// The text of a field that selectors of a built-in kind may name; `None`: there is no such field.
pub fn selectable(flavour: &Flavour, key: &str, value: &Value) -> Option<String> {
    let text = |pointer: &str| crate::resource::selectable_text(value.pointer(pointer));
    Some(match (flavour, key) {
        (_, "metadata.name") | (Flavour::Namespace, "name") => object::meta_str(value, "name").to_owned(),
        (Flavour::Namespace, "status.phase") => text("/status/phase"),
        (_, "metadata.namespace") => object::meta_str(value, "namespace").to_owned(),
        (Flavour::Secret, "type") => text("/type"),
        (Flavour::Event { .. }, key) => return event::selectable(key, value),
        // Of the kinds without behaviour a few common ones, absent fields reading as empty.
        (
            Flavour::Plain,
            "status.phase" | "spec.nodeName" | "status.podIP" | "spec.restartPolicy" | "spec.type"
            | "status.successful",
        ) => text(&format!("/{}", key.replace('.', "/"))),
        _ => return None,
    })
}
