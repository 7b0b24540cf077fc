//! Lines as programs write them, one table a format: what is read is written as `time host program | text`, where a time without
//! a zone has a `~` before it and a line that is only told a `told`.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

fn now() -> Timestamp {
    "2026-11-15T21:00:00Z".parse().unwrap()
}

fn written(line: &Line) -> String {
    let mut written = String::new();
    match line.at {
        Some(at) => write!(written, "{}{at}", if line.zoned { "" } else { "~" }).unwrap(),
        None => written.push('-'),
    }
    for name in [&line.host, &line.program] {
        write!(written, " {}", name.as_deref().unwrap_or("-")).unwrap();
    }
    write!(written, "{} | {}", if line.narrated { " told" } else { "" }, line.text).unwrap();
    written
}

/// The line of a text that holds `needle`, read.
fn found(text: &str, needle: &str) -> Vec<String> {
    let at = text.find(needle).unwrap_or_else(|| panic!("{needle:?} is not in the text"));
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    read(text.as_bytes(), start..end, now()).iter().map(written).collect()
}

fn alone(text: &str) -> Vec<String> {
    read(text.as_bytes(), 0..text.len(), now()).iter().map(written).collect()
}

/// Each line by itself: when, where and by whom it was written. Its text is kept whole.
fn heads(table: &[(&str, &str)]) {
    for (line, expected) in table {
        assert_eq!(alone(line), [format!("{expected} | {line}")], "{line}");
    }
}

#[test]
fn journald_in_its_short_forms() {
    heads(&[
        (
            "Nov 15 20:39:50 w1 kubelet[812]: E1115 20:39:50.223456     812 kubelet.go:2337] \"Container runtime network not ready\"",
            "~2026-11-15T20:39:50Z w1 kubelet",
        ),
        (
            "Nov 15 20:39:50 w1 systemd[1]: kubelet.service: Failed with result 'exit-code'.",
            "~2026-11-15T20:39:50Z w1 systemd",
        ),
        (
            "Nov 15 20:39:50 w1 kernel: cni0: port 1(veth5d1f2a3b) entered forwarding state",
            "~2026-11-15T20:39:50Z w1 kernel",
        ),
        ("Nov 15 20:39:50.123456 w1 containerd[70]: starting", "~2026-11-15T20:39:50.123456Z w1 containerd"),
        ("Nov  5 20:39:50 kubelet[70]: without a host name", "~2026-11-05T20:39:50Z - kubelet"),
        ("Nov 15 20:39:50 w1 (kubelet)[70]: Failed to execute", "~2026-11-15T20:39:50Z w1 kubelet"),
        ("2026-11-15T20:39:50+0100 w1 kubelet[1]: x", "2026-11-15T19:39:50Z w1 kubelet"),
        ("2026-11-15T20:39:50.123456+00:00 w1 kubelet[1]: x", "2026-11-15T20:39:50.123456Z w1 kubelet"),
        ("Sun 2026-11-15 20:39:50 UTC w1 kubelet[1]: x", "2026-11-15T20:39:50Z w1 kubelet"),
        ("Sun 2026-11-15 20:39:50 CET w1 kubelet.service[1]: x", "2026-11-15T19:39:50Z w1 kubelet"),
        ("1794775190.123456 w1 kubelet[1]: x", "2026-11-15T20:39:50.123456Z w1 kubelet"),
        ("[ 2847.123456] w1 kubelet[1]: x", "- w1 kubelet"),
        ("     Nov 15 20:39:50 w1 kubelet[1]: of systemctl status", "~2026-11-15T20:39:50Z w1 kubelet"),
        ("journal.txt:1041:Nov 15 20:39:50 w1 kubelet[1]: of grep -Hn", "~2026-11-15T20:39:50Z w1 kubelet"),
        ("   17\tNov 15 20:39:50 w1 kubelet[1]: of cat -n", "~2026-11-15T20:39:50Z w1 kubelet"),
    ]);
}

#[test]
fn syslog_and_the_kernel() {
    heads(&[
        ("<30>1 2026-11-15T20:39:50.003Z w1 kubelet 1234 ID47 - x", "2026-11-15T20:39:50.003Z w1 kubelet"),
        (r#"<30>1 2026-11-15T20:39:50Z w1 kubelet - - [a@1 b="c\]d"][e@2] x"#, "2026-11-15T20:39:50Z w1 kubelet"),
        ("<30>1 - - kubelet - - - x", "- - kubelet"),
        ("<30>Nov 15 20:39:50 w1 kubelet[1]: x", "~2026-11-15T20:39:50Z w1 kubelet"),
        ("[Sun Nov 15 20:39:50 2026] EXT4-fs error (device sda1)", "~2026-11-15T20:39:50Z - kernel"),
        ("[  123.456789] Out of memory: Killed process 812 (kubelet)", "- - kernel"),
    ]);
}

#[test]
fn klog_logfmt_and_what_a_runtime_puts_before_them() {
    heads(&[
        (
            r#"E1115 20:39:50.123456    1234 kubelet_node_status.go:96] "Unable to register node with API server" err="a\nb""#,
            "~2026-11-15T20:39:50.123456Z - kubelet",
        ),
        ("E0702 02:31:51.973186 16845 unknown.go:2267] node \"my-host\" not found", "~2026-07-02T02:31:51.973186Z - -"),
        (
            "I1115 20:12:41.114029    1312 token.go:215] [discovery] Retrying due to error: x",
            "~2026-11-15T20:12:41.114029Z - kubeadm",
        ),
        ("I1115 20:12:41.1 1312 join.go:423] [preflight] found NodeName empty", "~2026-11-15T20:12:41.1Z - kubeadm"),
        ("I1210 server.go:688] \"Standalone mode, no API client\"", "- - -"),
        (
            r#"time="2026-11-15T20:39:50.549391266Z" level=error msg="failed to load cni during init" error="cni config load failed""#,
            "2026-11-15T20:39:50.549391266Z - containerd",
        ),
        (
            r#"time="2025-04-03T22:58:14+08:00" level=fatal msg="validate service connection: x""#,
            "2025-04-03T14:58:14Z - crictl",
        ),
        (r#"level=error msg="failed to \"load\" cni""#, "- - containerd"),
        ("ERRO[0000] validate service connection: x", "- - crictl"),
        ("2026-11-15T20:39:50.1Z stderr F E1115 20:39:50.1       1 match.go:9] x", "2026-11-15T20:39:50.1Z - flannel"),
        ("2026-11-15T20:39:50.1Z stdout P half of a", "2026-11-15T20:39:50.1Z - -"),
        ("2026-11-15T20:39:50.1Z I1115 20:39:50.1       1 main.go:9] x", "2026-11-15T20:39:50.1Z - -"),
        ("2026-11-15T20:39:50.1Z Unable to reach: it", "2026-11-15T20:39:50.1Z - -"),
        ("[pod/kube-flannel-ds-x7k2p/kube-flannel] E1115 20:39:50.1 1 main.go:9] x", "~2026-11-15T20:39:50.1Z - -"),
        (
            "2026-11-15 20:39:05.223 [WARNING][9] startup/startup.go 489: Unable to auto-detect",
            "~2026-11-15T20:39:05.223Z - calico",
        ),
        ("[ERROR] plugin/errors: 2 HINFO: read udp 10.244.0.22:5559->1.1.1.1:53: i/o timeout", "- - coredns"),
    ]);
}

#[test]
fn kubeadm_is_not_taken_for_a_script() {
    heads(&[
        ("[preflight] Running pre-flight checks", "- - kubeadm"),
        ("\t[WARNING Swap]: swap is supported for cgroup v2 only", "- - kubeadm"),
        (
            "\t[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: /etc/kubernetes/kubelet.conf already exists",
            "- - kubeadm",
        ),
        ("[ERROR Port-10250]: Port 10250 is in use", "- - kubeadm"),
        ("error execution phase preflight: [preflight] Some fatal errors occurred:", "- - kubeadm"),
        ("error: error execution phase preflight: couldn't validate the identity of the API Server", "- - kubeadm"),
        ("This node has joined the cluster:", "- - kubeadm"),
        ("* Certificate signing request was sent to apiserver and a response was received.", "- - kubeadm"),
        ("* The Kubelet was informed of the new secure connection details.", "- - kubeadm"),
        ("\t- The kubelet is not running", "- - kubeadm"),
        ("\t- 'journalctl -xeu kubelet'", "- - kubeadm"),
        ("\t- 'crictl --runtime-endpoint unix:///x.sock ps -a | grep kube | grep -v pause'", "- - kubeadm"),
        ("  - '/etc/kubernetes/kubelet.conf'", "- - -"),
        ("[kubelet-check] The kubelet is not healthy after 4m0.000507535s", "- - kubeadm"),
    ]);
}

#[test]
fn what_other_programs_print_is_evidence() {
    let table = [
        "bash: line 1: kubeadm: command not found",
        "root@10.0.0.4: Permission denied (publickey,password).",
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
        "[FAILED] Failed to start kubelet.service - kubelet: The Kubernetes Node Agent.",
        "[  OK  ] Started containerd.service - containerd container runtime.",
        "invalid plugin config: `systemd_cgroup` only works for runtime io.containerd.runtime.v1.linux",
        "exec: \"runc\": executable file not found in $PATH",
        "Network plugin returns error: No CNI configuration file in /etc/cni/net.d/. Has your network provider started?",
        "* spec.podCIDRs: Invalid value: \"x\": may not be changed",
        "\t* open /etc/cni/net.d: permission denied",
        "             └─369269 /usr/bin/kubelet",
        "ExecStart={ path=/usr/bin/kubelet ; argv[]=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS ; ignore_errors=no }",
        "ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS",
        "Environment=\"KUBELET_KUBECONFIG_ARGS=\"",
        "Unit containerd.service could not be found.",
        "sudo: a password is required",
        "    sandbox_image = \"k8s.gcr.io/pause:3.6\"",
        "time=\"2026-11-15T20:39:50Z\" level=info msg=\"=== echo ✅ ===\"",
        "E1115 20:39:50.123456    1234 a.go:1] \"if x | grep y; then echo\"",
        "error: unable to load bootstrap kubeconfig: stat /etc/kubernetes/bootstrap-kubelet.conf: no such file or directory",
    ];
    for line in table {
        assert!(read(line.as_bytes(), 0..line.len(), now()).iter().any(|line| !line.narrated), "{line}");
    }
}

#[test]
fn what_somebody_tells_is_not() {
    let table = [
        "✅ CNI: cni plugin not initialized was fixed",
        "  ❌ Kubelet: cni plugin not initialized",
        "⚠️  NetworkPluginNotReady",
        "\u{1b}[0;32m[INFO]\u{1b}[0m cni plugin not initialized, waiting",
        "[SUCCESS] cni plugin not initialized is gone",
        "[ERROR] cni plugin not initialized",
        "2026-11-15 20:39:50 [WARN] cni plugin not initialized",
        "[2026-11-15 20:39:50] [INFO] cni plugin not initialized",
        "=== cni plugin not initialized ===",
        "  echo \"cni plugin not initialized\"",
        "printf 'cni plugin not initialized\\n'",
        "log_error \"cni plugin not initialized\"",
        "if ! crictl info | grep -q \"cni plugin not initialized\"; then",
        "while journalctl -u kubelet | grep -q \"cni plugin not initialized\"; do",
        "grep -c 'cni plugin not initialized' kubelet.log",
        "crictl info 2>/dev/null | grep 'cni plugin not initialized'",
        "*\"cni plugin not initialized\"*)",
        "[[ \"$out\" == *\"cni plugin not initialized\"* ]] && exit 1",
        "if \"cni plugin not initialized\" in out:",
        "raise RuntimeError(\"cni plugin not initialized\")",
        "+ grep -q 'cni plugin not initialized'",
        "++ echo 'cni plugin not initialized'",
        "# cni plugin not initialized: wait for flannel",
        "root@w1:~# journalctl -u kubelet | grep 'cni plugin not initialized'",
        "[root@w1 ~]# grep 'cni plugin not initialized' log",
        "$ grep 'cni plugin not initialized' log",
        "- name: \"wait while cni plugin not initialized\"",
        "    msg: \"cni plugin not initialized\"",
        "  failed_when: \"'cni plugin not initialized' in status.stdout\"",
        "  until: \"'cni plugin not initialized' not in status.stdout\"",
        "TASK [Wait while cni plugin not initialized] *****",
        "FAILED - RETRYING: [w1]: Wait while cni plugin not initialized (3 retries left).",
        "## cni plugin not initialized",
        "**Root Cause**: cni plugin not initialized",
        "ROOT CAUSE   cni plugin not initialized    certain",
        "- Error: \"cni config load failed: cni plugin not initialized\"",
        "- containerd logs show repeated \"cni plugin not initialized\" errors",
        "1. `kubelet: cni plugin not initialized`",
        "> cni plugin not initialized",
        "| cni | cni plugin not initialized |",
        "Problem: cni plugin not initialized",
        "Nov 15 20:39:50 w1 sudo[12]: root : TTY=pts/0 ; PWD=/root ; COMMAND=/usr/bin/grep cni plugin not initialized log",
        "Nov 15 20:39:50 w1 join.sh[12]: [ERROR] cni plugin not initialized",
        "Nov 15 20:39:50 w1 bash[12]: + grep -q 'cni plugin not initialized'",
    ];
    for line in table {
        let read = read(line.as_bytes(), 0..line.len(), now());
        assert!(!read.is_empty() && read.iter().all(|line| line.narrated), "{line}");
    }
}

#[test]
fn journald_with_all_fields() {
    let json = r#"{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"1794775190000001","_HOSTNAME":"w1","SYSLOG_IDENTIFIER":"kubelet","_CMDLINE":"grep cni","MESSAGE":"E1115 21:39:50.000001     812 a.go:1] err=\"open \\\"x\\\"\"\nsecond \u001b[31mred\u001b[0m","PRIORITY":"3"}"#;
    assert_eq!(
        alone(json),
        [
            r#"2026-11-15T20:39:50.000001Z w1 kubelet | E1115 21:39:50.000001     812 a.go:1] err="open \"x\"""#,
            "2026-11-15T20:39:50.000001Z w1 kubelet | second red",
        ]
    );
    let bytes = r#"{"__REALTIME_TIMESTAMP":"1794775190000000","_HOSTNAME":"w1","_COMM":"sh","MESSAGE":[104,105,255]}"#;
    assert_eq!(alone(bytes), ["2026-11-15T20:39:50Z w1 sh | hi\u{fffd}"]);
    let cut = r#"{"__REALTIME_TIMESTAMP":"1794775190000000","_HOSTNAME":"w1","_SYSTEMD_UNIT":"kubelet.service","MESSAGE":"cut o"#;
    assert_eq!(alone(cut), ["2026-11-15T20:39:50Z w1 kubelet | cut o"]);
}

const PRETTY: &str = "{\n\t\"__REALTIME_TIMESTAMP\" : \"1794775189000000\",\n\t\"MESSAGE\" : \"other\"\n}\n{\n\t\"_CMDLINE\" : \"grep cni\",\n\t\"MESSAGE\" : \"cni \\\"plugin\\\"\",\n\t\"_HOSTNAME\" : \"w1\",\n\t\"SYSLOG_IDENTIFIER\" : \"containerd\",\n\t\"__REALTIME_TIMESTAMP\" : \"1794775190000000\"\n}\n";
const EXPORT: &str = "__CURSOR=s=1\n__REALTIME_TIMESTAMP=1794775189000000\n_HOSTNAME=w0\nMESSAGE=other\n\n__CURSOR=s=2\n__REALTIME_TIMESTAMP=1794775190000000\nMESSAGE=cni plugin\n_CMDLINE=grep cni\nSYSLOG_IDENTIFIER=kubelet\n_HOSTNAME=w1\n\n__CURSOR=s=3\n_HOSTNAME=w2\n\n";
const BINARY: &str = "__CURSOR=s=2\n__REALTIME_TIMESTAMP=1794775190000000\n_HOSTNAME=w1\nMESSAGE\n\u{10}\0\0\0\0\0\0\0first \u{1b}[31mred\nsecond\nSYSLOG_IDENTIFIER=kubelet\n\n";
const VERBOSE: &str = "Sun 2026-11-15 20:39:50.000000 UTC [s=1;i=2]\n    _HOSTNAME=w1\n    SYSLOG_IDENTIFIER=kubelet\n    MESSAGE=cni plugin\n    _SOURCE_REALTIME_TIMESTAMP=1794775190000000\n\n";

#[test]
fn journald_with_each_field_on_a_line() {
    let table = [
        (PRETTY, "cni \\\"plugin", "2026-11-15T20:39:50Z w1 containerd | cni \"plugin\""),
        (PRETTY, "grep cni", "2026-11-15T20:39:50Z w1 containerd told | \"_CMDLINE\" : \"grep cni\","),
        (EXPORT, "cni plugin", "2026-11-15T20:39:50Z w1 kubelet | cni plugin"),
        (EXPORT, "grep cni", "2026-11-15T20:39:50Z w1 kubelet told | _CMDLINE=grep cni"),
        (BINARY, "first", "2026-11-15T20:39:50Z w1 kubelet | first red"),
        (VERBOSE, "cni plugin", "2026-11-15T20:39:50Z w1 kubelet | cni plugin"),
    ];
    for (text, needle, expected) in table {
        assert_eq!(found(text, needle), [expected], "{needle}");
    }
    assert_eq!(alone("Result=exit-code"), ["- - - | Result=exit-code"]);
    assert_eq!(alone("MESSAGE=of a shell"), ["- - - | MESSAGE=of a shell"]);
}

#[test]
fn ansible_on_one_line() {
    let line = r#"fatal: [w1]: FAILED! => {"changed": true, "cmd": "crictl info | grep 'cni plugin'", "rc": 1, "stdout": "E1115 20:39:50.1   1 a.go:1] err=\"open \\\"x\\\"\"\n✅ done", "stderr_lines": ["error execution phase preflight: x", "{\"__REALTIME_TIMESTAMP\":\"1794775190000000\",\"_HOSTNAME\":\"w2\",\"MESSAGE\":\"nested\"}"]}"#;
    assert_eq!(
        alone(line),
        [
            r#"- w1 - | fatal: [w1]: FAILED! => {"changed": true, "rc": 1}"#,
            r#"- w1 - told | "cmd": "crictl info | grep 'cni plugin'""#,
            r#"~2026-11-15T20:39:50.1Z w1 - | E1115 20:39:50.1   1 a.go:1] err="open \"x\"""#,
            "- w1 - told | ✅ done",
            "- w1 kubeadm | error execution phase preflight: x",
            "2026-11-15T20:39:50Z w2 - | nested",
        ]
    );
    assert_eq!(
        alone(
            r#"fatal: [w1]: UNREACHABLE! => {"msg": "Failed to connect to the host via ssh: x", "unreachable": true}"#
        ),
        [
            r#"- w1 - | fatal: [w1]: UNREACHABLE! => {"msg": "Failed to connect to the host via ssh: x", "unreachable": true}"#
        ]
    );
    assert_eq!(
        alone(r#"failed: [w1] (item=x) => {"cmd": ["kubeadm", "join"], "rc": 124, "stderr": "", "msg": "a\nb"}"#),
        [r#"- w1 - | failed: [w1] (item=x) => {"cmd": ["kubeadm", "join"], "rc": 124}"#, "- w1 - | a", "- w1 - | b"]
    );
    assert_eq!(alone(r#"{"log": "ends the line\n"}"#), [r#"- - - | "log": "ends the line""#]);
    assert_eq!(alone("fatal: [w1]: FAILED! => {"), ["- w1 - | fatal: [w1]: FAILED! => {"]);
}

const BLOCK: &str = "TASK [join] ****\nfatal: [w1]: FAILED! => {\n    \"changed\": true,\n    \"cmd\": [\n        \"crictl\",\n        \"cni in a command\"\n    ],\n    \"msg\": \"non-zero\",\n    \"stderr_lines\": [\n        \"Nov 15 20:39:50 w9 kubelet[1]: cni \\\"plugin\\\"\",\n        \"error execution phase preflight: x\"\n    ]\n}\n";
const YAML_BLOCK: &str = "fatal: [w1]: FAILED! => changed=true \n  cmd: crictl info\n  msg: non-zero return code of cni\n  stderr: |-\n    error execution phase preflight: x\n    cni plugin\n  stdout_lines:\n  - plain in a list\n  - 'it''s quoted'\n";

#[test]
fn ansible_in_blocks() {
    let table = [
        (BLOCK, "plugin", "~2026-11-15T20:39:50Z w9 kubelet | Nov 15 20:39:50 w9 kubelet[1]: cni \"plugin\""),
        (BLOCK, "preflight", "- w1 kubeadm | error execution phase preflight: x"),
        (BLOCK, "cni in a command", "- w1 - told | cni in a command"),
        (BLOCK, "non-zero", "- w1 - | non-zero"),
        (YAML_BLOCK, "preflight", "- w1 kubeadm |     error execution phase preflight: x"),
        (YAML_BLOCK, "cni plugin", "- w1 - |     cni plugin"),
        (YAML_BLOCK, "non-zero", "- w1 - |   msg: non-zero return code of cni"),
        (YAML_BLOCK, "plain in", "- w1 - |   - plain in a list"),
    ];
    for (text, needle, expected) in table {
        assert_eq!(found(text, needle), [expected], "{needle}");
    }
}

const NODE_JSON: &str = r#"{
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "labels": {
            "kubernetes.io/hostname": "w1"
        },
        "name": "w1",
        "uid": "1"
    },
    "status": {
        "conditions": [
            {
                "lastTransitionTime": "2026-11-15T20:00:00Z",
                "message": "kubelet is posting ready status",
                "type": "Other"
            },
            {
                "lastHeartbeatTime": "2026-11-15T20:41:00Z",
                "lastTransitionTime": "2026-11-15T20:39:50Z",
                "message": "Network plugin returns error: \"cni\" plugin not initialized",
                "reason": "KubeletNotReady",
                "type": "Ready"
            }
        ]
    }
}
"#;
const NODE_YAML: &str = "apiVersion: v1\nkind: Node\nmetadata:\n  labels:\n    kubernetes.io/os: linux\n  name: w1\nspec: {}\nstatus:\n  conditions:\n  - lastHeartbeatTime: \"2026-11-15T20:40:00Z\"\n    lastTransitionTime: \"2026-11-15T20:30:00Z\"\n    message: kubelet has sufficient memory available\n    type: MemoryPressure\n  - lastHeartbeatTime: \"2026-11-15T20:41:00Z\"\n    lastTransitionTime: \"2026-11-15T20:39:50Z\"\n    message: 'container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady\n      message:Network plugin returns error: it''s cni plugin not initialized'\n    reason: KubeletNotReady\n    status: \"False\"\n    type: Ready\n";
const POD_YAML: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - args:\n    - run\n    name: web\n  nodeName: w2\nstatus:\n  containerStatuses:\n  - lastState:\n      terminated:\n        exitCode: 1\n        finishedAt: \"2026-11-15T20:39:50Z\"\n        message: \"Failed to check \\\"br_netfilter\\\"\\nand more\"\n";
const CRICTL: &str = "{\n  \"status\": {\n    \"conditions\": [\n      {\n        \"type\": \"NetworkReady\",\n        \"status\": false,\n        \"message\": \"Network plugin returns error: cni plugin not initialized\"\n      }\n    ]\n  },\n  \"lastCNILoadStatus\": \"cni config load failed\",\n  \"systemdCgroup\": false\n}\n";

#[test]
fn objects_as_json_and_yaml() {
    let message = "message: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: it's cni plugin not initialized";
    let folded = format!("2026-11-15T20:39:50Z w1 - | {message}");
    let table = [
        (
            NODE_JSON,
            "not initialized",
            r#"2026-11-15T20:39:50Z w1 - | "message": "Network plugin returns error: "cni" plugin not initialized""#,
        ),
        (NODE_JSON, "posting ready", r#"2026-11-15T20:00:00Z w1 - | "message": "kubelet is posting ready status""#),
        (NODE_YAML, "NetworkPluginNotReady", folded.as_str()),
        (NODE_YAML, "not initialized", folded.as_str()),
        (
            NODE_YAML,
            "sufficient memory",
            "2026-11-15T20:30:00Z w1 - | message: kubelet has sufficient memory available",
        ),
        (CRICTL, "not initialized", r#"- - - | "message": "Network plugin returns error: cni plugin not initialized""#),
        (CRICTL, "lastCNILoadStatus", r#"- - - | "lastCNILoadStatus": "cni config load failed""#),
        (CRICTL, "systemdCgroup", r#"- - - | "systemdCgroup": false"#),
    ];
    for (text, needle, expected) in table {
        assert_eq!(found(text, needle), [expected], "{needle}");
    }
    assert_eq!(
        found(POD_YAML, "br_netfilter"),
        ["2026-11-15T20:39:50Z w2 - | Failed to check \"br_netfilter\"", "2026-11-15T20:39:50Z w2 - | and more"]
    );
}

#[test]
fn a_log_that_is_json_is_one_line_in_klogs_form() {
    let table = [
        (
            r#"{"ts":1794775190000.5,"caller":"a.go:1","msg":"command failed","err":"open \"x\"\ny","v":0}"#,
            r#"2026-11-15T20:39:50Z - - | command failed err="open "x"\ny""#,
        ),
        (
            r#"2026-11-15T20:39:51.5Z stderr F {"level":"warn","ts":"2026-11-15T20:39:50.1Z","msg":"slow","took":"2s"}"#,
            r#"2026-11-15T20:39:51.5Z - - | slow took="2s""#,
        ),
        (
            r#"{"log":"E1115 20:39:50.1   1 main.go:1] x\n","stream":"stderr","time":"2026-11-15T20:39:50.1Z"}"#,
            "2026-11-15T20:39:50.1Z - - | E1115 20:39:50.1   1 main.go:1] x",
        ),
    ];
    for (line, expected) in table {
        assert_eq!(alone(line), [expected], "{line}");
    }
}

const DESCRIBED: &str = "Name:               w1\nRoles:              <none>\nConditions:\n  Type             Status  LastHeartbeatTime                 LastTransitionTime                Reason                       Message\n  ----             ------  -----------------                 ------------------                ------                       -------\n  Ready            False   Sun, 15 Nov 2026 20:41:00 +0000   Sun, 15 Nov 2026 20:39:50 +0000   KubeletNotReady              cni plugin not initialized\nAddresses:\n  InternalIP:  10.0.0.21\nEvents:\n  Type     Reason                   Age                From             Message\n  ----     ------                   ----               ----             -------\n  Warning  InvalidDiskCapacity      70s (x2 over 2m)   kubelet, w1      invalid capacity 0 on image filesystem\n";
const DESCRIBED_POD: &str = "Name:             web\nNamespace:        default\nNode:             w2/10.0.0.22\nStatus:           Pending\nEvents:\n  Type     Reason                  Age   From               Message\n  Warning  FailedCreatePodSandBox  1s    kubelet            Failed to create pod sandbox: rpc error\n";
const STATUS: &str = "● kubelet.service - kubelet: The Kubernetes Node Agent\n     Loaded: loaded (/lib/systemd/system/kubelet.service; enabled; preset: enabled)\n     Active: failed (Result: exit-code) since Sun 2026-11-15 20:39:50 UTC; 3s ago\n     CGroup: /system.slice/kubelet.service\n             └─369269 /usr/bin/kubelet\n\nNov 15 20:39:51 w1 kubelet[1]: last words\n";

#[test]
fn what_kubectl_and_systemctl_print_for_people() {
    let table = [
        (DESCRIBED, "cni plugin", "2026-11-15T20:39:50Z w1 -"),
        (DESCRIBED, "invalid capacity", "- w1 kubelet"),
        (DESCRIBED_POD, "Failed to create", "- w2 kubelet"),
        ("w1     NotReady   <none>   5m   v1.34.4", "NotReady", "- w1 -"),
        ("csr-x7kzb   5m   kubernetes.io/kubelet-serving   system:node:w1   <none>   Pending", "Pending", "- w1 -"),
        ("2m10s   Warning   NodeNotReady   node/w1   Node w1 status is now: NodeNotReady", "Warning", "- w1 -"),
        ("2026-11-15T20:39:50Z   Warning   BackOff   pod/x   Back-off", "Back-off", "2026-11-15T20:39:50Z - -"),
        (STATUS, "Active:", "2026-11-15T20:39:50Z - kubelet"),
        (STATUS, "└─369269", "- - kubelet"),
        (STATUS, "last words", "~2026-11-15T20:39:51Z w1 kubelet"),
    ];
    for (text, needle, expected) in table {
        let lines = found(text, needle);
        assert_eq!(
            lines.iter().map(|line| line.split(" | ").next().unwrap()).collect::<Vec<_>>(),
            [expected],
            "{needle}"
        );
    }
}

#[test]
fn a_progress_bar_is_many_lines() {
    assert_eq!(alone("one\rtwo\r"), ["- - - | one", "- - - | two"]);
    assert_eq!(alone(""), ["- - - | "]);
}

#[test]
fn a_string_of_line_ends_has_an_end() {
    let line = format!(r#"fatal: [w1]: FAILED! => {{"stdout": "{}"}}"#, r"x\n".repeat(40_000));
    assert_eq!(alone(&line).len(), MOST_LINES);
    let line = format!("[{}]", r#""x","#.repeat(40_000));
    assert_eq!(alone(&line).len(), MOST_LINES);
}

#[test]
fn a_line_with_both_times_sets_the_others_right() {
    let mut clock = HostTimeZones::default();
    let both = r#"Nov 15 21:39:50 w1 containerd[70]: time="2026-11-15T20:39:50.9Z" level=error msg="x""#;
    let line = read(both.as_bytes(), 0..both.len(), now()).remove(0);
    assert_eq!(line.offset.map(Offset::seconds), Some(3600));
    assert_eq!(line.at, "2026-11-15T20:39:50.9Z".parse().ok());
    clock.learn(&line);
    let klog = "Nov 15 21:39:51 w1 kubelet[1]: E1115 21:39:51.000000       1 a.go:1] x";
    let line = read(klog.as_bytes(), 0..klog.len(), now()).remove(0);
    assert_eq!(line.offset, None);
    assert_eq!(
        Some(clock.utc(line.host.as_deref(), line.at.unwrap(), line.zoned)),
        "2026-11-15T20:39:51Z".parse().ok()
    );
    let zoned: Timestamp = "2026-11-15T20:00:00Z".parse().unwrap();
    assert_eq!(clock.utc(Some("w1"), zoned, true), zoned);
    assert_eq!(clock.utc(Some("w2"), zoned, false).to_string(), "2026-11-15T19:00:00Z");
}

/// A report about a failure, as people write them: all of it is told but for the one line of a log in a block.
const REPORT: &str = r#"# Worker Node Join CNI Readiness Fix

Worker nodes fail to join the cluster due to missing configuration, specifically:
- Error: "no network config found in /etc/cni/net.d: cni plugin not initialized"
- NetworkReady status: `false` with reason "NetworkPluginNotReady"

## Root Cause Analysis

4. **Network Plugin Status**: containerd shows "cni plugin not initialized" consistently
```
"lastCNILoadStatus": "no network config found: cni plugin not initialized: evidence"
```

Instead of the word the block has:

```
the kubelet said that the cni plugin not initialized
```

```yaml
- name: "wait"
  shell: |
    if ! crictl info | grep -q "cni plugin not initialized"; then
      echo "cni plugin not initialized"
    fi
```

```console
[preflight] Running pre-flight checks
it is evidence: cni plugin not initialized
```

1. ✅ **Eliminates "cni plugin not initialized" errors**: proper verification

This targeted fix addresses the specific "cni plugin not initialized" issue identified in the output.
"#;

#[test]
fn a_report_is_told_but_for_the_lines_it_quotes() {
    let mut seen = 0;
    let mut start = 0;
    for line in REPORT.split_inclusive('\n') {
        let place = start..start + line.len();
        start = place.end;
        if line.contains("cni plugin not initialized") || line.contains("NetworkPluginNotReady") {
            seen += 1;
            let evidence = line.contains("evidence");
            for read in read(REPORT.as_bytes(), place, now()) {
                assert_eq!(read.narrated, !evidence, "{line}");
            }
        }
    }
    assert_eq!(seen, 10);
}

/// What a signature must recognise is a program's word, however it is read.
#[test]
fn the_lines_of_the_signatures_are_evidence_and_still_hit() {
    let library = crate::signature::Library::built_in().unwrap();
    let mut wrong = Vec::new();
    for signature in library.iter() {
        let regex = regex::Regex::new(&signature.regex).unwrap();
        for hit in &signature.hit {
            let lines = read(hit.line.as_bytes(), 0..hit.line.len(), now());
            if !lines.iter().any(|line| !line.narrated && regex.is_match(&line.text)) {
                let read: Vec<String> = lines.iter().map(written).collect();
                wrong.push(format!("{}: {} is read as {read:#?}", signature.id, hit.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

proptest! {
    #[test]
    fn any_bytes_are_lines(bytes in prop::collection::vec(any::<u8>(), 0..400), start in 0usize..500, length in 0usize..500) {
        for line in read(&bytes, start..start + length, now()) {
            prop_assert!(!line.text.contains(['\n', '\r']));
        }
    }

    #[test]
    fn any_text_around_is_read(
        above in "[ \\-\"'a-zA-Z:={}\\[\\]\n]{0,200}",
        line in prop::sample::select(vec![
            PRETTY, EXPORT, BINARY, VERBOSE, BLOCK, YAML_BLOCK, NODE_JSON, NODE_YAML, POD_YAML, CRICTL, DESCRIBED, STATUS, REPORT,
        ]),
        at in 0usize..2000,
        cut in 0usize..2000,
    ) {
        let text = format!("{above}\n{line}");
        let end = text.floor_char_boundary((at + cut).min(text.len()));
        let read = read(&text.as_bytes()[..end], at.min(end)..end, now());
        prop_assert!(read.len() <= MOST_LINES);
        prop_assert!(!read.iter().any(|line| line.text.contains(['\n', '\r'])));
    }
}
