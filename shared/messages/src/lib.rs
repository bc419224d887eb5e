//! weir-messages
