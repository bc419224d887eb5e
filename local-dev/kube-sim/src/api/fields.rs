//! Field managers: who owns which field.

use serde_json::Value;

use super::options::WriteOptions;
use crate::fieldpatch::{self, Writer};
use crate::object;
use crate::resource::{Flavour, Resource};
use crate::schema::Schema;

fn with<T>(
    resource: &Resource,
    options: &WriteOptions,
    subresource: Option<&str>,
    run: impl FnOnce(&Schema, &Writer<'_>) -> T,
) -> T {
    let (api_version, time) = (resource.api_version(), object::now());
    let writer = Writer {
        manager: &options.manager,
        api_version: &api_version,
        subresource,
        has_status: resource.status,
        time: &time,
    };
    match &resource.flavour {
        Flavour::Custom(custom) => run(&custom.schema, &writer),
        _ => run(&Schema::anything(), &writer),
    }
}

/// Records a create, replace or plain patch.
pub fn track(
    resource: &Resource,
    old: Option<&Value>,
    mut new: Value,
    options: &WriteOptions,
    subresource: Option<&str>,
) -> Value {
    with(resource, options, subresource, |schema, writer| fieldpatch::track_update(schema, old, &mut new, writer));
    new
}

/// Server-side apply of `wanted`.
pub fn apply(
    resource: &Resource,
    live: Option<&Value>,
    wanted: &Value,
    options: &WriteOptions,
    subresource: Option<&str>,
) -> Result<Value, fieldpatch::Error> {
    with(resource, options, subresource, |schema, writer| {
        fieldpatch::apply(schema, live, wanted, writer, options.force)
    })
}
