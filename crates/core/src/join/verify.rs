//! Whether a machine has really joined (and how far), judged from what was seen of it.
//!
//! `verify` fills a [`Seen`] at once, `join` event by event; both are judged by the same items. What was not seen is
//! unknown, and what is unknown does not hold. kubeadm's word, a file's existence and healthz are not among the evidence.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::check::{Evidence, Outcome, Subsystem, Verdict, fail, pass, skip};
use crate::fact::cidr::Cidr;
use crate::fact::{Missing, Why};
use crate::report::{self, Cause, Confidence, Judged, Reached, Report};

/// How far is far enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The node's CNI and kube-proxy pods, watched for a while (`--soak`); without that, those caught in a loop.
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
    /// By the API server's clock, in whole seconds.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
    /// When it was looked at, by this machine's clock.
    #[serde(default)]
    pub seen_at: Option<Timestamp>,
}

impl Node {
    /// A kubelet that is up before its Node asks for a lease in vain, and again 10 s later. Until then a Node that was made
    /// since it started is its word: nobody else makes one with this machine's ids.
    fn is_too_young_for_a_lease(&self, kubelet: &Kubelet) -> bool {
        const NEXT_TRY: SignedDuration = SignedDuration::from_secs(15);
        // Between the clocks of two machines, of which `time.skew` has judged.
        const APART: SignedDuration = SignedDuration::from_secs(5);
        let (Some(created), Some(seen), Some(started)) = (self.created_at, self.seen_at, kubelet.started_at) else {
            return false;
        };
        let age = seen.duration_since(created);
        let made_since = created.duration_since(started) >= -APART;
        kubelet.active && self.identity == Some(true) && made_since && age >= -APART && age <= NEXT_TRY
    }
}

/// What two looks at the node's lease saw; the first was taken after this kubelet came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub first: Renewal,
    pub last: Renewal,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// `metadata.resourceVersion`: that it is another one is all that it says.
    pub version: String,
    /// By the clock of the kubelet that renewed it.
    pub renewed_at: Option<Timestamp>,
    /// When it was looked at, by this machine's clock.
    #[serde(default)]
    pub seen_at: Option<Timestamp>,
    /// For how many seconds it is good; a kubelet renews it four times in that.
    #[serde(default)]
    pub lasts: Option<u32>,
}

impl Renewal {
    /// For how long it is good; kubeadm's kubelets ask for 40 s.
    pub fn lasts(&self) -> SignedDuration {
        SignedDuration::from_secs(self.lasts.map_or(40, i64::from))
    }

    /// It was renewed when the last renewal was due. A minute's quarter of slack is a busy machine's, not a dead one's.
    fn is_on_time(&self) -> bool {
        let Some((seen, renewed)) = self.seen_at.zip(self.renewed_at) else { return true };
        let age = seen.duration_since(renewed);
        // Over SSH this machine's clock is known to a second or two.
        age > SignedDuration::from_secs(-5) && age <= self.lasts() / 3
    }

    /// For how long nobody has renewed it who could have: since the last time, or since the kubelet runs.
    fn silence(&self, started: Option<Timestamp>) -> Option<SignedDuration> {
        let since = self.renewed_at.max(started)?;
        Some(self.seen_at?.duration_since(since))
    }
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
    /// Where a pod's address on this node comes from, as CIDRs; empty where its network allots them by itself.
    pub expected: Vec<String>,
    /// The pod that has it, where the network's plugin serves nobody but the cluster's own Pods.
    #[serde(default)]
    pub pod: Option<String>,
    /// Why it could not be taken away again; the next one does that.
    #[serde(default)]
    pub left: Option<String>,
}

impl Sandbox {
    pub fn new(address: IpAddr, expected: Vec<String>) -> Self {
        Sandbox { address, expected, pod: None, left: None }
    }

    /// Whether its address is of this node's range; `None`: its network allots them by itself.
    pub fn is_in_range(&self) -> Option<bool> {
        let ranges: Vec<Cidr> = self.expected.iter().filter_map(|range| range.parse().ok()).collect();
        (!ranges.is_empty()).then(|| ranges.iter().any(|range| range.contains(self.address)))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    pub name: String,
    /// Restarts while it was watched.
    pub restarts: u64,
    /// Why it last ended.
    pub why: String,
    /// What a container of it waits for instead of running: `CrashLoopBackOff`.
    #[serde(default)]
    pub down: Option<String>,
}

/// One piece of the evidence.
pub struct Item {
    pub id: &'static str,
    /// What holds where it passes.
    pub title: &'static str,
    /// What it means, why it matters, how to see and mend it: the text of `carrick explain`.
    pub explain: &'static str,
    pub subsystem: Subsystem,
    /// From where on it is needed.
    pub far: Until,
    /// What it cannot hold without. Where one of these fails, what is not known of this one is no news.
    after: &'static [&'static str],
    judge: fn(&Seen) -> Verdict,
}

/// All of it, in the order in which it comes true.
pub const ITEMS: [Item; 11] = [
    Item {
        id: "verify.kubelet",
        title: "the kubelet runs, with a kubeconfig",
        explain: "The kubelet runs, with a kubeconfig.\n\n\
            Without one it runs alone (standalone): healthy, answering healthz, and in no cluster. kubeadm does not look.\n\n\
            See it yourself: `systemctl status kubelet`, `ps -ww -C kubelet -o args`\n\
            Mend it: `journalctl -u kubelet -n 30` says why it ended; `carrick check --fix` restores a lost drop-in",
        subsystem: Subsystem::Kubelet,
        far: Until::Registered,
        after: &[],
        judge: kubelet,
    },
    Item {
        id: "verify.cluster",
        title: "it is the cluster that was asked for",
        explain: "The cluster the kubelet belongs to is the one that was asked for with --api: both have the same CA.\n\n\
            A machine that still belongs to an earlier cluster looks joined in every way but this. Without --api nothing is \
            compared.\n\n\
            See it yourself: `grep server: /etc/kubernetes/kubelet.conf`\n\
            Mend it: `carrick reset` takes it out of the other cluster; then join it",
        subsystem: Subsystem::ControlPlane,
        far: Until::Registered,
        after: &[],
        judge: cluster,
    },
    Item {
        id: "verify.certificate",
        title: "the kubelet's certificate is accepted",
        explain: "The kubelet's client certificate is of this cluster's CA, for this node, in date, and the API server takes it.\n\n\
            kubeadm takes any certificate that is there for a join that worked: with one of an earlier cluster it says \"This node \
            has joined the cluster\", and the API server answers Unauthorized for ever. A machine that never joined has none.\n\n\
            See it yourself: `openssl x509 -noout -subject -issuer -dates -in /var/lib/kubelet/pki/kubelet-client-current.pem`\n\
            Mend it: `carrick reset`, then join it again",
        subsystem: Subsystem::Kubelet,
        far: Until::Registered,
        after: &["verify.cluster"],
        judge: certificate,
    },
    Item {
        id: "verify.identity",
        title: "the Node of this name is this machine",
        explain: "The Node of this name is this machine's, by system UUID and machine-id.\n\n\
            A name alone proves nothing: kubeadm takes over the Node of a machine that is down without a word. A Node that \
            somebody deleted does not come back by itself: a kubelet registers only when it starts.\n\n\
            See it yourself: `kubectl get node NAME -o jsonpath={.status.nodeInfo}`, `cat /sys/class/dmi/id/product_uuid /etc/machine-id`\n\
            Mend it: `systemctl restart kubelet` where the Node was deleted; another name where it is another machine's",
        subsystem: Subsystem::ControlPlane,
        far: Until::Registered,
        after: &["verify.kubelet", "verify.cluster", "verify.certificate"],
        judge: identity,
    },
    Item {
        id: "verify.lease",
        title: "the node's lease is renewing",
        explain: "The node's lease was renewed since this kubelet started: it is this kubelet, now, that the API server hears.\n\n\
            A kubelet renews it every 10 s. The Node itself stays Ready for most of a minute after its kubelet fell silent, so \
            that Ready alone is news of yesterday. In its first seconds a Node has no lease yet: that it was made since this kubelet \
            started says as much.\n\n\
            See it yourself: `kubectl -n kube-node-lease get lease NAME -o jsonpath={.spec.renewTime}`, twice\n\
            Mend it: `journalctl -u kubelet -n 50 | grep -i lease` says why; a kubelet that hangs wants `systemctl restart kubelet`",
        subsystem: Subsystem::Kubelet,
        far: Until::Registered,
        after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity"],
        judge: lease,
    },
    Item {
        id: "verify.runtime-network",
        title: "the runtime has a pod network",
        explain: "The container runtime says NetworkReady: it has read a CNI configuration.\n\n\
            Until then no pod outside the host's network starts. Before a pod network is deployed this is as it should be: \
            --until registered asks for no more.\n\n\
            See it yourself: `crictl info`, `ls /etc/cni/net.d`\n\
            Mend it: `carrick diagnose` says what the network waits for",
        subsystem: Subsystem::Cni,
        far: Until::Network,
        after: &[],
        judge: runtime_network,
    },
    Item {
        id: "verify.network-available",
        title: "no network agent says that it is still at work",
        explain: "The Node's condition NetworkUnavailable is absent or False: no network agent says that it is still at work.\n\n\
            See it yourself: `kubectl describe node NAME`\n\
            Mend it: the log of the network's agent on this node says what it waits for",
        subsystem: Subsystem::Network,
        far: Until::Network,
        after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity"],
        judge: network_available,
    },
    Item {
        id: "verify.ready",
        title: "the Node is Ready",
        explain: "The Node is Ready, as the API server has it.\n\n\
            See it yourself: `kubectl describe node NAME`\n\
            Mend it: `carrick diagnose` says what keeps it from being Ready",
        subsystem: Subsystem::Kubelet,
        far: Until::Verified,
        after: &[
            "verify.kubelet",
            "verify.cluster",
            "verify.certificate",
            "verify.identity",
            "verify.lease",
            "verify.runtime-network",
        ],
        judge: ready,
    },
    Item {
        id: "verify.sandbox",
        title: "a sandbox gets an address",
        explain: "A sandbox, made by the runtime as for a pod, got an address. It is taken away again.\n\n\
            A node can be Ready and unable to start any pod: the runtime does not look whether the CNI plugins are there. It is \
            tried only where nothing before it fails. The plugins of some networks (calico, cilium) serve nobody but the \
            cluster's own Pods: there a running pod of this node that has an address is the proof.\n\n\
            See it yourself: `kubectl run try --image=registry.k8s.io/pause:3.10 --overrides='{\"spec\":{\"nodeName\":\"NAME\"}}'`\n\
            Mend it: the runtime's own words say what is missing; `carrick diagnose` says why",
        subsystem: Subsystem::Cni,
        far: Until::Verified,
        after: &[
            "verify.kubelet",
            "verify.cluster",
            "verify.certificate",
            "verify.identity",
            "verify.lease",
            "verify.runtime-network",
            "verify.network-available",
        ],
        judge: sandbox,
    },
    Item {
        id: "verify.address",
        title: "the address is of the node's own range",
        explain: "The sandbox's address is of the range the cluster gave to this node.\n\n\
            Another comes from a bridge or a configuration that an earlier cluster or a package left, and no other node can reach \
            it. Networks that allot addresses by themselves (calico, cilium) are not held to the Node's podCIDR.\n\n\
            See it yourself: `kubectl get node NAME -o jsonpath={.spec.podCIDRs}`, `ip address show cni0`, `ls /etc/cni/net.d`\n\
            Mend it: move the file that comes first by its name out of /etc/cni/net.d; `carrick explain cni.first-file-wins`",
        subsystem: Subsystem::Network,
        far: Until::Verified,
        after: &["verify.sandbox"],
        judge: address,
    },
    Item {
        id: "verify.restarts",
        title: "the network's agents stay up",
        explain: "The node's CNI and kube-proxy pods stay up while they are watched (--soak 3m).\n\n\
            With the wrong cgroup driver they die after a minute, again and again, on a node that is Ready. Without --soak only a \
            loop that is there already is told.\n\n\
            See it yourself: `kubectl get pods -A -o wide --field-selector spec.nodeName=NAME`\n\
            Mend it: `kubectl logs --previous` of the pod says why it ended; `carrick explain runtime.cgroup-driver`",
        subsystem: Subsystem::Cni,
        far: Until::Verified,
        after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity"],
        judge: restarts,
    },
];

impl Item {
    /// Why it matters; where its text does not say so, what it is.
    fn why(&self) -> &'static str {
        let mut parts = self.explain.split("\n\n");
        let first = parts.next().unwrap_or_default();
        parts.next().filter(|part| !part.starts_with("See it yourself")).unwrap_or(first)
    }
}

pub fn find(id: &str) -> Option<&'static Item> {
    ITEMS.iter().find(|item| item.id.eq_ignore_ascii_case(id))
}

/// What `verify` has to say of a machine: every item, and of those that fail the causes, the first first.
pub fn report(host: &str, seen: &Seen, until: Until) -> Report {
    let findings = judge(seen, until);
    let causes = findings.iter().filter(|finding| finding.verdict == Outcome::Fail).map(|it| cause(it, &findings));
    let (causes, reached) = (causes.collect(), reached(&findings));
    Report { causes, reached: Some(Reached { until, reached }), ..report::of("verify", host, findings) }
}

/// A failure as a cause, with what does not hold because of it.
fn cause(failed: &Judged, findings: &[Judged]) -> Cause {
    let is_lost =
        |it: &&Judged| it.verdict != Outcome::Pass && find(it.id).is_some_and(|it| it.after.contains(&failed.id));
    let lost = findings.iter().filter(is_lost).map(|it| it.id);
    Cause {
        id: failed.id.to_owned(),
        confidence: Confidence::Certain,
        title: failed.title.clone(),
        why: find(failed.id).map(Item::why).unwrap_or_default().to_owned(),
        evidence: failed.evidence.clone(),
        remedy: failed.remedy.clone(),
        prevent: Vec::new(),
        explains: failed.explains.iter().copied().chain(lost).map(str::to_owned).collect(),
    }
}

/// How far the evidence reaches.
fn reached(findings: &[Judged]) -> Option<Until> {
    let holds = |until: Until| {
        let far = |it: &Judged| find(it.id).map(|item| item.far);
        let mut needed = findings.iter().filter(|it| far(it) <= Some(until));
        // What was not asked for is skipped, and skipped is not seen.
        let any = findings.iter().any(|it| far(it) == Some(until) && it.verdict == Outcome::Pass);
        any && needed.all(|it| matches!(it.verdict, Outcome::Pass | Outcome::Skip))
    };
    [Until::Verified, Until::Network, Until::Registered].into_iter().find(|until| holds(*until))
}

/// Every item, judged; what is beyond the goal is skipped, and what is not known because of a failure before it.
pub fn judge(seen: &Seen, until: Until) -> Vec<Judged> {
    // Each id that fails, or is not judged, with the failure behind it.
    let mut lost: Vec<(&'static str, &'static str)> = Vec::new();
    let mut judged = Vec::new();
    for item in &ITEMS {
        let asked = item.far <= until;
        let verdict = if asked { (item.judge)(seen) } else { skip(format!("not asked for: --until {}", until.name())) };
        let behind = lost.iter().find(|(id, _)| item.after.contains(id)).map(|(_, behind)| *behind);
        let verdict = match (verdict.outcome, behind) {
            (Outcome::Unknown, Some(behind)) => {
                lost.push((item.id, behind));
                skip(format!("not judged: see {behind}"))
            }
            _ => verdict,
        };
        if verdict.outcome == Outcome::Fail {
            lost.push((item.id, item.id));
        }
        judged.push(Judged::of(item.id, item.subsystem, verdict));
    }
    judged
}

/// What the lease is still waited for to show, where waiting makes sense: its kubelet runs, and it was not yet seen renewed.
pub fn awaits_renewal(seen: &Seen) -> Option<String> {
    let runs = kubelet(seen).outcome == Outcome::Pass && seen.lease.is_ok();
    Some(lease(seen)).filter(|verdict| runs && verdict.outcome == Outcome::Unknown).map(|verdict| verdict.says)
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
            Err(why) => return not_seen($what, why),
        }
    };
}

/// Never skipped, whatever the reason: a join is proven by what was seen.
fn not_seen(what: &str, why: &Why) -> Verdict {
    let says = match why {
        Why::NotCollected | Why::NotAsked | Why::NotAdmin => format!("cannot tell: {what}: nobody could look"),
        why => format!("cannot tell: {what}: {why}"),
    };
    let missing = Missing { source_name: what.to_owned(), why: why.clone() };
    Verdict { outcome: Outcome::Unknown, says, missing: Some(missing), ..skip("") }
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
    if !kubelet.active && seen.certificate == Err(Why::Absent) {
        return skip("before a join a kubelet has nothing to run with");
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
    if seen.certificate == Err(Why::Absent) {
        return fail("this machine has not joined: its kubelet has no certificate")
            .seen(Evidence::of(crate::fact::pki::CLIENT, "not there"))
            .fix("carrick join …")
            .fix("carrick diagnose    # where a join was tried")
            .explains(["node.never-registered"]);
    }
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
        Err(why) => not_seen("the cluster that was asked for", why),
    }
}

fn identity(seen: &Seen) -> Verdict {
    if seen.node == Err(Why::Absent) {
        return fail("there is no Node of this name")
            .seen(Evidence::of("API server", "not found"))
            .fix("systemctl restart kubelet    # where somebody deleted it: a kubelet registers when it starts")
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
            not_seen("whose Node it is", &Why::Broken("its ids are empty or shared: they prove nothing".to_owned()))
                .seen(evidence)
                .fix("carrick explain machine.machine-id")
        }
    }
}

fn lease(seen: &Seen) -> Verdict {
    if seen.lease == Err(Why::Absent) && seen.node == Err(Why::Absent) {
        return skip("without a Node there is none: see verify.identity");
    }
    if let (Err(Why::Absent), Ok(node), Ok(kubelet)) = (&seen.lease, &seen.node, &seen.kubelet)
        && node.is_too_young_for_a_lease(kubelet)
    {
        return pass("this kubelet has just made its Node; its lease comes within seconds");
    }
    if seen.lease == Err(Why::Absent) {
        return fail("the node has no lease: its kubelet never reached the API server")
            .seen(Evidence::of("API server", "no lease of this name in kube-node-lease"))
            .fix("journalctl -u kubelet -n 50 --no-pager | grep -i lease");
    }
    let lease = seen!("lease", &seen.lease);
    let runs = seen.kubelet.as_ref().ok().filter(|kubelet| kubelet.active);
    let started = runs.and_then(|kubelet| kubelet.started_at);
    let moved = lease.first.version != lease.last.version;
    // Both by the clock of this machine, where the kubelet that renews it is this one.
    let since = lease.last.renewed_at.zip(started).is_some_and(|(renewed, started)| renewed >= started);
    if moved || (since && lease.last.is_on_time()) {
        return pass("its lease is renewing");
    }
    let renewed = lease.last.renewed_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
    let evidence = Evidence::of("lease", format!("renewed {renewed}, resourceVersion {}", lease.last.version));
    let silence = lease.last.silence(started).filter(|silence| *silence >= lease.last.lasts());
    match silence {
        Some(silence) => fail(format!("its kubelet has not renewed its lease for {} s", silence.as_secs()))
            .seen(evidence)
            .fix("systemctl restart kubelet")
            .fix("journalctl -u kubelet -n 50 --no-pager | grep -i lease    # says why")
            .explains(["node.not-ready"]),
        None => {
            not_seen("lease", &Why::Broken("not seen renewed since this kubelet started".to_owned())).seen(evidence)
        }
    }
}

fn runtime_network(seen: &Seen) -> Verdict {
    let runtime = seen!("container runtime", &seen.runtime);
    if runtime.ready && runtime.network_ready {
        return pass("the runtime's pod network is ready");
    }
    if runtime.ready && seen.certificate == Err(Why::Absent) {
        return skip("before a join there is no pod network");
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
        Ok(Sandbox { address, pod: Some(pod), .. }) => pass(format!("pod {pod} has the address {address}")),
        Ok(Sandbox { address, left: None, .. }) => pass(format!("a sandbox got the address {address}")),
        Ok(Sandbox { address, left: Some(why), .. }) => {
            pass(format!("a sandbox got the address {address}; the next run takes it away: {why}"))
        }
        Err(Why::Broken(why)) => fail("no pod could start here: a sandbox got no address")
            .seen(Evidence::of("CRI RunPodSandbox", why))
            .fix("carrick diagnose")
            .explains(["pod.no-address"]),
        Err(Why::Absent) => not_seen(
            "sandbox",
            &Why::Broken("this pod network serves only Pods of the cluster, and none runs here yet".to_owned()),
        )
        .fix("kubectl get pods -A -o wide    # once one with an address of its own runs here: carrick verify"),
        Err(why) => not_seen("sandbox", why),
    }
}

fn address(seen: &Seen) -> Verdict {
    let sandbox = match &seen.sandbox {
        Ok(sandbox) => sandbox,
        Err(Why::Broken(_)) => return skip("there is none: see verify.sandbox"),
        Err(why) => return not_seen("sandbox", why),
    };
    match sandbox.is_in_range() {
        None => return skip("this pod network allots addresses by itself"),
        Some(true) => return pass(format!("{} is of this node's range", sandbox.address)),
        Some(false) => {}
    }
    let expected = sandbox.expected.join(", ");
    fail(format!("{} is not of this node's range", sandbox.address))
        .seen(Evidence::of("sandbox", format!("{}, expected {expected}", sandbox.address)))
        .fix("ls -l /etc/cni/net.d    # the first by name wins: move away what is not this cluster's")
        .fix("carrick explain cni.stale-bridge")
        .explains(["cni.stale-bridge"])
}

fn restarts(seen: &Seen) -> Verdict {
    let pods = match &seen.pods {
        Err(Why::NotCollected | Why::NotAsked) => return skip("not watched: --soak 3m does"),
        sight => seen!("the node's pods", sight),
    };
    let unsteady: Vec<&Pod> = pods.iter().filter(|pod| pod.restarts > 0 || pod.down.is_some()).collect();
    let Some(worst) = unsteady.iter().max_by_key(|pod| pod.restarts) else {
        // A network without a single agent on a node is none that could be watched.
        return match pods.len() {
            0 => not_seen("the node's network agents", &Why::Absent),
            count => pass(format!("{count} network agents stayed up")),
        };
    };
    let how = |pod: &Pod| match &pod.down {
        Some(down) => format!("{} restarts, now {down}; last: {}", pod.restarts, pod.why),
        None => format!("{} restarts; last: {}", pod.restarts, pod.why),
    };
    fail(format!("{} does not stay up", worst.name))
        .seen(unsteady.iter().map(|pod| Evidence::of(pod.name.as_str(), how(pod))))
        .fix(worst.name.split_once('/').map_or_else(
            || "carrick diagnose".to_owned(),
            |(namespace, pod)| format!("kubectl -n {namespace} logs --previous --all-containers {pod}"),
        ))
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
        let renewed_at = Timestamp::from_second(STARTED.as_second() + seconds).ok();
        Renewal { version: version.into(), renewed_at, ..Renewal::default() }
    }

    pub fn node() -> Node {
        Node {
            name: "w1".into(),
            identity: Some(true),
            whose: "systemUUID a, machineID b, 10.0.0.21".into(),
            ready: true,
            says: "KubeletReady".into(),
            network_unavailable: None,
            created_at: None,
            seen_at: None,
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
            sandbox: Ok(Sandbox::new(IpAddr::from([10, 244, 1, 7]), vec!["10.244.1.0/24".into()])),
            ..Seen::default()
        }
    }
}

#[cfg(test)]
mod tests;
