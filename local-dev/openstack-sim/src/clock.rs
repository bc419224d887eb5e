//! The simulator's clock: the real one, shifted or stopped at will.
//!
//! Everything asynchronous (a server that builds, a token that expires) is computed from this clock when somebody
//! looks, so a test can move time instead of waiting for it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Shifted or frozen time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock {
    offset: SignedDuration,
    frozen: Option<Timestamp>,
}

impl Clock {
    pub fn now(&self) -> Timestamp {
        self.frozen.unwrap_or_else(|| later(Timestamp::now(), self.offset))
    }

    /// Moves time forward, frozen or not.
    pub fn advance(&mut self, by: Duration) {
        let by = signed(by);
        self.offset = self.offset.saturating_add(by);
        self.frozen = self.frozen.map(|at| later(at, by));
    }

    pub fn freeze(&mut self) {
        self.frozen = Some(self.now());
    }

    /// Lets time run on from where it stands.
    pub fn thaw(&mut self) {
        if let Some(at) = self.frozen.take() {
            self.offset = at.duration_since(Timestamp::now());
        }
    }
}

pub(crate) fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// `at + by`, staying at the end of representable time.
pub(crate) fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// `2026-11-29T15:25:54Z`, as Nova, Neutron and Glance write it.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-11-29T15:25:54.000000`, as Nova writes `launched_at`.
pub(crate) fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.000000").to_string()
}
