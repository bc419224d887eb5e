//! Glance v2: images without their data.
//!
//! Invariants: what is uploaded is hashed and counted, then thrown away; a project sees its own images, public ones and
//! those it accepted; only who may publish publishes.
//!
//! Caveats: `checksum` (MD5) is always null, `os_hash_value` is true; an import takes as long as a server's build and reads
//! nothing; data cannot be downloaded.

mod error;
mod list;
mod members;
mod write;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub(crate) use self::error::{Error, Result};
use crate::{
    clock::seconds,
    config,
    identity::{Caller, authenticate},
    table::{Row, Table},
    wire::{Reply, Request},
    world::World,
};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Store {
    pub images: Table<Image>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Image {
    pub id: String,
    pub name: Option<String>,
    pub owner: String,
    pub status: String,
    pub visibility: String,
    pub container_format: Option<String>,
    pub disk_format: Option<String>,
    /// In GiB.
    pub min_disk: u64,
    /// In MiB.
    pub min_ram: u64,
    pub size: Option<u64>,
    pub virtual_size: Option<u64>,
    pub sha512: Option<String>,
    pub protected: bool,
    pub hidden: bool,
    pub tags: Vec<String>,
    pub properties: BTreeMap<String, String>,
    /// What each project it is shared with says to it: pending, accepted or rejected.
    pub members: BTreeMap<String, String>,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// When a running import is over.
    pub importing_until: Option<Timestamp>,
}

impl Row for Image {
    fn id(&self) -> &str {
        &self.id
    }
    fn links(&self) -> Vec<String> {
        vec![format!("project:{}", self.owner)]
    }
}

impl Image {
    /// Whether the caller can name it.
    pub fn is_visible_to(&self, caller: &Caller) -> bool {
        let mine = caller.project() == Some(&self.owner);
        let shared =
            self.visibility == "shared" && caller.project().is_some_and(|project| self.members.contains_key(project));
        caller.is_admin() || mine || shared || matches!(self.visibility.as_str(), "public" | "community")
    }

    /// Whether it is in the caller's list unless the list asks for something else.
    fn is_listed_for(&self, caller: &Caller) -> bool {
        let accepted =
            caller.project().and_then(|project| self.members.get(project)).is_some_and(|status| status == "accepted");
        caller.is_admin()
            || caller.project() == Some(&self.owner)
            || self.visibility == "public"
            || (self.visibility == "shared" && accepted)
    }
}

fn view(row: &Image) -> Value {
    let mut view = Map::new();
    for (key, value) in &row.properties {
        view.insert(key.clone(), json!(value));
    }
    let own = json!({
        "id": row.id,
        "name": row.name,
        "owner": row.owner,
        "status": row.status,
        "visibility": row.visibility,
        "container_format": row.container_format,
        "disk_format": row.disk_format,
        "min_disk": row.min_disk,
        "min_ram": row.min_ram,
        "size": row.size,
        "virtual_size": row.virtual_size,
        "checksum": null,
        "os_hash_algo": row.sha512.as_ref().map(|_| "sha512"),
        "os_hash_value": row.sha512,
        "protected": row.protected,
        "os_hidden": row.hidden,
        "tags": row.tags,
        "created_at": seconds(row.created),
        "updated_at": seconds(row.updated),
        "self": format!("/v2/images/{}", row.id),
        "file": format!("/v2/images/{}/file", row.id),
        "schema": "/v2/schemas/image",
    });
    if let Value::Object(own) = own {
        view.extend(own);
    }
    Value::Object(view)
}

pub(crate) fn seed(world: &mut World) {
    let now = world.clock.now();
    for (id, name, distro, version, codename, min_ram) in config::IMAGES {
        let properties = [
            ("unikorn:os:kernel", "linux"),
            ("unikorn:os:family", "debian"),
            ("unikorn:os:distro", distro),
            ("unikorn:os:version", version),
            ("unikorn:os:codename", codename),
            ("unikorn:virtualization", "any"),
            ("architecture", "x86_64"),
        ];
        world.data.image.images.insert(Image {
            id: id.to_owned(),
            name: Some(name.to_owned()),
            owner: config::ADMIN_PROJECT.to_owned(),
            status: "active".to_owned(),
            visibility: "public".to_owned(),
            container_format: Some("bare".to_owned()),
            disk_format: Some("qcow2".to_owned()),
            min_disk: 1,
            min_ram,
            size: Some(16 << 20),
            virtual_size: Some(1 << 30),
            sha512: Some(crate::identity::hash(id).repeat(2)),
            protected: false,
            hidden: false,
            tags: Vec::new(),
            properties: properties.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            members: BTreeMap::new(),
            created: now,
            updated: now,
            importing_until: None,
        });
    }
}

/// Ends the imports that are over.
pub(crate) fn settle(world: &mut World) {
    let now = world.clock.now();
    let images = &mut world.data.image.images;
    let over: Vec<String> = images
        .iter()
        .filter(|image| image.importing_until.is_some_and(|until| until <= now))
        .map(|image| image.id.clone())
        .collect();
    for id in over {
        images.update(&id, |image| {
            image.importing_until = None;
            "active".clone_into(&mut image.status);
            image.updated = now;
        });
    }
}

/// The path below `/image`.
pub(crate) fn handle(world: &mut World, rest: &[&str], request: &Request) -> Reply {
    let json = request.header("accept").is_some_and(|accept| accept.contains("application/json"));
    route(world, rest, request).unwrap_or_else(|error| error.reply(&world.url, json))
}

fn route(world: &mut World, rest: &[&str], request: &Request) -> Result {
    let path = match rest {
        [] => return Ok(versions(world)),
        ["v2", path @ ..] => path,
        _ => return Err(Error::no_route()),
    };
    let caller = authenticate(world, request).ok_or_else(|| Error::new(401, "Unauthorized"))?;
    if caller.project().is_none() && !caller.is_admin() {
        return Err(Error::policy("get_images"));
    }
    let method = request.method.as_str();
    match (method, path) {
        ("GET", ["images"]) => list::list(world, &caller, request),
        ("POST", ["images"]) => write::create(world, &caller, request),
        ("GET", ["images", id]) => Ok(Reply::json(200, view(visible(world, &caller, id)?))),
        ("PATCH", ["images", id]) => write::patch(world, &caller, id, request),
        ("DELETE", ["images", id]) => write::delete(world, &caller, id),
        ("PUT", ["images", id, "file"]) => write::upload(world, &caller, id, request),
        ("GET", ["images", id, "file"]) => {
            visible(world, &caller, id)?;
            Ok(Reply::empty(204))
        }
        ("POST", ["images", id, "import"]) => write::import(world, &caller, id, request),
        ("POST", ["images", id, "actions", action @ ("deactivate" | "reactivate")]) => {
            write::activate(world, &caller, id, *action == "reactivate")
        }
        (_, ["images", id, "tags", tag]) => write::tag(world, &caller, method, id, tag),
        (_, ["images", id, "members", rest @ ..]) => members::route(world, &caller, method, id, rest, request),
        _ => Err(Error::no_route()),
    }
}

fn versions(world: &World) -> Reply {
    let version = json!({
        "id": "v2.17",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": format!("{}/image/v2/", world.url)}],
    });
    Reply::json(300, json!({"versions": [version]}))
}

fn visible<'a>(world: &'a World, caller: &Caller, id: &str) -> Result<&'a Image> {
    world.data.image.images.get(id).filter(|image| image.is_visible_to(caller)).ok_or_else(|| Error::not_found(id))
}

/// An image that the caller may change.
fn own<'a>(world: &'a World, caller: &Caller, id: &str, action: &str) -> Result<&'a Image> {
    let row = visible(world, caller, id)?;
    let may = caller.is_admin() || (caller.project() == Some(&row.owner) && caller.has("member"));
    if may { Ok(row) } else { Err(Error::policy(action)) }
}

pub(crate) fn state(world: &World) -> Map<String, Value> {
    std::iter::once(("images".to_owned(), world.data.image.images.iter().map(view).collect())).collect()
}
