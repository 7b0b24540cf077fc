//! Whatever a source holds, every parser answers and every check has a verdict.

use carrick_core::check::{CHECKS, CheckPolicy, Finding, Outcome, run};
use carrick_core::fact::{Capture, Why, example, sources};
use proptest::prelude::*;

/// Text as it may come: anything; or a real capture of the example machine, cut short or with a piece replaced.
fn damaged(real: String) -> impl Strategy<Value = String> {
    let length = real.chars().count();
    prop_oneof![
        any::<String>(),
        (0..=length).prop_map({
            let real = real.clone();
            move |end| real.chars().take(end).collect()
        }),
        (0..=length, 0usize..40, "\\PC{0,12}|[\\x00-\\x20]{0,5}|-?[0-9]{1,25}").prop_map(move |(at, drop, new)| {
            real.chars().take(at).chain(new.chars()).chain(real.chars().skip(at + drop)).collect()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_source_can_break_the_judge(
        (key, text) in prop::sample::select(example::worker().iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>())
            .prop_flat_map(|key| {
                let real = example::worker().get(&key).map(|capture| capture.text.clone()).unwrap_or_default();
                (Just(key), damaged(real))
            }),
        exit in prop::option::of(-1i32..260),
        cni_expected: bool,
    ) {
        let mut facts = example::worker();
        facts.insert(key, Ok(Capture { exit, errors: text.clone(), ..Capture::text(text) }));
        prop_assert_eq!(run(&facts, &CheckPolicy { cni_expected }).len(), CHECKS.len());
    }
}

/// The lab runs on one kernel, with control groups version 1 and nobody who keeps its clock.
const OF_THE_LAB: [&str; 2] = ["kernel.cgroup-version", "time.synchronised"];

/// The example is the healthy machine: a check that does not pass there is wrong, or the example is.
#[test]
fn on_the_example_machine_every_check_passes_or_does_not_apply() {
    let wrong = |finding: &&Finding| !matches!(finding.verdict.outcome, Outcome::Pass | Outcome::Skip);
    let findings = run(&example::worker(), &CheckPolicy::default());
    let said: Vec<(&str, &str)> =
        findings.iter().filter(wrong).map(|finding| (finding.check.id, finding.verdict.says.as_str())).collect();
    assert_eq!(said.iter().map(|(id, _)| *id).collect::<Vec<_>>(), OF_THE_LAB, "{said:?}");
}

/// Where "no answer in time" is the finding itself: a runtime, or a resolver, that hangs.
const ANSWERS: [(&str, &str); 2] =
    [("runtime.socket", "cri status"), ("machine.hostname-resolves", "query getent ahosts $(hostname)")];

/// Taking facts away never makes anything better, nor a failure out of nothing: a check stays, or doubts.
#[test]
fn a_fact_that_is_lost_is_never_good_news() {
    let whole = run(&example::worker(), &CheckPolicy::default());
    let keys: Vec<String> = example::worker().iter().map(|(key, _)| key.to_owned()).collect();
    for key in keys {
        let mut facts = example::worker();
        facts.insert(key.clone(), Err(Why::TimedOut));
        for (before, after) in whole.iter().zip(run(&facts, &CheckPolicy::default())) {
            let (before, check) = (before.verdict.outcome, after.check.id);
            let after = after.verdict.outcome;
            let hangs = ANSWERS.contains(&(check, key.as_str())) && after > Outcome::Unknown;
            assert!(
                after == before || matches!(after, Outcome::Unknown | Outcome::Warn) || hangs,
                "{check} went from {before:?} to {after:?} without {key}"
            );
        }
    }
}

/// With everything timed out nothing passes.
#[test]
fn a_machine_that_does_not_answer_is_unknown() {
    let mut facts = example::worker();
    let keys: Vec<String> =
        facts.iter().map(|(key, _)| key.to_owned()).chain(sources().map(|source| source.key())).collect();
    for key in keys {
        facts.insert(key, Err(Why::TimedOut));
    }
    for finding in run(&facts, &CheckPolicy::default()) {
        assert_eq!(finding.verdict.outcome, Outcome::Unknown, "{}: {}", finding.check.id, finding.verdict.says);
    }
}
