//! Evaluation of the CEL rules of a schema over an object.
//!
//! Rules of a value come before those of its members. Only members, and items of lists whose items have keys, have a counterpart in the
//! old object. A rule over a value that has not changed is not held against the writer.

use super::cause::{Cause, ROOT};
use super::cel::{Error, Meter, Reason, Rule, Val};
use super::node::{Node, Type};
use serde_json::Value;
use std::fmt::Write as _;

/// What all rules over one object may cost.
const OBJECT_BUDGET: u64 = 10_000_000;
/// What one rule over one value may cost.
const CALL_BUDGET: u64 = 1_000_000;

pub(super) fn check(root: &Node, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut walk = Walk { path: String::new(), left: OBJECT_BUDGET, causes };
    walk.value(root, object, old);
}

struct Walk<'c> {
    path: String,
    left: u64,
    causes: &'c mut Vec<Cause>,
}

impl Walk<'_> {
    fn value(&mut self, node: &Node, value: &Value, old: Option<&Value>) {
        if !node.any_rules || value.is_null() || old == Some(value) {
            return;
        }
        for rule in &node.rules {
            if self.left == 0 {
                return;
            }
            if rule.applies(old.is_some()) {
                self.rule(rule, node, value, old);
            }
        }
        match value {
            Value::Object(members) => {
                let mut names: Vec<&String> = members.keys().collect();
                names.sort();
                for name in names {
                    let Some(schema) = node.member(name) else { continue };
                    let declared = node.properties.contains_key(name);
                    let old = old.and_then(|o| o.get(name)).filter(|_| !node.atomic_map || declared);
                    let length = self.path.len();
                    if !declared {
                        let _ = write!(self.path, "[{name}]");
                    } else if self.path.is_empty() {
                        self.path.push_str(name);
                    } else {
                        let _ = write!(self.path, ".{name}");
                    }
                    self.value(schema, &members[name], old);
                    self.path.truncate(length);
                }
            }
            Value::Array(list) => {
                let Some(items) = &node.items else { return };
                let old = node.by_key(old);
                for (i, item) in list.iter().enumerate() {
                    let length = self.path.len();
                    let _ = write!(self.path, "[{i}]");
                    self.value(items, item, node.corresponding(item, &old));
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn rule(&mut self, rule: &Rule, node: &Node, value: &Value, old: Option<&Value>) {
        let budget = self.left.min(CALL_BUDGET);
        let mut meter = Meter::new(budget);
        let outcome = Val::of(value, Some(node)).and_then(|this| {
            let old = old.filter(|o| !o.is_null()).map(|o| Val::of(o, Some(node))).transpose()?;
            rule.evaluate(&this, old.as_ref(), &mut meter)
        });
        self.left -= budget - meter.left().min(budget);
        let kind = node.kind.map_or("", Type::name);
        match outcome {
            Ok(None) => {}
            Ok(Some(message)) => self.broken(rule, value, &message),
            Err(Error::Failed(why)) => {
                let detail = format!("{why} evaluating rule: {}", rule.source());
                self.causes.push(Cause::invalid(&self.path, &format!("{kind:?}"), &detail));
            }
            Err(Error::Budget) if budget < CALL_BUDGET => {
                self.left = 0;
                let detail =
                    "validation failed due to running out of cost budget, no further validation rules will be run";
                self.causes.push(Cause::invalid(&self.path, &format!("{kind:?}"), detail));
            }
            Err(Error::Budget) => {
                let detail = format!("call cost exceeds limit for rule: {}", rule.source());
                self.causes.push(Cause::invalid(&self.path, &format!("{kind:?}"), &detail));
            }
        }
    }

    fn broken(&mut self, rule: &Rule, value: &Value, message: &str) {
        let mut field = self.path.clone();
        if !rule.field_path().is_empty() {
            field.push_str(rule.field_path());
            if self.path.is_empty() {
                field = field.trim_start_matches('.').to_owned();
            }
        }
        let field = if field.is_empty() { ROOT } else { &field };
        let composite = value.is_object() || value.is_array();
        self.causes.push(match rule.reason() {
            Reason::Invalid if composite => Cause::invalid_unshown(field, message),
            Reason::Invalid => Cause::invalid(field, &super::cause::shown(value), message),
            Reason::Forbidden => Cause::forbidden(field, message),
            Reason::Required => Cause::required(field, message),
            Reason::Duplicate => Cause::duplicate(field, &super::cause::shown(value)),
        });
    }
}
