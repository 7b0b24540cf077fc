//! No static pods are left on this worker.
//!
//! The kubelet starts whatever lies in /etc/kubernetes/manifests, before and besides anything the cluster sends. On a
//! worker nothing belongs there; a file from an earlier life takes ports and memory, and one that is no manifest fills
//! the log. (The manifests of a control plane are another matter: see machine.control-plane.)
//!
//! See it yourself: `ls -la /etc/kubernetes/manifests`
//! Mend it: move the files away

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, skip, warn,
};
use crate::fact::join_state::MANIFESTS;
use crate::fact::{Facts, Known, OrAbsent};

pub const CHECK: Check = Check {
    id: "stale.manifests",
    title: "no static pods are left on this worker",
    subsystem: Subsystem::Kubelet,
    kubeadm: &["DirAvailable--etc-kubernetes-manifests"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Leftover,
    in_join: InJoin::GoesOn("kubeadm passes over static pods on a worker, and the kubelet starts them"),
    fixed_by: FixedBy::LEFTOVERS,
    accounts_for: nothing,
    judge,
};

/// What kubeadm writes on a control plane.
const CONTROL_PLANE: [&str; 4] =
    ["kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml", "etcd.yaml"];

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let entries = facts.dir(MANIFESTS).or_absent()?.unwrap_or_default();
    // The kubelet passes over names that begin with a dot.
    let files: Vec<String> = entries
        .into_iter()
        .filter(|entry| !entry.is_dir() && !entry.name.starts_with('.'))
        .map(|entry| entry.name)
        .collect();
    let (known, strangers): (Vec<String>, Vec<String>) =
        files.into_iter().partition(|name| CONTROL_PLANE.contains(&name.as_str()));
    let Some(first) = strangers.first() else {
        return Ok(if known.is_empty() {
            pass("there are no static pods")
        } else {
            skip("these are a control plane's manifests")
        });
    };
    let more = match strangers.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Ok(warn(format!("the kubelet would start the static pod {first}{more}"))
        .seen(strangers.iter().map(|name| Evidence::of(MANIFESTS, name)))
        .fix(format!("mv {MANIFESTS}/{first} /root/    # if nothing needs it")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    const FILE: &str = "-rw-------";

    fn with(names: &[(&str, &str)]) -> Facts {
        facts().with_dir(MANIFESTS, names)
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("empty", with(&[]), Pass),
                ("not there", facts().without_dir(MANIFESTS), Pass),
                ("nothing the kubelet reads", with(&[(FILE, ".kubelet-keep"), ("drwxr-xr-x", "old")]), Pass),
                ("a proxy of another installer", with(&[(FILE, "nginx-proxy.yml")]), Warn),
                ("a link", with(&[("lrwxrwxrwx", "x.yaml -> /root/x.yaml")]), Warn),
                ("beside a control plane's", with(&[(FILE, "etcd.yaml"), (FILE, "kube-vip.yaml")]), Warn),
                ("not readable", facts().without(Source::Dir(MANIFESTS), Why::Denied), Unknown),
            ],
        );
        let control_plane = with(&[(FILE, "etcd.yaml"), (FILE, "kube-apiserver.yaml")]);
        judge_row(&CHECK, &CheckPolicy::default(), "a control plane", &control_plane, Skip);
        let says = |names: &[(&str, &str)]| CHECK.verdict(&with(names), &CheckPolicy::default()).says;
        assert_eq!(says(&[(FILE, "a.yaml")]), "the kubelet would start the static pod a.yaml");
        assert_eq!(
            says(&[(FILE, "a.yaml"), (FILE, "b.yaml"), (FILE, "c.yaml")]),
            "the kubelet would start the static pod a.yaml and 2 more"
        );
    }
}
