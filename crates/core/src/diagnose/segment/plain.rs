//! A line as a person reads it: without colours and a terminal's other tricks; and which lines are a log's.

use crate::diagnose::line::plain::text;

/// Without colours, cursor movements and carriage returns.
pub(super) fn plain(line: &[u8]) -> String {
    let text = text(line);
    // A progress bar writes over itself: what came last is what was seen.
    text.rsplit('\r').next().unwrap_or(&text).to_owned()
}

/// A line of the journal, of klog, of logfmt or of the kernel: nothing a fact is made of.
pub(super) fn is_log(text: &str) -> bool {
    let text = text.trim_start();
    let shape: Vec<u8> = text.bytes().take(19).map(|byte| if byte.is_ascii_digit() { b'0' } else { byte }).collect();
    let klog = matches!(shape.as_slice(), [b'I' | b'W' | b'E' | b'F', rest @ ..] if rest.starts_with(b"0000 00:00:00"));
    let iso = shape.starts_with(b"0000-00-00T00:00");
    let syslog = matches!(shape.as_slice(), [a, b, c, b' ', _, b'0', b' ', rest @ ..]
        if [a, b, c].iter().all(|byte| byte.is_ascii_alphabetic()) && rest.starts_with(b"00:00:00"));
    let kernel = text.strip_prefix('[').and_then(|rest| rest.split(']').next()).is_some_and(is_seconds);
    klog || iso || syslog || kernel || text.starts_with("time=\"") || text.starts_with("{\"_")
}

/// `  12.345678`, as the kernel counts.
fn is_seconds(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.trim_start().split_once('.').is_some_and(|(seconds, rest)| digits(seconds) && digits(rest))
}

/// A mark that something was left out: what stands around it is not the whole.
pub(super) fn is_gap(text: &str) -> bool {
    let text = text.trim();
    let bare = text.trim_matches(['[', ']', '<', '>', '(', ')', '-', ' ']);
    let marked = text.len() < 120 && text.starts_with(['[', '<', '(', '-']);
    matches!(bare, "..." | "…" | "snip" | "truncated" | "cut")
        || (marked
            && ["left out", "lines omitted", "truncated", "lines skipped"].iter().any(|words| text.contains(words)))
}

/// What a pager or a script adds of its own.
pub(super) fn is_chatter(text: &str) -> bool {
    let text = text.trim();
    text.ends_with("(END)")
        || text.starts_with("--More--")
        || text == "Output:"
        || text == "Command failed or returned non-zero exit code"
}

/// How far a line is indented.
pub(super) fn indent(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_carriage_returns_go() {
        for (line, expected) in [
            ("\u{1b}[0;1;32m●\u{1b}[0m kubelet.service\r", "● kubelet.service"),
            ("10 %\r50 %\rdone\r\n", "done"),
            ("\u{1b}]0;root@w1: ~\u{7}root@w1:~# df -h", "root@w1:~# df -h"),
            ("\u{1b}]8;;file:///x\u{1b}\\/x\u{1b}]8;;\u{1b}\\", "/x"),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(plain(line.as_bytes()), expected);
        }
    }

    #[test]
    fn tells_logs_from_what_commands_print() {
        for log in [
            "Nov 15 18:44:33 w1 kubelet[812]: E1115 18:44:33.1 x.go:1] y",
            "Nov  5 18:44:33 w1 systemd[1]: Started kubelet.",
            "2026-11-15T18:44:33+0000 w1 kubelet[812]: x",
            "I1115 18:44:33.123456   812 server.go:1] x",
            "time=\"2026-11-15T18:44:33Z\" level=info msg=x",
            "{\"__CURSOR\":\"s=1\"}",
            "[   12.345678] EXT4-fs (vda): mounted",
        ] {
            assert!(is_log(log), "{log}");
        }
        for other in [
            "-rw-r--r-- 1 root root 292 Nov 15 18:44 10-flannel.conflist",
            "26 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw",
            "[plugins.\"io.containerd.grpc.v1.cri\"]",
            "[Service]",
            "{",
            "  \"cniVersion\": \"0.3.1\",",
        ] {
            assert!(!is_log(other), "{other}");
        }
    }

    #[test]
    fn sees_what_was_left_out() {
        for gap in ["...", "[...]", "<snip>", "[... 12 of 400 lines left out: the first 1 and the last 1 are here ...]"]
        {
            assert!(is_gap(gap), "{gap}");
        }
        assert!(!is_gap("--- /etc/hosts ---") && !is_gap("[metrics]") && !is_gap(""));
    }
}
