//! The container runtime's service is unmasked where a link to /dev/null masks it, enabled where it is not started at boot, and
//! started where it is stopped and its configuration can be read. `carrick undo` stops, disables and masks it again, as it
//! was.

use super::Fix;
use crate::fact::runtime_sockets::Runtime;
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["runtime.socket", "runtime.unit"], does: "starts it, now and at boot", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let runtime = facts.runtime();
    let unit = runtime.unit().to_owned();
    let state = facts.unit_state(&unit)?;
    if !state.is_there() {
        return Ok(Vec::new());
    }
    let start = || Effect::Run { unit: unit.clone(), running: true };
    let can_start = runtime != Runtime::Containerd || facts.containerd_dump().is_ok();
    if state.is_masked() {
        // Whether it is enabled is told once it is no longer masked.
        let mask = if can_start { facts.mask_of(&unit)? } else { None };
        return Ok(mask.map(|path| vec![Effect::Remove { path }, Effect::ReloadUnits, start()]).unwrap_or_default());
    }
    let mut effects = Vec::new();
    if !state.is_enabled() {
        effects.push(Effect::Enable { unit: unit.clone(), enabled: true });
    }
    // One that systemd is just starting again and again has a reason, which its log tells.
    if can_start && matches!(state.active_state.as_str(), "inactive" | "failed") {
        effects.push(start());
    }
    Ok(effects)
}

#[cfg(test)]
mod tests {
    use super::super::runtime::sample::machine;
    use super::*;
    use crate::fact::containerd_config::{DUMP, sample::version_2};
    use crate::fact::unit::SHOW;
    use crate::testing::plans;

    #[test]
    fn the_runtime_runs_and_starts_at_boot() {
        let with = |load: &str, active: &str, file: &str| {
            let show = format!("Id=containerd.service\nLoadState={load}\nActiveState={active}\nUnitFileState={file}\n");
            machine(&version_2(true), &version_2(true))
                .with_query(&SHOW, &show)
                .with_dir("/etc/systemd/system", &[])
                .without_dir("/run/systemd/system")
        };
        let masked = || with("masked", "inactive", "masked");
        let by_link = masked().with_dir("/etc/systemd/system", &[("lrwxrwxrwx", "containerd.service -> /dev/null")]);
        let broken = with("loaded", "failed", "enabled").with_exit(&DUMP, 1, "", "containerd: invalid TOML\n");
        plans(
            &FIX,
            [
                ("runs", with("loaded", "active", "enabled"), &[]),
                ("not at boot", with("loaded", "active", "disabled"), &["enable containerd"]),
                ("stopped", with("loaded", "inactive", "enabled"), &["start containerd"]),
                ("failed once", with("loaded", "failed", "enabled"), &["start containerd"]),
                ("neither", with("loaded", "inactive", "disabled"), &["enable containerd", "start containerd"]),
                ("crashing", with("loaded", "activating", "enabled"), &[]),
                ("its configuration is broken", broken, &[]),
                (
                    "masked by a link",
                    by_link,
                    &[
                        "remove /etc/systemd/system/containerd.service",
                        "make systemd read its unit files anew",
                        "start containerd",
                    ],
                ),
                ("masked in another way", masked(), &[]),
                ("not installed", with("not-found", "inactive", ""), &[]),
            ],
        );
    }
}
