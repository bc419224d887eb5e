//! Dead letters: messages that no retry can help, kept with their reason and their original bytes.
//!
//! The payload of a dead letter is the original payload, untouched. The original headers are kept under
//! [`ORIGINAL`]`<name>`, so that none of them acts on the stream of dead letters (a `Nats-Rollup` would empty it) and so
//! that sending the message again can restore them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the schema of [`Headers`], and of its file in `queue-schemas/`, without `.json`.
pub const SCHEMA: &str = "dead-letter-headers.v1";
/// What the name of each original header is prefixed with.
pub const ORIGINAL: &str = "Weir-Original-";

/// The headers of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Headers {
    /// Why it is here, as a stable token: see [`crate::DecodeError::token`].
    #[serde(rename = "Weir-Dead-Reason")]
    pub reason: String,
    /// Why it is here, in words.
    #[serde(rename = "Weir-Dead-Detail")]
    pub detail: String,
    /// The subject that it came on.
    #[serde(rename = "Weir-Dead-Subject")]
    pub subject: String,
    /// Its sequence in the stream that it came from.
    #[serde(rename = "Weir-Dead-Sequence")]
    pub sequence: String,
    /// When it was found hopeless, in RFC 3339.
    #[serde(rename = "Weir-Dead-Time")]
    pub time: String,
    /// The process that found it so.
    #[serde(rename = "Weir-Dead-By")]
    pub by: String,
    /// `false` when the message was too large to be kept whole, with its headers, in a dead letter.
    #[serde(rename = "Weir-Dead-Complete")]
    pub complete: String,
}

impl Headers {
    /// The headers as name and value. A value holds no control characters: those are replaced by blanks.
    pub fn pairs(&self) -> [(&'static str, String); 7] {
        [
            ("Weir-Dead-Reason", clean(&self.reason)),
            ("Weir-Dead-Detail", clean(&self.detail)),
            ("Weir-Dead-Subject", clean(&self.subject)),
            ("Weir-Dead-Sequence", clean(&self.sequence)),
            ("Weir-Dead-Time", clean(&self.time)),
            ("Weir-Dead-By", clean(&self.by)),
            ("Weir-Dead-Complete", clean(&self.complete)),
        ]
    }
}

/// A header value from an untrusted string: one line, bounded.
pub fn clean(value: &str) -> String {
    value.chars().take(1024).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
