//! The vocabulary of Weir: custom resources, typed identifiers, conditions, names and labels.
//!
//! Intention: everything that more than one part has to spell the same way is spelled here, once. A name used to look
//! a cloud resource up and the name used to create it come from one function ([`names`]); a condition's reason is an
//! enum ([`conditions`]); what a failure leads to is part of its type ([`problem`]).
//!
//! Invariants: no I/O, no clock, no randomness. Depends on the Kubernetes *types*, never on a client.

pub mod conditions;
pub mod crd;
pub mod kind;
pub mod labels;
pub mod names;
pub mod problem;
pub mod server;
pub mod user_data;

pub use kind::{Kind, ObjectRef};
pub use problem::{Consequence, Problem};
