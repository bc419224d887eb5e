//! What surrounds a function: the queue it is called from, the lease it holds, the reads and writes it does.
//!
//! Intention: a function of Weir is three rooms, `observe`, `decide` and `act`, and knows of nothing else. This crate
//! calls it: [`worker`] takes messages off the queue, one at a time for each object ([`lease`]), [`reconcile`] reads the
//! object, keeps its finalizer, turns the outcome into status, and says when to come again ([`timer`]).
//!
//! Invariants
//! - No call runs without a lease, and none writes after it has lost it ([`gate`]).
//! - At the end of a call: status, then timer, then acknowledgement, then lease.
//! - A function learns nothing from a message but which object to look at.
//!
//! Caveat: a write that is already on the wire when a lease is lost cannot be called back. In Kubernetes the resource
//! version catches it; in OpenStack the look-up before every create and the exact names do.

pub mod dependants;
pub mod function;
pub mod gate;
pub mod kubernetes;
pub mod lambda;
pub mod lease;
pub mod queue;
pub mod reconcile;
pub mod record;
pub mod run;
pub mod settings;
pub mod telemetry;
pub mod timer;
pub mod worker;

pub use function::{Foothold, Function, Object, Scope};
