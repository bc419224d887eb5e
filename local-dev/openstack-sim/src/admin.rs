//! `/_sim`: faults, state, log and clock over HTTP, for tests that are not in this process and for people.
//!
//! It asks for no token, and so answers only the loopback interface unless told otherwise.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    config::Bootstrap,
    faults::Fault,
    server::Shared,
    wire::{Reply, Request},
};

fn refuse(status: u16, message: impl Into<String>) -> Reply {
    Reply::json(status, json!({"message": message.into()}))
}

pub(crate) fn handle(shared: &Shared, path: &[&str], request: &Request) -> Reply {
    match (request.method.as_str(), path) {
        ("GET", []) => {
            let pages = ["bootstrap", "state", "counts", "requests", "served", "faults", "clock"]
                .map(|name| format!("/_sim/{name}"));
            Reply::json(200, json!({"see": pages}))
        }
        ("GET", ["bootstrap"]) => Reply::json(200, Bootstrap::new(&shared.config, &shared.url).to_json()),
        ("GET", ["state"]) => Reply::json(200, shared.world().state()),
        ("GET", ["counts"]) => {
            let mut world = shared.world();
            Reply::json(200, json!({"counts": world.counts(), "mutations": world.mutations}))
        }
        ("GET", ["requests"]) => Reply::json(200, json!({"requests": shared.journal().entries()})),
        ("GET", ["served"]) => Reply::json(200, json!({"served": shared.journal().served()})),
        ("DELETE", ["requests"]) => {
            shared.journal().clear();
            Reply::empty(204)
        }
        ("GET", ["faults"]) => Reply::json(200, shared.faults.list()),
        ("POST", ["faults"]) => add(shared, request),
        ("DELETE", ["faults"]) => {
            shared.faults.clear();
            Reply::empty(204)
        }
        ("DELETE", ["faults", id]) => match id.parse() {
            Ok(id) if shared.faults.remove(id) => Reply::empty(204),
            _ => refuse(404, "no such fault"),
        },
        ("PUT", ["nodes", server]) => match request.json().as_ref().and_then(|body| body["provision_state"].as_str()) {
            Some(state) => {
                shared.world().data.bare_metal.nodes.insert((*server).to_owned(), state.to_owned());
                Reply::empty(204)
            }
            None => refuse(400, "give a provision_state"),
        },
        ("GET", ["clock"]) => Reply::json(200, json!({"now": shared.world().clock.now().to_string()})),
        ("POST", ["clock"]) => clock(shared, request),
        _ => refuse(404, "no such thing below /_sim"),
    }
}

/// One fault, or a list of them.
fn add(shared: &Shared, request: &Request) -> Reply {
    let faults = match serde_json::from_slice::<Value>(&request.body) {
        Ok(list @ Value::Array(_)) => serde_json::from_value::<Vec<Fault>>(list),
        Ok(one) => serde_json::from_value::<Fault>(one).map(|fault| vec![fault]),
        Err(error) => Err(error),
    };
    let faults = match faults {
        Ok(faults) => faults,
        Err(error) => return refuse(400, format!("not a fault: {error}")),
    };
    let mut ids = Vec::new();
    for fault in faults {
        match shared.faults.add(fault) {
            Ok(id) => ids.push(id),
            Err(error) => return refuse(400, error.to_string()),
        }
    }
    Reply::json(201, json!({"ids": ids}))
}

/// `{"advance_seconds": 1.5}`, `{"freeze": true}` or `{"freeze": false}`.
fn clock(shared: &Shared, request: &Request) -> Reply {
    let body = request.json().unwrap_or_default();
    let mut world = shared.world();
    match body["freeze"].as_bool() {
        Some(true) => world.clock.freeze(),
        Some(false) => world.clock.thaw(),
        None => {}
    }
    if let Some(seconds) = body["advance_seconds"].as_f64() {
        match Duration::try_from_secs_f64(seconds) {
            Ok(by) => world.advance(by),
            Err(_) => return refuse(400, "advance_seconds is not a length of time"),
        }
    }
    Reply::json(200, json!({"now": world.clock.now().to_string()}))
}
