//! Whether this machine has really joined: everything there is to see of it, judged by `core::join::verify`.
//!
//! Every wait is bounded: a look at the machine by its time boxes, a question to the API server by 3 s, the lease by the time
//! it is good for, the sandbox by the runtime's own deadlines. Only `soak` takes longer than three minutes.

use std::time::Duration;

use carrick_core::check::Outcome;
use carrick_core::fact::{Facts, Why};
use carrick_core::join::observed;
use carrick_core::join::step::{PodTrial, UNREACHED};
use carrick_core::join::verify::{
    AgentPod, ClientCertificate, LeaseRenewal, NodeEvidence, NodeLease, StandIn, Until, awaits_renewal, judge,
    only_causes_are_open,
};
use carrick_core::judge::Ignore;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::inspect::{Inspected, LiveDiagnosis};
use super::observer::NodeObserver;

const AGAIN: Duration = Duration::from_secs(1);
/// A runtime that takes long to answer may only be busy: with images, or on a machine that is.
const BUSY: Duration = Duration::from_secs(20);
/// A lease that nobody renews has run out after 40 s; one that is good for longer than a minute is not waited for.
const LONGEST_LEASE: Duration = Duration::from_mins(1);
/// A kubelet that was restarted looks at every pod within seconds; an agent that is not Ready for longer is down.
const COMES_BY_ITSELF: Duration = Duration::from_secs(30);
/// Pods that die in a loop are up for seconds: looked at this often, none is missed, as restarts are counted.
const POD_LOOKS: Duration = Duration::from_secs(5);

/// Fills in all that can be seen; last, where all else holds, what live diagnosis knows. `soak`: for how long the node's
/// agents are watched. `tell` hears what is waited for.
pub async fn look(
    observer: &mut NodeObserver<'_>,
    until: Until,
    soak: Option<Duration>,
    diagnosis: &LiveDiagnosis<'_>,
    tell: &mut (dyn FnMut(&str) + Send),
) -> NodeEvidence {
    let mut seen = evidence(observer, until, soak, diagnosis.ignore, tell).await;
    if only_causes_are_open(&seen, until) {
        tell("causes that keep pods from running here are looked for");
        let pods = observer.bound_pods().await;
        let Inspected { agents, detours, standing } =
            diagnosis.look(observer.probe(), &seen.node, &seen.agents, pods).await;
        (seen.agents, seen.detours, seen.standing) = (agents, detours, standing);
    }
    seen
}

async fn evidence(
    observer: &mut NodeObserver<'_>,
    until: Until,
    soak: Option<Duration>,
    ignore: &Ignore,
    tell: &mut (dyn FnMut(&str) + Send),
) -> NodeEvidence {
    observer.proves_containers = true;
    let mut facts = observer.machine().await;
    let mut seen = of_machine(observer, &facts);
    let begun = Instant::now();
    while seen.runtime == Err(Why::TimedOut) && begun.elapsed() < BUSY {
        tell("the container runtime does not answer");
        facts = observer.machine().await;
        seen = of_machine(observer, &facts);
    }
    tell("the API server is asked about this node");
    try_certificate(observer, &mut seen).await;
    if !observer.can_ask() {
        return seen;
    }
    let mut object = observer.node_object().await;
    seen.node = observer.node(&object);
    if wait_for_renewal(observer, &mut seen, tell).await {
        object = observer.node_object().await;
        seen.node = observer.node(&object);
    }
    seen.agents = agents(observer, tell).await;
    seen.kube_proxy_set = observer.kube_proxy_set(&seen.agents, &object).await;
    let sets = observer.network_sets(&seen.agents, &object).await;
    seen.network_set = sets.clone().map(|(set, _)| set);
    seen.kept_off = sets.map(|(_, kept)| kept);
    // Where something before it fails, no sandbox is needed to say so.
    if until < Until::Verified || judge(&seen, Until::Network).iter().any(|it| it.verdict == Outcome::Fail) {
        return seen;
    }
    let PodTrial { sandbox, stand_in, container, reach, peers, refused_for: _ } =
        tried(observer, &facts, &object, ignore, tell).await;
    (seen.sandbox, seen.stand_in, seen.container) = (sandbox, stand_in, container);
    (seen.reach, seen.peers) = (reach, peers);
    if let Some(soak) = soak {
        seen.pods = watch(observer, soak, tell).await;
        // What was seen before is minutes old.
        let facts = observer.machine().await;
        (seen.kubelet, seen.runtime) = (observed::kubelet(&facts), observed::runtime(&facts));
        (seen.node, seen.agents) = (observer.node(&observer.node_object().await), observer.agents().await);
    }
    seen
}

/// What the machine itself shows.
pub fn of_machine(observer: &NodeObserver<'_>, facts: &Facts) -> NodeEvidence {
    NodeEvidence {
        kubelet: observed::kubelet(facts),
        certificate: observed::certificate(facts, &observer.node, &observer.asked),
        cluster: observed::cluster(facts, &observer.asked),
        runtime: observed::runtime(facts),
        addresses: observed::addresses(facts),
        ..NodeEvidence::default()
    }
}

/// A certificate that looks right may still be one the API server does not take: of a cluster that was set up anew.
async fn try_certificate(observer: &mut NodeObserver<'_>, seen: &mut NodeEvidence) {
    observer.settle(&mut seen.certificate).await;
    if seen.certificate != Ok(ClientCertificate::Trusted) {
        return;
    }
    // What Carrick cannot use, the kubelet may: only who asked with it has seen that it is refused.
    if let Err(why) = observer.take_own().await {
        seen.certificate = Err(why.into());
    } else if let Some(why) = observer.own_is_refused().await {
        seen.certificate = Ok(ClientCertificate::Stale { why });
    }
}

/// Tries whether a pod runs here. For a while it is waited for what comes by itself: an agent that a kubelet has just started
/// anew is not Ready yet, and a pod that is on its way has no address.
async fn tried(
    observer: &NodeObserver<'_>,
    facts: &Facts,
    node: &Result<Value, Why>,
    ignore: &Ignore,
    tell: &mut (dyn FnMut(&str) + Send),
) -> PodTrial {
    let begun = Instant::now();
    tell("it is tried whether a pod gets an address here, and is reached");
    loop {
        let mut trial = observer.trial(facts, node, ignore).await;
        if let Ok(dialled) = &mut trial.peers {
            dialled.has_lasted = begun.elapsed() >= UNREACHED.unsigned_abs();
            if dialled.is_unanswered() && !dialled.has_lasted {
                tell("no pod of another node answers from here yet");
                sleep(AGAIN).await;
                continue;
            }
        }
        let waits_for = match &trial.stand_in {
            Some(StandIn::AgentDown { pod }) => format!("the network's agent {pod} is not Ready yet"),
            Some(StandIn::OnItsWay { pod }) => format!("pod {pod} has no address yet"),
            Some(StandIn::Refused { .. } | StandIn::Unlisted { .. } | StandIn::Nobody) | None => return trial,
        };
        if begun.elapsed() >= COMES_BY_ITSELF {
            return trial;
        }
        tell(&waits_for);
        sleep(AGAIN).await;
    }
}

/// The node's agents, once those of the network are ready, or have had the time that takes by itself.
async fn agents(observer: &NodeObserver<'_>, tell: &mut (dyn FnMut(&str) + Send)) -> Result<Vec<AgentPod>, Why> {
    let begun = Instant::now();
    loop {
        let agents = observer.agents().await?;
        let down = agents.iter().find(|pod| !pod.is_kube_proxy && !pod.ready);
        let Some(pod) = down.filter(|_| begun.elapsed() < COMES_BY_ITSELF) else { return Ok(agents) };
        tell(&format!("the network's agent {} is not Ready yet", pod.name));
        sleep(AGAIN).await;
    }
}

/// Looks at the lease until it is seen renewed, or has run out; at none until the kubelet makes it anew. Whether that took a while.
async fn wait_for_renewal(
    observer: &NodeObserver<'_>,
    seen: &mut NodeEvidence,
    tell: &mut (dyn FnMut(&str) + Send),
) -> bool {
    let begun = Instant::now();
    let of = |renewal: LeaseRenewal| NodeLease { first: renewal.clone(), last: renewal };
    seen.lease = observer.lease().await.map(of);
    if matches!(seen.lease, Ok(_) | Err(Why::Absent)) {
        seen.lease_refusal = observer.lease_refusal().await;
    }
    let mut waited = false;
    loop {
        let longest = if seen.lease.is_ok() { LONGEST_LEASE } else { COMES_BY_ITSELF };
        if awaits_renewal(seen).is_none() || begun.elapsed() >= longest {
            return waited;
        }
        tell("its kubelet renews the node's lease every 10 s: not seen yet");
        sleep(AGAIN).await;
        waited = true;
        match (&mut seen.lease, observer.lease().await) {
            (Ok(lease), Ok(last)) => lease.last = last,
            (none @ Err(_), Ok(made)) => *none = Ok(of(made)),
            (_, Err(_)) => {}
        }
    }
}

/// Watches the agents until one restarts, or the time is over. One answer that does not come is no reason to give up.
async fn watch(
    observer: &NodeObserver<'_>,
    soak: Duration,
    tell: &mut (dyn FnMut(&str) + Send),
) -> Result<Vec<AgentPod>, Why> {
    let (begun, before) = (Instant::now(), observer.agents().await?);
    loop {
        let left = soak.saturating_sub(begun.elapsed());
        tell(&format!("{} network agents are watched for {} s more", before.len(), left.as_secs()));
        sleep(left.min(POD_LOOKS)).await;
        let so_far = observer.agents().await.map(|now| observed::restarted(&before, &now));
        let has_restarted = so_far.as_ref().is_ok_and(|pods| pods.iter().any(|pod| pod.restarts > 0));
        if has_restarted || begun.elapsed() >= soak {
            return so_far;
        }
    }
}

#[cfg(test)]
mod tests {
    use carrick_core::fact::identity::MachineIdentity;
    use carrick_core::fact::kubeconfig::{KUBELET, sample};
    use carrick_core::fact::pki;
    use carrick_host::Host;
    use carrick_testkit::Machine;
    use std::sync::Arc;

    use super::*;

    /// The kubelet may well take what Carrick does not: a proxy, a key of another kind.
    #[tokio::test]
    async fn a_credential_that_carrick_cannot_use_is_not_called_stale() {
        let proxied = sample::kubelet("https://10.0.0.11:6443", "PEM")
            .replace("    server:", "    proxy-url: http://p\n    server:");
        let well = vec![(KUBELET, proxied.as_str()), (pki::CLIENT, "a key of another kind")];
        for (files, says) in [(well, "proxy-url is not supported"), (vec![], "not there")] {
            let host: Arc<dyn Host> = Machine::with(&files).shared();
            let nobody = MachineIdentity { uuid: None, machine_id: None };
            let mut observer = NodeObserver::new(&host, "w1".to_owned(), nobody, None);
            let mut seen = NodeEvidence { certificate: Ok(ClientCertificate::Trusted), ..NodeEvidence::default() };
            try_certificate(&mut observer, &mut seen).await;
            assert!(matches!(&seen.certificate, Err(Why::Broken(why)) if why.contains(says)), "{:?}", seen.certificate);
        }
    }
}
