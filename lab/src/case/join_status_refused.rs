//! The cluster takes a machine's Node, and not its status: the Node never becomes Ready, and flannel, which writes its annotations
//! there, never comes up. The kubelet's own line says who refuses it; without the policy the next join ends well.

use std::time::Duration;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, SHORT, fresh, join, joins, judge, line};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join while an admission policy refuses the node's status: who refuses it, not what flannel lacks because of it; without the policy the next join ends well",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(3), Covers::Family("node")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

const POLICY: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: status-@NODE@}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [nodes/status]}]}
  validations: [{expression: \"object.metadata.name != '@NODE@'\", message: '@NODE@ may have no status'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: status-@NODE@}
spec: {policyName: status-@NODE@, validationActions: [Deny]}
";

/// A refusal that lasts is told after two bursts of the kubelet's tries.
const WITHIN: Duration = Duration::from_mins(3);

fn run(bench: &mut Bench) -> Result<()> {
    let (worker, cluster) = (fresh(bench)?, bench.cluster()?);
    let node = worker.identity.name.clone();
    cluster.apply(&POLICY.replace("@NODE@", &node))?;
    let refused = join(&worker, &SHORT, &["-"], &line(cluster)).and_then(|done| {
        bench.say(format_args!(
            "without a status it ended with {} after {:?}\n{}",
            done.code(),
            done.took,
            done.text()
        ));
        bench.time("the node's status is refused", done.took);
        judge(&Ends::CauseAtSomeTime("node.status-denied"), &done)?;
        demand!(done.text().contains("may have no status"), "it does not say who refuses it:\n{}", done.text());
        demand!(done.took < WITHIN, "it took {:?}", done.took);
        Ok(())
    });
    let policy = format!("status-{node}");
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        cluster.kubectl(["delete", kind, &policy, "--ignore-not-found"]).ok()?;
    }
    refused?;
    joins(bench, &worker).map(drop)
}
