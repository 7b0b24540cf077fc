//! A kubelet five minor releases older than the control plane joins all the same: nobody complains of the skew.

use super::{Case, Needs};
use crate::machine::Kind;

pub const CASE: Case = Case {
    about: "kubeadm and kubelet 1.29 join a 1.34 control plane, and the pod answers",
    needs: Needs::Cluster,
    run: |bench| bench.joins(Kind::Debian12Kube129, "v1.29.15", "containerd://1.6"),
};
