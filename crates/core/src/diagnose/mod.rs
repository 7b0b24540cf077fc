//! The true cause out of any text: lines are scanned for signatures, the text is cut into facts for the checks, and what
//! was found is put in order, root first.
//!
//! * [`scan`]: looks for signatures in text of any size, as it comes
//! * [`line`]: one line of a log, whatever wrote it
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
//! * [`last_words`]: which of a program's lines says why it ended

use jiff::Timestamp;

use crate::catalogue;
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
mod past;
pub mod pod_network;
mod progress;
pub mod scan;
pub mod segment;
mod standing;
mod suspect;
mod timeline;

use past::Present;
use progress::ReachedPhases;
use scan::{Scan, ScanResult, Sighting};

/// What is to be diagnosed: the facts of a machine, and what its texts hold.
pub struct Case<'l> {
    library: &'l Library,
    facts: Facts,
    seen: ScanResult,
    /// The node that is asked about, else the one most lines speak of, where any do.
    node: Option<String>,
    /// What the checks found in these facts, of a machine that is to join, where that was judged already.
    judged: Option<&'l Report>,
}

impl<'l> Case<'l> {
    /// What was observed of a machine: its facts, and what its journals say.
    pub fn of_facts(library: &'l Library, facts: Facts, node: Option<String>) -> Self {
        Case::of_facts_and(library, facts, &[], node)
    }

    /// What a join has looked at and judged, and texts that belong to it.
    pub fn of_looked(
        library: &'l Library,
        looked: &'l InspectedMachine,
        texts: &[(&str, &str)],
        node: Option<String>,
    ) -> Self {
        Case { judged: Some(&looked.checked), ..Case::of_facts_and(library, looked.facts.clone(), texts, node) }
    }

    /// The same as [`Case::of_facts`], and texts that belong to it: their names, and what they say.
    pub fn of_facts_and(library: &'l Library, facts: Facts, texts: &[(&str, &str)], node: Option<String>) -> Self {
        let (mut scan, present) = (Scan::new(library, facts.taken_at), Present::of(&facts));
        for query in [&journal::KUBELET, &journal::CONTAINERD] {
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
        Case { library, facts, seen, node, judged: None }
    }

    /// What was read out of texts: the facts are those that could be cut out of them.
    pub fn of_text(library: &'l Library, mut seen: ScanResult, now: Timestamp, node: Option<String>) -> Self {
        let node = node.or_else(|| most_spoken_of(&seen));
        let mut facts = Facts::new(node.clone().unwrap_or_default(), now);
        seen.segments.retain(|(_, segment)| is_about(node.as_deref(), segment.host.as_deref()));
        for (_, segment) in &mut seen.segments {
            facts.insert(segment.key.clone(), std::mem::replace(&mut segment.capture, Ok(Capture::default())));
        }
        Case { library, facts, seen, node, judged: None }
    }

    /// What keeps pods from running here, or others from reaching them, while it lasts: what nobody says *joined* over. Only
    /// what is certain, and what a check finds: that is so now, whether or not it explains anything.
    pub fn standing(&self, ignore: &Ignore) -> Vec<StandingCause> {
        let library = self.library;
        let (here, _) = self.by_node();
        let progress = ReachedPhases::of(library, &here, phase(&self.facts));
        let checked = self.checked(progress.end(), ignore);
        let suspects = suspect::weigh(library, &here, &checked.findings, &progress).suspects;
        let causes = cause::order(library, &suspects).causes;
        standing::of(library, &suspects, &causes, ignore)
    }

    pub fn report(&self, ignore: &Ignore) -> Report {
        let library = self.library;
        let (here, elsewhere) = self.by_node();
        let progress = ReachedPhases::of(library, &here, phase(&self.facts));
        let checked = self.checked(progress.end(), ignore);
        let findings = &checked.findings;
        let weighed = suspect::weigh(library, &here, findings, &progress);
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
        let other = self.node.as_deref().filter(|node| !same_machine(node, &names.fill("{node}")));
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
        let is_here = |sighting: &&Sighting| is_about(self.node.as_deref(), sighting.node.as_deref());
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
    fn checked(&self, phase: Phase, ignore: &Ignore) -> Report {
        let joined = phase == Phase::Joined;
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

    /// Where a fact was cut out of a text, its evidence cites the text's own line.
    fn cite(&self, evidence: &mut Evidence) {
        let cut = self.seen.segments.iter().rev().find(|(_, segment)| fact::shown(&segment.key) == evidence.source);
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
    (Subsystem::Runtime, "systemctl status containerd; crictl info; journalctl -u containerd --no-pager | tail -100"),
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

/// How far the machine's own files show it to be.
fn phase(facts: &Facts) -> Phase {
    match facts.join_state() {
        Ok(JoinState::Joined { .. } | JoinState::Stopped { .. }) => Phase::Joined,
        _ => Phase::Before,
    }
}

fn most_spoken_of(seen: &ScanResult) -> Option<String> {
    let writes_most = seen.hosts.iter().max_by_key(|(_, count)| **count).map(|(host, _)| host.clone());
    writes_most.or_else(|| seen.sightings.iter().find_map(|sighting| sighting.node.clone()))
}

/// Whether what is said of `host` is about this node; what names none is taken to be.
fn is_about(node: Option<&str>, host: Option<&str>) -> bool {
    match (node, host) {
        (Some(node), Some(host)) => same_machine(node, host),
        _ => true,
    }
}

/// A short name and a full one are one machine's.
fn same_machine(a: &str, b: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    a.eq_ignore_ascii_case(b) || short(a) == short(b)
}
