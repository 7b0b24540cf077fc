//! What is mounted where: `/proc/self/mountinfo`; and whether the mounts that live elsewhere still answer.

use super::keep::{MOUNT_TABLE, USUAL};
use super::space::PLACES;
use super::{Facts, Known, Missing, Query, Source};

pub const MOUNTINFO: &str = "/proc/self/mountinfo";

/// Asks every network and FUSE mount for its size, all at once, and prints `ok`, `failed` or `hung` and the mount point
/// as mountinfo spells it. A mount that hangs can put whoever asks into an uninterruptible sleep: the asking processes
/// hold none of our pipes, so that the script ends after two seconds even where one of them never does.
pub const ANSWERS: Query = Query {
    name: "stat -f of each network mount",
    argv: &[
        "sh",
        "-c",
        r#"set --
while read -r _ _ _ _ point rest; do
  rest=${rest#* - }
  case ${rest%% *} in
  fuse.gvfsd-fuse | fuse.portal | fuse.lxcfs | fuse.snapfuse) ;;
  nfs | nfs4 | cifs | smb3 | smbfs | ceph | glusterfs | lustre | beegfs | afs | 9p | virtiofs | ocfs2 | gfs2 | fuse*)
    stat -f "$(printf "$(printf %s "$point" | sed 's/%/%%/g')")" </dev/null >/dev/null 2>&1 &
    set -- "$@" "$! $point"
    ;;
  esac
done </proc/self/mountinfo
tries=0
while [ $# -gt 0 ]; do
  left=$#
  while [ "$left" -gt 0 ]; do
    pid=${1%% *} point=${1#* } state=
    shift
    left=$((left - 1))
    { read -r state </proc/"$pid"/stat; } 2>/dev/null
    case ${state##*) } in
    Z* | '') if wait "$pid"; then echo "ok $point"; else echo "failed $point"; fi ;;
    *) if [ "$tries" -ge 20 ]; then kill -9 "$pid"; echo "hung $point"; else set -- "$@" "$pid $point"; fi ;;
    esac
  done
  if [ $# -gt 0 ]; then sleep 0.1; fi
  tries=$((tries + 1))
done"#,
    ],
    keep: USUAL,
};

pub const SOURCES: &[Source] = &[Source::File(MOUNTINFO), Source::Query(&ANSWERS)];

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted.
    pub point: String,
    /// `ext4`, `nfs4`, `overlay` …
    pub kind: String,
    /// What is mounted: a device, an export.
    pub from: String,
    /// Of this mount: `rw,relatime`.
    pub options: String,
    /// Of the filesystem, wherever it is mounted: `rw,errors=remount-ro`.
    pub super_options: String,
    /// The line in mountinfo.
    pub line: u32,
}

impl Mount {
    /// Read-only as a mount, or as a filesystem: after an I/O error ext4 turns the latter.
    pub fn is_read_only(&self) -> bool {
        [&self.options, &self.super_options].iter().any(|options| options.split(',').any(|option| option == "ro"))
    }

    /// `/var/lib/kubelet ext4 /dev/sdb1 ro,relatime`: what `mount` would say, for evidence.
    pub fn shown(&self) -> String {
        let Mount { point, kind, from, options, super_options, .. } = self;
        format!("{from} on {point} type {kind} ({options}; {super_options})")
    }
}

/// Every mount, in the order they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts(pub Vec<Mount>);

impl Mounts {
    /// The mount a path lies on: the deepest, and of several on one point the last, which hides the others.
    pub fn of(&self, path: &str) -> Option<&Mount> {
        self.0
            .iter()
            .filter(|mount| is_at_or_under(path, &mount.point))
            .max_by_key(|mount| (mount.point.len(), mount.line))
    }
}

/// Whether a path is a directory or lies in it.
pub fn is_at_or_under(path: &str, dir: &str) -> bool {
    dir == "/" || path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// How a mount answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountHealth {
    Ok,
    /// An error at once: a stale file handle, a FUSE server that is gone.
    Failed,
    /// Nothing within two seconds.
    Hung,
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`: the optional fields end at ` - `.
pub fn parse(text: &str) -> Mounts {
    Mounts((1u32..).zip(text.lines()).filter_map(|(line, text)| parse_line(line, text)).collect())
}

fn parse_line(line: u32, text: &str) -> Option<Mount> {
    let (mount, filesystem) = text.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(4);
    let mut filesystem = filesystem.split(' ');
    Some(Mount {
        point: unescaped(mount.next()?),
        options: mount.next()?.to_owned(),
        kind: filesystem.next()?.to_owned(),
        from: unescaped(filesystem.next()?),
        super_options: filesystem.next().unwrap_or_default().to_owned(),
        line,
    })
}

/// Undoes the kernel's `\040` for a space, `\011` for a tab, `\012` for a newline and `\134` for a backslash.
pub fn unescaped(text: &str) -> String {
    let mut plain = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = octal(rest).unwrap_or((first, after));
        plain.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// A backslash and three octal digits at the start, and what follows.
fn octal(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (escape, after) = bytes.split_at_checked(4)?;
    let digits = std::str::from_utf8(escape.strip_prefix(b"\\")?).ok()?;
    Some((u8::from_str_radix(digits, 8).ok()?, after))
}

/// What [`ANSWERS`] prints: the word and the mount point of each.
pub fn parse_answers(text: &str) -> Vec<(MountHealth, String)> {
    let answer = |line: &str| {
        let (word, point) = line.split_once(' ')?;
        let answer = match word {
            "ok" => MountHealth::Ok,
            "failed" => MountHealth::Failed,
            "hung" => MountHealth::Hung,
            _ => return None,
        };
        Some((answer, unescaped(point)))
    };
    text.lines().filter_map(answer).collect()
}

impl Facts {
    pub fn mounts(&self) -> Known<Mounts> {
        let table = self.file(MOUNTINFO)?;
        if !table.is_whole() {
            return Err(Missing::cut(MOUNTINFO, MOUNT_TABLE.limit()));
        }
        let mounts = parse(&table.text);
        // A machine that runs has at least its root.
        if mounts.0.is_empty() { Err(Missing::broken(MOUNTINFO, "names no mount")) } else { Ok(mounts) }
    }

    /// The mount a directory of Kubernetes' lies on, or will lie on. `df` knows better than the path where that is a
    /// link.
    pub fn mount_of(&self, path: &str) -> Known<Mount> {
        let place = PLACES.iter().find(|place| place.path == path);
        let target = place.and_then(|place| self.space(place.query).ok()).map(|space| space.target);
        let mounts = self.mounts()?;
        let found = mounts.of(target.as_deref().unwrap_or(path)).cloned();
        found.ok_or_else(|| Missing::broken(MOUNTINFO, format!("nothing is mounted at or above {path}")))
    }

    /// How each network and FUSE mount answered; empty where there is none.
    pub fn mount_answers(&self) -> Known<Vec<(MountHealth, String)>> {
        let capture = self.query(&ANSWERS)?;
        match capture.exit {
            Some(0) | None => Ok(parse_answers(&capture.text)),
            Some(exit) => {
                let said = capture.errors.lines().next().unwrap_or_default();
                Err(Missing::broken(ANSWERS.name, format!("ended with status {exit}: {said}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Capture;
    use crate::fact::keep::{Keeper, of_file};
    use crate::testing::facts;
    use proptest::prelude::*;

    const INFO: &str = "\
22 27 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
41 27 8:17 / /var rw,relatime shared:30 - xfs /dev/sdb1 rw,attr2,inode64
44 41 8:33 / /var/lib/kubelet ro,relatime shared:31 master:2 - ext4 /dev/sdc1 rw
50 27 0:44 / /srv/My\\040Media rw,relatime shared:40 - nfs4 nas:/export/my\\040media rw,vers=4.2,hard
";

    /// 500 pods, each with a pause container and two others, four volumes, and 20 layers an image.
    #[test]
    fn the_mounts_of_five_hundred_pods_are_all_seen() {
        let layer = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/10000/fs:";
        let overlay =
            |point: &str| format!("9 1 0:9 / {point} rw - overlay overlay rw,lowerdir={}\n", layer.repeat(20));
        let tmpfs = |point: &str| format!("9 1 0:9 / {point} rw,relatime - tmpfs tmpfs rw,size=65807924k\n");
        let mut table = String::from("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
        for pod in 0..500 {
            for container in 0..3 {
                let point =
                    format!("/run/containerd/io.containerd.runtime.v2.task/k8s.io/{pod:032x}{container:032x}/rootfs");
                table += &overlay(&point);
            }
            for volume in 0..4 {
                let point = format!("/var/lib/kubelet/pods/{pod:036}/volumes/kubernetes.io~projected/volume-{volume}");
                table += &tmpfs(&point);
            }
        }
        table.push_str("9 1 0:9 / /var/lib/kubelet/data rw - ext4 /dev/sdb1 rw\n");
        assert!(table.len() > 2 << 20 && of_file("/etc/fstab") == USUAL);
        let mut keeper = Keeper::new(of_file(MOUNTINFO));
        keeper.push(table.as_bytes());
        let mut facts = facts();
        facts.insert(Source::File(MOUNTINFO).key(), Ok(keeper.finish().0));
        let mounts = facts.mounts().unwrap();
        assert_eq!((mounts.0.len(), mounts.0.last().unwrap().point.as_str()), (3502, "/var/lib/kubelet/data"));
        let cut = Capture { dropped: 1, ..Capture::text("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n") };
        facts.insert(Source::File(MOUNTINFO).key(), Ok(cut));
        assert!(facts.mounts().unwrap_err().to_string().contains("longer than 8 MiB"));
    }

    #[test]
    fn reads_mountinfo() {
        let mounts = parse(INFO);
        assert_eq!(mounts.0.len(), 5);
        assert_eq!(mounts.of("/var/lib/kubelet/pki").unwrap().from, "/dev/sdc1");
        assert_eq!(mounts.of("/var/lib/kubelet2").unwrap().point, "/var");
        assert_eq!(mounts.of("/etc/kubernetes").unwrap().point, "/");
        let media = mounts.of("/srv/My Media/x").unwrap();
        assert_eq!((media.from.as_str(), media.kind.as_str(), media.line), ("nas:/export/my media", "nfs4", 5));
        assert_eq!(mounts.of("/var").unwrap().shown(), "/dev/sdb1 on /var type xfs (rw,relatime; rw,attr2,inode64)");
    }

    #[test]
    fn a_linked_directory_lies_where_df_says() {
        let facts = facts().with_file(MOUNTINFO, INFO);
        assert_eq!(facts.mount_of("/var/lib/containerd").unwrap().point, "/var");
        let df = "File Mounted on Type 1B-blocks Used Avail Inodes IUsed IFree\n\
                  /var/lib/containerd /srv/My Media nfs4 100 50 50 10 5 5\n";
        let linked = facts.with_query(&super::super::space::CONTAINERD, df);
        assert_eq!(linked.mount_of("/var/lib/containerd").unwrap().kind, "nfs4");
        assert_eq!(linked.mount_of("/var/lib/kubelet").unwrap().kind, "ext4");
    }

    #[test]
    fn the_last_of_several_mounts_on_a_point_counts() {
        let mounts = parse("24 27 0:6 / /dev rw - devtmpfs devtmpfs rw\n99 27 0:7 / /dev ro - tmpfs none rw\n");
        assert_eq!(mounts.of("/dev/null").unwrap().kind, "tmpfs");
    }

    #[test]
    fn read_only_is_an_option_and_not_a_part_of_one() {
        let read_only = |options: &str, of_all: &str| {
            parse(&format!("1 1 8:1 / / {options} - ext4 /dev/sda1 {of_all}\n")).0[0].is_read_only()
        };
        assert!(read_only("ro,relatime", "rw"));
        assert!(read_only("rw", "ro,errors=remount-ro"));
        assert!(!read_only("rw,relatime", "rw,errors=remount-ro"));
    }

    #[test]
    fn reads_the_answers() {
        let found = parse_answers("ok /srv/My\\040Media\nhung /mnt/nas\nfailed /mnt/sshfs\nsh: noise\n");
        let expected =
            [(MountHealth::Ok, "/srv/My Media"), (MountHealth::Hung, "/mnt/nas"), (MountHealth::Failed, "/mnt/sshfs")];
        assert_eq!(found, expected.map(|(answer, point)| (answer, point.to_owned())));
        assert!(facts().with_exit(&ANSWERS, 2, "", "sh: syntax error").mount_answers().is_err());
    }

    #[test]
    fn an_escape_is_three_octal_digits() {
        assert_eq!(unescaped(r"a\040b\134c\011"), "a b\\c\t");
        assert_eq!(unescaped(r"\04"), r"\04");
        assert_eq!(unescaped(r"\999\400é"), r"\999\400é");
    }

    proptest! {
        #[test]
        fn any_text_has_mounts(text in ".*", fields in r"([0-9]+ ){3}/ [a-z/\\0-9]{0,9} rw -( [a-z\\0-7]*){0,4}") {
            for text in [&text, &fields] {
                parse(text).of("/var/lib/kubelet");
                parse_answers(text);
                unescaped(text);
            }
        }
    }
}
