//! Whether a line is a program's or somebody's telling: a script's own words, source code, Markdown, a conclusion.
//!
//! What is told is no evidence. A failure's text stands in scripts that look for it and in reports about it, and neither
//! shows that it happened here.

use super::around::{Around, indent};
use super::head::{Head, Shape};
use super::{ansible, plain};

/// Whether a line that stands in a text by itself is told.
pub(super) fn line(text: &str, head: &Head, around: &Around) -> bool {
    match head.shape {
        Shape::Klog | Shape::Logfmt | Shape::Kernel | Shape::Kubeadm | Shape::Program => false,
        // What a container writes is a program's log, with whatever tags.
        Shape::Container => marked(head.message) || source(head.message),
        Shape::Journal => piece(head),
        Shape::Stamped => piece(head) || prose(head.message),
        Shape::Bare => {
            let words = text.trim();
            if printed(words) {
                return false;
            }
            if !begins_an_error(words) {
                if piece(head) || prose(words) {
                    return true;
                }
                if (listed(text) || playbook(words)) && ansible::owner(around).is_none() {
                    return true;
                }
            }
            markdown_around(around)
        }
    }
}

/// The same for one that came out of a container of strings.
pub(super) fn piece(head: &Head) -> bool {
    match head.shape {
        Shape::Klog | Shape::Logfmt | Shape::Kernel | Shape::Kubeadm | Shape::Program | Shape::Container => false,
        Shape::Journal if head.program == Some("sudo") => head.message.contains("COMMAND="),
        Shape::Journal if matches!(head.program, Some("CRON" | "crond")) => head.message.contains("CMD ("),
        Shape::Journal | Shape::Stamped | Shape::Bare => {
            let words = head.message.trim();
            marked(words) || tagged(words) || banner(words) || source(words)
        }
    }
}

/// Signs that no program of a cluster prints, and people's scripts all do. systemd's ● ○ × are others.
fn marked(words: &str) -> bool {
    words.chars().any(|letter| {
        matches!(
            letter,
            '✅' | '❌'
                | '⚠'
                | '✓'
                | '✔'
                | '✗'
                | '✘'
                | 'ℹ'
                | '⏳'
                | '⌛'
                | '➜'
                | '➤'
                | '⭐'
                | '⛔'
                | '❗'
                | '❓'
                | '\u{1f300}'..='\u{1faff}'
        )
    })
}

/// `[INFO] …`: kubeadm's tags have a check's name in them, CoreDNS's a plugin after them.
fn tagged(words: &str) -> bool {
    const TAGS: [&str; 21] = [
        "INFO", "SUCCESS", "OK", "PASS", "PASSED", "FAIL", "FAILED", "WARN", "WARNING", "ERROR", "DEBUG", "NOTE",
        "STEP", "FATAL", "CRITICAL", "FIX", "FIXED", "CHECK", "RESULT", "DIAG", "SKIP",
    ];
    let Some((tag, rest)) = words.strip_prefix('[').and_then(|rest| rest.split_once(']')) else { return false };
    TAGS.contains(&tag.trim()) && (rest.is_empty() || rest.starts_with([' ', ':', '\t']))
}

/// `=== CNI status ===`, and the headings Ansible makes out of the names people give to tasks.
fn banner(words: &str) -> bool {
    const ANSIBLE: [&str; 7] = [
        "TASK [",
        "PLAY [",
        "PLAY RECAP",
        "RUNNING HANDLER [",
        "FAILED - RETRYING: ",
        "ASYNC POLL on ",
        "ASYNC FAILED on ",
    ];
    let ruled = ["===", "***", "---", "###", ">>>", "━━━", "───", "═══"]
        .iter()
        .any(|rule| words.strip_prefix(rule).is_some_and(|rest| rest.chars().any(char::is_alphanumeric)));
    ruled || ANSIBLE.iter().any(|start| words.starts_with(start))
}

/// Shell, as it stands in a file, in a playbook, in a trace of `set -x` or after a prompt; and a few words of others.
pub(super) fn source(words: &str) -> bool {
    let first = words.split([' ', '(', '\t']).next().unwrap_or_default();
    traced(words) || prompted(words) || commented(words) || statement(first, words) || piped(words)
}

/// `set -x` puts one + before a command, one more for each level.
fn traced(words: &str) -> bool {
    words.trim_start_matches('+').strip_prefix(' ').is_some_and(|rest| words.starts_with('+') && !rest.starts_with(' '))
}

/// `root@w1:~# …`, `[root@w1 ~]$ …`, `$ …`
fn prompted(words: &str) -> bool {
    if words.starts_with("$ ") {
        return true;
    }
    let Some((before, _)) = words.split_once("# ").or_else(|| words.split_once("$ ")) else { return false };
    let inner = before.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    match inner {
        Some(inner) => inner.split_once(' ').is_some_and(|(who, place)| who.contains('@') && !place.contains(' ')),
        None => before
            .split_once(':')
            .is_some_and(|(who, place)| who.contains('@') && !place.is_empty() && !before.contains(' ')),
    }
}

fn commented(words: &str) -> bool {
    ["#", "//", "<!--", "-- ->"].iter().any(|start| words.starts_with(start))
}

fn statement(first: &str, words: &str) -> bool {
    const SAYING: [&str; 15] = [
        "echo",
        "printf",
        "print",
        "println!",
        "log",
        "log_info",
        "log_error",
        "log_warn",
        "log_both",
        "info",
        "warn",
        "error",
        "fail",
        "die",
        "success",
    ];
    const OTHER: [&str; 11] =
        ["grep", "egrep", "rg", "awk", "sed", "export", "local", "readonly", "assert", "raise", "throw"];
    let called = SAYING.contains(&first) && words.get(first.len()..).is_some_and(is_argument);
    let branch = matches!(first, "if" | "elif" | "while" | "until" | "for" | "case")
        && (ends_open(words) || words.contains("; then") || words.contains("; do"));
    let function = words.strip_suffix('{').is_some_and(|head| head.trim_end().ends_with("()"));
    // `*"cni plugin not initialized"*)`
    let pattern = words.starts_with("*\"") && words.contains("\"*)");
    called || OTHER.contains(&first) || branch || function || pattern
}

/// ` "…`, ` '…`, `("…`: what `echo` and its like are given; `error` and `fail` alone may be a program's words.
fn is_argument(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', '-', 'e', 'n']);
    rest.starts_with(['"', '\'', '$']) || ["(\"", "('", "(f\"", "(f'"].iter().any(|start| rest.starts_with(start))
}

fn ends_open(words: &str) -> bool {
    [":", "{", "then", "do", "in", "&&", "||", "\\"].iter().any(|end| words.ends_with(end))
}

/// Pieces of shell and of templates that no message holds.
fn piped(words: &str) -> bool {
    const PIECES: [&str; 17] = [
        "| grep",
        "|grep",
        "| awk",
        "| sed ",
        "| head ",
        "| tail ",
        "| tee ",
        "|| echo",
        "&& echo",
        "|| {",
        "2>/dev/null",
        ">/dev/null",
        "2>&1",
        "$(",
        "${",
        "{{ ",
        "[[ ",
    ];
    PIECES.iter().any(|piece| words.contains(piece)) || quoted_variable(words)
}

/// `"$name"`, not `in $PATH`.
fn quoted_variable(words: &str) -> bool {
    words.match_indices("\"$").any(|(at, _)| {
        words
            .get(at + 2..)
            .and_then(|rest| rest.chars().next())
            .is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '_')
    })
}

/// Bold, a quotation, a label before a conclusion.
fn prose(words: &str) -> bool {
    const LABELS: [&str; 22] = [
        "Problem",
        "Impact",
        "Evidence",
        "Verdict",
        "Conclusion",
        "Recommendation",
        "Recommendations",
        "Summary",
        "Analysis",
        "Diagnosis",
        "Solution",
        "Resolution",
        "Symptom",
        "Symptoms",
        "Finding",
        "Findings",
        "Explanation",
        "Workaround",
        "Issue",
        "Primary Issue",
        "PRIMARY ISSUE",
        "Next Steps",
    ];
    let label = words.split_once(':').is_some_and(|(label, _)| LABELS.contains(&label.trim()));
    let quotation = words.strip_prefix("> ").is_some();
    let table = words.starts_with("| ") && words.trim_end().ends_with('|');
    label || quotation || table || bold(words) || words.to_ascii_lowercase().contains("root cause")
}

/// `**so**`
fn bold(words: &str) -> bool {
    words
        .split_once("**")
        .and_then(|(_, rest)| rest.split_once("**"))
        .is_some_and(|(inner, _)| inner.starts_with(char::is_alphanumeric) && !inner.contains('/'))
}

/// A point of a list that a person wrote. Programs make lists, too: YAML, kubeadm (known by its form), Go's joined errors, the
/// API server's.
fn listed(text: &str) -> bool {
    let words = text.trim_start();
    let Some(point) = point(words) else { return false };
    let yaml = point.split_once(':').is_some_and(|(key, _)| {
        key.starts_with(|first: char| first.is_ascii_lowercase())
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    let quoted = point.starts_with('\'') || (point.starts_with('"') && point.ends_with('"'));
    let joined = text.starts_with("\t* ");
    let refused = words.starts_with("* ")
        && [": Invalid value", ": Required value", ": Forbidden"].iter().any(|it| point.contains(it));
    !(yaml || quoted || joined || refused)
}

/// What stands after `- `, `* `, `• ` or `1. `.
pub(super) fn point(words: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "• ", "– "].iter().find_map(|bullet| words.strip_prefix(bullet));
    let numbered = || {
        let rest = words.trim_start_matches(|letter: char| letter.is_ascii_digit());
        (rest.len() < words.len()).then(|| rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))).flatten()
    };
    bullet.or_else(numbered).map(str::trim_start)
}

/// A task of a playbook as it is written. In a result the same keys are evidence.
fn playbook(words: &str) -> bool {
    let item = words.strip_prefix("- ").map(str::trim_start);
    let Some((key, _)) = item.unwrap_or(words).split_once(": ") else { return false };
    is_playbook_key(key) || (item.is_some() && key == "name")
}

/// Keys under which people write messages, conditions and commands.
pub(super) fn is_playbook_key(key: &str) -> bool {
    const KEYS: [&str; 19] = [
        "msg",
        "fail_msg",
        "success_msg",
        "when",
        "failed_when",
        "changed_when",
        "until",
        "that",
        "shell",
        "command",
        "cmd",
        "register",
        "regexp",
        "line",
        "description",
        "run",
        "search_string",
        "summary",
        "name",
    ];
    KEYS.contains(&key) || key.starts_with("ansible.builtin.")
}

/// What only a program prints, though it has no prefix: rows of kubectl, trees and fields of systemctl.
fn printed(words: &str) -> bool {
    const STARTS: [&str; 13] = [
        "Error from server",
        "panic: ",
        "goroutine ",
        "Warning  ",
        "Normal  ",
        "└─",
        "├─",
        "● ",
        "× ",
        "○ ",
        "Active: ",
        "ExecStart=",
        "bash: line ",
    ];
    let status = words.split_ascii_whitespace().nth(1).and_then(|status| status.split(',').next());
    let row = matches!(status, Some("Ready" | "NotReady")) && words.contains("  ");
    (row || STARTS.iter().any(|start| words.starts_with(start))) && !is_marked_or_source(words)
}

/// How a program begins the one line it dies with. In a document it may as well be an example.
fn begins_an_error(words: &str) -> bool {
    const STARTS: [&str; 6] = ["error: ", "Error: ", "E: ", "W: ", "fatal: ", "Failed to "];
    STARTS.iter().any(|start| words.starts_with(start)) && !is_marked_or_source(words)
}

/// Signs of a script, wherever they stand.
pub(super) fn is_marked(words: &str) -> bool {
    marked(words)
}

fn is_marked_or_source(words: &str) -> bool {
    marked(words) || source(words) || bold(words)
}

/// How far around a line Markdown is looked for: a few paragraphs.
const PARAGRAPHS: usize = 8 << 10;

/// Whether the line stands in a document: prose there is told, and so is an example in a block of code. A block in which any
/// line has the form of a log, or a prompt, is a quotation of one, and evidence.
pub(super) fn markdown_around(around: &Around) -> bool {
    let above = Nearby::of(near(around.above()));
    let below = Nearby::of(near(around.below()));
    let strong = above.strong + below.strong;
    if strong == 0 || strong + above.headings + below.headings < 2 {
        return false;
    }
    let quoted = || {
        near(around.above()).take_while(|line| fence(line).is_none()).any(is_session)
            || near(around.below()).take_while(|line| fence(line).is_none()).any(is_session)
    };
    !(above.opens_block() && quoted())
}

/// The lines that are not too far.
fn near<'a>(lines: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
    lines.scan(0, |size, line| {
        *size += line.len() + 1;
        (*size <= PARAGRAPHS).then_some(line)
    })
}

/// What was seen on one side of the line.
#[derive(Default)]
struct Nearby {
    /// Lines that are Markdown and nothing else: fences, bold.
    strong: usize,
    /// `## …`, which is also how scripts head what they print.
    headings: usize,
    /// The fences, the nearest first; true where it names a language, and therefore opens a block.
    fences: Vec<bool>,
}

impl Nearby {
    fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut nearby = Nearby::default();
        for line in lines {
            let words = line.trim_ascii();
            if let Some(named) = fence(line) {
                nearby.strong += 1;
                nearby.fences.push(named);
            } else if words.starts_with(b"## ") || words.starts_with(b"### ") || words.starts_with(b"#### ") {
                nearby.headings += 1;
            } else if indent(line) == Some(0) && words.contains(&b'*') && bold(&plain::text(words)) {
                nearby.strong += 1;
            }
        }
        nearby
    }

    /// Whether what is below the fences seen is inside a block. The nearest that names a language opened one; each after it
    /// closes or opens.
    fn opens_block(&self) -> bool {
        match self.fences.iter().position(|named| *named) {
            Some(since) => since % 2 == 0,
            None => self.fences.len() % 2 == 1,
        }
    }
}

/// A line that begins or ends a block of code; whether it names a language.
fn fence(line: &[u8]) -> Option<bool> {
    let words = line.trim_ascii();
    words.strip_prefix(b"```").or_else(|| words.strip_prefix(b"~~~")).map(|rest| !rest.is_empty())
}

fn is_session(line: &[u8]) -> bool {
    is_log(line) || prompted(plain::text(line).trim())
}

fn is_log(line: &[u8]) -> bool {
    // The year does not matter here.
    let text = plain::text(line);
    let head = Head::read(&text, jiff::Timestamp::UNIX_EPOCH);
    !matches!(head.shape, Shape::Bare | Shape::Stamped) || printed(text.trim())
}
