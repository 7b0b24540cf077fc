//! `systemctl status`: how a unit is, as people paste it.
//!
//! Carrick itself asks `systemctl show`; in text that somebody else collected this takes its place. It says less: what it
//! does not say (how often a unit was restarted) stays unknown. What it leaves out by rule is said all the same: a unit
//! without a `Drop-In:` line has none.
//!
//! Shared: `unit`, where only a paste is known.

use super::evidence::Evidence;
use super::process::Process;
use super::unit::UnitState;
use super::{Facts, Known, Missing, Why};

/// What `systemctl status` says of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub state: UnitState,
    /// The line `Loaded:`, which a `Drop-In:` follows where there is one.
    pub loaded: Evidence,
    /// What runs as the unit's main process; an error where its command line is cut off at the terminal's edge.
    pub process: Option<Result<Process, String>>,
}

/// The key a status is kept under.
pub fn key(unit: &str) -> String {
    format!("query {}", name(unit))
}

fn name(unit: &str) -> String {
    format!("systemctl status {unit}")
}

/// The unit a line introduces: `● kubelet.service - kubelet: The Kubernetes Node Agent`. The mark depends on the state
/// and the terminal; without UTF-8 it is `*` or `x`.
pub fn unit_of(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let mark = words.next()?;
    let marks = ["●", "○", "×", "↻", "⟳", "*", "x", "?"];
    let id = words.next().filter(|_| marks.contains(&mark))?;
    let is_end = words.next().is_none_or(|dash| dash == "-" || dash == "–");
    id.strip_suffix(".service").filter(|unit| is_end && !unit.is_empty())
}

/// The first unit of a text.
pub fn parse(text: &str) -> Option<Status> {
    let unknown = text.lines().find_map(not_found);
    let unit = text.lines().find_map(unit_of).or(unknown)?;
    let source = name(unit);
    let mut status = Status {
        state: UnitState { id: format!("{unit}.service"), condition_result: true, ..UnitState::default() },
        loaded: Evidence::of(source.as_str(), ""),
        process: None,
    };
    if unknown.is_some() {
        "not-found".clone_into(&mut status.state.load_state);
        "inactive".clone_into(&mut status.state.active_state);
    }
    let mut within = "";
    for (number, line) in (1u32..).zip(text.lines()) {
        let line = line.trim();
        let (key, value) = match line.split_once(": ") {
            Some((key, value)) if KEYS.contains(&key) => (key, value.trim()),
            _ if line.starts_with("Warning:") => ("Warning", line),
            _ => (within, line),
        };
        let continues = within == key;
        status.take(key, value, continues, Evidence::at(source.as_str(), number, line));
        within = key;
    }
    (!status.state.load_state.is_empty()).then_some(status)
}

const KEYS: [&str; 9] =
    ["Loaded", "Drop-In", "Active", "Process", "Main PID", "CGroup", "Condition", "Invocation", "Tasks"];

/// `Unit kubelet.service could not be found.`
fn not_found(line: &str) -> Option<&str> {
    let unit = line.trim().strip_prefix("Unit ")?.strip_suffix(" could not be found.")?;
    Some(unit.strip_suffix(".service").unwrap_or(unit))
}

impl Status {
    fn take(&mut self, key: &str, value: &str, continues: bool, seen: Evidence) {
        match (key, continues) {
            ("Warning", _) if value.contains("changed on disk") => self.state.need_daemon_reload = true,
            ("Loaded", false) => {
                self.loaded_line(value);
                self.loaded = seen;
            }
            ("Active", false) => {
                self.active_line(value);
                self.state.cited = Some(seen);
            }
            ("Drop-In", _) => self.drop_in_line(value),
            ("Condition", false) => self.state.condition_result = false,
            ("Invocation", false) => self.state.invocation_id = value.split_whitespace().next().map(str::to_owned),
            ("Main PID", false) => self.main_pid_line(value),
            ("Process", false) if value.contains("ExecStart=") => self.exit_status(value),
            ("CGroup", true) => self.process_line(value, seen),
            _ => {}
        }
    }

    /// `loaded (/lib/systemd/system/kubelet.service; enabled; preset: enabled)`, `masked (Reason: …)`.
    fn loaded_line(&mut self, value: &str) {
        let (state, rest) = value.split_once(" (").unwrap_or((value, ""));
        state.trim().clone_into(&mut self.state.load_state);
        let mut parts = rest.trim_end_matches(')').split("; ");
        let path = parts.next().filter(|path| path.starts_with('/'));
        self.state.fragment_path = path.map(str::to_owned);
        if path.is_some() {
            parts.next().unwrap_or_default().clone_into(&mut self.state.unit_file_state);
        }
    }

    /// `activating (auto-restart) (Result: exit-code) since …`, `failed (Result: exit-code)`, `inactive (dead)`.
    fn active_line(&mut self, value: &str) {
        let (state, rest) = value.split_once(' ').unwrap_or((value, ""));
        state.clone_into(&mut self.state.active_state);
        let mut brackets = rest.split('(').skip(1).filter_map(|part| part.split(')').next());
        let sub = brackets.clone().find(|part| !part.starts_with("Result: ")).unwrap_or(state);
        sub.clone_into(&mut self.state.sub_state);
        if let Some(result) = brackets.find_map(|part| part.strip_prefix("Result: ")) {
            result.clone_into(&mut self.state.result);
        }
    }

    /// `/usr/lib/systemd/system/kubelet.service.d`, then `└─10-kubeadm.conf, 20-more.conf`.
    fn drop_in_line(&mut self, value: &str) {
        let paths = &mut self.state.drop_in_paths;
        if value.starts_with('/') {
            paths.push(format!("{}/", value.trim_end_matches('/')));
        } else if let Some(files) = tree_entry(value)
            && let Some(dir) = paths.iter().rfind(|path| path.contains(".d/")).cloned()
        {
            let dir = dir.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
            paths.retain(|path| !path.ends_with('/'));
            paths.extend(files.split(", ").map(|file| format!("{dir}/{}", file.trim())));
        }
    }

    /// `369269 (kubelet)`; of one that ended `26 (code=exited, status=1/FAILURE)`.
    fn main_pid_line(&mut self, value: &str) {
        if value.contains("code=") {
            self.exit_status(value);
        } else {
            self.state.main_pid = value.split_whitespace().next().and_then(|pid| pid.parse().ok());
        }
    }

    fn exit_status(&mut self, value: &str) {
        let status = value.rsplit_once("status=").map(|(_, rest)| rest.split(['/', ')']).next().unwrap_or_default());
        if let Some(status) = status.and_then(|status| status.parse().ok()) {
            self.state.exec_main_status = Some(status);
        }
    }

    /// `└─369269 /usr/bin/kubelet --flags`: the main process is the one the unit names, else the first.
    fn process_line(&mut self, value: &str, seen: Evidence) {
        let Some((pid, words)) = tree_entry(value).and_then(|entry| entry.split_once(' ')) else { return };
        let Ok(pid) = pid.parse::<u32>() else { return };
        let is_main = self.state.main_pid.map_or(self.process.is_none(), |main| main == pid);
        if !is_main {
            return;
        }
        let cut = ["…", "...", ">"].iter().any(|mark| words.trim_end().ends_with(mark));
        let process = Process {
            pid,
            elapsed: None,
            words: words.split_whitespace().map(str::to_owned).collect(),
            seen: Some(seen),
        };
        self.process = Some(if cut && !process.has_flag("--kubeconfig") {
            Err("its command line is cut off".to_owned())
        } else {
            Ok(process)
        });
    }
}

/// What stands behind the branch of a tree.
fn tree_entry(line: &str) -> Option<&str> {
    let branches = ["└─", "├─", "`-", "|-"];
    let line = line.trim_start_matches(['│', '|', ' ']);
    let at_root = branches.iter().find_map(|branch| line.strip_prefix(branch));
    at_root.map(str::trim)
}

impl Facts {
    /// What `systemctl status` says of a unit, in text that holds it.
    pub fn unit_status(&self, unit: &str) -> Known<Status> {
        let broken = || Missing::broken(name(unit), "it shows no unit");
        parse(&self.get(&key(unit))?.text)
            .filter(|status| status.state.id == format!("{unit}.service"))
            .ok_or_else(broken)
    }

    /// The unit's main process by its status; `None` where nothing runs.
    pub fn unit_process(&self, unit: &str) -> Known<Option<Process>> {
        let status = self.unit_status(unit)?;
        match status.process {
            Some(process) => process.map(Some).map_err(|detail| Missing::broken(name(unit), detail)),
            None if status.state.is_active() => Err(Missing { source_name: name(unit), why: Why::NotCollected }),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    /// The worker that all this began with, line for line.
    const ALONE: &str = "\
● kubelet.service - kubelet: The Kubernetes Node Agent
     Loaded: loaded (/lib/systemd/system/kubelet.service; enabled; preset: enabled)
     Active: active (running) since Wed 2025-09-10 16:03:03 EDT; 1min 2s ago
       Docs: https://kubernetes.io/docs/
   Main PID: 369269 (kubelet)
      Tasks: 12 (limit: 9287)
     Memory: 26.4M
        CPU: 1.209s
     CGroup: /system.slice/kubelet.service
             └─369269 /usr/bin/kubelet
";

    const CRASHING: &str = "\
Warning: The unit file, source configuration file or drop-ins of kubelet.service changed on disk. Run 'systemctl daemon-reload' to reload units.
● kubelet.service - kubelet: The Kubernetes Node Agent
     Loaded: loaded (/lib/systemd/system/kubelet.service; disabled; vendor preset: enabled)
    Drop-In: /usr/lib/systemd/system/kubelet.service.d
             └─10-kubeadm.conf, 15-more.conf
             /etc/systemd/system/kubelet.service.d
             └─20-own.conf
     Active: activating (auto-restart) (Result: exit-code) since Sun 2026-11-15 18:44:33 UTC; 7s ago
    Process: 1893 ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_EXTRA_ARGS (code=exited, status=1/FAILURE)
   Main PID: 1893 (code=exited, status=1/FAILURE)
        CPU: 61ms
";

    fn with(unit: &str, text: &str) -> Facts {
        let mut known = facts();
        known.insert(key(unit), Ok(crate::fact::Capture::text(text)));
        known
    }

    #[test]
    fn reads_a_kubelet_that_runs_alone() {
        let known = with("kubelet", ALONE);
        let state = known.unit_state("kubelet").expect("known");
        assert!(state.is_there() && state.is_active() && state.is_enabled() && !state.need_daemon_reload);
        assert_eq!((state.sub_state.as_str(), state.main_pid, state.restarts), ("running", Some(369_269), None));
        assert!(state.drop_in_paths.is_empty());
        assert_eq!(state.cite().line, Some(3));
        let process = known.kubelet_process().expect("known").expect("it runs");
        assert!(!process.has_flag("--kubeconfig"));
        assert_eq!(process.cite().to_string(), "systemctl status kubelet:10  └─369269 /usr/bin/kubelet");
    }

    #[test]
    fn reads_one_that_ends_again_and_again() {
        let known = with("kubelet", CRASHING);
        let state = known.unit_state("kubelet").expect("known");
        assert_eq!((state.active_state.as_str(), state.sub_state.as_str()), ("activating", "auto-restart"));
        assert_eq!((state.result.as_str(), state.exec_main_status), ("exit-code", Some(1)));
        assert!(!state.is_enabled() && state.need_daemon_reload);
        assert_eq!(
            state.drop_in_paths,
            [
                "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
                "/usr/lib/systemd/system/kubelet.service.d/15-more.conf",
                "/etc/systemd/system/kubelet.service.d/20-own.conf"
            ]
        );
        assert_eq!(known.kubelet_process(), Ok(None));
    }

    #[test]
    fn a_unit_that_is_not_there_or_masked_is_told() {
        let absent = with("kubelet", "Unit kubelet.service could not be found.\n");
        assert!(!absent.unit_state("kubelet").expect("known").is_there());
        assert_eq!(absent.unit("kubelet").unwrap_err().why, Why::Absent);
        let masked = with(
            "kubelet",
            "○ kubelet.service\n     Loaded: masked (Reason: Unit kubelet.service is masked.)\n     Active: inactive (dead)\n",
        );
        assert!(masked.unit_state("kubelet").expect("known").is_masked());
        assert!(masked.unit("kubelet").expect("known").masked);
    }

    #[test]
    fn a_command_line_cut_off_says_nothing_of_what_is_behind_the_edge() {
        let cut =
            |words: &str| with("kubelet", &ALONE.replace("/usr/bin/kubelet\n", &format!("/usr/bin/kubelet {words}\n")));
        assert!(cut("--bootstrap-kubeconfig=/etc/kubernetes/boo…").kubelet_process().is_err());
        assert!(cut("--kubeconfig=/etc/kubernetes/kubelet.conf --conf…").kubelet_process().is_ok());
    }

    #[test]
    fn nothing_is_known_of_a_unit_nobody_asked_about() {
        assert_eq!(with("kubelet", ALONE).unit_state("containerd").unwrap_err().why, Why::NotCollected);
        assert!(with("containerd", ALONE).unit_state("containerd").is_err(), "another unit's words");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(● kubelet.service|Loaded: |Active: |CGroup: |Drop-In: |└─|[(): /;,\n]|[a-z0-9]|.)*") {
            let known = with("kubelet", &text);
            let _ = (known.unit_state("kubelet"), known.kubelet_process(), known.unit("kubelet"));
        }
    }
}
