//! The durable consumers: two for each kind, one for each lane.
//!
//! Invariant: `max_deliver` is unlimited: what stops work is never a count of deliveries. `ack_wait` is the lease's
//! time to live, so that a message of a worker that died comes back when its lease has ended, not before and not later.

use serde_json::{Value, json};
use weir_api::Kind;
use weir_messages::{Lane, subject};

use super::streams::Refusal;
use super::{Error, Queue, WORK, millis};

/// JetStream's error code for a consumer that does not exist.
const CONSUMER_NOT_FOUND: u64 = 10014;

/// The name of the consumer of one kind and lane.
pub fn name(kind: Kind, lane: Lane) -> String {
    format!("{kind}-{lane}")
}

impl Queue {
    /// Creates the consumer of `kind` and `lane`, or updates it in place. Idempotent.
    pub(crate) async fn ensure_consumer(&self, kind: Kind, lane: Lane, max_ack_pending: u32) -> Result<(), Error> {
        let name = name(kind, lane);
        let required = json!({
            "filter_subject": subject::work_filter(lane, kind),
            "ack_policy": "explicit",
            "ack_wait": millis(self.lease_ttl()).saturating_mul(1_000_000),
            "max_deliver": -1,
            "max_ack_pending": max_ack_pending
        });
        let mut config = match self.api(&format!("CONSUMER.INFO.{WORK}.{name}"), &json!({})).await {
            Ok(info) => info.get("config").and_then(Value::as_object).cloned().unwrap_or_default(),
            Err(Refusal::Code(CONSUMER_NOT_FOUND, _)) => json!({
                "durable_name": name, "name": name, "deliver_policy": "all", "replay_policy": "instant",
                "description": format!("Weir: {lane} work of kind {kind}"),
                // Every worker process keeps a pull request or two waiting here.
                "max_waiting": 4096
            })
            .as_object()
            .cloned()
            .unwrap_or_default(),
            Err(other) => return Err(other.into()),
        };
        let before = config.clone();
        config.extend(required.as_object().cloned().unwrap_or_default());
        if config == before {
            return Ok(());
        }
        let request = json!({ "stream_name": WORK, "config": config, "action": "" });
        self.api(&format!("CONSUMER.CREATE.{WORK}.{name}"), &request).await?;
        tracing::info!(consumer = name, "created or updated");
        Ok(())
    }
}
