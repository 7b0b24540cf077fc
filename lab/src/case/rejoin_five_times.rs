//! A machine is taken out and joined again, five times, and works each time.

use super::{Bench, Case};
use crate::demand;
use crate::error::Result;
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "kubeadm reset and join, five times: refused while the Node is Ready, then joined, Ready, and pods answer",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

const ROUNDS: usize = 5;

fn run(bench: &mut Bench) -> Result<()> {
    let cluster = bench.cluster()?;
    let worker = bench.worker(Kind::Debian12)?;
    let name = &worker.identity.name;
    cluster.join(&worker)?;
    cluster.wait_ready(name)?;
    for round in 1..=ROUNDS {
        let reset = worker.run(["kubeadm", "reset", "--force"]).done()?.success()?.took;
        if round == 1 {
            let refused = cluster.try_join(&worker, &[])?;
            let expected = format!("a Node with name \"{name}\" and status \"Ready\" already exists in the cluster");
            demand!(refused.code() == 1 && refused.err.contains(&expected), "not refused: {}", refused.text());
            // What the refused join left would fail the next one for another reason.
            worker.ok(["kubeadm", "reset", "--force"])?;
        }
        cluster.delete_node(name)?;
        // The new Node gets another pod range, and the old bridge still has an address of the old one.
        worker.run(["ip", "link", "delete", "cni0"]).done()?;
        let joined = cluster.join(&worker)?;
        let ready = cluster.wait_ready(name)?;
        bench.say(format_args!("round {round}: reset {reset:?}, join {joined:?}, Ready {ready:?}"));
        bench.time(format!("{round}: join"), joined);
        bench.time("Ready", ready);
    }
    let answered = cluster.pod_answers(&worker)?;
    bench.time("pod answers", answered);
    Ok(())
}
