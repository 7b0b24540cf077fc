//! Configuration files of a pod network, judged as the checks judge the one that is loaded: a file, a directory, a
//! machine's own.
//!
//! Shared: `carrick cni lint`, for every flavour.

use crate::check::cni::{config, directory, first_file_wins, ipam, plugins, version};
use crate::check::{Check, CheckPolicy, Finding, Outcome, Verdict};
use crate::fact::cni::{Candidate, is_conf_name};
use crate::fact::version::Version;
use crate::fact::{Facts, Known, Missing, Why};
use crate::judge::{self, Ignore};
use crate::report::{self, Report};

pub const VERB: &str = "cni lint";

/// One file, wherever it is.
pub fn file(path: &str, text: &str) -> Report {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    // Where its ending says nothing, its content does.
    let read_as = match (is_conf_name(name), text.contains("\"plugins\"")) {
        (true, _) => name.to_owned(),
        (false, true) => format!("{name}.conflist"),
        (false, false) => format!("{name}.conf"),
    };
    let read = Candidate::read(dir, &read_as, text);
    let read = Candidate { name: name.to_owned(), path: path.to_owned(), ..read };
    let mut findings = to_be_edited(&read, of_file(&read, || Ok(None)));
    if !is_conf_name(name) {
        let says = format!("{name} would not be looked at: only .conf, .conflist and .json are");
        let seen = crate::check::Evidence::of(path, "its ending");
        let fix = format!("mv {path} {path}.conflist    # a list of plugins; .conf for a single one");
        findings.push(Finding { check: &config::CHECK, verdict: crate::check::warn(says).seen(seen).fix(fix) });
    }
    report(path, findings)
}

/// The files of one directory, by name, as a runtime would find them there.
pub fn dir(path: &str, files: &[Candidate]) -> Report {
    let mut findings = of_files(files, 1, |file| to_be_edited(file, of_file(file, || Ok(None))));
    if files.first().is_some_and(|first| matches!(first.conf, Ok(Ok(_)))) {
        let wins = first_file_wins::of_files(files, 1, None, || Ok(true));
        findings.push(Finding { check: &first_file_wins::CHECK, verdict: Verdict::of(wins) });
    }
    report(path, findings)
}

/// A machine's own: its directory, every file in it, and the programs that the one which is loaded needs.
pub fn machine(facts: &Facts) -> Report {
    let containerd = || match facts.containerd_version() {
        Err(Missing { why: Why::NoTool, .. }) => Ok(None),
        containerd => containerd.map(Some),
    };
    let policy = CheckPolicy { cni_expected: facts.has_kubelet_conf().unwrap_or_default() };
    let by_check = |check: &'static Check| Finding::of(check, facts, &policy);
    let mut findings = vec![by_check(&directory::CHECK)];
    match facts.cni_candidates() {
        Ok(files) if !files.is_empty() => {
            findings.extend(of_files(&files, facts.cni_loads(), |file| of_file(file, containerd)));
            let is_broken = files.first().is_some_and(|first| matches!(first.conf, Ok(Err(_))));
            findings.extend((!is_broken).then(|| by_check(&first_file_wins::CHECK)));
            findings.extend((!is_broken).then(|| by_check(&plugins::CHECK)));
        }
        // None, or it could not be looked: the check says which.
        _ => findings.extend([by_check(&config::CHECK), by_check(&plugins::CHECK)]),
    }
    Report { machine: judge::machine(facts), ..report(&facts.host, findings) }
}

/// Every file; what is wrong with one that is not loaded harms nobody yet.
fn of_files(files: &[Candidate], loads: usize, judge: impl Fn(&Candidate) -> Vec<Finding>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let mut found = judge(file);
        for Finding { verdict, .. } in &mut found {
            let wrong = verdict.outcome == Outcome::Fail;
            if wrong && at >= loads {
                *verdict = Verdict {
                    outcome: Outcome::Warn,
                    says: format!("{} (not loaded)", verdict.says),
                    ..verdict.clone()
                };
            } else if wrong && files.len() > 1 {
                verdict.says.push_str(", and as the first file it counts");
            }
        }
        findings.append(&mut found);
    }
    findings
}

/// A file that is no machine's yet is not moved out of the way: it is fixed.
fn to_be_edited(file: &Candidate, mut findings: Vec<Finding>) -> Vec<Finding> {
    let path = &file.path;
    for Finding { verdict, .. } in findings.iter_mut().filter(|finding| !finding.verdict.remedy.is_empty()) {
        verdict.remedy = vec![format!("$EDITOR {path}    # then: carrick cni lint {path}")];
    }
    findings
}

fn of_file(file: &Candidate, containerd: impl Fn() -> Known<Option<Version>>) -> Vec<Finding> {
    let mut findings = vec![Finding { check: &config::CHECK, verdict: Verdict::of(config::of_file(file)) }];
    if let Ok(Ok(conf)) = &file.conf {
        findings
            .push(Finding { check: &version::CHECK, verdict: Verdict::of(version::of_file(file, conf, containerd)) });
        findings.push(Finding { check: &ipam::CHECK, verdict: ipam::of_file(file, conf) });
    }
    findings
}

fn report(host: &str, findings: Vec<Finding>) -> Report {
    let judged = findings.into_iter().map(|finding| judge::judged(finding, &Ignore::default())).collect();
    report::of(VERB, host, judged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Source;
    use crate::fact::cni::{CONF_DIR, HEADERS};
    use crate::report::Overall;
    use crate::testing::facts;

    const FLANNEL: &str = r#"{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel"},{"type":"portmap"}]}"#;

    /// What is wrong: `id verdict: sentence`.
    fn wrong(report: &Report) -> Vec<String> {
        let verdict = |outcome: Outcome| format!("{outcome:?}").to_lowercase();
        let shown =
            |finding: &report::Judged| format!("{} {}: {}", finding.id, verdict(finding.verdict), finding.title);
        report.findings.iter().filter(|finding| finding.verdict > Outcome::Pass).map(shown).collect()
    }

    #[test]
    fn a_file_is_judged_by_itself() {
        for (path, text, expected) in [
            ("/x/10-flannel.conflist", FLANNEL, None),
            ("10-flannel.conflist", FLANNEL, None),
            ("a.conflist", "{", Some("cni.config fail: a.conflist is broken")),
            ("a.conf", FLANNEL, Some("cni.config fail: a.conf is broken")),
            (
                "a.conflist",
                r#"{"name":"x","plugins":[{"type":"flannel"}]}"#,
                Some("cni.version warn: a.conflist names no cniVersion: taken as 0.1.0"),
            ),
            (
                "a.conf",
                r#"{"name":"x","cniVersion":"0.3.2","type":"dhcp"}"#,
                Some("cni.version fail: a.conf names CNI version 0.3.2, which there is not"),
            ),
            (
                "a.conf",
                r#"{"name":"x","cniVersion":"0.3.1","type":"bridge"}"#,
                Some("cni.ipam fail: a.conf has no ipam for bridge: pods get no address"),
            ),
            (
                "cni-conf.txt",
                FLANNEL,
                Some("cni.config warn: cni-conf.txt would not be looked at: only .conf, .conflist and .json are"),
            ),
        ] {
            let report = file(path, text);
            assert_eq!(wrong(&report), Vec::from_iter(expected.map(str::to_owned)), "{path} {text}");
            assert_eq!((report.verb, report.host.as_str()), ("cni lint", path));
        }
        let torn = file("/x/a.conflist", "{\n\n");
        assert_eq!(
            torn.findings[0].evidence[0].to_string(),
            "/x/a.conflist:3  not JSON: EOF while parsing an object at line 3 column 0"
        );
    }

    #[test]
    fn in_a_directory_the_first_file_counts() {
        let read = |files: &[(&str, &str)]| {
            let files: Vec<Candidate> = files.iter().map(|(name, text)| Candidate::read("/d", name, text)).collect();
            wrong(&dir("/d", &files))
        };
        assert!(read(&[("10-flannel.conflist", FLANNEL)]).is_empty());
        assert_eq!(
            read(&[("00-bad.conflist", "not json"), ("10-flannel.conflist", FLANNEL)]),
            ["cni.config fail: 00-bad.conflist is broken, and as the first file it counts"]
        );
        assert_eq!(
            read(&[("10-flannel.conflist", FLANNEL), ("20-bad.conflist", "not json")]),
            ["cni.config warn: 20-bad.conflist is broken (not loaded)"]
        );
        let placeholder = r#"{"name":"x","cniVersion":"0.3.1","plugins":[{"type":"bridge","ipam":{"type":"dhcp"}}]}"#;
        assert_eq!(
            read(&[("00-placeholder.conflist", placeholder), ("10-flannel.conflist", FLANNEL)]),
            ["cni.first-file-wins fail: 00-placeholder.conflist wins over flannel's 10-flannel.conflist"]
        );
        assert!(read(&[("00-mine.conflist", placeholder)]).is_empty(), "somebody's choice");
    }

    #[test]
    fn on_a_machine_its_programs_count_too() {
        let bin = facts()
            .with_dir("/etc/cni", &[("drwxr-xr-x", "net.d")])
            .with_dir("/opt/cni/bin", &[])
            .with_query(&HEADERS, "x86_64\n")
            .without_file("/etc/kubernetes/kubelet.conf");
        let flannel = bin
            .clone()
            .with_dir(CONF_DIR, &[("-rw-r--r--", "10-flannel.conflist")])
            .with_file("/etc/cni/net.d/10-flannel.conflist", FLANNEL);
        assert_eq!(
            wrong(&machine(&flannel)),
            [
                "cni.plugins fail: 10-flannel.conflist needs loopback, flannel, bridge, host-local, portmap: not usable in /opt/cni/bin"
            ]
        );
        let bad = flannel.with_file("/etc/cni/net.d/10-flannel.conflist", "");
        assert_eq!(wrong(&machine(&bad)), ["cni.config fail: 10-flannel.conflist is broken"]);
        let none = machine(&bin.clone().with_dir(CONF_DIR, &[]));
        assert_eq!(none.verdict, Overall::Warn, "no programs: {:?}", wrong(&none));
        let denied = machine(&bin.without(Source::Tree(CONF_DIR), Why::Denied));
        assert!(wrong(&denied).iter().any(|line| line.starts_with("cni.config unknown")), "{:?}", wrong(&denied));
    }
}
