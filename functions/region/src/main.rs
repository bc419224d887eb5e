//! region
fn main() {}
