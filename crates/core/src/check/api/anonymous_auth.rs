//! The API server answers requests without credentials.
//!
//! Token discovery reads kube-public/cluster-info before the machine has credentials. An API server with `--anonymous-auth=false`, or
//! whose AuthenticationConfiguration allows that for a few paths only, answers 401: no token can join there, whatever its roles
//! say. Joining by a discovery file works: it brings the CA, and the token is only used to authenticate.
//!
//! See it yourself: on the control plane `grep -e anonymous -e authentication-config /etc/kubernetes/manifests/kube-apiserver.yaml`
//! Fix: `carrick join --config FILE` with `discovery.file`, and a kubeconfig of the cluster's CA on the machine; or allow anonymous
//! requests to /api/v1/namespaces/kube-public/configmaps/cluster-info

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.anonymous-auth",
    title: "the API server answers who has no credentials",
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
            "grep -e anonymous -e authentication-config /etc/kubernetes/manifests/kube-apiserver.yaml    # on the control plane",
            "kubectl -n kube-public get configmap cluster-info -o jsonpath='{.data.kubeconfig}' >cluster.conf    # there; then join here with discovery.file.kubeConfigPath",
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
        step::testing::judges_reason(&CHECK, PathStep::ClusterInfo, PathReason::Unauthenticated);
    }
}
