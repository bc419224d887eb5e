//! The whole product, as real processes, doing what people use it for: from `kubectl apply` to the cloud and back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod held;
mod job;
mod main_job;
mod many;
mod pause;
mod refusals;
mod regions;
mod rotation;
mod vlans;
mod waiting;
