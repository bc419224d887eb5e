//! What has to exist on the server, and how it is brought to exist.
//!
//! Invariants
//! - An existing stream keeps all that Weir does not depend on: replicas, storage, limits, placement, and every field
//!   that this release has never heard of. Its configuration is therefore handled as the JSON that the server sent, not
//!   as a type that would drop what it does not know.
//! - Any number of processes may do this at once: creating what exists alike is no error to the server, and an update
//!   says the same whoever sends it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::context::RequestErrorKind;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use weir_messages::{recording, subject};

use super::{DEAD, EVENTS, Error, LEASES_STREAM, Limits, Queue, REQUESTS, TRACES, WORK, millis};

/// The features that Weir cannot do without, oldest first, and the first server to have each.
const FEATURES: [(&str, (u64, u64), &str); 2] = [
    ("delivering a message later (@at schedules)", (2, 12), "2.12"),
    ("resyncing by a schedule in the stream (@every)", (2, 14), "2.14"),
];

/// JetStream's error code for a stream that does not exist.
pub(super) const STREAM_NOT_FOUND: u64 = 10059;
/// JetStream's error code for a stream that exists with another configuration: somebody else was quicker.
const STREAM_NAME_EXISTS: u64 = 10058;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

struct Spec {
    name: &'static str,
    /// What a new stream begins with; the operator may change it.
    initial: Value,
    /// What Weir depends on; set again on an existing stream if it differs.
    required: Value,
    /// What Weir depends on and no update can change.
    fixed: &'static [(&'static str, &'static str)],
    subjects: &'static [&'static str],
    /// Work goes on without it, if the account may not have it or the server has no room.
    optional: bool,
}

fn specs(limits: Limits, lease_ttl: Duration) -> [Spec; 6] {
    let replicas = limits.replicas;
    let lease_nanos = millis(lease_ttl).saturating_mul(1_000_000);
    // The past, bounded in age and size; the oldest goes first.
    let past = |name, description: &str, bytes: u64, subjects| Spec {
        name,
        initial: json!({
            "description": description, "storage": "file", "num_replicas": replicas, "max_consumers": -1, "max_msgs": -1,
            "max_age": millis(limits.age).saturating_mul(1_000_000), "max_bytes": bytes, "compression": "s2",
            "duplicate_window": (120 * NANOS_PER_SECOND).min(millis(limits.age).saturating_mul(1_000_000)), "allow_direct": true
        }),
        required: json!({ "discard": "old" }),
        fixed: &[("retention", "limits")],
        subjects,
        optional: true,
    };
    [
        Spec {
            name: WORK,
            initial: json!({
                "description": "Weir: work by lane, kind, namespace and name; and one timer per object",
                "storage": "file", "num_replicas": replicas, "duplicate_window": 120 * NANOS_PER_SECOND, "max_consumers": -1,
                "max_msgs": -1, "max_bytes": -1, "max_age": 0, "allow_direct": true
            }),
            required: json!({
                "max_msgs_per_subject": 1, "discard": "old", "allow_msg_schedules": true,
                // Whoever publishes: what is taken here is seen by the stream of events. The server does not do that with
                // what its timers bring.
                "republish": { "src": subject::ALL_WORK, "dest": format!("{}{}", recording::EVENT, subject::ALL_WORK) }
            }),
            fixed: &[("retention", "workqueue")],
            subjects: &[subject::ALL_WORK, subject::ALL_TIMERS],
            optional: false,
        },
        Spec {
            name: LEASES_STREAM,
            initial: json!({
                "description": "Weir: who works on which object",
                "storage": "file", "num_replicas": replicas, "max_age": lease_nanos,
                "duplicate_window": lease_nanos.min(120 * NANOS_PER_SECOND),
                "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "allow_direct": true, "deny_delete": true
            }),
            // As a key-value bucket has it, so that anybody's tools can look into it. Purges release leases.
            required: json!({ "max_msgs_per_subject": 1, "discard": "new", "allow_rollup_hdrs": true, "deny_purge": false }),
            fixed: &[("retention", "limits")],
            subjects: &["$KV.LEASES.>"],
            optional: false,
        },
        Spec {
            name: DEAD,
            initial: json!({
                "description": "Weir: messages that no retry can help, with the reason",
                "storage": "file", "num_replicas": replicas, "max_consumers": -1, "max_age": 0,
                // A flood of garbage must not fill the disk; the newest say what is wrong now.
                "max_msgs": 100_000, "max_bytes": 1_i64 << 30, "max_msgs_per_subject": 100, "allow_direct": true
            }),
            required: json!({ "discard": "old" }),
            fixed: &[("retention", "limits")],
            subjects: &[subject::ALL_DEAD],
            optional: false,
        },
        past(TRACES, "Weir: recorded calls, without secrets", limits.bytes, &[recording::ALL]),
        past(EVENTS, "Weir: work as it was published", limits.bytes / 2, &[recording::ALL_EVENTS]),
        past(REQUESTS, "Weir: what the front door was asked", limits.bytes / 2, &[recording::ALL_REQUESTS]),
    ]
}

impl Queue {
    /// Creates or updates the streams, and learns from them what all processes must agree on. Idempotent.
    pub async fn ensure(&self) -> Result<(), Error> {
        if !self.inner.connection.borrow().connected {
            return Err(Error::Disconnected);
        }
        check_version(&self.inner.client.server_info().version)?;
        for spec in specs(self.inner.limits, self.inner.wanted_lease_ttl) {
            let stream = match self.ensure_stream(&spec).await {
                Err(error) if spec.optional => {
                    tracing::warn!(%error, stream = spec.name, "there is no such stream; nothing is kept in it");
                    continue;
                }
                other => other?,
            };
            if spec.name == LEASES_STREAM {
                self.adopt_lease_ttl(&stream)?;
            }
        }
        self.sync_clock().await
    }

    /// Those of Weir's streams that are not there.
    pub async fn absent(&self) -> Result<Vec<&'static str>, Error> {
        let mut absent = Vec::new();
        for Spec { name, .. } in specs(self.inner.limits, self.inner.wanted_lease_ttl) {
            match self.api(&format!("STREAM.INFO.{name}"), &json!({})).await {
                Ok(_) => {}
                Err(Refusal::Code(STREAM_NOT_FOUND, _)) => absent.push(name),
                Err(other) => return Err(other.into()),
            }
        }
        Ok(absent)
    }

    /// Measures how far the server's clock is from this machine's.
    pub(crate) async fn sync_clock(&self) -> Result<(), Error> {
        let before = Timestamp::now();
        let info = self.api(&format!("STREAM.INFO.{WORK}"), &json!({})).await?;
        let after = Timestamp::now();
        let Some(server) = info.get("ts").and_then(Value::as_str).and_then(|ts| ts.parse::<Timestamp>().ok()) else {
            return Ok(());
        };
        let middle = before + after.duration_since(before) / 2;
        let offset = i64::try_from(server.duration_since(middle).as_micros()).unwrap_or_default();
        self.inner.clock_offset.store(offset, Ordering::Relaxed);
        if offset.unsigned_abs() > 2_000_000 {
            tracing::warn!(offset_ms = offset / 1000, "this machine's clock differs from the NATS server's");
        }
        Ok(())
    }

    async fn ensure_stream(&self, spec: &Spec) -> Result<Value, Error> {
        let info = format!("STREAM.INFO.{}", spec.name);
        let existing = match self.api(&info, &json!({})).await {
            Ok(info) => info,
            Err(Refusal::Code(STREAM_NOT_FOUND, _)) => {
                let create = format!("STREAM.CREATE.{}", spec.name);
                match self.api(&create, &new_config(spec)).await {
                    Ok(created) => {
                        tracing::info!(stream = spec.name, "created");
                        created
                    }
                    Err(Refusal::Code(STREAM_NAME_EXISTS, _)) => self.api(&info, &json!({})).await?,
                    Err(other) => return Err(other.into()),
                }
            }
            Err(other) => return Err(other.into()),
        };
        let Some(config) = existing.get("config").and_then(Value::as_object) else {
            return Err(Error::Refused { what: info, reason: "the answer has no configuration".to_owned() });
        };
        match merged_config(spec, config)? {
            None => Ok(existing),
            Some(config) => {
                let updated = self.api(&format!("STREAM.UPDATE.{}", spec.name), &Value::Object(config)).await?;
                tracing::info!(stream = spec.name, "updated in place");
                Ok(updated)
            }
        }
    }

    fn adopt_lease_ttl(&self, stream: &Value) -> Result<(), Error> {
        let nanos = stream.pointer("/config/max_age").and_then(Value::as_u64).unwrap_or_default();
        if nanos == 0 {
            // Leases that never end would keep an object for ever from everybody after one crash.
            return Err(Error::Incompatible {
                stream: LEASES_STREAM,
                field: "max_age",
                found: "0 (unlimited)".to_owned(),
                needed: "a limit, such as 10s".to_owned(),
            });
        }
        let ttl = Duration::from_nanos(nanos);
        if ttl != self.inner.wanted_lease_ttl && ttl != self.lease_ttl() {
            tracing::info!(bucket = ?ttl, setting = ?self.inner.wanted_lease_ttl, "the bucket's own lease time counts");
        }
        self.inner.lease_ttl.store(millis(ttl), Ordering::Relaxed);
        Ok(())
    }

    /// One request to the JetStream API, whatever the reason of its failure.
    pub(crate) async fn api_value(&self, what: &str, body: &Value) -> Result<Value, Error> {
        Ok(self.api(what, body).await?)
    }

    /// One request to the JetStream API.
    pub(super) async fn api(&self, what: &str, body: &Value) -> Result<Value, Refusal> {
        let asked = what.to_owned();
        let answer = tokio::time::timeout(super::REQUEST_TIMEOUT * 2, self.inner.jetstream.request(asked, body))
            .await
            .map_err(|_| Refusal::Error(Error::TimedOut { what: what.to_owned() }))?;
        let answer: Value = answer.map_err(|error| {
            Refusal::Error(match error.kind() {
                RequestErrorKind::NoResponders => Error::NoJetStream,
                RequestErrorKind::TimedOut => Error::TimedOut { what: what.to_owned() },
                _ => Error::Refused { what: what.to_owned(), reason: error.to_string() },
            })
        })?;
        match answer.get("error") {
            None => Ok(answer),
            Some(error) => {
                let code = error.get("err_code").and_then(Value::as_u64).unwrap_or_default();
                let reason = error.get("description").and_then(Value::as_str).unwrap_or("no reason given").to_owned();
                Err(Refusal::Code(code, Error::Refused { what: what.to_owned(), reason }))
            }
        }
    }
}

/// Why a request to the JetStream API failed: with a code of its own, or before it got that far.
pub(super) enum Refusal {
    Code(u64, Error),
    Error(Error),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Code(_, error) | Refusal::Error(error) => error,
        }
    }
}

fn new_config(spec: &Spec) -> Value {
    let mut config = Map::new();
    for part in [&spec.initial, &spec.required] {
        config.extend(part.as_object().cloned().unwrap_or_default());
    }
    config.insert("name".to_owned(), spec.name.into());
    config.insert("subjects".to_owned(), spec.subjects.into());
    for (field, value) in spec.fixed {
        config.insert((*field).to_owned(), (*value).into());
    }
    Value::Object(config)
}

/// The configuration to update `existing` to; `None` if it will do as it is.
fn merged_config(spec: &Spec, existing: &Map<String, Value>) -> Result<Option<Map<String, Value>>, Error> {
    for (field, needed) in spec.fixed {
        let found = existing.get(*field).and_then(Value::as_str).unwrap_or("unset");
        if found != *needed {
            return Err(Error::Incompatible {
                stream: spec.name,
                field,
                found: found.to_owned(),
                needed: (*needed).to_owned(),
            });
        }
    }
    let mut merged = existing.clone();
    for (field, value) in spec.required.as_object().into_iter().flatten() {
        // A field that is false is often left out.
        let found = merged.get(field).unwrap_or(&Value::Bool(false));
        if found != value {
            merged.insert(field.clone(), value.clone());
        }
    }
    // Subjects of another release, or of the operator's, stay: taking one away would lose what is published on it. Only
    // those go that are part of ours, since the server refuses subjects that overlap.
    let mut subjects = merged.get("subjects").and_then(Value::as_array).cloned().unwrap_or_default();
    let part_of_ours = |subject: &str| spec.subjects.iter().any(|ours| *ours != subject && covers(ours, subject));
    subjects.retain(|subject| !subject.as_str().is_some_and(part_of_ours));
    for subject in spec.subjects {
        if !subjects.iter().any(|s| s == subject) {
            subjects.push((*subject).into());
        }
    }
    merged.insert("subjects".to_owned(), Value::Array(subjects));
    Ok((&merged != existing).then_some(merged))
}

/// Whether every subject that `narrow` matches is matched by `wide`: for a filter and one subject, whether it matches.
pub(super) fn covers(wide: &str, narrow: &str) -> bool {
    let (mut wide, mut narrow) = (wide.split('.'), narrow.split('.'));
    loop {
        match (wide.next(), narrow.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(token)) if token != ">" => {}
            (Some(wanted), Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
}

/// Refuses a server that lacks a feature, naming the first that it lacks.
fn check_version(version: &str) -> Result<(), Error> {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u64>().ok());
    let found = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    match FEATURES.iter().find(|(_, needed, _)| found < *needed) {
        None => Ok(()),
        Some((feature, _, needed)) => Err(Error::ServerTooOld { feature, needed, found: version.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn limits() -> Limits {
        Limits { replicas: 1, age: Duration::from_secs(3600), bytes: 1 << 20 }
    }

    /// Proves: R-7
    #[test]
    fn what_is_kept_of_the_past_is_bounded_in_age_and_size() {
        for spec in specs(limits(), Duration::from_secs(10)).iter().filter(|spec| spec.optional) {
            let config = new_config(spec);
            assert!(config["max_bytes"].as_u64().is_some_and(|bytes| (1..=1 << 20).contains(&bytes)), "{config}");
            assert_eq!(config["max_age"], 3600 * NANOS_PER_SECOND, "{config}");
            assert_eq!(config["discard"], "old");
        }
    }

    /// Proves: Q-1
    #[test]
    fn a_server_too_old_is_refused_by_feature_and_version() {
        for (version, says) in [("2.10.29", "later"), ("2.12.1", "@every"), ("2.13.9-beta.1", "@every"), ("", "later")]
        {
            let refusal = check_version(version).unwrap_err().to_string();
            assert!(refusal.contains(says) && refusal.contains(version), "{version}: {refusal}");
        }
        for version in ["2.14.0", "2.15.1-RC.2", "3.0.0"] {
            check_version(version).unwrap();
        }
    }

    #[test]
    fn a_subject_is_covered_when_all_that_it_matches_is() {
        for (wide, narrow, is) in [
            ("work.>", "work.urgent.>", true),
            ("work.>", "work.>", true),
            ("work.*.>", "work.a.b", true),
            ("work.*", "work.>", false),
            ("work.*", "work.*", true),
            ("work.a", "work.*", false),
            ("work.>", "work", false),
            ("work.>", ">", false),
        ] {
            assert_eq!(covers(wide, narrow), is, "{wide} {narrow}");
        }
    }

    /// Proves: Q-1
    #[test]
    fn an_update_keeps_what_the_operator_and_later_servers_have_set() {
        let [work, ..] = specs(limits(), Duration::from_secs(10));
        let mut existing = new_config(&work).as_object().unwrap().clone();
        existing.insert("num_replicas".to_owned(), 3.into());
        existing.insert("max_bytes".to_owned(), 12345.into());
        existing.insert("a_field_to_come".to_owned(), json!({ "x": 1 }));
        existing.insert("subjects".to_owned(), json!(["old.>", "work.>", "timer.>"]));
        assert!(merged_config(&work, &existing).unwrap().is_none(), "nothing that Weir needs is missing");

        existing.insert("allow_msg_schedules".to_owned(), false.into());
        existing.insert("subjects".to_owned(), json!(["old.>", "work.>"]));
        let merged = merged_config(&work, &existing).unwrap().unwrap();
        assert_eq!(merged["allow_msg_schedules"], true);
        assert_eq!(merged["subjects"], json!(["old.>", "work.>", "timer.>"]));
        assert_eq!((&merged["num_replicas"], &merged["max_bytes"]), (&json!(3), &json!(12345)));
        assert_eq!(merged["a_field_to_come"], json!({ "x": 1 }));

        existing.insert("subjects".to_owned(), json!(["work.urgent.>", "work.*.server.>", "old.>", "timer.>"]));
        let merged = merged_config(&work, &existing).unwrap().unwrap();
        assert_eq!(merged["subjects"], json!(["old.>", "timer.>", "work.>"]), "the server takes none that overlap");

        existing.insert("retention".to_owned(), "limits".into());
        let refusal = merged_config(&work, &existing).unwrap_err().to_string();
        assert!(refusal.contains("retention") && refusal.contains("WORK"), "{refusal}");
    }
}
