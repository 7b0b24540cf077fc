//! The CRI plugin is taken out of `disabled_plugins` in /etc/containerd/config.toml; other plugins that are off stay off, and
//! comments stay. containerd is restarted. `carrick undo` puts the file back and restarts containerd again.

use super::Fix;
use super::runtime::{Configuration, quoted, set};
use crate::fact::containerd_config::is_cri;
use crate::fact::{Facts, Known};
use crate::plan::{Edit, Effect};

pub const FIX: Fix =
    Fix { fixes: &["runtime.cri-plugin"], does: "takes CRI out of disabled_plugins, and restarts containerd", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    // Where the file does not switch it off, an import does, or the plugin failed for another reason.
    let Some(configuration) = Configuration::of(facts)?.filter(|it| it.read.cri_disabled().is_some()) else {
        return Ok(Vec::new());
    };
    let kept = configuration.read.disabled_plugins.iter().filter(|name| !is_cri(name));
    let list: Vec<String> = kept.map(|name| quoted(name)).collect();
    let set = vec![set(vec!["disabled_plugins".to_owned()], &format!("[{}]", list.join(", ")))];
    configuration.changed(facts, Edit::Toml { set }, |read| read.cri_disabled().is_none())
}

#[cfg(test)]
mod tests {
    use super::super::runtime::sample::{RESTART, edited, machine};
    use super::*;
    use crate::fact::containerd_config::sample;
    use crate::testing::plans;

    const STUB: &str = "# Docker's\ndisabled_plugins = [\"cri\"] # not needed there\n#root = \"/x\"\n";

    #[test]
    fn only_cri_is_switched_on() {
        let dump = sample::version_2(true);
        let two =
            "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.snapshotter.v1.zfs\"]\n";
        plans(
            &FIX,
            [
                ("on", machine(&dump, &dump), &[]),
                (
                    "Docker's stub",
                    machine(STUB, STUB),
                    &["edit /etc/containerd/config.toml: disabled_plugins = []", RESTART],
                ),
                (
                    "version 2, and others",
                    machine(two, two),
                    &[
                        "edit /etc/containerd/config.toml: disabled_plugins = [\"io.containerd.snapshotter.v1.zfs\"]",
                        RESTART,
                    ],
                ),
                ("an import switches it off", machine("version = 2\n", two), &[]),
            ],
        );
    }

    #[test]
    fn comments_stay() {
        let effects = plan(&machine(STUB, STUB)).unwrap();
        assert_eq!(edited(&effects, STUB).unwrap(), STUB.replace("[\"cri\"]", "[]"));
    }
}
