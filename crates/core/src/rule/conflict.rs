//! Two rules that manage one taint on one node. Neither can undo the other (see `decide`), but one of them is a mistake.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::compiled::CompiledRule;

/// Whether two rules can meet on a node with the same taint. What cannot be read may select anything.
pub fn conflict(one: &CompiledRule, other: &CompiledRule) -> bool {
    let meet = match (one.selector(), other.selector()) {
        (Some(one), Some(other)) => one.overlaps(other),
        _ => true,
    };
    one.spec.taint.is(&other.spec.taint) && meet
}

/// In the words of upstream's webhook.
pub fn conflict_message(rule: &CompiledRule, other: &str) -> String {
    let taint = &rule.spec.taint;
    format!(
        "conflicts with existing rule '{other}' - same taint key '{}' and effect '{}' with overlapping node selectors",
        taint.key, taint.effect
    )
}

/// Of the rules that are enforced: each that meets an older one, and the oldest that it meets.
pub fn conflicts<'r>(rules: impl IntoIterator<Item = &'r CompiledRule>) -> BTreeMap<Arc<str>, Arc<str>> {
    let mut by_taint: BTreeMap<String, Vec<&CompiledRule>> = BTreeMap::new();
    for rule in rules.into_iter().filter(|rule| rule.is_enforced()) {
        by_taint.entry(rule.spec.taint.id()).or_default().push(rule);
    }
    let mut found = BTreeMap::new();
    for mut group in by_taint.into_values() {
        group.sort_by(|one, other| one.age_order().cmp(&other.age_order()));
        for (at, rule) in group.iter().enumerate() {
            let older = group.iter().take(at).find(|older| conflict(older, rule));
            found.extend(older.map(|older| (Arc::clone(&rule.name), Arc::clone(&older.name))));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::testing::{RuleBuilder, rule, taint};
    use super::*;

    #[test]
    fn the_younger_of_two_that_meet_is_told() {
        let old = || rule("z").claimed();
        let young = || rule("a").claimed().with(|it| it.metadata.creation_timestamp = Timestamp::from_second(9).ok());
        let other = "readiness.k8s.io/other";
        for (case, rules, expected) in [
            ("same taint, same nodes", vec![old(), young()], Some(("a", "z"))),
            ("another taint", vec![old(), young().with(|it| it.spec.taint = taint(other))], None),
            ("another effect", vec![old(), young().with(|it| it.spec.taint.effect = "NoExecute".into())], None),
            ("other nodes", vec![old(), young().labels(&[("role", "other")])], None),
            ("one in dry run", vec![old(), young().dry_run()], None),
            ("one is being deleted", vec![old().deleted(), young()], None),
            ("of the same age, the name decides", vec![rule("b").claimed(), rule("a").claimed()], Some(("b", "a"))),
        ] {
            let rules: Vec<CompiledRule> = rules.into_iter().map(RuleBuilder::compiled).collect();
            let found = conflicts(&rules);
            let found = found.iter().next().map(|(rule, with)| (rule.as_ref(), with.as_ref()));
            assert_eq!(found, expected, "{case}");
        }
    }
}
