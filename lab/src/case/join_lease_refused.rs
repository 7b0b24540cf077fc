//! The cluster takes a machine's Node, and not its lease: the Node is Ready for most of a minute, and its pods are evicted after
//! that. No join says joined of it; without the policy the next one does.

use std::time::Duration;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, SHORT, fresh, join, joins, judge, line};
use crate::machine::Kind;
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join while an admission policy refuses the node's lease, or its renewal: not joined, and who refuses it; without the policy the next join ends well",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(1), Covers::Family("node")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

const POLICY: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: lease-@NODE@}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [coordination.k8s.io], apiVersions: [v1], operations: [@VERB@], resources: [leases]}]}
  validations: [{expression: \"object.metadata.name != '@NODE@'\", message: '@NODE@ may have no lease'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: lease-@NODE@}
spec: {policyName: lease-@NODE@, validationActions: [Deny]}
";

fn run(bench: &mut Bench) -> Result<()> {
    for verb in ["CREATE", "UPDATE"] {
        refused(bench, verb)?;
    }
    Ok(())
}

/// One that may not be made; or not be renewed, which can be told only of one that was made: ten seconds after a join.
fn refused(bench: &mut Bench, verb: &str) -> Result<()> {
    let (worker, cluster) = (fresh(bench)?, bench.cluster()?);
    let node = worker.identity.name.clone();
    let lease = format!(
        "{{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{{\"name\":\"{node}\",\"namespace\":\"kube-node-lease\"}}}}"
    );
    if verb == "UPDATE" {
        joins(bench, &worker)?;
        let made = format!("lease/{node}");
        cluster.kubectl(["wait", "--for=create", "-n", "kube-node-lease", &made, "--timeout=30s"]).ok()?;
    }
    cluster.apply(&POLICY.replace("@NODE@", &node).replace("@VERB@", verb))?;
    let in_force = wait_for("the policy to be in force", Duration::from_mins(1), || {
        let tried = if verb == "UPDATE" {
            cluster.kubectl(["label", "lease", "-n", "kube-node-lease", &node, "a=b", "--dry-run=server"]).done()?
        } else {
            cluster.kubectl(["create", "--dry-run=server", "-f", "-"]).input(lease.clone()).done()?
        };
        Ok(if tried.status.success() { Polled::NotYet(tried.text()) } else { Polled::Seen(()) })
    });
    let refused = in_force.and_then(|()| {
        let done = join(&worker, &SHORT, &["-"], &line(cluster))?;
        bench.say(format_args!("where the policy refuses {verb} it ended with {}\n{}", done.code(), done.text()));
        judge(&Ends::CauseAtSomeTime("verify.lease"), &done)?;
        demand!(done.text().contains("may have no lease"), "it does not say who refuses it:\n{}", done.text());
        Ok(())
    });
    let policy = format!("lease-{node}");
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        cluster.kubectl(["delete", kind, &policy, "--ignore-not-found"]).ok()?;
    }
    refused?;
    joins(bench, &worker).map(drop)
}
