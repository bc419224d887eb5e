//! Timers: *call me again in ten seconds*, kept by the server.
//!
//! Invariants
//! - At most one timer per object: it is a message on the object's own timer subject, and a newer one replaces it.
//! - A requeue is never a delayed negative acknowledgement: that would keep the message pending, and a few of those stall
//!   every other object.
//! - No message id goes with a timer, and all that matters is in its payload: the server strips such headers from
//!   what a timer produces.
//! - What is to be looked at from time to time is beside that, on subjects of its own: [`resync`] leaves an object's own
//!   timer alone, and so does [`repeat`].
//! - All times are the server's: see [`Queue::server_now`].

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_SCHEDULE, NATS_SCHEDULE_TARGET};
use async_nats::jetstream::message::StreamMessage;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use weir_api::{Kind, ObjectRef};
use weir_messages::envelope::Encoded;
use weir_messages::{Cause, Envelope, Lane, Tick, Traceparent, Work, subject};

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
    let headers = at(queue, delay, subject::work(lane, &object)?);
    queue.publish_envelope(subject::timer(&object)?, work, headers, traceparent).await?;
    metrics::TIMERS.inc(&[object.kind.token(), "set"]);
    Ok(())
}

/// Has `object` looked at in the routine lane after `delay`, because everything is. Its own timer is left alone.
pub async fn resync(queue: &Queue, object: &ObjectRef, delay: Duration) -> Result<(), Error> {
    if delay > LONGEST {
        return Err(Error::Delay(delay));
    }
    let headers = at(queue, delay, subject::work(Lane::Routine, object)?);
    let work = Work::new(object.clone(), Cause::Resync);
    queue.publish_envelope(subject::resync(object)?, work, headers, None).await?;
    Ok(())
}

/// What the server puts on the queue again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repeating {
    /// That it is time to look at every object of a kind.
    Tick(Kind),
    /// Work for one object, in the routine lane.
    Object(ObjectRef),
}

/// Has the server put something on the queue at each `interval`, of a second at least. True if that is new: the first time
/// is then an interval away.
///
/// A schedule that is there with the same interval is left alone: set again at each start of a process it would never fire
/// where processes start more often. Of several processes that begin at once, the first one sets it.
pub async fn repeat(queue: &Queue, what: &Repeating, interval: Duration) -> Result<bool, Error> {
    let wanted = Schedule::new(queue, what, interval)?;
    let there = wanted.there(queue).await?;
    if there.as_ref().is_some_and(|there| wanted.is(there)) { Ok(false) } else { wanted.set(queue, there).await }
}

/// What [`keep`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The schedule is there, or somebody else has just set it again.
    There,
    /// It was gone, and is set again.
    Gone,
    /// Something was in its place that repeats nothing, and is replaced.
    Replaced,
}

/// Sees to it that the server goes on repeating what [`repeat`] has set.
///
/// One that is there is left alone at whatever interval: two processes that differ in that do not fight over it.
pub async fn keep(queue: &Queue, what: &Repeating, interval: Duration) -> Result<Kept, Error> {
    let wanted = Schedule::new(queue, what, interval)?;
    let there = wanted.there(queue).await?;
    let kept = match &there {
        Some(there) if wanted.serves(there) => return Ok(Kept::There),
        Some(_) => Kept::Replaced,
        None => Kept::Gone,
    };
    Ok(if wanted.set(queue, there).await? { kept } else { Kept::There })
}

/// What [`repeat`] stores.
struct Schedule {
    on: String,
    target: String,
    every: String,
    /// Of a tick, which says how often it comes.
    seconds: Option<u32>,
    encoded: Encoded,
}

impl Schedule {
    fn new(queue: &Queue, what: &Repeating, interval: Duration) -> Result<Self, Error> {
        let source = format!("/weir/{}", queue.name());
        let seconds = u32::try_from(interval.as_secs().max(1)).unwrap_or(u32::MAX);
        let every = format!("@every {seconds}s");
        Ok(match what {
            Repeating::Tick(kind) => {
                let tick = Tick { kind: *kind, every_seconds: Some(seconds) };
                let (on, target) = (subject::tick_schedule(*kind), subject::tick(*kind));
                Self { on, target, every, seconds: Some(seconds), encoded: tick.encode(source)? }
            }
            Repeating::Object(object) => {
                let mut envelope = Envelope::new(source, Work::new(object.clone(), Cause::Resync), None);
                // Each call begins a trace of its own: with this one, all of them would be steps of one without end.
                envelope.traceparent = None;
                let (on, target) = (subject::repeating(object)?, subject::work(Lane::Routine, object)?);
                Self { on, target, every, seconds: None, encoded: envelope.encode()? }
            }
        })
    }

    /// What is stored in its place.
    async fn there(&self, queue: &Queue) -> Result<Option<StreamMessage>, Error> {
        match queue.first(WORK, &self.on, 1).await {
            Err(Error::NoStream(_)) => {
                queue.mend(Duration::ZERO).await?;
                Ok(None)
            }
            other => other,
        }
    }

    /// Whether it is the same.
    fn is(&self, there: &StreamMessage) -> bool {
        let every = there.headers.get(NATS_SCHEDULE).is_some_and(|found| found.as_str() == self.every);
        // Earlier releases scheduled ticks without anything in them, or without their interval.
        let tells = |seconds| {
            serde_json::from_slice::<Tick>(&there.payload).is_ok_and(|tick| tick.every_seconds == Some(seconds))
        };
        every && self.seconds.is_none_or(tells) && there.headers.get("ce-type").is_some()
    }

    /// Whether it does the same, however often.
    fn serves(&self, there: &StreamMessage) -> bool {
        let header = |name| there.headers.get(name).map(async_nats::HeaderValue::as_str).unwrap_or_default();
        header(NATS_SCHEDULE).starts_with("@every ") && header(NATS_SCHEDULE_TARGET) == self.target
    }

    /// Stores it, unless something else is there by now than was found. Returns whether it is stored.
    async fn set(self, queue: &Queue, instead_of: Option<StreamMessage>) -> Result<bool, Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in self.encoded.headers {
            headers.insert(name, value);
        }
        headers.insert(NATS_SCHEDULE, self.every);
        headers.insert(NATS_SCHEDULE_TARGET, self.target);
        let sequence = instead_of.map_or(0, |there| there.sequence);
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, sequence.to_string());
        match queue.store(self.on, headers, self.encoded.payload.into(), Duration::ZERO).await {
            Ok(_) => Ok(true),
            Err(Error::Changed(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
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

/// The headers of a timer that puts its message on `target` after `delay`.
fn at(queue: &Queue, delay: Duration, target: String) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(NATS_SCHEDULE, format!("@at {}", due(queue.server_now(), delay)));
    headers.insert(NATS_SCHEDULE_TARGET, target);
    headers
}

/// In whole milliseconds, rounded up: a timer may be late by a little, never early.
fn due(now: Timestamp, delay: Duration) -> Timestamp {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::ZERO);
    let due = now.saturating_add(delay).unwrap_or(now);
    Timestamp::from_millisecond(due.as_millisecond().saturating_add(1)).unwrap_or(due)
}
