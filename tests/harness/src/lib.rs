//! What tests run against: a real NATS server ([`nats`]), and a world of both simulators ([`world`]) in which functions
//! are called by hand ([`drive`]), without a queue and without waiting. And the whole product as real processes ([`stack`]),
//! each of which can be killed ([`process`]) or cut off ([`proxy`]).
//!
//! Nothing here is a mock: functions talk HTTP to the simulators, whose behaviour the contract suite holds to that of real
//! services.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc)]

pub mod cluster;
pub mod dice;
pub mod door;
pub mod drive;
pub mod faults;
pub mod leaks;
pub mod nats;
pub mod process;
pub mod proxy;
pub mod rights;
pub mod stack;
pub mod vanishing;
pub mod world;

pub use cluster::Cluster;
pub use dice::Dice;
pub use door::Door;
pub use drive::{Caller, drive};
pub use faults::Case;
pub use stack::Stack;
pub use world::World;
