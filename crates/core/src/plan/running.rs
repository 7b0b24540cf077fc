//! What runs on the runtime that a plan restarts, and whether it outlives that: said before, in the step itself.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fact::Facts;

/// What is not known is said to be so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Running"))]
pub struct RunningContainers {
    /// Containers of pods that run, by the runtime's own word.
    pub containers: Option<usize>,
    /// Whether they go on while the runtime is restarted.
    pub go_on: Option<bool>,
}

impl RunningContainers {
    /// On the runtime that this unit starts.
    pub fn on(facts: &Facts, unit: &str) -> Self {
        let kill_mode = facts.unit_state(unit).ok().and_then(|state| state.kill_mode);
        // containerd's shims, which hold the containers, are processes of its unit. Those of other runtimes are elsewhere.
        let go_on = kill_mode.filter(|_| unit == "containerd").map(|mode| matches!(mode.as_str(), "process" | "none"));
        RunningContainers { containers: facts.running_containers().ok(), go_on }
    }
}

impl fmt::Display for RunningContainers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, runs, goes_on, stops) = match self.containers {
            None => return f.write_str("what runs on it could not be told"),
            Some(0) => return f.write_str("nothing runs on it"),
            Some(1) => ("1 container".to_owned(), "runs", "goes on", "stops"),
            Some(many) => (format!("{many} containers"), "run", "go on", "stop"),
        };
        match self.go_on {
            Some(true) => write!(f, "{count} {runs} on it and {goes_on} running"),
            Some(false) => write!(f, "{count} {runs} on it and {stops} with it (KillMode of its unit)"),
            None => write!(f, "{count} {runs} on it; whether that goes on could not be told"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::unit::SHOW;
    use crate::fact::{Source, Why};
    use crate::testing::facts;

    #[test]
    fn what_runs_is_told_and_what_is_not_known_is_said_to_be_so() {
        let unit = |name: &str, mode: &str| {
            facts().with_query(&SHOW, &format!("Id={name}.service\nLoadState=loaded\nActiveState=active\n{mode}"))
        };
        let runs = |facts: Facts, states: &[&str]| {
            let containers: Vec<_> = states.iter().map(|state| serde_json::json!({ "state": state })).collect();
            facts.with_cri("containers", &serde_json::json!({ "containers": containers }).to_string())
        };
        let containerd = || unit("containerd", "KillMode=process\n");
        let (up, gone) = ("CONTAINER_RUNNING", "CONTAINER_EXITED");
        let silent = containerd().without(Source::Cri("containers"), Why::Broken("connection refused".into()));
        let rows = [
            ("containerd", runs(containerd(), &[up, gone, up]), "2 containers run on it and go on running"),
            ("containerd", runs(containerd(), &[up]), "1 container runs on it and goes on running"),
            ("containerd", runs(containerd(), &[gone]), "nothing runs on it"),
            (
                "containerd",
                runs(unit("containerd", "KillMode=control-group\n"), &[up, up]),
                "2 containers run on it and stop with it (KillMode of its unit)",
            ),
            (
                "containerd",
                runs(unit("containerd", ""), &[up, up]),
                "2 containers run on it; whether that goes on could not be told",
            ),
            (
                "crio",
                runs(unit("crio", "KillMode=control-group\n"), &[up, up]),
                "2 containers run on it; whether that goes on could not be told",
            ),
            ("containerd", silent, "what runs on it could not be told"),
            ("containerd", facts(), "what runs on it could not be told"),
        ];
        for (name, facts, says) in rows {
            assert_eq!(RunningContainers::on(&facts, name).to_string(), says);
        }
    }
}
