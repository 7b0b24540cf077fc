//! The looks a join and `verify` take: at the machine, at its Node, at its lease, at a sandbox.

use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::{ApiProblem, ClusterClient, certificate_requests, daemon_sets, leases, nodes, pods};
use carrick_core::cni::Addresses;
use carrick_core::fact::identity::MachineIdentity;
use carrick_core::fact::{Facts, Why};
use carrick_core::join::existing::RequestedCluster;
use carrick_core::join::observed;
use carrick_core::join::verify::{AgentPod, ClientCertificate, LeaseRenewal, Node, Sandbox};
use carrick_host::cri::sandbox::{self, SandboxError};
use carrick_host::{Host, Probe, Progress, cri, gather};
use serde_json::Value;

use crate::credentials;

/// A look at the machine is over in 50 ms; one that takes longer than this is no look.
const RUNTIME: Duration = Duration::from_secs(3);

/// Who looks, and at what.
#[derive(Clone)]
pub struct NodeObserver<'a> {
    machine: &'a Arc<dyn Host>,
    /// The same, to look at.
    host: &'a dyn Host,
    /// The Node's name.
    pub node: String,
    pub identity: MachineIdentity,
    pub asked: RequestedCluster,
    /// Who asks as long as the kubelet has no certificate: a bootstrap token, or an admin.
    pub asker: Option<&'a ClusterClient>,
    /// The asker is an admin, and is asked first: the kubelet's own credential is only tried.
    pub by_admin: bool,
    own: Option<ClusterClient>,
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
            own: None,
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
    pub async fn take_own(&mut self) -> Result<(), String> {
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
            ApiProblem::Unauthorized(_) | ApiProblem::Forbidden(_) => {
                format!("the API server at {} does not accept it for {}", own.server(), self.node)
            }
            ApiProblem::UntrustedCa => format!("the API server is not of the cluster in kubelet.conf: {error}"),
            _ => return None,
        };
        self.own = None;
        Some(Err(refused))
    }

    /// Who may ask about the node. Nobody: nobody looked.
    fn client(&self) -> Result<&ClusterClient, Why> {
        let (own, asker) = (self.own.as_ref(), self.asker);
        let (first, second) = if self.by_admin { (asker, own) } else { (own, asker) };
        first.or(second).ok_or(Why::NotCollected)
    }

    pub fn can_ask(&self) -> bool {
        self.client().is_ok()
    }

    /// The Node of this name, as it is.
    pub async fn node_object(&self) -> Result<Value, Why> {
        Ok(nodes::get(self.client()?, &self.node).await?)
    }

    /// What this node's kubelets have asked to be signed; the one request alone where its name is known.
    pub async fn requests(&self, named: Option<&str>) -> Result<Value, Why> {
        requests(self.client()?, &self.node, named).await
    }

    pub fn node(&self, object: &Result<Value, Why>) -> Result<Node, Why> {
        let object = object.as_ref().map_err(Clone::clone)?;
        Ok(Node { seen_at: Some(self.host.now()), ..observed::node(object, &self.identity) })
    }

    pub async fn lease(&self) -> Result<LeaseRenewal, Why> {
        let renewal = observed::renewal(&leases::of_node(self.client()?, &self.node).await?);
        Ok(LeaseRenewal { seen_at: Some(self.host.now()), ..renewal })
    }

    /// Takes the mark of our reset off the Node, and what it stands for. Whether there was something to do.
    pub async fn uncordon(&self) -> Result<bool, Why> {
        Ok(nodes::uncordon(self.client()?, &self.node).await?)
    }

    /// The node's network agents and kube-proxy.
    pub async fn agents(&self) -> Result<Vec<AgentPod>, Why> {
        Ok(observed::agents(&self.pods().await?))
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

    async fn pods(&self) -> Result<Value, Why> {
        Ok(pods::on_node(self.client()?, &self.node).await?)
    }

    /// A throw-away sandbox, and whether its address is one of this node's.
    pub async fn sandbox(&self, facts: &Facts, node: &Result<Value, Why>) -> Result<Sandbox, Why> {
        let pods = self.pods().await.map_err(of_cluster)?;
        let network = observed::network(&pods);
        if network.is_some_and(|flavour| flavour.needs_pod) {
            let (pod, address) = observed::addressed(&pods).ok_or(Why::Absent)?;
            return Ok(Sandbox { pod: Some(pod), ..Sandbox::new(address, Vec::new()) });
        }
        // By what runs the network, not by the configuration that was loaded: that may be the one that is wrong.
        let by_node = network.is_some_and(|flavour| flavour.addresses == Addresses::PodCidr);
        let expected = node.as_ref().ok().filter(|_| by_node).map(observed::pod_ranges).unwrap_or_default();
        let image = facts.runtime_status().ok().and_then(|status| status.sandbox_image);
        let endpoints = cri::endpoints(self.host);
        let how = sandbox::SandboxOptions { endpoints: &endpoints, image: image.as_deref(), time: sandbox::PLUGIN };
        let tried = sandbox::try_one(self.host, &how).await.map_err(why_none)?;
        let address = *tried.addresses.first().ok_or_else(|| Why::Broken("the sandbox has no address".to_owned()))?;
        Ok(Sandbox { left: tried.left, ..Sandbox::new(address, expected) })
    }
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
fn of_cluster(why: Why) -> Why {
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
    use crate::dialer::stub::saying;

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
            let why = observer.sandbox(&facts, &Err(Why::NotCollected)).await.map(|it| it.address).unwrap_err();
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
}
