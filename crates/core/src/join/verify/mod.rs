//! Whether a machine has really joined (and how far), judged from what was seen of it.
//!
//! * [`evidence`]: what is looked at
//! * [`proof`]: what must hold of it, one file each
//!
//! `verify` fills a [`NodeEvidence`] at once, `join` event by event; both are judged by the same proofs. What was not seen is
//! unknown, and what is unknown does not hold. kubeadm's word, a file's existence and healthz are not among the evidence.

use serde::{Deserialize, Serialize};

use super::failure::JoinCause;
use crate::catalogue::{About, Class, Role, Stops};
use crate::check::{Needed, Outcome, Subsystem, Verdict, skip};
use crate::fact::{Known, Missing, Why};
use crate::id;
use crate::report::{self, Cause, Confidence, Judged, Reached, Report};

pub mod evidence;
pub mod proof;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use evidence::{
    AgentAddress, AgentPod, CertificateRequest, ClientCertificate, ClusterPins, ContainerStart, Dialled, DialledFrom,
    KeptOff, Kubelet, KubeletFlag, KubeletHalt, KubeletReach, LeaseRenewal, Node, NodeEvidence, NodeLease, Peer,
    PeerDial, Pressure, Resource, RuntimeConditions, Sandbox, Signing, StandIn, StandingCause,
};
pub use proof::PROOFS;

/// How far is far enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Until {
    /// The Node is this machine's, and its kubelet renews its lease.
    Registered,
    /// The pod network is there.
    Network,
    /// A pod could run: Ready, and a sandbox got an address.
    #[default]
    Verified,
}

impl Until {
    pub fn name(self) -> &'static str {
        match self {
            Until::Registered => "registered",
            Until::Network => "network",
            Until::Verified => "verified",
        }
    }
}

impl std::str::FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Until::Registered, Until::Network, Until::Verified].into_iter().find(|until| until.name() == text);
        found.ok_or_else(|| format!("{text:?} is not one of registered, network, verified"))
    }
}

/// One thing that must hold.
pub struct Proof {
    pub id: &'static str,
    /// What holds where it passes.
    pub title: &'static str,
    pub subsystem: Subsystem,
    /// From where on it is needed.
    pub until: Until,
    /// What it cannot hold without. Where one of these fails, what is not known of this one is no news.
    after: &'static [&'static str],
    judge: fn(&NodeEvidence, Until) -> Known<Verdict>,
}

impl Proof {
    /// As far as it was asked for.
    fn verdict(&self, seen: &NodeEvidence, until: Until) -> Verdict {
        (self.judge)(seen, until).unwrap_or_else(|missing| not_seen(&missing.source_name, &missing.why))
    }

    /// A failure as the cause of a join that ended because of it; under the id of what it means, where that is known.
    fn cause(&self, verdict: Verdict) -> Option<JoinCause> {
        if verdict.outcome != Outcome::Fail {
            return None;
        }
        let cause = JoinCause::of(verdict.means.unwrap_or(self.about()), verdict.says);
        Some(cause.seen(verdict.evidence).fixed_by(verdict.remedy))
    }

    /// By itself it says only that: whoever knows why has the first word.
    fn about(&self) -> About<'static> {
        let (class, role, stops) = (Class::Transient, Role::Symptom, Stops::Node);
        About { id: self.id, class, role, stops, subsystem: self.subsystem, needed: Needed::Always }
    }

    /// What it means, why it matters, how to see and fix it: the text of `carrick explain`.
    pub fn explain(&self) -> &'static str {
        proof::EXPLAINED.iter().find(|(id, _)| *id == self.id).map_or("", |(_, text)| text)
    }

    /// Why it matters; where its text does not say so, what it is.
    fn why(&self) -> &'static str {
        let mut parts = self.explain().split("\n\n");
        let first = parts.next().unwrap_or_default();
        parts.next().filter(|part| !part.starts_with("See it yourself")).unwrap_or(first)
    }
}

pub fn find(id: &str) -> Option<&'static Proof> {
    PROOFS.into_iter().find(|proof| proof.id.eq_ignore_ascii_case(id))
}

/// What `verify` has to say of a machine: every proof, and of those that fail the causes, the first first.
pub fn report(host: &str, seen: &NodeEvidence, until: Until) -> Report {
    let findings = judge(seen, until);
    let causes = findings.iter().filter(|finding| finding.verdict == Outcome::Fail).map(|it| cause(it, &findings));
    let (causes, reached) = (causes.collect(), reached(seen, until));
    let counts = |it: &&Judged| find(it.id).is_none_or(|proof| !is_unproven(&proof.verdict(seen, until)));
    let verdict = report::overall(&findings.iter().filter(counts).cloned().collect::<Vec<_>>());
    Report { verdict, causes, reached: Some(Reached { until, reached }), ..report::of("verify", host, findings) }
}

/// A failure as a cause, with what does not hold because of it.
fn cause(failed: &Judged, findings: &[Judged]) -> Cause {
    let is_lost =
        |it: &&Judged| it.verdict != Outcome::Pass && find(it.id).is_some_and(|it| it.after.contains(&failed.id));
    let lost = findings.iter().filter(is_lost).map(|it| it.id);
    Cause {
        id: failed.id.to_owned(),
        confidence: Confidence::Certain,
        title: failed.title.clone(),
        why: find(failed.id).map(Proof::why).unwrap_or_default().to_owned(),
        evidence: failed.evidence.clone(),
        remedy: failed.remedy.clone(),
        prevent: Vec::new(),
        explains: failed.explains.iter().copied().chain(lost).map(str::to_owned).collect(),
    }
}

/// How far the evidence reaches, of what was asked for.
fn reached(seen: &NodeEvidence, until: Until) -> Option<Until> {
    [Until::Verified, Until::Network, Until::Registered].into_iter().find(|far| *far <= until && holds(seen, *far))
}

/// Every proof, judged; what is beyond the goal is skipped, and what is not known because of a failure before it.
pub fn judge(seen: &NodeEvidence, until: Until) -> Vec<Judged> {
    // Each id that fails, or is not judged, with the failure behind it.
    let mut lost: Vec<(&'static str, &'static str)> = Vec::new();
    let mut judged = Vec::new();
    for proof in PROOFS {
        let asked = proof.until <= until;
        let verdict =
            if asked { proof.verdict(seen, until) } else { skip(format!("not asked for: --until {}", until.name())) };
        let behind = lost.iter().find(|(id, _)| proof.after.contains(id)).map(|(_, behind)| *behind);
        let verdict = match (verdict.outcome, behind) {
            (Outcome::Unknown, Some(behind)) => {
                lost.push((proof.id, behind));
                skip(format!("not judged: see {behind}"))
            }
            _ => verdict,
        };
        if verdict.outcome == Outcome::Fail {
            lost.push((proof.id, proof.id));
        }
        judged.push(Judged::of(proof.id, proof.subsystem, verdict));
    }
    judged
}

/// What the lease is still waited for to show, where waiting makes sense: its kubelet runs, and it was not yet seen renewed; or
/// somebody deleted it, and the kubelet makes it anew at its next renewal.
pub fn awaits_renewal(seen: &NodeEvidence) -> Option<String> {
    let until = Until::Registered;
    let runs = proof::kubelet::PROOF.verdict(seen, until).outcome == Outcome::Pass;
    let is_to_come = seen.lease == Err(Why::Absent) && seen.node.is_ok() && seen.lease_refusal.is_none();
    let changes = |verdict: &Verdict| match verdict.outcome {
        Outcome::Unknown => seen.lease.is_ok(),
        Outcome::Fail => is_to_come,
        Outcome::Skip | Outcome::Pass | Outcome::Warn => false,
    };
    Some(proof::lease::PROOF.verdict(seen, until))
        .filter(|verdict| runs && changes(verdict))
        .map(|verdict| verdict.says)
}

/// All the evidence is there. Nothing that was not seen may be missing; what is only a warning is told, and keeps nobody from a node.
pub fn holds(seen: &NodeEvidence, until: Until) -> bool {
    lacking(seen, until).next().is_none()
}

/// Whether it is time to look for causes: all else is there, or all but what only a Pod could prove that nobody may make.
pub fn only_causes_are_open(seen: &NodeEvidence, until: Until) -> bool {
    let causes = proof::causes::PROOF.id;
    lacks_at_most(seen, until, &[causes])
        || (is_open_by_a_pod(seen) && lacks_at_most(seen, until, &[OF_A_POD[0], OF_A_POD[1], causes]))
}

/// All but the last: that no cause stands is looked at when the rest is there.
pub fn holds_but_causes(seen: &NodeEvidence, until: Until) -> bool {
    lacks_at_most(seen, until, &[proof::causes::PROOF.id])
}

/// All but what only a Pod of the cluster could prove, which nobody may make.
pub fn holds_but_for_a_pod(seen: &NodeEvidence, until: Until) -> bool {
    nobody_makes_a_pod(seen) && lacks_at_most(seen, until, &OF_A_POD)
}

/// The same, whatever keeps a Pod from proving it: that it takes so long, or that the cluster cannot be asked for one.
pub fn holds_but_for_what_a_pod_proves(seen: &NodeEvidence, until: Until) -> bool {
    is_open_by_a_pod(seen) && lacks_at_most(seen, until, &OF_A_POD)
}

/// It was tried, and neither a sandbox nor a Pod has failed.
fn is_open_by_a_pod(seen: &NodeEvidence) -> bool {
    !matches!(seen.sandbox, Ok(_) | Err(Why::NotCollected | Why::Broken(_)))
        && !matches!(seen.stand_in, Some(StandIn::AgentDown { .. }))
}

/// What a Pod proves where the network serves nobody else.
const OF_A_POD: [&str; 2] = [proof::sandbox::PROOF.id, proof::address::PROOF.id];

fn nobody_makes_a_pod(seen: &NodeEvidence) -> bool {
    matches!(seen.stand_in, Some(StandIn::Nobody | StandIn::Refused { .. } | StandIn::Unlisted { .. }))
}

/// Whether this one is all that is missing, but for what is looked at last.
pub(super) fn lacks_only(seen: &NodeEvidence, until: Until, proof: &Proof) -> bool {
    lacking(seen, until).any(|(id, _)| id == proof.id)
        && lacks_at_most(seen, until, &[proof.id, proof::causes::PROOF.id])
}

fn lacks_at_most(seen: &NodeEvidence, until: Until, these: &[&str]) -> bool {
    lacking(seen, until).all(|(id, _)| these.contains(&id))
}

/// What fails of it, the first first: as causes, with what to do.
pub(super) fn failures(seen: &NodeEvidence, until: Until) -> Vec<JoinCause> {
    let asked = PROOFS.into_iter().filter(|proof| proof.until <= until && proof.id != proof::causes::PROOF.id);
    let failed = asked.filter_map(|proof| proof.cause(proof.verdict(seen, until)));
    failed.chain(forbidding(seen, until).map(StandingCause::as_cause)).collect()
}

/// The causes that stand over which nobody says *joined*, as far as it was asked for.
pub(super) fn forbidding(seen: &NodeEvidence, until: Until) -> impl Iterator<Item = &StandingCause> {
    let standing = seen.standing.iter().flatten();
    standing.filter(move |cause| {
        let is_over = cause.denies_addresses && seen.sandbox.is_ok();
        cause.forbids(until) && !is_over && !is_overruled(seen, &cause.id)
    })
}

/// Whether a cause that was heard is over: it says that pods get no address, nobody who looked says so, and in this look one got
/// an address.
pub(super) fn is_proven_over(seen: &NodeEvidence, heard: &JoinCause) -> bool {
    seen.sandbox.is_ok() && evidence::denies_addresses(heard.explains.iter().map(String::as_str))
}

/// What the rules of this machine seem to forbid and was seen to work: packets may take another way, as with konnectivity.
pub(super) fn is_overruled(seen: &NodeEvidence, cause: &str) -> bool {
    let reached = || seen.reach.as_ref().is_ok_and(KubeletReach::is_reached);
    let dialled = |is_so: fn(&PeerDial) -> bool| seen.peers.as_ref().is_ok_and(is_so);
    (cause == id!("firewall.kubelet").id && reached())
        || (cause == id!("firewall.vxlan").id && dialled(PeerDial::is_answered))
        || (cause == id!("firewall.forward").id && dialled(PeerDial::is_answered_to_a_pod))
}

/// Whether nobody reaches this node, or it nobody, be it only so far.
pub(super) fn is_unreached(seen: &NodeEvidence) -> bool {
    let waits = |dialled: &PeerDial| dialled.is_unanswered() && !dialled.has_lasted;
    unreached(seen).is_some() || seen.peers.as_ref().is_ok_and(waits)
}

/// Where nobody reaches this node, or it nobody: as the cause of a join that ends because of it.
pub(super) fn unreached(seen: &NodeEvidence) -> Option<JoinCause> {
    let reach = [&proof::kubelet_reached::PROOF, &proof::peer::PROOF];
    reach.into_iter().find_map(|proof| proof.cause(proof.verdict(seen, Until::Verified)))
}

/// What fails of what was tried with a sandbox, as a cause.
pub(super) fn failed_sandbox(seen: &NodeEvidence) -> Option<JoinCause> {
    let tried = [&proof::sandbox::PROOF, &proof::address::PROOF];
    tried.into_iter().find_map(|proof| proof.cause(proof.verdict(seen, Until::Verified)))
}

/// The first thing that is missing and does not fail: what could not be told, as a possible cause of a join that waited for it.
pub(super) fn first_lacking(seen: &NodeEvidence, until: Until) -> Option<JoinCause> {
    let (id, verdict) = lacking(seen, until).next()?;
    let own = find(id)?.about();
    Some(JoinCause::of(own, verdict.says).seen(verdict.evidence).fixed_by(verdict.remedy).sure(Confidence::Possible))
}

/// The first thing that is still missing, as the live line says it.
pub fn first_missing(seen: &NodeEvidence, until: Until) -> Option<(&'static str, String)> {
    lacking(seen, until).next().map(|(id, verdict)| (id, verdict.says))
}

/// What keeps a machine from being joined as far as this.
fn lacking(seen: &NodeEvidence, until: Until) -> impl Iterator<Item = (&'static str, Verdict)> {
    let asked = PROOFS.into_iter().filter(move |proof| proof.until <= until);
    let verdicts = asked.map(move |proof| (proof.id, proof.verdict(seen, until)));
    verdicts.filter(|(_, verdict)| match verdict.outcome {
        Outcome::Pass | Outcome::Skip | Outcome::Warn => false,
        Outcome::Unknown => !is_unproven(verdict),
        Outcome::Fail => true,
    })
}

/// What was looked at, and cannot be told: it is shown, and keeps nobody from being joined. Of what was not looked at,
/// [`not_seen`].
fn unproven(says: impl Into<String>) -> Verdict {
    Verdict { outcome: Outcome::Unknown, ..skip(says) }
}

fn is_unproven(verdict: &Verdict) -> bool {
    verdict.outcome == Outcome::Unknown && verdict.missing.is_none()
}

/// What was seen, or why not. That nothing is there is for the proof itself to judge.
fn known<'a, T>(what: &str, sight: &'a Result<T, Why>) -> Known<&'a T> {
    sight.as_ref().map_err(|why| missing(what, why))
}

fn missing(what: &str, why: &Why) -> Missing {
    Missing { source_name: what.to_owned(), why: why.clone() }
}

/// Never skipped, whatever the reason: a join is proven by what was seen.
fn not_seen(what: &str, why: &Why) -> Verdict {
    let says = match why {
        Why::NotCollected | Why::NotAsked | Why::NotAdmin => format!("cannot tell: {what}: nobody could look"),
        why => format!("cannot tell: {what}: {why}"),
    };
    Verdict { outcome: Outcome::Unknown, says, missing: Some(missing(what, why)), ..skip("") }
}

#[cfg(test)]
mod tests;
