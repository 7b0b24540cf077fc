//! Room on the filesystems Kubernetes writes to: `df`, asked per path so that one that hangs hides no other.

use super::keep::USUAL;
use super::runtime_sockets::Runtime;
use super::{Facts, Known, Missing, Query, Source, Why};

/// A directory that is not there yet will be made on its nearest parent that is. Old and small versions of `df` know no
/// `--output`; what POSIX has must do there, without inodes.
const SCRIPT: &str = r#"p=$1
while [ "$p" != / ] && [ ! -e "$p" ]; do
  p=${p%/*}
  p=${p:-/}
done
export LC_ALL=C
df -B1 --output=file,target,fstype,size,used,avail,itotal,iused,iavail "$p" 2>/dev/null || df -P -k "$p""#;

pub const ROOT: Query = Query { name: "df /", argv: &["sh", "-c", SCRIPT, "sh", "/"], keep: USUAL };
pub const KUBELET: Query =
    Query { name: "df /var/lib/kubelet", argv: &["sh", "-c", SCRIPT, "sh", "/var/lib/kubelet"], keep: USUAL };
pub const CONTAINERD: Query =
    Query { name: "df /var/lib/containerd", argv: &["sh", "-c", SCRIPT, "sh", "/var/lib/containerd"], keep: USUAL };
/// CRI-O's images.
pub const CONTAINERS: Query =
    Query { name: "df /var/lib/containers", argv: &["sh", "-c", SCRIPT, "sh", "/var/lib/containers"], keep: USUAL };
pub const DOCKER: Query =
    Query { name: "df /var/lib/docker", argv: &["sh", "-c", SCRIPT, "sh", "/var/lib/docker"], keep: USUAL };
pub const KUBERNETES: Query =
    Query { name: "df /etc/kubernetes", argv: &["sh", "-c", SCRIPT, "sh", "/etc/kubernetes"], keep: USUAL };

pub const CNI: Query =
    Query { name: "df /var/lib/cni", argv: &["sh", "-c", SCRIPT, "sh", "/var/lib/cni"], keep: USUAL };
pub const PLUGINS: Query =
    Query { name: "df /opt/cni/bin", argv: &["sh", "-c", SCRIPT, "sh", "/opt/cni/bin"], keep: USUAL };
pub const RUN: Query = Query { name: "df /run", argv: &["sh", "-c", SCRIPT, "sh", "/run"], keep: USUAL };
pub const LOGS: Query = Query { name: "df /var/log", argv: &["sh", "-c", SCRIPT, "sh", "/var/log"], keep: USUAL };

pub const SOURCES: &[Source] = &[
    Source::Query(&ROOT),
    Source::Query(&KUBELET),
    Source::Query(&CONTAINERD),
    Source::Query(&CONTAINERS),
    Source::Query(&DOCKER),
    Source::Query(&KUBERNETES),
    Source::Query(&CNI),
    Source::Query(&PLUGINS),
    Source::Query(&RUN),
    Source::Query(&LOGS),
];

/// A directory Kubernetes writes to, and who asks for the room there.
#[derive(Debug)]
pub struct KubernetesDirectory {
    pub path: &'static str,
    pub query: &'static Query,
    pub holds: Holds,
}

/// What a directory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Pods' logs and volumes.
    Pods,
    Images,
    Certificates,
    /// Addresses of pods, plugins, sockets: little, but it must be written.
    Little,
    Anything,
}

pub const PLACES: [KubernetesDirectory; 6] = [
    KubernetesDirectory { path: "/var/lib/kubelet", query: &KUBELET, holds: Holds::Pods },
    KubernetesDirectory { path: "/var/lib/containerd", query: &CONTAINERD, holds: Holds::Images },
    KubernetesDirectory { path: "/var/lib/containers", query: &CONTAINERS, holds: Holds::Images },
    KubernetesDirectory { path: "/var/lib/docker", query: &DOCKER, holds: Holds::Images },
    KubernetesDirectory { path: "/etc/kubernetes", query: &KUBERNETES, holds: Holds::Certificates },
    KubernetesDirectory { path: "/", query: &ROOT, holds: Holds::Anything },
];

/// What else may lie on a disk of its own. Who did not ask for these knows what matters most all the same.
const BESIDES: [KubernetesDirectory; 4] = [
    KubernetesDirectory { path: "/var/lib/cni", query: &CNI, holds: Holds::Little },
    KubernetesDirectory { path: "/opt/cni/bin", query: &PLUGINS, holds: Holds::Little },
    KubernetesDirectory { path: "/run", query: &RUN, holds: Holds::Little },
    KubernetesDirectory { path: "/var/log", query: &LOGS, holds: Holds::Anything },
];

/// One filesystem as `df` shows it. What a form of `df` does not show is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub device: Option<String>,
    /// Where it is mounted.
    pub target: String,
    pub kind: Option<String>,
    pub size: Option<u64>,
    pub used: Option<u64>,
    /// What is left for users: root's reserve is not in it. The kubelet goes by the same number.
    pub available: Option<u64>,
    /// 0 on filesystems that make inodes as they go (btrfs).
    pub inodes: Option<u64>,
    pub inodes_free: Option<u64>,
    /// The line it was read from.
    pub line: u32,
    pub text: String,
}

impl Space {
    /// The free part of the whole in percent, rounded down, as the kubelet's eviction thresholds count it.
    pub fn free_percent(&self) -> Option<u64> {
        percent(self.available?, self.size?)
    }

    /// `9.8 GiB of 251.9 GiB free (3 %) on / (ext4)`.
    pub fn shown(&self) -> String {
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "?".to_owned(), shown_bytes);
        let percent = self.free_percent().map_or_else(String::new, |percent| format!(" ({percent} %)"));
        let kind = self.kind.as_ref().map_or_else(String::new, |kind| format!(" ({kind})"));
        format!("{} of {} free{percent} on {}{kind}", bytes(self.available), bytes(self.size), self.target)
    }

    /// What this does not say, from another line about the same filesystem.
    fn and(mut self, other: &Space) -> Self {
        if other.target == self.target {
            self.size = self.size.or(other.size);
            self.used = self.used.or(other.used);
            self.available = self.available.or(other.available);
            self.inodes = self.inodes.or(other.inodes);
            self.inodes_free = self.inodes_free.or(other.inodes_free);
        }
        self
    }

    /// As [`Self::free_percent`], of the inodes; `None` also where the filesystem does not count them.
    pub fn free_inodes_percent(&self) -> Option<u64> {
        percent(self.inodes_free?, self.inodes?)
    }
}

fn percent(part: u64, whole: u64) -> Option<u64> {
    u64::try_from((u128::from(part) * 100).checked_div(u128::from(whole))?).ok()
}

/// Bytes as a person reads them: `9.8 GiB`.
pub fn shown_bytes(bytes: u64) -> String {
    let units = [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

/// What a column of `df` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    File,
    Device,
    Target,
    Kind,
    /// Blocks of so many bytes.
    Size(u64),
    Used,
    Available,
    Inodes,
    InodesUsed,
    InodesFree,
    Percent,
}

impl Column {
    fn is_number(self) -> bool {
        !matches!(self, Column::File | Column::Device | Column::Target | Column::Kind)
    }
}

/// Every filesystem in the output of `df`, in any of its usual forms: `-P`, `-k`, `-h`, `-T`, `-i`, `--output`.
pub fn parse(text: &str) -> Vec<Space> {
    let mut columns: Vec<Column> = Vec::new();
    let mut found = Vec::new();
    for (line, text) in (1u32..).zip(text.lines()) {
        let heading = parse_heading(text);
        if heading.contains(&Column::Target) && heading.iter().any(|column| column.is_number()) {
            columns = heading;
        } else if let Some(space) = parse_row(&columns, line, text) {
            found.push(space);
        }
    }
    found
}

fn parse_heading(text: &str) -> Vec<Column> {
    let column = |word| {
        Some(match word {
            "File" => Column::File,
            "Filesystem" => Column::Device,
            "Mounted" => Column::Target,
            "Type" => Column::Kind,
            "Size" => Column::Size(1),
            "Used" => Column::Used,
            "Avail" | "Available" => Column::Available,
            "Inodes" => Column::Inodes,
            "IUsed" => Column::InodesUsed,
            "IFree" => Column::InodesFree,
            "Use%" | "Capacity" | "IUse%" => Column::Percent,
            _ => Column::Size(quantity(word.strip_suffix("-blocks")?.trim_end_matches('B'), 1)?),
        })
    };
    text.split_whitespace().filter_map(column).collect()
}

/// Texts come first, then numbers, then perhaps the mount point. The numbers are found by their look, since both a
/// device (`//nas/my share`) and a mount point may hold spaces.
fn parse_row(columns: &[Column], line: u32, text: &str) -> Option<Space> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let before = columns.iter().position(|column| column.is_number())?;
    let numbers: Vec<Column> = columns.iter().copied().filter(|column| column.is_number()).collect();
    let mut windows = words.windows(numbers.len()).enumerate().skip(before);
    let (start, values) = windows.find(|(_, window)| window.iter().all(|word| is_number(word)))?;
    let (texts, rest) = words.split_at_checked(start)?;
    let unit = columns.iter().find_map(|column| if let Column::Size(unit) = column { Some(*unit) } else { None });
    let mut space = Space { line, text: words.join(" "), ..Space::default() };
    for (column, value) in numbers.iter().zip(values) {
        let bytes = quantity(value, unit.unwrap_or(1));
        match column {
            Column::Size(_) => space.size = bytes,
            Column::Used => space.used = bytes,
            Column::Available => space.available = bytes,
            Column::Inodes => space.inodes = quantity(value, 1),
            Column::InodesFree => space.inodes_free = quantity(value, 1),
            _ => {}
        }
    }
    take_texts(&mut space, columns.get(..before)?, texts)?;
    if space.target.is_empty() {
        space.target = rest.get(numbers.len()..)?.join(" ");
    }
    (!space.target.is_empty()).then_some(space)
}

/// Gives each text its column; what is too many belongs to the mount point, or else to the device.
fn take_texts(space: &mut Space, columns: &[Column], mut texts: &[&str]) -> Option<()> {
    let wide = if columns.contains(&Column::Target) { Column::Target } else { Column::Device };
    let surplus = texts.len().checked_sub(columns.len())?;
    for column in columns {
        let (mine, rest) = texts.split_at_checked(if *column == wide { surplus + 1 } else { 1 })?;
        texts = rest;
        match column {
            Column::Device => space.device = Some(mine.join(" ")),
            Column::Target => space.target = mine.join(" "),
            Column::Kind => space.kind = Some(mine.join(" ")),
            _ => {}
        }
    }
    Some(())
}

fn is_number(word: &str) -> bool {
    word == "-" || word.strip_suffix('%').is_some_and(|word| quantity(word, 1).is_some()) || quantity(word, 1).is_some()
}

/// `70811712`, `252G`, `4.0K`, in bytes; a bare number counts units.
fn quantity(word: &str, unit: u64) -> Option<u64> {
    let (number, unit) = match word.char_indices().next_back()? {
        (_, last) if last.is_ascii_digit() => (word, unit),
        (at, last) => {
            let power = u32::try_from("KMGTPE".find(last.to_ascii_uppercase())?).ok()? + 1;
            (word.get(..at)?, 1024u64.checked_pow(power)?)
        }
    };
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    if tenths.len() != 1 {
        return None;
    }
    let tenths: u64 = whole.parse::<u64>().ok()?.checked_mul(10)?.checked_add(tenths.parse().ok()?)?;
    u64::try_from(u128::from(tenths) * u128::from(unit) / 10).ok()
}

impl Facts {
    /// Where the runtime keeps images: as it says itself, or its configuration; else where it does unless told otherwise.
    pub fn image_root(&self) -> String {
        let default = match self.runtime() {
            Runtime::Crio => return "/var/lib/containers".to_owned(),
            Runtime::CriDockerd => return "/var/lib/docker".to_owned(),
            Runtime::Containerd => "/var/lib/containerd",
        };
        let told = self.runtime_status().ok().and_then(|status| status.root);
        let root = told.or_else(|| self.containerd_config().ok()?.config.root);
        root.map_or_else(|| default.to_owned(), |root| root.trim_end_matches('/').to_owned())
    }

    /// The directories that Kubernetes writes to here: of those for images the runtime's. One that nobody looked at is missing.
    pub fn kubernetes_directories(&self) -> Vec<Known<&'static KubernetesDirectory>> {
        let images = self.image_root();
        let is_known = PLACES.iter().any(|place| place.path == images);
        let unknown = || Missing::broken(format!("df {images}"), "images are kept there, and it was not looked at");
        let ours = PLACES.iter().filter(|place| place.holds != Holds::Images || place.path == images);
        let asked = |place: &&KubernetesDirectory| {
            !matches!(self.query(place.query), Err(Missing { why: Why::NotCollected, .. }))
        };
        let all = ours.chain(BESIDES.iter().filter(asked)).map(Ok);
        all.chain((!is_known).then(|| Err(unknown()))).collect()
    }

    /// The room where a path lies, or will lie.
    pub fn space(&self, query: &Query) -> Known<Space> {
        let capture = self.query(query)?;
        let mut found = parse(&capture.text).into_iter();
        let first = found.next().ok_or_else(|| {
            let said = capture.errors.lines().next().unwrap_or("printed no filesystem");
            Missing::broken(query.name, said)
        })?;
        // `df -h` and `df -i` of one filesystem say one half each.
        Ok(found.fold(first, |first, other| first.and(&other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    const OUTPUT: &str = "\
File Mounted on Type    1B-blocks        Used       Avail   Inodes  IUsed    IFree
/    /          ext4 270553174016 25282101248 72511193088 16777216 586682 16190534
";

    fn only(text: &str) -> Space {
        let mut found = parse(text);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn reads_every_column_it_asks_for() {
        let space = only(OUTPUT);
        assert_eq!((space.target.as_str(), space.kind.as_deref(), space.line), ("/", Some("ext4"), 2));
        assert_eq!((space.size, space.used), (Some(270_553_174_016), Some(25_282_101_248)));
        assert_eq!((space.available, space.free_percent()), (Some(72_511_193_088), Some(26)));
        assert_eq!((space.inodes, space.inodes_free), (Some(16_777_216), Some(16_190_534)));
        assert_eq!(space.free_inodes_percent(), Some(96));
        assert_eq!(space.shown(), "67.5 GiB of 251.9 GiB free (26 %) on / (ext4)");
    }

    #[test]
    fn a_filesystem_without_inodes_has_no_percentage_of_them() {
        let space = only(
            "File             Mounted on  Type     1B-blocks       Used      Avail Inodes IUsed IFree\n\
             /var/lib/kubelet /srv/my pool btrfs 500107862016 1073741824 9999999999      0     0     0\n",
        );
        assert_eq!((space.target.as_str(), space.inodes, space.free_inodes_percent()), ("/srv/my pool", Some(0), None));
    }

    #[test]
    fn reads_what_people_paste() {
        let posix = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n\
                     /dev/vda         264212084 24689552  70811712      26% /\n";
        assert_eq!(only(posix).available, Some(70_811_712 * 1024));
        assert_eq!(only(posix).device.as_deref(), Some("/dev/vda"));
        let human = parse(
            "Filesystem            Size  Used Avail Use% Mounted on\n\
             udev                   12G     0   12G   0% /dev\n\
             /dev/mapper/vg-root   252G  4.5G  247G   2% /\n\
             //nas/my share        7.2T  6.9T  300G  96% /srv/my media\n",
        );
        assert_eq!(human.len(), 3);
        assert_eq!(human[1].used, Some(4_831_838_208));
        assert_eq!((human[2].device.as_deref(), human[2].target.as_str()), (Some("//nas/my share"), "/srv/my media"));
        let typed =
            only("Filesystem Type 1K-blocks Used Available Use% Mounted on\n/dev/sda1 xfs 100 60 40 60% /var\n");
        assert_eq!((typed.kind.as_deref(), typed.size, typed.target.as_str()), (Some("xfs"), Some(102_400), "/var"));
        let inodes = parse(
            "Filesystem                Inodes  IUsed    IFree IUse% Mounted on\n\
             /dev/vda                16777216 586682 16190534    4% /\n\
             /dev/sdb1                      0      0        0     - /boot/efi\n",
        );
        assert_eq!((inodes[0].inodes_free, inodes[0].available), (Some(16_190_534), None));
        assert_eq!((inodes[1].target.as_str(), inodes[1].inodes), ("/boot/efi", Some(0)));
    }

    #[test]
    fn two_halves_of_one_filesystem_are_one_fact() {
        let text = "Filesystem Size Used Avail Use% Mounted on\n/dev/vda 252G 5G 247G 2% /\n\
                    Filesystem Inodes IUsed IFree IUse% Mounted on\n/dev/vda 1000 10 990 1% /\n";
        let space = facts().with_query(&ROOT, text).space(&ROOT).expect("known");
        assert_eq!((space.free_percent(), space.free_inodes_percent(), space.line), (Some(98), Some(99), 2));
        let other = text.replace("1% /", "1% /boot");
        assert_eq!(facts().with_query(&ROOT, &other).space(&ROOT).expect("known").inodes, None);
    }

    #[test]
    fn an_error_is_not_a_filesystem() {
        let broken = facts().with_exit(&ROOT, 1, "", "df: /: Transport endpoint is not connected\n").space(&ROOT);
        assert_eq!(broken.unwrap_err().to_string(), "df /: df: /: Transport endpoint is not connected");
        assert!(parse("/dev/vda 1 2 3 26% /\n").is_empty(), "a row without a heading");
    }

    #[test]
    fn bytes_are_shown_as_people_read_them() {
        for (bytes, shown) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (10_522_669_875, "9.7 GiB"), (u64::MAX, "16777215.9 TiB")]
        {
            assert_eq!(shown_bytes(bytes), shown);
        }
    }

    #[test]
    fn quantities_have_units() {
        for (word, expected) in [
            ("4.0K", Some(4096)),
            ("1.5G", Some(1_610_612_736)),
            ("7", Some(7 * 512)),
            ("99999999999E", None),
            ("1.25G", None),
            ("G", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(quantity(word, 512), expected, "{word:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".*", rows in "([a-zA-Z0-9%/. -]{0,40}\n){0,6}") {
            parse(&text);
            parse(&rows);
            parse(&format!("Filesystem Size Used Avail Use% Mounted on\n{rows}"));
            parse(&format!("File Mounted on Type 1B-blocks Used Avail Inodes IUsed IFree\n{rows}"));
        }
    }
}
