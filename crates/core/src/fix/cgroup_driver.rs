//! `SystemdCgroup` is set in containerd's configuration so that its cgroup driver is the kubelet's, comments and everything
//! else staying as they are, and containerd is restarted; containers go on running. Where there is no configuration, a small
//! one is written. The kubelet's driver is the cluster's choice and is not changed; where the cluster was not asked, systemd is
//! assumed on cgroup v2 only. `carrick undo` puts the file back and restarts containerd again.

use super::Fix;
use super::runtime::{Configuration, reads_anew};
use crate::fact::{Facts, Known};
use crate::plan::edit::Set;
use crate::plan::{Edit, Effect};

pub const FIX: Fix = Fix {
    fixes: &["runtime.cgroup-driver"],
    does: "gives containerd the kubelet's cgroup driver, and restarts it",
    plan,
};

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let (Some(wanted), Some(configuration)) = (wanted(facts)?, Configuration::of(facts)?) else {
        return Ok(Vec::new());
    };
    if facts.containerd_dump()?.systemd_cgroup == Some(wanted) {
        // It was set and not read: what runs says otherwise.
        return Ok(reads_anew(facts)?.into_iter().collect());
    }
    match settings(facts, &configuration)? {
        Some(set) => configuration.changed(facts, Edit::Toml { set }, |read| read.systemd_cgroup == Some(wanted)),
        None => Ok(Vec::new()),
    }
}

/// Whether containerd should use systemd; `None` where it is right, or not to be decided here.
fn wanted(facts: &Facts) -> Known<Option<bool>> {
    let (runtime, kubelet) = (facts.container_driver()?, facts.kubelet_driver()?);
    let unified = facts.unified_cgroups()?;
    if kubelet.name != runtime.name {
        let is_sure = !kubelet.assumed || unified;
        return Ok(is_sure.then_some(kubelet.name == "systemd"));
    }
    // The kubelet follows the runtime. On a node with pods that would pull the cgroups from under them.
    let follows = kubelet.shared && kubelet.name == "cgroupfs" && unified && !facts.has_kubelet_conf()?;
    Ok(follows.then_some(true))
}

/// What has to be set in the file, where something has.
pub(super) fn settings(facts: &Facts, configuration: &Configuration) -> Known<Option<Vec<Set>>> {
    let Some(wanted) = wanted(facts)? else { return Ok(None) };
    let effective = facts.containerd_dump()?;
    Ok(configuration.driver(effective.default_runtime.as_deref().unwrap_or("runc"), wanted))
}

#[cfg(test)]
mod tests {
    use super::super::runtime::sample::{RESTART, edited, machine};
    use super::*;
    use crate::fact::containerd_config::{FILE, sample};
    use crate::fact::{kubelet_config, unit, version};
    use crate::testing::plans;

    fn two(systemd: bool) -> Facts {
        machine(&sample::version_2(systemd), &sample::version_2(systemd))
    }

    fn cluster(facts: Facts, driver: &str) -> Facts {
        facts.with_api("kubelet-config", &kubelet_config::sample::with(&format!("cgroupDriver: {driver}\n")))
    }

    #[test]
    fn containerd_follows_the_kubelet() {
        const V2: &str = "/sys/fs/cgroup/cgroup.controllers";
        let on = "edit /etc/containerd/config.toml: SystemdCgroup = true";
        let off = "edit /etc/containerd/config.toml: SystemdCgroup = false";
        let elsewhere =
            "# /lib/systemd/system/containerd.service\n[Service]\nExecStart=/usr/bin/containerd -c /etc/my.toml\n";
        let imported = machine(&sample::version_2(true), &sample::version_2(false));
        let kata = sample::version_2(false).replace("io.containerd.runc.v2", "io.containerd.kata.v2");
        plans(
            &FIX,
            [
                ("they agree", two(true), &[]),
                ("kubeadm's default on cgroup v2", two(false), &[on, RESTART]),
                ("kubeadm's default on cgroup v1, the cluster not asked", two(false).without_file(V2), &[]),
                ("the cluster says systemd", cluster(two(false).without_file(V2), "systemd"), &[on, RESTART]),
                ("the cluster says cgroupfs", cluster(two(true), "cgroupfs"), &[off, RESTART]),
                ("both cgroupfs: the cluster's matter", cluster(two(false), "cgroupfs"), &[]),
                ("an import sets it otherwise", imported, &[]),
                ("another file is read", two(false).with_query(&unit::CONTAINERD, elsewhere), &[]),
                ("another runtime", machine(&kata, &kata), &[]),
                ("not TOML", two(false).with_file(FILE, "[plugins"), &[]),
                (
                    "stopped: it reads the file when it starts",
                    two(false)
                        .with_query(&unit::SHOW, "Id=containerd.service\nLoadState=loaded\nActiveState=inactive\n"),
                    &[on],
                ),
                (
                    "set, and not yet read",
                    cluster(two(true), "systemd")
                        .with_cri("runtime-config", r#"{"linux":{"cgroupDriver":"CGROUPFS"}}"#),
                    &[RESTART],
                ),
            ],
        );
    }

    #[test]
    fn every_version_of_the_file_keeps_its_form() {
        let stub = "# mine\ndisabled_plugins = [\"aufs\"] # why\n";
        let one = "\n[plugins.cri.containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n\
                   \n[plugins.cri.containerd.runtimes.runc.options]\nSystemdCgroup = true\n";
        let three = sample::version_3(false);
        for (file, dump, expected) in [
            (stub, sample::version_2(false), format!("{stub}{one}")),
            (&three, three.clone(), three.replace("SystemdCgroup = false", "SystemdCgroup = true")),
        ] {
            assert_eq!(edited(&plan(&machine(file, &dump)).unwrap(), file).unwrap(), expected);
        }
    }

    #[test]
    fn where_there_is_no_file_a_small_one_is_written() {
        let bare = || machine("", &sample::version_2(false)).without_file(FILE);
        assert_eq!(
            edited(&plan(&bare()).unwrap(), "").unwrap(),
            "# Written by carrick check --fix; carrick undo takes it back.\nversion = 2\n\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nSystemdCgroup = true\n"
        );
        let newer = bare().with_query(&version::CONTAINERD, "containerd github.com/containerd/containerd v2.1.0 abc\n");
        let text = edited(&plan(&newer).unwrap(), "").unwrap();
        assert!(text.contains("version = 3\n\n[plugins.\"io.containerd.cri.v1.runtime\".containerd"), "{text}");
    }
}
