//! OpenAPI documents, as far as `kubectl` reads them: `explain`, client-side validation, and what fields a patch may have.
//!
//! [`Documents::build`] makes all of them at once from the custom resources that are served; the server rebuilds them when a CRD
//! changes. The schemas of built-in kinds come from the `k8s-openapi` types, those of custom resources from their CRDs.

mod builtins;
mod paths;
mod protobuf;
mod v2;
mod v3;

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest as _, Sha512};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One served version of a custom resource.
#[derive(Debug, Clone)]
pub struct CustomResource {
    /// The API group.
    pub group: String,
    /// The version's name.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The kind of its lists.
    pub list_kind: String,
    /// The plural name, as in paths.
    pub plural: String,
    /// Namespaced rather than cluster-wide.
    pub namespaced: bool,
    /// Whether it has a status subresource.
    pub has_status: bool,
    /// `openAPIV3Schema` of the version.
    pub schema: Value,
    /// JSON paths of its selectable fields, such as `.spec.size`.
    pub selectable_fields: Vec<String>,
}

/// A document and its entity tag.
#[derive(Debug, Clone)]
pub struct Document {
    /// The JSON text.
    pub json: Bytes,
    /// Upper-case hexadecimal SHA-512 of the text: the `hash` of its URL, and in double quotes its `ETag`.
    pub hash: String,
}

/// All OpenAPI documents of a server.
#[derive(Debug, Clone)]
pub struct Documents {
    /// The body of `/openapi/v3`.
    pub v3_index: Bytes,
    /// The body of `/openapi/v2` as JSON.
    pub v2: Document,
    /// The body of `/openapi/v2` for [`V2_PROTOBUF_ACCEPT`]; same entity tag.
    pub v2_protobuf: Bytes,
    groups: BTreeMap<String, Document>,
}

/// What kubectl asks for at `/openapi/v2`.
pub const V2_PROTOBUF_ACCEPT: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The content type of the answer to [`V2_PROTOBUF_ACCEPT`].
pub const V2_PROTOBUF_CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

impl Documents {
    /// Builds all documents.
    pub fn build(custom: &[CustomResource]) -> Documents {
        let groups = v3::groups(custom);
        let (v2, v2_protobuf) = v2::build(custom);
        Documents { v3_index: v3::index(&groups), v2, v2_protobuf, groups }
    }

    /// The document below `/openapi/v3/`, by its path: `api/v1`, `apis/group/version`.
    pub fn v3_group(&self, path: &str) -> Option<&Document> {
        self.groups.get(path)
    }
}

impl Document {
    fn of(value: &Value) -> Document {
        let json = Bytes::from(value.to_string());
        let mut hash = String::with_capacity(128);
        for byte in Sha512::digest(&json) {
            // Writing to a string cannot fail.
            let _ = write!(hash, "{byte:02X}");
        }
        Document { json, hash }
    }
}

/// A built-in kind, as far as documents describe it.
struct BuiltinKind {
    group: String,
    version: String,
    kind: String,
    list_kind: String,
    plural: String,
    namespaced: bool,
    has_status: bool,
}

fn builtin_kinds() -> Vec<BuiltinKind> {
    let describe = |r: crate::resource::Resource| BuiltinKind {
        group: r.group,
        version: r.version,
        kind: r.kind,
        list_kind: r.list_kind,
        plural: r.plural,
        namespaced: r.namespaced,
        has_status: r.status,
    };
    crate::builtin::resources().into_iter().map(describe).collect()
}

#[cfg(test)]
mod tests;
