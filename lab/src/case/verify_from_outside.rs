//! A node that had joined, and what only an admin can see of it: packets for pods of other nodes that leave by the wrong way, and a
//! kubelet that does not let the API server in.

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
    about: "verify with an admin's kubeconfig names a route of flannel's that is gone, and a kubelet that trusts another CA",
    tier: Tier::Standard,
    covers: &[Covers::Verb("verify"), Covers::Promise(1)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// flannel's routes to the pods of other nodes.
const REMOVE_ROUTES: &str = "ip route show dev flannel.1 > /root/routes; while read -r to rest; do ip route del $to dev flannel.1; done < /root/routes";
const RESTORE_ROUTES: &str = "while read -r route; do ip route add $route dev flannel.1; done < /root/routes";

/// What kubeadm calls the CA of API servers, as of another cluster.
const SWAP_CA: &str = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 \
    -subj /CN=kubernetes -keyout /root/other.key -out /etc/kubernetes/pki/ca.crt; systemctl restart kubelet";
/// What the report says to do.
const FIXES_CA: &str = "sed -n 's/.*certificate-authority-data: //p' /etc/kubernetes/kubelet.conf | base64 -d > \
    /etc/kubernetes/pki/ca.crt && systemctl restart kubelet";

fn run(bench: &mut Bench) -> Result<()> {
    let cluster = bench.cluster()?;
    let worker = fresh(bench)?;
    let admin = bring_admin(cluster, &worker)?;
    joins(bench, &worker)?;
    let carrick = Carrick { machine: Arc::clone(&worker) };
    let verify = format!("verify --kubeconfig {admin}");
    carrick.ends(bench, &verify, 0, &["Joined: "])?;

    worker.ok(["sh", "-ec", REMOVE_ROUTES])?;
    carrick.ends(bench, &verify, 3, &["verify.peer", "flannel has no route to", "Not joined: "])?;
    worker.ok(["sh", "-ec", RESTORE_ROUTES])?;
    carrick.ends(bench, &verify, 0, &["Joined: "])?;

    worker.ok(["sh", "-ec", SWAP_CA])?;
    carrick.ends(
        bench,
        &verify,
        3,
        &["the kubelet does not let the API server in", "clientCAFile", "401", "certificate-authority-data"],
    )?;
    worker.ok(["sh", "-ec", FIXES_CA])?;
    cluster.wait_ready(&worker.identity.name)?;
    carrick.ends(bench, &verify, 0, &["Joined: "]).map(drop)
}
