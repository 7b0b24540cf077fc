//! The cluster has the ConfigMap kube-public/cluster-info.
//!
//! A joining machine learns the cluster's CA from it. kubeadm makes it; a cluster that was built another way has none, and where it was
//! deleted no token can join. Where it is there and may not be read: api.cluster-info-role, api.anonymous-auth.
//!
//! See it yourself: `curl -k https://HOST:PORT/api/v1/namespaces/kube-public/configmaps/cluster-info`
//! Fix: on the control plane `kubeadm init phase bootstrap-token` (makes it again, and one token; the others are signed for anew)

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.cluster-info",
    title: "the cluster has its cluster-info",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::CLUSTER,
    accounts_for: step::is_behind,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    step::judge(
        facts,
        PathStep::ClusterInfo,
        &["kubeadm init phase bootstrap-token    # on the control plane: makes it again, and one token"],
        &[id!("kubeadm.discovery-timeout")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::ClusterInfo);
    }
}
