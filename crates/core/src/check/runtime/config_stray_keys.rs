//! Every key of containerd's configuration stands where containerd reads it.
//!
//! containerd passes over a key it does not know without a word. Tools that edit by lines put `SystemdCgroup = true` at
//! the end of a file whose tables are all commented out: it looks set, and is not. Then the kubelet uses one cgroup
//! driver and the runtime another, and every pod is killed about once a minute, with clean logs.
//!
//! See it yourself: `containerd config dump | grep SystemdCgroup`
//! Mend it: `containerd config default > /etc/containerd/config.toml`, set `SystemdCgroup = true` there,
//! then `systemctl restart containerd`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::containerd_config::{FILE, Stray, stray_keys};
use crate::fact::runtime_sockets::Runtime;
use crate::fact::{Facts, Known, OrAbsent};
use crate::id;

pub const CHECK: Check = Check {
    id: "runtime.config-stray-keys",
    title: "containerd reads every key of its configuration",
    subsystem: Subsystem::Runtime,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["stray_keys"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let runtime = facts.runtime();
    if runtime != Runtime::Containerd {
        return Ok(skip(format!("{} is the runtime", runtime.name())));
    }
    let Some(file) = facts.file(FILE).or_absent()? else {
        return Ok(pass("there is no file: containerd goes by its defaults"));
    };
    let strays = stray_keys(&file.text);
    let Some(worst) = strays.iter().find(|stray| stray.cgroup_driver).or(strays.first()) else {
        return Ok(pass("every key stands in its table"));
    };
    let cite = |stray: &Stray| Evidence::at(FILE, stray.line, &stray.text);
    let verdict = if worst.cgroup_driver && !uses_systemd(facts) {
        fail(format!("\"{}\" stands {}: it does nothing", worst.text, worst.place))
            .fix(format!("cp -a {FILE} {FILE}.before"))
            .fix(format!("containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/' > {FILE}"))
            .fix("systemctl restart containerd")
            .explains([id!("runtime.cgroup-mismatch")])
    } else {
        warn(format!("\"{}\" stands {}: containerd does not read it", worst.text, worst.place))
            .fix(format!("sed -i '{}d' {FILE}    # or move it into its table", worst.line))
    };
    Ok(verdict.seen(strays.iter().map(cite)))
}

/// What the stray key was meant to do is done elsewhere.
fn uses_systemd(facts: &Facts) -> bool {
    facts.containerd_config().is_ok_and(|effective| effective.config.systemd_cgroup == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::containerd_config::{DUMP, sample};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    #[test]
    fn judges() {
        let stub = || facts().with_file(FILE, sample::STUB_WITH_STRAY);
        table(
            &CHECK,
            [
                ("in order", facts().with_file(FILE, &sample::version_2(true)), Pass),
                ("no file", facts().without_file(FILE), Pass),
                ("appended at the end", stub().with_query(&DUMP, &sample::version_2(false)), Fail),
                ("appended, no containerd to ask", stub(), Fail),
                ("appended, but set by an import", stub().with_query(&DUMP, &sample::version_2(true)), Warn),
                ("another key", facts().with_file(FILE, "sandbox_image = \"x\"\n"), Warn),
                ("not readable", facts().without(Source::File(FILE), Why::Denied), Unknown),
            ],
        );
        let crio = r#"{"endpoint":"unix:///run/crio/crio.sock","status":{"conditions":[]}}"#;
        judge_row(&CHECK, &CheckPolicy::default(), "CRI-O", &stub().with_cri("status", crio), Skip);
    }

    #[test]
    fn the_key_that_matters_most_is_named_and_all_are_shown() {
        let known = facts().with_file(FILE, "sandbox_image = \"x\"\n[metrics]\n  SystemdCgroup = true\n");
        let verdict = CHECK.verdict(&known, &CheckPolicy::default());
        assert_eq!(verdict.says, "\"SystemdCgroup = true\" stands in [metrics]: it does nothing");
        let lines: Vec<Option<u32>> = verdict.evidence.iter().map(|it| it.line).collect();
        assert_eq!(lines, [Some(1), Some(3)]);
    }
}
