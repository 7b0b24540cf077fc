//! A node that nobody reaches: its firewall closes the kubelet's port, or the overlay's. Certain before the join it stops it;
//! found later the node is registered, and not verified. Doing what is said is enough.

use std::sync::Arc;

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{bring_admin, fresh, is_joined, join, joins, line};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "a node that nobody reaches is not joined: the API server is asked, a peer is dialled, and what is said to do is enough",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Verb("verify"), Covers::Promise(1), Covers::Family("firewall")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// ufw as Debian has it: only what is allowed comes in.
const CLOSE: &str = "ufw allow 22/tcp; ufw --force enable";
/// What is printed to open a port.
const OPENS_KUBELET: &str = "ufw allow 10250/tcp";
const OPENS_OVERLAY: &str = "ufw allow 8472/udp";

fn run(bench: &mut Bench) -> Result<()> {
    let cluster = bench.cluster()?;
    let worker = fresh(bench)?;
    let carrick = Carrick { machine: Arc::clone(&worker) };
    let admin = bring_admin(cluster, &worker)?;
    let verify = format!("verify --kubeconfig {admin}");

    // Certain before the join: it is stopped, and what it says to do is done. An admin is told of the overlay, too.
    worker.ok(["sh", "-ec", CLOSE])?;
    let done = join(&worker, &[], &["--kubeconfig", admin], "")?;
    bench.say(format_args!("a join behind ufw ended with {}\n{}", done.code(), done.text()));
    demand!(done.code() == 3 && done.text().contains("Not joined."), "{}", done.text());
    for fix in [OPENS_KUBELET, OPENS_OVERLAY] {
        demand!(done.text().contains(fix), "it does not say {fix}:\n{}", done.text());
        worker.ok(["sh", "-ec", fix])?;
    }
    let done = join(&worker, &[], &["--kubeconfig", admin], "")?;
    bench.say(format_args!("with both ports open it ended with {}\n{}", done.code(), done.text()));
    bench.time("join, asked from outside", done.took);
    demand!(done.code() == 0 && !done.text().contains("not proven from outside"), "{}", done.text());
    is_joined(cluster, &worker)?;
    let proven = ["the API server reaches the kubelet", "kube-system/coredns-", "answers a pod here", "Joined: "];
    carrick.ends(bench, &format!("{verify} -v"), 0, &proven)?;

    // The kubelet's port is closed on a node: Ready, and nobody reaches it.
    // The API server keeps its connections to a kubelet, and ufw lets those be that stand: both begin anew.
    worker.ok(["sh", "-ec", "ufw delete allow 10250/tcp; systemctl restart kubelet"])?;
    let unreached = ["verify.kubelet-reached", "the API server cannot reach the kubelet", "Not joined: "];
    carrick.ends(bench, &verify, 3, &unreached)?;
    let done = join(&worker, &[], &["--kubeconfig", admin], "")?;
    bench.say(format_args!("a join of a node that is not reached ended with {}\n{}", done.code(), done.text()));
    demand!(done.code() == 3 && done.text().contains("Registered, not verified."), "{}", done.text());
    demand!(done.text().contains("firewall.kubelet"), "it does not name the firewall:\n{}", done.text());
    worker.ok(["sh", "-ec", OPENS_KUBELET])?;
    carrick.ends(bench, &verify, 0, &["Joined: "])?;

    // The overlay's port is closed: no pod elsewhere answers, and a rule says why.
    worker.ok(["sh", "-ec", "ufw delete allow 8472/udp"])?;
    carrick.ends(bench, &verify, 3, &["verify.peer", "no pod of another node answers from here", "UDP 8472"])?;
    let done = join(&worker, &[], &["--kubeconfig", admin], "")?;
    bench.say(format_args!("a join of a node that reaches nobody ended with {}\n{}", done.code(), done.text()));
    demand!(done.code() == 3 && done.text().contains("Registered, not verified."), "{}", done.text());
    demand!(done.text().contains("firewall.vxlan"), "it does not name the firewall:\n{}", done.text());
    worker.ok(["sh", "-ec", OPENS_OVERLAY])?;
    carrick.ends(bench, &verify, 0, &["Joined: "])?;

    ignored(bench)
}

/// Who knows better goes on.
fn ignored(bench: &mut Bench) -> Result<()> {
    let cluster = bench.cluster()?;
    let worker = fresh(bench)?;
    worker.ok(["sh", "-ec", &format!("{CLOSE}; {OPENS_OVERLAY}")])?;
    let done = join(&worker, &[], &["--ignore", "firewall.kubelet", "-"], &line(cluster))?;
    bench.say(format_args!("with --ignore it ended with {}\n{}", done.code(), done.text()));
    demand!(done.code() == 0 && done.out.contains("not proven from outside"), "{}", done.text());
    is_joined(cluster, &worker)?;
    worker.ok(["ufw", "disable"])?;
    joins(bench, &worker).map(drop)
}
