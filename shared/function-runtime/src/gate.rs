//! The gate before every write: a call that has lost its lease writes nothing more.
//!
//! Intention: no function has to remember to ask. The clients that a [`crate::Scope`] hands out are wrapped here; each
//! request that could change something is refused once the lease is lost or the call's deadline has passed.
//! Reads are let through: they harm nobody, and a refused write ends the call soon enough.

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use std::sync::Arc;
use std::time::Instant;
use weir_openstack::{Purpose, Transport, TransportError, purpose};

/// Why a write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another worker may hold the object by now.
    #[error("the lease on the object is lost; nothing more is written")]
    LeaseLost,
    /// The call has run for as long as it may.
    #[error("the call's time is up; nothing more is written")]
    TimeUp,
}

/// Asked before every write.
pub trait Gate: Send + Sync + 'static {
    /// Whether a write may still be made. Synchronous and cheap: it is asked just before the bytes go out.
    fn check(&self) -> Result<(), Refused>;
}

/// A gate made of a lease and a deadline.
pub struct CallGate {
    lease: Arc<crate::lease::Lease>,
    deadline: Instant,
}

impl CallGate {
    /// The gate of a call that holds `lease` until `deadline`.
    pub fn new(lease: Arc<crate::lease::Lease>, deadline: Instant) -> Self {
        Self { lease, deadline }
    }
}

impl Gate for CallGate {
    fn check(&self) -> Result<(), Refused> {
        self.lease.check().map_err(|_| Refused::LeaseLost)?;
        if Instant::now() >= self.deadline { Err(Refused::TimeUp) } else { Ok(()) }
    }
}

pub(crate) fn changes_something(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// A Kubernetes client whose writes ask the gate first.
pub fn kubernetes(client: &kube::Client, gate: Arc<dyn Gate>) -> kube::Client {
    let inner = client.clone();
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, gate) = (inner.clone(), gate.clone());
        async move {
            if changes_something(request.method()) {
                gate.check()?;
            }
            Ok::<_, tower::BoxError>(inner.send(request).await?)
        }
    });
    kube::Client::new(service, namespace)
}

/// An OpenStack transport whose writes ask the gate first. Getting a token is no write: it changes nothing anybody owns.
pub struct GatedTransport {
    inner: Arc<dyn Transport>,
    gate: Arc<dyn Gate>,
}

impl GatedTransport {
    /// Puts `gate` before `inner`.
    pub fn new(inner: Arc<dyn Transport>, gate: Arc<dyn Gate>) -> Self {
        Self { inner, gate }
    }
}

impl Transport for GatedTransport {
    fn send(&self, request: Request<bytes::Bytes>) -> BoxFuture<'_, Result<Response<bytes::Bytes>, TransportError>> {
        if purpose(&request) == Purpose::Write
            && let Err(refused) = self.gate.check()
        {
            return Box::pin(std::future::ready(Err(TransportError::Withheld(refused.to_string()))));
        }
        self.inner.send(request)
    }
}
