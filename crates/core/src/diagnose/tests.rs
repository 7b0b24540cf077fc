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
        (
            "error execution phase kubelet-start: timed out waiting for the condition",
            "kubeadm.tls-timeout",
            Possible,
        ),
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
