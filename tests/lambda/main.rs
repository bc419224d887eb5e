//! Functions as AWS Lambda runs them: the real executables, an emulator of the runtime API, events of SQS in their real shape,
//! and a real `nats-server`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batches;
mod deadlines;
mod emulator;
mod invocations;
mod lifecycle;
mod monitor;
mod room;
mod sqs;
mod template;
mod trace;
