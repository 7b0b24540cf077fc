//! Facts as one JSON document.
//!
//! Shared: the example machine, and what tests keep.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Capture, Facts, Why};

#[derive(Serialize, Deserialize)]
struct Record {
    host: String,
    taken_at: Timestamp,
    facts: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    Missing(Why),
    Seen {
        /// In lines, so that a change to one is a change to one.
        lines: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        exit: Option<i32>,
        #[serde(skip_serializing_if = "String::is_empty", default)]
        errors: String,
        #[serde(skip_serializing_if = "is_zero", default)]
        dropped: u64,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's shape
fn is_zero(count: &u64) -> bool {
    *count == 0
}

pub fn to_json(facts: &Facts) -> Result<String, serde_json::Error> {
    let entry = |capture: &Result<Capture, Why>| match capture {
        Err(why) => Entry::Missing(why.clone()),
        Ok(Capture { text, exit, errors, dropped }) => Entry::Seen {
            lines: text.split('\n').map(str::to_owned).collect(),
            exit: *exit,
            errors: errors.clone(),
            dropped: *dropped,
        },
    };
    let facts_of = facts.iter().map(|(key, capture)| (key.to_owned(), entry(capture))).collect();
    serde_json::to_string_pretty(&Record { host: facts.host.clone(), taken_at: facts.taken_at, facts: facts_of })
}

pub fn from_json(json: &str) -> Result<Facts, serde_json::Error> {
    let record: Record = serde_json::from_str(json)?;
    let mut facts = Facts::new(record.host, record.taken_at);
    for (key, entry) in record.facts {
        facts.insert(
            key,
            match entry {
                Entry::Missing(why) => Err(why),
                Entry::Seen { lines, exit, errors, dropped } => {
                    Ok(Capture { text: lines.join("\n"), exit, errors, dropped })
                }
            },
        );
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Source;
    use crate::testing::facts;

    #[test]
    fn facts_come_back_as_they_were() {
        let facts = facts()
            .with_file("/etc/hosts", "127.0.0.1 localhost\n")
            .with_file("/empty", "")
            .without_file("/etc/fstab")
            .without(Source::File("/broken"), Why::Broken("odd".into()))
            .with_exit(&crate::fact::version::KUBELET, 1, "", "no");
        assert_eq!(from_json(&to_json(&facts).unwrap()).unwrap(), facts);
    }
}
