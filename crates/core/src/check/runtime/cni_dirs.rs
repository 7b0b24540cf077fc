//! The runtime looks for the pod network where every CNI plugin puts it.
//!
//! Network add-ons write their configuration to /etc/cni/net.d and their programs to /opt/cni/bin. A runtime that looks
//! elsewhere (Debian's containerd package: /usr/lib/cni) never sees them: the node joins and stays NotReady, or is
//! Ready and no pod starts ("failed to find plugin \"flannel\" in path [/usr/lib/cni]").
//!
//! See it yourself: `crictl info | jq .cniconfig`, `containerd config dump | grep -e bin_dir -e conf_dir`
//! Mend it: set `bin_dir = "/opt/cni/bin"` and `conf_dir = "/etc/cni/net.d"` in containerd's cni table,
//! then `systemctl restart containerd`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, skip, warn,
};
use crate::fact::containerd_config::FILE;
use crate::fact::runtime_sockets::Runtime;
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "runtime.cni-dirs",
    title: "the runtime looks for CNI in the usual places",
    subsystem: Subsystem::Runtime,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["cni_places"]),
    accounts_for: nothing,
    judge,
};

const CONF_DIR: &str = "/etc/cni/net.d";
const BIN_DIR: &str = "/opt/cni/bin";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let runtime = facts.runtime();
    if runtime != Runtime::Containerd {
        return Ok(skip(format!("{} is the runtime", runtime.name())));
    }
    let status = facts.runtime_status().ok().and_then(|it| Some(("crictl info", it.cni_conf_dir?, it.cni_bin_dirs)));
    let effective = facts.containerd_config();
    let config = || {
        let it = effective.as_ref().ok()?;
        Some((it.source, it.config.cni_conf_dir.clone()?, it.config.cni_bin_dirs.clone()))
    };
    let Some((source, conf_dir, bin_dirs)) = status.or_else(config).filter(|(_, _, bin_dirs)| !bin_dirs.is_empty())
    else {
        let missing = effective.err().unwrap_or_else(|| Missing::broken(FILE, "no CNI directories are named"));
        return Err(missing);
    };
    let bins = bin_dirs.join(", ");
    let seen = Evidence::of(source, format!("conf_dir {conf_dir}, bin_dir {bins}"));
    // A trailing slash is the same directory.
    let is = |dir: &str, usual: &str| dir.trim_end_matches('/') == usual;
    let says = match (is(&conf_dir, CONF_DIR), bin_dirs.iter().any(|dir| is(dir, BIN_DIR))) {
        (true, true) => return Ok(pass(format!("{CONF_DIR} and {BIN_DIR}")).seen(seen)),
        (false, true) => format!("CNI configuration is looked for in {conf_dir}, not {CONF_DIR}"),
        (true, false) => format!("CNI programs are looked for in {bins}, not {BIN_DIR}"),
        (false, false) => format!("CNI is looked for in {conf_dir} and {bins}"),
    };
    let lines = [facts.containerd_line("conf_dir"), facts.containerd_line("bin_dir")];
    Ok(warn(says)
        .seen(seen)
        .seen(lines.into_iter().flatten())
        .fix(format!(
            "sed -i 's|bin_dir = .*|bin_dir = \"{BIN_DIR}\"|; s|conf_dir = .*|conf_dir = \"{CONF_DIR}\"|' {FILE}"
        ))
        .fix("systemctl restart containerd")
        .explains([id!("pod.no-address")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::fact::containerd_config::{DUMP, sample};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    fn dump(from: &str, to: &str) -> Facts {
        facts().with_query(&DUMP, &sample::version_2(true).replace(from, to))
    }

    fn status(conf: &str, bin: &str) -> Facts {
        let json = format!(
            r#"{{"status":{{"conditions":[]}},"cniconfig":{{"PluginConfDir":{conf:?},"PluginDirs":[{bin:?}]}}}}"#
        );
        facts().with_cri("status", &json)
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("as usual", dump("", ""), Pass),
                ("with slashes", dump("/opt/cni/bin", "/opt/cni/bin/"), Pass),
                ("one of two", facts().with_query(&DUMP, &sample::version_3(true)), Pass),
                ("what runs", status("/etc/cni/net.d", "/opt/cni/bin"), Pass),
                ("Debian's", dump("/opt/cni/bin", "/usr/lib/cni"), Warn),
                ("k3s's", dump("/etc/cni/net.d", "/var/lib/rancher/k3s/agent/etc/cni/net.d"), Warn),
                ("both", status("/a", "/b"), Warn),
                (
                    "what runs counts before what is written",
                    status("/etc/cni/net.d", "/b").with_query(&DUMP, &sample::version_2(true)),
                    Warn,
                ),
                ("not named", facts().with_query(&DUMP, "version = 2\n"), Unknown),
                ("no containerd to ask", facts().without(Source::Query(&DUMP), Why::NoTool), Unknown),
            ],
        );
        let crio = r#"{"endpoint":"unix:///run/crio/crio.sock","status":{"conditions":[]}}"#;
        judge_row(&CHECK, &CheckPolicy::default(), "CRI-O", &facts().with_cri("status", crio), Skip);
    }

    #[test]
    fn names_the_directory() {
        let says = |facts: &Facts| CHECK.verdict(facts, &CheckPolicy::default()).says;
        assert_eq!(
            says(&dump("/opt/cni/bin", "/usr/lib/cni")),
            "CNI programs are looked for in /usr/lib/cni, not /opt/cni/bin"
        );
        assert_eq!(says(&dump("/etc/cni/net.d", "/x")), "CNI configuration is looked for in /x, not /etc/cni/net.d");
        assert_eq!(says(&status("/a", "/b")), "CNI is looked for in /a and /b");
    }
}
