//! The contract suite: what Weir relies on in an OpenStack, asked through Weir's own client.
//!
//! # Intention
//! The same tests run against `openstack-sim`, always, and against a real cloud when `WEIR_CONTRACT_CLOUD` names one. What
//! passes on both is what the simulator may be trusted for.
//!
//! # Running it against a cloud
//! `tests/contract/prepare-cloud` makes a domain, a project and a user as an administrator (`OS_*` in the environment) and
//! prints the description to put into a file; `WEIR_CONTRACT_CLOUD` is that file's path, or the JSON itself. One test at a
//! time (`-j 1`) is kind to a small cloud, and necessary where Keystone confuses requests that it answers at the same time.
//!
//! # Invariants
//! - Every test makes a tenant of its own and deletes it with all it holds, also when the test fails.
//! - Nothing here is known of a cloud but its description.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cloud;
mod compute;
mod faults;
mod identity;
mod image;
mod main_job;
mod network;
mod placement;
mod policy;
mod rebuild;
mod tenant;
