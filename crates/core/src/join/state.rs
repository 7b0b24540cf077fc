//! Where a join is. It is written down as it goes on, so that the next one knows of one that was cut off; what it says of
//! the machine is not trusted then, but looked at anew. No secret is ever in it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::failure::{self, JoinCause, JoinFailure};
use super::verify::{NodeEvidence, Until};
use crate::catalogue;
use crate::id;
use crate::stop::StopSignal;

/// What has been reached. The order is the order of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Stage {
    /// Nothing is known yet: the machine and its name in the cluster are looked at.
    Begun,
    /// The Node of an earlier join still stands in the way.
    Blocked,
    /// No live join here: the prerequisites are checked.
    Unjoined,
    /// Fit to join: what kubeadm needs is prepared.
    Probed,
    /// kubeadm can be started.
    Prepared,
    /// kubeadm is at work.
    Joining,
    /// The kubelet runs, with a kubeconfig.
    KubeletUp,
    /// It has asked for its certificate.
    CertificateRequested,
    /// It has it. From here on the machine is in the cluster, and nothing is cleaned up any more.
    CertificateIssued,
    /// The Node is this machine's, and its lease renews.
    Registered,
    /// The pod network is there.
    NetworkReady,
    /// All evidence that was asked for; what is left to do is to tidy up.
    Verified,
    /// An attempt has failed; the next comes at the deadline.
    Waiting,
    Joined,
    Failed,
}

impl Stage {
    pub const ALL: [Stage; 15] = [
        Stage::Begun,
        Stage::Blocked,
        Stage::Unjoined,
        Stage::Probed,
        Stage::Prepared,
        Stage::Joining,
        Stage::KubeletUp,
        Stage::CertificateRequested,
        Stage::CertificateIssued,
        Stage::Registered,
        Stage::NetworkReady,
        Stage::Verified,
        Stage::Waiting,
        Stage::Joined,
        Stage::Failed,
    ];

    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// What leads on from here, as the live line and the reference say it.
    pub fn awaits(self) -> &'static str {
        self.about().awaits
    }

    pub fn is_over(self) -> bool {
        matches!(self, Stage::Joined | Stage::Failed)
    }

    /// What went wrong where this took too long: the symptom, and the sentence.
    pub(super) fn overdue(self) -> (Option<catalogue::About<'static>>, &'static str) {
        let about = self.about();
        (about.symptom, about.overdue)
    }

    #[rustfmt::skip] // A table: one line a stage.
    fn about(self) -> About {
        let row = |name, awaits, symptom, overdue| About { name, awaits, symptom, overdue };
        match self {
            Stage::Begun => row("begun", "a look at the machine and at its name in the cluster", None, "the machine and the cluster did not answer in time"),
            Stage::Blocked => row("blocked", "the old Node to be gone or no longer Ready", Some(id!("api.node-name")), "the old Node stays Ready: somebody else with this machine's ids keeps it alive"),
            Stage::Unjoined => row("unjoined", "the prerequisites to be checked", None, "the checks did not end in time"),
            Stage::Probed => row("probed", "the machine to be prepared", None, "the machine could not be prepared in time"),
            Stage::Prepared => row("prepared", "kubeadm to be started", None, "kubeadm could not be started in time"),
            Stage::Joining => row("joining", "kubeadm to start the kubelet", Some(id!("kubeadm.discovery-timeout")), "kubeadm did not come to start the kubelet in time"),
            Stage::KubeletUp => row("kubelet-up", "the kubelet's certificate request", Some(id!("kubeadm.tls-timeout")), "the kubelet did not ask for its certificate in time"),
            Stage::CertificateRequested => row("certificate-requested", "the kubelet's certificate", Some(id!("csr.pending")), "nobody signed the kubelet's certificate request in time"),
            Stage::CertificateIssued => row("certificate-issued", "a Node that is this machine, and its lease renewing", Some(id!("node.never-registered")), "the kubelet did not register its Node in time"),
            Stage::Registered => row("registered", "the pod network", Some(id!("node.network-not-ready")), "the pod network did not come in time"),
            Stage::NetworkReady => row("network-ready", "Ready, and a sandbox with an address", Some(id!("node.not-ready")), "the node could not start a pod in time"),
            Stage::Verified => row("verified", "the files and tokens of this run to be gone", None, "tidying up did not end in time"),
            Stage::Waiting => row("waiting", "the time of the next attempt", None, ""),
            Stage::Joined => row("joined", "nothing", None, ""),
            Stage::Failed => row("failed", "nothing", None, ""),
        }
    }
}

struct About {
    name: &'static str,
    awaits: &'static str,
    symptom: Option<catalogue::About<'static>>,
    overdue: &'static str,
}

/// What the person said about this join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinPolicy {
    pub until: Until,
    /// How often to try, the first time included.
    pub attempts: u32,
    /// `JOIN_TIMEOUT`, in seconds.
    pub join_timeout: u32,
    /// `--replace-node`.
    pub replace_node: bool,
    /// `--fix`: a person may have to say yes.
    pub fix: bool,
    /// 0 to 100, drawn once a run: machines that failed together do not all come back together.
    pub jitter: u8,
}

impl Default for JoinPolicy {
    fn default() -> Self {
        JoinPolicy {
            until: Until::Verified,
            attempts: 3,
            join_timeout: USUAL_TIMEOUT,
            replace_node: false,
            fix: false,
            jitter: 0,
        }
    }
}

/// kubeadm's own wait for the TLS bootstrap, in seconds.
const USUAL_TIMEOUT: u32 = 300;
/// At 300 s the kubelet ends itself and kubeadm takes its token away, both at once; who acts then finds a crash loop.
const LATEST_DECISION: i64 = 270;
/// The first wait between attempts, in seconds; each is twice the one before.
const FIRST_PAUSE: i64 = 5;
const LONGEST_PAUSE: i64 = 60;
/// For a person to read a plan and say yes, in seconds.
const CONSENT: i64 = 600;

impl JoinPolicy {
    /// How long the kubelet has from its start to its certificate: nine tenths of what was asked for, never more than 4:30.
    pub fn bootstrap(&self) -> SignedDuration {
        SignedDuration::from_secs((i64::from(self.join_timeout) * 9 / 10).clamp(1, LATEST_DECISION))
    }

    /// How long a stage may take. A longer `JOIN_TIMEOUT` lengthens all but the bootstrap.
    pub fn wait(&self, stage: Stage) -> SignedDuration {
        let seconds = match stage {
            Stage::Unjoined if self.fix => CONSENT,
            Stage::Begun | Stage::Unjoined | Stage::CertificateIssued | Stage::Verified => 60,
            // The longest grace after which a Node without a kubelet is not Ready (50 s), and some.
            Stage::Blocked => 75,
            Stage::Prepared => 30,
            // containerd may have to load its images; two resolvers that are silent cost kubeadm's checks a minute.
            Stage::Probed | Stage::Joining | Stage::NetworkReady => 120,
            Stage::KubeletUp | Stage::CertificateRequested => return self.bootstrap(),
            // Images are pulled.
            Stage::Registered => 300,
            Stage::Waiting | Stage::Joined | Stage::Failed => 0,
        };
        let asked = i64::from(self.join_timeout.max(USUAL_TIMEOUT));
        SignedDuration::from_secs(seconds * asked / i64::from(USUAL_TIMEOUT))
    }

    /// The wait after this attempt: 5 s, 10 s, 20 s … up to a minute, and up to half as much again.
    pub fn pause(&self, attempt: u32) -> SignedDuration {
        let doubled = FIRST_PAUSE.saturating_mul(1 << attempt.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
        SignedDuration::from_millis(doubled * (1000 + 5 * i64::from(self.jitter.min(100))))
    }

    /// What a person who asked for more time should know.
    pub fn note(&self) -> Option<String> {
        let asked = self.join_timeout;
        (asked > USUAL_TIMEOUT).then(|| {
            format!(
                "JOIN_TIMEOUT={asked}: the certificate is decided on after {LATEST_DECISION} s all the same, before kubelet and \
                 kubeadm give up at 300 s; the other waits are longer"
            )
        })
    }
}

/// Where a join is, and what was seen on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinStatus {
    pub stage: Stage,
    pub since: Timestamp,
    /// The stage ends by then, one way or the other.
    pub deadline: Timestamp,
    /// From 1.
    pub attempt: u32,
    pub policy: JoinPolicy,
    /// Of this attempt.
    pub seen: NodeEvidence,
    /// Why the attempts before ended; of one that failed for good, too.
    pub failures: Vec<JoinFailure>,
    /// What was noticed and may pass, latest last.
    #[serde(deserialize_with = "failure::saved")]
    pub troubles: Vec<JoinCause>,
    /// Something was changed on the machine: not only looked at.
    pub changed: bool,
    pub(super) memory: Memory,
}

impl JoinStatus {
    /// A kubeadm of this join's may have run, and what it left was not removed yet. Before a machine was prepared none had
    /// begun; between two attempts what one had left was gone.
    pub fn may_have_left_something(&self) -> bool {
        self.stage >= Stage::Prepared && self.stage != Stage::Waiting
    }

    /// How long its stage may take in all.
    pub fn limit(&self) -> Duration {
        Duration::try_from(self.deadline.duration_since(self.since)).unwrap_or_default()
    }
}

/// What else is remembered within an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not depend on one another")]
pub(super) struct Memory {
    /// Since when a kubeadm runs that an earlier driver started.
    pub attached_since: Option<Timestamp>,
    /// When the kubelet's time to get a certificate began: the kubelet that is seen from here on is the one of this join.
    pub bootstrap_since: Option<Timestamp>,
    pub node_cleared: bool,
    pub fixed: bool,
    pub told_unsigned: bool,
    /// Since when the runtime does not answer, and whether it is only silent, and does not refuse.
    #[serde(default)]
    pub runtime_down: Option<(Timestamp, bool)>,
    /// Ids of what sandboxes were refused for.
    #[serde(default)]
    pub refused_for: Vec<String>,
    /// Since when every sandbox was refused.
    #[serde(default)]
    pub refused_since: Option<Timestamp>,
    /// Since when the Node is there: from then on images are pulled.
    #[serde(default)]
    pub registered_since: Option<Timestamp>,
    /// What fails first once the network is there, since when, and whether that was told.
    #[serde(default)]
    pub failing: Option<(String, Timestamp, bool)>,
    /// What the pods of the network and of kube-proxy were last said to wait for.
    #[serde(default)]
    pub held_up: Vec<String>,
    /// A look for causes was asked for, and has not answered yet.
    #[serde(default)]
    pub looks_for_causes: bool,
    /// What the last of them found that no waiting fixes.
    #[serde(default)]
    pub condemned: Vec<String>,
    /// Since when nobody reaches this node, or it nobody.
    #[serde(default)]
    pub unreached_since: Option<Timestamp>,
    /// Since when only a Pod that nobody can make is missing.
    #[serde(default)]
    pub unproven_since: Option<Timestamp>,
    pub look_again: Option<Timestamp>,
    /// What is said of the Node that stands in the way, where it stays.
    #[serde(default, deserialize_with = "failure::saved")]
    pub else_told: Vec<JoinCause>,
    /// What systemd had counted when this kubelet was first seen.
    pub restarts_before: Option<u64>,
    /// When this attempt's kubelet was first seen to run.
    #[serde(default)]
    pub kubelet_ran: Option<Timestamp>,
    /// Since when somebody has it stopped.
    #[serde(default)]
    pub kubelet_stopped: Option<Timestamp>,
    /// Who was told to stop only ends what was begun.
    #[serde(default)]
    pub stopped_by: Option<StopSignal>,
}

/// `at`, so much later; at the end of time no later than that.
pub(super) fn later(at: Timestamp, wait: SignedDuration) -> Timestamp {
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_stages_is_the_order_of_a_join() {
        assert!(Stage::ALL.is_sorted());
        let names: std::collections::BTreeSet<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        assert_eq!(names.len(), Stage::ALL.len());
    }

    #[test]
    fn the_bootstrap_is_decided_at_nine_tenths_and_never_after_four_and_a_half_minutes() {
        for (asked, seconds) in [(300, 270), (100, 90), (600, 270), (86_400, 270), (1, 1)] {
            let policy = JoinPolicy { join_timeout: asked, ..JoinPolicy::default() };
            assert_eq!(policy.bootstrap().as_secs(), seconds, "{asked}");
            assert_eq!(policy.note().is_some(), asked > 300);
        }
        let longer = JoinPolicy { join_timeout: 600, ..JoinPolicy::default() };
        assert_eq!((longer.wait(Stage::Registered).as_secs(), longer.wait(Stage::KubeletUp).as_secs()), (600, 270));
        let shorter = JoinPolicy { join_timeout: 60, ..JoinPolicy::default() };
        assert_eq!(shorter.wait(Stage::Registered).as_secs(), 300, "less time is for the certificate alone");
    }

    #[test]
    fn the_pauses_grow_and_differ() {
        let seconds = |jitter: u8| {
            (1..=6)
                .map(|attempt| JoinPolicy { jitter, ..JoinPolicy::default() }.pause(attempt).as_secs())
                .collect::<Vec<_>>()
        };
        assert_eq!(seconds(0), [5, 10, 20, 40, 60, 60]);
        assert_eq!(seconds(100), [7, 15, 30, 60, 90, 90]);
        assert_eq!(JoinPolicy::default().pause(u32::MAX).as_secs(), 60);
    }
}
