//! Facts of a machine to what a report shows of them: the checks' findings, what of them the operator ignores, the fixes that
//! are offered.

use crate::catalogue::{self, nearest};
use crate::check::{self, CheckPolicy, Finding, Outcome};
use crate::fact::Facts;
use crate::fix;
use crate::report::{self, Judged, MachineVersions, Report};

/// Runs every check on the facts of a machine; what `ignore` names does not count.
pub fn check(facts: &Facts, policy: &CheckPolicy, ignore: &Ignore) -> Report {
    let mut report = without_fixes(facts, policy, ignore);
    offer_fixes(facts, &mut report.findings);
    report
}

/// As [`check`], of facts that may be pieces out of a text: what `--fix` would do there cannot be told.
pub(crate) fn without_fixes(facts: &Facts, policy: &CheckPolicy, ignore: &Ignore) -> Report {
    of_findings(facts, check::run(facts, policy).into_iter().map(|finding| judged(finding, ignore)).collect())
}

/// What was found in the facts of a machine, as a report.
pub(crate) fn of_findings(facts: &Facts, findings: Vec<Judged>) -> Report {
    Report { machine: machine(facts), ..report::of("check", &facts.host, findings) }
}

/// Where `check --fix` would fix something, that is the first remedy. On a control plane it changes nothing.
fn offer_fixes(facts: &Facts, findings: &mut [Judged]) {
    if facts.control_plane_marks().is_ok_and(|marks| !marks.is_empty()) {
        return;
    }
    let wrong = |finding: &&mut Judged| matches!(finding.verdict, Outcome::Fail | Outcome::Warn) && !finding.ignored;
    for finding in findings.iter_mut().filter(wrong) {
        if let Some(fix) = fix::offered(facts, finding.id) {
            finding.remedy.insert(0, format!("carrick check --fix    # {}", fix.does));
        }
    }
}

pub fn judged(Finding { check, verdict }: Finding, ignore: &Ignore) -> Judged {
    let ignored = verdict.outcome > Outcome::Pass && ignore.covers(check.id);
    Judged { ignored, ..Judged::of(check.id, check.subsystem, verdict) }
}

/// What the facts say the machine is.
pub fn machine(facts: &Facts) -> MachineVersions {
    MachineVersions {
        os: facts.os_release().ok().map(|os| os.pretty_name),
        containerd: facts.containerd_version().ok().map(|version| version.to_string()),
        kubelet: facts.kubelet_version().ok().map(|version| version.to_string()),
    }
}

/// What the operator says does not count: ids of checks and of signatures, kubeadm's names, or `all`.
#[derive(Clone, Debug, Default)]
pub struct Ignore {
    all: bool,
    ids: Vec<&'static str>,
}

impl Ignore {
    /// Names as typed; an unknown one is refused, with the nearest that is known.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut ignore = Ignore::default();
        for name in names {
            if name.eq_ignore_ascii_case("all") {
                ignore.all = true;
                continue;
            }
            let before = ignore.ids.len();
            ignore.ids.extend(check::find(name).map(|registered| registered.check.id));
            // A cause that only a line of a log shows.
            ignore.ids.extend(catalogue::about(&name.to_lowercase()).map(|about| about.id));
            if ignore.ids.len() == before {
                let hint = nearest(name, check::ids()).map(|id| format!("; did you mean {id}?")).unwrap_or_default();
                return Err(format!("{name:?} is no check{hint}"));
            }
        }
        Ok(ignore)
    }

    pub fn covers(&self, id: &str) -> bool {
        self.all || self.ids.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Health, Overall};
    use crate::testing::facts;

    #[test]
    fn a_machine_nothing_is_known_about_is_unknown() {
        let report = check(&facts(), &CheckPolicy::default(), &Ignore::default());
        assert_eq!(report.verdict, Overall::Unknown);
        assert!(report.subsystems.iter().all(|subsystem| subsystem.verdict == Health::NotSeen));
    }

    #[test]
    fn what_is_ignored_is_shown_and_does_not_count() {
        let swap = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n";
        let facts = facts().with_file("/proc/swaps", swap);
        let verdict = |ignore: &[&str]| {
            check(&facts, &CheckPolicy::default(), &Ignore::of(ignore.iter().copied()).unwrap()).verdict
        };
        assert_eq!(verdict(&[]), Overall::Fail);
        assert_eq!(verdict(&["machine.swap"]), Overall::Unknown);
        assert_eq!(verdict(&["swap"]), Overall::Unknown);
        assert_eq!(verdict(&["ALL"]), Overall::Unknown);
        let report = check(&facts, &CheckPolicy::default(), &Ignore::of(["Swap"]).unwrap());
        let swap = report.findings.iter().find(|finding| finding.id == "machine.swap").unwrap();
        assert_eq!((swap.verdict, swap.ignored), (Outcome::Fail, true));
    }

    #[test]
    fn a_fix_is_the_first_remedy_where_it_would_fix_something() {
        let off = || facts().with_file("/proc/sys/net/ipv4/ip_forward", "0\n");
        let remedy = |facts: &Facts, ignore: &[&str]| {
            let ignore = Ignore::of(ignore.iter().copied()).unwrap();
            let report = check(facts, &CheckPolicy::default(), &ignore);
            report.findings.into_iter().find(|finding| finding.id == "kernel.ip-forward").unwrap().remedy.remove(0)
        };
        let fix = "carrick check --fix    # turns it on, now and after a reboot";
        let by_hand = "sysctl -w net.ipv4.ip_forward=1";
        assert_eq!(remedy(&off(), &[]), fix);
        assert_eq!(remedy(&off(), &["kernel.ip-forward"]), by_hand);
        let control_plane = off().with_dir("/etc/kubernetes", &[("-rw-------", "admin.conf")]);
        assert_eq!(remedy(&control_plane, &[]), by_hand);
    }

    #[test]
    fn what_was_read_cannot_steer_a_terminal() {
        let swap = "Filename Type Size Used Priority\n/dev/\x1b[2Jsda2 partition 1 0 -2\n";
        let report = check(&facts().with_file("/proc/swaps", swap), &CheckPolicy::default(), &Ignore::default());
        let swap = report.findings.iter().find(|finding| finding.id == "machine.swap").unwrap();
        assert_eq!(swap.evidence[0].text, "/dev/\u{fffd}[2Jsda2 partition 1 0 -2");
    }

    #[test]
    fn a_name_that_is_no_check_is_refused_with_the_nearest() {
        assert_eq!(
            Ignore::of(["machine.swpa"]).unwrap_err(),
            "\"machine.swpa\" is no check; did you mean machine.swap?"
        );
    }
}
