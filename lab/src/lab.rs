//! One lab: its network, its machines, and the certainty that all of it can be taken away again.
//!
//! Everything a lab makes has a place from which it can be found without asking whoever made it: mounts lie below its two
//! folders, processes and control groups in `carrick-NAME`, the network namespace is mounted in its folder under `/run`.
//! Where those are is written down before anything is made. So `clear` works the same after `down` and after SIGKILL.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, discard};
use crate::error::{During, Error, Result, said};
use crate::lock::{self, Lock};
use crate::machine::net::{self, Net, Site};
use crate::machine::{Identity, cgroup, disk, forget_name};
use crate::{say, sysctl};

/// Gone at the next boot, as are mounts, groups and processes.
const RUN: &str = "/run/carrick-lab";

/// The lab a person works with; tests have one of their own beside it.
pub const PERSONS: &str = "lab";

pub struct Lab {
    name: String,
    run: PathBuf,
    disk: PathBuf,
    workers: AtomicU8,
    site: Site,
    own_disk: bool,
    /// Held while an image store is brought to the lab's own disk.
    stores: Mutex<()>,
    _lock: Option<Lock>,
}

/// What is told to other runs: written before anything is made, and again when it is up.
#[derive(Default, Serialize, Deserialize)]
pub struct Record {
    pub disk: PathBuf,
    pub machines: Vec<Identity>,
    pub kubeconfig: Option<PathBuf>,
    pub join: Option<String>,
}

impl Lab {
    /// Takes the lab for this run alone, or says who has it.
    pub fn take(cache: &Cache, name: &str) -> Result<Self> {
        fs::create_dir_all(RUN).at("make", Path::new(RUN))?;
        let lock = lock::take(&Path::new(RUN).join(format!("{name}.lock")), &format!("the lab \"{name}\""))?;
        Ok(Self { _lock: Some(lock), ..Self::look_at(cache, name) })
    }

    /// A lab that another run may have made, to look at only.
    pub fn look_at(cache: &Cache, name: &str) -> Self {
        let run = Path::new(RUN).join(name);
        let disk = cache.root().join("labs").join(name);
        Self {
            name: name.to_owned(),
            run,
            disk,
            workers: AtomicU8::new(1),
            site: net::USUAL,
            own_disk: false,
            stores: Mutex::default(),
            _lock: None,
        }
    }

    /// The same lab with other names and addresses.
    pub fn with_site(self, site: Site) -> Self {
        Self { site, ..self }
    }

    /// The same lab with a file system of its own: how full the real one is then shows on none of its machines.
    pub fn with_own_disk(self) -> Self {
        Self { own_disk: true, ..self }
    }

    /// The file that file system is in.
    fn image(&self) -> PathBuf {
        self.disk.with_extension("disk")
    }

    /// An image store to copy for a machine: on the lab's own disk, if it has one, so that copies share it.
    pub fn store(&self, template: &Path) -> Result<PathBuf> {
        let (true, Some(entry)) = (self.own_disk, template.parent().and_then(Path::file_name)) else {
            return Ok(template.to_owned());
        };
        let _one_at_a_time = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.disk.join("stores").join(entry);
        if !place.exists() {
            let raw = self.disk.join("store-half");
            fs::create_dir_all(self.disk.join("stores")).at("make", &place)?;
            disk::copy_tree(template, &raw)?;
            fs::rename(&raw, &place).at("put in place", &place)?;
        }
        Ok(place)
    }

    pub fn site(&self) -> &Site {
        &self.site
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn group(&self) -> String {
        format!("carrick-{}", self.name)
    }

    pub fn machine_name(&self, machine: &str) -> String {
        format!("{}.{machine}", self.group())
    }

    pub fn machine_dir(&self, machine: &str) -> PathBuf {
        self.disk.join("machines").join(machine)
    }

    pub fn disk(&self) -> &Path {
        &self.disk
    }

    fn net(&self) -> Net {
        Net::at(&self.run.join("net"))
    }

    /// A number no other worker of this lab has.
    pub fn next_worker(&self) -> u8 {
        self.workers.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes the network and moves this thread, and all it starts, into it.
    pub fn prepare(&self) -> Result<()> {
        for folder in [&self.run, &self.disk] {
            fs::create_dir_all(folder).at("make", folder)?;
        }
        self.record(&Record { disk: self.disk.clone(), ..Record::default() })?;
        if self.own_disk {
            disk::mount_image(&self.image(), &self.disk)?;
        }
        // What this run starts on the way (ssh, kubectl) is found there should the run be killed.
        let tools = format!("{}/tools", self.group());
        cgroup::make(&tools)?;
        cgroup::join(&tools)?;
        sysctl::raise(Path::new(RUN))?;
        self.net().make(&self.site)?;
        self.enter()
    }

    pub fn enter(&self) -> Result<()> {
        self.net().enter()
    }

    pub fn record(&self, record: &Record) -> Result<()> {
        let (raw, place) = (self.run.join("record-new"), self.record_place());
        let text = serde_json::to_string_pretty(record).map_err(io::Error::from).at("write", &raw)?;
        fs::write(&raw, text).at("write", &raw)?;
        fs::rename(&raw, &place).at("write", &place)
    }

    /// What the run that made this lab wrote down, if there is one.
    pub fn recorded(&self) -> Option<Record> {
        serde_json::from_str(&fs::read_to_string(self.record_place()).ok()?).ok()
    }

    fn record_place(&self) -> PathBuf {
        self.run.join("record.json")
    }

    /// What a lab that is up says of itself.
    pub fn running(&self) -> Result<Record> {
        match self.recorded() {
            Some(record) if !record.machines.is_empty() => {
                // One of them is the control plane: the next worker's number is free.
                self.workers.store(u8::try_from(record.machines.len()).unwrap_or(u8::MAX), Ordering::Relaxed);
                Ok(record)
            }
            Some(_) => said(format!(
                "the lab \"{}\" is not up: its start was not finished; `cargo xtask lab up` starts anew",
                self.name
            )),
            None => said(format!("the lab \"{}\" is not up; `cargo xtask lab up` starts it", self.name)),
        }
    }

    /// Whether there is anything of this lab to be cleared.
    pub fn is_there(&self) -> bool {
        self.run.exists() || self.disk.exists() || self.image().exists() || cgroup::exists(&self.group())
    }

    /// Takes away all of it, whoever made it and however far they got.
    pub fn clear(&self) -> Result<()> {
        let before = self.recorded().map(|record| record.disk).filter(|disk| *disk != self.disk);
        let folders: Vec<PathBuf> =
            [Some(self.run.clone()), Some(self.disk.clone()), before].into_iter().flatten().collect();
        cgroup::remove(&self.group())?;
        disk::unmount_below(&folders)?;
        for folder in folders.iter().skip(1) {
            for machine in fs::read_dir(folder.join("machines")).into_iter().flatten().flatten() {
                forget_name(&self.machine_name(&machine.file_name().to_string_lossy()));
            }
            discard(folder)?;
        }
        match fs::remove_file(self.image()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.at("remove", &self.image())?,
        }
        // Last, for it says where the rest is.
        discard(&self.run)?;
        if others_are_gone()? {
            sysctl::put_back(Path::new(RUN))?;
        }
        Ok(())
    }

    /// Clears what a run that was killed left behind, and says so.
    pub fn clear_leftovers(&self) -> Result<()> {
        if self.is_there() {
            say::line("taking away what an earlier run left behind");
        }
        self.clear()
    }
}

impl Lab {
    /// Clears every lab whose name begins so, and which nobody has.
    pub fn clear_all(cache: &Cache, beginning: &str) -> Result<()> {
        let entries = fs::read_dir(RUN).at("list", Path::new(RUN))?.flatten().filter(|entry| entry.path().is_dir());
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        for name in names.filter(|name| name.starts_with(beginning)) {
            if let Ok(lab) = Self::take(cache, &name) {
                lab.clear()?;
            }
        }
        Ok(())
    }
}

/// Whether no lab is left under `/run`.
fn others_are_gone() -> Result<bool> {
    let mut entries = fs::read_dir(RUN).at("list", Path::new(RUN))?.flatten();
    Ok(!entries.any(|entry| entry.path().is_dir()))
}

/// What must hold before anything is looked at or taken away.
pub fn preflight() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return said("the lab needs root: it mounts file systems and starts machines");
    }
    Ok(())
}

impl Record {
    pub fn machine(&self, name: &str) -> Result<&Identity> {
        let known = || self.machines.iter().map(|machine| machine.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = self.machines.iter().find(|machine| machine.name == name);
        found.ok_or_else(|| Error::Said(format!("the lab has no machine \"{name}\"; it has {}", known())))
    }
}
