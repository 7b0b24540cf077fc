//! A kubelet five minor releases older than the control plane joins all the same: nobody complains of the skew.

use super::Case;
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "kubeadm and kubelet 1.29 join a 1.34 control plane, and the pod answers",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12Kube129)],
    run: |bench| bench.joins(Kind::Debian12Kube129, "v1.29.15", "containerd://1.6"),
};
