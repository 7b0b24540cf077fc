//! Tokens of clusters that are known by their form. kubeadm's is [`super::super::token`].

use super::super::shape::{Shape, Words};
use super::super::value;

pub(super) const SHAPES: &[Shape] = &[
    // k3s and RKE2: the hash of the CA, and who may use it with what.
    Shape {
        kind: "cluster-token",
        words: Words::AsTheyAre(&["K10"]),
        regex: r"\b(?P<s>K10[0-9a-fA-F]{32,}(?:::[^\s\x22'\\]*)?)",
        value: value::certain,
    },
    Shape {
        kind: "cluster-token",
        words: Words::AsTheyAre(&["::server:", "::node:"]),
        regex: r"::(?:server|node):(?P<s>[^\s\x22'\\]{4,})",
        value: value::certain,
    },
];
