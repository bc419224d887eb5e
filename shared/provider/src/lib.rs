//! weir-provider
