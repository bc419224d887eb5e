//! weir-watch-publisher
