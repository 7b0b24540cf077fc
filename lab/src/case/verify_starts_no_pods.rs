//! A kubelet that starts no pods any more, on a node whose pods are all older than the fault: the runtime makes sandboxes as ever,
//! and every pod goes on. A throw-away Pod shows it, and what the kubelet says.

use std::sync::Arc;

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::error::Result;
use crate::join::{bring_admin, fresh, joins};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "verify with an admin's kubeconfig does not take a node for joined whose kubelet cannot make a pod's directories; without one that is not proven",
    tier: Tier::Standard,
    covers: &[Covers::Verb("verify"), Covers::Promise(1)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Nothing new is made there; what pods that run have mounted stays.
const FREEZE: &str = "d=/var/lib/kubelet/pods; mount --rbind $d $d; mount --make-rslave $d; mount -o remount,ro,bind $d; \
    systemctl restart kubelet";
const THAW: &str = "umount -R -l /var/lib/kubelet/pods; systemctl restart kubelet";
const NOT_PROVEN: &str = "no container was started here since the kubelet was";

fn run(bench: &mut Bench) -> Result<()> {
    let cluster = bench.cluster()?;
    let worker = fresh(bench)?;
    let admin = bring_admin(cluster, &worker)?;
    joins(bench, &worker)?;
    let carrick = Carrick { machine: Arc::clone(&worker) };
    let verify = format!("verify -v --kubeconfig {admin}");
    // kube-proxy's container and flannel's are younger than the kubelet: no Pod is made.
    carrick.ends(bench, &verify, 0, &["was started by this kubelet", "a sandbox got the address", "Joined: "])?;

    worker.ok(["sh", "-ec", FREEZE])?;
    cluster.wait_ready(&worker.identity.name)?;
    carrick.ends(bench, "verify -v", 0, &[NOT_PROVEN, "Joined: "])?;
    carrick.ends(bench, &verify, 3, &["no pod could start here", "read-only file system", "Not joined: "])?;

    worker.ok(["sh", "-ec", THAW])?;
    cluster.wait_ready(&worker.identity.name)?;
    carrick.ends(bench, &verify, 0, &["default/carrick-verify-", "Joined: "]).map(drop)
}
