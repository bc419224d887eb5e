//! weir-harness
