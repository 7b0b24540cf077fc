//! How much of a source is kept: bounded memory, whatever comes.
//!
//! A [`Keeper`] takes bytes as they arrive, takes the secrets out, and keeps the beginning, or the beginning and the end.
//!
//! Shared: everything that reads a source.

use std::collections::VecDeque;

use super::Capture;
use crate::redact::{Redaction, Redactor};

/// Which part of too much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The first so many bytes.
    Head(usize),
    /// Of a log: how it began, and how it ended.
    Ends { head: usize, tail: usize },
}

/// Enough for any file or command Carrick reads but those below.
pub const USUAL: Keep = Keep::Head(1 << 20);

/// What `iptables-save` prints: about 200 bytes for a rule of kube-proxy's with its comment, so 40,000 rules.
pub const RULESET: Keep = Keep::Head(8 << 20);

/// The same rules as `nft -j` prints them: about 500 bytes each, and each chain besides.
pub const RULESET_JSON: Keep = Keep::Head(16 << 20);

/// The kernel's table of mounts: with 500 pods 3 to 4 MB, for the layers of every container's image stand in it.
pub const MOUNT_TABLE: Keep = Keep::Head(8 << 20);

/// Links and routes: `ip -j -d` takes 2 kB for a pod's end in a bridge, so 4,000 pods. JSON that is cut is no JSON.
pub const NETWORK_TABLE: Keep = Keep::Head(8 << 20);

/// What the container runtime lists, as JSON: no longer than the longest answer it may give, so nothing of one is cut off.
pub const RUNTIME_LIST: Keep = Keep::Head(16 << 20);

/// The longest that is kept of any source.
pub const LONGEST: Keep = RULESET_JSON;

/// How much of a file is kept.
pub fn of_file(path: &str) -> Keep {
    if path == super::mounts::MOUNTINFO { MOUNT_TABLE } else { USUAL }
}

/// A kubelet writes about 300 bytes a line: the first 400 lines hold its start, the last 5,000 the last hour of a crash loop.
pub const LOG: Keep = Keep::Ends { head: 128 << 10, tail: 1536 << 10 };

/// What is kept of a command's stderr: the message, not a flood of it.
pub const ERRORS: Keep = Keep::Head(4 << 10);

impl Keep {
    /// The most bytes that can be kept.
    pub fn limit(self) -> usize {
        match self {
            Keep::Head(head) => head,
            Keep::Ends { head, tail } => head + tail,
        }
    }
}

/// Takes a stream in, gives a [`Capture`] out. Its memory is bounded by the [`Keep`] and one redaction window.
pub struct Keeper {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    keep: Keep,
    dropped: u64,
    redactor: Redactor,
}

impl Keeper {
    pub fn new(keep: Keep) -> Self {
        Keeper { head: Vec::new(), tail: VecDeque::new(), keep, dropped: 0, redactor: Redactor::new() }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let clean = self.redactor.push(bytes);
        self.store(&clean);
    }

    /// True when nothing that still comes could be kept: a reader of an endless source may stop.
    pub fn is_full(&self) -> bool {
        matches!(self.keep, Keep::Head(head) if self.head.len() >= head)
    }

    pub fn finish(mut self) -> (Capture, Vec<Redaction>) {
        let (clean, redactions) = std::mem::take(&mut self.redactor).finish();
        self.store(&clean);
        (self.capture(), redactions)
    }

    /// Where the source was not read to its end. It may have been left in the middle of a secret, of which half would not
    /// be known for one: what the redactor still holds back is not kept.
    pub fn finish_cut(mut self) -> (Capture, Vec<Redaction>) {
        let redactions = std::mem::take(&mut self.redactor).finish_cut();
        (self.capture(), redactions)
    }

    fn capture(self) -> Capture {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        let (front, back) = self.tail.as_slices();
        let tail = [front, back].concat();
        // A tail that lost its beginning starts in the middle of a line: half a line is not evidence.
        let whole = if self.dropped > 0 && !tail.is_empty() {
            tail.iter().position(|&byte| byte == b'\n').map_or(&tail[..0], |at| &tail[at + 1..])
        } else {
            &tail[..]
        };
        if self.dropped > 0 && matches!(self.keep, Keep::Ends { .. }) {
            text.truncate(text.rfind('\n').map_or(0, |at| at + 1));
        }
        text.push_str(&String::from_utf8_lossy(whole));
        Capture { text, dropped: self.dropped, ..Capture::default() }
    }

    fn store(&mut self, clean: &[u8]) {
        let (Keep::Head(head) | Keep::Ends { head, .. }) = self.keep;
        let room = head.saturating_sub(self.head.len()).min(clean.len());
        let (first, rest) = clean.split_at(room);
        self.head.extend_from_slice(first);
        let Keep::Ends { tail, .. } = self.keep else {
            self.dropped += rest.len() as u64;
            return;
        };
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(tail);
        self.tail.drain(..over);
        self.dropped += over as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(keep: Keep, chunks: &[&str]) -> Capture {
        let mut keeper = Keeper::new(keep);
        for chunk in chunks {
            keeper.push(chunk.as_bytes());
        }
        keeper.finish().0
    }

    #[test]
    fn keeps_all_of_a_short_text() {
        let capture = keep(Keep::Head(100), &["one\n", "two"]);
        assert_eq!((capture.text.as_str(), capture.dropped), ("one\ntwo", 0));
    }

    #[test]
    fn keeps_the_beginning_and_counts_the_rest() {
        let capture = keep(Keep::Head(4), &["one\n", "two\n"]);
        assert_eq!((capture.text.as_str(), capture.dropped), ("one\n", 4));
    }

    #[test]
    fn keeps_both_ends_of_a_log_in_whole_lines() {
        let lines: Vec<String> = (0..1000).map(|n| format!("line {n:04}\n")).collect();
        let chunks: Vec<&str> = lines.iter().map(String::as_str).collect();
        let capture = keep(Keep::Ends { head: 25, tail: 25 }, &chunks);
        assert_eq!(capture.text, "line 0000\nline 0001\nline 0998\nline 0999\n");
        assert_eq!(capture.dropped, 10_000 - 50);
    }

    #[test]
    fn a_source_that_was_left_in_the_middle_of_a_line_gives_no_half_line() {
        let mut keeper = Keeper::new(USUAL);
        keeper.push(b"one\nkubeadm join --token abcdef.0123456");
        assert_eq!(keeper.finish_cut().0.text, "one\n");
    }

    #[test]
    fn bytes_that_are_not_text_do_not_stop_it() {
        let mut keeper = Keeper::new(USUAL);
        keeper.push(b"a\xff\xfeb\n");
        assert_eq!(keeper.finish().0.text, "a\u{fffd}\u{fffd}b\n");
    }
}
