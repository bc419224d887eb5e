//! The documents hold what kubectl looks for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{CustomResource, Documents};
use serde_json::{Value, json};

fn widget() -> CustomResource {
    CustomResource {
        group: "demo.weir.dev".into(),
        version: "v1alpha1".into(),
        kind: "Widget".into(),
        list_kind: "WidgetList".into(),
        plural: "widgets".into(),
        namespaced: true,
        has_status: true,
        schema: serde_json::from_str(include_str!("../schema/testdata/widget.json")).unwrap(),
        selectable_fields: vec![".spec.size".into()],
    }
}

fn v3(documents: &Documents, path: &str) -> Value {
    serde_json::from_slice(&documents.v3_group(path).unwrap().json).unwrap()
}

/// Every reference of a document leads somewhere in it.
fn assert_closed(document: &Value, value: &Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let pointer = reference.trim_start_matches('#');
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
            members.values().for_each(|member| assert_closed(document, member));
        }
        Value::Array(items) => items.iter().for_each(|item| assert_closed(document, item)),
        _ => {}
    }
}

#[test]
fn the_index_leads_to_every_document_by_its_hash() {
    let documents = Documents::build(&[widget()]);
    let index: Value = serde_json::from_slice(&documents.v3_index).unwrap();
    let url = index["paths"]["apis/demo.weir.dev/v1alpha1"]["serverRelativeURL"].as_str().unwrap();
    let hash = &documents.v3_group("apis/demo.weir.dev/v1alpha1").unwrap().hash;
    assert_eq!(url, format!("/openapi/v3/apis/demo.weir.dev/v1alpha1?hash={hash}"));
    assert_eq!(hash.len(), 128);
    for path in index["paths"].as_object().unwrap().keys() {
        let document = v3(&documents, path);
        assert_closed(&document, &document);
    }
    assert!(documents.v3_group("apis/none/v1").is_none());
    // The hash is of the content.
    let other = Documents::build(&[CustomResource { has_status: false, ..widget() }]);
    assert_ne!(&other.v3_group("apis/demo.weir.dev/v1alpha1").unwrap().hash, hash);
}

#[test]
fn a_custom_resource_is_described_with_its_paths_and_kind() {
    let document = v3(&Documents::build(&[widget()]), "apis/demo.weir.dev/v1alpha1");
    let gvk = json!({"group": "demo.weir.dev", "version": "v1alpha1", "kind": "Widget"});
    let schema = &document["components"]["schemas"]["dev.weir.demo.v1alpha1.Widget"];
    assert_eq!(schema["x-kubernetes-group-version-kind"][0], gvk);
    assert_eq!(schema["properties"]["spec"]["properties"]["owner"]["description"], "who owns it");
    assert_eq!(schema["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.size"}]));
    let base = "/apis/demo.weir.dev/v1alpha1";
    for path in [
        "/widgets",
        "/namespaces/{namespace}/widgets",
        "/namespaces/{namespace}/widgets/{name}",
        "/namespaces/{namespace}/widgets/{name}/status",
    ] {
        assert_eq!(document["paths"][format!("{base}{path}")]["get"]["x-kubernetes-group-version-kind"], gvk, "{path}");
    }
    let patch = &document["paths"][format!("{base}/namespaces/{{namespace}}/widgets/{{name}}")]["patch"];
    assert!(patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation"));
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
}

#[test]
fn built_in_kinds_are_described_and_take_strategic_patches() {
    let documents = Documents::build(&[]);
    let core = v3(&documents, "api/v1");
    for kind in ["Namespace", "Secret", "ConfigMap", "Event", "ServiceAccount"] {
        let schema = &core["components"]["schemas"][format!("io.k8s.api.core.v1.{kind}")];
        assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], kind);
        assert!(schema["properties"]["metadata"]["allOf"][0]["$ref"].is_string(), "{kind}: {schema}");
    }
    let patch = &core["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some());
    let owners = &core["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]["ownerReferences"];
    assert_eq!(owners["x-kubernetes-patch-merge-key"], "uid");
    for path in ["apis/coordination.k8s.io/v1", "apis/apiextensions.k8s.io/v1", "apis/events.k8s.io/v1"] {
        assert!(documents.v3_group(path).is_some(), "{path}");
    }
}

/// A field of a protobuf message: its number and its bytes; numbers only as long as they are length-delimited.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                varint(&mut bytes);
                continue;
            }
            1 => 8,
            _ => usize::try_from(varint(&mut bytes)).unwrap(),
        };
        let (field, rest) = bytes.split_at(length);
        all.push((key >> 3, field));
        bytes = rest;
    }
    all
}

#[test]
fn version_2_says_the_same_as_json_and_as_protobuf() {
    let documents = Documents::build(&[widget()]);
    let json: Value = serde_json::from_slice(&documents.v2.json).unwrap();
    assert_closed(&json, &json);
    let names: Vec<&String> = json["definitions"].as_object().unwrap().keys().collect();
    let root = fields(&documents.v2_protobuf);
    assert_eq!(root[0], (1, b"2.0".as_slice()));
    let definitions = root.iter().find(|(number, _)| *number == 9).unwrap().1;
    let mut found = Vec::new();
    for (_, named) in fields(definitions) {
        let named = fields(named);
        let name = std::str::from_utf8(named[0].1).unwrap();
        if name == "dev.weir.demo.v1alpha1.Widget" {
            let schema = fields(named[1].1);
            let extensions: Vec<String> =
                schema.iter().filter(|(n, _)| *n == 31).map(|(_, e)| String::from_utf8_lossy(e).into_owned()).collect();
            assert!(
                extensions.iter().any(|e| e.contains("x-kubernetes-group-version-kind") && e.contains("demo.weir.dev")),
                "{extensions:?}"
            );
            assert!(schema.iter().any(|(n, _)| *n == 25), "it has properties");
        }
        found.push(name.to_owned());
    }
    assert_eq!(found, names.into_iter().cloned().collect::<Vec<_>>());
}
