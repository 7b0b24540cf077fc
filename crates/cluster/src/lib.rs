//! How Carrick speaks with a cluster.
//!
//! * [`way`]: how bytes get from the machine to the API server; whoever knows machines brings one
//! * [`path`]: walks that way layer by layer, and says which one failed
//! * [`client`]: who asks an API server, whom it believes, and what it may ask
//! * [`node`]: a machine's own Node, and a key of a ConfigMap: what a kubelet's credential may ask, too
//! * [`leaving`]: what is said of a Node whose machine leaves
//! * [`tls`], [`http`]: the two layers that need a protocol
//!
//! This crate does not know machines; carrick-engine brings the two together.

pub mod client;
pub mod http;
pub mod leaving;
pub mod node;
pub mod path;
pub mod tls;
pub mod way;
