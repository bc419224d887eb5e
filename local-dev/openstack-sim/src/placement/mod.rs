//! Placement 1.0 to 1.39, as far as one asks it: providers, what they have, what of it is used, and their traits.
//!
//! Invariant: nothing is kept here. A provider is a compute host; what it has comes from the configuration, and what of it
//! is used from the servers that are on it. So Placement and Nova never disagree.
//!
//! Caveats: read only; no aggregates, nested providers or allocation candidates. Of the standard classes and traits only
//! some are known. The wording of errors is that of the real service, which quotes what it was asked.

mod error;
mod stock;
mod version;

use serde_json::{Value, json};

pub(crate) use self::{error::Error, stock::fits};
use self::{error::Result, stock::Stock, version::Version};
use crate::{
    identity::{Caller, authenticate},
    service::unauthorized,
    wire::{Reply, Request},
    world::World,
};

/// The path below `/placement`.
pub(crate) fn handle(world: &mut World, rest: &[&str], request: &Request) -> Reply {
    if rest.is_empty() && request.is_read() {
        return Reply::json(200, json!({"versions": [version::document()]}));
    }
    let Some(caller) = authenticate(world, request) else { return unauthorized(&world.url) };
    let version = match version::requested(request) {
        Ok(version) => version,
        Err(error) => return error.reply(&request.id),
    };
    let reply = route(world, &caller, version, rest, request).unwrap_or_else(|error| error.reply(&request.id));
    version::stamp(reply, version)
}

fn route(world: &World, caller: &Caller, version: Version, path: &[&str], request: &Request) -> Result {
    if !request.is_read() {
        return Err(match path {
            ["resource_providers", ..] if !caller.is_admin() => Error::policy("placement:resource_providers:create"),
            ["resource_providers" | "resource_classes" | "traits", ..] => Error::method(request.method.as_str()),
            _ => Error::not_found(""),
        });
    }
    match path {
        ["resource_providers"] => list(world, caller, version, request),
        ["resource_providers", id, rest @ ..] => {
            must_serve(caller, "placement:resource_providers:show")?;
            let host = world.config.hosts.iter().find(|host| stock::provider(host) == *id);
            let host = host.ok_or_else(|| Error::not_found(&format!("No resource provider with uuid {id} found")))?;
            let stock = Stock::of(world, host);
            match rest {
                [] => Ok(Reply::json(200, view(host, version))),
                ["inventories"] => Ok(Reply::json(200, stock.inventories())),
                ["usages"] => Ok(Reply::json(200, stock.usages())),
                ["traits"] if version >= Version(6) => Ok(Reply::json(200, stock.traits())),
                _ => Err(Error::not_found("")),
            }
        }
        ["resource_classes"] if version >= Version(2) => {
            must_serve(caller, "placement:resource_classes:list")?;
            let link = |name: &str| json!([{"rel": "self", "href": format!("/placement/resource_classes/{name}")}]);
            let classes = stock::classes(world).into_iter().map(|name| json!({"name": name, "links": link(&name)}));
            Ok(Reply::json(200, json!({"resource_classes": classes.collect::<Vec<_>>()})))
        }
        ["traits"] if version >= Version(6) => {
            must_serve(caller, "placement:traits:list")?;
            Ok(Reply::json(200, json!({"traits": stock::traits(world)})))
        }
        _ => Err(Error::not_found("")),
    }
}

fn must_serve(caller: &Caller, rule: &str) -> Result<()> {
    let allowed = caller.project().is_some() && (caller.is_admin() || caller.has("service"));
    if allowed { Ok(()) } else { Err(Error::policy(rule)) }
}

/// What providers are asked for.
#[derive(Default)]
struct Wanted {
    name: Option<String>,
    uuid: Option<String>,
    resources: Vec<(String, u64)>,
    /// Traits, and whether they must be there.
    traits: Vec<(String, bool)>,
}

fn list(world: &World, caller: &Caller, version: Version, request: &Request) -> Result {
    let project = caller.project().unwrap_or_default();
    // With the product's policy the region's user lists providers as well.
    if !caller.manages_project(world, project) {
        must_serve(caller, "placement:resource_providers:list")?;
    }
    let wanted = read(world, version, request)?;
    let fits = |host: &str| {
        let stock = Stock::of(world, host);
        wanted.name.as_ref().is_none_or(|name| name == host)
            && wanted.uuid.as_ref().is_none_or(|uuid| *uuid == stock::provider(host))
            && wanted.resources.iter().all(|(class, amount)| stock.has_room(class, *amount))
            && wanted.traits.iter().all(|(name, present)| stock.has_trait(name) == *present)
    };
    let found = world.config.hosts.iter().filter(|host| fits(host)).map(|host| view(host, version));
    Ok(Reply::json(200, json!({"resource_providers": found.collect::<Vec<_>>()})))
}

/// Reads the query as the service does: each filter with its form, and none that it does not know.
fn read(world: &World, version: Version, request: &Request) -> Result<Wanted> {
    let mut wanted = Wanted::default();
    for (key, value) in &request.query {
        match key.as_str() {
            "name" => wanted.name = Some(value.clone()),
            "uuid" if uuid::Uuid::try_parse(value).is_ok() => wanted.uuid = Some(value.to_lowercase()),
            "uuid" => return Err(Error::query(&format!("'{value}' is not a 'uuid'"))),
            // A repeated parameter counts with its last value.
            "resources" if version >= Version(4) => wanted.resources = resources(world, value)?,
            "required" if version >= Version(18) => wanted.traits = required(world, version, value)?,
            _ => {
                let problem = format!("Additional properties are not allowed ('{key}' was unexpected)");
                return Err(Error::query(&problem));
            }
        }
    }
    Ok(wanted)
}

fn resources(world: &World, text: &str) -> Result<Vec<(String, u64)>> {
    let form = "Expected resources query string parameter in form: ?resources=VCPU:2,MEMORY_MB:1024.";
    if text.is_empty() {
        return Err(Error::bad(&format!("Badly formed resources parameter. {form} Got: empty string.")));
    }
    let known = stock::classes(world);
    let item = |item: &str| {
        let Some((class, amount)) = item.split_once(':') else {
            return Err(Error::bad(&format!("Badly formed resources parameter. {form} Got: {text}.")));
        };
        let Ok(number) = amount.parse::<u64>() else {
            let problem = format!("Requested resource {class} expected positive integer amount. Got: {amount}.");
            return Err(Error::bad(&problem));
        };
        if number == 0 {
            return Err(Error::bad(&format!("Requested resource {class} requires amount >= 1. Got: 0.")));
        }
        if !known.contains(class) {
            let problem = format!("Invalid resource class in resources parameter: No such resource class {class}.");
            return Err(Error::bad(&problem));
        }
        Ok((class.to_owned(), number))
    };
    text.split(',').map(item).collect()
}

fn required(world: &World, version: Version, text: &str) -> Result<Vec<(String, bool)>> {
    let forbids = version >= Version(22);
    let form = if forbids { "HW_CPU_X86_VMX,!CUSTOM_MAGIC" } else { "HW_CPU_X86_VMX,CUSTOM_MAGIC" };
    let form = format!("Expected 'required' parameter value of the form: {form}.");
    let mut traits = Vec::new();
    for item in text.split(',').map(str::trim) {
        let (name, present) = item.strip_prefix('!').map_or((item, true), |name| (name, false));
        if !present && !forbids {
            return Err(Error::query(&format!("{form} Got: {text}")));
        }
        if name.is_empty() {
            return Err(Error::query(&format!("{form} Got an empty trait in: {text}")));
        }
        traits.push((name.to_owned(), present));
    }
    let known = stock::traits(world);
    let mut unknown: Vec<&str> = traits.iter().map(|(name, _)| name.as_str()).filter(|n| !known.contains(*n)).collect();
    if unknown.is_empty() {
        return Ok(traits);
    }
    unknown.sort_unstable();
    let problem = format!("Invalid trait(s) in \"required\" parameter: No such trait(s): {}.", unknown.join(", "));
    Err(Error::bad(&problem))
}

fn view(host: &str, version: Version) -> Value {
    let id = stock::provider(host);
    let path = format!("/placement/resource_providers/{id}");
    let link = |rel: &str| {
        let href = if rel == "self" { path.clone() } else { format!("{path}/{rel}") };
        json!({"rel": rel, "href": href})
    };
    let rels = [("self", 0), ("inventories", 0), ("usages", 0), ("aggregates", 1), ("traits", 6), ("allocations", 11)];
    let links: Vec<Value> = rels.iter().filter(|(_, since)| version >= Version(*since)).map(|(r, _)| link(r)).collect();
    let mut view = json!({"uuid": id, "name": host, "generation": 1, "links": links});
    if version >= Version(14) {
        view["parent_provider_uuid"] = Value::Null;
        view["root_provider_uuid"] = json!(id);
    }
    view
}
