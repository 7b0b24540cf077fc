//! The node's lease was renewed since this kubelet started: it is this kubelet, now, that the API server hears.
//!
//! A kubelet renews it every 10 s. The Node itself stays Ready for most of a minute after its kubelet fell silent, so
//! that Ready alone is news of yesterday. In its first seconds a Node has no lease yet: that it was made since this
//! kubelet started says as much.
//!
//! See it yourself: `kubectl -n kube-node-lease get lease NAME -o jsonpath={.spec.renewTime}`, twice
//! Fix: `journalctl -u kubelet -n 50 | grep -i lease` says why; a kubelet that hangs wants `systemctl restart
//! kubelet`

use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{Node, NodeEvidence, Proof, Until, known, not_seen};

pub const PROOF: Proof = Proof {
    id: "verify.lease",
    title: "the node's lease is renewing",
    subsystem: Subsystem::Kubelet,
    until: Until::Registered,
    after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    if seen.lease == Err(Why::Absent) && seen.node == Err(Why::Absent) {
        return Ok(skip("without a Node there is none: see verify.identity"));
    }
    // Asked of a lease that is to be made, or to be renewed: the same answer is the kubelet's.
    if let (Err(Why::Absent) | Ok(_), Some(says)) = (&seen.lease, &seen.lease_refusal) {
        let verb = if seen.lease.is_ok() { "update" } else { "create" };
        let can_i = |node: &Node| {
            let node = &node.name;
            format!(
                "kubectl auth can-i {verb} leases/{node} -n kube-node-lease --as-group=system:nodes --as=system:node:{node}"
            )
        };
        let refused = fail("the API server does not take this node's lease: the node will be NotReady within a minute")
            .seen(Evidence::of("API server", says.as_str()))
            .fix("kubectl get validatingwebhookconfigurations,validatingadmissionpolicybindings    # which of them is about leases?");
        return Ok(seen.node.as_ref().map(can_i).into_iter().fold(refused, Verdict::fix));
    }
    if let (Err(Why::Absent), Ok(node), Ok(kubelet)) = (&seen.lease, &seen.node, &seen.kubelet)
        && node.is_too_young_for_a_lease(kubelet)
    {
        return Ok(pass("this kubelet has just made its Node; its lease comes within seconds"));
    }
    if seen.lease == Err(Why::Absent) {
        return Ok(fail("the node has no lease: its kubelet never reached the API server")
            .seen(Evidence::of("API server", "no lease of this name in kube-node-lease"))
            .fix("journalctl -u kubelet -n 50 --no-pager | grep -i lease"));
    }
    let lease = known("lease", &seen.lease)?;
    let runs = seen.kubelet.as_ref().ok().filter(|kubelet| kubelet.active);
    let started = runs.and_then(|kubelet| kubelet.started_at);
    let moved = lease.first.version != lease.last.version;
    // Both by the clock of this machine, where the kubelet that renews it is this one.
    let since = lease.last.renewed_at.zip(started).is_some_and(|(renewed, started)| renewed >= started);
    if (moved || since) && lease.last.is_on_time() {
        return Ok(pass("its lease is renewing"));
    }
    let renewed = lease.last.renewed_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
    let evidence = Evidence::of("lease", format!("renewed {renewed}, resourceVersion {}", lease.last.version));
    let silence = lease.last.silence(started).filter(|silence| *silence >= lease.last.lasts());
    Ok(match silence {
        Some(silence) => fail(format!("its kubelet has not renewed its lease for {} s", silence.as_secs()))
            .seen(evidence)
            .fix("systemctl restart kubelet")
            .fix("journalctl -u kubelet -n 50 --no-pager | grep -i lease    # says why")
            .explains([id!("node.not-ready")]),
        None => {
            not_seen("lease", &Why::Broken("not seen renewed since this kubelet started".to_owned())).seen(evidence)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::join::verify::testing::{STARTED, joined, judged, looked_at, renewal, table, with, young};
    use crate::join::verify::{Kubelet, NodeLease};

    /// Renewed between the first look and the last.
    fn moved(renewed: i64, seen: i64) -> NodeLease {
        NodeLease { first: renewal("0", 2), ..looked_at(renewed, seen) }
    }

    fn refused(seen: NodeEvidence) -> NodeEvidence {
        let says = "leases.coordination.k8s.io \"w1\" is forbidden: ValidatingAdmissionPolicy 'x' denied request";
        NodeEvidence { lease_refusal: Some(says.into()), ..seen }
    }

    #[test]
    fn what_to_ask_names_the_node() {
        for (seen, verb) in [(refused(young(2, 9)), "create"), (refused(joined()), "update")] {
            let remedy = judged(&PROOF, &seen).remedy.join("\n");
            assert!(remedy.contains(&format!("can-i {verb} leases/w1 ")) && !remedy.contains('{'), "{remedy}");
        }
    }

    #[test]
    fn judges() {
        table(
            &PROOF,
            vec![
                ("its version moved", joined(), Pass),
                ("its version moved, and it is late by now", with(|s| s.lease = Ok(moved(12, 30))), Unknown),
                ("its version moved, and it has run out since", with(|s| s.lease = Ok(moved(12, 60))), Fail),
                (
                    "renewed since",
                    with(|s| s.lease = Ok(NodeLease { first: renewal("1", 2), last: renewal("1", 2) })),
                    Pass,
                ),
                (
                    "not seen when",
                    with(|s| s.lease = Ok(NodeLease { first: renewal("1", -9), last: renewal("1", -9) })),
                    Unknown,
                ),
                (
                    "since when the kubelet runs is not known",
                    with(|s| {
                        s.lease = Ok(NodeLease { first: renewal("1", 9), last: renewal("1", 9) });
                        s.kubelet = Ok(Kubelet { active: true, ..Kubelet::default() });
                    }),
                    Unknown,
                ),
                ("renewed since, a moment ago", with(|s| s.lease = Ok(looked_at(2, 12))), Pass),
                ("renewed since, and late", with(|s| s.lease = Ok(looked_at(2, 17))), Unknown),
                ("renewed since, and run out", with(|s| s.lease = Ok(looked_at(2, 42))), Fail),
                (
                    "of the kubelet before, which this one may still renew",
                    with(|s| s.lease = Ok(looked_at(-900, 39))),
                    Unknown,
                ),
                ("of the kubelet before", with(|s| s.lease = Ok(looked_at(-900, 40))), Fail),
                (
                    "of a kubelet that was stopped",
                    with(|s| {
                        s.lease = Ok(looked_at(2, 3));
                        s.kubelet = Ok(Kubelet { active: false, started_at: Some(STARTED), ..Kubelet::default() });
                    }),
                    Unknown,
                ),
                ("none", with(|s| s.lease = Err(Why::Absent)), Fail),
                ("none yet", young(2, 9), Pass),
                ("none yet, and it will not be taken", refused(young(2, 9)), Fail),
                ("one, and it will not be renewed", refused(joined()), Fail),
                ("none, and late", young(2, 18), Fail),
                ("none, of a Node before this kubelet", young(-60, 3), Fail),
                ("nor a Node", with(|s| (s.node, s.lease) = (Err(Why::Absent), Err(Why::Absent))), Skip),
                ("denied", with(|s| s.lease = Err(Why::Denied)), Unknown),
                ("renewed in the future", with(|s| s.lease = Ok(looked_at(60, 12))), Unknown),
            ],
        );
    }
}
