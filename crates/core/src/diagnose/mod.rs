//! The true cause out of any text: lines are scanned for signatures, the text is cut into facts for the checks, and what
//! was found is put in order, root first.
//!
//! * [`scan`]: looks for signatures in text of any size, as it comes
//! * [`paste`]: what people's programs did to a text, undone
//! * [`line`]: one line of a log, whatever wrote it
//! * [`names`]: which names are one machine's
//! * [`segment`]: cuts a paste into the facts that checks judge
//! * [`progress`]: how far the machine had come, and when
//! * [`suspect`]: what counts, and what is normal at this stage
//! * [`cause`]: which suspect is the root
//! * [`past`]: what of a machine's journals is over
//! * [`health`]: one verdict a subsystem
//! * [`pod_network`]: the pod network on a machine, piece by piece
//! * [`standing`]: what of it nobody says *joined* over
//! * [`timeline`]: what happened, in the order of time
//! * [`listen`]: the same engine for lines that come while a join goes on
//! * [`unrecognised`]: what reads like an error and no signature knows
//! * [`last_words`]: which of a program's lines says why it ended

use jiff::Timestamp;

use crate::catalogue::{self, Stops};
use crate::check::{CheckPolicy, Evidence, Needed, Outcome, Subsystem};
use crate::fact::join_state::JoinState;
use crate::fact::{self, Capture, Facts, journal};
use crate::join::looked::InspectedMachine;
use crate::join::verify::StandingCause;
use crate::judge::{self, Ignore};
use crate::names::{Names, server_in};
use crate::report::{Cause, Confidence, Elsewhere, Health, Judged, Overall, Reading, Report, SubsystemReport};
use crate::shown;
use crate::signature::{Library, Phase, Severity};

mod cause;
mod health;
pub mod last_words;
pub mod line;
pub mod listen;
mod names;
mod past;
mod paste;
pub mod pod_network;
mod progress;
pub mod scan;
pub mod segment;
mod standing;
mod suspect;
mod timeline;
mod unrecognised;

pub use past::BoundPods;
use past::{Lapsed, Present};
use progress::ReachedPhases;
use scan::{Scan, ScanResult, Sighting};
use segment::Segment;

/// What is to be diagnosed: the facts of a machine, and what its texts hold.
pub struct Case<'l> {
    library: &'l Library,
    facts: Facts,
    seen: ScanResult,
    /// The node that is asked about, else the one most lines speak of, where any do.
    node: Option<String>,
    /// What the checks found in these facts, of a machine that is to join, where that was judged already.
    judged: Option<&'l Report>,
    /// It was read out of texts, which may be of several machines.
    of_texts: bool,
    /// Somebody asked about this node, and no other.
    asked: bool,
    /// Of a machine: what ends a complaint that no success follows.
    lapsed: Lapsed,
}

/// Other machines of a paste that are asked where the one it is about is fine: what speaks of more is a list.
const MOST_OTHERS: usize = 8;

impl<'l> Case<'l> {
    /// What was observed of a machine: its facts, and what its journals say.
    pub fn of_facts(library: &'l Library, facts: Facts, node: Option<String>) -> Self {
        Case::of_facts_and(library, facts, &[], node, None)
    }

    /// What a join has looked at and judged, and texts that belong to it.
    pub fn of_looked(
        library: &'l Library,
        looked: &'l InspectedMachine,
        texts: &[(&str, &str)],
        node: Option<String>,
    ) -> Self {
        Case { judged: Some(&looked.checked), ..Case::of_facts_and(library, looked.facts.clone(), texts, node, None) }
    }

    /// The same as [`Case::of_facts`], and texts that belong to it: their names, and what they say. What journals say of the time
    /// before `since` is over.
    pub fn of_facts_and(
        library: &'l Library,
        facts: Facts,
        texts: &[(&str, &str)],
        node: Option<String>,
        since: Option<Timestamp>,
    ) -> Self {
        let (mut scan, present) = (Scan::new(library, facts.taken_at), Present::of(&facts).not_before(since));
        for query in std::iter::once(&journal::KUBELET).chain(journal::RUNTIMES) {
            if let Ok(Capture { text, .. }) = facts.query(query) {
                scan.begin(query.name, false);
                scan.push(present.current(text).as_bytes());
            }
        }
        for (name, text) in texts {
            scan.begin(name, false);
            scan.push(text.as_bytes());
        }
        let seen = scan.finish();
        let node = node.or_else(|| most_spoken_of(&seen));
        let lapsed = Lapsed::of(&facts);
        Case { library, facts, seen, node, judged: None, of_texts: false, asked: true, lapsed }
    }

    /// With the pods that are on the node by now: what was said of one that is gone is over.
    #[must_use]
    pub fn with_pods(mut self, pods: BoundPods) -> Self {
        self.lapsed.set_pods(pods);
        self
    }

    /// What was read out of texts: the facts are those that could be cut out of them.
    pub fn of_text(library: &'l Library, seen: ScanResult, now: Timestamp, node: Option<String>) -> Self {
        let (asked, node) = (node.is_some(), node.or_else(|| most_spoken_of(&seen)));
        let mut facts = Facts::new(node.clone().unwrap_or_default(), now);
        let is_here = |segment: &Segment| seen.names.is_about(node.as_deref(), segment.host.as_deref());
        for (_, segment) in seen.segments.iter().filter(|(_, segment)| is_here(segment)) {
            facts.insert(segment.key.clone(), segment.capture.clone());
        }
        Case { library, facts, seen, node, judged: None, of_texts: true, asked, lapsed: Lapsed::default() }
    }

    /// What keeps pods from running here, or others from reaching them, while it lasts: what nobody says *joined* over. Only
    /// what is certain, and what a check finds: that is so now, whether or not it explains anything.
    pub fn standing(&self, ignore: &Ignore) -> Vec<StandingCause> {
        let library = self.library;
        let (here, _) = self.by_node();
        let progress = ReachedPhases::of(library, &here, phase(&self.facts), self.node.is_some());
        let checked = self.checked(progress.end(), ignore);
        let suspects = suspect::weigh(library, &here, &checked.findings, &progress, &self.lapsed).suspects;
        let mut ordered = cause::order(library, &suspects);
        ordered.put_in(&self.names());
        standing::of(library, &suspects, &ordered.causes, ignore)
    }

    /// Of a paste that speaks of several machines: where the one it is about has no cause and another has a certain one, that one's. Who asks
    /// about one node gets its report; the others are in a part of it.
    pub fn report(&self, ignore: &Ignore) -> Report {
        let own = self.report_of_node(ignore);
        if self.asked || !own.causes.is_empty() {
            return own;
        }
        let is_certain =
            |report: &Report| report.causes.first().is_some_and(|cause| cause.confidence == Confidence::Certain);
        let of = |node: String| {
            let seen = self.seen.clone();
            Case::of_text(self.library, seen, self.facts.taken_at, Some(node)).report_of_node(ignore)
        };
        self.others().into_iter().map(of).find(is_certain).unwrap_or(own)
    }

    /// The other machines of which something wrong is said.
    fn others(&self) -> Vec<String> {
        let wrong = |sighting: &&Sighting| self.library.get(sighting.signature).severity >= Severity::Error;
        let mut others: Vec<String> = Vec::new();
        for node in self.seen.sightings.iter().filter(wrong).filter_map(|sighting| sighting.node.as_ref()) {
            let is_known = self.is_about(Some(node)) || others.iter().any(|other| self.seen.names.are_one(other, node));
            if !is_known && others.len() < MOST_OTHERS {
                others.push(node.clone());
            }
        }
        others
    }

    fn is_about(&self, host: Option<&str>) -> bool {
        self.seen.names.is_about(self.node.as_deref(), host)
    }

    fn report_of_node(&self, ignore: &Ignore) -> Report {
        let library = self.library;
        let (here, elsewhere) = self.by_node();
        let progress = ReachedPhases::of(library, &here, phase(&self.facts), self.node.is_some());
        let mut checked = self.checked(progress.end(), ignore);
        if self.of_texts {
            self.overrule(&mut checked.findings, &here);
        }
        let findings = &checked.findings;
        let weighed = suspect::weigh(library, &here, findings, &progress, &self.lapsed);
        let mut ordered = cause::order(library, &weighed.suspects);
        ordered.put_in(&self.names());
        let of = |id: &str| weighed.suspects.iter().find(|suspect| suspect.id == id).map(|suspect| suspect.subsystem);
        let causes: Vec<(Subsystem, &Cause)> =
            ordered.causes.iter().filter_map(|cause| Some((of(&cause.id)?, cause))).collect();
        let ground = health::Ground {
            library,
            sightings: &here,
            findings,
            causes: &causes,
            symptoms: &ordered.symptoms,
            excused: &weighed.excused,
            phase: progress.end(),
        };
        let subsystems = ground.judge();
        let next = next(&ordered, &subsystems);
        let reading = Reading {
            phase: progress.end(),
            timeline: timeline::timeline(library, &here),
            pod_network: pod_network::pieces(&self.facts, library, &here),
            symptoms: ordered.symptoms,
            normal: weighed.excused.into_iter().map(|it| it.noted).collect(),
            unrecognised: self.seen.unrecognised.clone(),
            elsewhere,
            next,
            bytes: self.seen.bytes,
            lines: self.seen.lines,
        };
        Report {
            verb: "diagnose",
            host: shown::in_line(self.node.as_ref().unwrap_or(&self.facts.host)),
            verdict: self.verdict(&ordered.causes, &here, findings),
            causes: ordered.causes,
            subsystems,
            reading: Some(reading),
            ..checked
        }
    }

    /// What the remedies of lines leave open: as the machine tells it, unless another node is asked about.
    fn names(&self) -> Names {
        let names = Names::of(&self.facts);
        let other = self.node.as_deref().filter(|node| !self.seen.names.are_one(node, &names.fill("{node}")));
        let names = names.with("node", other.map(str::to_lowercase));
        if names.has("server") {
            return names;
        }
        // No file of the machine names its API server; a line about it does.
        let of_api = self.seen.sightings.iter().filter(|it| self.library.get(it.signature).id.starts_with("api."));
        let mut servers = of_api.flat_map(|it| &it.hits).filter_map(|hit| server_in(&hit.text));
        names.with_server(servers.next())
    }

    /// The sightings that are about this node, and those that are about others.
    fn by_node(&self) -> (Vec<&Sighting>, Vec<Elsewhere>) {
        let is_here = |sighting: &&Sighting| self.is_about(sighting.node.as_deref());
        let (here, others): (Vec<&Sighting>, Vec<&Sighting>) = self.seen.sightings.iter().partition(is_here);
        let mut elsewhere: Vec<Elsewhere> = Vec::new();
        let wrong = |sighting: &&&Sighting| self.library.get(sighting.signature).severity >= Severity::Warning;
        for sighting in others.iter().filter(wrong) {
            let node = sighting.node.clone().unwrap_or_default();
            let signature = self.library.get(sighting.signature);
            let noted = suspect::noted(signature, sighting, "said of another node".to_owned());
            match elsewhere.iter_mut().find(|other| other.node == node) {
                Some(other) => other.seen.push(noted),
                None => elsewhere.push(Elsewhere { node, seen: vec![noted] }),
            }
        }
        (here, elsewhere)
    }

    /// What the checks find on a machine that has come so far.
    fn checked(&self, phase: Option<Phase>, ignore: &Ignore) -> Report {
        let joined = phase == Some(Phase::Joined);
        let mut checked = match self.judged.filter(|_| !joined) {
            Some(Report { findings, .. }) => judge::of_findings(&self.facts, findings.clone()),
            None => judge::without_fixes(&self.facts, &CheckPolicy { cni_expected: joined }, ignore),
        };
        for finding in &mut checked.findings {
            if joined {
                finding.verdict = once_joined(finding);
            }
            for evidence in &mut finding.evidence {
                self.cite(evidence);
            }
        }
        checked
    }

    /// What would keep a node from coming up has not where a paste shows it Ready, and no line complains of it.
    fn overrule(&self, findings: &mut [Judged], here: &[&Sighting]) {
        let seen = |wanted: &str| here.iter().any(|sighting| self.library.get(sighting.signature).cause_id() == wanted);
        if !seen("node.ready") || seen("node.not-ready") {
            return;
        }
        let only_stops_the_node = |finding: &&mut Judged| {
            finding.verdict == Outcome::Fail
                && catalogue::about(finding.id).is_some_and(|about| about.stops == Stops::Node)
        };
        for finding in findings.iter_mut().filter(only_stops_the_node) {
            let is_complained_of = here.iter().any(|sighting| {
                let signature = self.library.get(sighting.signature);
                signature.severity >= Severity::Error && signature.cause_id() == finding.id
            });
            if !is_complained_of {
                finding.verdict = Outcome::Warn;
            }
        }
    }

    /// Where a fact was cut out of a text, its evidence cites the text's own line.
    fn cite(&self, evidence: &mut Evidence) {
        let is_it =
            |segment: &Segment| fact::shown(&segment.key) == evidence.source && self.is_about(segment.host.as_deref());
        let cut = self.seen.segments.iter().rev().find(|(_, segment)| is_it(segment));
        if let Some((source, segment)) = cut {
            let within = evidence.line.filter(|_| segment.verbatim).map_or(0, |line| line.saturating_sub(1));
            let first = u32::try_from(segment.first_line).unwrap_or(u32::MAX);
            evidence.line = Some(first.saturating_add(within));
            source.clone_into(&mut evidence.source);
        }
    }

    fn verdict(&self, causes: &[Cause], here: &[&Sighting], findings: &[Judged]) -> Overall {
        if !causes.is_empty() {
            return Overall::Fail;
        }
        let sign = |wanted: Phase| {
            here.iter()
                .map(|one| self.library.get(one.signature))
                .any(|one| one.severity == Severity::Good && one.phase >= wanted)
        };
        let warned = findings.iter().any(|finding| finding.verdict == Outcome::Warn && !finding.ignored);
        let passed = findings.iter().any(|finding| finding.verdict == Outcome::Pass);
        match (warned, sign(Phase::Joined)) {
            (true, _) => Overall::Warn,
            (false, true) => Overall::Pass,
            (false, false) if passed && self.seen.segments.is_empty() => Overall::Pass,
            // Nothing wrong was read: that nothing is wrong would need more than silence.
            (false, false) => Overall::Unknown,
        }
    }
}

/// What shows a subsystem, where it was not seen; in the order in which joins fail.
const LOOKS: &[(Subsystem, &str)] = &[
    (
        Subsystem::Kubelet,
        "systemctl status kubelet; systemctl cat kubelet; journalctl -u kubelet --no-pager | tail -200",
    ),
    (
        Subsystem::Runtime,
        "systemctl status containerd; ctr -n k8s.io version; journalctl -u containerd --no-pager | tail -100",
    ),
    (Subsystem::Cni, "ls -la /etc/cni/net.d /opt/cni/bin; cat /etc/cni/net.d/*"),
    (Subsystem::ControlPlane, "kubeadm join … -v5    # and on the control plane: kubectl get nodes,csr -o wide"),
    (Subsystem::Network, "ip -brief address; ip route; ss -ltnp; iptables-save"),
    (Subsystem::Filesystem, "df -h; df -i; cat /proc/self/mountinfo"),
    (Subsystem::Time, "timedatectl"),
];

/// What to run where the evidence is not enough: what the first cause asks for, then what was not seen at all.
fn next(ordered: &cause::Ordered, subsystems: &[SubsystemReport]) -> Vec<String> {
    const ENOUGH: usize = 4;
    if ordered.causes.first().is_some_and(|cause| cause.confidence > Confidence::Possible) {
        return Vec::new();
    }
    let not_seen = |name: Subsystem| subsystems.iter().any(|it| it.name == name && it.verdict == Health::NotSeen);
    let looks = LOOKS.iter().filter(|(name, _)| not_seen(*name)).map(|(_, look)| (*look).to_owned());
    ordered.next.iter().cloned().chain(looks).take(ENOUGH).collect()
}

/// A finding's verdict on a node that has joined: what only kubeadm needs breaks nothing any more, and what stands in the
/// way of a join is in its place.
fn once_joined(finding: &Judged) -> Outcome {
    let needed = catalogue::about(finding.id).map(|about| about.needed);
    match (finding.verdict, needed) {
        (Outcome::Warn, Some(Needed::Leftover)) => Outcome::Skip,
        (Outcome::Fail, Some(Needed::ToJoin)) => Outcome::Warn,
        (verdict, _) => verdict,
    }
}

/// How far the machine's own files show it to be, where they are known.
fn phase(facts: &Facts) -> Option<Phase> {
    match facts.join_state().ok()? {
        JoinState::Joined { .. } | JoinState::Stopped { .. } => Some(Phase::Joined),
        // What an earlier join left says nothing of the one that is asked about.
        JoinState::Left { .. } | JoinState::Unjoined => Some(Phase::Before),
    }
}

fn most_spoken_of(seen: &ScanResult) -> Option<String> {
    let writes_most = seen.hosts.iter().max_by_key(|(_, count)| **count).map(|(host, _)| host.clone());
    writes_most.or_else(|| seen.sightings.iter().find_map(|sighting| sighting.node.clone()))
}

#[cfg(test)]
mod tests;
