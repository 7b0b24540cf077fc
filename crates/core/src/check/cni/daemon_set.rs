//! The cluster's pod network is up on the nodes it has.
//!
//! A node is Ready only once the pod network's DaemonSet has put its agent there and the agent has written its
//! configuration. Where the agents do not even run on the nodes that have joined, the one here will hardly do better: the
//! join works, and the node stays NotReady. Nodes that are down count as well, so this alone forbids nothing. Only with
//! an admin's kubeconfig can it be seen.
//!
//! See it yourself: `kubectl get daemonsets -A`
//! Mend it: `kubectl -n NAMESPACE describe daemonset NAME`, `kubectl -n NAMESPACE logs daemonset/NAME`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::daemon_sets::DaemonSet;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "cni.daemon-set",
    title: "the cluster's pod network is up on its nodes",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("it is the cluster's, and not this machine's"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let sets = facts.network_daemon_sets()?;
    let seen = sets.iter().map(|set| {
        Evidence::of(
            format!("daemonset {}/{}", set.namespace, set.name),
            format!("{} of {} ready", set.ready, set.wanted),
        )
    });
    let seen: Vec<Evidence> = seen.collect();
    let behind = |set: &&DaemonSet| set.ready < set.wanted;
    Ok(match (sets.as_slice(), sets.iter().find(behind)) {
        ([], _) => warn("no DaemonSet in the cluster is one of a known pod network: the node may never be Ready")
            .seen(Evidence::of("daemonsets", "none of a known pod network"))
            .fix("kubectl get daemonsets -A    # is a pod network installed?")
            .explains([id!("cni.network-ready"), id!("node.not-ready")]),
        (_, None) => pass("the pod network is up on every node").seen(seen),
        (_, Some(DaemonSet { namespace, name, ready, wanted })) => {
            warn(format!("{namespace}/{name} is ready on {ready} of {wanted} nodes: this one may fare no better"))
                .seen(seen)
                .fix(format!("kubectl -n {namespace} get pods -o wide    # where, and why"))
                .fix(format!("kubectl -n {namespace} describe daemonset {name}"))
                .explains([id!("cni.network-ready"), id!("node.not-ready")])
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::fact::daemon_sets::CALL;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn with(name: &str, ready: u64) -> Facts {
        let list = format!(
            r#"{{"items":[{{"metadata":{{"namespace":"kube-flannel","name":"{name}"}},"status":{{"desiredNumberScheduled":3,"numberReady":{ready}}}}}]}}"#
        );
        facts().with_api(CALL, &list)
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("on all nodes", with("kube-flannel-ds", 3), Pass),
                ("behind", with("kube-flannel-ds", 2), Warn),
                ("on none", with("kube-flannel-ds", 0), Warn),
                ("no pod network", with("node-exporter", 3), Warn),
                ("no admin", facts().without(Source::Api(CALL), Why::NotAdmin), Skip),
                ("an admin who may not", facts().without(Source::Api(CALL), Why::Denied), Unknown),
                ("no answer", facts().without(Source::Api(CALL), Why::TimedOut), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&with("kube-flannel-ds", 2), &CheckPolicy::default());
        assert_eq!(verdict.evidence, [Evidence::of("daemonset kube-flannel/kube-flannel-ds", "2 of 3 ready")]);
    }
}
