//! What makes a custom resource definition invalid.

use serde_json::{Value, json};

use super::{FINALIZER, condition, text, versions};
use crate::jsonpath::JsonPath;
use crate::meta;
use crate::object;
use crate::schema::Schema;
use crate::status::{Cause, field};

const DNS1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn is_dns1035(name: &str) -> bool {
    meta::is_dns_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Everything that is wrong with a definition; `old` is the stored one of an update.
pub fn validate(value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (group, plural, name) =
        (text(value, "/spec/group"), text(value, "/spec/names/plural"), object::meta_str(value, "name"));
    if name != format!("{plural}.{group}") {
        causes.push(field::invalid("metadata.name", &json!(name), "must be spec.names.plural+\".\"+spec.group"));
    }
    if group.is_empty() {
        causes.push(field::required("spec.group", ""));
    } else if !meta::is_subdomain(group) || !group.contains('.') {
        causes.push(field::invalid("spec.group", &json!(group), "should be a domain with at least one dot"));
    }
    match text(value, "/spec/scope") {
        "Namespaced" | "Cluster" => {}
        "" => causes.push(field::required("spec.scope", "")),
        other => causes.push(field::not_supported("spec.scope", &format!("{other:?}"), &["Cluster", "Namespaced"])),
    }
    if value.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(field::invalid("spec.preserveUnknownFields", &json!(true), detail));
    }
    validate_names(value, &mut causes);
    validate_versions(value, &mut causes);
    if let Some(old) = old {
        validate_change(value, old, &mut causes);
    }
    causes
}

fn validate_names(value: &Value, causes: &mut Vec<Cause>) {
    for key in ["plural", "singular"] {
        let name = text(value, &format!("/spec/names/{key}"));
        let path = format!("spec.names.{key}");
        if name.is_empty() {
            causes.push(field::required(&path, ""));
        } else if !is_dns1035(name) {
            causes.push(field::invalid(&path, &json!(name), DNS1035));
        }
    }
    for key in ["kind", "listKind"] {
        let name = text(value, &format!("/spec/names/{key}"));
        let path = format!("spec.names.{key}");
        if name.is_empty() {
            causes.push(field::required(&path, ""));
        } else if !is_dns1035(&name.to_lowercase()) {
            let detail = format!("may have mixed case, but should otherwise match: {DNS1035}");
            causes.push(field::invalid(&path, &json!(name), &detail));
        }
    }
    for key in ["shortNames", "categories"] {
        for (i, name) in super::strings(value, &format!("/spec/names/{key}")).iter().enumerate() {
            if !is_dns1035(name) {
                causes.push(field::invalid(&format!("spec.names.{key}[{i}]"), &json!(name), DNS1035));
            }
        }
    }
    let (kind, list_kind) = (text(value, "/spec/names/kind"), text(value, "/spec/names/listKind"));
    if !kind.is_empty() && kind == list_kind {
        causes.push(field::invalid("spec.names.listKind", &json!(list_kind), "kind and listKind may not be the same"));
    }
}

fn validate_versions(value: &Value, causes: &mut Vec<Cause>) {
    let list = versions(value);
    let mut seen = Vec::new();
    let mut storage = 0;
    for (i, version) in list.iter().enumerate() {
        let path = format!("spec.versions[{i}]");
        let name = text(version, "/name");
        if !is_dns1035(name) {
            causes.push(field::invalid(&format!("{path}.name"), &json!(name), DNS1035));
        }
        if seen.contains(&name) {
            causes.push(field::duplicate(&format!("{path}.name"), &json!(name)));
        }
        seen.push(name);
        storage += usize::from(version.get("storage") == Some(&Value::Bool(true)));
        validate_schema(version, &path, list.len() == 1, causes);
        // With one version the real server checks its internal form, in which these sit directly below spec.
        let place = if list.len() == 1 { "spec".to_owned() } else { path };
        validate_columns(version, &place, causes);
    }
    if storage != 1 {
        let shown = Value::Array(list.to_vec());
        causes.push(field::invalid("spec.versions", &shown, "must have exactly one version marked as storage version"));
    }
    match value.pointer("/status/storedVersions").and_then(Value::as_array) {
        Some(stored) if !stored.is_empty() => {
            for (i, name) in stored.iter().enumerate().filter(|(_, n)| !seen.iter().any(|s| n.as_str() == Some(*s))) {
                let shown = name.as_str().unwrap_or_default();
                let detail = format!(
                    "missing from spec.versions; {shown} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {shown} and removes {shown} from status.storedVersions"
                );
                causes.push(field::invalid(&format!("status.storedVersions[{i}]"), name, &detail));
            }
        }
        _ => {
            causes.push(field::invalid("status.storedVersions", &Value::Null, "must have at least one stored version"));
        }
    }
}

fn validate_schema(version: &Value, path: &str, single: bool, causes: &mut Vec<Cause>) {
    const INTERNAL: &str = "spec.validation.openAPIV3Schema";
    let outer = format!("{path}.schema.openAPIV3Schema");
    let Some(schema) = version.pointer("/schema/openAPIV3Schema").filter(|s| s.is_object()) else {
        causes.push(field::required(&outer, ""));
        return;
    };
    let has_status = version.pointer("/subresources/status").is_some_and(Value::is_object);
    let root = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    if has_status && !root.is_empty() && root != "object" {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        causes.push(field::invalid(&format!("{}.type", if single { INTERNAL } else { &outer }), &json!(root), detail));
    }
    if let Err(found) = Schema::compile(schema) {
        causes.extend(found.into_iter().map(|mut cause| {
            if !single {
                cause.field = cause.field.replacen(INTERNAL, &outer, 1);
            }
            cause
        }));
    }
}

fn validate_columns(version: &Value, place: &str, causes: &mut Vec<Cause>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    for (i, column) in columns.into_iter().flatten().enumerate() {
        let path = format!("{place}.additionalPrinterColumns[{i}]");
        let kind = text(column, "/type");
        if text(column, "/name").is_empty() {
            causes.push(field::required(&format!("{path}.name"), ""));
        }
        if !TYPES.contains(&kind) {
            causes.push(field::invalid(
                &format!("{path}.type"),
                &json!(kind),
                &format!("must be one of {}", TYPES.join(",")),
            ));
        }
        let json_path = text(column, "/jsonPath");
        if !json_path.starts_with('.') || JsonPath::parse(json_path).is_none() {
            causes.push(field::invalid(
                &format!("{path}.JSONPath"),
                &json!(json_path),
                "must be a simple json path starting with .",
            ));
        }
    }
    for (i, selectable) in super::strings_at(version.get("selectableFields"), "jsonPath").iter().enumerate() {
        if JsonPath::parse(selectable).is_none_or(|p| p.plain_keys().is_none()) {
            let path = format!("{place}.selectableFields[{i}].jsonPath");
            causes.push(field::invalid(
                &path,
                &json!(selectable),
                "is an invalid path: does not point to a valid field",
            ));
        }
    }
}

fn validate_change(value: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let established =
        condition(old, "Established").and_then(|c| c.get("status")).and_then(Value::as_str) == Some("True");
    if established {
        for key in ["scope", "group"] {
            let (now, then) = (text(value, &format!("/spec/{key}")), text(old, &format!("/spec/{key}")));
            if now != then {
                causes.push(field::invalid(&format!("spec.{key}"), &json!(now), "field is immutable"));
            }
        }
        let (now, then) = (text(value, "/spec/names/plural"), text(old, "/spec/names/plural"));
        if now != then {
            causes.push(field::invalid("spec.names.plural", &json!(now), "field is immutable"));
        }
    }
    let keeps = object::finalizers(value).contains(&FINALIZER);
    if object::is_deleting(old) && !keeps && object::finalizers(old).contains(&FINALIZER) {
        tracing::debug!(definition = object::meta_str(value, "name"), "the clean-up finalizer was removed by a client");
    }
}
