//! Live diagnosis knows no current cause that keeps pods from running on this node, or others from reaching them.
//!
//! A node can be Ready, its lease renewed and a sandbox started while a firewall drops what other nodes send, a file system is
//! read-only or the runtime's cgroup driver is not the kubelet's. Once all else holds, `carrick verify` and `carrick join` look
//! as `carrick diagnose` does. What each id stops stands in its own text (`carrick explain ID`); only what is certain counts, and
//! what a check finds. One that may pass is looked at again until the stage's time is over. --ignore ID leaves one out.
//!
//! See it yourself: `carrick diagnose`
//! Fix: as the cause says; then `carrick verify`

use crate::check::{Subsystem, Verdict, fail, pass};
use crate::fact::Known;
use crate::join::verify::{NodeEvidence, Proof, StandingCause, Until, forbidding, known};

pub const PROOF: Proof = Proof {
    id: "verify.causes",
    title: "no cause is known that keeps pods from running here",
    subsystem: Subsystem::Machine,
    until: Until::Registered,
    after: &[
        "verify.kubelet",
        "verify.cluster",
        "verify.certificate",
        "verify.identity",
        "verify.lease",
        "verify.runtime-network",
        "verify.network-available",
        "verify.network-agent",
        "verify.ready",
        "verify.pressure",
        "verify.taints",
        "verify.node-address",
        "verify.agent-address",
        "verify.kube-proxy",
        "verify.sandbox",
        "verify.address",
        "verify.kubelet-reached",
        "verify.peer",
        "verify.restarts",
    ],
    judge,
};

fn judge(seen: &NodeEvidence, until: Until) -> Known<Verdict> {
    let all = known("live diagnosis", &seen.standing)?;
    let standing: Vec<&StandingCause> = forbidding(seen, until).collect();
    let Some(first) = standing.first() else {
        // What is beyond the goal is no obstacle yet, and worth a word.
        let later: Vec<&str> = all.iter().map(|cause| cause.id.as_str()).collect();
        let more = if later.is_empty() { String::new() } else { format!("; not asked for yet: {}", later.join(", ")) };
        return Ok(pass(format!("live diagnosis knows no cause that keeps pods from running here{more}")));
    };
    let more = match standing.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let failed = fail(format!("{}: {}{more}", first.id, first.title));
    let failed = standing.iter().fold(failed, |failed, cause| failed.seen(cause.evidence.clone()));
    let failed = first.remedy.iter().fold(failed, |failed, command| failed.fix(command.as_str()));
    Ok(failed.fix(format!("carrick explain {}", first.id)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalogue::{Class, Role, Stops};
    use crate::check::Evidence;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::Why;
    use crate::join::verify::holds;
    use crate::join::verify::testing::{joined, standing, table, with};

    fn over(stops: Stops) -> NodeEvidence {
        NodeEvidence { standing: Ok(vec![standing("firewall.vxlan", stops)]), ..joined() }
    }

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("nothing stands", joined(), Pass),
                ("pods do not start", over(Stops::Pods), Fail),
                ("no network", over(Stops::Network), Fail),
                ("nobody reaches them", over(Stops::Traffic), Fail),
                ("what the Node itself shows", over(Stops::Node), Pass),
                ("what stops nothing", over(Stops::Nothing), Pass),
                ("nobody looked", with(|s| s.standing = Err(Why::TimedOut)), Unknown),
            ],
        );
    }

    #[test]
    fn how_far_decides_what_stands_in_the_way() {
        use Until::{Network, Registered, Verified};
        for (stops, forbidden) in [
            (Stops::Nothing, &[][..]),
            (Stops::Node, &[]),
            (Stops::Pods, &[Registered, Network, Verified]),
            (Stops::Network, &[Network, Verified]),
            (Stops::Traffic, &[Verified]),
        ] {
            for until in [Registered, Network, Verified] {
                assert_eq!(!holds(&over(stops), until), forbidden.contains(&until), "{stops:?} {until:?}");
            }
        }
    }

    proptest! {
        /// Whatever else was seen: joined is never said over a cause that forbids it.
        #[test]
        fn nothing_that_forbids_it_stands_where_it_holds(
            chosen in prop::collection::vec((0usize..5, any::<bool>()), 0..4),
            goal in 0usize..3,
            ready: bool,
            seen: bool,
        ) {
            let until = [Until::Registered, Until::Network, Until::Verified][goal];
            let causes: Vec<StandingCause> = chosen.iter().map(|(stops, passes)| StandingCause {
                class: if *passes { Class::Transient } else { Class::Configuration },
                ..standing("cni.config", Stops::ALL[*stops])
            }).collect();
            let mut evidence = joined();
            evidence.standing = if seen { Ok(causes.clone()) } else { Err(Why::NotCollected) };
            if let Ok(node) = &mut evidence.node {
                node.ready = ready;
            }
            let forbidden = causes.iter().any(|cause| cause.stops.forbidden_from().is_some_and(|from| from <= until));
            prop_assert_eq!(holds(&evidence, until), seen && !forbidden && (ready || until < Until::Verified));
        }
    }

    #[test]
    fn the_first_is_named_with_its_remedy() {
        let two = vec![standing("cni.config", Stops::Network), standing("firewall.vxlan", Stops::Traffic)];
        let verdict = PROOF.verdict(&NodeEvidence { standing: Ok(two), ..joined() }, Until::Verified);
        assert_eq!(verdict.says, "cni.config: it is so (and 1 more)");
        assert_eq!(verdict.remedy, ["fix cni.config", "carrick explain cni.config"]);
        assert_eq!(verdict.evidence.len(), 2);
        let later = PROOF.verdict(&over(Stops::Traffic), Until::Network);
        assert!(later.says.ends_with("not asked for yet: firewall.vxlan"), "{later:?}");
        let StandingCause { role, evidence, .. } = standing("x", Stops::Pods);
        assert_eq!((role, evidence), (Role::Root, vec![Evidence::of("x", "seen")]));
    }
}
