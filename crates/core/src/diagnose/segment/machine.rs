//! The machine itself: swap, memory, kernel parameters, modules, names, its clock; and commands typed as Carrick's own.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::section::{Body, Harvest};
use crate::fact::sysctl::path_of;
use crate::fact::{Capture, Query, Source, clock, file_key, firewall, identity, kernel, memory, modules, sources};

/// As it stands; what is no answer is none of a fact.
pub(super) fn read_query(query: &'static Query, body: &Body, harvest: &mut Harvest) {
    let text = body.text();
    // Without its default policy `ufw status` does not say what happens to a packet that no rule names.
    let half = *query == firewall::UFW && text.starts_with("Status: active") && !text.contains("\nDefault:");
    let failed = ["Failed to connect to bus", "System has not been booted with systemd"];
    if failed.iter().any(|words| text.contains(words)) {
        let capture = Capture { errors: text, exit: Some(1), ..Capture::default() };
        harvest.segments.push(super::Segment { capture: Ok(capture), ..body.whole(Source::Query(query).key()) });
    } else if !body.lines.is_empty() && !half {
        harvest.segments.push(body.whole(Source::Query(query).key()));
    }
}

const SWAPS: &str = "/proc/swaps";
const SWAPS_HEADING: &str = "Filename\tType\tSize\tUsed\tPriority\n";

pub(super) fn read_swaps(body: &Body, harvest: &mut Harvest) {
    if body.lines.first().is_some_and(|(_, line)| line.starts_with("Filename")) {
        harvest.segments.push(body.whole(file_key(SWAPS)));
    }
}

/// `swapon --show` prints nothing where there is no swap.
pub(super) fn read_swap_show(body: &Body, seen_empty: bool, harvest: &mut Harvest) {
    let rows = body.lines.iter().filter(|(_, line)| line.trim_start().starts_with('/'));
    let rows: String = rows.flat_map(|(_, line)| [line.trim(), "\n"]).collect();
    let headed = body.lines.first().is_some_and(|(_, line)| line.trim_start().starts_with("NAME"));
    if seen_empty || (headed && !rows.is_empty()) {
        harvest.segments.push(body.told(file_key(SWAPS), body.first, format!("{SWAPS_HEADING}{rows}")));
    }
}

/// `Mem: 23Gi …` and `Swap: 0B …`. A swap that is on has no name here: its line stands for it.
pub(super) fn read_free(unit: Option<u64>, body: &Body, harvest: &mut Harvest) {
    for (number, line) in &body.lines {
        let mut words = line.split_whitespace();
        let (label, total) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match (label, bytes(total, unit)) {
            ("Mem:", Some(total)) => {
                let text = format!("MemTotal: {} kB\n", total / 1024);
                harvest.segments.push(body.told(file_key(memory::MEMINFO), *number, text));
            }
            ("Swap:", Some(0)) => harvest.segments.push(body.told(file_key(SWAPS), *number, SWAPS_HEADING.to_owned())),
            ("Swap:", Some(_)) => {
                let text = format!("{SWAPS_HEADING}{}\n", line.trim());
                harvest.segments.push(body.told(file_key(SWAPS), *number, text));
            }
            _ => {}
        }
    }
}

/// `7.7Gi`, `512Mi`, `0B`; a bare number counts units, where they are known.
fn bytes(word: &str, unit: Option<u64>) -> Option<u64> {
    let at = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, suffix) = word.split_at_checked(at)?;
    let unit = match suffix {
        "" => unit?,
        "B" => 1,
        "Ki" | "K" => 1 << 10,
        "Mi" | "M" => 1 << 20,
        "Gi" | "G" => 1 << 30,
        "Ti" | "T" => 1 << 40,
        _ => return None,
    };
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let tenths: u64 = tenths.get(..1)?.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(tenths * (unit / 10))
}

/// `net.ipv4.ip_forward = 1`, of the parameters that a check reads.
pub(super) fn read_sysctl(body: &Body, harvest: &mut Harvest) {
    for (number, line) in &body.lines {
        if let Some((path, value)) = parameter(line) {
            harvest.segments.push(body.told(file_key(&path), *number, format!("{value}\n")));
        }
    }
}

/// A line of `sysctl` about a parameter that a check reads: its file, and its value.
pub(super) fn parameter(line: &str) -> Option<(String, &str)> {
    let (key, value) = line.trim().split_once(" = ")?;
    if key.is_empty() || key.contains(' ') || !key.contains('.') {
        return None;
    }
    let path = format!("/proc/sys/{}", path_of(key));
    PARAMETERS.contains(path.as_str()).then(|| (path, value.trim()))
}

static PARAMETERS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    let file = |source| if let Source::File(path) = source { Some(path) } else { None };
    sources().filter_map(file).filter(|path| path.starts_with("/proc/sys/")).collect()
});

/// `System clock synchronized: yes`, `NTP service: active`, in the words of `timedatectl show`.
pub(super) fn read_clock(body: &Body, harvest: &mut Harvest) {
    let value = |keys: [&str; 2]| {
        body.lines.iter().find_map(|(number, line)| {
            let (key, value) = line.trim().split_once(": ")?;
            keys.contains(&key).then(|| (*number, value.trim().to_owned()))
        })
    };
    let Some((line, synchronised)) = value(["System clock synchronized", "NTP synchronized"]) else { return };
    let service = match value(["NTP service", "Network time on"]) {
        Some((_, service)) if service == "active" || service == "yes" => "NTP=yes\n",
        Some(_) => "NTP=no\n",
        None => "",
    };
    let text = format!("{service}NTPSynchronized={synchronised}\n");
    harvest.segments.push(body.told(Source::Query(&clock::TIMEDATECTL).key(), line, text));
}

/// `Static hostname: w1`, `Machine ID: …`, `Kernel: Linux 6.1.0-28-amd64`.
pub(super) fn read_hostnamectl(body: &Body, harvest: &mut Harvest) {
    for (number, line) in &body.lines {
        let Some((key, value)) = line.trim().split_once(": ") else { continue };
        let value = value.trim();
        let path = match key {
            // A transient name that differs is the one the kernel goes by; it comes after the static one.
            "Static hostname" | "Transient hostname" => identity::HOSTNAME,
            "Machine ID" => identity::MACHINE_ID,
            "Kernel" => kernel::RELEASE,
            _ => continue,
        };
        let value = value.strip_prefix("Linux ").unwrap_or(value);
        if is_word(value) {
            harvest.segments.push(body.told(file_key(path), *number, format!("{value}\n")));
        }
    }
}

pub(super) fn read_hostname(body: &Body, harvest: &mut Harvest) {
    one_word(identity::HOSTNAME, body, harvest);
}

pub(super) fn read_release(body: &Body, harvest: &mut Harvest) {
    one_word(kernel::RELEASE, body, harvest);
}

fn one_word(path: &str, body: &Body, harvest: &mut Harvest) {
    if let [(number, line)] = body.lines.as_slice()
        && is_word(line.trim())
    {
        harvest.segments.push(body.told(file_key(path), *number, format!("{}\n", line.trim())));
    }
}

/// `Linux w1 6.1.0-28-amd64 #1 SMP …`.
pub(super) fn read_uname(body: &Body, harvest: &mut Harvest) {
    let Some((number, line)) = body.lines.first() else { return };
    let words: Vec<&str> = line.split_whitespace().take(4).collect();
    if let ["Linux", host, release, ..] = words.as_slice() {
        harvest.segments.push(body.told(file_key(identity::HOSTNAME), *number, format!("{host}\n")));
        harvest.segments.push(body.told(file_key(kernel::RELEASE), *number, format!("{release}\n")));
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace)
}

/// `lsmod`: the same columns as `/proc/modules`, with a heading. A part is enough: what is not there is looked for in
/// the kernel's tree, too.
pub(super) fn read_modules(body: &Body, harvest: &mut Harvest) {
    let rows = body.lines.iter().filter(|(_, line)| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|size| size.parse::<u64>().is_ok()) && words.next().is_some()
    });
    let text: String = rows.flat_map(|(_, line)| [line.trim(), "\n"]).collect();
    if !text.is_empty() {
        harvest.segments.push(body.told(file_key(modules::LOADED), body.first, text));
    }
}
