//! The verdict on a program a join needs.
//!
//! Shared: `kubelet.installed` and `kubeadm.installed`.

use super::{Evidence, Verdict, fail, pass};
use crate::fact::version::Version;
use crate::fact::{Facts, Known, Query, Why};

/// Judges a program by the answer to its version; `named` is how a sentence calls it, `package` where it comes from.
pub(super) fn judge(
    facts: &Facts,
    query: &Query,
    version: Known<Version>,
    named: &str,
    package: &str,
) -> Known<Verdict> {
    let missing = match version {
        Ok(version) => return Ok(pass(format!("{package} {version}"))),
        Err(missing) => missing,
    };
    if missing.why == Why::NoTool {
        return Ok(fail(format!("{named} is not installed"))
            .seen(Evidence::of(query.name, missing.why.to_string()))
            .fix(facts.install(package))
            .fix(facts.reinstall_command(package)));
    }
    match facts.query(query) {
        Ok(said) if said.exit.is_some_and(|exit| exit != 0) => {
            let error = said.errors.lines().next().unwrap_or("it fails without a word");
            Ok(fail(format!("{named} does not run"))
                .seen(Evidence::of(query.name, error))
                .fix(facts.reinstall_command(package)))
        }
        _ => Err(missing),
    }
}
