//! containerd's `bin_dir` is set to /opt/cni/bin, where the pod network's own pod puts its programs, if the usual ones
//! (bridge, host-local, loopback, portmap) are all there and no pod network works yet. containerd is restarted. A directory of
//! its own for configuration may be another Kubernetes' and is left alone. `carrick undo` puts the file back and restarts
//! containerd again.

use super::Fix;
use super::runtime::{Configuration, quoted, set};
use crate::check::cni::plugins::USUAL;
use crate::fact::cni::{BIN_DIR, CONF_DIR, Program};
use crate::fact::{Facts, Known};
use crate::plan::{Edit, Effect};

pub const FIX: Fix =
    Fix { fixes: &["runtime.cni-dirs"], does: "lets containerd look in /opt/cni/bin, and restarts it", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let Some(configuration) = Configuration::of(facts)? else { return Ok(Vec::new()) };
    let read = &configuration.read;
    let at_work = facts.runtime_status()?.condition("NetworkReady").is_some_and(|ready| ready.status);
    let elsewhere = read.cni_conf_dir.as_ref().is_some_and(|dir| dir.trim_end_matches('/') != CONF_DIR);
    // What the file does not say, an import does.
    if at_work || elsewhere || read.cni_bin_dirs.is_empty() || read.cni_bin_dirs.iter().any(|dir| dir == BIN_DIR) {
        return Ok(Vec::new());
    }
    for name in USUAL {
        if facts.cni_program_in([BIN_DIR.to_owned()], name)? != Program::Usable {
            return Ok(Vec::new());
        }
    }
    // A containerd that knows several directories keeps those it has.
    let listed = configuration.text.contains("bin_dirs");
    let (key, value) = if listed {
        let dirs = read.cni_bin_dirs.iter().map(String::as_str).chain([BIN_DIR]).map(quoted);
        ("bin_dirs", format!("[{}]", dirs.collect::<Vec<_>>().join(", ")))
    } else {
        ("bin_dir", quoted(BIN_DIR))
    };
    let set = vec![set(configuration.runtime_key(&["cni", key]), &value)];
    configuration.changed(facts, Edit::Toml { set }, |read| read.cni_bin_dirs.iter().any(|dir| dir == BIN_DIR))
}

#[cfg(test)]
mod tests {
    use super::super::runtime::sample::{RESTART, machine};
    use super::*;
    use crate::fact::cni::HEADERS;
    use crate::fact::containerd_config::sample;
    use crate::testing::plans;

    fn with(text: &str, programs: &[&str]) -> Facts {
        let elf = " 7f 45 4c 46 02 01 01 00 00 00 00 00 00 00 00 00 02 00 3e 00\n";
        let headers: String = programs.iter().map(|name| format!("/opt/cni/bin/{name}\n{elf}")).collect();
        let entries: Vec<(&str, &str)> = programs.iter().map(|name| ("-rwxr-xr-x", *name)).collect();
        machine(text, text)
            .with_dir("/opt/cni/bin", &entries)
            .with_query(&HEADERS, &format!("x86_64\n{headers}"))
            .with_cri("status", r#"{"status":{"conditions":[{"type":"NetworkReady","status":false}]}}"#)
    }

    #[test]
    fn containerd_looks_where_the_programs_are() {
        let debian = sample::version_2(true).replace("/opt/cni/bin", "/usr/lib/cni");
        let listed = sample::version_3(true).replace("'/opt/cni/bin', '/usr/lib/cni'", "'/usr/lib/cni'");
        let rancher = debian.replace("/etc/cni/net.d", "/var/lib/rancher/k3s/agent/etc/cni/net.d");
        let ready = r#"{"status":{"conditions":[{"type":"NetworkReady","status":true}]}}"#;
        plans(
            &FIX,
            [
                (
                    "Debian's",
                    with(&debian, &USUAL),
                    &["edit /etc/containerd/config.toml: bin_dir = \"/opt/cni/bin\"", RESTART],
                ),
                (
                    "a list",
                    with(&listed, &USUAL),
                    &["edit /etc/containerd/config.toml: bin_dirs = [\"/usr/lib/cni\", \"/opt/cni/bin\"]", RESTART],
                ),
                ("as usual", with(&sample::version_2(true), &USUAL), &[]),
                ("the programs are elsewhere", with(&debian, &["flannel"]), &[]),
                ("a pod network works", with(&debian, &USUAL).with_cri("status", ready), &[]),
                ("another Kubernetes'", with(&rancher, &USUAL), &[]),
            ],
        );
    }
}
