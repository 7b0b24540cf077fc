use proptest::prelude::*;

use super::super::node::COMPLETED;
use super::super::testing::{CONDITION, NodeBuilder, RuleBuilder, TAINT, node, rule, taint};
use super::*;

const NOTE: &str = r#"{"readiness.k8s.io/gate:NoSchedule":"r"}"#;

fn nobody(_: &str) -> bool {
    false
}

fn everybody(_: &str) -> bool {
    true
}

fn decided(node: NodeBuilder, rules: Vec<RuleBuilder>, known: fn(&str) -> bool) -> (SlimNode, NodeDecision) {
    let node = node.build();
    let rules: Vec<CompiledRule> = rules.into_iter().map(RuleBuilder::compiled).collect();
    let decision = decide(&node, &rules, known, Uptime::ZERO);
    (node, decision)
}

/// What the patch says, or nothing.
fn patch(node: NodeBuilder, rules: Vec<RuleBuilder>, known: fn(&str) -> bool) -> Value {
    let (node, decision) = decided(node, rules, known);
    decision.write.map_or(Value::Null, |write| write.patch(&node.resource_version))
}

fn live() -> RuleBuilder {
    rule("r").claimed()
}

fn bootstrap() -> RuleBuilder {
    live().bootstrap_only()
}

fn completed(node: NodeBuilder) -> NodeBuilder {
    node.annotation(&format!("{COMPLETED}uid-of-r"), "{\"rule-name\":\"r\"}")
}

fn added() -> Value {
    json!({
        "metadata": {"resourceVersion": "1", "annotations": {OWNED: NOTE}},
        "spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]},
    })
}

fn removed() -> Value {
    json!({"metadata": {"resourceVersion": "1"}, "spec": {"taints": null}})
}

fn removed_with_its_note() -> Value {
    json!({"metadata": {"resourceVersion": "1", "annotations": {OWNED: null}}, "spec": {"taints": null}})
}

fn completion(mut patch: Value) -> Value {
    patch["metadata"]["annotations"][format!("{COMPLETED}uid-of-r")] = "{\"rule-name\":\"r\"}".into();
    patch
}

type DecisionRow = (&'static str, NodeBuilder, Vec<RuleBuilder>, fn(&str) -> bool, Value);

#[test]
fn one_rule() {
    let gated = || node("n").taint(TAINT);
    let grandfathered = completion(json!({"metadata": {"resourceVersion": "1"}}));
    let rows: Vec<DecisionRow> = vec![
        ("not ready, no taint", node("n"), vec![live()], nobody, added()),
        ("not ready, taint", gated(), vec![live()], nobody, Value::Null),
        ("ready, taint", gated().ready(), vec![live()], nobody, removed()),
        ("ready, our taint", gated().ready().annotation(OWNED, NOTE), vec![live()], nobody, removed_with_its_note()),
        ("ready, no taint", node("n").ready(), vec![live()], nobody, Value::Null),
        ("no finalizer yet", node("n"), vec![rule("r")], nobody, Value::Null),
        ("no finalizer yet, taint", gated().ready(), vec![rule("r")], nobody, Value::Null),
        ("not selected", node("n").unlabelled(), vec![live()], nobody, Value::Null),
        ("a stranger's taint on a node that is not selected", gated().unlabelled(), vec![live()], nobody, Value::Null),
        (
            "relabelled, by the note",
            gated().unlabelled().annotation(OWNED, NOTE),
            vec![live()],
            nobody,
            removed_with_its_note(),
        ),
        ("relabelled, as was seen", gated().unlabelled(), vec![live()], everybody, removed()),
        (
            "a note of another rule",
            gated().unlabelled().annotation(OWNED, NOTE),
            vec![rule("x").claimed()],
            nobody,
            Value::Null,
        ),
        (
            "a note about a taint that is gone",
            node("n").ready().annotation(OWNED, NOTE),
            vec![live()],
            nobody,
            json!({"metadata": {"resourceVersion": "1", "annotations": {OWNED: null}}}),
        ),
        ("a note that nobody can read", gated().annotation(OWNED, "{"), vec![live()], nobody, Value::Null),
        ("bootstrap, not ready", node("n"), vec![bootstrap()], nobody, added()),
        ("bootstrap, ready", gated().ready(), vec![bootstrap()], nobody, completion(removed())),
        ("bootstrap, ready all along", node("n").ready(), vec![bootstrap()], nobody, grandfathered),
        ("bootstrap is over, not ready again", completed(node("n")), vec![bootstrap()], nobody, Value::Null),
        ("bootstrap is over, the taint is back", completed(gated().ready()), vec![bootstrap()], nobody, removed()),
        ("bootstrap is over, taint, not ready", completed(gated()), vec![bootstrap()], nobody, Value::Null),
        (
            "bootstrap was over before v0.4.1",
            node("n").annotation(&format!("{COMPLETED}r"), "true"),
            vec![bootstrap()],
            nobody,
            Value::Null,
        ),
        ("dry run", node("n"), vec![live().dry_run()], nobody, Value::Null),
        ("dry run, ready", gated().ready().annotation(OWNED, NOTE), vec![live().dry_run()], nobody, Value::Null),
        (
            "suspended, ready",
            gated().ready(),
            vec![live().with(|it| it.spec.suspend = Some(true))],
            nobody,
            Value::Null,
        ),
        ("suspended, not ready", node("n"), vec![live().with(|it| it.spec.suspend = Some(true))], nobody, Value::Null),
        ("deleted", gated(), vec![live().deleted()], nobody, removed()),
        ("deleted, relabelled", gated().unlabelled(), vec![live().deleted()], nobody, Value::Null),
        (
            "deleted, relabelled, our taint",
            gated().unlabelled().annotation(OWNED, NOTE),
            vec![live().deleted()],
            nobody,
            removed_with_its_note(),
        ),
        ("deleted in dry run", gated(), vec![live().dry_run().deleted()], nobody, Value::Null),
        (
            "deleted in dry run, our taint",
            gated().annotation(OWNED, NOTE),
            vec![live().dry_run().deleted()],
            nobody,
            removed_with_its_note(),
        ),
        (
            "a rule that cannot be applied",
            node("n"),
            vec![live().with(|it| it.spec.conditions.clear())],
            nobody,
            Value::Null,
        ),
    ];
    for (case, node, rules, known, expected) in rows {
        assert_eq!(patch(node, rules, known), expected, "{case}");
    }
}

#[test]
fn all_rules_of_a_node_are_one_write_and_strangers_stay_where_they_are() {
    let foreign = node("n").taint("node.kubernetes.io/unschedulable").taint("readiness.k8s.io/b");
    let a = rule("a").claimed().with(|it| it.spec.taint.value = Some("pending".into()));
    let b = rule("b").claimed().with(|it| it.spec.taint = taint("readiness.k8s.io/b")).conditions(&[]);
    let b = b.conditions(&[("other", super::super::object::ConditionStatus::Unknown, None)]);
    let given = patch(foreign, vec![b, a], nobody);
    let note = r#"{"readiness.k8s.io/gate:NoSchedule":"a"}"#;
    assert_eq!(
        given,
        json!({
            "metadata": {"resourceVersion": "1", "annotations": {OWNED: note}},
            "spec": {"taints": [
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                {"key": TAINT, "value": "pending", "effect": "NoSchedule"},
            ]},
        })
    );
}

/// Upstream flaps: each of the two undoes what the other did.
#[test]
fn a_taint_that_two_rules_share_stays_until_both_are_satisfied() {
    let a = || rule("a").claimed();
    let b = || rule("b").claimed().conditions(&[("b", super::super::object::ConditionStatus::True, None)]);
    let gated = || node("n").taint(TAINT);
    assert_eq!(patch(gated().ready(), vec![a(), b()], nobody), Value::Null);
    assert_eq!(patch(gated().ready().condition("b", "True"), vec![a(), b()], nobody), removed());
    // One of them is deleted: the other holds it.
    assert_eq!(patch(gated(), vec![a(), b().deleted()], nobody), Value::Null);
    // Bootstrap of one is not over while the node is still held.
    let (_, held) = decided(gated().ready(), vec![a().bootstrap_only(), b()], nobody);
    assert_eq!(held.write, None);
}

#[test]
fn outcomes_say_whose_doing_it_was() {
    let (_, given) = decided(node("n"), vec![live()], nobody);
    let outcome = given.outcomes.first().unwrap();
    assert_eq!((outcome.change, outcome.held, outcome.was_held), (Some(TaintChange::Added), true, false));
    let (_, given) = decided(node("n").taint(TAINT), vec![live()], nobody);
    assert!(given.outcomes.first().unwrap().adopted);
    let (_, given) = decided(node("n").taint(TAINT).annotation(OWNED, NOTE), vec![live()], nobody);
    assert!(!given.outcomes.first().unwrap().adopted);
    let (_, given) = decided(node("n").taint(TAINT).unlabelled().annotation(OWNED, NOTE), vec![live()], nobody);
    let outcome = given.outcomes.first().unwrap();
    assert_eq!((outcome.change, outcome.selected), (Some(TaintChange::Removed), false));
}

/// Few names, so that rules meet.
fn any_rule() -> impl Strategy<Value = RuleBuilder> {
    (0..4usize, 0..2usize, any::<[bool; 6]>(), 0..3usize, any::<bool>()).prop_map(
        |(name, key, flags, label, any_of)| {
            let [claimed, bootstrap, dry_run, deleted, suspended, second] = flags;
            let mut built = rule(["a", "b", "c", "d"][name]).with(|it| {
                it.spec.taint = taint([TAINT, "readiness.k8s.io/other"][key]);
                it.spec.suspend = suspended.then_some(true);
                it.spec.condition_policy = any_of.then_some(super::super::object::ConditionPolicy::AnyOf);
            });
            if second {
                built = built.conditions(&[
                    (CONDITION, super::super::object::ConditionStatus::True, None),
                    ("second", super::super::object::ConditionStatus::True, None),
                ]);
            }
            built = built.labels(match label {
                0 => &[("role", "worker")],
                1 => &[("zone", "a")],
                _ => &[],
            });
            built = if claimed { built.claimed() } else { built };
            built = if bootstrap { built.bootstrap_only() } else { built };
            built = if dry_run { built.dry_run() } else { built };
            if deleted { built.deleted() } else { built }
        },
    )
}

fn any_rules() -> impl Strategy<Value = Vec<CompiledRule>> {
    prop::collection::vec(any_rule(), 0..5).prop_map(|rules| {
        let by_name: BTreeMap<String, RuleBuilder> =
            rules.into_iter().map(|rule| (rule.0.metadata.name.clone(), rule)).collect();
        by_name.into_values().map(RuleBuilder::compiled).collect()
    })
}

fn any_node() -> impl Strategy<Value = SlimNode> {
    let status = || prop::sample::select(vec!["True", "False", ""]);
    let note = prop::sample::select(vec![
        None,
        Some(r#"{"readiness.k8s.io/gate:NoSchedule":"a"}"#),
        Some(r#"{"readiness.k8s.io/other:NoSchedule":"b","readiness.k8s.io/gate:NoSchedule":"gone"}"#),
        Some("nonsense"),
    ]);
    (any::<[bool; 5]>(), status(), status(), note, prop::option::of(0..4usize)).prop_map(
        |(flags, first, second, note, complete)| {
            let [worker, zone, gate, other, foreign] = flags;
            let mut built = node("n").unlabelled();
            for (is, key, value) in [(worker, "role", "worker"), (zone, "zone", "a")] {
                built = if is { built.label(key, value) } else { built };
            }
            for (is, key) in [(foreign, "node.kubernetes.io/x"), (gate, TAINT), (other, "readiness.k8s.io/other")] {
                built = if is { built.taint(key) } else { built };
            }
            for (kind, status) in [(CONDITION, first), ("second", second)] {
                built = if status.is_empty() { built } else { built.condition(kind, status) };
            }
            if let Some(note) = note {
                built = built.annotation(OWNED, note);
            }
            if let Some(of) = complete {
                built = built.annotation(&format!("{COMPLETED}uid-of-{}", ["a", "b", "c", "d"][of]), "");
            }
            built.build()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Promise 9 of the design.
    #[test]
    fn no_gate_opens_too_early_and_no_stranger_is_touched(node in any_node(), rules in any_rules(), known in any::<u8>()) {
        let known = |rule: &str| ["a", "b", "c", "d"].iter().position(|it| *it == rule).is_some_and(|at| known >> at & 1 == 1);
        let decision = decide(&node, &rules, known, Uptime::ZERO);
        let mut after = node.clone();
        if let Some(write) = &decision.write {
            write.apply(&mut after);
        }
        for rule in &rules {
            let holds = rule.is_enforced() && rule.selects(&node) && !evaluate(rule, &node, Uptime::ZERO).satisfied;
            if holds && node.has_taint(&rule.spec.taint) {
                prop_assert!(after.has_taint(&rule.spec.taint), "{} let go", rule.name);
            }
            if holds && rule.is_claimed() && !rule.is_complete_on(&node) {
                prop_assert!(after.has_taint(&rule.spec.taint), "{} does not hold", rule.name);
            }
        }
        let notes = node.owned();
        for gone in node.taints.iter().filter(|taint| !after.has_taint(taint)) {
            let of_rule = |rule: &&CompiledRule| rule.spec.taint.is(gone);
            let owned = rules.iter().filter(of_rule).any(|rule| {
                known(&rule.name) || rule.selects(&node) || notes.get(&gone.id()).is_some_and(|it| **it == *rule.name)
            });
            prop_assert!(owned, "{} was nobody's", gone.id());
        }
        for new in after.taints.iter().filter(|taint| !node.has_taint(taint)) {
            prop_assert!(rules.iter().any(|rule| rule.is_claimed() && rule.selects(&node) && rule.spec.taint.is(new)));
        }
        // Those that stay keep their order.
        let stay: Vec<_> = node.taints.iter().filter(|taint| after.has_taint(taint)).collect();
        prop_assert_eq!(stay, after.taints.iter().take(after.taints.len()).filter(|it| node.has_taint(it)).collect::<Vec<_>>());
        // Annotations that are neither ours nor a completion are never written.
        if let Some(write) = &decision.write {
            prop_assert!(write.annotations.keys().all(|key| key == OWNED || key.starts_with(COMPLETED)));
            prop_assert!(write.taints.is_some() || !write.annotations.is_empty());
        }
    }

    #[test]
    fn what_was_written_needs_no_other_write(node in any_node(), rules in any_rules()) {
        let mut after = node.clone();
        // Removing a shared taint may complete a bootstrap that waited for it; then there is nothing left.
        for _ in 0..2 {
            if let Some(write) = decide(&after, &rules, nobody, Uptime::ZERO).write {
                write.apply(&mut after);
            }
        }
        prop_assert_eq!(decide(&after, &rules, nobody, Uptime::ZERO).write, None);
        if let Some(write) = decide(&node, &rules, nobody, Uptime::ZERO).write {
            let mut once = node.clone();
            write.apply(&mut once);
            prop_assert_eq!(once, after);
        }
    }

    #[test]
    fn the_order_of_rules_does_not_matter(node in any_node(), rules in any_rules()) {
        let forwards = decide(&node, &rules, nobody, Uptime::ZERO);
        let backwards = decide(&node, rules.iter().rev(), nobody, Uptime::ZERO);
        prop_assert_eq!(forwards, backwards);
    }
}
