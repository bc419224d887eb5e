//! OpenAPI v3.
use super::{CustomResource, Document};
use bytes::Bytes;
use std::collections::BTreeMap;
pub(super) fn groups(_custom: &[CustomResource]) -> BTreeMap<String, Document> {
    BTreeMap::new()
}
pub(super) fn index(_groups: &BTreeMap<String, Document>) -> Bytes {
    Bytes::new()
}
