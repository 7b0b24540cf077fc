//! The kubelet is told how to bootstrap and where its configuration is.
//!
//! `--bootstrap-kubeconfig` gives it the token with which it asks for its first certificate, `--config` the file that
//! kubeadm writes. Without the first the kubelet does not start on a machine that has not joined; without the second it
//! goes by its defaults: another cgroup driver, no cluster DNS.
//!
//! See it yourself: `systemctl cat kubelet`
//! Mend it: `apt-get install --reinstall kubelet kubeadm && systemctl daemon-reload`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn};
use crate::fact::{Facts, Known, OrAbsent};
use crate::id;

pub const CHECK: Check = Check {
    id: "kubelet.flags",
    title: "the kubelet knows how to bootstrap and where its configuration is",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("somebody wrote a command of their own for the kubelet"),
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
    let command = facts.kubelet_command()?;
    let missing: Vec<&str> =
        ["--bootstrap-kubeconfig", "--config"].into_iter().filter(|flag| !command.has_flag(flag)).collect();
    if missing.is_empty() {
        return Ok(pass("--bootstrap-kubeconfig and --config are set"));
    }
    if let Some(unread) = command.unread.first() {
        return Err(unread.clone());
    }
    if !command.has_flag("--kubeconfig") {
        return Ok(skip("the kubelet has no --kubeconfig either: see kubelet.standalone"));
    }
    let says = format!("the kubelet has no {}", missing.join(" and no "));
    // A kubelet that has its certificate renews it without the token.
    let only_bootstrap = missing == ["--bootstrap-kubeconfig"];
    let verdict = if only_bootstrap && facts.has_kubelet_conf()? { warn(says) } else { fail(says) };
    Ok(verdict
        .seen(unit.exec_start().map(|(file, directive)| directive.cite(file)))
        .fix(facts.reinstall_command("kubelet kubeadm"))
        .fix("systemctl daemon-reload")
        .explains([id!("kubelet.crash-loop")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::unit::{KUBELET, sample};
    use crate::fact::{Source, Why, kubeconfig};
    use crate::testing::{facts, judge_row, table};

    fn exec(line: &str) -> Facts {
        let drop_in = format!("[Service]\nExecStart=\nExecStart={line}\n");
        let text = sample::with_drop_in("/etc/systemd/system/kubelet.service.d/my.conf", &drop_in);
        facts().with_query(&KUBELET, &text).without_file(kubeconfig::KUBELET)
    }

    #[test]
    fn judges() {
        let no_bootstrap = || exec("/usr/bin/kubelet --kubeconfig=/k --config=/c");
        let packaged =
            || facts().with_query(&KUBELET, &sample::packaged()).without_file("/var/lib/kubelet/kubeadm-flags.env");
        let unread = sample::with_drop_in(
            "/etc/systemd/system/kubelet.service.d/my.conf",
            "[Service]\nEnvironmentFile=/etc/other\nExecStart=\nExecStart=/usr/bin/kubelet --kubeconfig=/k $X\n",
        );
        table(
            &CHECK,
            [
                ("as packaged", packaged().without_file("/etc/default/kubelet"), Pass),
                ("no configuration", exec("/usr/bin/kubelet --kubeconfig=/k --bootstrap-kubeconfig=/b"), Fail),
                ("no bootstrap, not joined", no_bootstrap(), Fail),
                ("no bootstrap, joined", no_bootstrap().with_file(kubeconfig::KUBELET, ""), Warn),
                ("neither, joined", exec("/usr/bin/kubelet --kubeconfig=/k").with_file(kubeconfig::KUBELET, ""), Fail),
                ("flags in a file nobody read", facts().with_query(&KUBELET, &unread), Unknown),
                (
                    "joined or not is not known",
                    no_bootstrap().without(Source::File(kubeconfig::KUBELET), Why::Denied),
                    Unknown,
                ),
                ("systemctl hangs", facts().without(Source::Query(&KUBELET), Why::TimedOut), Unknown),
            ],
        );
        let absent = facts().with_exit(&KUBELET, 1, "", "No files found for kubelet.service.\n");
        judge_row(&CHECK, &CheckPolicy::default(), "no unit", &absent, Skip);
        judge_row(&CHECK, &CheckPolicy::default(), "standalone", &exec("/usr/bin/kubelet"), Skip);
        judge_row(
            &CHECK,
            &CheckPolicy::default(),
            "masked",
            &facts().with_query(&KUBELET, "# Unit kubelet.service is masked.\n"),
            Skip,
        );
    }

    #[test]
    fn names_the_flags() {
        let says = |line: &str| CHECK.verdict(&exec(line), &CheckPolicy::default()).says;
        assert_eq!(
            says("/usr/bin/kubelet --kubeconfig=/k"),
            "the kubelet has no --bootstrap-kubeconfig and no --config"
        );
        assert_eq!(says("/usr/bin/kubelet --kubeconfig=/k --bootstrap-kubeconfig=/b"), "the kubelet has no --config");
    }
}
