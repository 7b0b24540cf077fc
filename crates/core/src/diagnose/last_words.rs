//! What a program said when it ended: of all its lines the one that tells why.
//!
//! Programs end in few ways, whatever they are: a line of their log at its gravest level, Go's `panic:`, `Error: …` of a
//! command line, kubeadm's error. Which line that is shows as they come, so none has to be kept but that one.

use std::borrow::Cow;

/// More than this of a line is not kept: a kubelet prints its whole configuration into one.
const LONGEST_LINE: usize = 8 << 10;
/// How much of the words is shown. Of more than that the beginning and, twice as long, the end: there stands the reason.
const LONGEST_WORDS: usize = 300;

/// The last words of one process, from the lines heard so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWords {
    said: Option<(Weight, String)>,
}

/// How much a line says of why a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It has no form; programs that say nothing else say it so.
    Plain,
    /// Something went wrong.
    Error,
    /// The program ends for it.
    Fatal,
}

impl LastWords {
    /// The next line, as the program wrote it.
    pub fn hear(&mut self, line: &str) {
        let Some(weight) = weight(line) else { return };
        if self.said.as_ref().is_none_or(|(gravest, _)| weight >= *gravest) {
            let end = line.floor_char_boundary(LONGEST_LINE);
            self.said = Some((weight, line.get(..end).unwrap_or_default().to_owned()));
        }
    }

    /// The line that tells why, where one is at least so grave.
    pub fn line(&self, least: Weight) -> Option<&str> {
        self.said.as_ref().filter(|(weight, _)| *weight >= least).map(|(_, line)| line.as_str())
    }
}

/// What the words are without what their log puts around them, at a length to be read.
pub fn said(line: &str) -> String {
    let words = match klog(line) {
        Some((_, message)) => structured(message),
        None => logfmt(line).or_else(|| json(line)).unwrap_or(Cow::Borrowed(line)),
    };
    let words = words.trim();
    let words = ["Error: ", "error: "].iter().find_map(|start| words.strip_prefix(start)).unwrap_or(words);
    shortened(words)
}

fn shortened(words: &str) -> String {
    let letters = words.chars().count();
    if letters <= LONGEST_WORDS {
        return words.to_owned();
    }
    let head: String = words.chars().take(LONGEST_WORDS / 3).collect();
    let tail: String = words.chars().skip(letters - LONGEST_WORDS * 2 / 3).collect();
    format!("{} … {}", head.trim_end(), tail.trim_start())
}

/// How a line begins for which a program ends, where its log has no levels.
const ENDS: [&str; 7] =
    ["panic: ", "fatal error: ", "Error: ", "error: ", "error execution phase ", "FATAL: ", "fatal: "];

/// `None`: it is no reason to end, or only goes with one.
fn weight(line: &str) -> Option<Weight> {
    if let Some((level, message)) = klog(line) {
        return match level {
            'F' => Some(Weight::Fatal),
            // How every component of Kubernetes ends that cannot go on.
            'E' if message.starts_with("\"command failed\"") => Some(Weight::Fatal),
            'E' => Some(Weight::Error),
            _ => None,
        };
    }
    if let Some(level) = level(line) {
        return match level {
            "fatal" | "panic" | "dpanic" | "FATA" | "PANI" | "FATAL" | "PANIC" => Some(Weight::Fatal),
            "error" | "ERRO" | "ERROR" => Some(Weight::Error),
            _ => None,
        };
    }
    let words = line.trim();
    if ENDS.iter().any(|start| words.starts_with(start)) {
        return Some(Weight::Fatal);
    }
    // Go's traces, the help that follows a wrong flag, and what is indented belong to a line above.
    let belongs = line.starts_with([' ', '\t']) || words.starts_with("goroutine ") || words.starts_with("Usage:");
    (!belongs && !words.is_empty()).then_some(Weight::Plain)
}

/// `E1115 20:39:50.123456    1234 run.go:72] …`: the level, and the message.
fn klog(line: &str) -> Option<(char, &str)> {
    let level = line.chars().next().filter(|level| matches!(level, 'I' | 'W' | 'E' | 'F'))?;
    let date = line.get(1..5)?;
    (date.bytes().all(|byte| byte.is_ascii_digit()) && line.as_bytes().get(5) == Some(&b' ')).then_some(())?;
    let (head, message) = line.split_once("] ")?;
    (!head.contains('"')).then_some((level, message))
}

/// The level of a line of logrus, zap, slog or calico's felix.
fn level(line: &str) -> Option<&str> {
    let quoted =
        |text: &'_ str| -> usize { text.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(text.len()) };
    for key in [" level=", "\"level\":\"", "\"level\": \"", "level="] {
        let found = if key == "level=" { line.strip_prefix(key) } else { line.split_once(key).map(|(_, rest)| rest) };
        // A word of the message is not the level: that stands near the beginning.
        if let Some(rest) = found.filter(|rest| line.len() - rest.len() < 80) {
            return rest.get(..quoted(rest));
        }
    }
    // `FATA[0000] …`
    if let Some((level, rest)) = line.split_at_checked(4)
        && rest.starts_with('[')
        && matches!(level, "DEBU" | "INFO" | "WARN" | "ERRO" | "FATA" | "PANI")
    {
        return Some(level);
    }
    // `2026-11-15 20:39:50.123 [FATAL][9] …`
    let (level, _) = line.split_once('[')?.1.split_once("][")?;
    matches!(level, "DEBUG" | "INFO" | "WARNING" | "ERROR" | "FATAL" | "PANIC").then_some(level)
}

/// klog's message and the error behind it: `"command failed" err="…"` is its error.
fn structured(message: &str) -> Cow<'_, str> {
    let Some(rest) = message.strip_prefix('"') else { return Cow::Borrowed(message) };
    let Some((title, fields)) = rest.split_once('"') else { return Cow::Borrowed(message) };
    match value_of(fields, "err") {
        Some(error) if title == "command failed" => Cow::Owned(error),
        Some(error) => Cow::Owned(format!("{title}: {error}")),
        None => Cow::Borrowed(message),
    }
}

/// `time="…" level=fatal msg="…" error="…"`
fn logfmt(line: &str) -> Option<Cow<'_, str>> {
    let message = value_of(line, "msg").filter(|_| line.contains("level="))?;
    let error = value_of(line, "error").or_else(|| value_of(line, "err"));
    Some(Cow::Owned(error.map_or_else(|| message.clone(), |error| format!("{message}: {error}"))))
}

fn json(line: &str) -> Option<Cow<'_, str>> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    let text = |key: &str| object.get(key)?.as_str().map(str::to_owned);
    let message = text("msg").or_else(|| text("message"))?;
    let error = text("error").or_else(|| text("err"));
    Some(Cow::Owned(error.map_or_else(|| message.clone(), |error| format!("{message}: {error}"))))
}

/// The value behind `key=`, without its quotes.
fn value_of(fields: &str, key: &str) -> Option<String> {
    let (_, rest) = fields.split_once(&format!("{key}="))?;
    let Some(inside) = rest.strip_prefix('"') else { return rest.split(' ').next().map(str::to_owned) };
    let (mut value, mut escaped) = (String::new(), false);
    for letter in inside.chars() {
        match letter {
            _ if escaped => {
                escaped = false;
                value.push(if letter == 'n' { '\n' } else { letter });
            }
            '\\' => escaped = true,
            '"' => break,
            _ => value.push(letter),
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn last(lines: &[&str]) -> Option<String> {
        let mut words = LastWords::default();
        for line in lines {
            words.hear(line);
        }
        words.line(Weight::Plain).map(said)
    }

    #[test]
    fn the_line_that_tells_why_is_known_whoever_wrote_it() {
        let failed = r#"E1118 12:00:03.221871     512 run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --bogus""#;
        for (name, lines, expected) in [
            (
                "kubelet",
                &[
                    "I1118 12:00:03.1     512 server.go:1] \"Kubelet version\" kubeletVersion=\"v1.34.4\"",
                    "E1118 12:00:03.2     512 x.go:1] \"Unable to watch\" err=\"refused\"",
                    failed,
                    "Usage:",
                    "  kubelet [flags]",
                ][..],
                "failed to parse kubelet flag: unknown flag: --bogus",
            ),
            (
                "flannel",
                &[
                    "E0201 15:33:41.102897       1 main.go:280] Error registering network: failed to acquire lease: node \"w1\" pod cidr not assigned",
                    "I0201 15:33:41.102897       1 main.go:463] Stopping shutdownHandler...",
                ],
                "Error registering network: failed to acquire lease: node \"w1\" pod cidr not assigned",
            ),
            (
                "klog, fatal",
                &[
                    "E1118 12:00:03.2     512 x.go:1] later",
                    "F1118 12:00:03.2     512 main.go:39] no route",
                    "E1118 12:00:03.2     512 x.go:1] after",
                ],
                "no route",
            ),
            (
                "logrus",
                &[
                    "time=\"2026-11-18T12:00:00Z\" level=info msg=\"starting\"",
                    "time=\"2026-11-18T12:00:00Z\" level=fatal msg=\"failed to start\" error=\"no \\\"x\\\"\"",
                ],
                "failed to start: no \"x\"",
            ),
            (
                "zap",
                &[r#"{"level":"fatal","ts":1,"msg":"cannot run","error":"denied"}"#, r#"{"level":"info","msg":"bye"}"#],
                "cannot run: denied",
            ),
            (
                "calico",
                &["2026-11-18 12:00:00.123 [FATAL][9] startup/startup.go 1: no address", "x"],
                "2026-11-18 12:00:00.123 [FATAL][9] startup/startup.go 1: no address",
            ),
            (
                "a panic and its trace",
                &[
                    "panic: runtime error: index out of range",
                    "",
                    "goroutine 1 [running]:",
                    "main.main()",
                    "\t/x/main.go:1 +0x1d",
                ],
                "panic: runtime error: index out of range",
            ),
            ("a command line", &["Error: unknown flag: --bogus", "Usage:", "  x [flags]"], "unknown flag: --bogus"),
            (
                "kubeadm",
                &[
                    "[preflight] Running pre-flight checks",
                    "error execution phase preflight: couldn't validate: no route",
                ],
                "error execution phase preflight: couldn't validate: no route",
            ),
            ("who has no form", &["cannot find /etc/x", ""], "cannot find /etc/x"),
        ] {
            assert_eq!(last(lines).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(last(&["I1118 12:00:03.1     512 x.go:1] all is well", "  indented", ""]), None);
    }

    #[test]
    fn who_was_killed_has_only_words_that_say_so() {
        let mut words = LastWords::default();
        words.hear("E1118 12:00:03.2     512 x.go:1] \"Unable to watch\" err=\"refused\"");
        assert_eq!((words.line(Weight::Fatal), words.line(Weight::Error).is_some()), (None, true));
        words.hear("panic: no");
        assert_eq!(words.line(Weight::Fatal), Some("panic: no"));
    }

    #[test]
    fn of_long_words_the_end_is_kept() {
        let long = format!("Error: {} reason: no space", "x ".repeat(5000));
        let said = said(&long);
        assert!(said.chars().count() <= LONGEST_WORDS + 3 && said.ends_with("reason: no space"), "{said}");
    }

    proptest! {
        #[test]
        fn any_line_may_be_the_last(line in "([IWEF]1118 |level=fatal|msg=\"|err=\"|\\\\|\\{\"level\":\"|\\]|\\[|panic: |.)*") {
            let mut words = LastWords::default();
            words.hear(&line);
            if let Some(line) = words.line(Weight::Plain) {
                let _ = said(line);
            }
        }
    }
}
