//! What `history -o json` prints: a line a run, and a line a join.
//!
//! The JSON form is an API: fields are added, never renamed.

use jiff::Timestamp;
use serde::Serialize;

use super::{JournalLine, PastRun, Run};
use crate::join::state::Stage;

/// Of a join's line. What is on disk of it is `carrick.join/v1`.
pub const JOIN: &str = "carrick.join-record/v1";

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum HistoryLine {
    Run(RunLine),
    Join(JoinLine),
}

/// What a run changed, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunLine {
    #[serde(flatten)]
    pub run: Run,
    /// How it ended, in words.
    pub end: String,
    pub journal: Vec<JournalLine>,
    /// Steps that cannot be taken back any more, by their place in `steps`: the file as it was held a key, and is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub final_steps: Vec<usize>,
    /// Where the journal cannot be read any further: what was done after that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
}

/// A join that changed something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JoinLine {
    #[cfg_attr(feature = "schema", schemars(extend("const" = JOIN)))]
    pub schema: &'static str,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub begun: Timestamp,
    pub state: JoinEnd,
    /// How far it came.
    pub stage: Stage,
    /// Which attempt it was at, from 1.
    pub attempt: u32,
    /// Runs of preparation that stand.
    pub runs: Vec<u32>,
    /// What was told, as a file on the machine.
    pub log: String,
    /// What to do next, as commands; none where there is nothing to do.
    pub next: Vec<String>,
}

/// How a join ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum JoinEnd {
    Joined,
    Failed,
    /// It did not come to its end, and nobody has gone on from there.
    CutOff,
    /// It did not come to its end; a later join, or a reset, did.
    Superseded,
    /// kubeadm runs, or another Carrick has the machine's lock.
    AtWork,
}

impl RunLine {
    pub fn new(past: &PastRun) -> Self {
        RunLine {
            run: past.run.clone(),
            end: past.end().to_string(),
            journal: past.lines.clone(),
            final_steps: past.final_steps(),
            damaged: past.damage.as_ref().map(ToString::to_string),
        }
    }
}

impl JoinLine {
    /// In words.
    pub fn end(&self) -> String {
        let stage = self.stage.name();
        match self.state {
            JoinEnd::Joined => "joined".to_owned(),
            JoinEnd::Failed if self.next.is_empty() => "not joined".to_owned(),
            JoinEnd::Failed => "not joined, and not all of it could be put back".to_owned(),
            JoinEnd::CutOff => format!("cut off ({stage})"),
            JoinEnd::Superseded => format!("cut off ({stage}); a later run went on from there"),
            JoinEnd::AtWork => format!("at work ({stage})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::SCHEMA;
    use crate::testing::NOW;

    #[test]
    fn lines_are_written_as_they_always_were() {
        let (schema, verb, by, version) = (SCHEMA.to_owned(), "reset".to_owned(), "root".to_owned(), "1".to_owned());
        let run = Run { schema, run: 7, verb, by, begun: NOW, version, continues: None, steps: Vec::new() };
        let run = RunLine::new(&PastRun { run, lines: Vec::new(), damage: None });
        let written = serde_json::to_string(&HistoryLine::Run(run)).unwrap();
        assert_eq!(
            written,
            r#"{"schema":"carrick.run/v1","run":7,"verb":"reset","by":"root","begun":"2026-11-15T12:00:00Z","version":"1","steps":[],"end":"cut off after 0 steps","journal":[]}"#
        );
        let join = JoinLine {
            schema: JOIN,
            begun: NOW,
            state: JoinEnd::CutOff,
            stage: Stage::Joining,
            attempt: 1,
            runs: vec![7],
            log: "/var/lib/carrick/joins/1794744000.log".to_owned(),
            next: vec!["carrick join".to_owned(), "carrick reset".to_owned()],
        };
        assert_eq!(join.end(), "cut off (joining)");
        let written = serde_json::to_string(&HistoryLine::Join(join)).unwrap();
        assert_eq!(
            written,
            r#"{"schema":"carrick.join-record/v1","begun":"2026-11-15T12:00:00Z","state":"cut-off","stage":"joining","attempt":1,"runs":[7],"log":"/var/lib/carrick/joins/1794744000.log","next":["carrick join","carrick reset"]}"#
        );
    }
}
