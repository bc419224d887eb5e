//! Ticks: it is time to look at every object of a kind.
//!
//! A tick is put into the stream by the server, at each interval of a schedule whose headers and payload it copies. So all
//! ticks of one schedule have the same `ce-id`, of all things that tell events apart; theirs is the sequence in the stream.
//! Whoever takes one goes by its subject alone: what an earlier release has scheduled has neither headers nor payload.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use weir_api::Kind;

use crate::envelope::{self, EncodeError, Encoded};

/// The CloudEvents type of [`Tick`] without its version.
pub const TYPE: &str = "weir.tick";
/// The version of [`Tick`].
pub const VERSION: u32 = 1;
/// The name of the schema of [`Tick`], and of its file in `queue-schemas/`, without `.json`.
pub const SCHEMA: &str = "tick.v1";

/// Look at every object of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tick {
    /// The kind.
    pub kind: Kind,
    /// The interval of the schedule that made the tick, in seconds. Whoever takes it spreads the looks over a part of this,
    /// whatever interval it would have set itself. Absent in what an earlier release has scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<u32>,
}

impl Tick {
    /// A tick from `source` as it goes on the wire, and into a schedule.
    pub fn encode(&self, source: impl Into<String>) -> Result<Encoded, EncodeError> {
        let (id, kind) = (Uuid::new_v4().to_string(), format!("{TYPE}.v{VERSION}"));
        let mut headers = envelope::headers(id, source.into(), kind, self.kind.to_string(), SCHEMA);
        headers.push(("ce-time", Timestamp::now().to_string()));
        envelope::check(&headers)?;
        Ok(Encoded { headers, payload: serde_json::to_vec(self)? })
    }
}
