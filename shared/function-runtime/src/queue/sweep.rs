//! Sweeping up what no consumer brings to anybody: so that every message is accounted for.
//!
//! Two kinds of messages would lie in the stream for ever.
//! - *Strays* are on a subject that no consumer takes and that this release does not know: a kind that does not exist, a
//!   lane that does not exist. They go to the dead letters.
//! - *Forgotten* ones are on a subject that a consumer takes, but it has given them up: their deliveries had reached a
//!   `max_deliver` that an operator or an earlier release had set. Lifting that limit does not bring them back.
//!   Or the server was killed: it keeps what a consumer has acknowledged and what the stream has removed apart, so that a
//!   message may be in the stream again that its consumer has done with (the chaos test finds some in most runs).
//!   They are sent again, as they are: for one that was done with, this means one call more.
//!
//! Any worker does it, now and then: there is always one, of whatever kind, and two at once do no harm. What is cheap
//! comes first: messages are counted by filter, and listed only when the counts do not add up.
//!
//! Caveats: the counts are taken one after another while the stream changes, so a sweep may miss something, and the next
//! one will not. In an upgrade, messages of a new kind may come before that kind's first worker has made its consumer:
//! therefore the grace.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use async_nats::jetstream::message::StreamMessage;
use weir_messages::subject;

use super::dead::{self, Found};
use super::inspect::{Consumer, stored_at};
use super::streams::covers;
use super::{Error, Queue, Reason, WORK, redrive};
use crate::telemetry::metrics;

/// The most that one sweep does of each.
const MOST: usize = 1000;
/// Counts that do not add up are taken again after this time, since they are not taken at one moment.
const DOUBT: Duration = Duration::from_secs(1);

/// What a sweep has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Messages on subjects that nobody takes, put among the dead letters.
    pub buried: usize,
    /// Messages that their consumer had given up, sent again.
    pub revived: usize,
}

impl Queue {
    /// Sees to messages that no consumer brings to anybody and that are at least `grace` old.
    pub async fn sweep(&self, grace: Duration) -> Result<Swept, Error> {
        let consumers = self.consumers().await?;
        let mut covered = 0;
        let mut swept = Swept::default();
        for consumer in &consumers {
            let mut stored = 0;
            for filter in &consumer.filters {
                stored += self.count(WORK, filter).await?;
            }
            covered += stored;
            if stored > consumer.known() {
                swept.revived += self.revive(consumer, grace).await?;
            }
        }
        if self.count(WORK, subject::ALL_WORK).await? > covered {
            swept.buried = self.bury_strays(&consumers, grace).await?;
        }
        Ok(swept)
    }

    async fn bury_strays(&self, consumers: &[Consumer], grace: Duration) -> Result<usize, Error> {
        let mut buried = 0;
        for subject in self.subjects(WORK, subject::ALL_WORK).await? {
            let Some(reason) = stray(&subject, consumers) else { continue };
            let Some(message) = self.first(WORK, &subject, 1).await?.filter(|message| self.is_old(message, grace))
            else {
                continue;
            };
            let found = Found {
                subject: &subject,
                headers: Some(&message.headers),
                payload: &message.payload,
                sequence: message.sequence,
                once: stored_at(&message).map(|stored| dead::once(message.sequence, stored)),
            };
            self.bury(found, &reason).await?;
            self.remove(WORK, message.sequence).await?;
            metrics::SWEPT.inc(&["buried"]);
            buried += 1;
            if buried == MOST {
                break;
            }
        }
        Ok(buried)
    }

    /// Sends again what `consumer` has given up. Which messages that are cannot be asked; all that it has had for long and
    /// that are still there may be. For one that is in fact in hand this means one call more.
    async fn revive(&self, consumer: &Consumer, grace: Duration) -> Result<usize, Error> {
        tokio::time::sleep(DOUBT).await;
        let Some(consumer) = self.consumers().await?.into_iter().find(|again| again.name == consumer.name) else {
            return Ok(0);
        };
        let mut stored = 0;
        for filter in &consumer.filters {
            stored += self.count(WORK, filter).await?;
        }
        if stored <= consumer.known() {
            return Ok(0);
        }
        let mut revived = 0;
        for filter in &consumer.filters {
            let mut next = 1;
            while let Some(message) = self.first(WORK, filter, next).await? {
                next = message.sequence + 1;
                if message.sequence > consumer.delivered || revived == MOST {
                    break;
                }
                if self.is_old(&message, grace) && self.send_again(&message).await? {
                    metrics::SWEPT.inc(&["revived"]);
                    tracing::warn!(subject = %message.subject, "its consumer had given this message up; sent again");
                    revived += 1;
                }
            }
        }
        Ok(revived)
    }

    /// Puts a message in its own place, unless a newer one has taken that.
    async fn send_again(&self, message: &StreamMessage) -> Result<bool, Error> {
        let mut headers = HeaderMap::new();
        for (name, values) in message.headers.iter() {
            if redrive::is_harmless(name.as_ref()) {
                for value in values {
                    headers.append(name.clone(), value.clone());
                }
            }
        }
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, message.sequence.to_string());
        match self.store(message.subject.to_string(), headers, message.payload.clone(), Duration::ZERO).await {
            Ok(_) => Ok(true),
            Err(Error::Changed(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_old(&self, message: &StreamMessage, grace: Duration) -> bool {
        let age = stored_at(message).map(|stored| self.server_now().duration_since(stored));
        age.is_some_and(|age| Duration::try_from(age).unwrap_or_default() >= grace)
    }
}

/// Why a message on `subject` is a stray; `None` if it is not one.
fn stray(subject: &str, consumers: &[Consumer]) -> Option<Reason> {
    let taken = consumers.iter().flat_map(|consumer| &consumer.filters).any(|filter| covers(filter, subject));
    if taken || covers(subject::ALL_TICKS, subject) {
        return None;
    }
    let error = subject::parse(subject).err()?;
    let token = match &error {
        subject::Error::Kind(_) => "unknown-kind",
        subject::Error::Lane(_) => "unknown-lane",
        subject::Error::Name { .. } | subject::Error::Shape(_) => "bad-subject",
    };
    Some(Reason { token, detail: format!("no function takes it: {error}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: Q-10
    #[test]
    fn a_stray_is_what_nobody_takes_and_this_release_does_not_know() {
        let of_a_later_release = Consumer { filters: vec!["work.urgent.router.>".to_owned()], ..Consumer::default() };
        let consumers = [of_a_later_release];
        for (subject, reason) in [
            ("work.urgent.planet.ns.a", Some("unknown-kind")),
            ("work.slow.server.ns.a", Some("unknown-lane")),
            ("work.urgent.server", Some("bad-subject")),
            ("work.urgent.server.NS.a", Some("bad-subject")),
            ("work.urgent.router.ns.a", None),
            ("work.urgent.volume.ns.a", None),
            ("work.resync.planet", None),
        ] {
            assert_eq!(stray(subject, &consumers).map(|reason| reason.token), reason, "{subject}");
        }
    }
}
