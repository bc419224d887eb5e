//! weir-openstack-sim
