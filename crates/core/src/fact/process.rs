//! The kubelet that runs now.

use super::evidence::Evidence;
use super::keep::USUAL;
use super::{Facts, Known, Missing, Query, Source, Why};

pub const KUBELET: Query = Query {
    name: "ps -C kubelet",
    argv: &["ps", "-ww", "-C", "kubelet", "-o", "pid=", "-o", "etimes=", "-o", "args="],
    keep: USUAL,
};

/// What the kernel has it do: `Ssl` sleeps, `T` was stopped by a signal.
pub const STATE: Query =
    Query { name: "ps -C kubelet -o stat", argv: &["ps", "-C", "kubelet", "-o", "pid=", "-o", "stat="], keep: USUAL };

pub const SOURCES: &[Source] = &[Source::Query(&KUBELET), Source::Query(&STATE)];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    /// For how many whole seconds it has run, those in which the machine slept included; a bundle of an older Carrick, or a
    /// paste, may not say.
    pub elapsed: Option<u64>,
    /// The command line, cut at spaces: `ps` does not show where one argument ends.
    pub words: Vec<String>,
    /// The line that shows it, where it is not one of `ps`.
    pub seen: Option<Evidence>,
}

impl Process {
    /// A flag's value: of `--name=value`, or the word after `--name`. The last one counts, as it does for the kubelet.
    pub fn flag(&self, name: &str) -> Option<&str> {
        let mut values = self.words.iter().enumerate().filter_map(|(at, word)| match word.strip_prefix(name)? {
            "" => self.words.get(at + 1).map(String::as_str).filter(|next| !next.starts_with("--")),
            rest => rest.strip_prefix('='),
        });
        values.next_back().filter(|value| !value.is_empty())
    }

    pub fn has_flag(&self, name: &str) -> bool {
        self.flag(name).is_some()
    }

    /// `ps` puts the name in brackets where there is no command line to read: the process is just being executed, or has ended.
    fn has_command_line(&self) -> bool {
        !self.words.first().is_some_and(|word| word.starts_with('['))
    }

    pub fn cite(&self) -> Evidence {
        let line = || Evidence::of(KUBELET.name, format!("{} {}", self.pid, self.words.join(" ")));
        self.seen.clone().unwrap_or_else(line)
    }
}

/// One process a line: its id, for how long it has run, where that was asked for, and its command line.
pub fn parse(text: &str) -> Vec<Process> {
    let line = |line: &str| {
        let mut words = line.split_whitespace().peekable();
        let pid = words.next()?.parse().ok()?;
        // No program is called by a number.
        let elapsed = words.next_if(|word| word.bytes().all(|digit| digit.is_ascii_digit()));
        let words: Vec<String> = words.map(str::to_owned).collect();
        let elapsed = elapsed.and_then(|seconds| seconds.parse().ok());
        (!words.is_empty()).then_some(Process { pid, elapsed, words, seen: None })
    };
    text.lines().filter_map(line).collect()
}

impl Facts {
    /// Whether a signal has stopped the unit's kubelet: it is there, and does nothing.
    pub fn kubelet_is_suspended(&self) -> Known<bool> {
        let main = self.unit_state("kubelet")?.main_pid;
        let said = self.query(&STATE)?;
        let is_main = |pid: &str| main.is_some() && pid.parse().ok() == main;
        let states = said.text.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
        Ok(states.filter(|(pid, _)| is_main(pid)).any(|(_, state)| state.trim_start().starts_with('T')))
    }

    /// The kubelet that runs, `None` where none does, or none whose command line can be read yet. Kubelets in containers show
    /// up here as well: where systemd tells, only the unit's own counts.
    pub fn kubelet_process(&self) -> Known<Option<Process>> {
        let said = match self.query(&KUBELET) {
            Err(missing) if missing.why == Why::NotCollected => {
                return self.unit_process("kubelet").map_err(|status| match status.why {
                    Why::NotCollected => missing,
                    _ => status,
                });
            }
            said => said?,
        };
        let found = parse(&said.text);
        if found.is_empty() {
            // `ps` ends with 1 where nothing fits; whatever it says besides is an error.
            let nothing =
                said.text.trim().is_empty() && said.errors.trim().is_empty() && matches!(said.exit, Some(0 | 1) | None);
            let error = || {
                Missing::broken(
                    KUBELET.name,
                    said.errors.lines().chain(said.text.lines()).next().unwrap_or("it failed"),
                )
            };
            return if nothing { Ok(None) } else { Err(error()) };
        }
        let main_pid = self.unit_state("kubelet").ok().map(|state| state.main_pid);
        // Asking a kubelet for its version, as Carrick does at the same moment, is not running one.
        let asked = |process: &Process| process.words.get(1).is_some_and(|word| word == "--version");
        let runs = |process: &&Process| process.has_command_line() && !asked(process);
        let is_units = |process: &&Process| main_pid.is_none_or(|main| main == Some(process.pid));
        Ok(found.iter().filter(runs).find(is_units).cloned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fact::unit;
    use crate::testing::facts;

    #[test]
    fn no_kubelet_is_a_fact_and_a_ps_that_fails_is_not() {
        assert_eq!(facts().with_exit(&KUBELET, 1, "", "").kubelet_process(), Ok(None));
        assert!(facts().with_exit(&KUBELET, 1, "", "ps: unrecognized option: C\n").kubelet_process().is_err());
        assert!(facts().with_exit(&KUBELET, 2, "", "").kubelet_process().is_err());
        assert!(facts().kubelet_process().is_err());
    }

    #[test]
    fn a_kubelet_that_is_asked_for_its_version_does_not_run() {
        let asked = "   1924 kubelet --version\n";
        assert_eq!(facts().with_query(&KUBELET, asked).kubelet_process(), Ok(None));
        let both = facts().with_query(&KUBELET, &format!("{asked}   2000 /usr/bin/kubelet\n"));
        assert_eq!(both.kubelet_process().unwrap().map(|process| process.pid), Some(2000));
    }

    #[test]
    fn a_kubelet_whose_command_line_cannot_be_read_is_not_one_without_flags() {
        for line in ["   1924 [kubelet]\n", "   1924 [kubelet] <defunct>\n"] {
            assert_eq!(facts().with_query(&KUBELET, line).kubelet_process(), Ok(None), "{line}");
        }
    }

    #[test]
    fn of_several_kubelets_the_units_own_is_meant() {
        let two = " 4711 /usr/bin/kubelet --kubeconfig=/kind\n  812 /usr/bin/kubelet\n";
        let known = facts().with_query(&KUBELET, two);
        assert_eq!(known.kubelet_process().expect("known").expect("runs").pid, 4711);
        let known = known.with_query(&unit::SHOW, "Id=kubelet.service\nLoadState=loaded\nMainPID=812\n");
        assert_eq!(known.kubelet_process().expect("known").expect("runs").pid, 812);
        let stopped = known.with_query(&unit::SHOW, "Id=kubelet.service\nLoadState=loaded\nMainPID=0\n");
        assert_eq!(stopped.kubelet_process(), Ok(None), "both are somebody else's");
    }

    #[test]
    fn for_how_long_it_has_run_may_stand_before_its_command_line() {
        for (line, elapsed) in [("812 3600 /usr/bin/kubelet --v=2", Some(3600)), ("812 /usr/bin/kubelet --v=2", None)] {
            let read = parse(line).remove(0);
            assert_eq!((read.elapsed, read.words.join(" ").as_str()), (elapsed, "/usr/bin/kubelet --v=2"), "{line}");
        }
    }

    #[test]
    fn the_last_value_of_a_flag_counts() {
        let flag = |line: &str| parse(line).remove(0).flag("--config").map(str::to_owned);
        assert_eq!(flag("1 kubelet --config=/a --config /b --configs=/c").as_deref(), Some("/b"));
        assert_eq!(flag("1 kubelet --config=/a --config=").as_deref(), None);
    }

    #[test]
    fn a_kubelet_that_a_signal_stopped_is_known() {
        let with = |pid: u32, states: &str| {
            let unit = format!("Id=kubelet.service\nLoadState=loaded\nMainPID={pid}\n");
            facts().with_query(&unit::SHOW, &unit).with_query(&STATE, states).kubelet_is_suspended()
        };
        assert_eq!(with(812, "    812 Tsl\n   9000 Ssl\n"), Ok(true));
        assert_eq!(with(812, "    812 Ssl\n   9000 Tsl\n"), Ok(false), "another's");
        assert_eq!(with(0, "    812 T\n"), Ok(false));
        assert!(facts().kubelet_is_suspended().is_err());
    }

    #[test]
    fn a_flag_needs_a_value() {
        let flags = |line: &str| parse(line).first().expect("a process").has_flag("--kubeconfig");
        assert!(flags("1 kubelet --kubeconfig=/etc/kubernetes/kubelet.conf"));
        assert!(flags("1 kubelet --kubeconfig /etc/kubernetes/kubelet.conf"));
        for bare in ["1 kubelet", "1 kubelet --kubeconfig=", "1 kubelet --kubeconfig --v=2", "1 kubelet --kubeconfig"] {
            assert!(!flags(bare), "{bare}");
        }
        assert!(!flags("1 kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_of_processes(text in ".*") {
            for process in parse(&text) {
                process.has_flag("--kubeconfig");
            }
        }
    }
}
