//! weir-openstack
