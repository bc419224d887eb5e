//! weir-network
