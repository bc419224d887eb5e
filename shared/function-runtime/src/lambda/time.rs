//! How an invocation's time is divided (L-4).

use std::time::{Duration, Instant, SystemTime};

/// No invocation lasts longer than this, whatever its deadline says.
const LONGEST: Duration = Duration::from_secs(3600);
/// The least and the most that is kept for the end of an invocation.
const MARGIN: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(4));

/// The points in the life of an invocation, in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// No call begins, and none begins anything in a cloud, from here on.
    pub(super) deadline: Instant,
    /// A handler that has not returned by now is ended.
    pub(super) end: Instant,
    /// What is not done by now is reported as failed, and the answer is given.
    pub(super) answer: Instant,
}

impl Limits {
    /// The limits of an invocation that Lambda will end at `at`.
    pub(super) fn until(at: SystemTime) -> Self {
        let left = at.duration_since(SystemTime::now()).unwrap_or_default();
        Self::within(Instant::now(), left)
    }

    fn within(now: Instant, left: Duration) -> Self {
        let left = left.min(LONGEST);
        let margin = (left / 5).clamp(MARGIN.0, MARGIN.1).min(left);
        let before_the_end = |time| now + left.saturating_sub(time);
        Self { deadline: before_the_end(margin), end: before_the_end(margin / 2), answer: before_the_end(margin / 4) }
    }

    /// Deadline and end of a call that begins now and may take `most`.
    pub(super) fn of_call(self, most: Duration) -> (Instant, Instant) {
        let deadline = self.deadline.min(Instant::now() + most);
        (deadline, deadline + (self.end - self.deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: L-4
    #[test]
    fn an_answer_is_due_before_the_invocation_ends_and_after_its_calls_have() {
        let now = Instant::now();
        for seconds in [1, 3, 30, 900, u64::MAX] {
            let limits = Limits::within(now, Duration::from_secs(seconds));
            let last = now + Duration::from_secs(seconds).min(LONGEST);
            assert!(now < limits.deadline && limits.deadline < limits.end, "{seconds}: {limits:?}");
            assert!(limits.end < limits.answer && limits.answer < last, "{seconds}: {limits:?}");
            assert!(last - limits.deadline <= MARGIN.1, "{seconds}: no more time is kept than is of use");
            let (deadline, end) = limits.of_call(Duration::from_secs(u64::from(u32::MAX)));
            assert_eq!(
                (deadline, end),
                (limits.deadline, limits.end),
                "{seconds}: a call is bounded by the invocation"
            );
        }
    }

    #[test]
    fn an_invocation_whose_time_is_up_has_no_time_for_anything() {
        let now = Instant::now();
        let limits = Limits::within(now, Duration::ZERO);
        assert_eq!((limits.deadline, limits.answer), (now, now));
    }
}
