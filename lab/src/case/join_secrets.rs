//! The token of a join is in no command line while it goes on, and nowhere on the machine afterwards: by whichever route it
//! came, or was made.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{Bench, Case};
use crate::cluster::Cluster;
use crate::coverage::Covers;
use crate::demand;
use crate::error::{Error, Result, said};
use crate::fix::bring;
use crate::join::{PROGRAM, bring_admin, fresh, is_joined, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::{Need, STRACE};
use crate::run::{Done, Polled, pause, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "by an admin's kubeconfig, stdin, one text, words, of joins that work and that fail: the token is in no command line of ours, file, log, unit or bundle",
    tier: Tier::Quick,
    covers: &[Covers::Verb("join"), Covers::Verb("collect"), Covers::Promise(6)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12), Need::Tool(STRACE)],
    run,
};

const TRACER: &str = "/usr/bin/strace";
const TRACE: &str = "/root/execve";
const BUNDLE: &str = "/root/bundle.tar.gz";
const LINE: &str = "/root/join-line";
/// A join under strace, on a machine that is busy.
const DEADLINE: Duration = Duration::from_mins(5);

/// Where a join could have put it. Of `/run` only what is of this machine's own: no mounts of pods.
const PLACES: [&str; 6] = ["/etc", "/run", "/var/lib/carrick", "/var/lib/kubelet", "/var/log", "/tmp"];

/// Stands wherever a secret is looked for: a look that does not find this has not looked.
const CONTROL: &str = "looked-for-and-there";
const PLANT: &str = r##"echo "# $1" >> /etc/hosts; control=$1; shift
for place in "$@"; do mkdir -p "$place"; echo "$control" > "$place/control"; done
echo "$control" | systemd-cat; journalctl --sync
systemd-run --quiet --unit=control --description="$control" sleep 600"##;

/// How carrick is told.
struct Route {
    about: &'static str,
    typed: &'static str,
    /// In how many executions the token shows: only as it was typed, if it was.
    shows: usize,
    /// carrick makes a token for itself.
    mints: bool,
    ends: &'static Ending,
}

/// How the join ends, and what is done for that.
struct Ending {
    exit: i32,
    /// Of what is executed, what has to be seen.
    runs: &'static [&'static str],
    breaks: &'static str,
    fixes: &'static str,
}

const JOINED: Ending = Ending { exit: 0, runs: &["/usr/bin/kubeadm", "systemd-run"], breaks: ":", fixes: ":" };
/// Before kubeadm is run.
const REFUSED: Ending =
    Ending { exit: 3, runs: &[], breaks: "systemctl -q mask kubelet", fixes: "systemctl -q unmask kubelet" };
/// While the kubelet asks for its certificate with the token.
const CUT_OFF: Ending = Ending {
    exit: 6,
    runs: JOINED.runs,
    breaks: "systemctl stop kubelet; systemd-run --quiet --unit=meddler sh -c 'while [ ! -e /var/lib/kubelet/config.yaml ]; do sleep 0.02; done; \
        iptables -I OUTPUT -p tcp --dport 6443 -j DROP'",
    fixes: "iptables -D OUTPUT -p tcp --dport 6443 -j DROP",
};

const BY_STDIN: &str = "MAX_RETRIES=1 JOIN_TIMEOUT=30 exec \"$0\" join - < \"$1\"";
const BY_ADMIN: &str = "MAX_RETRIES=1 JOIN_TIMEOUT=30 exec \"$0\" join --kubeconfig \"$2\"";

/// The first makes a token and takes it away again, and has all programs run.
const ROUTES: [Route; 7] = [
    Route { about: "kubeconfig", typed: "exec \"$0\" join --kubeconfig \"$2\"", shows: 0, mints: true, ends: &JOINED },
    Route { about: "stdin", typed: BY_STDIN, shows: 0, mints: false, ends: &JOINED },
    Route { about: "one text", typed: "exec \"$0\" join \"$(cat \"$1\")\"", shows: 1, mints: false, ends: &JOINED },
    Route { about: "words", typed: "exec \"$0\" join -- $(cat \"$1\")", shows: 1, mints: false, ends: &JOINED },
    Route { about: "refused", typed: BY_STDIN, shows: 0, mints: false, ends: &REFUSED },
    Route { about: "cut off", typed: BY_STDIN, shows: 0, mints: false, ends: &CUT_OFF },
    // The token that was made for it cannot be revoked either, and is not in what carrick says about that.
    Route { about: "kubeconfig, cut off", typed: BY_ADMIN, shows: 0, mints: true, ends: &CUT_OFF },
];

fn run(bench: &mut Bench) -> Result<()> {
    for route in bench.tier.some(&ROUTES) {
        play(bench, route).map_err(|error| Error::Said(format!("{}: {error}", route.about)))?;
    }
    Ok(())
}

fn play(bench: &mut Bench, route: &Route) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    let admin = bring_admin(cluster, &worker)?;
    worker.write(LINE, &line(cluster))?;
    bring(&worker, Path::new(TRACER))?;
    worker.ok(["sh", "-ec", route.ends.breaks])?;
    watch(&worker)?;
    worker.ok(["true", CONTROL])?;
    let (done, minted) = joined(cluster, &worker, route, admin)?;
    worker.ok(["systemctl", "stop", "watch"])?;
    bench.say(format_args!("{}: ended with {}\n{}", route.about, done.code(), done.text()));
    bench.time(route.about, done.took);
    demand!(!route.mints || !minted.is_empty(), "nobody saw the token that was made: it cannot be looked for");
    let secrets: Vec<String> = minted.into_iter().chain(known(cluster)?).collect();
    let printed = secrets.iter().any(|secret| done.text().contains(secret));
    demand!(!printed, "carrick itself prints a secret");
    demand!(done.code() == route.ends.exit, "it ended with {}, not {}:\n{}", done.code(), route.ends.exit, done.text());
    if route.ends.exit == 0 {
        is_joined(cluster, &worker)?;
    } else {
        nothing_left(&worker)?;
    }
    worker.ok(["sh", "-ec", route.ends.fixes])?;
    let programs = is_in_no_exec(&worker, &secrets, route)?;
    bench.say(format_args!("{programs} programs were executed meanwhile"));
    worker.ok(["sh", "-ec", PLANT, "sh", CONTROL].iter().chain(PLACES.iter().skip(1)))?;
    collect(cluster, &worker, admin)?;
    is_nowhere(&worker, &secrets)
}

/// The secret of the line's token, and the admin's key.
fn known(cluster: &Cluster) -> Result<[String; 2]> {
    let token = cluster.join.iter().skip_while(|word| *word != "--token").nth(1);
    let secret = token.and_then(|token| token.split_once('.')).map(|(_, secret)| secret.to_owned());
    let config = cluster.control.read("/etc/kubernetes/admin.conf")?;
    let key = config.lines().find_map(|line| line.trim().strip_prefix("client-key-data: ").map(str::to_owned));
    match (secret, key) {
        (Some(secret), Some(key)) => Ok([secret, key]),
        _ => said("kubeadm printed no token, or wrote no key"),
    }
}

/// The join, and what tokens joins made for themselves meanwhile: this one, and others that run beside it.
fn joined(cluster: &Cluster, worker: &Machine, route: &Route, admin: &str) -> Result<(Done, BTreeSet<String>)> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let minted = scope.spawn(|| minted_until(cluster, &over));
        let done = worker.run(["sh", "-c", route.typed, PROGRAM, LINE, admin]).deadline(DEADLINE).done();
        over.store(true, Ordering::Relaxed);
        let minted = minted.join().unwrap_or_else(|_| said("looking for tokens panicked"))?;
        Ok((done?, minted))
    })
}

fn minted_until(cluster: &Cluster, over: &AtomicBool) -> Result<BTreeSet<String>> {
    /// A token lives for as long as its join, which takes seconds.
    const LOOK: Duration = Duration::from_millis(300);
    const MADE: &str = r#"{{range .items}}{{with .data.description}}{{base64decode .}}{{end}} {{index .data "token-secret" | base64decode}}
{{end}}"#;
    let template = format!("go-template={MADE}");
    let kind = "--field-selector=type=bootstrap.kubernetes.io/token";
    let mut minted = BTreeSet::new();
    while !over.load(Ordering::Relaxed) {
        let tokens = cluster.kubectl(["get", "secrets", "-n", "kube-system", kind, "-o", &template]).ok()?;
        let ours = tokens.lines().filter(|token| token.starts_with("made by carrick join"));
        minted.extend(ours.filter_map(|token| token.rsplit(' ').next()).map(str::to_owned));
        pause(LOOK)?;
    }
    Ok(minted)
}

/// Only what was typed has it, and nothing that was executed after; how many programs were.
fn is_in_no_exec(worker: &Machine, secrets: &[String], route: &Route) -> Result<usize> {
    let trace = worker.ok(["cat", TRACE])?;
    for seen in [PROGRAM, CONTROL].iter().chain(route.ends.runs) {
        demand!(trace.contains(seen), "strace did not see {seen}: what it did not see proves nothing");
    }
    let told: Vec<&str> =
        trace.lines().filter(|line| secrets.iter().any(|secret| line.contains(secret.as_str()))).collect();
    let typed = format!("execve(\"{PROGRAM}\", [\"{PROGRAM}\", \"join\", ");
    let shows = route.shows;
    let expected = told.len() == shows && told.iter().all(|line| line.contains(&typed));
    demand!(expected, "it was to be in {shows} command lines or environments, and is in:\n{}", told.join("\n"));
    Ok(trace.lines().count())
}

/// A bundle with all that can be had, also of the cluster.
fn collect(cluster: &Cluster, worker: &Machine, admin: &str) -> Result<()> {
    let after = |flag: &str| cluster.join.iter().skip_while(|word| *word != flag).nth(1).cloned().unwrap_or_default();
    worker.write("/root/token", &after("--token"))?;
    let (api, pin) = (after("join"), after("--discovery-token-ca-cert-hash"));
    let target = ["--api", &api, "--token-file", "/root/token", "--ca-hash", &pin, "--kubeconfig", admin];
    worker.ok([PROGRAM, "collect", "--out", BUNDLE].iter().chain(&target)).map(drop)
}

/// No file has one, no unit, no line of the journal, no bundle; each look finds what was planted.
fn is_nowhere(worker: &Machine, secrets: &[String]) -> Result<()> {
    let sought = secrets.join("\n") + "\n" + CONTROL;
    let matching = "grep -aoF -e \"$sought\"";
    let looks = [
        ("the journal".to_owned(), format!("journalctl -o export --no-pager | {matching}")),
        ("a unit".to_owned(), format!("systemctl show '*' --all --no-pager | {matching}")),
        ("the bundle".to_owned(), format!("tar -xzOf {BUNDLE} | {matching}")),
    ];
    let files = PLACES
        .map(|place| (format!("a file in {place}"), format!("grep -rasoF --devices=skip -e \"$sought\" {place}")));
    for (what, script) in looks.into_iter().chain(files) {
        let script = format!("sought=$(cat); {script}");
        let found = worker.run(["sh", "-c", &script]).input(sought.as_str()).deadline(Duration::from_mins(2)).done()?;
        let is = |what: &str| found.out.lines().find(|line| line.ends_with(what));
        demand!(is(CONTROL).is_some(), "{what} was not looked at: what was planted is not found: {}", found.text());
        let secret = secrets.iter().find_map(|secret| is(secret));
        demand!(secret.is_none(), "{what} has a secret: {}", secret.unwrap_or_default());
    }
    Ok(())
}

/// Every execution, its arguments and its environment, of all that systemd and sshd start.
fn watch(worker: &Machine) -> Result<()> {
    let script = format!(
        "systemd-run --quiet --unit=watch {TRACER} -f -v -s 65536 -e trace=execve -o {TRACE} -p 1 -p \"$(pgrep -o -x sshd)\""
    );
    worker.ok(["sh", "-ec", &script])?;
    wait_for("strace to have attached", Duration::from_secs(20), || {
        let tracer = worker.ok(["sh", "-c", "grep TracerPid /proc/1/status /proc/$(pgrep -o -x sshd)/status"])?;
        let attached = tracer.lines().all(|line| !line.ends_with("\t0"));
        Ok(if attached { Polled::Seen(()) } else { Polled::NotYet(tracer) })
    })
}
