//! Starting a machine: systemd-nspawn with a real systemd inside, in groups and a namespace of the lab's.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal, setsid};

use super::{cgroup, net};
use crate::error::{During, Result, said};
use crate::run::open_log;

/// The verb (not for people) under which the lab calls itself to become a machine's supervisor.
pub const LAUNCH: &str = "launch-machine";

pub struct Start<'a> {
    pub machine: &'a str,
    pub hostname: &'a str,
    pub root: &'a Path,
    pub machine_id: &'a str,
    pub group: &'a str,
    pub console: &'a Path,
}

impl Start<'_> {
    pub fn start(&self) -> Result<Child> {
        cgroup::make(self.group)?;
        let console = open_log(self.console)?;
        let errors = console.try_clone().at("write", self.console)?;
        let mut command = Command::new(crate::run::OWN);
        command.args([LAUNCH, self.group, "--"]).args(self.argv());
        command.stdin(Stdio::null()).stdout(console).stderr(errors);
        command.spawn().during(|| "cannot start systemd-nspawn".to_owned())
    }

    /// Each of these was found to be needed; without it, the kubelet or runc fails as noted.
    fn argv(&self) -> Vec<String> {
        vec![
            "systemd-nspawn".to_owned(),
            "--quiet".to_owned(),
            format!("--directory={}", self.root.display()),
            "--boot".to_owned(),
            format!("--network-bridge={}", net::BRIDGE),
            "--register=no".to_owned(),
            "--keep-unit".to_owned(),
            // "open /dev/kmsg: operation not permitted"
            "--capability=all".to_owned(),
            // "failed to create kubelet: open /dev/kmsg: no such file or directory"
            "--bind=/dev/kmsg".to_owned(),
            // "unable to create session key: operation not permitted"
            "--system-call-filter=@known bpf keyctl".to_owned(),
            format!("--machine={}", self.machine),
            format!("--hostname={}", self.hostname),
            format!("--uuid={}", self.machine_id),
            "--resolv-conf=off".to_owned(),
            "--timezone=off".to_owned(),
            "--link-journal=no".to_owned(),
        ]
    }
}

/// What the started process does: goes into the machine's groups, then becomes nspawn. Dies with its parent until it is
/// in the groups, for from then on it can be found there.
pub fn launch(group: &str, argv: &[String]) -> Result<()> {
    let parent = rustix::process::getppid();
    set_parent_process_death_signal(Some(Signal::KILL))
        .during(|| "cannot tie the machine to its starter".to_owned())?;
    if rustix::process::getppid() != parent {
        return said("whoever started this machine is gone");
    }
    cgroup::join(group)?;
    set_parent_process_death_signal(None).during(|| "cannot untie the machine from its starter".to_owned())?;
    setsid().during(|| "cannot start a session".to_owned())?;
    let [program, words @ ..] = argv else {
        return said("nothing to launch");
    };
    let refused = Command::new(program).args(words).exec();
    Err(refused).during(|| format!("cannot run {program}"))
}
