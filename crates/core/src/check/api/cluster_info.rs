//! The ConfigMap kube-public/cluster-info can be read without credentials.
//!
//! A joining machine learns the cluster's CA from it. kubeadm makes it, and a role that lets anybody read it; a cluster
//! that was built another way, or hardened later, may lack either, and then no token can join.
//!
//! See it yourself: `curl -k https://HOST:PORT/api/v1/namespaces/kube-public/configmaps/cluster-info`
//! Mend it: on the control plane `kubeadm init phase bootstrap-token`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.cluster-info",
    title: "cluster-info can be read",
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
        &["kubeadm init phase bootstrap-token      # on the control plane"],
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
