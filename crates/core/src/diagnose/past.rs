//! What of a machine's journals is over: written before this boot, this join or this reset, about a pod or an image that is
//! there by now, or a pod that is gone; or not said again by a kubelet that would have.
//!
//! Facts say how the machine is, a line only how it was. A start has its stumbles (a sandbox before the network, a pull before the
//! registry), and they stay in the journal for as long as the unit runs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::scan::{Moment, Sighting};
use crate::catalogue::Stops;
use crate::fact::{Facts, journal, kubeconfig, unit};
use crate::join::observed::kubelet_started_at;
use crate::signature::{Severity, Signature};

/// A container that ended before and has run for so long stays up: one that crashes at its start does so sooner, and the
/// kubelet holds it back for at least as long.
const STAYS_UP: SignedDuration = SignedDuration::from_secs(10);

/// A kubelet tries again what it could not do for a pod after five minutes at the latest (`MaxContainerBackOff`, and the same for
/// images), and complains at every sync in between: who has been silent for twice as long has nothing to complain of.
const SAYS_AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// The pods that a node is to run, by their full names, and when the cluster said so, by this machine's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundPods {
    pub names: BTreeSet<String>,
    pub at: Timestamp,
}

/// What ends a complaint that no success follows: its pod is gone, or it was not said again.
#[derive(Debug, Default)]
pub(super) struct Lapsed {
    pods: Option<BoundPods>,
    /// A kubelet that runs would have said again what was last said before this.
    silent_since: Option<Timestamp>,
}

impl Lapsed {
    pub(super) fn of(facts: &Facts) -> Self {
        let since = facts.taken_at.checked_sub(SAYS_AGAIN).ok();
        let runs = facts.unit_state("kubelet").is_ok_and(|state| state.is_active())
            && !facts.kubelet_is_suspended().is_ok_and(|is| is);
        let began = kubelet_started_at(facts).filter(|_| runs);
        Lapsed { pods: None, silent_since: since.filter(|since| began.is_some_and(|began| began <= *since)) }
    }

    /// Which pods are on the node by now. Whether that is news.
    pub(super) fn set_pods(&mut self, pods: BoundPods) -> bool {
        let is_new = self.pods.as_ref().is_none_or(|known| known.names != pods.names);
        self.pods = Some(pods);
        is_new
    }

    /// Whether a pod (by its name alone, as sightings have it) was not on the node any more after something had been said of it.
    pub(super) fn is_gone(&self, pod: &str, said: &Moment) -> bool {
        let has = |pods: &BoundPods| pods.names.iter().any(|name| name.rsplit('/').next() == Some(pod));
        let is_gone = |pods: &BoundPods| said.at.is_some_and(|at| at < pods.at) && !has(pods);
        self.pods.as_ref().is_some_and(is_gone)
    }

    /// Whether what keeps pods from running would have been said again by now. What only a request brings up (somebody asks for a
    /// log) is not.
    pub(super) fn is_silent(&self, signature: &Signature, sighting: &Sighting) -> bool {
        let is_retried = match signature.about().map(|about| about.stops) {
            Some(Stops::Pods | Stops::Network) => true,
            Some(Stops::Traffic) if signature.severity >= Severity::Error => true,
            Some(Stops::Nothing | Stops::Node | Stops::Traffic) | None => {
                !sighting.of_other_pods && !sighting.pods.is_empty()
            }
        };
        let is_of_a_journal = || sighting.hits.iter().all(|hit| journal::is_one(&hit.source));
        is_retried
            && self.silent_since.zip(sighting.last).is_some_and(|(since, last)| last < since)
            && is_of_a_journal()
    }
}

/// How the machine is by now, as far as that ends what was said of it before.
#[derive(Debug, Default)]
pub(super) struct Present {
    /// What was written before this is of another boot, or of a join that is over.
    since: Option<Timestamp>,
    taken_at: Timestamp,
    /// By their full names.
    pods: BTreeMap<String, PodNow>,
    /// Of the sandboxes that are there, ready or not, by their ids: whose they are.
    sandboxes: BTreeMap<String, String>,
    /// Of containers by their ids, as the runtime made them: in which sandbox, and under which name.
    made: BTreeMap<String, (String, String)>,
    images: BTreeSet<String>,
}

/// A pod with a sandbox that is ready.
#[derive(Debug, Default)]
struct PodNow {
    made: Option<Timestamp>,
    /// Its containers that run, and since when they are there.
    containers: BTreeMap<String, Timestamp>,
}

impl Present {
    pub(super) fn of(facts: &Facts) -> Self {
        let mut pods: BTreeMap<String, PodNow> = BTreeMap::new();
        let mut sandboxes: BTreeMap<String, String> = BTreeMap::new();
        for sandbox in facts.sandboxes().unwrap_or_default() {
            sandboxes.insert(sandbox.id, sandbox.pod.clone());
            if sandbox.ready {
                pods.entry(sandbox.pod).or_default().made = sandbox.created_at;
            }
        }
        for container in facts.containers().unwrap_or_default() {
            let pod = sandboxes.get(&container.sandbox).and_then(|pod| pods.get_mut(pod));
            if let (Some(pod), Some(at)) = (pod, container.created_at) {
                pod.containers.insert(container.name, at);
            }
        }
        let images = facts.runtime_images().unwrap_or_default().iter().map(|image| full_name(image)).collect();
        let made = facts.query(&journal::CONTAINERD).map(|journal| made(&journal.text)).unwrap_or_default();
        Present { since: since(facts), taken_at: facts.taken_at, pods, sandboxes, made, images }
    }

    /// What was written before this is over as well: of a join that is under way, its beginning.
    pub(super) fn not_before(self, since: Option<Timestamp>) -> Self {
        Present { since: self.since.max(since), ..self }
    }

    /// A journal as `journalctl -o json` gives it, without the entries that are over: their lines are empty, so that the others
    /// keep their places.
    pub(super) fn current<'t>(&self, journal: &'t str) -> Cow<'t, str> {
        if !journal.lines().any(|line| self.is_over(line)) {
            return Cow::Borrowed(journal);
        }
        Cow::Owned(
            journal
                .lines()
                .map(|line| if self.is_over(line) { "\n".to_owned() } else { format!("{line}\n") })
                .collect(),
        )
    }

    fn is_over(&self, line: &str) -> bool {
        let Some(at) = written_at(line) else { return false };
        if self.since.is_some_and(|since| at < since) {
            return true;
        }
        // Most lines name neither, and none is read that does not.
        let may_name =
            ["pod", "Pod", "image", "Image", "ontainer", "/manifests/"].iter().any(|word| line.contains(word));
        may_name && message(line).is_some_and(|message| self.is_settled(&message, at))
    }

    /// Whether a complaint about a pod or an image is followed by that pod's or image's success.
    fn is_settled(&self, message: &str, at: Timestamp) -> bool {
        if !is_complaint(message) {
            return false;
        }
        if let Some(pod) = pod_of(message) {
            return self.pods.get(&pod).is_some_and(|pod| self.has_come_up(pod, container_of(message), message, at));
        }
        if let Some((sandbox, container)) = id_of(message).and_then(|id| self.made.get(id)) {
            let Some(pod) = self.sandboxes.get(sandbox) else { return !self.sandboxes.is_empty() };
            return self.pods.get(pod).is_some_and(|pod| self.has_come_up(pod, Some(container), message, at));
        }
        image_of(message).is_some_and(|image| self.has_image(&image))
    }

    /// A mirror may have a path of its own before that of the image.
    fn has_image(&self, image: &Image) -> bool {
        match image {
            Image::Named(name) => self.images.contains(&full_name(name)),
            Image::Mirrored { registry, path } => self.images.iter().any(|known| {
                let own = known.strip_prefix(registry.as_str()).and_then(|rest| rest.strip_prefix('/'));
                own.is_some_and(|own| {
                    path.strip_suffix(own).is_some_and(|before| before.is_empty() || before.ends_with('/'))
                })
            }),
        }
    }

    fn has_come_up(&self, pod: &PodNow, container: Option<&str>, message: &str, at: Timestamp) -> bool {
        let since = |made: &Timestamp| *made > at;
        if message.contains("andbox") {
            return pod.made.as_ref().is_some_and(since);
        }
        let Some(container) = container else { return pod.containers.values().any(since) };
        let Some(made) = pod.containers.get(container).filter(|made| since(made)) else { return false };
        let crashed = message.contains("restarting failed container") || message.contains("CrashLoopBackOff");
        !crashed || self.taken_at.duration_since(*made) >= STAYS_UP
    }
}

/// The last of: the boot, the join that is here, the end of the one that was.
fn since(facts: &Facts) -> Option<Timestamp> {
    let up = facts.file(unit::UPTIME).ok().and_then(|capture| capture.text.split_whitespace().next()?.parse().ok());
    let boot = up.and_then(|up| facts.taken_at.checked_sub(SignedDuration::try_from_secs_f64(up).ok()?).ok());
    // Written once, when the kubelet has its certificate: what was in its way until then is over.
    let (dir, name) = kubeconfig::KUBELET.rsplit_once('/').unwrap_or_default();
    let joined = facts.entry(dir, name).ok().flatten().and_then(|entry| Timestamp::from_second(entry.mtime).ok());
    let left = facts.unjoined_since().ok().flatten();
    [boot, joined, left].into_iter().flatten().max()
}

fn written_at(line: &str) -> Option<Timestamp> {
    const KEY: &str = "\"__REALTIME_TIMESTAMP\":\"";
    let digits = line.get(line.find(KEY)? + KEY.len()..)?;
    Timestamp::from_microsecond(digits.split('"').next()?.parse().ok()?).ok()
}

fn message(line: &str) -> Option<String> {
    let entry: Value = serde_json::from_str(line).ok()?;
    entry.get("MESSAGE")?.as_str().map(str::to_owned)
}

/// Written as an error or a warning: by klog, or by logrus.
fn is_complaint(message: &str) -> bool {
    let mut head = message.bytes();
    let klog =
        matches!(head.next(), Some(b'E' | b'W' | b'F')) && head.by_ref().take(4).all(|byte| byte.is_ascii_digit());
    // Of a registry that does not answer containerd says that it tries the next, and calls that news.
    let levels = ["level=error", "level=warning", "level=fatal", "msg=\"trying next host\""];
    klog || levels.iter().any(|level| message.contains(level))
}

/// The pod that a line of the kubelet (`pod="ns/name"`, `in pod name_ns(uid)`) or of containerd
/// (`PodSandboxMetadata{Name:…,Namespace:…}`) is about.
pub(super) fn pod_of(message: &str) -> Option<String> {
    if let Some(rest) = after(message, " pod=\"") {
        let pod = rest.split('"').next()?;
        return pod.contains('/').then(|| pod.to_owned());
    }
    if let Some(rest) = after(message, " in pod ") {
        let (name, namespace) = rest.split('(').next()?.split_once('_')?;
        return Some(format!("{namespace}/{name}"));
    }
    let rest = after(message, "PodSandboxMetadata{Name:")?;
    let (name, namespace) = (rest.split(',').next()?, after(rest, "Namespace:")?.split(',').next()?);
    Some(format!("{namespace}/{name}"))
}

fn container_of(message: &str) -> Option<&str> {
    let quoted =
        || after(message, "\\\"StartContainer\\\" for \\\"").or_else(|| after(message, "\"StartContainer\" for \""));
    let named = |rest: &'_ str| rest.find(['\\', '"', ' ']).map_or(rest.len(), |end| end);
    let failed = || after(message, "\"container ").filter(|rest| rest.contains(" start failed in pod "));
    let rest = quoted().or_else(|| after(message, "restarting failed container=")).or_else(failed)?;
    rest.get(..named(rest))
}

/// The container that a line names by its id alone.
fn id_of(message: &str) -> Option<&str> {
    let before = ["StartContainer for \\\"", "StartContainer for \"", "containerID=\""];
    before.iter().find_map(|before| after(message, before))?.split(['\\', '"']).next()
}

/// What containerd says of each container that it has made.
fn made(journal: &str) -> BTreeMap<String, (String, String)> {
    let one = |line: &str| {
        let message = message(line)?.replace("\\\"", "\"");
        let until_quote = |rest: &str| rest.split('"').next().map(str::to_owned);
        let sandbox = until_quote(after(&message, "CreateContainer within sandbox \"")?)?;
        let name = after(&message, "ContainerMetadata{Name:")?.split(',').next()?.to_owned();
        let id = until_quote(after(&message, "returns container id \"")?)?;
        Some((id, (sandbox, name)))
    };
    journal.lines().filter(|line| line.contains("returns container id")).filter_map(one).collect()
}

/// An image that could not be pulled.
#[derive(Debug, PartialEq, Eq)]
enum Image {
    Named(String),
    /// Asked for at a mirror, in place of this registry.
    Mirrored {
        registry: String,
        path: String,
    },
}

fn image_of(message: &str) -> Option<Image> {
    let asked = after(message, "https://").or_else(|| after(message, "http://"));
    if let Some((host, rest)) = asked.and_then(|rest| rest.split_once("/v2/"))
        && let Some((name, tag)) = rest.split_once("/manifests/")
    {
        let tag = tag.split(['\\', '"']).next()?;
        let (tag, query) = tag.split_once('?').unwrap_or((tag, ""));
        let tag = if tag.contains(':') { format!("@{tag}") } else { format!(":{tag}") };
        // containerd says so to whoever is not the registry itself.
        if let Some(registry) = query.split('&').find_map(|part| part.strip_prefix("ns=")) {
            return Some(Image::Mirrored { registry: registry.to_owned(), path: format!("{name}{tag}") });
        }
        // Where Docker Hub is.
        let registry = if host == "registry-1.docker.io" { "docker.io" } else { host };
        return Some(Image::Named(format!("{registry}/{name}{tag}")));
    }
    let rest = ["PullImage \\\"", "PullImage \"", " image=\"", "pull image \\\"", "pull image \""]
        .iter()
        .find_map(|before| after(message, before))?;
    let image = rest.split(['\\', '"']).next()?;
    (!image.is_empty()).then(|| Image::Named(image.to_owned()))
}

fn after<'t>(text: &'t str, before: &str) -> Option<&'t str> {
    text.get(text.find(before)? + before.len()..)
}

/// As containerd lists it: with the registry and the tag that a short name leaves out.
fn full_name(image: &str) -> String {
    let has_registry =
        image.split_once('/').is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
    let place = match (has_registry, image.contains('/')) {
        (true, _) => String::new(),
        (false, true) => "docker.io/".to_owned(),
        (false, false) => "docker.io/library/".to_owned(),
    };
    let has_tag = image.contains('@') || image.rsplit('/').next().is_some_and(|last| last.contains(':'));
    format!("{place}{image}{}", if has_tag { "" } else { ":latest" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::fact::{Capture, Source, dir_key, join_places, kubelet_config};
    use crate::testing::{NOW, facts};

    fn at(seconds: i64) -> Timestamp {
        NOW.checked_add(SignedDuration::from_secs(seconds)).unwrap()
    }

    fn entry(seconds: i64, message: &str) -> String {
        json!({"__REALTIME_TIMESTAMP": at(seconds).as_microsecond().to_string(), "MESSAGE": message}).to_string() + "\n"
    }

    const CRASHED: &str = r#"E1115 20:39:45.223456     812 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"kube-flannel\" with CrashLoopBackOff: \"back-off 10s restarting failed container=kube-flannel pod=kube-flannel-ds-x_kube-flannel(0c4e)\"" pod="kube-flannel/kube-flannel-ds-x" podUID="0c4e""#;
    const NOT_PULLED: &str = r#"E1115 20:39:45.223456     812 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"kube-flannel\" with ErrImagePull: \"EOF\"" pod="kube-flannel/kube-flannel-ds-x" podUID="0c4e""#;
    const NO_SANDBOX: &str = r#"E1115 20:39:45.223456     812 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \"CreatePodSandbox\" for \"kube-flannel-ds-x_kube-flannel(0c4e)\"" pod="kube-flannel/kube-flannel-ds-x" podUID="0c4e""#;
    const OF_CONTAINERD: &str = r#"time="2026-11-15T20:39:45.2Z" level=error msg="RunPodSandbox for &PodSandboxMetadata{Name:kube-flannel-ds-x,Uid:0c4e,Namespace:kube-flannel,Attempt:0,} failed, error" error="failed to setup network for sandbox""#;
    const OF_IMAGE: &str = r#"time="2026-11-15T20:39:45.2Z" level=error msg="PullImage \"registry.k8s.io/kube-proxy:v1.34.4\" failed" error="failed to do request: EOF""#;
    const OF_KUBELET_IMAGE: &str = r#"E1115 20:39:45.223456     812 log.go:32] "PullImage from image service failed" err="rpc error" image="busybox""#;
    const NOT_STARTED: &str = r#"E1118 16:06:27.552139     133 kuberuntime_manager.go:1449] "Unhandled Error" err="container kube-flannel start failed in pod kube-flannel-ds-x_kube-flannel(0c4e): RunContainerError: OCI runtime create failed" logger="UnhandledError""#;
    const BY_ID: &str = r#"time="2026-11-15T20:39:45.2Z" level=error msg="StartContainer for \"0dced765\" failed" error="OCI runtime create failed""#;
    const BY_KUBELETS_ID: &str = r#"E1118 16:06:27.552005     133 log.go:32] "StartContainer from runtime service failed" err="rpc error: OCI runtime create failed" containerID="0dced765""#;
    const MADE: &str = r#"time="2026-11-15T20:39:45.1Z" level=info msg="CreateContainer within sandbox \"s\" for &ContainerMetadata{Name:kube-flannel,Attempt:0,} returns container id \"0dced765\"""#;
    const NEXT_HOST: &str = r#"time="2026-11-15T20:39:45.2Z" level=info msg="trying next host" error="failed to do request: Head \"https://registry.k8s.io/v2/kube-proxy/manifests/v1.34.4\": dial tcp: lookup registry.k8s.io: connection refused" host=registry.k8s.io"#;
    const AT_A_MIRROR: &str = r#"time="2026-11-15T20:39:45.2Z" level=info msg="trying next host" error="failed to do request: Head \"https://harbor.lan/v2/hub/library/busybox/manifests/latest?ns=docker.io\": tls: failed to verify certificate: x509: certificate signed by unknown authority" host=harbor.lan"#;
    const AT_DOCKER_HUB: &str = r#"time="2026-11-15T20:39:45.2Z" level=error msg="PullImage failed" error="failed to do request: Head \"https://registry-1.docker.io/v2/library/busybox/manifests/latest\": dial tcp: i/o timeout""#;
    const SUCCESS: &str =
        r#"I1115 20:39:45.223456     812 x.go:1] "Started container" pod="kube-flannel/kube-flannel-ds-x""#;

    /// A node with flannel's pod: its sandbox is of second 10, its container of second 20; and two images.
    fn node() -> Facts {
        let nanos = |seconds| at(seconds).as_nanosecond().to_string();
        let sandbox = json!({"items": [{"id": "s", "state": "SANDBOX_READY", "createdAt": nanos(10),
            "metadata": {"name": "kube-flannel-ds-x", "namespace": "kube-flannel"}}]});
        let container = json!({"containers": [{"id": "c", "podSandboxId": "s", "state": "CONTAINER_RUNNING",
            "createdAt": nanos(20), "metadata": {"name": "kube-flannel", "attempt": 1}}]});
        let images = json!({"images": [{"repoTags": ["registry.k8s.io/kube-proxy:v1.34.4"]}, {"repoTags": ["docker.io/library/busybox:latest"]}]});
        let mut facts = facts()
            .with_cri("pods", &sandbox.to_string())
            .with_cri("containers", &container.to_string())
            .with_cri("images", &images.to_string())
            .with_query(&journal::CONTAINERD, &entry(14, MADE));
        facts.taken_at = at(40);
        facts
    }

    fn is_over(facts: &Facts, seconds: i64, message: &str) -> bool {
        Present::of(facts).current(&entry(seconds, message)).trim().is_empty()
    }

    #[test]
    fn a_complaint_about_what_is_there_by_now_is_over() {
        for (name, second, message, over) in [
            ("pulled since", 15, NOT_PULLED, true),
            ("not pulled again since", 25, NOT_PULLED, false),
            ("stays up", 15, CRASHED, true),
            ("a sandbox since", 5, NO_SANDBOX, true),
            ("none since", 15, NO_SANDBOX, false),
            ("containerd's own words", 5, OF_CONTAINERD, true),
            ("containerd's own words, none since", 15, OF_CONTAINERD, false),
            ("the image is there", 39, OF_IMAGE, true),
            ("the image is there, by its short name", 39, OF_KUBELET_IMAGE, true),
            ("no complaint", 5, SUCCESS, false),
            ("the image is there, whatever a host said", 39, NEXT_HOST, true),
            ("the image is there, whatever a mirror said", 39, AT_A_MIRROR, true),
            ("the image is there, whatever Docker Hub said", 39, AT_DOCKER_HUB, true),
            ("started since", 15, NOT_STARTED, true),
            ("not started since", 25, NOT_STARTED, false),
            ("started since, by its id", 15, BY_ID, true),
            ("not started since, by its id", 25, BY_ID, false),
            ("started since, by the id that the kubelet names", 15, BY_KUBELETS_ID, true),
        ] {
            assert_eq!(is_over(&node(), second, message), over, "{name}");
        }
        let other = NOT_PULLED.replace("kube-flannel-ds-x", "kube-flannel-ds-y");
        assert!(!is_over(&node(), 15, &other), "another pod's success is not this one's");
        let other = NOT_PULLED.replace("for \\\"kube-flannel\\\"", "for \\\"install-cni\\\"");
        assert!(!is_over(&node(), 15, &other), "nor is another container's");
        for other in [
            AT_A_MIRROR.replace("ns=docker.io", "ns=quay.io"),
            AT_A_MIRROR.replace("hub/library/busybox", "hub/xlibrary/busybox"),
            AT_A_MIRROR.replace("latest", "1.36"),
        ] {
            assert!(!is_over(&node(), 39, &other), "{other}");
        }
        let unknown = BY_ID.replace("0dced765", "1dced765");
        assert!(!is_over(&node(), 15, &unknown), "nobody knows whose it was");
        let gone = node().with_cri("pods", r#"{"items": [{"id": "t", "state": "SANDBOX_READY"}]}"#);
        assert!(is_over(&gone, 15, BY_ID), "its pod is not there any more");
        let missing = node().without(Source::Cri("images"), crate::fact::Why::TimedOut);
        assert!(!is_over(&missing, 39, OF_IMAGE), "what is not known ends nothing");
        let mut young = node();
        young.taken_at = at(25);
        assert!(!is_over(&young, 15, CRASHED), "a crash loop is up for seconds, too");
    }

    #[test]
    fn what_was_before_this_boot_this_join_or_this_reset_is_over() {
        let seconds = |second| at(second).as_second();
        let listed = |facts: Facts, text: &str| {
            let mut facts = facts;
            facts.insert(dir_key("/etc/kubernetes"), Ok(Capture::text(text)));
            facts
        };
        let conf = format!("-rw------- 0 0 1 {} kubelet.conf\t\n", seconds(30));
        let mut facts = listed(facts().with_file(unit::UPTIME, "100.0 1.0\n"), &conf);
        facts.taken_at = at(100);
        let line = "E1115 20:39:45.223456     812 x.go:1] no";
        assert!(is_over(&facts, -1, line) && is_over(&facts, 29, line), "the join is of second 30");
        assert!(!is_over(&facts, 30, line));
        let unjoined = listed(facts, "")
            .without_file(kubeconfig::KUBELET)
            .without_file(kubeconfig::BOOTSTRAP)
            .without_file(kubelet_config::FILE)
            .with_query(&join_places::CHANGED, &format!("{} /etc/kubernetes\n", seconds(60)));
        assert!(is_over(&unjoined, 59, line) && !is_over(&unjoined, 60, line), "the reset is of second 60");
        let begun = unjoined.with_file(kubeconfig::BOOTSTRAP, "");
        assert!(!is_over(&begun, 59, line), "a join is under way: all of this boot counts");
        assert!(is_over(&begun, -1, line));
    }

    #[test]
    fn what_was_before_the_join_that_goes_on_is_over() {
        let over = |since| Present::of(&node()).not_before(since).current(&entry(25, NOT_PULLED)).trim().is_empty();
        assert_eq!((over(Some(at(30))), over(Some(at(25))), over(None)), (true, false, false));
    }

    #[test]
    fn lines_keep_their_places() {
        let journal = entry(15, NOT_PULLED) + &entry(15, SUCCESS);
        let current = Present::of(&node()).current(&journal).into_owned();
        assert_eq!((current.lines().count(), current.lines().next()), (2, Some("")));
        assert!(matches!(Present::default().current(&journal), Cow::Borrowed(_)));
    }

    #[test]
    fn an_image_has_one_name() {
        for (short, full) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("flannel/flannel:v1", "docker.io/flannel/flannel:v1"),
            ("registry.k8s.io/pause", "registry.k8s.io/pause:latest"),
            ("localhost:5000/a/b:1", "localhost:5000/a/b:1"),
            ("a@sha256:1", "docker.io/library/a@sha256:1"),
        ] {
            assert_eq!(full_name(short), full);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_journal(text in "(?s).*", message in any::<String>()) {
            let present = Present::of(&node());
            present.current(&text);
            present.current(&entry(1, &format!("E1115 pod=\"{message} PullImage \"{message}")));
        }
    }
}
