//! Burying messages that no retry can help.

use async_nats::{HeaderMap, Message};
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

impl Queue {
    /// Stores `message` as a dead letter: its bytes untouched, its headers under other names, and the reason.
    ///
    /// The caller acknowledges the message afterwards, and only then: a message is in one of the two places at any time.
    pub(crate) async fn bury(&self, message: &Message, sequence: u64, reason: &Reason) -> Result<(), Error> {
        let mut letter = dead::Headers {
            reason: reason.token.to_owned(),
            detail: reason.detail.clone(),
            subject: message.subject.to_string(),
            sequence: sequence.to_string(),
            time: Timestamp::now().to_string(),
            by: self.name().to_owned(),
            complete: true.to_string(),
        };
        let address = subject::dead(&message.subject);
        let originals = message.headers.clone().unwrap_or_default();
        let stored =
            match self.store(address.clone(), headers(&letter, Some(&originals)), message.payload.to_vec()).await {
                // Together with the reason it is more than one message may hold. Better most of it than none.
                Err(Error::TooLarge) => {
                    letter.complete = false.to_string();
                    let room = self.client().max_payload().saturating_sub(16 * 1024).min(message.payload.len());
                    self.store(address, headers(&letter, None), message.payload[..room].to_vec()).await
                }
                other => other,
            };
        stored?;
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
