//! The configuration's CNI version is one that the runtime and the plugins know.
//!
//! Runtime and plugins speak the version that the file names in `cniVersion`. One they do not know fails every pod
//! ("incompatible CNI versions", "unsupported CNI result version"), on a node that is Ready. 1.1.0 needs containerd
//! 2.0. A file that names none is taken as 0.1.0, the oldest.
//!
//! See it yourself: `grep cniVersion /etc/cni/net.d/*`
//! Mend it: in the pod network's manifest or ConfigMap, set `cniVersion` to 1.0.0 or 0.3.1, and roll it out.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::cni::{Candidate, Conf};
use crate::fact::version::Version;
use crate::fact::{Facts, Known, Missing, Why};
use crate::id;

pub const CHECK: Check = Check {
    id: "cni.version",
    title: "the CNI version of the configuration is known",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("the version is set in the pod network's manifest, for all nodes"),
    accounts_for: nothing,
    judge,
};

/// Every version of the specification there is.
const KNOWN: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];
/// The first containerd whose CNI library reads results of 1.1.0.
const READS_1_1: Version = Version { major: 2, minor: 0, patch: 0 };

const FIX: &str =
    "kubectl -n kube-flannel edit configmap kube-flannel-cfg    # or your pod network's: cniVersion 1.0.0";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some((winner, conf)) = facts.cni_winner()? else {
        return Ok(skip("no configuration yet: normal before a join"));
    };
    // Another runtime than containerd: nothing to hold it against.
    let containerd = || match facts.containerd_version() {
        Err(Missing { why: Why::NoTool, .. }) => Ok(None),
        containerd => containerd.map(Some),
    };
    of_file(&winner, &conf, containerd)
}

/// One file by itself; `containerd` is asked for its version where that matters.
pub fn of_file(file: &Candidate, conf: &Conf, containerd: impl FnOnce() -> Known<Option<Version>>) -> Known<Verdict> {
    let Some(version) = &conf.version else {
        return Ok(warn(format!("{} names no cniVersion: taken as 0.1.0", file.name))
            .seen(Evidence::of(&file.path, "no cniVersion"))
            .fix(FIX));
    };
    let seen = Evidence::of(&file.path, format!("cniVersion {version}"));
    if !KNOWN.contains(&version.as_str()) {
        return Ok(fail(format!("{} names CNI version {version}, which there is not", file.name)).seen(seen).fix(FIX));
    }
    if version == "1.1.0"
        && let Some(containerd) = containerd()?.filter(|containerd| *containerd < READS_1_1)
    {
        return Ok(warn(format!("containerd {containerd} does not know CNI 1.1.0; 2.0 does"))
            .seen(seen)
            .fix(FIX)
            .explains([id!("pod.no-address")]));
    }
    Ok(pass(format!("{}: CNI {version}", file.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::Source;
    use crate::fact::version::CONTAINERD;
    use crate::testing::{facts, table};

    fn conf(version: &str) -> Facts {
        facts()
            .with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-x.conf")])
            .with_file("/etc/cni/net.d/10-x.conf", &format!(r#"{{"name":"x","type":"bridge"{version}}}"#))
    }

    #[test]
    fn judges() {
        let new = || conf(r#","cniVersion":"1.1.0""#);
        table(
            &CHECK,
            [
                ("flannel's", conf(r#","cniVersion":"0.3.1""#), Pass),
                ("none", conf(""), Warn),
                ("none such", conf(r#","cniVersion":"0.9.9""#), Fail),
                (
                    "1.1.0 and containerd 2.0",
                    new().with_query(&CONTAINERD, "containerd github.com/containerd/containerd v2.0.0 x"),
                    Pass,
                ),
                ("1.1.0 and containerd 1.7", new().with_query(&CONTAINERD, "containerd containerd.io 1.7.27 x"), Warn),
                (
                    "1.0.0 and containerd 1.7",
                    conf(r#","cniVersion":"1.0.0""#).with_query(&CONTAINERD, "containerd containerd.io 1.7.27 x"),
                    Pass,
                ),
                ("1.1.0 and no containerd", new().without(Source::Query(&CONTAINERD), Why::NoTool), Pass),
                ("1.1.0 and not known", new().without(Source::Query(&CONTAINERD), Why::TimedOut), Unknown),
                ("no configuration", facts().with_dir("/etc/cni/net.d", &[]), Skip),
                ("not root", facts().without(Source::Tree("/etc/cni/net.d"), Why::Denied), Unknown),
            ],
        );
    }
}
