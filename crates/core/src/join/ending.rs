//! How a join ended: its report, the causes in order, and what stays on the machine. Rendering says it; it is decided here.

use std::collections::BTreeSet;

use serde::Serialize;

use super::failure::{self, JoinFailure};
use super::state::{JoinStatus, Stage};
use super::step::{JoinOutcome, Withdrawal};
use super::verify::judge;
use crate::catalogue::{self, Role, Stops};
use crate::check::Needed;
use crate::names::Names;
use crate::report::{self, Cause, Overall, Remainder, Report};
use crate::shown;
use crate::signature::{Library, Signature};
use crate::stop::StopSignal;

/// What is known at the end, in the shape of every report. `diagnosed`: what live diagnosis found; `left`: what may stay;
/// `stopped`: the signal that was told, whenever that was.
pub fn report(
    host: &str,
    state: &JoinStatus,
    outcome: &JoinOutcome,
    diagnosed: &[Cause],
    left: &SideEffects,
    stopped: Option<StopSignal>,
) -> Report {
    let mut report = report::of("join", host, judge(&state.seen, state.policy.until));
    report.remains = WhatRemains::of_outcome(outcome, state.changed, left).map(|remains| remains.told(stopped));
    (report.verdict, report.causes) = match outcome {
        JoinOutcome::Joined { .. } => (Overall::Pass, Vec::new()),
        JoinOutcome::Failed(failure) => (Overall::Fail, causes(failure, diagnosed)),
        // Whether it would have joined, or has, is not known.
        JoinOutcome::Interrupted { .. } | JoinOutcome::Unproven { .. } => (Overall::Unknown, Vec::new()),
    };
    report
}

/// What the join itself saw, then what live diagnosis adds; what only follows from another comes last.
fn causes(failure: &JoinFailure, diagnosed: &[Cause]) -> Vec<Cause> {
    let own: Vec<Cause> = failure.causes.iter().map(|cause| with_remedy(cause, diagnosed)).collect();
    // What kubeadm has just written looks like what an earlier one left.
    let is_leftover = |id: &str| catalogue::about(id).is_some_and(|about| about.needed == Needed::Leftover);
    let of_this_join = |id: &str| failure.stage >= Stage::Probed && is_leftover(id);
    let is_new = |other: &&Cause| !own.iter().any(|cause| cause.id == other.id) && !of_this_join(&other.id);
    // A machine that has not joined has no pod network and no Node: there, only what is behind its own causes counts.
    let nothing_ran = failure.stage < Stage::Joining;
    let is_behind = |other: &&Cause| own.iter().any(|cause| other.explains.contains(&cause.id));
    // Without a Node nothing that needs one can be judged: no pod network is due yet.
    let is_due = |other: &&Cause| {
        let stops = catalogue::about(&other.id).map_or(Stops::Nothing, |about| about.stops);
        failure.stage >= Stage::Registered || !matches!(stops, Stops::Network | Stops::Traffic)
    };
    let counts = |other: &&Cause| is_behind(other) || (!nothing_ran && is_due(other));
    let others = diagnosed.iter().filter(is_new).filter(counts).cloned();
    let mut causes: Vec<Cause> = own.iter().cloned().chain(others).collect();
    let explained: BTreeSet<String> = causes.iter().flat_map(|cause| cause.explains.clone()).collect();
    let says_only_that = |id: &str| failure.causes.iter().any(|own| own.id == id && own.role == Role::Symptom);
    let is_symptom =
        |id: &str| says_only_that(id) || catalogue::about(id).is_some_and(|about| about.role == Role::Symptom);
    causes.sort_by_key(|cause| is_symptom(&cause.id) || explained.contains(&cause.id));
    causes
}

/// Puts into the causes of a join that failed what to do about each: where whoever named one did not know, as the id's own
/// file says; with the names of this machine and of what was seen on the way. Each text stays within its line: what a cluster
/// says may have lines of its own.
pub fn complete(outcome: &mut JoinOutcome, library: &Library, names: &Names) {
    let fit = |text: &mut String| *text = shown::in_line(text);
    let failure = match outcome {
        JoinOutcome::Failed(failure) => failure,
        JoinOutcome::Unproven { says } => return fit(says),
        JoinOutcome::Joined { .. } | JoinOutcome::Interrupted { .. } => return,
    };
    fit(&mut failure.says);
    for cause in &mut failure.causes {
        fit(&mut cause.says);
        for seen in &mut cause.seen {
            (seen.source, seen.text) = (shown::in_line(&seen.source), shown::in_line(&seen.text));
        }
        if cause.remedy.is_empty() {
            let of_file = library.find(&cause.id).into_iter().flat_map(|signature| &signature.remedy);
            cause.remedy = of_file.map(|command| Signature::command_without_hit(command)).collect();
        }
        names.fill_all(&mut cause.remedy);
        cause.remedy.iter_mut().for_each(fit);
    }
}

fn with_remedy(cause: &failure::JoinCause, diagnosed: &[Cause]) -> Cause {
    let more = diagnosed.iter().find(|other| other.id == cause.id);
    let mut remedy = cause.remedy.clone();
    if remedy.is_empty() {
        remedy.extend(more.iter().flat_map(|other| other.remedy.clone()));
    }
    let mut explains = cause.explains.clone();
    explains.extend(more.iter().flat_map(|other| other.explains.clone()).filter(|id| !cause.explains.contains(id)));
    Cause {
        id: cause.id.clone(),
        confidence: cause.confidence,
        title: cause.says.clone(),
        why: cause.says.clone(),
        evidence: cause.seen.clone(),
        remedy,
        prevent: Vec::new(),
        explains,
    }
}

/// What was done beside the join itself, as far as it may stay when that fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not depend on one another")]
pub struct SideEffects {
    /// `--fix` changed something, or was stopped while it did.
    pub fixed: bool,
    /// Something of an attempt could not be put back.
    pub stuck: bool,
    /// What a join that was cut off had begun is still there: this one did not come so far as to end it.
    pub unfinished: bool,
    /// The kubelet had its certificate by the time the attempt was to be cleaned up: the machine stays in the cluster.
    pub in_cluster: bool,
    /// A Node was removed from the cluster, and this join did not come so far as to make it again.
    pub node_removed: Option<String>,
}

impl SideEffects {
    /// The Node that was removed for this join, where it ended before a new one was made.
    pub fn unmade_node(&self, stage: Stage) -> Option<&str> {
        self.node_removed.as_deref().filter(|_| stage < Stage::Registered)
    }
}

/// Whether a join ended that has yet to be cleaned up after; `ours`: something of it is there. What has its certificate is in
/// the cluster, and stays.
pub fn is_unfinished(outcome: &JoinOutcome, ours: bool) -> bool {
    match outcome {
        JoinOutcome::Joined { .. } | JoinOutcome::Unproven { .. } => false,
        JoinOutcome::Failed(failure) => ours && failure.stage < Stage::CertificateIssued,
        JoinOutcome::Interrupted { stays, .. } => ours && *stays == Withdrawal::PutBack,
    }
}

/// What stays on a machine whose join failed, or was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WhatRemains {
    /// It has its certificate: it is in the cluster, and stays there.
    Join,
    /// kubeadm goes on.
    AtWork,
    /// Part of what was changed: not all could be put back.
    Part,
    /// What an earlier join had begun.
    EarlierJoin,
    /// What `--fix` did.
    Fixes,
    /// Nothing: what was changed has been put back.
    PutBack,
    /// Nothing: nothing was changed.
    Untouched,
}

impl WhatRemains {
    /// `None` of a machine that has joined.
    fn of_outcome(outcome: &JoinOutcome, changed: bool, left: &SideEffects) -> Option<Self> {
        match outcome {
            JoinOutcome::Joined { .. } => None,
            JoinOutcome::Unproven { .. } => Some(WhatRemains::after_unproven(changed, left)),
            JoinOutcome::Failed(failure) => Some(WhatRemains::after(failure, changed, left)),
            JoinOutcome::Interrupted { stays, .. } => Some(WhatRemains::after_stop(*stays, changed, left)),
        }
    }

    /// With the commands that go on from there.
    pub fn told(self, stopped: Option<StopSignal>) -> Remainder {
        let (stands, next) = self.stands();
        let each: Vec<String> = next.iter().map(|(command, does)| format!("{command} {does}")).collect();
        Remainder {
            state: self,
            says: format!("{stands}: {}.", each.join(", ")),
            next: next.iter().map(|(command, _)| *command).collect(),
            stopped_by: stopped.map(StopSignal::name),
        }
    }

    /// How the machine stands; the commands that go on from there, and what each does.
    fn stands(self) -> (&'static str, &'static [(&'static str, &'static str)]) {
        const JOIN: &str = "carrick join";
        const RESET: &str = "carrick reset";
        const HISTORY: &str = "carrick history";
        match self {
            WhatRemains::AtWork => (
                "kubeadm goes on in carrick-kubeadm.service",
                &[(JOIN, "follows it"), (RESET, "ends it and takes it back")],
            ),
            WhatRemains::Join => {
                ("The join is left as it is", &[(JOIN, "goes on from there"), (RESET, "takes it back")])
            }
            WhatRemains::Part => (
                "Not all that was changed on this machine could be put back",
                &[(JOIN, "goes on from there"), (RESET, "removes the rest"), (HISTORY, "says what was done")],
            ),
            WhatRemains::EarlierJoin => (
                "What the join before this one had begun is still here",
                &[(JOIN, "goes on from there"), (RESET, "takes it back")],
            ),
            WhatRemains::Fixes => (
                "What --fix did stays",
                &[(JOIN, "goes on from there"), ("carrick undo", "takes it back"), (HISTORY, "says what it was")],
            ),
            WhatRemains::PutBack => ("What was changed on this machine has been put back", &[(JOIN, "begins anew")]),
            WhatRemains::Untouched => ("Nothing was changed on this machine", &[(JOIN, "begins anew")]),
        }
    }

    pub fn after(failure: &JoinFailure, changed: bool, left: &SideEffects) -> Self {
        let in_cluster = (Stage::CertificateIssued..Stage::Waiting).contains(&failure.stage);
        WhatRemains::of(in_cluster, changed, left)
    }

    pub fn after_stop(stays: Withdrawal, changed: bool, left: &SideEffects) -> Self {
        match stays {
            Withdrawal::AtWork => WhatRemains::AtWork,
            Withdrawal::InCluster => WhatRemains::of(true, changed, left),
            Withdrawal::PutBack => WhatRemains::of(false, changed, left),
        }
    }

    /// Of a join that could not be proven to its end.
    pub fn after_unproven(changed: bool, left: &SideEffects) -> Self {
        WhatRemains::of(true, changed, left)
    }

    fn of(in_cluster: bool, changed: bool, left: &SideEffects) -> Self {
        match (left, changed) {
            (_, true) if in_cluster || left.in_cluster => WhatRemains::Join,
            (SideEffects { stuck: true, .. }, _) => WhatRemains::Part,
            (SideEffects { unfinished: true, .. }, _) => WhatRemains::EarlierJoin,
            (SideEffects { fixed: true, .. }, _) => WhatRemains::Fixes,
            (_, true) => WhatRemains::PutBack,
            (_, false) => WhatRemains::Untouched,
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::catalogue::Class;
    use crate::id;
    use crate::join::state::JoinPolicy;
    use crate::join::verify::Until;
    use crate::report::Confidence;

    fn failed(stage: Stage, causes: Vec<failure::JoinCause>) -> JoinFailure {
        JoinFailure { stage, class: Class::Configuration, says: "x".into(), causes, overdue: false }
    }

    fn diagnosed(id: &str, explains: &[&str]) -> Cause {
        Cause {
            id: id.to_owned(),
            confidence: Confidence::Likely,
            title: String::new(),
            why: String::new(),
            evidence: Vec::new(),
            remedy: vec![format!("fix {id}")],
            prevent: Vec::new(),
            explains: explains.iter().map(|&id| id.to_owned()).collect(),
        }
    }

    /// Whoever stopped a join, or reads its report in a log, is told which command goes on from there.
    #[test]
    fn what_remains_is_told_with_the_command_that_goes_on() {
        let interrupted = |stays| JoinOutcome::Interrupted { signal: StopSignal::Hangup, stage: Stage::Joining, stays };
        let joined = JoinOutcome::Joined { until: Until::Verified, already: false };
        for (outcome, changed, expected) in [
            (joined, true, None),
            (interrupted(Withdrawal::PutBack), true, Some((WhatRemains::PutBack, &["carrick join"][..]))),
            (interrupted(Withdrawal::PutBack), false, Some((WhatRemains::Untouched, &["carrick join"]))),
            (interrupted(Withdrawal::InCluster), true, Some((WhatRemains::Join, &["carrick join", "carrick reset"]))),
            (interrupted(Withdrawal::AtWork), true, Some((WhatRemains::AtWork, &["carrick join", "carrick reset"]))),
            (
                JoinOutcome::Failed(failed(Stage::Unjoined, Vec::new())),
                false,
                Some((WhatRemains::Untouched, &["carrick join"])),
            ),
            (
                JoinOutcome::Unproven { says: "x".into() },
                true,
                Some((WhatRemains::Join, &["carrick join", "carrick reset"])),
            ),
        ] {
            let (mut state, _) = JoinStatus::begin(JoinPolicy::default(), Timestamp::UNIX_EPOCH);
            state.changed = changed;
            let stopped = Some(StopSignal::Hangup);
            let report = report("w1", &state, &outcome, &[], &SideEffects::default(), stopped);
            let remains = report.remains.as_ref().map(|it| (it.state, it.next.as_slice()));
            assert_eq!(remains, expected, "{outcome:?}");
            if let Some(it) = report.remains {
                assert!(it.next.iter().all(|command| it.says.contains(command)), "{it:?}");
                assert_eq!(it.stopped_by, Some("SIGHUP"));
            }
        }
    }

    #[test]
    fn the_root_comes_first_and_is_told_with_its_remedy() {
        let timeout = failure::JoinCause::of(id!("kubeadm.tls-timeout"), "no certificate");
        let alone = failure::JoinCause::of(id!("kubelet.standalone"), "no --kubeconfig");
        let space = || diagnosed("filesystem.space", &["kubeadm.tls-timeout"]);
        for (name, stage, own, known, expected) in [
            (
                "a symptom goes last",
                Stage::KubeletUp,
                vec![timeout.clone(), alone],
                vec![],
                &["kubelet.standalone", "kubeadm.tls-timeout"][..],
            ),
            (
                "diagnosis adds",
                Stage::KubeletUp,
                vec![timeout.clone()],
                vec![space()],
                &["filesystem.space", "kubeadm.tls-timeout"],
            ),
            (
                "nothing ran: only what is behind",
                Stage::Begun,
                vec![timeout.clone()],
                vec![diagnosed("cni.config", &[])],
                &["kubeadm.tls-timeout"],
            ),
            (
                "nothing ran: what is behind",
                Stage::Begun,
                vec![timeout.clone()],
                vec![space()],
                &["filesystem.space", "kubeadm.tls-timeout"],
            ),
            (
                "without a Node no pod network is due",
                Stage::CertificateIssued,
                vec![timeout.clone()],
                vec![diagnosed("cni.config", &[]), diagnosed("runtime.cgroup-driver", &[])],
                &["runtime.cgroup-driver", "kubeadm.tls-timeout"],
            ),
            (
                "with one it is",
                Stage::Registered,
                vec![timeout.clone()],
                vec![diagnosed("cni.config", &[])],
                &["cni.config", "kubeadm.tls-timeout"],
            ),
            (
                "what this join wrote is no leftover",
                Stage::KubeletUp,
                vec![timeout],
                vec![diagnosed("stale.ca", &[])],
                &["kubeadm.tls-timeout"],
            ),
        ] {
            let causes = causes(&failed(stage, own), &known);
            assert_eq!(causes.iter().map(|cause| cause.id.as_str()).collect::<Vec<_>>(), expected, "{name}");
        }
        let swap = failure::JoinCause::of(id!("machine.swap"), "on");
        let told = causes(&failed(Stage::Unjoined, vec![swap]), &[diagnosed("machine.swap", &[])]);
        assert_eq!((told.len(), told[0].remedy.as_slice()), (1, &["fix machine.swap".to_owned()][..]));
    }

    #[test]
    fn a_remedy_has_the_names_of_this_join() {
        let library = Library::built_in().unwrap();
        let own = failure::JoinCause::of(id!("machine.swap"), "on").fixed_by(["swapoff -a".to_owned()]);
        let denied = failure::JoinCause::of(id!("csr.denied"), "denied");
        let names = Names::default().with("request", Some("csr-8l6rp"));
        let mut outcome = JoinOutcome::Failed(failed(Stage::CertificateRequested, vec![own, denied]));
        complete(&mut outcome, &library, &names);
        let JoinOutcome::Failed(failure) = outcome else { panic!() };
        assert_eq!(failure.causes[0].remedy, ["swapoff -a"]);
        let of_file = failure.causes[1].remedy.concat();
        assert!(of_file.contains("kubectl delete csr csr-8l6rp ") && !of_file.contains('{'), "{of_file}");
    }

    #[test]
    fn what_remains() {
        let left = SideEffects::default;
        for (stage, changed, left, expected) in [
            (Stage::Begun, false, left(), WhatRemains::Untouched),
            (Stage::Joining, true, left(), WhatRemains::PutBack),
            (Stage::Joining, true, SideEffects { stuck: true, ..left() }, WhatRemains::Part),
            (Stage::Joining, true, SideEffects { in_cluster: true, ..left() }, WhatRemains::Join),
            (Stage::Begun, true, SideEffects { unfinished: true, ..left() }, WhatRemains::EarlierJoin),
            (Stage::Unjoined, true, SideEffects { fixed: true, ..left() }, WhatRemains::Fixes),
            (Stage::CertificateIssued, true, SideEffects { stuck: true, ..left() }, WhatRemains::Join),
            (Stage::Registered, false, left(), WhatRemains::Untouched),
        ] {
            assert_eq!(WhatRemains::after(&failed(stage, Vec::new()), changed, &left), expected, "{stage:?} {left:?}");
        }
    }
}
