//! Discovery: which groups, versions and resources there are, in the legacy and the aggregated form.

use serde_json::{Value, json};

use crate::resource::{Flavour, Group, Registry, Resource, group_version};

/// Resources that can only be posted to: `(group, version, plural, singular, kind, namespaced)`.
const REVIEWS: &[(&str, &str, &str, &str, &str, bool)] = &[
    ("authentication.k8s.io", "v1", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview", false),
    ("authentication.k8s.io", "v1", "tokenreviews", "tokenreview", "TokenReview", false),
    (
        "authorization.k8s.io",
        "v1",
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
        "LocalSubjectAccessReview",
        true,
    ),
    (
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
        "SelfSubjectAccessReview",
        false,
    ),
    (
        "authorization.k8s.io",
        "v1",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        "SelfSubjectRulesReview",
        false,
    ),
    ("authorization.k8s.io", "v1", "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview", false),
];

const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// `/version`.
pub fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": concat!("v1.36.2-kube-sim.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": "linux/amd64",
    })
}

/// `/api`.
pub fn api_versions(address: &str) -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]})
}

/// Groups other than the core one, with their versions.
fn groups(registry: &Registry) -> Vec<(String, Vec<String>)> {
    let listed = registry.groups().iter().filter(|g| !g.name.is_empty());
    let mut out: Vec<(String, Vec<String>)> =
        listed.map(|g| (g.name.clone(), g.versions.iter().map(|v| v.name.clone()).collect())).collect();
    let first_custom =
        registry.groups().iter().filter(|g| !g.name.is_empty()).position(|g| g.custom).unwrap_or(out.len());
    out.splice(
        first_custom..first_custom,
        ["authentication.k8s.io", "authorization.k8s.io"].map(|g| (g.to_owned(), vec!["v1".to_owned()])),
    );
    out
}

fn group_value(name: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> =
        versions.iter().map(|v| json!({"groupVersion": group_version(name, v), "version": v})).collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

/// `/apis`.
pub fn group_list(registry: &Registry) -> Value {
    let groups: Vec<Value> = groups(registry).iter().map(|(name, versions)| group_value(name, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub fn group(registry: &Registry, name: &str) -> Option<Value> {
    let (name, versions) = groups(registry).into_iter().find(|(n, _)| n == name)?;
    let mut value = group_value(&name, &versions);
    value["kind"] = json!("APIGroup");
    value["apiVersion"] = json!("v1");
    Some(value)
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub fn resource_list(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    let found = registry.group(group).and_then(|g| g.versions.iter().find(|v| v.name == version));
    for resource in found.into_iter().flat_map(|v| &v.resources) {
        resources.push(legacy(resource));
        for sub in resource.subresources() {
            resources.push(json!({"name": format!("{}/{sub}", resource.plural), "singularName": "", "namespaced": resource.namespaced,
                "kind": resource.kind, "verbs": if sub == "finalize" { &["update"][..] } else { SUBRESOURCE_VERBS }}));
        }
        if matches!(resource.flavour, Flavour::ServiceAccount) {
            resources.push(json!({"name": "serviceaccounts/token", "singularName": "", "namespaced": true,
                "group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest", "verbs": ["create"]}));
        }
    }
    let reviews = REVIEWS.iter().filter(|(g, v, ..)| *g == group && *v == version);
    resources.extend(reviews.map(|(_, _, plural, singular, kind, namespaced)| {
        json!({"name": plural, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": ["create"]})
    }));
    if resources.is_empty() {
        return None;
    }
    let mut list =
        json!({"kind": "APIResourceList", "groupVersion": group_version(group, version), "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

fn legacy(resource: &Resource) -> Value {
    let mut entry = json!({"name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs});
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    entry
}

/// The aggregated form of `/api` (`core`) or `/apis`.
pub fn aggregated(registry: &Registry, core: bool, beta: bool) -> Value {
    let mut items: Vec<Value> =
        registry.groups().iter().filter(|g| g.name.is_empty() == core).map(aggregated_group).collect();
    if !core {
        for name in ["authentication.k8s.io", "authorization.k8s.io"] {
            let resources: Vec<Value> = REVIEWS
                .iter()
                .filter(|(g, ..)| *g == name)
                .map(|(_, _, plural, singular, kind, namespaced)| {
                    json!({"resource": plural, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": scope(*namespaced),
                        "singularResource": singular, "verbs": ["create"]})
                })
                .collect();
            items.push(json!({"metadata": {"name": name}, "versions": [{"version": "v1", "resources": resources, "freshness": "Current"}]}));
        }
    }
    let version = if beta { "apidiscovery.k8s.io/v2beta1" } else { "apidiscovery.k8s.io/v2" };
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": version, "metadata": {}, "items": items})
}

fn scope(namespaced: bool) -> &'static str {
    if namespaced { "Namespaced" } else { "Cluster" }
}

fn aggregated_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> =
                version.resources.iter().map(|r| aggregated_resource(r, group.custom)).collect();
            json!({"version": version.name, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &Resource, custom: bool) -> Value {
    let kind = if custom {
        json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
    } else {
        json!({"group": "", "version": "", "kind": resource.kind})
    };
    let mut entry = json!({"resource": resource.plural, "responseKind": kind, "scope": scope(resource.namespaced),
        "singularResource": resource.singular, "verbs": resource.verbs});
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let subresources: Vec<Value> = resource
        .subresources()
        .iter()
        .map(|sub| json!({"subresource": sub, "responseKind": kind, "verbs": SUBRESOURCE_VERBS}))
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}
