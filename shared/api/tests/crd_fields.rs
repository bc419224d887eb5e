//! The compatibility proof: every field, constraint and column of the predecessor's public API, as listed in
//! `tables/crd_fields.tsv`, is in the generated definitions, and nothing is that is not listed there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use weir_api::crd;

const TABLE: &str = include_str!("tables/crd_fields.tsv");

/// One kind of the table.
#[derive(Default)]
struct Listed {
    name: String,
    status_subresource: bool,
    columns: Vec<(String, String)>,
    fields: BTreeMap<String, BTreeSet<String>>,
}

fn table() -> BTreeMap<String, Listed> {
    let mut kinds = BTreeMap::<String, Listed>::new();
    let mut current = String::new();
    for line in TABLE.lines().skip_while(|line| !line.is_empty()).skip(1).skip_while(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix("# ") {
            let (kind, name) = heading.split_once(' ').unwrap();
            kind.clone_into(&mut current);
            kinds.insert(kind.to_owned(), Listed { name: name.to_owned(), ..Listed::default() });
            continue;
        }
        let Some(listed) = kinds.get_mut(&current) else { continue };
        if let Some(subresource) = line.strip_prefix("@ ") {
            listed.status_subresource = subresource == "status-subresource";
        } else if let Some(column) = line.strip_prefix("= ") {
            let (name, path) = column.split_once(" = ").unwrap();
            listed.columns.push((name.to_owned(), path.to_owned()));
        } else if !line.is_empty() {
            let mut cells = line.strip_prefix("+ ").unwrap_or(line).split('\t');
            let path = cells.next().unwrap().to_owned();
            let properties = listed.fields.entry(path).or_default();
            properties.extend(cells.filter(|cell| !matches!(*cell, "" | "rules")).map(str::to_owned));
        }
    }
    kinds
}

fn schema(crd: &CustomResourceDefinition) -> &JSONSchemaProps {
    crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap()
}

fn items(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match schema.items.as_ref()? {
        JSONSchemaPropsOrArray::Schema(items) => Some(items),
        JSONSchemaPropsOrArray::Schemas(_) => panic!("a list of item schemas is not structural"),
    }
}

/// Spells a schema in the words of the table, children excluded.
fn words(schema: &JSONSchemaProps) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut say = |word: String| {
        words.insert(word);
    };
    say(match schema.type_.as_deref() {
        Some("array") if items(schema).is_some_and(is_tag) => "array of {name, value}".to_owned(),
        Some(kind) => kind.to_owned(),
        None if schema.x_kubernetes_int_or_string == Some(true) => "quantity".to_owned(),
        None if schema.x_kubernetes_preserve_unknown_fields == Some(true) => "anything".to_owned(),
        None => "untyped".to_owned(),
    });
    let address = schema.pattern.as_deref().and_then(address);
    if let Some(address) = address {
        say(address.to_owned());
    } else if let Some(pattern) = schema.pattern.as_ref().filter(|_| schema.x_kubernetes_int_or_string.is_none()) {
        say(format!("pattern {pattern}"));
    }
    if let Some(n) = schema.max_length.filter(|_| address.is_none()) {
        say(format!("maxLength {n}"));
    }
    // 64 bits are what an integer without a format has too.
    if let Some(format) = schema.format.as_ref().filter(|f| *f != "int64") {
        say(format!("format {format}"));
    }
    if let Some(values) = &schema.enum_ {
        let values: Vec<&str> = values.iter().map(|v| v.0.as_str().unwrap()).collect();
        say(format!("enum {}", values.join("/")));
    }
    if let Some(default) = &schema.default {
        say(format!("default {}", default.0.as_str().unwrap()));
    }
    for (bound, value) in [("minimum", schema.minimum), ("maximum", schema.maximum)] {
        if let Some(n) = value {
            say(format!("{bound} {n}"));
        }
    }
    for (bound, value) in
        [("minLength", schema.min_length), ("minItems", schema.min_items), ("maxItems", schema.max_items)]
    {
        if let Some(n) = value {
            say(format!("{bound} {n}"));
        }
    }
    match schema.x_kubernetes_list_type.as_deref() {
        Some("map") => say(format!("map by {}", schema.x_kubernetes_list_map_keys.as_ref().unwrap().join(","))),
        Some(other) => say(other.to_owned()),
        None => {}
    }
    for rule in schema.x_kubernetes_validations.iter().flatten() {
        say(format!("cel {}", rule.rule));
    }
    words
}

fn is_tag(schema: &JSONSchemaProps) -> bool {
    schema.properties.as_ref().is_some_and(|p| p.keys().eq(["name", "value"]))
        && schema.required.as_deref() == Some(&["name".to_owned(), "value".to_owned()])
}

/// Which kind of address a pattern is about, found out by trying it.
fn address(pattern: &str) -> Option<&'static str> {
    let pattern = Regex::new(pattern).unwrap();
    let fits = |good: &[&str], bad: &[&str]| {
        good.iter().all(|text| pattern.is_match(text)) && !bad.iter().any(|text| pattern.is_match(text))
    };
    let addresses = ["0.0.0.0", "255.255.255.255", "010.001.199.09", "249.250.100.7"];
    let prefixes = ["0.0.0.0/0", "10.0.0.1/9", "010.0.0.0/19", "192.168.0.0/32", "1.2.3.4/29"];
    let neither = ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.0004", " 1.2.3.4", "1.2.3.4/33", "1.2.3.4/", "::1"];
    if fits(&addresses, &[&prefixes[..], &neither[..]].concat()) {
        return Some("IPv4 address");
    }
    fits(&prefixes, &[&addresses[..], &neither[..]].concat()).then_some("IPv4 prefix")
}

/// Every field of a schema in the words of the table.
fn flatten(path: &str, schema: &JSONSchemaProps, fields: &mut BTreeMap<String, BTreeSet<String>>) {
    for (name, child) in schema.properties.iter().flatten() {
        if path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let required = schema.required.iter().flatten().any(|r| r == name);
        let mut said = words(child);
        said.insert(if required { "required" } else { "optional" }.to_owned());
        fields.insert(path.clone(), said);
        // Conditions are Kubernetes' own; the table says only that they are there.
        if path != "status.conditions" {
            flatten(&path, child, fields);
            flatten_items(&path, child, fields);
        }
    }
}

fn flatten_items(path: &str, schema: &JSONSchemaProps, fields: &mut BTreeMap<String, BTreeSet<String>>) {
    let Some(items) = items(schema).filter(|items| !is_tag(items)) else { return };
    let path = format!("{path}[]");
    let mut said = words(items);
    // An item that is an object is listed by its fields, and by itself only for the rules on it.
    if said.remove("object") {
        if !said.is_empty() {
            fields.insert(path.clone(), said);
        }
    } else {
        said.insert("optional".to_owned());
        fields.insert(path.clone(), said);
    }
    flatten(&path, items, fields);
}

#[test]
fn every_field_of_the_predecessor_is_there_with_its_constraints_and_no_others() {
    let mut table = table();
    for crd in crd::all() {
        let kind = &crd.spec.names.kind;
        let mut listed = table.remove(kind).unwrap_or_else(|| panic!("{kind} is not in the table"));
        let mut fields = BTreeMap::new();
        flatten("", schema(&crd), &mut fields);
        for said in listed.fields.values_mut() {
            said.remove("format int64");
        }
        for (path, said) in &listed.fields {
            assert_eq!(fields.get(path), Some(said), "{kind} {path}: left is generated, right is the table");
        }
        let extra: Vec<_> = fields.keys().filter(|path| !listed.fields.contains_key(*path)).collect();
        assert!(extra.is_empty(), "{kind}: generated but not in the table: {extra:?}");
    }
    assert!(table.is_empty(), "kinds without a type: {:?}", table.keys());
}

#[test]
fn groups_names_scopes_versions_and_subresources_are_those_of_the_predecessor() {
    let table = table();
    for crd in crd::all() {
        let listed = &table[&crd.spec.names.kind];
        assert_eq!(crd.metadata.name.as_deref(), Some(listed.name.as_str()));
        assert_eq!(format!("{}.{}", crd.spec.names.plural, crd.spec.group), listed.name);
        assert_eq!(crd.spec.scope, "Namespaced");
        let [version] = crd.spec.versions.as_slice() else { panic!("{}: one version", listed.name) };
        assert_eq!((version.name.as_str(), version.served, version.storage), ("v1alpha1", true, true));
        let status = version.subresources.as_ref().is_some_and(|s| s.status.is_some());
        assert_eq!(status, listed.status_subresource, "{}", listed.name);
    }
}

/// Proves: OWN-9
#[test]
fn kubectl_get_shows_the_columns_of_the_predecessor_then_address_status_health_and_age() {
    let table = table();
    for crd in crd::all() {
        let kind = crd.spec.names.kind.as_str();
        let columns = crd.spec.versions[0].additional_printer_columns.clone().unwrap_or_default();
        for (name, path) in &table[kind].columns {
            assert!(columns.iter().any(|c| c.name == *name && c.json_path == *path), "{kind} lacks column {name}");
        }
        let shown: Vec<&str> =
            columns.iter().filter(|c| c.priority.unwrap_or(0) == 0).map(|c| c.name.as_str()).collect();
        assert_eq!(shown.last(), Some(&"age"), "{kind} ends with its age: {shown:?}");
        let wanted: &[&str] = match kind {
            "Server" => &["status", "health", "state", "privateIP", "publicIP"],
            "ComputeInstance" => &["display name", "status", "health", "privateIp", "publicIp"],
            "LoadBalancer" => &["status", "health", "vipAddress", "publicIP"],
            "Network" => &["prefix", "status"],
            "Region" => &["display name", "status"],
            "Identity" | "SecurityGroup" | "Volume" => &["status"],
            "OpenstackIdentity" => &["project"],
            _ => &[],
        };
        for name in wanted {
            assert!(shown.contains(name), "{kind} shows {name}: {shown:?}");
        }
    }
}

/// Proves: OWN-9
#[test]
fn every_kind_has_the_category_and_short_names_that_clash_with_nothing() {
    const BUILT_IN: &[&str] = &[
        "cm", "cs", "ep", "ev", "limits", "ns", "no", "pvc", "po", "pv", "quota", "rc", "sa", "svc", "crd", "crds",
        "ds", "deploy", "rs", "sts", "hpa", "cj", "csr", "ing", "netpol", "pdb", "pc", "sc", "vac",
    ];
    let mut taken: BTreeSet<String> = BUILT_IN.iter().map(|&name| name.to_owned()).collect();
    for crd in crd::all() {
        let names = &crd.spec.names;
        assert_eq!(names.categories.as_deref(), Some(&["unikorn".to_owned()][..]), "{}", names.kind);
        let short = names.short_names.clone().unwrap_or_default();
        assert!(!short.is_empty(), "{} has no short name", names.kind);
        for name in short {
            assert!(taken.insert(name.clone()), "{name} of {} is taken", names.kind);
        }
    }
}

/// Proves: OWN-2
#[test]
fn conditions_are_a_map_by_type_and_status_says_which_generation_it_is_about() {
    for crd in crd::all() {
        let kind = &crd.spec.names.kind;
        let status = &schema(&crd).properties.as_ref().unwrap()["status"];
        let fields = status.properties.as_ref().unwrap();
        assert!(fields.contains_key("observedGeneration"), "{kind}");
        if let Some(conditions) = fields.get("conditions") {
            assert_eq!(conditions.x_kubernetes_list_type.as_deref(), Some("map"), "{kind}");
            assert_eq!(conditions.x_kubernetes_list_map_keys.as_deref(), Some(&["type".to_owned()][..]), "{kind}");
            let condition = items(conditions).unwrap();
            let fields: Vec<&str> = condition.properties.as_ref().unwrap().keys().map(String::as_str).collect();
            assert_eq!(fields, ["lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"]);
        }
    }
}

#[test]
fn every_field_and_every_rule_tells_a_person_what_it_is_about() {
    fn walk(path: &str, schema: &JSONSchemaProps, silent: &mut Vec<String>) {
        for rule in schema.x_kubernetes_validations.iter().flatten() {
            if rule.message.as_ref().is_none_or(|message| message.contains('\n') || message.len() < 20) {
                silent.push(format!("{path}: {}", rule.rule));
            }
        }
        for (name, child) in schema.properties.iter().flatten() {
            if child.description.as_ref().is_none_or(String::is_empty) && name != "metadata" {
                silent.push(format!("{path}.{name}"));
            }
            walk(&format!("{path}.{name}"), child, silent);
        }
        if let Some(items) = items(schema) {
            walk(&format!("{path}[]"), items, silent);
        }
    }
    let mut silent = Vec::new();
    for crd in crd::all() {
        assert!(schema(&crd).description.is_some(), "{}", crd.spec.names.kind);
        walk(&crd.spec.names.kind, schema(&crd), &mut silent);
    }
    assert!(silent.is_empty(), "without a description or message: {silent:#?}");
}
