//! The certificate that is asked for with this token is approved by itself.
//!
//! kube-controller-manager approves a joining kubelet's request where the token may `create` the resource
//! `certificatesigningrequests/nodeclient`: the ClusterRoleBinding kubeadm:node-autoapprove-bootstrap says so of the group of joining
//! machines. Without it the request waits until somebody approves it by hand, and the join with it. Some clusters want it so.
//!
//! See it yourself: on the control plane `kubectl get clusterrolebinding kubeadm:node-autoapprove-bootstrap -o wide`
//! Fix: approve the request while the join waits (`kubectl get csr`, `kubectl certificate approve NAME`), or on the control plane
//! `kubeadm init phase bootstrap-token`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, skip, warn,
};
use crate::fact::bootstrap_token::TokenState;
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.approval",
    title: "the token's certificate requests are approved by themselves",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::GoesOn("somebody may approve the request while it waits"),
    fixed_by: FixedBy::CLUSTER,
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let seen = match facts.token_state()? {
        TokenState::Sound(seen) => seen,
        TokenState::NotGiven => return Ok(skip("no token was given")),
        TokenState::NotReached => return Ok(skip("not reached: an earlier step failed")),
        TokenState::Is(..) | TokenState::OneOf(..) => return Ok(skip("not asked: the token itself is refused")),
    };
    let id = &seen.id;
    match seen.rights.approval {
        // That a token may not do anything is told once.
        _ if seen.rights.is_refused_any() => Ok(skip("not judged: the token lacks other rights")),
        Some(true) => Ok(pass(format!("requests made with token {id} are approved by themselves"))),
        Some(false) => {
            let seen = Evidence::of(format!("token {id}"), "may not create certificatesigningrequests/nodeclient");
            Ok(warn(format!("somebody has to approve the certificate request that is made with token {id}"))
                .seen([seen])
                .fix("kubectl get csr    # while the join waits: kubectl certificate approve, of the one by system:bootstrap:{token_id}")
                .fix("kubeadm init phase bootstrap-token    # or, for the group of joining machines: on the control plane")
                .explains([id!("csr.pending")]))
        }
        None => Err(Missing::broken("api path", "whether requests are approved by themselves: no answer in time")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::check::token::testing::answered;
    use crate::fact::bootstrap_token::sample::{seen, shown, walked};
    use crate::fact::bootstrap_token::{TokenRights, TokenSignature};
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        let approved = |approval| answered(TokenRights { approval, ..seen().rights }, None);
        table(
            &CHECK,
            [
                ("by themselves", approved(Some(true)), Pass),
                ("by hand", approved(Some(false)), Warn),
                ("no answer", approved(None), Unknown),
                (
                    "no right at all",
                    answered(TokenRights { approval: Some(false), requests: Some(false), ..seen().rights }, None),
                    Skip,
                ),
                ("the token is refused", walked(shown(TokenSignature::Fits, Some(false))), Skip),
                ("nobody asked", facts(), Skip),
            ],
        );
    }
}
