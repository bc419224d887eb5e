//! Bytes on the wire: JSON as Go's encoder writes it, YAML, and what the `Accept` header asks for.
//!
//! Go escapes `<`, `>`, `&`, U+2028 and U+2029 in every string and writes whole floats without a fraction. Custom resources come with
//! sorted keys, built-ins in the order of their Go structs. Nothing parses differently for it, but bodies can be compared byte by byte.

use bytes::Bytes;
use serde_json::{Map, Value};

/// Key order of an object's encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Alphabetical: custom resources.
    Sorted,
    /// `kind`, `apiVersion`, `metadata`, …: built-ins.
    Struct,
}

#[derive(Clone, Copy)]
enum Level {
    Top,
    Meta,
    Managed,
    Owner,
    Plain,
}

const TOP: &[&str] =
    &["kind", "apiVersion", "metadata", "columnDefinitions", "rows", "spec", "immutable", "data", "binaryData", "type"];
const TOP_LAST: &str = "status";
const META: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
const MANAGED: &[&str] = &["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
const OWNER: &[&str] = &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

/// Encodes a value.
pub fn encode(value: &Value, order: Order) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let level = if order == Order::Struct { Level::Top } else { Level::Plain };
    write_value(&mut out, value, level);
    out
}

/// Encodes a value as [`Bytes`].
pub fn encode_bytes(value: &Value, order: Order) -> Bytes {
    Bytes::from(encode(value, order))
}

fn write_value(out: &mut Vec<u8>, value: &Value, level: Level) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(n) => out.extend_from_slice(number(n).as_bytes()),
        Value::String(s) => write_string(out, s),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_value(out, item, level);
            }
            out.push(b']');
        }
        Value::Object(map) => write_map(out, map, level),
    }
}

fn write_map(out: &mut Vec<u8>, map: &Map<String, Value>, level: Level) {
    let first: &[&str] = match level {
        Level::Top => TOP,
        Level::Meta => META,
        Level::Managed => MANAGED,
        Level::Owner => OWNER,
        Level::Plain => &[],
    };
    let last = matches!(level, Level::Top).then_some(TOP_LAST);
    out.push(b'{');
    let mut written = 0usize;
    let mut entry = |out: &mut Vec<u8>, key: &str, value: &Value| {
        if written > 0 {
            out.push(b',');
        }
        written += 1;
        write_string(out, key);
        out.push(b':');
        write_value(out, value, below(level, key));
    };
    for key in first {
        if let Some(value) = map.get(*key) {
            entry(out, key, value);
        }
    }
    for (key, value) in map {
        if !first.contains(&key.as_str()) && Some(key.as_str()) != last {
            entry(out, key, value);
        }
    }
    if let Some((key, value)) = last.and_then(|l| map.get_key_value(l)) {
        entry(out, key, value);
    }
    out.push(b'}');
}

fn below(level: Level, key: &str) -> Level {
    match (level, key) {
        (Level::Top, "metadata") => Level::Meta,
        (Level::Meta, "managedFields") => Level::Managed,
        (Level::Meta, "ownerReferences") => Level::Owner,
        _ => Level::Plain,
    }
}

/// A number as Go prints it: whole floats without a fraction.
pub fn number(n: &serde_json::Number) -> String {
    match n.as_f64() {
        Some(f) if n.is_f64() && f.fract() == 0.0 && f.abs() < 1e21 => format!("{f:.0}"),
        _ => n.to_string(),
    }
}

/// Writes one JSON string with Go's escapes.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '<' | '>' | '&' | '\0'..='\u{1f}' => {
                let b = c as u8;
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(b >> 4)]);
                out.push(HEX[usize::from(b & 15)]);
            }
            '\u{2028}' => out.extend_from_slice(b"\\u2028"),
            '\u{2029}' => out.extend_from_slice(b"\\u2029"),
            c => {
                let mut buffer = [0; 4];
                out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            }
        }
    }
    out.push(b'"');
}

/// Re-indents one JSON text by two spaces, keeping its key order and escapes (`?pretty=true`, some errors).
pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    let newline = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', depth * 2));
    };
    let mut i = 0;
    while i < json.len() {
        let b = json[i];
        if in_string {
            out.push(b);
            match b {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
        } else {
            match b {
                b'"' => {
                    in_string = true;
                    out.push(b);
                }
                b'{' | b'[' if json.get(i + 1).is_some_and(|n| *n == b'}' || *n == b']') => {
                    out.push(b);
                    out.push(json[i + 1]);
                    i += 1;
                }
                b'{' | b'[' => {
                    out.push(b);
                    depth += 1;
                    newline(&mut out, depth);
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    newline(&mut out, depth);
                    out.push(b);
                }
                b',' => {
                    out.push(b);
                    newline(&mut out, depth);
                }
                b':' => out.extend_from_slice(b": "),
                b'\n' | b' ' => {}
                b => out.push(b),
            }
        }
        i += 1;
    }
    out
}

/// What form a client wants an object or list in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Plain,
    Table {
        beta: bool,
    },
    PartialObject,
    PartialList,
    /// Aggregated discovery (`APIGroupDiscoveryList`), v2 or v2beta1.
    Discovery {
        beta: bool,
    },
}

/// The negotiated answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept {
    pub yaml: bool,
    pub form: Form,
    /// Errors are pretty-printed when the client asked for a form only some objects have.
    pub pretty_errors: bool,
}

impl Accept {
    pub const JSON: Accept = Accept { yaml: false, form: Form::Plain, pretty_errors: false };

    /// Picks the first media type that can be served. `discovery` says whether the aggregated form exists at this path, `forms` whether
    /// tables and partial objects do. `None`: nothing acceptable.
    pub fn parse(header: Option<&str>, discovery: bool, forms: bool) -> Option<Accept> {
        let Some(header) = header.map(str::trim).filter(|h| !h.is_empty()) else { return Some(Accept::JSON) };
        header.split(',').take(32).find_map(|range| Self::range(range.trim(), discovery, forms))
    }

    fn range(range: &str, discovery: bool, forms: bool) -> Option<Accept> {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next()?;
        let (mut as_, mut version, mut group) = ("", "", "");
        for part in parts {
            match part.split_once('=') {
                Some(("as", v)) => as_ = v,
                Some(("v", v)) => version = v,
                Some(("g", v)) => group = v,
                _ => {}
            }
        }
        let yaml = match media {
            "application/json" | "*/*" | "application/*" => false,
            "application/yaml" => true,
            _ => return None,
        };
        let form = match (as_, group, version) {
            ("", _, _) => Form::Plain,
            ("Table", "meta.k8s.io", "v1") if forms => Form::Table { beta: false },
            ("Table", "meta.k8s.io", "v1beta1") if forms => Form::Table { beta: true },
            ("PartialObjectMetadata", "meta.k8s.io", "v1") if forms => Form::PartialObject,
            ("PartialObjectMetadataList", "meta.k8s.io", "v1") if forms => Form::PartialList,
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") if discovery => Form::Discovery { beta: false },
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") if discovery => Form::Discovery { beta: true },
            _ => return None,
        };
        Some(Accept { yaml, form, pretty_errors: form != Form::Plain })
    }
}

/// YAML with sorted keys, as `sigs.k8s.io/yaml` writes it.
pub fn yaml(value: &Value) -> Result<Vec<u8>, serde_yaml_ng::Error> {
    serde_yaml_ng::to_string(value).map(String::into_bytes)
}
