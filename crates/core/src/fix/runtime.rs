//! containerd's configuration as changes: where its settings stand in each version of the file, and who has to read it anew.
//!
//! Shared: the fixes of containerd's configuration.

use super::{MARK, cgroup_driver, sandbox_image};
use crate::fact::containerd_config::{ContainerdConfig, FILE, parse, plugins};
use crate::fact::runtime_sockets::Runtime;
use crate::fact::{Facts, Known, OrAbsent};
use crate::plan::edit::Set;
use crate::plan::{Edit, Effect, RunningContainers};

const DIR: &str = "/etc/containerd";

/// The shim of every containerd since 1.3; the only one with `SystemdCgroup`.
const RUNC: &str = "io.containerd.runc.v2";

/// What is to be changed in the configuration, and the file as it is: empty where there is none.
pub struct Configuration {
    pub text: String,
    pub read: ContainerdConfig,
    is_there: bool,
}

impl Configuration {
    /// `None` where another runtime is meant, where containerd reads another file, or where the file is not TOML.
    pub fn of(facts: &Facts) -> Known<Option<Self>> {
        if facts.runtime() != Runtime::Containerd || reads_another_file(facts)? {
            return Ok(None);
        }
        let Some(capture) = facts.file(FILE).or_absent()? else {
            let version = if facts.containerd_version()?.major >= 2 { 3 } else { 2 };
            let read = ContainerdConfig { version, ..ContainerdConfig::default() };
            return Ok(Some(Configuration { text: String::new(), read, is_there: false }));
        };
        let read = parse(&capture.text).ok();
        Ok(read.map(|read| Configuration { text: capture.text.clone(), read, is_there: true }))
    }

    /// A key of the plugin that starts containers.
    pub fn runtime_key(&self, path: &[&str]) -> Vec<String> {
        key(plugins(self.read.version).0, path)
    }

    /// Which of the driver's keys have to be set for it to be this one. `None` where the runtime is none of runc's.
    pub fn driver(&self, default_runtime: &str, systemd: bool) -> Option<Vec<Set>> {
        let table = ["containerd", "runtimes", default_runtime];
        let kind = match (&self.read.runtime_type, default_runtime) {
            (Some(kind), _) if kind == RUNC => None,
            // A table of its own replaces the built-in one: it must say of which kind it is.
            (None, "runc") => Some(set(self.runtime_key(&[&table[..], &["runtime_type"]].concat()), &quoted(RUNC))),
            _ => return None,
        };
        let driver = set(self.runtime_key(&[&table[..], &["options", "SystemdCgroup"]].concat()), &systemd.to_string());
        Some(kind.into_iter().chain([driver]).collect())
    }

    /// The key that names the pause image.
    pub fn sandbox_image(&self, image: &str) -> Set {
        let images = plugins(self.read.version).1;
        let path: &[&str] = if self.read.version >= 3 { &["pinned_images", "sandbox"] } else { &["sandbox_image"] };
        set(key(images, path), &quoted(image))
    }

    /// The edit, and the restart after which it counts; nothing where the text cannot take it, or would not say `wanted`
    /// afterwards.
    pub fn changed(&self, facts: &Facts, edit: Edit, wanted: impl Fn(&ContainerdConfig) -> bool) -> Known<Vec<Effect>> {
        if !self.is_there {
            return whole(facts, self);
        }
        let edited = edit.apply(&self.text).ok().filter(|edited| *edited != self.text);
        if !edited.and_then(|edited| parse(&edited).ok()).is_some_and(|read| wanted(&read)) {
            return Ok(Vec::new());
        }
        let mut effects = vec![Effect::Edit { path: FILE.to_owned(), edit }];
        effects.extend(reads_anew(facts)?);
        Ok(effects)
    }
}

/// A file of our own, with whatever differs from containerd's defaults, whoever asks for it: two that are written in one plan
/// must be one.
fn whole(facts: &Facts, configuration: &Configuration) -> Known<Vec<Effect>> {
    let driver = cgroup_driver::settings(facts, configuration)?.unwrap_or_default();
    let image = sandbox_image::settings(facts, configuration);
    let set: Vec<Set> = driver.into_iter().chain(image).collect();
    let head = format!("{MARK}version = {}\n", configuration.read.version);
    let Ok(text) = (Edit::Toml { set }).apply(&head) else { return Ok(Vec::new()) };
    let mut effects = vec![
        Effect::MakeDir { path: DIR.to_owned(), mode: 0o755 },
        Effect::Write { path: FILE.to_owned(), text, mode: 0o644, in_place: false },
    ];
    effects.extend(reads_anew(facts)?);
    Ok(effects)
}

/// A runtime that runs is restarted; one that does not run reads its configuration when it is started.
pub fn reads_anew(facts: &Facts) -> Known<Option<Effect>> {
    let unit = facts.runtime().unit();
    let runs = facts.unit_state(unit)?.is_active();
    Ok(runs.then(|| Effect::RestartRuntime { unit: unit.to_owned(), running: RunningContainers::on(facts, unit) }))
}

fn reads_another_file(facts: &Facts) -> Known<bool> {
    let unit = facts.unit("containerd").or_absent()?;
    let command = unit.as_ref().and_then(|unit| unit.exec_start());
    Ok(command
        .is_some_and(|(_, it)| it.value.split_whitespace().any(|word| word == "-c" || word.starts_with("--config"))))
}

fn key(plugin: &str, path: &[&str]) -> Vec<String> {
    ["plugins", plugin].iter().chain(path).map(|&name| name.to_owned()).collect()
}

pub fn set(key: Vec<String>, to: &str) -> Set {
    Set { key, to: to.to_owned() }
}

/// A string of TOML. What is quoted here are paths, names of plugins and of images.
pub fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// Machines with containerd, for the tests of what edits its configuration.
#[cfg(test)]
pub mod sample {
    use crate::fact::containerd_config::{DUMP, FILE};
    use crate::fact::unit::{CONTAINERD, SHOW};
    use crate::fact::{Facts, kubeconfig, kubelet_config, version};
    use crate::testing::facts;

    pub const RESTART: &str = "restart containerd and wait for it to answer; 2 containers run on it and go on running";
    const RUNNING: &str = r#"{"containers":[{"state":"CONTAINER_RUNNING"},{"state":"CONTAINER_RUNNING"}]}"#;

    /// containerd 1.6 runs, unjoined, on cgroup v2; its file and what it makes of it.
    pub fn machine(file: &str, dump: &str) -> Facts {
        facts()
            .with_query(&SHOW, "Id=containerd.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\nKillMode=process\n")
            .with_cri("containers", RUNNING)
            .with_query(
                &CONTAINERD,
                "# /lib/systemd/system/containerd.service\n[Service]\nExecStart=/usr/bin/containerd\n",
            )
            .with_query(&version::CONTAINERD, "containerd github.com/containerd/containerd 1.6.20 abc\n")
            .with_query(&version::KUBELET, "Kubernetes v1.34.4\n")
            .with_query(&version::KUBEADM, "v1.34.4\n")
            .with_file(FILE, file)
            .with_query(&DUMP, dump)
            .with_file("/sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n")
            .without_file(kubelet_config::FILE)
            .without_file(kubeconfig::KUBELET)
            .without(crate::fact::Source::Cri("runtime-config"), crate::fact::Why::Broken("unknown method".into()))
    }

    /// What the first edit makes of a text.
    pub fn edited(effects: &[crate::plan::Effect], text: &str) -> Option<String> {
        effects.iter().find_map(|effect| match effect {
            crate::plan::Effect::Edit { edit, .. } => edit.apply(text).ok(),
            crate::plan::Effect::Write { text, .. } => Some(text.clone()),
            _ => None,
        })
    }
}
