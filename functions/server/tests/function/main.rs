//! The server function against a simulated cluster and cloud, called as the worker calls it.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod converge;
mod dependencies;
mod faults;
mod life;
mod placement;
mod rebuild;
mod removal;
mod retry;
mod world;
