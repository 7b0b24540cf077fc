//! kubeadm is slower than the kubelet: carrick knows that the Node is there before kubeadm does, and lets it finish all the
//! same. What it ends in the middle leaves a token on the machine.

use super::{Bench, Case, join_until};
use crate::coverage::Covers;
use crate::error::Result;
use crate::join::fresh;
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join --until registered of a machine whose kubeadm is slow waits for its end, and no token is left",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(6)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Holds kubeadm once the kubelet has its certificate, for longer than the kubelet then takes to register its Node.
const HOLD: &str = "until [ -e /var/lib/kubelet/pki/kubelet-client-current.pem ]; do sleep 0.02; done
    systemctl kill --signal=STOP carrick-kubeadm; sleep 8; systemctl kill --signal=CONT carrick-kubeadm";

fn run(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    worker.ok(["systemd-run", "--quiet", "--unit=meddler", "sh", "-c", HOLD])?;
    join_until::as_far_as(bench, &worker, "registered")
}
