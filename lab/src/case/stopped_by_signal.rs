//! Ctrl-C and SIGTERM: a run ends within seconds, and takes everything away itself.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Bench, Case};
use crate::demand;
use crate::error::Result;
use crate::need::Need;
use crate::stop;
use crate::tier::Tier;
use crate::trace::Traces;

pub const CASE: Case = Case {
    about: "up, test and capture end within seconds of SIGINT or SIGTERM, say so, and leave nothing",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::OwnLab],
    run,
};

const LAB: &str = "case-stopped";
/// The first lane of a recording.
const LANE: &str = "case-stopped-1";
/// Ending a machine takes up to three seconds, and the others have the processors meanwhile.
const PROMPT: Duration = Duration::from_secs(20);

fn run(bench: &mut Bench) -> Result<()> {
    for (word, after, (name, signal), lab, words) in [
        ("starting the control plane", 1, ("SIGINT", Signal::INT), LAB, &["up"][..]),
        ("starting the control plane", 7, ("SIGTERM", Signal::TERM), LAB, &["up"]),
        ("control plane Ready", 3, ("SIGTERM", Signal::TERM), LAB, &["test", "join-debian12"]),
        ("control plane Ready", 4, ("SIGINT", Signal::INT), LANE, &["capture", "--jobs", "1", "api-refused"]),
    ] {
        let before = Traces::of(lab)?;
        let mut child = bench.start_until(word, LAB, words)?;
        std::thread::sleep(Duration::from_secs(after));
        let left = Traces::of(lab)?.differ_from(&before);
        demand!(!left.is_empty(), "{words:?} made nothing yet: the case proves nothing");
        let begun = Instant::now();
        let code = child.end_with(signal, PROMPT)?;
        bench.time(format!("{} after {name}", words.join(" ")), begun.elapsed());
        demand!(code == i32::from(stop::EXIT), "{words:?} ended with {code}");
        Traces::of(lab)?.same_as(&before, &format!("{words:?} was asked to stop, and"))?;
    }
    Ok(())
}
