//! What can go wrong in a join, and whether trying again helps.

use std::cmp::Reverse;

use serde::{Deserialize, Deserializer, Serialize};

use super::state::Stage;
use crate::catalogue::{self, About, Class, Role, Stops};
use crate::check::{Evidence, Needed, Subsystem};
use crate::redact::redact;
use crate::report::{Cause, Confidence, Judged};

/// One reason, under the id of a check or a signature: `carrick explain` knows it, and its file says its class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JoinCause {
    pub id: String,
    class: Class,
    pub role: Role,
    pub subsystem: Subsystem,
    pub says: String,
    pub seen: Vec<Evidence>,
    /// Why this one is not taken as its id's file says.
    pub circumstance: Option<Circumstance>,
    /// What was looked at is certain; what somebody only said is as sure as its signature; of several that fit, each is possible.
    pub confidence: Confidence,
    /// What to do about it, where whoever named it knows; names are put in at the end ([`super::ending::complete`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedy: Vec<String>,
    /// Ids of what follows from it.
    pub explains: Vec<String>,
}

/// Why a cause is taken, this once, otherwise than its id's own file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Circumstance {
    /// Nobody answered, or too late: the next attempt may be answered.
    NoAnswer,
    /// kubeadm met it at one moment: a runtime that was restarted under its checks, a Node that had just become Ready. The look
    /// before the next attempt says whether it is so.
    MetByKubeadm,
    /// `--fix` was to set it right: nobody said yes, or it was stopped. Nobody is asked again.
    NotFixed,
    /// What earlier joins left was removed before kubeadm ran, or the machine has joined: this one was not left, and stays.
    NotLeftover,
    /// A kubelet lives by it, in another cluster.
    InUseElsewhere,
    /// A program complains of it and goes on: it is waited for, for as long as the stage may take.
    GoesOn,
}

impl Circumstance {
    pub const ALL: [Circumstance; 6] = [
        Circumstance::NoAnswer,
        Circumstance::MetByKubeadm,
        Circumstance::NotFixed,
        Circumstance::NotLeftover,
        Circumstance::InUseElsewhere,
        Circumstance::GoesOn,
    ];

    /// What a join does about it then.
    pub fn class(self) -> Class {
        match self {
            Circumstance::NoAnswer | Circumstance::MetByKubeadm | Circumstance::GoesOn => Class::Transient,
            Circumstance::NotFixed | Circumstance::NotLeftover => Class::Configuration,
            Circumstance::InUseElsewhere => Class::Fatal,
        }
    }
}

impl JoinCause {
    /// `says` may have come from anybody: its secrets are redacted.
    pub fn of(about: About<'_>, says: impl AsRef<str>) -> Self {
        let About { id, class, role, subsystem, stops: _, needed: _ } = about;
        let (id, says) = (id.to_owned(), redact(says.as_ref()));
        let (seen, remedy, explains) = (Vec::new(), Vec::new(), Vec::new());
        let (circumstance, confidence) = (None, Confidence::Certain);
        JoinCause { id, class, role, subsystem, says, seen, circumstance, confidence, remedy, explains }
    }

    /// What a check found, as the cause of a failed attempt.
    pub fn of_finding(finding: &Judged) -> Option<Self> {
        let about = finding.means.or_else(|| catalogue::about(finding.id))?;
        let cause = JoinCause::of(about, finding.title.clone());
        Some(cause.seen(finding.evidence.clone()).fixed_by(finding.remedy.clone()).may_pass(finding.may_pass))
    }

    pub fn seen(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.seen.extend(evidence);
        self
    }

    pub fn sure(self, confidence: Confidence) -> Self {
        JoinCause { confidence, ..self }
    }

    /// What fixes it here, in the place of what was known to.
    pub fn fixed_by(mut self, remedy: impl IntoIterator<Item = String>) -> Self {
        self.remedy = remedy.into_iter().collect();
        self
    }

    pub fn explaining(mut self, ids: impl IntoIterator<Item = String>) -> Self {
        self.explains = ids.into_iter().collect();
        self
    }

    pub fn under(self, circumstance: Circumstance) -> Self {
        JoinCause { circumstance: Some(circumstance), ..self }
    }

    /// Says whether nobody answered, or only too late.
    pub fn may_pass(self, may_pass: bool) -> Self {
        if may_pass { self.under(Circumstance::NoAnswer) } else { self }
    }

    /// As its id's file says, whatever the circumstance.
    pub fn lasting(self) -> Self {
        JoinCause { circumstance: None, ..self }
    }

    /// What a join does about it: as its id's file says, unless there is a circumstance.
    pub fn class(&self) -> Class {
        self.circumstance.map_or(self.class, Circumstance::class)
    }
}

/// What a join does about all of these. What nothing is known of may pass; what is only possible decides nothing.
pub fn worst(causes: &[JoinCause]) -> Class {
    let counts = |cause: &&JoinCause| cause.confidence > Confidence::Possible;
    causes.iter().filter(counts).map(JoinCause::class).max().unwrap_or(Class::Transient)
}

/// Each once, in the order in which they are to be set right: what somebody has to change before what may pass by itself, and
/// what is wrong with the machine before what is wrong on the way to the cluster, as kubeadm meets it.
pub fn in_order(causes: impl IntoIterator<Item = JoinCause>) -> Vec<JoinCause> {
    let mut ordered: Vec<JoinCause> = Vec::new();
    for cause in causes {
        if !ordered.iter().any(|known| known.id == cause.id) {
            ordered.push(cause);
        }
    }
    ordered.sort_by_key(|cause| {
        let is_of_cluster = cause.subsystem == Subsystem::ControlPlane;
        (Reverse(cause.confidence), Reverse(cause.class()), is_of_cluster)
    });
    ordered
}

/// What a join is not begun for, in one sentence.
pub fn summary(causes: &[JoinCause]) -> String {
    let certain: Vec<&JoinCause> = causes.iter().filter(|it| it.confidence > Confidence::Possible).collect();
    match certain.as_slice() {
        [only] => only.says.clone(),
        several => {
            let ids: Vec<&str> = several.iter().map(|cause| cause.id.as_str()).collect();
            format!("{} causes keep this machine from joining: {}", several.len(), ids.join(", "))
        }
    }
}

/// A cause as an earlier run wrote it down; that of an older Carrick has only its id.
#[derive(Deserialize)]
struct Saved {
    id: String,
    class: Option<Class>,
    role: Option<Role>,
    subsystem: Option<Subsystem>,
    says: String,
    seen: Vec<Evidence>,
    #[serde(default)]
    circumstance: Option<Circumstance>,
    #[serde(default)]
    confidence: Option<Confidence>,
    #[serde(default)]
    remedy: Vec<String>,
    #[serde(default)]
    explains: Vec<String>,
    /// What an older Carrick wrote instead.
    #[serde(default)]
    may_pass: bool,
}

impl Saved {
    /// `None`: an id that has gone since, and of which nothing else was written down.
    fn known(self) -> Option<JoinCause> {
        let Saved { id, class, role, subsystem, says, seen, circumstance, confidence, remedy, explains, may_pass } =
            self;
        let about = match (class, role, subsystem, catalogue::about(&id)) {
            (Some(class), Some(role), Some(subsystem), _) => {
                let stops = catalogue::about(&id).map_or(Stops::Nothing, |about| about.stops);
                About { id: &id, class, role, stops, subsystem, needed: Needed::Always }
            }
            (_, _, _, Some(about)) => about,
            (_, _, _, None) => return None,
        };
        let circumstance = circumstance.or(may_pass.then_some(Circumstance::NoAnswer));
        let confidence = confidence.unwrap_or(Confidence::Certain);
        Some(JoinCause { circumstance, confidence, explains, ..JoinCause::of(about, says).seen(seen).fixed_by(remedy) })
    }
}

/// Causes out of a record. What an earlier run failed for decides nothing any more: one that cannot be told is left out, and
/// keeps no record from being read.
pub(super) fn saved<'de, D: Deserializer<'de>>(record: D) -> Result<Vec<JoinCause>, D::Error> {
    let causes = Vec::<Saved>::deserialize(record)?;
    Ok(causes.into_iter().filter_map(Saved::known).collect())
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinFailure {
    /// How far it had come.
    pub stage: Stage,
    pub class: Class,
    /// In one sentence.
    pub says: String,
    /// As far as they are known so far; live diagnosis knows more.
    #[serde(deserialize_with = "saved")]
    pub causes: Vec<JoinCause>,
    /// It took too long: exit status 6, not 3.
    pub overdue: bool,
}

impl JoinFailure {
    /// The Node is this machine's, and stays: only that pods run there and are reached was not proven.
    pub fn is_of_a_registered_node(&self) -> bool {
        (Stage::Registered..Stage::Waiting).contains(&self.stage)
    }

    /// Whether its own sentence has said already why this is a cause.
    pub fn says_all_of(&self, cause: &Cause) -> bool {
        cause.why == self.says
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id;

    fn read(causes: &str) -> Vec<JoinCause> {
        let failure =
            format!(r#"{{"stage":"begun","class":"transient","says":"x","causes":[{causes}],"overdue":false}}"#);
        serde_json::from_str::<JoinFailure>(&failure).unwrap().causes
    }

    #[test]
    fn what_an_older_run_wrote_down_is_still_read() {
        let older = r#"{"id":"api.tcp","says":"refused","seen":[],"may_pass":true}"#;
        let causes = [JoinCause::of(id!("api.tcp"), "refused").may_pass(true)];
        assert_eq!(read(older), causes);
        assert_eq!(read(&serde_json::to_string(&causes[0]).unwrap()), causes);
        let gone = older.replace("api.tcp", "api.gone");
        assert_eq!(read(&format!("{gone},{older}")), causes, "one that has gone is left out");
        // A signature of the operator's own is known by what was written down.
        let own = JoinCause { id: "own.one".into(), ..JoinCause::of(id!("csr.denied"), "no") };
        let own =
            JoinCause { explains: vec!["x".into()], ..own.sure(Confidence::Possible).fixed_by(["do".to_owned()]) };
        assert_eq!(read(&serde_json::to_string(&own).unwrap()), [own]);
    }

    #[test]
    fn a_cause_is_taken_as_its_file_says_unless_there_is_a_circumstance() {
        for about in [id!("api.tcp"), id!("csr.denied"), id!("api.ca-pin"), id!("cni.plugins")] {
            let cause = JoinCause::of(about, "x");
            assert_eq!(cause.class(), about.class, "{}", about.id);
            for circumstance in Circumstance::ALL {
                assert_eq!(cause.clone().under(circumstance).class(), circumstance.class());
            }
        }
    }
}
