//! Burying messages that no retry can help.

use std::time::Duration;

use async_nats::{HeaderMap, Message};
use bytes::Bytes;
use jiff::Timestamp;
use weir_messages::{DecodeError, dead, subject};

use super::{Error, Queue};
use crate::telemetry::metrics;

/// Why a message is hopeless.
pub(crate) struct Reason {
    pub(crate) token: &'static str,
    pub(crate) detail: String,
}

impl From<&DecodeError> for Reason {
    fn from(error: &DecodeError) -> Self {
        Self { token: error.token(), detail: error.to_string() }
    }
}

/// A message as it was found on the queue.
pub(crate) struct Found<'a> {
    pub(crate) subject: &'a str,
    pub(crate) headers: Option<&'a HeaderMap>,
    pub(crate) payload: &'a [u8],
    /// Its sequence in the stream.
    pub(crate) sequence: u64,
    /// What tells its burial from those of others: several processes may come upon the same message at once, and one whose
    /// acknowledgement is late comes again.
    pub(crate) once: Option<String>,
}

/// [`Found::once`] of a message in the stream of work.
pub(super) fn once(sequence: u64, stored: Timestamp) -> String {
    // The time as well, since a stream that was made again counts from the beginning.
    format!("buried/{sequence}/{}", stored.as_nanosecond())
}

impl<'a> Found<'a> {
    /// A message that was delivered here, and when it was stored.
    pub(crate) fn delivered(message: &'a Message, sequence: u64, stored: Option<Timestamp>) -> Self {
        let Message { subject, headers, payload, .. } = message;
        let once = stored.map(|stored| once(sequence, stored));
        Self { subject, headers: headers.as_ref(), payload, sequence, once }
    }
}

impl Queue {
    /// Stores a message as a dead letter: its bytes untouched, its headers under other names, and the reason.
    ///
    /// The caller takes the message off the queue afterwards, and only then: it is in one of the two places at any time.
    pub(crate) async fn bury(&self, message: Found<'_>, reason: &Reason) -> Result<(), Error> {
        let mut letter = dead::Headers {
            reason: reason.token.to_owned(),
            detail: reason.detail.clone(),
            subject: message.subject.to_owned(),
            sequence: message.sequence.to_string(),
            time: Timestamp::now().to_string(),
            by: self.name().to_owned(),
            complete: true.to_string(),
        };
        let address = subject::dead(message.subject);
        let send = |letter: &dead::Headers, originals: Option<&HeaderMap>, payload: &[u8]| {
            let mut headers = headers(letter, originals);
            if let Some(id) = &message.once {
                headers.insert(async_nats::header::NATS_MESSAGE_ID, id.as_str());
            }
            self.store(address.clone(), headers, Bytes::copy_from_slice(payload), Duration::ZERO)
        };
        let buried = match send(&letter, message.headers, message.payload).await {
            // Together with the reason it is more than one message may hold. Better most of it than none.
            Err(Error::TooLarge) => {
                letter.complete = false.to_string();
                let room = self.client().max_payload().saturating_sub(16 * 1024).min(message.payload.len());
                send(&letter, None, &message.payload[..room]).await?
            }
            other => other?,
        };
        if buried.duplicate {
            return Ok(());
        }
        metrics::DEAD_LETTERS.inc(&[reason.token]);
        tracing::error!(subject = %letter.subject.escape_debug(), reason = reason.token, detail = %letter.detail.escape_debug(), "message cannot be understood; kept in {}", super::DEAD);
        Ok(())
    }
}

fn headers(letter: &dead::Headers, originals: Option<&HeaderMap>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in letter.pairs() {
        headers.insert(name, value);
    }
    for (name, values) in originals.into_iter().flat_map(HeaderMap::iter) {
        for value in values {
            headers.append(format!("{}{name}", dead::ORIGINAL), dead::clean(value.as_str()));
        }
    }
    headers
}
