//! Something hangs in the middle of a join: the CNI plugin, systemctl, containerd. Nobody waits for more than ten seconds without a
//! word, the join ends by itself within what its stages may take, and names the cause; the machine is put back, or carrick says
//! what is not.

use std::time::Duration;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::{Error, Result};
use crate::join::{Ends, PROGRAM, fresh, joins, judge, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::Done;
use crate::tier::Tier;
use crate::tree::Tree;

pub const CASE: Case = Case {
    about: "carrick join with a CNI plugin that hangs, a systemctl that hangs, a containerd that is SIGSTOPped: a word within every 10 s, an end within its stages, the cause, and the machine put back or what is left told",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Between any two lines, before the first, and after the last.
const SILENCE: Duration = Duration::from_secs(10);

/// One attempt. Does something once these words were said; each line comes with the time it was said at, and so do the beginning
/// and the end.
const STAMPED: &str = r#"set -o pipefail
stamp() { while IFS= read -r line; do printf '%s %s\n' "$EPOCHREALTIME" "$line"; done; }
rm -f /root/said; : > /root/said
( until grep -q "$2" /root/said; do sleep 0.02; done; sh -ec "$3" ) >/dev/null 2>&1 & meddler=$!
echo "$EPOCHREALTIME begins"
MAX_RETRIES=1 "$1" join - < /root/join-line 2>&1 | tee /root/said | stamp; ended=$?
echo "$EPOCHREALTIME ends"
kill $meddler 2>/dev/null; rm -f /root/said; exit $ended"#;

/// Never reached: whoever calls it waits until it is killed.
const SLEEPS: &str = "#!/bin/sh\nexec sleep 100000\n";
/// On PATH before the real one.
const SYSTEMCTL: &str = "/usr/local/sbin/systemctl";
const HANGS_ON_RELOAD: &str = r#"#!/bin/sh
case " $* " in *" daemon-reload "*) exec sleep 100000;; esac
exec /usr/bin/systemctl "$@"
"#;

fn run(bench: &mut Bench) -> Result<()> {
    containerd(bench)?;
    systemctl(bench)?;
    plugin(bench)
}

/// It takes connections and answers none of them, from the moment kubeadm is at work.
fn containerd(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    let before = Tree::of(&worker)?;
    let signal = |name: &str| format!("kill -{name} $(systemctl show --value --property=MainPID containerd)");
    // To look, 20 s of silence, to end kubeadm and the kubelet, and to put back.
    let within = Duration::from_secs(150);
    let joined = joined_with(bench, &worker, "containerd is SIGSTOPped", "ok  joining", &signal("STOP"), within)?;
    worker.ok(["sh", "-ec", &signal("CONT")])?;
    judge(&Ends::Cause("runtime.socket", 3), &joined)?;
    // A kubelet that had its certificate before the runtime was stopped is in the cluster: then the machine stays as it is.
    let certificate = "/var/lib/kubelet/pki/kubelet-client-current.pem";
    if worker.run(["test", "-e", certificate]).done()?.status.success() {
        let says = "carrick join goes on from there";
        demand!(joined.text().contains(says), "it does not say {says:?}:\n{}", joined.text());
        nothing_left(&worker)?;
    } else {
        is_put_back(&worker, &before)?;
    }
    joins(bench, &worker).map(drop)
}

/// Preparation has to make systemd read the kubelet's drop-in, and so has whoever puts that back.
fn systemctl(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    worker.write(SYSTEMCTL, HANGS_ON_RELOAD)?;
    worker.ok(["chmod", "755", SYSTEMCTL])?;
    // 30 s for systemctl, forth and back, beside what a join takes.
    let within = Duration::from_secs(150);
    let joined = joined_with(bench, &worker, "systemctl daemon-reload hangs", "never", "", within)?;
    judge(&Ends::Cause("join.not-begun", 3), &joined)?;
    let text = joined.text().split_whitespace().collect::<Vec<_>>().join(" ");
    for says in ["systemctl daemon-reload: no end in", "not all of it could be cleaned up"] {
        demand!(text.contains(says), "it does not say {says:?}:\n{}", joined.text());
    }
    let token = worker.run(["test", "-e", "/run/carrick/join.yaml"]).done()?.status.success();
    demand!(!token, "the token is still there");
    // What could not be put back the next join ends.
    worker.ok(["rm", SYSTEMCTL])?;
    joins(bench, &worker).map(drop)
}

/// The node is in the cluster by then, and stays there; no pod can start on it.
fn plugin(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    worker.ok(["cp", "-a", "/opt/cni/bin/flannel", "/root/flannel"])?;
    worker.write("/opt/cni/bin/flannel", SLEEPS)?;
    worker.ok(["chmod", "755", "/opt/cni/bin/flannel"])?;
    // The stage of the last proof has 120 s; before it a join, which may have to wait for flannel's image.
    let within = Duration::from_mins(5);
    let joined = joined_with(bench, &worker, "the CNI plugin hangs", "never", "", within)?;
    judge(&Ends::Cause("node.not-ready", 6), &joined)?;
    nothing_left(&worker)?;
    worker.ok(["test", "-e", "/etc/kubernetes/kubelet.conf"])?;
    worker.ok([
        "sh",
        "-ec",
        "pkill -f '[s]leep 100000' || true; cp -a /root/flannel /opt/cni/bin/flannel; rm /root/flannel",
    ])?;
    joins(bench, &worker).map(drop)
}

/// A join of one attempt, as a person without a terminal sees it, in which `then` is done once `words` were said. Held to its end and its words.
fn joined_with(
    bench: &mut Bench,
    worker: &Machine,
    what: &str,
    words: &str,
    then: &str,
    within: Duration,
) -> Result<Done> {
    let cluster = bench.cluster()?;
    worker.write("/root/join-line", &line(cluster))?;
    let argv = ["bash", "-c", STAMPED, "bash", PROGRAM, words, then];
    let mut stamped = worker.run(argv).deadline(within).done()?;
    worker.ok(["rm", "-f", "/root/join-line", "/root/said"])?;
    let longest = longest_silence(&stamped.out)?;
    bench.say(format_args!("{what}: ended with {}, longest silence {longest:.1?}\n{}", stamped.code(), stamped.text()));
    bench.time(what, stamped.took);
    demand!(longest <= SILENCE, "{what}: nothing was said for {longest:.1?}:\n{}", stamped.text());
    stamped.out = unstamped(&stamped.out);
    Ok(stamped)
}

fn is_put_back(worker: &Machine, before: &Tree) -> Result<()> {
    nothing_left(worker)?;
    let changes = Tree::of(worker)?.changes_since(before);
    demand!(changes.is_empty(), "it did not put everything back:\n{}", changes.join("\n"));
    Ok(())
}

/// Between two lines of a stamped text.
fn longest_silence(stamped: &str) -> Result<Duration> {
    let at = |line: &str| {
        let stamp: f64 = line.split(' ').next()?.replace(',', ".").parse().ok()?;
        Duration::try_from_secs_f64(stamp).ok()
    };
    let times: Vec<Duration> = stamped.lines().filter_map(at).collect();
    if times.len() < 2 {
        return Err(Error::Said(format!("no line was stamped:\n{stamped}")));
    }
    let silences = times.iter().zip(times.iter().skip(1)).map(|(one, next)| next.saturating_sub(*one));
    Ok(silences.max().unwrap_or_default())
}

/// What carrick itself has said.
fn unstamped(stamped: &str) -> String {
    let own = stamped.lines().filter_map(|line| line.split_once(' ')).map(|(_, said)| said);
    own.filter(|said| !["begins", "ends"].contains(said)).map(|said| format!("{said}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_beginning_to_the_end() {
        let said = "100.5 begins\n101.0   ok  found\n113.25   ..  waits\n114.0 ends\n";
        assert_eq!(longest_silence(said).unwrap(), Duration::from_millis(12_250));
        assert_eq!(unstamped(said), "  ok  found\n  ..  waits\n");
        assert!(longest_silence("").is_err());
    }
}
