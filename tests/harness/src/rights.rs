//! What functions ask of Kubernetes, and what `infra/rbac` lets them.

use crate::World;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A right: verb and resource, as in `patch servers/status`.
pub type Right = String;

fn documents(function: &str) -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../infra/rbac/{function}.yaml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_yaml_ng::Deserializer::from_str(&text).map(|document| Value::deserialize(document).unwrap()).collect()
}

/// What a function's roles grant.
pub fn granted(function: &str) -> BTreeSet<Right> {
    let texts = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let mut rights = BTreeSet::new();
    for role in documents(function).iter().filter(|document| document["kind"] == "ClusterRole") {
        for rule in role["rules"].as_array().unwrap() {
            for resource in texts(&rule["resources"]) {
                rights.extend(texts(&rule["verbs"]).iter().map(|verb| format!("{verb} {resource}")));
            }
        }
    }
    rights
}

/// What functions have asked of Kubernetes since the world was settled last.
pub fn used(world: &World) -> BTreeSet<Right> {
    let requests = world.kubernetes.requests().all();
    let of_functions = requests.iter().filter(|request| request.user_agent.contains(World::FUNCTION));
    of_functions
        .map(|request| {
            let resource = request.resource.split('.').next().unwrap_or_default();
            match request.subresource.as_str() {
                "" => format!("{} {resource}", request.verb),
                subresource => format!("{} {resource}/{subresource}", request.verb),
            }
        })
        .collect()
}
