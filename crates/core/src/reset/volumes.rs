//! What is mounted below the kubelet's directory: volumes of pods, which are unmounted, and anything else, which is not
//! touched.

use crate::fact::keep::Keep;
use crate::fact::mounts::{Mount, MountHealth, is_at_or_under};
use crate::fact::{Facts, Known, Query, Source};
use crate::plan::protect::is_volume;

pub const DIR: &str = "/var/lib/kubelet";

/// Who works in a directory or holds a file open there: `PID PROGRAM PATH`. Processes in mount namespaces of their own
/// (containers) do not count: what they hold does not keep a volume from being unmounted here.
pub const HOLDERS: Query = Query {
    name: "find /proc -lname '/var/lib/kubelet/*'",
    argv: &[
        "sh",
        "-c",
        r#"own=$(readlink /proc/self/ns/mnt)
find /proc -mindepth 2 -maxdepth 3 \( -path '/proc/[0-9]*/cwd' -o -path '/proc/[0-9]*/root' -o -path '/proc/[0-9]*/fd/*' \) \
  -lname '/var/lib/kubelet/*' -printf '%p %l\n' 2>/dev/null | while IFS= read -r line; do
  pid=${line#/proc/} pid=${pid%%/*}
  [ "$(readlink /proc/"$pid"/ns/mnt)" = "$own" ] || continue
  read -r program </proc/"$pid"/comm && echo "$pid $program ${line#* }"
done
exit 0"#,
    ],
    // A line is 150 bytes: 50,000 open files.
    keep: Keep::Head(8 << 20),
};

pub const SOURCES: &[Source] = &[Source::Query(&HOLDERS)];

/// A process that keeps a volume from being unmounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    pub program: String,
    pub path: String,
}

/// What [`HOLDERS`] prints.
pub fn parse_holders(text: &str) -> Vec<Holder> {
    let holder = |line: &str| {
        let (pid, rest) = line.split_once(' ')?;
        // A program's name may hold a space; a path of interest begins in one place.
        let at = rest.find(DIR)?;
        let (program, path) = (rest.get(..at)?, rest.get(at..)?);
        Some(Holder { pid: pid.parse().ok()?, program: program.trim().to_owned(), path: path.to_owned() })
    };
    text.lines().filter_map(holder).collect()
}

/// The mounts below the kubelet's directory, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletMounts {
    pub volumes: Vec<Mount>,
    /// Somebody's, not Kubernetes'.
    pub foreign: Vec<Mount>,
}

pub fn below(mounts: &[Mount]) -> KubeletMounts {
    let inside = mounts.iter().filter(|mount| mount.point != DIR && is_at_or_under(&mount.point, DIR)).cloned();
    let (volumes, foreign) = inside.partition(|mount| is_volume(&mount.point));
    KubeletMounts { volumes, foreign }
}

/// The first volume that a process is in; the kubelet is stopped before anything is unmounted.
pub fn held(facts: &Facts, volumes: &[Mount]) -> Known<Option<Holder>> {
    // Of a list that was cut, whoever comes behind the cut is not known to hold nothing.
    let holders = parse_holders(&facts.whole(&HOLDERS)?.text);
    let holds = |holder: &Holder| volumes.iter().any(|volume| is_at_or_under(&holder.path, &volume.point));
    Ok(holders.into_iter().find(|holder| holder.program != "kubelet" && holds(holder)))
}

/// The first volume that does not answer: unmounting it would hang.
pub fn hung(facts: &Facts, volumes: &[Mount]) -> Known<Option<String>> {
    let mut hung =
        facts.mount_answers()?.into_iter().filter(|(answer, _)| *answer == MountHealth::Hung).map(|(_, point)| point);
    Ok(hung.find(|point| volumes.iter().any(|volume| volume.point == *point)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::mounts;
    use proptest::prelude::*;

    #[test]
    fn volumes_of_pods_are_told_from_somebodys_data() {
        let info = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
            2 1 8:2 / /var/lib/kubelet rw - ext4 /dev/sdb1 rw\n\
            3 2 0:1 / /var/lib/kubelet/pods/6f1c/volumes/kubernetes.io~projected/token rw - tmpfs tmpfs rw\n\
            4 2 0:2 / /var/lib/kubelet/plugins/kubernetes.io/csi/x/globalmount rw - ext4 /dev/sdd rw\n\
            5 2 0:3 / /var/lib/kubelet/data rw - ext4 /dev/sdc1 rw\n\
            6 2 0:4 / /var/lib/kubelet/pods rw - nfs4 nas:/x rw\n\
            7 2 0:5 / /var/lib/kubelet/pods/6f1c/data rw - ext4 /dev/sde rw\n\
            8 1 0:6 / /var/lib/kubelet2/pods/a/volumes/x/y rw - tmpfs tmpfs rw\n";
        let below = below(&mounts::parse(info).0);
        let lines = |mounts: &[Mount]| mounts.iter().map(|mount| mount.line).collect::<Vec<_>>();
        assert_eq!((lines(&below.volumes), lines(&below.foreign)), (vec![3, 4], vec![5, 6, 7]));
    }

    #[test]
    fn reads_who_holds_a_volume() {
        let holders = parse_holders("812 my shell /var/lib/kubelet/pods/a/volumes/v/x y\nnoise\n17 kubelet /tmp\n");
        let path = "/var/lib/kubelet/pods/a/volumes/v/x y".to_owned();
        assert_eq!(holders, [Holder { pid: 812, program: "my shell".into(), path }]);
    }

    proptest! {
        #[test]
        fn any_text_has_holders(text in "([0-9]{1,4} |/var/lib/kubelet|.)*") {
            parse_holders(&text);
        }
    }
}
