//! What is asked of a machine over SSH, and what came back. Pure: bytes in, observations out.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carrick_core::fact::keep::{ERRORS, Keep, USUAL, of_file};
use carrick_core::fact::{Source, Why, dir_key, file_key};
use tokio::time::Instant;

use super::quote;
use crate::command::{self, Intake};
use crate::listing;
use crate::probe::{MOST_FILES, Observation, Read, SLACK, TREE_FILE};

/// A listing of `MOST_ENTRIES` entries with the longest names there can be.
const LISTING: usize = 2 << 20;
/// What a job of ours writes at once is shorter; a longer line is noise.
const LONGEST_LINE: usize = 4096;
/// The most that is taken from one machine; the fullest real one sends 8 MiB.
const MOST: usize = 128 << 20;
/// What observe.sh sends of a command's stderr: more than is kept, so that the half line at its end need not be.
const MOST_ERRORS: usize = 8 << 10;
/// What `timeout -s KILL` ends with, and what a killed command ends with.
const KILLED: i32 = 137;

/// One thing to look at.
#[derive(Debug)]
pub(super) enum Ask {
    File(String),
    Dir(String),
    Tree(String),
    Query { key: String, argv: Vec<String>, keep: Keep },
}

impl Ask {
    pub(super) fn of(source: &Source) -> Option<Self> {
        Some(match source {
            Source::File(path) => Ask::File((*path).to_owned()),
            Source::Dir(path) => Ask::Dir((*path).to_owned()),
            Source::Tree(path) => Ask::Tree((*path).to_owned()),
            Source::Query(query) => {
                let argv = query.argv.iter().map(|&word| word.to_owned()).collect();
                Ask::Query { key: source.key(), argv, keep: query.keep }
            }
            Source::Cri(_) | Source::Api(_) => return None,
        })
    }

    /// A command that is no source of facts: its words may come from outside, and are quoted like any other.
    pub(super) fn command(argv: &[&str]) -> Self {
        Ask::Query { key: argv.join(" "), argv: argv.iter().map(|&word| word.to_owned()).collect(), keep: USUAL }
    }

    pub(super) fn key(&self) -> String {
        match self {
            Ask::File(path) => file_key(path),
            Ask::Dir(path) | Ask::Tree(path) => dir_key(path),
            Ask::Query { key, .. } => key.clone(),
        }
    }

    /// The line of the script that does it.
    pub(super) fn line(&self, id: usize) -> String {
        match self {
            Ask::File(path) => format!("f {id} {} {}", of_file(path).limit() + SLACK, quote(path)),
            Ask::Dir(path) => format!("d {id} {LISTING} {}", quote(path)),
            Ask::Tree(path) => {
                format!("t {id} {LISTING} {} {} {MOST_FILES}", quote(path), TREE_FILE.limit() + SLACK)
            }
            Ask::Query { argv, keep, .. } => {
                let (head, tail) = match *keep {
                    Keep::Head(head) => (head + SLACK, 0),
                    // One more than is kept: it tells whether anything is missing between the two.
                    Keep::Ends { head, tail } => (head, tail + 1),
                };
                let words: Vec<String> = argv.iter().map(|word| quote(word)).collect();
                format!("q {id} {head} {tail} {}", words.join(" "))
            }
        }
    }
}

/// What came back.
pub(super) struct Transcript {
    begin: String,
    lacks: String,
    end: String,
    time_box: Duration,
    begun: Option<Instant>,
    /// What the clock there showed at the beginning, in seconds since 1970.
    clock: Option<i64>,
    ended: bool,
    /// The last words before the beginning: where there is none, they say why.
    noise: String,
    /// Why a job that has no end has none.
    lost: Why,
    line: Vec<u8>,
    /// How much more is taken.
    room: usize,
    jobs: BTreeMap<String, Job>,
}

#[derive(Default)]
struct Job {
    /// Of a tree: the name of the file.
    name: String,
    out: Vec<u8>,
    errors: Vec<u8>,
    exit: Option<i32>,
    late: bool,
}

impl Transcript {
    pub(super) fn new(nonce: &str, time_box: Duration) -> Self {
        Transcript {
            begin: format!("carrick {nonce} begin "),
            lacks: format!("carrick {nonce} lacks "),
            end: format!("carrick {nonce} end"),
            time_box,
            begun: None,
            clock: None,
            ended: false,
            noise: String::new(),
            lost: Why::Broken("the connection ended before this was read".to_owned()),
            line: Vec::new(),
            room: MOST,
            jobs: BTreeMap::new(),
        }
    }

    pub(super) fn begun(&self) -> Option<Instant> {
        self.begun
    }

    pub(super) fn clock(&self) -> Option<i64> {
        self.clock
    }

    pub(super) fn noise(&self) -> &str {
        &self.noise
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Nothing more will come, for this reason.
    pub(super) fn lose(&mut self, why: Why) {
        if !self.ended {
            self.lost = why;
        }
    }

    pub(super) fn time_out(&mut self) {
        self.lost = Why::TimedOut;
    }

    /// Takes the next bytes; tells `done` of every job asked for that ended.
    pub(super) fn feed(&mut self, bytes: &[u8], now: Instant, done: &mut impl FnMut(usize)) {
        let mut lines = bytes.split(|&byte| byte == b'\n').peekable();
        while let Some(piece) = lines.next() {
            if self.line.len() <= LONGEST_LINE {
                self.line.extend_from_slice(piece);
            }
            if lines.peek().is_some() {
                let line = std::mem::take(&mut self.line);
                self.take(&line, now, done);
            }
        }
    }

    fn take(&mut self, line: &[u8], now: Instant, done: &mut impl FnMut(usize)) {
        let line = String::from_utf8_lossy(line);
        if self.begun.is_none() {
            if let Some(seconds) = line.strip_prefix(&self.begin) {
                self.begun = Some(now);
                self.clock = seconds.parse().ok();
            } else if !line.trim().is_empty() && line.len() <= LONGEST_LINE {
                self.noise = line.into_owned();
            }
        } else if line == self.end {
            self.ended = true;
        } else if let Some(tool) = line.strip_prefix(&self.lacks) {
            self.ended = true;
            self.lost = Why::Broken(format!("the machine has no `{tool}`, which looking over SSH needs"));
        } else if let Some((mark, (id, rest))) =
            line.split_once(' ').and_then(|(mark, rest)| Some((mark, rest.split_once(' ')?)))
        {
            self.frame(mark, id, rest, now, done);
        }
    }

    fn frame(&mut self, mark: &str, id: &str, rest: &str, now: Instant, done: &mut impl FnMut(usize)) {
        // Counted from when its beginning was heard of, which may have been a while on its way.
        let late = self.begun.is_some_and(|begun| now.duration_since(begun) >= self.time_box * 3 / 4);
        // A machine that sends without end is not listened to for ever.
        let Some(room) = self.room.checked_sub(id.len() + rest.len()) else { return };
        self.room = room;
        let job = self.jobs.entry(id.to_owned()).or_default();
        match mark {
            "D" => job.out.extend(STANDARD.decode(rest).unwrap_or_default()),
            "E" => job.errors.extend(STANDARD.decode(rest).unwrap_or_default()),
            "F" => rest.clone_into(&mut job.name),
            "X" => {
                job.exit = rest.parse().ok();
                job.late = late;
                if let Ok(at) = id.parse() {
                    done(at);
                }
            }
            _ => {}
        }
    }

    /// What was seen of one thing asked for.
    pub(super) fn answer(&self, id: usize, ask: &Ask) -> Vec<Observation> {
        let id = id.to_string();
        let job = self.jobs.get(&id);
        match ask {
            Ask::File(path) => vec![Observation::new(ask.key(), self.file(job, of_file(path)))],
            Ask::Dir(_) => vec![Observation::new(ask.key(), self.dir(job))],
            Ask::Query { keep, .. } => vec![Observation::new(ask.key(), self.query(job, *keep))],
            Ask::Tree(path) => {
                let mut seen = vec![Observation::new(ask.key(), self.dir(job))];
                let files = (1..=MOST_FILES).map_while(|number| self.jobs.get(&format!("{id}.{number}")));
                seen.extend(files.map(|job| {
                    Observation::new(file_key(&format!("{path}/{}", job.name)), self.file(Some(job), TREE_FILE))
                }));
                seen
            }
        }
    }

    fn file(&self, job: Option<&Job>, keep: Keep) -> Read {
        let (job, exit) = self.end_of(job)?;
        if exit == 0 { Ok(command::keep_of(&job.out, keep, keep.limit() + SLACK)) } else { Err(job.why()) }
    }

    fn dir(&self, job: Option<&Job>) -> Read {
        let (job, exit) = self.end_of(job)?;
        if exit == 0 { Ok(listing::capture(listing::entries(&job.out))) } else { Err(job.why()) }
    }

    fn query(&self, job: Option<&Job>, keep: Keep) -> Read {
        let (job, exit) = self.end_of(job)?;
        if exit == KILLED && job.late {
            return Err(Why::TimedOut);
        }
        let (mut out, mut errors) = (Intake::new(keep), Intake::new(ERRORS));
        errors.push(command::whole_lines(&job.errors, MOST_ERRORS));
        let Some((first, last)) = around_gap(&job.out, keep) else {
            let most = if matches!(keep, Keep::Head(_)) { keep.limit() + SLACK } else { usize::MAX };
            out.push(command::whole_lines(&job.out, most));
            return command::finished(out, errors, exit);
        };
        out.push(first);
        out.push(last);
        let (mut capture, redactions) = command::finished(out, errors, exit)?;
        // How much is missing was not counted; that something is must be told.
        capture.dropped += (job.out.len() - first.len() - last.len()) as u64;
        Ok((capture, redactions))
    }

    fn end_of<'a>(&self, job: Option<&'a Job>) -> Result<(&'a Job, i32), Why> {
        let ended = job.and_then(|job| job.exit.map(|exit| (job, exit)));
        ended.ok_or_else(|| self.lost.clone())
    }
}

impl Job {
    fn why(&self) -> Why {
        let said = String::from_utf8_lossy(&self.errors);
        command::why(said.lines().next().unwrap_or_default())
    }
}

/// The two ends of a log whose middle stayed on the machine, in whole lines: half a line is no evidence, and half a secret
/// is not known for one.
fn around_gap(text: &[u8], keep: Keep) -> Option<(&[u8], &[u8])> {
    let Keep::Ends { head, tail } = keep else { return None };
    if text.len() <= head + tail {
        return None;
    }
    let (first, last) = text.split_at(head);
    let first = first.get(..first.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1))?;
    let last = last.get(last.iter().position(|&byte| byte == b'\n').map_or(last.len(), |at| at + 1)..)?;
    let last = last.get(end_of_half_key(last)..)?;
    Some((first, last.get(end_of_base64(last)..)?))
}

/// Where lines of nothing but base64 end that the text begins with: more of what was wrapped, and may have been a secret.
fn end_of_base64(text: &[u8]) -> usize {
    const SHORTEST: usize = 40;
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let is_base64 = |line: &&[u8]| line.trim_ascii().len() >= SHORTEST && line.trim_ascii().iter().all(is_letter);
    text.split_inclusive(|&byte| byte == b'\n').take_while(is_base64).map(<[u8]>::len).sum()
}

/// Where a private key ends that began before the text.
fn end_of_half_key(text: &[u8]) -> usize {
    const MARK: &[u8] = b"PRIVATE KEY-----";
    let Some(at) = text.windows(MARK.len()).position(|window| window == MARK) else { return 0 };
    let before = text.get(..at).unwrap_or_default();
    let dashes = before.iter().rposition(|&byte| byte == b'-').map_or(0, |at| at + 1);
    let begins = before.get(dashes..).is_some_and(|word| word.starts_with(b"BEGIN"));
    if begins { 0 } else { at + MARK.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carrick_core::fact::Query;

    const BOX: Duration = Duration::from_secs(5);

    fn told(lines: &str, at: Duration) -> Transcript {
        let mut transcript = Transcript::new("n0", BOX);
        let begin = Instant::now();
        transcript.feed(b"Welcome!\nX 0 0\ncarrick n0 begin 1794744000\n", begin, &mut |_| {});
        transcript.feed(lines.as_bytes(), begin + at, &mut |_| {});
        transcript
    }

    fn line(mark: &str, id: &str, text: impl AsRef<[u8]>) -> String {
        format!("{mark} {id} {}\n", STANDARD.encode(text))
    }

    fn file() -> Ask {
        Ask::File("/etc/x".into())
    }

    fn capture(transcript: &Transcript, ask: &Ask) -> Result<String, Why> {
        transcript.answer(0, ask).remove(0).capture.map(|capture| capture.text)
    }

    #[test]
    fn noise_of_the_login_is_no_answer() {
        let transcript = told("", Duration::ZERO);
        assert_eq!(capture(&transcript, &file()), Err(Why::Broken("the connection ended before this was read".into())));
    }

    #[test]
    fn pieces_are_put_together_whatever_the_chunks() {
        let lines =
            line("D", "0", "one\n") + &line("D", "1", "other") + &line("D", "0", "two\n") + "X 0 0\ncarrick n0 end\n";
        let mut transcript = told("", Duration::ZERO);
        let mut ended = Vec::new();
        for byte in lines.as_bytes().chunks(1) {
            transcript.feed(byte, Instant::now(), &mut |at| ended.push(at));
        }
        assert_eq!(capture(&transcript, &file()), Ok("one\ntwo\n".into()));
        assert_eq!((transcript.has_ended(), ended), (true, vec![0]));
    }

    #[test]
    fn a_job_without_an_end_is_lost_for_the_reason_the_rest_was() {
        let mut transcript = told(&line("D", "0", "half of it"), Duration::ZERO);
        transcript.time_out();
        assert_eq!(capture(&transcript, &file()), Err(Why::TimedOut));
    }

    #[test]
    fn a_machine_without_the_tools_says_which() {
        let transcript = told("carrick n0 lacks base64 -w\n", Duration::ZERO);
        let why = Why::Broken("the machine has no `base64 -w`, which looking over SSH needs".into());
        assert_eq!(capture(&transcript, &file()), Err(why));
    }

    #[test]
    fn killed_at_the_end_of_the_box_is_timed_out_and_before_it_is_an_exit() {
        const QUERY: Query = Query { name: "q", argv: &["q"], keep: USUAL };
        let ask = Ask::of(&Source::Query(&QUERY)).unwrap();
        assert_eq!(capture(&told("X 0 137\n", BOX), &ask), Err(Why::TimedOut));
        let early = told("X 0 137\n", Duration::from_secs(1));
        assert_eq!(early.answer(0, &ask)[0].capture.as_ref().map(|capture| capture.exit), Ok(Some(137)));
    }

    #[test]
    fn a_tree_gives_its_listing_and_its_files() {
        let lines = line("D", "0", b"-rw-r--r-- 0 0 3 1.5 a b\t\0")
            + "X 0 0\nF 0.1 a b\n"
            + &line("D", "0.1", "abc")
            + "X 0.1 0\n";
        let seen = told(&lines, Duration::ZERO).answer(0, &Ask::Tree("/d".into()));
        let keys: Vec<&str> = seen.iter().map(|observation| observation.key.as_str()).collect();
        assert_eq!(keys, ["dir /d", "file /d/a b"]);
        assert_eq!(seen[1].capture.as_ref().map(|capture| capture.text.as_str()), Ok("abc"));
    }

    #[test]
    fn a_machine_that_sends_without_end_is_not_listened_to_for_ever() {
        let mut transcript = told("", Duration::ZERO);
        transcript.room = 1000;
        for _ in 0..100 {
            transcript.feed(line("D", "0", [b'x'; 90]).as_bytes(), Instant::now(), &mut |_| {});
        }
        assert!(transcript.jobs["0"].out.len() <= 1000);
    }

    #[test]
    fn the_ends_of_a_log_are_whole_lines_and_hold_no_half_key() {
        let keep = Keep::Ends { head: 12, tail: 60 };
        assert_eq!(around_gap(b"short\n", keep), None);
        let log = b"first line\nsecond|cut\nthird\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----\nlast line of all of it\n";
        assert_eq!(around_gap(log, keep), Some((&b"first line\n"[..], &b"\nlast line of all of it\n"[..])));
        assert_eq!(end_of_half_key(b"x\n-----BEGIN RSA PRIVATE KEY-----\n"), 0);
        assert_eq!(end_of_half_key(b"no key\n"), 0);
        let wrapped = format!("  {}\n  {}\nnext\n", "c2VjcmV0".repeat(9), "c2VjcmV0".repeat(6));
        assert_eq!(&wrapped[end_of_base64(wrapped.as_bytes())..], "next\n");
    }

    #[test]
    fn a_log_with_a_gap_says_so() {
        const LOG: Query = Query { name: "log", argv: &["log"], keep: Keep::Ends { head: 10, tail: 10 } };
        let ask = Ask::of(&Source::Query(&LOG)).unwrap();
        assert_eq!(ask.line(3), "q 3 10 11 'log'");
        let transcript = told(&(line("D", "0", "one\ntwo\nthree\nfour\nfive\n") + "X 0 0\n"), Duration::ZERO);
        let seen = transcript.answer(0, &ask).remove(0).capture.unwrap();
        assert_eq!(seen.text, "one\ntwo\nfour\nfive\n");
        assert!(seen.dropped > 0);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_transcript(bytes: Vec<u8>) {
            let mut transcript = told("", Duration::ZERO);
            transcript.feed(&bytes, Instant::now(), &mut |_| {});
            transcript.answer(0, &file());
        }
    }
}
