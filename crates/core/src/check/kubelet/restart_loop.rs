//! The kubelet does not start again and again.
//!
//! Before a join that is how it should be: the kubelet looks for /var/lib/kubelet/config.yaml every ten seconds, which
//! kubeadm writes during the join. Where the file is there and the kubelet still ends, something else is wrong, and a
//! join would end in kubeadm's four minutes of waiting.
//!
//! See it yourself: `systemctl status kubelet`, `journalctl -u kubelet -n 30`
//! Mend it: the last error of the journal says what is wrong

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::unit::UnitState;
use crate::fact::{Facts, Known, OrAbsent, kubelet_config};
use crate::id;

pub const CHECK: Check = Check {
    id: "kubelet.restart-loop",
    title: "the kubelet does not crash",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Symptom,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::GoesOn(
        "kubeadm configures the kubelet and starts it anew; one that still ends then stops the join",
    ),
    fixed_by: FixedBy::Carrick(&["kubelet_stopped"]),
    accounts_for: nothing,
    judge,
};

/// A kubelet that waits for its configuration or a slow runtime ends once or twice; systemd counts from the last start
/// by hand.
const MANY_RESTARTS: u64 = 5;
/// systemd's own status for a program that cannot be executed.
const NOT_EXECUTABLE: i32 = 203;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let state = facts.unit_state("kubelet")?;
    if !state.is_there() || state.is_masked() {
        return Ok(skip("there is no kubelet.service to start"));
    }
    let restarts = state.restarts.unwrap_or(0);
    if state.is_active() && restarts < MANY_RESTARTS {
        return Ok(pass("the kubelet runs").seen(state.cite()));
    }
    let looping = state.active_state == "activating" || state.active_state == "failed";
    if looping && state.exec_main_status == Some(NOT_EXECUTABLE) {
        return Ok(
            crashing(facts, &state, "systemd cannot execute the kubelet").fix(facts.reinstall_command("kubelet"))
        );
    }
    let configured = facts.file(kubelet_config::FILE).or_absent()?.is_some();
    // One that looks for its configuration is seen to run for as long as it takes to find nothing.
    let looks = !configured && reads_configuration(facts);
    if state.is_active() && !looks {
        return Ok(warn(format!("the kubelet runs, after {restarts} restarts"))
            .seen(state.cite())
            .seen(last_error(facts))
            .fix("journalctl -u kubelet -p warning -n 50 --no-pager"));
    }
    if looping && configured {
        // A status does not say how often.
        let often = state.restarts.map_or_else(String::new, |restarts| format!(": {restarts} restarts"));
        return Ok(crashing(facts, &state, &format!("the kubelet ends again and again{often}")));
    }
    if looping || state.is_active() {
        return Ok(pass("the kubelet waits for its configuration: normal before a join"));
    }
    if facts.has_kubelet_conf()? {
        return Ok(warn("this machine has joined, but the kubelet is stopped")
            .seen(state.cite())
            .fix("systemctl start kubelet"));
    }
    Ok(pass("the kubelet is stopped: normal before a join"))
}

/// Whether it would be started with kubeadm's configuration, and so ends where there is none.
fn reads_configuration(facts: &Facts) -> bool {
    facts
        .kubelet_command()
        .is_ok_and(|command| command.flag("--config").is_some_and(|(file, _)| file == kubelet_config::FILE))
}

fn crashing(facts: &Facts, state: &UnitState, says: &str) -> Verdict {
    fail(says)
        .seen(state.cite())
        .seen(last_error(facts))
        .fix("journalctl -u kubelet -n 30 --no-pager    # the last error says why")
        .explains([id!("kubelet.crash-loop")])
}

/// What the kubelet said before it ended.
fn last_error(facts: &Facts) -> Option<Evidence> {
    let entries = facts.journal("kubelet").ok()?;
    let telling =
        |text: &&str| text.contains("command failed") || text.contains("failed to") || text.starts_with("Error:");
    let text = entries.iter().rev().filter_map(|entry| entry.message.as_deref()).find(telling)?;
    Some(Evidence::of("journalctl -u kubelet", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::unit::{KUBELET, SHOW};
    use crate::fact::{Source, Why, journal, kubeconfig};
    use crate::testing::{facts, judge_row, table};

    fn state(active: &str, restarts: u64, more: &str) -> Facts {
        let text = format!(
            "Id=kubelet.service\nLoadState=loaded\nActiveState={active}\nSubState=x\nNRestarts={restarts}\n{more}"
        );
        facts().with_query(&SHOW, &text)
    }

    fn fresh(facts: Facts) -> Facts {
        facts.without_file(kubelet_config::FILE).without_file(kubeconfig::KUBELET)
    }

    fn joined(facts: Facts) -> Facts {
        facts.with_file(kubelet_config::FILE, "").with_file(kubeconfig::KUBELET, "")
    }

    fn looks(facts: Facts) -> Facts {
        let command = format!("ExecStart=/usr/bin/kubelet --config={}", kubelet_config::FILE);
        facts.with_query(&KUBELET, &format!("# /usr/lib/systemd/system/kubelet.service\n[Service]\n{command}\n"))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("runs", joined(state("active", 0, "")), Pass),
                ("runs, after a few", joined(state("active", 4, "")), Pass),
                ("runs for a moment", joined(state("active", 5, "")), Warn),
                ("waits for a join", fresh(state("activating", 900, "ExecMainStatus=1\n")), Pass),
                ("waits for a join, caught while it looks", looks(fresh(state("active", 900, ""))), Pass),
                ("runs without a configuration", fresh(state("active", 900, "")), Warn),
                ("stopped before a join", fresh(state("inactive", 0, "")), Pass),
                ("crashes, configured", joined(state("activating", 3, "ExecMainStatus=1\n")), Fail),
                ("gave up, configured", joined(state("failed", 3, "")), Fail),
                ("no program", fresh(state("activating", 3, "ExecMainStatus=203\n")), Fail),
                ("stopped long ago by 203", fresh(state("inactive", 3, "ExecMainStatus=203\n")), Pass),
                ("stopped, joined", joined(state("inactive", 0, "")), Warn),
                (
                    "configured or not is not known",
                    state("activating", 3, "").without(Source::File(kubelet_config::FILE), Why::Denied),
                    Unknown,
                ),
                ("systemctl hangs", facts().without(Source::Query(&SHOW), Why::TimedOut), Unknown),
            ],
        );
        let none = facts().with_query(&SHOW, "Id=kubelet.service\nLoadState=not-found\nActiveState=inactive\n");
        judge_row(&CHECK, &CheckPolicy::default(), "no unit", &none, Skip);
        let masked = facts().with_query(&SHOW, "Id=kubelet.service\nLoadState=masked\nActiveState=inactive\n");
        judge_row(&CHECK, &CheckPolicy::default(), "masked", &masked, Skip);
    }

    #[test]
    fn tells_the_last_error() {
        let line = |at: u8, text: &str| {
            serde_json::json!({"__REALTIME_TIMESTAMP": at.to_string(), "MESSAGE": text}).to_string()
        };
        let error =
            r#"E1115 run.go:74] "command failed" err="failed to run Kubelet: running with swap on is not supported""#;
        let log = [line(1, "Error: older"), line(2, error), line(3, "Main process exited, code=exited")].join("\n");
        let known = joined(state("activating", 12, "")).with_query(&journal::KUBELET, &log);
        let verdict = CHECK.verdict(&known, &CheckPolicy::default());
        assert_eq!(verdict.says, "the kubelet ends again and again: 12 restarts");
        assert_eq!(verdict.evidence[1].text, error);
        for telling in ["Error: unknown flag", "\"command failed\" err=x", "failed to load kubelet config file"] {
            let log = [line(1, telling), line(2, "bye")].join("\n");
            let known = joined(state("activating", 12, "")).with_query(&journal::KUBELET, &log);
            assert_eq!(CHECK.verdict(&known, &CheckPolicy::default()).evidence[1].text, telling);
        }
    }
}
