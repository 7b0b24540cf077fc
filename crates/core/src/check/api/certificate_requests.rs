//! Joining machines may ask for a certificate.
//!
//! The kubelet makes a CertificateSigningRequest with the token. Without the ClusterRoleBinding kubeadm:kubelet-bootstrap the API
//! server refuses it: kubeadm starts a kubelet that gets nowhere, and waits five minutes for it.
//!
//! See it yourself: on the control plane `kubectl get clusterrolebinding kubeadm:kubelet-bootstrap -o wide`
//! Fix: on the control plane `kubeadm init phase bootstrap-token` (makes all roles and bindings of joining anew, and one token)

use crate::catalogue::{Class, Role, Stops};
use crate::check::token::TokenRight;
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "api.certificate-requests",
    title: "the token may ask for a certificate",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::CLUSTER,
    accounts_for: nothing,
    judge,
};

const RIGHT: TokenRight = TokenRight {
    what: "to create CertificateSigningRequests",
    answer: |seen| seen.rights.requests.map(|allowed| if allowed { 201 } else { 403 }),
    missing: None,
    binding: "ClusterRoleBinding kubeadm:kubelet-bootstrap",
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
    use crate::check::Outcome::Unknown;
    use crate::check::token::testing;
    use crate::fact::bootstrap_token::TokenRights;

    #[test]
    fn judges() {
        testing::judges_right(
            &CHECK,
            |answer| TokenRights {
                requests: answer.filter(|it| *it != 404).map(|it| it == 200),
                ..TokenRights::default()
            },
            Unknown,
        );
    }
}
