//! Control groups: which version is mounted, and which controllers it offers.

use std::collections::BTreeSet;

use super::mounts::Mount;
use super::{Facts, Known, Missing, Source};

pub const ROOT: &str = "/sys/fs/cgroup";
pub const V2_CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";
pub const V1_CONTROLLERS: &str = "/proc/cgroups";

pub const SOURCES: &[Source] = &[Source::File(V2_CONTROLLERS), Source::File(V1_CONTROLLERS)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    V1,
    V2,
    /// Version 1 with an empty version 2 beside it, as systemd's hybrid mode has it: the kubelet treats it as 1.
    Hybrid,
}

/// The names in `cgroup.controllers`: `cpuset cpu io memory hugetlb pids`.
pub fn parse_v2(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The controllers of `/proc/cgroups` that are switched on, the last column: `memory 0 120 1`.
pub fn parse_v1(text: &str) -> BTreeSet<String> {
    let row = |line: &str| {
        let mut fields = line.split_whitespace();
        let name = fields.next().filter(|name| !name.starts_with('#'))?;
        (fields.nth(2) == Some("1")).then(|| name.to_owned())
    };
    text.lines().filter_map(row).collect()
}

fn is_v1(mount: &Mount) -> bool {
    mount.kind == "cgroup" && mount.point.starts_with("/sys/fs/cgroup/")
}

impl Facts {
    pub fn cgroup_version(&self) -> Known<CgroupVersion> {
        let mounts = match (self.mounts(), self.file(V2_CONTROLLERS)) {
            (Ok(mounts), _) => mounts,
            // Version 1 has no such file.
            (Err(_), Ok(_)) => return Ok(CgroupVersion::V2),
            (Err(missing), Err(_)) => return Err(missing),
        };
        if mounts.of(ROOT).is_some_and(|mount| mount.point == ROOT && mount.kind == "cgroup2") {
            return Ok(CgroupVersion::V2);
        }
        if !mounts.0.iter().any(is_v1) {
            return Err(Missing::broken(ROOT, "no control groups are mounted there"));
        }
        let beside = mounts.0.iter().any(|mount| mount.kind == "cgroup2" && mount.point.starts_with(ROOT));
        Ok(if beside { CgroupVersion::Hybrid } else { CgroupVersion::V1 })
    }

    /// The controllers that can be used. In version 1 a controller must be switched on in the kernel and also be
    /// mounted.
    pub fn cgroup_controllers(&self) -> Known<BTreeSet<String>> {
        if self.cgroup_version()? == CgroupVersion::V2 {
            return Ok(parse_v2(&self.file(V2_CONTROLLERS)?.text));
        }
        let mounts = self.mounts()?;
        let options = mounts.0.iter().filter(|mount| is_v1(mount)).flat_map(|mount| mount.super_options.split(','));
        let mounted: BTreeSet<&str> = options.collect();
        let enabled = parse_v1(&self.file(V1_CONTROLLERS)?.text);
        Ok(enabled.into_iter().filter(|name| mounted.contains(name.as_str())).collect())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::fact::mounts::MOUNTINFO;
    use crate::testing::facts;
    use proptest::prelude::*;

    pub(crate) const V2: &str = "\
27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";
    pub(crate) const V1: &str = "\
27 1 253:0 / / rw,relatime shared:1 - xfs /dev/mapper/rhel-root rw,attr2
31 23 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:4 - tmpfs tmpfs ro,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:5 - cgroup cgroup rw,seclabel,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,nosuid shared:6 - cgroup cgroup rw,seclabel,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,nosuid shared:7 - cgroup cgroup rw,seclabel,memory
36 31 0:33 / /sys/fs/cgroup/devices rw,nosuid shared:8 - cgroup cgroup rw,seclabel,devices
37 31 0:34 / /sys/fs/cgroup/freezer rw,nosuid shared:9 - cgroup cgroup rw,seclabel,freezer
39 31 0:36 / /sys/fs/cgroup/pids rw,nosuid shared:10 - cgroup cgroup rw,seclabel,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,name=systemd
";
    pub(crate) const PROC_CGROUPS: &str = "\
#subsys_name\thierarchy\tnum_cgroups\tenabled
cpuset\t3\t1\t1
cpu\t1\t1\t1
cpuacct\t1\t1\t1
memory\t4\t13\t1
devices\t5\t1\t1
freezer\t6\t1\t1
net_cls\t0\t1\t1
hugetlb\t0\t1\t0
pids\t8\t1\t1
";
    pub(crate) const BESIDE: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw,nosuid shared:12 - cgroup2 cgroup2 rw\n";

    #[test]
    fn tells_the_versions_apart() {
        let version = |text: &str| facts().with_file(MOUNTINFO, text).cgroup_version();
        assert_eq!(version(V2), Ok(CgroupVersion::V2));
        assert_eq!(version(V1), Ok(CgroupVersion::V1));
        assert_eq!(version(&format!("{V1}{BESIDE}")), Ok(CgroupVersion::Hybrid));
        assert!(version("27 1 254:1 / / rw - ext4 /dev/sda1 rw\n").is_err());
        // Version 2 somewhere else does not make it the machine's.
        assert!(version("27 1 0:4 / /mnt rw - cgroup2 cgroup2 rw\n").is_err());
    }

    #[test]
    fn a_v1_controller_must_be_on_and_mounted() {
        let facts = facts().with_file(MOUNTINFO, V1).with_file(V1_CONTROLLERS, PROC_CGROUPS);
        let found = facts.cgroup_controllers().unwrap();
        assert!(found.contains("memory") && found.contains("cpuacct"));
        assert!(!found.contains("net_cls"), "not mounted");
        assert!(!found.contains("hugetlb"), "switched off");
    }

    #[test]
    fn version_2_lists_its_own() {
        let facts = facts().with_file(MOUNTINFO, V2).with_file(V2_CONTROLLERS, "cpuset cpu io memory pids\n");
        assert_eq!(facts.cgroup_controllers().unwrap().len(), 5);
    }

    proptest! {
        #[test]
        fn any_text_has_controllers(text in ".*") {
            parse_v1(&text);
            parse_v2(&text);
        }
    }
}
