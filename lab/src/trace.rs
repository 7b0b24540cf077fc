//! What a lab could leave behind on the machine it runs on, written down to be compared with later.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, thread};

use crate::error::{During, Result, said};
use crate::machine::{cgroup, net};

/// Settings that change by themselves.
const RESTLESS: &[&str] =
    &["random", "nr", "state", "pid", "cache", "max_newidle_lb_cost", "stat", "tainted", "pty", "syncs"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces(BTreeSet<String>);

impl Traces {
    /// All mounts, links, top control groups, settings of the kernel, and processes of the lab `name`. Not what other labs
    /// have, which come and go meanwhile, nor what is mounted in `/tmp`, where the lab mounts nothing and others do.
    pub fn of(name: &str) -> Result<Self> {
        let name = name.to_owned();
        // Links and the network's settings are those of the thread's namespace: look from the machine's own.
        let looked = thread::spawn(move || {
            net::enter_outer()?;
            let traces = mounts()?.chain(links()?).chain(groups()?).filter(|trace| !is_of_another(trace, &name));
            Ok(Self(traces.chain(settings()).chain(processes(&name)).collect()))
        });
        looked.join().unwrap_or_else(|_| said("looking for traces panicked"))
    }

    /// What is here and not in `before`, and the other way round.
    pub fn differ_from(&self, before: &Self) -> Vec<String> {
        let more = self.0.difference(&before.0).map(|trace| format!("new: {trace}"));
        more.chain(before.0.difference(&self.0).map(|trace| format!("gone: {trace}"))).collect()
    }

    /// Fails where anything differs from `before`, and says what.
    pub fn same_as(&self, before: &Self, when: &str) -> Result<()> {
        const SHOWN: usize = 12;
        let differ = self.differ_from(before);
        let shown = differ.iter().take(SHOWN).map(|trace| format!("\n    {trace}")).collect::<Vec<_>>().concat();
        if differ.is_empty() { Ok(()) } else { said(format!("{when}, {} traces differ:{shown}", differ.len())) }
    }
}

/// Whether the trace is some other lab's, told by the places a lab's things can be in.
fn is_of_another(trace: &str, name: &str) -> bool {
    let places: &[&str] = if trace.starts_with("group ") { &["/carrick-"] } else { &["/labs/", "/run/carrick-lab/"] };
    let rest = places.iter().find_map(|place| trace.split_once(place)).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split(['/', ' ']).next()).is_some_and(|owner| owner != name)
}

fn mounts() -> Result<impl Iterator<Item = String>> {
    let table = fs::read_to_string("/proc/self/mounts").during(|| "cannot read the mounts".to_owned())?;
    let mounts: Vec<String> =
        table.lines().filter(|line| !line.contains(" /tmp/")).map(|line| format!("mount {line}")).collect();
    Ok(mounts.into_iter())
}

fn links() -> Result<impl Iterator<Item = String>> {
    let place = Path::new("/sys/class/net");
    Ok(fs::read_dir(place).at("list", place)?.flatten().map(|entry| format!("link {}", entry.file_name().display())))
}

fn groups() -> Result<impl Iterator<Item = String>> {
    let entries = cgroup::hierarchies()?.into_iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    Ok(folders.map(|path| format!("group {}", path.display())))
}

fn settings() -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    gather_settings(Path::new("/proc/sys"), &mut found);
    found.into_iter()
}

fn gather_settings(folder: &Path, found: &mut Vec<String>) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if RESTLESS.iter().any(|word| name.contains(word)) {
            continue;
        }
        if path.is_dir() {
            gather_settings(&path, found);
        } else if let Ok(value) = fs::read_to_string(&path) {
            found.push(format!("setting {} = {}", path.display(), value.trim()));
        }
    }
}

/// Processes in the lab's groups, or with the lab's folder on their command line. Not those that have ended and only
/// wait for process 1 to take note of it: that is not up to us.
fn processes(name: &str) -> impl Iterator<Item = String> {
    let (group, folder) = (format!("/carrick-{name}/"), format!("/labs/{name}/"));
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    pids.filter_map(move |process| {
        let groups = fs::read_to_string(process.join("cgroup")).ok()?;
        let ended = fs::read_to_string(process.join("stat")).ok()?.contains(") Z ");
        let line = String::from_utf8_lossy(&fs::read(process.join("cmdline")).ok()?).replace('\0', " ");
        (!ended && (groups.contains(&group) || line.contains(&folder)))
            .then(|| format!("process {} {line}", process.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_another_lab_is_told_by_its_place() {
        for (trace, another) in [
            ("group /sys/fs/cgroup/cpu/carrick-mine", false),
            ("group /sys/fs/cgroup/cpu/carrick-test", true),
            ("group /sys/fs/cgroup/cpu/carrick-lab", true),
            ("group /sys/fs/cgroup/cpu/somebody", false),
            ("mount nsfs /run/carrick-lab/test/net nsfs rw 0 0", true),
            ("mount nsfs /run/carrick-lab/mine/net nsfs rw 0 0", false),
            (
                "mount carrick-lab /root/.cache/carrick-lab/labs/mine/machines/w1/root overlay lowerdir=/x/carrick-lab/node-1",
                false,
            ),
            ("mount carrick-lab /root/.cache/carrick-lab/labs/test/machines/w1/root overlay rw", true),
        ] {
            assert_eq!(is_of_another(trace, "mine"), another, "{trace}");
        }
    }
}
