//! `POST /servers`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    Context, Error, Flavor, Nic, Result, Server, Version, VmState, is_uuid, keypairs,
    lifecycle::{Kind, Outcome, begin},
    new_id, quotas, view,
};
use crate::{image, network, wire::Reply, world::World};

/// What the body may hold, and since when.
const ALLOWED: [(&str, u32); 26] = [
    ("name", 1),
    ("imageRef", 1),
    ("flavorRef", 1),
    ("networks", 1),
    ("metadata", 1),
    ("key_name", 1),
    ("user_data", 1),
    ("security_groups", 1),
    ("config_drive", 1),
    ("availability_zone", 1),
    ("min_count", 1),
    ("max_count", 1),
    ("adminPass", 1),
    ("OS-DCF:diskConfig", 1),
    ("accessIPv4", 1),
    ("accessIPv6", 1),
    ("block_device_mapping", 1),
    ("block_device_mapping_v2", 1),
    ("return_reservation_id", 1),
    ("description", 19),
    ("tags", 52),
    ("trusted_image_certificates", 63),
    ("host", 74),
    ("hypervisor_hostname", 74),
    ("hostname", 90),
    ("personality", 1),
];

pub(super) fn server_name(value: &Value) -> Result<String> {
    match value.as_str() {
        Some(name) if name.trim().is_empty() => Err(Error::invalid("name", value, "'' is too short")),
        Some(name) if name.chars().count() > 255 => Err(Error::invalid("name", value, "is too long")),
        Some(name) if name.trim() != name => {
            Err(Error::invalid("name", value, "An invalid 'name' value was provided: leading or trailing spaces"))
        }
        Some(name) => Ok(name.to_owned()),
        None => Err(Error::invalid("name", value, &format!("{value} is not of type 'string'"))),
    }
}

pub(super) fn metadata(map: &Map<String, Value>) -> Result<BTreeMap<String, String>> {
    let mut metadata = BTreeMap::new();
    for (key, value) in map {
        let good_key = (1..=255).contains(&key.chars().count())
            && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.' | ' '));
        if !good_key {
            let problem = format!("'{key}' does not match any of the regexes: '^[a-zA-Z0-9-_:. ]{{1,255}}$'");
            return Err(Error::invalid("metadata", &json!(map), &problem));
        }
        match value.as_str() {
            Some(text) if text.chars().count() <= 255 => metadata.insert(key.clone(), text.to_owned()),
            Some(_) => return Err(Error::invalid(key, value, "is too long")),
            None => return Err(Error::invalid(key, value, &format!("{value} is not of type 'string'"))),
        };
    }
    Ok(metadata)
}

/// The part of Nova's answer on whether an image fits a flavor.
pub(super) fn check_fit(image: &image::Image, flavor: &Flavor) -> Result<()> {
    if image.min_ram > flavor.ram {
        return Err(Error::bad("Flavor's memory is too small for requested image."));
    }
    if image.min_disk > flavor.disk {
        return Err(Error::bad("Flavor's disk is too small for requested image."));
    }
    Ok(())
}

pub(super) fn create(world: &mut World, context: &Context) -> Result {
    let version = context.version;
    let whole = context.body()?;
    let body = context.object("server")?;
    context.must_be_member("os_compute_api:servers:create")?;
    for required in ["flavorRef", "name"].into_iter().chain((version >= Version(37)).then_some("networks")) {
        if !body.contains_key(required) {
            return Err(Error::invalid(
                "server",
                &json!(shape(&body)),
                &format!("'{required}' is a required property"),
            ));
        }
    }
    if let Some(unknown) = body.keys().find(|key| {
        !ALLOWED.iter().any(|(name, since)| name == key && version >= Version(*since))
            || (*key == "personality" && version >= Version(57))
    }) {
        let problem = format!("Additional properties are not allowed ('{unknown}' was unexpected)");
        return Err(Error::invalid("server", &json!(shape(&body)), &problem));
    }
    let text = |key: &str| match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(Error::invalid(key, other, &format!("{other} is not of type 'string'"))),
    };
    let name = server_name(&body["name"])?;
    check_user_data(text("user_data")?.as_deref())?;
    if body.contains_key("block_device_mapping") || body.contains_key("block_device_mapping_v2") {
        return Err(Error::bad("This simulator has no volumes yet: boot from an image."));
    }
    if ["min_count", "max_count"].iter().any(|key| body.get(*key).is_some_and(|count| count != 1 && count != "1")) {
        return Err(Error::bad("This simulator creates one server per request."));
    }
    let flavor_ref = body["flavorRef"].as_str().map(|text| text.rsplit('/').next().unwrap_or(text).to_owned());
    let flavor_ref = flavor_ref.unwrap_or_else(|| body["flavorRef"].to_string());
    let flavor = world.data.compute.flavors.get(&flavor_ref).cloned();
    let flavor = flavor.ok_or_else(|| Error::bad(format!("Flavor {flavor_ref} could not be found.")))?;
    let image_ref = text("imageRef")?.unwrap_or_default();
    if image_ref.is_empty() {
        return Err(Error::bad("Invalid imageRef provided."));
    }
    let image = find_image(world, context, &image_ref).ok_or_else(|| Error::bad("Can not find requested image"))?;
    if image.status != "active" {
        return Err(Error::bad(format!("Image {image_ref} is not active.")));
    }
    check_fit(image, &flavor)?;
    let key_name = text("key_name")?;
    if key_name
        .as_ref()
        .is_some_and(|name| !world.data.compute.keypairs.contains(&keypairs::key(&context.caller.user, name)))
    {
        return Err(Error::bad("Invalid key_name provided."));
    }
    let pinned = text("hypervisor_hostname")?.or(text("host")?);
    if let Some(host) = &pinned {
        if !context.caller.manages_project(world, context.project()) {
            return Err(Error::policy("compute:servers:create:requested_destination"));
        }
        if !world.config.hosts.contains(host) {
            return Err(Error::bad(format!("Compute host {host} could not be found.")));
        }
    }
    let zone = text("availability_zone")?;
    if zone.as_deref().is_some_and(|zone| zone != "nova" && !zone.starts_with("nova:")) {
        return Err(Error::bad("The requested availability zone is not available"));
    }
    let tags = tags(body.get("tags"))?;
    let metadata = metadata(body.get("metadata").and_then(Value::as_object).unwrap_or(&Map::new()))?;
    quotas::check_metadata(world, context.project(), metadata.len())?;
    let group = find_group(world, context, &whole)?;
    let groups = security_groups(world, context, &body)?;
    let mut outcome = outcome(world, &metadata, false);
    if needs_external(world, context, body.get("networks")) {
        // Nova takes the request and finds out on the host.
        outcome = Outcome::Spawn;
    }
    quotas::check_server(world, context.project(), &flavor)?;
    let id = new_id();
    let nics = plug(world, context, body.get("networks"), &groups)?;
    let now = world.clock.now();
    let hostname = text("hostname")?.unwrap_or_else(|| hostname(&name));
    let server = Server {
        id: id.clone(),
        hostname,
        description: text("description")?.or_else(|| (version < Version(19)).then(|| name.clone())),
        name,
        project_id: context.project().to_owned(),
        user_id: context.caller.user.clone(),
        flavor,
        image: image_ref,
        metadata,
        tags,
        key_name,
        config_drive: body.get("config_drive").is_some_and(|value| value == true || value == "true" || value == "True"),
        availability_zone: zone,
        security_groups: groups,
        nics,
        group,
        pinned,
        host: None,
        created: now,
        updated: now,
        launched: None,
        vm_state: VmState::Building,
        fault: None,
        operation: None,
    };
    let shown = if server.security_groups.is_empty() {
        vec!["default".to_owned()]
    } else {
        names(world, &server.security_groups)
    };
    world.data.compute.servers.insert(server);
    begin(world, &id, Kind::Build, outcome);
    let password = body
        .get("adminPass")
        .and_then(Value::as_str)
        .map_or_else(|| uuid::Uuid::new_v4().simple().to_string().chars().take(12).collect(), str::to_owned);
    let answer = json!({"server": {
        "id": id,
        "links": view::links(world, "servers", &id),
        "OS-DCF:diskConfig": "MANUAL",
        "security_groups": shown.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        "adminPass": password,
    }});
    let location = format!("{}/compute/v2.1/servers/{id}", world.url);
    Ok(Reply::json(202, answer).with("Location", location))
}

fn tags(value: Option<&Value>) -> Result<Vec<String>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let wrong = || Error::invalid("tags", value, "is not a list of tags");
    let tags: Vec<String> = serde_json::from_value(value.clone()).map_err(|_| wrong())?;
    let good = |tag: &String| (1..=60).contains(&tag.chars().count()) && !tag.contains([',', '/']);
    if let Some(bad) = tags.iter().find(|tag| !good(tag)) {
        return Err(Error::invalid("tags", &json!(bad), &format!("'{bad}' does not match '^[^,/]*$'")));
    }
    if tags.len() > 50 { Err(wrong()) } else { Ok(tags) }
}

/// A body by its keys: its values may be secret.
fn shape(body: &Map<String, Value>) -> Vec<&String> {
    body.keys().collect()
}

fn names(world: &World, groups: &[String]) -> Vec<String> {
    groups.iter().filter_map(|id| world.data.network.groups.get(id)).map(|group| group.base.name.clone()).collect()
}

fn check_user_data(user_data: Option<&str>) -> Result<()> {
    let Some(text) = user_data else { return Ok(()) };
    if text.len() > 65_535 {
        return Err(Error::bad("Invalid input for field/attribute user_data. The value is too long"));
    }
    // What is no base64 is skipped when Nova decodes it, so any text passes.
    Ok(())
}

/// An image that the caller's project can see.
pub(super) fn find_image<'a>(world: &'a World, context: &Context, id: &str) -> Option<&'a image::Image> {
    world.data.image.images.get(id).filter(|image| image.is_visible_to(context.caller))
}

fn find_group(world: &World, context: &Context, whole: &Value) -> Result<Option<String>> {
    let hints = whole.get("os:scheduler_hints").or_else(|| whole.get("OS-SCH-HNT:scheduler_hints"));
    let Some(group) = hints.and_then(|hints| hints.get("group")).and_then(Value::as_str) else { return Ok(None) };
    if !is_uuid(group) {
        return Err(Error::invalid("group", &json!(group), &format!("'{group}' is not a 'uuid'")));
    }
    let known = world.data.compute.groups.get(group).is_some_and(|row| context.owns(&row.project_id));
    if !known {
        return Err(Error::bad(format!("Instance group {group} could not be found.")));
    }
    let members = world.data.compute.servers.count(&format!("group:{group}"));
    if quotas::is_over(world, context.project(), "server_group_members", members, 1) {
        return Err(Error::new(403, "Quota exceeded, too many servers in group"));
    }
    Ok(Some(group.to_owned()))
}

/// The ids of the security groups, which are given by name or id and apply to ports that Nova makes.
fn security_groups(world: &World, context: &Context, body: &Map<String, Value>) -> Result<Vec<String>> {
    let asked = body.get("security_groups").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut ids = Vec::new();
    for name in asked.iter().filter_map(|group| group["name"].as_str()) {
        let mut mine = world.data.network.groups.linked(&format!("project:{}", context.project()));
        match mine.find(|group| group.base.name == name || group.base.id == name) {
            Some(group) => ids.push(group.base.id.clone()),
            None if name == "default" => {}
            None => {
                let message = format!("Security group {name} not found for project {}.", context.project());
                return Err(Error::bad(message));
            }
        }
    }
    Ok(ids)
}

/// The ports of a new server: those named, and new ones on networks named. A port is spoken for at once.
fn plug(world: &mut World, context: &Context, networks: Option<&Value>, groups: &[String]) -> Result<Vec<Nic>> {
    let project = context.project().to_owned();
    let fail = |error: network::Error| match error.status {
        409 if error.kind == "OverQuota" => Error::new(403, "Maximum number of ports exceeded"),
        _ => Error::bad(error.message),
    };
    let asked: Vec<Value> = match networks {
        Some(Value::String(text)) if text == "none" => return Ok(Vec::new()),
        Some(Value::Array(list)) => list.clone(),
        None | Some(Value::String(_)) if networks.is_none_or(|networks| networks == "auto") => {
            let mine = world.data.network.networks.linked(&format!("project:{project}"));
            let mine: Vec<Value> = mine.map(|network| json!({"uuid": network.base.id})).collect();
            if mine.len() > 1 {
                return Err(Error::conflict("Multiple possible networks found, use a Network ID to be more specific."));
            }
            mine
        }
        other => {
            let other = other.unwrap_or(&Value::Null);
            let problem =
                format!("{} is not valid under any of the given schemas", other.to_string().replace('"', "'"));
            return Err(Error::invalid("networks", other, &problem));
        }
    };
    let mut nics: Vec<Nic> = Vec::new();
    // Everything is checked before anything is made.
    for wish in &asked {
        match (wish["port"].as_str(), wish["uuid"].as_str()) {
            (Some(port), _) => {
                let row = world.data.network.ports.get(port).filter(|row| context.owns(&row.base.project_id));
                let row = row.ok_or_else(|| Error::bad(format!("Port {port} could not be found.")))?;
                if !row.device_id.is_empty() {
                    return Err(Error::conflict(format!("Port {port} is still in use.")));
                }
                if row.fixed_ips.is_empty() {
                    return Err(Error::bad(format!("Port {port} requires a FixedIP in order to be used.")));
                }
            }
            (None, Some(network)) => {
                let row = world.data.network.networks.get(network);
                let row = row.filter(|row| row.shared || row.external || context.owns(&row.base.project_id));
                row.ok_or_else(|| Error::bad(format!("Network {network} could not be found.")))?;
                if world.data.network.subnets.count(&format!("network:{network}")) == 0 {
                    return Err(Error::bad(format!(
                        "Network {network} requires a subnet in order to boot instances on."
                    )));
                }
            }
            (None, None) => return Err(Error::invalid("networks", wish, "'uuid' or 'port' is required")),
        }
    }
    for wish in &asked {
        let nic = match (wish["port"].as_str(), wish["uuid"].as_str()) {
            (Some(port), _) => Nic { port: port.to_owned(), made_by_nova: false },
            (None, network) => {
                let network = network.unwrap_or_default();
                let port = network::create_for_server(world, &project, network, groups).map_err(fail)?;
                Nic { port, made_by_nova: true }
            }
        };
        nics.push(nic);
    }
    Ok(nics)
}

/// Whether a server asks for a network that only administrators plug servers into.
fn needs_external(world: &World, context: &Context, networks: Option<&Value>) -> bool {
    let asked = networks.and_then(Value::as_array).into_iter().flatten().filter_map(|wish| wish["uuid"].as_str());
    let mut networks = asked.filter_map(|id| world.data.network.networks.get(id));
    !context.caller.is_admin() && networks.any(|network| network.external && !network.shared)
}

/// How a build or a rebuild will end: as the metadata or a fault wants it.
pub(super) fn outcome(world: &mut World, metadata: &BTreeMap<String, String>, rebuild: bool) -> Outcome {
    if let Some(outcome) = world.mishap.take() {
        return outcome;
    }
    match (metadata.get("sim-fail").map(String::as_str), rebuild) {
        (Some("spawn"), _) | (Some("rebuild"), true) => Outcome::Spawn,
        (Some("no-valid-host"), _) => Outcome::NoHost,
        _ => Outcome::Well,
    }
}

/// A host name made from a server's name, as Nova makes it.
fn hostname(name: &str) -> String {
    let name: String = name
        .chars()
        .filter_map(|c| match c {
            ' ' | '_' | '.' => Some('-'),
            c if c.is_ascii_alphanumeric() || c == '-' => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .take(63)
        .collect();
    name.trim_matches('-').to_owned()
}
