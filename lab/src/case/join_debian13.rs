//! Debian 13 with containerd 1.7 joins.

use super::{Case, Needs};
use crate::machine::Kind;

pub const CASE: Case = Case {
    about: "a Debian 13 machine joins with plain kubeadm, is Ready, and its pod answers the control plane",
    needs: Needs::Cluster,
    run: |bench| bench.joins(Kind::Debian13, "v1.34.4", "containerd://1.7"),
};
