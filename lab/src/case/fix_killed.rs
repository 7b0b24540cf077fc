//! `carrick check --fix` is killed at five points; the next run ends as one that nobody disturbed, and undo takes all of it
//! back.

use std::sync::Arc;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::error::{Error, Result};
use crate::fix::{BROKEN_IN_MANY_WAYS, Fixer};
use crate::machine::{Kind, Machine};
use crate::need::{Need, STRACE};
use crate::tier::Tier;
use crate::tree::difference;
use crate::{demand, strace};

pub const CASE: Case = Case {
    about: "check --fix, killed at five points: the next run ends as an undisturbed one, and undo gives back every byte",
    tier: Tier::Standard,
    covers: &[Covers::Verb("check"), Covers::Promise(7)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12), Need::Tool(STRACE)],
    run,
};

/// Where it is killed: what that means, the call, and the path. `RUN` is the folder of the run's record. strace looks at a
/// rename's first path only: the file that is to take another's place.
const POINTS: [(&str, &str, &str); 5] = [
    ("before its record is whole", RENAME, "RUN/.run.json.carrick"),
    ("before the first change is written down", OPEN, "RUN/journal.jsonl"),
    ("before the first file is in its place", RENAME, "/etc/sysctl.d/.zzz-carrick.conf.carrick"),
    ("between two files", RENAME, "/etc/containerd/.config.toml.carrick"),
    ("after a file, before that is written down", SYNC, "/etc/systemd/system/kubelet.service.d"),
];

const RENAME: &str = "inject=rename,renameat,renameat2:signal=KILL:when=1";
const OPEN: &str = "inject=openat:signal=KILL:when=1";
const SYNC: &str = "inject=fsync:signal=KILL:when=1";

fn run(bench: &mut Bench) -> Result<()> {
    let machine = bench.worker(Kind::Debian12)?;
    let fixer = Fixer::on(bench, &machine)?;
    strace::install(&machine)?;
    let sound = fixer.wrong()?;
    machine.run(["sh", "-ec", BROKEN_IN_MANY_WAYS]).ok()?;
    let before = fixer.tree()?;
    bench.say(fixer.fix()?.text());
    let undisturbed = fixer.tree()?;
    let left: Vec<String> = fixer.wrong()?.difference(&sound).cloned().collect();
    demand!(left.is_empty(), "an undisturbed run leaves {left:?}");
    demand!(undisturbed != before, "the undisturbed run changed nothing");
    fixer.undo_all()?;
    for (point, call, path) in POINTS {
        let killed = Killed { fixer: &fixer, machine: &machine, before: &before, undisturbed: &undisturbed };
        let told = killed.at(call, path).map_err(|error| Error::Said(format!("killed {point}: {error}")))?;
        bench.say(format_args!("killed {point}: {told}"));
        let left: Vec<String> = fixer.wrong()?.intersection(&sound).cloned().collect();
        bench.say(format_args!("taken back; besides {left:?} it is broken again"));
    }
    Ok(())
}

struct Killed<'a> {
    fixer: &'a Fixer,
    machine: &'a Arc<Machine>,
    before: &'a str,
    undisturbed: &'a str,
}

impl Killed<'_> {
    fn at(&self, call: &str, path: &str) -> Result<String> {
        let runs = self.machine.run(["ls", "/var/lib/carrick/runs"]).done()?.out.lines().count();
        let path = path.replace("RUN", &format!("/var/lib/carrick/runs/{:04}", runs + 1));
        // ssh tells of a command that a signal ended by 255.
        let done = self.fixer.under(&strace::killed_at(call, &path), &["--fix", "--yes"]).done()?;
        demand!(
            matches!(done.code(), 137 | 255),
            "it was not killed at {path}, but ended with {}: {}",
            done.status,
            done.text()
        );
        let after = difference(self.before, &self.fixer.tree()?).len();
        let again = self.fixer.fix()?;
        let differs = difference(self.undisturbed, &self.fixer.tree()?);
        demand!(differs.is_empty(), "the next run ends otherwise:\n{}\n{}", differs.join("\n"), again.text());
        self.fixer.undo_all()?;
        let differs = difference(self.before, &self.fixer.tree()?);
        demand!(differs.is_empty(), "undo gives something else back:\n{}", differs.join("\n"));
        Ok(format!("{after} lines of the tree had changed"))
    }
}
