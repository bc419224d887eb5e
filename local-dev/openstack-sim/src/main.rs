//! openstack-sim
fn main() {}
