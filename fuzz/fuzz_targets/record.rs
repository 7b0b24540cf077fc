//! What an earlier Carrick, or a newer one, or a broken disk has left in /var/lib/carrick: read, or refused.
#![no_main]

use carrick_core::join::before::MachineBefore;
use carrick_core::join::state::JoinStatus;
use carrick_core::plan::Effect;
use carrick_core::record::journal::parse;
use carrick_core::record::{PastRun, Run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (run, journal) = input;
    let _ = (serde_json::from_slice::<JoinStatus>(run), serde_json::from_slice::<MachineBefore>(run));
    if let Ok(effect) = serde_json::from_slice::<Effect>(run) {
        let again = serde_json::to_vec(&effect).expect("ours");
        assert_eq!(serde_json::from_slice::<Effect>(&again).ok(), Some(effect));
    }
    let Ok(run) = serde_json::from_slice::<Run>(run) else { return };
    let text = parse(journal, run.steps.len());
    let past = PastRun { run, lines: text.lines, damage: text.damage };
    let _ = (past.end().to_string(), past.final_steps(), past.taken_back(), past.no_way_back());
    assert!(past.begun().len() <= past.run.steps.len());
});
