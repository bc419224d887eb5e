//! weir-kube-sim

pub mod fieldpatch;
pub mod openapi;
pub mod schema;
