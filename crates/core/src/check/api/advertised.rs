//! cluster-info names the address that was asked for, or one that this machine reaches as well.
//!
//! kubeadm asks the given address for cluster-info, and no more than that: from then on it, and the kubelet after it, use the
//! `server` in cluster-info's kubeconfig, whatever was given (its own log says otherwise: "will use API Server" names the
//! given one). Where the two differ, a join by an address that works still fails with "unable to fetch the kubeadm-config ConfigMap", if
//! the other one does not answer from here: a control plane that was moved, a private address behind NAT, a name that only the control
//! plane resolves.
//!
//! See it yourself: `curl -sk https://HOST:PORT/api/v1/namespaces/kube-public/configmaps/cluster-info | grep server:`
//! Fix: make that address reachable from here; or change it on the control plane: `controlPlaneEndpoint` of kubeadm-config, the server in
//! cluster-info (`kubectl -n kube-public edit configmap cluster-info`), and the names in the API server's certificate

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, skip, step, warn};
use crate::fact::api_path::{PathReason, PathStep};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.advertised",
    title: "the API server that cluster-info names can be reached",
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

const SHOW: &str =
    "curl -sk https://{server}/api/v1/namespaces/kube-public/configmaps/cluster-info | grep -o 'server: [^\\\\]*'";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let path = facts.api_path()?;
    if path.at(PathStep::Advertised).is_none() && path.at(PathStep::Auth).is_some() {
        return Ok(skip("not asked for in this capture"));
    }
    let explains = [id!("control-plane.kubeadm-config-unread"), id!("kubeadm.preflight-failed")];
    let (Some(named), Some(PathReason::OtherAddress)) = (&path.advertised, path.reason_at(PathStep::Advertised)) else {
        return step::judge(facts, PathStep::Advertised, &[SHOW], &explains);
    };
    let says = format!("cluster-info names {named}: kubeadm and the kubelet use that, not {}", path.endpoint);
    Ok(warn(says).seen([Evidence::of("kube-public/cluster-info", format!("server: https://{named}"))]).fix(SHOW))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::Warn;
    use crate::fact::api_path::{ApiPath, StepOutcome, Walked};
    use crate::testing::{facts, judge_row};

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::Advertised);
        let reached = Walked {
            reason: Some(PathReason::OtherAddress),
            ..Walked::new(PathStep::Advertised, StepOutcome::Ok("answers".into()))
        };
        let path = ApiPath {
            endpoint: "lb.example:6443".into(),
            steps: vec![reached],
            advertised: Some("10.0.0.11:6443".into()),
            ..ApiPath::default()
        };
        let other = facts().with_api("path", &serde_json::to_string(&path).unwrap());
        judge_row(&CHECK, &CheckPolicy::default(), "another address that answers", &other, Warn);
        let verdict = CHECK.verdict(&other, &CheckPolicy::default());
        assert_eq!(
            verdict.says,
            "cluster-info names 10.0.0.11:6443: kubeadm and the kubelet use that, not lb.example:6443"
        );
        assert!(verdict.remedy[0].contains("https://lb.example:6443/"), "{:?}", verdict.remedy);
    }
}
