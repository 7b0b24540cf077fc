//! Every program that the pod network calls is there and can run.
//!
//! containerd never looks at the programs: with one missing the node is Ready and no pod starts ("failed to find plugin
//! \"bridge\" in path [/opt/cni/bin]"). flannel's pod installs `flannel` alone; bridge, host-local, portmap and
//! loopback come with the package kubernetes-cni. A program must be a file, executable, and built for this machine: a
//! directory of that name, half a download or an error page is none.
//!
//! See it yourself: `file /opt/cni/bin/*`; `crictl info | grep -A3 PluginDirs` says where they are looked for
//! Fix: `apt-get install --reinstall kubernetes-cni` (`dnf reinstall kubernetes-cni`)

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::cni::Program;
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "cni.plugins",
    title: "every program the pod network calls is there and can run",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::UntilNetwork,
    role: Role::Root,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["cni_programs"]),
    accounts_for: nothing,
    judge,
};

/// What flannel calls and does not bring: looked for before it is configured.
pub(crate) const USUAL: [&str; 4] = ["loopback", "bridge", "host-local", "portmap"];

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let winner = facts.cni_winner()?;
    let programs: Vec<&str> = winner.as_ref().map_or_else(|| USUAL.to_vec(), |(_, conf)| conf.programs());
    let mut wrong = Vec::new();
    let mut missing: Option<Missing> = None;
    for name in &programs {
        match facts.cni_program(name) {
            Ok(Program::Usable) => {}
            Ok(program) => wrong.push((*name, program)),
            Err(why) => missing = missing.or(Some(why)),
        }
    }
    let names = |names: &[&str]| names.join(", ");
    let dirs = facts.cni_bin_dirs().join(", ");
    if wrong.is_empty() {
        return match missing {
            Some(missing) => Err(missing),
            None => Ok(pass(format!("{} are in {dirs}", names(&programs)))),
        };
    }
    let bad: Vec<&str> = wrong.iter().map(|(name, _)| *name).collect();
    let verdict = match &winner {
        Some((winner, _)) => fail(format!("{} needs {}: not usable in {dirs}", winner.name, names(&bad)))
            .explains([id!("pod.no-address")]),
        None => warn(format!("{} not usable in {dirs}: flannel needs them", names(&bad))),
    };
    let verdict = verdict.seen(wrong.iter().map(|(name, program)| seen(name, program, &dirs)));
    let verdict = wrong.iter().fold(verdict, |verdict, (_, program)| match program {
        Program::NotAFile { path, .. } => verdict.fix(format!("mv {path} {path}.old")),
        _ => verdict,
    });
    if bad.contains(&"flannel") {
        return Ok(verdict.fix(
            "kubectl -n kube-flannel delete pod -l app=flannel --field-selector spec.nodeName={node}    # it installs it",
        ));
    }
    Ok(verdict.fix("apt-get install --reinstall kubernetes-cni    # or: dnf reinstall kubernetes-cni"))
}

fn seen(name: &str, program: &Program, dirs: &str) -> Evidence {
    match program {
        Program::Usable | Program::Missing => Evidence::of(dirs, format!("{name}: not there")),
        Program::NotAFile { path, mode } => Evidence::of(path, format!("{mode}: not a file")),
        Program::NotExecutable { path, mode } => Evidence::of(path, format!("{mode}: not executable")),
        Program::NotAProgram { path, bytes } => Evidence::of(path, format!("begins with \"{bytes}\": not a program")),
        Program::OtherMachine { path, built_for, machine } => {
            Evidence::of(path, format!("built for {built_for}; this machine is {machine}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::cni::HEADERS;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const ELF: &str = " 7f 45 4c 46 02 01 01 00 00 00 00 00 00 00 00 00\n 02 00 3e 00\n";
    const ALL: [&str; 5] = ["loopback", "bridge", "host-local", "portmap", "flannel"];

    /// All of them but one, which is as given: its mode and first bytes.
    fn bin(name: &str, mode: &str, bytes: &str) -> Facts {
        let others = ALL.iter().filter(|other| **other != name);
        let mut entries: Vec<(&str, &str)> = others.clone().map(|other| ("-rwxr-xr-x", *other)).collect();
        let mut headers = others.fold("x86_64\n".to_owned(), |all, other| all + "/opt/cni/bin/" + other + "\n" + ELF);
        if !mode.is_empty() {
            entries.push((mode, name));
        }
        if !bytes.is_empty() {
            headers = headers + "/opt/cni/bin/" + name + "\n" + bytes;
        }
        facts().with_dir("/opt/cni/bin", &entries).with_query(&HEADERS, &headers).with_dir("/etc/cni/net.d", &[])
    }

    fn flannel(facts: Facts) -> Facts {
        facts.with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-flannel.conflist")]).with_file(
            "/etc/cni/net.d/10-flannel.conflist",
            r#"{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel"},{"type":"portmap"}]}"#,
        )
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("all there", flannel(bin("", "", "")), Pass),
                ("before the pod network", bin("flannel", "", ""), Pass),
                ("bridge missing before the pod network", bin("bridge", "", ""), Warn),
                ("no directory before the pod network", bin("", "", "").without_dir("/opt/cni/bin"), Warn),
                ("flannel missing", flannel(bin("flannel", "", "")), Fail),
                ("host-local missing", flannel(bin("host-local", "", "")), Fail),
                ("loopback missing", flannel(bin("loopback", "", "")), Fail),
                ("flannel is a directory", flannel(bin("flannel", "drwxr-xr-x", "")), Fail),
                ("not executable", flannel(bin("portmap", "-rw-r--r--", ELF)), Fail),
                ("an error page", flannel(bin("portmap", "-rwxr-xr-x", " 3c 68 74 6d 6c 3e\n")), Fail),
                ("for another machine", flannel(bin("portmap", "-rwxr-xr-x", &ELF.replace("3e", "b7"))), Fail),
                ("bytes not read", flannel(bin("portmap", "-rwxr-xr-x", "")), Unknown),
                ("headers not read", flannel(bin("", "", "")).without(Source::Query(&HEADERS), Why::TimedOut), Unknown),
                (
                    "configuration not read",
                    bin("", "", "").without(Source::Tree("/etc/cni/net.d"), Why::Denied),
                    Unknown,
                ),
            ],
        );
        let text = |facts: Facts| {
            let verdict = CHECK.verdict(&facts, &CheckPolicy::default());
            (verdict.evidence[0].to_string(), verdict.remedy.concat())
        };
        let (seen, fix) = text(flannel(bin("flannel", "drwxr-xr-x", "")));
        assert_eq!(seen, "/opt/cni/bin/flannel: drwxr-xr-x: not a file");
        assert!(fix.starts_with("mv /opt/cni/bin/flannel ") && fix.contains("kube-flannel"));
        let (seen, fix) = text(flannel(bin("portmap", "-rwxr-xr-x", " 3c 68 74 6d 6c 3e\n")));
        assert_eq!(seen, "/opt/cni/bin/portmap: begins with \"<html>\": not a program");
        assert!(fix.contains("kubernetes-cni") && !fix.contains("kube-flannel"));
        let (seen, _) = text(flannel(bin("portmap", "-rwxr-xr-x", &ELF.replace("3e", "b7"))));
        assert_eq!(seen, "/opt/cni/bin/portmap: built for aarch64; this machine is x86_64");
        assert_eq!(
            text(flannel(bin("portmap", "-rw-r--r--", ELF))).0,
            "/opt/cni/bin/portmap: -rw-r--r--: not executable"
        );
        assert_eq!(text(bin("bridge", "", "")).0, "/opt/cni/bin: bridge: not there");
    }
}
