//! Whether a machine has really joined (and how far), judged from what was seen of it.
//!
//! `verify` fills a [`Seen`] at once, `join` event by event; both are judged by the same items. What was not seen is
//! unknown, and what is unknown does not hold. kubeadm's word, a file's existence and healthz are not among the evidence.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::check::{Evidence, Outcome, Subsystem, Verdict, fail, pass, skip, unknown};
use crate::fact::cidr::Cidr;
use crate::fact::{Missing, Why};
use crate::report::Judged;

/// How far is far enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// The Node is this machine's, and its kubelet renews its lease.
    Registered,
    /// The pod network is there.
    Network,
    /// A pod could run: Ready, and a sandbox got an address.
    #[default]
    Verified,
}

impl Until {
    pub fn name(self) -> &'static str {
        match self {
            Until::Registered => "registered",
            Until::Network => "network",
            Until::Verified => "verified",
        }
    }
}

impl std::str::FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Until::Registered, Until::Network, Until::Verified].into_iter().find(|until| until.name() == text);
        found.ok_or_else(|| format!("{text:?} is not one of registered, network, verified"))
    }
}

/// What was seen of a machine that has joined, or is about to; of each thing the last look, or why there was none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub kubelet: Result<Kubelet, Why>,
    pub request: Result<CertificateRequest, Why>,
    pub certificate: Result<Certificate, Why>,
    pub cluster: Result<Cluster, Why>,
    pub node: Result<Node, Why>,
    pub lease: Result<Lease, Why>,
    pub runtime: Result<Runtime, Why>,
    pub sandbox: Result<Sandbox, Why>,
    /// The node's CNI and kube-proxy pods, watched for a while (`--soak`).
    pub pods: Result<Vec<Pod>, Why>,
}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            kubelet: Err(Why::NotCollected),
            request: Err(Why::NotCollected),
            certificate: Err(Why::NotCollected),
            cluster: Err(Why::NotCollected),
            node: Err(Why::NotCollected),
            lease: Err(Why::NotCollected),
            runtime: Err(Why::NotCollected),
            sandbox: Err(Why::NotCollected),
            pods: Err(Why::NotCollected),
        }
    }
}

/// `kubelet.service` and the process in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kubelet {
    pub active: bool,
    /// It has no `--kubeconfig`.
    pub standalone: bool,
    /// Since it was last started by hand or by kubeadm.
    pub restarts: u64,
    /// How it last ended.
    pub exit: Option<i32>,
    pub started_at: Option<Timestamp>,
}

/// The kubelet's request for its certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateRequest {
    pub name: String,
    pub state: Signing,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signing {
    Pending,
    /// Approved; the certificate may still be on its way.
    Approved,
    Denied {
        why: String,
    },
    Failed {
        why: String,
    },
}

/// `kubelet-client-current.pem`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certificate {
    /// Of this cluster's CA, for this node, and in date.
    Trusted,
    /// Of another cluster, for another node, or out of date.
    Stale { why: String },
}

/// The CA the kubelet trusts, and the one of the cluster that was asked for, as pins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    pub own: String,
    pub asked: String,
}

/// The Node of this machine's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    /// [`crate::fact::identity::Identity::is`]: `None` where the ids are empty or shared and prove nothing.
    pub identity: Option<bool>,
    /// Its ids and address, as a person compares them.
    pub whose: String,
    pub ready: bool,
    /// Reason and message of the condition Ready.
    pub says: String,
    /// The reason, where `NetworkUnavailable` is True.
    pub network_unavailable: Option<String>,
}

/// What two looks at the node's lease saw; the first was taken after this kubelet came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub first: Renewal,
    pub last: Renewal,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// `metadata.resourceVersion`: that it is another one is all that it says.
    pub version: String,
    /// By the clock of the kubelet that renewed it.
    pub renewed_at: Option<Timestamp>,
}

/// CRI's Status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    pub ready: bool,
    pub network_ready: bool,
    /// Of the condition that does not hold.
    pub says: String,
}

/// A throw-away sandbox that got an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    pub address: IpAddr,
    /// Where a pod's address on this node comes from, as CIDRs; empty where nobody knows.
    pub expected: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    pub name: String,
    /// Restarts while it was watched.
    pub restarts: u64,
    /// Why it last ended.
    pub why: String,
}

/// One piece of the evidence.
pub struct Item {
    pub id: &'static str,
    /// What holds where it passes, and why it matters: the text of `carrick explain`.
    pub explain: &'static str,
    pub subsystem: Subsystem,
    /// From where on it is needed.
    pub far: Until,
    judge: fn(&Seen) -> Verdict,
}

/// All of it, in the order in which it comes true.
pub const ITEMS: [Item; 11] = [
    Item {
        id: "verify.kubelet",
        explain: "The kubelet runs, with a kubeconfig. Without one it runs alone (standalone): healthy, and in no cluster.",
        subsystem: Subsystem::Kubelet,
        far: Until::Registered,
        judge: kubelet,
    },
    Item {
        id: "verify.certificate",
        explain: "The kubelet's client certificate is of this cluster's CA, for this node, and in date. kubeadm takes any that is \
                  there for a join that worked.",
        subsystem: Subsystem::Kubelet,
        far: Until::Registered,
        judge: certificate,
    },
    Item {
        id: "verify.cluster",
        explain: "The cluster the kubelet belongs to is the one that was asked for: both have the same CA.",
        subsystem: Subsystem::ControlPlane,
        far: Until::Registered,
        judge: cluster,
    },
    Item {
        id: "verify.identity",
        explain: "The Node of this name is this machine's, by system UUID and machine-id. A name alone proves nothing: kubeadm takes \
                  over the Node of a machine that is down without a word.",
        subsystem: Subsystem::ControlPlane,
        far: Until::Registered,
        judge: identity,
    },
    Item {
        id: "verify.lease",
        explain: "The node's lease was renewed since this kubelet started: it is this kubelet, now, that the API server hears.",
        subsystem: Subsystem::Kubelet,
        far: Until::Registered,
        judge: lease,
    },
    Item {
        id: "verify.runtime-network",
        explain: "The container runtime says NetworkReady: it has read a CNI configuration.",
        subsystem: Subsystem::Cni,
        far: Until::Network,
        judge: runtime_network,
    },
    Item {
        id: "verify.network-available",
        explain: "The Node's condition NetworkUnavailable is absent or False: no network agent says that it is still at work.",
        subsystem: Subsystem::Network,
        far: Until::Network,
        judge: network_available,
    },
    Item {
        id: "verify.ready",
        explain: "The Node is Ready, as the API server has it.",
        subsystem: Subsystem::Kubelet,
        far: Until::Verified,
        judge: ready,
    },
    Item {
        id: "verify.sandbox",
        explain: "A sandbox, made by the runtime as for a pod, got an address. A node can be Ready and unable to start any pod: the \
                  runtime does not look whether the CNI plugins are there.",
        subsystem: Subsystem::Cni,
        far: Until::Verified,
        judge: sandbox,
    },
    Item {
        id: "verify.address",
        explain: "That address is of the range the cluster gave to this node. Another comes from a bridge or a configuration that an \
                  earlier cluster left, and no other node can reach it.",
        subsystem: Subsystem::Network,
        far: Until::Verified,
        judge: address,
    },
    Item {
        id: "verify.restarts",
        explain: "The node's CNI and kube-proxy pods stay up while they are watched (--soak): with the wrong cgroup driver they die \
                  after a minute, again and again.",
        subsystem: Subsystem::Cni,
        far: Until::Verified,
        judge: restarts,
    },
];

/// Every item, judged; what is beyond the goal is skipped.
pub fn judge(seen: &Seen, until: Until) -> Vec<Judged> {
    let judged = |item: &Item| {
        let asked = item.far <= until;
        let verdict = if asked { (item.judge)(seen) } else { skip(format!("not asked for: --until {}", until.name())) };
        Judged::of(item.id, item.subsystem, verdict)
    };
    ITEMS.iter().map(judged).collect()
}

/// All the evidence is there. Nothing may be unknown.
pub fn holds(seen: &Seen, until: Until) -> bool {
    let outcomes = ITEMS.iter().filter(|item| item.far <= until).map(|item| (item.judge)(seen).outcome);
    outcomes.into_iter().all(|outcome| matches!(outcome, Outcome::Pass | Outcome::Skip))
}

/// The first thing that is still missing, as the live line says it.
pub fn first_missing(seen: &Seen, until: Until) -> Option<(&'static str, String)> {
    let asked = ITEMS.iter().filter(|item| item.far <= until);
    asked
        .map(|item| (item.id, (item.judge)(seen)))
        .find(|(_, verdict)| !matches!(verdict.outcome, Outcome::Pass | Outcome::Skip))
        .map(|(id, verdict)| (id, verdict.says))
}

/// Takes what was seen, or ends as unknown. That nothing is there is for the item itself to judge.
macro_rules! seen {
    ($what:literal, $sight:expr) => {
        match $sight {
            Ok(value) => value,
            Err(why) => return unknown(&Missing { source_name: $what.to_owned(), why: why.clone() }),
        }
    };
}

fn kubelet(seen: &Seen) -> Verdict {
    let kubelet = seen!("kubelet.service", &seen.kubelet);
    let source = "systemctl show kubelet";
    if kubelet.standalone {
        return fail("the kubelet has no --kubeconfig: it runs alone")
            .seen(Evidence::of(source, "ExecStart without --kubeconfig"))
            .fix("carrick check --fix       # restores the kubeadm drop-in")
            .explains(["kubelet.standalone"]);
    }
    if !kubelet.active {
        let exit = kubelet.exit.map_or_else(String::new, |exit| format!(", status {exit}"));
        return fail("the kubelet does not run")
            .seen(Evidence::of(source, format!("not active, {} restarts{exit}", kubelet.restarts)))
            .fix("journalctl -u kubelet -n 30 --no-pager    # the last error says why")
            .explains(["kubelet.not-running"]);
    }
    pass("the kubelet runs, with a kubeconfig")
}

fn certificate(seen: &Seen) -> Verdict {
    match seen!("kubelet-client-current.pem", &seen.certificate) {
        Certificate::Trusted => pass("the kubelet's certificate is of this cluster, for this node"),
        Certificate::Stale { why } => fail(format!("the kubelet's certificate is stale: {why}"))
            .seen(Evidence::of(crate::fact::pki::CLIENT, why))
            .fix("carrick reset && carrick join …")
            .explains(["stale.client-certificate"]),
    }
}

fn cluster(seen: &Seen) -> Verdict {
    match &seen.cluster {
        Err(Why::NotCollected | Why::NotAsked) => skip("no other cluster was asked for"),
        Ok(Cluster { own, asked }) if own == asked => pass("it is the cluster that was asked for"),
        Ok(Cluster { own, asked }) => fail("this machine belongs to another cluster")
            .seen([Evidence::of("kubelet.conf", format!("CA {own}")), Evidence::of("asked for", format!("CA {asked}"))])
            .fix("carrick reset      # takes it out of the other one")
            .explains(["stale.kubelet-conf"]),
        Err(why) => unknown(&Missing { source_name: "the cluster's CA".to_owned(), why: why.clone() }),
    }
}

fn identity(seen: &Seen) -> Verdict {
    if seen.node == Err(Why::Absent) {
        return fail("there is no Node of this name")
            .seen(Evidence::of("API server", "not found"))
            .fix("journalctl -u kubelet -n 50 --no-pager | grep -i regist")
            .explains(["node.never-registered"]);
    }
    let node = seen!("Node", &seen.node);
    let evidence = Evidence::of(format!("Node {}", node.name), node.whose.as_str());
    match node.identity {
        Some(true) => pass(format!("node {} is this machine", node.name)),
        Some(false) => fail(format!("the Node {} is another machine's", node.name))
            .seen(evidence)
            .fix("hostnamectl hostname NEW-NAME, then carrick reset and carrick join")
            .explains(["api.node-name"]),
        None => {
            unknown(&Missing::broken(format!("Node {}", node.name), "its ids are empty or shared: they prove nothing"))
                .seen(evidence)
                .fix("carrick explain machine.machine-id")
        }
    }
}

fn lease(seen: &Seen) -> Verdict {
    if seen.lease == Err(Why::Absent) {
        return fail("the node has no lease: its kubelet never reached the API server")
            .seen(Evidence::of("API server", "no lease of this name in kube-node-lease"))
            .fix("journalctl -u kubelet -n 50 --no-pager | grep -i lease");
    }
    let lease = seen!("lease", &seen.lease);
    let started = seen.kubelet.as_ref().ok().and_then(|kubelet| kubelet.started_at);
    let moved = lease.first.version != lease.last.version;
    // Both by the clock of this machine, where the kubelet that renews it is this one.
    let since = lease.last.renewed_at.zip(started).is_some_and(|(renewed, started)| renewed >= started);
    if moved || since {
        return pass("its lease is renewing");
    }
    let renewed = lease.last.renewed_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
    unknown(&Missing::broken("lease", "not seen renewed since this kubelet started"))
        .seen(Evidence::of("lease", format!("renewed {renewed}, resourceVersion {}", lease.last.version)))
}

fn runtime_network(seen: &Seen) -> Verdict {
    let runtime = seen!("container runtime", &seen.runtime);
    if runtime.ready && runtime.network_ready {
        return pass("the runtime's pod network is ready");
    }
    let what = if runtime.ready { "NetworkReady" } else { "RuntimeReady" };
    fail(format!("the container runtime does not say {what}"))
        .seen(Evidence::of("CRI Status", runtime.says.as_str()))
        .fix("carrick diagnose")
        .explains(["node.network-not-ready"])
}

fn network_available(seen: &Seen) -> Verdict {
    match &seen!("Node", &seen.node).network_unavailable {
        None => pass("no network agent says that it is unavailable"),
        Some(reason) => fail("the node's network is unavailable")
            .seen(Evidence::of("Node condition NetworkUnavailable", reason))
            .fix("kubectl get pods -A -o wide --field-selector spec.nodeName=NODE      # the network agent's log says why")
            .explains(["node.network-unavailable"]),
    }
}

fn ready(seen: &Seen) -> Verdict {
    let node = seen!("Node", &seen.node);
    if node.ready {
        return pass(format!("node {} is Ready", node.name));
    }
    fail(format!("node {} is not Ready", node.name))
        .seen(Evidence::of("Node condition Ready", node.says.as_str()))
        .fix("carrick diagnose")
        .explains(["node.not-ready"])
}

fn sandbox(seen: &Seen) -> Verdict {
    match &seen.sandbox {
        Ok(sandbox) => pass(format!("a sandbox got the address {}", sandbox.address)),
        Err(Why::Broken(why)) => fail("no pod could start here: a sandbox got no address")
            .seen(Evidence::of("CRI RunPodSandbox", why))
            .fix("carrick diagnose")
            .explains(["pod.no-address"]),
        Err(why) => unknown(&Missing { source_name: "sandbox".to_owned(), why: why.clone() }),
    }
}

fn address(seen: &Seen) -> Verdict {
    let sandbox = seen!("sandbox", &seen.sandbox);
    let ranges: Vec<Cidr> = sandbox.expected.iter().filter_map(|range| range.parse().ok()).collect();
    if ranges.is_empty() {
        return skip("where pods get their addresses from is not known");
    }
    if ranges.iter().any(|range| range.contains(sandbox.address)) {
        return pass(format!("{} is of this node's range", sandbox.address));
    }
    let expected = sandbox.expected.join(", ");
    fail(format!("{} is not of this node's range", sandbox.address))
        .seen(Evidence::of("sandbox", format!("{}, expected {expected}", sandbox.address)))
        .fix("carrick explain cni.stale-bridge")
        .explains(["cni.stale-bridge"])
}

fn restarts(seen: &Seen) -> Verdict {
    let pods = match &seen.pods {
        Err(Why::NotCollected | Why::NotAsked) => return skip("not watched: --soak 3m does"),
        sight => seen!("the node's pods", sight),
    };
    let Some(worst) = pods.iter().max_by_key(|pod| pod.restarts).filter(|pod| pod.restarts > 0) else {
        return pass(format!("{} pods stayed up", pods.len()));
    };
    fail(format!("{} restarted {} times while it was watched", worst.name, worst.restarts))
        .seen(
            pods.iter()
                .filter(|pod| pod.restarts > 0)
                .map(|pod| Evidence::of(pod.name.as_str(), format!("{} restarts, last: {}", pod.restarts, pod.why))),
        )
        .fix("carrick diagnose")
        .explains(["runtime.cgroup-driver"])
}

/// A machine that has joined, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod sample {
    use super::{
        Certificate, CertificateRequest, IpAddr, Kubelet, Lease, Node, Renewal, Runtime, Sandbox, Seen, Signing,
        Timestamp,
    };

    pub const STARTED: Timestamp = Timestamp::constant(1_794_744_000, 0);

    pub fn renewal(version: &str, seconds: i64) -> Renewal {
        Renewal { version: version.into(), renewed_at: Timestamp::from_second(STARTED.as_second() + seconds).ok() }
    }

    pub fn node() -> Node {
        Node {
            name: "w1".into(),
            identity: Some(true),
            whose: "systemUUID a, machineID b, 10.0.0.21".into(),
            ready: true,
            says: "KubeletReady".into(),
            network_unavailable: None,
        }
    }

    pub fn joined() -> Seen {
        Seen {
            kubelet: Ok(Kubelet { active: true, started_at: Some(STARTED), ..Kubelet::default() }),
            request: Ok(CertificateRequest { name: "csr-1".into(), state: Signing::Approved }),
            certificate: Ok(Certificate::Trusted),
            node: Ok(node()),
            lease: Ok(Lease { first: renewal("1", 2), last: renewal("2", 12) }),
            runtime: Ok(Runtime { ready: true, network_ready: true, says: String::new() }),
            sandbox: Ok(Sandbox { address: IpAddr::from([10, 244, 1, 7]), expected: vec!["10.244.1.0/24".into()] }),
            ..Seen::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sample::{joined, node, renewal};
    use super::*;
    use Outcome::{Fail, Pass, Skip, Unknown};

    fn verdict(seen: &Seen, id: &str) -> Verdict {
        (ITEMS.iter().find(|item| item.id == id).unwrap().judge)(seen)
    }

    type Row = (&'static str, &'static str, Seen, Outcome);

    /// A machine that has joined, but for this.
    fn with(change: fn(&mut Seen)) -> Seen {
        let mut seen = joined();
        change(&mut seen);
        seen
    }

    fn rows_of_registration() -> Vec<Row> {
        vec![
            ("verify.kubelet", "runs", joined(), Pass),
            (
                "verify.kubelet",
                "alone",
                with(|s| s.kubelet = Ok(Kubelet { active: true, standalone: true, ..Kubelet::default() })),
                Fail,
            ),
            ("verify.kubelet", "stopped", with(|s| s.kubelet = Ok(Kubelet::default())), Fail),
            ("verify.kubelet", "systemctl hangs", with(|s| s.kubelet = Err(Why::TimedOut)), Unknown),
            ("verify.certificate", "of this cluster", joined(), Pass),
            (
                "verify.certificate",
                "of another",
                with(|s| s.certificate = Ok(Certificate::Stale { why: "x".into() })),
                Fail,
            ),
            ("verify.certificate", "not there", with(|s| s.certificate = Err(Why::Absent)), Unknown),
            ("verify.cluster", "nobody asked", joined(), Skip),
            (
                "verify.cluster",
                "the same",
                with(|s| s.cluster = Ok(Cluster { own: "a".into(), asked: "a".into() })),
                Pass,
            ),
            (
                "verify.cluster",
                "another",
                with(|s| s.cluster = Ok(Cluster { own: "a".into(), asked: "b".into() })),
                Fail,
            ),
            ("verify.cluster", "unreadable", with(|s| s.cluster = Err(Why::Denied)), Unknown),
            ("verify.identity", "this machine", joined(), Pass),
            (
                "verify.identity",
                "another machine",
                with(|s| s.node = Ok(Node { identity: Some(false), ..node() })),
                Fail,
            ),
            ("verify.identity", "shared ids", with(|s| s.node = Ok(Node { identity: None, ..node() })), Unknown),
            ("verify.identity", "no such Node", with(|s| s.node = Err(Why::Absent)), Fail),
            ("verify.identity", "no API server", with(|s| s.node = Err(Why::TimedOut)), Unknown),
            ("verify.lease", "its version moved", joined(), Pass),
            (
                "verify.lease",
                "renewed since",
                with(|s| s.lease = Ok(Lease { first: renewal("1", 2), last: renewal("1", 2) })),
                Pass,
            ),
            (
                "verify.lease",
                "of the kubelet before",
                with(|s| s.lease = Ok(Lease { first: renewal("1", -9), last: renewal("1", -9) })),
                Unknown,
            ),
            (
                "verify.lease",
                "since when the kubelet runs is not known",
                with(|s| {
                    s.lease = Ok(Lease { first: renewal("1", 9), last: renewal("1", 9) });
                    s.kubelet = Ok(Kubelet { active: true, ..Kubelet::default() });
                }),
                Unknown,
            ),
            ("verify.lease", "none", with(|s| s.lease = Err(Why::Absent)), Fail),
            ("verify.lease", "denied", with(|s| s.lease = Err(Why::Denied)), Unknown),
        ]
    }

    fn rows_of_the_network() -> Vec<Row> {
        vec![
            ("verify.runtime-network", "ready", joined(), Pass),
            (
                "verify.runtime-network",
                "no CNI",
                with(|s| s.runtime = Ok(Runtime { ready: true, network_ready: false, says: "x".into() })),
                Fail,
            ),
            ("verify.runtime-network", "no answer", with(|s| s.runtime = Err(Why::TimedOut)), Unknown),
            ("verify.network-available", "nothing said", joined(), Pass),
            (
                "verify.network-available",
                "at work",
                with(|s| s.node = Ok(Node { network_unavailable: Some("NoRouteCreated".into()), ..node() })),
                Fail,
            ),
            ("verify.ready", "Ready", joined(), Pass),
            ("verify.ready", "NotReady", with(|s| s.node = Ok(Node { ready: false, ..node() })), Fail),
            ("verify.sandbox", "an address", joined(), Pass),
            (
                "verify.sandbox",
                "no plugin",
                with(|s| s.sandbox = Err(Why::Broken("failed to find plugin \"flannel\"".into()))),
                Fail,
            ),
            ("verify.sandbox", "not tried", with(|s| s.sandbox = Err(Why::NotCollected)), Unknown),
            ("verify.address", "of its range", joined(), Pass),
            (
                "verify.address",
                "of the cluster before",
                with(|s| {
                    s.sandbox =
                        Ok(Sandbox { address: IpAddr::from([10, 244, 9, 7]), expected: vec!["10.244.1.0/24".into()] });
                }),
                Fail,
            ),
            (
                "verify.address",
                "nobody knows",
                with(|s| s.sandbox = Ok(Sandbox { address: IpAddr::from([10, 0, 0, 1]), expected: vec![] })),
                Skip,
            ),
            ("verify.restarts", "not watched", joined(), Skip),
            (
                "verify.restarts",
                "stayed up",
                with(|s| s.pods = Ok(vec![Pod { name: "p".into(), restarts: 0, why: String::new() }])),
                Pass,
            ),
            (
                "verify.restarts",
                "again and again",
                with(|s| s.pods = Ok(vec![Pod { name: "p".into(), restarts: 2, why: "Error 2".into() }])),
                Fail,
            ),
            ("verify.restarts", "denied", with(|s| s.pods = Err(Why::Denied)), Unknown),
        ]
    }

    #[test]
    fn judges_each_piece() {
        let rows: Vec<Row> = rows_of_registration().into_iter().chain(rows_of_the_network()).collect();
        for (id, name, seen, expected) in &rows {
            let verdict = verdict(seen, id);
            assert_eq!(verdict.outcome, *expected, "{id}, {name}: {}", verdict.says);
            if *expected == Fail {
                assert!(!verdict.evidence.is_empty() && !verdict.remedy.is_empty(), "{id}, {name}");
                assert!(!holds(seen, Until::Verified), "{id}, {name}");
            }
        }
        for item in &ITEMS {
            let of: Vec<Outcome> = rows.iter().filter(|row| row.0 == item.id).map(|row| row.3).collect();
            assert!(of.contains(&Pass) && of.contains(&Fail), "{}", item.id);
            assert!(item.id.starts_with("verify.") && !item.explain.is_empty());
        }
    }

    #[test]
    fn nothing_seen_holds_nothing() {
        for until in [Until::Registered, Until::Network, Until::Verified] {
            assert!(!holds(&Seen::default(), until));
            assert!(holds(&joined(), until));
            assert!(judge(&Seen::default(), until).iter().all(|judged| matches!(judged.verdict, Unknown | Skip)));
            assert_eq!(first_missing(&Seen::default(), until).map(|it| it.0), Some("verify.kubelet"));
            assert_eq!(until.name().parse(), Ok(until));
        }
        assert!("ready".parse::<Until>().is_err());
    }

    #[test]
    fn how_far_decides_what_is_needed() {
        let mut seen = joined();
        seen.sandbox = Err(Why::NotCollected);
        assert!(holds(&seen, Until::Network) && !holds(&seen, Until::Verified));
        seen.runtime = Err(Why::TimedOut);
        assert!(holds(&seen, Until::Registered) && !holds(&seen, Until::Network));
        let skipped = judge(&seen, Until::Registered).iter().filter(|it| it.verdict == Skip).count();
        assert_eq!(skipped, 7);
    }

    #[test]
    fn every_id_that_is_named_can_be_explained() {
        let signatures = crate::signature::built_in().unwrap();
        let mut worst = Seen {
            node: Ok(Node { identity: Some(false), ready: false, network_unavailable: Some("x".into()), ..node() }),
            ..joined()
        };
        worst.kubelet = Ok(Kubelet { standalone: true, ..Kubelet::default() });
        worst.certificate = Ok(Certificate::Stale { why: "x".into() });
        worst.cluster = Ok(Cluster { own: "a".into(), asked: "b".into() });
        worst.runtime = Ok(Runtime { ready: false, network_ready: false, says: "x".into() });
        worst.sandbox = Ok(Sandbox { address: IpAddr::from([1, 1, 1, 1]), expected: vec!["10.0.0.0/8".into()] });
        worst.pods = Ok(vec![Pod { name: "p".into(), restarts: 2, why: "x".into() }]);
        let named = judge(&worst, Until::Verified).into_iter().flat_map(|judged| judged.explains);
        for id in named.chain(["node.never-registered", "kubelet.not-running", "pod.no-address"]) {
            assert!(crate::check::ids().any(|known| known == id) || signatures.iter().any(|it| it.id == id), "{id}");
        }
    }
}
