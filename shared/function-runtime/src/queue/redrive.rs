//! Sending dead letters again.
//!
//! Invariants
//! - What is sent is what there was: the same bytes on the same subject, with the headers that it had. Those that would
//!   act on the server (`Nats-…`) are left out: its message id would have it taken for a duplicate and dropped.
//! - A letter that cannot be sent as it was can be answered all the same: a message says *look at this object*, nothing more. So
//!   of one that was too large to be kept whole new work is made for the object that it was for, and of any other for the
//!   object that a person names.
//! - It never replaces what waits on the same subject by now. That says *look at this object* as well, and is understood.
//! - The letter is removed once the message is stored, not before: nothing is lost, whenever this is cut short.
//! - One letter is one message, also when two send it at once, or when it is sent again because it could not be removed: the
//!   message has an id of its own that is made from the letter. After the stream's duplicate window (two minutes, unless somebody has
//!   set it otherwise) it would be a second one, which costs one call.
//! - A letter's headers are not believed: what it claims to be from is checked to be a subject of work.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID, NATS_SCHEDULE};
use async_nats::jetstream::message::StreamMessage;
use serde_json::json;
use weir_api::ObjectRef;
use weir_messages::subject::Subject;
use weir_messages::{Cause, Lane, Work, dead, subject};

use super::streams::covers;
use super::{DEAD, Error, Published, Queue, WORK};

/// What became of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redriven {
    /// It is back on the queue.
    Sent {
        /// The subject that it came on, and is on again.
        subject: String,
        /// Its new sequence.
        sequence: u64,
    },
    /// It was back on the queue already, sent by somebody else at the same time or by one who could not remove it.
    Already {
        /// The subject that it was sent to.
        subject: String,
    },
    /// A newer message waits on its subject, or is in hand; the letter is kept.
    Waits {
        /// The subject.
        subject: String,
    },
    /// It was too large to be kept whole, and for which object it was does not show; it is kept.
    Incomplete,
    /// It does not say that it came from the queue of work; it is kept.
    Foreign,
    /// There is no such letter (any more).
    Gone,
}

impl Queue {
    /// Sends the dead letter with this sequence again.
    pub async fn redrive(&self, letter: u64) -> Result<Redriven, Error> {
        let Some(letter) = self.message(DEAD, letter).await? else { return Ok(Redriven::Gone) };
        let header = |name: &str| letter.headers.get(name).map(async_nats::HeaderValue::as_str);
        let Some(to) = header("Weir-Dead-Subject").filter(|to| is_work(to)).map(str::to_owned) else {
            return Ok(Redriven::Foreign);
        };
        if header("Weir-Dead-Complete") != Some("true") {
            return match subject::parse(&to) {
                Ok(Subject::Work { lane, object }) => self.ask_instead(&letter, &object, lane).await,
                _ => Ok(Redriven::Incomplete),
            };
        }
        let mut headers = originals(&letter);
        claim(&letter, &mut headers);
        let stored = self.store(to.clone(), headers, letter.payload.clone(), Duration::ZERO).await;
        self.sent(&letter, to, stored).await
    }

    /// Has `object` looked at in place of sending the dead letter with this sequence again: for one that cannot be understood,
    /// or did not come from this queue.
    pub async fn redrive_for(&self, letter: u64, object: &ObjectRef) -> Result<Redriven, Error> {
        let Some(letter) = self.message(DEAD, letter).await? else { return Ok(Redriven::Gone) };
        self.ask_instead(&letter, object, Lane::Urgent).await
    }

    /// Removes the dead letter with this sequence for good. False if there is none (any more).
    pub async fn drop_letter(&self, letter: u64) -> Result<bool, Error> {
        if self.message(DEAD, letter).await?.is_none() {
            return Ok(false);
        }
        self.remove(DEAD, letter).await?;
        Ok(true)
    }

    /// Removes a message from a timer's subject that is no timer, and that would lie there until one is set. False if there is none
    /// with this sequence (any more); timers are left alone.
    pub async fn drop_stuck(&self, sequence: u64) -> Result<bool, Error> {
        let is_stuck = |message: &StreamMessage| {
            covers(subject::ALL_TIMERS, &message.subject) && message.headers.get(NATS_SCHEDULE).is_none()
        };
        if !self.message(WORK, sequence).await?.as_ref().is_some_and(is_stuck) {
            return Ok(false);
        }
        self.remove(WORK, sequence).await?;
        Ok(true)
    }

    async fn ask_instead(&self, letter: &StreamMessage, object: &ObjectRef, lane: Lane) -> Result<Redriven, Error> {
        let to = subject::work(lane, object)?;
        let mut headers = HeaderMap::new();
        claim(letter, &mut headers);
        let work = Work::new(object.clone(), Cause::Replayed);
        let stored = self.publish_envelope(to.clone(), work, headers, None).await;
        self.sent(letter, to, stored).await
    }

    /// Removes a letter whose message is stored, and says what became of it.
    async fn sent(
        &self,
        letter: &StreamMessage,
        to: String,
        stored: Result<Published, Error>,
    ) -> Result<Redriven, Error> {
        let published = match stored {
            Ok(published) => published,
            Err(Error::Changed(_)) => {
                // What waits there may be this very letter, sent by somebody else a moment ago.
                let is_kept = self.message(DEAD, letter.sequence).await?.is_some();
                return Ok(if is_kept { Redriven::Waits { subject: to } } else { Redriven::Gone });
            }
            Err(error) => return Err(error),
        };
        self.remove(DEAD, letter.sequence).await?;
        Ok(if published.duplicate {
            Redriven::Already { subject: to }
        } else {
            Redriven::Sent { subject: to, sequence: published.sequence }
        })
    }

    /// Removes a message from a stream. That it has gone already is as good.
    pub(super) async fn remove(&self, stream: &'static str, sequence: u64) -> Result<(), Error> {
        match self.api(&format!("STREAM.MSG.DELETE.{stream}"), &json!({ "seq": sequence, "no_erase": true })).await {
            Ok(_) => Ok(()),
            // No code of its own tells that it is gone from other failures; what matters is whether it is there.
            Err(refusal) => match self.message(stream, sequence).await {
                Ok(None) => Ok(()),
                _ => Err(refusal.into()),
            },
        }
    }
}

/// Makes a message the one that answers a letter, and keeps it from the place of one that waits.
fn claim(letter: &StreamMessage, headers: &mut HeaderMap) {
    // The time as well, since a stream that was made again counts from the beginning.
    headers.insert(NATS_MESSAGE_ID, format!("redriven/{}/{}", letter.sequence, letter.time.unix_timestamp_nanos()));
    headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, "0");
}

/// The headers that a message had before it was buried, without those that act on the server.
fn originals(letter: &StreamMessage) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, values) in letter.headers.iter() {
        let name: &str = name.as_ref();
        if let Some(name) = name.strip_prefix(dead::ORIGINAL).filter(|name| is_harmless(name)) {
            for value in values {
                headers.append(name, value.as_str());
            }
        }
    }
    headers
}

/// Whether a header means nothing to the server.
pub(super) fn is_harmless(name: &str) -> bool {
    !name.is_empty() && !name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-"))
}

/// Whether it is a subject that a message on the queue of work can have had.
fn is_work(subject: &str) -> bool {
    let prefix = subject::ALL_WORK.trim_end_matches('>');
    subject.len() <= 1024
        && subject.starts_with(prefix)
        && subject.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '*' | '>'))
        && subject.split('.').all(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: Q-10
    #[test]
    fn only_to_the_queue_of_work_is_anything_sent_again() {
        for subject in ["work.urgent.server.ns.a", "work.x", "work.urgent.planet.ns.a~b"] {
            assert!(is_work(subject), "{subject}");
        }
        for subject in [
            "",
            "work",
            "work.",
            "work.>",
            "work.*.a",
            "work..a",
            "timer.server.ns.a",
            "$JS.API.STREAM.DELETE.WORK",
            "work.a b",
        ] {
            assert!(!is_work(subject), "{subject}");
        }
    }

    /// Proves
    #[test]
    fn headers_that_act_on_the_server_are_not_sent_again() {
        for name in ["Nats-Msg-Id", "nats-rollup", "NATS-Expected-Stream", "Nats-Schedule-Target", ""] {
            assert!(!is_harmless(name), "{name}");
        }
        assert!(is_harmless("ce-id") && is_harmless("natsy") && is_harmless("é"));
    }
}
