//! How a request leaves the process: one object-safe seam, so that a caller can put layers around it (a lease check before
//! each write, a recorder, a replay).

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;

/// Sends one request and returns the whole answer. Whatever the status is, an answer is `Ok`.
///
/// Layers find out with [`purpose`] whether a request may change something. A layer that will not let a request through
/// answers [`TransportError::Withheld`].
pub trait Transport: Send + Sync {
    /// Sends `request`. Dropping the future abandons the request; whether it took effect is then unknown.
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>>;
}

/// Why there is no answer. Texts hold no URL and no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No connection was made: the request was not sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke: whether the request took effect is unknown.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// No answer in time: whether the request took effect is unknown.
    #[error("no answer within the deadline")]
    Timeout,
    /// The answer is larger than is read.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A layer of ours did not let it through: the request was not sent.
    #[error("not sent: {0}")]
    Withheld(String),
}

impl TransportError {
    /// Whether a read or a delete may be repeated at once.
    pub(crate) const fn is_connection(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Broken(_))
    }
}

/// What a request is for, seen by the layers of a [`Transport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Getting a token: changes nothing in the cloud, and holds a secret.
    Authenticate,
    /// Reading.
    Read,
    /// Anything that may change the cloud.
    Write,
}

/// The purpose of a request made by this crate; one made elsewhere is judged by its method.
pub fn purpose<B>(request: &http::Request<B>) -> Purpose {
    request.extensions().get::<Purpose>().copied().unwrap_or_else(|| of_method(request.method()))
}

pub(crate) fn of_method(method: &Method) -> Purpose {
    if *method == Method::GET || *method == Method::HEAD || *method == Method::OPTIONS {
        Purpose::Read
    } else {
        Purpose::Write
    }
}
