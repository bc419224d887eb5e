//! Answers: forms of objects and lists, headers, errors.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{ResponseBody, full};
use crate::api::options::Query;
use crate::api::read::List;
use crate::api::{Answer, encoded, served};
use crate::openapi::{V2_PROTOBUF_ACCEPT, V2_PROTOBUF_CONTENT_TYPE};
use crate::resource::{Registry, Resource};
use crate::status::Status;
use crate::table::{self, Include};
use crate::wire::{self, Accept, Form, Order};

const JSON: &str = "application/json";

/// Makes responses in the negotiated form.
#[derive(Debug, Clone, Copy)]
pub struct Responder {
    pub accept: Accept,
    pub pretty: bool,
}

fn response(code: u16, content_type: &str, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(full(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(&mut response, header::CONTENT_TYPE, content_type);
    set(&mut response, header::CACHE_CONTROL, "no-cache, private");
    response
}

fn set(response: &mut Response<ResponseBody>, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn warn(response: &mut Response<ResponseBody>, warnings: &[String]) {
    for warning in warnings.iter().take(64) {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(|c: char| c.is_control(), " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// A line of plain text, as unknown paths get it.
pub fn plain_text(code: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut out = response(code.as_u16(), "text/plain; charset=utf-8", text);
    set(&mut out, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    out
}

/// `includeObject`; only tables have it.
pub fn include(query: &Query, accept: Accept) -> Result<Include, Status> {
    match query.text("includeObject") {
        None | Some("Metadata") => Ok(Include::Metadata),
        Some("None") => Ok(Include::None),
        Some("Object") => Ok(Include::Object),
        Some(_) if !matches!(accept.form, Form::Table { .. }) => Ok(Include::Metadata),
        Some(other) => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
        ))),
    }
}

impl Responder {
    /// A failure.
    pub fn status(self, status: &Status) -> Response<ResponseBody> {
        let json = status.to_json();
        let body = if self.accept.pretty_errors || self.pretty {
            wire::indent(json.as_bytes())
        } else {
            format!("{json}\n").into_bytes()
        };
        let mut out = response(status.code, JSON, body);
        if let Some(seconds) = status.retry_after {
            set(&mut out, header::RETRY_AFTER, &seconds.to_string());
        }
        warn(&mut out, &status.warnings);
        out
    }

    /// A refusal for want of rights.
    pub fn forbidden(self, status: &Status) -> Response<ResponseBody> {
        let mut out = self.status(status);
        set(&mut out, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        out
    }

    /// JSON text that is ready.
    pub fn json(self, code: u16, bytes: impl Into<Bytes>, warnings: &[String]) -> Response<ResponseBody> {
        let bytes: Bytes = bytes.into();
        let mut out = if self.accept.yaml {
            match serde_json::from_slice::<Value>(&bytes).ok().and_then(|v| wire::yaml(&v).ok()) {
                Some(yaml) => response(code, "application/yaml", yaml),
                None => response(code, JSON, bytes),
            }
        } else if self.pretty {
            response(code, JSON, wire::indent(&bytes))
        } else {
            response(code, JSON, bytes)
        };
        warn(&mut out, warnings);
        out
    }

    /// A value in struct order.
    pub fn value(self, code: u16, value: &Value, warnings: &[String]) -> Response<ResponseBody> {
        let mut bytes = wire::encode(value, Order::Struct);
        bytes.push(b'\n');
        self.json(code, bytes, warnings)
    }

    /// One object.
    pub fn object(
        self,
        resource: &Resource,
        answer: &Answer,
        include: Include,
    ) -> Result<Response<ResponseBody>, Status> {
        let value = match self.accept.form {
            Form::Table { beta } => {
                let version = crate::object::meta_str(&answer.value, "resourceVersion");
                let metadata = if version.is_empty() {
                    Map::new()
                } else {
                    Map::from_iter([("resourceVersion".to_owned(), json!(version))])
                };
                table::table(
                    beta,
                    metadata,
                    table::columns(resource),
                    vec![table::row(resource, &answer.value, include)],
                )
            }
            Form::PartialObject => table::partial(&answer.value),
            Form::PartialList => return Err(Status::internal("content is not a list")),
            Form::Plain | Form::Discovery { .. } => {
                let mut bytes = answer.bytes(resource).to_vec();
                bytes.push(b'\n');
                return Ok(self.json(answer.code, bytes, &answer.warnings));
            }
        };
        Ok(self.value(answer.code, &value, &answer.warnings))
    }

    /// A list.
    pub fn list(self, resource: &Resource, list: &List, include: Include) -> Result<Response<ResponseBody>, Status> {
        let mut metadata = Map::from_iter([("resourceVersion".to_owned(), json!(list.revision.to_string()))]);
        if let Some(next) = &list.next {
            metadata.insert("continue".into(), json!(next));
        }
        if let Some(remaining) = list.remaining {
            metadata.insert("remainingItemCount".into(), json!(remaining));
        }
        let values = || list.items.iter().map(|o| served(resource, o.value()));
        let value = match self.accept.form {
            Form::Table { beta } => {
                let rows = values().map(|v| table::row(resource, &v, include)).collect();
                table::table(beta, metadata, table::columns(resource), rows)
            }
            Form::PartialList => {
                let items: Vec<Value> = values().map(|v| table::partial(&v)).collect();
                json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items})
            }
            Form::PartialObject => {
                return Err(Status::not_acceptable_because(
                    "you requested PartialObjectMetadata, but the requested object is a list (*unstructured.UnstructuredList)",
                ));
            }
            Form::Plain | Form::Discovery { .. } => {
                return Ok(self.json(200, whole_list(resource, list, metadata), &[]));
            }
        };
        Ok(self.value(200, &value, &[]))
    }

    /// A stream of events.
    pub fn stream(body: ResponseBody) -> Response<ResponseBody> {
        let mut out = response(200, JSON, Bytes::new());
        *out.body_mut() = body;
        out
    }
}

/// A list put together from its objects' texts.
fn whole_list(resource: &Resource, list: &List, mut metadata: Map<String, Value>) -> Vec<u8> {
    let custom = resource.is_custom();
    let texts: Vec<Bytes> = list
        .items
        .iter()
        .map(|object| {
            if custom {
                return encoded(resource, object);
            }
            // Items of built-in lists say neither kind nor version.
            let mut value = served(resource, object.value());
            if let Some(map) = value.as_object_mut() {
                map.remove("kind");
                map.remove("apiVersion");
            }
            wire::encode_bytes(&value, Order::Struct)
        })
        .collect();
    let mut out = Vec::with_capacity(texts.iter().map(|t| t.len() + 1).sum::<usize>() + 256);
    let items = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"\"items\":[");
        for (i, text) in texts.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(text);
        }
        out.push(b']');
    };
    let (kind, version) = (json!(resource.list_kind).to_string(), json!(resource.api_version()).to_string());
    if custom {
        metadata.entry("continue").or_insert_with(|| json!(""));
        out.extend_from_slice(format!("{{\"apiVersion\":{version},").as_bytes());
        items(&mut out);
        out.extend_from_slice(format!(",\"kind\":{kind},\"metadata\":{}}}\n", Value::Object(metadata)).as_bytes());
    } else {
        out.extend_from_slice(
            format!("{{\"kind\":{kind},\"apiVersion\":{version},\"metadata\":{},", Value::Object(metadata)).as_bytes(),
        );
        items(&mut out);
        out.extend_from_slice(b"}\n");
    }
    out
}

/// Aggregated discovery, with its entity tag.
pub fn discovery(value: &Value, beta: bool, if_none_match: Option<&str>) -> Response<ResponseBody> {
    let bytes = wire::encode(value, Order::Struct);
    let hash = Sha256::digest(&bytes).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02X}");
        hex
    });
    let content_type = format!(
        "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList",
        if beta { "v2beta1" } else { "v2" }
    );
    tagged(bytes.into(), &content_type, &hash, if_none_match)
}

fn tagged(bytes: Bytes, content_type: &str, hash: &str, if_none_match: Option<&str>) -> Response<ResponseBody> {
    let tag = format!("\"{hash}\"");
    let same = if_none_match == Some(tag.as_str());
    let mut out = response(if same { 304 } else { 200 }, content_type, if same { Bytes::new() } else { bytes });
    set(&mut out, header::ETAG, &tag);
    set(&mut out, header::VARY, "Accept");
    set(&mut out, header::CACHE_CONTROL, "public");
    out
}

/// `/openapi/…`.
pub fn openapi(
    registry: &Registry,
    parts: &[&str],
    accept: Option<&str>,
    hash: Option<&str>,
    if_none_match: Option<&str>,
) -> Response<ResponseBody> {
    let documents = registry.documents();
    match parts {
        ["v3"] => response(200, "text/plain; charset=utf-8", documents.v3_index.clone()),
        ["v2"] => {
            let protobuf = accept.is_some_and(|a| a.split(',').any(|t| t.trim() == V2_PROTOBUF_ACCEPT));
            if protobuf {
                tagged(documents.v2_protobuf.clone(), V2_PROTOBUF_CONTENT_TYPE, &documents.v2.hash, if_none_match)
            } else {
                tagged(documents.v2.json.clone(), JSON, &documents.v2.hash, if_none_match)
            }
        }
        ["v3", rest @ ..] => {
            let path = rest.join("/");
            let Some(document) = documents.v3_group(&path) else {
                return response(404, "text/plain; charset=utf-8", Bytes::new());
            };
            if let Some(wrong) = hash.filter(|h| *h != document.hash) {
                let _ = wrong;
                let mut out = response(301, JSON, Bytes::new());
                set(&mut out, header::LOCATION, &format!("/openapi/v3/{path}?hash={}", document.hash));
                return out;
            }
            let mut out = tagged(document.json.clone(), JSON, &document.hash, if_none_match);
            set(
                &mut out,
                header::CACHE_CONTROL,
                if hash.is_some() { "public, immutable" } else { "no-cache, private" },
            );
            out
        }
        _ => plain_text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}
