//! Creating, changing, filling and deleting images.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Error, Image, Result, own, view, visible};
use crate::{
    clock::{later, signed},
    identity::Caller,
    wire::{Reply, Request},
    world::World,
};

const READ_ONLY: [&str; 14] = [
    "status",
    "checksum",
    "os_hash_algo",
    "os_hash_value",
    "size",
    "virtual_size",
    "created_at",
    "updated_at",
    "self",
    "file",
    "schema",
    "direct_url",
    "locations",
    "stores",
];
const DISK: [&str; 11] = ["ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop"];
const CONTAINER: [&str; 8] = ["ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"];

/// Applies one attribute or property to an image.
fn set(world: &World, caller: &Caller, image: &mut Image, key: &str, value: &Value) -> Result<()> {
    let wrong = |problem: &str| Error::bad(format!("Provided object does not match schema 'image': {value} {problem}"));
    let text = || match value {
        Value::Null => Ok(None),
        Value::String(text) if text.chars().count() <= 255 => Ok(Some(text.clone())),
        Value::String(_) => Err(wrong("is too long")),
        _ => Err(wrong("is not of type 'string'")),
    };
    let number = || value.as_u64().ok_or_else(|| wrong("is not of type 'integer'"));
    let flag = || value.as_bool().ok_or_else(|| wrong("is not of type 'boolean'"));
    let one_of = |known: &[&str]| match text()? {
        Some(text) if !known.contains(&text.as_str()) => {
            let list: Vec<String> = known.iter().map(|name| format!("'{name}'")).collect();
            Err(Error::bad(format!(
                "Provided object does not match schema 'image': '{text}' is not one of [None, {}]",
                list.join(", ")
            )))
        }
        other => Ok(other),
    };
    if READ_ONLY.contains(&key) {
        return Err(Error::new(403, format!("Attribute '{key}' is read-only.")));
    }
    match key {
        "name" => image.name = text()?,
        "disk_format" => image.disk_format = one_of(&DISK)?,
        "container_format" => image.container_format = one_of(&CONTAINER)?,
        "min_disk" => image.min_disk = number()?,
        "min_ram" => image.min_ram = number()?,
        "protected" => image.protected = flag()?,
        "os_hidden" => image.hidden = flag()?,
        "tags" => image.tags = serde_json::from_value(value.clone()).map_err(|_| wrong("is not of type 'array'"))?,
        "visibility" => {
            let wanted = text()?.unwrap_or_default();
            match wanted.as_str() {
                "public" if wanted != image.visibility && !caller.manages_project(world, &image.owner) => {
                    return Err(Error::policy("publicize_image"));
                }
                "public" | "private" | "shared" | "community" => image.visibility = wanted,
                _ => return Err(wrong("is not one of ['community', 'public', 'private', 'shared']")),
            }
        }
        "owner" => {
            let wanted = text()?.unwrap_or_default();
            if wanted != image.owner && !caller.is_admin() {
                return Err(Error::new(403, "You are not permitted to create images owned by others."));
            }
            image.owner = wanted;
        }
        _ => {
            let text = text()?.ok_or_else(|| wrong("is not of type 'string'"))?;
            image.properties.insert(key.to_owned(), text);
        }
    }
    Ok(())
}

pub(super) fn create(world: &mut World, caller: &Caller, request: &Request) -> Result {
    if !caller.is_admin() && !caller.has("member") {
        return Err(Error::policy("add_image"));
    }
    let body: Map<String, Value> =
        serde_json::from_slice(&request.body).map_err(|_| Error::bad("Malformed JSON in request body."))?;
    let now = world.clock.now();
    let id = match body.get("id") {
        None => uuid::Uuid::new_v4().to_string(),
        Some(id) => match id.as_str().and_then(|id| uuid::Uuid::try_parse(id).ok()) {
            Some(id) if world.data.image.images.contains(&id.to_string()) => {
                return Err(Error::new(409, format!("Image ID {id} already exists!")));
            }
            Some(id) => id.to_string(),
            None => return Err(Error::bad("Provided object does not match schema 'image': the id is not a UUID")),
        },
    };
    let mut image = Image {
        id,
        name: None,
        owner: caller.project().unwrap_or_default().to_owned(),
        status: "queued".to_owned(),
        visibility: "shared".to_owned(),
        container_format: None,
        disk_format: None,
        min_disk: 0,
        min_ram: 0,
        size: None,
        virtual_size: None,
        sha512: None,
        protected: false,
        hidden: false,
        tags: Vec::new(),
        properties: BTreeMap::new(),
        members: BTreeMap::new(),
        created: now,
        updated: now,
        importing_until: None,
    };
    for (key, value) in body.iter().filter(|(key, _)| *key != "id") {
        set(world, caller, &mut image, key, value)?;
    }
    if image.properties.len() > 128 {
        return Err(Error::new(413, "The limit has been exceeded on the number of allowed image properties."));
    }
    let location = format!("{}/image/v2/images/{}", world.url, image.id);
    let reply = Reply::json(201, view(&image))
        .with("Location", location)
        .with("OpenStack-image-import-methods", "glance-direct,web-download");
    world.data.image.images.insert(image);
    Ok(reply)
}

pub(super) fn patch(world: &mut World, caller: &Caller, id: &str, request: &Request) -> Result {
    let kind = request.header("content-type").unwrap_or_default();
    if !kind.starts_with("application/openstack-images-v2.") || !kind.ends_with("-json-patch") {
        let message = "The server does not support the media type of the request body.";
        return Err(Error::new(415, message));
    }
    let mut image = own(world, caller, id, "modify_image")?.clone();
    let operations: Vec<Map<String, Value>> = serde_json::from_slice(&request.body)
        .map_err(|_| Error::bad("Request body must be a JSON array of operation objects."))?;
    for operation in operations {
        let field = |key: &str| operation.get(key).and_then(Value::as_str).unwrap_or_default();
        let path = field("path");
        let Some(path) = path.strip_prefix('/') else {
            return Err(Error::bad(format!("Pointer `{path}` does not start with \"/\".")));
        };
        let key = path.replace("~1", "/").replace("~0", "~");
        let have = view(&image);
        let missing = || Error::new(409, format!("Property {key} does not exist."));
        match field("op") {
            "remove" => {
                if READ_ONLY.contains(&key.as_str()) {
                    return Err(Error::new(403, format!("Attribute '{key}' is read-only.")));
                }
                if image.properties.remove(&key).is_none() {
                    let base = have.get(&key).is_some();
                    return Err(if base {
                        Error::new(403, format!("Property {key} may not be removed."))
                    } else {
                        missing()
                    });
                }
            }
            op @ ("add" | "replace") => {
                let value = operation
                    .get("value")
                    .ok_or_else(|| Error::bad("Operation objects must contain a member named \"value\"."))?;
                if op == "replace" && have.get(&key).is_none() {
                    return Err(missing());
                }
                set(world, caller, &mut image, &key, value)?;
            }
            other => {
                return Err(Error::bad(format!(
                    "Operations must be one of \"add\", \"remove\" or \"replace\", not \"{other}\"."
                )));
            }
        }
    }
    image.updated = world.clock.now();
    let reply = Reply::json(200, view(&image));
    world.data.image.images.update(id, |old| *old = image);
    Ok(reply)
}

pub(super) fn delete(world: &mut World, caller: &Caller, id: &str) -> Result {
    if own(world, caller, id, "delete_image")?.protected {
        return Err(Error::new(403, format!("Image {id} is protected and cannot be deleted.")));
    }
    world.data.image.images.remove(id);
    Ok(Reply::empty(204))
}

pub(super) fn upload(world: &mut World, caller: &Caller, id: &str, request: &Request) -> Result {
    let image = own(world, caller, id, "upload_image")?;
    if image.status != "queued" {
        let message = format!("Image status transition from {} to saving is not allowed", image.status);
        return Err(Error::new(409, message));
    }
    if image.disk_format.is_none() || image.container_format.is_none() {
        return Err(Error::bad("Properties disk_format, container_format must be set prior to saving data."));
    }
    if request.header("content-type") != Some("application/octet-stream") {
        return Err(Error::new(415, "The request media type is not supported by this server."));
    }
    let upload = request.upload.clone().ok_or_else(|| Error::bad("There is no data"))?;
    let now = world.clock.now();
    world.data.image.images.update(id, |image| {
        image.size = Some(upload.size);
        image.virtual_size =
            image.virtual_size.or((image.disk_format.as_deref() == Some("raw")).then_some(upload.size));
        image.sha512 = Some(upload.sha512);
        "active".clone_into(&mut image.status);
        image.updated = now;
    });
    Ok(Reply::empty(204))
}

/// Starts an import, which is over after a while.
pub(super) fn import(world: &mut World, caller: &Caller, id: &str, request: &Request) -> Result {
    let image = own(world, caller, id, "import_image")?;
    if image.status != "queued" {
        return Err(Error::new(409, format!("Image with status {} cannot be target for import", image.status)));
    }
    if image.disk_format.is_none() || image.container_format.is_none() {
        return Err(Error::bad("'disk_format' and 'container_format' need to be set before import"));
    }
    let body = request.json().ok_or_else(|| Error::bad("Malformed JSON in request body."))?;
    match body["method"]["name"].as_str() {
        Some("web-download") if body["method"]["uri"].is_string() => {}
        Some("web-download") => return Err(Error::bad("URI is required for web-download import")),
        Some(other) => return Err(Error::bad(format!("Unknown import method name '{other}'."))),
        None => return Err(Error::bad("Import request requires a 'method' field.")),
    }
    let until = later(world.clock.now(), signed(world.config.build));
    world.data.image.images.update(id, |image| {
        "importing".clone_into(&mut image.status);
        image.importing_until = Some(until);
        image.size = Some(16 << 20);
        image.sha512 = Some(crate::identity::hash(&image.id).repeat(2));
    });
    Ok(Reply::empty(202))
}

pub(super) fn activate(world: &mut World, caller: &Caller, id: &str, active: bool) -> Result {
    let status = &own(world, caller, id, "deactivate")?.status;
    if !caller.is_admin() {
        return Err(Error::policy(if active { "reactivate" } else { "deactivate" }));
    }
    if !matches!(status.as_str(), "active" | "deactivated") {
        return Err(Error::new(403, "Not allowed to change the status of this image."));
    }
    world.data.image.images.update(id, |image| {
        if active { "active" } else { "deactivated" }.clone_into(&mut image.status);
    });
    Ok(Reply::empty(204))
}

pub(super) fn tag(world: &mut World, caller: &Caller, method: &str, id: &str, tag: &str) -> Result {
    let has = visible(world, caller, id)?.tags.iter().any(|have| have == tag);
    own(world, caller, id, "modify_image")?;
    match method {
        "PUT" => world.data.image.images.update(id, |image| {
            if !has {
                image.tags.push(tag.to_owned());
            }
        }),
        "DELETE" if has => world.data.image.images.update(id, |image| image.tags.retain(|have| have != tag)),
        "DELETE" => return Err(Error::new(404, format!("Tag {tag} does not exist"))),
        _ => return Err(Error::no_route()),
    };
    Ok(Reply::empty(204))
}

/// What `members` shares with this module: the row of one member.
pub(super) fn member_view(image: &str, project: &str, status: &str) -> Value {
    json!({"image_id": image, "member_id": project, "status": status, "schema": "/v2/schemas/member"})
}
