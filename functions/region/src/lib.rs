//! weir-region
