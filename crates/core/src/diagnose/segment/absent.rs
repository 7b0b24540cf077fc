//! What is not there, by the list of where it would be.
//!
//! A directory that was listed whole and does not hold `kubelet.conf` says that there is none; one that is not there
//! says so of everything below it.

use super::listing::Listed;
use super::{Gone, Segment};
use crate::fact::{Source, Why, sources};

/// Every place of Carrick's that the paste proves empty.
pub(super) fn derive(listed: &[Listed], gone: &[Gone]) -> Vec<Segment> {
    let mut found = Vec::new();
    if listed.is_empty() && gone.is_empty() {
        return found;
    }
    for source in sources() {
        let (Source::File(path) | Source::Dir(path) | Source::Tree(path)) = source else { continue };
        let lists = listed.iter().filter(|list| lacks(list, path)).map(|list| (list.line, &list.host));
        let holes = gone.iter().filter(|hole| is_below(path, &hole.path)).map(|hole| (hole.line, &hole.host));
        if let Some((first_line, host)) = lists.chain(holes).next() {
            found.push(Segment {
                key: source.key(),
                capture: Err(Why::Absent),
                first_line,
                verbatim: false,
                host: host.clone(),
            });
        }
    }
    found
}

/// The directory is above the path, and the next part of the path is not in it.
fn lacks(list: &Listed, path: &str) -> bool {
    let below = path.strip_prefix(list.dir.as_str()).and_then(|rest| rest.strip_prefix('/'));
    let part = below.and_then(|rest| rest.split('/').next()).filter(|part| !part.is_empty());
    part.is_some_and(|part| list.entries.iter().all(|entry| entry.name != part))
}

fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}
