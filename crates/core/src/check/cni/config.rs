//! The configuration that the runtime would load can be loaded.
//!
//! containerd takes the first file by name in /etc/cni/net.d that ends in .conf, .conflist or .json. Where that one is
//! broken it takes none, however good the next: the node joins and stays NotReady ("cni plugin not initialized"). None
//! at all is normal before a join: the pod network's own pod writes it. On a machine that must have one already it is a
//! failure.
//!
//! See it yourself: `ls /etc/cni/net.d; journalctl -u containerd | grep 'cni config load failed'`
//! Fix: move the broken file out of the directory: `mv /etc/cni/net.d/FILE /root/`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Outcome, Subsystem, Verdict, fail, pass};
use crate::fact::cni::{Candidate, CniConfigError, Conf};
use crate::fact::{Facts, Known, Why};
use crate::id;

pub const CHECK: Check = Check {
    id: "cni.config",
    title: "the pod network's configuration can be loaded",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("the file is the pod network's: it writes it anew, or somebody put it there"),
    accounts_for: |missing| missing.is_of_file_below("/etc/cni") && matches!(missing.why, Why::Broken(_)),
    judge,
};

fn judge(facts: &Facts, policy: &CheckPolicy) -> Known<Verdict> {
    let candidates = facts.cni_candidates()?;
    let Some(first) = candidates.first() else {
        let dir = facts.cni_conf_dir();
        if !policy.cni_expected {
            return Ok(pass("none yet: normal before a join"));
        }
        return Ok(fail(format!("no pod network is configured in {dir}"))
            .seen(Evidence::of(dir, "no .conf, .conflist or .json"))
            .fix("kubectl get pods -A -o wide --field-selector spec.nodeName={node}    # the pod network's is missing or failing")
            .explains([id!("cni.network-ready"), id!("node.not-ready")]));
    };
    Ok(match of_file(first)? {
        wrong if wrong.outcome == Outcome::Fail => {
            let says = format!("{}, and as the first file it counts", wrong.says);
            Verdict { says, ..wrong }.explains([id!("cni.network-ready"), id!("node.not-ready")])
        }
        verdict => verdict,
    })
}

/// One file by itself, whether or not it is the one that is loaded.
pub fn of_file(file: &Candidate) -> Known<Verdict> {
    let broken = match file.conf.clone()? {
        Ok(conf) => match unfit(&conf) {
            Some(why) => CniConfigError::from(why),
            None => return Ok(pass(format!("{}: network {}", file.name, conf.name))),
        },
        Err(broken) => broken,
    };
    let seen = Evidence { line: broken.line, ..Evidence::of(&file.path, broken.says) };
    Ok(fail(format!("{} is broken", file.name)).seen(seen).fix(format!("mv {} /root/", file.path)))
}

/// What is loaded without a complaint, and refused for every pod.
fn unfit(conf: &Conf) -> Option<String> {
    let letters = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    if !letters(&conf.name) || conf.name.starts_with(['_', '.', '-']) {
        return Some(format!("name {:?}: only letters, digits, _ . and -, the first a letter or digit", conf.name));
    }
    let plugin = conf.plugins.iter().find(|plugin| plugin.kind.contains('/'));
    plugin.map(|plugin| format!("type {:?}: a plugin's name, not a path", plugin.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::Source;
    use crate::testing::{facts, judge_row, table};

    const FLANNEL: &str = r#"{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel"},{"type":"portmap"}]}"#;

    fn flannel() -> Facts {
        facts()
            .with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-flannel.conflist")])
            .with_file("/etc/cni/net.d/10-flannel.conflist", FLANNEL)
    }

    #[test]
    fn judges() {
        let bad = flannel()
            .with_dir("/etc/cni/net.d", &[("-rw-r--r--", "00-bad.conflist"), ("-rw-r--r--", "10-flannel.conflist")])
            .with_file("/etc/cni/net.d/00-bad.conflist", "not json");
        table(
            &CHECK,
            [
                ("flannel's", flannel(), Pass),
                ("none yet", facts().with_dir("/etc/cni/net.d", &[]), Pass),
                ("no directory", facts().without_dir("/etc/cni/net.d"), Pass),
                ("a broken one before a good one", bad.clone(), Fail),
                (
                    "a name that no pod starts with",
                    flannel().with_file("/etc/cni/net.d/10-flannel.conflist", &FLANNEL.replace("cbr0", "my net")),
                    Fail,
                ),
                (
                    "a path for a plugin",
                    flannel().with_file("/etc/cni/net.d/10-flannel.conflist", &FLANNEL.replace("portmap", "../x")),
                    Fail,
                ),
                (
                    "a broken one after it",
                    bad.with_dir(
                        "/etc/cni/net.d",
                        &[("-rw-r--r--", "10-flannel.conflist"), ("-rw-r--r--", "20-bad.conflist")],
                    ),
                    Pass,
                ),
                ("not root", facts().without(Source::Tree("/etc/cni/net.d"), Why::Denied), Unknown),
                (
                    "the file is not for this user",
                    flannel().without(Source::File("/etc/cni/net.d/10-flannel.conflist"), Why::Denied),
                    Unknown,
                ),
            ],
        );
        let expected = CheckPolicy { cni_expected: true };
        judge_row(&CHECK, &expected, "expected and there", &flannel(), Pass);
        judge_row(&CHECK, &expected, "expected and not there", &facts().with_dir("/etc/cni/net.d", &[]), Fail);
        assert_eq!(CHECK.verdict(&flannel(), &CheckPolicy::default()).says, "10-flannel.conflist: network cbr0");
        let torn = flannel().with_file("/etc/cni/net.d/10-flannel.conflist", "{\n\"name\": \"cbr0\",\n");
        let verdict = CHECK.verdict(&torn, &CheckPolicy::default());
        assert_eq!(verdict.says, "10-flannel.conflist is broken, and as the first file it counts");
        assert_eq!((verdict.evidence[0].line, verdict.explains.len()), (Some(3), 2));
    }
}
