//! What a command's end means: the same for a command run here and one run over SSH. Pure.

use std::net::IpAddr;

use carrick_core::fact::keep::{Keep, Keeper};
use carrick_core::fact::{Capture, Why};
use carrick_core::redact::{Redaction, redact};

use crate::probe::{Kept, Read};

/// What the tools Carrick asks say when they would need root.
const DENIED: [&str; 7] = [
    "permission denied",
    "operation not permitted",
    "access denied",
    "must be root",
    "need to be root",
    "insufficient permissions",
    "superuser",
];

/// A keeper that is spared what it could not keep: what floods is read to its end without being looked at.
pub(crate) struct Intake {
    keeper: Keeper,
    passed_by: u64,
}

impl Intake {
    pub(crate) fn new(keep: Keep) -> Self {
        Intake { keeper: Keeper::new(keep), passed_by: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.keeper.is_full() {
            self.passed_by += bytes.len() as u64;
        } else {
            self.keeper.push(bytes);
        }
    }

    pub(crate) fn finish(self) -> Kept {
        let (mut capture, redactions) = self.keeper.finish();
        capture.dropped += self.passed_by;
        (capture, redactions)
    }

    /// Of a source that goes on behind what was read of it.
    pub(crate) fn finish_cut(self) -> Kept {
        let (mut capture, redactions) = self.keeper.finish_cut();
        // How much is missing is not known; that something is must be told.
        capture.dropped += self.passed_by.max(1);
        (capture, redactions)
    }
}

/// Puts a command's two streams and its exit status together, and says so where they are no answer at all.
pub(crate) fn finished(out: Intake, errors: Intake, exit: i32) -> Read {
    let (mut capture, mut redactions) = out.finish();
    let (errors, more) = errors.finish();
    add(&mut redactions, more);
    capture.errors = errors.text;
    capture.exit = Some(exit);
    judge(capture).map(|capture| (capture, redactions))
}

/// A command that printed nothing because it is not there, or because it may not.
fn judge(capture: Capture) -> Result<Capture, Why> {
    if !capture.text.is_empty() {
        return Ok(capture);
    }
    let errors = capture.errors.to_lowercase();
    match capture.exit {
        // What a shell, `timeout` and `env` end with where there is no such program, or it cannot be run.
        Some(126 | 127) => Err(Why::NoTool),
        _ if DENIED.iter().any(|denied| errors.contains(denied)) => Err(Why::Denied),
        _ => Ok(capture),
    }
}

fn add(redactions: &mut Vec<Redaction>, more: Vec<Redaction>) {
    for redaction in more {
        match redactions.iter_mut().find(|known| known.kind == redaction.kind) {
            Some(known) => known.count += redaction.count,
            None => redactions.push(redaction),
        }
    }
}

/// A text that is there as a whole, as a capture.
pub(crate) fn keep(text: &[u8], keep: Keep) -> Kept {
    keep_of(text, keep, usize::MAX)
}

/// A text that was read no further than `most`, as a capture.
pub(crate) fn keep_of(text: &[u8], keep: Keep, most: usize) -> Kept {
    let mut intake = Intake::new(keep);
    intake.push(text);
    if text.len() < most { intake.finish() } else { intake.finish_cut() }
}

/// Of a text that was read no further than `most`, its whole lines: half a secret would not be known for one.
pub(crate) fn whole_lines(text: &[u8], most: usize) -> &[u8] {
    let end = if text.len() < most {
        text.len()
    } else {
        text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)
    };
    text.get(..end).unwrap_or_default()
}

/// Why a file could not be read, from the last words of a message: `head: cannot open '/x' for reading: Permission denied`.
pub(crate) fn why(message: &str) -> Why {
    let said = redact(message);
    let reason = said.trim_end().rsplit(": ").next().unwrap_or_default();
    match reason.to_lowercase().as_str() {
        "no such file or directory" | "no such file" | "not a directory" => Why::Absent,
        "permission denied" | "operation not permitted" => Why::Denied,
        "" => Why::Broken("could not be read".to_owned()),
        _ => Why::Broken(reason.to_owned()),
    }
}

/// The command that asks the machine's own resolver. A name that is not one never gets near a command line.
pub(crate) fn resolver(name: &str) -> Result<[&str; 3], Why> {
    let labels = name.strip_suffix('.').unwrap_or(name).split('.');
    let good = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if name.len() <= 254 && labels.clone().all(good) {
        return Ok(["getent", "ahosts", name]);
    }
    Err(Why::Broken(format!("{name:?} is not a DNS name")))
}

/// The addresses `getent ahosts` prints, each once, in its order.
pub(crate) fn addresses(capture: &Capture) -> Result<Vec<IpAddr>, Why> {
    let mut found: Vec<IpAddr> = Vec::new();
    for word in capture.text.lines().filter_map(|line| line.split_whitespace().next()) {
        // A link-local address comes with its interface: fe80::1%eth0.
        if let Ok(address) = word.split('%').next().unwrap_or(word).parse()
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    match capture.exit {
        _ if !found.is_empty() => Ok(found),
        Some(2) => Err(Why::Absent),
        Some(exit) => Err(Why::Broken(format!("getent ended with {exit}: {}", last_line(&capture.errors)))),
        None => Err(Why::Broken("getent gave no address".to_owned())),
    }
}

/// The last line that says something: where programs put what went wrong.
pub(crate) fn last_line(text: &str) -> &str {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;
    use carrick_core::fact::keep::USUAL;

    fn end(out: &str, errors: &str, exit: i32) -> Result<Capture, Why> {
        let (mut stdout, mut stderr) = (Intake::new(USUAL), Intake::new(USUAL));
        stdout.push(out.as_bytes());
        stderr.push(errors.as_bytes());
        finished(stdout, stderr, exit).map(|(capture, _)| capture)
    }

    #[test]
    fn says_why_a_command_gave_nothing() {
        let rows = [
            ("", "timeout: failed to run command 'nft': No such file or directory\n", 127, Some(Why::NoTool)),
            ("", "sh: 1: nft: Permission denied\n", 126, Some(Why::NoTool)),
            (
                "",
                "Operation not permitted (you must be root)\nnetlink: Error: cache initialization failed\n",
                1,
                Some(Why::Denied),
            ),
            ("", "iptables-save v1.8.9: Fatal: Permission denied (you must be root)\n", 4, Some(Why::Denied)),
            ("", "ERROR: You need to be root to run this script\n", 1, Some(Why::Denied)),
            ("", "No journal files were opened due to insufficient permissions.\n", 1, Some(Why::Denied)),
            ("", "No files found for kubelet.service.\n", 1, None),
            ("", "", 0, None),
            ("something\n", "one file: Permission denied\n", 1, None),
            ("something\n", "", 127, None),
        ];
        for (out, errors, exit, why) in rows {
            let capture = end(out, errors, exit);
            assert_eq!(capture.clone().err(), why, "{errors:?}");
            if let Ok(capture) = capture {
                assert_eq!((capture.text.as_str(), capture.errors.as_str(), capture.exit), (out, errors, Some(exit)));
            }
        }
    }

    #[test]
    fn redactions_of_both_streams_are_counted() {
        let token = "token abcdef.0123456789abcdef\n";
        let (mut out, mut errors) = (Intake::new(USUAL), Intake::new(USUAL));
        out.push(token.as_bytes());
        errors.push(format!("{token}{token}").as_bytes());
        let (_, redactions) = finished(out, errors, 0).unwrap();
        assert_eq!(redactions.iter().map(|redaction| redaction.count).sum::<u64>(), 3, "{redactions:?}");
    }

    #[test]
    fn what_floods_is_counted_to_the_last_byte() {
        let mut intake = Intake::new(Keep::Head(10));
        for _ in 0..1000 {
            intake.push(b"0123456\n");
        }
        let (capture, _) = intake.finish();
        assert_eq!((capture.text.as_str(), capture.dropped), ("0123456\n01", 7990));
    }

    #[test]
    fn a_message_tells_why_a_file_was_not_read() {
        let rows = [
            ("head: cannot open '/x' for reading: No such file or directory\n", Why::Absent),
            ("sh: 12: cannot open /etc/passwd/x: No such file\n", Why::Absent),
            ("head: cannot open '/etc/passwd/x' for reading: Not a directory", Why::Absent),
            ("find: '/root': Permission denied\n", Why::Denied),
            ("head: error reading '/sys/x': Invalid argument\n", Why::Broken("Invalid argument".into())),
            ("", Why::Broken("could not be read".into())),
        ];
        for (message, expected) in rows {
            assert_eq!(why(message), expected, "{message:?}");
        }
    }

    #[test]
    fn only_names_are_resolved() {
        assert_eq!(resolver("api.example.org"), Ok(["getent", "ahosts", "api.example.org"]));
        assert!(resolver("api.example.org.").is_ok());
        let long = format!("{}.org", "x".repeat(64));
        for name in ["", ".", "-s", "a..b", "a b", "x;id", "$(id)", "a.-b", long.as_str()] {
            assert_eq!(resolver(name), Err(Why::Broken(format!("{name:?} is not a DNS name"))));
        }
    }

    #[test]
    fn reads_what_getent_prints() {
        let text = "10.0.0.1        STREAM api\n10.0.0.1        DGRAM  \nfe80::1%eth0    STREAM api\n";
        let found = Capture { exit: Some(0), ..Capture::text(text) };
        assert_eq!(addresses(&found), Ok(vec!["10.0.0.1".parse().unwrap(), "fe80::1".parse().unwrap()]));
        assert_eq!(addresses(&Capture { exit: Some(2), ..Capture::default() }), Err(Why::Absent));
        let usage =
            Capture { exit: Some(1), errors: "Unknown database: ahosts\nmore help\n".into(), ..Capture::default() };
        assert_eq!(addresses(&usage), Err(Why::Broken("getent ended with 1: more help".into())));
    }
}
