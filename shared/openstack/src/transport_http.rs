//! The real [`Transport`]: reqwest over rustls (OSC-12).
//!
//! # Invariants
//! - Redirects are not followed: a token would follow them.
//! - An answer is read up to a limit, counted as it arrives.
//! - Errors are described without the URL.
//!
//! # Caveats
//! - A CA bundle *replaces* the system's authorities, as `OS_CACERT` does for every OpenStack tool.
//! - Proxies come from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` (host names and those below them, addresses,
//!   CIDR, `*`), in capitals or not, read when the transport is made.
//! - A certificate that is its own authority is trusted where it is in the bundle.

use std::error::Error as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;

use crate::{Transport, TransportError};

/// How much of an answer is read.
const LIMIT: usize = 64 * 1024 * 1024;
/// A request that outlives this was given up by its session long ago.
const LONGEST: Duration = Duration::from_secs(300);

/// Whom to trust. By default the system's authorities.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// A PEM bundle: trust its authorities, and no others.
    pub ca_bundle: Option<Vec<u8>>,
    /// Trust anybody. An explicit choice for one region: a token sent this way can be stolen.
    pub insecure: bool,
}

/// Why there is no transport.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The bundle holds no certificate, or something that is none.
    #[error("the CA bundle is not a list of PEM certificates")]
    Bundle,
    /// The TLS or HTTP library refused.
    #[error("the HTTP client cannot be made: {0}")]
    Client(String),
}

/// Sends requests over the network. Clones share their connections.
#[derive(Debug, Clone)]
pub struct HttpTransport {
    client: reqwest::Client,
    limit: usize,
}

impl HttpTransport {
    /// A transport with connections of its own.
    pub fn new(tls: &Tls) -> Result<Self, BuildError> {
        // One provider for the process; if another part has installed it already, the better.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = if tls.insecure {
            builder().tls_danger_accept_invalid_certs(true).build()
        } else if let Some(pem) = &tls.ca_bundle {
            let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|_| BuildError::Bundle)?;
            if certificates.is_empty() {
                return Err(BuildError::Bundle);
            }
            builder().tls_certs_only(certificates).build()
        } else {
            // A container without any authority can still speak plain HTTP, and gets a clear error for the rest.
            builder().build().or_else(|_| builder().tls_certs_only(std::iter::empty()).build())
        };
        let client = client.map_err(|error| BuildError::Client(describe(&error)))?;
        Ok(Self { client, limit: LIMIT })
    }

    async fn exchange(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, TransportError> {
        let request = reqwest::Request::try_from(request).map_err(|error| TransportError::Connect(describe(&error)))?;
        let mut response = self.client.execute(request).await.map_err(failure)?;
        let too_large = || TransportError::TooLarge { limit: self.limit };
        if response.content_length().is_some_and(|length| length > self.limit as u64) {
            return Err(too_large());
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(failure)? {
            if body.len() + chunk.len() > self.limit {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        let mut answer = http::Response::new(body.freeze());
        *answer.status_mut() = response.status();
        std::mem::swap(answer.headers_mut(), response.headers_mut());
        Ok(answer)
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>> {
        Box::pin(self.exchange(request))
    }
}

fn builder() -> reqwest::ClientBuilder {
    // The library takes `*` for every name, but for no address.
    let exempt = ["no_proxy", "NO_PROXY"].into_iter().find_map(|name| std::env::var(name).ok());
    let builder = reqwest::Client::builder();
    let builder = if exempt.is_some_and(|exempt| exempt.trim() == "*") { builder.no_proxy() } else { builder };
    builder
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .timeout(LONGEST)
        .pool_idle_timeout(Duration::from_secs(30))
        .tcp_nodelay(true)
}

fn failure(error: reqwest::Error) -> TransportError {
    let error = error.without_url();
    if error.is_timeout() && !error.is_connect() {
        TransportError::Timeout
    } else if error.is_connect() {
        TransportError::Connect(describe(&error))
    } else {
        TransportError::Broken(describe(&error))
    }
}

/// An error with its causes: the last of them is the one that helps.
fn describe(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests;
