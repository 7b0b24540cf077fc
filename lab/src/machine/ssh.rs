//! The way into a machine: ssh with the lab's own key. Host keys are not looked at: the machines live for minutes.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::run::{Run, shell_word};

const OPTIONS: &[&str] = &[
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "GlobalKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
    "ConnectTimeout=5",
    // A machine that was cut off is noticed, not waited for.
    "ServerAliveInterval=5",
    "ServerAliveCountMax=6",
];

pub fn port_answers(address: Ipv4Addr) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((address, 22)), Duration::from_millis(200)).is_ok()
}

pub fn command<A: AsRef<str>>(key: &Path, address: Ipv4Addr, argv: impl IntoIterator<Item = A>) -> Run {
    base(key).args(["-o", "BatchMode=yes"]).arg(format!("root@{address}")).arg(quoted(argv))
}

/// The same in a terminal there, as for a person: what runs in it is hung up on when the connection ends.
pub fn in_terminal<A: AsRef<str>>(key: &Path, address: Ipv4Addr, argv: impl IntoIterator<Item = A>) -> Run {
    base(key).args(["-o", "BatchMode=yes", "-tt"]).arg(format!("root@{address}")).arg(quoted(argv))
}

pub fn interactive(key: &Path, address: Ipv4Addr, argv: &[String]) -> Run {
    let run = base(key).arg(if argv.is_empty() { "-t" } else { "-T" }).arg(format!("root@{address}"));
    let line = quoted(argv);
    if line.is_empty() { run } else { run.arg(line) }
}

/// ssh hands one string to the login shell of the far side: every word is quoted for it.
fn quoted<A: AsRef<str>>(argv: impl IntoIterator<Item = A>) -> String {
    argv.into_iter().map(|word| shell_word(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// The same as a client's configuration file.
pub fn config(key: &Path, name: &str, address: Ipv4Addr) -> String {
    let options = OPTIONS.iter().map(|option| format!("  {}\n", option.replacen('=', " ", 1))).collect::<String>();
    format!("Host {name}\n  HostName {address}\n  User root\n  IdentityFile {}\n{options}", key.display())
}

fn base(key: &Path) -> Run {
    let run = Run::new("ssh").args(["-F", "none", "-i"]).arg(key);
    OPTIONS.iter().fold(run, |run, option| run.args(["-o", option]))
}
