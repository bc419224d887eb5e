//! Whole manifests: admitted as they are, and read and written by the Rust types without loss.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use proptest::prelude::*;
use proptest::string::string_regex;
use serde_json::{Map, Value, json};
use support::{admit, manifest, manifests, round, schema, with};
use weir_api::crd;

#[test]
fn there_is_a_manifest_of_every_kind_and_it_sets_every_field() {
    fn unset(path: &str, schema: &Value, value: Option<&Value>, missing: &mut Vec<String>) {
        let Some(value) = value else { return missing.push(path.to_owned()) };
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            unset(&format!("{path}.{name}"), child, value.get(name), missing);
        }
        if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
            // A field of an item is set if any item of the list sets it.
            let mut seen: Option<Vec<String>> = None;
            for item in list {
                let mut here = Vec::new();
                unset(&format!("{path}[]"), items, Some(item), &mut here);
                seen = Some(match seen {
                    None => here,
                    Some(before) => {
                        before.into_iter().filter(|path| here.iter().any(|h| path.starts_with(h))).collect()
                    }
                });
            }
            missing.extend(seen.unwrap_or_else(|| vec![format!("{path}[]")]));
        }
    }
    let manifests = manifests();
    let mut missing = Vec::new();
    for crd in crd::all() {
        let kind = crd.spec.names.kind;
        unset(&kind, &schema(&kind), manifests.get(&kind), &mut missing);
    }
    missing.retain(|path| !path.ends_with("conditions[].observedGeneration"));
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_manifest_with_every_field_is_admitted_unchanged() {
    for (kind, manifest) in manifests() {
        assert_eq!(admit(&manifest, None).as_ref(), Ok(&manifest), "{kind}");
        assert_eq!(admit(&manifest, Some(&manifest)).as_ref(), Ok(&manifest), "{kind}, applied again");
    }
}

#[test]
fn the_types_read_and_write_a_manifest_without_loss() {
    for (kind, manifest) in manifests() {
        assert_eq!(round(&manifest).unwrap(), manifest, "{kind}");
    }
}

#[test]
fn a_manifest_with_nothing_but_what_is_required_is_admitted_and_read() {
    fn least(schema: &Value, full: &Value) -> Value {
        match full {
            Value::Object(fields) => {
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                let keep = |name: &str| required.iter().any(|r| r == name);
                let kept = fields.iter().filter(|(name, _)| keep(name.as_str()));
                Value::Object(kept.map(|(n, v)| (n.clone(), least(&schema["properties"][n], v))).collect())
            }
            Value::Array(items) => items.iter().map(|item| least(&schema["items"], item)).collect(),
            other => other.clone(),
        }
    }
    for (kind, full) in manifests() {
        let mut manifest = full.clone();
        manifest.as_object_mut().unwrap().remove("status");
        manifest["spec"] = least(&schema(&kind)["properties"]["spec"], &full["spec"]);
        if kind == "Region" {
            // What its own rule requires.
            manifest["spec"]["openstack"] =
                json!({ "endpoint": "http://keystone", "serviceAccountSecret": { "namespace": "a", "name": "b" } });
        }
        let admitted = admit(&manifest, None).unwrap_or_else(|causes| panic!("{kind}: {causes:?}"));
        round(&admitted).unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}

#[test]
fn an_object_without_spec_is_refused_and_unknown_fields_are_not_kept() {
    for kind in manifests().keys() {
        let causes = admit(&with(kind, &[("/spec", Value::Null)]), None).unwrap_err();
        assert!(causes.iter().any(|c| c.contains("spec") && c.contains("Required")), "{kind}: {causes:?}");
        let causes = admit(&with(kind, &[("/spec/unheardOf", json!(1))]), None).unwrap_err();
        assert_eq!(causes, ["unknown field spec.unheardOf"], "{kind}");
    }
}

#[test]
fn leading_zeros_host_bits_and_integer_quantities_are_read() {
    let changes = [("/spec/prefix", json!("010.000.0.9/8")), ("/spec/dnsNameservers/0", json!("008.8.008.8"))];
    let network = admit(&with("Network", &changes), None).unwrap();
    let network: crd::Network = serde_json::from_value(network).unwrap();
    assert_eq!(network.spec.prefix.to_string(), "10.0.0.0/8");
    assert_eq!(network.spec.dns_nameservers[0].to_string(), "8.8.8.8");

    let volume = admit(&with("Volume", &[("/spec/size", json!(1_073_741_825))]), None).unwrap();
    let volume: crd::Volume = serde_json::from_value(volume).unwrap();
    assert_eq!(volume.spec.size.gib(), Ok(2));
}

#[test]
fn tags_of_external_networks_may_be_text_or_name_and_value_and_nothing_else_spoils_the_region() {
    let tags = json!(["plain", { "name": "use", "value": "public" }, 7, { "name": "half" }]);
    let region = with("Region", &[("/spec/openstack/network/externalNetworks/selector/tags", tags)]);
    let region: crd::Region = serde_json::from_value(admit(&region, None).unwrap()).unwrap();
    let network = region.spec.openstack.unwrap().network.unwrap();
    let selector = network.external_networks.unwrap().selector.unwrap();
    let tags: Vec<_> = selector.tags.iter().map(|tag| tag.neutron().map(std::borrow::Cow::into_owned)).collect();
    assert_eq!(tags, [Some("plain".to_owned()), Some("use=public".to_owned()), None, None]);
}

#[test]
fn debug_output_of_an_identitys_record_shows_no_secret() {
    let record: crd::OpenstackIdentity = serde_json::from_value(manifest("OpenstackIdentity")).unwrap();
    let shown = format!("{record:?} {record:#?}");
    for secret in ["correct horse", "battery staple", "hello", "aGVsbG8", "104, 101", "world", "d29ybGQ", "119, 111"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(shown.contains("unikorn-openstack-provider"), "what is no secret is shown: {shown}");
}

/// Values that a schema accepts, its CEL rules aside.
fn instances(schema: &Value) -> BoxedStrategy<Value> {
    if schema["x-kubernetes-int-or-string"] == true {
        let text = string_regex(r"-?[0-9]{1,20}(\.[0-9]{0,3})?([KMGTPE]i|[numkMGTPE]|e-?[0-9]{1,2}|e1\.5)?").unwrap();
        return prop_oneof![any::<i64>().prop_map(Value::from), text.prop_map(Value::from)].boxed();
    }
    if let Some(values) = schema["enum"].as_array() {
        return proptest::sample::select(values.clone()).boxed();
    }
    match schema["type"].as_str() {
        Some("string") => strings(schema),
        Some("integer") => {
            let bound =
                |key: &str| schema[key].as_i64().or_else(|| schema[key].to_string().strip_suffix(".0")?.parse().ok());
            let wide = if schema["format"] == "int32" {
                i64::from(i32::MIN)..=i64::from(i32::MAX)
            } else {
                i64::MIN..=i64::MAX
            };
            let range = bound("minimum").unwrap_or(*wide.start())..=bound("maximum").unwrap_or(*wide.end());
            range.prop_map(Value::from).boxed()
        }
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("array") => proptest::collection::vec(instances(&schema["items"]), 0..3).prop_map(Value::from).boxed(),
        Some("object") => {
            let mut fields: BoxedStrategy<Map<String, Value>> = Just(Map::new()).boxed();
            for (name, child) in schema["properties"].as_object().into_iter().flatten() {
                let required = schema["required"].as_array().is_some_and(|r| r.iter().any(|r| r == name));
                let value = instances(child);
                let value = if required { value.prop_map(Some).boxed() } else { proptest::option::of(value).boxed() };
                let name = name.clone();
                fields = (fields, value)
                    .prop_map(move |(mut fields, value)| {
                        fields.extend(value.map(|value| (name.clone(), value)));
                        fields
                    })
                    .boxed();
            }
            fields.prop_map(Value::from).boxed()
        }
        _ => prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            Just(json!({ "a": [] }))
        ]
        .boxed(),
    }
}

fn strings(schema: &Value) -> BoxedStrategy<Value> {
    let regex = |pattern: &str| string_regex(pattern).unwrap().prop_map(Value::from).boxed();
    match (schema["format"].as_str(), schema["pattern"].as_str()) {
        (_, Some(pattern)) => regex(pattern.trim_start_matches('^').trim_end_matches('$')),
        (Some("byte"), _) => regex("([A-Za-z0-9+/]{4}){0,4}([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"),
        (Some("uuid"), _) => regex("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-f]{32}"),
        (Some("date-time"), _) => regex(
            "(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]0[0-9]:[0-5][0-9])",
        ),
        _ => any::<String>().prop_map(Value::from).boxed(),
    }
}

/// What the schema accepts deserialises: one object that did not would fail every list that holds it. Written again, it
/// is still what the schema accepts.
#[test]
fn whatever_the_schema_accepts_the_types_can_read_and_write() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for crd in crd::all() {
        let kind = crd.spec.names.kind;
        let mut whole = schema(&kind);
        for own in ["apiVersion", "kind", "metadata"] {
            whole["properties"].as_object_mut().unwrap().remove(own);
        }
        let structure = without_rules(&whole);
        let structure = weir_kube_sim::schema::Schema::compile(&structure).unwrap();
        let head = manifest(&kind);
        runner
            .run(&instances(&whole), |body| {
                let mut object = body.clone();
                for own in ["apiVersion", "kind", "metadata"] {
                    object[own] = head[own].clone();
                }
                let written =
                    round(&object).map_err(|error| TestCaseError::fail(format!("{kind}: {error}: {object}")))?;
                let before = structure.validate_after(&object, None, Vec::new());
                let after = structure.validate_after(&written, None, Vec::new());
                prop_assert!(before.len() >= after.len(), "{}: {:?}: {}", kind, after, written);
                Ok(())
            })
            .unwrap();
    }
}

/// A schema without CEL rules and without uniqueness, which random objects seldom keep.
fn without_rules(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !name.starts_with("x-kubernetes-validations") && !name.starts_with("x-kubernetes-list"))
            .map(|(name, value)| (name.clone(), without_rules(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_rules).collect(),
        other => other.clone(),
    }
}
