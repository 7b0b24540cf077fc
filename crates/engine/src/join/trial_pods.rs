//! A throw-away Pod on this node, for networks whose plugin serves nobody else: made, looked at until it has an address, and
//! taken away again whatever came of it.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::PoisonError;
use std::time::Duration;

use carrick_cluster::trial_pods::{self, TrialPod};
use carrick_cluster::{ApiError, ApiProblem, ClusterClient};
use carrick_core::fact::{Facts, Why};
use carrick_core::join::verify::{Dialled, Sandbox, StandIn};
use carrick_core::redact::redact;
use carrick_host::cri::{self, sandbox};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::observer::{NodeObserver, Tried, of_cluster, sandbox_image};

/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(300);
/// A plugin that waits for its daemon gives up after 30 s, and a kubelet is told of a Pod within a second.
const PATIENCE: Duration = Duration::from_secs(40);
/// A network agent is behind for seconds: a complaint that stands for longer is the reason.
const COMPLAINS: Duration = Duration::from_secs(15);
/// The name that an image has where the runtime does not tell which one it uses. It need not be there: a Pod gets its address
/// before its containers are looked at, and nothing is pulled.
const PAUSE: &str = "registry.k8s.io/pause:3.10";

/// Those of one node.
pub(super) struct TrialPods<'o, 'a> {
    pub admin: &'a ClusterClient,
    pub observer: &'o NodeObserver<'a>,
}

impl TrialPods<'_, '_> {
    /// Makes one, and takes it away.
    pub(super) async fn try_one(&self, facts: &Facts, peers: &[SocketAddr]) -> Tried {
        // What a killed run left must not stand there for ever; two runs at once only cost each other a try.
        let left = trial_pods::left_behind(self.admin, &self.observer.node).await.unwrap_or_default();
        for pod in &left {
            let _ = trial_pods::remove(self.admin, pod).await;
        }
        let image = sandbox_image(facts).unwrap_or_else(|| PAUSE.to_owned());
        let pod = TrialPod::new(number());
        // Before it is made: whoever is stopped in between, or gets no answer, knows of it.
        self.made().push(pod.clone());
        let mut tried = match trial_pods::create(self.admin, &pod, &self.observer.node, &image).await {
            Ok(pod) => self.watch(&pod, peers).await,
            Err(error) if is_refusal(&error) => Tried::without(StandIn::Refused { says: error.to_string() }),
            Err(error) => Tried::of(Err(of_cluster(error.into()))),
        };
        if let (Err(why), Ok(sandbox)) = (self.clear().await, &mut tried.sandbox) {
            sandbox.left = Some(why.to_string());
        }
        tried
    }

    /// Takes away all that this run has made. What cannot be is found by its label, by the next run.
    pub(super) async fn clear(&self) -> Result<(), Why> {
        let (made, mut first) = (self.made().clone(), Ok(()));
        for pod in made {
            first = first.and(trial_pods::remove(self.admin, &pod).await.map_err(Why::from));
            // Only now: who is stopped meanwhile has still to do it.
            self.made().retain(|known| *known != pod);
        }
        first
    }

    fn made(&self) -> std::sync::MutexGuard<'_, Vec<TrialPod>> {
        self.observer.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until it has an address, or it is known why it gets none.
    async fn watch(&self, pod: &TrialPod, peers: &[SocketAddr]) -> Tried {
        let begun = Instant::now();
        loop {
            match trial_pods::get(self.admin, pod).await {
                Ok(object) => {
                    if let Some(address) = address(&object) {
                        let dialled = self.dial_from(pod, peers).await;
                        let sandbox = Sandbox { pod: Some(pod.full_name()), ..Sandbox::new(address, Vec::new()) };
                        return Tried { dialled, ..Tried::of(Ok(sandbox)) };
                    }
                    if let Some(says) = over(&object) {
                        return Tried::without(StandIn::Refused { says });
                    }
                }
                Err(error) if error.may_pass() => {}
                // Somebody else took it away.
                Err(error) if error.is_not_found() => return Tried::of(Err(Why::TimedOut)),
                Err(error) => return Tried::of(Err(of_cluster(error.into()))),
            }
            if begun.elapsed() >= COMPLAINS
                && let Ok(Some(says)) = trial_pods::complaint(self.admin, pod).await
            {
                return Tried::of(Err(Why::Broken(redact(&says))));
            }
            if begun.elapsed() >= PATIENCE {
                return Tried::of(Err(Why::TimedOut));
            }
            sleep(LOOK).await;
        }
    }

    async fn dial_from(&self, pod: &TrialPod, peers: &[SocketAddr]) -> Vec<Dialled> {
        if peers.is_empty() {
            return Vec::new();
        }
        let host = self.observer.host;
        sandbox::dial_from_pod(host, &cri::endpoints(host), &pod.uid, peers).await.unwrap_or_default()
    }
}

/// The API server was reached, and does not want it: a right, an admission plugin or webhook, a quota. What may pass is none.
fn is_refusal(error: &ApiError) -> bool {
    match &error.problem {
        ApiProblem::Forbidden(_) | ApiProblem::Invalid(_) | ApiProblem::Conflict(_) => true,
        ApiProblem::Status(status, _) => status.is_client_error(),
        _ => false,
    }
}

fn address(pod: &Value) -> Option<IpAddr> {
    pod.pointer("/status/podIP")?.as_str()?.parse().ok()
}

/// Why the kubelet did not take it: no room, a taint, a node that is shutting down.
fn over(pod: &Value) -> Option<String> {
    let text = |key: &str| pod.pointer(&format!("/status/{key}")).and_then(Value::as_str).unwrap_or_default();
    let says = || redact(format!("{} {}", text("reason"), text("message")).trim());
    (text("phase") == "Failed").then(says)
}

/// That nobody else has; the standard library seeds every `RandomState` anew.
fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use carrick_cluster::ServerMessage;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_a_decision_and_no_failure() {
        let error = |problem| ApiError { server: "10.0.0.11:6443".parse().unwrap(), problem };
        let said = || ServerMessage(Some("exceeded quota".into()));
        for (problem, refuses) in [
            (ApiProblem::Forbidden(said()), true),
            (ApiProblem::Invalid(said()), true),
            (ApiProblem::Status(400.try_into().unwrap(), said()), true),
            (ApiProblem::Status(500.try_into().unwrap(), said()), false),
            (ApiProblem::TimedOut(LOOK), false),
            (ApiProblem::TooManyRequests { retry_after: None, said: said() }, false),
        ] {
            assert_eq!(is_refusal(&error(problem.clone())), refuses, "{problem:?}");
        }
    }

    #[test]
    fn a_pod_that_is_over_never_had_a_chance() {
        let rejected = json!({"status": {"phase": "Failed", "reason": "OutOfpods", "message": "Node didn't have enough resource"}});
        assert_eq!(over(&rejected).as_deref(), Some("OutOfpods Node didn't have enough resource"));
        assert_eq!(over(&json!({"status": {"phase": "Pending"}})), None);
        assert_eq!(address(&json!({"status": {"podIP": "10.0.0.7"}})), Some(IpAddr::from([10, 0, 0, 7])));
        assert_ne!(number(), number());
    }
}
