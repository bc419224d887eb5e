//! weir-identity
