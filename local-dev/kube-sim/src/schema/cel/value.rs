//! Values of CEL expressions. Objects and lists of the resource under validation are borrowed and looked into on demand.

use super::quantity::Quantity;
use crate::schema::formats;
use crate::schema::node::{ListType, Node, Type};
use base64::Engine as _;
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Error {
    /// It costs more than it may. Unlike other errors, no `||` or `&&` makes up for it.
    Budget,
    /// Anything else, in words.
    Failed(String),
}

pub(crate) fn failed<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Failed(message.into()))
}

pub(crate) fn no_overload<T>() -> Result<T, Error> {
    failed("no such overload")
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(String),
}

#[derive(Debug, Clone)]
pub(crate) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Cow<'a, str>),
    Bytes(Arc<[u8]>),
    List(Arc<Vec<Val<'a>>>),
    Map(Arc<BTreeMap<Key, Val<'a>>>),
    /// An object or a list of the resource, with its schema if it has one.
    Json(&'a Value, Option<&'a Node>),
    Timestamp(jiff::Timestamp),
    Duration(jiff::SignedDuration),
    Optional(Option<Box<Val<'a>>>),
    Type(&'static str),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Quantity(Quantity),
    Url(Arc<super::net::Url>),
}

/// What a rule sees of metadata, whatever the schema says.
static METADATA: LazyLock<Node> = LazyLock::new(|| {
    // The longest name there may be.
    let text = || Node { kind: Some(Type::String), max_length: Some(253), ..Node::default() };
    let properties = ["name", "generateName"].into_iter().map(|name| (name.to_owned(), text())).collect();
    Node { kind: Some(Type::Object), properties, ..Node::default() }
});

static TEXT: LazyLock<Node> = LazyLock::new(|| Node { kind: Some(Type::String), ..Node::default() });

/// The schema of a member as rules see it: objects with an identity have metadata, kind and apiVersion even if undeclared.
pub(crate) fn member_node<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    match name {
        "metadata" if node.identity => Some(&METADATA),
        "kind" | "apiVersion" if node.identity => Some(&TEXT),
        _ => node.member(name),
    }
}

const RESERVED: [&str; 18] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];

const ESCAPES: [(&str, &str); 4] = [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];

/// The name of the member that an identifier in a rule stands for: names that CEL cannot spell are escaped.
pub(crate) fn unescape(identifier: &str) -> Cow<'_, str> {
    let word = identifier.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = word.filter(|w| RESERVED.contains(w)) {
        return Cow::Owned(word.to_owned());
    }
    if !identifier.contains("__") {
        return Cow::Borrowed(identifier);
    }
    let mut out = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(first) = rest.chars().next() {
        if let Some((escape, plain)) = ESCAPES.iter().find(|(escape, _)| rest.starts_with(escape)) {
            out.push_str(plain);
            rest = &rest[escape.len()..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Cow::Owned(out)
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

impl<'a> Val<'a> {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Val::String(Cow::Owned(text.into()))
    }

    pub(crate) fn list_of(items: Vec<Val<'a>>) -> Self {
        Val::List(Arc::new(items))
    }

    /// A value of the resource. Fails when it is not of the type its schema says, which validation has let pass (`1.0` for an integer).
    pub(crate) fn of(value: &'a Value, node: Option<&'a Node>) -> Result<Self, Error> {
        let wrong = |wanted: &str| failed(format!("invalid data, expected {wanted}, got {}", go_type(value)));
        let kind = node.filter(|n| !n.int_or_string).and_then(|n| n.kind);
        let format = node.and_then(|n| n.format.as_deref());
        Ok(match (value, kind) {
            (Value::Null, _) => Val::Null,
            (Value::Bool(b), None | Some(Type::Boolean)) => Val::Bool(*b),
            (Value::Number(n), Some(Type::Number)) => n.as_f64().map_or(Val::Null, Val::Double),
            (Value::Number(n), None) if n.as_i64().is_none() => n.as_f64().map_or(Val::Null, Val::Double),
            (Value::Number(n), None | Some(Type::Integer)) => match n.as_i64() {
                Some(int) => Val::Int(int),
                None => return wrong("int"),
            },
            (Value::String(s), Some(Type::String)) => return Self::formatted(s, format),
            (Value::String(s), None) => Val::String(Cow::Borrowed(s)),
            (Value::Array(_), None | Some(Type::Array)) | (Value::Object(_), None | Some(Type::Object)) => {
                Val::Json(value, node)
            }
            (_, Some(Type::Boolean)) => return wrong("bool"),
            (_, Some(Type::Integer)) => return wrong("int"),
            (_, Some(Type::String)) => return wrong("string"),
            (_, Some(Type::Array)) => return wrong("list"),
            (_, Some(Type::Object)) => return wrong("map"),
            (_, Some(Type::Number)) => return wrong("double"),
        })
    }

    fn formatted(text: &'a str, format: Option<&str>) -> Result<Self, Error> {
        let bad = |what: &str| Error::Failed(format!("Invalid value: {text:?}: {what}"));
        Ok(match format {
            Some("date-time") => Val::Timestamp(formats::date_time(text).ok_or_else(|| bad("not a date-time"))?),
            Some("date") => Val::Timestamp(formats::date(text).ok_or_else(|| bad("not a date"))?),
            Some("duration") => Val::Duration(super::time::duration(text).ok_or_else(|| bad("not a duration"))?),
            Some("byte") => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| bad("not base64"))?;
                Val::Bytes(bytes.into())
            }
            _ => Val::String(Cow::Borrowed(text)),
        })
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::String(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::List(_) | Val::Json(Value::Array(_), _) => "list",
            Val::Map(_) | Val::Json(..) => "map",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::Optional(_) => "optional_type",
            Val::Type(_) => "type",
            Val::Ip(_) => "net.IP",
            Val::Cidr(..) => "net.CIDR",
            Val::Quantity(_) => "kubernetes.Quantity",
            Val::Url(_) => "kubernetes.URL",
        }
    }

    /// The number of items, members, characters or bytes.
    pub(crate) fn size(&self) -> Option<usize> {
        Some(match self {
            Val::String(text) => text.chars().count(),
            Val::Bytes(bytes) => bytes.len(),
            Val::List(items) => items.len(),
            Val::Map(map) => map.len(),
            Val::Json(Value::Array(list), _) => list.len(),
            Val::Json(Value::Object(map), _) => map.len(),
            _ => return None,
        })
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Val::List(_) | Val::Json(Value::Array(_), _))
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self, Val::Map(_) | Val::Json(Value::Object(_), _))
    }

    /// The item at `index` of a list.
    pub(crate) fn item(&self, index: usize) -> Result<Option<Val<'a>>, Error> {
        match self {
            Val::List(items) => Ok(items.get(index).cloned()),
            Val::Json(Value::Array(list), node) => {
                let node = node.and_then(|n| n.items.as_deref());
                list.get(index).map(|v| Val::of(v, node)).transpose()
            }
            _ => no_overload(),
        }
    }

    pub(crate) fn items(&self) -> Result<Vec<Val<'a>>, Error> {
        let size = self.size().filter(|_| self.is_list());
        let Some(size) = size else { return no_overload() };
        (0..size).filter_map(|i| self.item(i).transpose()).collect()
    }

    /// The member `key` of a map or object.
    pub(crate) fn member(&self, key: &Key) -> Result<Option<Val<'a>>, Error> {
        match (self, key) {
            (Val::Map(map), _) => Ok(map.get(key).cloned()),
            (Val::Json(Value::Object(members), node), Key::String(name)) => {
                let Some(value) = members.get(name) else { return Ok(None) };
                match node {
                    None => Val::of(value, None).map(Some),
                    Some(node) => match member_node(node, name) {
                        Some(schema) => Val::of(value, Some(schema)).map(Some),
                        None if node.keeps_undeclared() => Val::of(value, None).map(Some),
                        None => Ok(None),
                    },
                }
            }
            (Val::Json(Value::Object(_), _), _) => Ok(None),
            _ => no_overload(),
        }
    }

    /// The member that `.identifier` selects.
    pub(crate) fn field(&self, identifier: &str) -> Result<Option<Val<'a>>, Error> {
        let name = match self {
            Val::Json(_, Some(node)) if node.additional.is_none() => unescape(identifier),
            _ => Cow::Borrowed(identifier),
        };
        self.member(&Key::String(name.into_owned()))
    }

    pub(crate) fn keys(&self) -> Result<Vec<Val<'a>>, Error> {
        Ok(match self {
            Val::Map(map) => map.keys().map(|key| Val::from(key.clone())).collect(),
            Val::Json(Value::Object(members), _) => {
                let mut names: Vec<&'a String> = members.keys().collect();
                names.sort();
                names.into_iter().map(|name| Val::String(Cow::Borrowed(name.as_str()))).collect()
            }
            _ => return no_overload(),
        })
    }

    pub(crate) fn as_key(&self) -> Option<Key> {
        Some(match self {
            Val::Bool(b) => Key::Bool(*b),
            Val::Int(i) => Key::Int(*i),
            Val::Uint(u) => Key::Uint(*u),
            Val::String(s) => Key::String(s.clone().into_owned()),
            _ => return None,
        })
    }

    /// Roughly how many steps it takes to look at all of it.
    pub(crate) fn weight(&self) -> u64 {
        match self {
            Val::String(text) => text.len() as u64 / 10,
            Val::Bytes(bytes) => bytes.len() as u64 / 10,
            Val::Json(value, _) => json_weight(value),
            Val::List(items) => items.len() as u64,
            Val::Map(map) => map.len() as u64,
            _ => 0,
        }
    }

    pub(crate) fn equals(&self, other: &Val<'a>) -> bool {
        match (self, other) {
            (Val::Null, Val::Null) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Bytes(a), Val::Bytes(b)) => a == b,
            (Val::Optional(a), Val::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (None, None) => true,
                _ => false,
            },
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Ip(a), Val::Ip(b)) => a == b,
            (Val::Cidr(a, m), Val::Cidr(b, n)) => a == b && m == n,
            (Val::Url(a), Val::Url(b)) => a == b,
            (Val::Json(a, n), Val::Json(b, m)) if a == b && n.map(std::ptr::from_ref) == m.map(std::ptr::from_ref) => {
                true
            }
            _ if self.is_list() && other.is_list() => self.lists_equal(other),
            _ if self.is_map() && other.is_map() => self.maps_equal(other),
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }

    fn lists_equal(&self, other: &Val<'a>) -> bool {
        let (Ok(a), Ok(b)) = (self.items(), other.items()) else { return false };
        if a.len() != b.len() {
            return false;
        }
        // Sets are equal in whatever order.
        let set = |v: &Val<'a>| matches!(v, Val::Json(_, Some(node)) if node.list_type == ListType::Set);
        if let (Val::Json(Value::Array(a), _), Val::Json(Value::Array(b), _)) = (self, other)
            && set(self)
            && set(other)
        {
            let texts = |list: &[Value]| list.iter().map(ToString::to_string).collect::<HashSet<_>>();
            return texts(a) == texts(b);
        }
        a.iter().zip(&b).all(|(x, y)| x.equals(y))
    }

    fn maps_equal(&self, other: &Val<'a>) -> bool {
        let (Ok(a), Ok(b)) = (self.keys(), other.keys()) else { return false };
        a.len() == b.len()
            && a.iter().filter_map(Val::as_key).all(|key| match (self.member(&key), other.member(&key)) {
                (Ok(Some(x)), Ok(Some(y))) => x.equals(&y),
                (Ok(None), Ok(None)) => true,
                _ => false,
            })
    }

    /// The order of two values which have one.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn compare(&self, other: &Val<'a>) -> Option<Ordering> {
        let number = |v: &Val<'a>| match v {
            Val::Int(i) => Some(i128::from(*i)),
            Val::Uint(u) => Some(i128::from(*u)),
            _ => None,
        };
        match (self, other) {
            (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
            (Val::Double(a), _) => a.partial_cmp(&(number(other)? as f64)),
            (_, Val::Double(b)) => (number(self)? as f64).partial_cmp(b),
            (Val::String(a), Val::String(b)) => Some(a.cmp(b)),
            (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
            (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
            (Val::Timestamp(a), Val::Timestamp(b)) => Some(a.cmp(b)),
            (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
            (Val::Quantity(a), Val::Quantity(b)) => Some(a.cmp(b)),
            _ => Some(number(self)?.cmp(&number(other)?)),
        }
    }
}

impl From<Key> for Val<'_> {
    fn from(key: Key) -> Self {
        match key {
            Key::Bool(b) => Val::Bool(b),
            Key::Int(i) => Val::Int(i),
            Key::Uint(u) => Val::Uint(u),
            Key::String(s) => Val::text(s),
        }
    }
}

fn json_weight(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(json_weight).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(json_weight).sum::<u64>(),
        Value::String(text) => 1 + text.len() as u64 / 10,
        _ => 1,
    }
}
