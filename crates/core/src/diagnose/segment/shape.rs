//! Output that is known by its look, without any heading: the line it begins with, and which lines go on with it.

use super::section::Form;
use super::{listing, machine, mounts, net};
use crate::fact::unit::heading_path;
use crate::fact::{unit_status, version};

/// No line that begins something is longer.
const LONGEST: usize = 2000;

/// What begins with this line.
pub(super) fn begins(text: &str) -> Option<Form> {
    let line = text.trim();
    if line.is_empty() || line.len() > LONGEST {
        return None;
    }
    let at_margin = !text.starts_with([' ', '\t']);
    unit(line)
        .or_else(|| table(line))
        .or_else(|| setting(line, at_margin))
        .or_else(|| network(line))
        .or_else(|| program(line))
        .or_else(|| (line == "{" || line.starts_with("{\"")).then_some(Form::Json))
}

fn unit(line: &str) -> Option<Form> {
    let warned = line.starts_with("Warning: The unit file, source configuration file or drop-ins of ");
    if warned || unit_status::unit_of(line).is_some() {
        return Some(Form::Status);
    }
    heading_path(line).map(|_| Form::Cat)
}

fn table(line: &str) -> Option<Form> {
    let words: Vec<&str> = line.split_whitespace().take(8).collect();
    Some(match words.as_slice() {
        ["Filesystem", ..] if line.ends_with("Mounted on") => Form::Df(Vec::new()),
        ["Filename", "Type", "Size", "Used", "Priority"] => Form::Swaps,
        ["NAME", "TYPE", "SIZE", "USED", "PRIO"] => Form::SwapShow,
        ["TARGET", "SOURCE", "FSTYPE", "OPTIONS"] => Form::Findmnt,
        ["Module", "Size", "Used", "by"] => Form::Modules,
        ["total", "used", "free", ..] if line.contains("available") => Form::Free(None),
        ["State", "Recv-Q", "Send-Q", ..] => Form::Sockets { udp: false, netstat: false },
        ["Netid", "State", ..] => Form::Sockets { udp: true, netstat: false },
        [path] if path.starts_with('/') && path.ends_with(':') => {
            Form::Listing { paths: Vec::new(), long: true, marks: false }
        }
        _ if line.starts_with("Active Internet connections (") => Form::Sockets { udp: true, netstat: true },
        _ if mounts::is_mountinfo(line) => Form::Mountinfo,
        _ if mounts::mounted(line).is_some() => Form::Mount,
        _ => return None,
    })
}

fn setting(line: &str, at_margin: bool) -> Option<Form> {
    let starts = |words: &str| line.starts_with(words);
    Some(if starts("Local time: ") {
        Form::Clock
    } else if starts("Static hostname: ") {
        Form::Hostnamectl
    } else if starts("PRETTY_NAME=") || starts("NAME=\"") {
        Form::OsRelease
    } else if at_margin && starts("apiVersion: kubelet.config.k8s.io/") {
        Form::KubeletConfig
    } else if at_margin && line == "apiVersion: v1" {
        Form::Kubeconfig
    } else if is_containerds(line) {
        Form::ContainerdConfig
    } else if machine::parameter(line).is_some() {
        Form::Sysctl
    } else {
        return None;
    })
}

fn is_containerds(line: &str) -> bool {
    let table = line
        .strip_prefix("[plugins.")
        .is_some_and(|rest| rest.trim_start_matches(['"', '\'']).starts_with("io.containerd."));
    table || matches!(line, "version = 2" | "version = 3" | "[plugins]") || line.starts_with("disabled_plugins = [")
}

fn network(line: &str) -> Option<Form> {
    let words: Vec<&str> = line.split_whitespace().take(12).collect();
    let loopback = matches!(words.as_slice(), ["lo", "UNKNOWN", ..]) || line.starts_with("1: lo: <LOOPBACK");
    if loopback {
        return Some(Form::Links);
    }
    (line.starts_with("default via ") && words.contains(&"dev")).then_some(Form::Routes)
}

fn program(line: &str) -> Option<Form> {
    let words: Vec<&str> = line.split_whitespace().take(5).collect();
    let is_version = |word: &str| version::parse(word).is_some();
    match words.as_slice() {
        ["Kubernetes", number] if is_version(number) => Some(Form::Query(&version::KUBELET)),
        ["kubeadm", "version:", ..] if line.contains("GitVersion:") => Some(Form::Query(&version::KUBEADM)),
        ["containerd", from, number, ..] if from.contains("containerd") && words.len() == 4 && is_version(number) => {
            Some(Form::Query(&version::CONTAINERD))
        }
        _ => None,
    }
}

/// Whether a line goes on with what was begun; `last` is the one before, `None` where this is the first.
pub(super) fn fits(form: &Form, text: &str, last: Option<&str>) -> bool {
    let Some(last) = last else { return true };
    let line = text.trim();
    let blank = line.is_empty();
    let words = line.split_whitespace().count();
    match form {
        // A blank line stands between a unit and its log.
        Form::Status => !blank && !last.trim().is_empty(),
        Form::Cat => blank || line.starts_with(['#', ';', '[']) || line.contains('=') || last.ends_with('\\'),
        Form::Df(_) => !blank && words >= 5 && line.contains(['%', '-']),
        Form::Mountinfo => mounts::is_mountinfo(line),
        Form::Mount => mounts::mounted(line).is_some(),
        Form::Findmnt => line.contains('/') && words >= 4,
        Form::Swaps | Form::SwapShow => line.starts_with('/') && words >= 4,
        Form::Free(_) => line.starts_with("Mem:") || line.starts_with("Swap:") || line.starts_with("-/+"),
        Form::Modules => words >= 3 && line.split_whitespace().nth(1).is_some_and(|size| size.parse::<u64>().is_ok()),
        Form::Sockets { netstat, .. } => {
            ["LISTEN", "UNCONN", "tcp", "udp"].iter().any(|word| line.starts_with(word))
                || (*netstat && line.starts_with("Proto"))
        }
        Form::Listing { .. } => {
            blank
                || listing::is_total(line)
                || listing::row(line, false).is_some()
                || (line.starts_with('/') && line.ends_with(':'))
        }
        Form::Clock | Form::Hostnamectl => line.contains(": "),
        Form::OsRelease => line
            .split_once('=')
            .is_some_and(|(key, _)| key.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')),
        Form::KubeletConfig | Form::Kubeconfig => is_yaml(text),
        Form::ContainerdConfig => blank || line.starts_with(['#', '[', ']', '"', '\'']) || line.contains('='),
        Form::Sysctl => machine::parameter(line).is_some(),
        Form::Links => {
            !blank && (net::brief_link(&line.split_whitespace().collect::<Vec<_>>()).is_some() || is_of_a_link(text))
        }
        Form::Routes => net::route(line).is_some() || line.starts_with("nexthop "),
        Form::Json => {
            line.starts_with(['"', '{', '}', '[', ']', '-'])
                || line.starts_with(|c: char| c.is_ascii_digit())
                || is_literal(line)
        }
        // A version is one line.
        _ => false,
    }
}

fn is_literal(line: &str) -> bool {
    matches!(line.trim_end_matches(','), "true" | "false" | "null")
}

fn is_yaml(text: &str) -> bool {
    let line = text.trim();
    line.starts_with(['#', '-']) || line.contains(": ") || line.ends_with(':') || line.ends_with(": |")
}

/// A line of `ip address` under its link, or the next link.
fn is_of_a_link(text: &str) -> bool {
    let line = text.trim();
    let below =
        ["link/", "inet", "valid_lft", "altname", "vxlan", "bridge", "veth"].iter().any(|word| line.starts_with(word));
    below || line.split_once(": ").is_some_and(|(index, rest)| index.parse::<u32>().is_ok() && rest.contains('<'))
}
