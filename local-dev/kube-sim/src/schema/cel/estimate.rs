//! Checks of all rules of a schema together: that they stay affordable, and that `oldSelf` is used where there is one.

use super::check::bound;
use crate::schema::cause::Cause;
use crate::schema::node::{Additional, ListType, Node};

/// The most steps one rule may take, over all values it applies to.
const PER_RULE: u64 = 10_000_000;
/// The most steps all rules of a schema may take.
const PER_SCHEMA: u64 = 100_000_000;

const HINT: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";

pub(crate) fn check(root: &Node, base: &str, causes: &mut Vec<Cause>) {
    let mut survey = Survey { total: 0, dear: Vec::new(), causes: Vec::new() };
    survey.node(root, base, 1, true);
    let Survey { total, dear, causes: found } = survey;
    causes.extend(found);
    if total > PER_SCHEMA {
        for path in dear {
            causes.push(Cause::forbidden(
                &path,
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
            ));
        }
        let by = factor(total, PER_SCHEMA);
        let what = format!(
            "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of {by} {HINT}"
        );
        causes.push(Cause::forbidden(base, &what));
    }
}

struct Survey {
    total: u64,
    /// Where rules are that are too dear.
    dear: Vec<String>,
    causes: Vec<Cause>,
}

impl Survey {
    /// `times`: how many such values a resource has at most. `correlatable`: whether an update knows which old value was which.
    fn node(&mut self, node: &Node, path: &str, times: u64, correlatable: bool) {
        for (i, rule) in node.rules.iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{i}]");
            self.cost(&format!("{path}.rule"), "rule", rule.cost().saturating_mul(times));
            self.cost(
                &format!("{path}.messageExpression"),
                "messageExpression",
                rule.message_cost().saturating_mul(times),
            );
            if rule.uses_old_self() && !correlatable {
                let within = path.rsplit_once(".x-kubernetes-validations").map_or("", |(before, _)| before);
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
                self.causes.push(Cause::invalid(&format!("{path}.rule"), &format!("{:?}", rule.source()), &why));
            }
        }
        if !node.any_rules {
            return;
        }
        for (name, property) in &node.properties {
            self.node(property, &format!("{path}.properties[{name}]"), times, correlatable);
        }
        if let Some(Additional::Node(inner)) = &node.additional {
            self.node(
                inner,
                &format!("{path}.additionalProperties"),
                times.saturating_mul(bound(node)),
                correlatable && !node.atomic_map,
            );
        }
        if let Some(items) = &node.items {
            let correlatable = correlatable && node.list_type == ListType::Map;
            self.node(items, &format!("{path}.items"), times.saturating_mul(bound(node)), correlatable);
        }
    }

    fn cost(&mut self, path: &str, what: &str, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost > PER_RULE {
            let why = format!("estimated {what} cost exceeds budget by factor of {} {HINT}", factor(cost, PER_RULE));
            self.causes.push(Cause::forbidden(path, &why));
            self.dear.push(path.to_owned());
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn factor(cost: u64, budget: u64) -> String {
    let factor = cost as f64 / budget as f64;
    if factor > 100.0 { "more than 100x".to_owned() } else { format!("{factor:.1}x") }
}
