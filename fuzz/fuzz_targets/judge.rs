//! Any bytes in any source of an otherwise healthy machine: every parser answers, every check has a verdict.
#![no_main]

use carrick_core::check::{CheckPolicy, run};
use carrick_core::fact::example;
use carrick_core::fact::keep::{Keeper, USUAL};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (which, bytes) = input;
    let mut facts = example::worker();
    let keys: Vec<String> = facts.iter().map(|(key, _)| key.to_owned()).collect();
    let mut keeper = Keeper::new(USUAL);
    keeper.push(bytes);
    facts.insert(keys[usize::from(which) % keys.len()].clone(), Ok(keeper.finish().0));
    run(&facts, &CheckPolicy { cni_expected: which % 2 == 0 });
});
