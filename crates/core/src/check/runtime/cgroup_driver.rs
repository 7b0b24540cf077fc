//! The kubelet and the container runtime use the same cgroup driver.
//!
//! Where they differ, the join succeeds and nothing works: no pod starts, or each is killed about 70 s after its start,
//! with clean logs and "Pod sandbox changed, it will be killed and re-created". kubeadm sets systemd for the kubelet;
//! containerd's own default is cgroupfs. From kubelet 1.31 with containerd 2.0 on the kubelet asks the runtime, and
//! they cannot differ. On cgroup v2 both should be systemd: with cgroupfs there are two managers of one tree, which
//! breaks under pressure.
//!
//! See it yourself: `containerd config dump | grep SystemdCgroup`, `grep cgroupDriver /var/lib/kubelet/config.yaml`
//! Mend it: set `SystemdCgroup = true` in the table of runc's options, then `systemctl restart containerd`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn};
use crate::fact::containerd_config::FILE;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "runtime.cgroup-driver",
    title: "kubelet and runtime use the same cgroup driver",
    subsystem: Subsystem::Runtime,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["cgroup_driver"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let runtime = facts.container_driver()?;
    let kubelet = facts.kubelet_driver()?;
    if kubelet.name != runtime.name {
        let says =
            format!("cgroup drivers differ: kubelet {}, {} {}", kubelet.name, facts.runtime().name(), runtime.name);
        let verdict = if kubelet.assumed { warn(format!("{says}, unless the cluster says so")) } else { fail(says) };
        return Ok(mend(verdict, facts, &kubelet.name)
            .seen(kubelet.seen)
            .seen(runtime.seen)
            .explains([id!("runtime.cgroup-mismatch"), id!("node.not-ready")]));
    }
    if kubelet.name == "cgroupfs" && facts.unified_cgroups()? {
        return Ok(mend(warn("both use cgroupfs on cgroup v2: two managers of one tree"), facts, "systemd")
            .fix("set cgroupDriver: systemd in the cluster's kubelet-config too")
            .seen(kubelet.seen)
            .seen(runtime.seen));
    }
    let how = if kubelet.shared { "the kubelet asks the runtime" } else { "kubelet and runtime agree" };
    Ok(pass(format!("{}: {how}", kubelet.name)).seen(kubelet.seen).seen(runtime.seen))
}

/// The kubelet's driver is the cluster's choice: the runtime follows.
fn mend(verdict: Verdict, facts: &Facts, wanted: &str) -> Verdict {
    let (from, to) = if wanted == "systemd" { ("false", "true") } else { ("true", "false") };
    let edit = format!("sed 's/SystemdCgroup = {from}/SystemdCgroup = {to}/'");
    let verdict = match facts.containerd_line(&format!("SystemdCgroup = {from}")) {
        Some(line) => verdict.fix(format!("sed -i '{}s/{from}/{to}/' {FILE}", line.line.unwrap_or(1))),
        None => verdict.fix(format!("cp -a {FILE} {FILE}.before; containerd config default | {edit} > {FILE}")),
    };
    verdict.fix("systemctl restart containerd")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::containerd_config::{self, DUMP};
    use crate::fact::{Source, Why, kubeconfig, kubelet_config, unit, version};
    use crate::testing::{facts, table};

    const V2: &str = "/sys/fs/cgroup/cgroup.controllers";

    /// Before a join, on cgroup v2, kubelet 1.34 with a containerd that does not know RuntimeConfig.
    fn machine(systemd: bool) -> Facts {
        facts()
            .with_query(&version::KUBELET, "Kubernetes v1.34.4\n")
            .with_query(&DUMP, &containerd_config::sample::version_2(systemd))
            .without(Source::Cri("runtime-config"), Why::Broken("unknown method RuntimeConfig".into()))
            .with_file(V2, "cpuset cpu io memory pids\n")
            .without_file(kubelet_config::FILE)
            .without_file(kubeconfig::KUBELET)
    }

    fn cluster(facts: Facts, driver: &str) -> Facts {
        facts.with_api("kubelet-config", &kubelet_config::sample::with(&format!("cgroupDriver: {driver}\n")))
    }

    fn file(facts: Facts, lines: &str) -> Facts {
        facts.with_file(kubelet_config::FILE, &kubelet_config::sample::with(lines))
    }

    fn says(facts: &Facts) -> String {
        let verdict = CHECK.verdict(facts, &CheckPolicy::default());
        verdict.evidence.iter().fold(verdict.says, |text, seen| format!("{text} | {seen}"))
    }

    #[test]
    fn judges() {
        let asked = |driver: &str| {
            machine(false).with_cri("runtime-config", &format!(r#"{{"linux":{{"cgroupDriver":"{driver}"}}}}"#))
        };
        let old = |facts: Facts| facts.with_query(&version::KUBELET, "Kubernetes v1.30.14\n");
        let extra = |facts: Facts, flag: &str| {
            facts
                .with_query(&unit::KUBELET, &unit::sample::packaged())
                .with_file(unit::DEFAULTS, &format!("KUBELET_EXTRA_ARGS={flag}\n"))
        };
        table(
            &CHECK,
            [
                ("kubeadm's default", machine(true), Pass),
                ("containerd's default, nobody asked the cluster", machine(false), Warn),
                ("containerd's default", cluster(machine(false), "systemd"), Fail),
                ("the cluster says cgroupfs", cluster(machine(true), "cgroupfs"), Fail),
                ("both cgroupfs on v2", cluster(machine(false), "cgroupfs"), Warn),
                ("both cgroupfs on v1", cluster(machine(false), "cgroupfs").without_file(V2), Pass),
                (
                    "both cgroupfs, tree unknown",
                    cluster(machine(false), "cgroupfs").without(Source::File(V2), Why::Denied),
                    Unknown,
                ),
                ("the kubelet asks", asked("SYSTEMD"), Pass),
                ("the kubelet asks and hears cgroupfs", asked("CGROUPFS"), Warn),
                ("1.30 does not ask yet", old(cluster(asked("CGROUPFS"), "systemd")), Fail),
                (
                    "1.31 does",
                    asked("CGROUPFS").with_query(&version::KUBELET, "Kubernetes v1.31.0\n").without_file(V2),
                    Pass,
                ),
                ("a flag", extra(machine(true), "--cgroup-driver=cgroupfs"), Fail),
                ("no dump, no file", machine(true).without(Source::Query(&DUMP), Why::NoTool), Unknown),
                (
                    "config.yaml cannot be read",
                    machine(true).without(Source::File(kubelet_config::FILE), Why::Denied),
                    Unknown,
                ),
                ("the cluster's answer is no YAML", machine(true).with_api("kubelet-config", "{"), Unknown),
            ],
        );
    }

    #[test]
    fn before_a_join_the_cluster_counts_and_after_it_the_file() {
        let both = || cluster(file(machine(true), "cgroupDriver: cgroupfs\n"), "systemd");
        assert!(says(&both()).starts_with("systemd: kubelet and runtime agree"));
        let joined = both().with_file(kubeconfig::KUBELET, "");
        assert!(says(&joined).starts_with("cgroup drivers differ: kubelet cgroupfs, containerd systemd"));
        assert!(says(&joined).contains("/var/lib/kubelet/config.yaml:15  cgroupDriver: cgroupfs"), "{}", says(&joined));
    }

    #[test]
    fn what_is_not_written_is_filled_in_as_kubelet_and_kubeadm_do() {
        assert!(says(&file(machine(true), "")).contains("no cgroupDriver: the kubelet's default is cgroupfs"));
        let cluster = machine(true).with_api("kubelet-config", &kubelet_config::sample::with(""));
        assert!(says(&cluster).starts_with("systemd: kubelet and runtime agree"));
    }

    #[test]
    fn names_both_sides_and_where_they_were_read() {
        assert_eq!(
            says(&machine(false)),
            "cgroup drivers differ: kubelet systemd, containerd cgroupfs, unless the cluster says so | kubeadm: its default \
             is cgroupDriver: systemd | containerd config dump: SystemdCgroup = false"
        );
    }

    #[test]
    fn the_stub_with_a_line_at_its_end_is_cgroupfs() {
        let stub = machine(true)
            .with_file(FILE, containerd_config::sample::STUB_WITH_STRAY)
            .without(Source::Query(&DUMP), Why::TimedOut);
        assert!(
            says(&stub).ends_with("/etc/containerd/config.toml: SystemdCgroup is not set: the default is cgroupfs"),
            "{}",
            says(&stub)
        );
        let set = machine(true)
            .with_file(FILE, &containerd_config::sample::version_2(true))
            .without(Source::Query(&DUMP), Why::TimedOut);
        assert!(says(&set).ends_with("/etc/containerd/config.toml:30  SystemdCgroup = true"), "{}", says(&set));
    }

    #[test]
    fn the_line_is_edited_where_there_is_one() {
        let remedy = |facts: &Facts| CHECK.verdict(facts, &CheckPolicy::default()).remedy.remove(0);
        let set = machine(false).with_file(FILE, &containerd_config::sample::version_2(false));
        assert_eq!(remedy(&set), "sed -i '30s/false/true/' /etc/containerd/config.toml");
        let set = cluster(machine(true), "cgroupfs").with_file(FILE, &containerd_config::sample::version_2(true));
        assert_eq!(remedy(&set), "sed -i '30s/true/false/' /etc/containerd/config.toml");
        assert!(
            remedy(&machine(false))
                .contains("containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/'")
        );
    }

    #[test]
    fn the_runtimes_own_word_counts_where_there_is_no_configuration() {
        let status = r#"{"status":{"conditions":[]},"config":{"containerd":{"runtimes":{"runc":{"options":{"SystemdCgroup":true}}}}}}"#;
        let known = machine(true).without(Source::Query(&DUMP), Why::NoTool).with_cri("status", status);
        assert!(says(&known).ends_with("crictl info: SystemdCgroup true"), "{}", says(&known));
    }

    #[test]
    fn a_runtime_that_is_not_containerd_must_tell_itself() {
        let status = r#"{"endpoint":"unix:///run/crio/crio.sock","status":{"conditions":[]}}"#;
        let verdict = CHECK.verdict(&machine(true).with_cri("status", status), &CheckPolicy::default());
        assert_eq!(verdict.outcome, Unknown);
    }
}
