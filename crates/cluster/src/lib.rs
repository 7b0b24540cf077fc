//! How Carrick speaks with a cluster.
//!
//! * [`way`]: how bytes get from the machine to the API server; whoever knows machines brings one
//! * [`path`]: walks that way layer by layer, and says which one failed
//! * [`admin`]: what an admin's kubeconfig says, and what only an admin may ask
//! * [`node`]: a machine's own Node, and a key of a ConfigMap: what a kubelet's credential may ask, too
//! * [`tls`], [`http`]: the two layers that need a protocol
//!
//! This crate does not know machines; carrick-engine brings the two together.

pub mod admin;
pub mod http;
pub mod node;
pub mod path;
pub mod tls;
pub mod way;
