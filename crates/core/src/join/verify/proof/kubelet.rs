//! The kubelet runs with a kubeconfig, and answers.
//!
//! Without a kubeconfig it runs standalone: healthy, answering healthz, and in no cluster. kubeadm does not look. One that hangs, or
//! that a signal has stopped, leaves its Node Ready for most of a minute, and its lease good for 40 s.
//!
//! See it yourself: `systemctl status kubelet`, `ps -ww -C kubelet -o args`
//! Fix: `journalctl -u kubelet -n 30` says why it ended; `carrick check --fix` restores a lost drop-in; `systemctl restart
//! kubelet` for one that hangs

use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{KubeletHalt, NodeEvidence, Proof, Until, known};

pub const PROOF: Proof = Proof {
    id: "verify.kubelet",
    title: "the kubelet runs with a kubeconfig, and answers",
    subsystem: Subsystem::Kubelet,
    until: Until::Registered,
    after: &[],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let kubelet = known("kubelet.service", &seen.kubelet)?;
    let source = "systemctl show kubelet";
    if kubelet.standalone {
        return Ok(fail("the kubelet has no --kubeconfig: it runs alone")
            .seen(Evidence::of(source, "ExecStart without --kubeconfig"))
            .fix("carrick check --fix       # restores the kubeadm drop-in")
            .explains([id!("kubelet.standalone")]));
    }
    if !kubelet.active && seen.certificate == Err(Why::Absent) {
        return Ok(skip("before a join a kubelet has nothing to run with"));
    }
    if !kubelet.active {
        let exit = kubelet.exit.map_or_else(String::new, |exit| format!(", status {exit}"));
        return Ok(fail("the kubelet does not run")
            .seen(Evidence::of(source, format!("not active, {} restarts{exit}", kubelet.restarts)))
            .fix("journalctl -u kubelet -n 30 --no-pager    # the last error says why")
            .explains([id!("kubelet.not-running")]));
    }
    let says = match kubelet.halt {
        Some(KubeletHalt::Suspended) => "a signal has stopped it (SIGSTOP)",
        Some(KubeletHalt::Silent) => "it takes connections on its healthz port and answers none",
        Some(KubeletHalt::Stopped | KubeletHalt::Removed) | None => {
            return Ok(pass("the kubelet runs, with a kubeconfig"));
        }
    };
    Ok(fail("the kubelet does not answer")
        .seen(Evidence::of("kubelet", says))
        .fix("ps -o pid,stat,wchan:32,args -C kubelet    # only looks: T is stopped, D waits for a disk or a mount")
        .fix("systemctl restart kubelet")
        .means(id!("kubelet.not-answering")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::join::verify::Kubelet;
    use crate::join::verify::testing::{joined, joined_with, table, with};

    fn halted(halt: KubeletHalt) -> NodeEvidence {
        joined_with(|s| s.kubelet = s.kubelet.clone().map(|kubelet| Kubelet { halt: Some(halt), ..kubelet }))
    }

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("runs", joined(), Pass),
                (
                    "alone",
                    with(|s| s.kubelet = Ok(Kubelet { active: true, standalone: true, ..Kubelet::default() })),
                    Fail,
                ),
                ("stopped", with(|s| s.kubelet = Ok(Kubelet::default())), Fail),
                ("hangs", halted(KubeletHalt::Silent), Fail),
                ("stopped by a signal", halted(KubeletHalt::Suspended), Fail),
                ("systemctl hangs", with(|s| s.kubelet = Err(Why::TimedOut)), Unknown),
                (
                    "waits for a join",
                    with(|s| (s.kubelet, s.certificate) = (Ok(Kubelet::default()), Err(Why::Absent))),
                    Skip,
                ),
            ],
        );
    }
}
