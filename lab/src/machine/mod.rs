//! Machines: what a worker or a control plane of the lab is made of, and what can be done with one.

pub mod cgroup;
pub mod disk;
pub mod net;
pub mod nspawn;
mod ssh;

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use self::disk::Disk;
use self::net::Site;
use self::nspawn::Start;
use crate::build::root::Suite;
use crate::build::{Part, Parts, Store};
use crate::demand;
use crate::error::{During, Error, Result, said};
use crate::lab::Lab;
use crate::run::{Polled, Run, wait_for};
use crate::stop;

/// Two seconds on an idle machine.
const BOOT_DEADLINE: Duration = Duration::from_mins(1);

/// What is installed on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Debian 12, containerd 1.6, Kubernetes 1.34
    Debian12,
    /// Debian 13, containerd 1.7, Kubernetes 1.34
    Debian13,
    /// Debian 12, containerd 1.6, kubeadm and kubelet 1.29
    #[value(name = "debian12-kube1.29")]
    #[serde(rename = "debian12-kube1.29")]
    Debian12Kube129,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Debian12, Self::Debian13, Self::Debian12Kube129];

    pub fn name(self) -> &'static str {
        match self {
            Self::Debian12 => "debian12",
            Self::Debian13 => "debian13",
            Self::Debian12Kube129 => "debian12-kube1.29",
        }
    }

    /// Top first, as overlayfs wants them.
    fn layers(self, parts: &Parts) -> Result<Vec<&Path>> {
        let layers: &[Part] = match self {
            Self::Debian12 => &[Part::Node, Part::Root(Suite::Bookworm)],
            Self::Debian13 => &[Part::Node, Part::Root(Suite::Trixie)],
            Self::Debian12Kube129 => &[Part::OldNode, Part::Node, Part::Root(Suite::Bookworm)],
        };
        layers.iter().map(|layer| parts.place(*layer)).collect()
    }
}

/// What is in a new machine's image store.
#[derive(Clone, Copy)]
pub enum Images {
    Nothing,
    Worker,
    ControlPlane,
}

/// What of a machine is told to others: to `shell`, and to a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Identity {
    pub name: String,
    pub address: Ipv4Addr,
    pub kind: Kind,
    /// As systemd has it, without dashes.
    pub machine_id: String,
    /// As the DMI has it: the kubelet's systemUUID.
    pub system_uuid: String,
}

pub struct Machine {
    pub identity: Identity,
    pub boot: Duration,
    site: Site,
    disk: Disk,
    dir: PathBuf,
    key: PathBuf,
    group: String,
    /// As nspawn knows it.
    nspawn_name: String,
    supervisor: Mutex<Option<Child>>,
}

impl Machine {
    /// A fresh machine, booted until it can be logged in to.
    pub fn start(lab: &Lab, parts: &Parts, name: &str, address: Ipv4Addr, kind: Kind, images: Images) -> Result<Self> {
        let identity = Identity {
            name: name.to_owned(),
            address,
            kind,
            machine_id: uuid()?.replace('-', ""),
            system_uuid: uuid()?,
        };
        let machine = Self::attach(lab, parts, &identity);
        let store = match (images, kind) {
            (Images::Nothing, _) => None,
            (Images::ControlPlane, _) => Some(Store::ControlPlane),
            (Images::Worker, Kind::Debian13) => Some(Store::Debian13),
            (Images::Worker, Kind::Debian12 | Kind::Debian12Kube129) => Some(Store::Debian12),
        };
        let template = store.map(|store| lab.store(parts.place(Part::Store(store))?)).transpose()?;
        machine.disk.mount(&kind.layers(parts)?, template.as_deref())?;
        machine.personalise()?;
        let boot = machine.boot()?;
        Ok(Self { boot, ..machine })
    }

    /// A machine that another run started.
    pub fn attach(lab: &Lab, parts: &Parts, identity: &Identity) -> Self {
        let name = &identity.name;
        let dir = lab.machine_dir(name);
        Self {
            boot: Duration::ZERO,
            site: *lab.site(),
            disk: Disk::at(&dir),
            key: parts.key.clone(),
            group: format!("{}/{name}", lab.group()),
            nspawn_name: lab.machine_name(name),
            supervisor: Mutex::default(),
            dir,
            identity: identity.clone(),
        }
    }

    pub fn boot(&self) -> Result<Duration> {
        let begun = Instant::now();
        let child = Start {
            machine: &self.nspawn_name,
            hostname: &self.identity.name,
            root: &self.disk.root(),
            machine_id: &self.identity.machine_id,
            group: &self.group,
            console: &self.dir.join("console.log"),
        }
        .start()?;
        if let Ok(mut supervisor) = self.supervisor.lock() {
            *supervisor = Some(child);
        }
        let what = format!("{} to boot", self.identity.name);
        let booted = wait_for(&what, BOOT_DEADLINE, || self.answers());
        if let Err(error) = booted {
            stop::check()?;
            return Err(Error::Said(format!("{error}\n{}", self.console_end())));
        }
        Ok(begun.elapsed())
    }

    fn answers(&self) -> Result<Polled<()>> {
        let ended = self.supervisor.lock().ok().and_then(|mut child| child.as_mut()?.try_wait().ok()?);
        if let Some(status) = ended {
            return said(format!("systemd-nspawn ended with {status}: {}", self.console_end()));
        }
        if !ssh::port_answers(self.identity.address) {
            return Ok(Polled::NotYet("nothing answers at its ssh port".to_owned()));
        }
        let done = self.run(["true"]).deadline(Duration::from_secs(10)).done();
        Ok(match done {
            Ok(done) if done.status.success() => Polled::Seen(()),
            Ok(done) => Polled::NotYet(done.err),
            Err(error) => Polled::NotYet(error.to_string()),
        })
    }

    fn console_end(&self) -> String {
        let text = fs::read(self.dir.join("console.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let from = text.lines().count().saturating_sub(10);
        text.lines().skip(from).collect::<Vec<_>>().join("\n")
    }

    /// What makes this machine another than its neighbour made from the same layers.
    fn personalise(&self) -> Result<()> {
        let Identity { name, address, system_uuid, .. } = &self.identity;
        let public = self.key.with_extension("pub");
        let public = fs::read_to_string(&public).at("read", &public)?;
        self.write("/etc/hostname", &format!("{name}\n"))?;
        let (control, control_name, gateway) = (self.site.control(), self.site.control_name, self.site.gateway());
        self.write("/etc/hosts", &format!("127.0.0.1 localhost\n{control} {control_name}\n{address} {name}\n"))?;
        // Nobody answers there: a name that is looked up fails at once instead of after a timeout.
        self.write("/etc/resolv.conf", &format!("nameserver {gateway}\n"))?;
        self.write("/etc/lab-machine", &format!("ADDRESS={address}\nGATEWAY={gateway}\nUUID={system_uuid}\n"))?;
        self.write("/root/.ssh/authorized_keys", &public)?;
        let folder = self.disk.root().join("root/.ssh");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).at("set the mode of", &folder)
    }

    /// Writes a file on the machine, from outside, running or not. `/run` and `/tmp` are its own and not reached so.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let place = self.disk.root().join(path.trim_start_matches('/'));
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder).at("make", folder)?;
        }
        // What is there may be a link of the base's to somewhere else.
        let _ = fs::remove_file(&place);
        fs::write(&place, text).at("write", &place)
    }

    pub fn read(&self, path: &str) -> Result<String> {
        let place = self.disk.root().join(path.trim_start_matches('/'));
        fs::read_to_string(&place).at("read", &place)
    }

    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// A command on the machine, as root, over ssh.
    pub fn run<A: AsRef<str>>(&self, argv: impl IntoIterator<Item = A>) -> Run {
        ssh::command(&self.key, self.identity.address, argv)
    }

    /// The same in a terminal there, as for a person who has logged in.
    pub fn in_terminal<A: AsRef<str>>(&self, argv: impl IntoIterator<Item = A>) -> Run {
        ssh::in_terminal(&self.key, self.identity.address, argv)
    }

    /// Pulls the machine's network cable: nothing comes or goes, and nobody is told.
    pub fn unplug(&self) -> Result<Unplugged> {
        let index = self.ok(["cat", "/sys/class/net/host0/iflink"])?;
        let link = net::link_at(index.trim())?;
        let unplugged = Unplugged { link };
        net::set_link(&unplugged.link, "down")?;
        demand!(!ssh::port_answers(self.identity.address), "{} answers without its cable", self.identity.name);
        Ok(unplugged)
    }

    /// How any other ssh client gets in, by the machine's name.
    pub fn ssh_config(&self) -> String {
        ssh::config(&self.key, &self.identity.name, self.identity.address)
    }

    pub fn ok<A: AsRef<str>>(&self, argv: impl IntoIterator<Item = A>) -> Result<String> {
        self.run(argv).ok()
    }

    /// Puts a local program in the place of one on the machine.
    pub fn replace(&self, path: &str, program: &Path) -> Result<()> {
        let place = self.disk.root().join(path.trim_start_matches('/'));
        let _ = fs::remove_file(&place);
        fs::copy(program, &place).at("write", &place).map(drop)
    }

    /// Ends it as a power cut would, and removes everything of it.
    pub fn remove(&self) -> Result<()> {
        self.cut_power()?;
        disk::unmount_below(std::slice::from_ref(&self.dir))?;
        crate::cache::discard(&self.dir)
    }

    /// Cuts the power and boots again, with the disk as it is; how long the boot took.
    pub fn power_cycle(&self) -> Result<Duration> {
        self.cut_power()?;
        self.boot()
    }

    /// Ends it without a word.
    pub fn cut_power(&self) -> Result<()> {
        cgroup::remove(&self.group)?;
        if let Some(mut child) = self.supervisor.lock().ok().and_then(|mut child| child.take()) {
            child.wait().during(|| "cannot wait for systemd-nspawn".to_owned())?;
        }
        forget_name(&self.nspawn_name);
        Ok(())
    }
}

/// A machine without its network cable, which is put in again when this is dropped.
pub struct Unplugged {
    link: String,
}

impl Unplugged {
    /// Puts it in; where that does not work, says so.
    pub fn plug_in(self) -> Result<()> {
        net::set_link(&self.link, "up")
    }
}

impl Drop for Unplugged {
    fn drop(&mut self) {
        let _ = net::set_link(&self.link, "up");
    }
}

/// nspawn leaves an empty folder by a machine's name.
pub fn forget_name(machine: &str) {
    for folder in ["propagate", "unix-export"] {
        let _ = fs::remove_dir(Path::new("/run/systemd/nspawn").join(folder).join(machine));
    }
}

fn uuid() -> Result<String> {
    let place = Path::new("/proc/sys/kernel/random/uuid");
    Ok(fs::read_to_string(place).at("read", place)?.trim().to_owned())
}

/// For `shell`: the way into a machine that another run started.
pub fn login(key: &Path, identity: &Identity, argv: &[String]) -> Run {
    ssh::interactive(key, identity.address, argv)
}
