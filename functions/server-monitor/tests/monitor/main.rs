//! The monitor against a simulated cluster and cloud, and its clock against a real NATS server.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod clock;
mod cost;
mod look;
mod world;
