//! Every interleaving of what may happen to a server's image, to a server that does not come up, and to a region that comes and
//! goes under an identity, over the real functions that decide about them.
//!
//! What is real: `weir_server::rebuild::decide`, `weir_server_monitor::rebuild::advance`, `weir_server::retry::decide`, the
//! level by which a Server calls for its function, and `weir_provider::Purpose::region`. What is modelled, as small as it can be: Nova, the Kubernetes object, the
//! queue, and the ways in which each of them, a person or another program can interfere.
//!
//! Each guard of a protocol has a [`rebuild::Mutant`], [`retry::Mutant`] or [`held::Mutant`] without it, and a test that the checker finds what the
//! guard is there for. A model in which no mutant is caught proves nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// The state of a model is many small facts, and small things are passed as they come.
#![allow(clippy::struct_excessive_bools, clippy::trivially_copy_pass_by_ref)]

mod held;
mod rebuild;
mod retry;
