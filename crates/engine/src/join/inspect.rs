//! The look that live diagnosis takes, by who is about to say *joined*: whether a cause is known that keeps pods from running here.

use std::time::Duration;

use carrick_core::diagnose::{BoundPods, Case};
use carrick_core::fact::{Facts, Why, journal};
use carrick_core::join::observed;
use carrick_core::join::verify::{AgentPod, Node, StandingCause};
use carrick_core::judge::Ignore;
use carrick_core::signature::Library;
use carrick_host::{Probe, Progress};

use crate::observe::observe;

/// What a cause is known by, and which ones do not count.
pub struct LiveDiagnosis<'a> {
    pub library: &'a Library,
    pub ignore: &'a Ignore,
    pub time_box: Duration,
}

/// What a look at everything shows beside what was known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inspected {
    /// The node's agents, held against what the runtime itself has.
    pub agents: Result<Vec<AgentPod>, Why>,
    pub detours: Result<Vec<String>, Why>,
    pub standing: Result<Vec<StandingCause>, Why>,
}

impl LiveDiagnosis<'_> {
    pub(super) async fn look(
        &self,
        probe: &dyn Probe,
        node: &Result<Node, Why>,
        agents: &Result<Vec<AgentPod>, Why>,
        pods: Result<BoundPods, Why>,
    ) -> Inspected {
        let (facts, _) = observe(probe, None, None, self.time_box, &Progress::default()).await;
        self.of_facts(facts, node, agents, pods.ok())
    }

    /// `pods`: those on the node, where they could be listed.
    fn of_facts(
        &self,
        facts: Facts,
        node: &Result<Node, Why>,
        agents: &Result<Vec<AgentPod>, Why>,
        pods: Option<BoundPods>,
    ) -> Inspected {
        let mut agents = agents.clone();
        if let Ok(agents) = &mut agents {
            observed::held_against_runtime(agents, &facts);
        }
        let node = node.as_ref().map_err(Clone::clone);
        let detours = node.clone().and_then(|node| observed::detours(&facts, &node.agent_addresses));
        // Who has not heard the kubelet does not know that it complains of nothing.
        let heard = facts.query(&journal::KUBELET).map(drop).map_err(|missing| missing.why);
        let standing = heard.and(node).map(|node| {
            let case = Case::of_facts(self.library, facts, Some(node.name.clone()));
            let case = match pods {
                Some(pods) => case.with_pods(pods),
                None => case,
            };
            case.standing(self.ignore)
        });
        Inspected { agents, detours, standing }
    }
}

#[cfg(test)]
mod tests {
    use carrick_core::join::verify::testing::{joined, node};
    use carrick_core::testing::facts;
    use serde_json::json;

    use super::*;

    fn inspected(facts: Facts, agents: &Result<Vec<AgentPod>, Why>) -> Inspected {
        let (library, ignore) = (Library::built_in().unwrap(), Ignore::default());
        let look = LiveDiagnosis { library: &library, ignore: &ignore, time_box: Duration::from_secs(1) };
        look.of_facts(facts, &Ok(node()), agents, None)
    }

    #[test]
    fn a_journal_that_was_not_read_says_nothing() {
        assert_eq!(inspected(facts(), &joined().agents).standing, Err(Why::NotCollected));
        let heard = facts().with_query(&journal::KUBELET, "");
        assert_eq!(inspected(heard, &joined().agents).standing, Ok(Vec::new()));
    }

    #[test]
    fn an_agent_that_the_runtime_does_not_have_any_more_is_not_ready() {
        let flannel = AgentPod { name: "a/b".into(), ready: true, running: vec!["c".into()], ..AgentPod::default() };
        let containers = |id: &str| json!({"containers": [{"id": id, "state": "CONTAINER_RUNNING"}]}).to_string();
        for (id, ready) in [("c", true), ("d", false)] {
            let seen = inspected(facts().with_cri("containers", &containers(id)), &Ok(vec![flannel.clone()]));
            assert_eq!(seen.agents.unwrap()[0].ready, ready, "{id}");
        }
        let not_asked = inspected(facts(), &Ok(vec![flannel]));
        assert!(not_asked.agents.unwrap()[0].ready, "a runtime that does not answer is no reason");
    }
}
