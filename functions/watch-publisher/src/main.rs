//! watch-publisher
fn main() {}
