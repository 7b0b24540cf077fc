//! The kubelet runs, with a kubeconfig.
//!
//! Without one it runs alone (standalone): healthy, answering healthz, and in no cluster. kubeadm does not look.
//!
//! See it yourself: `systemctl status kubelet`, `ps -ww -C kubelet -o args`
//! Fix: `journalctl -u kubelet -n 30` says why it ended; `carrick check --fix` restores a lost drop-in

use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{NodeEvidence, Proof, Until, known};

pub const PROOF: Proof = Proof {
    id: "verify.kubelet",
    title: "the kubelet runs, with a kubeconfig",
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
    Ok(pass("the kubelet runs, with a kubeconfig"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::join::verify::Kubelet;
    use crate::join::verify::testing::{joined, table, with};

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
