//! network
fn main() {}
