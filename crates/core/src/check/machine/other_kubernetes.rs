//! No other Kubernetes is installed here.
//!
//! k3s, RKE2, MicroK8s, k0s and others bring a kubelet of their own, on the same port, with their own container runtime
//! and their own rules in the firewall. While one runs, kubeadm's kubelet cannot take its place; where one is only left
//! over, its service may start again at the next boot, and its CNI configuration may still be read. A kubelet.service with
//! another kubeconfig than /etc/kubernetes/kubelet.conf was set up by something else than kubeadm: it may be a node that
//! lives, and a join would stop it.
//!
//! See it yourself: `ls -d /var/lib/rancher /var/snap/microk8s /var/lib/k0s /var/lib/minikube`, `ps -ww -C kubelet -o args=`
//! Fix: with the distribution's own uninstaller, such as `k3s-agent-uninstall.sh`; it knows what it made.

use std::collections::BTreeSet;

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "machine.other-kubernetes",
    title: "no other Kubernetes is installed here",
    subsystem: Subsystem::Machine,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("whether the other one is still needed, only you know"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    if let Ok(Some(path)) = facts.foreign_kubeconfig() {
        let seen = facts.kubelet_process()?.map(|process| process.cite());
        return Ok(fail(format!("a kubelet runs here with {path}: kubeadm did not set it up, and would replace it"))
            .seen(seen)
            .fix(format!("grep server: {path}    # the cluster it is in; take it out of that first"))
            .fix("systemctl disable --now kubelet"));
    }
    let traces = facts.other_kubernetes()?;
    if traces.is_empty() {
        return Ok(pass("no trace of another Kubernetes distribution"));
    }
    let verdict = if let Some(trace) = traces.iter().find(|trace| trace.runs) {
        fail(format!("{} runs on this machine: two kubelets cannot share it", trace.distribution))
    } else {
        let names: BTreeSet<&str> = traces.iter().map(|trace| trace.distribution).collect();
        let names: Vec<&str> = names.into_iter().collect();
        warn(format!("{} left files on this machine", names.join(", ")))
    };
    let fixes: BTreeSet<&str> = traces.iter().map(|trace| uninstaller(trace.distribution)).collect();
    let verdict = verdict.seen(
        traces
            .iter()
            .map(|trace| Evidence::of(trace.path.as_str(), if trace.runs { "is listened on" } else { "is there" })),
    );
    Ok(fixes.into_iter().fold(verdict, Verdict::fix))
}

fn uninstaller(distribution: &str) -> &'static str {
    match distribution {
        "k3s" => "k3s-agent-uninstall.sh    # or k3s-uninstall.sh on a server",
        "RKE2" => "rke2-uninstall.sh",
        "k3s or RKE2" => "systemctl list-units 'k3s*' 'rke2*'    # then its uninstaller",
        "MicroK8s" => "snap remove --purge microk8s",
        "Canonical Kubernetes" => "snap remove --purge k8s",
        "k0s" => "k0s stop && k0s reset",
        "minikube" => "minikube delete",
        "Kubespray" => "ansible-playbook reset.yml --limit THIS_HOST    # from the Kubespray checkout",
        "MicroShift" => "microshift-cleanup-data --all && dnf remove microshift",
        _ => "ls -ld /kind /var/lib/rancher    # is this machine itself a cluster's node container?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::leftovers::OTHERS;
    use crate::fact::{Source, Why, process, unit};
    use crate::testing::{facts, table};

    const LEFT: &str = "/etc/rancher/rke2\n/var/lib/rancher/rke2\n/etc/kubernetes/kubelet.env\n";
    const RUNS: &str = "/var/lib/rancher/k3s\nlistens /run/k3s/containerd/containerd.sock\n";

    fn kubelet(kubeconfig: &str) -> Facts {
        facts()
            .with_query(&unit::SHOW, "Id=kubelet.service\nLoadState=loaded\nActiveState=active\nMainPID=7\n")
            .with_query(&process::KUBELET, &format!("7 60 /usr/bin/kubelet --kubeconfig={kubeconfig}\n"))
    }

    #[test]
    fn judges() {
        let with = |text: &str| facts().with_query(&OTHERS, text);
        table(
            &CHECK,
            [
                ("clean", with(""), Pass),
                ("left over", with(LEFT), Warn),
                ("running", with(RUNS), Fail),
                ("a kubelet that somebody else set up", kubelet("/var/lib/kubelet/kubeconfig"), Fail),
                ("kubeadm's kubelet", kubelet("/etc/kubernetes/kubelet.conf").with_query(&OTHERS, ""), Pass),
                ("timed out", facts().without(Source::Query(&OTHERS), Why::TimedOut), Unknown),
            ],
        );
    }

    #[test]
    fn names_each_distribution_and_its_uninstaller() {
        let verdict = CHECK.verdict(&facts().with_query(&OTHERS, LEFT), &CheckPolicy::default());
        assert_eq!(verdict.says, "Kubespray, RKE2 left files on this machine");
        assert_eq!((verdict.evidence.len(), verdict.remedy.len()), (3, 2));
        let verdict = CHECK.verdict(&facts().with_query(&OTHERS, RUNS), &CheckPolicy::default());
        assert_eq!(verdict.says, "k3s or RKE2 runs on this machine: two kubelets cannot share it");
        assert!(
            verdict.remedy.iter().any(|fix| fix.starts_with("systemctl list-units 'k3s*'")),
            "{:?}",
            verdict.remedy
        );
        for (path, fix) in [
            ("/usr/local/bin/k3s", "k3s-agent-uninstall.sh"),
            ("/usr/local/bin/rke2", "rke2-uninstall.sh"),
            ("/snap/microk8s", "snap remove --purge microk8s"),
            ("/snap/k8s", "snap remove --purge k8s"),
            ("/var/lib/k0s", "k0s stop"),
            ("/var/lib/minikube", "minikube delete"),
            ("/etc/kubernetes/ssl", "ansible-playbook"),
            ("/etc/microshift", "microshift-cleanup-data"),
            ("/kind", "ls -ld /kind"),
        ] {
            let verdict = CHECK.verdict(&facts().with_query(&OTHERS, path), &CheckPolicy::default());
            assert!(verdict.remedy[0].starts_with(fix), "{path}: {:?}", verdict.remedy);
        }
    }
}
