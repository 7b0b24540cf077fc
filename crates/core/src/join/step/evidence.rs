//! Evidence: kept, looked at for what is to be told of it, and for what ends a join early.

use jiff::{SignedDuration, Timestamp};

use super::{JoinEffect, JoinEvent, NOT_FOUND, PodTrial};
use crate::fact::Why;
use crate::id;
use crate::join::failure::{Circumstance, JoinCause};
use crate::join::state::{JoinStatus, Stage, later};
use crate::join::verify::{AgentPod, CertificateRequest, ClientCertificate, Kubelet, KubeletHalt, NodeLease, Signing};
use crate::join::{causes, observed};
use crate::report::Confidence;

/// A request that nobody has signed by then is told: the usual signer takes a second or two.
const UNSIGNED: SignedDuration = SignedDuration::from_secs(20);
/// A runtime that is restarted answers again sooner than this.
const RUNTIME_DOWN: SignedDuration = SignedDuration::from_secs(3);
/// A DaemonSet's pod is on a new Node within a second or two.
const PLACED: SignedDuration = SignedDuration::from_secs(4);
/// One that takes long to answer may only be busy: with images, or on a machine that is.
const RUNTIME_SILENT: SignedDuration = SignedDuration::from_secs(20);
/// A kubelet that a restart of its runtime took along comes back once; one that ended twice will end again.
const CRASH_LOOP: u64 = 2;
/// A kubelet that somebody restarts by hand is back sooner than this.
const KUBELET_STOPPED: SignedDuration = SignedDuration::from_secs(3);

impl JoinStatus {
    /// Evidence: kept, looked at for what ends the join early, and for what it proves.
    pub(super) fn observed(&mut self, event: &JoinEvent, now: Timestamp) -> Vec<JoinEffect> {
        let seen = &mut self.seen;
        match event {
            JoinEvent::Kubelet(kubelet) => {
                seen.kubelet.clone_from(kubelet);
                // The machine is reached again.
                self.troubles.retain(|trouble| !causes::is_lost_link(trouble));
            }
            JoinEvent::Request(request) => seen.request.clone_from(request),
            JoinEvent::Certificate(certificate) => seen.certificate.clone_from(certificate),
            JoinEvent::Cluster(cluster) => seen.cluster.clone_from(cluster),
            JoinEvent::Node(node) => seen.node.clone_from(node),
            JoinEvent::Runtime(runtime) => seen.runtime.clone_from(runtime),
            JoinEvent::Tried(trial) => {
                let PodTrial { sandbox, stand_in, container, reach, peers, refused_for: _ } = trial.as_ref().clone();
                (seen.sandbox, seen.stand_in, seen.container) = (sandbox, stand_in, container);
                (seen.reach, seen.peers) = (reach, peers);
            }
            JoinEvent::Addresses(addresses) => seen.addresses.clone_from(addresses),
            JoinEvent::Agents(agents) => seen.agents.clone_from(agents),
            JoinEvent::KubeProxySet(set) => seen.kube_proxy_set.clone_from(set),
            JoinEvent::NetworkSet(set) => seen.network_set.clone_from(set),
            JoinEvent::KeptOff(kept) => seen.kept_off.clone_from(kept),
            JoinEvent::Detours(detours) => seen.detours.clone_from(detours),
            JoinEvent::Standing(standing) => seen.standing.clone_from(standing),
            JoinEvent::LeaseRefused(says) => seen.lease_refusal.clone_from(says),
            JoinEvent::Lease(Err(why)) => seen.lease = Err(why.clone()),
            JoinEvent::Lease(Ok(last)) => {
                let first = seen.lease.as_ref().map_or_else(|_| last.clone(), |lease| lease.first.clone());
                seen.lease = Ok(NodeLease { first, last: last.clone() });
            }
            // No evidence: the table has taken them, or there was nothing to see.
            JoinEvent::Found(_)
            | JoinEvent::NodeCleared
            | JoinEvent::Woken
            | JoinEvent::Unfit(_)
            | JoinEvent::Checked { .. }
            | JoinEvent::Prepared
            | JoinEvent::Started
            | JoinEvent::Kubeadm(_)
            | JoinEvent::KubeadmEnded { .. }
            | JoinEvent::ProgramEnded { .. }
            | JoinEvent::Trouble(_)
            | JoinEvent::Passed(_)
            | JoinEvent::Failed(_)
            | JoinEvent::Finished { .. }
            | JoinEvent::Interrupted { .. }
            | JoinEvent::Halted { .. }
            | JoinEvent::Tick => {}
        }
        self.mind_runtime(now);
        if let JoinEvent::Kubelet(Ok(kubelet)) = event {
            self.memory.restarts_before.get_or_insert(kubelet.restarts);
            self.mind_stopped(kubelet, now);
        }
        if has_answered(event) {
            self.troubles.retain(|trouble| trouble.id != causes::silent_api());
        }
        if let Some(cause) = self.hopeless(now) {
            // What was heard besides may say more.
            let others = std::mem::take(&mut self.troubles).into_iter().rev().filter(|other| other.id != cause.id);
            let (says, others) = (cause.says.clone(), others.collect::<Vec<_>>());
            return self.fail(says, [cause].into_iter().chain(others).collect(), now);
        }
        if let JoinEvent::Tried(trial) = event
            && let Some(effects) = self.mind_trial(trial, now)
        {
            return effects;
        }
        let mut effects = self.mind_refusal(event, now);
        effects.extend(self.mind_silence(event));
        effects.extend(self.mind_request(now));
        if let JoinEvent::Agents(Ok(agents)) = event {
            effects.extend(self.mind_agents(agents, now));
        }
        if let JoinEvent::Tried(_) = event
            && self.stage == Stage::NetworkReady
        {
            effects.extend(self.try_again(now));
        }
        effects.extend(self.advance(now));
        if let Some(ended) = self.mind_causes(event, now) {
            return ended;
        }
        effects.extend(self.look_for_causes(event, now));
        effects.extend(self.mind_failure(now));
        effects
    }

    fn mind_request(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        let Ok(CertificateRequest { name, state }) = &self.seen.request else { return Vec::new() };
        let seconds = UNSIGNED.as_secs();
        let says = match state {
            Signing::Pending => format!(
                "nobody has signed the certificate request {name} for {seconds} s; on the control plane: kubectl certificate \
                 approve {name}"
            ),
            Signing::Approved => format!(
                "the certificate request {name} is approved, and nobody has issued the certificate for {seconds} s; on the \
                 control plane: kubectl -n kube-system get pods -l component=kube-controller-manager"
            ),
            Signing::Issued => format!(
                "the certificate {name} was issued, and the kubelet has not stored it; on this machine: ls -ld \
                 /var/lib/kubelet/pki; journalctl -u kubelet | grep -i certificate"
            ),
            Signing::Denied { .. } | Signing::Failed { .. } => return Vec::new(),
        };
        if self.memory.told_unsigned || self.stage != Stage::CertificateRequested || now < later(self.since, UNSIGNED) {
            return Vec::new();
        }
        self.memory.told_unsigned = true;
        vec![JoinEffect::Tell(says)]
    }

    /// What holds the network's and kube-proxy's pods up is told once; what no longer does is forgotten.
    fn mind_agents(&mut self, agents: &[AgentPod], now: Timestamp) -> Vec<JoinEffect> {
        let mut held_up = observed::held_up(agents);
        // Who places a DaemonSet's pods does so within seconds of the Node's registration.
        let is_placed = self.memory.registered_since.is_some_and(|since| now >= later(since, PLACED));
        held_up.extend(observed::kept_from_node(&self.seen).filter(|_| is_placed));
        let now_said: Vec<String> = held_up.iter().map(|cause| cause.id.clone()).collect();
        let over = std::mem::replace(&mut self.memory.held_up, now_said);
        self.troubles.retain(|known| !over.contains(&known.id) || self.memory.held_up.contains(&known.id));
        held_up.iter().flat_map(|cause| self.trouble(cause, now)).collect()
    }

    fn mind_runtime(&mut self, now: Timestamp) {
        let down = match &self.seen.runtime {
            Ok(runtime) => !runtime.ready,
            Err(why) => *why != Why::NotCollected,
        };
        let silent = matches!(self.seen.runtime, Err(Why::TimedOut | Why::Busy(_)));
        // Who was silent and now refuses may be in the middle of a restart.
        let known = self.memory.runtime_down.filter(|(_, before)| *before == silent);
        self.memory.runtime_down = down.then(|| known.unwrap_or((now, silent)));
    }

    /// Who takes connections and answers none is told at the first time, and forgotten once it answers.
    fn mind_silence(&mut self, event: &JoinEvent) -> Vec<JoinEffect> {
        let (about, silent, says) = if let JoinEvent::Runtime(runtime) = event {
            if *runtime == Err(Why::NotCollected) {
                return Vec::new();
            }
            let says = match runtime {
                Err(Why::Busy(why)) => why.as_str(),
                _ => "the container runtime does not answer: it takes connections, and says nothing",
            };
            (id!("runtime.socket"), matches!(runtime, Err(Why::TimedOut | Why::Busy(_))), says)
        } else if let JoinEvent::Kubelet(Ok(kubelet)) = event {
            let (silent, says) = match kubelet.halt {
                Some(KubeletHalt::Suspended) => {
                    (true, "the kubelet does not answer: a signal has stopped it (SIGSTOP)")
                }
                Some(KubeletHalt::Silent) => {
                    (true, "the kubelet does not answer: it takes connections on its healthz port, and says nothing")
                }
                Some(KubeletHalt::Stopped | KubeletHalt::Removed) | None => (false, ""),
            };
            (id!("kubelet.not-answering"), silent, says)
        } else {
            return Vec::new();
        };
        if !silent {
            self.troubles.retain(|trouble| trouble.id != about.id);
            return Vec::new();
        }
        let is_new = self.remember(&JoinCause::of(about, says).may_pass(true));
        is_new.then(|| JoinEffect::Tell(says.to_owned())).into_iter().collect()
    }

    /// A kubelet that ran in this attempt, and that somebody stopped.
    fn mind_stopped(&mut self, kubelet: &Kubelet, now: Timestamp) {
        if kubelet.active && self.memory.bootstrap_since.is_some() {
            self.memory.kubelet_ran.get_or_insert(now);
        }
        let stopped = matches!(kubelet.halt, Some(KubeletHalt::Stopped | KubeletHalt::Removed));
        let since = self.memory.kubelet_stopped.unwrap_or(now);
        self.memory.kubelet_stopped = (stopped && self.memory.kubelet_ran.is_some()).then_some(since);
    }

    /// What no waiting fixes, as soon as it shows.
    fn hopeless(&self, now: Timestamp) -> Option<JoinCause> {
        let seen = &self.seen;
        if let Some((since, silent)) = self.memory.runtime_down
            && now >= later(since, if silent { RUNTIME_SILENT } else { RUNTIME_DOWN })
        {
            let why = match &seen.runtime {
                Ok(runtime) => runtime.says.clone(),
                Err(why) => why.to_string(),
            };
            let cause = JoinCause::of(id!("runtime.socket"), format!("the container runtime does not answer: {why}"));
            return Some(cause.may_pass(silent));
        }
        // Before kubeadm starts the kubelet, what is seen is of a join that is over.
        self.memory.bootstrap_since?;
        if let Some(cause) = seen.kubelet.as_ref().ok().and_then(|kubelet| self.lost(kubelet, now)) {
            return Some(cause);
        }
        if let (Ok(request), true) = (&seen.request, self.stage < Stage::CertificateIssued) {
            let name = &request.name;
            match &request.state {
                Signing::Denied { why } => {
                    return Some(JoinCause::of(id!("csr.denied"), format!("the request {name} was denied: {why}")));
                }
                Signing::Failed { why } => {
                    return Some(JoinCause::of(id!("csr.failed"), format!("the request {name} failed: {why}")));
                }
                Signing::Pending | Signing::Approved | Signing::Issued => {}
            }
        }
        match &seen.certificate {
            Ok(ClientCertificate::Stale { why }) => {
                let says = format!("the kubelet's certificate is stale: {why}");
                Some(JoinCause::of(id!("stale.client-certificate"), says).under(Circumstance::NotLeftover))
            }
            _ => None,
        }
    }

    /// Why a kubelet will not come into the cluster.
    fn lost(&self, kubelet: &Kubelet, now: Timestamp) -> Option<JoinCause> {
        let crashes = kubelet.restarts.saturating_sub(self.memory.restarts_before.unwrap_or(0));
        if kubelet.standalone {
            return Some(JoinCause::of(
                id!("kubelet.standalone"),
                "the kubelet runs without --kubeconfig: alone, in no cluster",
            ));
        }
        if !kubelet.active && kubelet.exit.is_some_and(|exit| NOT_FOUND.contains(&exit)) {
            return Some(JoinCause::of(id!("kubelet.cannot-execute"), "systemd cannot execute the kubelet"));
        }
        if let Some(since) = self.memory.kubelet_stopped {
            if kubelet.halt == Some(KubeletHalt::Removed) {
                return Some(causes::of_reset_meanwhile());
            }
            if now >= later(since, KUBELET_STOPPED) {
                let says = "the kubelet was stopped, or ended by itself, while this join went on";
                return Some(JoinCause::of(id!("kubelet.not-running"), says));
            }
        }
        let about = id!("kubelet.restart-loop");
        (crashes >= CRASH_LOOP).then(|| match self.troubles.iter().find(|trouble| trouble.id == about.id) {
            Some(ended) => {
                let mut ended = ended.clone();
                ended.says = format!("{}; {crashes} times by now", ended.says);
                ended.circumstance = None;
                // Who ends again and again with the same words ends for them.
                ended.sure(Confidence::Likely)
            }
            None => JoinCause::of(about, format!("the kubelet ended {crashes} times")),
        })
    }
}

/// The API server has said something, whatever it was.
fn has_answered(event: &JoinEvent) -> bool {
    matches!(event, JoinEvent::Request(Ok(_) | Err(Why::Absent)) | JoinEvent::Node(Ok(_)) | JoinEvent::Lease(Ok(_)))
}
