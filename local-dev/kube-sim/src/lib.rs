//! A Kubernetes API server for tests and local development: good enough that `kubectl`, `kube` and Weir cannot tell it from the real one
//! in what they use.
//!
//! It has discovery, OpenAPI, custom resource definitions with structural schemas and CEL, every verb, watches, finalizers, owner
//! references, tables, tokens; and beside these what no real server has: **faults** that can be set, a log of all requests, and counts of
//! the writes that changed something. It answers as a real server was observed to answer, codes, bodies and order of events included.
//!
//! What it does not have: admission webhooks, conversion webhooks, aggregation, authorization (every authenticated user may do
//! everything, RBAC objects are only stored), workloads (Deployments and the like are only stored), protobuf answers, compression.
//!
//! ```no_run
//! # async fn example() -> Result<(), weir_kube_sim::Error> {
//! use weir_kube_sim::{Config, Fault, KubeSim};
//!
//! let sim = KubeSim::start(Config::plain()).await?;
//! sim.faults().add(Fault::lost_write().verb("create").resource("configmaps").times(1))?;
//! println!("{} {}", sim.url(), sim.token());
//! sim.stop().await;
//! # Ok(())
//! # }
//! ```

mod api;
mod auth;
mod builtin;
mod cluster;
mod controllers;
mod decode;
mod definition;
mod faults;
mod fieldpatch;
mod files;
mod http;
mod jsonpath;
mod meta;
mod object;
mod openapi;
mod protobuf;
mod requests;
mod resource;
pub mod schema;
mod selector;
mod sim;
mod status;
mod store;
mod table;
mod tls;
mod wire;

pub use faults::{Action, Disruption, Error as FaultError, Fault, Faults, Listed as ListedFault};
pub use files::write_secret;
pub use requests::{Counts, Request, Requests};
pub use sim::{Config, Error, KubeSim};
