//! The kubelet gets its flags back from a drop-in of Carrick's own, /etc/systemd/system/kubelet.service.d/05-carrick.conf, that
//! says what the packages' 10-kubeadm.conf says. The packages' files are not touched: where 10-kubeadm.conf comes back, it is
//! read later and counts. Only where kubelet.service starts the bare kubelet, as packaged; a command of somebody's own is
//! theirs. `carrick undo` removes the drop-in.

use super::{Fix, MARK};
use crate::fact::unit::{DEFAULTS, KUBEADM_FLAGS, SYSCONFIG};
use crate::fact::{Facts, Known, OrAbsent};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["kubelet.standalone"], does: "restores the kubeadm drop-in", plan };

/// Carrick's drop-in. It sorts before the packages' 10-kubeadm.conf.
pub const FILE: &str = "/etc/systemd/system/kubelet.service.d/05-carrick.conf";
const DIR: &str = "/etc/systemd/system/kubelet.service.d";

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let Some(program) = bare_kubelet(facts)? else { return Ok(Vec::new()) };
    let defaults = if facts.os_release()?.uses_dnf() { SYSCONFIG } else { DEFAULTS };
    Ok(vec![
        Effect::MakeDir { path: DIR.to_owned(), mode: 0o755 },
        Effect::Write { path: FILE.to_owned(), text: text(&program, defaults), mode: 0o644, in_place: false },
        Effect::ReloadUnits,
    ])
}

/// The program of a unit that starts the kubelet and says nothing else to it.
fn bare_kubelet(facts: &Facts) -> Known<Option<String>> {
    let Some(unit) = facts.unit("kubelet").or_absent()? else { return Ok(None) };
    let command = unit.exec_start().map(|(_, directive)| directive.value.clone());
    Ok(command.filter(|command| command.starts_with('/') && command.ends_with("/kubelet") && is_plain(command)))
}

fn is_plain(path: &str) -> bool {
    path.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.".contains(c))
}

/// As in the packages since 1.11; the deb and the rpm differ in where the operator's own flags stand.
fn text(program: &str, defaults: &str) -> String {
    format!(
        "{MARK}[Service]\n\
         Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
         --kubeconfig=/etc/kubernetes/kubelet.conf\"\n\
         Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\n\
         EnvironmentFile=-{KUBEADM_FLAGS}\n\
         EnvironmentFile=-{defaults}\n\
         ExecStart=\n\
         ExecStart={program} $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::unit::{KUBELET, parse_cat, sample};
    use crate::testing::{facts, plans};

    fn with(cat: &str) -> Facts {
        facts().with_query(&KUBELET, cat).with_file("/etc/os-release", "ID=debian\n")
    }

    const RESTORED: [&str; 3] = [
        "make the directory /etc/systemd/system/kubelet.service.d (mode 0755)",
        "write /etc/systemd/system/kubelet.service.d/05-carrick.conf",
        "make systemd read its unit files anew",
    ];

    #[test]
    fn only_a_bare_kubelet_gets_the_drop_in() {
        let own = sample::bare().replace("/usr/bin/kubelet", "/usr/bin/kubelet --hostname-override=a");
        let proxy =
            sample::with_drop_in("/etc/systemd/system/kubelet.service.d/p.conf", "[Service]\nEnvironment=A=b\n");
        plans(
            &FIX,
            [
                ("as packaged", with(&sample::packaged()), &[]),
                ("drop-in deleted", with(&sample::bare()), &RESTORED),
                ("drop-in deleted, another is there", with(&proxy), &RESTORED),
                ("a command of its own", with(&own), &[]),
                ("a script", with(&sample::bare().replace("bin/kubelet", "bin/start-kubelet")), &[]),
                ("masked", with("# Unit kubelet.service is masked.\n"), &[]),
                ("no unit", facts().with_exit(&KUBELET, 1, "", "No files found for kubelet.service.\n"), &[]),
            ],
        );
    }

    #[test]
    fn it_says_what_the_packages_say() {
        let said = |text: &str| {
            let unit = parse_cat(&format!("# {}\n{text}", sample::DROP_IN_PATH));
            unit.directives().map(|(_, it)| format!("[{}] {}={}", it.section, it.key, it.value)).collect::<Vec<_>>()
        };
        let packaged = sample::packaged();
        let shipped = crate::fact::unit::lines_of(&packaged, sample::DROP_IN_PATH).join("\n");
        assert_eq!(said(&text("/usr/bin/kubelet", DEFAULTS)), said(&shipped));
    }

    #[test]
    fn the_rpms_flags_stand_elsewhere() {
        let rocky =
            with(&sample::bare()).with_file("/etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n");
        let effects = plan(&rocky).unwrap();
        let Some(Effect::Write { text, .. }) = effects.get(1) else { panic!("{effects:?}") };
        assert!(text.contains("EnvironmentFile=-/etc/sysconfig/kubelet\n"), "{text}");
    }
}
