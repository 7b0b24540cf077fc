//! The words of a line without what only a terminal needs: colours, window titles, carriage returns; and what is no UTF-8
//! made readable.

use std::borrow::Cow;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

/// How others write the escape character where they do not let it through: rsyslog, `cat -v`, Go's `%q`.
const WRITTEN_OUT: [&str; 3] = ["#033", "^[", "\\x1b"];

/// A line as text. Borrowed where there was nothing to take off.
pub(in crate::diagnose) fn text(raw: &[u8]) -> Cow<'_, str> {
    let raw = trim_end(raw);
    if memchr::memchr(ESCAPE, raw).is_none() {
        return match String::from_utf8_lossy(raw) {
            Cow::Borrowed(text) => without_written_out(text).map_or(Cow::Borrowed(text), Cow::Owned),
            Cow::Owned(text) => Cow::Owned(without_written_out(&text).unwrap_or(text)),
        };
    }
    let mut left = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        let (before, sequence) = rest.split_at(at);
        left.extend_from_slice(before);
        rest = sequence.get(length_of(sequence)..).unwrap_or_default();
    }
    left.extend_from_slice(rest);
    Cow::Owned(String::from_utf8_lossy(trim_end(&left)).into_owned())
}

/// The same of text that came out of a JSON string.
pub(super) fn of_str(text: &str) -> Cow<'_, str> {
    self::text(text.as_bytes())
}

/// Without the end of the line. A prompt ends with a space, and keeps it.
fn trim_end(raw: &[u8]) -> &[u8] {
    let end = raw.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    raw.get(..end).unwrap_or(raw)
}

/// How many bytes an escape sequence has, its escape included. One without an end is the escape alone: the rest is text.
fn length_of(sequence: &[u8]) -> usize {
    let after = sequence.get(2..).unwrap_or_default();
    match sequence.get(1) {
        // Parameters and intermediates, then one final byte.
        Some(b'[') => after.iter().position(|byte| !matches!(byte, 0x20..=0x3f)).map_or(sequence.len(), |at| at + 3),
        // A title or a link: ends with a bell, or with ESC \.
        Some(b']') => {
            let end = after.iter().position(|&byte| byte == BELL || byte == ESCAPE);
            end.map_or(1, |at| if after.get(at) == Some(&BELL) { at + 3 } else { at + 4 })
        }
        // Which letters to use: ESC ( B.
        Some(0x20..=0x2f) => 3,
        Some(0x30..=0x7e) => 2,
        _ => 1,
    }
}

/// Colours whose escape character somebody has written out; `None` where there are none.
fn without_written_out(text: &str) -> Option<String> {
    let mut left = String::new();
    let mut done = 0;
    for (bracket, _) in text.match_indices('[') {
        let before = text.get(done..bracket).unwrap_or_default();
        let Some(kept) = WRITTEN_OUT.iter().find_map(|escape| before.strip_suffix(escape)) else { continue };
        let parameters = text.get(bracket + 1..).unwrap_or_default();
        let end = parameters.find(|letter: char| !letter.is_ascii_digit() && letter != ';').unwrap_or(parameters.len());
        if parameters.get(end..).is_some_and(|rest| rest.starts_with(['m', 'K'])) {
            left.push_str(kept);
            done = bracket + 1 + end + 1;
        }
    }
    if done == 0 {
        return None;
    }
    left.push_str(text.get(done..).unwrap_or_default());
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_off_what_only_a_terminal_needs() {
        let table: [(&[u8], &str); 14] = [
            (b"plain", "plain"),
            (b"with CRLF\r", "with CRLF"),
            (b"\x1b[0;31mred\x1b[0m and \x1b[1mbold\x1b[22m", "red and bold"),
            (b"\x1b[38;2;255;0;0mtrue\x1b[m colour", "true colour"),
            (b"\x1b]0;root@w1: ~\x07root@w1:~# ls", "root@w1:~# ls"),
            (b"\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\ end", "link end"),
            (b"\x1b(B\x1b[mreset", "reset"),
            (b"\x1b[?25lhidden\x1b[K\r", "hidden"),
            (b"not UTF-8 \xff here", "not UTF-8 \u{fffd} here"),
            (b"cut \x1b[0;3", "cut "),
            (b"title without end \x1b]0;root", "title without end ]0;root"),
            (b"rsyslog #033[31mred#033[0m", "rsyslog red"),
            (b"cat -v ^[[31mred^[[0m, and ^[[ alone", "cat -v red, and ^[[ alone"),
            (br"go \x1b[31mred\x1b[0m", "go red"),
        ];
        for (raw, expected) in table {
            assert_eq!(text(raw), expected);
        }
    }

    #[test]
    fn what_is_clean_is_not_copied() {
        assert!(matches!(text(b"E1115 20:39:50.1 1 a.go:1] \xe2\x94\x94\r"), Cow::Borrowed(_)));
    }
}
