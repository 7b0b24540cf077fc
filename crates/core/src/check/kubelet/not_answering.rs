//! The kubelet that runs answers, and renews its Node's lease.
//!
//! A kubelet that hangs (stopped by a signal, waiting for a mount that never answers, starved) looks as well as ever:
//! systemd has it as active, and the Node stays Ready for most of a minute. It takes connections on its healthz port and
//! answers none of them; after 40 s without a renewal its lease has run out, and the cluster moves its pods.
//!
//! See it yourself: `curl -m 3 http://127.0.0.1:10248/healthz`, `ps -o pid,stat,wchan:32,args -C kubelet`
//! Fix: `systemctl restart kubelet`; where it comes back the same, `ps` shows what it waits for

use jiff::SignedDuration;

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip,
};
use crate::fact::kubelet_health::KubeletLease;
use crate::fact::{Facts, Known, Missing, Why, process};
use crate::id;
use crate::join::observed;

pub const CHECK: Check = Check {
    id: "kubelet.not-answering",
    title: "the kubelet that runs answers",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::GoesOn("kubeadm starts the kubelet anew; one that does not answer then is told"),
    fixed_by: FixedBy::Operator("what it hangs on is worth a look before it is restarted"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let state = facts.unit_state("kubelet")?;
    if !state.is_active() {
        return Ok(skip("the kubelet does not run"));
    }
    let lease = facts.kubelet_lease();
    let late = lease.as_ref().ok().and_then(Option::as_ref).and_then(|lease| silence(facts, lease));
    let late_lease = || late.map(|late| Evidence::of("lease", format!("not renewed for {} s", late.as_secs())));
    let hangs = |says: String| {
        fail(says)
            .seen(state.cite())
            .fix("ps -o pid,stat,wchan:32,args -C kubelet    # only looks: T is stopped, D waits for a disk or a mount")
            .fix("systemctl restart kubelet")
            .explains([id!("node.not-ready"), id!("node.never-registered")])
    };
    if facts.kubelet_is_suspended().is_ok_and(|is| is) {
        let seen = Evidence::of(process::STATE.name, "T: stopped by a signal");
        let says = "the kubelet runs, and does not answer: a signal has stopped it".to_owned();
        return Ok(hangs(says).seen(seen).seen(late_lease()));
    }
    match facts.kubelet_healthz() {
        Err(Missing { why: Why::TimedOut, .. }) => {
            let seen = Evidence::of("healthz", "takes the connection, and does not answer");
            Ok(hangs("the kubelet runs, and does not answer".to_owned()).seen(seen).seen(late_lease()))
        }
        healthz => match late {
            Some(late) => {
                let says = format!("the kubelet runs, and has not renewed its Node's lease for {} s", late.as_secs());
                Ok(hangs(says).seen(late_lease()))
            }
            None if healthz.is_ok() || lease.is_ok() => Ok(pass("the kubelet answers")),
            None => Err(healthz.err().or(lease.err()).unwrap_or_else(|| Missing::broken("kubelet", "no answer"))),
        },
    }
}

/// For how long nobody has renewed it who could have: since the last time, or since this kubelet runs. `None`: it is still
/// good.
fn silence(facts: &Facts, lease: &KubeletLease) -> Option<SignedDuration> {
    let since = Some(lease.renewed_at).max(observed::kubelet_started_at(facts))?;
    let silence = facts.taken_at.duration_since(since);
    (silence > lease.lasts).then_some(silence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::Source;
    use crate::fact::kubelet_health::{HEALTHZ, LEASE};
    use crate::fact::unit::{SHOW, UPTIME};
    use crate::testing::{NOW, facts, table};

    fn state(active: &str, up: u64) -> Facts {
        let started = (1000 - up) * 1_000_000;
        let process = format!("812 {up} /usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf\n");
        let facts = facts().with_file(UPTIME, "1000.00 1.00\n").with_query(&process::KUBELET, &process);
        facts.with_query(&SHOW, &format!("Id=kubelet.service\nLoadState=loaded\nActiveState={active}\nSubState=running\nMainPID=812\nExecMainStartTimestampMonotonic={started}\n"))
    }

    fn lease(facts: Facts, age: i64) -> Facts {
        let renewed = NOW.checked_sub(SignedDuration::from_secs(age)).unwrap();
        facts.with_api(LEASE, &format!(r#"{{"spec":{{"renewTime":"{renewed}","leaseDurationSeconds":40}}}}"#))
    }

    fn answers(facts: Facts) -> Facts {
        facts.with_api(HEALTHZ, "HTTP/1.1 200 OK\n")
    }

    #[test]
    fn judges() {
        let silent = |facts: Facts| facts.without(Source::Api(HEALTHZ), Why::TimedOut);
        let suspended = |facts: Facts| facts.with_query(&process::STATE, "    812 Tsl\n");
        table(
            &CHECK,
            [
                ("answers", answers(state("active", 500)), Pass),
                ("answers, and renews", lease(answers(state("active", 500)), 9), Pass),
                ("takes connections, and says nothing", silent(state("active", 500)), Fail),
                ("says nothing, and its lease is old", lease(silent(state("active", 500)), 90), Fail),
                ("answers, and does not renew", lease(answers(state("active", 500)), 41), Fail),
                ("has just been started after a long time", lease(answers(state("active", 20)), 9000), Pass),
                ("started, and never renewed since", lease(answers(state("active", 60)), 9000), Fail),
                (
                    "no healthz, and it renews",
                    lease(state("active", 500).without(Source::Api(HEALTHZ), Why::Absent), 9),
                    Pass,
                ),
                (
                    "no healthz, and nobody may ask for the lease",
                    state("active", 500).without(Source::Api(HEALTHZ), Why::Absent),
                    Unknown,
                ),
                ("stopped by a signal", suspended(answers(state("active", 500))), Fail),
                ("stopped", silent(state("inactive", 500)), Skip),
            ],
        );
    }

    #[test]
    fn says_for_how_long() {
        let verdict = CHECK.verdict(&lease(answers(state("active", 500)), 90), &CheckPolicy::default());
        assert_eq!(verdict.says, "the kubelet runs, and has not renewed its Node's lease for 90 s");
    }
}
