//! This machine is not a control plane.
//!
//! A machine with `admin.conf`, static pods of the API server or etcd's data runs a cluster, or ran one. Joining it as
//! a worker would put its kubelet into another cluster and end the one it serves. Carrick does not join it, and does
//! not reset it.
//!
//! See it yourself: `ls /etc/kubernetes /etc/kubernetes/manifests /var/lib/etcd`
//! Mend it: most often the wrong machine was named. If it really is to become a worker, and nothing on it is needed any
//! more: `kubeadm reset`, by hand.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "machine.control-plane",
    title: "this machine is not a control plane",
    subsystem: Subsystem::Machine,
    kubeadm: &[],
    class: Class::Fatal,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("nothing is ever changed on a control plane"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let marks = facts.control_plane_marks()?;
    let Some(first) = marks.first() else {
        return Ok(pass("no admin.conf, no static pods of a control plane, no etcd data"));
    };
    Ok(fail(format!("this is a control plane, not a worker: it has {first}"))
        .seen(marks.iter().map(|mark| Evidence::of(mark.as_str(), "is there")))
        .fix("hostname    # is it the machine you meant?")
        .fix("kubeadm reset    # by hand, and only if its cluster is gone for good"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn worker() -> Facts {
        facts()
            .with_dir("/etc/kubernetes", &[("drwxr-xr-x", "manifests"), ("-rw-------", "kubelet.conf")])
            .with_dir("/etc/kubernetes/manifests", &[])
            .without_dir("/var/lib/etcd")
    }

    #[test]
    fn judges() {
        let manifest = |name: &str| worker().with_dir("/etc/kubernetes/manifests", &[("-rw-------", name)]);
        table(
            &CHECK,
            [
                ("a worker", worker(), Pass),
                (
                    "nothing installed",
                    worker().without_dir("/etc/kubernetes").without_dir("/etc/kubernetes/manifests"),
                    Pass,
                ),
                ("a static pod of one's own", manifest("haproxy.yaml"), Pass),
                ("the API server", manifest("kube-apiserver.yaml"), Fail),
                ("etcd alone", manifest("etcd.yaml"), Fail),
                ("admin.conf", worker().with_dir("/etc/kubernetes", &[("-rw-------", "admin.conf")]), Fail),
                ("etcd's data", worker().with_dir("/var/lib/etcd", &[("drwx------", "member")]), Fail),
                ("an empty etcd directory", worker().with_dir("/var/lib/etcd", &[]), Pass),
                ("etcd's data closed", worker().without(Source::Dir("/var/lib/etcd"), Why::Denied), Unknown),
            ],
        );
    }

    #[test]
    fn names_every_mark() {
        let files = [("-rw-------", "admin.conf"), ("-rw-------", "scheduler.conf")];
        let verdict = CHECK.verdict(&worker().with_dir("/etc/kubernetes", &files), &CheckPolicy::default());
        assert_eq!(verdict.says, "this is a control plane, not a worker: it has /etc/kubernetes/admin.conf");
        assert_eq!(verdict.evidence.len(), 2);
    }
}
