//! Cinder v3: quota sets only, because identities set them. Volumes come with a later issue.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    compute::Error,
    identity::{Caller, authenticate},
    service::unauthorized,
    wire::{Reply, Request, webob},
    world::World,
};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Store {
    /// Limits that differ from the defaults, by project.
    pub quotas: BTreeMap<String, BTreeMap<String, i64>>,
}

const DEFAULTS: [(&str, i64); 7] = [
    ("volumes", 10),
    ("snapshots", 10),
    ("gigabytes", 1000),
    ("backups", 10),
    ("backup_gigabytes", 1000),
    ("per_volume_gigabytes", -1),
    ("groups", 10),
];

fn view(set: Option<&BTreeMap<String, i64>>, id: Option<&str>) -> Value {
    let mut map: Map<String, Value> = DEFAULTS
        .iter()
        .map(|(name, default)| ((*name).to_owned(), json!(set.and_then(|set| set.get(*name)).unwrap_or(default))))
        .collect();
    if let Some(id) = id {
        map.insert("id".to_owned(), json!(id));
    }
    json!({"quota_set": map})
}

/// The path below `/volume`.
pub(crate) fn handle(world: &mut World, rest: &[&str], request: &Request) -> Reply {
    let version = json!({
        "id": "v3.0",
        "status": "CURRENT",
        "version": "3.71",
        "min_version": "3.0",
        "updated": "2023-08-31T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{}/volume/v3/", world.url)}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}],
    });
    let path = match rest {
        [] => return Reply::json(300, json!({"versions": [version]})),
        ["v3"] => return Reply::json(200, json!({"versions": [version]})),
        ["v3", path @ ..] => path,
        _ => return Reply::json(404, webob(404, "The resource could not be found.")),
    };
    if request.body.len() > 114_688 {
        return Reply::json(413, crate::identity::too_large());
    }
    let Some(caller) = authenticate(world, request) else { return unauthorized(&world.url) };
    let reply = match path {
        ["os-quota-sets", project] => quotas(world, &caller, project, request),
        [scope, "os-quota-sets", project] if caller.project() == Some(scope) => {
            quotas(world, &caller, project, request)
        }
        [scope, "os-quota-sets", _] if uuid::Uuid::try_parse(scope).is_ok() => Err(Error::bad("Malformed request url")),
        _ => return Reply::json(404, webob(404, "The resource could not be found.")),
    };
    reply
        .unwrap_or_else(|error| error.reply())
        .with("OpenStack-API-Version", "volume 3.0")
        .with("Vary", "OpenStack-API-Version")
}

fn quotas(world: &mut World, caller: &Caller, project: &str, request: &Request) -> Result<Reply, Error> {
    let manages = caller.manages_project(world, project);
    let quotas = &mut world.data.volume.quotas;
    match request.method.as_str() {
        "GET" if caller.is_admin() || caller.project() == Some(project) => {
            Ok(Reply::json(200, view(quotas.get(project), Some(project))))
        }
        "GET" => Err(Error::policy("volume_extension:quotas:show")),
        "PUT" if manages => {
            let body = request.json().ok_or_else(|| Error::bad("Malformed request body"))?;
            let wanted =
                body["quota_set"].as_object().ok_or_else(|| Error::bad("'quota_set' is a required property"))?;
            let mut set = quotas.get(project).cloned().unwrap_or_default();
            for (key, value) in wanted {
                if matches!(key.as_str(), "tenant_id" | "skip_validation") {
                    continue;
                }
                if !DEFAULTS.iter().any(|(name, _)| name == key) {
                    return Err(Error::bad(format!("Invalid input received: Bad key(s) in quota set: {key}")));
                }
                let number = value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
                let number = number.filter(|number| (-1..=0x7FFF_FFFF).contains(number));
                let invalid = || Error::bad(format!("{key} must be >= -1"));
                set.insert(key.clone(), number.ok_or_else(invalid)?);
            }
            let reply = Reply::json(200, view(Some(&set), None));
            quotas.insert(project.to_owned(), set);
            Ok(reply)
        }
        "PUT" => Err(Error::policy("volume_extension:quotas:update")),
        "DELETE" if manages => {
            quotas.remove(project);
            Ok(Reply::empty(200))
        }
        "DELETE" => Err(Error::policy("volume_extension:quotas:delete")),
        _ => Err(Error::new(405, "The method specified is not allowed for this resource.")),
    }
}

pub(crate) fn state(world: &World) -> Map<String, Value> {
    std::iter::once(("volume_quotas".to_owned(), json!(world.data.volume.quotas))).collect()
}
