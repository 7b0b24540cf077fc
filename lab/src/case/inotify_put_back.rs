//! The one setting of the real kernel the lab may change. It is shown another one here, in a mount namespace of the case's
//! own: the real one belongs to all labs that run now.

use std::fs;

use super::{Bench, Case};
use crate::demand;
use crate::error::{During, Result};
use crate::need::Need;
use crate::run::{OWN, Run};
use crate::sysctl::SETTING;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "fs.inotify.max_user_instances is raised while a lab is up, and put back when the last one goes",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::OwnLab],
    run,
};

const LAB: &str = "case-inotify";

fn run(bench: &mut Bench) -> Result<()> {
    let shown = bench.logs.join("max_user_instances");
    fs::write(&shown, "128\n").at("write", &shown)?;
    // $0 is the lab, $1 the file that is shown as the setting, $2 the setting. No other lab is seen in there.
    let script = format!(
        "mount --bind \"$1\" \"$2\"; mount -t tmpfs none /run/carrick-lab
        \"$0\" --lab {LAB} up --workers 0; cp \"$2\" \"$1.during\"; \"$0\" --lab {LAB} down"
    );
    let own = fs::read_link(OWN).at("find", OWN.as_ref())?;
    let run = Run::new("unshare").args(["--mount", "sh", "-ec", &script]).arg(own).arg(&shown).arg(SETTING);
    let done = run.deadline(super::OWN_LAB_DEADLINE).done()?;
    bench.say(done.text());
    done.success()?;
    let read = |path: &std::path::Path| fs::read_to_string(path).at("read", path);
    let (during, after) = (read(&shown.with_extension("during"))?, read(&shown)?);
    demand!(during.trim() == "1024", "while the lab was up, the setting was {during}");
    demand!(after.trim() == "128", "after the lab, the setting is {after}");
    Ok(())
}
