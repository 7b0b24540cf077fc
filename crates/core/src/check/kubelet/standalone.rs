//! The kubelet is told where its kubeconfig is.
//!
//! Without `--kubeconfig` a kubelet runs *standalone*: healthy, answering healthz, and never in touch with a cluster,
//! while kubeadm waits five minutes for a certificate that cannot come. The flag lives in the drop-in 10-kubeadm.conf
//! that the kubeadm package ships; a deleted drop-in does not come back with `apt-get install`, only with
//! `--reinstall`.
//!
//! See it yourself: `systemctl cat kubelet`, `ps -ww -C kubelet -o args=`
//! Mend it: `apt-get install --reinstall kubelet kubeadm && systemctl daemon-reload && systemctl restart kubelet`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip,
};
use crate::fact::process::Process;
use crate::fact::unit::KUBELET;
use crate::fact::{Facts, Known, Missing, OrAbsent, Why};
use crate::id;

pub const CHECK: Check = Check {
    id: "kubelet.standalone",
    title: "the kubelet knows its cluster",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["kubelet_drop_in", "kubelet_early"]),
    accounts_for: nothing,
    judge,
};

const FLAG: &str = "--kubeconfig";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let unit = match facts.unit("kubelet").or_absent() {
        Err(missing) if missing.why == Why::NotCollected => return judge_running(facts, missing),
        unit => unit?,
    };
    let Some(unit) = unit else {
        return Ok(skip("there is no kubelet.service: see kubelet.unit"));
    };
    if unit.masked {
        return Ok(skip("kubelet.service is masked: see kubelet.masked"));
    }
    let command = facts.kubelet_command()?;
    let running = facts.kubelet_process().ok().flatten();
    let alone = running.as_ref().filter(|process| !process.has_flag(FLAG));
    if let Some((value, word)) = command.flag(FLAG).filter(|_| command.has_flag(FLAG)) {
        return Ok(match alone {
            Some(process) => fail("the kubelet that runs has no --kubeconfig: it runs alone")
                .seen(process.cite())
                .fix("systemctl daemon-reload && systemctl restart kubelet")
                .explains([id!("kubeadm.tls-timeout"), id!("node.never-registered")]),
            None => pass(format!("{FLAG}={value}")).seen(word.seen.clone()),
        });
    }
    if let Some(missing) = command.unread.first() {
        return Err(missing.clone());
    }
    if command.program() != "kubelet" {
        // A script in its place may add the flag: only a kubelet that runs can tell.
        return Ok(match (&running, alone) {
            (Some(process), None) => pass("the kubelet that runs has --kubeconfig").seen(process.cite()),
            (Some(_), Some(process)) => stand_alone(facts).seen(process.cite()),
            (None, _) => {
                return Err(Missing::broken(
                    KUBELET.name,
                    format!("it starts {}, not the kubelet itself", command.program()),
                ));
            }
        });
    }
    let drop_ins = match unit.drop_ins().count() {
        0 => Some(Evidence::of(KUBELET.name, "there is no drop-in")),
        _ => None,
    };
    let exec = unit.exec_start().map(|(file, directive)| directive.cite(file));
    Ok(stand_alone(facts).seen(exec).seen(drop_ins).seen(alone.map(Process::cite)))
}

/// Where nobody kept what the unit is made of: by what runs.
fn judge_running(facts: &Facts, missing: Missing) -> Known<Verdict> {
    let Ok(Some(process)) = facts.kubelet_process() else { return Err(missing) };
    if process.has_flag(FLAG) {
        return Ok(pass("the kubelet that runs has --kubeconfig").seen(process.cite()));
    }
    let without_drop_in = facts.unit_status("kubelet").ok().filter(|status| status.state.drop_in_paths.is_empty());
    let loaded = without_drop_in.map(|status| {
        let Evidence { source, line, text } = status.loaded;
        Evidence { source, line, text: format!("{text}: no Drop-In") }
    });
    Ok(fail("the kubelet that runs has no --kubeconfig: it runs alone")
        .seen(process.cite())
        .seen(loaded)
        .fix(facts.reinstall_command("kubelet kubeadm"))
        .fix("systemctl daemon-reload && systemctl restart kubelet")
        .explains([id!("kubeadm.tls-timeout"), id!("node.never-registered")]))
}

fn stand_alone(facts: &Facts) -> Verdict {
    fail("the kubelet has no --kubeconfig: it would run alone")
        .fix(facts.reinstall_command("kubelet kubeadm"))
        .fix("systemctl daemon-reload && systemctl restart kubelet")
        .explains([id!("kubeadm.tls-timeout"), id!("node.never-registered")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::process::KUBELET as PS;
    use crate::fact::unit::{DEFAULTS, KUBEADM_FLAGS, sample};
    use crate::fact::{Capture, Source, unit_status};
    use crate::testing::{facts, judge_row, table};

    const OVERRIDE: &str = "/etc/systemd/system/kubelet.service.d/20-join-config.conf";

    fn unit(text: &str) -> Facts {
        facts().with_query(&KUBELET, text).without_file(KUBEADM_FLAGS).without_file(DEFAULTS)
    }

    #[test]
    fn judges() {
        let no_section = sample::with_drop_in(
            OVERRIDE,
            "Environment=\"KUBELET_KUBECONFIG_ARGS=--kubeconfig=/etc/kubernetes/kubelet.conf\"\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS\n",
        );
        let emptied = sample::and_drop_in(OVERRIDE, "[Service]\nEnvironment=\"KUBELET_KUBECONFIG_ARGS=\"\n");
        let wrapped = sample::and_drop_in(OVERRIDE, "[Service]\nExecStart=\nExecStart=/usr/local/bin/start-kubelet\n");
        let file = sample::with_drop_in(
            OVERRIDE,
            "[Service]\nEnvironmentFile=/etc/kubernetes/kubelet.env\nExecStart=\nExecStart=/usr/bin/kubelet $ARGS\n",
        );
        let alone = "369269 /usr/bin/kubelet\n";
        let working = "812 /usr/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\n";
        table(
            &CHECK,
            [
                ("as packaged", unit(&sample::packaged()), Pass),
                ("as packaged, running", unit(&sample::packaged()).with_query(&PS, working), Pass),
                ("drop-in deleted", unit(&sample::bare()), Fail),
                ("directives outside a section", unit(&no_section), Fail),
                ("emptied by a later drop-in", unit(&emptied), Fail),
                ("what runs is older than the unit", unit(&sample::packaged()).with_query(&PS, alone), Fail),
                ("a script, running well", unit(&wrapped).with_query(&PS, working), Pass),
                ("a script, running alone", unit(&wrapped).with_query(&PS, alone), Fail),
                ("a script, nothing runs", unit(&wrapped).with_exit(&PS, 1, "", ""), Unknown),
                ("flags in a file nobody read", unit(&file), Unknown),
                ("systemctl hangs", facts().without(Source::Query(&KUBELET), Why::TimedOut), Unknown),
            ],
        );
        let absent = facts().with_exit(&KUBELET, 1, "", "No files found for kubelet.service.\n");
        judge_row(&CHECK, &CheckPolicy::default(), "no unit", &absent, Skip);
        judge_row(&CHECK, &CheckPolicy::default(), "masked", &unit("# Unit kubelet.service is masked.\n"), Skip);
    }

    #[test]
    fn where_only_a_status_was_kept_what_runs_decides() {
        let status = |words: &str| {
            let mut known = facts();
            let text = format!(
                "● kubelet.service - kubelet\n     Loaded: loaded (/lib/systemd/system/kubelet.service; enabled)\n     \
                 Active: active (running)\n   Main PID: 369269 (kubelet)\n     CGroup: /system.slice/kubelet.service\n             \
                 └─369269 /usr/bin/kubelet{words}\n"
            );
            known.insert(unit_status::key("kubelet"), Ok(Capture::text(text)));
            known
        };
        let verdict = CHECK.verdict(&status(""), &CheckPolicy::default());
        assert_eq!(verdict.outcome, Fail);
        let seen: Vec<String> = verdict.evidence.iter().map(ToString::to_string).collect();
        assert_eq!(
            seen,
            [
                "systemctl status kubelet:6  └─369269 /usr/bin/kubelet",
                "systemctl status kubelet:2  Loaded: loaded (/lib/systemd/system/kubelet.service; enabled): no Drop-In",
            ]
        );
        let working = status(" --kubeconfig=/etc/kubernetes/kubelet.conf");
        judge_row(&CHECK, &CheckPolicy::default(), "it runs well", &working, Pass);
        judge_row(&CHECK, &CheckPolicy::default(), "cut off", &status(" --bootstrap-kubeconfig=/etc…"), Unknown);
        judge_row(&CHECK, &CheckPolicy::default(), "nothing kept", &facts(), Unknown);
    }

    #[test]
    fn cites_the_command_and_the_missing_drop_in() {
        let verdict =
            CHECK.verdict(&unit(&sample::bare()).with_query(&PS, "369269 /usr/bin/kubelet\n"), &CheckPolicy::default());
        let seen: Vec<String> = verdict.evidence.iter().map(ToString::to_string).collect();
        assert_eq!(
            seen,
            [
                "/usr/lib/systemd/system/kubelet.service:8  ExecStart=/usr/bin/kubelet",
                "systemctl cat kubelet: there is no drop-in",
                "ps -C kubelet: 369269 /usr/bin/kubelet",
            ]
        );
        let emptied = sample::and_drop_in(OVERRIDE, "[Service]\nEnvironment=\"KUBELET_KUBECONFIG_ARGS=\"\n");
        let seen = CHECK.verdict(&unit(&emptied), &CheckPolicy::default()).evidence;
        assert_eq!(seen.len(), 1, "there is a drop-in");
    }
}
