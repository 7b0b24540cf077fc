//! What `kubeadm join` prints, line by line: how far it is, and what it failed for. Wording of 1.28 to 1.35, at `-v1` and up.
//!
//! kubeadm's word is progress, never proof: that a machine has joined is told by its Node alone.

use serde::{Deserialize, Serialize};

use super::causes::{Recognised, recognised};
use super::failure::{Circumstance, JoinCause};
use crate::catalogue::Role;
use crate::check::Evidence;
use crate::redact::redact;
use crate::signature::{Library, Severity};

/// One step that kubeadm says it has come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Milestone {
    PreflightBegan,
    /// One of kubeadm's own checks failed: its name, and what it says.
    CheckFailed {
        name: String,
        says: String,
    },
    /// It asks for cluster-info (told at `-v1`).
    Discovering,
    /// It could not have it, and tries again every five seconds for as long as it may (told at `-v1`).
    DiscoveryRetried {
        why: String,
    },
    /// The cluster proved itself; the checks passed.
    Discovered,
    /// It starts the kubelet: from here on the time of the TLS bootstrap runs.
    KubeletStarted,
    /// It waits for the kubelet's healthz (1.29 and up).
    KubeletAwaited,
    /// healthz answers: also of a kubelet that runs alone.
    KubeletHealthy,
    KubeletUnhealthy,
    CertificateAwaited,
    Done,
    Failed {
        says: String,
    },
}

/// What a line says of the join; most say nothing.
pub fn milestone(line: &str) -> Option<Milestone> {
    let text = without_header(line.trim());
    let begins = |part: &str| text.starts_with(part);
    Some(match text {
        "[preflight] Running pre-flight checks" => Milestone::PreflightBegan,
        "[kubelet-start] Starting the kubelet" => Milestone::KubeletStarted,
        "This node has joined the cluster:" => Milestone::Done,
        _ if begins("[discovery] Created cluster-info discovery client")
            || begins("[discovery] Waiting for the cluster-info ConfigMap") =>
        {
            Milestone::Discovering
        }
        _ if begins("[discovery] Retrying due to error: ") => {
            Milestone::DiscoveryRetried { why: after(text, "[discovery] Retrying due to error: ") }
        }
        _ if begins("[preflight] Reading configuration from the")
            || begins("[discovery] Cluster info signature and contents are valid") =>
        {
            Milestone::Discovered
        }
        _ if begins("[kubelet-check] Waiting for a healthy kubelet") => Milestone::KubeletAwaited,
        _ if begins("[kubelet-check] The kubelet is healthy after") => Milestone::KubeletHealthy,
        _ if begins("[kubelet-check] The kubelet is not healthy after")
            || begins("[kubelet-check] It seems like the kubelet isn't running") =>
        {
            Milestone::KubeletUnhealthy
        }
        _ if begins("[kubelet-start] Waiting for the kubelet to perform the TLS Bootstrap") => {
            Milestone::CertificateAwaited
        }
        _ if begins("[ERROR ") => {
            let (name, says) = text.strip_prefix("[ERROR ")?.split_once("]:")?;
            Milestone::CheckFailed { name: redact(name), says: redact(says.trim()) }
        }
        _ if begins("error execution phase ") => Milestone::Failed { says: redact(text) },
        _ if begins("error: ") => Milestone::Failed { says: after(text, "error: ") },
        _ => return None,
    })
}

fn after(text: &str, prefix: &str) -> String {
    redact(text.strip_prefix(prefix).unwrap_or(text))
}

/// Without klog's `I1115 21:43:51.205549     102 token.go:141] `.
fn without_header(line: &str) -> &str {
    let is_klog = line.starts_with(['I', 'W', 'E', 'F'])
        && line.get(1..5).is_some_and(|date| date.bytes().all(|c| c.is_ascii_digit()));
    if !is_klog {
        return line;
    }
    line.split_once("] ").filter(|(header, _)| !header.contains('[')).map_or(line, |(_, rest)| rest)
}

impl Milestone {
    /// kubeadm has come further: what it tried again for before is over.
    pub fn is_progress(&self) -> bool {
        match self {
            Milestone::DiscoveryRetried { .. }
            | Milestone::CheckFailed { .. }
            | Milestone::Failed { .. }
            | Milestone::KubeletUnhealthy => false,
            Milestone::PreflightBegan
            | Milestone::Discovering
            | Milestone::Discovered
            | Milestone::KubeletStarted
            | Milestone::KubeletAwaited
            | Milestone::KubeletHealthy
            | Milestone::CertificateAwaited
            | Milestone::Done => true,
        }
    }
}

/// What kubeadm failed for, as far as its output tells, the most telling first. The whole output is looked at: a preflight
/// check's line says more than the error at the end.
pub fn causes(output: &str, library: &Library) -> Vec<JoinCause> {
    found(output, library).into_iter().map(|(_, cause)| cause).collect()
}

/// What kubeadm meets while it goes on: only what is fatal ends it, the rest it tries again.
pub fn met(lines: &str, library: &Library) -> Vec<JoinCause> {
    let goes_on = |(severity, cause): (Severity, JoinCause)| {
        if severity >= Severity::Fatal { cause } else { cause.under(Circumstance::GoesOn) }
    };
    found(lines, library).into_iter().map(goes_on).collect()
}

fn found(output: &str, library: &Library) -> Vec<(Severity, JoinCause)> {
    let mut found: Vec<(Severity, JoinCause)> = Vec::new();
    for (number, line) in (1u32..).zip(output.lines()) {
        let failed = matches!(
            milestone(line),
            Some(Milestone::Failed { .. } | Milestone::CheckFailed { .. } | Milestone::DiscoveryRetried { .. })
        );
        if !failed {
            continue;
        }
        let seen = Evidence::at("kubeadm", number, redact(line.trim()));
        for Recognised { signature, cause } in recognised(library, line, &seen, |it| it.severity >= Severity::Error) {
            if !found.iter().any(|(_, known)| known.id == cause.id) {
                found.push((signature.severity, cause));
            }
        }
    }
    // What only says that kubeadm stopped is explained by what else it said.
    let is_root = |(_, cause): &(Severity, JoinCause)| cause.role == Role::Root;
    if found.iter().any(is_root) {
        found.retain(is_root);
    }
    found.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use Milestone::{
        CertificateAwaited, CheckFailed, Discovered, Discovering, DiscoveryRetried, Done, Failed, KubeletAwaited,
        KubeletHealthy, KubeletStarted, KubeletUnhealthy, PreflightBegan,
    };
    use proptest::prelude::*;

    /// What kubeadm printed in a recording of the lab: as a terminal shows it, or between headings.
    fn recorded(paste: &str) -> String {
        let after = paste.lines().skip_while(|line| !line.contains(" kubeadm join ")).skip(1);
        let until = after.take_while(|line| !line.starts_with("exit status: ") && !line.contains(":~# "));
        until.map(|line| format!("{line}\n")).collect()
    }

    macro_rules! capture {
        ($name:literal) => {
            recorded(include_str!(concat!("../../../../lab/captures/", $name, "/paste.txt")))
        };
    }

    fn milestones(output: &str) -> Vec<Milestone> {
        output.lines().filter_map(milestone).collect()
    }

    #[test]
    fn follows_a_join_of_1_34() {
        assert_eq!(
            milestones(&capture!("sound-join-debian12")),
            [PreflightBegan, Discovered, KubeletStarted, KubeletAwaited, KubeletHealthy, CertificateAwaited, Done]
        );
    }

    #[test]
    fn follows_a_join_of_1_29() {
        assert_eq!(
            milestones(&capture!("sound-join-kube-1-29")),
            [PreflightBegan, Discovered, KubeletStarted, CertificateAwaited, Done]
        );
    }

    #[test]
    fn follows_joins_that_fail() {
        let unhealthy = milestones(&capture!("containerd-stopped"));
        assert!(
            matches!(
                unhealthy.as_slice(),
                [PreflightBegan, Discovered, KubeletStarted, KubeletAwaited, KubeletUnhealthy, Failed { says }]
                    if says.starts_with("error execution phase kubelet-wait-bootstrap: failed while waiting for the kubelet to start")
            ),
            "{unhealthy:?}"
        );
        let stale = milestones(&capture!("stale-files"));
        let names: Vec<&str> = stale
            .iter()
            .filter_map(|it| if let CheckFailed { name, .. } = it { Some(name.as_str()) } else { None })
            .collect();
        assert_eq!(names, ["FileAvailable--etc-kubernetes-kubelet.conf", "FileAvailable--etc-kubernetes-pki-ca.crt"]);
        assert_eq!(
            stale.last(),
            Some(&Failed { says: "error execution phase preflight: preflight checks failed".into() })
        );
    }

    #[test]
    fn reads_what_v1_adds() {
        let header = "I1115 20:12:41.114029    1312 token.go:141] ";
        for (line, expected) in [
            ("[discovery] Created cluster-info discovery client, requesting info from \"10.0.0.11:6443\"", Discovering),
            (
                "[discovery] Waiting for the cluster-info ConfigMap to receive a JWS signature for token ID \"abcdef\"",
                Discovering,
            ),
            ("[discovery] Retrying due to error: it is not there", DiscoveryRetried { why: "it is not there".into() }),
            (
                "[discovery] Cluster info signature and contents are valid and TLS certificate validates against pinned roots, will use API Server \"10.0.0.11:6443\"",
                Discovered,
            ),
        ] {
            assert_eq!(milestone(line), Some(expected.clone()), "{line}");
            assert_eq!(milestone(&format!("{header}{line}")), Some(expected), "{line}");
        }
        assert_eq!(
            milestone("error execution phase preflight: [preflight] Some fatal errors occurred:")
                .map(|it| matches!(it, Failed { .. })),
            Some(true)
        );
        for nothing in [
            "",
            "[preflight] Running pre-flight checks before initializing",
            "This node has joined",
            "I1115",
            "[ERROR x",
        ] {
            assert_eq!(milestone(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn names_the_cause_of_what_the_lab_recorded() {
        let library = Library::built_in().unwrap();
        for (name, output, expected) in [
            ("unknown-token", capture!("unknown-token"), "api.token"),
            ("wrong-token-secret", capture!("wrong-token-secret"), "api.token"),
            ("wrong-ca-hash", capture!("wrong-ca-hash"), "api.ca-pin"),
            ("api-refused", capture!("api-refused"), "api.tcp"),
            ("api-unreachable", capture!("api-unreachable"), "api.slow"),
            ("name-taken", capture!("name-taken"), "api.node-name"),
            ("kubelet-disk-full", capture!("kubelet-disk-full"), "filesystem.space"),
            ("ip-forward-off", capture!("ip-forward-off"), "kernel.ip-forward"),
            ("bad-node-name", capture!("bad-node-name"), "machine.hostname"),
            ("dropin-missing", capture!("dropin-missing"), "kubeadm.tls-timeout"),
        ] {
            let causes = causes(&output, &library);
            assert_eq!(causes.first().map(|cause| cause.id.as_str()), Some(expected), "{name}: {causes:?}");
        }
        assert_eq!(causes(&capture!("sound-join-debian12"), &library), []);
    }

    #[test]
    fn what_is_quoted_is_redacted() {
        const REFUSED: &str = "couldn't validate the identity of the API Server: failed to request the cluster-info ConfigMap: dial tcp 10.0.0.11:6443: connect: connection refused";
        let library = Library::built_in().unwrap();
        for (before, says, quoted) in [
            ("error execution phase preflight: ", REFUSED, 1),
            (
                "\t[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: ",
                "/proc/sys/net/ipv4/ip_forward contents are not set to 1",
                1,
            ),
            ("[discovery] Retrying due to error: ", REFUSED, 1),
            ("error: ", "unknown flag", 0),
        ] {
            let line = format!("{before}{says} (--token abcdef.0123456789abcdef)");
            let (milestone, causes) = (milestone(&line).unwrap(), causes(&line, &library));
            assert_eq!(causes.iter().flat_map(|cause| &cause.seen).count(), quoted, "{line}: {causes:?}");
            let shown = format!("{milestone:?} {causes:?}");
            assert!(!shown.contains("0123456789abcdef"), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_a_milestone_or_none(line in "([IWE]1115 |\\[ERROR |\\[discovery\\] |error: |\\]: |abcdef\\.0123456789abcdef|.)*") {
            let shown = format!("{:?}", milestone(&line));
            prop_assert!(!shown.contains(" abcdef.0123456789abcdef "), "{}", shown);
        }
    }
}
