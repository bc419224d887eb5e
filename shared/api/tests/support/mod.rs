//! Manifests and the admission of them, for the tests of this folder.

#![allow(dead_code)] // each test file uses a part of it

use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use weir_api::crd;
use weir_kube_sim::schema::Schema;

/// A manifest of each kind that sets every field, by kind.
pub fn manifests() -> BTreeMap<String, Value> {
    let documents = serde_yaml_ng::Deserializer::from_str(include_str!("../tables/manifests.yaml"));
    documents
        .map(|document| {
            let manifest = Value::deserialize(document).unwrap();
            (manifest["kind"].as_str().unwrap().to_owned(), manifest)
        })
        .collect()
}

/// The manifest of one kind.
pub fn manifest(kind: &str) -> Value {
    manifests().remove(kind).unwrap()
}

/// The manifest of one kind with some values replaced (`null` removes), each by its JSON pointer.
pub fn with(kind: &str, changes: &[(&str, Value)]) -> Value {
    let mut manifest = manifest(kind);
    for (pointer, value) in changes {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let parent = manifest.pointer_mut(parent).unwrap_or_else(|| panic!("{kind} has no {pointer}"));
        match (parent, value) {
            (Value::Object(parent), Value::Null) => drop(parent.remove(field)),
            (Value::Object(parent), value) => drop(parent.insert(field.to_owned(), value.clone())),
            (Value::Array(items), value) => items[field.parse::<usize>().unwrap()] = value.clone(),
            _ => panic!("{pointer} leads nowhere"),
        }
    }
    manifest
}

/// The generated schema of a kind, as JSON.
pub fn schema(kind: &str) -> Value {
    let crd = crd::all().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    serde_json::to_value(crd).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// What an API server makes of a manifest: with defaults, or what it says against it.
pub fn admit(object: &Value, old: Option<&Value>) -> Result<Value, Vec<String>> {
    let kind = object["kind"].as_str().unwrap();
    let schema = Schema::compile(&schema(kind)).unwrap_or_else(|causes| panic!("{kind}: {causes:#?}"));
    let mut object = object.clone();
    let mut causes: Vec<String> = schema.prune(&mut object).iter().map(|f| format!("unknown field {f}")).collect();
    schema.default(&mut object);
    let found = schema.validate_after(&object, old, Vec::new());
    causes.extend(found.iter().map(|cause| format!("{}: {}", cause.field, cause.message)));
    if causes.is_empty() { Ok(object) } else { Err(causes) }
}

/// Reads an object as its Rust type and writes it again.
pub fn round(object: &Value) -> Result<Value, serde_json::Error> {
    fn through<K: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
        serde_json::to_value(serde_json::from_value::<K>(object.clone())?)
    }
    match object["kind"].as_str().unwrap() {
        "Region" => through::<crd::Region>(object),
        "Identity" => through::<crd::Identity>(object),
        "OpenstackIdentity" => through::<crd::OpenstackIdentity>(object),
        "Network" => through::<crd::Network>(object),
        "SecurityGroup" => through::<crd::SecurityGroup>(object),
        "Server" => through::<crd::Server>(object),
        "Volume" => through::<crd::Volume>(object),
        "LoadBalancer" => through::<crd::LoadBalancer>(object),
        "SSHCertificateAuthority" => through::<crd::SshCertificateAuthority>(object),
        "VLANAllocation" => through::<crd::VlanAllocation>(object),
        "ComputeInstance" => through::<crd::ComputeInstance>(object),
        "Quota" => through::<crd::Quota>(object),
        "Allocation" => through::<crd::Allocation>(object),
        "QuotaMetadata" => through::<crd::QuotaMetadata>(object),
        "Role" => through::<crd::Role>(object),
        other => panic!("{other} is not a kind"),
    }
}
