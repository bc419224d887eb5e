//! A compiled schema as a tree of nodes.

use super::cel::Rule;
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// The JSON type a node asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl Type {
    pub(crate) const NAMES: [(&'static str, Type); 6] = [
        ("array", Type::Array),
        ("boolean", Type::Boolean),
        ("integer", Type::Integer),
        ("number", Type::Number),
        ("object", Type::Object),
        ("string", Type::String),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, t)| *t == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn parse(name: &str) -> Option<Type> {
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, t)| *t)
    }
}

/// How the items of a list relate to each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Items are unique, and may have different owners.
    Set,
    /// Items are objects, told apart by their keys.
    Map,
}

/// What `additionalProperties` says.
#[derive(Debug, Clone)]
pub(crate) enum Additional {
    Anything,
    Node(Box<Node>),
}

/// A numeric bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub value: f64,
    pub exclusive: bool,
}

/// One node of a structural schema, or one branch of `allOf`, `anyOf`, `oneOf`, `not`.
///
/// Where the schema language has a flag, so has a node.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub kind: Option<Type>,
    pub format: Option<String>,
    pub nullable: bool,
    pub int_or_string: bool,
    pub preserve_unknown: bool,
    pub embedded: bool,
    pub default: Option<Value>,
    pub choices: Vec<Value>,
    pub required: Vec<String>,
    pub properties: BTreeMap<String, Node>,
    pub additional: Option<Additional>,
    pub items: Option<Box<Node>>,
    pub list_type: ListType,
    pub list_keys: Vec<String>,
    pub atomic_map: bool,
    pub pattern: Option<Regex>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub minimum: Option<Bound>,
    pub maximum: Option<Bound>,
    pub multiple_of: Option<f64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
    pub rules: Vec<Rule>,
    /// Whether this node or one below it has rules.
    pub any_rules: bool,
    /// Whether values are objects with an `apiVersion`, a `kind` and metadata of their own.
    pub identity: bool,
}

impl Node {
    /// A node that accepts and keeps everything.
    pub(crate) fn anything() -> Node {
        Node { preserve_unknown: true, ..Node::default() }
    }

    /// The schema of a member of an object; `None` when it is not declared.
    pub(crate) fn member(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or(match &self.additional {
            Some(Additional::Node(node)) => Some(node),
            _ => None,
        })
    }

    /// Whether an undeclared member may stay.
    pub(crate) fn keeps_undeclared(&self) -> bool {
        self.preserve_unknown || matches!(self.additional, Some(Additional::Anything))
    }

    /// The text that tells an item of a map list from the others: its keys, in order, with defaults filled in.
    pub(crate) fn list_key(&self, item: &Value) -> serde_json::Map<String, Value> {
        let default = |key: &String| self.items.as_ref()?.properties.get(key)?.default.clone();
        self.list_keys
            .iter()
            .filter_map(|key| Some((key.clone(), item.get(key).cloned().or_else(|| default(key))?)))
            .collect()
    }

    /// The items of an old list by what tells them apart; none for a list whose items cannot be told apart.
    pub(crate) fn by_key<'o>(&self, old: Option<&'o Value>) -> HashMap<String, &'o Value> {
        let list = old.filter(|_| self.list_type == ListType::Map).and_then(Value::as_array);
        let mut items = HashMap::new();
        for item in list.into_iter().flatten() {
            items.entry(self.key_text(item)).or_insert(item);
        }
        items
    }

    /// The old item that corresponds to `item`.
    pub(crate) fn corresponding<'o>(&self, item: &Value, old: &HashMap<String, &'o Value>) -> Option<&'o Value> {
        if old.is_empty() { None } else { old.get(&self.key_text(item)).copied() }
    }

    pub(crate) fn key_text(&self, item: &Value) -> String {
        Value::Object(self.list_key(item)).to_string()
    }
}
