//! systemd units: what they are made of (`systemctl cat`) and how they are (`systemctl show`).

use super::keep::USUAL;
use super::{Capture, Facts, Known, Missing, Query, Source, Why};

pub const KUBELET: Query = cat("systemctl cat kubelet", &["systemctl", "cat", "--no-pager", "kubelet.service"]);
pub const CONTAINERD: Query = cat("systemctl cat containerd", &["systemctl", "cat", "--no-pager", "containerd.service"]);

/// The units whose state matters, in one call: each is a block of `Key=value` lines.
pub const SHOW: Query = Query {
    name: "systemctl show",
    argv: &[
        "systemctl",
        "show",
        "--no-pager",
        "--property=Id,LoadState,ActiveState,SubState,UnitFileState,FragmentPath,DropInPaths,MainPID,NRestarts,Result,\
         ExecMainStatus,ExecMainStartTimestamp,InvocationID,NeedDaemonReload,ConditionResult,Environment",
        "kubelet.service",
        "containerd.service",
        "docker.service",
        "crio.service",
        "cri-docker.service",
        "firewalld.service",
        "ufw.service",
        "chrony.service",
        "chronyd.service",
        "systemd-timesyncd.service",
        "ntpsec.service",
        "systemd-resolved.service",
        "apparmor.service",
        "k3s.service",
        "k3s-agent.service",
        "rke2-agent.service",
        "rke2-server.service",
        "snap.microk8s.daemon-kubelite.service",
    ],
    keep: USUAL,
};

pub const SOURCES: &[Source] = &[Source::Query(&KUBELET), Source::Query(&CONTAINERD), Source::Query(&SHOW)];

const fn cat(name: &'static str, argv: &'static [&'static str]) -> Query {
    Query { name, argv, keep: USUAL }
}

/// A unit as systemd puts it together: the packaged file and its drop-ins, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub files: Vec<UnitFile>,
    source_name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFile {
    pub path: String,
    pub directives: Vec<Directive>,
}

/// `Key=value` in a section. Continued lines are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Empty where a line stands before any `[Section]`: systemd ignores those.
    pub section: String,
    pub key: String,
    pub value: String,
    /// The line within the whole of `systemctl cat`.
    pub line: u32,
}

/// `systemctl cat`: each file under a `# /path` heading.
pub fn parse_cat(source_name: &'static str, text: &str) -> Unit {
    let mut files: Vec<UnitFile> = Vec::new();
    let mut section = String::new();
    let mut continued: Option<Directive> = None;
    for (line, text) in (1u32..).zip(text.lines()) {
        let trimmed = text.trim();
        if let Some(directive) = &mut continued {
            // A comment inside a continued line is passed over, as systemd does.
            if trimmed.starts_with('#') || trimmed.starts_with(';') {
                continue;
            }
            let more = trimmed.strip_suffix('\\');
            directive.value = format!("{} {}", directive.value, more.unwrap_or(trimmed).trim());
            if more.is_none() {
                push(&mut files, continued.take());
            }
        } else if let Some(path) = trimmed.strip_prefix("# /").filter(|path| !path.contains(' ')) {
            files.push(UnitFile { path: format!("/{path}"), directives: Vec::new() });
            section.clear();
        } else if trimmed.starts_with('#') || trimmed.starts_with(';') || trimmed.is_empty() {
        } else if let Some(name) = trimmed.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some((key, value)) = trimmed.split_once('=') {
            let more = value.strip_suffix('\\');
            let value = more.unwrap_or(value).trim().to_owned();
            let directive = Directive { section: section.clone(), key: key.trim().to_owned(), value, line };
            if more.is_some() {
                continued = Some(directive);
            } else {
                push(&mut files, Some(directive));
            }
        }
    }
    push(&mut files, continued);
    Unit { files, source_name }
}

fn push(files: &mut [UnitFile], directive: Option<Directive>) {
    if let (Some(file), Some(directive)) = (files.last_mut(), directive) {
        file.directives.push(directive);
    }
}
