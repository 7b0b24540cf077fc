//! The cluster refuses the Node of a machine that has its certificate: a ValidatingAdmissionPolicy that says no, a webhook that is
//! down. `carrick join` says who and why; once the rule is gone the next join goes on where this one stopped.

use std::time::Duration;

use jiff::Timestamp;

use super::{Bench, Case};
use crate::cluster::Cluster;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, fresh, joins, judge, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::sighting::{MeasuredAt, ToldCause, written};
use crate::stamped;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join while an admission policy, or a webhook that is down, refuses the Node: who refuses it and why within 5 s, and no other cause first; without the rule the next join goes on",
    tier: Tier::Quick,
    covers: &[Covers::Verb("join"), Covers::Promise(3), Covers::Family("node")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// A webhook is waited for until the stage's minute is over.
const WITHIN: Duration = Duration::from_mins(3);

struct Refusal {
    name: &'static str,
    /// What is applied; it refuses this machine's Node alone.
    rule: &'static str,
    /// What is deleted again.
    objects: &'static [&'static str],
    ends: Ends,
    /// A word that tells it: sentences are broken at the terminal's width.
    told_by: &'static str,
    tier: Tier,
}

static REFUSALS: [Refusal; 2] = [
    Refusal {
        name: "node-refused-by-policy",
        rule: "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refuse-@NODE@}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [nodes]}]}
  validations: [{expression: \"object.metadata.name != '@NODE@'\", message: '@NODE@ is not in the inventory'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refuse-@NODE@}
spec: {policyName: refuse-@NODE@, validationActions: [Deny]}
",
        objects: &["validatingadmissionpolicybinding", "validatingadmissionpolicy"],
        ends: Ends::Cause("node.registration-denied", 3),
        told_by: "inventory",
        tier: Tier::Quick,
    },
    Refusal {
        name: "node-refused-by-webhook",
        rule: "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: refuse-@NODE@}
webhooks:
- name: nodes.lab.example
  clientConfig: {url: 'https://127.0.0.1:1/'}
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [nodes]}]
  matchConditions: [{name: this, expression: \"object.metadata.name == '@NODE@'\"}]
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
",
        objects: &["validatingwebhookconfiguration"],
        ends: Ends::Cause("node.webhook-unanswered", 6),
        told_by: "nodes.lab.example",
        tier: Tier::Standard,
    },
];

fn run(bench: &mut Bench) -> Result<()> {
    let tier = bench.tier;
    REFUSALS.iter().filter(|refusal| refusal.tier <= tier).try_for_each(|refusal| play(bench, refusal))
}

fn play(bench: &mut Bench, refusal: &Refusal) -> Result<()> {
    let (worker, cluster) = (fresh(bench)?, bench.cluster()?);
    let node = &worker.identity.name;
    cluster.apply(&refusal.rule.replace("@NODE@", node))?;
    let played = refused(bench, cluster, &worker, refusal);
    let rule = format!("refuse-{node}");
    for kind in refusal.objects {
        cluster.kubectl(["delete", kind, &rule, "--ignore-not-found"]).ok()?;
    }
    played?;
    let done = joins(bench, &worker)?;
    let says = "has not registered its Node yet: watching it";
    let text = done.text().split_whitespace().collect::<Vec<_>>().join(" ");
    demand!(text.contains(says) || text.contains("has joined already"), "it did not go on:\n{}", done.text());
    Ok(())
}

fn refused(bench: &mut Bench, cluster: &Cluster, worker: &Machine, refusal: &Refusal) -> Result<()> {
    is_in_force(cluster, &worker.identity.name)?;
    let joined = stamped::join(worker, &line(cluster), "never", "", WITHIN)?;
    bench.say(format_args!("{}: ended with {}\n{}", refusal.name, joined.done.code(), joined.done.text()));
    judge(&refusal.ends, &joined.done)?;
    nothing_left(worker)?;
    let at = MeasuredAt {
        started: joined.began(),
        seen: first_refusal(worker, joined.began())?,
        told: joined.told(refusal.told_by)?,
    };
    bench.told(ToldCause::measured(refusal.name, refusal.told_by, &at, "the kubelet's first refusal"))
}

/// A rule takes a moment until the API server goes by it.
fn is_in_force(cluster: &Cluster, node: &str) -> Result<()> {
    let object = format!("{{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{{\"name\":\"{node}\"}}}}");
    wait_for("the rule to be in force", Duration::from_mins(1), || {
        let tried = cluster.kubectl(["create", "--dry-run=server", "-f", "-"]).input(object.clone()).done()?;
        Ok(if tried.status.success() { Polled::NotYet(tried.text()) } else { Polled::Seen(()) })
    })
}

fn first_refusal(worker: &Machine, since: Timestamp) -> Result<Timestamp> {
    let since = format!("--since=@{}", since.as_second());
    let said = worker.ok(["journalctl", "--no-pager", "-q", "-o", "short-unix", "-u", "kubelet", &since])?;
    // Before it has its certificate it is refused as anybody is.
    let is_refusal = |line: &&str| line.contains("Unable to register node") && !line.contains("system:anonymous");
    let first = said.lines().find(is_refusal).unwrap_or_default();
    written(first.split(' ').next().unwrap_or_default())
}
