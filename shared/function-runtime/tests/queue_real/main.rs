//! The queue and the worker against a real `nats-server`: what holds, and what goes wrong and is borne.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../../tests/harness/src/nats.rs"]
#[allow(dead_code)] // shared with other tests, which use other parts of it
mod nats;

#[path = "../../../../tests/harness/src/proxy.rs"]
#[allow(dead_code)] // as above
mod proxy;

mod calls;
mod cluster;
mod crowd;
mod health;
mod inspect;
mod leases;
mod mishaps;
mod network;
mod panics;
mod past;
mod processes;
mod streams;
mod support;
mod sweep;
mod timers;
mod versions;
