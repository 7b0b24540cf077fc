//! containerd can read its configuration.
//!
//! A containerd that runs does not notice a broken file until it is restarted; then it does not start, and no kubelet
//! does either.
//!
//! See it yourself: `containerd config dump > /dev/null`
//! Mend it: correct the line, then `systemctl restart containerd`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, pass, skip};
use crate::fact::containerd_config::{self, DUMP, FILE, SyntaxError};
use crate::fact::runtime_sockets::Runtime;
use crate::fact::{Capture, Facts, Known, OrAbsent, Why};
use crate::id;

pub const CHECK: Check = Check {
    id: "runtime.config-syntax",
    title: "containerd can read its configuration",
    subsystem: Subsystem::Runtime,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("what a broken line was meant to say, only its author knows"),
    accounts_for: |missing| missing.source_name == DUMP.name && matches!(missing.why, Why::Broken(_)),
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
    // What containerd itself makes of the file counts: its parsers differ between versions.
    let dump = facts.query(&DUMP).ok();
    let refused = dump.filter(|dump| dump.exit.is_some_and(|exit| exit != 0));
    Ok(match (containerd_config::parse(&file.text), dump, refused) {
        (Ok(_), _, None) => pass("the configuration is valid TOML"),
        (Err(_), Some(_), None) => pass("containerd reads its configuration"),
        (Ok(_), _, Some(dump)) => {
            let said =
                dump.errors.lines().find(|line| !line.trim().is_empty()).unwrap_or("it fails without a word").trim();
            mend(fail("containerd refuses its configuration")).seen(Evidence::of(DUMP.name, said))
        }
        (Err(error), _, _) => broken(file, &error),
    })
}

fn broken(file: &Capture, error: &SyntaxError) -> Verdict {
    let Some(line) = error.line else {
        return mend(fail("containerd's configuration is not TOML")).seen(Evidence::of(FILE, &error.message));
    };
    let text = file.lines().find(|(number, _)| *number == line).map_or("", |(_, text)| text.trim());
    mend(fail(format!("containerd's configuration is broken in line {line}: {}", error.message)))
        .seen(Evidence::at(FILE, line, text))
}

fn mend(verdict: Verdict) -> Verdict {
    verdict
        .fix(format!("${{EDITOR:-vi}} {FILE} && containerd config dump > /dev/null && systemctl restart containerd"))
        .explains([id!("kubelet.crash-loop")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::Source;
    use crate::fact::containerd_config::sample;
    use crate::testing::{facts, judge_row, table};

    const BROKEN: &str = "version = 2\n[plugins\n";

    #[test]
    fn judges() {
        let good = || facts().with_file(FILE, &sample::version_2(true));
        let bad = || facts().with_file(FILE, BROKEN);
        let refused = "containerd: failed to load TOML from /etc/containerd/config.toml: (2, 9): unclosed table key\n";
        table(
            &CHECK,
            [
                ("valid", good().with_query(&DUMP, &sample::version_2(true)), Pass),
                ("valid, no containerd to ask", good().without(Source::Query(&DUMP), Why::NoTool), Pass),
                ("no file", facts().without_file(FILE), Pass),
                ("containerd is more lenient than we are", bad().with_query(&DUMP, "version = 2\n"), Pass),
                ("broken", bad().with_exit(&DUMP, 1, "", refused), Fail),
                ("broken, no containerd to ask", bad(), Fail),
                (
                    "TOML, but not to containerd's liking",
                    good().with_exit(&DUMP, 1, "", "containerd: unknown version\n"),
                    Fail,
                ),
                ("not readable", facts().without(Source::File(FILE), Why::Denied), Unknown),
            ],
        );
        let crio = r#"{"endpoint":"unix:///run/crio/crio.sock","status":{"conditions":[]}}"#;
        judge_row(&CHECK, &CheckPolicy::default(), "CRI-O", &bad().with_cri("status", crio), Skip);
    }

    #[test]
    fn names_the_line() {
        let verdict = CHECK.verdict(&facts().with_file(FILE, BROKEN), &CheckPolicy::default());
        assert!(verdict.says.starts_with("containerd's configuration is broken in line 2: "), "{}", verdict.says);
        assert_eq!(verdict.evidence[0].to_string(), "/etc/containerd/config.toml:2  [plugins");
    }

    #[test]
    fn says_what_containerd_says() {
        let known = facts().with_file(FILE, "version = 9\n").with_exit(&DUMP, 1, "", "\ncontainerd: unknown version\n");
        let verdict = CHECK.verdict(&known, &CheckPolicy::default());
        assert_eq!(verdict.evidence[0].to_string(), "containerd config dump: containerd: unknown version");
    }
}
