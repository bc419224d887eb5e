//! Schemas of built-in kinds.
