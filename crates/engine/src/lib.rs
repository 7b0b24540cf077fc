//! Brings machines (carrick-host) and clusters (carrick-cluster) together; neither knows the other.
//!
//! * [`act`]: carries plans out, writes down what it does, takes it back
//! * [`cni`]: the pod network, looked at until it works, and brought back
//! * [`own`]: the kubelet's own credential, for what a node may ask
//! * [`observe`]: everything there is to see of a machine, and of the cluster as that machine sees it

pub mod act;
pub mod cni;
pub mod observe;
pub mod own;
