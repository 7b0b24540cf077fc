//! What is mounted: mountinfo itself, and `mount`, `/proc/mounts` and `findmnt` in its words.

use super::section::{Body, Harvest};
use crate::fact::file_key;
use crate::fact::mounts::MOUNTINFO;

/// `26 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw`.
pub(super) fn is_mountinfo(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut number = || words.next().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let numbered = number() && number();
    let device = words.next().and_then(|word| word.split_once(':'));
    numbered && device.is_some_and(|(major, minor)| is_number(major) && is_number(minor)) && line.contains(" - ")
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn read_mountinfo(body: &Body, harvest: &mut Harvest) {
    let fits = body.lines.iter().filter(|(_, line)| is_mountinfo(line)).count();
    if fits > 0 {
        harvest.segments.push(body.whole(file_key(MOUNTINFO)));
    }
}

/// `/dev/vda on / type ext4 (rw,relatime)`: mount point, kind, source, options.
pub(super) fn mounted(line: &str) -> Option<(&str, &str, &str, &str)> {
    let (from, rest) = line.trim().split_once(" on ")?;
    let (point, rest) = rest.split_once(" type ")?;
    let (kind, options) = rest.split_once(" (")?;
    let options = options.split(')').next()?;
    (point.starts_with('/') && !kind.contains(' ')).then_some((point, kind, from, options))
}

pub(super) fn read_mount(body: &Body, harvest: &mut Harvest) {
    put(body, harvest, |line| {
        mounted(line).map(|(point, kind, from, options)| row(&spaced(point), kind, &spaced(from), options))
    });
}

/// `/dev/vda / ext4 rw,relatime 0 0`.
pub(super) fn read_table(body: &Body, harvest: &mut Harvest) {
    put(body, harvest, |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [from, point, kind, options, _, _] = words.as_slice() else { return None };
        point.starts_with('/').then(|| row(point, kind, from, options))
    });
}

/// A tree of targets, then source, kind and options.
pub(super) fn read_findmnt(body: &Body, harvest: &mut Harvest) {
    put(body, harvest, |line| {
        let line = line.trim_start_matches(['├', '│', '└', '─', '|', '`', '-', ' ']);
        let words: Vec<&str> = line.split_whitespace().collect();
        let [point, from, kind, options] = words.as_slice() else { return None };
        point.starts_with('/').then(|| row(point, kind, from, options))
    });
}

/// Options of the mount and of the filesystem are one list here; the numbers are not told, and nobody reads them.
fn row(point: &str, kind: &str, from: &str, options: &str) -> String {
    format!("0 0 0:0 / {point} {options} - {kind} {from} {options}\n")
}

fn spaced(text: &str) -> String {
    text.replace(' ', "\\040")
}

fn put(body: &Body, harvest: &mut Harvest, row: impl Fn(&str) -> Option<String>) {
    let text: String = body.lines.iter().filter_map(|(_, line)| row(line)).collect();
    if !text.is_empty() {
        harvest.segments.push(body.told(file_key(MOUNTINFO), body.first, text));
    }
}
