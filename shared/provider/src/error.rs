//! What a cloud's error means to the owner of the object at hand.
//!
//! Invariant: messages are made of our own words, the names of services and what Weir was doing. What the cloud said goes
//! into the detail, for operators (OWN-5).
//!
//! Whatever the cloud can mend by itself, or an operator can mend in the cloud, is tried again: nothing tells Weir when it
//! has been mended, and an object must not stay Errored over a failure that has ended (OWN-7).

use std::time::Duration;
use weir_api::problem::YIELD;
use weir_api::{Consequence, Problem};
use weir_openstack::{Class, Error};

/// The longest that a cloud's `Retry-After` is believed. A proxy gone wrong must not park an object for days.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Says what was being done, to turn an OpenStack error into a [`Problem`].
pub trait During<T> {
    /// `doing` completes "while …", as in `creating the network`.
    fn during(self, doing: &str) -> Result<T, Problem>;
}

impl<T> During<T> for weir_openstack::Result<T> {
    fn during(self, doing: &str) -> Result<T, Problem> {
        self.map_err(|error| problem(&error, doing))
    }
}

/// What an OpenStack error leads to. `doing` completes "while …".
pub fn problem(error: &Error, doing: &str) -> Problem {
    let service = error.service();
    let retry = Consequence::Retry(error.retry_after().map(|wait| wait.min(LONGEST_WAIT)));
    let (consequence, message) = match error.class() {
        Class::NotFound => (
            Consequence::Yield(YIELD),
            format!("something the cloud had a moment ago is gone, while {doing}; looking again"),
        ),
        Class::Conflict => {
            (retry, format!("the cloud's {service} service reports a conflict while {doing}; trying again"))
        }
        Class::NotNow => {
            (Consequence::Yield(YIELD), format!("the cloud is busy with it, while {doing}; looking again"))
        }
        Class::QuotaExceeded => (
            retry,
            format!("a quota of the cloud is used up, while {doing}; free something or ask for more; trying again"),
        ),
        Class::BadRequest => (
            retry,
            format!(
                "the cloud's {service} service refused the request while {doing}; an operator can see why; trying again"
            ),
        ),
        Class::Unauthorized => {
            (retry, format!("the cloud refused the credential while {doing}; an operator has to mend it; trying again"))
        }
        Class::Forbidden => (
            retry,
            format!("the cloud's policy does not allow it while {doing}; an operator has to grant it; trying again"),
        ),
        Class::RateLimited => (retry, format!("the cloud asks to slow down while {doing}; trying again")),
        Class::Unavailable => {
            (retry, format!("the cloud's {service} service is not available while {doing}; trying again"))
        }
        Class::Unsupported => (
            retry,
            format!(
                "the cloud lacks the {service} service, or the version of it that is needed, while {doing}; trying again"
            ),
        ),
        Class::NotUnderstood => (
            retry,
            format!("the cloud's {service} service gave an answer that makes no sense while {doing}; trying again"),
        ),
        Class::Inconsistent => (
            Consequence::Retry(Some(YIELD)),
            format!(
                "the cloud has more than one where there must be one, while {doing}; an operator has to remove the wrong one"
            ),
        ),
        Class::Withheld => (Consequence::Reread, format!("the work on the object was handed over while {doing}")),
    };
    Problem { consequence, reason: None, message, detail: None }.with_detail(format!("{error}: {}", error.detail()))
}
