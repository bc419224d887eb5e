//! OpenAPI v3: an index, and one document per group and version.

use super::builtins::{self, META, SCHEMAS, Schemas, V3_PREFIX};
use super::paths::{self, Endpoint};
use super::{CustomResource, Document, builtin_kinds};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A document in the making.
#[derive(Default)]
struct Draft {
    paths: Map<String, Value>,
    schemas: Schemas,
}

impl Draft {
    fn finish(self, title: &str, version: &str) -> Document {
        let mut schemas = self.schemas;
        for name in ["Patch", "DeleteOptions", "Status"] {
            let name = format!("{META}.{name}");
            if let Some(schema) = SCHEMAS.get(&name) {
                schemas.insert(name, schema.clone());
            }
        }
        let document = json!({
            "openapi": "3.0.0",
            "info": {"title": title, "version": version},
            "paths": self.paths,
            "components": {"schemas": builtins::closure(&schemas)},
        });
        Document::of(&document)
    }
}

static BUILTIN: LazyLock<BTreeMap<String, Document>> = LazyLock::new(|| {
    let mut drafts: BTreeMap<String, Draft> = BTreeMap::new();
    for kind in builtin_kinds() {
        let draft = drafts.entry(paths::document(&kind.group, &kind.version)).or_default();
        let (name, list_name) = (
            builtins::name_of(&kind.group, &kind.version, &kind.kind),
            builtins::name_of(&kind.group, &kind.version, &kind.list_kind),
        );
        let mut schema = SCHEMAS.get(&name).cloned().unwrap_or_else(|| builtins::open_schema(&kind.kind));
        builtins::tag(&mut schema, &kind.group, &kind.version, &kind.kind);
        let mut list = SCHEMAS.get(&list_name).cloned().unwrap_or_else(|| builtins::list_schema(&kind.kind, &name));
        builtins::tag(&mut list, &kind.group, &kind.version, &kind.list_kind);
        paths::add(
            &mut draft.paths,
            &Endpoint {
                group: &kind.group,
                version: &kind.version,
                kind: &kind.kind,
                plural: &kind.plural,
                namespaced: kind.namespaced,
                has_status: kind.has_status,
                builtin: true,
                schema: &name,
                list_schema: &list_name,
            },
        );
        draft.schemas.insert(name, schema);
        draft.schemas.insert(list_name, list);
    }
    drafts.into_iter().map(|(path, draft)| (path, draft.finish("Kubernetes", "unversioned"))).collect()
});

/// The OpenAPI name of a custom kind: its group backwards.
pub(super) fn custom_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// The schema of a custom resource as it is published: with what every object has.
pub(super) fn custom_schema(custom: &CustomResource) -> Value {
    let mut schema = if custom.schema.is_object() { custom.schema.clone() } else { json!({"type": "object"}) };
    let Value::Object(members) = &mut schema else { return schema };
    let properties = members.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        let standard =
            [("apiVersion", "The version of the schema of this object."), ("kind", "The kind of this object.")];
        for (name, description) in standard {
            properties.insert(name.into(), json!({"type": "string", "description": description}));
        }
        let metadata = json!({"description": "Standard object's metadata.", "allOf": [{"$ref": format!("{V3_PREFIX}{META}.ObjectMeta")}]});
        properties.insert("metadata".into(), metadata);
    }
    let selectable: Vec<Value> =
        custom.selectable_fields.iter().map(|path| json!({"fieldPath": path.trim_start_matches('.')})).collect();
    if !selectable.is_empty() {
        members.insert("x-kubernetes-selectable-fields".into(), selectable.into());
    }
    builtins::tag(&mut schema, &custom.group, &custom.version, &custom.kind);
    schema
}

pub(super) fn groups(custom: &[CustomResource]) -> BTreeMap<String, Document> {
    let mut drafts: BTreeMap<String, Draft> = BTreeMap::new();
    for resource in custom {
        let draft = drafts.entry(paths::document(&resource.group, &resource.version)).or_default();
        let name = custom_name(&resource.group, &resource.version, &resource.kind);
        let list_name = custom_name(&resource.group, &resource.version, &resource.list_kind);
        let mut list = builtins::list_schema(&resource.kind, &name);
        builtins::tag(&mut list, &resource.group, &resource.version, &resource.list_kind);
        paths::add(
            &mut draft.paths,
            &Endpoint {
                group: &resource.group,
                version: &resource.version,
                kind: &resource.kind,
                plural: &resource.plural,
                namespaced: resource.namespaced,
                has_status: resource.has_status,
                builtin: false,
                schema: &name,
                list_schema: &list_name,
            },
        );
        draft.schemas.insert(name, custom_schema(resource));
        draft.schemas.insert(list_name, list);
    }
    let custom = drafts.into_iter().map(|(path, draft)| (path, draft.finish("Kubernetes CRD Swagger", "v0.1.0")));
    let mut all = BUILTIN.clone();
    // A custom resource in a built-in group would hide that group's document; the server does not let one be defined.
    for (path, document) in custom {
        all.entry(path).or_insert(document);
    }
    all
}

pub(super) fn index(groups: &BTreeMap<String, Document>) -> Bytes {
    let entry = |(path, document): (&String, &Document)| {
        (path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={}", document.hash)}))
    };
    json!({"paths": groups.iter().map(entry).collect::<Map<String, Value>>()}).to_string().into()
}
