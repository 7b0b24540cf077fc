//! A pod of another node answers from here.
//!
//! A node whose overlay is blocked is Ready, and its pods reach neither the cluster's DNS nor any pod elsewhere. With
//! --kubeconfig pods of other Ready nodes are dialled over TCP, CoreDNS first, at most three: from within the sandbox or
//! the throw-away Pod, where one stands long enough, else from the machine itself. One that answers is proof. Other nodes
//! learn of this one within seconds: for 10 s they are dialled again. That none answers then fails only with a second sign
//! on this machine (a rule that drops, no route, no neighbour entry, an agent's address that is not the node's): alone it
//! is a warning, as a NetworkPolicy may forbid it.
//!
//! See it yourself: `kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide`, `nc -vz ADDRESS 53` on this machine
//! Fix: open the overlay's port between the nodes: `carrick explain firewall.vxlan`; `ip route`, `ip neigh` and the log
//! of the network's agent say where packets stop

use super::agent_address;
use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip, warn};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{Dialled, DialledFrom, NodeEvidence, Peer, Proof, Until, missing, not_seen, unproven};

pub const PROOF: Proof = Proof {
    id: "verify.peer",
    title: "a pod of another node answers from here",
    subsystem: Subsystem::Network,
    until: Until::Verified,
    after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity", "verify.sandbox"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let dialled = match &seen.peers {
        Ok(dialled) => dialled,
        Err(Why::NotAdmin | Why::NotAsked) => {
            return Ok(skip("no pod of another node was dialled: needs --kubeconfig"));
        }
        Err(why @ Why::NotCollected) => return Err(missing("pods of other nodes", why)),
        Err(why) => return Ok(unproven(format!("cannot tell whether pods of other nodes answer: {why}"))),
    };
    if dialled.is_unanswered() && !dialled.has_lasted {
        let says = "no pod of another node answers from here yet".to_owned();
        return Ok(Verdict { says, ..not_seen("pods of other nodes", &Why::NotCollected) });
    }
    if let Some(Peer { pod, node, from, .. }) = dialled.peers.iter().find(|peer| peer.answer == Dialled::Answered) {
        let from = match from {
            DialledFrom::Pod => "a pod here",
            DialledFrom::Machine => "this machine",
        };
        return Ok(pass(format!("{pod} on node {node} answers {from}")));
    }
    if dialled.peers.is_empty() {
        return Ok(unproven("no pod runs on another Ready node that could be dialled from here"));
    }
    if !dialled.is_unanswered() {
        return Ok(unproven("no pod of another node could be dialled from here").seen(dialled.peers.iter().map(told)));
    }
    let lost = dialled.peers.iter().any(|peer| matches!(peer.answer, Dialled::Unreachable(_)));
    let says = if dialled.reached_by_machine {
        "pods of other nodes answer this machine, and no pod here"
    } else {
        "no pod of another node answers from here"
    };
    let signs: Vec<Evidence> = dialled.signs.iter().cloned().chain(agent_address::sign(seen)).collect();
    let verdict = if lost || !signs.is_empty() {
        fail(says).fix("carrick diagnose").means(id!("pod.no-route"))
    } else {
        warn(format!("{says}: a NetworkPolicy may forbid it, or packets are lost on the way"))
            .fix("kubectl get networkpolicies -A    # does one forbid it?")
    };
    Ok(verdict.seen(signs).seen(dialled.peers.iter().map(told)))
}

fn told(peer: &Peer) -> Evidence {
    let answer = match &peer.answer {
        Dialled::Answered => "answers",
        Dialled::Refused => "connection refused",
        Dialled::Silent => "no answer",
        Dialled::Unreachable(why) | Dialled::NotDialled(why) => why,
    };
    Evidence::of(format!("{} on {}, {}", peer.pod, peer.node, peer.at), answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::join::verify::testing::{joined_with, peer_dial, table, with};
    use crate::join::verify::{PeerDial, holds};

    fn dialled(answers: &[Dialled], signs: &[&str]) -> NodeEvidence {
        joined_with(|seen| seen.peers = Ok(PeerDial { has_lasted: true, ..peer_dial(answers, signs) }))
    }

    fn not_for_long(mut seen: NodeEvidence) -> NodeEvidence {
        seen.peers = seen.peers.map(|dialled| PeerDial { has_lasted: false, ..dialled });
        seen
    }

    #[test]
    fn who_reaches_them_and_who_does_not_is_told() {
        let mut seen = dialled(&[Dialled::Silent], &[]);
        assert!(seen.peers.as_ref().is_ok_and(PeerDial::is_unanswered));
        seen.peers = seen.peers.map(|dialled| PeerDial { reached_by_machine: true, ..dialled });
        let says = PROOF.verdict(&seen, Until::Verified).says;
        assert!(
            says.starts_with("pods of other nodes answer this machine, and no pod here: a NetworkPolicy"),
            "{says}"
        );
        let waits = not_for_long(seen);
        assert!(!holds(&waits, Until::Verified), "they are dialled again");
    }

    #[test]
    fn judges() {
        use Dialled::{Answered, NotDialled, Refused, Silent, Unreachable};
        let drops = &["-A INPUT -p udp --dport 8472 -j DROP"];
        let no_route = Unreachable("no route to host".into());
        let cut_off = NotDialled("the sandbox was stopped meanwhile".into());
        table(
            &PROOF,
            vec![
                ("one answers", dialled(&[Silent, Answered], &[]), Pass),
                ("one answers, whatever a rule says", dialled(&[Answered], drops), Pass),
                ("none does", dialled(&[Silent, Silent], &[]), Warn),
                ("none does, and a rule drops", dialled(&[Silent], drops), Fail),
                ("no route", dialled(&[Silent, no_route], &[]), Fail),
                ("refused", dialled(&[Refused], &[]), Warn),
                ("cut off", dialled(&[cut_off], &[]), Unknown),
                ("none does yet, and a rule drops", not_for_long(dialled(&[Silent], drops)), Unknown),
                ("nobody to dial", dialled(&[], &[]), Unknown),
                ("nobody who may look", with(|s| s.peers = Err(Why::NotAdmin)), Skip),
                ("not dialled yet", with(|s| s.peers = Err(Why::NotCollected)), Unknown),
                ("the API server is silent", with(|s| s.peers = Err(Why::TimedOut)), Unknown),
            ],
        );
        for fails_nothing in [dialled(&[], &[]), dialled(&[Silent], &[]), with(|s| s.peers = Err(Why::TimedOut))] {
            assert!(holds(&fails_nothing, Until::Verified), "{:?}", fails_nothing.peers);
        }
        assert!(!holds(&with(|s| s.peers = Err(Why::NotCollected)), Until::Verified), "it is still to be dialled");
    }
}
