//! No earlier join has left a bootstrap-kubelet.conf.
//!
//! kubeadm writes it at the start of a join and removes it at the end. A join that was killed, or that stopped at "a
//! Node with name … already exists", leaves it, and the next one ends at once. It holds a bootstrap token: a kubelet
//! that starts may still use it.
//!
//! See it yourself: `ls -l /etc/kubernetes/bootstrap-kubelet.conf`
//! Mend it: `rm /etc/kubernetes/bootstrap-kubelet.conf`, or `kubeadm reset` where more is left

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
use crate::fact::kubeconfig::BOOTSTRAP;
use crate::fact::{Facts, Known, Missing, Why};
use crate::join::prepare::Preparation;

pub const CHECK: Check = Check {
    id: "stale.bootstrap-kubeconfig",
    title: "no earlier join has left a bootstrap-kubelet.conf",
    subsystem: Subsystem::Kubelet,
    kubeadm: &["FileAvailable--etc-kubernetes-bootstrap-kubelet.conf"],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Leftover,
    in_join: InJoin::SetRight(Preparation::Leftovers),
    fixed_by: FixedBy::LEFTOVERS,
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    if !facts.has_bootstrap_conf()? {
        return Ok(pass("there is no bootstrap-kubelet.conf"));
    }
    let seen = match facts.bootstrap_kubeconfig() {
        Err(Missing { why: Why::NotCollected, .. }) => "is there".to_owned(),
        read => {
            let read = read.unwrap_or_default();
            let token = if read.has_token { ", with a token" } else { "" };
            format!("for {}{token}", read.server.as_deref().unwrap_or("no server"))
        }
    };
    Ok(fail("bootstrap-kubelet.conf is left by an earlier join: kubeadm stops")
        .seen(Evidence::of(BOOTSTRAP, seen))
        .fix(format!("rm {BOOTSTRAP}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::Source;
    use crate::fact::kubeconfig::sample;
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        let left = || facts().with_file(BOOTSTRAP, &sample::bootstrap("https://10.0.0.11:6443", ""));
        table(
            &CHECK,
            [
                ("none", facts().without_file(BOOTSTRAP), Pass),
                ("left", left(), Fail),
                ("left and empty", facts().with_file(BOOTSTRAP, ""), Fail),
                ("not readable", facts().without(Source::File(BOOTSTRAP), Why::Denied), Unknown),
            ],
        );
        let seen = |facts: &Facts| CHECK.verdict(facts, &CheckPolicy::default()).evidence.remove(0).text;
        assert_eq!(seen(&left()), "for https://10.0.0.11:6443, with a token");
        assert_eq!(seen(&facts().with_file(BOOTSTRAP, "")), "for no server");
    }
}
