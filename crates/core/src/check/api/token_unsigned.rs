//! The control plane signs cluster-info for its tokens.
//!
//! The bootstrap signer, a controller of kube-controller-manager, signs cluster-info anew for every token and after every
//! change, within a second or two. Where kube-controller-manager does not run, or runs without that controller, no new token can
//! be used to join: the token is there, the API server accepts it, and its signature is missing or of an older cluster-info.
//!
//! See it yourself: on the control plane `kubectl -n kube-public get configmap cluster-info -o yaml` (one `jws-kubeconfig-ID` a token)
//! Fix: bring kube-controller-manager back: on the control plane `crictl ps -a --name kube-controller-manager`, its log, and
//! `/etc/kubernetes/manifests/kube-controller-manager.yaml`

use crate::catalogue::{Class, Role, Stops};
use crate::check::token::TokenCheck;
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing};
use crate::fact::bootstrap_token::TokenFault;
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "api.token-unsigned",
    title: "the control plane signs for tokens",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::CLUSTER,
    accounts_for: nothing,
    judge,
};

const TOKEN: TokenCheck = TokenCheck {
    fault: TokenFault::Unsigned,
    says: "nobody signs cluster-info for token {token_id}: kube-controller-manager, or its bootstrap signer, does not run",
    tells: "kubectl -n kube-system get pods -l component=kube-controller-manager    # none, or none Running and ready, means that nobody signs",
    fixes: &[
        "kubectl -n kube-system get pods -l component=kube-controller-manager    # is it Running, and ready?",
        "ls /etc/kubernetes/manifests/kube-controller-manager.yaml && tail -n 20 /var/log/pods/kube-system_kube-controller-manager-*/*/*.log    # on the control plane",
        "grep -e --controllers /etc/kubernetes/manifests/kube-controller-manager.yaml    # on the control plane: must name bootstrapsigner, or bootstrap-signer-controller",
    ],
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    TOKEN.judge(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::token::testing;

    #[test]
    fn judges() {
        testing::judges_fault(&CHECK, TokenFault::Unsigned);
    }
}
