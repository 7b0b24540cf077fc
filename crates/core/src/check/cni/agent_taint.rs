//! The pod network's agent tolerates the taints with which the kubelet registers its Node.
//!
//! A DaemonSet puts no pod on a node with a taint that it does not tolerate: the network never comes to the node, which stays
//! NotReady. flannel's tolerates NoSchedule and not NoExecute. Only with an admin's kubeconfig can it be seen what is tolerated;
//! without one, NoExecute is a warning until the network is there. A taint is set when the Node is made: to take the flag away
//! later changes nothing on a Node that has it.
//!
//! See it yourself: `kubectl get node NAME -o jsonpath={.spec.taints}`, `kubectl get daemonset -A -o yaml | grep -A8 tolerations`
//! Fix: `kubectl taint node NAME KEY:EFFECT-`, or a toleration in the DaemonSet

use serde_json::json;

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::kubelet_config::FILE;
use crate::fact::{Facts, Known, Missing, OrAbsent, Why};
use crate::id;
use crate::join::observed;
use crate::join::taint::Taint;

pub const CHECK: Check = Check {
    id: "cni.agent-taint",
    title: "the pod network's agent tolerates the node's taints",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::GoesOn("a taint of the start is taken away by the controller that it is for"),
    fixed_by: FixedBy::Operator("what a node is kept free of is a choice"),
    accounts_for: nothing,
    judge,
};

const FLAG: &str = "--register-with-taints";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let taints = registered(facts)?;
    let Some((first, _)) = taints.iter().find(|(taint, _)| taint.keeps_off()) else {
        return Ok(pass("the kubelet registers its Node with no taint that keeps pods off"));
    };
    let is_there = facts.runtime_status().ok().and_then(|status| status.condition("NetworkReady").map(|it| it.status));
    if is_there == Some(true) {
        return Ok(pass(format!("the pod network came to the node with its taint {first}")));
    }
    let node = json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}},
        "spec": {"taints": taints.iter().map(|(taint, _)| json!(taint)).collect::<Vec<_>>()}});
    let kept = match facts.daemon_set_objects() {
        Ok(sets) => observed::kept_off(&sets, &node),
        Err(Missing { why: Why::NotAdmin | Why::NotAsked | Why::NotCollected, .. }) => {
            let Some((taint, seen)) = taints.iter().find(|(taint, _)| taint.effect == "NoExecute") else {
                return Ok(pass("pod networks tolerate NoSchedule"));
            };
            return Ok(warn(format!("few pod networks tolerate the kubelet's taint {taint}"))
                .seen([seen.clone()])
                .fix("kubectl get daemonsets -A -o custom-columns=NAME:.metadata.name,TOLERATES:.spec.template.spec.tolerations    # only looks")
                .fix(format!("kubectl taint node {{node}} {}:{}-    # where the network's does not", taint.key, taint.effect)));
        }
        Err(missing) => return Err(missing),
    };
    let Some(kept) = kept else {
        return Ok(pass("the pod network's agent tolerates the kubelet's taints"));
    };
    let seen = taints.iter().find(|(taint, _)| *taint == kept.taint).map(|(_, seen)| seen.clone());
    let failed = fail(kept.says()).seen(seen).explains([
        id!("cni.config"),
        id!("cni.network-ready"),
        id!("cni.subnet-env"),
        id!("node.network-not-ready"),
        id!("node.not-ready"),
    ]);
    Ok(kept.ways_out("{node}").into_iter().fold(failed, Verdict::fix))
}

/// What the kubelet taints its Node with, and where that stands: the flag, which wins, or its configuration.
fn registered(facts: &Facts) -> Known<Vec<(Taint, Evidence)>> {
    let command = facts.kubelet_command().or_absent()?;
    if let Some((value, word)) = command.as_ref().and_then(|command| command.flag(FLAG)) {
        return Ok(value
            .split(',')
            .filter_map(|text| text.trim().parse().ok())
            .map(|taint: Taint| (taint, word.seen.clone()))
            .collect());
    }
    let config = facts.kubelet_config().or_absent()?.and_then(|config| config.register_with_taints).unwrap_or_default();
    Ok(config
        .into_iter()
        .map(|taint| (taint.clone(), Evidence::of(FILE, format!("registerWithTaints: {taint}"))))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::daemon_sets::CALL;
    use crate::fact::unit::{DEFAULTS, KUBEADM_FLAGS, KUBELET, sample as unit};
    use crate::fact::{Source, kubelet_config::sample};
    use crate::testing::{facts, table};

    fn kubelet(args: &str) -> Facts {
        facts()
            .with_query(&KUBELET, &unit::packaged())
            .without_file(KUBEADM_FLAGS)
            .with_file(DEFAULTS, &format!("KUBELET_EXTRA_ARGS={args}\n"))
            .without_file(FILE)
    }

    /// flannel, as its manifest has it, or with other tolerations.
    fn network(facts: Facts, tolerations: &str) -> Facts {
        let list = format!(
            r#"{{"items":[{{"metadata":{{"namespace":"kube-flannel","name":"kube-flannel-ds"}},
            "spec":{{"template":{{"spec":{{"hostNetwork":true,"tolerations":[{tolerations}]}}}}}},"status":{{}}}}]}}"#
        );
        facts.with_api(CALL, &list)
    }

    const NO_SCHEDULE: &str = r#"{"operator":"Exists","effect":"NoSchedule"}"#;
    const DRAINED: &str = "--register-with-taints=dedicated=db:NoExecute";

    #[test]
    fn judges() {
        let ready = r#"{"status":{"conditions":[{"type":"NetworkReady","status":true,"reason":"","message":""}]}}"#;
        let in_file = sample::with("registerWithTaints:\n- key: dedicated\n  effect: NoExecute\n");
        table(
            &CHECK,
            [
                ("none", network(kubelet(""), NO_SCHEDULE), Pass),
                ("tolerated", network(kubelet("--register-with-taints=gpu=yes:NoSchedule"), NO_SCHEDULE), Pass),
                ("not tolerated", network(kubelet(DRAINED), NO_SCHEDULE), Fail),
                ("of two, one is not", network(kubelet(&format!("{DRAINED},gpu:NoSchedule")), NO_SCHEDULE), Fail),
                ("all are tolerated", network(kubelet(DRAINED), r#"{"operator":"Exists"}"#), Pass),
                ("preferred only", network(kubelet("--register-with-taints=a:PreferNoSchedule"), ""), Pass),
                ("in its configuration", network(kubelet("").with_file(FILE, &in_file), NO_SCHEDULE), Fail),
                ("it came all the same", network(kubelet(DRAINED), NO_SCHEDULE).with_cri("status", ready), Pass),
                ("nobody may look", kubelet(DRAINED).without(Source::Api(CALL), Why::NotAdmin), Warn),
                (
                    "nobody may look, and networks tolerate it",
                    kubelet("--register-with-taints=a:NoSchedule").without(Source::Api(CALL), Why::NotAdmin),
                    Pass,
                ),
                ("the cluster does not answer", kubelet(DRAINED).without(Source::Api(CALL), Why::TimedOut), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&network(kubelet(DRAINED), NO_SCHEDULE), &CheckPolicy::default());
        assert_eq!(
            verdict.says,
            "DaemonSet kube-flannel/kube-flannel-ds does not tolerate the node's taint dedicated=db:NoExecute"
        );
        assert_eq!(verdict.evidence[0].to_string(), format!("{DEFAULTS}:1  KUBELET_EXTRA_ARGS={DRAINED}"));
    }
}
