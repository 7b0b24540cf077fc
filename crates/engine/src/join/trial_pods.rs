//! A throw-away Pod on this node, for networks whose plugin serves nobody else: made, looked at until it has an address, and
//! taken away again whatever came of it.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::IpAddr;
use std::sync::PoisonError;
use std::time::Duration;

use carrick_cluster::trial_pods::{self, TrialPod};
use carrick_cluster::{ApiError, ApiProblem, ClusterClient};
use carrick_core::fact::Why;
use carrick_core::join::observed;
use carrick_core::join::verify::{ContainerStart, Sandbox, StandIn};
use carrick_core::redact::redact;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::observer::{NodeObserver, Trial, Tried, of_cluster, sandbox_image};

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
    pub(super) async fn try_one(&self, trial: &Trial<'_>) -> Tried {
        // What a killed run left must not stand there for ever; two runs at once only cost each other a try.
        let left = trial_pods::left_behind(self.admin, &self.observer.node).await.unwrap_or_default();
        for pod in &left {
            let _ = trial_pods::remove(self.admin, pod).await;
        }
        let image = sandbox_image(trial.facts).unwrap_or_else(|| PAUSE.to_owned());
        let pod = TrialPod::new(number());
        // Before it is made: whoever is stopped in between, or gets no answer, knows of it.
        self.made().push(pod.clone());
        let mut tried = match trial_pods::create(self.admin, &pod, &self.observer.node, &image).await {
            Ok(pod) => self.watch(&pod, trial).await,
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

    /// Until it has an address, and where that is asked for its container runs, or it is known why not.
    async fn watch(&self, pod: &TrialPod, trial: &Trial<'_>) -> Tried {
        let begun = Instant::now();
        let mut proven = None;
        loop {
            match trial_pods::get(self.admin, pod).await {
                Ok(object) => {
                    if proven.is_none()
                        && let Some(address) = address(&object)
                    {
                        let dialled = self.observer.dial_from(&pod.uid, trial.peers).await;
                        let sandbox = Sandbox { pod: Some(pod.full_name()), ..Sandbox::new(address, Vec::new()) };
                        proven = Some(Tried { dialled, ..Tried::of(Ok(sandbox)) });
                    }
                    let start = Start::of(&object, begun.elapsed());
                    match proven.take() {
                        Some(tried) if start != Start::Awaited || !trial.makes_one => {
                            return Tried { container: start.seen(), ..tried };
                        }
                        tried => proven = tried,
                    }
                    if let Some(says) = over(&object).filter(|_| proven.is_none()) {
                        return Tried::without(StandIn::Refused { says });
                    }
                }
                Err(error) if error.may_pass() => {}
                // Somebody else took it away.
                Err(error) if error.is_not_found() => return proven.unwrap_or_else(|| Tried::of(Err(Why::TimedOut))),
                Err(error) => return proven.unwrap_or_else(|| Tried::of(Err(of_cluster(error.into())))),
            }
            if begun.elapsed() >= COMPLAINS
                && proven.is_none()
                && let Ok(Some(says)) = trial_pods::complaint(self.admin, pod).await
            {
                return Tried::of(Err(Why::Broken(redact(&says))));
            }
            if begun.elapsed() >= PATIENCE {
                let late = trial.makes_one.then(|| ContainerStart::Late { pod: pod.full_name() });
                return Tried { container: late, ..proven.unwrap_or_else(|| Tried::of(Err(Why::TimedOut))) };
            }
            sleep(LOOK).await;
        }
    }
}

/// What has become of its container.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Start {
    Awaited,
    /// Its image is not here: nothing will come of it, and nothing is known.
    WithoutImage,
    Seen(ContainerStart),
}

impl Start {
    /// A failure that has stood for as long as what passes takes is one.
    fn of(pod: &Value, elapsed: Duration) -> Self {
        const WITHOUT_IMAGE: [&str; 4] = ["ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName"];
        let waits = pod.pointer("/status/containerStatuses/0/state/waiting/reason").and_then(Value::as_str);
        match observed::container_start(pod) {
            Some(ContainerStart::Fails { .. }) if elapsed < COMPLAINS => Start::Awaited,
            Some(start) => Start::Seen(start),
            None if waits.is_some_and(|reason| WITHOUT_IMAGE.contains(&reason)) => Start::WithoutImage,
            None => Start::Awaited,
        }
    }

    fn seen(self) -> Option<ContainerStart> {
        match self {
            Start::Seen(start) => Some(start),
            Start::Awaited | Start::WithoutImage => None,
        }
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

    #[test]
    fn a_container_that_fails_is_given_the_time_that_passes() {
        let of = |reason: &str, elapsed| {
            let state = if reason.is_empty() { json!({"running": {}}) } else { json!({"waiting": {"reason": reason}}) };
            let pod = json!({"metadata": {"namespace": "a", "name": "b"}, "status": {"containerStatuses": [{"state": state}]}});
            Start::of(&pod, elapsed)
        };
        let runs = ContainerStart::Runs { pod: "a/b".into() };
        let fails = ContainerStart::Fails { pod: "a/b".into(), says: "CreateContainerError".into() };
        for (reason, elapsed, expected) in [
            ("", LOOK, Start::Seen(runs)),
            ("ContainerCreating", COMPLAINS, Start::Awaited),
            ("CreateContainerError", LOOK, Start::Awaited),
            ("CreateContainerError", COMPLAINS, Start::Seen(fails)),
            ("ErrImageNeverPull", LOOK, Start::WithoutImage),
        ] {
            assert_eq!(of(reason, elapsed), expected, "{reason:?} after {elapsed:?}");
        }
    }
}
