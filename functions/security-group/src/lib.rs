//! weir-security-group
