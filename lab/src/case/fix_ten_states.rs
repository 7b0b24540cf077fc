//! Machines broken in the ways `carrick check --fix` fixes: fixed, taken back byte for byte, fixed again, and joined.

use std::time::Instant;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::error::{Error, Result};
use crate::fix::{State, play, state};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "ten broken states: check --fix leaves only what was there before, undo gives back every byte, a plain join works",
    tier: Tier::Quick,
    covers: &[Covers::Verb("check"), Covers::Verb("undo"), Covers::Promise(4)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

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

fn run(bench: &mut Bench) -> Result<()> {
    for state in bench.tier.some(STATES) {
        let begun = Instant::now();
        let machine = bench.worker(Kind::Debian12)?;
        play(bench, &machine, state).map_err(|error| Error::Said(format!("{}: {error}", state.about)))?;
        bench.time(state.wrong.first().copied().unwrap_or_default(), begun.elapsed());
        bench.clear()?;
    }
    Ok(())
}
