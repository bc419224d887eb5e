//! A server that Nova could not start, deleted and made again, a bounded number of times (RTY). Pure.
//!
//! Invariants
//! - A server that may have booted is never touched. Whatever says that it has, of Nova and of its status, is believed; and so
//!   is Nova's silence (RTY-2).
//! - A failure is counted, and that is durable, before the failed server is deleted: a call that dies in between costs an
//!   attempt, never grants one (RTY-5).
//! - At the cap nothing more is made, also if the last failed server goes by other hands.
//!
//! The monitor's `Healthy` sets it off (RTY-3), so that one glance of one call deletes nothing; the decision is made from a
//! fresh look.

use weir_api::crd::ServerStatus;
use weir_api::server::{self, Active};
use weir_provider::server::{Booted, View};

/// How many creates there may be in all, unless configured.
pub const ATTEMPTS: i32 = 3;

/// What a Server's status says that bears on another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// How many attempts have failed.
    pub failures: i32,
    /// Whether the last one is being removed.
    pub retrying: bool,
    /// Whether the monitor has found the server in error.
    pub errored: bool,
    /// Whether anything says that the server has run.
    pub ran: bool,
}

impl Record {
    /// What `status` says.
    pub fn of(status: &ServerStatus) -> Self {
        let active = Active::of(status);
        Self {
            failures: status.provider_create_failures.unwrap_or_default().max(0),
            retrying: status.provider_create_retrying.unwrap_or_default(),
            errored: server::is_errored(status),
            ran: status.provisioned_at.is_some()
                || status.launched_at.is_some()
                || matches!(active, Some(Active::Running | Active::Stopping | Active::Stopped)),
        }
    }
}

/// What to do about a server that may have failed to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing of this: go on with whatever else there is to do, making the server among that.
    Proceed,
    /// It has failed to start; the monitor has not said so yet, and will wake us when it does.
    Await,
    /// Count a failure, as this many, and say that it is being removed; then look again soon.
    Count(i32),
    /// Delete the failed server.
    Delete,
    /// The failed server is gone: [`reset`] the status; then look again soon.
    Reset,
    /// It was to be removed, but has come to life, or may have: say no more that it is.
    Spare,
    /// There are no attempts left: record this many failures, and leave it to an operator.
    GiveUp(i32),
}

/// Decides. `server` is a fresh look at the server, `None` if there is none; `most` how many creates there may be.
pub fn decide(record: &Record, server: Option<&View>, most: i32) -> Step {
    let most = most.max(1);
    let exhausted = record.failures >= most;
    let Some(view) = server else {
        return match record {
            Record { retrying: true, .. } => Step::Reset,
            Record { ran: false, .. } if exhausted => Step::GiveUp(most),
            _ => Step::Proceed,
        };
    };
    if !view.is_error() || record.ran || view.booted != Booted::Never {
        return if record.retrying { Step::Spare } else { Step::Proceed };
    }
    match record {
        Record { retrying: true, .. } => Step::Delete,
        _ if exhausted => Step::GiveUp(most),
        Record { errored: false, .. } => Step::Await,
        Record { failures, .. } if failures + 1 >= most => Step::GiveUp(most),
        Record { failures, .. } => Step::Count(failures + 1),
    }
}

/// Forgets what was told of a server that is gone (RTY-6), but for what is never forgotten: that it once ran, and its MAC.
pub fn reset(status: &mut ServerStatus) {
    status.provider_create_retrying = Some(false);
    status.private_ip = None;
    status.public_ip = None;
    status.launched_at = None;
    status.scheduled_at = None;
}

#[cfg(test)]
mod tests;
