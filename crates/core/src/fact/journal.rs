//! What the kubelet and the container runtime have written to the journal since they were started.
//!
//! Of this invocation only: a line of an earlier life is no evidence about this one. The script takes the beginning and
//! the end, since a kubelet that has run for a month has written gigabytes; an entry that is in both is given once.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{Facts, Known, Missing, Query, Source, Why, keep};

/// The script for one unit. `INVOCATION_ID` is what systemd itself says about it, `_SYSTEMD_INVOCATION_ID` what it
/// says.
macro_rules! invocation_script {
    ($unit:literal) => {
        concat!(
            "id=$(systemctl show -p InvocationID --value ",
            $unit,
            ") || exit 1; [ -n \"$id\" ] || exit 0; ",
            "look() { journalctl --no-pager -q -o json --output-fields=MESSAGE,PRIORITY,_PID \"$@\" ",
            "_SYSTEMD_INVOCATION_ID=\"$id\" + INVOCATION_ID=\"$id\"; }; ",
            "look 2>/dev/null | head -n 400; look -n 5000"
        )
    };
}

pub const KUBELET: Query = Query {
    name: "journalctl -u kubelet",
    argv: &["sh", "-c", invocation_script!("kubelet.service")],
    keep: keep::LOG,
};
pub const CONTAINERD: Query = Query {
    name: "journalctl -u containerd",
    argv: &["sh", "-c", invocation_script!("containerd.service")],
    keep: keep::LOG,
};

pub const CRIO: Query =
    Query { name: "journalctl -u crio", argv: &["sh", "-c", invocation_script!("crio.service")], keep: keep::LOG };
pub const CRI_DOCKERD: Query = Query {
    name: "journalctl -u cri-docker",
    argv: &["sh", "-c", invocation_script!("cri-docker.service")],
    keep: keep::LOG,
};

pub const SOURCES: &[Source] =
    &[Source::Query(&KUBELET), Source::Query(&CONTAINERD), Source::Query(&CRIO), Source::Query(&CRI_DOCKERD)];

/// Those of the runtimes: of one that is not there its journal is empty.
pub const RUNTIMES: [&Query; 3] = [&CONTAINERD, &CRIO, &CRI_DOCKERD];

/// Whether this names one of these journals.
pub fn is_one(source: &str) -> bool {
    KUBELET.name == source || RUNTIMES.iter().any(|query| query.name == source)
}

/// The script's `head -n`: entries up to here may come a second time.
const HEAD_ENTRIES: usize = 400;
/// Longer than any line journald gives out with the fields asked for; a longer one is counted and let go.
const LINE_LIMIT: usize = 256 << 10;
/// A Go stack trace fits; what is longer is cut.
const MESSAGE_LIMIT: usize = 32 << 10;

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    pub at: Timestamp,
    /// `None` where journald held back a message that was too large.
    pub message: Option<String>,
    /// 0 is an emergency, 3 an error, 6 information.
    pub priority: Option<u8>,
    pub pid: Option<u32>,
    /// `kubelet`, `systemd`: who wrote it. With [`JournalEntry::unit`] only where it was asked for.
    pub program: Option<String>,
    /// `kubelet.service`: whose, or about whom.
    pub unit: Option<String>,
}

/// What was read besides the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalCount {
    pub entries: u64,
    /// Lines that were no entry, or were too long.
    pub broken: u64,
}

/// Reads `journalctl -o json` as it comes, holding one line at a time.
#[derive(Default)]
pub struct JournalReader {
    line: Vec<u8>,
    too_long: bool,
    seen: BTreeSet<String>,
    count: JournalCount,
    last: Option<String>,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "__CURSOR")]
    cursor: Option<String>,
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    at: Value,
    #[serde(rename = "MESSAGE", default)]
    message: Value,
    #[serde(rename = "PRIORITY", default)]
    priority: Value,
    #[serde(rename = "_PID", default)]
    pid: Value,
    #[serde(rename = "SYSLOG_IDENTIFIER", default)]
    program: Value,
    /// systemd writes about a unit here.
    #[serde(rename = "UNIT", default)]
    about: Value,
    #[serde(rename = "_SYSTEMD_UNIT", default)]
    unit: Value,
}

impl JournalReader {
    pub fn new() -> Self {
        Self::default()
    }

    /// The place of the last entry: `--after-cursor` goes on from there.
    pub fn cursor(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Takes the next bytes; every entry that is complete goes to `each`.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(JournalEntry)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            if self.line.len() + text.len() > LINE_LIMIT {
                self.too_long = true;
                self.line.clear();
            }
            if !self.too_long {
                self.line.extend_from_slice(text);
            }
            if ends {
                self.end_line(&mut each);
            }
        }
    }

    /// The last line, where it has no end, and what was counted.
    pub fn finish(mut self, mut each: impl FnMut(JournalEntry)) -> JournalCount {
        self.end_line(&mut each);
        self.count
    }

    fn end_line(&mut self, each: &mut impl FnMut(JournalEntry)) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.too_long) {
            self.count.broken += 1;
        } else if !line.trim_ascii().is_empty() {
            match serde_json::from_slice::<Raw>(&line).ok().and_then(|raw| Some((raw.entry()?, raw.cursor))) {
                Some((_, Some(cursor))) if self.seen.contains(&cursor) => {}
                Some((entry, cursor)) => {
                    self.last.clone_from(&cursor);
                    if self.seen.len() < HEAD_ENTRIES {
                        self.seen.extend(cursor);
                    }
                    self.count.entries += 1;
                    each(entry);
                }
                None => self.count.broken += 1,
            }
        }
    }
}

impl Raw {
    fn entry(&self) -> Option<JournalEntry> {
        let mut message = message(&self.message);
        if let Some(text) = &mut message {
            let end = text.floor_char_boundary(MESSAGE_LIMIT);
            text.truncate(end);
        }
        Some(JournalEntry {
            at: Timestamp::from_microsecond(number(&self.at)?).ok()?,
            message,
            priority: number(&self.priority).and_then(|it| u8::try_from(it).ok()),
            pid: number(&self.pid).and_then(|it| u32::try_from(it).ok()),
            program: self.program.as_str().map(str::to_owned),
            unit: self.about.as_str().or(self.unit.as_str()).map(str::to_owned),
        })
    }
}

/// journald writes numbers as strings.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// Text; bytes where it was not UTF-8; several where the field was given more than once; null where it was too large.
fn message(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) if items.iter().all(Value::is_u64) => {
            let bytes: Vec<u8> = items.iter().filter_map(|item| u8::try_from(item.as_u64()?).ok()).collect();
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().take(LINE_LIMIT).filter_map(flat_message).collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        }
        _ => None,
    }
}

fn flat_message(value: &Value) -> Option<String> {
    match value {
        Value::Array(items) if !items.iter().all(Value::is_u64) => None,
        other => message(other),
    }
}

impl Facts {
    /// The entries of `kubelet` or of a runtime's unit since it was started; empty where it was not.
    pub fn journal(&self, unit: &str) -> Known<Vec<JournalEntry>> {
        let query = match unit {
            "kubelet" => &KUBELET,
            "containerd" => &CONTAINERD,
            "crio" => &CRIO,
            "cri-docker" => &CRI_DOCKERD,
            _ => return Err(Missing { source_name: format!("journalctl -u {unit}"), why: Why::NotCollected }),
        };
        let said = self.query(query)?;
        let mut entries = Vec::new();
        let mut reader = JournalReader::new();
        reader.push(said.text.as_bytes(), |entry| entries.push(entry));
        let count = reader.finish(|entry| entries.push(entry));
        if entries.is_empty() && (count.broken > 0 || said.exit.is_some_and(|exit| exit != 0)) {
            let said = said.errors.lines().chain(said.text.lines()).find(|line| !line.trim().is_empty());
            return Err(Missing::broken(query.name, said.unwrap_or("it failed")));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::facts;

    fn read(chunks: &[&[u8]]) -> (Vec<JournalEntry>, JournalCount) {
        let mut entries = Vec::new();
        let mut reader = JournalReader::new();
        for chunk in chunks {
            reader.push(chunk, |entry| entries.push(entry));
        }
        let count = reader.finish(|entry| entries.push(entry));
        (entries, count)
    }

    const LINE: &str = r#"{"__CURSOR":"s=1;i=1","__REALTIME_TIMESTAMP":"1794744000000001","MESSAGE":"hello","PRIORITY":"6","_PID":"812"}"#;

    #[test]
    fn reads_an_entry_however_it_is_cut() {
        let line = format!("{LINE}\n");
        for cut in 0..line.len() {
            let (a, b) = line.as_bytes().split_at(cut);
            let (entries, count) = read(&[a, b]);
            assert_eq!(count, JournalCount { entries: 1, broken: 0 });
            let at = Timestamp::from_microsecond(1_794_744_000_000_001).unwrap();
            let message = Some("hello".to_owned());
            let (program, unit) = (None, None);
            assert_eq!(entries, [JournalEntry { at, message, priority: Some(6), pid: Some(812), program, unit }]);
        }
    }

    #[test]
    fn a_message_may_be_bytes_or_several_or_held_back() {
        let with = |message: &str| {
            let line = format!(r#"{{"__REALTIME_TIMESTAMP":"1","MESSAGE":{message}}}"#);
            read(&[line.as_bytes()]).0.remove(0).message
        };
        assert_eq!(with("[104,105,255]").as_deref(), Some("hi\u{fffd}"));
        assert_eq!(with(r#"["a",[98,99]]"#).as_deref(), Some("a\nbc"));
        assert_eq!(with("null"), None);
        assert_eq!(with("[]").as_deref(), Some(""));
        assert_eq!(with(&format!("{:?}", "x".repeat(40_000))).map(|text| text.len()), Some(MESSAGE_LIMIT));
    }

    #[test]
    fn what_is_in_the_beginning_and_in_the_end_counts_once() {
        let other = LINE.replace("i=1", "i=2").replace("hello", "bye");
        let (entries, count) = read(&[format!("{LINE}\n{other}\n{LINE}\n{other}\n").as_bytes()]);
        assert_eq!((entries.len(), count.entries), (2, 2));
    }

    #[test]
    fn a_line_without_end_takes_no_memory_and_the_next_is_read() {
        let mut reader = JournalReader::new();
        let mut entries = Vec::new();
        for _ in 0..100 {
            reader.push(&[b'x'; 10_000], |entry| entries.push(entry));
            assert!(reader.line.len() <= LINE_LIMIT);
        }
        reader.push(format!("\n{LINE}\n").as_bytes(), |entry| entries.push(entry));
        assert_eq!(reader.finish(|entry| entries.push(entry)), JournalCount { entries: 1, broken: 1 });
        assert_eq!(entries.len(), 1);
    }

    #[test]
    fn a_line_of_just_the_limit_is_still_read() {
        let pad = LINE_LIMIT - LINE.len();
        let line = LINE.replace("hello", &format!("hello{}", "x".repeat(pad)));
        assert_eq!(line.len(), LINE_LIMIT);
        assert_eq!(read(&[line.as_bytes()]).1, JournalCount { entries: 1, broken: 0 });
        assert_eq!(read(&[line.as_bytes(), b" "]).1, JournalCount { entries: 0, broken: 1 });
    }

    #[test]
    fn no_invocation_is_an_empty_journal_and_a_failure_is_not() {
        assert_eq!(facts().with_query(&KUBELET, "").journal("kubelet"), Ok(Vec::new()));
        assert!(
            facts().with_exit(&KUBELET, 1, "", "Failed to connect to bus: Host is down").journal("kubelet").is_err()
        );
        assert!(facts().with_query(&CONTAINERD, "-- No entries --\n").journal("containerd").is_err());
        assert_eq!(facts().with_query(&CONTAINERD, LINE).journal("containerd").map(|it| it.len()), Ok(1));
        assert!(facts().journal("sshd").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_journal(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            read(&[&bytes]);
        }

        #[test]
        fn any_text_is_a_journal(message in any::<String>(), at in any::<String>()) {
            let line = serde_json::json!({"__REALTIME_TIMESTAMP": at, "MESSAGE": message}).to_string();
            read(&[line.as_bytes()]);
        }
    }
}
