//! Schemas of built-in kinds, and of what all kinds share, from the Rust types of Kubernetes' own OpenAPI description.
//!
//! Kinds that are stored without being looked into have an open schema. The annotations that say how lists merge are not part of those
//! types; the few that clients rely on are added here.

use k8s_openapi::api::{coordination, core, events, rbac};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Schemas by their OpenAPI names, such as `io.k8s.api.core.v1.Secret`.
pub(super) type Schemas = BTreeMap<String, Value>;

/// A reference in documents of either version starts with its definitions' place; schemas are kept in the form of version 3.
pub(super) const V3_PREFIX: &str = "#/components/schemas/";

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// All schemas of built-in types.
pub(super) static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| {
    let mut settings = SchemaSettings::draft07();
    settings.meta_schema = None;
    settings.definitions_path = "/components/schemas".into();
    let mut generator = SchemaGenerator::new(settings);
    include_all(&mut generator);
    let mut schemas: Schemas = generator.take_definitions(false).into_iter().collect();
    for (kind, list, item) in LISTS {
        schemas.insert((*list).to_owned(), list_schema(kind, item));
    }
    schemas.insert(
        format!("{META}.Patch"),
        json!({"description": "Patch stands for the body of a PATCH request, whose form its content type says.", "type": "object"}),
    );
    schemas.values_mut().for_each(tidy);
    // Any JSON value, as its description says.
    if let Some(Value::Object(json)) = schemas.get_mut("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON")
    {
        json.remove("type");
    }
    annotate(&mut schemas);
    schemas
});

fn include_all(generator: &mut SchemaGenerator) {
    generator.subschema_for::<core::v1::ConfigMap>();
    generator.subschema_for::<core::v1::Event>();
    generator.subschema_for::<core::v1::Namespace>();
    generator.subschema_for::<core::v1::Secret>();
    generator.subschema_for::<core::v1::ServiceAccount>();
    generator.subschema_for::<events::v1::Event>();
    generator.subschema_for::<coordination::v1::Lease>();
    generator.subschema_for::<apiextensions::v1::CustomResourceDefinition>();
    generator.subschema_for::<rbac::v1::ClusterRole>();
    generator.subschema_for::<rbac::v1::ClusterRoleBinding>();
    generator.subschema_for::<rbac::v1::Role>();
    generator.subschema_for::<rbac::v1::RoleBinding>();
    generator.subschema_for::<meta::ObjectMeta>();
    generator.subschema_for::<meta::ListMeta>();
    generator.subschema_for::<meta::DeleteOptions>();
    generator.subschema_for::<meta::Status>();
}

/// Kind, list schema, item schema.
const LISTS: &[(&str, &str, &str)] = &[
    ("ConfigMap", "io.k8s.api.core.v1.ConfigMapList", "io.k8s.api.core.v1.ConfigMap"),
    ("Event", "io.k8s.api.core.v1.EventList", "io.k8s.api.core.v1.Event"),
    ("Namespace", "io.k8s.api.core.v1.NamespaceList", "io.k8s.api.core.v1.Namespace"),
    ("Secret", "io.k8s.api.core.v1.SecretList", "io.k8s.api.core.v1.Secret"),
    ("ServiceAccount", "io.k8s.api.core.v1.ServiceAccountList", "io.k8s.api.core.v1.ServiceAccount"),
    ("Event", "io.k8s.api.events.v1.EventList", "io.k8s.api.events.v1.Event"),
    ("Lease", "io.k8s.api.coordination.v1.LeaseList", "io.k8s.api.coordination.v1.Lease"),
    (
        "CustomResourceDefinition",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionList",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    ),
    ("ClusterRole", "io.k8s.api.rbac.v1.ClusterRoleList", "io.k8s.api.rbac.v1.ClusterRole"),
    ("ClusterRoleBinding", "io.k8s.api.rbac.v1.ClusterRoleBindingList", "io.k8s.api.rbac.v1.ClusterRoleBinding"),
    ("Role", "io.k8s.api.rbac.v1.RoleList", "io.k8s.api.rbac.v1.Role"),
    ("RoleBinding", "io.k8s.api.rbac.v1.RoleBindingList", "io.k8s.api.rbac.v1.RoleBinding"),
];

/// The schema of a list of a kind.
pub(super) fn list_schema(kind: &str, item: &str) -> Value {
    json!({
        "description": format!("{kind}List is a list of {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": "The version of the schema of this object."},
            "kind": {"type": "string", "description": "The kind of this object."},
            "metadata": {"description": "Standard list metadata.", "allOf": [{"$ref": format!("{V3_PREFIX}{META}.ListMeta")}]},
            "items": {"description": "The objects.", "type": "array", "items": {"$ref": format!("{V3_PREFIX}{item}")}},
        },
    })
}

/// The OpenAPI name of a built-in kind.
pub(super) fn name_of(group: &str, version: &str, kind: &str) -> String {
    match group {
        "apiextensions.k8s.io" => format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}"),
        "" => format!("io.k8s.api.core.{version}.{kind}"),
        _ => format!("io.k8s.api.{}.{version}.{kind}", group.split('.').next().unwrap_or(group)),
    }
}

/// The schema of a kind that is stored as it comes.
pub(super) fn open_schema(kind: &str) -> Value {
    json!({
        "description": format!("{kind} objects are stored as they come; nothing acts on them here."),
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string", "description": "The version of the schema of this object."},
            "kind": {"type": "string", "description": "The kind of this object."},
            "metadata": {"description": "Standard object's metadata.", "allOf": [{"$ref": format!("{V3_PREFIX}{META}.ObjectMeta")}]},
        },
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// Brings a generated schema into the form of OpenAPI 3.0: a reference stands alone, and one of two requirements goes that are not.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(tidy);
            // A string: JSONSchemaProps has a property of this name.
            if members.len() > 1
                && members.get("$ref").is_some_and(Value::is_string)
                && let Some(reference) = members.remove("$ref")
            {
                members.insert("allOf".into(), json!([{"$ref": reference}]));
            }
            // The Rust types always have metadata; requests need not.
            if let Some(Value::Array(required)) = members.get_mut("required") {
                required.retain(|name| name != "metadata");
                if required.is_empty() {
                    members.remove("required");
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn annotate(schemas: &mut Schemas) {
    let mut set = |schema: String, property: &str, extensions: Value| {
        let property = schemas.get_mut(&schema).and_then(|s| s.pointer_mut(&format!("/properties/{property}")));
        if let (Some(Value::Object(property)), Value::Object(extensions)) = (property, extensions) {
            property.extend(extensions);
        }
    };
    let keyed = |key: &str| {
        json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": key})
    };
    set(format!("{META}.ObjectMeta"), "ownerReferences", keyed("uid"));
    set(
        format!("{META}.ObjectMeta"),
        "finalizers",
        json!({"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}),
    );
    set("io.k8s.api.core.v1.ServiceAccount".into(), "secrets", keyed("name"));
    set("io.k8s.api.core.v1.NamespaceStatus".into(), "conditions", keyed("type"));
    if let Some(Value::Object(owner)) = schemas.get_mut(&format!("{META}.OwnerReference")) {
        owner.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
}

/// The schemas that `roots` refer to, and those that these refer to, `roots` included.
pub(super) fn closure(roots: &Schemas) -> Schemas {
    let mut all = roots.clone();
    let mut open: Vec<String> = roots.values().flat_map(references).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        if let Some(schema) = SCHEMAS.get(&name) {
            open.extend(references(schema));
            all.entry(name).or_insert_with(|| schema.clone());
        }
    }
    all
}

fn references(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(schema, &mut found);
    found
}

fn collect(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(name) = members.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix(V3_PREFIX)) {
                found.push(name.to_owned());
            }
            members.values().for_each(|member| collect(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// Adds the extension by which clients find the schema of a kind.
pub(super) fn tag(schema: &mut Value, group: &str, version: &str, kind: &str) {
    if let Value::Object(members) = schema {
        let gvk: Map<String, Value> = [("group", group), ("kind", kind), ("version", version)]
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v.into()))
            .collect();
        members.insert("x-kubernetes-group-version-kind".into(), json!([gvk]));
    }
}
