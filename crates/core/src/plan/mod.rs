//! What Carrick would change on a machine, as data: shown before, recorded with what was there, taken back after.
//!
//! * [`Effect`]: one small, exact change that can be made twice without harm
//! * [`State`]: what stands where an effect acts, before and after it
//! * [`edit`]: how the text of a file that is not ours is changed without losing a word of it
//! * [`protect`]: what no plan may touch
//! * [`running`]: what runs on a runtime that is restarted
//!
//! Who makes plans: [`crate::fix`] (`check --fix`), [`crate::reset`]. Who carries them out: carrick-engine. Nothing here looks at a machine.

use std::fmt;

use serde::{Deserialize, Serialize};

pub mod edit;
pub mod protect;
pub mod running;

pub use edit::Edit;
pub use running::Running;

/// Changes, in the order they are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    #[serde(flatten)]
    pub effect: Effect,
    /// Why, in the words of what asked for it: the ids of checks, or a clause.
    pub why: Vec<String>,
}

/// One change. It says what shall be, not how to get there: making it again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum Effect {
    /// A directory is there.
    MakeDir {
        path: String,
        mode: u32,
    },
    /// A file holds exactly this. `in_place`: who watches the file's directory misses a rename (containerd, of CNI files).
    Write {
        path: String,
        text: String,
        mode: u32,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_place: bool,
    },
    /// A file that is not ours says something else in one place.
    Edit {
        path: String,
        edit: Edit,
    },
    SetMode {
        path: String,
        mode: u32,
    },
    /// A file or a link is not there.
    Remove {
        path: String,
    },
    /// systemd knows the unit files as they are now.
    ReloadUnits,
    /// A module is loaded. Nothing unloads it again: who loaded it first cannot be told.
    LoadModule {
        name: String,
    },
    /// A kernel setting, until the next boot.
    Sysctl {
        key: String,
        value: String,
    },
    SwapOff {
        device: String,
    },
    /// A unit is, or is not, started at boot.
    Enable {
        unit: String,
        enabled: bool,
    },
    /// A unit runs, or does not.
    Run {
        unit: String,
        running: bool,
    },
    /// The runtime reads its configuration anew. Done when it answers through CRI.
    RestartRuntime {
        unit: String,
        /// As it was when the plan was made.
        #[serde(default)]
        running: Running,
    },
    /// In the cluster: no new pod comes to a node, and those that can be elsewhere are.
    Drain {
        node: String,
        /// `NAMESPACE/NAME`: what is asked to go.
        pods: Vec<String>,
        /// How long that may take.
        seconds: u64,
    },
    /// In the cluster, with the node's own credential: it is known at once that the kubelet is gone, and no pod is sent
    /// there.
    MarkNotReady {
        node: String,
        /// Who this machine is: another's Node by the same name is not touched.
        system_uuid: String,
        machine_id: String,
    },
    /// Volumes of pods are not mounted below the kubelet's directory.
    Unmount {
        points: Vec<String>,
    },
    /// What kubeadm and the kubelet made here is gone.
    KubeadmReset {
        /// The runtime's: its pods are removed, too.
        socket: String,
        removes: Vec<String>,
    },
    DeleteLink {
        name: String,
    },
    /// Chains of kube-proxy, CNI plugins and flannel are gone, and the rules that lead to them.
    RemoveChains {
        /// Without `-save` and `-restore`: `iptables-nft`.
        tool: String,
        /// As they were seen: `nat KUBE-SERVICES`.
        chains: Vec<String>,
    },
    /// A directory is empty.
    ClearDir {
        path: String,
        holds: Vec<String>,
    },
}

/// What stands where an effect acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    Absent,
    File {
        sha256: String,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    Dir {
        mode: u32,
        uid: u32,
        gid: u32,
    },
    Link {
        to: String,
    },
    /// A kernel setting's value; `loaded`, `on`, `enabled`, `active` and their opposites.
    Value {
        value: String,
    },
    /// There is nothing to compare: a reload, a restart.
    Moment,
}

impl State {
    pub fn value(value: impl Into<String>) -> Self {
        State::Value { value: value.into() }
    }
}

/// In which order kinds of changes are made: files before who reads them.
fn rank(effect: &Effect) -> u8 {
    match effect {
        Effect::MakeDir { .. } => 0,
        Effect::Write { .. } | Effect::Edit { .. } | Effect::SetMode { .. } | Effect::Remove { .. } => 1,
        Effect::ReloadUnits => 2,
        Effect::LoadModule { .. } => 3,
        Effect::Sysctl { .. } => 4,
        Effect::SwapOff { .. } => 5,
        Effect::Enable { .. } => 6,
        Effect::RestartRuntime { .. } => 7,
        Effect::Run { .. } => 8,
        // Whose order whoever makes the plan gives.
        _ => u8::MAX,
    }
}

impl Plan {
    /// Changes that several reasons may ask for: each is made once, in the order in which they build on each other.
    pub fn of(wanted: impl IntoIterator<Item = Step>) -> Result<Plan, Conflict> {
        let mut steps: Vec<Step> = Vec::new();
        for step in wanted {
            match steps.iter_mut().find(|known| known.effect.place() == step.effect.place()) {
                Some(known) => {
                    known.effect = merge(&known.effect, &step.effect)?;
                    known.why.extend(step.why.into_iter().filter(|why| !known.why.contains(why)).collect::<Vec<_>>());
                }
                None => steps.push(step),
            }
        }
        steps.sort_by_key(|step| rank(&step.effect));
        Ok(Plan { steps })
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether it asks for the same changes, for the same reasons.
    pub fn asks_for_the_same_as(&self, other: &Plan) -> bool {
        let same = |(one, other): (&Step, &Step)| one.why == other.why && one.effect.is_same_as(&other.effect);
        self.steps.len() == other.steps.len() && self.steps.iter().zip(&other.steps).all(same)
    }
}

/// Two changes of one thing that cannot both be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two changes of one thing: {0}; and: {1}")]
pub struct Conflict(String, String);

fn merge(known: &Effect, new: &Effect) -> Result<Effect, Conflict> {
    match (known, new) {
        (Effect::Edit { path, edit }, Effect::Edit { edit: more, .. }) => match edit.and(more) {
            Some(edit) => Ok(Effect::Edit { path: path.clone(), edit }),
            None => Err(Conflict(known.to_string(), new.to_string())),
        },
        // The newer word about what runs on it.
        _ if known.is_same_as(new) => Ok(new.clone()),
        _ => Err(Conflict(known.to_string(), new.to_string())),
    }
}

impl Effect {
    /// The file or directory it changes.
    pub fn path(&self) -> Option<&str> {
        match self {
            Effect::MakeDir { path, .. }
            | Effect::Write { path, .. }
            | Effect::Edit { path, .. }
            | Effect::SetMode { path, .. }
            | Effect::Remove { path } => Some(path),
            _ => None,
        }
    }

    /// Whether it makes the same change: what runs on a runtime by now makes its restart no other.
    pub fn is_same_as(&self, other: &Effect) -> bool {
        match (self, other) {
            (Effect::RestartRuntime { unit: one, .. }, Effect::RestartRuntime { unit: other, .. }) => one == other,
            _ => self == other,
        }
    }

    /// What it changes: two effects with the same place are about one thing.
    pub fn place(&self) -> (u8, &str) {
        match self {
            Effect::LoadModule { name } => (3, name),
            Effect::Sysctl { key, .. } => (4, key),
            Effect::SwapOff { device } => (5, device),
            Effect::Enable { unit, .. } => (6, unit),
            Effect::RestartRuntime { unit, .. } => (7, unit),
            Effect::Run { unit, .. } => (8, unit),
            Effect::Drain { node, .. } => (20, node),
            Effect::MarkNotReady { node, .. } => (21, node),
            Effect::Unmount { .. } => (22, ""),
            Effect::KubeadmReset { .. } => (23, ""),
            Effect::DeleteLink { name } => (24, name),
            Effect::RemoveChains { tool, .. } => (25, tool),
            Effect::ClearDir { path, .. } => (26, path),
            Effect::ReloadUnits => (2, ""),
            _ => (0, self.path().unwrap_or_default()),
        }
    }

    /// Whether what it did can be taken back. A reload or a restart is made again instead.
    pub fn can_be_undone(&self) -> bool {
        !matches!(
            self,
            Effect::LoadModule { .. }
                | Effect::Unmount { .. }
                | Effect::KubeadmReset { .. }
                | Effect::DeleteLink { .. }
                | Effect::RemoveChains { .. }
                | Effect::ClearDir { .. }
        )
    }

    /// Whether nothing of a run can be taken back once this was begun: the machine's place in its cluster is gone.
    pub fn is_final(&self) -> bool {
        matches!(self, Effect::KubeadmReset { .. } | Effect::ClearDir { .. })
    }

    /// Whether it changes the cluster, and not the machine.
    pub fn is_in_cluster(&self) -> bool {
        matches!(self, Effect::Drain { .. } | Effect::MarkNotReady { .. })
    }

    /// One by one, what a sentence sums up.
    pub fn items(&self) -> &[String] {
        match self {
            Effect::Drain { pods: items, .. }
            | Effect::Unmount { points: items }
            | Effect::KubeadmReset { removes: items, .. }
            | Effect::RemoveChains { chains: items, .. }
            | Effect::ClearDir { holds: items, .. } => items,
            _ => &[],
        }
    }

    /// The sentence that says it is taken back.
    pub fn taken_back(&self, was: &State) -> String {
        match (self, was) {
            (Effect::LoadModule { name }, _) => format!("leave the module {name} loaded until the next boot"),
            (Effect::MakeDir { path, .. }, State::Absent) => format!("remove the directory {path} if it is empty"),
            (Effect::Sysctl { key, .. }, State::Value { value }) => format!("set {key} to {value}"),
            (Effect::SwapOff { device }, _) => format!("turn swap on {device} on"),
            (Effect::Enable { unit, .. }, State::Value { value }) if value == "enabled" => format!("enable {unit}"),
            (Effect::Enable { unit, .. }, _) => format!("disable {unit}"),
            (Effect::Run { unit, .. }, State::Value { value }) if value == "active" => format!("start {unit}"),
            (Effect::Run { unit, .. }, _) => format!("stop {unit}"),
            (Effect::ReloadUnits, _) => format!("{self}, again"),
            (Effect::RestartRuntime { unit, .. }, _) => format!("restart {unit} again"),
            (Effect::Drain { node, .. } | Effect::MarkNotReady { node, .. }, _) => {
                format!("uncordon node {node} where reset cordoned it; pods that were moved stay where they are")
            }
            (Effect::Unmount { .. }, _) => {
                "leave the volumes to the kubelet, which mounts them when it starts".to_owned()
            }
            (Effect::KubeadmReset { .. }, _) => "cannot be taken back: join again".to_owned(),
            (Effect::DeleteLink { .. } | Effect::RemoveChains { .. } | Effect::ClearDir { .. }, _) => {
                "cannot be taken back: the pod network makes its own when the machine joins again".to_owned()
            }
            (_, State::Absent) => format!("remove {}", self.path().unwrap_or_default()),
            _ => format!("put {} back as it was", self.path().unwrap_or_default()),
        }
    }
}

impl fmt::Display for Effect {
    /// The sentence of a dry run, in the imperative.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::MakeDir { path, mode } => write!(f, "make the directory {path} (mode {mode:04o})"),
            Effect::Write { path, in_place: false, .. } => write!(f, "write {path}"),
            Effect::Write { path, in_place: true, .. } => write!(f, "write {path} in place"),
            Effect::Edit { path, edit } => write!(f, "edit {path}: {edit}"),
            Effect::SetMode { path, mode } => write!(f, "set the mode of {path} to {mode:04o}"),
            Effect::Remove { path } => write!(f, "remove {path}"),
            Effect::ReloadUnits => f.write_str("make systemd read its unit files anew"),
            Effect::LoadModule { name } => write!(f, "load the kernel module {name}"),
            Effect::Sysctl { key, value } => write!(f, "set {key} to {value}"),
            Effect::SwapOff { device } => write!(f, "turn swap on {device} off"),
            Effect::Enable { unit, enabled: true } => write!(f, "enable {unit}"),
            Effect::Enable { unit, enabled: false } => write!(f, "disable {unit}"),
            Effect::Run { unit, running: true } => write!(f, "start {unit}"),
            Effect::Run { unit, running: false } => write!(f, "stop {unit}"),
            Effect::RestartRuntime { unit, running } => {
                write!(f, "restart {unit} and wait for it to answer; {running}")
            }
            Effect::Drain { node, pods, seconds } => {
                write!(f, "drain node {node}: {} to evict within {seconds} s", counted(pods, "pod"))
            }
            Effect::MarkNotReady { node, .. } => write!(f, "mark node {node} not ready and cordon it"),
            Effect::Unmount { points } => write!(f, "unmount {} of pods", counted(points, "volume")),
            Effect::KubeadmReset { socket, .. } => write!(f, "run kubeadm reset --force --cri-socket {socket}"),
            Effect::DeleteLink { name } => write!(f, "delete the link {name}"),
            Effect::RemoveChains { tool, chains } => {
                write!(f, "remove {} from {tool}, and the rules that lead there", counted(chains, "chain"))
            }
            Effect::ClearDir { path, .. } => write!(f, "remove what is in {path}"),
        }
    }
}

fn counted(items: &[String], what: &str) -> String {
    format!("{} {what}{}", items.len(), if items.len() == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(effect: Effect, why: &str) -> Step {
        Step { effect, why: vec![why.to_owned()] }
    }

    #[test]
    fn what_two_checks_ask_for_is_done_once_and_files_come_before_who_reads_them() {
        let on_it = |count| Running { containers: Some(count), go_on: Some(true) };
        let restart = |count| Effect::RestartRuntime { unit: "containerd".into(), running: on_it(count) };
        let edit = |key: &str| Effect::Edit {
            path: "/etc/containerd/config.toml".into(),
            edit: Edit::Toml { set: vec![edit::Set { key: vec![key.into()], to: "true".into() }] },
        };
        let planned = |one: usize, other: usize| {
            let steps =
                [step(restart(one), "a"), step(edit("x"), "a"), step(restart(other), "b"), step(edit("y"), "b")];
            Plan::of(steps).unwrap()
        };
        let plan = planned(7, 2);
        assert!(plan.asks_for_the_same_as(&planned(0, 0)) && !plan.asks_for_the_same_as(&Plan::default()));
        let told: Vec<String> =
            plan.steps.iter().map(|step| format!("{} ({})", step.effect, step.why.join(", "))).collect();
        assert_eq!(
            told,
            [
                "edit /etc/containerd/config.toml: x = true; y = true (a, b)",
                "restart containerd and wait for it to answer; 2 containers run on it and go on running (a, b)"
            ]
        );
    }

    #[test]
    fn two_that_cannot_both_be_are_no_plan() {
        let on = |value: &str| Effect::Sysctl { key: "net.ipv4.ip_forward".into(), value: value.into() };
        let error = Plan::of([step(on("1"), "a"), step(on("0"), "b")]).unwrap_err();
        assert!(error.to_string().contains("set net.ipv4.ip_forward to 0"), "{error}");
    }
}
