//! The files of the kubelet's, kubeadm's and the runtime's packages are as they were shipped.
//!
//! A package manager believes a package is installed, whatever became of its files. A deleted drop-in (the usual victim
//! of a clean-up script) leaves a kubelet that runs alone; a deleted program, none at all.
//!
//! See it yourself: `dpkg -V kubelet kubeadm` or `rpm -V kubelet kubeadm`
//! Mend it: `apt-get install --reinstall kubelet kubeadm` or `dnf reinstall kubelet kubeadm`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn};
use crate::fact::package::Altered;
use crate::fact::{Facts, Known};
use crate::fix::kubelet_drop_in::FILE as DROP_IN;
use crate::id;

pub const CHECK: Check = Check {
    id: "kubelet.package-intact",
    title: "the packages' files are as they were shipped",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::PACKAGES,
    accounts_for: nothing,
    judge,
};

/// Without one of these a join fails; other files of a package (documentation, say) are left out on purpose on many
/// machines.
const PROGRAMS: [&str; 5] = ["kubelet", "kubeadm", "containerd", "containerd-shim-runc-v2", "runc"];

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let packages = facts.packages()?;
    if !packages.iter().any(|package| package.name == "kubelet" || package.name == "kubeadm") {
        return Ok(skip("kubelet and kubeadm do not come from a package"));
    }
    let altered = facts.altered_files()?;
    let (missing, changed): (Vec<&Altered>, Vec<&Altered>) =
        altered.iter().filter(|file| is_program(file) || is_unit_file(file)).partition(|file| file.missing);
    let cite = |files: &[&Altered]| files.iter().map(|file| file.cite()).collect::<Vec<_>>();
    if let Some(worst) = missing.iter().find(|file| is_program(file)).or(missing.first()) {
        let says = format!("{} is missing from its package", worst.path);
        // Somebody may have put another unit file in its place.
        let works = facts.kubelet_command().is_ok_and(|it| it.has_flag("--kubeconfig") && it.has_flag("--config"));
        if works && missing.iter().all(|file| is_drop_in(file)) && has_carricks(facts) {
            return Ok(pass(format!("{} is missing from its package; {DROP_IN} stands in its place", worst.path))
                .seen(cite(&missing)));
        }
        let verdict =
            if works && !is_program(worst) { warn(says) } else { fail(says).explains([id!("kubelet.standalone")]) };
        return Ok(verdict
            .seen(cite(&missing))
            .fix(facts.reinstall_command("kubelet kubeadm"))
            .fix("systemctl daemon-reload"));
    }
    if let Some(first) = changed.iter().find(|file| !file.configuration) {
        return Ok(warn(format!("{} was changed in place: an update undoes it", first.path))
            .seen(cite(&changed))
            .fix(format!("{}    # own settings go to /etc/systemd/system", facts.reinstall_command("kubelet kubeadm")))
            .fix("systemctl daemon-reload"));
    }
    Ok(pass("units and programs are as they were shipped"))
}

fn is_program(file: &Altered) -> bool {
    let name = file.path.strip_prefix("/usr").unwrap_or(&file.path);
    let name = name.strip_prefix("/bin/").or_else(|| name.strip_prefix("/sbin/"));
    name.is_some_and(|name| PROGRAMS.contains(&name))
}

fn is_drop_in(file: &Altered) -> bool {
    file.path.contains("/kubelet.service.d/")
}

/// What `check --fix` writes in place of the packages' drop-in.
fn has_carricks(facts: &Facts) -> bool {
    facts.unit("kubelet").is_ok_and(|unit| unit.drop_ins().any(|file| file.path == DROP_IN))
}

fn is_unit_file(file: &Altered) -> bool {
    file.path.ends_with("/kubelet.service") || is_drop_in(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::package::{INSTALLED, VERIFIED};
    use crate::fact::unit::{KUBELET, sample};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    fn verified(lines: &str) -> Facts {
        facts()
            .with_query(&INSTALLED, "containerd 1.6.20 installed\nkubelet 1.34.4-1.1 installed\n")
            .with_query(&VERIFIED, lines)
    }

    const DROPPED: &str = "missing     /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf\n";

    #[test]
    fn judges() {
        let other = sample::and_drop_in("/etc/systemd/system/kubelet.service.d/my.conf", "[Service]\n");
        let carricks = sample::and_drop_in(DROP_IN, "[Service]\n");
        let unit_too = format!("{DROPPED}missing     /usr/lib/systemd/system/kubelet.service\n");
        let exec = "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf\n";
        let half = sample::with_drop_in("/etc/systemd/system/kubelet.service.d/my.conf", exec);
        table(
            &CHECK,
            [
                ("intact", verified(""), Pass),
                ("documentation left out", verified("missing     /usr/share/doc/kubelet/README.md\n"), Pass),
                (
                    "settings changed, as meant",
                    verified("??5?????? c /etc/systemd/system/kubelet.service.d/10-kubeadm.conf\n"),
                    Pass,
                ),
                ("drop-in deleted", verified(DROPPED), Fail),
                ("drop-in deleted, another in its place", verified(DROPPED).with_query(&KUBELET, &other), Warn),
                ("drop-in deleted, Carrick's in its place", verified(DROPPED).with_query(&KUBELET, &carricks), Pass),
                ("and the unit deleted", verified(&unit_too).with_query(&KUBELET, &carricks), Warn),
                ("drop-in deleted, half of it elsewhere", verified(DROPPED).with_query(&KUBELET, &half), Fail),
                ("program deleted", verified("missing     /usr/bin/kubeadm\n").with_query(&KUBELET, &other), Fail),
                ("runc deleted", verified("missing     /usr/sbin/runc\n"), Fail),
                ("shim deleted, no /usr", verified("missing     /bin/containerd-shim-runc-v2\n"), Fail),
                ("unit edited in place", verified("??5??????   /lib/systemd/system/kubelet.service\n"), Warn),
                (
                    "another program of that name",
                    verified("missing     /usr/share/bash-completion/completions/kubeadm\n"),
                    Pass,
                ),
                ("neither dpkg nor rpm", facts().with_exit(&INSTALLED, 127, "", ""), Unknown),
                ("verification hangs", verified("").without(Source::Query(&VERIFIED), Why::TimedOut), Unknown),
            ],
        );
        let by_hand = facts().with_query(&INSTALLED, "containerd 1.6.20 installed\n");
        judge_row(&CHECK, &CheckPolicy::default(), "installed by hand", &by_hand, Skip);
        let kubeadm = facts().with_query(&INSTALLED, "kubeadm 1.34.4 installed\n").with_query(&VERIFIED, "");
        judge_row(&CHECK, &CheckPolicy::default(), "only kubeadm", &kubeadm, Pass);
    }

    #[test]
    fn the_program_is_named_before_the_drop_in() {
        let verdict =
            CHECK.verdict(&verified(&format!("{DROPPED}missing     /usr/bin/kubelet\n")), &CheckPolicy::default());
        assert_eq!(verdict.says, "/usr/bin/kubelet is missing from its package");
        assert_eq!(verdict.evidence.len(), 2);
    }
}
