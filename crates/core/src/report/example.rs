//! Reports as `diagnose` makes them, for the tests of those who print them.

use super::{
    Cause, Confidence, Elsewhere, Health, Judged, MachineVersions, Noted, Overall, Piece, Reading, Report, SCHEMA,
    SubsystemReport, TimelineEvent, UnrecognisedError,
};
use crate::check::{Evidence, Outcome, Subsystem};
use crate::signature::{Phase, Severity};

const PASTE: &str = "worker_node_join_scripts_output.txt";

/// A first join that timed out: the kubelet had lost its drop-in and ran alone. The missing pod network, which a person
/// would see first, is normal at this stage.
pub fn standalone_kubelet() -> Report {
    Report {
        schema: SCHEMA,
        verb: "diagnose",
        host: "storagenodet3500".to_owned(),
        verdict: Overall::Fail,
        machine: MachineVersions {
            os: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
            containerd: Some("1.6.20".to_owned()),
            kubelet: Some("1.29.15".to_owned()),
        },
        causes: vec![standalone(), swap()],
        findings: findings(),
        subsystems: subsystems(),
        reading: Some(Reading {
            phase: Some(Phase::Joining),
            symptoms: symptoms(),
            normal: normal(),
            unrecognised: vec![UnrecognisedError {
                count: 3,
                evidence: Evidence::at("paste.txt", 560, "E1114 10:14:58.101215  369269 frob.go:12] no frob"),
            }],
            elsewhere: vec![Elsewhere { node: "homelab".to_owned(), seen: vec![other_node()] }],
            timeline: timeline(),
            pod_network: vec![
                piece("directory", "/etc/cni/net.d is empty"),
                piece("configuration", "none"),
                piece("runtime", "NetworkReady=false (NetworkPluginNotReady: cni plugin not initialized)"),
                Piece { known: false, ..piece("daemon set", "not known: needs --kubeconfig") },
                piece("interfaces", "none of a pod network"),
                piece("kubelet", "no complaint in what was read"),
            ],
            next: vec![
                "carrick collect -H root@storagenodet3500".to_owned(),
                "kubectl get csr --sort-by=.metadata.creationTimestamp".to_owned(),
            ],
            bytes: 104_448,
            lines: 1_204,
        }),
        reached: None,
        remains: None,
    }
}

fn piece(what: &'static str, says: &str) -> Piece {
    Piece { what, says: says.to_owned(), known: true, expected: false }
}

fn standalone() -> Cause {
    Cause {
        id: "kubelet.standalone".to_owned(),
        confidence: Confidence::Certain,
        title: "the kubelet runs without --kubeconfig: it stands alone and never asks for a certificate".to_owned(),
        why: "The flag lives in the drop-in that kubeadm's package ships, 10-kubeadm.conf. It is gone, so systemd \
              starts a bare /usr/bin/kubelet: healthy, answering on its port, and in touch with no cluster."
            .to_owned(),
        evidence: vec![
            Evidence::at(PASTE, 243, "└─369269 /usr/bin/kubelet"),
            Evidence::at(PASTE, 233, "Loaded: loaded (/lib/systemd/system/kubelet.service; enabled; preset: enabled)"),
            Evidence::at(PASTE, 248, "I0914 09:12:06.107731  369269 server.go:655] \"Standalone mode, no API client\""),
            Evidence::at(
                PASTE,
                251,
                "I0914 09:12:06.214380  369269 server.go:543] \"No API server defined - no events will be sent to API server\"",
            ),
        ],
        remedy: vec![
            "apt-get install --reinstall -o Dpkg::Options::=--force-confmiss kubelet kubeadm".to_owned(),
            "systemctl daemon-reload && systemctl restart kubelet".to_owned(),
            "kubeadm join 192.168.4.63:6443 --token … --discovery-token-ca-cert-hash sha256:…".to_owned(),
        ],
        prevent: vec![
            "apt-mark hold kubelet kubeadm".to_owned(),
            "carrick check --output junit    # in the pipeline, before each join".to_owned(),
        ],
        explains: ["kubeadm.tls-timeout", "kubeadm.kubelet-conf-missing", "node.never-registered"]
            .map(str::to_owned)
            .to_vec(),
    }
}

fn swap() -> Cause {
    Cause {
        id: "machine.swap-after-boot".to_owned(),
        confidence: Confidence::Possible,
        title: "swap is off now, and /etc/fstab turns it on again at the next boot".to_owned(),
        why: "A kubelet of this version refuses to start while swap is on: the node would be lost with the next boot."
            .to_owned(),
        evidence: vec![Evidence::at("/etc/fstab", 7, "/dev/mapper/debian--vg-swap_1 none swap sw 0 0")],
        remedy: vec!["sed -i '/\\sswap\\s/s/^/#/' /etc/fstab".to_owned()],
        prevent: Vec::new(),
        explains: Vec::new(),
    }
}

fn symptoms() -> Vec<Noted> {
    let of_root = vec!["kubelet.standalone".to_owned()];
    vec![
        Noted {
            id: "kubeadm.tls-timeout".to_owned(),
            subsystem: Subsystem::ControlPlane,
            title: "kubeadm gave up waiting for the kubelet's TLS bootstrap".to_owned(),
            why: "It waits five minutes for /etc/kubernetes/kubelet.conf, which a kubelet that stands alone never \
                  writes."
                .to_owned(),
            count: 1,
            evidence: vec![Evidence::at(
                PASTE,
                551,
                "error execution phase kubelet-start: timed out waiting for the condition",
            )],
            because: of_root.clone(),
        },
        Noted {
            id: "kubeadm.kubelet-conf-missing".to_owned(),
            subsystem: Subsystem::Kubelet,
            title: "/etc/kubernetes/kubelet.conf was never written".to_owned(),
            why: "Only a kubelet with --bootstrap-kubeconfig asks for the certificate that belongs in it.".to_owned(),
            count: 2,
            evidence: vec![
                Evidence::at(PASTE, 540, "ls: cannot access '/etc/kubernetes/kubelet.conf': No such file or directory"),
                Evidence::at(PASTE, 877, "ls: cannot access '/etc/kubernetes/kubelet.conf': No such file or directory"),
            ],
            because: of_root.clone(),
        },
        Noted {
            id: "node.never-registered".to_owned(),
            subsystem: Subsystem::ControlPlane,
            title: "no Node of this name is in the cluster".to_owned(),
            why: "The join ended before there was anything to register.".to_owned(),
            count: 3,
            evidence: vec![Evidence::at(
                PASTE,
                1_102,
                "Error from server (NotFound): nodes \"storagenodet3500\" not found",
            )],
            because: vec!["kubelet.standalone".to_owned(), "kubeadm.tls-timeout".to_owned()],
        },
    ]
}

fn normal() -> Vec<Noted> {
    vec![
        Noted {
            id: "cni.no-config".to_owned(),
            subsystem: Subsystem::Cni,
            title: "there is no network configuration in /etc/cni/net.d".to_owned(),
            why: "Before a join this is as it should be: flannel's pod writes it once the node is registered."
                .to_owned(),
            count: 9,
            evidence: vec![Evidence::at(
                PASTE,
                12,
                "\"lastCNILoadStatus\": \"cni config load failed: no network config found in /etc/cni/net.d: cni plugin not initialized: failed to load cni config\"",
            )],
            because: Vec::new(),
        },
        Noted {
            id: "kubelet.image-fs-capacity".to_owned(),
            subsystem: Subsystem::Kubelet,
            title: "invalid capacity 0 on image filesystem".to_owned(),
            why: "Every kubelet says so once while it starts, before the runtime has counted its images.".to_owned(),
            count: 1,
            evidence: vec![Evidence::at(
                PASTE,
                571,
                "E0914 09:12:06.310220  369269 kubelet.go:1462] \"Image garbage collection failed once. Stats initialization may not have completed yet\" err=\"invalid capacity 0 on image filesystem\"",
            )],
            because: Vec::new(),
        },
    ]
}

fn other_node() -> Noted {
    Noted {
        id: "kubelet.node-not-ready".to_owned(),
        subsystem: Subsystem::Kubelet,
        title: "homelab was NotReady for a minute".to_owned(),
        why: "It is another machine; nothing here depends on it.".to_owned(),
        count: 2,
        evidence: vec![Evidence::at(PASTE, 1_120, "homelab   NotReady   <none>   41d   v1.29.15")],
        because: Vec::new(),
    }
}

/// Twelve events of a join that waits in silence for four minutes.
fn timeline() -> Vec<TimelineEvent> {
    use Severity::{Benign, Error, Fatal, Good, Warning};
    let event = |at: &str, program: &str, id: &str, severity, line, title: &str| TimelineEvent {
        at: format!("2025-09-14T{at}Z"),
        program: program.to_owned(),
        id: id.to_owned(),
        severity,
        title: title.to_owned(),
        count: 1,
        until: None,
        evidence: Evidence::at(PASTE, line, title),
        silence: None,
    };
    let repeated = |event: TimelineEvent, count, until: &str| TimelineEvent {
        count,
        until: Some(format!("2025-09-14T{until}Z")),
        ..event
    };
    vec![
        event("09:11:40", "systemd", "containerd.started", Good, 88, "containerd was started"),
        repeated(
            event("09:11:41", "containerd", "cni.no-config", Benign, 12, "no network config found in /etc/cni/net.d"),
            9,
            "09:12:08",
        ),
        event("09:12:02", "kubeadm", "kubeadm.preflight", Good, 402, "preflight checks passed"),
        event(
            "09:12:04",
            "kubeadm",
            "kubeadm.discovery",
            Good,
            431,
            "the cluster's CA was found and is the pinned one",
        ),
        event("09:12:05", "systemd", "kubelet.started", Good, 233, "the kubelet was started"),
        event("09:12:06", "kubelet", "kubelet.standalone", Fatal, 248, "the kubelet stands alone: no API client"),
        event(
            "09:12:06",
            "kubelet",
            "kubelet.image-fs-capacity",
            Benign,
            571,
            "invalid capacity 0 on image filesystem",
        ),
        event("09:12:09", "kubeadm", "kubeadm.kubelet-healthy", Good, 498, "the kubelet answers on its health port"),
        TimelineEvent {
            silence: Some(252),
            ..event("09:16:21", "kubeadm", "kubeadm.slow", Warning, 540, "kubelet.conf is still not there")
        },
        event("09:17:04", "kubeadm", "kubeadm.tls-timeout", Error, 551, "timed out waiting for the condition"),
        repeated(
            event("09:17:12", "node", "node.never-registered", Error, 1_102, "nodes \"storagenodet3500\" not found"),
            3,
            "09:17:31",
        ),
        event("09:17:20", "csr", "csr.none", Warning, 1_140, "no certificate signing request of this node"),
    ]
}

fn findings() -> Vec<Judged> {
    vec![Judged {
        id: "kubelet.standalone",
        subsystem: Subsystem::Kubelet,
        verdict: Outcome::Fail,
        title: "the kubelet has no --kubeconfig: it would run alone".to_owned(),
        evidence: vec![Evidence::at("/lib/systemd/system/kubelet.service", 5, "ExecStart=/usr/bin/kubelet")],
        remedy: vec!["systemctl daemon-reload && systemctl restart kubelet".to_owned()],
        explains: vec!["kubeadm.tls-timeout"],
        ignored: false,
        may_pass: false,
        means: None,
    }]
}

fn subsystems() -> Vec<SubsystemReport> {
    let of = |name, verdict, why: &str| SubsystemReport { name, verdict, why: why.to_owned() };
    vec![
        of(Subsystem::Machine, Health::Degraded, "swap comes back with the next boot"),
        of(Subsystem::Kernel, Health::Healthy, "6.1.0-38-amd64; the modules and sysctls a join needs are set"),
        of(Subsystem::Filesystem, Health::Healthy, "/ is ext4, writable, 2 % used; NFS /mnt/media is mounted"),
        of(Subsystem::Runtime, Health::Healthy, "containerd 1.6.20 answers on its socket; overlayfs"),
        of(Subsystem::Kubelet, Health::Broken, "runs without --kubeconfig"),
        of(Subsystem::Network, Health::Healthy, "192.168.4.63:6443 was reached"),
        of(Subsystem::Cni, Health::Expected, "not configured yet, as it is before every join"),
        of(Subsystem::Permissions, Health::Healthy, "no denial was logged"),
        of(Subsystem::ControlPlane, Health::NotSeen, "nothing of it is in this capture"),
        of(Subsystem::Time, Health::NotSeen, "nothing of it is in this capture"),
    ]
}

/// What an attacker, or a broken terminal, might get into a report: marks of HTML, CSS, XML and scripts, quotes, control
/// and direction characters, words without an end. Also more of everything than a page has room for.
pub fn hostile_and_crowded() -> Report {
    let mut report = standalone_kubelet();
    let hostile = HOSTILE.concat();
    let long = "x".repeat(10_000);
    report.host = format!("w1{hostile}");
    report.machine.os = Some(hostile.clone());
    for (n, cause) in report.causes.iter_mut().enumerate() {
        // A word without an end is one too many already.
        let long = if n == 0 { long.as_str() } else { "" };
        cause.title = format!("{} {hostile}", cause.title);
        cause.why.clone_from(&hostile);
        cause.remedy.push(format!("echo {hostile} {long}"));
        cause.evidence.push(Evidence::at(hostile.clone(), u32::MAX, format!("{hostile}{long}")));
    }
    let Some(reading) = &mut report.reading else { return report };
    reading.normal.extend(reading.symptoms.pop().map(|noted| Noted { why: long, ..noted }));
    crowd(reading, &hostile);
    let named: Vec<String> = reading.symptoms.iter().map(|symptom| symptom.id.clone()).collect();
    if let Some(root) = report.causes.first_mut() {
        root.explains = named;
    }
    report
}

/// Each of these ends something, somewhere, for a careless writer.
pub const HOSTILE: [&str; 9] = [
    "<script>alert(1)</script>",
    "</style></title></svg></pre>",
    "]]>-->",
    "\" onload='alert(1)' ",
    "<img src=//evil.example/x onerror=alert(1)>",
    "&lt;&#60;&amp",
    "\0\x07\x1b[31mred\x1b[0m\r\u{85}",
    "\u{202e}desrever\u{2066}",
    "\u{fffe}\u{2028}{}@import url(//evil.example)",
];

fn crowd(reading: &mut Reading, hostile: &str) {
    /// With the two causes and three symptoms of the plain report, more nodes than a picture of causes can be asked for.
    const SYMPTOMS: u32 = 14;
    const EVENTS: u32 = 48;
    for n in 1..=SYMPTOMS {
        let because = match n % 4 {
            0 => vec![],
            1 => vec![format!("crowd.symptom-{}", n + 1), "machine.swap-after-boot".to_owned()],
            _ => vec!["kubelet.standalone".to_owned(), "nobody.knows".to_owned()],
        };
        reading.symptoms.push(Noted {
            id: format!("crowd.symptom-{n}"),
            subsystem: Subsystem::Network,
            title: format!("{}{hostile}", "alongwordwithoutaspace".repeat(n as usize / 2)),
            why: hostile.to_owned(),
            count: u64::MAX,
            evidence: vec![Evidence::of("", hostile)],
            because,
        });
    }
    for n in 0..EVENTS {
        reading.timeline.push(TimelineEvent {
            at: if n % 13 == 5 { hostile.to_owned() } else { format!("2025-09-15T{:02}:00:{:02}Z", n / 8, n % 60) },
            program: format!("program-number-{}-{}", n % 14, HOSTILE[n as usize % HOSTILE.len()]),
            id: format!("crowd.event-{n}"),
            severity: [Severity::Good, Severity::Benign, Severity::Warning, Severity::Error, Severity::Fatal]
                [n as usize % 5],
            title: format!("{}{}", HOSTILE[n as usize % HOSTILE.len()], "y".repeat(n as usize * 3)),
            count: u64::from(n),
            until: (n % 3 == 0).then(|| format!("2025-09-15T{:02}:30:00Z", n / 8)),
            evidence: Evidence::at("journal", n, "…"),
            silence: (n % 8 == 0).then_some(3_000),
        });
    }
}
