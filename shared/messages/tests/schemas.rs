//! `queue-schemas/`: generated, up to date, and true of what is sent.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use weir_api::{Kind, ObjectRef};
use weir_messages::{Lane, recording, schema, subject};

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

/// Proves: Q-16
#[test]
fn every_subject_that_is_used_belongs_to_one_channel_of_the_asyncapi_document() {
    let files = schema::files().unwrap();
    let (_, document) = files.iter().find(|(name, _)| name == "asyncapi.json").unwrap();
    let document: Value = serde_json::from_str(document).unwrap();
    let channels = document["channels"].as_object().unwrap();
    let operations = document["operations"].as_object().unwrap();
    let mut unused: BTreeSet<&str> = channels.keys().map(String::as_str).collect();
    for kind in Kind::ALL.iter().chain([&Kind::ServerMonitor]) {
        let object = ObjectRef::new(*kind, "team-a", "web.1");
        let urgent = subject::work(Lane::Urgent, &object).unwrap();
        for (used, channel) in [
            (urgent.clone(), "work"),
            (subject::work(Lane::Routine, &object).unwrap(), "work"),
            (subject::timer(&object).unwrap(), "timer"),
            (subject::resync(&object).unwrap(), "resync"),
            (subject::repeating(&object).unwrap(), "repeating"),
            (subject::tick(*kind), "tick"),
            (subject::tick_schedule(*kind), "tickSchedule"),
            (format!("$KV.LEASES.{}", subject::lease_key(&object).unwrap()), "lease"),
            (format!("events.{urgent}"), "event"),
            (subject::dead(&urgent), "dead"),
            (recording::subject(&object, "0a1b").unwrap(), "trace"),
        ] {
            let fitting: Vec<&str> =
                channels.iter().filter(|(_, c)| fits(c, &used)).map(|(name, _)| name.as_str()).collect();
            assert_eq!(fitting, [channel], "{used}");
            unused.remove(channel);
        }
    }
    assert_eq!(unused, BTreeSet::new(), "described and never used");
    for (name, operation) in operations {
        let channel = operation["channel"]["$ref"].as_str().unwrap();
        assert!(document.pointer(channel.trim_start_matches('#')).is_some(), "{name}");
    }
}

/// Whether a subject has the shape of a channel's address, with values that its parameters allow.
fn fits(channel: &Value, subject: &str) -> bool {
    let address = channel["address"].as_str().unwrap();
    let allowed = |parameter: &str, token: &str| {
        let values = channel["parameters"][parameter]["enum"].as_array();
        values.is_none_or(|values| values.iter().any(|value| value == token))
    };
    let (mut pattern, mut tokens) = (address.split('.'), subject.split('.'));
    loop {
        let (part, token) = match (pattern.next(), tokens.next()) {
            (None, None) => return true,
            (Some(part), Some(token)) => (part, token),
            _ => return false,
        };
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            // Of several tokens, as its description says.
            Some("subject" | "key") => return true,
            Some(parameter) if allowed(parameter, token) => {}
            None if part == token => {}
            _ => return false,
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
