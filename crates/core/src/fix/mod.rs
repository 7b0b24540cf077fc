//! What `check --fix` changes: one file per fix, `build.rs` finds them.
//!
//! A fix names the checks it mends and says which changes would make them pass, from the facts of the machine. Only what
//! is safe is fixed: what would need a choice stays with the operator, as the check's remedy says it.

use crate::check::Outcome;
use crate::fact::{Facts, Known};
use crate::plan::{Conflict, Effect, Plan, Step};
use crate::report::Report;

include!(concat!(env!("OUT_DIR"), "/fixes.rs"));

pub struct Fix {
    /// Ids of checks.
    pub mends: &'static [&'static str],
    /// The changes; none where this fix has nothing to offer for this machine.
    pub plan: fn(&Facts) -> Known<Vec<Effect>>,
}

/// What would mend what a report finds wrong, as far as it is safe to.
pub fn plan(facts: &Facts, report: &Report) -> Result<Plan, Conflict> {
    let wrong = |id: &&&str| {
        let is_wrong = |outcome| matches!(outcome, Outcome::Fail | Outcome::Warn);
        report.findings.iter().any(|finding| finding.id == **id && !finding.ignored && is_wrong(finding.verdict))
    };
    let mut steps = Vec::new();
    for fix in FIXES {
        let why: Vec<String> = fix.mends.iter().filter(wrong).map(|&id| id.to_owned()).collect();
        // What a fix does not know it does not change: the check stays as it is, and is told with its remedy.
        if let (false, Ok(effects)) = (why.is_empty(), (fix.plan)(facts)) {
            steps.extend(effects.into_iter().map(|effect| Step { effect, why: why.clone() }));
        }
    }
    Plan::of(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CHECKS;

    #[test]
    fn every_fix_mends_checks_that_exist() {
        for id in FIXES.iter().flat_map(|fix| fix.mends) {
            assert!(CHECKS.iter().any(|registered| registered.check.id == *id), "{id} is no check");
        }
    }
}
