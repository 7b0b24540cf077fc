//! Everything `carrick check --fix` writes and runs, seen from outside the process, is what it printed before.

use std::collections::BTreeSet;

use carrick_core::fact::{Source, sources};
use serde_json::Value;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::fix::{BROKEN_IN_MANY_WAYS, Fixer};
use crate::machine::Kind;
use crate::need::{Need, STRACE};
use crate::strace::{self, TracedCalls, as_written};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "every write and every command of check --fix, as strace sees them, is in the plan it printed",
    tier: Tier::Quick,
    covers: &[Covers::Verb("check"), Covers::Promise(4)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12), Need::Tool(STRACE)],
    run,
};

/// What programs that only look write: locks they take, and where their output goes.
const HARMLESS: [&str; 4] = ["/dev/null", "/dev/tty", "/run/ufw.lock", "/run/xtables.lock"];
/// Carrick's own: its record and its lock.
const OWN: [&str; 2] = ["/var/lib/carrick", "/run/carrick.lock"];

fn run(bench: &mut Bench) -> Result<()> {
    let machine = bench.worker(Kind::Debian12)?;
    let fixer = Fixer::on(bench, &machine)?;
    strace::install(&machine)?;
    machine.run(["sh", "-ec", BROKEN_IN_MANY_WAYS]).ok()?;
    let plan = fixer.plan()?;
    let sentences: Vec<&str> = plan.iter().filter_map(|step| step["sentence"].as_str()).collect();
    bench.say(format_args!("the plan:\n  {}", sentences.join("\n  ")));
    demand!(plan.len() > 8, "only {} steps: too little to tell", plan.len());
    let done = fixer.under(strace::WATCHED, &["--fix", "--yes"]).done()?;
    bench.say(done.text());
    let runs = machine.ok(["ls", "/var/lib/carrick/runs"])?;
    demand!(runs.lines().count() == 1, "it took more than the one plan that was printed: {runs}");
    let seen = strace::seen(&machine)?;
    bench.say(format_args!("{seen:#?}"));
    written(&plan, &seen)?;
    ran(&plan, &seen)
}

fn written(plan: &[Value], seen: &TracedCalls) -> Result<()> {
    let planned: BTreeSet<String> = plan.iter().filter_map(|step| step["path"].as_str().map(str::to_owned)).collect();
    for path in &planned {
        demand!(seen.written.contains(path), "{path} is in the plan and was not written; this case sees too little");
    }
    let settings = plan.iter().filter_map(|step| step["key"].as_str());
    let settings: BTreeSet<String> = settings.map(|key| format!("/proc/sys/{}", key.replace('.', "/"))).collect();
    let beside = |path: &str| path.rsplit_once('/').map(|(dir, name)| format!("{dir}/.{name}.carrick"));
    let temporary: BTreeSet<String> = planned.iter().filter_map(|path| beside(path)).collect();
    let is_own = |path: &str| OWN.iter().any(|own| path == *own || path.starts_with(&format!("{own}/")));
    let strangers: Vec<&String> = seen
        .written
        .iter()
        .filter(|path| !planned.contains(*path) && !temporary.contains(*path) && !settings.contains(*path))
        .filter(|path| !is_own(path) && !HARMLESS.contains(&path.as_str()))
        .collect();
    demand!(strangers.is_empty(), "written and not in the plan: {strangers:?}");
    demand!(seen.other.is_empty(), "done and not in the plan: {:?}", seen.other);
    Ok(())
}

fn ran(plan: &[Value], seen: &TracedCalls) -> Result<()> {
    let wanted: BTreeSet<String> = plan.iter().filter_map(command).collect();
    for command in &wanted {
        demand!(
            seen.ran.contains(command),
            "{command} follows from the plan and was not run; this case sees too little"
        );
    }
    let queries = sources().filter_map(|source| match source {
        Source::Query(query) => Some(as_written(query.argv)),
        _ => None,
    });
    // Whether a join or a reset is still at work here, which would count as the lock.
    let at_work = ["carrick-kubeadm.service", "carrick-kubeadm-reset.service"].map(|unit| {
        let shown = "--property=Id,LoadState,ActiveState,SubState,Result,ExecMainStatus";
        as_written(&["systemctl", "show", shown, unit])
    });
    let looks: BTreeSet<String> = queries.chain(plan.iter().filter_map(look)).chain(at_work).collect();
    let strangers: Vec<&String> =
        seen.ran.iter().filter(|command| !wanted.contains(*command) && !looks.contains(*command)).collect();
    demand!(strangers.is_empty(), "run and not in the plan: {strangers:#?}");
    Ok(())
}

/// The command that a step is carried out with, where it takes one.
fn command(step: &Value) -> Option<String> {
    let word = |name: &str| step[name].as_str().unwrap_or_default();
    let setting = format!("{}={}", word("key"), word("value"));
    let argv: Vec<&str> = match step["effect"].as_str()? {
        "reload-units" => vec!["systemctl", "daemon-reload"],
        "load-module" => vec!["modprobe", "--", word("name")],
        "sysctl" => vec!["sysctl", "-q", "-w", &setting],
        "swap-off" => vec!["swapoff", "--", word("device")],
        "enable" => vec!["systemctl", if step["enabled"] == true { "enable" } else { "disable" }, word("unit")],
        "run" => vec!["systemctl", if step["running"] == true { "start" } else { "stop" }, word("unit")],
        "restart-runtime" => vec!["systemctl", "restart", word("unit")],
        _ => return None,
    };
    Some(as_written(&argv))
}

/// The command with which it looks at what stands there.
fn look(step: &Value) -> Option<String> {
    let unit = step["unit"].as_str().unwrap_or_default();
    let argv: &[&str] = match step["effect"].as_str()? {
        "swap-off" => &["cat", "/proc/swaps"],
        "enable" => &["systemctl", "is-enabled", unit],
        "run" => &["systemctl", "is-active", unit],
        _ => return None,
    };
    Some(as_written(argv))
}
