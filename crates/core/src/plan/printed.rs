//! A plan as programs read it: what `--plan -o json` prints.
//!
//! The JSON form is an API (`carrick.plan/v1`): fields are added, never renamed.

use serde::Serialize;

use super::{PlaceState, Step};

pub const SCHEMA: &str = "carrick.plan/v1";

/// What a verb would change on one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanReport {
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    pub host: String,
    /// In the order in which they are made; what is so already is not among them.
    pub steps: Vec<PlannedStep>,
    /// Why the plan would not be carried out: the line that applying it would end with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Of `reset`: what it leaves beside the files of the pod network's configuration, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<Vec<String>>,
    /// Of `reset`, once the plan was carried out: the run's number in `carrick history`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<u32>,
}

/// One change, with what it acts on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedStep {
    #[serde(flatten)]
    pub step: Step,
    /// The change in words.
    pub sentence: String,
    /// What stands there now.
    pub was: PlaceState,
    /// What `carrick undo` would do, in words.
    pub undo: String,
    pub can_be_undone: bool,
    /// Lines of the file that go (`- `) and come (`+ `), secrets redacted.
    pub change: Vec<String>,
    /// Why this step would be refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl PlanReport {
    /// A plan that nothing keeps from being carried out.
    pub fn new(host: &str, steps: Vec<PlannedStep>) -> Self {
        PlanReport { schema: SCHEMA, host: host.to_owned(), steps, refused: None, stays: None, run: None }
    }
}

impl PlannedStep {
    pub fn new(step: &Step, was: &PlaceState, change: Vec<String>) -> Self {
        PlannedStep {
            step: step.clone(),
            sentence: step.effect.to_string(),
            was: was.clone(),
            undo: step.effect.taken_back(was),
            can_be_undone: step.effect.can_be_undone(),
            change,
            refused: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Effect;

    #[test]
    fn a_plan_is_written_as_it_always_was() {
        let step = Step {
            effect: Effect::Sysctl { key: "net.ipv4.ip_forward".into(), value: "1".into() },
            why: vec!["kernel.ip-forward".into()],
        };
        let bare = PlannedStep::new(&step, &PlaceState::value("0"), Vec::new());
        let refused = PlannedStep { refused: Some("no".into()), ..bare.clone() };
        let written = r#"{"effect":"sysctl","key":"net.ipv4.ip_forward","value":"1","why":["kernel.ip-forward"],"sentence":"set net.ipv4.ip_forward to 1","was":{"state":"value","value":"0"},"undo":"set net.ipv4.ip_forward to 0","can_be_undone":true,"change":[]"#;
        for (plan, expected) in [
            (PlanReport::new("w1", Vec::new()), r#"{"schema":"carrick.plan/v1","host":"w1","steps":[]}"#.to_owned()),
            (
                PlanReport { refused: Some("never".into()), ..PlanReport::new("w1", vec![bare.clone(), refused]) },
                format!(
                    r#"{{"schema":"carrick.plan/v1","host":"w1","steps":[{written}}},{written},"refused":"no"}}],"refused":"never"}}"#
                ),
            ),
            (
                PlanReport { stays: Some(Vec::new()), run: Some(7), ..PlanReport::new("w1", vec![bare]) },
                format!(r#"{{"schema":"carrick.plan/v1","host":"w1","steps":[{written}}}],"stays":[],"run":7}}"#),
            ),
        ] {
            assert_eq!(serde_json::to_string(&plan).unwrap(), expected);
        }
    }
}
