//! Debian 13 with containerd 1.7 joins.

use super::Case;
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "a Debian 13 machine joins with plain kubeadm, is Ready, and its pod answers the control plane",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian13)],
    run: |bench| bench.joins(Kind::Debian13, "v1.34.4", "containerd://1.7"),
};
