//! PATCH in its four forms.

use serde_json::{Value, json};

use super::options::WriteOptions;
use super::write::{self, Body, How};
use super::{Answer, Target, fields, input};
use crate::cluster::Cluster;
use crate::decode;
use crate::fieldpatch;
use crate::object;
use crate::resource::Resource;
use crate::status::{Status, field};

const CUSTOM_TYPES: &str = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// The form of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl Form {
    /// By content type, as far as the resource knows it.
    pub fn of(resource: &Resource, content_type: Option<&str>) -> Result<Form, Status> {
        match decode::media_type(content_type) {
            "application/json-patch+json" => Ok(Form::Json),
            "application/merge-patch+json" => Ok(Form::Merge),
            "application/apply-patch+yaml" => Ok(Form::Apply),
            "application/strategic-merge-patch+json" if !resource.is_custom() => Ok(Form::Strategic),
            _ if resource.is_custom() => Err(Status::unsupported_media_type(CUSTOM_TYPES)),
            _ => {
                let mut status = Status::unsupported_media_type("");
                status.message = "415: Unsupported Media Type".into();
                status.details = Some(Box::default());
                Err(status)
            }
        }
    }
}

/// A failed patch as a status.
fn failed(error: &fieldpatch::Error) -> Status {
    match error.code() {
        409 => Status::apply_conflict(error.to_string(), error.causes()),
        413 => Status::too_large(error.to_string()),
        422 => Status::unprocessable_patch(),
        500 => Status::internal(error.to_string()),
        _ => Status::bad_request(error.to_string()),
    }
}

/// PATCH.
pub fn patch(
    cluster: &Cluster,
    target: &Target,
    form: Form,
    body: Body<'_>,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    if form == Form::Apply {
        return apply(cluster, target, body, options);
    }
    let mut warnings = Vec::new();
    let answer = write::change(cluster, target, options, How::Patch, |old| {
        let patched = match form {
            Form::Json => fieldpatch::json_patch(old, body.bytes),
            Form::Strategic => fieldpatch::strategic_merge(&target.resource.kind, old, body.bytes),
            Form::Merge | Form::Apply => fieldpatch::merge_patch(old, body.bytes),
        };
        let (value, found) = finish(target, patched.map_err(|e| failed(&e))?, options)?;
        warnings = found;
        Ok(value)
    });
    write::warned(answer, warnings)
}

/// Checks a patched object and gives it the form of its kind.
fn finish(target: &Target, mut value: Value, options: &WriteOptions) -> Result<(Value, Vec<String>), Status> {
    let resource = &target.resource;
    check_type(resource, &value)?;
    let shown = String::from_utf8_lossy(&crate::wire::encode(&value, resource.order)).into_owned();
    let warnings = input::conform(resource, &mut value, options.validation, &[]).map_err(|why| {
        let cause = field::invalid("patch", &json!(shown), &why);
        Status::invalid("", "", "", vec![cause])
    })?;
    input::check_place(&mut value, resource.namespaced, &target.namespace, Some(&target.name))?;
    Ok((value, warnings))
}

fn check_type(resource: &Resource, value: &Value) -> Result<(), Status> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (kind, expected) = (text("kind"), resource.api_version());
    let name = object::meta_str(value, "name");
    if kind != resource.kind {
        let cause = field::invalid("kind", &json!(kind), &format!("must be {}", resource.kind));
        return Err(Status::invalid(&resource.group, kind, name, vec![cause]));
    }
    if text("apiVersion") != expected {
        let cause = field::invalid("apiVersion", &json!(text("apiVersion")), &format!("must be {expected}"));
        return Err(Status::invalid(&resource.group, kind, name, vec![cause]));
    }
    Ok(())
}

/// Server-side apply: creates the object if there is none.
fn apply(cluster: &Cluster, target: &Target, body: Body<'_>, options: &WriteOptions) -> Result<Answer, Status> {
    let resource = &target.resource;
    // JSON first: it is what clients send, and the YAML reader refuses duplicate keys, which are allowed here.
    let mut wanted =
        decode::json(body.bytes).map(|d| d.value).or_else(|_| decode::yaml(body.bytes)).map_err(|why| {
            Status::bad_request(format!("error decoding YAML: error converting YAML to JSON: yaml: {why}"))
        })?;
    check_applied(target, &mut wanted)?;
    // The object may come to be, or cease to be, between the look and the write: then the other way is tried.
    for _ in 0..8 {
        if cluster.store.get(&resource.table, &target.key()).is_none() {
            if target.subresource().is_some() {
                return Err(Status::not_found(&resource.group, &resource.plural, &target.name));
            }
            match apply_new(cluster, target, &wanted, options) {
                Err(status)
                    if status.reason == "AlreadyExists" && !status.message.starts_with("object is being deleted") =>
                {
                    continue;
                }
                other => return other,
            }
        }
        let mut warnings = Vec::new();
        let answer = write::change(cluster, target, options, How::Apply, |old| {
            let applied =
                fields::apply(resource, Some(old), &wanted, options, target.subresource()).map_err(|e| failed(&e))?;
            let (value, found) = finish(target, applied, options)?;
            warnings = found;
            Ok(value)
        });
        match answer {
            Err(status) if status.code == 404 => {}
            other => return other.map(|a| a.warn(warnings)),
        }
    }
    Err(Status::modified(&resource.group, &resource.plural, &target.name))
}

fn check_applied(target: &Target, wanted: &mut Value) -> Result<(), Status> {
    let resource = &target.resource;
    if !wanted.is_object() {
        return Err(Status::bad_request("error decoding YAML: the body is not an object"));
    }
    let text = |key: &str| wanted.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version != resource.api_version() || kind != resource.kind {
        return Err(Status::bad_request(format!("invalid object type: {api_version}, Kind={kind}")));
    }
    if object::meta(wanted)
        .and_then(|m| m.get("managedFields"))
        .is_some_and(|m| m.as_array().is_none_or(|a| !a.is_empty()))
    {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    if wanted.get("metadata").is_none_or(Value::is_null) {
        wanted["metadata"] = json!({});
    }
    if object::meta_str(wanted, "name").is_empty() {
        object::set_meta(wanted, "name", json!(target.name));
    }
    // The namespace stays as it was sent: errors show it so.
    input::check_place(&mut wanted.clone(), resource.namespaced, &target.namespace, Some(&target.name))
}

fn apply_new(cluster: &Cluster, target: &Target, wanted: &Value, options: &WriteOptions) -> Result<Answer, Status> {
    let resource = &target.resource;
    let uid = object::meta_str(wanted, "uid");
    if !uid.is_empty() {
        let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
        return Err(Status::conflict(&resource.group, &resource.plural, &target.name, &why));
    }
    write::admit(cluster, resource, &target.namespace, &target.name)?;
    let applied = fields::apply(resource, None, wanted, options, None).map_err(|e| failed(&e))?;
    let (value, warnings) = finish(target, applied, options)?;
    Ok(write::insert(cluster, resource, value, options, Some(()))?.warn(warnings))
}
