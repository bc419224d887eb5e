//! `queue-schemas/`: generated, up to date, and true of what is sent.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use weir_messages::schema;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../queue-schemas")
}

/// Proves: Q-16
#[test]
fn the_committed_schemas_are_those_of_the_types() {
    let mut expected = BTreeSet::new();
    for (name, content) in schema::files().unwrap() {
        let committed = std::fs::read_to_string(folder().join(&name)).unwrap_or_default();
        assert!(
            committed == content,
            "queue-schemas/{name} has drifted: cargo run -p weir-messages --bin queue-schemas -- --write queue-schemas"
        );
        expected.insert(name);
    }
    let present: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    assert_eq!(present, expected, "nothing else is there");
}

/// Proves
#[test]
fn every_schema_is_2020_12_and_named_as_messages_name_it() {
    for (name, content) in schema::files().unwrap().into_iter().filter(|(name, _)| name != "asyncapi.json") {
        let schema: Value = serde_json::from_str(&content).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        assert_eq!(schema["$id"], format!("urn:weir:queue-schemas:{}", name.trim_end_matches(".json")));
        assert_ne!(schema["additionalProperties"], false, "{name}: a field to come must not break a consumer");
    }
}

/// Proves: Q-16
#[test]
fn every_reference_of_the_asyncapi_document_leads_somewhere() {
    let files = schema::files().unwrap();
    let (_, document) = files.iter().find(|(name, _)| name == "asyncapi.json").unwrap();
    let document: Value = serde_json::from_str(document).unwrap();
    assert_eq!(document["asyncapi"], "3.0.0");
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 10);
    for reference in references {
        match reference.strip_prefix('#') {
            Some(pointer) => assert!(document.pointer(pointer).is_some(), "{reference}"),
            None => assert!(files.iter().any(|(name, _)| reference == format!("./{name}")), "{reference}"),
        }
    }
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            into.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| collect(value, into));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, into)),
        _ => {}
    }
}
