//! Pastes, and what they are the paste of.

use super::*;
use crate::testing::NOW;

fn report(text: &str) -> Report {
    let library = Library::built_in().unwrap();
    let mut scan = Scan::new(&library, NOW);
    scan.begin("paste.txt", true);
    scan.push(text.as_bytes());
    Case::of_text(&library, scan.finish(), NOW, None).report(&Ignore::default())
}

fn first(text: &str) -> Option<(String, Confidence)> {
    report(text).causes.into_iter().next().map(|cause| (cause.id, cause.confidence))
}

/// The commonest errors of kubeadm, each pasted alone.
#[test]
fn one_line_of_kubeadm_is_enough() {
    use Confidence::{Certain, Likely, Possible};
    for (line, id, confidence) in [
        (
            "error execution phase preflight: couldn't validate the identity of the API Server: Get \
             \"https://10.9.8.7:6443/api/v1/namespaces/kube-public/configmaps/cluster-info?timeout=10s\": dial tcp \
             10.9.8.7:6443: connect: connection refused",
            "api.tcp",
            Certain,
        ),
        (
            "error execution phase preflight: couldn't validate the identity of the API Server: could not find a JWS \
             signature in the cluster-info ConfigMap for token ID \"abcdef\"",
            "api.token",
            // Or nobody signs.
            Likely,
        ),
        (
            "error execution phase preflight: couldn't validate the identity of the API Server: cluster CA found in \
             cluster-info ConfigMap is invalid: none of the public keys \
             \"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\" are pinned",
            "api.ca-pin",
            Certain,
        ),
        ("\t[ERROR Swap]: running with swap on is not supported. Please disable swap", "machine.swap", Certain),
        ("\t[ERROR Port-10250]: Port 10250 is in use", "network.ports", Certain),
        (
            "\t[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: /etc/kubernetes/kubelet.conf already exists",
            "stale.kubelet-conf",
            Certain,
        ),
        (
            "\t[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward contents are not set to 1",
            "kernel.ip-forward",
            Certain,
        ),
        (
            "error execution phase kubelet-start: a Node with name \"w9\" and status \"Ready\" already exists in the \
             cluster. You must delete the existing Node or change the name of this new joining Node",
            "api.node-name",
            Certain,
        ),
        ("error execution phase kubelet-start: timed out waiting for the condition", "kubeadm.tls-timeout", Possible),
        (
            "\t[ERROR CRI]: container runtime is not running: output: time=\"2026-11-18T10:00:00Z\" level=fatal \
             msg=\"validate service connection: CRI v1 runtime API is not implemented for endpoint \
             \\\"unix:///var/run/containerd/containerd.sock\\\": rpc error: code = Unimplemented desc = unknown service \
             runtime.v1.RuntimeService\"",
            "runtime.cri-plugin",
            Certain,
        ),
    ] {
        assert_eq!(first(line), Some((id.to_owned(), confidence)), "{line}");
    }
}

const NOT_READY: &str = "E1118 10:00:00.000001    1234 kubelet.go:2855] \"Container runtime network not ready\" \
                         networkReady=\"NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns \
                         error: cni plugin not initialized\"\n";

/// What is normal before a join is excused only where something shows that it is before one.
#[test]
fn an_unknown_phase_excuses_nothing() {
    let waits = "E1118 10:00:00.000001    1234 run.go:74] \"command failed\" err=\"failed to load kubelet config file, path: \
                 /var/lib/kubelet/config.yaml, error: open /var/lib/kubelet/config.yaml: no such file or directory\"\n";
    let node = "w9     NotReady   <none>   5m   v1.29.3\n";
    assert_eq!(report(NOT_READY).reading.unwrap().phase, None);
    let alone = first(NOT_READY).unwrap();
    assert!(alone.1 < Confidence::Certain, "{alone:?}");
    assert_eq!(first(&format!("{waits}{NOT_READY}{waits}")), None);
    assert_eq!(report(&format!("{node}{NOT_READY}")).reading.unwrap().phase, Some(Phase::Joined));
    assert!(first(&format!("{node}{NOT_READY}")).is_some());
}

/// What nothing tells the order of does not clear each other.
#[test]
fn only_what_came_later_clears() {
    let library = Library::built_in().unwrap();
    let failed = "[kubelet-check] The kubelet is not healthy after 4m0.000907s\n";
    let joined = "This node has joined the cluster:\n";
    let of = |texts: &[&str]| {
        let mut scan = Scan::new(&library, NOW);
        for (n, text) in texts.iter().enumerate() {
            scan.begin(&format!("{n}.txt"), true);
            scan.push(text.as_bytes());
        }
        let report = Case::of_text(&library, scan.finish(), NOW, None).report(&Ignore::default());
        report.causes.into_iter().map(|cause| cause.id).collect::<Vec<_>>()
    };
    assert_eq!(of(&[&format!("{failed}{joined}")]), [""; 0], "it joined after that");
    for texts in [&[failed, joined][..], &[joined, failed], &[&format!("{joined}{failed}")]] {
        assert_eq!(of(texts).len(), 1, "{texts:?}");
    }
}

#[test]
fn what_is_not_known_is_shown() {
    let text = "I1118 10:00:00.000001    1234 frob.go:12] \"Frobnicating\"\nE1118 10:00:01.000001    1234 frob.go:13] \
                \"Cannot frobnicate\" err=\"no frob\"\n";
    let reading = report(text).reading.unwrap();
    let [error] = reading.unrecognised.as_slice() else { panic!("{:?}", reading.unrecognised) };
    assert_eq!((error.count, error.evidence.line), (1, Some(2)));
    // What is known is not shown twice.
    assert!(report(NOT_READY).reading.unwrap().unrecognised.is_empty());
}

/// The reason stands at the end of a long error.
#[test]
fn a_long_line_keeps_its_end() {
    let text = format!(
        "error execution phase preflight: couldn't validate the identity of the API Server: {} dial tcp 10.9.8.7:6443: \
         connect: connection refused",
        "very long ".repeat(40)
    );
    let causes = report(&text).causes;
    assert!(causes[0].evidence[0].text.ends_with("connect: connection refused"), "{:?}", causes[0].evidence);
}

const CRASHES: &str = "Nov 18 10:00:02 w9 systemd[1]: kubelet.service: Main process exited, code=exited, status=1/FAILURE\n\
                       Nov 18 10:00:02 w9 systemd[1]: kubelet.service: Failed with result 'exit-code'.\n";

/// What a program said last is the cause where no signature knows it, above what only follows from that.
#[test]
fn last_words_nobody_knows_are_a_possible_cause() {
    let words = "Nov 18 10:00:01 w9 kubelet[12]: E1118 10:00:01.000001      12 run.go:74] \"command failed\" err=\"no frob here\"\n";
    let report = report(&format!("{words}{CRASHES}"));
    let first = &report.causes[0];
    assert_eq!((first.id.as_str(), first.confidence), ("program.ended", Confidence::Possible));
    assert_eq!(first.why, "no frob here");
    assert!(first.evidence[0].text.ends_with("err=\"no frob here\""), "{:?}", first.evidence);
    assert!(first.explains.contains(&"kubelet.restart-loop".to_owned()), "{:?}", first.explains);
    for line in [
        "F1118 10:00:00.000001       1 main.go:39] no frob here",
        "time=\"2026-11-18T10:00:00Z\" level=fatal msg=\"no frob here\"",
        "{\"level\":\"fatal\",\"ts\":\"2026-11-18T10:00:00Z\",\"caller\":\"frob/frob.go:1\",\"msg\":\"no frob here\"}",
        "panic: no frob here",
        "error execution phase kubelet-start: no frob here",
        "  Warning  FailedCreatePodSandBox  2s  kubelet  Failed to create pod sandbox: rpc error: code = Unknown desc = no frob here",
    ] {
        let causes = self::report(line).causes;
        assert_eq!(causes[0].confidence, Confidence::Possible, "{line}: {causes:?}");
        assert!(causes[0].why.ends_with("no frob here"), "{line}: {causes:?}");
    }
    // Who says what the line means has the first word.
    let known = words.replace("no frob here", "failed to run Kubelet: running with swap on is not supported");
    assert_eq!(self::first(&known), Some(("machine.swap".to_owned(), Confidence::Certain)));
}

const NO_SUBNET: &str = "E1118 10:00:00.000001    1234 pod_workers.go:1301] \"Error syncing pod, skipping\" err=\"failed to \
                         \\\"CreatePodSandbox\\\" for \\\"a\\\": rpc error: code = Unknown desc = failed to setup network for sandbox \
                         \\\"0c4e\\\": plugin type=\\\"flannel\\\" failed (add): loadFlannelSubnetEnv failed: open /run/flannel/subnet.env: \
                         no such file or directory\" pod=\"kube-system/coredns-a\"\n";

/// What every start shows once is past when the same pod starts; another pod's start says nothing of it.
#[test]
fn what_a_start_shows_is_past_when_the_pod_has_started() {
    let node = "w9     Ready    <none>   5m   v1.34.4\n";
    let started = |pod: &str| {
        format!(
            "I1118 10:00:09.000001    1234 pod_startup_latency_tracker.go:104] \"Observed pod startup duration\" \
             pod=\"kube-system/{pod}\" podStartSLOduration=3\n"
        )
    };
    assert_eq!(first(&format!("{node}{NO_SUBNET}")).map(|(id, _)| id).as_deref(), Some("cni.subnet-env"));
    assert_eq!(first(&format!("{node}{NO_SUBNET}{}", started("coredns-a"))), None);
    assert!(first(&format!("{node}{NO_SUBNET}{}", started("coredns-b"))).is_some());
    let later = NO_SUBNET.replace("10:00:00", "10:00:20");
    assert!(first(&format!("{node}{}{later}", started("coredns-a"))).is_some());
    let running = "coredns-a   1/1   Running   0   76s\n";
    let events = "Name:         coredns-a\nNode:         w9/10.1.1.9\nEvents:\n  Warning  FailedCreatePodSandBox  73s  kubelet  Failed to \
                  create pod sandbox: plugin type=\"flannel\" failed (add): loadFlannelSubnetEnv failed: open \
                  /run/flannel/subnet.env: no such file or directory\n";
    assert!(first(events).is_some());
    assert_eq!(first(&format!("{events}  Normal   Started  45s  kubelet  Started container coredns\n")), None);
    assert_eq!(first(&format!("{events}{running}")), None);
}

/// kubeadm reset says it on workers, too.
#[test]
fn a_reset_erases_no_control_plane() {
    assert_eq!(first("[reset] Deleted contents of the etcd data directory: /var/lib/etcd\n"), None);
}

/// A machine is one under all its names; where it has no cause and another has a certain one, that is told, with its name.
#[test]
fn another_machines_certain_cause_is_told_with_its_name() {
    let fine = "Nov 18 10:00:00 cp1 kubelet[1]: I1118 10:00:00.000001       1 x.go:1] \"All is well\"\n".repeat(9);
    let swap = "Nov 18 10:00:00 w9 kubelet[12]: E1118 10:00:00.000001      12 run.go:74] \"command failed\" err=\"failed to run \
                Kubelet: running with swap on is not supported\"\n";
    let report = report(&format!("{fine}{swap}"));
    assert_eq!((report.host.as_str(), report.causes[0].id.as_str()), ("w9", "machine.swap"));
    // By its address.
    let row = "w9   NotReady   <none>   5m   v1.34.4   10.1.1.9   <none>   Debian\n";
    let library = Library::built_in().unwrap();
    let mut scan = Scan::new(&library, NOW);
    scan.begin("paste.txt", true);
    scan.push(format!("{row}{swap}").as_bytes());
    let of_address =
        Case::of_text(&library, scan.finish(), NOW, Some("10.1.1.9".to_owned())).report(&Ignore::default());
    assert!(of_address.causes.iter().any(|cause| cause.id == "machine.swap"), "{:?}", of_address.causes);
}

/// However a line was pasted, it is the same line.
#[test]
fn what_people_paste_is_read() {
    let line = "Nov 18 10:00:00 w9 kubelet[1234]: E1118 10:00:00.000001    1234 run.go:74] \"command failed\" err=\"failed to run \
                Kubelet: running with swap on is not supported, please disable swap\"";
    let broken = |width: usize| {
        let letters: Vec<char> = line.chars().collect();
        letters.chunks(width).map(|piece| piece.iter().collect::<String>()).collect::<Vec<_>>().join("\n")
    };
    for (how, text) in [
        ("as it is", line.to_owned()),
        ("quoted", format!("> {line}")),
        ("quoted twice", format!("> > {line}")),
        ("in a fence", format!("```\n{line}\n```")),
        ("in a document", format!("### What happened?\n```\n{line}\n```\n### What did you expect?\nA **node**.")),
        ("in code marks", format!("`{line}`")),
        ("out of a web page", line.replace('"', "&quot;")),
        ("with a word processor's quotes", line.replace('"', "“")),
        ("by a terminal", broken(80)),
        ("by a wide terminal", broken(150)),
        ("cut at the right", format!("{}>", &line[..150])),
        ("after a prompt", format!("root@w9:~# journalctl -u kubelet\n{line}\nroot@w9:~#")),
        ("under a heading", format!("=== journalctl -u kubelet ===\n{line}")),
        ("with Windows' line ends", format!("{line}\r\n")),
    ] {
        assert_eq!(first(&text).map(|(id, _)| id).as_deref(), Some("machine.swap"), "{how}: {text}");
    }
}

/// A name that leads to the machine itself, and a warning on the line that fails.
#[test]
fn facts_are_put_together() {
    let itself = "error execution phase preflight: couldn't validate the identity of the API Server: Get \
                  \"https://api.example.com:6443/api/v1/namespaces/kube-public/configmaps/cluster-info?timeout=10s\": dial tcp \
                  127.0.0.1:6443: connect: connection refused";
    assert_eq!(first(itself).map(|(id, _)| id).as_deref(), Some("api.local-proxy-gone"));
    let logs = "Error from server: Get \"https://10.1.1.9:10250/containerLogs/kube-system/kube-proxy-a/kube-proxy\": remote error: \
                tls: internal error";
    assert_eq!(first(logs), Some(("kubelet.no-serving-certificate".to_owned(), Confidence::Possible)));
}

/// Of two that are as bad, the one that a join meets first.
#[test]
fn what_blocks_earlier_comes_first() {
    let later = "\t[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward contents are not set to 1\n";
    let token = "error execution phase preflight: couldn't validate the identity of the API Server: cluster CA found in cluster-info \
                 ConfigMap is invalid: none of the public keys \
                 \"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\" are pinned\n";
    for text in [format!("{later}{token}"), format!("{token}{later}")] {
        let ids: Vec<String> = report(&text).causes.into_iter().map(|cause| cause.id).collect();
        assert_eq!(ids, ["kernel.ip-forward", "api.ca-pin"]);
    }
}

/// Who says on a line only that something is wrong does not hide who says why on the same line.
#[test]
fn a_line_that_says_why_is_told_by_that() {
    let refused = "\t[ERROR ImagePull]: failed to pull image \"registry.k8s.io/kube-apiserver:v1.30.0\": rpc error: code = Unknown desc = \
                   failed to do request: Head \"https://registry.k8s.io/v2/kube-apiserver/manifests/v1.30.0\": dial tcp 10.9.8.7:443: \
                   i/o timeout\n";
    let ids = |text: &str| report(text).causes.into_iter().map(|cause| cause.id).collect::<Vec<_>>();
    assert_eq!(ids(refused), ["runtime.registry-unreachable"]);
    let unknown = "\t[ERROR Frob]: no frob\n";
    assert_eq!(ids(unknown), ["kubeadm.preflight-error"]);
    // Of another line it says nothing; but whoever says why has the first word.
    assert_eq!(ids(&format!("{refused}{unknown}")), ["runtime.registry-unreachable", "kubeadm.preflight-error"]);
}
