//! `df`: the row of each filesystem that Kubernetes writes to, under its heading.
//!
//! `df -h` and `df -i` are two tables that say one half each, and where mountinfo is in the paste too, it knows better
//! what lies where: `df` shows a device once, however often it is mounted. So they are put together at the end.

use std::collections::BTreeMap;

use super::Segment;
use super::section::{Body, Harvest};
use crate::fact::mounts::{Mounts, is_at_or_under};
use crate::fact::space::{KubernetesDirectory, PLACES, Space, parse};
use crate::fact::{Capture, Source};

/// What one `df` printed.
pub(super) struct Table {
    /// The paths it was asked about; none where it was asked about all.
    paths: Vec<String>,
    rows: Vec<Row>,
    pub(super) host: Option<String>,
}

struct Row {
    space: Space,
    /// Heading and row.
    text: String,
    /// The row's line in the paste.
    line: u64,
}

pub(super) fn read(paths: &[String], body: &Body, harvest: &mut Harvest) {
    let mut rows = Vec::new();
    for space in parse(&body.text()) {
        let mut above = body.lines.iter().take(space.line as usize);
        let heading = above.clone().map(|(_, line)| line).rfind(|line| line.contains("Mounted on"));
        if let (Some(heading), Some((line, row))) = (heading, above.next_back()) {
            rows.push(Row { text: format!("{heading}\n{row}\n"), line: *line, space });
        }
    }
    let paths = paths.iter().map(|path| super::command::trimmed(path)).collect();
    harvest.spaces.push(Table { paths, rows, host: body.host.clone() });
}

impl Table {
    /// The row a place is on, where that can be told.
    fn row_of(&self, place: &KubernetesDirectory, mounts: Option<&Mounts>) -> Option<&Row> {
        if !self.paths.is_empty() {
            let at = self.paths.iter().position(|path| path == place.path);
            return at.filter(|_| self.paths.len() == self.rows.len()).and_then(|at| self.rows.get(at));
        }
        if let Some(mount) = mounts.and_then(|mounts| mounts.of(place.path)) {
            let there = self.rows.iter().rfind(|row| row.space.target == mount.point);
            let elsewhere = || {
                // Of a device, not of one of many `tmpfs` or `overlay`.
                let from = Some(&mount.from).filter(|from| from.contains(['/', ':']));
                from.and_then(|from| self.rows.iter().find(|row| row.space.device.as_ref() == Some(from)))
            };
            return there.or_else(elsewhere);
        }
        // Without the root it is a part of a table, and what is deeper may be missing.
        self.rows.iter().find(|row| row.space.target == "/")?;
        let above = self.rows.iter().filter(|row| is_at_or_under(place.path, &row.space.target));
        above.max_by_key(|row| (row.space.target.len(), row.space.line))
    }
}

/// The halves of each place together; of two that say the same the later counts.
pub(super) fn joined(tables: &[Table], mounts: impl Fn(Option<&str>) -> Option<Mounts>) -> Vec<Segment> {
    let mut places: BTreeMap<(Option<String>, String), BTreeMap<bool, &Row>> = BTreeMap::new();
    let mut known: BTreeMap<Option<&str>, Option<Mounts>> = BTreeMap::new();
    for table in tables {
        let host = table.host.as_deref();
        let mounts = known.entry(host).or_insert_with(|| mounts(host));
        for place in &PLACES {
            if let Some(row) = table.row_of(place, mounts.as_ref()) {
                let key = (table.host.clone(), Source::Query(place.query).key());
                places.entry(key).or_default().insert(row.space.available.is_none(), row);
            }
        }
    }
    let segment = |((host, key), halves): ((Option<String>, String), BTreeMap<bool, &Row>)| {
        let first_line = halves.values().next().map_or(0, |row| row.line);
        let text: String = halves.into_values().map(|row| row.text.as_str()).collect();
        Segment { key, capture: Ok(Capture::text(text)), first_line, verbatim: false, host }
    };
    places.into_iter().map(segment).collect()
}
