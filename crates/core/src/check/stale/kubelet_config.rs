//! No kubelet configuration is left without its cluster.
//!
//! A join that failed late leaves /var/lib/kubelet/config.yaml and kubeadm-flags.env. The next join overwrites both;
//! until then the kubelet starts with them, and may take port 10250 or pick up a new bootstrap-kubelet.conf before
//! kubeadm is ready for it.
//!
//! See it yourself: `ls -l /var/lib/kubelet/config.yaml /etc/kubernetes/kubelet.conf`
//! Mend it: `systemctl stop kubelet && rm /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env`,
//! or `kubeadm reset`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::kubelet_config::FILE;
use crate::fact::unit::KUBEADM_FLAGS;
use crate::fact::{Facts, Known, OrAbsent};
use crate::join::prepare::Preparation;

pub const CHECK: Check = Check {
    id: "stale.kubelet-config",
    title: "no kubelet configuration is left without its cluster",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
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
    if facts.has_kubelet_conf()? {
        return Ok(pass("the configuration belongs to kubelet.conf"));
    }
    let mut left = Vec::new();
    for path in [FILE, KUBEADM_FLAGS] {
        if facts.file(path).or_absent()?.is_some() {
            left.push(path);
        }
    }
    if left.is_empty() {
        return Ok(pass("there is no kubelet configuration yet"));
    }
    Ok(warn("an earlier join left the kubelet's configuration behind")
        .seen(left.iter().map(|path| Evidence::of(*path, "there, without /etc/kubernetes/kubelet.conf")))
        .fix(format!("systemctl stop kubelet && rm {}", left.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::fact::{Source, Why, kubeconfig};
    use crate::testing::{facts, table};

    fn clean() -> Facts {
        facts().without_file(kubeconfig::KUBELET).without_file(FILE).without_file(KUBEADM_FLAGS)
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("clean", clean(), Pass),
                ("joined", clean().with_file(FILE, "").with_file(kubeconfig::KUBELET, ""), Pass),
                ("config.yaml left", clean().with_file(FILE, ""), Warn),
                ("flags left", clean().with_file(KUBEADM_FLAGS, ""), Warn),
                ("not readable", clean().without(Source::File(KUBEADM_FLAGS), Why::Denied), Unknown),
                (
                    "joined or not is not known",
                    clean().without(Source::File(kubeconfig::KUBELET), Why::Denied),
                    Unknown,
                ),
            ],
        );
        let verdict = CHECK.verdict(&clean().with_file(FILE, "").with_file(KUBEADM_FLAGS, ""), &CheckPolicy::default());
        assert_eq!(verdict.evidence.len(), 2);
        assert_eq!(
            verdict.remedy,
            ["systemctl stop kubelet && rm /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env"]
        );
        let verdict = CHECK.verdict(&clean().with_file(FILE, ""), &CheckPolicy::default());
        assert_eq!(verdict.remedy, ["systemctl stop kubelet && rm /var/lib/kubelet/config.yaml"]);
    }
}
