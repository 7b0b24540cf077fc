//! The packages a join depends on: which are installed, and whether their files are still as they were shipped.

use super::evidence::Evidence;
use super::keep::USUAL;
use super::{Facts, Known, Missing, Query, Source, Why};

/// `127`, as a shell says it, where there is neither dpkg nor rpm.
const NO_TOOL: i32 = 127;

/// One line a package: name, version, state. What is not installed is passed over.
pub const INSTALLED: Query = Query {
    name: "dpkg-query -W, rpm -q",
    argv: &[
        "sh",
        "-c",
        "set -- kubelet kubeadm kubectl containerd containerd.io runc cri-tools kubernetes-cni docker.io docker-ce \
         moby-engine containernetworking-plugins cri-o cri-dockerd\n\
         if [ -s /var/lib/dpkg/status ]; then\n\
         dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n' \"$@\" 2>/dev/null\n\
         elif command -v rpm >/dev/null 2>&1; then\n\
         rpm -q --qf '%{NAME} %{VERSION}-%{RELEASE} installed\\n' \"$@\" | grep ' installed$' | grep -v ' is not installed$'\n\
         else exit 127; fi\n\
         exit 0",
    ],
    keep: USUAL,
};

/// In the form of `dpkg -V` and `rpm -V`. Digests only of unit files: to read three programs of 60 MB each takes longer
/// than all other facts together.
pub const VERIFIED: Query = Query {
    name: "dpkg -V, rpm -V",
    argv: &[
        "sh",
        "-c",
        "set -- kubelet kubeadm kubernetes-cni cri-tools containerd containerd.io runc\n\
         if [ -s /var/lib/dpkg/status ]; then\n\
         dpkg-query -L \"$@\" 2>/dev/null | while read -r path; do\n\
         case $path in /*) [ -e \"$path\" ] || [ -L \"$path\" ] || echo \"missing     $path\";; esac; done\n\
         cd /var/lib/dpkg/info && for name; do [ ! -e \"$name.md5sums\" ] || cat \"$name.md5sums\"; done | \
         grep '/systemd/system/' | (cd / && md5sum -c 2>/dev/null) | sed -n 's|^\\(.*\\): FAILED$|??5??????   /\\1|p'\n\
         elif command -v rpm >/dev/null 2>&1; then\n\
         rpm -V --nofiledigest --nodeps --noscripts \"$@\"\n\
         else exit 127; fi\n\
         exit 0",
    ],
    keep: USUAL,
};

pub const SOURCES: &[Source] = &[Source::Query(&INSTALLED), Source::Query(&VERIFIED)];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
}

/// A file of a package that is not as it was shipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlteredFile {
    pub path: String,
    pub missing: bool,
    /// Marked as configuration: meant to be edited.
    pub configuration: bool,
    pub line: u32,
    pub text: String,
}

impl AlteredFile {
    pub fn cite(&self) -> Evidence {
        Evidence::at(VERIFIED.name, self.line, &self.text)
    }
}

/// `kubelet 1.34.4-1.1 installed`. dpkg keeps the name of a removed package: only what is installed counts.
pub fn parse_installed(text: &str) -> Vec<Package> {
    let package = |line: &str| {
        let mut fields = line.split_whitespace();
        let (name, version, state) = (fields.next()?, fields.next()?, fields.next()?);
        let installed = state == "installed" && fields.next().is_none();
        installed.then(|| Package { name: name.to_owned(), version: version.to_owned() })
    };
    text.lines().filter_map(package).collect()
}

/// `missing     /usr/bin/x`, `??5?????? c /etc/x`, `S.5....T.  c /etc/x`.
pub fn parse_verified(text: &str) -> Vec<AlteredFile> {
    (1u32..).zip(text.lines()).filter_map(|(number, line)| parse_altered(number, line)).collect()
}

fn parse_altered(number: u32, line: &str) -> Option<AlteredFile> {
    let (marks, rest) = line.trim_end().split_once(char::is_whitespace)?;
    let missing = marks == "missing";
    // Of the nine marks `5` (digest), `S` (size), `L` (link), `M` (mode) tell that a file is another; `T` alone, its
    // date, does not.
    let marked = marks.len() == 9 && marks.chars().all(|mark| "?.SM5DLUGTPC".contains(mark));
    let changed = marked && marks.contains(['5', 'S', 'L', 'M']);
    if !missing && !changed {
        return None;
    }
    let rest = rest.trim_start();
    let (attribute, path) = rest.split_once(' ').filter(|(attribute, _)| attribute.len() == 1).unwrap_or(("", rest));
    let path = path.trim_start();
    let path = path.split_once(" (").map_or(path, |(path, _)| path);
    path.starts_with('/').then(|| AlteredFile {
        path: path.to_owned(),
        missing,
        configuration: attribute == "c",
        line: number,
        text: line.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

impl Facts {
    /// The command that puts deleted files of packages back: a plain install does not, since the package is there.
    pub fn reinstall_command(&self, packages: &str) -> String {
        if self.os_release().is_ok_and(|release| release.uses_dnf()) {
            format!("dnf reinstall -y {packages}")
        } else {
            format!("apt-get install --reinstall -o Dpkg::Options::=--force-confmiss {packages}")
        }
    }

    pub fn packages(&self) -> Known<Vec<Package>> {
        Ok(parse_installed(&self.package_query(&INSTALLED)?))
    }

    /// Files of the packages that are missing or changed.
    pub fn altered_files(&self) -> Known<Vec<AlteredFile>> {
        Ok(parse_verified(&self.package_query(&VERIFIED)?))
    }

    fn package_query(&self, query: &Query) -> Known<String> {
        let said = self.query(query)?;
        match said.exit {
            Some(0) | None => Ok(said.text.clone()),
            Some(NO_TOOL) => Err(Missing { source_name: query.name.to_owned(), why: Why::NoTool }),
            Some(_) => Err(Missing::broken(query.name, said.errors.lines().next().unwrap_or("it failed"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::facts;

    #[test]
    fn only_what_is_installed_counts() {
        let text = "containerd 1.6.20~ds1-1+deb12u3 installed\nkubelet 1.34.4-1.1 installed\nrunc 1.1.5 config-files\n\
                    package cri-o is not installed\n";
        let names: Vec<String> = parse_installed(text).into_iter().map(|package| package.name).collect();
        assert_eq!(names, ["containerd", "kubelet"]);
        assert_eq!(facts().with_query(&INSTALLED, text).packages().map(|packages| packages.len()), Ok(2));
    }

    #[test]
    fn reads_dpkg_and_rpm() {
        let text = "missing     /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf\n\
                    ??5?????? c /etc/default/kubelet\n\
                    missing   c /etc/sysconfig/kubelet\n\
                    S.5....T.  c /etc/containerd/config.toml\n\
                    .......T.    /usr/bin/kubelet\n\
                    S.5....T.    /usr/bin/kubeadm\n\
                    missing     /var/lib/x (Permission denied)\n\
                    package cri-tools is not installed\n";
        let read = parse_verified(text);
        let brief: Vec<(&str, bool, bool, u32)> =
            read.iter().map(|it| (it.path.as_str(), it.missing, it.configuration, it.line)).collect();
        assert_eq!(
            brief,
            [
                ("/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf", true, false, 1),
                ("/etc/default/kubelet", false, true, 2),
                ("/etc/sysconfig/kubelet", true, true, 3),
                ("/etc/containerd/config.toml", false, true, 4),
                ("/usr/bin/kubeadm", false, false, 6),
                ("/var/lib/x", true, false, 7),
            ]
        );
        assert_eq!(read[1].cite().to_string(), "dpkg -V, rpm -V:2  ??5?????? c /etc/default/kubelet");
    }

    #[test]
    fn the_command_fits_the_distribution() {
        let debian = facts().with_file("/etc/os-release", "PRETTY_NAME=\"Debian\"\nID=debian\n");
        let rocky = facts().with_file("/etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n");
        assert!(debian.reinstall_command("kubelet").starts_with("apt-get install --reinstall"));
        assert_eq!(rocky.reinstall_command("kubelet"), "dnf reinstall -y kubelet");
    }

    #[test]
    fn without_dpkg_and_rpm_nothing_is_known() {
        assert_eq!(facts().with_exit(&INSTALLED, 127, "", "").packages().unwrap_err().why, Why::NoTool);
        assert!(matches!(facts().with_exit(&VERIFIED, 2, "", "x\n").altered_files().unwrap_err().why, Why::Broken(_)));
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_of_packages(text in "(missing|[?.5SMT]{9}|[ /c(\n]|.)*") {
            parse_installed(&text);
            parse_verified(&text);
        }
    }
}
