//! `queue-schemas/`: a JSON Schema (2020-12) for each message and one AsyncAPI 3 document, generated from the types
//! . `cargo run -p weir-messages --bin queue-schemas -- --write queue-schemas` writes them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};
use weir_api::Kind;

use crate::envelope::SCHEMA_URN;
use crate::{Lane, dead, envelope, lease, recording, tick, work};

/// Every generated file: its name, and its content with a line break at the end. Deterministic.
pub fn files() -> Result<Vec<(String, String)>, serde_json::Error> {
    let schemas = [
        (work::SCHEMA, schema::<work::Work>(work::SCHEMA)),
        (tick::SCHEMA, schema::<tick::Tick>(tick::SCHEMA)),
        (envelope::HEADERS_SCHEMA, schema::<envelope::Headers>(envelope::HEADERS_SCHEMA)),
        (dead::SCHEMA, schema::<dead::Headers>(dead::SCHEMA)),
        (lease::SCHEMA, schema::<lease::Record>(lease::SCHEMA)),
        (recording::SCHEMA, schema::<recording::Recording>(recording::SCHEMA)),
    ];
    let mut files = Vec::new();
    for (name, schema) in schemas {
        files.push((format!("{name}.json"), pretty(&schema)?));
    }
    files.push(("asyncapi.json".to_owned(), pretty(&asyncapi())?));
    Ok(files)
}

fn schema<T: JsonSchema>(name: &str) -> Schema {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), Value::String(format!("{SCHEMA_URN}{name}")));
    schema
}

fn pretty(value: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn asyncapi() -> Value {
    let kinds: Vec<&str> = Kind::ALL.iter().chain([&Kind::ServerMonitor]).map(|kind| kind.token()).collect();
    let lanes: Vec<&str> = Lane::ALL.iter().map(|lane| lane.token()).collect();
    let kind = json!({ "description": "The object's kind.", "enum": kinds });
    let namespace = json!({ "description": "The object's namespace; a dot is written ~." });
    let name = json!({ "description": "The object's name; a dot is written ~." });
    // Work that the server's clock puts on the queue.
    let later = |address: &str, title: &str, description: &str| {
        json!({
            "address": address,
            "title": title,
            "description": description,
            "parameters": { "kind": kind, "namespace": namespace, "name": name },
            "messages": { "timer": { "$ref": "#/components/messages/timer" } }
        })
    };
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Weir's queue",
            "version": work::VERSION.to_string(),
            "description": "NATS JetStream. A message asks for a look at one Kubernetes object; it carries no state and no \
                authority. CloudEvents 1.0 in binary mode.",
            "license": { "name": "Apache-2.0" }
        },
        "defaultContentType": "application/json",
        "channels": {
            "work": {
                "address": "work.{lane}.{kind}.{namespace}.{name}",
                "title": "Work to be done",
                "description": "Stream WORK: work-queue retention, one message per subject, the newest wins.",
                "parameters": {
                    "lane": { "description": "urgent is served first, routine is never starved.", "enum": lanes },
                    "kind": kind, "namespace": namespace, "name": name
                },
                "messages": { "work": { "$ref": "#/components/messages/work" } }
            },
            "timer": later(
                "timer.{kind}.{namespace}.{name}",
                "Work for later",
                "Stream WORK: at most one timer per object. The server publishes its payload to the target when it is due."
            ),
            "resync": later(
                "timer.resync.{kind}.{namespace}.{name}",
                "Work for later, because of a tick",
                "Stream WORK: beside the object's own timer, which is left alone."
            ),
            "repeating": later(
                "timer.every.{kind}.{namespace}.{name}",
                "Work for later, again and again",
                "Stream WORK: the schedule by which an object is looked at at each interval."
            ),
            "tick": {
                "address": "work.resync.{kind}",
                "title": "It is time to look at every object of a kind",
                "description": "Stream WORK. Given to one of the publishers, which sets a timer for each object.",
                "parameters": { "kind": kind },
                "messages": { "tick": { "$ref": "#/components/messages/tick" } }
            },
            "tickSchedule": {
                "address": "timer.resync.{kind}",
                "title": "The schedule of a kind's ticks",
                "description": "Stream WORK: the server publishes its payload to the target at each interval.",
                "parameters": { "kind": kind },
                "messages": { "tickSchedule": { "$ref": "#/components/messages/tickSchedule" } }
            },
            "dead": {
                "address": "dead.{subject}",
                "title": "Messages that no retry can help",
                "description": "Stream DEAD, under the subject that the message came on.",
                "parameters": { "subject": { "description": "The original subject, of several tokens." } },
                "messages": { "deadLetter": { "$ref": "#/components/messages/deadLetter" } }
            },
            "lease": {
                "address": "$KV.LEASES.{key}",
                "title": "Who works on an object",
                "description": "Key-value bucket LEASES; entries live as long as the bucket's maximum age.",
                "parameters": { "key": { "description": "<kind>.<namespace>.<name>; a dot in a name is written =." } },
                "messages": { "lease": { "$ref": "#/components/messages/lease" } }
            },
            "trace": {
                "address": "trace.{kind}.{namespace}.{name}.{call}",
                "title": "What a function read, did and decided in one call",
                "description": "Stream TRACES, bounded in age and size. No secret is in it.",
                "parameters": {
                    "kind": kind, "namespace": namespace, "name": name,
                    "call": { "description": "The call's correlation ID." }
                },
                "messages": { "recording": { "$ref": "#/components/messages/recording" } }
            },
            "event": {
                "address": "events.work.{lane}.{kind}.{namespace}.{name}",
                "title": "Work as it was published",
                "description": "Stream EVENTS, bounded in age and size: the server copies there what is published under work.>. \
                    What a timer brings is not among it.",
                "parameters": {
                    "lane": { "description": "urgent is served first, routine is never starved.", "enum": lanes },
                    "kind": kind, "namespace": namespace, "name": name
                },
                "messages": { "work": { "$ref": "#/components/messages/work" } }
            }
        },
        "operations": {
            "publishWork": { "action": "send", "channel": { "$ref": "#/channels/work" } },
            "handleWork": { "action": "receive", "channel": { "$ref": "#/channels/work" } },
            "setTimer": { "action": "send", "channel": { "$ref": "#/channels/timer" } },
            "resyncObject": { "action": "send", "channel": { "$ref": "#/channels/resync" } },
            "repeatWork": { "action": "send", "channel": { "$ref": "#/channels/repeating" } },
            "scheduleTicks": { "action": "send", "channel": { "$ref": "#/channels/tickSchedule" } },
            "handleTick": { "action": "receive", "channel": { "$ref": "#/channels/tick" } },
            "buryMessage": { "action": "send", "channel": { "$ref": "#/channels/dead" } },
            "holdLease": { "action": "send", "channel": { "$ref": "#/channels/lease" } },
            "recordCall": { "action": "send", "channel": { "$ref": "#/channels/trace" } }
        },
        "components": {
            "messages": {
                "work": {
                    "name": format!("{}.v{}", work::TYPE, work::VERSION),
                    "title": "Look at this object",
                    "contentType": "application/json",
                    "headers": { "$ref": format!("./{}.json", envelope::HEADERS_SCHEMA) },
                    "payload": { "$ref": format!("./{}.json", work::SCHEMA) }
                },
                "timer": {
                    "name": format!("{}.v{}", work::TYPE, work::VERSION),
                    "title": "Look at this object later",
                    "contentType": "application/json",
                    "headers": scheduled(),
                    "payload": { "$ref": format!("./{}.json", work::SCHEMA) }
                },
                "tick": {
                    "name": format!("{}.v{}", tick::TYPE, tick::VERSION),
                    "title": "Look at every object of this kind",
                    "contentType": "application/json",
                    "headers": { "$ref": format!("./{}.json", envelope::HEADERS_SCHEMA) },
                    "payload": { "$ref": format!("./{}.json", tick::SCHEMA) }
                },
                "tickSchedule": {
                    "name": format!("{}.v{}", tick::TYPE, tick::VERSION),
                    "title": "Look at every object of this kind, at each interval",
                    "contentType": "application/json",
                    "headers": scheduled(),
                    "payload": { "$ref": format!("./{}.json", tick::SCHEMA) }
                },
                "deadLetter": {
                    "name": "dead-letter",
                    "title": "A message that no retry can help",
                    "description": "The payload is the original one, whatever it is.",
                    "headers": { "$ref": format!("./{}.json", dead::SCHEMA) },
                    "payload": {}
                },
                "lease": {
                    "name": "lease",
                    "title": "Who works on an object",
                    "contentType": "application/json",
                    "payload": { "$ref": format!("./{}.json", lease::SCHEMA) }
                },
                "recording": {
                    "name": "recording",
                    "title": "A recorded call",
                    "contentType": "application/json",
                    "payload": { "$ref": format!("./{}.json", recording::SCHEMA) }
                }
            }
        }
    })
}

/// The headers of what the server publishes later.
fn scheduled() -> Value {
    json!({
        "allOf": [
            { "$ref": format!("./{}.json", envelope::HEADERS_SCHEMA) },
            {
                "type": "object",
                "required": ["Nats-Schedule", "Nats-Schedule-Target"],
                "properties": {
                    "Nats-Schedule": {
                        "type": "string", "description": "@at and a time in RFC 3339, or @every and an interval as in 60s."
                    },
                    "Nats-Schedule-Target": { "type": "string", "description": "The work subject it goes to." }
                }
            }
        ]
    })
}
