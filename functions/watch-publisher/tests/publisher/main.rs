//! The publisher between a simulated Kubernetes and a real NATS server.
//!
//! Nothing here waits for time to pass, but for messages to arrive. That something is *not* published shows by what is
//! published after it on the same path.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod away;
mod changes;
mod dependants;
mod health;
mod resync;
mod rig;
