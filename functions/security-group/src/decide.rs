//! What to do next about a security group. Pure.

use crate::rule::Rule;
use std::collections::BTreeSet;
use weir_api::Problem;
use weir_api::crd::SecurityGroupSpec;
use weir_openstack::SecurityGroupRuleId;
use weir_openstack::network::SecurityGroup;

/// The rules that a spec asks for, each once.
pub fn wanted(spec: &SecurityGroupSpec) -> Result<BTreeSet<Rule>, Problem> {
    spec.rules.iter().map(Rule::of).collect()
}

/// One step towards a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the group.
    CreateGroup,
    /// Make a rule.
    CreateRule(Rule),
    /// Remove a rule that nobody asked for.
    DeleteRule(SecurityGroupRuleId),
    /// Nothing differs.
    Done,
}

/// The next step. What is missing is made before what is not wanted goes, so that a change of rules never shuts out what
/// both the old and the new rules let through.
pub fn decide(wanted: &BTreeSet<Rule>, group: Option<&SecurityGroup>) -> Step {
    let Some(group) = group else {
        return Step::CreateGroup;
    };
    let there: BTreeSet<Rule> = group.rules.iter().filter_map(Rule::live).collect();
    if let Some(missing) = wanted.difference(&there).next() {
        return Step::CreateRule(missing.clone());
    }
    let unwanted = group.rules.iter().find(|live| {
        let asked_for = Rule::live(live).is_some_and(|rule| wanted.contains(&rule));
        !asked_for && !Rule::is_default(live)
    });
    unwanted.map_or(Step::Done, |rule| Step::DeleteRule(rule.id.clone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use serde_json::{Value, json};

    fn spec(rules: &Value) -> SecurityGroupSpec {
        serde_json::from_value(json!({"rules": rules})).unwrap()
    }

    fn group(rules: Vec<Value>) -> SecurityGroup {
        let rules: Vec<Value> = rules
            .into_iter()
            .enumerate()
            .map(|(n, mut rule)| {
                rule["id"] = json!(format!("rule-{n}"));
                rule
            })
            .collect();
        serde_json::from_value(json!({"id": "g", "name": "securitygroup-x", "security_group_rules": rules})).unwrap()
    }

    fn defaults() -> Vec<Value> {
        vec![json!({"direction": "egress", "ethertype": "IPv4"}), json!({"direction": "egress", "ethertype": "IPv6"})]
    }

    /// Every step until done, on a cloud that does what it is told.
    fn steps(spec: &SecurityGroupSpec, mut group: SecurityGroup) -> Vec<Step> {
        let wanted = wanted(spec).unwrap();
        let mut steps = Vec::new();
        for n in 0..100 {
            let step = decide(&wanted, Some(&group));
            match &step {
                Step::CreateRule(rule) => group.rules.push(made(rule, n)),
                Step::DeleteRule(id) => group.rules.retain(|rule| rule.id != *id),
                Step::Done => return steps,
                Step::CreateGroup => panic!("the group is there"),
            }
            steps.push(step);
        }
        panic!("never done: {steps:?}");
    }

    fn made(rule: &Rule, n: usize) -> weir_openstack::network::SecurityGroupRule {
        let text = rule.to_string();
        let prefix = if rule.prefix.prefix_len() == 0 { Value::Null } else { json!(rule.prefix.to_string()) };
        serde_json::from_value(json!({"id": format!("made-{n}"), "direction": text.split(' ').next(), "ethertype": "IPv4",
            "protocol": rule.protocol, "port_range_min": rule.ports.map(|p| p.0), "port_range_max": rule.ports.map(|p| p.1),
            "remote_ip_prefix": prefix}))
        .unwrap()
    }

    /// A rule as the table writes it: `ingress,tcp,22,172.16.0.0/12`.
    fn written(text: &str) -> (Value, Value) {
        let parts: Vec<&str> = text.split(',').collect();
        let port = parts.get(2).filter(|p| !p.is_empty()).map(|p| p.parse::<u16>().unwrap());
        let cidr = parts.get(3).copied();
        let mut wanted = json!({"direction": parts[0], "protocol": parts[1]});
        let mut live = json!({"direction": parts[0], "ethertype": "IPv4", "protocol": parts[1], "port_range_min": port,
            "port_range_max": port, "remote_ip_prefix": cidr});
        if let Some(port) = port {
            wanted["port"] = json!({"number": port});
        }
        if let Some(cidr) = cidr {
            wanted["cidr"] = json!(cidr);
        }
        if parts[1] == "any" {
            live["protocol"] = Value::Null;
        }
        (wanted, live)
    }

    /// Proves: SEC-1, SEC-2
    #[test]
    fn the_table_of_the_predecessor_holds() {
        let table: Value = serde_json::from_str(include_str!("../tests/tables/security_group_rules.json")).unwrap();
        for case in table["cases"].as_array().unwrap() {
            let texts = |at: &str| -> Vec<String> { serde_json::from_value(case["input"][at].clone()).unwrap() };
            let spec = spec(&texts("spec").iter().map(|text| written(text).0).collect());
            let mut live = Vec::new();
            for text in texts("live") {
                if text.starts_with('<') { live.extend(defaults()) } else { live.push(written(&text).1) }
            }
            let group = group(live);
            let expect = |at: &str| case["expect"][at].as_array().unwrap().len();
            let steps = steps(&spec, group);
            let creates = steps.iter().filter(|s| matches!(s, Step::CreateRule(_))).count();
            let deletes = steps.iter().filter(|s| matches!(s, Step::DeleteRule(_))).count();
            assert_eq!((creates, deletes), (expect("create"), expect("delete")), "{case}");
        }
    }

    /// Proves: SEC-2, SEC-3
    #[test]
    fn two_spellings_of_a_rule_are_one_rule() {
        let rows = [
            (
                json!({"direction": "ingress", "protocol": "tcp", "port": {"number": 22}}),
                json!({"direction": "ingress", "ethertype": "IPv4", "protocol": "6", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": "0.0.0.0/0"}),
            ),
            (
                json!({"direction": "ingress", "protocol": "udp", "port": {"range": {"start": 53, "end": 53}}, "cidr": "10.0.0.9/8"}),
                json!({"direction": "ingress", "ethertype": "IPv4", "protocol": 17, "port_range_min": 53, "port_range_max": 53, "remote_ip_prefix": "10.0.0.0/8"}),
            ),
            (
                json!({"direction": "ingress", "protocol": "vrrp"}),
                json!({"direction": "ingress", "ethertype": "IPv4", "protocol": "112"}),
            ),
            (
                json!({"direction": "ingress", "protocol": "icmp"}),
                json!({"direction": "ingress", "ethertype": "IPv4", "protocol": "ICMP", "remote_ip_prefix": ""}),
            ),
            (
                json!({"direction": "ingress", "protocol": "any", "cidr": "0.0.0.0/0"}),
                json!({"direction": "ingress", "ethertype": "IPv4", "protocol": "any"}),
            ),
            (json!({"direction": "egress", "protocol": "any"}), json!({"direction": "egress", "ethertype": "IPv4"})),
        ];
        for (wanted, live) in rows {
            let spec = spec(&json!([wanted]));
            assert_eq!(steps(&spec, group(vec![live.clone()])), [], "{wanted} is {live}");
        }
    }

    /// Proves: SEC-2
    #[test]
    fn the_cloud_s_own_egress_rules_are_kept_and_never_made_twice() {
        let nothing = spec(&json!([]));
        assert_eq!(steps(&nothing, group(defaults())), []);
        let asked = spec(&json!([{"direction": "egress", "protocol": "any"}]));
        assert_eq!(steps(&asked, group(defaults())), []);
    }

    /// Proves: SEC-1
    #[test]
    fn what_no_spec_can_ask_for_is_deleted() {
        let strange = [
            json!({"direction": "ingress", "ethertype": "IPv6", "protocol": "tcp"}),
            json!({"direction": "ingress", "ethertype": "IPv4", "remote_group_id": "other"}),
            json!({"direction": "ingress", "ethertype": "IPv4", "protocol": "sctp"}),
            json!({"direction": "egress", "ethertype": "IPv4", "protocol": "tcp"}),
        ];
        for rule in strange {
            let mut rules = defaults();
            rules.push(rule.clone());
            let steps = steps(&spec(&json!([])), group(rules));
            assert!(matches!(steps[..], [Step::DeleteRule(_)]), "{rule}: {steps:?}");
        }
    }

    /// Proves: SEC-1
    #[test]
    fn what_is_missing_is_made_before_what_is_not_wanted_goes() {
        let spec =
            spec(&json!([{"direction": "ingress", "protocol": "tcp", "port": {"range": {"start": 80, "end": 443}}}]));
        let mut rules = defaults();
        rules.push(json!({"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 80, "port_range_max": 80}));
        let steps = steps(&spec, group(rules));
        assert!(matches!(steps[..], [Step::CreateRule(_), Step::DeleteRule(_)]), "{steps:?}");
    }

    /// Proves: SEC-3
    #[test]
    fn a_rule_that_contradicts_itself_is_refused_and_opens_nothing() {
        let rows = [
            json!({"direction": "ingress", "protocol": "any", "port": {"number": 22}}),
            json!({"direction": "ingress", "protocol": "icmp", "port": {"number": 22}}),
            json!({"direction": "ingress", "protocol": "vrrp", "port": {"range": {"start": 1, "end": 2}}}),
            json!({"direction": "ingress", "protocol": "tcp", "port": {}}),
            json!({"direction": "ingress", "protocol": "tcp", "port": {"number": 0}}),
            json!({"direction": "ingress", "protocol": "tcp", "port": {"number": 65536}}),
            json!({"direction": "ingress", "protocol": "tcp", "port": {"number": -1}}),
            json!({"direction": "ingress", "protocol": "tcp", "port": {"range": {"start": 443, "end": 80}}}),
            json!({"direction": "ingress", "protocol": "tcp", "port": {"number": 1, "range": {"start": 1, "end": 2}}}),
        ];
        for rule in rows {
            let problem = wanted(&spec(&json!([rule]))).expect_err("refused");
            assert_eq!(problem.consequence, weir_api::Consequence::UserAction, "{rule}");
        }
    }
}
