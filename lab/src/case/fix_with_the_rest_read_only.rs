//! `carrick check --fix` where nothing can be written but what its plan names: it fixes as ever. Where not even that can be
//! written it says so, and everything stays.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::fix::{BROKEN_IN_MANY_WAYS, Fixer};
use crate::machine::Kind;
use crate::need::Need;
use crate::run::Done;
use crate::tier::Tier;
use crate::tree::difference;

pub const CASE: Case = Case {
    about: "check --fix needs to write its plan's paths and no other; where it cannot write those it says so and changes nothing",
    tier: Tier::Standard,
    covers: &[Covers::Verb("check"), Covers::Promise(4)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Carrick's own: its record and its lock.
const RECORD: &str = "/var/lib/carrick";
const RUNS: &str = "/var/lib/carrick/runs";
const LOCK: &str = "/run/carrick.lock";

/// Everything read-only, in a mount namespace that ends with the command. Its words: what may change, and after it the
/// directories that this lies in, up to `--`; then the command. In those directories all but what may change is read-only, too.
/// systemd, asked by the command, works outside.
const READ_ONLY: &str = r#"
    may_change=" $1 "; shift
    for point in $(cut -d' ' -f2 /proc/self/mounts); do mount -o remount,bind,ro "$point"; done
    while [ "$1" != -- ]; do
        mount --bind "$1" "$1"; mount -o remount,bind,rw "$1"
        if [ -d "$1" ]; then for beside in "$1"/* "$1"/.[!.]*; do
            case "$may_change" in *" $beside "*) continue;; esac
            if [ -e "$beside" ] && [ ! -L "$beside" ]; then
                mount --bind "$beside" "$beside"; mount -o remount,bind,ro "$beside"
            fi
        done; fi
        shift
    done
    shift; exec "$@""#;

fn run(bench: &mut Bench) -> Result<()> {
    let machine = bench.worker(Kind::Debian12)?;
    let fixer = Fixer::on(bench, &machine)?;
    let sound = fixer.wrong()?;
    machine.run(["sh", "-ec", BROKEN_IN_MANY_WAYS]).ok()?;
    machine.run(["sh", "-ec", &format!("mkdir -p {RUNS}; : > {LOCK}")]).ok()?;
    let (broken, plan) = (fixer.tree()?, fixer.plan()?);
    demand!(plan.len() > 8, "only {} steps: too little to tell", plan.len());
    shows_what_is_protected(&fixer)?;

    let refused = fix(&fixer, &[])?;
    bench.say(format_args!("nothing may change: {}\n{}", refused.status, refused.text()));
    let said = refused.text().split_whitespace().collect::<Vec<_>>().join(" ");
    let clear = said.contains("carrick: stopped at") && said.contains("Read-only file system");
    demand!(refused.code() == 3 && clear, "it ended with {}: {}", refused.status, refused.text());
    same("what could not be written was changed", &broken, &fixer.tree()?)?;

    let done = fix(&fixer, &plan)?;
    bench.say(format_args!("its plan may change: {}\n{}", done.status, done.text()));
    let left = fixer.left(&sound)?;
    demand!(left.is_empty(), "still wrong after check --fix: {left:?}\n{}", done.text());
    let tree = fixer.tree()?;
    fixer.undo_all()?;
    same("undo gave something else back", &broken, &fixer.tree()?)?;
    fixer.fix()?;
    same("where everything can be written it leaves something else", &tree, &fixer.tree()?)
}

/// A plan that would be refused says so in its place, and ends as applying it would.
fn shows_what_is_protected(fixer: &Fixer) -> Result<()> {
    for how in ["--plan", "--yes"] {
        let done = fixer.check(&["--fix", how, "--protect", "/etc/fstab"]).done()?;
        let said = done.text().split_whitespace().collect::<Vec<_>>().join(" ");
        let why = "/etc/fstab is protected (--protect /etc/fstab)";
        let shown = how == "--yes" || said.contains(&format!("refused: {why}"));
        let ends = said.contains("carrick: refused, nothing was changed: would edit /etc/fstab") && said.contains(why);
        demand!(done.code() == 3 && shown && ends, "--fix {how} ended with {}: {}", done.status, done.text());
    }
    Ok(())
}

/// `check --fix --yes` where only these steps, and what Carrick writes down about them, can be carried out.
fn fix(fixer: &Fixer, plan: &[Value]) -> Result<Done> {
    let paths = plan.iter().filter_map(|step| step["path"].as_str());
    let may_change: Vec<&str> = paths.chain([RUNS]).collect();
    let may_change = may_change.join(" ");
    // What lies in a directory that an earlier step makes lies in what that step writes.
    let made: BTreeSet<&str> =
        plan.iter().filter(|step| step["effect"] == "make-dir").filter_map(|step| step["path"].as_str()).collect();
    let writable = plan.iter().filter_map(writes).filter(|dir| !made.contains(dir.as_str()));
    let writable: BTreeSet<String> = writable.chain([RECORD, LOCK].map(str::to_owned)).collect();
    let before = ["unshare", "--mount", "sh", "-ec", READ_ONLY, "read-only", &may_change];
    let words: Vec<&str> = before.into_iter().chain(writable.iter().map(String::as_str)).chain(["--"]).collect();
    fixer.under(&words, &["--fix", "--yes"]).done()
}

/// What a step has to write: a file is replaced by a rename, in its directory.
fn writes(step: &Value) -> Option<String> {
    if let Some(key) = step["key"].as_str() {
        return Some(format!("/proc/sys/{}", key.replace('.', "/")));
    }
    let path = step["path"].as_str()?;
    if step["effect"] == "set-mode" {
        return Some(path.to_owned());
    }
    path.rsplit_once('/').map(|(dir, _)| dir.to_owned())
}

fn same(otherwise: &str, one: &str, other: &str) -> Result<()> {
    let changed = difference(one, other);
    demand!(changed.is_empty(), "{otherwise}:\n{}", changed.join("\n"));
    Ok(())
}
