//! Security groups. Every project has one called `default`, made when anybody first looks.

use serde_json::{Value, json};

use super::{
    Base, Error, Group, Result, Rule,
    attributes::Attributes,
    list::{self, Query},
    must_be_member, owns, quotas, rules, with,
};
use crate::{
    identity::Caller,
    wire::{Reply, Request},
    world::World,
};

const ATTRIBUTES: &[&str] = &["stateful", "shared"];

pub(super) fn view(world: &World, row: &Group) -> Value {
    let rules: Vec<Value> =
        world.data.network.rules.linked(&format!("group:{}", row.base.id)).map(rules::view).collect();
    with(&row.base, json!({"stateful": row.stateful, "shared": false, "security_group_rules": rules}))
}

pub(super) fn visible<'a>(world: &'a World, caller: &Caller, id: &str) -> Result<&'a Group> {
    let row = world.data.network.groups.get(id).filter(|row| owns(caller, &row.base.project_id));
    row.ok_or_else(|| Error::not_found("SecurityGroup", id))
}

/// The project's default group, made if there is none.
pub(crate) fn default_group(world: &mut World, project: &str) -> String {
    let link = format!("project:{project}");
    if let Some(group) = world.data.network.groups.linked(&link).find(|group| group.base.name == "default") {
        return group.base.id.clone();
    }
    let now = world.clock.now();
    let base = Base {
        id: uuid::Uuid::new_v4().to_string(),
        name: "default".to_owned(),
        description: "Default security group".to_owned(),
        project_id: project.to_owned(),
        tags: Vec::new(),
        created: now,
        updated: now,
        revision: 1,
    };
    let id = base.id.clone();
    world.data.network.groups.insert(Group { base, stateful: true });
    for ethertype in ["IPv4", "IPv6"] {
        builtin(world, project, &id, "egress", ethertype, None);
        builtin(world, project, &id, "ingress", ethertype, Some(&id));
    }
    id
}

/// A rule that Neutron adds by itself.
fn builtin(world: &mut World, project: &str, group: &str, direction: &str, ethertype: &str, remote: Option<&str>) {
    let now = world.clock.now();
    world.data.network.rules.insert(Rule {
        base: Base {
            id: uuid::Uuid::new_v4().to_string(),
            name: String::new(),
            description: String::new(),
            project_id: project.to_owned(),
            tags: Vec::new(),
            created: now,
            updated: now,
            revision: 0,
        },
        group: group.to_owned(),
        direction: direction.to_owned(),
        ethertype: ethertype.to_owned(),
        protocol: None,
        port_range_min: None,
        port_range_max: None,
        remote_ip_prefix: None,
        remote_group_id: remote.map(str::to_owned),
    });
}

pub(super) fn route(world: &mut World, caller: &Caller, method: &str, rest: &[&str], request: &Request) -> Result {
    if let Some(project) = caller.project().filter(|_| rest.is_empty()) {
        default_group(world, project);
    }
    match (method, rest) {
        ("GET", []) => {
            let query = Query::new(world, request, ATTRIBUTES)?;
            let rows = world
                .data
                .network
                .groups
                .iter()
                .filter(|row| owns(caller, &row.base.project_id) && query.may_match(&row.base))
                .map(|row| view(world, row));
            query.answer(world, "SecurityGroup", "security_groups", rows)
        }
        ("POST", []) => create(world, caller, request),
        ("GET", [id]) => Ok(list::show(request, "security_group", view(world, visible(world, caller, id)?))),
        ("PUT", [id]) => {
            let mut row = visible(world, caller, id)?.clone();
            must_be_member(caller, "update_security_group")?;
            let sent = Attributes::read(request, "security_group", ATTRIBUTES)?;
            if row.base.name == "default" && sent.has("name") {
                let message = "Updating default security group not allowed.";
                return Err(Error::new(409, "SecurityGroupCannotUpdateDefault", message));
            }
            sent.rename(&mut row.base)?;
            row.stateful = sent.flag("stateful")?.unwrap_or(row.stateful);
            row.base.touch(world.clock.now());
            world.data.network.groups.update(id, |old| *old = row.clone());
            Ok(Reply::json(200, json!({"security_group": view(world, &row)})))
        }
        ("DELETE", [id]) => delete(world, caller, id),
        (_, [id, "tags", rest @ ..]) => {
            let have = visible(world, caller, id)?.base.tags.clone();
            must_be_member(caller, "update_security_groups_tags")?;
            let (tags, reply) = list::tags(method, rest, request, have)?;
            if let Some(tags) = tags {
                world.data.network.groups.update(id, |row| row.base.tags = tags);
            }
            Ok(reply)
        }
        _ => Err(Error::no_route()),
    }
}

fn create(world: &mut World, caller: &Caller, request: &Request) -> Result {
    must_be_member(caller, "create_security_group")?;
    let sent = Attributes::read(request, "security_group", ATTRIBUTES)?;
    let base = sent.base(world, caller)?;
    if base.name == "default" {
        return Err(Error::new(409, "SecurityGroupDefaultAlreadyExists", "Default security group already exists."));
    }
    quotas::check(world, &base.project_id, "security_group")?;
    quotas::check_more(world, &base.project_id, "security_group_rule", 2)?;
    let row = Group { base, stateful: sent.flag("stateful")?.unwrap_or(true) };
    world.data.network.groups.insert(row.clone());
    for ethertype in ["IPv4", "IPv6"] {
        builtin(world, &row.base.project_id, &row.base.id, "egress", ethertype, None);
    }
    Ok(Reply::json(201, json!({"security_group": view(world, &row)})))
}

fn delete(world: &mut World, caller: &Caller, id: &str) -> Result {
    let name = visible(world, caller, id)?.base.name.clone();
    must_be_member(caller, "delete_security_group")?;
    if world.data.network.ports.count(&format!("group:{id}")) > 0 {
        return Err(Error::new(409, "SecurityGroupInUse", format!("Security Group {id} in use.")));
    }
    if name == "default" && !caller.is_admin() {
        let message = "Insufficient rights for removing default security group.";
        return Err(Error::new(409, "SecurityGroupCannotRemoveDefault", message));
    }
    // Its own rules go with it, and so do those of others that name it.
    let store = &mut world.data.network;
    let rules: Vec<String> = store
        .rules
        .linked(&format!("group:{id}"))
        .chain(store.rules.linked(&format!("remote:{id}")))
        .map(|rule| rule.base.id.clone())
        .collect();
    for rule in rules {
        store.rules.remove(&rule);
    }
    store.groups.remove(id);
    Ok(Reply::empty(204))
}
