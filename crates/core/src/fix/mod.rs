//! What `check --fix` changes: one file per fix, `build.rs` finds them.
//!
//! A fix names the checks it fixes and says which changes would make them pass, from the facts of the machine. Only what
//! is safe is fixed: what would need a choice stays with the operator, as the check's remedy says it, and the check says why.
//! Files without a `FIX` say in their head who uses them.

use crate::check::Outcome;
use crate::fact::{Facts, Known};
use crate::plan::{Conflict, Effect, Plan, Step};
use crate::report::Report;

include!(concat!(env!("OUT_DIR"), "/fixes.rs"));

pub struct Fix {
    /// Ids of checks.
    pub fixes: &'static [&'static str],
    /// What it does, as it stands behind the command: `carrick check --fix    # restores the kubeadm drop-in`.
    pub does: &'static str,
    /// The changes; none where this fix has nothing to offer for this machine, or where its changes would not be seen.
    pub plan: fn(&Facts) -> Known<Vec<Effect>>,
}

/// A fix as the registry knows it.
pub struct RegisteredFix {
    /// The file it stands in, without `.rs`: checks name it.
    pub file: &'static str,
    pub fix: &'static Fix,
    /// What `carrick explain` says of it.
    pub explain: &'static str,
}

/// What would fix what a report finds wrong, as far as it is safe to.
pub fn plan(facts: &Facts, report: &Report) -> Result<Plan, Conflict> {
    let wrong = |id: &&&str| {
        let is_wrong = |outcome| matches!(outcome, Outcome::Fail | Outcome::Warn);
        report.findings.iter().any(|finding| finding.id == **id && !finding.ignored && is_wrong(finding.verdict))
    };
    let mut steps = Vec::new();
    for RegisteredFix { fix, .. } in FIXES {
        let why: Vec<String> = fix.fixes.iter().filter(wrong).map(|&id| id.to_owned()).collect();
        // What a fix does not know it does not change: the check stays as it is, and is told with its remedy.
        if let (false, Ok(effects)) = (why.is_empty(), (fix.plan)(facts)) {
            steps.extend(effects.into_iter().map(|effect| Step { effect, why: why.clone() }));
        }
    }
    Plan::of(steps)
}

/// The fixes that may fix a check.
pub fn of(id: &str) -> impl Iterator<Item = &'static RegisteredFix> {
    FIXES.iter().filter(move |registered| registered.fix.fixes.contains(&id))
}

/// The fix that has something to offer for a check that is wrong on this machine.
pub fn offered(facts: &Facts, id: &str) -> Option<&'static Fix> {
    let offers = |fix: &&Fix| (fix.plan)(facts).is_ok_and(|effects| !effects.is_empty());
    of(id).map(|registered| registered.fix).find(offers)
}

/// A file of Carrick's own. The directory is made where it is known to be missing.
fn own_file(facts: &Facts, dir: &str, name: &str, text: String) -> Vec<Effect> {
    let missing = matches!(facts.dir(dir), Err(crate::fact::Missing { why: crate::fact::Why::Absent, .. }));
    let made = missing.then(|| Effect::MakeDir { path: dir.to_owned(), mode: 0o755 });
    let write = Effect::Write { path: format!("{dir}/{name}"), text, mode: 0o644, in_place: false };
    made.into_iter().chain([write]).collect()
}

/// What every file of Carrick's begins with.
const MARK: &str = "# Written by carrick check --fix; carrick undo takes it back.\n";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::check::{CHECKS, Check, CheckPolicy, FixedBy};
    use crate::judge::{self, Ignore};
    use crate::testing::facts;

    #[test]
    fn a_check_and_the_fixes_that_fix_it_name_each_other() {
        let named_by =
            |id: &str| FIXES.iter().filter(|it| it.fix.fixes.contains(&id)).map(|it| it.file).collect::<Vec<_>>();
        for registered in CHECKS {
            let Check { id, fixed_by, .. } = registered.check;
            match fixed_by {
                FixedBy::Carrick(files) => assert_eq!(named_by(id), *files, "{id}"),
                FixedBy::Operator(why) => {
                    assert_eq!(named_by(id), [""; 0], "{id} is left to the operator");
                    assert!(!why.is_empty() && !why.ends_with('.'), "{id}: {why}");
                }
            }
        }
        let checks: BTreeSet<&str> = crate::check::ids().collect();
        let named: BTreeSet<&str> = FIXES.iter().flat_map(|it| it.fix.fixes).copied().collect();
        assert_eq!(named.difference(&checks).collect::<Vec<_>>(), Vec::<&&str>::new(), "fixes what is no check");
    }

    #[test]
    fn every_fix_says_what_it_does_and_how_to_take_it_back() {
        for RegisteredFix { fix, explain, .. } in FIXES {
            assert!(!fix.does.is_empty() && !fix.does.ends_with('.'), "{:?}", fix.fixes);
            assert!(explain.contains("carrick undo"), "{:?} does not say what carrick undo does", fix.fixes);
        }
    }

    #[test]
    fn of_a_machine_nothing_is_known_about_nothing_is_changed() {
        let facts = facts();
        for RegisteredFix { fix, .. } in FIXES {
            assert_eq!((fix.plan)(&facts).unwrap_or_default(), [], "{:?}", fix.fixes);
        }
    }

    #[test]
    fn what_is_ignored_is_not_fixed() {
        let facts = facts().with_file("/proc/sys/net/ipv4/ip_forward", "0\n");
        let planned = |ignore: &[&str]| {
            let ignore = Ignore::of(ignore.iter().copied()).unwrap();
            plan(&facts, &judge::check(&facts, &CheckPolicy::default(), &ignore)).unwrap()
        };
        assert_eq!(planned(&[]).steps.len(), 1);
        assert_eq!(planned(&[]).steps[0].why, ["kernel.ip-forward"]);
        assert!(planned(&["kernel.ip-forward"]).is_empty());
    }
}
