//! Brings machines (carrick-host) and clusters (carrick-cluster) together; neither knows the other.
//!
//! * [`observe`]: everything there is to see of a machine, and of the cluster as that machine sees it

pub mod observe;
