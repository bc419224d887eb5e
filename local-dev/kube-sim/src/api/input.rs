//! From a body to an object that may be written: decoding, the checks of kind and version, unknown fields, defaults.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::options::FieldValidation;
use crate::builtin;
use crate::decode;
use crate::definition;
use crate::meta;
use crate::object;
use crate::resource::{Flavour, Resource};
use crate::status::{Status, field};

const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// A body that has become an object of the resource's kind.
#[derive(Debug)]
pub struct Input {
    pub value: Value,
    pub warnings: Vec<String>,
}

/// Decodes the body of a create or replace.
pub fn object(
    resource: &Resource,
    content_type: Option<&str>,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Input, Status> {
    let decoded = decode::object(content_type, body).map_err(|error| undecodable(resource, body, &error))?;
    let mut value = decoded.value;
    if !value.is_object() {
        let what = meta::go_kind(&value);
        let text = format!(
            "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        );
        return Err(undecodable(resource, body, &decode::Error::Syntax(text)));
    }
    check_type(resource, &mut value, body)?;
    let warnings = conform(resource, &mut value, validation, &decoded.duplicates).map_err(|why| {
        Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {why}",
            resource.kind, resource.version, resource.kind
        ))
    })?;
    Ok(Input { value, warnings })
}

fn undecodable(resource: &Resource, body: &[u8], error: &decode::Error) -> Status {
    match error {
        decode::Error::MediaType => Status::unsupported_media_type(MEDIA_TYPES),
        decode::Error::UnknownProtobuf(kind) => Status::unsupported_media_type(&format!(
            "application/json, application/yaml (protobuf of kind {kind:?} is not understood here)"
        )),
        decode::Error::Syntax(why) => {
            let prefix = if resource.is_custom() {
                format!("the object provided is unrecognized (must be of type {}): ", resource.kind)
            } else {
                String::new()
            };
            Status::bad_request(format!(
                "{prefix}couldn't get version/kind; json parse error: {why} ({})",
                excerpt(body)
            ))
        }
    }
}

fn excerpt(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    if body.is_empty() {
        return "<empty>".into();
    }
    if body.first() != Some(&b'{') {
        return body.iter().take(SHOWN).fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
    }
    let text = String::from_utf8_lossy(body);
    let short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() { format!("{short} ...") } else { short }
}

/// Checks `kind` and `apiVersion`; built-ins may leave them out.
fn check_type(resource: &Resource, value: &mut Value, body: &[u8]) -> Result<(), Status> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version, expected) = (text("kind"), text("apiVersion"), resource.api_version());
    if resource.is_custom() {
        if kind.is_empty() {
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{}' ({})",
                resource.kind,
                String::from_utf8_lossy(body),
                excerpt(body)
            )));
        }
        if api_version != expected {
            return Err(wrong_version(&api_version, &expected));
        }
        if kind != resource.kind {
            let cause = field::invalid("kind", &json!(kind), &format!("must be {}", resource.kind));
            return Err(Status::invalid(&resource.group, &kind, object::meta_str(value, "name"), vec![cause]));
        }
        return Ok(());
    }
    if !api_version.is_empty() && api_version != expected {
        return Err(wrong_version(&api_version, &expected));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: converting ({}.{kind}) to (core.{}): unknown conversion",
            resource.version, resource.kind, resource.version, resource.kind
        )));
    }
    if let Some(map) = value.as_object_mut() {
        map.insert("kind".into(), json!(resource.kind));
        map.insert("apiVersion".into(), json!(expected));
    }
    Ok(())
}

fn wrong_version(got: &str, expected: &str) -> Status {
    Status::bad_request(format!(
        "the API version in the data ({got}) does not match the expected API version ({expected})"
    ))
}

/// Gives an object the form of its kind: typed metadata, no unknown fields, defaults. Answers warnings, or why it does not fit.
pub fn conform(
    resource: &Resource,
    value: &mut Value,
    validation: FieldValidation,
    duplicates: &[String],
) -> Result<Vec<String>, String> {
    let mut unknown = meta::normalise(value)?;
    unknown.extend(match &resource.flavour {
        Flavour::Custom(custom) => custom.schema.prune(value),
        flavour => builtin::prune(flavour, value),
    });
    let mut complaints: Vec<String> = duplicates.iter().map(|d| format!("duplicate field {d:?}")).collect();
    complaints.extend(unknown.iter().map(|u| format!("unknown field {u:?}")));
    if validation == FieldValidation::Strict && !complaints.is_empty() {
        return Err(format!("strict decoding error: {}", complaints.join(", ")));
    }
    builtin::decode(resource, value)?;
    match &resource.flavour {
        Flavour::Custom(custom) => custom.schema.default(value),
        Flavour::Definition => definition::default(value),
        _ => {}
    }
    Ok(if validation == FieldValidation::Warn { complaints } else { Vec::new() })
}

/// The checks of name and namespace against the URL.
pub fn check_place(value: &mut Value, namespaced: bool, namespace: &str, name: Option<&str>) -> Result<(), Status> {
    let own = object::meta_str(value, "namespace");
    if !own.is_empty() && own != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if namespaced {
        object::set_meta(value, "namespace", json!(namespace));
    }
    if let Some(name) = name {
        let own = object::meta_str(value, "name");
        if own.is_empty() {
            return Err(Status::bad_request(format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )));
        }
        if own != name {
            return Err(Status::bad_request(format!(
                "the name of the object ({own}) does not match the name on the URL ({name})"
            )));
        }
    }
    Ok(())
}
