//! The ConfigMap kube-system/kubeadm-config is there, and joining machines may read it.
//!
//! kubeadm reads the cluster's configuration from it before anything else. Without the ConfigMap (404) or without the RoleBinding
//! kubeadm:nodes-kubeadm-config (403) it ends its preflight with "unable to fetch the kubeadm-config ConfigMap".
//!
//! See it yourself: on the control plane `kubectl -n kube-system get configmap,role,rolebinding | grep kubeadm-config`
//! Fix: `kubeadm init phase upload-config kubeadm --config FILE` with the file the cluster was made with; kubeadm's defaults in its
//! place lose the cluster's pod range and endpoint.

use crate::catalogue::{Class, Role, Stops};
use crate::check::token::{self, TokenRight};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "api.kubeadm-config",
    title: "kubeadm-config is there, and the token may read it",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::CLUSTER,
    accounts_for: token::is_refused,
    judge,
};

const RIGHT: TokenRight = TokenRight {
    what: "ConfigMap kube-system/kubeadm-config",
    answer: |seen| seen.rights.kubeadm_config,
    missing: Some(&[
        "kubeadm init phase upload-config kubeadm --config kubeadm.yaml    # on the control plane; kubeadm.yaml: the file the cluster was made with",
    ]),
    binding: "RoleBinding kube-system/kubeadm:nodes-kubeadm-config",
    denied: &[
        "kubectl -n kube-system create role kubeadm:nodes-kubeadm-config --verb=get --resource=configmaps --resource-name=kubeadm-config --dry-run=client -o yaml | kubectl apply -f -    # on the control plane",
        "kubectl -n kube-system create rolebinding kubeadm:nodes-kubeadm-config --role=kubeadm:nodes-kubeadm-config --group=system:nodes --group=system:bootstrappers:kubeadm:default-node-token --dry-run=client -o yaml | kubectl apply -f -",
    ],
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    RIGHT.judge(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::Fail;
    use crate::check::token::testing;
    use crate::fact::bootstrap_token::TokenRights;

    #[test]
    fn judges() {
        testing::judges_right(&CHECK, |answer| TokenRights { kubeadm_config: answer, ..TokenRights::default() }, Fail);
    }
}
