//! A region as Weir sees it: which credential reaches what, and what a cloud's errors mean to an object's owner.
//!
//! Intention: the one place that knows both custom resources and OpenStack. A function asks for a [`Region`], and from
//! it for a session in one of three scopes:
//!
//! | session | credential | used for |
//! |---|---|---|
//! | [`Region::manager`] | the region's, on its Keystone domain | users, projects, roles |
//! | [`Region::manager_in_project`] | the region's, scoped to an identity's project | provider networks, quotas, pinned servers |
//! | [`Region::identity`] | the identity's own | almost everything |
//!
//! Invariants
//! - Region and Secret are read from Kubernetes for every call, so a changed one counts from the next message on
//!   (OSC-4); only connections and tokens outlive a call, tokens under a key that holds the secret's hash (OSC-3).
//! - No text of a provider reaches a [`weir_api::Problem`]'s message (OWN-5).

mod dependency;
mod error;
mod external;
mod ports;
mod record;
mod region;
pub mod server;

pub use dependency::{Purpose, dependency};
pub use error::{During, problem};
pub use ports::described;
pub use record::Record;
pub use region::{Provider, Region, Wrap, identity_roles};
