//! containerd answers the kubelet's calls: its CRI plugin is on.
//!
//! The configuration that Docker's containerd.io package brings switches the plugin off (`disabled_plugins = ["cri"]`):
//! containerd runs, and knows nothing of pods. kubeadm only warns, then waits four minutes for a kubelet that cannot
//! start.
//!
//! See it yourself: `crictl info`, `grep disabled_plugins /etc/containerd/config.toml`
//! Mend it: `containerd config default > /etc/containerd/config.toml`, set `SystemdCgroup = true` there,
//! then `systemctl restart containerd`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::runtime_sockets::Runtime;
use crate::fact::{Facts, Known, Why};
use crate::id;

pub const CHECK: Check = Check {
    id: "runtime.cri-plugin",
    title: "containerd's CRI plugin is on",
    subsystem: Subsystem::Runtime,
    kubeadm: &["CRI"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["cri_plugin"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let runtime = facts.runtime();
    if runtime != Runtime::Containerd {
        return Ok(skip(format!("{} is the runtime", runtime.name())));
    }
    let effective = facts.containerd_config().ok();
    let disabled = effective.as_ref().and_then(|it| it.config.cri_disabled().map(|name| (it.source, name)));
    let line = disabled.map(|(source, name)| {
        let dumped = || Evidence::of(source, format!("disabled_plugins has {name:?}"));
        facts.containerd_line("disabled_plugins").unwrap_or_else(dumped)
    });
    Ok(match (facts.cri("status"), line) {
        (Ok(_), None) => pass("containerd answers CRI calls"),
        (Ok(_), Some(line)) => mend(warn("containerd answers, but its configuration switches CRI off")).seen(line),
        (Err(missing), line) => match &missing.why {
            Why::Unimplemented(detail) => mend(fail("containerd does not know CRI: the plugin is off or did not load"))
                .seen(line)
                .seen(Evidence::of("CRI Status", detail))
                .explains([id!("kubelet.crash-loop")]),
            _ if line.is_some() => mend(fail("containerd's configuration switches CRI off"))
                .seen(line)
                .explains([id!("kubelet.crash-loop")]),
            _ => return Err(missing),
        },
    })
}

fn mend(verdict: Verdict) -> Verdict {
    verdict
        .fix("cp -a /etc/containerd/config.toml /etc/containerd/config.toml.before")
        .fix("containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/' > /etc/containerd/config.toml")
        .fix("systemctl restart containerd")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::Source;
    use crate::fact::containerd_config::{DUMP, FILE, sample};
    use crate::testing::{facts, judge_row, table};

    const STATUS: &str = r#"{"endpoint":"unix:///run/containerd/containerd.sock","status":{"conditions":[]}}"#;
    const OFF: &str = "disabled_plugins = [\"cri\"]\n";

    fn refused(facts: Facts) -> Facts {
        facts.without(Source::Cri("status"), Why::Broken("connection refused".to_owned()))
    }

    fn unknown(facts: Facts) -> Facts {
        facts.without(Source::Cri("status"), Why::Unimplemented("unknown service runtime.v1.RuntimeService".to_owned()))
    }

    #[test]
    fn judges() {
        let on = || facts().with_query(&DUMP, &sample::version_2(true));
        let off = || facts().with_file(FILE, OFF).with_query(&DUMP, OFF);
        table(
            &CHECK,
            [
                ("answers", on().with_cri("status", STATUS), Pass),
                ("switched off, not yet restarted", off().with_cri("status", STATUS), Warn),
                ("switched off", unknown(off()), Fail),
                ("did not load", unknown(on()), Fail),
                ("switched off and down", refused(off()), Fail),
                ("down", refused(on()), Unknown),
                ("not root", on().without(Source::Cri("status"), Why::Denied), Unknown),
            ],
        );
        let crio = r#"{"endpoint":"unix:///run/crio/crio.sock","status":{"conditions":[]}}"#;
        judge_row(&CHECK, &CheckPolicy::default(), "CRI-O", &off().with_cri("status", crio), Skip);
    }

    #[test]
    fn cites_the_line_that_switches_it_off() {
        let known = unknown(facts().with_file(FILE, &format!("# c\n{OFF}")));
        let seen: Vec<String> =
            CHECK.verdict(&known, &CheckPolicy::default()).evidence.iter().map(ToString::to_string).collect();
        assert_eq!(seen[0], "/etc/containerd/config.toml:2  disabled_plugins = [\"cri\"]");
        assert_eq!(seen[1], "CRI Status: unknown service runtime.v1.RuntimeService");
    }
}
