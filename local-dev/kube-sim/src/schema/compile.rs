//! From `openAPIV3Schema` to nodes.

use super::cause::Cause;
use super::node::{Additional, Bound, ListType, Node, Type};
use super::{Schema, cel, defaults, structural, validate};
use regex::RegexBuilder;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Where problems are reported, whatever version the schema is of: the real server's internal form.
pub(super) const BASE: &str = "spec.validation.openAPIV3Schema";
/// Bytes a compiled pattern may take: enough for any sensible one, too few for nested repetitions that explode.
const PATTERN_BYTES: usize = 2 * 1024 * 1024;

/// Where a node stands; some rules differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Member,
    Item,
    /// Inside `allOf`, `anyOf`, `oneOf` or `not`; whether types may be given, as below int-or-string.
    Branch {
        typed: bool,
    },
}

pub(super) fn compile(schema: &Value) -> Result<Schema, Vec<Cause>> {
    let mut causes = Vec::new();
    let Value::Object(members) = schema else {
        return Err(vec![Cause::required(BASE, "")]);
    };
    let root = node(members, BASE, Place::Root, &mut causes);
    if causes.is_empty() {
        cel::estimate::check(&root, BASE, &mut causes);
    }
    if causes.is_empty() { Ok(Schema { has_rules: root.any_rules, root: Arc::new(root) }) } else { Err(causes) }
}

fn node(source: &Map<String, Value>, path: &str, place: Place, causes: &mut Vec<Cause>) -> Node {
    structural::check(source, path, place, causes);
    let flag = |key: &str| source.get(key).and_then(Value::as_bool).unwrap_or(false);
    let count = |key: &str| source.get(key).and_then(Value::as_u64);
    let number = |key: &str| source.get(key).and_then(Value::as_f64);
    let text = |key: &str| source.get(key).and_then(Value::as_str);
    let texts = |key: &str| -> Vec<String> {
        source
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let bound = |key: &str, exclusive: &str| number(key).map(|value| Bound { value, exclusive: flag(exclusive) });
    let int_or_string = flag("x-kubernetes-int-or-string");
    let branch = Place::Branch { typed: int_or_string || place == Place::Branch { typed: true } };
    let inner = if matches!(place, Place::Branch { .. }) { place } else { Place::Member };
    let inner_item = if matches!(place, Place::Branch { .. }) { place } else { Place::Item };

    let mut result = Node {
        kind: text("type").and_then(Type::parse),
        format: text("format").map(str::to_owned),
        nullable: flag("nullable"),
        int_or_string,
        preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        embedded: flag("x-kubernetes-embedded-resource"),
        identity: place == Place::Root || flag("x-kubernetes-embedded-resource"),
        default: source.get("default").cloned(),
        choices: source.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        required: texts("required"),
        list_type: match text("x-kubernetes-list-type") {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map,
            _ => ListType::Atomic,
        },
        list_keys: texts("x-kubernetes-list-map-keys"),
        atomic_map: text("x-kubernetes-map-type") == Some("atomic"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        ..Node::default()
    };
    if let Some(pattern) = text("pattern") {
        match RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build() {
            Ok(compiled) => result.pattern = Some(compiled),
            Err(error) => causes.push(bad_pattern(&format!("{path}.pattern"), pattern, &error)),
        }
    }
    for (name, member) in object(source, "properties") {
        if let Value::Object(member) = member {
            let path = format!("{path}.properties[{name}]");
            // Below the root, metadata is the server's; a schema may only narrow its name.
            result.properties.insert(name.clone(), node(member, &path, inner, causes));
        }
    }
    match source.get("additionalProperties") {
        Some(Value::Object(member)) => {
            let member = node(member, &format!("{path}.additionalProperties"), inner, causes);
            result.additional = Some(Additional::Node(Box::new(member)));
        }
        Some(Value::Bool(true)) => result.additional = Some(Additional::Anything),
        _ => {}
    }
    if let Some(Value::Object(item)) = source.get("items") {
        result.items = Some(Box::new(node(item, &format!("{path}.items"), inner_item, causes)));
    }
    let branches = |key: &str, causes: &mut Vec<Cause>| -> Vec<Node> {
        let list = source.get(key).and_then(Value::as_array).into_iter().flatten().enumerate();
        list.filter_map(|(i, one)| Some(node(one.as_object()?, &format!("{path}.{key}[{i}]"), branch, causes)))
            .collect()
    };
    result.all_of = branches("allOf", causes);
    result.any_of = branches("anyOf", causes);
    result.one_of = branches("oneOf", causes);
    if let Some(Value::Object(one)) = source.get("not") {
        result.not = Some(Box::new(node(one, &format!("{path}.not"), branch, causes)));
    }
    structural::check_list(&result, path, causes);
    if let Some(default) = &result.default {
        check_default(&result, default, path, causes);
    }
    let rules = source.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    for (i, rule) in rules.enumerate() {
        let path = format!("{path}.x-kubernetes-validations[{i}]");
        match cel::Rule::compile(rule, &result) {
            Ok(rule) => result.rules.push(rule),
            Err(problems) => causes.extend(problems.into_iter().map(|p| p.into_cause(&path))),
        }
    }
    result.any_rules = !result.rules.is_empty()
        || result.properties.values().any(|n| n.any_rules)
        || result.items.as_ref().is_some_and(|n| n.any_rules)
        || matches!(&result.additional, Some(Additional::Node(n)) if n.any_rules);
    result
}

pub(super) fn object<'a>(source: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    source.get(key).and_then(Value::as_object).into_iter().flatten()
}

fn bad_pattern(field: &str, pattern: &str, error: &regex::Error) -> Cause {
    let text = error.to_string();
    let problem = match text.lines().last().map(|line| line.trim_start_matches("error: ")) {
        Some("unclosed group") => "missing closing )",
        Some(other) => other,
        None => "invalid",
    };
    let shown = Value::from(pattern).to_string();
    Cause::invalid(
        field,
        &shown,
        &format!("must be a valid regular expression, but isn't: error parsing regexp: {problem}: `{pattern}`"),
    )
}

/// A default must be what defaulting would leave as it is: complete, without unknown fields, and valid.
fn check_default(node: &Node, default: &Value, path: &str, causes: &mut Vec<Cause>) {
    let field = format!("{path}.default");
    if default.is_null() && !node.nullable {
        return;
    }
    let mut pruned = default.clone();
    if !defaults::prune_below(node, &mut pruned).is_empty() {
        causes.push(Cause::invalid(&field, &default.to_string(), "must not have unknown fields"));
        return;
    }
    defaults::default(node, &mut pruned);
    let mut found = Vec::new();
    validate::validate(node, &pruned, None, &mut found);
    causes.extend(found.into_iter().map(|mut cause| {
        cause.field =
            if cause.field == super::cause::ROOT { field.clone() } else { format!("{field}.{}", cause.field) };
        cause
    }));
}
