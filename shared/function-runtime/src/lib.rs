//! weir-function-runtime
