//! A node whose kubelet somebody stopped: `carrick join` starts it, and that is all that was missing.

use std::time::Duration;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{JOINS, fresh, joins};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join on a node whose kubelet was stopped: Ready in seconds, without kubeadm, by the same certificate",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Shorter than the 50 s after which the cluster takes a silent Node for lost: who waits for that waits for nothing.
const AT_ONCE: Duration = Duration::from_secs(40);

fn run(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    joins(bench, &worker)?;
    let before = kept(&worker)?;
    worker.ok(["systemctl", "stop", "kubelet"])?;
    let done = joins(bench, &worker)?;
    bench.time("join", done.took);
    demand!(done.took < AT_ONCE, "it took {} s:\n{}", done.took.as_secs(), done.text());
    let after = kept(&worker)?;
    demand!(before == after, "kubeadm ran, or the certificate is another:\n{before}---\n{after}{}", done.text());
    Ok(())
}

/// The certificate that the kubelet has, every kubeadm that carrick has run, and what those printed.
fn kept(worker: &Machine) -> Result<String> {
    let script = format!(
        "readlink -e /var/lib/kubelet/pki/kubelet-client-current.pem; ls {JOINS} | grep kubeadm
        journalctl -b --no-pager -q -o cat -u carrick-kubeadm.service | sort | uniq -c"
    );
    worker.ok(["sh", "-ec", &script])
}
