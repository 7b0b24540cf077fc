//! Machines broken in the ways `carrick check --fix` mends: mended, taken back byte for byte, mended again, and joined.

use std::path::PathBuf;
use std::time::Instant;

use super::{Bench, Case, Needs};
use crate::demand;
use crate::error::{Error, Result};
use crate::machine::{Kind, Machine};
use crate::mend::{Mender, difference};
use crate::run::Run;

pub const CASE: Case = Case {
    about: "ten broken states: check --fix leaves only what was there before, undo gives back every byte, a plain join works",
    needs: Needs::Cluster,
    run,
};

struct State {
    about: &'static str,
    /// Breaks a sound machine.
    put_in: &'static str,
    /// What `carrick check` then finds wrong, besides what it found before.
    wrong: &'static [&'static str],
    /// Whether containers can start afterwards: with containerd's own defaults they cannot in the lab, where root lacks a
    /// capability.
    joins: bool,
}

const fn state(about: &'static str, put_in: &'static str, wrong: &'static [&'static str]) -> State {
    State { about, put_in, wrong, joins: true }
}

const STATES: &[State] = &[
    // The kernel is the lab's and has no modules: of a module only what is read at boot can be tried.
    state(
        "forwarding is off, now and at boot, and br_netfilter is not loaded at boot",
        "mkdir -p /lib/modules/$(uname -r); cd /lib/modules/$(uname -r); : > modules.builtin
         echo 'kernel/net/bridge/br_netfilter.ko:' > modules.dep; rm /etc/modules-load.d/kubernetes.conf
         sysctl -qw net.ipv4.ip_forward=0; echo 'net.ipv4.ip_forward = 0' > /etc/sysctl.d/zz-hardening.conf
         printf '# mine\\n net.ipv4.ip_forward=0\\n' >> /etc/sysctl.conf",
        &["kernel.ip-forward", "kernel.modules-after-boot", "kernel.sysctl-after-boot"],
    ),
    state(
        "swap is on, and on again after a boot",
        "truncate -s 0 $SWAP; dd if=/dev/zero of=$SWAP bs=1M count=64 status=none; chmod 600 $SWAP; mkswap -q $SWAP
         swapon $SWAP; printf 'UUID=1 /mnt ext4 noauto 0 0\\n  %s\\tnone swap sw 0 0\\n' $SWAP >> /etc/fstab",
        &["machine.swap", "machine.swap-after-boot"],
    ),
    state(
        "a service makes swap at boot, and the kubelet is disabled and masked",
        "printf '[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n' > /etc/systemd/system/zramswap.service
         systemctl -q enable zramswap; systemctl -q disable kubelet; systemctl -q mask --now kubelet",
        &["kubelet.masked", "machine.swap-after-boot"],
    ),
    state("the directory for CNI is gone", "rm -r /etc/cni/net.d", &["cni.directory"]),
    state(
        "CNI's directory is everybody's, a program cannot run, and containerd looks for them elsewhere",
        "chmod 777 /etc/cni/net.d; sed -i s,/opt/cni/bin,/usr/lib/cni, /etc/containerd/config.toml; systemctl restart containerd
         mv /usr/lib/cni /usr/lib/cni.away",
        &["cni.directory", "cni.plugins", "runtime.cni-dirs"],
    ),
    state("a CNI program is not executable", "chmod 644 /opt/cni/bin/bridge", &["cni.plugins"]),
    state(
        "containerd has another cgroup driver than the kubelet",
        "sed -i 's/SystemdCgroup = false/SystemdCgroup = true # as everywhere/' /etc/containerd/config.toml
         systemctl restart containerd",
        &["runtime.cgroup-driver"],
    ),
    state(
        "containerd's configuration switches CRI off, names a pause image that is not here, and has a key outside its table",
        "sed -i -e '1i # ours\\nSystemdCgroup = true\\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"] # Docker does' \
         -e s/pause:3.10.1/pause:3.6/ /etc/containerd/config.toml; systemctl restart containerd",
        &["runtime.config-stray-keys", "runtime.cri-plugin"],
    ),
    state(
        "the kubelet's drop-in is gone, and the kubelet runs alone",
        "rm /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf; systemctl daemon-reload; systemctl restart kubelet
         until ss -lnt | grep -q :10250; do sleep 0.2; done",
        &["kubelet.standalone", "network.ports"],
    ),
    state(
        "containerd is stopped and disabled; a drop-in of the kubelet's stands outside any section and is unread",
        // Last, since `disable` has systemd read everything anew.
        "systemctl -q disable --now containerd
         mkdir -p /etc/systemd/system/kubelet.service.d
         printf 'Environment=\"KUBELET_EXTRA_ARGS=--network-plugin=cni\"\\n' > /etc/systemd/system/kubelet.service.d/20-join.conf",
        // What stands in the drop-in shows once systemd has read it: in the second round.
        &["kubelet.daemon-reload", "runtime.socket", "runtime.unit"],
    ),
    State {
        joins: false,
        ..state(
            "containerd has no configuration",
            "rm /etc/containerd/config.toml; systemctl restart containerd",
            &["runtime.sandbox-image"],
        )
    },
];

/// Where a swap file can lie: not on an overlay.
const SWAP: &str = "/var/lib/containerd/swapfile";

/// Swap is the kernel's, and so everybody's: it is turned off again whatever happens.
struct SwapGuard(PathBuf);

impl Drop for SwapGuard {
    fn drop(&mut self) {
        if self.0.exists() {
            let _ = Run::new("swapoff").arg(&self.0).done();
        }
    }
}

fn run(bench: &mut Bench) -> Result<()> {
    for state in STATES {
        let begun = Instant::now();
        play(bench, state).map_err(|error| Error::Said(format!("{}: {error}", state.about)))?;
        bench.time(state.wrong.first().copied().unwrap_or_default(), begun.elapsed());
        bench.clear()?;
    }
    Ok(())
}

fn play(bench: &mut Bench, state: &State) -> Result<()> {
    let machine = bench.worker(Kind::Debian12)?;
    let _guard = SwapGuard(machine.disk().plain("containerd").join("swapfile"));
    let mender = Mender::on(bench, &machine)?;
    let sound = mender.wrong()?;
    break_it(&machine, state)?;
    let broken = mender.wrong()?;
    bench.say(format_args!("{}\n  sound: {sound:?}\n  broken: {broken:?}", state.about));
    for id in state.wrong {
        demand!(broken.contains(*id), "{id} is not found; found are {broken:?}");
    }
    let before = mender.tree()?;
    mends(bench, &mender, &sound)?;
    let undone = mender.undo_all()?;
    demand!(undone > 0, "nothing was there to take back");
    let changed = difference(&before, &mender.tree()?);
    demand!(changed.is_empty(), "undo gave something else back:\n{}", changed.join("\n"));
    mends(bench, &mender, &sound)?;
    if state.joins {
        let cluster = bench.cluster()?;
        cluster.join(&machine)?;
        cluster.wait_ready(&machine.identity.name)?;
    }
    Ok(())
}

fn break_it(machine: &Machine, state: &State) -> Result<()> {
    let script = format!("SWAP={SWAP}\n{}", state.put_in);
    machine.run(["sh", "-ec", &script]).ok().map(drop)
}

fn mends(bench: &mut Bench, mender: &Mender, sound: &std::collections::BTreeSet<String>) -> Result<()> {
    let done = mender.fix()?;
    bench.say(done.text());
    let left = mender.left(sound)?;
    demand!(left.is_empty(), "still wrong after check --fix: {left:?}\n{}", done.text());
    Ok(())
}
