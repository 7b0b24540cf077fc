//! The first example of README: `--api`, `--token-file`, `--ca-hash`; on Debian 13, with a label and a taint.

use serde_json::{Value, json};

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{install, is_joined, join};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join --api --token-file --ca-hash of a Debian 13 machine; its Node has the label and the taint that were given",
    tier: Tier::Quick,
    covers: &[Covers::Verb("join"), Covers::Promise(1)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian13)],
    run,
};

const TOKEN: &str = "/root/token";

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, bench.worker(Kind::Debian13)?);
    install(bench, &worker)?;
    let after = |flag: &str| cluster.join.iter().skip_while(|word| *word != flag).nth(1).cloned().unwrap_or_default();
    worker.write(TOKEN, &format!("{}\n", after("--token")))?;
    let (api, pin) = (after("join"), after("--discovery-token-ca-cert-hash"));
    let example = ["--api", &api, "--token-file", TOKEN, "--ca-hash", &pin];
    let more = ["--label", "lab/by=flags", "--taint", "lab/by=flags:NoSchedule"];
    let done = join(&worker, &[], &[&example[..], &more[..]].concat(), "")?;
    bench.say(format_args!("carrick join ended with {}\n{}", done.code(), done.text()));
    demand!(done.code() == 0, "it ended with {}:\n{}", done.code(), done.text());
    bench.time("join", done.took);
    is_joined(cluster, &worker)?;
    let node = cluster.get(["node", &worker.identity.name])?;
    demand!(node["metadata"]["labels"]["lab/by"] == "flags", "no label of ours: {}", node["metadata"]["labels"]);
    // The cluster has taints of its own, and takes them away in its own time.
    let taints: Vec<&Value> = node["spec"]["taints"].as_array().into_iter().flatten().collect();
    let given = json!({ "key": "lab/by", "value": "flags", "effect": "NoSchedule" });
    demand!(taints.contains(&&given), "the taint is not there: {taints:?}");
    let own = taints.iter().find(|taint| taint["key"].as_str().is_some_and(|key| key.contains("carrick")));
    demand!(own.is_none(), "a taint of carrick's own is left: {own:?}");
    Ok(())
}
