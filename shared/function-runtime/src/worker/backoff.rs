//! How long to wait after a call. Pure: what is random comes in as an argument.

use std::time::Duration;

use weir_messages::{Cause, Lane, Work};

use super::Verdict;
use crate::timer;

/// The delay before the first retry has this ceiling; each further one doubles it.
const FIRST: Duration = Duration::from_secs(1);
/// No retry's delay has a ceiling above this.
const CAP: Duration = Duration::from_secs(5 * 60);
/// From this many failures on, retries take the routine lane: nobody's edit should wait behind what keeps failing.
const ROUTINE_FROM: u32 = 3;

/// What becomes of the object's timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// It is cleared.
    Clear,
    /// It is set.
    Set { work: Work, lane: Lane, delay: Duration },
}

/// What becomes of the timer after `verdict` on `work`; `None` after [`Verdict::Abandoned`], when it is another's
/// business. `fraction` is a random number from 0 to 1.
pub(super) fn plan(verdict: Verdict, work: &Work, lane: Lane, fraction: f64, safety_net: Duration) -> Option<Plan> {
    let set = |cause, attempt, lane, delay: Duration| {
        Some(Plan::Set { work: work.again(cause, attempt), lane, delay: delay.min(timer::LONGEST) })
    };
    match verdict {
        Verdict::Settled | Verdict::Gone | Verdict::Parked => Some(Plan::Clear),
        // The count of failures is kept: an object that yields between two failures is still failing.
        Verdict::After { delay } => set(Cause::Requeued, work.attempt, lane, delay),
        Verdict::Retry { after } => {
            let attempt = work.attempt.saturating_add(1);
            let lane = if attempt >= ROUTINE_FROM { Lane::Routine } else { lane };
            // Whoever refuses and says *again at once* is not taken at their word: that would be a loop.
            let after = after.map(|after| after.max(timer::STEP));
            set(Cause::Retry, attempt, lane, after.unwrap_or_else(|| ceiling(work.attempt).mul_f64(fraction)))
        }
        // Spread, so that ten thousand that wait for one event do not come at once if it is lost.
        Verdict::Waiting => set(Cause::Requeued, 0, Lane::Routine, safety_net.mul_f64(0.8 + 0.2 * fraction)),
        Verdict::Abandoned => None,
    }
}

/// The longest delay after `failures` earlier failures.
fn ceiling(failures: u32) -> Duration {
    FIRST.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX)).min(CAP)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use weir_api::{Kind, ObjectRef};

    const NET: Duration = Duration::from_secs(300);

    fn work(attempt: u32) -> Work {
        Work { attempt, ..Work::new(ObjectRef::new(Kind::Server, "ns", "a"), Cause::Changed) }
    }

    fn set(verdict: Verdict, attempt: u32, fraction: f64) -> (Work, Lane, Duration) {
        match plan(verdict, &work(attempt), Lane::Urgent, fraction, NET) {
            Some(Plan::Set { work, lane, delay }) => (work, lane, delay),
            other => panic!("{other:?}"),
        }
    }

    /// Proves: Q-8
    #[test]
    fn retries_double_from_a_second_to_five_minutes_with_full_jitter() {
        let retry = Verdict::Retry { after: None };
        for (attempt, seconds) in [(0, 1), (1, 2), (2, 4), (8, 256), (9, 300), (10, 300), (u32::MAX, 300)] {
            let (next, _, longest) = set(retry, attempt, 1.0);
            assert_eq!(longest, Duration::from_secs(seconds), "after {attempt} failures");
            assert_eq!(set(retry, attempt, 0.0).2, Duration::ZERO, "the whole range is used");
            assert_eq!(next.attempt, attempt.saturating_add(1), "the payload carries the count");
            assert_eq!(next.cause, Cause::Retry);
        }
    }

    /// Proves: Q-8
    #[test]
    fn a_yield_keeps_its_delay_and_is_no_failure() {
        let (next, lane, delay) = set(Verdict::After { delay: Duration::from_secs(10) }, 4, 0.3);
        assert_eq!((next.attempt, lane, delay), (4, Lane::Urgent, Duration::from_secs(10)));
    }

    #[test]
    fn what_keeps_failing_leaves_the_urgent_lane() {
        let retry = Verdict::Retry { after: None };
        assert_eq!(set(retry, 1, 0.5).1, Lane::Urgent);
        assert_eq!(set(retry, 2, 0.5).1, Lane::Routine);
    }

    #[test]
    fn an_absurd_delay_is_cut_to_what_a_timer_can_do() {
        let year = Duration::from_secs(365 * 24 * 3600);
        assert_eq!(set(Verdict::Retry { after: Some(year) }, 0, 0.5).2, timer::LONGEST);
        assert_eq!(set(Verdict::After { delay: year }, 0, 0.5).2, timer::LONGEST);
        assert_eq!(set(Verdict::Retry { after: Some(Duration::ZERO) }, 0, 0.5).2, timer::STEP);
    }

    #[test]
    fn what_is_done_or_parked_has_no_timer_and_what_waits_has_a_long_one() {
        for verdict in [Verdict::Settled, Verdict::Gone, Verdict::Parked] {
            assert_eq!(plan(verdict, &work(3), Lane::Urgent, 0.5, NET), Some(Plan::Clear));
        }
        let (next, lane, delay) = set(Verdict::Waiting, 3, 0.0);
        assert_eq!((next.attempt, lane, delay), (0, Lane::Routine, Duration::from_secs(240)));
        assert_eq!(plan(Verdict::Abandoned, &work(0), Lane::Urgent, 0.5, NET), None);
    }
}
