//! Machines made from the same layers are different machines: to systemd, to the kubelet, and to the API server.

use std::collections::BTreeSet;

use super::{Bench, Case};
use crate::demand;
use crate::error::Result;
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "machines have machine-ids, system UUIDs and boot ids of their own, and the Nodes say the same",
    tier: Tier::Full,
    covers: &[],
    needs: &[
        Need::Cluster,
        Need::Machine(Kind::Debian12),
        Need::Machine(Kind::Debian13),
        Need::Machine(Kind::Debian12Kube129),
    ],
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    let cluster = bench.cluster()?;
    let mut seen = [("machineID", BTreeSet::new()), ("systemUUID", BTreeSet::new()), ("bootID", BTreeSet::new())];
    for kind in Kind::ALL {
        let worker = bench.worker(kind)?;
        let identity = &worker.identity;
        let told = worker.ok(["cat", "/etc/machine-id", "/sys/class/dmi/id/product_uuid"])?;
        let expected = format!("{}\n{}\n", identity.machine_id, identity.system_uuid);
        demand!(told == expected, "{} takes itself for {told:?}, not {expected:?}", identity.name);
        cluster.join(&worker)?;
        cluster.wait_ready(&identity.name)?;
        let node = cluster.get(["node", &identity.name])?;
        let info = &node["status"]["nodeInfo"];
        let uuid = info["systemUUID"].as_str().unwrap_or_default();
        demand!(info["machineID"] == identity.machine_id.as_str(), "the Node's machineID is {}", info["machineID"]);
        demand!(
            uuid.eq_ignore_ascii_case(&identity.system_uuid),
            "the Node's systemUUID is {uuid}, not {}",
            identity.system_uuid
        );
        for (field, values) in &mut seen {
            values.insert(info[*field].to_string());
        }
    }
    for (field, values) in &seen {
        // A boot id is the kernel's, and the kernel is shared: nspawn gives each machine one of its own.
        demand!(values.len() == Kind::ALL.len(), "{field} is shared: {values:?}");
    }
    Ok(())
}
