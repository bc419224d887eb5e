//! The protobuf that `kubectl` insists on sending for a few built-in kinds (`create namespace`, `create configmap`, `create token`, …).
//!
//! Decoded by tables: a message is a list of `(field number, JSON name, type)`. Fields that are not in a table are skipped, which is right
//! for everything the server sets itself. Nothing is ever answered in protobuf: every client that sends it also accepts JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Why a body could not be decoded.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    Malformed,
    UnknownKind(String),
}

#[derive(Clone, Copy)]
enum Type {
    Text,
    Bytes,
    Int,
    Bool,
    Message(&'static [Field]),
    /// `map<string, string>`
    TextMap,
    /// `map<string, bytes>`
    BytesMap,
}

type Field = (u64, &'static str, Type, bool);

const fn one(number: u64, name: &'static str, kind: Type) -> Field {
    (number, name, kind, false)
}

const fn many(number: u64, name: &'static str, kind: Type) -> Field {
    (number, name, kind, true)
}

const OWNER: &[Field] = &[
    one(1, "kind", Type::Text),
    one(3, "name", Type::Text),
    one(4, "uid", Type::Text),
    one(5, "apiVersion", Type::Text),
    one(6, "controller", Type::Bool),
    one(7, "blockOwnerDeletion", Type::Bool),
];
const META: &[Field] = &[
    one(1, "name", Type::Text),
    one(2, "generateName", Type::Text),
    one(3, "namespace", Type::Text),
    one(5, "uid", Type::Text),
    one(6, "resourceVersion", Type::Text),
    one(11, "labels", Type::TextMap),
    one(12, "annotations", Type::TextMap),
    many(13, "ownerReferences", Type::Message(OWNER)),
    many(14, "finalizers", Type::Text),
];
const METADATA: Field = one(1, "metadata", Type::Message(META));
const RULE: &[Field] = &[
    many(1, "verbs", Type::Text),
    many(2, "apiGroups", Type::Text),
    many(3, "resources", Type::Text),
    many(4, "resourceNames", Type::Text),
    many(5, "nonResourceURLs", Type::Text),
];
const SUBJECT: &[Field] = &[
    one(1, "kind", Type::Text),
    one(2, "apiGroup", Type::Text),
    one(3, "name", Type::Text),
    one(4, "namespace", Type::Text),
];
const ROLE_REF: &[Field] = &[one(1, "apiGroup", Type::Text), one(2, "kind", Type::Text), one(3, "name", Type::Text)];
const ROLE: &[Field] = &[METADATA, many(2, "rules", Type::Message(RULE))];
const BINDING: &[Field] =
    &[METADATA, many(2, "subjects", Type::Message(SUBJECT)), one(3, "roleRef", Type::Message(ROLE_REF))];
const RESOURCE_ATTRIBUTES: &[Field] = &[
    one(1, "namespace", Type::Text),
    one(2, "verb", Type::Text),
    one(3, "group", Type::Text),
    one(4, "version", Type::Text),
    one(5, "resource", Type::Text),
    one(6, "subresource", Type::Text),
    one(7, "name", Type::Text),
];
const PATH_ATTRIBUTES: &[Field] = &[one(1, "path", Type::Text), one(2, "verb", Type::Text)];

const ONLY_METADATA: &[Field] = &[METADATA];
const CONFIG_MAP: &[Field] =
    &[METADATA, one(2, "data", Type::TextMap), one(3, "binaryData", Type::BytesMap), one(4, "immutable", Type::Bool)];
const SECRET: &[Field] = &[
    METADATA,
    one(2, "data", Type::BytesMap),
    one(3, "type", Type::Text),
    one(4, "stringData", Type::TextMap),
    one(5, "immutable", Type::Bool),
];
const TOKEN_SPEC: &[Field] = &[many(1, "audiences", Type::Text), one(4, "expirationSeconds", Type::Int)];
const TOKEN_REQUEST: &[Field] = &[METADATA, one(2, "spec", Type::Message(TOKEN_SPEC))];
const ACCESS_SPEC: &[Field] = &[
    one(1, "resourceAttributes", Type::Message(RESOURCE_ATTRIBUTES)),
    one(2, "nonResourceAttributes", Type::Message(PATH_ATTRIBUTES)),
];
const ACCESS_REVIEW: &[Field] = &[METADATA, one(2, "spec", Type::Message(ACCESS_SPEC))];
const RULES_SPEC: &[Field] = &[one(1, "namespace", Type::Text)];
const RULES_REVIEW: &[Field] = &[METADATA, one(2, "spec", Type::Message(RULES_SPEC))];
const PRECONDITIONS: &[Field] = &[one(1, "uid", Type::Text), one(2, "resourceVersion", Type::Text)];
const DELETE_OPTIONS: &[Field] = &[
    one(1, "gracePeriodSeconds", Type::Int),
    one(2, "preconditions", Type::Message(PRECONDITIONS)),
    one(3, "orphanDependents", Type::Bool),
    one(4, "propagationPolicy", Type::Text),
    many(5, "dryRun", Type::Text),
];

fn message(api_version: &str, kind: &str) -> Option<&'static [Field]> {
    Some(match (api_version, kind) {
        ("v1", "Namespace" | "ServiceAccount") | ("authentication.k8s.io/v1", "SelfSubjectReview") => ONLY_METADATA,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Secret") => SECRET,
        ("authentication.k8s.io/v1", "TokenRequest") => TOKEN_REQUEST,
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => ACCESS_REVIEW,
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => RULES_REVIEW,
        ("rbac.authorization.k8s.io/v1", "Role" | "ClusterRole") => ROLE,
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => BINDING,
        ("v1" | "meta.k8s.io/v1", "DeleteOptions") => DELETE_OPTIONS,
        _ => return None,
    })
}

/// Decodes a `k8s\0` envelope into the JSON form of its object.
pub fn decode(body: &[u8]) -> Result<Value, Error> {
    const TYPE_META: &[Field] = &[one(1, "apiVersion", Type::Text), one(2, "kind", Type::Text)];
    const UNKNOWN: &[Field] = &[one(1, "typeMeta", Type::Message(TYPE_META)), one(2, "raw", Type::Bytes)];
    let envelope = body.strip_prefix(b"k8s\0").ok_or(Error::Malformed)?;
    let envelope = read(envelope, UNKNOWN)?;
    let text = |pointer: &str| {
        envelope.get("typeMeta").and_then(|t| t.get(pointer)).and_then(Value::as_str).unwrap_or_default()
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let fields = message(api_version, kind).ok_or_else(|| Error::UnknownKind(kind.to_owned()))?;
    let raw = envelope.get("raw").and_then(Value::as_str).unwrap_or_default();
    let raw = STANDARD.decode(raw).map_err(|_| Error::Malformed)?;
    let mut object = read(&raw, fields)?;
    object.insert("apiVersion".into(), json!(api_version));
    object.insert("kind".into(), json!(kind));
    Ok(Value::Object(object))
}

struct Reader<'a> {
    rest: &'a [u8],
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.rest.split_first().ok_or(Error::Malformed)?;
            self.rest = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::Malformed)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(Error::Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<Option<(u64, Wire<'a>)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Bytes(self.take(8)?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Error::Malformed)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Bytes(self.take(4)?),
            _ => return Err(Error::Malformed),
        };
        Ok(Some((tag >> 3, wire)))
    }
}

fn read(bytes: &[u8], fields: &[Field]) -> Result<Map<String, Value>, Error> {
    let mut out = Map::new();
    let mut reader = Reader { rest: bytes };
    while let Some((number, wire)) = reader.field()? {
        let Some((_, name, kind, repeated)) = fields.iter().find(|(n, ..)| *n == number) else { continue };
        let value = match (kind, wire) {
            (Type::TextMap | Type::BytesMap, Wire::Bytes(bytes)) => {
                let (key, value) = map_entry(bytes, matches!(kind, Type::BytesMap))?;
                if let Some(map) = out.entry(*name).or_insert_with(|| json!({})).as_object_mut() {
                    map.insert(key, value);
                }
                continue;
            }
            (Type::Text, Wire::Bytes(bytes)) => text(bytes)?,
            (Type::Bytes, Wire::Bytes(bytes)) => Value::String(STANDARD.encode(bytes)),
            #[allow(clippy::cast_possible_wrap)]
            (Type::Int, Wire::Number(n)) => json!(n as i64),
            (Type::Bool, Wire::Number(n)) => json!(n != 0),
            (Type::Message(inner), Wire::Bytes(bytes)) => Value::Object(read(bytes, inner)?),
            _ => return Err(Error::Malformed),
        };
        if *repeated {
            if let Some(list) = out.entry(*name).or_insert_with(|| json!([])).as_array_mut() {
                list.push(value);
            }
        } else if value.as_str() != Some("") {
            // Go writes empty strings; in JSON they are absent.
            out.insert((*name).into(), value);
        }
    }
    Ok(out)
}

fn text(bytes: &[u8]) -> Result<Value, Error> {
    std::str::from_utf8(bytes).map(|t| json!(t)).map_err(|_| Error::Malformed)
}

fn map_entry(bytes: &[u8], is_bytes: bool) -> Result<(String, Value), Error> {
    let (mut key, mut value) = (String::new(), json!(""));
    let mut reader = Reader { rest: bytes };
    while let Some((number, wire)) = reader.field()? {
        match (number, wire) {
            (1, Wire::Bytes(found)) => std::str::from_utf8(found).map_err(|_| Error::Malformed)?.clone_into(&mut key),
            (2, Wire::Bytes(found)) if is_bytes => value = Value::String(STANDARD.encode(found)),
            (2, Wire::Bytes(found)) => value = text(found)?,
            _ => {}
        }
    }
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), field(1, &type_meta), field(2, raw)].concat()
    }

    #[test]
    fn a_config_map_is_decoded() {
        let meta = [field(1, b"kc"), field(2, b""), field(11, &[field(1, b"l"), field(2, b"v")].concat())].concat();
        let raw = [field(1, &meta), field(2, &[field(1, b"a"), field(2, b"1")].concat())].concat();
        assert_eq!(
            decode(&envelope("v1", "ConfigMap", &raw)).unwrap(),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kc", "labels": {"l": "v"}}, "data": {"a": "1"}})
        );
    }

    #[test]
    fn garbage_and_unknown_kinds_are_refused() {
        assert_eq!(decode(b"x"), Err(Error::Malformed));
        assert_eq!(decode(b"k8s\0\x0a\xff"), Err(Error::Malformed));
        assert_eq!(decode(&envelope("v1", "Pod", b"")), Err(Error::UnknownKind("Pod".into())));
    }
}
