//! What can go wrong, as a class that carries its consequence (OSC-7).
//!
//! An [`Error`] has two audiences. Its `Display` is ours: service, request and class, fit for a log. [`Error::detail`] is what
//! the cloud said: for operators only, bounded, with secrets removed; it never belongs in a status or an answer to a user.

mod body;
mod classify;
mod retry_after;

use std::fmt;
use std::time::Duration;

pub(crate) use body::Fault;
pub(crate) use classify::classify;
pub(crate) use retry_after::retry_after;

use crate::{Service, TransportError};

/// The result of a request.
pub type Result<T> = std::result::Result<T, Error>;

/// The class of a failure, decided in one table from service, status and body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It is not there, or not visible in this scope.
    NotFound,
    /// It contradicts what is there: a duplicate, something in use, the wrong state.
    Conflict,
    /// It is being changed by something else: the same request will do later.
    NotNow,
    /// A quota is used up.
    QuotaExceeded,
    /// The request itself is wrong: the same request will never do.
    BadRequest,
    /// The credential was refused, also with a new token; or it is gone.
    Unauthorized,
    /// The cloud's policy does not let this credential do it.
    Forbidden,
    /// Too many requests.
    RateLimited,
    /// The service failed, could not be reached or did not answer in time. A request that writes may have taken effect.
    Unavailable,
    /// The cloud lacks the service, or the version of it that Weir speaks.
    Unsupported,
    /// The answer made no sense.
    NotUnderstood,
    /// The cloud contradicts itself: two resources where a name must be unique, a list without an end.
    Inconsistent,
    /// A layer of ours withheld the request (a lost lease): nothing was sent.
    Withheld,
}

impl Class {
    /// A fixed name for labels and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not found",
            Self::Conflict => "conflict",
            Self::NotNow => "not now",
            Self::QuotaExceeded => "quota exceeded",
            Self::BadRequest => "bad request",
            Self::Unauthorized => "unauthorised",
            Self::Forbidden => "forbidden by policy",
            Self::RateLimited => "rate limited",
            Self::Unavailable => "unavailable",
            Self::Unsupported => "not supported",
            Self::NotUnderstood => "not understood",
            Self::Inconsistent => "inconsistent",
            Self::Withheld => "withheld",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request that failed.
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    class: Class,
    service: Service,
    method: String,
    path: String,
    status: Option<u16>,
    kind: Option<String>,
    retry_after: Option<Duration>,
    request_id: Option<String>,
    detail: String,
}

impl Error {
    /// The most of a cloud's words that is kept, in bytes.
    pub const DETAIL_LIMIT: usize = 2048;

    /// An error about a request, before anything is known of an answer. `path` must hold no secret and no query.
    pub(crate) fn new(class: Class, service: Service, method: &str, path: &str) -> Self {
        Self(Box::new(Inner {
            class,
            service,
            method: method.to_owned(),
            path: path.to_owned(),
            status: None,
            kind: None,
            retry_after: None,
            request_id: None,
            detail: String::new(),
        }))
    }

    pub(crate) fn with_class(mut self, class: Class) -> Self {
        self.0.class = class;
        self
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    pub(crate) fn with_kind(mut self, kind: Option<String>) -> Self {
        self.0.kind = kind;
        self
    }

    pub(crate) fn with_retry_after(mut self, delay: Option<Duration>) -> Self {
        self.0.retry_after = delay;
        self
    }

    pub(crate) fn with_request_id(mut self, id: Option<String>) -> Self {
        self.0.request_id = id;
        self
    }

    /// `detail` must have been through [`crate::redact::text`] if any of it came from outside.
    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        truncate(&mut detail, Self::DETAIL_LIMIT);
        self.0.detail = detail;
        self
    }

    pub(crate) fn from_transport(error: &TransportError, service: Service, method: &str, path: &str) -> Self {
        let class = match error {
            TransportError::Connect(_) | TransportError::Broken(_) | TransportError::Timeout => Class::Unavailable,
            TransportError::TooLarge { .. } => Class::NotUnderstood,
            TransportError::Withheld(_) => Class::Withheld,
        };
        Self::new(class, service, method, path).with_detail(error.to_string())
    }

    /// The class, which decides what to do next.
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// The service asked.
    pub fn service(&self) -> Service {
        self.0.service
    }

    /// The HTTP method of the request.
    pub fn method(&self) -> &str {
        &self.0.method
    }

    /// The path of the request, without its query.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The HTTP status, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The cloud's own name for the failure, such as `SecurityGroupRuleExists` or `conflictingRequest`, if it gave one.
    pub fn kind(&self) -> Option<&str> {
        self.0.kind.as_deref()
    }

    /// How long the cloud asked to wait (OSC-8).
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The request id the cloud answered with.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// What the cloud said: for operators only. At most [`Error::DETAIL_LIMIT`] bytes, secrets removed.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Whether the resource is not there.
    pub fn is_not_found(&self) -> bool {
        self.0.class == Class::NotFound
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { class, service, method, path, status, .. } = &*self.0;
        write!(f, "{service}: {method} {path}: {class}")?;
        if let Some(status) = status {
            write!(f, " (HTTP {status})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Makes of *not found* an ordinary answer.
pub trait OrAbsent<T> {
    /// `None` if the resource is not there; every other failure stays one.
    fn or_absent(self) -> Result<Option<T>>;
}

impl<T> OrAbsent<T> for Result<T> {
    fn or_absent(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Cuts `text` to at most `limit` bytes, at a character's edge.
pub(crate) fn truncate(text: &mut String, limit: usize) {
    if text.len() > limit {
        let edge = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(edge);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn an_error_says_what_was_asked_and_not_what_the_cloud_answered() {
        let error = Error::new(Class::Conflict, Service::Network, "DELETE", "/networks/n1")
            .with_status(409)
            .with_detail("ports a, b still in use");
        assert_eq!(error.to_string(), "network: DELETE /networks/n1: conflict (HTTP 409)");
        assert_eq!(error.detail(), "ports a, b still in use");
    }

    #[test]
    fn a_detail_is_cut_at_a_characters_edge() {
        let error = Error::new(Class::Conflict, Service::Network, "GET", "/").with_detail("é".repeat(2000));
        assert_eq!(error.detail().len(), Error::DETAIL_LIMIT);
        let error =
            Error::new(Class::Conflict, Service::Network, "GET", "/").with_detail(format!("x{}", "é".repeat(2000)));
        assert_eq!(error.detail().len(), Error::DETAIL_LIMIT - 1);
    }

    #[test]
    fn only_not_found_becomes_absence() {
        let failed = |class| Err::<(), _>(Error::new(class, Service::Compute, "GET", "/servers/x"));
        assert!(matches!(failed(Class::NotFound).or_absent(), Ok(None)));
        assert!(failed(Class::Unavailable).or_absent().is_err());
        assert!(matches!(Ok(1).or_absent(), Ok(Some(1))));
    }
}
