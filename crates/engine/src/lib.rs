//! Brings machines (carrick-host) and clusters (carrick-cluster) together; neither knows the other.
//!
//! * [`act`]: carries plans out, writes down what it does, takes it back
//! * [`cni`]: the pod network, looked at until it works, and brought back
//! * [`controller`]: keeps nodes tainted as NodeReadinessRules say
//! * `credentials`: the kubelet's own, to speak of its node
//! * [`dialer`]: a machine's network, for clients of the cluster
//! * [`health`]: whether the kubelet still answers, and renews its lease
//! * [`join`]: joins a machine, and proves that it has joined
//! * [`observe()`]: everything there is to see of a machine, and of the cluster as that machine sees it
//! * [`reset`]: what taking a machine out has to know
//! * [`Stop`]: whether whoever acts was told to stop
//! * [`unit`]: kubeadm in a unit of systemd, which outlives us

pub mod act;
pub mod cni;
pub mod controller;
mod credentials;
pub mod dialer;
pub mod health;
pub mod join;
mod observe;
pub mod reset;
mod stop;
pub mod unit;

pub use observe::{is_unprivileged, kubelets_socket, observe};
pub use stop::{Stop, StopTeller};
