//! What travels on the queue: subjects, envelopes, and the schemas that describe them.
//!
//! Intention: whoever puts a message on the queue and whoever takes it off agree here and nowhere else. A message says
//! *look at this object* ([`Work`]); it carries no state and no authority, so a lost duplicate, a reordering or a replay
//! can cost time but never correctness.
//!
//! Invariants
//! - No I/O, and no dependency on a NATS client: headers go in and come out as plain strings.
//! - Everything that is decoded is bounded and checked first; a decoder never panics, whatever the bytes.
//! - A reader ignores fields that it does not know, and refuses schema versions from the future.
//! - The JSON Schemas in `queue-schemas/` are generated from these types ([`schema`]); a test fails when they drift.

#![warn(missing_docs)]

pub mod dead;
pub mod envelope;
pub mod lane;
pub mod lease;
pub mod recording;
pub mod schema;
pub mod subject;
pub mod tick;
pub mod trace;
pub mod work;

pub use envelope::{DecodeError, EncodeError, Encoded, Envelope};
pub use lane::Lane;
pub use recording::Recording;
pub use tick::Tick;
pub use trace::Traceparent;
pub use work::{Cause, Work};
