//! Measurements of Weir, beside a classic controller on the same work.
//!
//! Intention: one command (`./weir bench`) says what Weir costs and how fast it is, on the machine at hand, in figures that
//! can be had again. Everything is a real process: nats-server, both simulators, functions, and a controller made with
//! `kube::runtime::Controller` ([`classic`]) that calls the very same function on the same clients.
//!
//! Invariants
//! - A figure and the one that it is compared with are measured in one run, turn by turn where time is compared, with the
//!   same number of objects worked on at once, and with nothing running that the other has no counterpart of.
//! - Nothing is derived from what a process says of itself where somebody else can tell: processor time and memory come
//!   from the kernel, requests are counted by who served them, an object is available when the Kubernetes API says so.
//! - A run that did not do all of its work is a failure, never a figure.
//!
//! Caveats
//! - The simulators share the processors with what is measured. They answer faster than any real API, so that time
//!   outside of Weir is as small as it can be; but on a small machine they are what bounds the rate of both sides. The
//!   processor time per object does not depend on that.
//! - The classic controller reads the object at hand from the API, as the function does, although it holds a copy: *the same
//!   reconcile body* is what makes the comparison. One that trusted its copies would save reads of Kubernetes, none of the cloud.
//! - It is one kind's controller. Weir's publisher serves all kinds; its costs are counted in full all the same.
//! - Linux only: the figures of processes come from `/proc`.

#![allow(clippy::cast_precision_loss)] // figures are told with three digits

pub mod classic;
pub mod consumer;
pub mod machine;
pub mod population;
pub mod reader;
pub mod report;
pub mod rig;
pub mod scenario;
pub mod usage;
pub mod watch;
