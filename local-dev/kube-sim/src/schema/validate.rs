//! Validation of a value against a schema, without CEL.
//!
//! The order of the checks at one value, and every message, follow the real server: type, branches, string, format, number, list, enum,
//! object, each object's members by name before its missing ones. Keys that occur twice in a list are looked for at the very end.

use super::cause::{Cause, shown};
use super::formats;
use super::node::{Bound, ListType, Node, Type};
use serde_json::{Number, Value};
use std::collections::HashSet;

pub(super) fn validate(root: &Node, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut walk = Walk { path: String::new(), causes };
    walk.value(root, object, old);
    walk.duplicates(root, object, old);
}

struct Walk<'c> {
    path: String,
    causes: &'c mut Vec<Cause>,
}

/// The type of a value, as error texts name it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.as_i64().is_some() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The format the server ascribes to a value that is not a string.
fn format_name(value: &Value) -> &'static str {
    match value {
        Value::Number(n) if n.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        _ => "",
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::float_cmp)]
fn is_whole(number: &Number) -> bool {
    // 2^53: beyond, a float no longer says which integer it is.
    number.as_i64().is_some() || number.as_f64().is_some_and(|f| f.fract() == 0.0 && f.abs() < 9_007_199_254_740_992.0)
}

fn type_matches(kind: Type, value: &Value) -> bool {
    match (kind, value) {
        (Type::Array, Value::Array(_))
        | (Type::Boolean, Value::Bool(_))
        | (Type::Number, Value::Number(_))
        | (Type::Object, Value::Object(_))
        | (Type::String, Value::String(_)) => true,
        (Type::Integer, Value::Number(number)) => is_whole(number),
        _ => false,
    }
}

impl Walk<'_> {
    fn below(&mut self, segment: &str, then: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if !self.path.is_empty() && !segment.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(segment);
        then(self);
        self.path.truncate(length);
    }

    /// `spec.a in body should …`
    fn in_body(&self, rest: &str) -> String {
        format!("{} in body {rest}", self.path)
    }

    fn invalid(&mut self, value: &str, rest: &str) {
        let cause = Cause::invalid(&self.path, value, &self.in_body(rest));
        self.causes.push(cause);
    }

    fn wrong_type(&mut self, wanted: &str, got: &str) {
        let got = Value::from(got).to_string();
        let cause = Cause::type_invalid(&self.path, &got, &self.in_body(&format!("must be of type {wanted}: {got}")));
        self.causes.push(cause);
    }

    fn value(&mut self, node: &Node, value: &Value, old: Option<&Value>) {
        // Ratcheting: what was stored before is not held against this writer.
        if old == Some(value) {
            return;
        }
        self.kind(node, value);
        if value.is_null() {
            self.choices(node, value);
            return;
        }
        self.branches(node, value, old);
        match value {
            Value::String(text) => self.string(node, text),
            Value::Number(number) => self.number(node, number),
            Value::Array(list) => self.list(node, list, old),
            _ => {}
        }
        self.choices(node, value);
        if let Value::Object(members) = value {
            self.object(node, members, old);
        }
    }

    fn kind(&mut self, node: &Node, value: &Value) {
        if node.int_or_string {
            let fits = matches!(value, Value::String(_))
                || type_matches(Type::Integer, value)
                || (value.is_null() && node.nullable);
            if !fits {
                self.wrong_type("integer,string", type_name(value));
            }
            return;
        }
        let Some(kind) = node.kind else { return };
        if type_matches(kind, value) || (value.is_null() && node.nullable) {
            return;
        }
        match &node.format {
            Some(format) if !value.is_null() && !value.is_string() && !value.is_array() => {
                self.wrong_type(format, format_name(value));
            }
            _ => self.wrong_type(kind.name(), type_name(value)),
        }
    }

    /// The causes one branch alone would give.
    fn try_branch(&mut self, node: &Node, value: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        let mut walk = Walk { path: std::mem::take(&mut self.path), causes: &mut causes };
        walk.value(node, value, old);
        self.path = walk.path;
        causes
    }

    fn branches(&mut self, node: &Node, value: &Value, old: Option<&Value>) {
        if !node.any_of.is_empty() {
            let mut results: Vec<_> = node.any_of.iter().map(|n| self.try_branch(n, value, old)).collect();
            if results.iter().all(|r| !r.is_empty()) {
                self.causes.push(Cause::whole(&format!("{:?} must validate at least one schema (anyOf)", self.path)));
                self.causes.append(&mut results[0]);
            }
        }
        if !node.one_of.is_empty() {
            let mut results: Vec<_> = node.one_of.iter().map(|n| self.try_branch(n, value, old)).collect();
            let valid = results.iter().filter(|r| r.is_empty()).count();
            if valid != 1 {
                let found = if valid == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {valid} valid alternatives")
                };
                self.causes.push(Cause::whole(&format!(
                    "{:?} must validate one and only one schema (oneOf). {found}",
                    self.path
                )));
            }
            if valid == 0 {
                self.causes.append(&mut results[0]);
            }
        }
        if !node.all_of.is_empty() {
            let results: Vec<_> = node.all_of.iter().map(|n| self.try_branch(n, value, old)).collect();
            let failed = results.iter().filter(|r| !r.is_empty()).count();
            self.causes.extend(results.into_iter().flatten());
            if failed > 0 {
                let none = if failed == node.all_of.len() { ". None validated" } else { "" };
                self.causes.push(Cause::whole(&format!("{:?} must validate all the schemas (allOf){none}", self.path)));
            }
        }
        if let Some(not) = &node.not
            && self.try_branch(not, value, old).is_empty()
        {
            self.causes.push(Cause::whole(&format!("{:?} must not validate the schema (not)", self.path)));
        }
    }

    fn string(&mut self, node: &Node, text: &str) {
        let shown = Value::from(text).to_string();
        let length = text.chars().count() as u64;
        if let Some(max) = node.max_length.filter(|max| length > *max) {
            self.causes.push(Cause::too_long(&self.path, max));
        }
        if let Some(min) = node.min_length.filter(|min| length < *min) {
            self.invalid(&shown, &format!("should be at least {min} chars long"));
        }
        if let Some(pattern) = node.pattern.as_ref().filter(|p| !p.is_match(text)) {
            self.invalid(&shown, &format!("should match '{}'", pattern.as_str()));
        }
        if let Some(format) = &node.format
            && !formats::holds(format, text)
        {
            self.wrong_type(format, text);
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn number(&mut self, node: &Node, number: &Number) {
        let shown = shown(&Value::Number(number.clone()));
        if node.kind == Some(Type::Integer) && !fits_format(node.format.as_deref(), number) {
            let format = node.format.as_ref().map_or("(default format)".to_owned(), |f| format!("with format {f}"));
            self.causes.push(Cause::whole(&format!("Checked value must be of type integer {format} in {}", self.path)));
        }
        let Some(float) = number.as_f64() else { return };
        if let Some(factor) = node.multiple_of {
            // For an integer the server takes the factor as an integer, too, so a fraction becomes zero: reported as it reports it.
            if number.as_i64().is_some() && factor.trunc() <= 0.0 {
                let factor = factor.trunc();
                let what = format!("factor MultipleOf declared for {} must be positive: {factor}", self.path);
                self.causes.push(Cause::invalid(&self.path, &factor.to_string(), &what));
            } else if !is_multiple(number, float, factor) {
                self.invalid(&shown, &format!("should be a multiple of {factor}"));
            }
        }
        let beyond = |bound: &Bound, above: bool| {
            let distance = if above { float - bound.value } else { bound.value - float };
            distance > 0.0 || (bound.exclusive && distance == 0.0)
        };
        if let Some(max) = node.maximum.filter(|max| beyond(max, true)) {
            let or_equal = if max.exclusive { "" } else { " or equal to" };
            self.invalid(&shown, &format!("should be less than{or_equal} {}", max.value));
        }
        if let Some(min) = node.minimum.filter(|min| beyond(min, false)) {
            let or_equal = if min.exclusive { "" } else { " or equal to" };
            self.invalid(&shown, &format!("should be greater than{or_equal} {}", min.value));
        }
    }

    fn list(&mut self, node: &Node, list: &[Value], old: Option<&Value>) {
        if let Some(min) = node.min_items.filter(|min| (list.len() as u64) < *min) {
            self.invalid(&list.len().to_string(), &format!("should have at least {min} items"));
        }
        if let Some(max) = node.max_items.filter(|max| list.len() as u64 > *max) {
            self.causes.push(Cause::too_many(&self.path, list.len(), max));
        }
        if let Some(items) = &node.items {
            let old = node.by_key(old);
            for (i, item) in list.iter().enumerate() {
                let old = node.corresponding(item, &old);
                self.below(&format!("[{i}]"), |walk| walk.value(items, item, old));
            }
        }
    }

    fn choices(&mut self, node: &Node, value: &Value) {
        if node.choices.is_empty() || node.choices.contains(value) || (value.is_null() && node.nullable) {
            return;
        }
        let supported: Vec<String> =
            node.choices.iter().map(|c| c.as_str().map_or_else(|| shown(c), str::to_owned)).collect();
        self.causes.push(Cause::not_supported(&self.path, &shown(value), &supported));
    }

    fn object(&mut self, node: &Node, members: &serde_json::Map<String, Value>, old: Option<&Value>) {
        if let Some(max) = node.max_properties.filter(|max| members.len() as u64 > *max) {
            self.causes.push(Cause::too_many(&self.path, members.len(), max));
        }
        if let Some(min) = node.min_properties.filter(|min| (members.len() as u64) < *min) {
            self.invalid(&members.len().to_string(), &format!("should have at least {min} properties"));
        }
        let mut names: Vec<&String> = members.keys().collect();
        names.sort();
        for name in names {
            if let Some(schema) = node.member(name) {
                let old = old.and_then(|o| o.get(name));
                self.below(name, |walk| walk.value(schema, &members[name], old));
            }
        }
        if node.embedded {
            for name in ["apiVersion", "kind"] {
                if members.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                    self.below(name, |walk| walk.causes.push(Cause::required(&walk.path, "must not be empty")));
                }
            }
        }
        for name in node.required.iter().filter(|name| !members.contains_key(*name)) {
            self.below(name, |walk| walk.causes.push(Cause::required(&walk.path, "")));
        }
    }

    fn duplicates(&mut self, node: &Node, value: &Value, old: Option<&Value>) {
        if old == Some(value) {
            return;
        }
        match value {
            Value::Object(members) => {
                let mut names: Vec<&String> = members.keys().collect();
                names.sort();
                for name in names {
                    if let Some(schema) = node.member(name) {
                        let old = old.and_then(|o| o.get(name));
                        self.below(name, |walk| walk.duplicates(schema, &members[name], old));
                    }
                }
            }
            Value::Array(list) => {
                if node.list_type != ListType::Atomic {
                    self.duplicate_items(node, list);
                }
                if let Some(items) = &node.items {
                    let old = node.by_key(old);
                    for (i, item) in list.iter().enumerate() {
                        let old = node.corresponding(item, &old);
                        self.below(&format!("[{i}]"), |walk| walk.duplicates(items, item, old));
                    }
                }
            }
            _ => {}
        }
    }

    fn duplicate_items(&mut self, node: &Node, list: &[Value]) {
        let mut seen = HashSet::new();
        for (i, item) in list.iter().enumerate() {
            let key = match node.list_type {
                ListType::Map if item.is_object() => node.key_text(item),
                ListType::Map => continue,
                _ => shown(item),
            };
            if !seen.insert(key.clone()) {
                self.below(&format!("[{i}]"), |walk| walk.causes.push(Cause::duplicate(&walk.path, &key)));
            }
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn fits_format(format: Option<&str>, number: &Number) -> bool {
    match (format, number.as_i64()) {
        (Some("int32"), Some(n)) => i32::try_from(n).is_ok(),
        (Some("uint32"), Some(n)) => u32::try_from(n).is_ok(),
        (Some("uint64"), Some(n)) => n >= 0,
        (_, Some(_)) => true,
        (_, None) => is_whole(number),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn is_multiple(number: &Number, float: f64, factor: f64) -> bool {
    if let Some(integer) = number.as_i64() {
        return integer % (factor.trunc() as i64).max(1) == 0;
    }
    let quotient = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
    (quotient - quotient.round()).abs() < 1e-9
}
