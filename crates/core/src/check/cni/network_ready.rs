//! The runtime's network is ready where it has been configured.
//!
//! The kubelet reports a node NotReady for as long as the runtime says NetworkReady=false. Before a join, with no
//! configuration there, that is normal; with a configuration there, or on a machine that must have one, it is not. The
//! other way round proves little: containerd says true without ever looking at a plugin (see cni.plugins).
//!
//! See it yourself: `crictl info | grep -A3 NetworkReady`
//! Fix: see cni.config and cni.watch-lost; `systemctl restart containerd` makes it read the directory again

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "cni.network-ready",
    title: "the runtime's network is ready where it is configured",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Symptom,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("it follows from what another check finds, or from the pod network's pod"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, policy: &CheckPolicy) -> Known<Verdict> {
    let status = facts.runtime_status()?;
    let Some(ready) = status.condition("NetworkReady") else {
        return Err(Missing::broken("cri status", "no condition NetworkReady"));
    };
    if ready.status {
        return Ok(pass("the runtime says NetworkReady"));
    }
    let candidates = facts.cni_candidates()?;
    if candidates.is_empty() && !policy.cni_expected {
        return Ok(pass("not ready, and not configured: normal before a join"));
    }
    let configured = candidates.first().map_or("no configuration", |first| first.name.as_str());
    Ok(fail(format!("the runtime's network is not ready ({configured})"))
        .seen(Evidence::of("crictl info", format!("NetworkReady=false {}: {}", ready.reason, ready.message)))
        .seen(status.last_cni_load.map(|said| Evidence::of("crictl info", format!("lastCNILoadStatus: {said}"))))
        .fix("systemctl restart containerd && carrick cni status")
        .explains([id!("node.not-ready")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    fn runtime(ready: bool) -> Facts {
        let json = format!(
            r#"{{"status":{{"conditions":[{{"type":"RuntimeReady","status":true,"reason":"","message":""}},{{"type":"NetworkReady","status":{ready},
            "reason":"NetworkPluginNotReady","message":"Network plugin returns error: cni plugin not initialized"}}]}},"lastCNILoadStatus":"cni config load failed"}}"#
        );
        facts().with_cri("status", &json).with_dir("/etc/cni/net.d", &[])
    }

    #[test]
    fn judges() {
        let configured = runtime(false).with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-flannel.conflist")]);
        table(
            &CHECK,
            [
                ("ready", runtime(true), Pass),
                ("before a join", runtime(false), Pass),
                ("configured and not ready", configured.clone(), Fail),
                ("no such condition", facts().with_cri("status", r#"{"status":{"conditions":[]}}"#), Unknown),
                ("no answer", facts().without(Source::Cri("status"), Why::Denied), Unknown),
                (
                    "not known whether configured",
                    runtime(false).without(Source::Tree("/etc/cni/net.d"), Why::Denied),
                    Unknown,
                ),
            ],
        );
        let expected = CheckPolicy { cni_expected: true };
        judge_row(&CHECK, &expected, "expected and not configured", &runtime(false), Fail);
        judge_row(&CHECK, &expected, "expected and ready", &runtime(true), Pass);
        let verdict = CHECK.verdict(&configured, &CheckPolicy::default());
        assert_eq!(verdict.says, "the runtime's network is not ready (10-flannel.conflist)");
        assert_eq!(
            verdict.evidence[0].text,
            "NetworkReady=false NetworkPluginNotReady: Network plugin returns error: cni plugin not initialized"
        );
    }
}
