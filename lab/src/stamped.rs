//! `carrick join` as a person without a terminal sees it, each line with the time it was said at, while somebody meddles with the
//! machine: what is told, how soon, and how long nobody said a word.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::error::{Error, Result};
use crate::join::PROGRAM;
use crate::machine::Machine;
use crate::run::Done;

/// One attempt. Does something once these words were said; each line comes with the time it was said at, and so do the beginning
/// and the end.
const SCRIPT: &str = r#"set -o pipefail
stamp() { while IFS= read -r line; do printf '%s %s\n' "$EPOCHREALTIME" "$line"; done; }
rm -f /root/said; : > /root/said
( until grep -q "$2" /root/said; do sleep 0.02; done; sh -ec "$3" ) >/dev/null 2>&1 & meddler=$!
echo "$EPOCHREALTIME begins"
MAX_RETRIES=1 "$1" join - < /root/join-line 2>&1 | tee /root/said | stamp; ended=$?
echo "$EPOCHREALTIME ends"
kill $meddler 2>/dev/null; rm -f /root/said; exit $ended"#;

/// A join that has ended.
pub struct StampedJoin {
    /// What carrick itself has said, and how it ended.
    pub done: Done,
    lines: Vec<(Timestamp, String)>,
}

/// A join of one attempt by a line, in which `then` is done once `words` were said.
pub fn join(machine: &Machine, line: &str, words: &str, then: &str, within: Duration) -> Result<StampedJoin> {
    machine.write("/root/join-line", line)?;
    let mut done = machine.run(["bash", "-c", SCRIPT, "bash", PROGRAM, words, then]).deadline(within).done()?;
    machine.ok(["rm", "-f", "/root/join-line", "/root/said"])?;
    let lines = stamped(&done.out);
    if lines.len() < 2 {
        return Err(Error::Said(format!("no line was stamped:\n{}", done.text())));
    }
    done.out = own(&lines);
    Ok(StampedJoin { done, lines })
}

impl StampedJoin {
    /// When it was started.
    pub fn began(&self) -> Timestamp {
        self.lines.first().map(|(at, _)| *at).unwrap_or_default()
    }

    pub fn ended(&self) -> Timestamp {
        self.lines.last().map(|(at, _)| *at).unwrap_or_default()
    }

    /// When it first said these words in a line.
    pub fn told(&self, words: &str) -> Result<Timestamp> {
        let told = self.lines.iter().find(|(_, line)| line.contains(words)).map(|(at, _)| *at);
        told.ok_or_else(|| Error::Said(format!("it did not say {words:?}:\n{}", self.done.text())))
    }

    /// Between two lines, before the first, and after the last.
    pub fn longest_silence(&self) -> Duration {
        longest_silence(&self.lines)
    }
}

fn longest_silence(lines: &[(Timestamp, String)]) -> Duration {
    let silences = lines.iter().zip(lines.iter().skip(1)).map(|((one, _), (next, _))| next.duration_since(*one));
    silences.max().and_then(|longest| Duration::try_from(longest).ok()).unwrap_or_default()
}

fn stamped(text: &str) -> Vec<(Timestamp, String)> {
    let read = |line: &str| {
        let (stamp, said) = line.split_once(' ')?;
        let seconds: f64 = stamp.replace(',', ".").parse().ok()?;
        let at = Timestamp::UNIX_EPOCH.checked_add(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()?;
        Some((at, said.to_owned()))
    };
    text.lines().filter_map(read).collect()
}

/// Without the beginning and the end, which the script says.
fn own(lines: &[(Timestamp, String)]) -> String {
    let said = lines.iter().map(|(_, said)| said).filter(|said| !["begins", "ends"].contains(&said.as_str()));
    said.map(|said| format!("{said}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_beginning_to_the_end() {
        let lines = stamped("100.5 begins\n101.0   ok  found\n113.25   ..  waits\n114.0 ends\n");
        assert_eq!(longest_silence(&lines), Duration::from_millis(12_250));
        assert_eq!(own(&lines), "  ok  found\n  ..  waits\n");
        assert!(stamped("").is_empty());
    }
}
