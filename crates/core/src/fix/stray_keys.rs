//! Lines of containerd's configuration that set something where containerd does not look (`SystemdCgroup = true` outside its
//! table) are commented out: as long as they stand there, they look as if they did something. Only keys that belong nowhere
//! else, each alone on its line. What they were meant to do is runtime.cgroup-driver's matter. containerd never read them and
//! need not be restarted, but for `systemd_cgroup = true`, which keeps CRI from loading. `carrick undo` puts the file back.

use super::Fix;
use super::runtime::{Configuration, reads_anew};
use crate::fact::containerd_config::{FILE, StrayKey, parse, stray_keys};
use crate::fact::{Facts, Known};
use crate::plan::{Edit, Effect};

pub const FIX: Fix =
    Fix { fixes: &["runtime.config-stray-keys"], does: "comments out what containerd does not read", plan };

/// Keys of the CRI plugin's tables: at the top of a file, or in another table, nobody reads them.
const OF_CRI: [&str; 9] = [
    "SystemdCgroup",
    "systemd_cgroup",
    "BinaryName",
    "runtime_type",
    "default_runtime_name",
    "sandbox_image",
    "snapshotter",
    "bin_dir",
    "conf_dir",
];

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let Some(Configuration { text, read, .. }) = Configuration::of(facts)? else { return Ok(Vec::new()) };
    let strays: Vec<StrayKey> = stray_keys(&text).into_iter().filter(is_of_cri).collect();
    let line_of = |stray: &StrayKey| (1u32..).zip(text.lines()).find(|(number, _)| *number == stray.line);
    let lines: Vec<String> = strays.iter().filter_map(line_of).map(|(_, line)| line.to_owned()).collect();
    let is_alone = |line: &String| text.lines().filter(|other| other == line).count() == 1;
    if lines.is_empty() || !lines.iter().all(is_alone) {
        return Ok(Vec::new());
    }
    let edit = Edit::CommentOut { lines };
    let after = edit.apply(&text).ok().and_then(|edited| parse(&edited).ok());
    // The proof that nobody read them: without them containerd is told the same.
    if after.is_none_or(|after| after != read) {
        return Ok(Vec::new());
    }
    let refused = strays.iter().any(|stray| key(stray) == "systemd_cgroup");
    let restart = if refused { reads_anew(facts)? } else { None };
    Ok([Effect::Edit { path: FILE.to_owned(), edit }].into_iter().chain(restart).collect())
}

fn key(stray: &StrayKey) -> &str {
    stray.text.split('=').next().unwrap_or_default().trim()
}

/// A whole assignment on its line, not the beginning of a longer one.
fn is_of_cri(stray: &StrayKey) -> bool {
    OF_CRI.contains(&key(stray)) && stray.text.parse::<toml::Table>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::runtime::sample::{RESTART, edited, machine};
    use super::*;
    use crate::fact::containerd_config::sample::{STUB_WITH_STRAY, version_2};
    use crate::testing::plans;

    #[test]
    fn only_what_is_provably_misplaced_is_commented_out() {
        let with = |file: &str| machine(file, &version_2(true));
        let gone = "edit /etc/containerd/config.toml: comment out \"SystemdCgroup = true\"";
        plans(
            &FIX,
            [
                ("in order", with(&version_2(true)), &[]),
                ("appended to the stub", with(STUB_WITH_STRAY), &[gone]),
                ("in another table", with("version = 2\n[metrics]\nSystemdCgroup = true\n"), &[gone]),
                (
                    "keeps CRI from loading",
                    with("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsystemd_cgroup = true\n"),
                    &["edit /etc/containerd/config.toml: comment out \"systemd_cgroup = true\"", RESTART],
                ),
                ("a key of a newer containerd", with("new_thing = true\n"), &[]),
                (
                    "the same line stands in its place, too",
                    with(&format!("            SystemdCgroup = true\n{}", version_2(true))),
                    &[],
                ),
                ("the beginning of a list", with("snapshotter = [\n\"a\",\n]\n"), &[]),
                ("not TOML", with("SystemdCgroup = true\n[plugins"), &[]),
            ],
        );
    }

    #[test]
    fn nothing_but_a_mark_is_added() {
        let effects = plan(&machine(STUB_WITH_STRAY, &version_2(true))).unwrap();
        assert_eq!(
            edited(&effects, STUB_WITH_STRAY).unwrap(),
            STUB_WITH_STRAY.replace("          SystemdCgroup", "# carrick:           SystemdCgroup")
        );
    }
}
