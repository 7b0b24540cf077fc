//! What a case needs: machines, programs, tools of the machine it runs on. As data, so that a run builds what its cases need
//! and no more, and says at its start which tool is missing, and who wants it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::build::Part;
use crate::error::{Result, said};
use crate::machine::Kind;
use crate::run::which;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The cluster that the cases of a run share.
    Cluster,
    /// Fresh machines of a kind.
    Machine(Kind),
    /// A lab of its own: a control plane, and Debian 12 workers.
    OwnLab,
    /// The testkit's API server.
    ApiServer,
    /// Programs of one of the modules in `lab/go`, for what a machine is made into.
    Programs(&'static str),
    Tool(Tool),
    /// It changes something that all machines share, as the kernel's swap: played when all others have ended.
    Alone,
}

/// What is to be installed on the machine that the lab runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tool {
    pub name: &'static str,
    /// Debian's.
    pub package: &'static str,
    /// Where it is no program: the file that tells.
    file: Option<&'static str>,
}

const fn program(name: &'static str, package: &'static str) -> Tool {
    Tool { name, package, file: None }
}

pub const STRACE: Tool = program("strace", "strace");
pub const CHROMIUM: Tool = program("chromium", "chromium");
pub const CXX: Tool = program("c++", "g++");
pub const DEBOOTSTRAP: Tool = program("debootstrap", "debootstrap");
pub const GCC: Tool = program("gcc", "gcc");
pub const LIBC: Tool = Tool { name: "stdlib.h", package: "libc6-dev", file: Some("/usr/include/stdlib.h") };
pub const KEYGEN: Tool = program("ssh-keygen", "openssh-client");
/// For the namespace and the file system of a test run.
pub const ROOM: &[Tool] = &[program("ip", "iproute2"), program("unshare", "util-linux"), MKFS];
const MKFS: Tool = program("mkfs.xfs", "xfsprogs");
const MACHINE: &[Tool] = &[
    program("systemd-nspawn", "systemd-container"),
    program("ssh", "openssh-client"),
    program("ip", "iproute2"),
    program("unshare", "util-linux"),
];
const API_SERVER: &[Tool] = &[program("setpriv", "util-linux")];
/// What is asked for though no case names it: to build, and for every run.
#[cfg(test)]
pub const BESIDE_CASES: &[&[Tool]] = &[&[DEBOOTSTRAP, GCC, LIBC, KEYGEN], ROOM];

impl Need {
    /// What has to be built for it.
    pub fn parts(self) -> Vec<Part> {
        match self {
            Self::Cluster => Part::CONTROL_PLANE.to_vec(),
            Self::Machine(kind) => Part::of(kind),
            Self::OwnLab => Part::CONTROL_PLANE.iter().copied().chain(Part::of(Kind::Debian12)).collect(),
            Self::ApiServer => vec![Part::Programs("kube"), Part::Programs("etcd")],
            Self::Programs(module) => vec![Part::Programs(module)],
            Self::Tool(_) | Self::Alone => Vec::new(),
        }
    }

    fn tools(&self) -> &[Tool] {
        match self {
            Self::Cluster | Self::Machine(_) | Self::OwnLab => MACHINE,
            Self::ApiServer => API_SERVER,
            Self::Tool(tool) => std::slice::from_ref(tool),
            Self::Programs(_) | Self::Alone => &[],
        }
    }
}

impl Tool {
    fn is_here(&self) -> bool {
        self.file.map_or_else(|| which(self.name).is_some(), |file| Path::new(file).exists())
    }
}

/// Tools, and who wants each.
#[derive(Default)]
pub struct Tools(BTreeMap<Tool, BTreeSet<String>>);

impl Tools {
    pub fn wanted(&mut self, tools: &[Tool], who: &str) {
        for tool in tools {
            self.0.entry(*tool).or_default().insert(who.to_owned());
        }
    }

    pub fn of_needs(&mut self, needs: &[Need], who: &str) {
        for need in needs {
            self.wanted(need.tools(), who);
        }
    }

    #[cfg(test)]
    pub fn packages(&self) -> BTreeSet<&'static str> {
        self.0.keys().map(|tool| tool.package).collect()
    }

    /// All that are missing, in one message: whoever installs one would else be told of the next.
    pub fn ask(&self) -> Result<()> {
        match self.missing(Tool::is_here).as_slice() {
            [] => Ok(()),
            missing => said(missing.join("\n")),
        }
    }

    fn missing(&self, is_here: impl Fn(&Tool) -> bool) -> Vec<String> {
        /// Enough to see what it is for.
        const NAMED: usize = 3;
        let absent = self.0.iter().filter(|(tool, _)| !is_here(tool));
        let line = |(Tool { name, package, .. }, who): (&Tool, &BTreeSet<String>)| {
            let named: Vec<&str> = who.iter().take(NAMED).map(String::as_str).collect();
            let more = who.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{name} is missing (Debian's package {package}), wanted by {}{more}", named.join(", "))
        };
        absent.map(line).collect()
    }
}

/// Asks for what machines on a disk of their own need, before anything is built.
pub fn for_machines(who: &str) -> Result<()> {
    let mut tools = Tools::default();
    tools.wanted(ROOM, who);
    tools.wanted(MACHINE, who);
    tools.ask()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_told_with_its_package_and_who_wants_it() {
        let mut tools = Tools::default();
        tools.of_needs(&[Need::Cluster, Need::Tool(STRACE), Need::Alone], "join-secrets");
        tools.of_needs(&[Need::Tool(CHROMIUM)], "html-in-a-browser");
        for case in ["fix-killed", "fix-touches", "fix-rest"] {
            tools.of_needs(&[Need::Tool(STRACE)], case);
        }
        tools.wanted(&[LIBC], "building flannel");
        assert_eq!(tools.missing(|_| true), [""; 0]);
        assert_eq!(
            tools.missing(|tool| !["chromium", "strace", "stdlib.h"].contains(&tool.name)),
            [
                "chromium is missing (Debian's package chromium), wanted by html-in-a-browser",
                "stdlib.h is missing (Debian's package libc6-dev), wanted by building flannel",
                "strace is missing (Debian's package strace), wanted by fix-killed, fix-rest, fix-touches and 1 more",
            ]
        );
    }

    #[test]
    fn what_is_built_follows_from_what_is_needed() {
        let built = |need: Need| -> Vec<Part> { crate::build::with_all_below(need.parts()).into_iter().collect() };
        let old = Part::Programs("kube-1.29");
        for (need, has, has_not) in [
            (Need::ApiServer, &[Part::Programs("etcd")][..], &[Part::Node, Part::Images][..]),
            (Need::Tool(STRACE), &[], &[Part::Programs("kube"), Part::Node]),
            (Need::Cluster, &[Part::Images, Part::Programs("flannel")], &[old, Part::OldNode]),
            (Need::Machine(Kind::Debian12Kube129), &[old, Part::OldNode], &[]),
        ] {
            let parts = built(need);
            assert!(has.iter().all(|part| parts.contains(part)), "{need:?}: {parts:?}");
            assert!(!has_not.iter().any(|part| parts.contains(part)), "{need:?}: {parts:?}");
        }
    }
}
