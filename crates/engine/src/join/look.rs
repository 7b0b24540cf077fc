//! The looks a join and `verify` take: at the machine, at its Node, at its lease, at a sandbox.

use std::time::Duration;

use carrick_cluster::client::Client;
use carrick_core::fact::identity::Identity;
use carrick_core::fact::{Facts, Why, pki};
use carrick_core::join::sight;
use carrick_core::join::verify::{CertificateRequest, Node, Pod, Renewal, Sandbox};
use carrick_host::cri::{self, sandbox};
use carrick_host::probe::{Progress, gather};
use carrick_host::{Host, Probe};
use jiff::Timestamp;
use serde_json::Value;

use crate::credentials;
use crate::observe::FromMachine;

/// A look at the machine is over in 50 ms; one that takes longer than this is no look.
const RUNTIME: Duration = Duration::from_secs(3);

/// Who looks, and at what.
pub struct Eyes<'a> {
    pub host: &'a dyn Host,
    /// The Node's name.
    pub node: String,
    pub identity: Identity,
    /// The CA of the cluster that was asked for.
    pub ca: Option<pki::Certificate>,
    /// Who asks as long as the kubelet has no certificate: a bootstrap token, or an admin.
    pub asker: Option<&'a Client>,
    own: Option<Client>,
}

impl<'a> Eyes<'a> {
    pub fn new(host: &'a dyn Host, node: String, identity: Identity, asker: Option<&'a Client>) -> Self {
        Eyes { host, node, identity, ca: None, asker, own: None }
    }

    /// The machine, as far as a join changes it.
    pub async fn machine(&self) -> Facts {
        let probe: &dyn Probe = self.host;
        let progress = Progress::default();
        let (seen, runtime) =
            tokio::join!(probe.observe(sight::WATCHED, &progress), cri::observe(probe, cri::ENDPOINTS, RUNTIME));
        gather(probe.name(), probe.now(), seen.into_iter().chain(runtime).collect()).0
    }

    /// The kubelet has a certificate: from now on it is asked with that, as the node itself would.
    pub async fn take_own(&mut self) -> Result<(), String> {
        if self.own.is_none() {
            self.own = Some(credentials::of_kubelet(self.host).await?);
        }
        Ok(())
    }

    /// Who may ask about the node.
    fn client(&self) -> Result<&Client, Why> {
        self.own.as_ref().or(self.asker).ok_or(Why::NotAsked)
    }

    async fn get(&self, path: &str) -> Result<Value, Why> {
        self.client()?.get(&FromMachine(self.host), path).await
    }

    /// The Node of this name, as it is.
    pub async fn node_object(&self) -> Result<Value, Why> {
        self.get(&format!("/api/v1/nodes/{}", self.node)).await
    }

    pub fn node(&self, object: &Result<Value, Why>) -> Result<Node, Why> {
        object.as_ref().map(|object| sight::node(object, &self.identity)).map_err(Clone::clone)
    }

    pub async fn lease(&self) -> Result<Renewal, Why> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}", self.node);
        Ok(sight::renewal(&self.get(&path).await?))
    }

    /// The kubelet's request for its certificate, no older than this.
    pub async fn request(&self, since: Timestamp) -> Result<CertificateRequest, Why> {
        let list = self.get("/apis/certificates.k8s.io/v1/certificatesigningrequests").await?;
        sight::request(&list, &self.node, since)
    }

    /// The node's network agents and kube-proxy.
    pub async fn agents(&self) -> Result<Vec<Pod>, Why> {
        Ok(sight::agents(&self.get(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", self.node)).await?))
    }

    /// A throw-away sandbox, and whether its address is one of this node's.
    pub async fn sandbox(&self, facts: &Facts, node: &Result<Value, Why>) -> Result<Sandbox, Why> {
        let image = facts.runtime_status().ok().and_then(|status| status.sandbox_image);
        let how = sandbox::How { endpoints: cri::ENDPOINTS, image: image.as_deref(), time: sandbox::PLUGIN };
        let tried = sandbox::try_one(self.host, &how).await.map_err(|failed| Why::Broken(failed.to_string()))?;
        let address = *tried.addresses.first().ok_or_else(|| Why::Broken("the sandbox has no address".to_owned()))?;
        let expected = node.as_ref().map(sight::pod_ranges).unwrap_or_default();
        Ok(Sandbox { address, expected })
    }
}
