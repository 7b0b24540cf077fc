//! The verdict on one step of the path to the API server.
//!
//! Shared: the checks of the family `api`.

use super::{Evidence, Verdict, fail, pass, skip};
use crate::catalogue::About;
use crate::fact::api_path::{PathReason, PathStep, StepOutcome};
use crate::fact::{Facts, Known, Missing, Why};
use crate::id;

/// Judges one step. A step behind the one that failed was not reached: that is told once, where it failed.
pub(super) fn judge(facts: &Facts, step: PathStep, fixes: &[&str], explains: &[About<'static>]) -> Known<Verdict> {
    judge_as(facts, step.check(), step, fixes, explains)
}

/// The same, for one of several checks that tell why a step failed.
pub(super) fn judge_as(
    facts: &Facts,
    id: &str,
    step: PathStep,
    fixes: &[&str],
    explains: &[About<'static>],
) -> Known<Verdict> {
    let path = facts.api_path()?;
    Ok(match (path.at(step), path.failed()) {
        (Some(StepOutcome::Ok(detail)), _) => pass(detail),
        (Some(StepOutcome::NotNeeded(detail)), _) => skip(detail),
        (Some(StepOutcome::Failed(_)), Some(walked)) if walked.check() != id => {
            skip(format!("not judged: see {}", walked.check()))
        }
        (Some(StepOutcome::Failed(detail)), _) => {
            let seen = Evidence::of(format!("path to {}", path.endpoint), detail);
            let verdict = fail(detail).seen(seen);
            let verdict = match path.failed().and_then(|walked| walked.reason) {
                None | Some(PathReason::Forbidden | PathReason::Unauthenticated | PathReason::OtherAddress) => verdict,
                Some(PathReason::NotYetValid) => verdict.means(id!("time.skew")),
                // Who takes the connection and then says nothing is slow, whatever layer it is on.
                Some(PathReason::NoAnswer) if step > PathStep::Tcp => verdict.may_pass(true).means(id!("api.slow")),
                Some(PathReason::NoAnswer) => verdict.may_pass(true),
            };
            fixes.iter().copied().fold(verdict, Verdict::fix).explains(explains.iter().copied())
        }
        (None, Some(_)) => skip("not reached: an earlier step failed"),
        (None, None) => return Err(Missing::broken("api path", "ends before this step")),
    })
}

/// Answers of the cluster that could not be had, because the way to it ended at a step.
pub(super) fn is_behind(missing: &Missing) -> bool {
    let ended = matches!(missing.why, Why::Broken(_) | Why::Unreachable(_) | Why::Busy(_));
    missing.is_answer_of_cluster() && ended
}

#[cfg(test)]
pub(super) mod testing {
    use crate::check::{Check, CheckPolicy, Outcome};
    use crate::fact::api_path::{ApiPath, PathReason, PathStep, StepOutcome, Walked};
    use crate::fact::{Facts, Source, Why};
    use crate::id;
    use crate::testing::{facts, judge_row, table};

    /// Facts of a path that ended as given; the steps before it went well.
    pub(crate) fn path(step: PathStep, state: StepOutcome) -> Facts {
        let before = [
            PathStep::Dns,
            PathStep::Tcp,
            PathStep::Tls,
            PathStep::Http,
            PathStep::ClusterInfo,
            PathStep::Token,
            PathStep::CaPin,
            PathStep::Certificate,
        ]
        .into_iter()
        .filter(|earlier| *earlier < step)
        .map(|step| Walked::new(step, StepOutcome::Ok("it went well".into())));
        let steps = before.chain([Walked::new(step, state)]).collect();
        let path = ApiPath { endpoint: "10.0.0.11:6443".into(), steps, ..ApiPath::default() };
        facts().with_api("path", &serde_json::to_string(&path).unwrap())
    }

    /// What a check has to do that tells why a step failed, and is not the step's own.
    pub(crate) fn judges_reason(check: &Check, step: PathStep, reason: PathReason) {
        let failed = |reason| {
            let mut path = path(step, StepOutcome::Failed("it broke".into())).api_path().unwrap();
            path.steps.iter_mut().filter(|walked| walked.step == step).for_each(|walked| walked.reason = reason);
            facts().with_api("path", &serde_json::to_string(&path).unwrap())
        };
        table(
            check,
            [
                ("it went well", path(step, StepOutcome::Ok("fine".into())), Outcome::Pass),
                ("it failed for this", failed(Some(reason)), Outcome::Fail),
                ("it failed for something else", failed(None), Outcome::Skip),
                ("the walk hung", facts().without(Source::Api("path"), Why::TimedOut), Outcome::Unknown),
                ("nobody asked", facts(), Outcome::Skip),
            ],
        );
        let own = crate::check::find(step.check()).next().unwrap().check;
        judge_row(own, &CheckPolicy::default(), "the step's own check", &failed(Some(reason)), Outcome::Skip);
    }

    /// What every check of this family has to do.
    pub(crate) fn judges_step(check: &Check, step: PathStep) {
        assert_eq!(step.check(), check.id);
        table(
            check,
            [
                ("it went well", path(step, StepOutcome::Ok("fine".into())), Outcome::Pass),
                ("it failed", path(step, StepOutcome::Failed("it broke".into())), Outcome::Fail),
                ("nothing to do", path(step, StepOutcome::NotNeeded("not given".into())), Outcome::Skip),
                ("the walk ended before", facts().with_api("path", r#"{"endpoint":"e","steps":[]}"#), Outcome::Unknown),
                ("the record is torn", facts().with_api("path", "{"), Outcome::Unknown),
                ("the walk hung", facts().without(Source::Api("path"), Why::TimedOut), Outcome::Unknown),
                ("nobody asked", facts(), Outcome::Skip),
            ],
        );
        let verdict = check.verdict(&path(step, StepOutcome::Failed("it broke".into())), &CheckPolicy::default());
        assert_eq!(verdict.says, "it broke");
        assert_eq!(verdict.evidence[0].to_string(), "path to 10.0.0.11:6443: it broke");
        if let (Ok(mut slow), true) = (path(step, StepOutcome::Failed("…".into())).api_path(), step > PathStep::Tcp) {
            slow.steps.iter_mut().for_each(|walked| walked.reason = Some(PathReason::NoAnswer));
            let slow = facts().with_api("path", &serde_json::to_string(&slow).unwrap());
            let verdict = check.verdict(&slow, &CheckPolicy::default());
            assert_eq!((verdict.may_pass, verdict.means), (true, Some(id!("api.slow"))));
        }
        if step > PathStep::Dns {
            let earlier = path(PathStep::Dns, StepOutcome::Failed("no such name".into()));
            judge_row(check, &CheckPolicy::default(), "an earlier step failed", &earlier, Outcome::Skip);
        }
    }
}
