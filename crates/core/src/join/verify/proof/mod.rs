//! What proves that a machine has joined: one file each; its head comment is the text of `carrick explain`.

use super::Proof;

pub mod address;
pub mod agent_address;
pub mod causes;
pub mod certificate;
pub mod cluster;
pub mod container;
pub mod identity;
pub mod kube_proxy;
pub mod kubelet;
pub mod kubelet_reached;
pub mod lease;
pub mod network_agent;
pub mod network_available;
pub mod node_address;
pub mod peer;
pub mod pressure;
pub mod ready;
pub mod restarts;
pub mod runtime_network;
pub mod sandbox;
pub mod taints;

/// In the order in which they come true.
pub const PROOFS: [&Proof; 21] = [
    &kubelet::PROOF,
    &cluster::PROOF,
    &certificate::PROOF,
    &identity::PROOF,
    &lease::PROOF,
    &runtime_network::PROOF,
    &network_available::PROOF,
    &network_agent::PROOF,
    &ready::PROOF,
    &pressure::PROOF,
    &taints::PROOF,
    &node_address::PROOF,
    &agent_address::PROOF,
    &kube_proxy::PROOF,
    &sandbox::PROOF,
    &address::PROOF,
    &container::PROOF,
    &kubelet_reached::PROOF,
    &peer::PROOF,
    &restarts::PROOF,
    // Looked at when all else holds.
    &causes::PROOF,
];

include!(concat!(env!("OUT_DIR"), "/proofs.rs"));
