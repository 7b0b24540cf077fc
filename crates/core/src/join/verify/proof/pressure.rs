//! The Node is short of nothing: its conditions DiskPressure, MemoryPressure and PIDPressure are False, and it takes pods beside
//! those of its own network (maxPods).
//!
//! A node under pressure is Ready and takes no pods: the scheduler keeps new ones off, and the kubelet refuses those that are
//! bound to it and evicts others. A moment of it may pass; carrick join waits as long as it waits for Ready.
//!
//! See it yourself: `kubectl describe node NAME`, `df -h /var/lib/kubelet /var/lib/containerd`
//! Fix: free what it is short of; the kubelet takes the condition back a few minutes later (evictionPressureTransitionPeriod)

use crate::catalogue::About;
use crate::check::{Evidence, Subsystem, Verdict, fail, pass};
use crate::fact::Known;
use crate::id;
use crate::join::verify::{NodeEvidence, Pressure, Proof, Resource, Until, known};

pub const PROOF: Proof = Proof {
    id: "verify.pressure",
    title: "the node is short of nothing",
    subsystem: Subsystem::Kubelet,
    until: Until::Verified,
    after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let node = known("Node", &seen.node)?;
    let agents = seen.agents.as_ref().map_or(0, Vec::len);
    if let Some(takes) = node.takes_pods.filter(|takes| *takes <= u64::try_from(agents).unwrap_or(u64::MAX)) {
        let says = format!("node {} takes {takes} pods: none beside those of its own network", node.name);
        return Ok(fail(says)
            .seen(Evidence::of("Node status.allocatable", format!("pods: {takes}")))
            .fix("grep -n -e maxPods -e podsPerCore /var/lib/kubelet/config.yaml    # raise it, then: systemctl restart kubelet"));
    }
    let Some(first) = node.pressures.first() else {
        return Ok(pass("the node is short of neither disk, memory nor process ids"));
    };
    let (about, what, frees) = of(first.of);
    let evidence = |it: &Pressure| Evidence::of(format!("Node condition {}", it.of.condition()), it.says.as_str());
    let failed = fail(format!("node {} is short of {what} and takes no pods", node.name)).means(about);
    Ok(frees.iter().fold(failed.seen(node.pressures.iter().map(evidence)), |verdict, command| verdict.fix(*command)))
}

/// The id it is known by, what there is too little of, and what shows and frees it.
fn of(resource: Resource) -> (About<'static>, &'static str, &'static [&'static str]) {
    match resource {
        Resource::Disk => (
            id!("node.disk-pressure"),
            "disk",
            &[
                "df -h /var/lib/kubelet /var/lib/containerd; df -i /var/lib/kubelet    # which is full",
                "journalctl --vacuum-size=500M    # removes old journals",
                "crictl rmi --prune    # removes unused images; or, without crictl, one by one: ctr -n k8s.io images ls -q; ctr -n k8s.io images rm NAME",
            ],
        ),
        Resource::Memory => (
            id!("node.memory-pressure"),
            "memory",
            &["ps -eo rss,pid,comm --sort=-rss | head    # what uses it: stop that, or give the machine more"],
        ),
        Resource::Pids => (
            id!("node.pid-pressure"),
            "process ids",
            &["ps -eo user,comm --no-headers | sort | uniq -c | sort -rn | head    # who has so many processes"],
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::Why;
    use crate::join::verify::Node;
    use crate::join::verify::testing::{joined, node, table, with};

    fn under(of: Resource) -> NodeEvidence {
        let pressure = Pressure { of, says: "KubeletHasDiskPressure kubelet has disk pressure".into() };
        NodeEvidence { node: Ok(Node { pressures: vec![pressure], ..node() }), ..joined() }
    }

    fn takes(pods: u64) -> NodeEvidence {
        NodeEvidence { node: Ok(Node { takes_pods: Some(pods), ..node() }), ..joined() }
    }

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("short of nothing", joined(), Pass),
                ("room for a hundred and ten", takes(110), Pass),
                ("room for its own network alone", takes(2), Fail),
                ("room for none", takes(0), Fail),
                ("disk", under(Resource::Disk), Fail),
                ("memory", under(Resource::Memory), Fail),
                ("process ids", under(Resource::Pids), Fail),
                ("not asked", with(|s| s.node = Err(Why::TimedOut)), Unknown),
            ],
        );
    }
}
