//! The two lanes of the queue.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How soon somebody wants the work done. Ten thousand objects listed again after a restart must not delay one
/// person's edit, so the two wait in different lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// Somebody changed something and may be watching.
    Urgent,
    /// Lists, resyncs, periodic ticks: nobody waits for them.
    Routine,
}

/// A token that names no [`Lane`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown lane {0:?}; known are urgent and routine")]
pub struct UnknownLane(pub String);

impl Lane {
    /// Both lanes, the urgent one first.
    pub const ALL: [Self; 2] = [Self::Urgent, Self::Routine];

    /// The lane's token in subjects, consumer names and metrics.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Routine => "routine",
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.token())
    }
}

impl FromStr for Lane {
    type Err = UnknownLane;

    fn from_str(token: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|lane| lane.token() == token).ok_or_else(|| UnknownLane(token.to_owned()))
    }
}
