//! What other Kubernetes distributions, and a control plane, leave on a machine.

use super::keep::USUAL;
use super::{Facts, Known, Missing, OrAbsent, Query, Source};

/// Paths that only another distribution makes, where they are there; and sockets of theirs that someone listens on.
pub const OTHERS: Query = Query {
    name: "ls -1d of other Kubernetes distributions' paths",
    argv: &[
        "sh",
        "-c",
        r"ls -1d /etc/rancher/k3s /var/lib/rancher/k3s /usr/local/bin/k3s \
  /etc/systemd/system/k3s.service /etc/systemd/system/k3s-agent.service \
  /etc/rancher/rke2 /var/lib/rancher/rke2 /usr/local/bin/rke2 \
  /usr/local/lib/systemd/system/rke2-agent.service /usr/local/lib/systemd/system/rke2-server.service \
  /var/snap/microk8s /snap/microk8s /var/snap/k8s /snap/k8s /var/lib/k0s /etc/k0s /usr/local/bin/k0s \
  /var/lib/minikube /kind /etc/kubernetes/kubelet.env /etc/kubernetes/ssl /etc/kubernetes/kubeadm-client.conf \
  /etc/microshift /var/lib/microshift 2>/dev/null
s='k3s/containerd/containerd|microk8s/common/run/containerd|k0s/containerd|k0s/status'
grep -oE '/[^ ]*/('$s')\.sock$' /proc/net/unix | sort -u | sed 's/^/listens /'
exit 0",
    ],
    keep: USUAL,
};

pub const SOURCES: &[Source] = &[
    Source::Query(&OTHERS),
    Source::Dir("/etc/kubernetes"),
    Source::Dir("/etc/kubernetes/manifests"),
    Source::Dir("/var/lib/etcd"),
];

/// What only a control plane has: directory, name.
const CONTROL_PLANE: [(&str, &str); 9] = [
    ("/etc/kubernetes", "admin.conf"),
    ("/etc/kubernetes", "super-admin.conf"),
    ("/etc/kubernetes", "controller-manager.conf"),
    ("/etc/kubernetes", "scheduler.conf"),
    ("/etc/kubernetes/manifests", "kube-apiserver.yaml"),
    ("/etc/kubernetes/manifests", "kube-controller-manager.yaml"),
    ("/etc/kubernetes/manifests", "kube-scheduler.yaml"),
    ("/etc/kubernetes/manifests", "etcd.yaml"),
    ("/var/lib/etcd", "member"),
];

/// A trace of another distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistributionTrace {
    pub distribution: &'static str,
    pub path: String,
    /// A socket of it is listened on: it runs.
    pub runs: bool,
}

/// By a part of a path; the first that fits counts. k3s and RKE2 share their runtime's socket.
const DISTRIBUTIONS: [(&str, &str); 14] = [
    ("k3s/containerd/", "k3s or RKE2"),
    ("k3s", "k3s"),
    ("rke2", "RKE2"),
    ("microk8s", "MicroK8s"),
    ("/var/snap/k8s", "Canonical Kubernetes"),
    ("/snap/k8s", "Canonical Kubernetes"),
    ("k0s", "k0s"),
    ("minikube", "minikube"),
    ("/kind", "kind"),
    ("microshift", "MicroShift"),
    ("/etc/kubernetes/kubelet.env", "Kubespray"),
    ("/etc/kubernetes/ssl", "Kubespray"),
    ("/etc/kubernetes/kubeadm-client.conf", "Kubespray"),
    ("rancher", "Rancher"),
];

/// What [`OTHERS`] prints: a path a line, `listens` before that of a socket in use.
pub fn parse(text: &str) -> Vec<DistributionTrace> {
    let trace = |line: &str| {
        let (path, runs) = line.strip_prefix("listens ").map_or((line, false), |path| (path, true));
        let (_, distribution) = DISTRIBUTIONS.iter().find(|(part, _)| path.contains(part))?;
        Some(DistributionTrace { distribution, path: path.to_owned(), runs })
    };
    text.lines().map(str::trim).filter(|line| line.contains('/')).filter_map(trace).collect()
}

impl Facts {
    pub fn other_kubernetes(&self) -> Known<Vec<DistributionTrace>> {
        Ok(parse(&self.query(&OTHERS)?.text))
    }

    /// The files only a control plane has. What is found counts even where another place could not be looked at.
    pub fn control_plane_marks(&self) -> Known<Vec<String>> {
        let mut found = Vec::new();
        let mut unknown: Option<Missing> = None;
        for (dir, name) in CONTROL_PLANE {
            match self.dir(dir).or_absent() {
                Ok(entries) if entries.iter().flatten().any(|entry| entry.name == name) => {
                    found.push(format!("{dir}/{name}"));
                }
                Ok(_) => {}
                Err(missing) => unknown = unknown.or(Some(missing)),
            }
        }
        match unknown {
            Some(missing) if found.is_empty() => Err(missing),
            _ => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Why;
    use crate::testing::facts;
    use proptest::prelude::*;

    #[test]
    fn names_the_distribution_of_each_trace() {
        for (line, distribution, runs) in [
            ("/var/lib/rancher/k3s", "k3s", false),
            ("/etc/rancher/rke2", "RKE2", false),
            ("listens /run/k3s/containerd/containerd.sock", "k3s or RKE2", true),
            ("/snap/microk8s", "MicroK8s", false),
            ("/var/snap/k8s", "Canonical Kubernetes", false),
            ("listens /run/k0s/status.sock", "k0s", true),
            ("/kind", "kind", false),
            ("/var/lib/minikube", "minikube", false),
            ("/etc/kubernetes/kubelet.env", "Kubespray", false),
            ("/etc/microshift", "MicroShift", false),
        ] {
            let found = parse(line);
            assert_eq!((found.len(), found[0].distribution, found[0].runs), (1, distribution, runs), "{line}");
        }
        assert_eq!(parse("\n/usr/bin/kubelet\n"), []);
    }

    #[test]
    fn a_mark_counts_even_where_etcds_data_is_closed() {
        let closed = |facts: Facts| {
            facts.without_dir("/etc/kubernetes/manifests").without(Source::Dir("/var/lib/etcd"), Why::Denied)
        };
        let plane = closed(facts().with_dir("/etc/kubernetes", &[("-rw-------", "admin.conf")]));
        assert_eq!(plane.control_plane_marks().unwrap(), ["/etc/kubernetes/admin.conf"]);
        let worker = closed(facts().with_dir("/etc/kubernetes", &[("-rw-------", "kubelet.conf")]));
        assert_eq!(worker.control_plane_marks().unwrap_err().why, Why::Denied);
    }

    proptest! {
        #[test]
        fn any_text_has_traces(text in ".*") {
            parse(&text);
        }
    }
}
