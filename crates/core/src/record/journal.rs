//! The journal of a run: a line of JSON a mark.
//!
//! A power cut may tear the last line, or leave zeros and blocks of another file anywhere: what stands before the damage
//! happened, and is read.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Mark {
    Begun,
    Done,
    Failed,
    /// Of a run: all steps are done.
    Finished,
    /// Of a step: from here on the file as it was is no longer kept.
    Final,
    /// Of a step that is about to be taken back.
    UndoBegun,
    /// Of a step, or of the whole run.
    Undone,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Line"))]
pub struct JournalLine {
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step: Option<usize>,
    pub mark: Mark,
    /// Why it failed, was passed over, or is final.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub error: String,
}

/// A journal as far as it can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalText {
    pub lines: Vec<JournalLine>,
    /// So many bytes of it were read. What follows must not be added to.
    pub whole: usize,
    pub damage: Option<Damage>,
}

/// A line that says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// From 1.
    pub line: usize,
    pub why: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "journal.jsonl line {}: {}", self.line, self.why)
    }
}

/// A last line without an end was being written when the run was killed: what it was to say did not happen yet. `steps`: how
/// many the run has.
pub fn parse(journal: &[u8], steps: usize) -> JournalText {
    let mut text = JournalText::default();
    for (at, line) in journal.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let Some(whole) = line.strip_suffix(b"\n") else { break };
        match read(whole, steps) {
            Ok(line) => text.lines.extend(line),
            Err(why) => {
                text.damage = Some(Damage { line: at + 1, why });
                break;
            }
        }
        text.whole += line.len();
    }
    text
}

/// `None` of an empty line: it says nothing wrong.
fn read(line: &[u8], steps: usize) -> Result<Option<JournalLine>, String> {
    if line.is_empty() {
        return Ok(None);
    }
    let line: JournalLine = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match line.step {
        Some(step) if step >= steps => Err(format!("there is no step {step}")),
        _ => Ok(Some(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEGUN: &[u8] = br#"{"at":"2026-11-15T12:00:00Z","step":0,"mark":"begun"}"#;
    const DONE: &[u8] = br#"{"at":"2026-11-15T12:00:01Z","step":0,"mark":"done"}"#;

    #[test]
    fn it_is_read_up_to_what_is_torn_or_damaged() {
        // What it is, its parts, how many lines are read of it, and which one is damaged.
        type Row<'a> = (&'a str, Vec<&'a [u8]>, usize, Option<usize>);
        let beyond = br#"{"at":"2026-11-15T12:00:00Z","step":7,"mark":"begun"}"#;
        let of_later = br#"{"at":"2026-11-15T12:00:00Z","step":0,"mark":"blessed"}"#;
        let half = &BEGUN[..20];
        let rows: [Row<'_>; 10] = [
            ("nothing", vec![], 0, None),
            ("whole", vec![BEGUN, b"\n", DONE, b"\n"], 2, None),
            ("torn at the end", vec![BEGUN, b"\n", half], 1, None),
            ("its line end is missing", vec![BEGUN, b"\n", DONE], 1, None),
            ("torn, and written on", vec![BEGUN, b"\n", half, DONE, b"\n", DONE, b"\n"], 1, Some(2)),
            ("torn at once, and written on", vec![half, b"\n", DONE, b"\n"], 0, Some(1)),
            ("zeros at the end", vec![BEGUN, b"\n", &[0; 512]], 1, None),
            ("zeros in the middle", vec![BEGUN, b"\n", &[0; 512], DONE, b"\n"], 1, Some(2)),
            ("a step that there is not", vec![BEGUN, b"\n", beyond, b"\n", DONE, b"\n"], 1, Some(2)),
            ("a mark of a later version", vec![BEGUN, b"\n", of_later, b"\n"], 1, Some(2)),
        ];
        for (what, parts, lines, damaged) in rows {
            let text = parse(&parts.concat(), 1);
            assert_eq!((text.lines.len(), text.damage.map(|it| it.line)), (lines, damaged), "{what}");
        }
        let damage = parse(b"x\n", 1).damage.unwrap().to_string();
        assert!(damage.starts_with("journal.jsonl line 1: expected value"), "{damage}");
    }

    #[test]
    fn marks_are_written_as_they_always_were() {
        let marks = [Mark::Begun, Mark::Done, Mark::Failed, Mark::Finished, Mark::Final, Mark::UndoBegun, Mark::Undone];
        let written = serde_json::to_string(&marks).unwrap();
        assert_eq!(written, r#"["begun","done","failed","finished","final","undo-begun","undone"]"#);
    }

    proptest! {
        #[test]
        fn whatever_it_holds_what_is_whole_is_read(
            whole in 0usize..4, garbage in prop::collection::vec(any::<u8>(), 0..200), steps in 0usize..3,
        ) {
            let before = [BEGUN, b"\n"].concat().repeat(whole);
            let bytes = [before.as_slice(), &garbage].concat();
            let text = parse(&bytes, steps);
            if steps > 0 {
                prop_assert!(text.lines.len() >= whole && text.whole >= before.len());
            }
            prop_assert!(text.whole <= bytes.len());
            // Cut there, it is sound: nothing is lost by writing on from there.
            let again = parse(&bytes[..text.whole], steps);
            prop_assert_eq!((again.lines, again.whole, again.damage), (text.lines, text.whole, None));
        }
    }
}
