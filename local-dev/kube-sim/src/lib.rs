//! weir-kube-sim
