//! Objects seen through their schema, as far as ownership of fields needs it: what is one value, and what is made of parts that may have
//! different owners.

use super::set::{FieldSet, shown};
use crate::schema::{ListType, Node, Schema, Type};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Metadata, which every kind has.
static METADATA: LazyLock<Node> = LazyLock::new(|| {
    let mut metadata = Node::anything();
    let map = |key: &str, item: Node| Node {
        list_keys: vec![key.to_owned()],
        list_type: ListType::Map,
        items: Some(Box::new(item)),
        ..array()
    };
    let owner = Node { atomic_map: true, ..Node::anything() };
    metadata.properties.insert("ownerReferences".into(), map("uid", owner));
    metadata.properties.insert(
        "finalizers".into(),
        Node { list_type: ListType::Set, items: Some(Box::new(Node::anything())), ..array() },
    );
    metadata
});

fn array() -> Node {
    Node { kind: Some(Type::Array), ..Node::default() }
}

/// The structures of built-in kinds that are owned otherwise than they look.
static BUILTIN: LazyLock<HashMap<&'static str, Schema>> = LazyLock::new(|| {
    let kinds = ["CustomResourceDefinition", "Event", "Namespace", "ServiceAccount"];
    kinds.into_iter().map(|kind| (kind, builtin(kind))).collect()
});

/// The schema to go by for an object: that of a custom resource, or for a built-in kind, whose schema is open, what is known of it.
pub(super) fn schema_for<'s>(schema: &'s Schema, object: &Value) -> &'s Schema {
    if !schema.is_anything() {
        return schema;
    }
    object.get("kind").and_then(Value::as_str).and_then(|kind| BUILTIN.get(kind)).unwrap_or(schema)
}

/// The structure of a built-in kind: open, but for the lists and objects that are owned otherwise than their look suggests.
fn builtin(kind: &str) -> Schema {
    let keyed = |key: &str| {
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key],
        "items": {"type": "object", "required": [key], "properties": {key: {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": true}})
    };
    let open = |properties: Value| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": properties});
    let atomic =
        || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-map-type": "atomic"});
    let properties = match kind {
        "CustomResourceDefinition" | "Namespace" => json!({"status": open(json!({"conditions": keyed("type")}))}),
        "ServiceAccount" => json!({"secrets": keyed("name")}),
        "Event" => json!({"involvedObject": atomic(), "regarding": atomic(), "related": atomic()}),
        _ => json!({}),
    };
    Schema::compile(&open(properties)).unwrap_or_else(|_| Schema::anything())
}

/// What a built-in kind has before anything is set: parts that are there from the start are not owned by who fills them.
pub(super) fn zero(kind: &str) -> Value {
    match kind {
        "CustomResourceDefinition" => json!({"spec": {"names": {}}, "status": {"acceptedNames": {}}}),
        "Lease" => json!({"spec": {}}),
        "Namespace" => json!({"spec": {}, "status": {}}),
        "Event" => {
            json!({"source": {}, "deprecatedSource": {}, "reportingComponent": "", "reportingInstance": "", "eventTime": null,
            "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null, "firstTimestamp": null, "lastTimestamp": null})
        }
        _ => json!({}),
    }
}

/// The schema of a value, if it has one.
#[derive(Clone, Copy)]
pub(super) struct Shape<'s>(Option<&'s Node>);

/// Of which parts a value consists, as far as ownership goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// None: it has one owner, or several who agree.
    Leaf,
    Members,
    Items,
}

impl<'s> Shape<'s> {
    pub(super) fn of(schema: &'s Schema) -> Self {
        Shape(Some(schema.root()))
    }

    /// `None`: the member is not declared.
    fn member(self, name: &str) -> Option<Shape<'s>> {
        let Some(node) = self.0 else { return Some(Shape(None)) };
        match name {
            "metadata" if node.identity => return Some(Shape(Some(&METADATA))),
            "apiVersion" | "kind" if node.identity => return Some(Shape(None)),
            _ => {}
        }
        match node.member(name) {
            Some(member) => Some(Shape(Some(member))),
            None if node.keeps_undeclared() => Some(Shape(None)),
            None => None,
        }
    }

    fn items(self) -> Shape<'s> {
        Shape(self.0.and_then(|node| node.items.as_deref()))
    }

    fn parts(self, value: &Value) -> Parts {
        match value {
            Value::Object(_) if !self.0.is_some_and(|n| n.atomic_map) => Parts::Members,
            Value::Array(_) if self.0.is_some_and(|n| n.list_type != ListType::Atomic) => Parts::Items,
            _ => Parts::Leaf,
        }
    }

    /// The path element of an item of a list with parts.
    fn element(self, item: &Value) -> String {
        match self.0 {
            Some(node) if node.list_type == ListType::Map => format!("k:{}", node.key_text(item)),
            _ => format!("v:{item}"),
        }
    }

    fn is_map(self) -> bool {
        self.0.is_none_or(|node| node.properties.is_empty())
    }
}

fn field(name: &str) -> String {
    format!("f:{name}")
}

fn empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(members)) => members.is_empty(),
        Some(_) => false,
    }
}

/// The parts of an object or a list, by path element.
fn children<'v, 's>(shape: Shape<'s>, value: Option<&'v Value>) -> Vec<(String, &'v Value, Shape<'s>)> {
    match value {
        Some(Value::Object(members)) => members
            .iter()
            .map(|(name, member)| (field(name), member, shape.member(name).unwrap_or(Shape(None))))
            .collect(),
        Some(Value::Array(list)) => list.iter().map(|item| (shape.element(item), item, shape.items())).collect(),
        _ => Vec::new(),
    }
}

/// The fields an applied object claims.
pub(super) fn claimed(shape: Shape<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    claim(shape, value, &mut Vec::new(), &mut set);
    set
}

fn claim(shape: Shape<'_>, value: &Value, path: &mut Vec<String>, set: &mut FieldSet) {
    match shape.parts(value) {
        Parts::Leaf => set.insert(path),
        parts => {
            for (element, child, child_shape) in children(shape, Some(value)) {
                path.push(element);
                claim(child_shape, child, path, set);
                // Items and entries of maps are claimed as such; declared members, and those at the root, only through what they hold.
                let entry = parts == Parts::Items || (shape.is_map() && path.len() > 1);
                if entry || child.is_null() || is_empty_object(child) {
                    set.insert(path);
                }
                path.pop();
            }
        }
    }
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// What differs between two objects.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

pub(super) fn compare(shape: Shape<'_>, old: &Value, new: &Value) -> Changes {
    let mut changes = Changes::default();
    differ(shape, Some(old), Some(new), &mut Vec::new(), &mut changes);
    changes
}

fn differ(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<String>, changes: &mut Changes) {
    match (old, new) {
        (None, None) => return,
        (None, Some(_)) => changes.added.insert(path),
        (Some(_), None) => changes.removed.insert(path),
        (Some(old), Some(new)) if old == new => return,
        (Some(_), Some(_)) => {}
    }
    let parts = |value: Option<&Value>| value.filter(|v| !v.is_null()).map(|v| shape.parts(v));
    let (old_parts, new_parts) = (parts(old), parts(new));
    let leaf = old_parts.unwrap_or(Parts::Leaf) == Parts::Leaf && new_parts.unwrap_or(Parts::Leaf) == Parts::Leaf;
    let both = old_parts.is_some() && new_parts.is_some() && old_parts != new_parts;
    if leaf || both || (empty(old) && empty(new)) {
        if old.is_some() && new.is_some() {
            changes.modified.insert(path);
        }
        return;
    }
    let before = children(shape, old);
    let after = children(shape, new);
    // Items of a list are told apart by their element; of equal elements the first counts.
    let mut old_by_element: HashMap<String, &Value> = HashMap::new();
    for (element, value, _) in &before {
        old_by_element.entry(element.clone()).or_insert(value);
    }
    let mut seen = HashSet::new();
    for (element, value, child_shape) in after {
        if !seen.insert(element.clone()) {
            continue;
        }
        let old = old_by_element.remove(&element);
        path.push(element);
        differ(child_shape, old, Some(value), path, changes);
        path.pop();
    }
    for (element, value, child_shape) in before {
        if old_by_element.remove(&element).is_some() {
            path.push(element);
            differ(child_shape, Some(value), None, path, changes);
            path.pop();
        }
    }
}

/// `live` with what `applied` says.
pub(super) fn merged(shape: Shape<'_>, live: &Value, applied: &Value) -> Value {
    match (live, applied, shape.parts(applied)) {
        (Value::Object(old), Value::Object(new), Parts::Members) => {
            let mut result = old.clone();
            for (name, value) in new {
                let shape = shape.member(name).unwrap_or(Shape(None));
                let value = old.get(name).map_or_else(|| value.clone(), |old| merged(shape, old, value));
                result.insert(name.clone(), value);
            }
            Value::Object(result)
        }
        (Value::Array(old), Value::Array(new), Parts::Items) => {
            let mut result = old.clone();
            let mut at: HashMap<String, usize> = HashMap::new();
            for (i, item) in result.iter().enumerate() {
                at.entry(shape.element(item)).or_insert(i);
            }
            for item in new {
                match at.get(&shape.element(item)) {
                    Some(i) => result[*i] = merged(shape.items(), &result[*i], item),
                    None => result.push(item.clone()),
                }
            }
            Value::Array(result)
        }
        _ => applied.clone(),
    }
}

/// `value` without the paths in `set`.
pub(super) fn without(shape: Shape<'_>, value: &Value, set: &FieldSet) -> Value {
    let keep = |element: &str, child: &Value, child_shape: Shape<'_>| {
        if set.has(element) {
            return None;
        }
        Some(set.below(element).map_or_else(|| child.clone(), |below| without(child_shape, child, below)))
    };
    match (value, shape.parts(value)) {
        (Value::Object(members), Parts::Members) => {
            let kept = members.iter().filter_map(|(name, member)| {
                let shape = shape.member(name).unwrap_or(Shape(None));
                Some((name.clone(), keep(&field(name), member, shape)?))
            });
            Value::Object(kept.collect())
        }
        (Value::Array(list), Parts::Items) => {
            Value::Array(list.iter().filter_map(|item| keep(&shape.element(item), item, shape.items())).collect())
        }
        _ => value.clone(),
    }
}

/// In what an applied object does not fit the schema's structure.
pub(super) fn misfits(shape: Shape<'_>, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    misfit(shape, value, &mut String::new(), &mut problems);
    problems
}

fn misfit(shape: Shape<'_>, value: &Value, path: &mut String, problems: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    if let Some(wanted) = shape.0.and_then(|node| wrong_type(node, value)) {
        problems.push(format!("{path}: expected {wanted}, got {}", kind_of(value)));
        return;
    }
    let length = path.len();
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                path.push_str(&shown(&field(name)));
                match shape.member(name) {
                    Some(shape) => misfit(shape, member, path, problems),
                    None => problems.push(format!("{path}: field not declared in schema")),
                }
                path.truncate(length);
            }
        }
        Value::Array(list) => {
            let keyed = shape.0.filter(|node| node.list_type == ListType::Map);
            let mut seen = HashSet::new();
            for (i, item) in list.iter().enumerate() {
                if let Some(node) = keyed {
                    let key = node.list_key(item);
                    if let Some(missing) = node.list_keys.iter().find(|name| !key.contains_key(*name)) {
                        let why = "associative list with keys has an element that omits key field";
                        problems
                            .push(format!("{path}: element {i}: {why} {missing:?} (and doesn't have default value)"));
                        continue;
                    }
                }
                let element = shape.element(item);
                let apart = shape.parts(value) == Parts::Items;
                if apart && !seen.insert(element.clone()) {
                    problems.push(format!("{path}: duplicate entries for key {}", shown(&element)));
                    continue;
                }
                let segment = if apart { shown(&element) } else { format!("[{i}]") };
                path.push_str(&segment);
                misfit(shape.items(), item, path, problems);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// What was expected of a value that is something else.
fn wrong_type(node: &Node, value: &Value) -> Option<&'static str> {
    let (wanted, fits) = match node.kind.filter(|_| !node.int_or_string)? {
        Type::Array => ("list", value.is_array()),
        Type::Boolean => ("boolean", value.is_boolean()),
        Type::Integer | Type::Number => ("numeric (int or float)", value.is_number()),
        Type::Object => ("map", value.is_object()),
        Type::String => ("string", value.is_string()),
    };
    (!fits).then_some(wanted)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}
