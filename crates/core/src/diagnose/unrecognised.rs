//! What a text calls an error and no signature knows: shown as it is, so that nobody takes our silence for health.
//!
//! A line counts by its form, as programs write errors; words like "failed" in a sentence do not. Lines that differ in numbers
//! only are one.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::line::Line;
use super::scan::quote_end;
use crate::check::Evidence;
use crate::redact::redact;
use crate::report::UnrecognisedError;
use crate::shown;

/// What is looked at of a text: more than anybody pastes. What is larger is a journal, of which signatures know the most.
const LOOKED_AT: u64 = 4 << 20;
/// Told apart; what comes then is only the last of all.
const MOST_SHAPES: usize = 256;
/// Shown.
const MOST: usize = 6;

/// The forms in which programs write errors: klog, logrus and zap, kubeadm, Go's command lines, CRI and gRPC, systemd, Python.
#[expect(clippy::expect_used, reason = "a constant; the tests compile it")]
static FORMS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?x)
        (?:^|[\s\]:])[EF]\d{4}\ \d\d:\d\d:\d\d\.\d+\s
        |\blevel=(?:error|fatal|panic)\b
        |"level":"(?:error|fatal|panic)"
        |^\s*(?:\S+\[\d+\]:\s)?(?:(?:error|Error|ERROR|fatal|FATAL|Fatal|panic|E)(?::|\s\[)\s?|(?:FATA|ERRO)\[\d+\]\s)\S
        |^\s*\[ERROR\ [A-Za-z0-9-]+\]:
        |^\s*Error\ from\ server\b
        |\berror\ execution\ phase\ [a-z-]+
        |"command\ failed"\ err=
        |\brpc\ error:\ code\ =\s
        |\bprocess\ exited,\ code=(?:exited,\ status=[1-9]\d*|killed|dumped)\b
        |^\s*Warning\s+[A-Z][A-Za-z]+\s+\S.*\S
        |^\s*(?:\S+\[\d+\]:\s)?(?:Failed|failed|Unable|unable|Cannot|cannot)\s(?:to\s)?\w+
        "#,
    )
    .expect("it compiles")
});

/// A cheap look at the bytes: one of these stands in every form.
const MARKS: [&[u8]; 9] = [b"rror", b"RROR", b"ERRO[", b"atal", b"FATA", b"ailed", b"panic", b"Warning", b"nable to"];

#[derive(Debug, Default)]
pub(super) struct Unrecognised {
    shapes: HashMap<String, Shape>,
    last: Option<Shape>,
}

#[derive(Clone, Debug)]
struct Shape {
    count: u64,
    source: String,
    line: u64,
    text: String,
}

impl Unrecognised {
    /// Whether a piece of text that begins at this offset is still looked at.
    pub(super) fn looks_at(offset: u64) -> bool {
        offset < LOOKED_AT
    }

    /// Whether a line may be an error, by its bytes.
    pub(super) fn may_be_one(line: &[u8]) -> bool {
        let klog =
            |at: usize| matches!(line.get(at), Some(b'E' | b'F')) && line.get(at + 1).is_some_and(u8::is_ascii_digit);
        MARKS.iter().any(|mark| memchr::memmem::find(line, mark).is_some())
            || klog(0)
            || memchr::memchr_iter(b' ', line).any(|at| klog(at + 1))
            || memchr::memmem::find(line, b"code=").is_some()
            || memchr::memmem::find(line, b"annot").is_some()
    }

    /// Whether a line has the form of an error.
    pub(super) fn is_error(text: &str) -> bool {
        FORMS.is_match(text.trim())
    }

    /// A line in which no signature saw anything; whether it is an error.
    pub(super) fn push(&mut self, source: &str, number: u64, line: &Line) -> bool {
        let text = line.text.trim();
        if line.narrated || !FORMS.is_match(text) {
            return false;
        }
        let key = shape(text);
        let known = self.shapes.get(&key).map_or(0, |shape| shape.count);
        let seen = Shape { count: known + 1, source: source.to_owned(), line: number, text: text.to_owned() };
        if known > 0 || self.shapes.len() < MOST_SHAPES {
            self.shapes.insert(key, seen.clone());
        }
        self.last = Some(seen);
        true
    }

    /// The last one, then the most frequent; of those seen equally often the later.
    pub(super) fn finish(self) -> Vec<UnrecognisedError> {
        let Some(last) = self.last else { return Vec::new() };
        let mut others: Vec<Shape> =
            self.shapes.into_values().filter(|it| (&it.source, it.line) != (&last.source, last.line)).collect();
        others.sort_by(|a, b| b.count.cmp(&a.count).then(b.line.cmp(&a.line)).then_with(|| a.source.cmp(&b.source)));
        let shown = |Shape { count, source, line, text }: Shape| {
            let text = shown::in_line(&quote_end(&redact(&text)));
            UnrecognisedError { count, evidence: Evidence::at(source, u32::try_from(line).unwrap_or(u32::MAX), text) }
        };
        [last].into_iter().chain(others).take(MOST).map(shown).collect()
    }
}

/// The line without what differs from one time to the next.
fn shape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        if !(c == '#' && out.ends_with('#')) {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::line;
    use crate::testing::NOW;

    fn seen(text: &str) -> Vec<(u64, String)> {
        let mut unrecognised = Unrecognised::default();
        let mut start = 0;
        for (number, part) in (1..).zip(text.split('\n')) {
            let place = start..start + part.len();
            start = place.end + 1;
            if Unrecognised::may_be_one(part.as_bytes()) {
                for line in line::read(text.as_bytes(), place, NOW) {
                    unrecognised.push("paste", number, &line);
                }
            }
        }
        unrecognised.finish().into_iter().map(|it| (it.count, it.evidence.text)).collect()
    }

    #[test]
    fn an_error_is_known_by_its_form() {
        for line in [
            r#"E1118 10:00:00.000001    1234 foo.go:12] "It broke" err="frobnication"#,
            r#"Nov 18 10:00:00 w9 kubelet[12]: E1118 10:00:00.000001      12 foo.go:12] "It broke""#,
            r#"time="2026-11-18T10:00:00Z" level=fatal msg="no frob""#,
            "error: frobnicator is not set",
            "Error: unknown thing",
            "panic: assignment to entry in nil map",
            "FATA[0000] no frob",
            "        [ERROR Frob]: no frob",
            "error execution phase frob: it broke",
            "w9 systemd[1]: frob.service: Main process exited, code=exited, status=1/FAILURE",
            "  Warning  FrobFailed  2m  kubelet  it broke",
            "failed to frob the thing",
            "desc of it: rpc error: code = Unknown desc = no frob",
        ] {
            assert_eq!(seen(line), [(1, line.trim().to_owned())], "{line}");
        }
        for line in [
            "I1118 10:00:00.000001    1234 foo.go:12] no error",
            "everything failed yesterday",
            "# Failed units are listed below",
            "Loaded: loaded (/lib/systemd/system/frob.service; enabled)",
            "w9 systemd[1]: frob.service: Main process exited, code=exited, status=0/SUCCESS",
        ] {
            assert_eq!(seen(line), [], "{line}");
        }
    }

    #[test]
    fn the_last_is_first_and_then_the_most_frequent() {
        let often: String = (0..5).map(|n| format!("error: often {n}\n")).collect();
        let text = format!("error: once\n{often}error: the last\n");
        let shown = seen(&text);
        assert_eq!(shown[0], (1, "error: the last".to_owned()));
        assert_eq!(shown[1], (5, "error: often 4".to_owned()));
        assert_eq!(shown[2], (1, "error: once".to_owned()));
        let many: String = ('a'..='z').flat_map(|a| ('a'..='z').map(move |b| format!("error: {a}{b}\n"))).collect();
        assert_eq!(seen(&many).len(), MOST);
    }
}
