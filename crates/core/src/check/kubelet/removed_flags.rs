//! The kubelet is given no flag that it no longer knows.
//!
//! A flag that was removed (`--network-plugin` in 1.24, `--container-runtime` in 1.27, `--pod-infra-container-image` in
//! 1.35) keeps the kubelet from starting: "failed to parse kubelet flag: unknown flag". Such flags survive in
//! /etc/default/kubelet, /etc/sysconfig/kubelet, old drop-ins, and in kubeadm-flags.env of an earlier join.
//!
//! See it yourself: `grep -e -- /etc/default/kubelet /etc/sysconfig/kubelet /var/lib/kubelet/kubeadm-flags.env`
//! Mend it: take the flag out, then `systemctl daemon-reload`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn};
use crate::fact::unit::KUBEADM_FLAGS;
use crate::fact::{Facts, Known, OrAbsent, flags};
use crate::id;

pub const CHECK: Check = Check {
    id: "kubelet.removed-flags",
    title: "the kubelet knows all its flags",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("what takes the flag's place is a choice"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some(unit) = facts.unit("kubelet").or_absent()? else {
        return Ok(skip("there is no kubelet.service: see kubelet.unit"));
    };
    if unit.masked {
        return Ok(skip("kubelet.service is masked: see kubelet.masked"));
    }
    let version = facts.kubelet_version()?;
    let command = facts.kubelet_command()?;
    let removed = flags::removed(&command, version);
    // A join writes kubeadm-flags.env anew: what stands there does no harm before.
    let lasting = removed.iter().find(|flag| flag.word.seen.source != KUBEADM_FLAGS);
    let Some(first) = lasting.or(removed.first()) else {
        return match command.unread.first() {
            Some(missing) => Err(missing.clone()),
            None => Ok(pass(format!("kubelet {version} knows all its flags"))),
        };
    };
    let says = format!("kubelet {version} does not know {} (removed in 1.{})", first.name, first.since);
    let harmless = lasting.is_none() && !facts.has_kubelet_conf()?;
    let verdict = if harmless { warn(says) } else { fail(says).explains([id!("kubelet.crash-loop")]) };
    let files = removed.iter().map(|flag| {
        let file = &flag.word.seen.source;
        format!("sed -i 's/{}\\(=[^ \"]*\\)\\{{0,1\\}}//' {file}", flag.name)
    });
    Ok(files
        .fold(verdict, Verdict::fix)
        .fix("systemctl daemon-reload")
        .seen(removed.iter().map(|flag| flag.word.seen.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::unit::{DEFAULTS, KUBELET, sample};
    use crate::fact::{Source, Why, kubeconfig, version};
    use crate::testing::{facts, judge_row, table};

    fn machine(extra: &str) -> Facts {
        facts()
            .with_query(&KUBELET, &sample::packaged())
            .with_query(&version::KUBELET, "Kubernetes v1.34.4\n")
            .without_file(KUBEADM_FLAGS)
            .with_file(DEFAULTS, &format!("KUBELET_EXTRA_ARGS={extra}\n"))
            .without_file(kubeconfig::KUBELET)
    }

    #[test]
    fn judges() {
        let left = |flag: &str| machine("").with_file(KUBEADM_FLAGS, &format!("KUBELET_KUBEADM_ARGS=\"{flag}\"\n"));
        let pause = "--pod-infra-container-image=registry.k8s.io/pause:3.9";
        table(
            &CHECK,
            [
                ("nothing of the kind", machine("--node-ip=10.0.0.21"), Pass),
                ("not removed yet", left(pause), Pass),
                ("removed", machine("--network-plugin=cni"), Fail),
                ("left by a join, written anew", left("--container-runtime=remote"), Warn),
                ("left by a join, joined", left("--container-runtime=remote").with_file(kubeconfig::KUBELET, ""), Fail),
                (
                    "1.35",
                    left(pause)
                        .with_query(&version::KUBELET, "Kubernetes v1.35.0\n")
                        .with_file(kubeconfig::KUBELET, ""),
                    Fail,
                ),
                ("one file is not readable", machine("").without(Source::File(KUBEADM_FLAGS), Why::Denied), Unknown),
                (
                    "joined or not is not known",
                    left("--container-runtime=remote").without(Source::File(kubeconfig::KUBELET), Why::Denied),
                    Unknown,
                ),
                ("no version", machine("").without(Source::Query(&version::KUBELET), Why::NoTool), Unknown),
            ],
        );
        let absent = facts().with_exit(&KUBELET, 1, "", "No files found for kubelet.service.\n");
        judge_row(&CHECK, &CheckPolicy::default(), "no unit", &absent, Skip);
        judge_row(
            &CHECK,
            &CheckPolicy::default(),
            "masked",
            &facts().with_query(&KUBELET, "# Unit kubelet.service is masked.\n"),
            Skip,
        );
    }

    #[test]
    fn names_flag_file_and_line_and_the_worst_first() {
        let known = machine("--network-plugin=cni")
            .with_file(KUBEADM_FLAGS, "KUBELET_KUBEADM_ARGS=\"--container-runtime=remote\"\n");
        let verdict = CHECK.verdict(&known, &CheckPolicy::default());
        assert_eq!(verdict.outcome, Fail);
        assert_eq!(verdict.says, "kubelet 1.34.4 does not know --network-plugin (removed in 1.24)");
        assert!(
            verdict
                .evidence
                .iter()
                .any(|seen| seen.to_string() == "/etc/default/kubelet:1  KUBELET_EXTRA_ARGS=--network-plugin=cni")
        );
        assert!(
            verdict
                .remedy
                .iter()
                .any(|line| line == "sed -i 's/--network-plugin\\(=[^ \"]*\\)\\{0,1\\}//' /etc/default/kubelet")
        );
    }
}
