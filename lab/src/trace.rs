//! What a lab could leave behind on the machine it runs on, written down to be compared with later.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, thread};

use crate::error::{During, Result, said};
use crate::machine::{cgroup, net};

/// Settings that change by themselves.
const RESTLESS: &[&str] = &["random", "nr", "state", "pid", "cache", "max_newidle_lb_cost", "stat", "tainted", "pty"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces(BTreeSet<String>);

impl Traces {
    /// All mounts, links, top control groups, settings of the kernel, and processes of the lab `name`; nothing of the lab
    /// that runs this test, which goes on changing.
    pub fn of(name: &str, except: &str) -> Result<Self> {
        let (name, except) = (name.to_owned(), except.to_owned());
        // Links and the network's settings are those of the thread's namespace: look from the machine's own.
        let looked = thread::spawn(move || {
            net::enter_outer()?;
            Ok(Self(mounts(&except)?.chain(links()?).chain(groups(&except)?).chain(settings()).chain(processes(&name)).collect()))
        });
        looked.join().unwrap_or_else(|_| said("looking for traces panicked"))
    }

    /// What is here and not in `before`, and the other way round.
    pub fn differ_from(&self, before: &Self) -> Vec<String> {
        let more = self.0.difference(&before.0).map(|trace| format!("new: {trace}"));
        more.chain(before.0.difference(&self.0).map(|trace| format!("gone: {trace}"))).collect()
    }
}

fn mounts(except: &str) -> Result<impl Iterator<Item = String>> {
    let table = fs::read_to_string("/proc/self/mounts").during(|| "cannot read the mounts".to_owned())?;
    let (folder, run) = (format!("/labs/{except}/"), format!("/carrick-lab/{except}/"));
    let mounts: Vec<String> = table.lines().filter(|line| !line.contains(&folder) && !line.contains(&run)).map(|line| format!("mount {line}")).collect();
    Ok(mounts.into_iter())
}

fn links() -> Result<impl Iterator<Item = String>> {
    let place = Path::new("/sys/class/net");
    Ok(fs::read_dir(place).at("list", place)?.flatten().map(|entry| format!("link {}", entry.file_name().display())))
}

fn groups(except: &str) -> Result<impl Iterator<Item = String>> {
    let except = format!("carrick-{except}");
    let entries = cgroup::hierarchies()?.into_iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(move |path| path.is_dir() && !path.ends_with(&except));
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

/// Processes in the lab's groups, or with the lab's folder on their command line.
fn processes(name: &str) -> impl Iterator<Item = String> {
    let (group, folder) = (format!("/carrick-{name}/"), format!("/labs/{name}/"));
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    pids.filter_map(move |process| {
        let groups = fs::read_to_string(process.join("cgroup")).ok()?;
        let line = String::from_utf8_lossy(&fs::read(process.join("cmdline")).ok()?).replace('\0', " ");
        (groups.contains(&group) || line.contains(&folder)).then(|| format!("process {} {line}", process.display()))
    })
}
