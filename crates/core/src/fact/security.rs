//! Mandatory access control: SELinux and AppArmor.

use super::{Facts, Known, OrAbsent, Source};

pub const SELINUX_ENFORCE: &str = "/sys/fs/selinux/enforce";
pub const SELINUX_CONFIG: &str = "/etc/selinux/config";
/// Where container-selinux puts its policy, `container.pp.bz2`.
pub const SELINUX_PACKAGES: &str = "/usr/share/selinux/packages";
pub const APPARMOR_ENABLED: &str = "/sys/module/apparmor/parameters/enabled";

pub const SOURCES: &[Source] = &[
    Source::File(SELINUX_ENFORCE),
    Source::File(SELINUX_CONFIG),
    Source::Dir(SELINUX_PACKAGES),
    Source::File(APPARMOR_ENABLED),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selinux {
    Disabled,
    Permissive,
    Enforcing,
}

/// `SELINUX=enforcing` of `/etc/selinux/config`: what it is after the next boot.
pub fn parse_config(text: &str) -> Option<Selinux> {
    let value = text.lines().rev().find_map(|line| line.trim().strip_prefix("SELINUX="))?;
    match value.trim().to_lowercase().as_str() {
        "enforcing" => Some(Selinux::Enforcing),
        "permissive" => Some(Selinux::Permissive),
        "disabled" => Some(Selinux::Disabled),
        _ => None,
    }
}

impl Facts {
    /// What SELinux does now. Its filesystem is not mounted where it is off, or the kernel does not have it.
    pub fn selinux(&self) -> Known<Selinux> {
        Ok(match self.file(SELINUX_ENFORCE).or_absent()? {
            None => Selinux::Disabled,
            Some(capture) if capture.text.trim() == "0" => Selinux::Permissive,
            Some(_) => Selinux::Enforcing,
        })
    }

    /// What SELinux will do after the next boot; `None` where nothing configures it.
    pub fn selinux_at_boot(&self) -> Known<Option<Selinux>> {
        Ok(self.file(SELINUX_CONFIG).or_absent()?.and_then(|capture| parse_config(&capture.text)))
    }

    /// Whether the policy for containers is installed.
    pub fn container_selinux(&self) -> Known<bool> {
        let entries = self.dir(SELINUX_PACKAGES).or_absent()?.unwrap_or_default();
        Ok(entries.iter().any(|entry| entry.name.starts_with("container.pp")))
    }

    /// Whether the kernel enforces AppArmor profiles.
    pub fn apparmor(&self) -> Known<bool> {
        Ok(self.file(APPARMOR_ENABLED).or_absent()?.is_some_and(|capture| capture.text.trim() == "Y"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    #[test]
    fn reads_the_kernels_word() {
        assert_eq!(facts().without_file(SELINUX_ENFORCE).selinux(), Ok(Selinux::Disabled));
        assert_eq!(facts().with_file(SELINUX_ENFORCE, "0").selinux(), Ok(Selinux::Permissive));
        assert_eq!(facts().with_file(SELINUX_ENFORCE, "1").selinux(), Ok(Selinux::Enforcing));
        assert_eq!(facts().with_file(APPARMOR_ENABLED, "Y\n").apparmor(), Ok(true));
        assert_eq!(facts().with_file(APPARMOR_ENABLED, "N\n").apparmor(), Ok(false));
        assert_eq!(facts().without_file(APPARMOR_ENABLED).apparmor(), Ok(false));
    }

    #[test]
    fn reads_the_configuration() {
        let rocky = "# SELINUX= can take one of these three values:\nSELINUX=enforcing\nSELINUXTYPE=targeted\n";
        assert_eq!(parse_config(rocky), Some(Selinux::Enforcing));
        assert_eq!(parse_config("SELINUX=Permissive\n"), Some(Selinux::Permissive));
        assert_eq!(parse_config("SELINUX=disabled"), Some(Selinux::Disabled));
        assert_eq!(parse_config("SELINUX=what"), None);
        assert_eq!(facts().without_file(SELINUX_CONFIG).selinux_at_boot(), Ok(None));
        assert_eq!(facts().with_file(SELINUX_CONFIG, rocky).selinux_at_boot(), Ok(Some(Selinux::Enforcing)));
    }

    #[test]
    fn knows_the_policy_for_containers_by_its_file() {
        let with = facts().with_dir(SELINUX_PACKAGES, &[("-rw-r--r--", "container.pp.bz2")]);
        assert_eq!(with.container_selinux(), Ok(true));
        assert_eq!(facts().with_dir(SELINUX_PACKAGES, &[("drwxr-xr-x", "targeted")]).container_selinux(), Ok(false));
        assert_eq!(facts().without_dir(SELINUX_PACKAGES).container_selinux(), Ok(false));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".*") {
            parse_config(&text);
            parse_config(&format!("SELINUX={text}"));
        }
    }
}
