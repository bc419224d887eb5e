//! `metadata`: its Go types, what unknown fields it has, and whether it is valid.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::object;
use crate::status::{Cause, field};

const ANNOTATIONS_MAX: usize = 256 * 1024;
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_KEY: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// A pattern that is a constant of this file; one that does not compile matches nothing, which the tests would show.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

static QUALIFIED_NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern("^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"));
static DNS_SUBDOMAIN: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"));
static DNS_LABEL: LazyLock<Option<Regex>> = LazyLock::new(|| pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"));

fn fits(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|p| p.is_match(text))
}

/// How the names of a kind have to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    Subdomain,
    Label,
    /// Any path segment: RBAC names hold colons.
    PathSegment,
}

pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && fits(&DNS_SUBDOMAIN, text)
}

pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && fits(&DNS_LABEL, text)
}

/// What is wrong with a name, if anything.
pub fn name_problem(name: &str, rule: NameRule) -> Option<String> {
    match rule {
        NameRule::Subdomain if name.len() > 253 => Some("must be no more than 253 bytes".into()),
        NameRule::Subdomain => (!fits(&DNS_SUBDOMAIN, name)).then(|| SUBDOMAIN.into()),
        NameRule::Label if name.len() > 63 => Some("must be no more than 63 bytes".into()),
        NameRule::Label => (!fits(&DNS_LABEL, name)).then(|| LABEL.into()),
        NameRule::PathSegment => match name {
            "." | ".." => Some(format!("may not be '{name}'")),
            _ if name.contains('/') => Some("may not contain '/'".into()),
            _ if name.contains('%') => Some("may not contain '%'".into()),
            _ => None,
        },
    }
}

/// What is wrong with a label key (or an annotation key, or a finalizer), if anything.
pub fn label_key_problem(key: &str) -> Option<String> {
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        ["", _] => return Some("prefix part must be non-empty".into()),
        [prefix, name] if is_subdomain(prefix) => name,
        [_, _] => return Some(format!("prefix part {SUBDOMAIN}")),
        _ => return Some(LABEL_KEY.into()),
    };
    match name {
        "" => Some("name part must be non-empty".into()),
        _ if name.len() > 63 => Some("name part must be no more than 63 bytes".into()),
        _ if !fits(&QUALIFIED_NAME, name) => Some(NAME_PART.into()),
        _ => None,
    }
}

pub fn label_value_problem(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes".into());
    }
    (!value.is_empty() && !fits(&QUALIFIED_NAME, value)).then(|| LABEL_VALUE.into())
}

/// The Go kind of a JSON value, as decoding errors name it.
pub fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[derive(Clone, Copy)]
enum Type {
    Text,
    Int,
    Time,
    StringMap,
    Strings,
    Owners,
    Managed,
}

const FIELDS: &[(&str, Type)] = &[
    ("annotations", Type::StringMap),
    ("creationTimestamp", Type::Time),
    ("deletionGracePeriodSeconds", Type::Int),
    ("deletionTimestamp", Type::Time),
    ("finalizers", Type::Strings),
    ("generateName", Type::Text),
    ("generation", Type::Int),
    ("labels", Type::StringMap),
    ("managedFields", Type::Managed),
    ("name", Type::Text),
    ("namespace", Type::Text),
    ("ownerReferences", Type::Owners),
    ("resourceVersion", Type::Text),
    ("selfLink", Type::Text),
    ("uid", Type::Text),
];

/// Brings `metadata` into the form its Go type has: unknown fields are removed and returned, empty ones dropped.
///
/// The error is Go's, without its `json: ` context being lost.
pub fn normalise(value: &mut Value) -> Result<Vec<String>, String> {
    let Some(map) = value.as_object_mut() else { return Ok(Vec::new()) };
    let slot = map.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    let Some(meta) = slot.as_object_mut() else {
        return Err(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", go_kind(slot)));
    };
    let mut unknown = Vec::new();
    let keys: Vec<String> = meta.keys().cloned().collect();
    for key in keys {
        let Some((_, kind)) = FIELDS.iter().find(|(k, _)| *k == key) else {
            unknown.push(format!("metadata.{key}"));
            meta.remove(&key);
            continue;
        };
        let keep = match meta.get_mut(&key) {
            Some(found) => check(&key, *kind, found)?,
            None => false,
        };
        if !keep {
            meta.remove(&key);
        }
    }
    meta.remove("selfLink");
    Ok(unknown)
}

fn wrong(value: &Value, name: &str, of: &str) -> String {
    format!("json: cannot unmarshal {} into Go struct field ObjectMeta.{name} of type {of}", go_kind(value))
}

/// Whether the field is to be kept.
fn check(name: &str, kind: Type, value: &mut Value) -> Result<bool, String> {
    if value.is_null() {
        return Ok(false);
    }
    match kind {
        Type::Text => match value.as_str() {
            Some(text) => Ok(!text.is_empty()),
            None => Err(wrong(value, name, "string")),
        },
        Type::Int => match value.as_i64() {
            Some(n) => Ok(n != 0 || name == "deletionGracePeriodSeconds"),
            None => Err(wrong(value, name, "int64")),
        },
        Type::Time => match value.as_str() {
            Some(text) if text.parse::<jiff::Timestamp>().is_ok() => Ok(true),
            Some(text) => Err(format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
            )),
            None => Err(wrong(value, name, "Time")),
        },
        Type::StringMap => match value.as_object_mut() {
            Some(map) => {
                for entry in map.values_mut() {
                    if entry.is_null() {
                        *entry = Value::String(String::new());
                    } else if !entry.is_string() {
                        return Err(wrong(entry, name, "string"));
                    }
                }
                Ok(!map.is_empty())
            }
            None => Err(wrong(value, name, "map[string]string")),
        },
        Type::Strings => match value.as_array() {
            Some(items) => match items.iter().find(|i| !i.is_string()) {
                Some(bad) => Err(wrong(bad, name, "string")),
                None => Ok(!items.is_empty()),
            },
            None => Err(wrong(value, name, "[]string")),
        },
        Type::Owners | Type::Managed => match value.as_array() {
            Some(items) => match items.iter().find(|i| !i.is_object()) {
                Some(bad) => Err(wrong(
                    bad,
                    name,
                    if matches!(kind, Type::Owners) { "v1.OwnerReference" } else { "v1.ManagedFieldsEntry" },
                )),
                // An empty managedFields is different from an absent one only for the reset `[{}]`, which is not empty.
                None => Ok(!items.is_empty()),
            },
            None => Err(wrong(
                value,
                name,
                if matches!(kind, Type::Owners) { "[]v1.OwnerReference" } else { "[]v1.ManagedFieldsEntry" },
            )),
        },
    }
}

/// Validates the metadata of a new or changed object.
pub fn validate(value: &Value, rule: NameRule) -> Vec<Cause> {
    let mut causes = Vec::new();
    let Some(meta) = object::meta(value) else { return causes };
    let name = object::meta_str(value, "name");
    if name.is_empty() {
        causes.push(field::required("metadata.name", "name or generateName is required"));
    } else if let Some(problem) = name_problem(name, rule) {
        causes.push(field::invalid("metadata.name", &json!(name), &problem));
    }
    for (key, value) in map_of(meta, "labels") {
        if let Some(problem) = label_key_problem(key) {
            causes.push(field::invalid("metadata.labels", &json!(key), &problem));
        }
        if let Some(problem) = label_value_problem(value) {
            causes.push(field::invalid("metadata.labels", &json!(value), &problem));
        }
    }
    let mut size = 0;
    for (key, value) in map_of(meta, "annotations") {
        size += key.len() + value.len();
        if let Some(problem) = label_key_problem(&key.to_lowercase()) {
            causes.push(field::invalid("metadata.annotations", &json!(key), &problem));
        }
    }
    if size > ANNOTATIONS_MAX {
        causes.push(field::too_long("metadata.annotations", ANNOTATIONS_MAX));
    }
    for finalizer in object::finalizers(value) {
        if let Some(problem) = label_key_problem(finalizer) {
            causes.push(field::invalid("metadata.finalizers", &json!(finalizer), &problem));
        }
    }
    causes.extend(owner_problems(value));
    causes
}

fn owner_problems(value: &Value) -> Vec<Cause> {
    const PATH: &str = "metadata.ownerReferences";
    let mut causes = Vec::new();
    for owner in object::owners(value) {
        for (key, text) in
            [("apiVersion", owner.api_version), ("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)]
        {
            if text.is_empty() {
                causes.push(field::invalid(&format!("{PATH}.{key}"), &json!(text), "must not be empty"));
            }
        }
    }
    let list = object::meta(value).and_then(|m| m.get("ownerReferences"));
    let controllers: Vec<String> = list
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|o| o.get("controller").and_then(Value::as_bool) == Some(true))
        .map(|o| {
            format!(
                "{}/{}",
                o.get("kind").and_then(Value::as_str).unwrap_or(""),
                o.get("name").and_then(Value::as_str).unwrap_or("")
            )
        })
        .collect();
    if let ([first, second, ..], Some(list)) = (&controllers[..], list) {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(field::invalid(PATH, list, &detail));
    }
    causes
}

fn map_of<'a>(meta: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    meta.get(key)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()))
}

/// What an update may not do to metadata. `new` has already got back the fields that clients cannot set.
pub fn validate_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (n, o) = (object::meta(new).and_then(|m| m.get(key)), object::meta(old).and_then(|m| m.get(key)));
        if n != o {
            causes.push(field::invalid(&format!("metadata.{key}"), n.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
    if object::is_deleting(old) {
        let before = object::finalizers(old);
        let added: Vec<String> =
            object::finalizers(new).into_iter().filter(|f| !before.contains(f)).map(|f| format!("{f:?}")).collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            causes.push(field::forbidden("metadata.finalizers", &detail));
        }
    }
    causes
}

/// Warnings about finalizers that are not domain-qualified.
pub fn finalizer_warnings(value: &Value) -> Vec<String> {
    const KNOWN: [&str; 3] = ["foregroundDeletion", "orphan", "kubernetes"];
    object::finalizers(value)
        .into_iter()
        .filter(|f| !f.contains('/') && !KNOWN.contains(f))
        .map(|f| {
            format!(
                "metadata.finalizers: {f:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

/// A random suffix for `generateName`, in the alphabet that cannot spell words.
pub fn generated_name(prefix: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const MAX_PREFIX: usize = 63 - 5;
    let mut out: String = prefix.chars().take(MAX_PREFIX).collect();
    for _ in 0..5 {
        out.push(char::from(ALPHABET[rand::random_range(0..ALPHABET.len())]));
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn unknown_metadata_fields_are_removed_and_named() {
        let mut object = json!({"metadata": {"name": "a", "bogus": 1, "labels": {}, "uid": null}});
        assert_eq!(normalise(&mut object).unwrap(), ["metadata.bogus"]);
        assert_eq!(object, json!({"metadata": {"name": "a"}}));
    }

    #[test]
    fn metadata_of_the_wrong_type_is_refused_in_gos_words() {
        for (meta, wanted) in [
            (json!("x"), "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
            (
                json!({"labels": {"a": 1}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
            ),
            (json!({"name": true}), "json: cannot unmarshal bool into Go struct field ObjectMeta.name of type string"),
        ] {
            assert_eq!(normalise(&mut json!({"metadata": meta})).unwrap_err(), wanted);
        }
    }

    #[test]
    fn names_labels_and_finalizers_follow_the_rules() {
        let object = json!({"metadata": {"name": "Bad_Name", "labels": {"a b": "no good"}, "finalizers": ["bad name"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "", "uid": ""}]}});
        let fields: Vec<String> = validate(&object, NameRule::Subdomain).into_iter().map(|c| c.field).collect();
        assert_eq!(
            fields,
            [
                "metadata.name",
                "metadata.labels",
                "metadata.labels",
                "metadata.finalizers",
                "metadata.ownerReferences.name",
                "metadata.ownerReferences.uid"
            ]
        );
        assert!(validate(&json!({"metadata": {"name": "a.b-c"}}), NameRule::Subdomain).is_empty());
        assert_eq!(validate(&json!({"metadata": {"name": "a.b"}}), NameRule::Label).len(), 1);
    }
}
