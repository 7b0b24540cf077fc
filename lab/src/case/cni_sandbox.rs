//! A throw-away sandbox on a machine without a kubelet: a network of somebody's own, on containerd 1.7.

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "a sandbox proves a network that no cluster knows, is gone afterwards, and says what its plugin says",
    tier: Tier::Quick,
    covers: &[Covers::Verb("cni wait"), Covers::Verb("cni lint")],
    needs: &[Need::Machine(Kind::Debian13)],
    run,
};

const CONF: &str = r#"{"cniVersion": "1.0.0", "name": "mine", "plugins": [{"type": "bridge", "bridge": "mine0",
    "isGateway": true, "ipam": {"type": "host-local", "subnet": "10.99.0.0/24"}}]}"#;
const PROVE: &str = "cni wait --probe --tries 1 --every 5";

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let worker = bench.worker(Kind::Debian13)?;
    let carrick = Carrick::on(&worker, &program)?;
    worker.run(["sh", "-ec", "printf %s \"$1\" > /root/10-mine.conflist", "sh", CONF]).ok()?;
    carrick.ends(bench, "cni lint /root/10-mine.conflist", 0, &["Nothing wrong."])?;
    worker
        .run(["sh", "-ec", "mkdir -p /etc/cni/net.d; cat /root/10-mine.conflist > /etc/cni/net.d/10-mine.conflist"])
        .ok()?;
    carrick.ends(bench, PROVE, 0, &["generic: the runtime says NetworkReady; not joined; a sandbox got 10.99.0."])?;
    // What only the plugin itself finds out.
    worker.run(["sh", "-ec", "ip link del mine0; ip link add mine0 type veth peer name mine1"]).ok()?;
    carrick.ends(bench, PROVE, 6, &["a sandbox gets no address", "mine0"])?;
    worker.ok(["ip", "link", "del", "mine0"])?;
    carrick.ends(bench, PROVE, 0, &["a sandbox got 10.99.0."])?;
    // What would have to be pulled is not.
    worker.run(["sh", "-ec", "ctr -n k8s.io images ls -q | grep pause | xargs ctr -n k8s.io images rm"]).ok()?;
    carrick.ends(bench, PROVE, 6, &["the pause image", "is not here"])?;
    let left = worker.ok(["ctr", "-n", "k8s.io", "containers", "ls", "-q"])?;
    demand!(left.trim().is_empty(), "sandboxes are left: {left}");
    Ok(())
}
