//! Flavors, which only the configuration makes.

use serde_json::{Value, json};

use super::{Context, Error, Flavor, Result, Version, servers::page, view};
use crate::{wire::Reply, world::World};

fn brief(world: &World, flavor: &Flavor, version: Version) -> Value {
    let mut view = json!({"id": flavor.id, "name": flavor.name, "links": view::links(world, "flavors", &flavor.id)});
    if version >= Version(55) {
        view["description"] = Value::Null;
    }
    view
}

pub(super) fn route(world: &World, context: &Context, method: &str, rest: &[&str]) -> Result<Option<Reply>> {
    let store = &world.data.compute.flavors;
    let find = |id: &str| store.get(id).ok_or_else(|| Error::not_found("Flavor", id));
    let number = |name: &str| context.request.param(name).and_then(|value| value.parse::<u64>().ok());
    Ok(Some(match (method, rest) {
        ("GET", [] | ["detail"]) => {
            let rows = store
                .iter()
                .filter(|flavor| number("minRam").is_none_or(|least| flavor.ram >= least))
                .filter(|flavor| number("minDisk").is_none_or(|least| flavor.disk >= least))
                .map(|flavor| {
                    let view = if rest.is_empty() {
                        brief(world, flavor, context.version)
                    } else {
                        view::flavor(world, flavor, context.version)
                    };
                    (flavor.id.as_str(), view)
                });
            page(world, context, "flavors", rows.collect())?
        }
        ("GET", [id]) => Reply::json(200, json!({"flavor": view::flavor(world, find(id)?, context.version)})),
        ("GET", [id, "os-extra_specs"]) => Reply::json(200, json!({"extra_specs": find(id)?.extra_specs})),
        ("GET", [id, "os-extra_specs", key]) => match find(id)?.extra_specs.get(*key) {
            Some(value) => Reply::json(200, json!({*key: value})),
            None => {
                return Err(Error::new(404, format!("Flavor {id} has no extra specs with key {key}.")));
            }
        },
        _ => return Ok(None),
    }))
}
