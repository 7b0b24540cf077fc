//! Control groups: one per machine in every hierarchy there is, so that no kubelet manages another's pods, and so that
//! every process of a machine (or of a run that was killed) can be found and ended.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{During, Result, said};

/// nspawn cleans up after its payload by itself; it gets this long before it is ended too.
const GRACE: Duration = Duration::from_secs(3);
/// A killed process still has to write its pages out before it is gone.
const END: Duration = Duration::from_secs(30);

/// Where each hierarchy is mounted, cgroup v1 and v2.
pub fn hierarchies() -> Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mounts").during(|| "cannot read the mounts".to_owned())?;
    let found: BTreeSet<PathBuf> = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (place, kind) = (fields.next()?, fields.next()?);
            (kind.starts_with("cgroup") && place.starts_with("/sys/fs/cgroup")).then(|| PathBuf::from(place))
        })
        .collect();
    Ok(found.into_iter().collect())
}

/// Makes a group, such as `carrick-lab/w1`, in every hierarchy.
pub fn make(group: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        let mut above = hierarchy;
        for name in group.split('/') {
            // Version 2 hands a controller down only where the group above allows it.
            if let Ok(controllers) = fs::read_to_string(above.join("cgroup.controllers")) {
                for controller in controllers.split_whitespace() {
                    let _ = fs::write(above.join("cgroup.subtree_control"), format!("+{controller}"));
                }
            }
            let place = above.join(name);
            match fs::create_dir(&place) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.at("make", &place)?,
            }
            // A new cpuset of version 1 is empty, and nothing can run in it.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if above.ends_with("cpuset") || above.join("cpuset.cpu_exclusive").exists() {
                    let inherited = fs::read_to_string(above.join(file)).at("read", &above.join(file))?;
                    fs::write(place.join(file), inherited.trim()).at("write", &place.join(file))?;
                }
            }
            above = place;
        }
    }
    Ok(())
}

/// Moves this process into a group, in every hierarchy.
pub fn join(group: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        let file = hierarchy.join(group).join("cgroup.procs");
        fs::write(&file, std::process::id().to_string()).at("write", &file)?;
    }
    Ok(())
}

/// Moves this process back out of a group, to wherever the group itself is.
pub fn leave(group: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        if processes(&hierarchy.join(group)).contains(&own()) {
            let file = hierarchy.join("cgroup.procs");
            fs::write(&file, std::process::id().to_string()).at("write", &file)?;
        }
    }
    Ok(())
}

fn own() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Ends every process in a group but this one, and removes the group. It may be half there, or not at all.
pub fn remove(group: &str) -> Result<()> {
    leave(group)?;
    let places: Vec<PathBuf> = hierarchies()?.into_iter().map(|hierarchy| hierarchy.join(group)).collect();
    let payloads: Vec<PathBuf> = places.iter().flat_map(|place| payloads(place)).collect();
    kill(&payloads);
    let begun = Instant::now();
    loop {
        let left: BTreeSet<i32> = places.iter().flat_map(|place| processes(place)).collect();
        if left.is_empty() {
            break;
        }
        if begun.elapsed() > GRACE || payloads.is_empty() {
            kill(&places);
        }
        if begun.elapsed() > END {
            return said(format!("processes of {group} do not end: {left:?}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    for place in places {
        remove_tree(&place)?;
    }
    Ok(())
}

/// Whether there is anything of a group.
pub fn exists(group: &str) -> bool {
    hierarchies().is_ok_and(|places| places.iter().any(|place| place.join(group).exists()))
}

/// The groups nspawn makes for a machine's own processes, at any depth of ours.
fn payloads(place: &Path) -> Vec<PathBuf> {
    let below = folders(place);
    let (named, other): (Vec<PathBuf>, Vec<PathBuf>) =
        below.into_iter().partition(|folder| folder.ends_with("payload"));
    named.into_iter().chain(other.iter().flat_map(|folder| payloads(folder))).collect()
}

fn kill(places: &[PathBuf]) {
    let all: BTreeSet<i32> = places.iter().flat_map(|place| processes(place)).collect();
    for pid in all.into_iter().filter_map(Pid::from_raw) {
        // It may have ended since it was listed.
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn processes(place: &Path) -> BTreeSet<i32> {
    let listed = fs::read_to_string(place.join("cgroup.procs")).unwrap_or_default();
    // 0 stands for a process this pid namespace cannot see.
    let here = listed.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0);
    here.chain(folders(place).iter().flat_map(|folder| processes(folder))).collect()
}

fn folders(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn remove_tree(place: &Path) -> Result<()> {
    for folder in folders(place) {
        remove_tree(&folder)?;
    }
    let begun = Instant::now();
    loop {
        match fs::remove_dir(place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // The kernel frees a group a moment after its last process.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && begun.elapsed() < GRACE => {
                thread::sleep(Duration::from_millis(20));
            }
            other => return other.at("remove", place),
        }
    }
}
