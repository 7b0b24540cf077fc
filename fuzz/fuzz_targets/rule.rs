//! Whatever a Node, a rule or a file of rules holds: it is read or refused, and what is decided of it needs no second write.
#![no_main]

use std::time::Duration;

use carrick_core::rule::{CompiledRule, NodeReadinessRule, SlimNode, Texts, decide, parse_duration, read_rules};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = parse_duration(text);
    let from_file = read_rules(text).unwrap_or_default().into_iter().filter_map(Result::ok);
    let (head, tail) = text.split_once('\n').unwrap_or((text, ""));
    let from_wire = serde_json::from_str::<NodeReadinessRule>(head).ok();
    let mut rules: Vec<CompiledRule> = from_file.chain(from_wire).map(CompiledRule::new).collect();
    // No cluster has two by one name.
    rules.sort_by(|one, other| one.name.cmp(&other.name));
    rules.dedup_by(|one, other| one.name == other.name);
    let Ok(mut node) = SlimNode::read(tail.as_bytes(), &mut Texts::default(), Duration::ZERO) else { return };
    if let Some(write) = decide(&node, &rules, |_| false, Duration::ZERO).write {
        write.apply(&mut node);
        assert_eq!(decide(&node, &rules, |_| false, Duration::ZERO).write, None);
    }
});
