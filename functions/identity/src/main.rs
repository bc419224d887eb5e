//! identity
fn main() {}
