//! The cluster gives a node no range of pod addresses: flannel ends, and `carrick join` says why, in flannel's own words; once the
//! range comes, the same join goes on and joins.

use std::thread;
use std::time::Duration;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::{Result, said};
use crate::join::{fresh, is_joined, line};
use crate::machine::Kind;
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::sighting::{MeasuredAt, ToldCause, written};
use crate::stamped;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join on a node that gets no podCIDR: flannel's last words as the cause within 5 s of its end, while it waits; it joins once the range is there",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(3), Covers::Family("cni")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Keeps the controller manager from writing this Node's range; nothing else of it, and no other Node's.
const RULE: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-range-@NODE@}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [nodes]}]}
  validations: [{expression: \"object.metadata.name != '@NODE@' || !has(object.spec.podCIDR)\", message: no range for @NODE@}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-range-@NODE@}
spec: {policyName: no-range-@NODE@, validationActions: [Deny]}
";

/// The stage of the pod network has five minutes; before it a join.
const WITHIN: Duration = Duration::from_mins(7);
const TOLD: &str = "has no podCIDR";
/// Notes when flannel says it for the first time: its log goes with its second container.
const SEEN: &str = "until cat /var/log/pods/kube-flannel_*/kube-flannel/*.log | grep -q 'pod cidr not assigned'; do sleep 0.05; done; touch /root/seen";

fn run(bench: &mut Bench) -> Result<()> {
    let (worker, cluster) = (fresh(bench)?, bench.cluster()?);
    let node = worker.identity.name.clone();
    cluster.apply(&RULE.replace("@NODE@", &node))?;
    let lift = || -> Result<()> {
        let rule = format!("no-range-{node}");
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            cluster.kubectl(["delete", kind, &rule, "--ignore-not-found"]).ok()?;
        }
        Ok(())
    };
    let object = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{{\"name\":\"{node}\"}},\"spec\":{{\"podCIDR\":\"10.9.9.0/24\"}}}}"
    );
    let in_force = wait_for("the rule to be in force", Duration::from_mins(1), || {
        let tried = cluster.kubectl(["create", "--dry-run=server", "-f", "-"]).input(object.clone()).done()?;
        Ok(if tried.status.success() { Polled::NotYet(tried.text()) } else { Polled::Seen(()) })
    });
    if let Err(error) = in_force {
        lift()?;
        return Err(error);
    }
    let joined = thread::scope(|scope| {
        // Once it is told, the range may come.
        let lifting = scope.spawn(|| -> Result<()> {
            let told = wait_for("carrick to tell it", WITHIN, || {
                let heard = worker.run(["grep", "-q", TOLD, "/root/said"]).done()?.status.success();
                Ok(if heard { Polled::Seen(()) } else { Polled::NotYet(String::new()) })
            });
            told.and(lift())
        });
        let joined = stamped::join(&worker, &line(cluster), "ok  registered", SEEN, WITHIN);
        let lifted = lifting.join().unwrap_or_else(|_| said("lifting panicked"));
        joined.and_then(|joined| lifted.map(|()| joined))
    });
    lift()?;
    let joined = joined?;
    bench.say(format_args!("ended with {}\n{}", joined.done.code(), joined.done.text()));
    let seen = written(&worker.ok(["stat", "--format=%.6Y", "/root/seen"])?)?;
    demand!(joined.done.code() == 0, "it ended with {}:\n{}", joined.done.code(), joined.done.text());
    is_joined(cluster, &worker)?;
    let at = MeasuredAt { started: joined.began(), seen, told: joined.told(TOLD)? };
    bench.told(ToldCause::measured("flannel-without-range", "cni.no-pod-cidr, waited for", &at, "flannel's first end"))
}
