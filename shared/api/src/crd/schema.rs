//! From the JSON Schemas that the types derive to what Kubernetes accepts in a CustomResourceDefinition.
//!
//! Invariants: an allow-list. A keyword that is not carried over here does not reach a CRD, so nothing slips in that a
//! structural schema may not hold, and nothing that is stricter than the predecessor: no `nullable` (Kubernetes prunes
//! nulls of fields that are not), no defaults but those meant. The outcome depends on nothing but the types.
//!
//! Caveat: bounds of a narrow unsigned type (`u8`, `u16`) do get through, so such types are for fields that have them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, ValidationRule,
};
use kube::core::CustomResourceExt;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// A default that Kubernetes is to fill in. Not `default`, because every optional field has one of those in Rust.
const DEFAULT: &str = "x-default";

/// Formats that Kubernetes checks. Others only make it warn.
const FORMATS: [&str; 5] = ["byte", "date-time", "int32", "int64", "uuid"];

/// The definition of a kind with a status subresource.
pub(super) fn reconciled<K: CustomResourceExt + JsonSchema>() -> CustomResourceDefinition {
    let mut crd = K::crd();
    let schema = root::<K>();
    for version in &mut crd.spec.versions {
        version.schema = Some(CustomResourceValidation { open_api_v3_schema: Some(schema.clone()) });
    }
    crd
}

/// The definition of a kind that only holds data, whose status is an ordinary field.
pub(super) fn data<K: CustomResourceExt + JsonSchema>() -> CustomResourceDefinition {
    let mut crd = reconciled::<K>();
    for version in &mut crd.spec.versions {
        version.subresources = None;
    }
    crd
}

/// The schema of a whole object.
fn root<K: JsonSchema>() -> JSONSchemaProps {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<K>();
    let mut props = structural(schema.as_value());
    let properties = props.properties.get_or_insert_default();
    let text = |description: &str| JSONSchemaProps {
        type_: Some("string".into()),
        description: Some(description.into()),
        ..JSONSchemaProps::default()
    };
    properties.insert("apiVersion".into(), text("Group and version of this resource's API."));
    properties.insert("kind".into(), text("The kind of this resource."));
    properties
        .insert("metadata".into(), JSONSchemaProps { type_: Some("object".into()), ..JSONSchemaProps::default() });
    props
}

/// One schema, and all below it.
fn structural(schema: &Value) -> JSONSchemaProps {
    let merged = required(schema);
    let schema = &merged;
    let values = |key: &str| schema.get(key).and_then(Value::as_array);
    let integer = |key: &str| schema.get(key).and_then(Value::as_i64);
    let flag = |key: &str| schema.get(key).and_then(Value::as_bool);
    let text = |key: &str| schema.get(key).and_then(Value::as_str).map(str::to_owned);
    let texts = |key: &str| {
        values(key).map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
    };

    let int_or_string = flag("x-kubernetes-int-or-string");
    #[allow(clippy::cast_precision_loss)] // bounds of CRDs are small whole numbers in floating point
    let bound = |key: &str| integer(key).map(|n| n as f64);
    let mut fields = texts("required");
    if let Some(fields) = &mut fields {
        fields.sort();
    }

    JSONSchemaProps {
        type_: kind(schema.get("type")),
        description: text("description").map(|words| prose(&words)),
        format: text("format").filter(|format| FORMATS.contains(&format.as_str())),
        enum_: values("enum").map(|list| list.iter().filter(|v| !v.is_null()).cloned().map(JSON).collect()),
        default: schema.get(DEFAULT).cloned().map(JSON),
        pattern: text("pattern"),
        minimum: bound("minimum"),
        maximum: bound("maximum"),
        min_length: integer("minLength"),
        max_length: integer("maxLength"),
        min_items: integer("minItems"),
        max_items: integer("maxItems"),
        required: fields.filter(|list| !list.is_empty()),
        properties: schema
            .get("properties")
            .and_then(Value::as_object)
            .map(|properties| properties.iter().map(|(name, schema)| (name.clone(), structural(schema))).collect()),
        items: schema.get("items").map(|items| JSONSchemaPropsOrArray::Schema(Box::new(structural(items)))),
        any_of: int_or_string.map(|_| ["integer", "string"].map(of_type).into()),
        x_kubernetes_int_or_string: int_or_string,
        x_kubernetes_preserve_unknown_fields: flag("x-kubernetes-preserve-unknown-fields"),
        x_kubernetes_list_type: text("x-kubernetes-list-type"),
        x_kubernetes_list_map_keys: texts("x-kubernetes-list-map-keys"),
        x_kubernetes_validations: values("x-kubernetes-validations").map(|rules| rules.iter().map(rule).collect()),
        ..JSONSchemaProps::default()
    }
}

/// The schema without *or null*, and with the variants of an enum as one list. What the field says (its description
/// above all) wins over what its type says.
fn required(schema: &Value) -> Map<String, Value> {
    let mut outer = schema.as_object().cloned().unwrap_or_default();
    let alternatives = outer.remove("anyOf");
    let something =
        alternatives.iter().filter_map(Value::as_array).flatten().find(|s| s.get("type") != Some(&json!("null")));
    if let Some(inner) = something {
        for (key, value) in required(inner) {
            outer.entry(key).or_insert(value);
        }
    }
    if let Some(Value::Array(variants)) = outer.remove("oneOf") {
        let names = variants.iter().filter_map(|variant| variant.get("const").cloned());
        outer.insert("enum".into(), names.collect());
        outer.insert("type".into(), json!("string"));
    }
    outer
}

/// `type`, of which a list says *or null*.
fn kind(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(one) => Some(one.clone()),
        Value::Array(several) => several.iter().filter_map(Value::as_str).find(|t| *t != "null").map(str::to_owned),
        _ => None,
    }
}

fn of_type(name: &str) -> JSONSchemaProps {
    JSONSchemaProps { type_: Some(name.into()), ..JSONSchemaProps::default() }
}

fn rule(rule: &Value) -> ValidationRule {
    let text = |key: &str| rule.get(key).and_then(Value::as_str).map(str::to_owned);
    ValidationRule {
        rule: text("rule").unwrap_or_default(),
        message: text("message"),
        field_path: text("fieldPath"),
        ..ValidationRule::default()
    }
}

/// A doc comment as `kubectl explain` should show it: lines joined, paragraphs kept, links' brackets gone.
fn prose(words: &str) -> String {
    let paragraphs = words.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}
