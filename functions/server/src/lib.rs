//! weir-server
