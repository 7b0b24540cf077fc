//! A kubelet that refuses its flags or its configuration ends at its first start: `carrick join` says why within 5 s, with the
//! file to edit; what it says to do is done, and the machine joins.

use std::time::Duration;

use jiff::Timestamp;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, first_fixes, fresh, joins, judge, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::sighting::{MeasuredAt, ToldCause, written};
use crate::stamped;
use crate::tier::Tier;
use crate::tree::Tree;

pub const CASE: Case = Case {
    about: "carrick join with a kubelet that does not know a flag, a feature gate, or refuses a file of --config-dir: the cause within 5 s of its first end, with the file; the machine as it was; the fix it prints is enough",
    tier: Tier::Quick,
    covers: &[Covers::Verb("join"), Covers::Promise(3), Covers::Promise(4), Covers::Family("kubelet")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// To look, to start a kubelet that ends, and to put back.
const WITHIN: Duration = Duration::from_secs(90);

struct Refusal {
    name: &'static str,
    /// A script that puts it in.
    put_in: &'static str,
    cause: &'static str,
    /// What stands on the screen: the file, and a word of why.
    says: [&'static str; 2],
    tier: Tier,
}

const REFUSALS: [Refusal; 3] = [
    Refusal {
        name: "kubelet-flag-unknown",
        put_in: "echo 'KUBELET_EXTRA_ARGS=--v=2 --bogus=1' > /etc/default/kubelet",
        cause: "kubelet.removed-flags",
        says: ["/etc/default/kubelet:1", "--bogus"],
        tier: Tier::Quick,
    },
    Refusal {
        name: "kubelet-gate-unknown",
        put_in: "echo 'KUBELET_EXTRA_ARGS=--feature-gates=Bogus=true' > /etc/default/kubelet",
        cause: "kubelet.feature-gate",
        says: ["/etc/default/kubelet:1", "unrecognized feature gate: Bogus"],
        tier: Tier::Standard,
    },
    Refusal {
        name: "kubelet-config-refused",
        put_in: "mkdir /etc/kubelet.d
            printf 'apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: KubeletConfiguration\\nmaxPods: lots\\n' > /etc/kubelet.d/10-mine.conf
            echo 'KUBELET_EXTRA_ARGS=--config-dir=/etc/kubelet.d' > /etc/default/kubelet",
        cause: "kubelet.config-invalid",
        says: ["/etc/kubelet.d/10-mine.conf", "maxPods"],
        tier: Tier::Standard,
    },
];

fn run(bench: &mut Bench) -> Result<()> {
    let tier = bench.tier;
    REFUSALS.iter().filter(|refusal| refusal.tier <= tier).try_for_each(|refusal| play(bench, refusal))
}

fn play(bench: &mut Bench, refusal: &Refusal) -> Result<()> {
    let worker = fresh(bench)?;
    // It has not been started with this before: nothing of it stands in the journal.
    worker.ok(["systemctl", "stop", "kubelet"])?;
    worker.ok(["sh", "-ec", refusal.put_in])?;
    let before = Tree::of(&worker)?;
    let joined = stamped::join(&worker, &line(bench.cluster()?), "never", "", WITHIN)?;
    let text = joined.done.text();
    bench.say(format_args!("{}: ended with {}\n{text}", refusal.name, joined.done.code()));
    judge(&Ends::Cause(refusal.cause, 3), &joined.done)?;
    for says in refusal.says {
        demand!(text.contains(says), "{}: it does not say {says:?}:\n{text}", refusal.name);
    }
    nothing_left(&worker)?;
    let changes = Tree::of(&worker)?.changes_since(&before);
    demand!(changes.is_empty(), "it did not put everything back:\n{}", changes.join("\n"));
    let at = MeasuredAt { started: joined.began(), seen: first_end(&worker, joined.began())?, told: joined.ended() };
    bench.told(ToldCause::measured(
        refusal.name,
        &format!("{}, exit 3", refusal.cause),
        &at,
        "the kubelet's first end",
    ))?;
    let fixes = first_fixes(&text);
    bench.say(format_args!("doing: {}", fixes.join("; ")));
    demand!(!fixes.is_empty(), "it says no fix:\n{text}");
    worker.ok(["sh", "-ec", &fixes.join("\n")])?;
    joins(bench, &worker).map(drop)
}

/// When systemd saw the kubelet end for the first time since then.
fn first_end(worker: &Machine, since: Timestamp) -> Result<Timestamp> {
    let since = format!("--since=@{}", since.as_second());
    let ends = worker.ok(["journalctl", "--no-pager", "-q", "-o", "short-unix", "-u", "kubelet", &since])?;
    let first = ends.lines().find(|line| line.contains("Main process exited")).unwrap_or_default();
    written(first.split(' ').next().unwrap_or_default())
}
