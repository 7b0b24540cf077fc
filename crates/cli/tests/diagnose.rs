//! `carrick diagnose` as a person runs it: the case it was made for, and what is no capture at all.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn carrick(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_carrick")).args(args).current_dir(dir).output().unwrap()
}

/// The report of a paste, which ends with this exit status.
#[track_caller]
fn diagnosed(text: &str, exit: i32) -> Value {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("paste.txt"), text).unwrap();
    let done = carrick(&["diagnose", "paste.txt", "-o", "json"], dir.path());
    assert_eq!(done.status.code(), Some(exit), "{done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

fn subsystem(report: &Value, name: &str) -> String {
    let all = report["subsystems"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap()["verdict"].as_str().unwrap().to_owned()
}

/// A worker before its join: nothing wrong with it but that the pod network is not there yet.
const BEFORE_A_JOIN: &str = r#"root@storagenodet3500:~# cat /proc/self/mountinfo
26 1 254:0 / / rw,relatime shared:1 - ext4 /dev/mapper/debian--vg-root rw,errors=remount-ro
311 26 0:44 / /mnt/media rw,relatime shared:140 - nfs4 192.168.4.61:/srv/media rw,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp
root@storagenodet3500:~# df -h
Filesystem                   Size  Used Avail Use% Mounted on
/dev/mapper/debian--vg-root  456G  6.8G  426G   2% /
192.168.4.61:/srv/media      916G  100G  770G  12% /mnt/media
root@storagenodet3500:~# systemctl status containerd --no-pager
● containerd.service - containerd container runtime
     Loaded: loaded (/lib/systemd/system/containerd.service; enabled; preset: enabled)
     Active: active (running) since Sun 2026-11-15 20:00:00 UTC; 10min ago
   Main PID: 712 (containerd)
root@storagenodet3500:~# containerd --version
containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+b1
root@storagenodet3500:~# crictl info
{
  "status": {
    "conditions": [
      {"type": "RuntimeReady", "status": true, "reason": "", "message": ""},
      {"type": "NetworkReady", "status": false, "reason": "NetworkPluginNotReady", "message": "Network plugin returns error: cni plugin not initialized"}
    ]
  },
  "cniconfig": {"PluginDirs": ["/opt/cni/bin"], "PluginConfDir": "/etc/cni/net.d", "PluginMaxConfNum": 1, "Networks": []},
  "config": {"containerd": {"snapshotter": "overlayfs"}, "cni": {"binDir": "/opt/cni/bin", "confDir": "/etc/cni/net.d"}},
  "lastCNILoadStatus": "cni config load failed: no network config found in /etc/cni/net.d: cni plugin not initialized: failed to load cni config"
}
root@storagenodet3500:~# ls -la /etc/cni/net.d
total 8
drwxr-xr-x 2 root root 4096 Nov 15 19:00 .
drwxr-xr-x 3 root root 4096 Nov 15 19:00 ..
"#;

#[test]
fn a_missing_pod_network_is_expected_before_a_join() {
    let report = diagnosed(BEFORE_A_JOIN, 4);
    assert_eq!(report["causes"], Value::Array(vec![]), "{}", report["causes"]);
    assert_eq!(report["phase"], Value::Null, "nothing tells how far the machine is");
    for name in ["filesystem", "runtime"] {
        assert_eq!(subsystem(&report, name), "healthy", "{name}: {}", report["subsystems"]);
    }
    assert!(["expected", "healthy"].contains(&subsystem(&report, "cni").as_str()), "{}", report["subsystems"]);
    assert!(!report["next"].as_array().unwrap().is_empty(), "it asks for nothing more");
}

#[test]
fn a_bare_kubelet_without_its_drop_in_is_the_root() {
    let alone = "root@storagenodet3500:~# systemctl status kubelet --no-pager\n\
        ● kubelet.service - kubelet: The Kubernetes Node Agent\n     \
        Loaded: loaded (/lib/systemd/system/kubelet.service; enabled; preset: enabled)\n     \
        Active: active (running) since Sun 2026-11-15 20:05:00 UTC; 5min ago\n   \
        Main PID: 369269 (kubelet)\n     \
        CGroup: /system.slice/kubelet.service\n             \
        └─369269 /usr/bin/kubelet\n";
    let report = diagnosed(&format!("{BEFORE_A_JOIN}{alone}"), 3);
    assert_eq!(report["causes"][0]["id"], "kubelet.standalone", "{}", report["causes"]);
    assert_eq!(subsystem(&report, "kubelet"), "broken");
    assert_eq!(subsystem(&report, "filesystem"), "healthy");
}

/// What people and scripts say about a failure is not the failure.
#[test]
fn conclusions_and_scripts_in_a_paste_are_no_evidence() {
    let told = "## Executive Summary\n\n**Root Cause**: cni plugin not initialized, Unauthorized\n\
        - Error: \"cni config load failed: no network config found in /etc/cni/net.d: cni plugin not initialized\"\n\
        ✅ kubelet is running, join succeeded\n\
        if ! crictl info | grep -q \"cni plugin not initialized\"; then\n  echo \"timed out waiting for the condition\"\nfi\n";
    let report = diagnosed(told, 4);
    assert_eq!(report["causes"], Value::Array(vec![]));
    assert_eq!(report["verdict"], "unknown");
}

#[test]
fn secrets_of_the_input_are_in_no_output() {
    let token = format!("{}.{}", "abcdef", "0123456789abcdef");
    let text = format!(
        "[preflight] Running pre-flight checks\n\
         error: could not find a JWS signature in the cluster-info ConfigMap for token ID \"abcdef\" (--token {token})\n"
    );
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("paste.txt"), text).unwrap();
    for output in ["text", "json", "html"] {
        let done = carrick(&["diagnose", "paste.txt", "-v", "-o", output], dir.path());
        let out = String::from_utf8(done.stdout).unwrap();
        assert!(out.contains("JWS signature"), "{output}");
        assert!(!out.contains("0123456789abcdef"), "{output}: {out}");
    }
}

#[test]
fn what_is_no_capture_is_said_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("empty"), "").unwrap();
    fs::write(path("binary"), [0x7f, b'E', b'L', b'F', 0, 0, 0, 1]).unwrap();
    fs::write(path("cut.tar.gz"), [0x1f, 0x8b, 8, 0, 0, 0]).unwrap();
    fs::create_dir(path("nothing")).unwrap();
    for (input, says) in [
        ("empty", "empty is empty: nothing to diagnose"),
        ("binary", "binary is no text"),
        ("cut.tar.gz", "cut.tar.gz: "),
        ("not-there", "not-there: No such file or directory"),
        ("nothing", "nothing: no files in it"),
    ] {
        let done = carrick(&["diagnose", input], dir.path());
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{input}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{input}: {said}");
        assert!(done.stdout.is_empty());
    }
}

#[test]
fn a_directory_of_mixed_files_is_read_and_what_is_no_text_is_told() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.log"), "[preflight] Running pre-flight checks\n").unwrap();
    fs::write(dir.path().join("b.bin"), [0; 100]).unwrap();
    fs::write(
        dir.path().join("c.log"),
        b"\xff\xfe\nerror: could not find a JWS signature in the cluster-info ConfigMap for token ID \"abcdef\"\n",
    )
    .unwrap();
    let done = carrick(&["diagnose", ".", "-o", "json"], dir.path());
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("left out: ./b.bin is no text"), "{said}");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["causes"][0]["id"], "api.token");
    assert_eq!(report["causes"][0]["evidence"][0]["line"], 2);
}

/// Hundreds of megabytes without a line's end come in through a pipe; memory is bounded, and what is at the end is found.
#[test]
fn a_line_without_end_is_read_in_bounded_memory() {
    const MEGABYTES: usize = 200;
    let mut child = Command::new(env!("CARGO_BIN_EXE_carrick"))
        .args(["diagnose", "-", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let megabyte = vec![b'x'; 1 << 20];
    for _ in 0..MEGABYTES {
        stdin.write_all(&megabyte).unwrap();
    }
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB");
    assert!(peak.trim().parse::<u64>().unwrap() < 64 << 10, "{peak} kB");
    stdin
        .write_all(b" [preflight] Running pre-flight checks\nerror: could not find a JWS signature in the cluster-info ConfigMap for token ID \"abcdef\"\n")
        .unwrap();
    drop(stdin);
    let done = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["causes"][0]["id"], "api.token");
    assert_eq!(report["causes"][0]["evidence"][0]["line"], 2);
}

#[test]
fn an_operators_own_signature_is_used_and_a_bad_one_refused() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own");
    fs::create_dir(&own).unwrap();
    let good = r#"
id = "site.badge-reader"
title = "the badge reader's agent holds the port"
subsystem = "network"
phase = "before"
severity = "fatal"
class = "configuration"
role = "root"
stops = "node"
certainty = "certain"
literals = ["badge-agent: bound"]
regex = 'badge-agent: bound (?P<port>\d+)'
cause = "The badge reader's agent listens on {port}."
remedy = ["systemctl disable --now badge-agent"]
[[hit]]
line = "badge-agent: bound 10250"
[[miss]]
line = "badge-agent: bound to nothing"
why = "no port"
"#;
    fs::write(own.join("badge.toml"), good).unwrap();
    fs::write(dir.path().join("log"), "badge-agent: bound 10250\n").unwrap();
    let done = carrick(&["diagnose", "log", "--signatures", "own", "-o", "json"], dir.path());
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["causes"][0]["why"], "The badge reader's agent listens on 10250.");

    for (bad, complaint) in [
        (good.replace("[[miss]]", "[[hit]]").replace("why = \"no port\"\n", ""), "there is no [[miss]] line"),
        (good.replace("class = \"configuration\"\n", ""), "there is no class: what does a join do about it?"),
        (good.replace("role = \"root\"\n", ""), "there is no role: root (it says why) or symptom (it says only that)"),
        (good.replace("stops = \"node\"\n", ""), "there is no stops: what does it stop on a node while it lasts?"),
        (
            good.replace("cause = ", "shows = \"network.ports\"\ncause = "),
            "says a class, and shows network.ports: the check's counts",
        ),
        (good.replace("\"fatal\"", "\"benign\""), "says a role, and is never a cause"),
        (good.replace("\"fatal\"", "\"benign\""), "says a stops, and is never a cause"),
    ] {
        fs::write(own.join("badge.toml"), bad).unwrap();
        let linted = carrick(&["diagnose", "--lint", "--signatures", "own"], dir.path());
        let said = String::from_utf8(linted.stdout).unwrap();
        assert_eq!(linted.status.code(), Some(3), "{complaint}: {said}");
        assert!(said.contains(&format!("site.badge-reader: {complaint}")), "{said}");
        assert_eq!(carrick(&["diagnose", "log", "--signatures", "own"], dir.path()).status.code(), Some(2));
    }
    fs::write(own.join("badge.toml"), good.replace("\"configuration\"", "\"sometimes\"")).unwrap();
    let refused = carrick(&["diagnose", "log", "--signatures", "own"], dir.path());
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("until-network"), "{said}");
}

const JOINED: &str = "[preflight] Running pre-flight checks\n\
    [kubelet-check] The kubelet is healthy after 501.7ms\n\
    This node has joined the cluster:\n\
    root@cp1:~# kubectl get nodes\n\
    NAME   STATUS   ROLES           AGE   VERSION\n\
    w1     Ready    <none>          20s   v1.34.4\n";

const NOT_SIGNED: &str = "[preflight] Running pre-flight checks\n\
    error: could not find a JWS signature in the cluster-info ConfigMap for token ID \"abcdef\"\n";

/// Exit codes are an API: nothing wrong, a cause, nothing to tell by, nobody there.
#[test]
fn ends_with_what_it_found() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text, exit, verdict) in
        [("joined", JOINED, 0, "pass"), ("failed", NOT_SIGNED, 3, "fail"), ("warned", "swap is on\n", 4, "unknown")]
    {
        fs::write(dir.path().join(name), text).unwrap();
        let done = carrick(&["diagnose", name, "-o", "json"], dir.path());
        let report: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!((done.status.code(), report["verdict"].as_str()), (Some(exit), Some(verdict)), "{name}: {report}");
    }
    // Port 1 of loopback: nobody listens there.
    let gone = carrick(&["diagnose", "-H", "root@127.0.0.1:1"], dir.path());
    assert_eq!(gone.status.code(), Some(7), "{gone:?}");
    assert!(gone.stdout.is_empty() && String::from_utf8_lossy(&gone.stderr).lines().count() == 1, "{gone:?}");
}

/// Two machines' journals in one paste: the one that is asked about is diagnosed, the other only mentioned.
#[test]
fn the_node_that_is_asked_about_is_the_one_that_is_diagnosed() {
    let line = |host: &str, says: &str| format!("Nov 15 20:05:00 {host} kubelet[1]: {says}\n");
    let swap = "E1115 20:05:00.000000 1 run.go:72] \"command failed\" err=\"failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false\"";
    let text = line("w1", swap) + &line("w2", "I1115 20:05:01.000000 1 server.go:1] \"Starting kubelet\"").repeat(3);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("paste.txt"), text).unwrap();
    for (node, cause, elsewhere) in [("w1", Some("machine.swap"), 0), ("w2", None, 1)] {
        let done = carrick(&["diagnose", "paste.txt", "--node", node, "-o", "json"], dir.path());
        let report: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(report["host"], node);
        assert_eq!(report["causes"][0]["id"].as_str(), cause, "{node}: {}", report["causes"]);
        assert_eq!(report["elsewhere"].as_array().unwrap().len(), elsewhere, "{node}: {}", report["elsewhere"]);
    }
}

#[test]
fn a_compressed_text_is_read_like_the_text() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("join.log"), NOT_SIGNED).unwrap();
    let packed = fs::File::create(dir.path().join("join.log.gz")).unwrap();
    let packing = Command::new("gzip").args(["-c", "join.log"]).current_dir(dir.path()).stdout(packed).status();
    assert!(packing.unwrap().success());
    let causes = |name: &str| {
        let done = carrick(&["diagnose", name, "-o", "json"], dir.path());
        let report: Value = serde_json::from_slice(&done.stdout).unwrap();
        report["causes"][0]["id"].as_str().map(str::to_owned)
    };
    assert_eq!(causes("join.log"), Some("api.token".to_owned()));
    assert_eq!(causes("join.log.gz"), causes("join.log"));
}

const SWAP: &str = "E1118 10:00:00.000001      12 run.go:74] \"command failed\" err=\"failed to run Kubelet: running with swap on is not supported\"\n";

/// `journalctl -u kubelet | carrick diagnose`
#[test]
fn what_is_piped_in_is_read() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_carrick"))
        .args(["diagnose", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(SWAP.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((done.status.code(), &report["causes"][0]["id"]), (Some(3), &Value::from("machine.swap")));
}

/// As Windows saves it.
#[test]
fn a_text_in_utf_16_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let units = std::iter::once(0xfeff).chain(SWAP.encode_utf16());
    fs::write(dir.path().join("paste.txt"), units.flat_map(u16::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    let done = carrick(&["diagnose", "paste.txt", "-o", "json"], dir.path());
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["causes"][0]["id"], "machine.swap", "{done:?}");
}

/// The names in a folder say what its files are.
#[test]
fn a_folder_of_files_is_read_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("containerd-config.toml"), "version = 2\ndisabled_plugins = [\"cri\"]\n").unwrap();
    fs::write(dir.path().join("hosts"), "127.0.0.1 localhost\n").unwrap();
    let done = carrick(&["diagnose", ".", "-o", "json"], dir.path());
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["causes"][0]["id"], "runtime.cri-plugin", "{done:?}");
    assert_eq!(report["causes"][0]["evidence"][0]["source"], "./containerd-config.toml", "{done:?}");
}
