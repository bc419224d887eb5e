//! What the simulator promises, asked over HTTP as any client would.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod client;
mod compute;
mod faults;
mod identity;
mod image;
mod network;
mod placement;
mod process;
mod quotas;
