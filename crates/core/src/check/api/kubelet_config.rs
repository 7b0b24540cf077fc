//! The ConfigMap kube-system/kubelet-config is there, and joining machines may read it.
//!
//! Every kubelet's configuration comes from it. Without the ConfigMap (404) or without the RoleBinding kubeadm:kubelet-config
//! (403) kubeadm ends its preflight with "unable to fetch the kubeadm-config ConfigMap: … kubelet-config".
//!
//! See it yourself: on the control plane `kubectl -n kube-system get configmap,role,rolebinding | grep kubelet-config`
//! Fix: make it again of a control plane's own configuration, which is the same but for its patches: `kubectl -n kube-system
//! create configmap kubelet-config --from-file=kubelet=/var/lib/kubelet/config.yaml`; `kubeadm init phase upload-config kubelet` brings
//! the role and its binding back, and writes a configuration of kubeadm's defaults unless it gets the cluster's own with `--config`.

use crate::catalogue::{Class, Role, Stops};
use crate::check::token::{self, TokenRight};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "api.kubelet-config",
    title: "kubelet-config is there, and the token may read it",
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
    what: "ConfigMap kube-system/kubelet-config",
    answer: |seen| seen.rights.kubelet_config,
    missing: Some(&[
        "kubectl -n kube-system create configmap kubelet-config --from-file=kubelet=/var/lib/kubelet/config.yaml    # on a control plane node: of its own configuration",
    ]),
    binding: "RoleBinding kube-system/kubeadm:kubelet-config",
    denied: &[
        "kubectl -n kube-system create role kubeadm:kubelet-config --verb=get --resource=configmaps --resource-name=kubelet-config --dry-run=client -o yaml | kubectl apply -f -    # on the control plane",
        "kubectl -n kube-system create rolebinding kubeadm:kubelet-config --role=kubeadm:kubelet-config --group=system:nodes --group=system:bootstrappers:kubeadm:default-node-token --dry-run=client -o yaml | kubectl apply -f -",
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
        testing::judges_right(&CHECK, |answer| TokenRights { kubelet_config: answer, ..TokenRights::default() }, Fail);
    }
}
