//! What is measured, by the letters under which it is told.

pub mod calls;
pub mod cold;
pub mod converge;
pub mod emulator;
pub mod recording;
pub mod recovery;
pub mod settled;

use std::time::Duration;

/// How many objects, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// What it is called.
    pub name: &'static str,
    /// Objects that a function only reads, in (a).
    pub reads: usize,
    /// Settled servers, in (b) and (d).
    pub settled: usize,
    /// Servers made at once, in (c).
    pub made: usize,
    /// How often (a), (b) and (c) are repeated.
    pub repeats: usize,
    /// Changes whose latency is measured, in (d), at rest and under load.
    pub changes: usize,
    /// How often a worker is killed, in (e).
    pub kills: usize,
    /// How often a process is started, in (f).
    pub starts: usize,
}

impl Scale {
    /// What the figures are asked for.
    pub const FULL: Self = Self {
        name: "full",
        reads: 10_000,
        settled: 10_000,
        made: 1000,
        repeats: 3,
        changes: 200,
        kills: 5,
        starts: 20,
    };
    /// Some minutes less.
    pub const QUICK: Self =
        Self { name: "quick", reads: 2000, settled: 1000, made: 300, repeats: 1, changes: 40, kills: 1, starts: 5 };
}

/// How long one request to the cloud takes, where it takes any time.
pub const CLOUD_LATENCY: Duration = Duration::from_millis(20);
/// How many objects a process works on at once, if nothing else is said: what functions do as they ship.
pub const CONCURRENCY: usize = 32;

/// Says on standard error what goes on.
pub fn progress(what: &str) {
    eprintln!("bench: {what}");
}
