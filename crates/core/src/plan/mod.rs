//! What Carrick would change on a machine, as data: shown before, recorded with what was there, taken back after.
//!
//! * [`effect`]: one small, exact change that can be made twice without harm, and every table about its kinds
//! * [`PlaceState`]: what stands where an effect acts, before and after it
//! * [`edit`]: how the text of a file that is not ours is changed without losing a word of it
//! * [`protect`]: what no plan may touch; [`live`]: what a live node needs of what was changed
//! * [`running`]: what runs on a runtime that is restarted
//! * [`printed`]: a plan as programs read it
//!
//! Who makes plans: [`crate::fix`] (`check --fix`), [`crate::reset`]. Who carries them out: carrick-engine. Nothing here looks at a machine.
//!
//! No table of effects here ends in `_`: what a new effect may touch, and how it is undone, is never decided by default.
//! The lint does not see into tuples and `matches!`, so neither is used on an effect.
#![deny(clippy::match_wildcard_for_single_variants, clippy::wildcard_enum_match_arm)]

use serde::{Deserialize, Serialize};

pub mod edit;
mod effect;
pub mod live;
pub mod printed;
pub mod protect;
mod running;

pub use edit::Edit;
pub use effect::{Effect, Items, Place, Undo};
pub use running::RunningContainers;

/// Changes, in the order they are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    #[serde(flatten)]
    pub effect: Effect,
    /// Why, in the words of what asked for it: the ids of checks, or a clause.
    pub why: Vec<String>,
}

/// What stands where an effect acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum PlaceState {
    Absent,
    File {
        sha256: String,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    Dir {
        mode: u32,
        uid: u32,
        gid: u32,
    },
    Link {
        to: String,
    },
    /// A kernel setting's value; `loaded`, `on`, `enabled`, `active` and their opposites.
    Value {
        value: String,
    },
    /// There is nothing to compare: a reload, a restart.
    Moment,
}

impl PlaceState {
    pub fn value(value: impl Into<String>) -> Self {
        PlaceState::Value { value: value.into() }
    }

    pub fn as_value(&self) -> Option<&str> {
        match self {
            PlaceState::Value { value } => Some(value),
            PlaceState::Absent
            | PlaceState::File { .. }
            | PlaceState::Dir { .. }
            | PlaceState::Link { .. }
            | PlaceState::Moment => None,
        }
    }
}

impl Plan {
    /// Changes that several reasons may ask for: each is made once, in the order in which they build on each other.
    pub fn of(wanted: impl IntoIterator<Item = Step>) -> Result<Plan, Conflict> {
        let mut steps: Vec<Step> = Vec::new();
        for step in wanted {
            match steps.iter_mut().find(|known| known.effect.place() == step.effect.place()) {
                Some(known) => {
                    known.effect = merge(&known.effect, &step.effect)?;
                    known.why.extend(step.why.into_iter().filter(|why| !known.why.contains(why)).collect::<Vec<_>>());
                }
                None => steps.push(step),
            }
        }
        steps.sort_by_key(|step| step.effect.rank());
        Ok(Plan { steps })
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether it asks for the same changes, for the same reasons.
    pub fn asks_for_the_same_as(&self, other: &Plan) -> bool {
        let same = |(one, other): (&Step, &Step)| one.why == other.why && one.effect.is_same_as(&other.effect);
        self.steps.len() == other.steps.len() && self.steps.iter().zip(&other.steps).all(same)
    }
}

/// Two changes of one thing that cannot both be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two changes of one thing: {0}; and: {1}")]
pub struct Conflict(String, String);

/// Two edits of one file may both be made; anything else of one place is the same change, or no plan.
fn merge(known: &Effect, new: &Effect) -> Result<Effect, Conflict> {
    if let Effect::Edit { path, edit } = known
        && let Effect::Edit { edit: more, .. } = new
        && let Some(edit) = edit.and(more)
    {
        return Ok(Effect::Edit { path: path.clone(), edit });
    }
    // The newer one knows what runs on the runtime by now.
    if known.is_same_as(new) { Ok(new.clone()) } else { Err(Conflict(known.to_string(), new.to_string())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(effect: Effect, why: &str) -> Step {
        Step { effect, why: vec![why.to_owned()] }
    }

    #[test]
    fn what_two_checks_ask_for_is_done_once_and_files_come_before_who_reads_them() {
        let on_it = |count| RunningContainers { containers: Some(count), go_on: Some(true) };
        let restart = |count| Effect::RestartRuntime { unit: "containerd".into(), running: on_it(count) };
        let edit = |key: &str| Effect::Edit {
            path: "/etc/containerd/config.toml".into(),
            edit: Edit::Toml { set: vec![edit::Set { key: vec![key.into()], to: "true".into() }] },
        };
        let planned = |one: usize, other: usize| {
            let steps =
                [step(restart(one), "a"), step(edit("x"), "a"), step(restart(other), "b"), step(edit("y"), "b")];
            Plan::of(steps).unwrap()
        };
        let plan = planned(7, 2);
        assert!(plan.asks_for_the_same_as(&planned(0, 0)) && !plan.asks_for_the_same_as(&Plan::default()));
        let told: Vec<String> =
            plan.steps.iter().map(|step| format!("{} ({})", step.effect, step.why.join(", "))).collect();
        assert_eq!(
            told,
            [
                "edit /etc/containerd/config.toml: x = true; y = true (a, b)",
                "restart containerd and wait for it to answer; 2 containers run on it and go on running (a, b)"
            ]
        );
    }

    #[test]
    fn two_that_cannot_both_be_are_no_plan() {
        let on = |value: &str| Effect::Sysctl { key: "net.ipv4.ip_forward".into(), value: value.into() };
        let error = Plan::of([step(on("1"), "a"), step(on("0"), "b")]).unwrap_err();
        assert!(error.to_string().contains("set net.ipv4.ip_forward to 0"), "{error}");
    }
}
