//! Anybody may read the ConfigMap kube-public/cluster-info.
//!
//! A joining machine learns the cluster's CA from it before it has credentials. The RoleBinding kubeadm:bootstrap-signer-clusterinfo
//! lets `system:anonymous` read this one ConfigMap; where it is gone the API server refuses (403), and no token can join.
//!
//! See it yourself: on the control plane `kubectl -n kube-public get role,rolebinding kubeadm:bootstrap-signer-clusterinfo`
//! Fix: on the control plane `kubeadm init phase bootstrap-token` (makes all roles and bindings of joining anew, and one token)

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.cluster-info-role",
    title: "cluster-info may be read without credentials",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::CLUSTER,
    accounts_for: step::is_behind,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    step::judge_as(
        facts,
        CHECK.id,
        PathStep::ClusterInfo,
        &[
            "kubeadm init phase bootstrap-token    # on the control plane: makes the roles and bindings of joining anew, and one token",
        ],
        &[id!("kubeadm.discovery-timeout")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::api_path::PathReason;

    #[test]
    fn judges() {
        step::testing::judges_reason(&CHECK, PathStep::ClusterInfo, PathReason::Forbidden);
    }
}
