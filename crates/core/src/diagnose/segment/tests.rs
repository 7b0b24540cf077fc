//! Given this paste, these facts, and this verdict.
#![allow(clippy::too_many_lines)] // Tables.

use proptest::prelude::*;

use super::*;
use crate::check::Outcome::{self, Fail, Pass, Unknown, Warn};
use crate::check::{CHECKS, CheckPolicy, Verdict};
use crate::fact::{Facts, example};
use crate::testing::{NOW, facts};

fn cut(paste: &str) -> Vec<Segment> {
    let mut segmenter = Segmenter::new();
    for (number, line) in (1u64..).zip(paste.split('\n')) {
        segmenter.push(number, line.as_bytes());
    }
    segmenter.finish()
}

/// A line's number, to look it up.
fn place(line: u64) -> usize {
    usize::try_from(line).expect("a short paste")
}

fn keys(paste: &str) -> Vec<String> {
    cut(paste).into_iter().map(|segment| segment.key).collect()
}

fn known(paste: &str) -> Facts {
    let mut facts = Facts::new("w1", NOW);
    for segment in cut(paste) {
        facts.insert(segment.key, segment.capture);
    }
    facts
}

#[track_caller]
fn judge(paste: &str, id: &str) -> Verdict {
    let check = CHECKS.iter().find(|registered| registered.check.id == id).expect("a check").check;
    check.verdict(&known(paste), &CheckPolicy::default())
}

/// A name, a paste, the keys of its facts, and what checks say of it.
type Row<'a> = (&'a str, &'a str, &'a [&'a str], &'a [(&'a str, Outcome)]);

/// Given this paste, these keys, and these verdicts.
#[track_caller]
fn table(rows: &[Row<'_>]) {
    for (name, paste, expected, verdicts) in rows {
        let found = keys(paste);
        for key in *expected {
            assert!(found.iter().any(|found| found == key), "{name}: no {key:?} in {found:?}");
        }
        if expected.is_empty() {
            assert!(found.is_empty(), "{name}: {found:?}");
        }
        for (id, outcome) in *verdicts {
            let verdict = judge(paste, id);
            assert_eq!(verdict.outcome, *outcome, "{name}: {id}: {}", verdict.says);
        }
    }
}

/// The status that all this began with.
const ALONE: &str = "\
● kubelet.service - kubelet: The Kubernetes Node Agent
     Loaded: loaded (/lib/systemd/system/kubelet.service; enabled; preset: enabled)
     Active: active (running) since Wed 2025-09-10 16:03:03 EDT; 1min 2s ago
       Docs: https://kubernetes.io/docs/
   Main PID: 369269 (kubelet)
      Tasks: 12 (limit: 9287)
     Memory: 26.4M
        CPU: 1.209s
     CGroup: /system.slice/kubelet.service
             └─369269 /usr/bin/kubelet

Sep 10 16:03:03 storagenodeT3500 kubelet[369269]: I0910 16:03:03.1 kubelet.go:1] x
";

const CRICTL: &str = r#"{
  "status": {
    "conditions": [
      {
        "type": "RuntimeReady",
        "status": true,
        "reason": "",
        "message": ""
      },
      {
        "type": "NetworkReady",
        "status": false,
        "reason": "NetworkPluginNotReady",
        "message": "Network plugin returns error: cni plugin not initialized"
      }
    ]
  },
  "cniconfig": {
    "PluginDirs": [
      "/opt/cni/bin"
    ],
    "PluginConfDir": "/etc/cni/net.d",
    "PluginMaxConfNum": 1,
    "Networks": []
  },
  "config": {
    "containerd": {
      "snapshotter": "overlayfs",
      "defaultRuntimeName": "runc",
      "runtimes": {
        "runc": {
          "options": {
            "SystemdCgroup": true
          }
        }
      }
    },
    "containerdEndpoint": "/run/containerd/containerd.sock"
  },
  "lastCNILoadStatus": "cni config load failed: no network config found in /etc/cni/net.d: cni plugin not initialized: failed to load cni config"
}
"#;

const MOUNTINFO: &str = "\
26 1 254:0 / / rw,relatime shared:1 - ext4 /dev/mapper/debian--vg-root rw,errors=remount-ro
78 26 8:17 / /srv/media rw,relatime shared:33 - ext4 /dev/sdb1 rw
311 26 0:44 / /mnt/media rw,relatime shared:140 - nfs4 192.168.4.61:/srv/media rw,vers=4.2,rsize=1048576
";

const DF: &str = "\
Filesystem                   Size  Used Avail Use% Mounted on
udev                         5.9G     0  5.9G   0% /dev
/dev/mapper/debian--vg-root  456G  6.8G  426G   2% /
192.168.4.61:/srv/media      1.8T  1.1T  620G  65% /mnt/media
";

#[test]
fn units() {
    let cat = crate::fact::unit::sample::packaged();
    table(&[
        (
            "a status by its look",
            ALONE,
            &["query systemctl status kubelet"],
            &[
                ("kubelet.standalone", Fail),
                ("kubelet.unit", Pass),
                ("kubelet.enabled", Pass),
                ("kubelet.restart-loop", Pass),
            ],
        ),
        (
            "indented, in colours, from a Windows terminal",
            &ALONE.lines().map(|line| format!("    \u{1b}[32m{line}\u{1b}[0m\r\n")).collect::<String>(),
            &["query systemctl status kubelet"],
            &[("kubelet.standalone", Fail)],
        ),
        (
            "under a banner",
            &format!("=== systemctl status kubelet ===\n{ALONE}"),
            &["query systemctl status kubelet"],
            &[("kubelet.standalone", Fail)],
        ),
        (
            "as the diagnostics script prints it",
            &format!(
                "=== Kubelet Service Status ===\nCommand: systemctl status kubelet --no-pager -l\nOutput:\n{ALONE}\n"
            ),
            &["query systemctl status kubelet"],
            &[("kubelet.standalone", Fail)],
        ),
        (
            "a unit that is not there",
            "root@w1:~# systemctl status kubelet\nUnit kubelet.service could not be found.\n",
            &["query systemctl status kubelet", "query systemctl cat kubelet"],
            &[("kubelet.unit", Fail)],
        ),
        (
            "systemctl cat by its look",
            &cat,
            &["query systemctl cat kubelet"],
            &[("kubelet.unit", Pass), ("kubelet.standalone", Pass), ("kubelet.dropin-section", Pass)],
        ),
        (
            "systemctl cat, the drop-in deleted",
            &format!("$ systemctl cat kubelet\n{}", crate::fact::unit::sample::bare()),
            &["query systemctl cat kubelet"],
            &[("kubelet.standalone", Fail)],
        ),
        (
            "two units in one",
            &format!(
                "# systemctl cat kubelet containerd\n{cat}\n# /lib/systemd/system/containerd.service\n[Service]\nExecStart=/usr/bin/containerd\n"
            ),
            &["query systemctl cat kubelet", "query systemctl cat containerd"],
            &[],
        ),
        (
            "through a filter",
            "root@w1:~# systemctl status kubelet | grep Active\n   Active: active (running)\n",
            &[],
            &[("kubelet.enabled", Unknown)],
        ),
        (
            "ps",
            "root@w1:~# ps aux | grep kubelet\nroot      369269  2.1  1.0 1234 567 ?  Ssl  16:03   0:01 /usr/bin/kubelet\nroot  400 0.0 0.0 1 1 pts/0 S+ 16:04 0:00 grep kubelet\n",
            &["query ps -C kubelet"],
            &[("kubelet.standalone", Fail)],
        ),
    ]);
    let verdict = judge(ALONE, "kubelet.standalone");
    assert_eq!(verdict.evidence[0].to_string(), "systemctl status kubelet:10  └─369269 /usr/bin/kubelet");
}

#[test]
fn files() {
    let stub = crate::fact::containerd_config::sample::STUB_WITH_STRAY;
    let config = crate::fact::kubelet_config::sample::with("cgroupDriver: systemd\n");
    let dump = crate::fact::containerd_config::sample::version_2(true);
    table(&[
        (
            "a prompt",
            &format!("root@w1:~# cat /etc/containerd/config.toml\n{stub}root@w1:~# \n"),
            &["file /etc/containerd/config.toml"],
            &[("runtime.config-stray-keys", Fail)],
        ),
        (
            "a banner",
            &format!("--- /etc/containerd/config.toml ---\n{stub}\n--- /etc/hosts ---\n127.0.0.1 localhost\n"),
            &["file /etc/containerd/config.toml", "file /etc/hosts"],
            &[("runtime.config-stray-keys", Fail)],
        ),
        (
            "head's own",
            "==> /etc/resolv.conf <==\nnameserver 10.0.0.1\n\n==> /etc/hosts <==\n127.0.0.1 localhost\n",
            &["file /etc/resolv.conf", "file /etc/hosts"],
            &[("network.resolver", Pass)],
        ),
        (
            "between rules",
            "=====================\ncat /etc/resolv.conf\n=====================\nnameserver 10.0.0.1\n",
            &["file /etc/resolv.conf"],
            &[],
        ),
        ("containerd's by its look", &dump, &["file /etc/containerd/config.toml"], &[("runtime.config-syntax", Pass)]),
        ("what containerd would do without one", &format!("$ containerd config default\n{dump}$ date\n"), &[], &[]),
        ("the kubelet's by its look", &config, &["file /var/lib/kubelet/config.yaml"], &[]),
        (
            "the cluster's, within a ConfigMap",
            &format!("data:\n  kubelet: |\n{}", config.lines().map(|line| format!("    {line}\n")).collect::<String>()),
            &[],
            &[],
        ),
        (
            "os-release",
            "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n",
            &["file /etc/os-release"],
            &[],
        ),
        (
            "not there",
            "cat: /etc/kubernetes/kubelet.conf: No such file or directory\n",
            &["file /etc/kubernetes/kubelet.conf"],
            &[],
        ),
        ("a part of it", "root@w1:~# cat /etc/hosts | head -2\n127.0.0.1 localhost\n10.0.0.1 cp1\n", &[], &[]),
        (
            "something left out",
            "root@w1:~# cat /etc/fstab\nUUID=1 / ext4 defaults 0 1\n[... 12 of 14 lines left out: the first 1 and the last 1 are here ...]\nx\n",
            &[],
            &[],
        ),
        (
            "only the command's own words",
            "$ cat /etc/cni/net.d/10-flannel.conflist 2>/dev/null || echo \"No CNI configs found\"\nNo CNI configs found\n",
            &[],
            &[],
        ),
        (
            "a comment that looks like a prompt",
            "root@w1:~# cat /etc/fstab\n# df -h\nUUID=1 / ext4 defaults 0 1\n/dev/vg/swap none swap sw 0 0\n",
            &["file /etc/fstab"],
            &[],
        ),
    ]);
    let segment = cut("root@w1:~# cat /etc/resolv.conf\nnameserver 10.0.0.1\n").remove(0);
    assert_eq!((segment.first_line, segment.verbatim, segment.host.as_deref()), (2, true, Some("w1")));
}

#[test]
fn directories() {
    let flannel = r#"{"name": "cbr0", "cniVersion": "0.3.1", "plugins": [{"type": "flannel"}]}"#;
    let list = "total 12\ndrwxr-xr-x 2 root root 4096 Nov 15 18:44 .\ndrwxr-xr-x 3 root root 4096 Nov 15 18:44 ..\n-rw-r--r-- 1 root root 74 Nov 15 18:44 10-flannel.conflist\n";
    table(&[
        (
            "nothing in it",
            "# ls -la /etc/cni/net.d/\ntotal 8\ndrwxr-xr-x 2 root root 4096 Nov 15 18:44 .\ndrwxr-xr-x 3 root root 4096 Nov 15 18:44 ..\n",
            &["dir /etc/cni/net.d", "dir /etc/cni"],
            &[("cni.directory", Pass), ("cni.config", Pass)],
        ),
        (
            "not there",
            "root@w1:~# ls -la /etc/cni/net.d\nls: cannot access '/etc/cni/net.d': No such file or directory\n",
            &["dir /etc/cni/net.d"],
            &[("cni.directory", Warn), ("cni.config", Pass)],
        ),
        (
            "not for this user",
            "me@w1:~$ ls -la /etc/cni/net.d\nls: cannot open directory '/etc/cni/net.d': Permission denied\n",
            &["dir /etc/cni/net.d"],
            &[("cni.config", Unknown)],
        ),
        (
            "several",
            &format!(
                "root@w1:~# ls -la /etc/cni/net.d /etc/kubernetes\n/etc/cni/net.d:\n{list}\n/etc/kubernetes:\ntotal 8\ndrwxr-xr-x 2 root root 4096 Nov 15 18:44 .\ndrwxr-xr-x 2 root root 4096 Nov 15 18:44 manifests\n"
            ),
            &["dir /etc/cni/net.d", "dir /etc/kubernetes", "file /etc/kubernetes/kubelet.conf"],
            &[("cni.config", Unknown)],
        ),
        (
            "a list and its only file",
            &format!("root@w1:~# ls -la /etc/cni/net.d\n{list}root@w1:~# cat /etc/cni/net.d/*\n{flannel}\n"),
            &["file /etc/cni/net.d/10-flannel.conflist"],
            &[("cni.config", Pass)],
        ),
        (
            "the file first, by its look",
            &format!("{flannel}\n/etc/cni/net.d:\n{list}"),
            &["file /etc/cni/net.d/10-flannel.conflist"],
            &[("cni.config", Pass)],
        ),
        (
            "several files, told apart by their sizes",
            &format!(
                "root@w1:~# ls -la /etc/cni/net.d\n{}root@w1:~# cat /etc/cni/net.d/*\nnot json\n{flannel}\n",
                list.replace("total 12\n", "total 16\n-rw-r--r-- 1 root root 9 Nov 15 18:44 00-bad.conflist\n")
            ),
            &["file /etc/cni/net.d/00-bad.conflist", "file /etc/cni/net.d/10-flannel.conflist"],
            &[("cni.config", Fail)],
        ),
        ("a file whose name nothing tells", flannel, &[], &[]),
        (
            "as find and echo print them",
            &format!("File: /etc/cni/net.d/10-flannel.conflist\n{flannel}\n\n3. containerd CNI Status:\n"),
            &["file /etc/cni/net.d/10-flannel.conflist"],
            &[],
        ),
    ]);
    let plugins = format!(
        "/etc/cni/net.d:\n{list}\n{flannel}\nroot@w1:~# ls -la /opt/cni/bin\ntotal 8\n\
         -rwxr-xr-x 1 root root 2274880 Nov 15 19:27 loopback\n"
    );
    assert_eq!(judge(&plugins, "cni.plugins").outcome, Fail, "what is in no list is missing");
    let left = "# ls -la /etc/kubernetes\ntotal 4\n-rw------- 1 root root 1968 Nov 15 18:44 bootstrap-kubelet.conf\n";
    assert_eq!(judge(left, "stale.bootstrap-kubeconfig").outcome, Fail);
    let facts = known("# ls -la /etc/kubernetes\ntotal 4\n-rw------- 1 root root 1968 Nov 15 18:44 kubelet.conf\n");
    assert_eq!(facts.has_kubelet_conf(), Ok(true), "a list tells that it is there");
    let facts = known("ls: cannot access '/etc/kubernetes': No such file or directory\n");
    assert_eq!(facts.has_kubelet_conf(), Ok(false), "nothing is below what is not there");
}

#[test]
fn the_runtime() {
    let refused = "FATA[0000] validate service connection: validate CRI v1 runtime API for endpoint \"unix:///run/containerd/containerd.sock\": rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused\"\n";
    let unknown = "time=\"2026-11-15T18:44:33Z\" level=fatal msg=\"validate service connection: rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService\"\n";
    table(&[
        ("by its look", CRICTL, &["cri status"], &[("runtime.ready", Pass), ("runtime.snapshotter", Pass)]),
        (
            "under a prompt, with a warning above",
            &format!(
                "root@w1:~# crictl info\nWARN[0000] runtime connect using default endpoints: [unix:///run/containerd/containerd.sock]\n{CRICTL}root@w1:~# \n"
            ),
            &["cri status"],
            &[("runtime.ready", Pass)],
        ),
        ("refused", &format!("root@w1:~# crictl info\n{refused}"), &["cri status"], &[("runtime.ready", Unknown)]),
        (
            "without its plugin",
            &format!("root@w1:~# crictl info\n{unknown}"),
            &["cri status"],
            &[("runtime.cri-plugin", Fail)],
        ),
        ("not installed", "root@w1:~# crictl info\nbash: crictl: command not found\n", &[], &[]),
        ("half of it", &format!("root@w1:~# crictl info\n{}\nroot@w1:~# \n", CRICTL.get(..300).unwrap()), &[], &[]),
        (
            "a Node is not it",
            r#"{"apiVersion": "v1", "kind": "Node", "status": {"conditions": [{"type": "Ready", "status": "True"}]}}"#,
            &[],
            &[],
        ),
        (
            "versions",
            "Kubernetes v1.34.4\ncontainerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\nkubeadm version: &version.Info{Major:\"1\", Minor:\"34\", GitVersion:\"v1.34.4\"}\n",
            &["query kubelet --version", "query containerd --version", "query kubeadm version -o short"],
            &[("kubelet.installed", Pass), ("kubeadm.same-minor", Pass)],
        ),
        (
            "crictl's word on containerd",
            "$ crictl version\nVersion:  0.1.0\nRuntimeName:  containerd\nRuntimeVersion:  1.6.20~ds1\nRuntimeApiVersion:  v1\n",
            &["query containerd --version"],
            &[],
        ),
        (
            "no kubelet",
            "root@w1:~# kubelet --version\n-bash: kubelet: command not found\n",
            &["query kubelet --version"],
            &[("kubelet.installed", Fail)],
        ),
    ]);
    assert_eq!(
        known(&format!("# crictl info\n{refused}")).cri("status").unwrap_err().why,
        Why::Broken("connection refused".into())
    );
}

#[test]
fn filesystems() {
    let inodes = "root@w1:~# df -i\nFilesystem                    Inodes  IUsed    IFree IUse% Mounted on\n/dev/mapper/debian--vg-root 30375936 100000 30275936    1% /\n";
    table(&[
        (
            "df by its look",
            DF,
            &["query df /", "query df /var/lib/kubelet", "query df /var/lib/containerd", "query df /etc/kubernetes"],
            &[("filesystem.space", Pass), ("filesystem.inodes", Unknown)],
        ),
        (
            "both halves",
            &format!("root@w1:~# df -h\n{DF}{inodes}"),
            &["query df /"],
            &[("filesystem.space", Pass), ("filesystem.inodes", Pass)],
        ),
        (
            "of one path",
            "root@w1:~# df -h /var/lib/containerd\nFilesystem Size Used Avail Use% Mounted on\n/dev/vda 252G 66G 186G 27% /\n",
            &["query df /var/lib/containerd"],
            &[("filesystem.space", Unknown)],
        ),
        ("a part", "root@w1:~# df -h | grep vda\n/dev/vda 252G 66G 26G 72% /\n", &[], &[]),
        (
            "full",
            "Filesystem Size Used Avail Use% Mounted on\n/dev/vda 20G 20G 100M 100% /\n",
            &["query df /"],
            &[("filesystem.space", Fail)],
        ),
        (
            "mountinfo by its look",
            MOUNTINFO,
            &["file /proc/self/mountinfo"],
            &[("filesystem.read-only", Pass), ("filesystem.overlay", Pass)],
        ),
        (
            "read-only",
            &MOUNTINFO.replace("rw,errors", "ro,errors"),
            &["file /proc/self/mountinfo"],
            &[("filesystem.read-only", Fail)],
        ),
        (
            "mount",
            "root@w1:~# mount\n/dev/vda on / type ext4 (rw,relatime,errors=remount-ro)\n/dev/vdb on /var/lib/kubelet type xfs (ro,relatime)\n",
            &["file /proc/self/mountinfo"],
            &[("filesystem.read-only", Fail)],
        ),
        (
            "/proc/mounts",
            "$ cat /proc/mounts\n/dev/vda / ext4 rw,relatime 0 0\n",
            &["file /proc/self/mountinfo"],
            &[("filesystem.read-only", Pass)],
        ),
        (
            "findmnt",
            "$ findmnt\nTARGET SOURCE FSTYPE OPTIONS\n/      /dev/vda ext4 rw,relatime\n├─/proc proc proc rw\n",
            &["file /proc/self/mountinfo"],
            &[("filesystem.read-only", Pass)],
        ),
    ]);
    // df shows a device once; mountinfo says that it is mounted here, too.
    let bound = format!(
        "{MOUNTINFO}80 26 8:17 /k /var/lib/kubelet rw,relatime - ext4 /dev/sdb1 rw\n{DF}/dev/sdb1 10G 10G 10M 100% /srv/media\n"
    );
    assert_eq!(judge(&bound, "filesystem.space").outcome, Fail);
    let nfs = known(MOUNTINFO).mounts().expect("known");
    assert!(nfs.0.iter().any(|mount| mount.kind == "nfs4" && mount.point == "/mnt/media"));
}

#[test]
fn the_machine() {
    table(&[
        (
            "no swap",
            "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
            &["file /proc/swaps"],
            &[("machine.swap", Pass)],
        ),
        (
            "swap",
            "root@w1:~# swapon -s\nFilename Type Size Used Priority\n/dev/vda5 partition 1000 0 -2\n",
            &["file /proc/swaps"],
            &[("machine.swap", Fail)],
        ),
        (
            "swapon says nothing",
            "root@w1:~# swapon --show\nroot@w1:~# date\n",
            &["file /proc/swaps"],
            &[("machine.swap", Pass)],
        ),
        ("swapon's errors thrown away", "root@w1:~# swapon --show 2>/dev/null\nroot@w1:~# date\n", &[], &[]),
        (
            "free",
            "               total        used        free      shared  buff/cache   available\nMem:            23Gi       3.9Gi       1.2Gi        17Mi        18Gi        19Gi\nSwap:          2.0Gi          0B       2.0Gi\n",
            &["file /proc/meminfo", "file /proc/swaps"],
            &[("machine.memory", Pass), ("machine.swap", Fail)],
        ),
        (
            "free without units",
            "       total        used        free      shared  buff/cache   available\nMem:    7859         1 1 1 1 1\n",
            &[],
            &[],
        ),
        (
            "free -m",
            "$ free -m\n       total        used        free      shared  buff/cache   available\nMem:    859         1 1 1 1 1\nSwap: 0 0 0\n",
            &["file /proc/meminfo"],
            &[("machine.memory", Warn), ("machine.swap", Pass)],
        ),
        (
            "sysctl",
            "root@w1:~# sysctl net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables\nnet.ipv4.ip_forward = 0\nsysctl: cannot stat /proc/sys/net/bridge/bridge-nf-call-iptables: No such file or directory\n",
            &["file /proc/sys/net/ipv4/ip_forward", "file /proc/sys/net/bridge/bridge-nf-call-iptables"],
            &[("kernel.ip-forward", Fail)],
        ),
        (
            "sysctl by its look",
            "net.ipv4.ip_forward = 1\n",
            &["file /proc/sys/net/ipv4/ip_forward"],
            &[("kernel.ip-forward", Pass)],
        ),
        (
            "what a file will set is not what is",
            "root@w1:~# cat /etc/sysctl.d/k8s.conf\nnet.ipv4.ip_forward = 1\n",
            &["file /etc/sysctl.d/k8s.conf"],
            &[("kernel.ip-forward", Unknown)],
        ),
        (
            "what is written into a file is not what is",
            "root@w1:~# cat <<EOF | sudo tee /etc/sysctl.d/k8s.conf\nnet.ipv4.ip_forward = 1\nEOF\nnet.ipv4.ip_forward = 1\n",
            &[],
            &[("kernel.ip-forward", Unknown)],
        ),
        (
            "timedatectl",
            "               Local time: Sun 2026-11-15 18:44:40 UTC\n           Universal time: Sun 2026-11-15 18:44:40 UTC\nSystem clock synchronized: no\n              NTP service: n/a\n          RTC in local TZ: no\n",
            &["query timedatectl show"],
            &[("time.synchronised", Warn)],
        ),
        (
            "hostnamectl",
            " Static hostname: w1\n       Icon name: computer-vm\n      Machine ID: df7e46c8149c43cca42e522e5a88c1f6\nOperating System: Debian GNU/Linux 12 (bookworm)\n          Kernel: Linux 6.1.0-28-amd64\n",
            &["file /proc/sys/kernel/hostname", "file /etc/machine-id", "file /proc/sys/kernel/osrelease"],
            &[("machine.hostname", Pass), ("kernel.version", Pass)],
        ),
        (
            "uname",
            "$ uname -a\nLinux w1 6.1.0-28-amd64 #1 SMP x86_64 GNU/Linux\n",
            &["file /proc/sys/kernel/osrelease"],
            &[("kernel.version", Pass)],
        ),
        (
            "lsmod",
            "$ lsmod | grep br_netfilter\nbr_netfilter 32768 0\nbridge 311296 1 br_netfilter\n",
            &["file /proc/modules"],
            &[],
        ),
    ]);
}

#[test]
fn the_network() {
    table(&[
        (
            "ip route",
            "root@w1:~# ip route\ndefault via 10.77.0.1 dev host0\n10.77.0.0/24 dev host0 proto kernel scope link src 10.77.0.21\n",
            &["query ip -j route show table all"],
            &[("network.default-route", Pass)],
        ),
        (
            "no way out",
            "root@w1:~# ip route\n10.77.0.0/24 dev host0 proto kernel scope link src 10.77.0.21\n",
            &["query ip -j route show table all"],
            &[("network.default-route", Fail)],
        ),
        (
            "by its look",
            "default via 10.77.0.1 dev host0\n10.77.0.0/24 dev host0 proto kernel scope link src 10.77.0.21\n",
            &["query ip -j route show table all"],
            &[],
        ),
        (
            "links without their MTU",
            "lo               UNKNOWN        127.0.0.1/8 ::1/128\nhost0@if5        UP             10.77.0.21/24\ndefault via 10.77.0.1 dev host0\n",
            &["query ip -j -d addr show"],
            &[("network.mtu", Unknown)],
        ),
        (
            "links with it",
            "$ ip a\n1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default\n    inet 127.0.0.1/8 scope host lo\n2: host0@if5: <BROADCAST,UP> mtu 900 qdisc noqueue state UP\n    inet 10.77.0.21/24 scope global host0\n$ ip r\ndefault via 10.77.0.1 dev host0\n",
            &["query ip -j -d addr show"],
            &[("network.mtu", Warn)],
        ),
        (
            "only TCP",
            "root@w1:~# ss -ltnp\nState  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess\nLISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:((\"sshd\",pid=73,fd=3))\n",
            &["query ss -H -lntup"],
            &[("network.ports", Unknown)],
        ),
        (
            "somebody has the kubelet's port",
            "State  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess\nLISTEN 0 128 *:10250 *:* users:((\"nginx\",pid=73,fd=3))\ncat: /etc/kubernetes/kubelet.conf: No such file or directory\n",
            &["query ss -H -lntup"],
            &[("network.ports", Fail)],
        ),
        (
            "both",
            "$ ss -tulpn\nNetid State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\nudp UNCONN 0 0 127.0.0.1:323 0.0.0.0:*\ntcp LISTEN 0 128 0.0.0.0:22 0.0.0.0:*\n",
            &["query ss -H -lntup"],
            &[("network.ports", Pass)],
        ),
        (
            "netstat",
            "$ netstat -tulpn\nActive Internet connections (only servers)\nProto Recv-Q Send-Q Local Address Foreign Address State PID/Program name\ntcp6 0 0 :::10250 :::* LISTEN 73/nginx\ncat: /etc/kubernetes/kubelet.conf: No such file or directory\n",
            &["query ss -H -lntup"],
            &[("network.ports", Fail)],
        ),
        ("through a filter", "$ ss -tlnp | grep 10248\n", &[], &[]),
    ]);
}

/// The worker of the first seed, before its join: everything but the CNI configuration is there, and that is normal.
#[test]
fn the_seeds_own_machine() {
    let paste = format!(
        "root@storagenodeT3500:~# kubeadm join 192.168.4.63:6443\n[preflight] Running pre-flight checks\n\
         root@storagenodeT3500:~# ls -la /etc/cni/net.d/\nls: cannot access '/etc/cni/net.d/': No such file or directory\n\
         root@storagenodeT3500:~# df -h\n{DF}root@storagenodeT3500:~# cat /proc/self/mountinfo\n{MOUNTINFO}\
         root@storagenodeT3500:~# crictl info\n{CRICTL}root@storagenodeT3500:~# containerd --version\n\
         containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u1\n"
    );
    for (id, outcome) in [
        ("filesystem.space", Pass),
        ("filesystem.read-only", Pass),
        ("filesystem.overlay", Pass),
        ("runtime.ready", Pass),
        ("runtime.cri-plugin", Pass),
        ("cni.config", Pass),
        ("cni.network-ready", Pass),
        ("kubelet.standalone", Unknown),
    ] {
        let verdict = judge(&paste, id);
        assert_eq!(verdict.outcome, outcome, "{id}: {}", verdict.says);
    }
    assert!(judge(&paste, "cni.config").says.contains("normal before a join"));
    let with_kubelet = format!("{paste}root@storagenodeT3500:~# systemctl status kubelet\n{ALONE}");
    let verdict = judge(&with_kubelet, "kubelet.standalone");
    assert_eq!(verdict.outcome, Fail);
    let line = verdict.evidence[0].line.expect("cited");
    let segment = cut(&with_kubelet).into_iter().find(|it| it.key == "query systemctl status kubelet").expect("there");
    assert!(segment.verbatim);
    let cited = with_kubelet.lines().nth(place(segment.first_line) + place(line.into()) - 2);
    assert_eq!(cited.map(str::trim), Some("└─369269 /usr/bin/kubelet"), "the evidence is a line of the paste");
}

/// Every fact of the example machine that is what a command prints, printed: cut again, it is the same.
#[test]
fn what_a_machine_shows_is_what_is_read_back() {
    let worker = example::worker();
    let printed = worker.iter().filter_map(|(key, capture)| {
        let text = capture.as_ref().ok().map(|it| it.text.trim_end()).filter(|text| !text.is_empty())?;
        let command = match key.split_once(' ')? {
            ("file", "/proc/self/mountinfo" | "/proc/swaps") => return None,
            ("file", path) => format!("cat {path}"),
            (
                "query",
                "systemctl cat kubelet"
                | "systemctl cat containerd"
                | "containerd config dump"
                | "timedatectl show"
                | "kubelet --version"
                | "containerd --version",
            ) => key.strip_prefix("query ")?.to_owned(),
            ("cri", "status") => "crictl info".to_owned(),
            _ => return None,
        };
        Some((key.to_owned(), command, text.to_owned()))
    });
    let printed: Vec<(String, String, String)> = printed.collect();
    assert!(printed.len() > 30);
    for manner in ["root@w1:~# {}", "=== {} ===", "===== [w1] {} =====", "+ {}"] {
        let paste: String =
            printed.iter().map(|(_, command, text)| format!("{}\n{text}\n", manner.replace("{}", command))).collect();
        let found = cut(&paste);
        for (key, _, text) in &printed {
            let segment =
                found.iter().find(|segment| segment.key == *key).unwrap_or_else(|| panic!("{manner}: no {key}"));
            let capture = segment.capture.as_ref().expect("seen");
            assert_eq!(capture.text.trim_end(), text, "{manner}: {key}");
            assert!(segment.verbatim, "{manner}: {key}");
            let first = paste.lines().nth(place(segment.first_line) - 1);
            assert_eq!(first, text.lines().next(), "{manner}: {key}");
        }
    }
}

/// Ten sections of one machine, in each manner, by prompts that name it.
#[test]
fn a_whole_paste() {
    let worker = example::worker();
    let text = |key: &str| worker.get(key).map(|capture| capture.text.clone()).unwrap_or_default();
    let sections = [
        (
            "kubeadm join 10.77.0.11:6443 --token abcdef.0123456789abcdef",
            "[preflight] Running pre-flight checks\nerror: exit status 1\n".to_owned(),
        ),
        ("systemctl status kubelet --no-pager -l", ALONE.to_owned()),
        ("systemctl cat kubelet --no-pager", text("query systemctl cat kubelet")),
        (
            "journalctl -u kubelet --no-pager",
            "Nov 15 18:44:33 w1 kubelet[812]: cat: /etc/hosts: No such file or directory\n".repeat(50),
        ),
        ("crictl info", text("cri status")),
        ("cat /etc/containerd/config.toml", text("file /etc/containerd/config.toml")),
        ("df -h", DF.to_owned()),
        ("cat /proc/self/mountinfo", text("file /proc/self/mountinfo")),
        ("ip route", "default via 10.77.0.1 dev host0\n".to_owned()),
        ("cat /proc/swaps", text("file /proc/swaps")),
        (
            "kubectl describe node w1",
            "Name:               w1\nRoles:              <none>\nnet.ipv4.ip_forward = 1\n".to_owned(),
        ),
    ];
    for manner in ["root@w1:~# {}\n", "\n=== {} ===\n"] {
        let paste: String =
            sections.iter().map(|(command, said)| format!("{}{said}", manner.replace("{}", command))).collect();
        let found = keys(&paste);
        for key in [
            "query systemctl status kubelet",
            "query systemctl cat kubelet",
            "cri status",
            "file /etc/containerd/config.toml",
            "query df /",
            "file /proc/self/mountinfo",
            "query ip -j route show table all",
            "file /proc/swaps",
        ] {
            assert!(found.iter().any(|found| found == key), "{manner}: no {key} in {found:?}");
        }
        assert!(!found.iter().any(|key| key.contains("ip_forward") || key.contains("/etc/hosts")), "{found:?}");
        assert_eq!(judge(&paste, "runtime.ready").outcome, Pass);
        assert_eq!(judge(&paste, "machine.swap").outcome, Pass);
    }
}

#[test]
fn secrets_do_not_pass() {
    let paste =
        "root@w1:~# cat /etc/kubernetes/bootstrap-kubelet.conf\nusers:\n- user:\n    token: abcdef.0123456789abcdef\n";
    let text = cut(paste).remove(0).capture.expect("seen").text;
    assert!(text.contains("<redacted:") && !text.contains("0123456789abcdef"), "{text}");
    let key = "--- /etc/x.pem ---\n-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nMIIEowIBAAKCAQEB\n-----END RSA PRIVATE KEY-----\nend\n";
    let segment = cut(key).remove(0);
    assert!(!segment.capture.expect("seen").text.contains("MIIE"));
}

#[test]
fn two_machines_are_told_apart() {
    let paste =
        "root@w1:~# cat /etc/resolv.conf\nnameserver 10.0.0.1\nroot@cp1:~# cat /etc/resolv.conf\nnameserver 10.0.0.2\n";
    let hosts: Vec<Option<String>> = cut(paste).into_iter().map(|segment| segment.host).collect();
    assert_eq!(hosts, [Some("w1".to_owned()), Some("cp1".to_owned())]);
}

#[test]
fn what_is_told_twice_counts_as_it_was_told_last() {
    let before = "cat: /etc/kubernetes/kubelet.conf: No such file or directory\n";
    let after = "$ cat /etc/kubernetes/kubelet.conf\napiVersion: v1\nkind: Config\n";
    assert_eq!(known(&format!("{before}{after}")).has_kubelet_conf(), Ok(true));
    assert_eq!(known(&format!("{after}{before}")).has_kubelet_conf(), Ok(false));
    let denied = "cat: /etc/kubernetes/kubelet.conf: Permission denied\n";
    assert_eq!(known(&format!("{after}{denied}")).has_kubelet_conf(), Ok(true), "who may not look has seen nothing");
}

#[test]
fn ansibles_list_of_lines_is_read() {
    let lines: String = DF.lines().map(|line| format!("        {},\n", serde_json::to_string(line).unwrap())).collect();
    let paste = format!("ok: [w1] => {{\n    \"df.stdout_lines\": [],\n    \"stdout_lines\": [\n{lines}    ]\n}}\n");
    assert_eq!(judge(&paste, "filesystem.space").outcome, Pass);
}

#[test]
fn a_journal_of_gigabytes_is_not_looked_at_for_ever() {
    let mut segmenter = Segmenter::new();
    let line = [b'x'; 1000];
    for number in 0..20_000 {
        segmenter.push(number, &line);
    }
    segmenter.push(20_001, b"net.ipv4.ip_forward = 1");
    assert!(segmenter.finish().is_empty());
}

/// Pieces that begin, go on with, or end something.
fn piece() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "root@w1:~# cat /etc/hosts",
        "root@w1:~# ls -la /etc/cni/net.d",
        "# df -h",
        "=== systemctl status kubelet ===",
        "{",
        "}",
        "[",
        "  \"cniVersion\": \"0.3.1\",",
        "  \"plugins\": []",
        "Filesystem Size Used Avail Use% Mounted on",
        "/dev/vda 1G 1G 1G 1% /",
        "26 1 254:0 / / rw - ext4 /dev/vda rw",
        "● kubelet.service - x",
        "   Loaded: loaded (/x; enabled)",
        "     CGroup: /x",
        " └─1 /usr/bin/kubelet",
        "total 4",
        "-rw-r--r-- 1 root root 1 Nov 15 18:44 x",
        "/etc/cni/net.d:",
        "cat: /etc/hosts: No such file or directory",
        "# /lib/systemd/system/kubelet.service",
        "[Service]",
        "ExecStart=/usr/bin/kubelet \\\\",
        "default via 10.0.0.1 dev eth0",
        "nexthop via 10.0.0.1 dev eth0",
        "lo UNKNOWN 127.0.0.1/8",
        "1: lo: <LOOPBACK> mtu 1",
        "    inet 127.0.0.1/8",
        "Swap: 0B",
        "Mem: 1.5Gi",
        "total used free available",
        "net.ipv4.ip_forward = 1",
        "Local time: x",
        "System clock synchronized: yes",
        "\"stdout_lines\": [",
        "\"x\",",
        "]",
        "==========",
        "cat /etc/cni/net.d/*",
        "root@w1:~# cat /etc/cni/net.d/*",
        "-----BEGIN RSA PRIVATE KEY-----",
        "...",
        "```",
        "",
        "root@w1:~# crictl info",
        "FATA[0000] rpc error: connection refused",
        "tcp6 0 0 :::10250 :::* LISTEN 1/x",
        "Active Internet connections (only servers)",
    ];
    prop_oneof![
        prop::sample::select(KNOWN).prop_map(str::to_owned),
        "\\PC{0,40}",
        "[ \\-=#*:/a-z0-9.%\"{}\\[\\]]{0,30}"
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_lines_are_cut_and_judged(pieces in prop::collection::vec(piece(), 0..40)) {
        let paste = pieces.join("\n");
        let segments = cut(&paste);
        let kept: usize = segments.iter().filter_map(|it| it.capture.as_ref().ok()).map(|it| it.text.len() + it.errors.len()).sum();
        // A row of df serves four places; a heading is added to some.
        prop_assert!(kept <= 6 * paste.len() + 100 * segments.len(), "{kept} of {}", paste.len());
        for segment in &segments {
            prop_assert!(place(segment.first_line) <= pieces.len().max(1) && segment.first_line > 0);
        }
        let mut known = facts();
        for segment in segments {
            known.insert(segment.key, segment.capture);
        }
        prop_assert_eq!(crate::check::run(&known, &CheckPolicy::default()).len(), CHECKS.len());
    }

    #[test]
    fn any_bytes_are_cut(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20)) {
        let mut segmenter = Segmenter::new();
        for (number, line) in (1u64..).zip(&lines) {
            segmenter.push(number, line);
        }
        segmenter.finish();
    }
}
