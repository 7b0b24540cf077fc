//! `carrick check --fix`: check, plan, a yes, apply, and check again, until nothing is left that is safe to fix.

use std::sync::Arc;

use carrick_core::fact::Facts;
use carrick_core::fix;
use carrick_core::plan::Plan;
use carrick_core::plan::protect::Protected;
use carrick_core::report::Report;
use carrick_engine::Stop;
use carrick_engine::act::{Grounded, Stopped, journal};
use carrick_engine::join::{Fixer, NotFixed};
use carrick_host::{BoxFuture, Host};

use super::{Args, judge, show};
use crate::act::{self, Refused};
use crate::exit::{Exit, Failure};
use crate::machine::client;
use crate::render::Format;
use crate::signals::Signals;
use crate::terminal;

/// A fix may bring another to light (a runtime that answers at last); more than this is no progress.
const ROUNDS: usize = 3;

pub async fn run(args: &Args, signals: &Signals) -> Result<Exit, Failure> {
    if !matches!(args.output, Format::Text | Format::Json) {
        return Err(Failure::usage("--fix prints text or json; see carrick check --help"));
    }
    let host = args.place.host().await?;
    let admin = args.cluster.admin()?.map(|admin| client(&host, &admin));
    let (actor, _lock) = act::begin("check --fix", host.as_ref(), &args.consent, signals, &[]).await?;
    let mut runs = Vec::new();
    let mut before = Plan::default();
    for round in 0..=ROUNDS {
        let (facts, report) = judge(args, host.as_ref(), admin.as_ref()).await?;
        // What a run that was killed had still to reload or restart.
        let owed = journal::owed(host.as_ref()).await.map_err(|broken| Failure::failed(broken.to_string()))?;
        let plan = fix::plan(&facts, &report).and_then(|plan| Plan::of(owed.into_iter().chain(plan.steps)));
        let plan = plan.map_err(|conflict| Failure::internal(conflict.to_string()))?;
        let steps = act::ground(host.as_ref(), &plan).await?;
        let refused = args.consent.refused(&facts, &steps)?;
        if args.consent.plan {
            return print_plan(args, host.name(), &steps, &refused);
        }
        // What did not help once is not done again: a restart can always be made.
        if steps.is_empty() || plan.asks_for_the_same_as(&before) || round == ROUNDS {
            return finish(args, &report, &runs);
        }
        before = plan;
        let protected = args.consent.protected(&facts)?;
        if !args.consent.yes {
            terminal::say(&act::told_with(host.name(), &steps, &refused));
        }
        refused.ends()?;
        args.consent.ask("Make these changes?", &actor.stop).await?;
        runs.push(act::carry_out(&host, &actor, &steps, &protected).await?);
    }
    Ok(Exit::Internal)
}

/// `join --fix`: one round of the same.
pub struct CheckFixer<'a> {
    pub place: &'a Arc<dyn Host>,
    pub consent: &'a act::Consent,
    pub stop: Stop,
}

impl Fixer for CheckFixer<'_> {
    fn fix<'a>(&'a mut self, facts: &'a Facts, report: &'a Report) -> BoxFuture<'a, Result<bool, NotFixed>> {
        Box::pin(async move {
            let agreed = self.agreed(facts, report).await.map_err(|failure| not_begun(&failure))?;
            let Some((steps, protected)) = agreed else { return Ok(false) };
            let done =
                act::shown(self.place, None, &act::actor("join --fix", self.stop.clone()), &steps, &protected).await;
            done.map(|_| true).map_err(|stopped| stopped_short(&stopped))
        })
    }
}

impl CheckFixer<'_> {
    /// What is to be changed, and may be; `None` where there is nothing. Nothing is changed yet.
    async fn agreed(&self, facts: &Facts, report: &Report) -> Result<Option<(Vec<Grounded>, Protected)>, Failure> {
        let plan = fix::plan(facts, report).map_err(|conflict| Failure::internal(conflict.to_string()))?;
        let steps = act::ground(self.place.as_ref(), &plan).await?;
        if steps.is_empty() {
            return Ok(None);
        }
        let protected = self.consent.protected(facts)?;
        let refused = self.consent.refused(facts, &steps)?;
        terminal::say(&act::told_with(self.place.name(), &steps, &refused));
        refused.ends()?;
        self.consent.ask("Make these changes?", &self.stop).await?;
        Ok(Some((steps, protected)))
    }
}

fn not_begun(failure: &Failure) -> NotFixed {
    NotFixed { says: failure.to_string(), changed: false, declined: failure.exit == Exit::Consent }
}

fn stopped_short(stopped: &Stopped) -> NotFixed {
    let changed = matches!(
        stopped,
        Stopped::At { .. } | Stopped::Outdated { .. } | Stopped::Midway { .. } | Stopped::Told { .. }
    );
    NotFixed { says: act::stopped_as_failure(stopped).to_string(), changed, declined: false }
}

/// A plan that would be refused ends as applying it would.
fn print_plan(args: &Args, host: &str, steps: &[Grounded], refused: &Refused) -> Result<Exit, Failure> {
    let text = match args.output {
        Format::Json => act::as_json(host, steps, refused)?,
        _ if steps.is_empty() => "Nothing to fix that is safe to fix; carrick check says what is wrong.\n".to_owned(),
        _ if refused.ends().is_err() => act::told_with(host, steps, refused),
        _ => act::told(host, steps) + "\nNothing was changed. Do it: carrick check --fix\n",
    };
    terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    refused.ends().map(|()| Exit::Ok)
}

fn finish(args: &Args, report: &Report, runs: &[u32]) -> Result<Exit, Failure> {
    let exit = show(args, report, None)?;
    if let Some(first) = runs.first() {
        terminal::say(&format!("Take it back: {}", take_back(*first, runs)));
    }
    Ok(exit)
}

/// One command a run, the newest first.
fn take_back(first: u32, runs: &[u32]) -> String {
    if runs.len() == 1 {
        return format!("carrick undo {first}");
    }
    let each: Vec<String> = runs.iter().rev().map(|run| format!("carrick undo {run}")).collect();
    each.join(" && ")
}

#[cfg(test)]
mod tests {
    use carrick_host::Trouble;

    use super::*;

    #[test]
    fn what_was_not_fixed_says_whether_something_was_changed() {
        let at = |doing: &str| Stopped::At { run: 3, doing: doing.into(), trouble: Trouble::new("swap", "busy") };
        for (not_fixed, changed, declined) in [
            (not_begun(&Failure::consent("nothing was changed")), false, true),
            (not_begun(&Failure::failed("nothing was changed: x")), false, false),
            (stopped_short(&Stopped::Before(Trouble::new("/var", "read-only"))), false, false),
            (stopped_short(&at("swapoff")), true, false),
        ] {
            assert_eq!((not_fixed.changed, not_fixed.declined), (changed, declined), "{not_fixed:?}");
        }
    }
}
