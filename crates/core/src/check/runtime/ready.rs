//! The container runtime says that it is ready.
//!
//! Of the runtime's own conditions `RuntimeReady` is the one a join needs. (`NetworkReady` is false until a pod network
//! is there: that is normal before a join.)
//!
//! See it yourself: `crictl info | jq .status.conditions`
//! Mend it: `journalctl -u containerd -n 50`, then `systemctl restart containerd`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "runtime.ready",
    title: "the container runtime is ready",
    subsystem: Subsystem::Runtime,
    kubeadm: &["CRI"],
    class: Class::Configuration,
    role: Role::Symptom,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("the runtime's log says why; a restart would hide it"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let status = facts.runtime_status()?;
    let Some(ready) = status.condition("RuntimeReady") else {
        return Err(Missing::broken("crictl info", "there is no condition RuntimeReady"));
    };
    let unit = facts.runtime().unit();
    let text = format!("RuntimeReady={} {} {}", ready.status, ready.reason, ready.message);
    let seen = Evidence::of("crictl info", text.trim_end());
    if ready.status {
        return Ok(pass("the runtime says it is ready").seen(seen));
    }
    let why = if ready.message.is_empty() { &ready.reason } else { &ready.message };
    Ok(fail(format!("the runtime says it is not ready: {why}"))
        .seen(seen)
        .fix(format!("journalctl -u {unit} -n 50 --no-pager    # why"))
        .fix(format!("systemctl restart {unit}"))
        .explains([id!("node.not-ready")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn with(conditions: &str) -> Facts {
        facts().with_cri("status", &format!(r#"{{"status":{{"conditions":[{conditions}]}}}}"#))
    }

    const NETWORK: &str = r#"{"type":"NetworkReady","status":false,"reason":"NetworkPluginNotReady","message":"Network plugin returns error: cni plugin not initialized"}"#;

    #[test]
    fn judges() {
        let ready = format!(r#"{{"type":"RuntimeReady","status":true,"reason":"","message":""}},{NETWORK}"#);
        let not = r#"{"type":"RuntimeReady","status":false,"reason":"Down","message":"server is not initialized yet"}"#;
        table(
            &CHECK,
            [
                ("ready, no network yet", with(&ready), Pass),
                ("not ready", with(not), Fail),
                ("not said", with(NETWORK), Unknown),
                ("no answer", facts().without(Source::Cri("status"), Why::TimedOut), Unknown),
            ],
        );
        let says = |conditions: &str| CHECK.verdict(&with(conditions), &CheckPolicy::default()).says;
        assert_eq!(says(not), "the runtime says it is not ready: server is not initialized yet");
        assert_eq!(
            says(r#"{"type":"RuntimeReady","status":false,"reason":"Down"}"#),
            "the runtime says it is not ready: Down"
        );
    }
}
