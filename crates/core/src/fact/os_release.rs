//! Which distribution a machine runs: `/etc/os-release`.

use super::{Facts, Known, OrAbsent, Source};

const ETC: &str = "/etc/os-release";
const USR: &str = "/usr/lib/os-release";

pub const SOURCES: &[Source] = &[Source::File(ETC), Source::File(USR)];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsRelease {
    /// `debian`, `rhel`, `rocky` …
    pub id: String,
    /// `12`, `9.4`; empty on a rolling release.
    pub version_id: String,
    /// `Debian GNU/Linux 12 (bookworm)`.
    pub pretty_name: String,
    /// What it descends from: `["rhel", "centos", "fedora"]`.
    pub id_like: Vec<String>,
}

impl OsRelease {
    /// Whether it is, or descends from, a distribution.
    pub fn is_like(&self, id: &str) -> bool {
        self.id == id || self.id_like.iter().any(|like| like == id)
    }

    /// Whether packages are RPMs that dnf installs.
    pub fn uses_dnf(&self) -> bool {
        ["rhel", "fedora", "centos"].iter().any(|id| self.is_like(id))
    }

    /// The command that installs a package here; apt's where the family is not known, as most machines have that.
    pub fn install(&self, package: &str) -> String {
        let family = |ids: &[&str]| ids.iter().any(|id| self.is_like(id));
        if self.uses_dnf() {
            format!("dnf install -y {package}")
        } else if family(&["suse", "opensuse"]) {
            format!("zypper install -y {package}")
        } else if family(&["arch"]) {
            format!("pacman -S {package}")
        } else {
            format!("apt-get install -y {package}")
        }
    }
}

/// `KEY=value` lines as a shell would read them: values may be quoted, with a backslash before `"`, `$`, `\` and a
/// backtick.
pub fn parse(text: &str) -> OsRelease {
    let mut release = OsRelease::default();
    for (key, value) in text.lines().filter_map(|line| line.trim().split_once('=')) {
        let value = unquoted(value.trim());
        match key {
            "ID" => release.id = value,
            "VERSION_ID" => release.version_id = value,
            "PRETTY_NAME" => release.pretty_name = value,
            "ID_LIKE" => release.id_like = value.split_whitespace().map(str::to_owned).collect(),
            _ => {}
        }
    }
    // The manual's defaults.
    if release.id.is_empty() {
        "linux".clone_into(&mut release.id);
    }
    if release.pretty_name.is_empty() {
        "Linux".clone_into(&mut release.pretty_name);
    }
    release
}

fn unquoted(value: &str) -> String {
    let inner = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    if let Some(single) = inner('\'') {
        return single.to_owned();
    }
    let mut chars = inner('"').unwrap_or(value).chars();
    let mut plain = String::new();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    plain
}

impl Facts {
    pub fn os_release(&self) -> Known<OsRelease> {
        if let Some(etc) = self.file(ETC).or_absent()? {
            return Ok(parse(&etc.text));
        }
        Ok(parse(&self.file(USR)?.text))
    }

    /// The command that installs a package on this machine, for a remedy.
    pub fn install(&self, package: &str) -> String {
        self.os_release().unwrap_or_default().install(package)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    const DEBIAN: &str = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\n\
                          VERSION=\"12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n";
    const ROCKY: &str = "NAME=\"Rocky Linux\"\nVERSION=\"9.4 (Blue Onyx)\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n\
                         VERSION_ID=\"9.4\"\nPRETTY_NAME=\"Rocky Linux 9.4 (Blue Onyx)\"\n";

    #[test]
    fn reads_debian_and_rhel() {
        let debian = facts().with_file(ETC, DEBIAN).os_release().unwrap();
        assert_eq!((debian.id.as_str(), debian.version_id.as_str()), ("debian", "12"));
        assert_eq!(debian.pretty_name, "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(debian.install("conntrack"), "apt-get install -y conntrack");
        let rocky = facts().without_file(ETC).with_file(USR, ROCKY).os_release().unwrap();
        assert!(rocky.is_like("rhel") && !rocky.is_like("debian"));
        assert_eq!(rocky.install("conntrack-tools"), "dnf install -y conntrack-tools");
    }

    #[test]
    fn names_the_installer_of_each_family() {
        for (id, like, expected) in [
            ("opensuse-leap", "suse opensuse", "zypper install -y chrony"),
            ("arch", "", "pacman -S chrony"),
            ("ubuntu", "debian", "apt-get install -y chrony"),
        ] {
            let release = parse(&format!("ID={id}\nID_LIKE=\"{like}\"\n"));
            assert_eq!(release.install("chrony"), expected);
        }
    }

    #[test]
    fn takes_the_manuals_defaults_and_quotes() {
        assert_eq!(parse("").pretty_name, "Linux");
        assert_eq!(parse("").id, "linux");
        assert_eq!(parse("PRETTY_NAME='A $ B'").pretty_name, "A $ B");
        assert_eq!(parse(r#"PRETTY_NAME="say \"hi\"""#).pretty_name, "say \"hi\"");
        assert_eq!(parse(r#"PRETTY_NAME="open"#).pretty_name, "\"open");
    }

    proptest! {
        #[test]
        fn any_text_is_a_release(text in ".*") {
            parse(&text);
            parse(&format!("ID={text}"));
        }
    }
}
