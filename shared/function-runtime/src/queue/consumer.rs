//! The durable consumers: two for each kind, one for each lane.
//!
//! Invariant: `max_deliver` is unlimited: what stops work is never a count of deliveries. `ack_wait` is the lease's
//! time to live, so that a message of a worker that died comes back when its lease has ended, not before and not later.

use serde_json::{Map, Value, json};
use weir_api::Kind;
use weir_messages::{Lane, subject};

use super::streams::Refusal;
use super::{Error, Queue, WORK, millis};

/// JetStream's error code for a consumer that does not exist.
const CONSUMER_NOT_FOUND: u64 = 10014;
/// What says the same as [`required`] in other words. Another release or an operator may have set it.
const CONTRARY: [&str; 2] = ["filter_subjects", "backoff"];

/// The name of the consumer of one kind and lane.
pub fn name(kind: Kind, lane: Lane) -> String {
    format!("{kind}-{lane}")
}

impl Queue {
    /// Creates the consumer of `kind` and `lane`, or updates it in place. Idempotent.
    pub(crate) async fn ensure_consumer(&self, kind: Kind, lane: Lane, max_ack_pending: u32) -> Result<(), Error> {
        let name = name(kind, lane);
        let existing = match self.api(&format!("CONSUMER.INFO.{WORK}.{name}"), &json!({})).await {
            Ok(info) => info.get("config").and_then(Value::as_object).cloned().unwrap_or_default(),
            Err(Refusal::Code(CONSUMER_NOT_FOUND, _)) => Map::new(),
            Err(other) => return Err(other.into()),
        };
        let required = required(kind, lane, millis(self.lease_ttl()).saturating_mul(1_000_000), max_ack_pending);
        let Some(config) = config(&name, &existing, required) else { return Ok(()) };
        let request = json!({ "stream_name": WORK, "config": config, "action": "" });
        self.api(&format!("CONSUMER.CREATE.{WORK}.{name}"), &request).await?;
        tracing::info!(consumer = name, "created or updated");
        Ok(())
    }
}

/// What Weir depends on.
fn required(kind: Kind, lane: Lane, ack_wait: u64, max_ack_pending: u32) -> Value {
    json!({
        "description": format!("Weir: {lane} work of kind {kind}"),
        "filter_subject": subject::work_filter(lane, kind),
        "ack_policy": "explicit",
        "ack_wait": ack_wait,
        "max_deliver": -1,
        "max_ack_pending": max_ack_pending
    })
}

/// The configuration to create a consumer with, or to update `existing` to; `None` if it will do as it is. What Weir does
/// not depend on stays, whoever has set it, and whether or not this release has heard of it.
fn config(name: &str, existing: &Map<String, Value>, required: Value) -> Option<Map<String, Value>> {
    let mut config = existing.clone();
    if existing.is_empty() {
        // Every worker process keeps a pull request or two waiting here.
        let initial = json!({
            "durable_name": name, "name": name, "deliver_policy": "all", "replay_policy": "instant", "max_waiting": 4096
        });
        config.extend(initial.as_object().cloned().unwrap_or_default());
    }
    config.retain(|field, _| !CONTRARY.contains(&field.as_str()));
    if let Value::Object(required) = required {
        config.extend(required);
    }
    (config != *existing).then_some(config)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Proves
    #[test]
    fn a_consumer_keeps_what_others_have_set_but_for_what_work_depends_on() {
        let wanted = || required(Kind::Server, Lane::Urgent, 10, 2000);
        let new = config("server-urgent", &Map::new(), wanted()).unwrap();
        assert_eq!((&new["max_deliver"], &new["durable_name"]), (&json!(-1), &json!("server-urgent")));
        assert_eq!(config("server-urgent", &new, wanted()), None, "it will do as it is");

        let mut other = new.clone();
        other.insert("max_waiting".to_owned(), 7.into());
        other.insert("num_replicas".to_owned(), 3.into());
        other.insert("a_field_to_come".to_owned(), json!({ "x": 1 }));
        assert_eq!(config("server-urgent", &other, wanted()), None, "none of that is in the way");

        // As a later release might have it, that takes more by the same consumer: both at once is refused by the server.
        other.remove("filter_subject");
        other.insert("filter_subjects".to_owned(), json!(["work.urgent.server.>", "work.urgent.rack.>"]));
        other.insert("max_deliver".to_owned(), 5.into());
        other.insert("backoff".to_owned(), json!([1, 2, 3]));
        let updated = config("server-urgent", &other, wanted()).unwrap();
        assert_eq!(updated["filter_subject"], "work.urgent.server.>");
        assert_eq!((updated.get("filter_subjects"), updated.get("backoff")), (None, None));
        assert_eq!(updated["max_deliver"], -1);
        assert_eq!((&updated["max_waiting"], &updated["num_replicas"]), (&json!(7), &json!(3)));
        assert_eq!(updated["a_field_to_come"], json!({ "x": 1 }));
    }
}
