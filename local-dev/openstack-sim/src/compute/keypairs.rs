//! Key pairs. They belong to a user, not to a project.

use base64::Engine;
use rand::RngCore;
use serde_json::{Value, json};

use super::{Context, Error, Keypair, Result, Version, quotas, servers::page};
use crate::{clock::micros, identity::hash, wire::Reply, world::World};

pub(super) fn view(row: &Keypair) -> Value {
    json!({
        "name": row.name,
        "type": row.kind,
        "user_id": row.user_id,
        "public_key": row.public_key,
        "fingerprint": row.fingerprint,
    })
}

pub(super) fn key(user: &str, name: &str) -> String {
    format!("{user}/{name}")
}

fn shown(row: &Keypair, version: Version, keys: &[&str]) -> Value {
    let mut view = view(row);
    if let Value::Object(map) = &mut view {
        map.retain(|key, _| keys.contains(&key.as_str()) && (key != "type" || version >= Version(2)));
    }
    view
}

pub(super) fn route(world: &mut World, context: &Context, method: &str, rest: &[&str]) -> Result<Option<Reply>> {
    let version = context.version;
    let asked = context.request.param("user_id");
    let user = asked.filter(|_| context.caller.is_admin()).unwrap_or(&context.caller.user);
    let missing = |name: &str| Error::new(404, format!("Keypair {name} not found for user {user}"));
    Ok(Some(match (method, rest) {
        ("GET", []) => {
            let rows = world.data.compute.keypairs.linked(&format!("user:{user}"));
            let rows = rows
                .map(|row| {
                    let keys = ["name", "type", "public_key", "fingerprint"];
                    (row.name.as_str(), json!({"keypair": shown(row, version, &keys)}))
                })
                .collect();
            page(world, context, "keypairs", rows)?
        }
        ("POST", []) => create(world, context)?,
        ("GET", [name]) => {
            let row = world.data.compute.keypairs.get(&key(user, name)).ok_or_else(|| missing(name))?;
            let mut view = shown(row, version, &["name", "type", "user_id", "public_key", "fingerprint"]);
            view["created_at"] = json!(micros(row.created));
            view["updated_at"] = Value::Null;
            view["deleted"] = json!(false);
            view["deleted_at"] = Value::Null;
            view["id"] = json!(1);
            Reply::json(200, json!({"keypair": view}))
        }
        ("DELETE", [name]) => {
            let removed = world.data.compute.keypairs.remove(&key(user, name));
            removed.ok_or_else(|| missing(name))?;
            Reply::empty(if version >= Version(2) { 204 } else { 202 })
        }
        _ => return Ok(None),
    }))
}

fn create(world: &mut World, context: &Context) -> Result {
    let version = context.version;
    let body = context.object("keypair")?;
    let allowed: &[&str] = if version >= Version(10) {
        &["name", "public_key", "type", "user_id"]
    } else if version >= Version(2) {
        &["name", "public_key", "type"]
    } else {
        &["name", "public_key"]
    };
    if let Some(unknown) = body.keys().find(|key| !allowed.contains(&key.as_str())) {
        let problem = format!("Additional properties are not allowed ('{unknown}' was unexpected)");
        return Err(Error::bad(format!("Invalid input for field/attribute keypair. {problem}")));
    }
    let value = |key: &str| body.get(key).filter(|value| !value.is_null());
    let name = match value("name") {
        Some(Value::String(name)) if (1..=255).contains(&name.chars().count()) => name.clone(),
        Some(other) => return Err(Error::invalid("name", other, "is not a valid name")),
        None => return Err(Error::bad("Invalid input for field/attribute keypair. 'name' is a required property")),
    };
    let allowed_in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-' | '@' | '.');
    if version < Version(92) && !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-')) {
        return Err(Error::bad("Keypair data is invalid: Keypair name contains unsafe characters"));
    }
    if version >= Version(92) && !name.chars().all(allowed_in_name) {
        return Err(Error::invalid("name", &json!(name), "is not a valid name"));
    }
    let given = match value("public_key") {
        Some(Value::String(text)) => Some(text.trim().to_owned()),
        Some(other) => return Err(Error::invalid("public_key", other, "is not of type 'string'")),
        None if version >= Version(92) => {
            return Err(Error::bad("Invalid input for field/attribute keypair. 'public_key' is a required property"));
        }
        None => None,
    };
    let asked = value("user_id").and_then(Value::as_str);
    if asked.is_some_and(|user| user != context.caller.user) && !context.caller.is_admin() {
        return Err(Error::policy("os_compute_api:os-keypairs:create"));
    }
    let user = asked.unwrap_or(&context.caller.user).to_owned();
    let generated = given.is_none();
    let public_key = given.unwrap_or_else(made_up_key);
    let invalid = || Error::bad("Keypair data is invalid: failed to generate fingerprint");
    let blob = blob(&public_key).ok_or_else(invalid)?;
    if world.data.compute.keypairs.contains(&key(&user, &name)) {
        return Err(Error::conflict(format!("Key pair '{name}' already exists.")));
    }
    let used = world.data.compute.keypairs.count(&format!("user:{user}"));
    if quotas::is_over(world, context.project(), "key_pairs", used, 1) {
        return Err(Error::new(403, "Quota exceeded, too many key pairs."));
    }
    let digest = hash(&base64::engine::general_purpose::STANDARD.encode(&blob));
    let pairs: Vec<&str> = (0..32).step_by(2).filter_map(|at| digest.get(at..at + 2)).collect();
    let row = Keypair {
        key: key(&user, &name),
        user_id: user,
        name,
        kind: value("type").and_then(Value::as_str).unwrap_or("ssh").to_owned(),
        public_key,
        fingerprint: pairs.join(":"),
        created: world.clock.now(),
    };
    world.data.compute.keypairs.insert(row.clone());
    let mut view = shown(&row, version, &["name", "type", "user_id", "public_key", "fingerprint"]);
    if generated {
        view["private_key"] =
            json!("-----BEGIN OPENSSH PRIVATE KEY-----\nsimulated\n-----END OPENSSH PRIVATE KEY-----\n");
    }
    Ok(Reply::json(if version >= Version(2) { 201 } else { 200 }, json!({"keypair": view})))
}

/// The key proper of an OpenSSH public key, if it is one: its own first field repeats the type.
fn blob(public_key: &str) -> Option<Vec<u8>> {
    let mut fields = public_key.split_whitespace();
    let (kind, encoded) = (fields.next()?, fields.next()?);
    let blob = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
    let length = u32::from_be_bytes(blob.get(..4)?.try_into().ok()?);
    let end = usize::try_from(length).ok()?.checked_add(4)?;
    (blob.get(4..end)? == kind.as_bytes()).then_some(blob)
}

fn made_up_key() -> String {
    let kind = b"ssh-ed25519";
    let mut bytes = [0_u8; 32];
    rand::rng().fill_bytes(&mut bytes);
    let mut blob = vec![0, 0, 0, 11];
    blob.extend(kind);
    blob.extend([0, 0, 0, 32]);
    blob.extend(bytes);
    format!("ssh-ed25519 {} Generated-by-Nova", base64::engine::general_purpose::STANDARD.encode(blob))
}
