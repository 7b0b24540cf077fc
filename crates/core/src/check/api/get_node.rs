//! Joining machines may look at a Node.
//!
//! Before it starts the kubelet, kubeadm asks whether a Node of this name is Ready already. Without the ClusterRoleBinding
//! kubeadm:get-nodes the API server refuses (403), and kubeadm ends with "cannot get Node".
//!
//! See it yourself: on the control plane `kubectl get clusterrolebinding kubeadm:get-nodes -o wide`
//! Fix: on the control plane `kubeadm init phase bootstrap-token` (makes all roles and bindings of joining anew, and one token)

use crate::catalogue::{Class, Role, Stops};
use crate::check::token::{self, TokenRight};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "api.get-node",
    title: "the token may look at the Node of this name",
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
    what: "to get the Node of this name",
    answer: |seen| seen.rights.node,
    missing: None,
    binding: "ClusterRoleBinding kubeadm:get-nodes",
    denied: &[
        "kubeadm init phase bootstrap-token    # on the control plane: makes the roles and bindings of joining anew, and one token",
    ],
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    RIGHT.judge(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::Pass;
    use crate::check::token::testing;
    use crate::fact::bootstrap_token::TokenRights;

    #[test]
    fn judges() {
        testing::judges_right(&CHECK, |answer| TokenRights { node: answer, ..TokenRights::default() }, Pass);
    }
}
