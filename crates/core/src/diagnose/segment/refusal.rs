//! Lines in which a program says that it could not: a file that is not there is a fact, too.

use crate::fact::Why;

/// What could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal<'a> {
    Path(&'a str, Why),
    /// A program that is not installed.
    Tool(&'a str),
    /// A unit systemd does not know.
    Unit(&'a str),
}

/// Programs that name the path they failed on, and what they say before it.
const TOOLS: [&str; 10] = ["ls", "cat", "head", "tail", "less", "stat", "find", "sysctl", "grep", "tee"];
const BEFORE: [&str; 5] =
    ["cannot access ", "cannot open directory ", "cannot open ", "cannot stat ", "cannot read directory "];

pub(super) fn read(text: &str) -> Option<Refusal<'_>> {
    let text = text.trim();
    // Longer lines are logs that quote such a line.
    if text.len() > 300 {
        return None;
    }
    path(text).or_else(|| tool(text)).or_else(|| unit(text))
}

/// `ls: cannot access '/etc/cni/net.d': No such file or directory`, `cat: /etc/hosts: Permission denied`.
fn path(text: &str) -> Option<Refusal<'_>> {
    let (tool, rest) = text.split_once(": ")?;
    let tool = tool.rsplit('/').next().unwrap_or(tool);
    let (named, reason) = rest.rsplit_once(": ").filter(|_| TOOLS.contains(&tool))?;
    let named = BEFORE.iter().find_map(|words| named.strip_prefix(words)).unwrap_or(named);
    let named = named.strip_suffix(" for reading").unwrap_or(named);
    let named = named.trim_matches(['\'', '"', '‘', '’', '`']);
    let why = match reason.trim_end_matches('.') {
        "No such file or directory" => Why::Absent,
        "Permission denied" | "Operation not permitted" => Why::Denied,
        "Stale file handle" | "Input/output error" | "Transport endpoint is not connected" => {
            Why::Broken(reason.to_owned())
        }
        _ => return None,
    };
    (named.starts_with('/') && !named.contains(['*', '?', ' '])).then_some(Refusal::Path(named, why))
}

/// `bash: crictl: command not found`, `sh: 1: crictl: not found`, `zsh: command not found: crictl`.
fn tool(text: &str) -> Option<Refusal<'_>> {
    let name = if let Some(before) = text.strip_suffix(": command not found") {
        before.rsplit(": ").next()?
    } else if let Some(name) = text.strip_prefix("zsh: command not found: ") {
        name
    } else if let Some(before) =
        text.strip_suffix(": not found").filter(|text| text.starts_with("sh: ") || text.starts_with("/bin/sh: "))
    {
        before.rsplit(": ").next()?
    } else {
        text.strip_prefix("Command '")?.split_once("' not found")?.0
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+/".contains(&byte);
    (!name.is_empty() && name.bytes().all(fits)).then_some(Refusal::Tool(name))
}

/// `Unit kubelet.service could not be found.`, `No files found for kubelet.service.`
fn unit(text: &str) -> Option<Refusal<'_>> {
    let named = text.strip_prefix("Unit ").and_then(|rest| rest.strip_suffix(" could not be found."));
    let named = named.or_else(|| text.strip_prefix("No files found for ").and_then(|rest| rest.strip_suffix('.')));
    named?.strip_suffix(".service").map(Refusal::Unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_refusals() {
        for (text, expected) in [
            (
                "ls: cannot access '/etc/cni/net.d': No such file or directory",
                Some(Refusal::Path("/etc/cni/net.d", Why::Absent)),
            ),
            (
                "cat: /etc/kubernetes/kubelet.conf: No such file or directory",
                Some(Refusal::Path("/etc/kubernetes/kubelet.conf", Why::Absent)),
            ),
            (
                "ls: cannot open directory '/var/lib/kubelet/pki': Permission denied",
                Some(Refusal::Path("/var/lib/kubelet/pki", Why::Denied)),
            ),
            (
                "head: cannot open '/etc/fstab' for reading: Permission denied",
                Some(Refusal::Path("/etc/fstab", Why::Denied)),
            ),
            (
                "sysctl: cannot stat /proc/sys/net/bridge/bridge-nf-call-iptables: No such file or directory",
                Some(Refusal::Path("/proc/sys/net/bridge/bridge-nf-call-iptables", Why::Absent)),
            ),
            ("bash: crictl: command not found", Some(Refusal::Tool("crictl"))),
            ("-bash: line 3: kubelet: command not found", Some(Refusal::Tool("kubelet"))),
            ("sudo: kubeadm: command not found", Some(Refusal::Tool("kubeadm"))),
            ("sh: 1: containerd: not found", Some(Refusal::Tool("containerd"))),
            ("zsh: command not found: kubelet", Some(Refusal::Tool("kubelet"))),
            ("Unit kubelet.service could not be found.", Some(Refusal::Unit("kubelet"))),
            ("No files found for kubelet.service.", Some(Refusal::Unit("kubelet"))),
            ("ls: cannot access '/etc/cni/net.d/*': No such file or directory", None),
            ("cat: /etc/cni: Is a directory", None),
            ("error: open /var/lib/kubelet/config.yaml: no such file or directory", None),
            ("", None),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }
}
