//! kube-sim
fn main() {}
