//! Placeholder for the crate's documentation.
pub mod rebuild;
