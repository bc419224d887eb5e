//! security-group
fn main() {}
