//! What is written down about a run on the machine it changed, as data: read, judged, told. Whoever writes the files, and reads
//! them, is carrick-engine.
//!
//! * [`Run`]: who, when, the plan, and what stood there; [`PastRun`]: a run and how far it came
//! * [`journal`]: one line before and one after each change, read as far as it can be
//! * [`half`]: whether a file is what a write of ours left that was cut short
//! * [`keep`]: which records go, and when
//! * [`secret`]: which backups hold a key or a token
//! * [`printed`]: what `history -o json` prints
//!
//! Records on disk are read by later versions: fields are added, never renamed.
#![deny(clippy::match_wildcard_for_single_variants, clippy::wildcard_enum_match_arm)]

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::plan::{Effect, PlaceState, Step};

pub mod half;
pub mod journal;
pub mod keep;
pub mod printed;
pub mod secret;

pub use journal::{Damage, JournalLine, Mark};

pub const SCHEMA: &str = "carrick.run/v1";

/// What one run set out to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    pub run: u32,
    pub verb: String,
    /// The person, as far as the machine knew.
    pub by: String,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub begun: Timestamp,
    /// Of Carrick.
    pub version: String,
    /// The run that was cut off, which this one completes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub continues: Option<u32>,
    pub steps: Vec<Recorded>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recorded {
    #[serde(flatten)]
    pub step: Step,
    /// What stood there.
    pub was: PlaceState,
    /// What stands there once it is done.
    pub becomes: PlaceState,
}

/// A run and how far it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRun {
    pub run: Run,
    pub lines: Vec<JournalLine>,
    /// Where the journal cannot be read any further: what was done after that is not known.
    pub damage: Option<Damage>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Finished,
    /// After this many steps, with the error where there was one.
    CutOff {
        done: usize,
        error: String,
    },
    Undone,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Finished => f.write_str("done"),
            End::CutOff { done, error } if error.is_empty() => write!(f, "cut off after {done} steps"),
            End::CutOff { done, error } => write!(f, "stopped after {done} steps: {error}"),
            End::Undone => f.write_str("taken back"),
        }
    }
}

impl PastRun {
    pub fn end(&self) -> End {
        let marks = |mark| self.lines.iter().filter(move |line| line.mark == mark);
        if marks(Mark::Undone).any(|line| line.step.is_none()) {
            return End::Undone;
        }
        if marks(Mark::Finished).next().is_some() {
            return End::Finished;
        }
        let error = marks(Mark::Failed).next_back().map(|line| line.error.clone()).unwrap_or_default();
        End::CutOff { done: marks(Mark::Done).count(), error }
    }

    /// It did not come to its end, and was not taken back.
    pub fn is_cut_off(&self) -> bool {
        match self.end() {
            End::CutOff { .. } => true,
            End::Finished | End::Undone => false,
        }
    }

    pub fn changed_something(&self) -> bool {
        self.damage.is_some() || self.lines.iter().any(|line| line.mark == Mark::Begun)
    }

    fn marked(&self, step: usize, mark: Mark) -> bool {
        self.lines.iter().any(|line| line.step == Some(step) && line.mark == mark)
    }

    /// Steps that were begun, and so may have changed something; not those that were taken back again. Behind damage any may
    /// have been.
    pub fn begun(&self) -> Vec<usize> {
        let begun = |step: &usize| self.damage.is_some() || self.marked(*step, Mark::Begun);
        (0..self.run.steps.len()).filter(|step| begun(step) && !self.marked(*step, Mark::Undone)).collect()
    }

    /// How many steps were taken back, of a run that was not taken back as a whole.
    pub fn taken_back(&self) -> usize {
        (0..self.run.steps.len()).filter(|&step| self.marked(step, Mark::Undone)).count()
    }

    /// Steps that may have stopped half way: begun and not done, or being taken back.
    pub fn is_open(&self, step: usize) -> bool {
        let half = |begins, ends| self.marked(step, begins) && !self.marked(step, ends);
        self.damage.is_some() || half(Mark::Begun, Mark::Done) || half(Mark::UndoBegun, Mark::Undone)
    }

    /// Why a step cannot be taken back any more: the file as it was is gone.
    pub fn is_final(&self, step: usize) -> Option<&str> {
        let line = self.lines.iter().find(|line| line.step == Some(step) && line.mark == Mark::Final)?;
        Some(&line.error)
    }

    /// Steps that cannot be taken back any more.
    pub fn final_steps(&self) -> Vec<usize> {
        (0..self.run.steps.len()).filter(|&step| self.is_final(step).is_some()).collect()
    }

    /// The first that was begun of those behind which nothing is taken back.
    pub fn no_way_back(&self) -> Option<&Effect> {
        let begun = self.begun().into_iter().filter_map(|step| self.run.steps.get(step));
        begun.map(|recorded| &recorded.step.effect).find(|effect| effect.is_final())
    }

    /// Reloads and restarts that a run which was cut off had still to make: nothing else shows that they are needed.
    pub fn owed(&self) -> Vec<Step> {
        let steps = self.run.steps.iter().enumerate();
        let owed = steps.filter(|(at, it)| it.becomes == PlaceState::Moment && !self.marked(*at, Mark::Done));
        owed.map(|(_, recorded)| recorded.step.clone()).collect()
    }
}
