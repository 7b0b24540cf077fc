//! What can go wrong in a join, and whether trying again helps.

use serde::{Deserialize, Serialize};

use super::state::Stage;
use crate::catalogue::{self, About, Class, Role};
use crate::check::{Evidence, Subsystem};
use crate::id;
use crate::redact::redact;
use crate::report::Judged;

/// One reason, under the id of a check or a signature: `carrick explain` knows it, and its file says its class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Saved")]
pub struct JoinCause {
    pub id: String,
    class: Class,
    pub role: Role,
    pub subsystem: Subsystem,
    pub says: String,
    pub seen: Vec<Evidence>,
    /// It may pass this time, whatever its id is known for: somebody was only too slow to answer.
    pub may_pass: bool,
}

impl JoinCause {
    /// `says` may have come from anybody: its secrets are redacted.
    pub fn of(about: About<'_>, says: impl AsRef<str>) -> Self {
        let About { id, class, role, subsystem, needed: _ } = about;
        let says = redact(says.as_ref());
        JoinCause { id: id.to_owned(), class, role, subsystem, says, seen: Vec::new(), may_pass: false }
    }

    /// What a check found, as the cause of a failed attempt.
    pub fn of_finding(finding: &Judged) -> Option<Self> {
        let about = finding.means.or_else(|| catalogue::about(finding.id))?;
        let cause = JoinCause::of(about, finding.title.clone());
        Some(cause.seen(finding.evidence.clone()).may_pass(finding.may_pass))
    }

    pub fn seen(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.seen.extend(evidence);
        self
    }

    pub fn may_pass(self, may_pass: bool) -> Self {
        JoinCause { may_pass, ..self }
    }

    pub fn class(&self) -> Class {
        if self.may_pass { Class::Transient } else { self.class }
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
    may_pass: bool,
}

impl From<Saved> for JoinCause {
    fn from(saved: Saved) -> Self {
        let Saved { id, class, role, subsystem, says, seen, may_pass } = saved;
        // What an earlier run failed for decides nothing any more; an id that has gone since keeps no record from being read.
        let gone = About { id: &id, ..id!("machine.systemd") };
        let known = catalogue::about(&id).unwrap_or(gone);
        let (class, role) = (class.unwrap_or(known.class), role.unwrap_or(known.role));
        let subsystem = subsystem.unwrap_or(known.subsystem);
        JoinCause { id, class, role, subsystem, says, seen, may_pass }
    }
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
    pub causes: Vec<JoinCause>,
    /// It took too long: exit status 6, not 3.
    pub overdue: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_run_wrote_down_is_still_read() {
        let older = r#"{"id":"api.tcp","says":"refused","seen":[],"may_pass":true}"#;
        let cause = JoinCause::of(id!("api.tcp"), "refused").may_pass(true);
        assert_eq!(serde_json::from_str::<JoinCause>(older).unwrap(), cause);
        let now = serde_json::to_string(&cause).unwrap();
        assert_eq!(serde_json::from_str::<JoinCause>(&now).unwrap(), cause);
        let gone = serde_json::from_str::<JoinCause>(&older.replace("api.tcp", "api.gone")).unwrap();
        assert_eq!((gone.id.as_str(), gone.class), ("api.gone", Class::Configuration));
    }
}
