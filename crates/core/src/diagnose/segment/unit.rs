//! systemd's units: `systemctl status`, `cat` and `show`.

use super::section::{Body, Harvest};
use crate::fact::unit::{CONTAINERD, KUBELET, SHOW, heading_path};
use crate::fact::{Source, unit_status};

/// One or more units: each begins with its mark and name; a warning may stand above.
pub(super) fn read_status(body: &Body, harvest: &mut Harvest) {
    let begins = |at: &usize| body.lines.get(*at).is_some_and(|(_, line)| unit_status::unit_of(line).is_some());
    let starts: Vec<usize> = (0..body.lines.len()).filter(begins).collect();
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(body.lines.len());
        let warned = |at: usize| body.lines.get(at).is_some_and(|(_, line)| line.trim_start().starts_with("Warning:"));
        let from = if *start > 0 && warned(start - 1) { start - 1 } else { *start };
        let part = body.part(from, end);
        if let Some(status) = unit_status::parse(&part.text()) {
            let unit = status.state.id.trim_end_matches(".service").to_owned();
            harvest.segments.push(part.whole(unit_status::key(&unit)));
        }
    }
}

/// Files under `# /path` headings; those of one unit are one fact.
pub(super) fn read_cat(body: &Body, harvest: &mut Harvest) {
    let mut parts: Vec<(String, usize)> = Vec::new();
    for (at, (_, line)) in body.lines.iter().enumerate() {
        let masked = line.trim().strip_prefix("# Unit ").and_then(|rest| rest.strip_suffix(".service is masked."));
        let unit = heading_path(line).and_then(unit_of).or(masked);
        if let Some(unit) = unit.filter(|unit| parts.last().is_none_or(|(last, _)| last != unit)) {
            parts.push((unit.to_owned(), at));
        }
    }
    for (index, (unit, from)) in parts.iter().enumerate() {
        let to = parts.get(index + 1).map_or(body.lines.len(), |(_, next)| *next);
        let query = match unit.as_str() {
            "kubelet" => &KUBELET,
            "containerd" => &CONTAINERD,
            _ => continue,
        };
        harvest.segments.push(body.part(*from, to).whole(Source::Query(query).key()));
    }
}

/// The unit a file is part of: `/lib/systemd/system/kubelet.service`, `…/kubelet.service.d/10-kubeadm.conf`.
fn unit_of(path: &str) -> Option<&str> {
    path.split('/').find_map(|part| part.strip_suffix(".service").or_else(|| part.strip_suffix(".service.d")))
}

/// Only with what every unit is judged by: `-p` may have left it out.
pub(super) fn read_show(body: &Body, harvest: &mut Harvest) {
    let has = |key: &str| body.lines.iter().any(|(_, line)| line.starts_with(key));
    if ["Id=", "LoadState=", "ActiveState=", "UnitFileState="].iter().all(|key| has(key)) {
        harvest.segments.push(body.whole(Source::Query(&SHOW).key()));
    }
}
