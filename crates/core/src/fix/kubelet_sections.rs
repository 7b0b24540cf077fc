//! Lines of a drop-in in /etc/systemd/system/kubelet.service.d that stand before any section are commented out. systemd passes
//! over them as it is, so nothing changes but what a reader believes; to put `[Service]` above them might wake a flag that keeps
//! the kubelet from starting, and is left to the operator. Files of packages (/usr/lib) are not touched. `carrick undo` puts
//! the file back.

use super::Fix;
use crate::fact::unit::{KUBELET, lines_of};
use crate::fact::{Facts, Known};
use crate::plan::{Edit, Effect};

pub const FIX: Fix = Fix { fixes: &["kubelet.dropin-section"], does: "comments out lines that do nothing", plan };

/// Where administrators put drop-ins; packages put theirs below /usr/lib.
const ADMINS: &str = "/etc/systemd/system/kubelet.service.d/";

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let unit = facts.unit("kubelet")?;
    let text = &facts.query(&KUBELET)?.text;
    let mut effects = Vec::new();
    for file in unit.drop_ins().filter(|file| file.path.starts_with(ADMINS)) {
        let all = lines_of(text, &file.path);
        let stray = file.directives.iter().filter(|directive| directive.section.is_empty());
        let numbers = stray.filter_map(|directive| usize::try_from(directive.line).ok()?.checked_sub(1));
        let lines: Vec<&str> = numbers.filter_map(|number| all.get(number).copied()).collect();
        // A line that goes on in the next, that stands in a section as well, or that a secret was taken out of.
        let is_odd = |line: &&str| {
            line.trim_end().ends_with('\\')
                || line.contains("<redacted:")
                || all.iter().filter(|other| *other == line).count() > 1
        };
        if !lines.is_empty() && !lines.iter().any(is_odd) {
            let lines = lines.into_iter().map(str::to_owned).collect();
            effects.push(Effect::Edit { path: file.path.clone(), edit: Edit::CommentOut { lines } });
        }
    }
    if !effects.is_empty() {
        effects.push(Effect::ReloadUnits);
    }
    Ok(effects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::unit::sample;
    use crate::testing::{facts, plans};

    #[test]
    fn only_what_does_nothing_is_commented_out_and_only_in_the_administrators_files() {
        let with = |path: &str, text: &str| facts().with_query(&KUBELET, &sample::and_drop_in(path, text));
        let etc = "/etc/systemd/system/kubelet.service.d/20-join.conf";
        let line = " Environment=\"KUBELET_EXTRA_ARGS=--v=2\"\n";
        let edit = format!("edit {etc}: comment out {:?}", line.trim());
        plans(
            &FIX,
            [
                ("as packaged", facts().with_query(&KUBELET, &sample::packaged()), &[]),
                ("no section", with(etc, line), &[&edit, "make systemd read its unit files anew"]),
                (
                    "before the section",
                    with(etc, &format!("{line}[Service]\nA=b\n")),
                    &[&edit, "make systemd read its unit files anew"],
                ),
                ("in the section, too", with(etc, &format!("{line}[Service]\n{line}")), &[]),
                ("goes on", with(etc, "Environment=A=b \\\n C=d\n"), &[]),
                ("a secret was taken out", with(etc, "Environment=T=<redacted:bootstrap-token>\n"), &[]),
                ("a package's", with("/usr/lib/systemd/system/kubelet.service.d/20-join.conf", line), &[]),
            ],
        );
    }
}
