//! What a program did to a machine, as strace saw it from outside: which files it and all it started wrote, and what it ran
//! itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::fix::bring;
use crate::machine::Machine;

const PROGRAM: &str = "/usr/bin/strace";
const LOG: &str = "/root/strace.log";

/// Everything that changes a file system, a process or the kernel, and who started whom.
const CALLS: &str = "trace=execve,clone,clone3,fork,vfork,open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,\
    rmdir,mkdir,mkdirat,mknod,mknodat,symlink,symlinkat,link,linkat,chmod,fchmod,fchmodat,chown,fchown,fchownat,lchown,\
    truncate,ftruncate,setxattr,lsetxattr,fsetxattr,mount,umount2,swapon,swapoff,init_module,finit_module,delete_module,\
    kill,tgkill,reboot,sethostname,settimeofday,clock_settime";

/// Flags of `open` with which something can be written.
const WRITES: [&str; 4] = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"];

/// What is to be put before a command.
pub const WATCHED: &[&str] = &[PROGRAM, "-f", "-y", "-s", "8192", "-o", LOG, "-e", CALLS];

/// Ends the command where it makes a call on a path.
pub fn killed_at<'a>(call: &'a str, path: &'a str) -> Vec<&'a str> {
    vec![PROGRAM, "-f", "-qq", "-o", "/dev/null", "-P", path, "-e", call]
}

/// Puts strace on a machine.
pub fn install(machine: &Machine) -> Result<()> {
    bring(machine, Path::new(PROGRAM))
}

/// What was seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TracedCalls {
    /// Paths that were opened for writing, made, renamed, removed or whose mode or owner was set.
    pub written: BTreeSet<String>,
    /// What the program itself ran, as strace writes it: `["systemctl", "daemon-reload"]`.
    pub ran: BTreeSet<String>,
    /// Calls that change something else: mounts, modules, swap, the clock.
    pub other: BTreeSet<String>,
}

pub fn seen(machine: &Arc<Machine>) -> Result<TracedCalls> {
    Ok(parse(&machine.ok(["cat", LOG])?))
}

pub fn parse(log: &str) -> TracedCalls {
    let calls = whole_calls(log);
    let children = children(&calls);
    let mut seen = TracedCalls::default();
    let mut begun = BTreeSet::new();
    for Call { pid, name, arguments } in calls {
        let quoted = quoted(&arguments);
        match name.as_str() {
            // What a shell of a query then turns into is that query's own affair.
            "execve" if children.contains(&pid) && begun.insert(pid) => {
                seen.ran.extend(
                    arguments
                        .find('[')
                        .zip(arguments.find("], "))
                        .map(|(from, to)| arguments.get(from..=to).unwrap_or_default().to_owned()),
                );
            }
            "execve" | "clone" | "clone3" | "fork" | "vfork" => {}
            "open" | "openat" | "openat2" if !WRITES.iter().any(|flag| arguments.contains(flag)) => {}
            "fchmod" | "fchown" | "ftruncate" | "fsetxattr" => seen.written.extend(annotated(&arguments)),
            // How Go programs (containerd, kubeadm) make their own threads change places.
            "tgkill" if arguments.contains("SIGURG") => {}
            "mount" | "umount2" | "swapon" | "swapoff" | "init_module" | "finit_module" | "delete_module" | "kill"
            | "tgkill" | "reboot" | "sethostname" | "settimeofday" | "clock_settime" => {
                seen.other.insert(format!("{name}({arguments}"));
            }
            _ => seen.written.extend(quoted),
        }
    }
    seen
}

struct Call {
    pid: u32,
    name: String,
    /// From after the opening bracket to the result.
    arguments: String,
}

/// Calls that worked. One that another process interrupts stands in two lines.
fn whole_calls(log: &str) -> Vec<Call> {
    let mut open: BTreeMap<u32, String> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let (Ok(pid), rest) = (pid.parse::<u32>(), rest.trim_start()) else { continue };
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            open.insert(pid, begun.to_owned());
            continue;
        }
        let whole = match rest.split_once(" resumed>") {
            Some((head, end)) if head.starts_with("<...") => open.remove(&pid).unwrap_or_default() + end,
            _ => rest.to_owned(),
        };
        let (Some((name, arguments)), false) = (whole.split_once('('), whole.contains(") = -1 ")) else { continue };
        calls.push(Call { pid, name: name.to_owned(), arguments: arguments.to_owned() });
    }
    calls
}

/// The processes that the first program started itself, from any of its threads.
fn children(calls: &[Call]) -> BTreeSet<u32> {
    let mut threads: BTreeSet<u32> = calls.first().map(|call| call.pid).into_iter().collect();
    let made = |call: &Call| {
        let is_clone = matches!(call.name.as_str(), "clone" | "clone3" | "fork" | "vfork");
        let child = call.arguments.rsplit(") = ").next().and_then(|result| result.split(' ').next()?.parse().ok());
        child.filter(|_| is_clone).map(|child: u32| (call.pid, child, call.arguments.contains("CLONE_THREAD")))
    };
    let made: Vec<(u32, u32, bool)> = calls.iter().filter_map(made).collect();
    let mut children = BTreeSet::new();
    // A thread may start another before its own start is seen to have ended.
    for _ in 0..made.len() {
        let known = threads.len() + children.len();
        for (parent, child, is_thread) in &made {
            if threads.contains(parent) {
                if *is_thread {
                    threads.insert(*child)
                } else {
                    children.insert(*child)
                };
            }
        }
        if threads.len() + children.len() == known {
            break;
        }
    }
    children
}

/// The strings among the arguments: paths.
fn quoted(arguments: &str) -> Vec<String> {
    let before_result = arguments.rsplit_once(") = ").map_or(arguments, |(before, _)| before);
    before_result.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// `9</etc/x>, 0644) = 0`: the path behind a descriptor.
fn annotated(arguments: &str) -> Option<String> {
    let (_, rest) = arguments.split_once('<')?;
    rest.split_once('>').map(|(path, _)| path.to_owned())
}

/// A command as strace writes it.
pub fn as_written(argv: &[&str]) -> String {
    let word = |word: &&str| {
        let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
        format!("\"{escaped}\"")
    };
    format!("[{}]", argv.iter().map(word).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"10 execve("/usr/local/bin/carrick", ["carrick", "check"], 0x7ff /* 9 vars */) = 0
10 clone3({flags=CLONE_VM|CLONE_THREAD, stack=0x1}, 88) = 11
11 openat(AT_FDCWD</root>, "/etc/fstab", O_RDONLY|O_CLOEXEC) = 9</etc/fstab>
11 clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD}, 88 <unfinished ...>
12 execve("/usr/sbin/systemctl", ["systemctl", "daemon-reload"], 0x7ff /* 9 vars */) = -1 ENOENT (No such file or directory)
12 execve("/usr/bin/systemctl", ["systemctl", "daemon-reload"], 0x7ff /* 9 vars */) = 0
11 <... clone3 resumed>) = 12
12 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 13
13 execve("/bin/cat", ["cat"], 0x7ff /* 9 vars */) = 0
13 openat(AT_FDCWD</root>, "/dev/null", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 1</dev/null>
11 openat(AT_FDCWD</root>, "/etc/.fstab.carrick", O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW, 0600) = 9</etc/.fstab.carrick>
11 fchmod(9</etc/.fstab.carrick>, 0644)    = 0
11 rename("/etc/.fstab.carrick", "/etc/fstab" <unfinished ...>
12 +++ exited with 0 +++
11 <... rename resumed>) = 0
11 unlink("/etc/gone") = -1 ENOENT (No such file or directory)
"#;

    #[test]
    fn tells_what_was_written_and_what_the_program_itself_ran() {
        let seen = parse(LOG);
        assert_eq!(
            seen.written.iter().map(String::as_str).collect::<Vec<_>>(),
            ["/dev/null", "/etc/.fstab.carrick", "/etc/fstab"]
        );
        assert_eq!(
            seen.ran.iter().map(String::as_str).collect::<Vec<_>>(),
            [as_written(&["systemctl", "daemon-reload"])]
        );
        assert!(seen.other.is_empty());
    }

    #[test]
    fn a_command_is_written_as_strace_does() {
        assert_eq!(as_written(&["sh", "-c", "echo \"a\\n\"\n"]), r#"["sh", "-c", "echo \"a\\n\"\n"]"#);
    }
}
