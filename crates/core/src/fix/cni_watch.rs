//! containerd is restarted, so that it loads the pod network's configuration that lies there; containers go on running.
//! `carrick undo` has nothing to take back.

use super::Fix;
use super::runtime::reads_anew;
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["cni.watch-lost"], does: "restarts containerd, which then loads it", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let status = facts.runtime_status()?;
    let Some((_, conf)) = facts.cni_winner()? else { return Ok(Vec::new()) };
    let loaded = status.last_cni_load.as_deref() == Some("OK") && status.cni_networks.contains(&conf.name);
    if status.last_cni_load.is_none() || loaded {
        return Ok(Vec::new());
    }
    Ok(reads_anew(facts)?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::runtime::sample::{RESTART, machine};
    use super::*;
    use crate::fact::containerd_config::sample::version_2;
    use crate::testing::plans;

    #[test]
    fn a_restart_loads_what_lies_there() {
        let conf = r#"{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel"}]}"#;
        let with = |said: &str, networks: &str| {
            let json = format!(
                r#"{{"status":{{"conditions":[]}},"lastCNILoadStatus":"{said}","cniconfig":{{"PluginConfDir":"/etc/cni/net.d","Networks":[{networks}]}}}}"#
            );
            machine(&version_2(true), &version_2(true))
                .with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-flannel.conflist")])
                .with_file("/etc/cni/net.d/10-flannel.conflist", conf)
                .with_cri("status", &json)
        };
        let cbr0 = r#"{"Config":{"Name":"cbr0"}}"#;
        let lost = "cni config load failed: no network config found in /etc/cni/net.d";
        let broken = with(lost, "").with_file("/etc/cni/net.d/10-flannel.conflist", "{");
        plans(
            &FIX,
            [
                ("loaded", with("OK", cbr0), &[]),
                ("not loaded", with(lost, ""), &[RESTART]),
                ("another is loaded", with("OK", r#"{"Config":{"Name":"old"}}"#), &[RESTART]),
                ("nothing to load", with(lost, "").with_dir("/etc/cni/net.d", &[]), &[]),
                ("it is broken: a restart would not help", broken, &[]),
            ],
        );
    }
}
