//! `POST /servers/{id}/action`.

use serde_json::{Map, Value, json};

use super::{
    Context, Error, Result, Server, Version, VmState, create,
    lifecycle::{Kind, Outcome, begin},
    servers, view,
};
use crate::{wire::Reply, world::World};

pub(super) fn act(world: &mut World, context: &Context, id: &str) -> Result {
    let server = servers::find(world, context, id)?.clone();
    let body = context.body()?;
    let (action, arguments) = match body.as_object().map(|map| (map.len(), map.iter().next())) {
        Some((1, Some((action, arguments)))) => (action.as_str(), arguments),
        _ => return Err(Error::bad("There is no such action: None")),
    };
    context.must_be_member(&format!("os_compute_api:servers:{}", action.trim_start_matches("os-")))?;
    // The scheduler still has it, and the cell that would act on it knows nothing of it.
    if server.is_build_request() && action != "rebuild" {
        return Err(Error::not_found("Instance", id));
    }
    match action {
        "rebuild" => rebuild(world, context, server, arguments),
        "os-start" => {
            allow(world, &server, "start", &[VmState::Stopped])?;
            begin(world, id, Kind::Start, Outcome::Well);
            Ok(Reply::empty(202))
        }
        "os-stop" => {
            allow(world, &server, "stop", &[VmState::Active, VmState::Error])?;
            begin(world, id, Kind::Stop, Outcome::Well);
            Ok(Reply::empty(202))
        }
        "reboot" => {
            let hard = match arguments["type"].as_str() {
                Some(kind) if kind.eq_ignore_ascii_case("soft") => false,
                Some(kind) if kind.eq_ignore_ascii_case("hard") => true,
                _ => {
                    return Err(Error::invalid(
                        "type",
                        &arguments["type"],
                        "is not one of ['HARD', 'Hard', 'hard', 'SOFT', 'Soft', 'soft']",
                    ));
                }
            };
            let states: &[VmState] =
                if hard { &[VmState::Active, VmState::Stopped, VmState::Error] } else { &[VmState::Active] };
            allow(world, &server, "reboot", states)?;
            begin(world, id, Kind::Reboot { hard }, Outcome::Well);
            Ok(Reply::empty(202))
        }
        "os-getConsoleOutput" => {
            let lines =
                arguments["length"].as_i64().and_then(|length| usize::try_from(length).ok()).unwrap_or(usize::MAX);
            let output = ["[    0.000000] a simulated guest", "simulated console output", "login:"];
            let output = &output[output.len().saturating_sub(lines)..];
            Ok(Reply::json(200, json!({"output": format!("{}\n", output.join("\n"))})))
        }
        other => Err(Error::bad(format!("There is no such action: {other}"))),
    }
}

/// Refuses an action in a state that it does not start from, or while something else goes on.
fn allow(world: &World, server: &Server, action: &str, states: &[VmState]) -> Result<()> {
    let id = &server.id;
    if !states.contains(&server.vm_state) {
        let state = serde_json::to_value(server.vm_state).unwrap_or_default();
        let state = state.as_str().unwrap_or_default();
        return Err(Error::conflict(format!("Cannot '{action}' instance {id} while it is in vm_state {state}")));
    }
    if let Some(task) = server.task(world.clock.now()) {
        return Err(Error::conflict(format!("Cannot '{action}' instance {id} while it is in task_state {task}")));
    }
    Ok(())
}

/// Image and task change together, before the answer.
fn rebuild(world: &mut World, context: &Context, server: Server, arguments: &Value) -> Result {
    let body: Map<String, Value> = arguments.as_object().cloned().unwrap_or_default();
    let image_ref = match body.get("imageRef") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => return Err(Error::invalid("imageRef", other, &format!("{other} is not of type 'string'"))),
        None => return Err(Error::invalid("rebuild", arguments, "'imageRef' is a required property")),
    };
    let newer = [
        ("description", 19),
        ("key_name", 54),
        ("user_data", 57),
        ("trusted_image_certificates", 63),
        ("hostname", 90),
    ];
    let basic = [
        "imageRef",
        "name",
        "metadata",
        "adminPass",
        "preserve_ephemeral",
        "OS-DCF:diskConfig",
        "accessIPv4",
        "accessIPv6",
    ];
    let known = |key: &str| {
        basic.contains(&key) || newer.iter().any(|(name, since)| *name == key && context.version >= Version(*since))
    };
    if let Some(unknown) = body.keys().find(|key| !known(key)) {
        let problem = format!("Additional properties are not allowed ('{unknown}' was unexpected)");
        return Err(Error::bad(format!("Invalid input for field/attribute rebuild. {problem}")));
    }
    allow(world, &server, "rebuild", &[VmState::Active, VmState::Stopped, VmState::Error])?;
    let image =
        create::find_image(world, context, &image_ref).ok_or_else(|| Error::bad("Cannot find image for rebuild"))?;
    if image.status != "active" {
        return Err(Error::bad(format!("Image {image_ref} is not active.")));
    }
    create::check_fit(image, &server.flavor)?;
    let name = body.get("name").map(create::server_name).transpose()?;
    let metadata = match body.get("metadata").and_then(Value::as_object) {
        Some(map) => create::metadata(map)?,
        None => server.metadata.clone(),
    };
    let outcome = create::outcome(world, &metadata, true);
    let stopped = server.vm_state == VmState::Stopped;
    world.data.compute.servers.update(&server.id, |row| {
        row.image = image_ref;
        row.metadata = metadata;
        row.name = name.unwrap_or_else(|| row.name.clone());
    });
    begin(world, &server.id, Kind::Rebuild { previous: server.image, stopped }, outcome);
    let row = servers::find(world, context, &server.id)?;
    let mut view = view::detail(world, row, context.version, false);
    view["adminPass"] = json!(uuid::Uuid::new_v4().simple().to_string().chars().take(12).collect::<String>());
    let location = format!("{}/compute/v2.1/servers/{}", world.url, server.id);
    Ok(Reply::json(202, json!({"server": view})).with("Location", location))
}
