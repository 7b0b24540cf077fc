//! The looks a join and `verify` take: at the machine, at its Node, at its lease, at a sandbox.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carrick_cluster::nodes::KubeletAnswer;
use carrick_cluster::trial_pods::TrialPod;
use carrick_cluster::{
    ApiError, ApiProblem, ClusterClient, certificate_requests, daemon_sets, leases, nodes, pods, reviews,
};
use carrick_core::catalogue::About;
use carrick_core::check::Evidence;
use carrick_core::cni::Addresses;
use carrick_core::diagnose::BoundPods;
use carrick_core::fact::cni::{Candidate, is_conf_name};
use carrick_core::fact::identity::MachineIdentity;
use carrick_core::fact::{Facts, Why};
use carrick_core::id;
use carrick_core::join::existing::RequestedCluster;
use carrick_core::join::observed::{self, FreshPod, PeerPod};
use carrick_core::join::step::PodTrial;
use carrick_core::join::verify::{
    AgentPod, ClientCertificate, ContainerStart, Dialled, DialledFrom, KeptOff, KubeletReach, LeaseRenewal, Node, Peer,
    PeerDial, Sandbox, StandIn,
};
use carrick_core::judge::Ignore;
use carrick_host::cri::sandbox::{self, SandboxError};
use carrick_host::dial::dial;
use carrick_host::{Host, PathEntry, Probe, Progress, cri, gather};
use jiff::Timestamp;
use serde_json::Value;

use super::trial_pods::TrialPods;
use crate::credentials::{self, NoCredential};
use crate::health;

/// A look at the machine is over in 50 ms; one that takes longer than this is no look.
const RUNTIME: Duration = Duration::from_secs(3);
/// How often the API server is asked to reach a kubelet: one answer may be lost.
const ASKS: usize = 2;
/// Where kube-proxy tells of its rules, unless it is told another place.
const KUBE_PROXY_HEALTHZ: u16 = 10256;
/// Who is dialled, and how many are looked at for that.
const MOST_PEERS: usize = 3;
const MOST_ASKED: usize = 6;
/// The kernel asks again after one second, and after three.
const DIAL: Duration = Duration::from_secs(4);

/// Who looks, and at what.
#[derive(Clone)]
pub struct NodeObserver<'a> {
    machine: &'a Arc<dyn Host>,
    /// The same, to look at.
    pub(super) host: &'a dyn Host,
    /// The Node's name.
    pub node: String,
    pub identity: MachineIdentity,
    pub asked: RequestedCluster,
    /// Who asks as long as the kubelet has no certificate: a bootstrap token, or an admin.
    pub asker: Option<&'a ClusterClient>,
    /// The asker is an admin, and is asked first: the kubelet's own credential is only tried.
    pub by_admin: bool,
    /// That the kubelet starts containers is to be proven, by a Pod where there is none else.
    pub(super) proves_containers: bool,
    own: Option<ClusterClient>,
    /// Throw-away Pods that were made and not taken away yet; shared by all who look at this node together.
    pub(super) made: Arc<Mutex<Vec<TrialPod>>>,
}

impl<'a> NodeObserver<'a> {
    pub fn new(
        machine: &'a Arc<dyn Host>,
        node: String,
        identity: MachineIdentity,
        asker: Option<&'a ClusterClient>,
    ) -> Self {
        NodeObserver {
            machine,
            host: machine.as_ref(),
            node,
            identity,
            asked: RequestedCluster::default(),
            asker,
            by_admin: false,
            proves_containers: false,
            own: None,
            made: Arc::default(),
        }
    }

    /// The machine, to look at.
    pub(super) fn probe(&self) -> &dyn Probe {
        self.host
    }

    /// The machine, as far as a join changes it.
    pub async fn machine(&self) -> Facts {
        let probe: &dyn Probe = self.host;
        let progress = Progress::default();
        let endpoints = cri::endpoints(probe);
        let (seen, runtime) =
            tokio::join!(probe.observe(observed::WATCHED, &progress), cri::observe_status(probe, &endpoints, RUNTIME));
        gather(probe.name(), probe.now(), seen.into_iter().chain([runtime]).collect()).0
    }

    /// The kubelet has a certificate: from now on it is asked with that, as the node itself would.
    pub async fn take_own(&mut self) -> Result<(), NoCredential> {
        if self.own.is_none() {
            self.own = Some(credentials::of_kubelet(self.machine).await?);
        }
        Ok(())
    }

    /// Why the API server does not take the kubelet's certificate; `None` where it does, or cannot be asked.
    pub async fn own_is_refused(&mut self) -> Option<String> {
        self.own_is_taken().await.and_then(Result::err)
    }

    /// Of a certificate whose signer nobody here knows: what the API server says of it, where it says something.
    pub async fn settle(&mut self, certificate: &mut Result<ClientCertificate, Why>) {
        if *certificate != Ok(ClientCertificate::Unvouched) || self.take_own().await.is_err() {
            return;
        }
        match self.own_is_taken().await {
            Some(Ok(())) => *certificate = Ok(ClientCertificate::Trusted),
            Some(Err(why)) => *certificate = Ok(ClientCertificate::Stale { why }),
            None => {}
        }
    }

    /// Whether the API server takes the kubelet's certificate, or why not; `None` where it cannot be asked.
    async fn own_is_taken(&mut self) -> Option<Result<(), String>> {
        let own = self.own.as_ref()?;
        let error = match nodes::get(own, &self.node).await {
            Err(error) if !error.is_not_found() => error,
            _ => return Some(Ok(())),
        };
        let refused = match error.problem {
            // Whom the API server knows by its certificate, whatever it may.
            ApiProblem::Forbidden(_) if reviews::knows_us(own).await.ok()? => return Some(Ok(())),
            ApiProblem::Unauthorized(_) | ApiProblem::Forbidden(_) => {
                format!("the API server at {} does not accept it for {}", own.server(), self.node)
            }
            ApiProblem::UntrustedCa => format!("the API server is not of the cluster in kubelet.conf: {error}"),
            _ => return None,
        };
        self.own = None;
        Some(Err(refused))
    }

    /// Who is asked about the node, one after the other.
    fn clients(&self) -> impl Iterator<Item = &ClusterClient> {
        let (own, asker) = (self.own.as_ref(), self.asker);
        let (first, second) = if self.by_admin { (asker, own) } else { (own, asker) };
        first.into_iter().chain(second)
    }

    /// Nobody to ask: nobody looked. Whom the API server denies an answer, as an admin's kubeconfig that may only view, the next
    /// stands in for.
    async fn ask(&self, question: Question<'_>) -> Result<Value, Why> {
        let mut answer = Err(Why::NotCollected);
        for client in self.clients() {
            answer = match question {
                Question::Node => nodes::get(client, &self.node).await.map_err(Why::from),
                Question::Requests(named) => requests(client, &self.node, named).await,
                Question::Lease => leases::of_node(client, &self.node).await.map_err(Why::from),
                Question::Pods => pods::on_node(client, &self.node).await.map_err(Why::from),
            };
            if answer != Err(Why::Denied) {
                break;
            }
        }
        answer
    }

    pub fn can_ask(&self) -> bool {
        self.clients().next().is_some()
    }

    /// The Node of this name, as it is.
    pub async fn node_object(&self) -> Result<Value, Why> {
        self.ask(Question::Node).await
    }

    /// What this node's kubelets have asked to be signed; the one request alone where its name is known.
    pub async fn requests(&self, named: Option<&str>) -> Result<Value, Why> {
        self.ask(Question::Requests(named)).await
    }

    pub fn node(&self, object: &Result<Value, Why>) -> Result<Node, Why> {
        let object = object.as_ref().map_err(Clone::clone)?;
        Ok(Node { seen_at: Some(self.host.now()), ..observed::node(object, &self.identity) })
    }

    pub async fn lease(&self) -> Result<LeaseRenewal, Why> {
        let renewal = observed::renewal(&self.ask(Question::Lease).await?);
        Ok(LeaseRenewal { seen_at: Some(self.host.now()), ..renewal })
    }

    /// Why the API server would not take this node's lease, or its next renewal. Only the node itself is told.
    pub async fn lease_refusal(&self) -> Option<String> {
        leases::refusal(self.own.as_ref()?, &self.node).await
    }

    /// Takes the mark of our reset off the Node, and what it stands for. Whether there was something to do.
    pub async fn uncordon(&self) -> Result<bool, Why> {
        let client = self.clients().next().ok_or(Why::NotCollected)?;
        Ok(nodes::uncordon(client, &self.node).await?)
    }

    /// The node's network agents and kube-proxy.
    pub async fn agents(&self) -> Result<Vec<AgentPod>, Why> {
        Ok(self.agents_and_pods().await?.0)
    }

    /// Which pods the node is to run.
    pub(super) async fn bound_pods(&self) -> Result<BoundPods, Why> {
        let asked_at = self.host.now();
        Ok(observed::bound(&self.pods().await?, asked_at))
    }

    pub(super) async fn agents_and_pods(&self) -> Result<(Vec<AgentPod>, BoundPods), Why> {
        let asked_at = self.host.now();
        let pods = self.pods().await?;
        let mut agents = observed::agents(&pods);
        if agents.iter().any(|pod| pod.is_kube_proxy && pod.ready) {
            let lags = match health::answer(self.host, KUBE_PROXY_HEALTHZ, health::ANSWERS).await {
                Ok(said) => observed::proxy_lag(&said),
                Err(Why::TimedOut) => Some("it takes connections, and says nothing".to_owned()),
                // It may be told to answer elsewhere, or nowhere.
                Err(_) => None,
            };
            agents.iter_mut().filter(|pod| pod.is_kube_proxy).for_each(|pod| pod.lags.clone_from(&lags));
        }
        Ok((agents, observed::bound(&pods, asked_at)))
    }

    /// The DaemonSet of kube-proxy's that selects this Node: only an admin may look, and only where it has no pod is it asked.
    pub async fn kube_proxy_set(
        &self,
        agents: &Result<Vec<AgentPod>, Why>,
        node: &Result<Value, Why>,
    ) -> Result<Option<String>, Why> {
        let admin = self.asker.ok_or(Why::NotAdmin)?;
        let (agents, node) = (agents.as_ref().map_err(Clone::clone)?, node.as_ref().map_err(Clone::clone)?);
        if agents.iter().any(|pod| pod.is_kube_proxy) {
            return Err(Why::NotCollected);
        }
        Ok(observed::kube_proxy_set(&daemon_sets::all(admin).await?, node))
    }

    /// The same of the pod network's; and the one that a taint keeps off this Node.
    pub async fn network_sets(
        &self,
        agents: &Result<Vec<AgentPod>, Why>,
        node: &Result<Value, Why>,
    ) -> Result<(Option<String>, Option<KeptOff>), Why> {
        let admin = self.admin()?;
        let (agents, node) = (agents.as_ref().map_err(Clone::clone)?, node.as_ref().map_err(Clone::clone)?);
        if agents.iter().any(|pod| !pod.is_kube_proxy) {
            return Err(Why::NotCollected);
        }
        let sets = daemon_sets::all(admin).await?;
        Ok((observed::network_set(&sets, node), observed::kept_off(&sets, node)))
    }

    async fn pods(&self) -> Result<Value, Why> {
        self.ask(Question::Pods).await
    }

    /// Who may do what a node may not.
    fn admin(&self) -> Result<&'a ClusterClient, Why> {
        self.asker.ok_or(Why::NotAdmin)
    }

    /// Whether a pod runs on this node, and is reached; all that it takes to know is taken away again.
    pub async fn trial(&self, facts: &Facts, node: &Result<Value, Why>, ignore: &Ignore) -> PodTrial {
        let is_asked = |about: About<'_>| !ignore.covers(about.id);
        let reach =
            async { if is_asked(id!("firewall.kubelet")) { self.reach(facts).await } else { Err(Why::NotAsked) } };
        let tried = async {
            let peers = if is_asked(id!("firewall.vxlan")) { self.peers().await } else { Err(Why::NotAsked) };
            let tried = self.pod_or_sandbox(facts, node, peers.as_deref().unwrap_or_default()).await;
            let peers = match peers {
                Ok(peers) => Ok(self.dialled(peers, &tried).await),
                Err(why) => Err(why),
            };
            (tried, peers)
        };
        let (reach, (tried, peers)) = tokio::join!(Box::pin(reach), Box::pin(tried));
        let Tried { sandbox, stand_in, container, dialled: _ } = tried;
        PodTrial { stand_in, container, reach, peers, ..PodTrial::of(sandbox) }
    }

    /// A throw-away sandbox, and whether its address is one of this node's; where the network serves only Pods, or a container is
    /// to be seen started, one of these.
    async fn pod_or_sandbox(&self, facts: &Facts, node: &Result<Value, Why>, peers: &[PeerPod]) -> Tried {
        let pods = match self.pods().await.map_err(of_cluster) {
            Ok(pods) => pods,
            Err(why) => return Tried::of(Err(why)),
        };
        let to: Vec<SocketAddr> = peers.iter().map(|peer| peer.at).collect();
        let kubelet = observed::kubelet(facts).ok().and_then(|kubelet| kubelet.started_at);
        let runs = kubelet.and_then(|kubelet| observed::started_since(&pods, kubelet));
        let makes_one = self.proves_containers && runs.is_none() && self.asker.is_some();
        let trial = Trial { facts, pods: &pods, kubelet, peers: &to, makes_one };
        let mut tried = if observed::needs_pod(&pods) {
            self.stand_in(&trial).await
        } else {
            // By what runs the network, not by the configuration that was loaded: that may be the one that is wrong.
            let by_node = observed::network(&pods).is_some_and(|flavour| flavour.addresses == Addresses::PodCidr);
            let expected = node.as_ref().ok().filter(|_| by_node).map(observed::pod_ranges).unwrap_or_default();
            self.sandbox_or_pod(&trial, expected).await
        };
        let seen = runs.map_or(ContainerStart::NotSeen, |pod| ContainerStart::Runs { pod });
        tried.container.get_or_insert(seen);
        tried
    }

    async fn sandbox_or_pod(&self, trial: &Trial<'_>, expected: Vec<String>) -> Tried {
        let mut container = None;
        if let Some(admin) = self.asker.filter(|_| trial.makes_one) {
            let mut tried = TrialPods { admin, observer: self }.try_one(trial).await;
            if let Ok(sandbox) = &mut tried.sandbox {
                sandbox.expected.clone_from(&expected);
            }
            // That none may be made, or comes too late, says nothing of the network.
            if matches!(tried.sandbox, Ok(_) | Err(Why::Broken(_))) {
                return tried;
            }
            container = tried.container;
        }
        match self.sandbox(trial, expected).await {
            Ok(tried) => Tried { container, ..tried },
            Err(refused @ (SandboxError::Refused { .. } | SandboxError::TimedOut { .. }))
                if !observed::serves_sandboxes(&self.loaded_networks(trial.facts).await, trial.pods) =>
            {
                let says = refused.to_string();
                let tried = self.stand_in(trial).await;
                if tried.stand_in == Some(StandIn::Nobody) { Tried::without(StandIn::Unlisted { says }) } else { tried }
            }
            Err(failed) => Tried::of(Err(why_none(failed))),
        }
    }

    async fn sandbox(&self, trial: &Trial<'_>, expected: Vec<String>) -> Result<Tried, SandboxError> {
        let (image, endpoints) = (sandbox_image(trial.facts), cri::endpoints(self.host));
        let (image, time) = (image.as_deref(), sandbox::PLUGIN);
        let how = sandbox::SandboxOptions { endpoints: &endpoints, image, time, peers: trial.peers };
        let tried = sandbox::try_one(self.host, &how).await?;
        let address = tried.addresses.first().ok_or(SandboxError::NoAddress)?;
        let sandbox = Sandbox { left: tried.left, ..Sandbox::new(*address, expected) };
        Ok(Tried { dialled: tried.dialled, ..Tried::of(Ok(sandbox)) })
    }

    /// The files that the runtime has loaded, as they are now; none where that cannot be seen of each.
    async fn loaded_networks(&self, facts: &Facts) -> Vec<Candidate> {
        let dir = facts.cni_conf_dir();
        let mut names = self.host.list(&dir).await.unwrap_or_default();
        names.retain(|name| is_conf_name(name));
        names.sort();
        let mut loaded = Vec::new();
        for name in names.into_iter().take(facts.cni_loads()) {
            let Ok(Some(PathEntry::File(file))) = self.host.look(&format!("{dir}/{name}")).await else {
                return Vec::new();
            };
            loaded.push(Candidate::read(&dir, &name, &String::from_utf8_lossy(&file.bytes)));
        }
        loaded
    }

    /// A pod that has got its address since the kubelet and the network's agent started; else one that is made for it.
    async fn stand_in(&self, trial: &Trial<'_>) -> Tried {
        let Trial { pods, kubelet, .. } = *trial;
        if let Some(pod) = observed::agent_down(pods) {
            return Tried::without(StandIn::AgentDown { pod });
        }
        let agents = observed::agents_since(pods);
        let fresh = self.fresh(trial, agents).await;
        let proves_all = |fresh: &&Tried| !trial.makes_one && (trial.peers.is_empty() || fresh.is_answered());
        if let Some(fresh) = fresh.as_ref().filter(proves_all) {
            return fresh.clone();
        }
        if let Ok(admin) = self.admin() {
            // A NetworkPolicy may bind the pod that is here: one of ours may say more of the way to others.
            let made = TrialPods { admin, observer: self }.try_one(trial).await;
            let says_nothing = !matches!(made.sandbox, Ok(_) | Err(Why::Broken(_)));
            return fresh.filter(|_| says_nothing).unwrap_or(made);
        }
        let coming = observed::on_its_way(pods, kubelet.max(agents), self.host.now());
        Tried::without(coming.map_or(StandIn::Nobody, |pod| StandIn::OnItsWay { pod }))
    }

    async fn fresh(&self, trial: &Trial<'_>, agents: Option<Timestamp>) -> Option<Tried> {
        // Of whom it is not known when it started, nothing is younger.
        let (kubelet, agents) = trial.kubelet.zip(agents)?;
        let endpoints = cri::endpoints(self.host);
        let listed = gather("", self.host.now(), vec![cri::pods::observe(self.host, &endpoints, RUNTIME).await]).0;
        let FreshPod { name, uid, address } =
            observed::fresh(trial.pods, &listed.sandboxes().ok()?, kubelet.max(agents))?;
        let dialled = self.dial_from(&uid, trial.peers).await;
        Some(Tried { dialled, ..Tried::of(Ok(Sandbox { pod: Some(name), ..Sandbox::new(address, Vec::new()) })) })
    }

    /// How each of them answers a pod of this node, by its uid; none where that cannot be tried.
    pub(super) async fn dial_from(&self, uid: &str, peers: &[SocketAddr]) -> Vec<Dialled> {
        if peers.is_empty() {
            return Vec::new();
        }
        sandbox::dial_from_pod(self.host, &cri::endpoints(self.host), uid, peers).await.unwrap_or_default()
    }

    /// Whether the API server reaches this node's kubelet.
    async fn reach(&self, facts: &Facts) -> Result<KubeletReach, Why> {
        let admin = self.admin()?;
        for _ in 0..ASKS {
            match nodes::ask_kubelet(admin, &self.node).await {
                Ok(KubeletAnswer::Kubelet) => return Ok(KubeletReach::Answered),
                Ok(KubeletAnswer::KubeletRefused(says)) => return Ok(KubeletReach::Refused { says }),
                Ok(KubeletAnswer::KubeletAskedWho(says)) => {
                    let by_another_ca = observed::lets_in_by_another_ca(facts);
                    return Ok(KubeletReach::Unknown { says, by_another_ca });
                }
                Ok(KubeletAnswer::SomebodyElse(status)) => {
                    let says = format!("{status} of somebody on the way, in no words of the kubelet's");
                    return Err(Why::Busy(says));
                }
                Ok(KubeletAnswer::NotReached(says)) => return observed::unreached(&says),
                // It waits for the kubelet for half a minute, and who asks it does not. That it answers everything else
                // tells the two apart.
                Err(ApiError { problem: ApiProblem::TimedOut(_), .. }) => drop(nodes::get(admin, &self.node).await?),
                Err(error) => return Err(error.into()),
            }
        }
        let says = format!("it got no answer from the kubelet, asked {ASKS} times, and answers everything else");
        Ok(KubeletReach::Unanswered { says })
    }

    /// Pods of other Ready nodes that could answer: the cluster's DNS, else any.
    async fn peers(&self) -> Result<Vec<PeerPod>, Why> {
        let admin = self.admin()?;
        let of_dns = observed::peers(&pods::of_dns(admin).await?, &self.node);
        let found = self.on_ready_nodes(admin, of_dns).await;
        if !found.is_empty() {
            return Ok(found);
        }
        let others = observed::peers(&pods::elsewhere(admin, &self.node).await?, &self.node);
        Ok(self.on_ready_nodes(admin, others).await)
    }

    /// The first few of them whose nodes are Ready.
    async fn on_ready_nodes(&self, admin: &ClusterClient, found: Vec<PeerPod>) -> Vec<PeerPod> {
        let mut peers = Vec::new();
        for peer in found.into_iter().take(MOST_ASKED) {
            if peers.len() < MOST_PEERS
                && nodes::get(admin, &peer.node).await.is_ok_and(|node| observed::is_ready(&node))
            {
                peers.push(peer);
            }
        }
        peers
    }

    /// How each peer answered: from within a pod of this node, else from the machine; and where none did, what else speaks
    /// of the way to them.
    async fn dialled(&self, peers: Vec<PeerPod>, tried: &Tried) -> PeerDial {
        let to: Vec<SocketAddr> = peers.iter().map(|peer| peer.at).collect();
        let of = |from: DialledFrom, answers: Vec<Dialled>| {
            let dialled = |(peer, answer): (&PeerPod, Dialled)| {
                let PeerPod { pod, node, at } = peer.clone();
                Peer { pod, node, at, from, answer }
            };
            PeerDial { peers: peers.iter().zip(answers).map(dialled).collect(), ..PeerDial::default() }
        };
        let by_pod = of(DialledFrom::Pod, tried.dialled.clone());
        if by_pod.is_answered() || peers.is_empty() {
            return by_pod;
        }
        let by_machine = of(DialledFrom::Machine, dial(self.host, None, &to, DIAL).await);
        // A pod that stood and got no answer says more than the machine that gets one.
        let dialled = if by_pod.is_unanswered() {
            PeerDial { reached_by_machine: by_machine.is_answered(), ..by_pod }
        } else {
            by_machine
        };
        let signs = if dialled.is_answered() { Vec::new() } else { self.signs(&to).await };
        PeerDial { signs, ..dialled }
    }

    async fn signs(&self, to: &[SocketAddr]) -> Vec<Evidence> {
        let seen = self.host.observe(observed::SIGNS, &Progress::default()).await;
        let addresses: Vec<IpAddr> = to.iter().map(SocketAddr::ip).collect();
        observed::signs(&gather(self.host.name(), self.host.now(), seen).0, &addresses)
    }

    /// Takes away what a trial that was let go of may have left in the cluster.
    pub async fn clear(&self) -> Result<(), Why> {
        let Ok(admin) = self.admin() else { return Ok(()) };
        TrialPods { admin, observer: self }.clear().await
    }
}

/// What is asked about a node of whoever may.
#[derive(Clone, Copy)]
enum Question<'q> {
    Node,
    Requests(Option<&'q str>),
    Lease,
    Pods,
}

/// What a trial goes by.
pub(super) struct Trial<'t> {
    pub(super) facts: &'t Facts,
    /// Those of this node.
    pods: &'t Value,
    /// Since when the kubelet runs.
    kubelet: Option<Timestamp>,
    pub(super) peers: &'t [SocketAddr],
    /// A Pod is made, for its container.
    pub(super) makes_one: bool,
}

/// What came of a sandbox, or of a Pod in its place.
#[derive(Clone)]
pub(super) struct Tried {
    pub(super) sandbox: Result<Sandbox, Why>,
    pub(super) stand_in: Option<StandIn>,
    pub(super) container: Option<ContainerStart>,
    /// How each peer answered from within it.
    pub(super) dialled: Vec<Dialled>,
}

impl Tried {
    pub(super) fn of(sandbox: Result<Sandbox, Why>) -> Self {
        Tried { sandbox, stand_in: None, container: None, dialled: Vec::new() }
    }

    fn is_answered(&self) -> bool {
        self.dialled.contains(&Dialled::Answered)
    }

    pub(super) fn without(stand_in: StandIn) -> Self {
        Tried { stand_in: Some(stand_in), ..Tried::of(Err(Why::Absent)) }
    }
}

/// The image every pod begins with, as the runtime names it.
pub(super) fn sandbox_image(facts: &Facts) -> Option<String> {
    facts.runtime_status().ok().and_then(|status| status.sandbox_image)
}

pub(super) async fn requests(client: &ClusterClient, node: &str, named: Option<&str>) -> Result<Value, Why> {
    let requests = match named {
        Some(name) => certificate_requests::named(client, name).await,
        None => certificate_requests::of_node(client, node).await,
    };
    Ok(requests?)
}

/// `Broken` is the runtime's own refusal alone, which says that no pod can start: that of the cluster no answer could be used
/// is no such word.
pub(super) fn of_cluster(why: Why) -> Why {
    if let Why::Broken(says) = why { Why::Unreachable(says) } else { why }
}

/// Who may not ask the runtime, and whom a kubelet was too quick for, has not seen that no pod can start.
fn why_none(failed: SandboxError) -> Why {
    match failed {
        SandboxError::Runtime(Why::Denied) => Why::Denied,
        SandboxError::Gone => Why::TimedOut,
        failed => Why::Broken(failed.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use carrick_testkit::Machine;

    use super::*;
    use crate::dialer::stub::{forbidding_all_but_reviews, saying};

    #[tokio::test(start_paused = true)]
    async fn no_word_of_the_cluster_is_the_runtimes() {
        let machine = Machine::default().shared();
        for (said, expected) in [
            (None, "no answer in time"),
            (Some(Ok((429, ""))), "API server 10.0.0.11:6443 refused the request for now (429 Too Many Requests)"),
            (
                Some(Ok((200, "<html>"))),
                "API server 10.0.0.11:6443 sent an answer that is not JSON, by line 1 column 1",
            ),
            (Some(Err(ApiProblem::Refused)), "API server 10.0.0.11:6443 refused the connection"),
            (Some(Ok((403, "{}"))), "permission denied"),
        ] {
            let nobody = MachineIdentity { uuid: None, machine_id: None };
            let client = saying(said);
            let observer = NodeObserver::new(&machine, "w1".to_owned(), nobody, Some(&client));
            let facts = gather("w1", machine.now(), Vec::new()).0;
            let tried = observer.pod_or_sandbox(&facts, &Err(Why::NotCollected), &[]).await;
            let why = tried.sandbox.map(|it| it.address).unwrap_err();
            assert!(!matches!(why, Why::Broken(_)), "{why:?}");
            assert_eq!(why.to_string(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_refusal_makes_a_certificate_stale() {
        let machine = Machine::default().shared();
        for (said, refused) in [
            (Some(Ok((401, "{}"))), Some("the API server at 10.0.0.11:6443 does not accept it for w1")),
            (Some(Ok((403, "{}"))), Some("the API server at 10.0.0.11:6443 does not accept it for w1")),
            (Some(Err(ApiProblem::UntrustedCa)), Some("the API server is not of the cluster in kubelet.conf")),
            (Some(Err(ApiProblem::Refused)), None),
            (Some(Ok((404, "{}"))), None),
            (Some(Ok((200, "{}"))), None),
            (None, None),
        ] {
            let nobody = MachineIdentity { uuid: None, machine_id: None };
            let mut observer = NodeObserver::new(&machine, "w1".to_owned(), nobody, None);
            observer.own = Some(saying(said.clone()));
            let told = observer.own_is_refused().await;
            let fits = match (&told, refused) {
                (Some(told), Some(refused)) => told.starts_with(refused),
                (told, refused) => told.is_none() && refused.is_none(),
            };
            assert!(fits, "{said:?}: {told:?}");
            assert_eq!(observer.can_ask(), refused.is_none(), "who was refused does not ask again");
        }
    }

    /// An admin's kubeconfig may be one that only views, and a node may read its own Node.
    #[tokio::test]
    async fn whom_the_api_server_denies_an_answer_the_next_stands_in_for() {
        let machine = Machine::default().shared();
        let denied = || saying(Some(Ok((403, "{}"))));
        let well = || saying(Some(Ok((200, "{\"items\":[]}"))));
        for (by_admin, admin, own, expected) in [
            (true, denied(), Some(well()), Ok(())),
            (true, denied(), None, Err(Why::Denied)),
            (true, denied(), Some(denied()), Err(Why::Denied)),
            (true, saying(Some(Ok((404, "{}")))), Some(well()), Err(Why::Absent)),
            (false, well(), Some(denied()), Ok(())),
        ] {
            let nobody = MachineIdentity { uuid: None, machine_id: None };
            let mut observer = NodeObserver::new(&machine, "w1".to_owned(), nobody, Some(&admin));
            (observer.by_admin, observer.own) = (by_admin, own);
            assert_eq!(observer.node_object().await.map(drop), expected);
            assert_eq!(observer.lease().await.map(drop), expected);
            // There is always a list of pods.
            if expected != Err(Why::Absent) {
                assert_eq!(observer.pods().await.map(drop), expected);
            }
        }
    }

    #[tokio::test]
    async fn whom_the_api_server_knows_has_a_good_certificate_whatever_it_may() {
        let machine = Machine::default().shared();
        for (group, refused) in [("system:nodes", false), ("system:unauthenticated", true)] {
            let nobody = MachineIdentity { uuid: None, machine_id: None };
            let mut observer = NodeObserver::new(&machine, "w1".to_owned(), nobody, None);
            observer.own = Some(forbidding_all_but_reviews(group));
            assert_eq!(observer.own_is_refused().await.is_some(), refused, "{group}");
        }
    }
}
