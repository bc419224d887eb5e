//! Timers: *call me again in ten seconds*, kept by the server.
//!
//! Invariants
//! - At most one timer per object: it is a message on the object's own timer subject, and a newer one replaces it.
//! - A requeue is never a delayed negative acknowledgement: that would keep the message pending, and a few of those stall
//!   every other object.
//! - No message id goes with a timer, and all that matters is in its payload: the server strips such headers from
//!   what a timer produces.

use std::time::Duration;

use async_nats::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use weir_api::ObjectRef;
use weir_messages::{Lane, Traceparent, Work, subject};

use crate::queue::{Error, Queue, WORK};
use crate::telemetry::metrics;

/// The shortest delay; shorter ones are lengthened to it.
pub const SHORTEST: Duration = Duration::from_millis(50);
/// The longest delay; longer ones are refused.
pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The server's smallest step. What is to be done sooner is done at once.
pub const STEP: Duration = Duration::from_millis(250);

/// Puts `work` into `lane` after `delay`, instead of whatever timer its object has.
///
/// Returns when the server has stored it. A delay below [`STEP`] publishes the work at once, and clears the timer.
pub async fn set(
    queue: &Queue,
    work: Work,
    lane: Lane,
    delay: Duration,
    traceparent: Option<Traceparent>,
) -> Result<(), Error> {
    if delay > LONGEST {
        return Err(Error::Delay(delay));
    }
    let object = work.object.clone();
    if delay.max(SHORTEST) < STEP {
        queue.publish(work, lane, None, traceparent).await?;
        return clear(queue, &object).await;
    }
    let mut headers = HeaderMap::new();
    headers.insert(async_nats::header::NATS_SCHEDULE, format!("@at {}", due(queue.server_now(), delay)));
    headers.insert(async_nats::header::NATS_SCHEDULE_TARGET, subject::work(lane, &object)?);
    queue.publish_envelope(subject::timer(&object)?, work, headers, traceparent).await?;
    metrics::TIMERS.inc(&[object.kind.token(), "set"]);
    Ok(())
}

/// Clears the timer of `object`, if it has one.
pub async fn clear(queue: &Queue, object: &ObjectRef) -> Result<(), Error> {
    let request = json!({ "filter": subject::timer(object)? });
    let answer = queue.api_value(&format!("STREAM.PURGE.{WORK}"), &request).await?;
    if answer.get("purged").and_then(Value::as_u64).unwrap_or_default() > 0 {
        metrics::TIMERS.inc(&[object.kind.token(), "cleared"]);
    }
    Ok(())
}

/// In whole milliseconds, rounded up: a timer may be late by a little, never early.
fn due(now: Timestamp, delay: Duration) -> Timestamp {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::ZERO);
    let due = now.saturating_add(delay).unwrap_or(now);
    Timestamp::from_millisecond(due.as_millisecond().saturating_add(1)).unwrap_or(due)
}
