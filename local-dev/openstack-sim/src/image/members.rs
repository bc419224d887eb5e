//! Sharing an image with single projects.

use serde_json::{Value, json};

use super::{Error, Result, own, visible, write::member_view};
use crate::{
    identity::Caller,
    wire::{Reply, Request},
    world::World,
};

pub(super) fn route(
    world: &mut World,
    caller: &Caller,
    method: &str,
    id: &str,
    rest: &[&str],
    request: &Request,
) -> Result {
    let missing = |member: &str| Error::new(404, format!("{member} not found in the member list of the image {id}."));
    let text = |key: &str| request.json().and_then(|body| body[key].as_str().map(str::to_owned));
    match (method, rest) {
        ("GET", []) => {
            let image = visible(world, caller, id)?;
            let mine = caller.is_admin() || caller.project() == Some(&image.owner);
            let rows: Vec<Value> = image
                .members
                .iter()
                .filter(|(project, _)| mine || caller.project() == Some(project))
                .map(|(project, status)| member_view(id, project, status))
                .collect();
            Ok(Reply::json(200, json!({"members": rows, "schema": "/v2/schemas/members"})))
        }
        ("POST", []) => {
            let image = own(world, caller, id, "add_member")?;
            if image.visibility != "shared" {
                return Err(Error::new(403, "Only shared images have members."));
            }
            let member = text("member").ok_or_else(|| Error::bad("Member to be added not specified"))?;
            if image.members.contains_key(&member) {
                return Err(Error::new(409, format!("Member {member} is duplicated for image {id}")));
            }
            world.data.image.images.update(id, |image| image.members.insert(member.clone(), "pending".to_owned()));
            Ok(Reply::json(200, member_view(id, &member, "pending")))
        }
        ("PUT", [member]) => {
            if !visible(world, caller, id)?.members.contains_key(*member) {
                return Err(missing(member));
            }
            if caller.project() != Some(member) && !caller.is_admin() {
                return Err(Error::new(403, "You are not permitted to modify 'status' on this image member."));
            }
            let status = text("status").filter(|status| matches!(status.as_str(), "pending" | "accepted" | "rejected"));
            let status = status.ok_or_else(|| Error::bad("Status not specified"))?;
            world.data.image.images.update(id, |image| image.members.insert((*member).to_owned(), status.clone()));
            Ok(Reply::json(200, member_view(id, member, &status)))
        }
        ("DELETE", [member]) => {
            own(world, caller, id, "delete_member")?;
            let gone = world.data.image.images.update(id, |image| image.members.remove(*member)).flatten();
            gone.ok_or_else(|| missing(member))?;
            Ok(Reply::empty(204))
        }
        _ => Err(Error::no_route()),
    }
}
