//! What proves that a machine has joined: one file each; its head comment is the text of `carrick explain`.

use super::Proof;

pub mod address;
pub mod certificate;
pub mod cluster;
pub mod identity;
pub mod kubelet;
pub mod kubelet_reached;
pub mod lease;
pub mod network_available;
pub mod peer;
pub mod ready;
pub mod restarts;
pub mod runtime_network;
pub mod sandbox;

/// In the order in which they come true.
pub const PROOFS: [&Proof; 13] = [
    &kubelet::PROOF,
    &cluster::PROOF,
    &certificate::PROOF,
    &identity::PROOF,
    &lease::PROOF,
    &runtime_network::PROOF,
    &network_available::PROOF,
    &ready::PROOF,
    &sandbox::PROOF,
    &address::PROOF,
    &kubelet_reached::PROOF,
    &peer::PROOF,
    &restarts::PROOF,
];

include!(concat!(env!("OUT_DIR"), "/proofs.rs"));
