//! A join while kubeadm and the kubelet are at work: everything that may have changed, as events.

use carrick_core::fact::Why;
use carrick_core::join::failure::JoinCause;
use carrick_core::join::state::{JoinStatus, Stage};
use carrick_core::join::step::JoinEvent;
use carrick_core::join::verify::{ClientCertificate, KubeletHalt, Signing};
use carrick_core::join::{causes, observed, output};
use carrick_host::{PathEntry, Trouble};
use jiff::SignedDuration;
use serde_json::Value;

use super::driver::Driver;
use super::inspect::{Inspected, LiveDiagnosis};
use super::observer::{self, NodeObserver};
use super::verify::of_machine;
use crate::unit::{self, UnitProgress};

/// Between two questions whether this node's lease would be taken: each goes through the cluster's admission.
const LEASE_AGAIN: SignedDuration = SignedDuration::from_secs(2);

impl Driver<'_, '_> {
    /// Everything that may have changed, as events.
    pub(super) async fn look(&mut self, state: &JoinStatus) -> Vec<JoinEvent> {
        if !(Stage::Joining..Stage::Verified).contains(&state.stage) {
            return Vec::new();
        }
        let mut events = self.follow_kubeadm().await;
        // A look may be let go of half way: whoever comes after it finds the observer in its place.
        let Some(mut observer) = self.observer.clone() else { return events };
        let (facts, ()) = tokio::join!(observer.machine(), self.hear_journal());
        let mut seen = of_machine(&observer, &facts);
        observer.settle(&mut seen.certificate).await;
        if let Ok(kubelet) = &mut seen.kubelet {
            self.restarts_before = self.restarts_before.min(kubelet.restarts);
            kubelet.restarts -= self.restarts_before;
            if kubelet.active && kubelet.halt.is_none() && self.is_silent(&facts).await {
                kubelet.halt = Some(KubeletHalt::Silent);
            }
        }
        if seen.certificate == Ok(ClientCertificate::Trusted)
            && let Err(why) = observer.take_own().await
        {
            events.push(JoinEvent::Node(Err(why.into())));
        }
        if let Some(why) = seen.kubelet.as_ref().err().filter(|why| why.is_of_the_link()) {
            events.extend(self.newly(causes::of_lost_link(why)));
            // What was seen of the runtime a moment before the link went may have been of the link, too.
            events.push(JoinEvent::Runtime(Err(Why::NotCollected)));
            self.observer = Some(observer);
            return events;
        }
        let issued = seen.certificate == Ok(ClientCertificate::Trusted);
        // One that does not answer is not asked again before that is told.
        let answers = seen.runtime.is_ok();
        events.extend(self.kubelet_ended(&facts).await);
        events.extend([
            JoinEvent::Addresses(seen.addresses),
            JoinEvent::Runtime(seen.runtime),
            JoinEvent::Kubelet(seen.kubelet),
            JoinEvent::Cluster(seen.cluster),
            JoinEvent::Certificate(seen.certificate),
        ]);
        let mut agents = Err(Why::NotCollected);
        if issued {
            let (node, lease, found) =
                tokio::join!(observer.node_object(), observer.lease(), observer.agents_and_pods());
            let found = found.map(|(agents, pods)| {
                self.hear_of_pods(pods);
                agents
            });
            if matches!(lease, Ok(_) | Err(Why::Absent)) && node.is_ok() {
                events.extend(self.would_be_refused(&observer, lease.is_ok()).await);
            }
            let sets = observer.network_sets(&found, &node).await;
            events.extend([
                JoinEvent::NetworkSet(sets.clone().map(|(set, _)| set)),
                JoinEvent::KeptOff(sets.map(|(_, kept)| kept)),
                JoinEvent::KubeProxySet(observer.kube_proxy_set(&found, &node).await),
                JoinEvent::Agents(found.clone()),
                JoinEvent::Node(observer.node(&node)),
                JoinEvent::Lease(lease),
            ]);
            (self.node, agents) = (node, found);
        } else if state.stage >= Stage::KubeletUp {
            let request = self.requests(&observer, self.named(state)).await;
            let request = request.and_then(|list| {
                // Of a kubelet that runs already: what was decided against before it was looked at is of an earlier one.
                let refused = |state: &Signing| matches!(state, Signing::Denied { .. } | Signing::Failed { .. });
                let before = || observed::requests(&list, &observer.node, refused);
                observed::request(&list, &observer.node, self.requests_before.get_or_insert_with(before))
            });
            let silent = request.as_ref().err().and_then(causes::of_silent_api);
            if silent.is_none() {
                self.troubled.retain(|id| id != causes::silent_api());
            }
            events.extend(silent.and_then(|cause| self.newly(cause)));
            events.push(JoinEvent::Request(request));
        }
        if answers {
            events.extend(self.hear_logs(state).await);
        }
        events.extend(self.heard(state));
        if self.sandbox_at.is_some_and(|at| at <= self.now()) {
            self.sandbox_at = None;
            let mut trial = observer.trial(&facts, &self.node, &self.options.ignore).await;
            if let Err(Why::Broken(says)) = &trial.sandbox {
                trial.refused_for = causes::of_refusal(self.library, says);
            }
            events.push(JoinEvent::Tried(Box::new(trial)));
        }
        if self.causes_at.is_some_and(|at| at <= self.now()) {
            self.causes_at = None;
            let options = &self.options;
            let live = LiveDiagnosis { library: self.library, ignore: &options.ignore, time_box: options.time_box };
            let Inspected { agents, detours, standing } =
                live.look(self.host, &observer.node(&self.node), &agents, observer.bound_pods().await).await;
            events.extend([JoinEvent::Agents(agents), JoinEvent::Detours(detours), JoinEvent::Standing(standing)]);
        }
        self.observer = Some(observer);
        events
    }

    /// A kubelet makes its lease ten seconds after its Node, renews it after another ten, and that is not waited for: whether it
    /// will be taken is asked, now and then, and at once when it has come.
    async fn would_be_refused(&mut self, observer: &NodeObserver<'_>, is_there: bool) -> Option<JoinEvent> {
        if self.lease_tried.is_some_and(|(was, at)| was == is_there && self.now() < at + LEASE_AGAIN) {
            return None;
        }
        self.lease_tried = Some((is_there, self.now()));
        Some(JoinEvent::LeaseRefused(observer.lease_refusal().await))
    }

    /// The request of this attempt, once it was found: from then on it alone is asked for, until it is decided against.
    fn named<'s>(&self, state: &'s JoinStatus) -> Option<&'s str> {
        let known = state.seen.request.as_ref().ok().filter(|_| self.requests_before.is_some())?;
        matches!(known.state, Signing::Pending | Signing::Approved | Signing::Issued).then_some(known.name.as_str())
    }

    /// This node's requests for certificates, with the token's rights or the admin's.
    pub(super) async fn requests(&self, observer: &NodeObserver<'_>, named: Option<&str>) -> Result<Value, Why> {
        let requests = match (&self.asker, self.options.admin) {
            (Some(asker), None) => observer::requests(asker, &observer.node, named).await,
            _ => observer.requests(named).await,
        };
        match requests {
            // Somebody removed it: the kubelet makes another.
            Err(Why::Absent) if named.is_some() => Box::pin(self.requests(observer, None)).await,
            Err(Why::Denied) if let (Some(asker), Some(_)) = (&self.asker, self.options.admin) => {
                observer::requests(asker, &observer.node, named).await
            }
            requests => requests,
        }
    }

    /// New lines of kubeadm's output, and its end.
    async fn follow_kubeadm(&mut self) -> Vec<JoinEvent> {
        if self.kubeadm_over {
            return Vec::new();
        }
        // Before its output: what it wrote last is there once it has ended.
        let kubeadm = unit::state(self.host, unit::JOIN).await;
        // What could not be read says nothing, and is read at the next look.
        let Ok(output) = self.output().await else { return Vec::new() };
        let new = output.get(self.read..).unwrap_or_default();
        let whole = new.rfind('\n').map_or(0, |end| end + 1);
        let lines = new.get(..whole).unwrap_or_default();
        let mut events: Vec<JoinEvent> = lines.lines().filter_map(output::milestone).map(JoinEvent::Kubeadm).collect();
        if events.iter().any(|event| matches!(event, JoinEvent::Kubeadm(milestone) if milestone.is_progress())) {
            // What it tried again for is over.
            let over = std::mem::take(&mut self.retried);
            self.troubled.retain(|id| !over.contains(id));
            events.extend(over.into_iter().map(JoinEvent::Passed));
        }
        let met = output::met(lines, self.library).into_iter();
        let met: Vec<JoinCause> = met.filter(|_| matches!(kubeadm, Ok(UnitProgress::Running))).collect();
        self.retried.extend(met.iter().map(|cause| cause.id.clone()));
        events.extend(met.into_iter().filter_map(|cause| self.newly(cause)));
        self.read += whole;
        let ended = match kubeadm {
            Ok(UnitProgress::Ended(status)) => Some(status),
            // Somebody stopped it, and systemd has forgotten it.
            Ok(UnitProgress::None) => Some(None),
            Ok(UnitProgress::Running) | Err(_) => None,
        };
        if let Some(status) = ended {
            self.kubeadm_over = true;
            events.push(JoinEvent::KubeadmEnded { status, causes: output::causes(&output, self.library) });
        }
        events
    }

    pub(super) async fn output(&self) -> Result<String, Trouble> {
        let Some(log) = &self.log else { return Ok(String::new()) };
        match self.host.look(log).await? {
            Some(PathEntry::File(file)) => Ok(String::from_utf8_lossy(&file.bytes).into_owned()),
            Some(PathEntry::Dir { .. } | PathEntry::Link(_) | PathEntry::Other(_)) => {
                Err(Trouble::new(log, "is not the file that kubeadm writes to"))
            }
            // Somebody removed it.
            None => Ok(String::new()),
        }
    }

    /// Each trouble once an attempt.
    fn newly(&mut self, cause: JoinCause) -> Option<JoinEvent> {
        if self.troubled.contains(&cause.id) {
            return None;
        }
        self.troubled.push(cause.id.clone());
        Some(JoinEvent::Trouble(cause))
    }
}
