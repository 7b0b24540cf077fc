//! The cgroup driver: which one the kubelet will use, which one the runtime uses, and who says so.

use super::containerd_config::FILE as CONTAINERD_FILE;
use super::evidence::Evidence;
use super::runtime_sockets::Runtime;
use super::{Facts, Known, Missing, OrAbsent, Source, kubelet_config};

pub const SOURCES: &[Source] = &[Source::File(CONTROLLERS)];

/// Only the root of a cgroup v2 tree has it.
const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";

/// From 1.31 on a kubelet asks the runtime (KubeletCgroupDriverFromCRI is on) and goes by the answer.
const ASKS_THE_RUNTIME: u32 = 31;

/// A driver, and where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// `systemd` or `cgroupfs`.
    pub name: String,
    pub seen: Evidence,
    /// The kubelet takes it from the runtime: the two cannot differ.
    pub shared: bool,
    /// Nobody asked the cluster: what kubeadm does unless told otherwise.
    pub assumed: bool,
}

impl Driver {
    fn new(name: impl Into<String>, seen: Evidence) -> Self {
        Driver { name: name.into(), seen, shared: false, assumed: false }
    }
}

impl Facts {
    /// What the kubelet will use once it has joined.
    pub fn kubelet_driver(&self) -> Known<Driver> {
        let asks = self.kubelet_version().is_ok_and(|version| (version.major, version.minor) >= (1, ASKS_THE_RUNTIME));
        if let (true, Ok(name)) = (asks, self.runtime_driver()) {
            let seen = Evidence::of("CRI RuntimeConfig", format!("cgroupDriver {name}"));
            return Ok(Driver { shared: true, ..Driver::new(name, seen) });
        }
        if let Ok(command) = self.kubelet_command()
            && let Some((name, word)) = command.flag("--cgroup-driver")
        {
            return Ok(Driver::new(name, word.seen.clone()));
        }
        // A join overwrites the file with what the cluster gives; once joined, the file is what the kubelet reads.
        let file = |known: &Self| known.driver_of_the_file();
        let cluster = |known: &Self| known.driver_of_the_cluster();
        let found =
            if self.has_kubelet_conf()? { [file(self)?, cluster(self)?] } else { [cluster(self)?, file(self)?] };
        let seen = || Evidence::of("kubeadm", "its default is cgroupDriver: systemd");
        let default = || Driver { assumed: true, ..Driver::new("systemd", seen()) };
        Ok(found.into_iter().flatten().next().unwrap_or_else(default))
    }

    fn driver_of_the_file(&self) -> Known<Option<Driver>> {
        let Some(config) = self.kubelet_config().or_absent()? else { return Ok(None) };
        let seen = |text: &str| {
            let line = self.kubelet_config_line("cgroupDriver");
            line.unwrap_or_else(|| Evidence::of(kubelet_config::FILE, text))
        };
        Ok(Some(match config.cgroup_driver {
            Some(name) => Driver::new(name, seen("cgroupDriver")),
            None => Driver::new("cgroupfs", seen("no cgroupDriver: the kubelet's default is cgroupfs")),
        }))
    }

    /// `None` where the cluster was not asked.
    fn driver_of_the_cluster(&self) -> Known<Option<Driver>> {
        let config = match self.cluster_kubelet_config() {
            Ok(config) => config,
            Err(Missing { why: super::Why::NotAsked, .. }) => return Ok(None),
            Err(missing) => return Err(missing),
        };
        // kubeadm fills the gap with systemd when it writes the file.
        let name = config.cgroup_driver.unwrap_or_else(|| "systemd".to_owned());
        let seen = Evidence::of("the cluster's kubelet-config", format!("cgroupDriver: {name}"));
        Ok(Some(Driver::new(name, seen)))
    }

    /// What the runtime uses.
    pub fn container_driver(&self) -> Known<Driver> {
        if let Ok(name) = self.runtime_driver() {
            let seen = Evidence::of("CRI RuntimeConfig", format!("cgroupDriver {name}"));
            return Ok(Driver::new(name, seen));
        }
        if self.runtime() != Runtime::Containerd {
            return Err(self
                .runtime_driver()
                .err()
                .unwrap_or_else(|| Missing::broken("cri runtime-config", "no answer")));
        }
        let named = |systemd: bool| if systemd { "systemd" } else { "cgroupfs" };
        let effective = self.containerd_config();
        if let Ok(effective) = &effective
            && let Some(systemd) = effective.config.systemd_cgroup
        {
            let seen = Evidence::of(effective.source, format!("SystemdCgroup = {systemd}"));
            let line = self.containerd_line("SystemdCgroup").filter(|_| effective.source == CONTAINERD_FILE);
            return Ok(Driver::new(named(systemd), line.unwrap_or(seen)));
        }
        if let Some(systemd) = self.runtime_status().ok().and_then(|status| status.systemd_cgroup) {
            return Ok(Driver::new(named(systemd), Evidence::of("crictl info", format!("SystemdCgroup {systemd}"))));
        }
        // Read, and not set anywhere: runc's own default.
        let effective = effective?;
        Ok(Driver::new("cgroupfs", Evidence::of(effective.source, "SystemdCgroup is not set: the default is cgroupfs")))
    }

    /// The machine has one cgroup v2 tree.
    pub fn unified_cgroups(&self) -> Known<bool> {
        Ok(self.file(CONTROLLERS).or_absent()?.is_some())
    }
}
