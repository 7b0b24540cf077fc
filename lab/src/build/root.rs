//! The Debian roots the machines run on, made by debootstrap, and the layer on top that turns one into a prepared node.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use super::Parts;
use crate::cache::{Cache, CacheKey};
use crate::error::{During, Result};
use crate::run::Run;
use crate::say;

/// A kubeadm node as the install guide leaves it, plus what a person would look around with.
const PACKAGES: &[&str] = &[
    "systemd",
    "systemd-sysv",
    "dbus",
    "iproute2",
    "iptables",
    "nftables",
    "containerd",
    "runc",
    "openssh-server",
    "openssh-client",
    "conntrack",
    "ethtool",
    "socat",
    "containernetworking-plugins",
    "kmod",
    "procps",
    "util-linux",
    "mount",
    "ca-certificates",
    "curl",
    "jq",
    "iputils-ping",
    "busybox-static",
    // Off until a fault turns one on.
    "ufw",
    "firewalld",
    // What polkitd, and with it firewalld, means by a logind; debootstrap does not look for who provides it.
    "libpam-systemd",
];

/// Debian 13 is the first Debian with a Go new enough for Kubernetes 1.34.
pub const GO_PACKAGE: &str = "golang-1.24-go";

/// About a minute on an idle line; a slow mirror is still let finish.
const DEBOOTSTRAP_DEADLINE: Duration = Duration::from_mins(30);

/// Units that would do work a throw-away machine has no use for, or that need a kernel of their own.
const MASKED: &[&str] = &[
    "systemd-networkd-wait-online.service",
    "systemd-resolved.service",
    "systemd-udevd.service",
    "systemd-logind.service",
    "e2scrub_reap.service",
    "e2scrub_all.timer",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "fstrim.timer",
    "getty@.service",
    "console-getty.service",
];

/// Units that Debian's packages turn on, and that a prepared node would not have running.
const DISABLED: &[&str] = &["multi-user.target.wants/firewalld.service", "dbus-org.fedoraproject.FirewallD1.service"];

/// Files of the layer: where, what, and whether it is run.
const NODE_FILES: &[(&str, &str, bool)] = &[
    ("usr/lib/systemd/system/kubelet.service", include_str!("../../files/kubelet.service"), false),
    ("usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf", include_str!("../../files/10-kubeadm.conf"), false),
    ("usr/lib/systemd/system/lab-boot.service", include_str!("../../files/lab-boot.service"), false),
    ("usr/local/sbin/lab-boot", include_str!("../../files/lab-boot.sh"), true),
    ("etc/containerd/config.toml", include_str!("../../files/containerd.toml"), false),
    ("etc/ssh/sshd_config.d/lab.conf", include_str!("../../files/sshd.conf"), false),
    ("etc/systemd/journald.conf.d/lab.conf", include_str!("../../files/journald.conf"), false),
    ("etc/modules-load.d/kubernetes.conf", "overlay\nbr_netfilter\n", false),
    ("etc/sysctl.d/kubernetes.conf", include_str!("../../files/sysctl.conf"), false),
];

const ENABLED: &[&str] = &["lab-boot.service", "containerd.service", "kubelet.service", "ssh.service"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    Bookworm,
    Trixie,
}

impl Suite {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }

    fn key(self) -> CacheKey {
        CacheKey::new().part(self.name()).part(PACKAGES.join(",")).part(MASKED.join(",")).part(DISABLED.join(","))
    }

    fn entry(self) -> String {
        format!("root-{}", self.name())
    }

    pub fn is_built(self, cache: &Cache) -> bool {
        cache.find(&self.entry(), self.key()).is_some()
    }

    pub fn build(self, cache: &Cache) -> Result<PathBuf> {
        cache.entry(&self.entry(), self.key(), |place| {
            debootstrap(self, PACKAGES, place)?;
            finish(place)
        })
    }
}

/// A Debian root with Go in it, for a machine that has none.
pub fn with_go(cache: &Cache) -> Result<PathBuf> {
    let packages = [GO_PACKAGE, "gcc", "libc6-dev", "ca-certificates"];
    let key = CacheKey::new().part(packages.join(","));
    cache.entry("root-go", key, |place| debootstrap(Suite::Trixie, &packages, place))
}

fn debootstrap(suite: Suite, packages: &[&str], place: &Path) -> Result<()> {
    let what = format!("making a Debian root ({})", suite.name());
    say::line(&what);
    let run = Run::new("debootstrap").arg("--variant=minbase").arg(format!("--include={}", packages.join(",")));
    let mirror = std::env::var("CARRICK_LAB_MIRROR").ok();
    let done = run.arg(suite.name()).arg(place).args(mirror).deadline(DEBOOTSTRAP_DEADLINE).narrated(&what).done()?;
    let done = done.success()?;
    say::line(&format!("made a Debian root ({}) in {}", suite.name(), say::seconds(done.took)));
    Ok(())
}

/// Takes out of the root what must not be shared by all machines made from it, and what only costs room.
fn finish(root: &Path) -> Result<()> {
    // This file wins over /etc/machine-id and nspawn's --uuid: with it all machines would be one.
    remove(&root.join("var/lib/dbus/machine-id"))?;
    write(&root.join("etc/machine-id"), "", false)?;
    for archive in fs::read_dir(root.join("var/cache/apt/archives")).at("list", root)?.flatten() {
        if archive.path().extension().is_some_and(|extension| extension == "deb") {
            remove(&archive.path())?;
        }
    }
    for link in DISABLED {
        remove(&root.join("etc/systemd/system").join(link))?;
    }
    for unit in MASKED {
        let link = root.join("etc/systemd/system").join(unit);
        remove(&link)?;
        symlink("/dev/null", &link).at("link", &link)?;
    }
    // kubeadm's world looks in /opt/cni/bin, Debian installs to /usr/lib/cni.
    let plugins = root.join("opt/cni/bin");
    fs::create_dir_all(&plugins).at("make", &plugins)?;
    for plugin in fs::read_dir(root.join("usr/lib/cni")).at("list", root)?.flatten() {
        fs::copy(plugin.path(), plugins.join(plugin.file_name())).at("copy", &plugin.path())?;
    }
    Ok(())
}

/// The layer over a Debian root that makes it a node: Kubernetes, its units, containerd's settings.
pub fn node_layer(cache: &Cache, parts: &Parts) -> Result<PathBuf> {
    let (kube, cni) = (parts.programs("kube")?, parts.programs("cni-flannel")?);
    let mut key = CacheKey::new().entry(kube).entry(cni).part("layer 1");
    for (place, text, _) in NODE_FILES {
        key = key.part(place).part(text);
    }
    cache.entry("node", key, |layer| {
        for program in ["kubeadm", "kubelet", "kubectl"] {
            copy(&kube.join(program), &layer.join("usr/bin").join(program))?;
        }
        copy(&cni.join("flannel"), &layer.join("opt/cni/bin/flannel"))?;
        for (place, text, runs) in NODE_FILES {
            write(&layer.join(place), text, *runs)?;
        }
        let wants = layer.join("etc/systemd/system/multi-user.target.wants");
        fs::create_dir_all(&wants).at("make", &wants)?;
        for unit in ENABLED {
            symlink(Path::new("/usr/lib/systemd/system").join(unit), wants.join(unit)).at("link", &wants)?;
        }
        let manifests = layer.join("etc/kubernetes/manifests");
        fs::create_dir_all(&manifests).at("make", &manifests)
    })
}

/// On top of that: the kubeadm and the kubelet of a cluster that was not upgraded for years.
pub fn old_layer(cache: &Cache, parts: &Parts) -> Result<PathBuf> {
    let old = parts.programs("kube-1.29")?;
    cache.entry("node-1.29", CacheKey::new().entry(old), |layer| {
        for program in ["kubeadm", "kubelet"] {
            copy(&old.join(program), &layer.join("usr/bin").join(program))?;
        }
        Ok(())
    })
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.at("remove", file),
    }
}

fn write(file: &Path, text: &str, runs: bool) -> Result<()> {
    folder_of(file)?;
    fs::write(file, text).at("write", file)?;
    let mode = if runs { 0o755 } else { 0o644 };
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).at("set the mode of", file)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    folder_of(to)?;
    fs::copy(from, to).at("copy", from)?;
    Ok(())
}

fn folder_of(file: &Path) -> Result<()> {
    file.parent().map_or(Ok(()), |folder| fs::create_dir_all(folder).at("make", folder))
}
