//! What `join --events` prints while a join goes on, a line each.
//!
//! The JSON form is an API (`carrick.event/v1`): fields are added, never renamed.

use std::time::Duration;

use serde::Serialize;

use super::state::Stage;

pub const SCHEMA: &str = "carrick.event/v1";

/// One line of `join --events`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventLine {
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    pub event: EventKind,
    /// Where the join is.
    pub state: Stage,
    /// Seconds in this state; of `reached`: what the state before took.
    pub elapsed: f64,
    /// Seconds that this state may take, of `again` until the next attempt; null where there is no limit.
    pub deadline: Option<f64>,
    /// What was seen, or what is waited for.
    pub evidence: String,
    /// Which attempt at the join this is, from 1.
    pub attempt: u32,
}

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum EventKind {
    /// A state was reached.
    Reached,
    /// The state is waited in; once a second.
    Waits,
    /// A word beside it.
    Says,
    /// An attempt failed; the next comes at the deadline.
    Again,
}

impl EventLine {
    /// A limit of zero is none: what comes after the end has no limit of its own.
    pub fn new(
        event: EventKind,
        state: Stage,
        elapsed: Duration,
        limit: Duration,
        evidence: &str,
        attempt: u32,
    ) -> Self {
        EventLine {
            schema: SCHEMA,
            event,
            state,
            elapsed: elapsed.as_secs_f64(),
            deadline: (!limit.is_zero()).then_some(limit.as_secs_f64()),
            evidence: evidence.to_owned(),
            attempt: attempt.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_as_it_always_was() {
        let (none, minute) = (Duration::ZERO, Duration::from_mins(1));
        for (line, expected) in [
            (
                EventLine::new(EventKind::Waits, Stage::KubeletUp, Duration::from_millis(400), minute, "\"a\"", 2),
                r#"{"schema":"carrick.event/v1","event":"waits","state":"kubelet-up","elapsed":0.4,"deadline":60.0,"evidence":"\"a\"","attempt":2}"#,
            ),
            (
                EventLine::new(EventKind::Says, Stage::Begun, none, none, "a word", 0),
                r#"{"schema":"carrick.event/v1","event":"says","state":"begun","elapsed":0.0,"deadline":null,"evidence":"a word","attempt":1}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&line).unwrap(), expected);
        }
    }

    #[test]
    fn a_state_is_called_as_people_read_it() {
        for stage in Stage::ALL {
            assert_eq!(serde_json::to_value(stage).unwrap(), stage.name());
        }
    }
}
