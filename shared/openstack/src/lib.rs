//! A thin, typed OpenStack client: Keystone v3, Nova, Neutron, Glance, Cinder's quotas, and Placement's list of hosts.
//!
//! # Intention
//! One module per service, hand-written, holding only the requests Weir makes. A function builds a [`Session`] for each
//! call it handles; what outlives the call is shared by cheap clones: the [`Transport`] (connections) and the
//! [`TokenCache`] (tokens).
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use weir_openstack::{Auth, CallTag, Credential, HttpTransport, Interface, Scope, Secret, Session, Tls, TokenCache};
//!
//! let transport = Arc::new(HttpTransport::new(&Tls::default())?);
//! let tokens = TokenCache::default();
//! let auth = Auth {
//!     endpoint: "https://keystone.example.org".into(),
//!     credential: Credential::Password { user_id: "u".into(), password: Secret::new("…") },
//!     scope: Scope::Project("p".into()),
//! };
//! let session = Session::new(transport, tokens, auth, Interface::Public, CallTag::new(uuid::Uuid::new_v4()));
//! if let Some(network) = session.network().find_network_by_name("network-a1").await? {
//!     println!("{}", network.id);
//! }
//! # Ok(()) }
//! ```
//!
//! # Invariants
//! - Nothing sleeps and nothing polls: a delay the cloud asked for is handed up in [`Error::retry_after`].
//! - A request that may change something is sent once. Reads and deletes are repeated at most twice, and only when the
//!   connection broke (OSC-9). A 401 costs one new token and one repeat (OSC-3).
//! - Every name look-up compares the exact name after listing, and every list is read to its end (OSC-5, OSC-6).
//! - No credential reaches a log, a span, an error or a `Debug` text (OSC-13).
//! - A token is only ever sent to the host the catalog named: links in answers lend their query, never their host, and
//!   redirects are not followed.
//!
//! # Caveats
//! - The crate knows nothing of Kubernetes and nothing of Weir's names; it finds what it is asked to find.
//! - Creates do not look first; that is the caller's step, because what "already there" means is the caller's to decide.

#![warn(missing_docs)]

pub mod auth;
pub mod bare_metal;
pub mod block_storage;
pub mod catalog;
pub mod compute;
mod error;
mod id;
pub mod identity;
pub mod image;
mod lenient;
mod meter;
pub mod network;
mod paging;
pub mod placement;
pub mod redact;
mod request;
mod secret;
mod service;
mod session;
mod token;
mod transport;
mod transport_http;

#[cfg(test)]
mod testing;

pub use auth::{Auth, Credential, Scope};
pub use error::{Class, Error, OrAbsent, Result};
pub use id::*;
pub use meter::{Meter, NoMeter, Sample};
pub use secret::Secret;
pub use service::{Interface, Service};
pub use session::{CallTag, Session};
pub use token::{TokenCache, TokenInfo};
pub use transport::{Purpose, Transport, TransportError, purpose};
pub use transport_http::{BuildError, HttpTransport, Tls};
