//! The directory for the pod network's configuration is there, and root's alone to write.
//!
//! containerd makes /etc/cni/net.d when it starts and watches it. Where it was deleted since (a reset that removes the
//! directory and not only the files in it) the watch is gone, and the configuration that the pod network writes later
//! is never seen: the node stays NotReady until containerd is restarted. Who can write there runs programs as root.
//!
//! See it yourself: `ls -ld /etc/cni/net.d`
//! Mend it: `mkdir -p /etc/cni/net.d && systemctl restart containerd`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::{Facts, Known};
use crate::id;
use crate::join::prepare::Preparation;

pub const CHECK: Check = Check {
    id: "cni.directory",
    title: "the directory for the pod network's configuration is there",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::SetRight(Preparation::PodNetworkDirs),
    fixed_by: FixedBy::Carrick(&["cni_directory"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let path = facts.cni_conf_dir();
    let (parent, name) = path.rsplit_once('/').unwrap_or(("/", &path));
    let Some(entry) = facts.entry(parent, name)? else {
        return Ok(warn(format!("{path} is not there: containerd does not watch it"))
            .seen(Evidence::of(&path, "not there"))
            .fix(format!("mkdir -p {path} && systemctl restart containerd"))
            .explains([id!("cni.network-ready"), id!("node.not-ready")]));
    };
    let seen = Evidence::of(format!("ls -ld {path}"), format!("{} {} {}", entry.mode, entry.uid, entry.gid));
    if entry.is_file() {
        return Ok(fail(format!("{path} is a file: no pod network can be configured"))
            .seen(seen)
            .fix(format!("mv {path} {path}.old && mkdir {path} && systemctl restart containerd"))
            .explains([id!("cni.network-ready"), id!("node.not-ready")]));
    }
    facts.dir(&path)?;
    // `drwxrwxrwx`: the last but one is what everybody may write. A link's own mode says nothing.
    let writable_by_all = entry.is_dir() && entry.mode.as_bytes().get(8) == Some(&b'w');
    if writable_by_all || entry.uid != 0 {
        return Ok(warn(format!("{path} can be written by others than root"))
            .seen(seen)
            .fix(format!("chown root:root {path} && chmod 755 {path}")));
    }
    Ok(pass(format!("{path} is there")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::{Source, Why, dir_key};
    use crate::testing::{facts, table};

    fn net_d(mode: &str) -> Facts {
        facts().with_dir("/etc/cni", &[(mode, "net.d")]).with_dir("/etc/cni/net.d", &[])
    }

    #[test]
    fn judges() {
        let mut owned = net_d("drwxr-xr-x");
        owned
            .insert(dir_key("/etc/cni"), Ok(crate::fact::Capture::text("drwxr-xr-x 1000 0 4096 1763228400 net.d\t\n")));
        table(
            &CHECK,
            [
                ("as containerd makes it", net_d("drwx------"), Pass),
                ("readable", net_d("drwxr-xr-x"), Pass),
                ("a link", net_d("lrwxrwxrwx"), Pass),
                ("not there", net_d("drwxr-xr-x").with_dir("/etc/cni", &[]), Warn),
                ("nothing of CNI", facts().without_dir("/etc/cni").without_dir("/etc/cni/net.d"), Warn),
                ("a file", net_d("-rw-r--r--"), Fail),
                ("open to all", net_d("drwxrwxrwx"), Warn),
                ("somebody's", owned, Warn),
                ("not root", net_d("drwx------").without(Source::Tree("/etc/cni/net.d"), Why::Denied), Unknown),
                ("not looked", facts(), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&net_d("drwxrwxrwx"), &CheckPolicy::default());
        assert_eq!(verdict.evidence[0], Evidence::of("ls -ld /etc/cni/net.d", "drwxrwxrwx 0 0"));
    }
}
