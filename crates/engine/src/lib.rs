//! Brings machines (carrick-host) and clusters (carrick-cluster) together; neither knows the other.
//!
//! * [`act`]: carries plans out, writes down what it does, takes it back
//! * [`credentials`]: the kubelet's own, to speak of its node
//! * [`reset`]: what taking a machine out has to know
//! * [`observe`]: everything there is to see of a machine, and of the cluster as that machine sees it

pub mod act;
pub mod credentials;
pub mod observe;
pub mod reset;
