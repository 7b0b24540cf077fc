//! `carrick reset` and a plain `kubeadm join`, ten times in a row: nothing of one join is in the way of the next.

use serde_json::Value;

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::cluster::{Cluster, condition};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick reset, then a plain kubeadm join at once, ten times: same Node or a new one, pods get its addresses",
    tier: Tier::Standard,
    covers: &[Covers::Verb("reset")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// An even and an odd one are different.
const ROUNDS: u32 = 10;

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let worker = bench.worker(Kind::Debian12)?;
    let carrick = Carrick::on(&worker, &program)?;
    let cluster = bench.cluster()?;
    let name = worker.identity.name.clone();
    carrick.ends(bench, "reset --yes", 0, &[])?;
    cluster.join(&worker)?;
    cluster.wait_ready(&name)?;
    cluster.pod_answers(&worker)?;
    for round in 1..=ROUNDS.min(bench.tier.cycles()?) {
        let before = cluster.get(["node", &name])?;
        let reset = carrick.ends(bench, "reset --yes --stop-pods", 0, &["can join again"])?;
        bench.time(format!("{round}: reset"), reset.took);
        left_in_the_cluster(cluster, &name, &before)?;
        carrick.ends(bench, "reset --yes", 0, &["nothing of a join is left here"])?;
        // The next Node by the name gets another range: what the old one left on the machine must not matter.
        if round % 2 == 0 {
            cluster.delete_node(&name)?;
        }
        let joined = cluster.join(&worker)?;
        bench.time("join", joined);
        cluster.wait_ready(&name)?;
        cluster.kubectl(["uncordon", &name]).ok()?;
        let answered = cluster.pod_answers(&worker)?;
        bench.time("pod", answered);
        let (was, is) = (range(&before), range(&cluster.get(["node", &name])?));
        demand!((was == is) == (round % 2 == 1), "round {round}: the range of pod addresses was {was} and is {is}");
    }
    Ok(())
}

fn range(node: &Value) -> String {
    node["spec"]["podCIDR"].as_str().unwrap_or_default().to_owned()
}

/// The Node is there as it was, and says that its machine is gone.
fn left_in_the_cluster(cluster: &Cluster, name: &str, before: &Value) -> Result<()> {
    let node = cluster.get(["node", name])?;
    demand!(node["metadata"]["uid"] == before["metadata"]["uid"], "the Node is another one");
    demand!(range(&node) == range(before), "the Node has another range of pod addresses");
    let ready = condition(&node, "Ready");
    demand!(ready["status"] == "False" && ready["reason"] == "CarrickReset", "Ready is {ready}");
    demand!(node["spec"]["unschedulable"] == true, "the Node is not cordoned");
    let said = &node["metadata"]["annotations"]["carrick.dev/cordoned-by-reset"];
    demand!(said.is_string(), "no note says who cordoned it: {}", node["metadata"]["annotations"]);
    Ok(())
}
