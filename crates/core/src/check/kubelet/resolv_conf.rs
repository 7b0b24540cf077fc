//! The file of name servers that the kubelet is told to read is there.
//!
//! A cluster made on a machine with systemd-resolved tells every node `resolvConf: /run/systemd/resolve/resolv.conf`.
//! On a machine without systemd-resolved that file is missing: the join succeeds, the node is Ready, and no pod starts.
//!
//! See it yourself: `grep resolvConf /var/lib/kubelet/config.yaml`, `ls -l /run/systemd/resolve/resolv.conf`
//! Fix: `systemctl enable --now systemd-resolved`, or join with `--resolv-conf=/etc/resolv.conf` in
//! KUBELET_EXTRA_ARGS

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip,
};
use crate::fact::kubelet_config::KubeletConfig;
use crate::fact::{Facts, Known, OrAbsent, kubelet_config};
use crate::id;

pub const CHECK: Check = Check {
    id: "kubelet.resolv-conf",
    title: "the kubelet's file of name servers is there",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("which name servers pods shall ask is a choice"),
    accounts_for: nothing,
    judge,
};

/// The kubelet's default.
const DEFAULT: &str = "/etc/resolv.conf";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some((path, seen)) = wanted(facts)? else {
        return Ok(skip("nobody names a file yet: give --api to ask the cluster"));
    };
    if path.is_empty() {
        return Ok(pass("the kubelet reads no file of name servers").seen(seen));
    }
    if facts.file(&path).or_absent()?.is_some() {
        return Ok(pass(format!("{path} is there")).seen(seen));
    }
    Ok(fail(format!("{path} is not there: no pod would start"))
        .seen(seen)
        .fix("systemctl enable --now systemd-resolved")
        .fix("echo 'KUBELET_EXTRA_ARGS=--resolv-conf=/etc/resolv.conf' >> /etc/default/kubelet    # or that")
        .explains([id!("pod.no-address")]))
}

/// The file the kubelet will read, and who says so; `None` where nothing says it yet.
fn wanted(facts: &Facts) -> Known<Option<(String, Evidence)>> {
    if let Ok(command) = facts.kubelet_command()
        && let Some((path, word)) = command.flag("--resolv-conf")
    {
        return Ok(Some((path.to_owned(), word.seen.clone())));
    }
    // What `--config-dir` lays over it stays where it is.
    let laid_over = facts.kubelet_config_line("resolvConf").filter(|seen| seen.source != kubelet_config::FILE);
    let of = |config: KubeletConfig, source: &str| {
        let path = config.resolv_conf.unwrap_or_else(|| DEFAULT.to_owned());
        let seen = Evidence::of(source, format!("resolvConf: {path}"));
        (path, laid_over.clone().unwrap_or(seen))
    };
    let file = facts.kubelet_config().or_absent()?.map(|config| of(config, kubelet_config::FILE));
    if facts.has_kubelet_conf()? && file.is_some() {
        return Ok(file);
    }
    // A join writes the file anew from what the cluster gives.
    let coming = facts.coming_kubelet_config()?;
    Ok(coming.map(|config| of(config, "the cluster's kubelet-config")).or(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::kubelet_config::{RESOLVED, sample};
    use crate::fact::unit::{self, DEFAULTS};
    use crate::fact::{Source, Why, kubeconfig};
    use crate::testing::{facts, judge_row, table};

    fn debian() -> Facts {
        facts()
            .without_file(RESOLVED)
            .with_file(DEFAULT, "nameserver 10.0.0.1\n")
            .without_file(kubelet_config::FILE)
            .without_file(kubeconfig::KUBELET)
    }

    fn cluster(facts: Facts, path: &str) -> Facts {
        facts.with_api("kubelet-config", &sample::with(&format!("resolvConf: {path}\n")))
    }

    fn file(facts: Facts, path: &str) -> Facts {
        facts.with_file(kubelet_config::FILE, &sample::with(&format!("resolvConf: {path}\n")))
    }

    #[test]
    fn judges() {
        let flag = |facts: Facts| {
            facts
                .with_query(&unit::KUBELET, &unit::sample::packaged())
                .with_file(DEFAULTS, "KUBELET_EXTRA_ARGS=--resolv-conf=/etc/resolv.conf\n")
        };
        table(
            &CHECK,
            [
                ("Ubuntu to Ubuntu", cluster(debian(), RESOLVED).with_file(RESOLVED, ""), Pass),
                ("Debian to Ubuntu", cluster(debian(), RESOLVED), Fail),
                ("Debian to Ubuntu, with a flag", flag(cluster(debian(), RESOLVED)), Pass),
                ("the default", debian().with_api("kubelet-config", &sample::with("")), Pass),
                ("none at all", cluster(debian(), "\"\""), Pass),
                ("joined", file(debian(), RESOLVED).with_file(kubeconfig::KUBELET, ""), Fail),
                (
                    "joined: the file counts",
                    file(cluster(debian(), DEFAULT), RESOLVED).with_file(kubeconfig::KUBELET, ""),
                    Fail,
                ),
                ("not joined: the cluster counts", file(cluster(debian(), DEFAULT), RESOLVED), Pass),
                ("left by an earlier join", file(debian(), RESOLVED), Fail),
                ("a file nobody looked for", cluster(debian(), "/etc/other.conf"), Unknown),
                ("the cluster did not answer", debian().without(Source::Api("kubelet-config"), Why::TimedOut), Unknown),
                (
                    "configuration not readable",
                    debian().without(Source::File(kubelet_config::FILE), Why::Denied),
                    Unknown,
                ),
            ],
        );
        judge_row(&CHECK, &CheckPolicy::default(), "nobody says", &debian(), Skip);
        let verdict = CHECK.verdict(&cluster(debian(), RESOLVED), &CheckPolicy::default());
        assert_eq!(verdict.says, "/run/systemd/resolve/resolv.conf is not there: no pod would start");
        assert_eq!(
            verdict.evidence[0].to_string(),
            "the cluster's kubelet-config: resolvConf: /run/systemd/resolve/resolv.conf"
        );
    }
}
