//! One line of a log, whatever wrote it: what it says, when, on which machine, and by which program.
//!
//! Only lines in which something was found are read here; all others are passed over as bytes. A line of a capture may hold
//! many of a log, escaped into one JSON string: each of them is given.
//!
//! * `plain`: colours and other signs for terminals off
//! * `when`: times, and what to make of those without a year or a zone
//! * `head`: journald short, syslog, dmesg, CRI, klog, logfmt, kubeadm
//! * `journald`: journald with all fields, as JSON or for export
//! * `ansible`, `fields`, `printed`: results, objects as JSON and YAML, tables for people
//! * `narrated`: what somebody tells instead of a program
//! * `around`, `json`: the lines around one, the strings of a JSON text

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use jiff::Timestamp;
use jiff::tz::Offset;

use around::Around;
use head::{Head, Shape};
use when::Stamp;

pub use when::HostTimeZones;

mod ansible;
mod around;
mod fields;
mod head;
mod journald;
mod json;
mod narrated;
pub(super) mod plain;
mod printed;
mod when;

#[cfg(test)]
mod tests;

/// What a line says, with colours and escapes taken off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub text: Cow<'a, str>,
    /// When it was written; as if in UTC where `zoned` is false: [`HostTimeZones::utc`] sets it right.
    pub at: Option<Timestamp>,
    /// The line states the zone of `at`.
    pub zoned: bool,
    /// What the machine's clock on the wall is ahead of UTC, where the line tells the time both ways.
    pub offset: Option<Offset>,
    /// The machine that wrote it, or the node it is of, where that can be seen.
    pub host: Option<Cow<'a, str>>,
    /// kubelet, containerd, kubeadm, systemd …
    pub program: Option<Cow<'a, str>>,
    /// The pod it is about, where the table it stands in says so.
    pub pod: Option<String>,
    /// Somebody tells about it (a script's own words, a conclusion, source code): no evidence.
    pub narrated: bool,
}

/// Lines given out of one line of text. Its strings are never longer than it, but it may be made of line ends only: 64 KiB of
/// `\n` would be 32,000 lines. A result of 4096 lines is a whole `journalctl -n 4096`.
const MOST_LINES: usize = 4096;

/// How often what was taken out of a string may itself be a container: Ansible's `stdout` that holds journald's JSON.
const NESTED: u8 = 2;

/// Reads the line at `place` of a text. One line of text may hold several of a log, escaped into one JSON string.
///
/// `now` gives a year to times that have none.
pub fn read(text: &[u8], place: Range<usize>, now: Timestamp) -> Vec<Line<'_>> {
    let around = Around::new(text, place);
    let mut reader = Reader { around, now, lines: Vec::new() };
    match plain::text(around.line) {
        // A progress bar writes over itself: every state of it is a line.
        line if line.contains(['\r', '\n']) => {
            for part in line.split(['\r', '\n']).filter(|part| !part.trim().is_empty()).take(MOST_LINES) {
                reader.line(part, owned);
            }
        }
        Cow::Borrowed(line) => reader.line(line, Cow::Borrowed),
        Cow::Owned(line) => reader.line(&line, owned),
    }
    reader.lines
}

/// What a program itself wrote: a line without what the journal or the container runtime put before it.
pub fn message(line: &str) -> &str {
    Head::read(line, Timestamp::UNIX_EPOCH).message
}

/// Whether a line says itself who wrote it, or when: it goes on with no other.
pub(super) fn has_head(line: &str) -> bool {
    // The year does not matter here.
    Head::read(line, Timestamp::UNIX_EPOCH).shape != Shape::Bare
}

/// How a part of a line gets into what is given out: as it is, where the line is the text's own.
type Own<'t, 'a> = fn(&'t str) -> Cow<'a, str>;

fn owned<'a>(part: &str) -> Cow<'a, str> {
    Cow::Owned(part.to_owned())
}

/// A text taken out of its container, and what the container says about it.
struct Piece<'a> {
    text: Cow<'a, str>,
    /// How it is shown where it is one line: with its key.
    shown: Option<String>,
    stamp: Option<Stamp>,
    /// The stamp is of this line, not of the object it describes.
    logged: bool,
    host: Option<String>,
    program: Option<String>,
    /// Its place says that it is no output of a program.
    told: bool,
}

impl<'a> Piece<'a> {
    fn of(text: Cow<'a, str>) -> Self {
        Piece { text, shown: None, stamp: None, logged: true, host: None, program: None, told: false }
    }

    fn named(text: Cow<'a, str>, host: Option<&str>) -> Self {
        Piece { host: host.map(str::to_owned), ..Piece::of(text) }
    }

    /// Another out of the same container.
    fn like<'b>(&self, host: Option<&str>) -> Piece<'b> {
        let Piece { stamp, logged, told, ref program, .. } = *self;
        Piece { stamp, logged, told, program: program.clone(), ..Piece::named(Cow::Borrowed(""), host) }
    }
}

struct Reader<'a> {
    around: Around<'a>,
    now: Timestamp,
    lines: Vec<Line<'a>>,
}

impl<'a> Reader<'a> {
    /// A line as it stands in the text.
    fn line<'t>(&mut self, line: &'t str, own: Own<'t, 'a>) {
        if let Some(entry) = journald::whole(line).or_else(|| journald::field(line, &self.around)) {
            return self.piece(&entry, NESTED);
        }
        if let Some(result) = ansible::result(line).filter(|result| json::opens(result.said)) {
            return self.result(&result, &Piece::of(Cow::Borrowed("")), NESTED);
        }
        if json::opens(line) || fields::is_json(line) {
            return self.object(line);
        }
        let head = Head::read(line, self.now);
        if json::opens(head.message) && head.shape != Shape::Bare {
            let program = head.program.map(str::to_owned);
            let outer = Piece { stamp: head.stamp, program, ..Piece::named(Cow::Borrowed(""), head.host) };
            return self.values(head.message, &outer, NESTED);
        }
        let bare = head.shape == Shape::Bare;
        match bare.then(|| fields::yaml(line, &self.around)).flatten() {
            Some(scalar) => self.scalar(scalar),
            None => self.plain(line, &head, own),
        }
    }

    /// A line without a container around it.
    fn plain<'t>(&mut self, line: &'t str, head: &Head<'t>, own: Own<'t, 'a>) {
        let mut outer = Piece::of(Cow::Borrowed(""));
        if head.shape == Shape::Bare {
            let about = printed::about(line, &self.around);
            outer = Piece { stamp: about.stamp, host: about.host, program: about.program, logged: false, ..outer };
        }
        if let Some(result) = ansible::result(line) {
            outer.host = Some(result.host.to_owned());
        } else if head.host.is_none() && outer.host.is_none() {
            outer.host = ansible::owner(&self.around);
        }
        let narrated = narrated::line(line, head, &self.around);
        let pod = (head.shape == Shape::Bare).then(|| printed::pod(line, &self.around)).flatten();
        self.push(Line { pod, narrated, ..describe(line, head, &outer, own) });
    }

    /// JSON on a line of its own: an object, or one field of it.
    fn object(&mut self, line: &str) {
        let host = ansible::owner(&self.around).or_else(|| fields::node(&self.around));
        let key = (!json::opens(line)).then(|| self.key_of_array(line)).flatten();
        let outer = Piece {
            stamp: fields::indent_of(line.as_bytes()).and_then(|indent| fields::stamp(&self.around, indent)),
            logged: false,
            host,
            told: key.is_some_and(|key| ansible::is_command(&key)),
            ..Piece::of(Cow::Borrowed(""))
        };
        self.values(line, &outer, NESTED);
    }

    /// The key of the array a line is an element of: the nearest line above that is indented less.
    fn key_of_array(&self, line: &str) -> Option<String> {
        let own = around::indent(line.as_bytes())?;
        let above = self.around.above().find(|above| around::indent(above).is_some_and(|outer| outer < own))?;
        let text = plain::text(above);
        let words = text.trim();
        words.ends_with('[').then(|| json::string(words).0.to_owned())
    }

    fn scalar(&mut self, scalar: fields::Scalar) {
        let told = fields::is_told(&scalar, &self.around) || ansible::is_command(&scalar.key);
        let host = ansible::owner(&self.around).or_else(|| fields::node(&self.around));
        let shown = (!ansible::is_output(&scalar.key)).then(|| format!("{}: {}", scalar.key, scalar.value));
        let stamp = fields::stamp(&self.around, scalar.indent);
        self.piece(&Piece { shown, stamp, logged: false, host, told, ..Piece::of(Cow::Owned(scalar.value)) }, NESTED);
    }

    /// Every value of a JSON text, as a piece of its own; a line of a structured log as one.
    fn values(&mut self, text: &str, outer: &Piece, nested: u8) {
        let report = text.contains("\"carrick.report/");
        if let Some(logged) = structured(text) {
            let stamp = outer.stamp.or(logged.stamp);
            let (host, program) = (outer.host.clone(), outer.program.clone());
            return self.piece(&Piece { stamp, host, program, told: outer.told, ..logged }, nested);
        }
        json::walk(text, &mut |path, value| {
            self.value(
                path,
                &value,
                &Piece { told: outer.told || report, ..outer.like(outer.host.as_deref()) },
                nested,
            );
            if self.lines.len() < MOST_LINES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }

    /// What Ansible says of a task in a line of its own, then what it has from the machine.
    fn result(&mut self, result: &ansible::Result, outer: &Piece, nested: u8) {
        let outer = outer.like(Some(result.host));
        let place = self.lines.len();
        let mut summary = ansible::Summary::new(result.outcome);
        json::walk(result.said, &mut |path, value| {
            if !summary.take(path, &value) {
                self.value(path, &value, &outer, nested);
            }
            if self.lines.len() < MOST_LINES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let text = plain::of_str(&summary.finish()).into_owned();
        let narrated = outer.told || narrated::is_marked(&text);
        let line = Line { narrated, ..describe(&text, &Head::read(&text, self.now), &outer, owned) };
        self.lines.insert(place, line);
        self.lines.truncate(MOST_LINES);
    }

    /// One value of a JSON text: with its key, where it is not what a program printed.
    fn value(&mut self, path: &[&str], value: &json::Value, outer: &Piece, nested: u8) {
        let command = value.key.is_some_and(ansible::is_command) || path.iter().any(|key| ansible::is_command(key));
        let shown = match value.key {
            Some(key) if !ansible::is_output(key) && !value.element => {
                let quote = if value.quoted { "\"" } else { "" };
                Some(format!("\"{key}\": {quote}{}{quote}", value.text.trim_end()))
            }
            _ => None,
        };
        // A number in an array is nothing a line could say.
        if value.quoted || shown.is_some() {
            let outer = outer.like(outer.host.as_deref());
            self.piece(
                &Piece { text: Cow::Borrowed(&value.text), shown, told: outer.told || command, ..outer },
                nested,
            );
        }
    }

    /// Text out of a string: each of its lines, and what they hold in turn.
    fn piece(&mut self, piece: &Piece<'_>, nested: u8) {
        let single = !piece.text.trim_end().contains(['\n', '\r']);
        for part in piece.text.split(['\n', '\r']).filter(|part| !part.trim().is_empty()) {
            if self.lines.len() >= MOST_LINES {
                return;
            }
            let line = plain::of_str(part);
            if nested > 0 && self.contained(&line, piece, nested - 1) {
                continue;
            }
            let head = Head::read(&line, self.now);
            let narrated = piece.told || narrated::piece(&head);
            let mut described = describe(&line, &head, piece, owned);
            if let Some(shown) = piece.shown.as_ref().filter(|_| single) {
                described.text = Cow::Owned(plain::of_str(shown.trim_end()).into_owned());
            }
            self.push(Line { narrated, ..described });
        }
    }

    /// Whether a line out of a string is a container itself; its lines are given then.
    fn contained(&mut self, line: &str, piece: &Piece, nested: u8) -> bool {
        if let Some(entry) = journald::whole(line) {
            let host = entry.host.clone().or_else(|| piece.host.clone());
            self.piece(&Piece { host, told: piece.told || entry.told, ..entry }, nested);
            return true;
        }
        if let Some(result) = ansible::result(line).filter(|result| json::opens(result.said)) {
            self.result(&result, piece, nested);
            return true;
        }
        let holds_others = json::opens(line) || (fields::is_json(line) && line.contains("\": "));
        if holds_others {
            self.values(line, &piece.like(piece.host.as_deref()), nested);
        }
        holds_others
    }

    fn push(&mut self, line: Line<'a>) {
        if self.lines.len() < MOST_LINES {
            self.lines.push(line);
        }
    }
}

/// A line of a log that is JSON: what zap, logrus and klog write, or the files of a container runtime. In klog's own form.
fn structured(text: &str) -> Option<Piece<'static>> {
    let mut said: Option<String> = None;
    let mut fields = String::new();
    let mut stamp = None;
    let mut is_log = false;
    let mut ended = None;
    json::walk(text, &mut |path, value| {
        match value.key {
            Some("msg" | "log") if path.is_empty() && said.is_none() => said = Some(value.text.into_owned()),
            Some("ts" | "time" | "timestamp") if path.is_empty() => {
                stamp = when::Cursor::new(&value.text).iso().or_else(|| milliseconds(&value.text));
                is_log = true;
            }
            Some("level" | "severity") if path.is_empty() => {
                ended = matches!(value.text.as_ref(), "fatal" | "panic").then_some(value.text);
                is_log = true;
            }
            Some("caller" | "v" | "stream" | "logger") if path.is_empty() => is_log = true,
            Some(key) => {
                let quote = if value.quoted { "\"" } else { "" };
                // As klog does: a field does not end the line.
                fields.extend([" ", key, "=", quote, &value.text.replace('\n', "\\n"), quote]);
            }
            None => {}
        }
        ControlFlow::Continue(())
    });
    let said = said.filter(|_| is_log && text.trim_start().starts_with('{'))?;
    // With which words a program ended is told by nothing but the level.
    let text = match ended {
        Some(level) => format!("level={level} msg=\"{}\"{fields}", said.trim_end().replace('"', "\\\"")),
        None => format!("{}{fields}", said.trim_end()),
    };
    Some(Piece { stamp, ..Piece::of(Cow::Owned(text)) })
}

/// klog's `ts` in JSON: milliseconds since 1970, with a fraction; zap's: seconds.
fn milliseconds(text: &str) -> Option<Stamp> {
    let (whole, _) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = whole.parse().ok()?;
    let at = if whole > 100_000_000_000 { Timestamp::from_millisecond(whole) } else { Timestamp::from_second(whole) };
    Some(Stamp { at: at.ok()?, zoned: true })
}

/// A line with all that its own head and its container say about it.
fn describe<'t, 'a>(text: &'t str, head: &Head<'t>, outer: &Piece, own: Own<'t, 'a>) -> Line<'a> {
    let (at, zoned, offset) = settle(head, outer);
    let host = head.host.map(own).or_else(|| outer.host.clone().map(Cow::Owned));
    let program = outer.program.clone().map(Cow::Owned).or_else(|| head.program.map(own));
    Line { text: own(text), at, zoned, offset, host, program, pod: None, narrated: false }
}

/// Which of the times a line has is the best: one that states its zone, the outermost first; else the outermost.
fn settle(head: &Head, outer: &Piece) -> (Option<Timestamp>, bool, Option<Offset>) {
    let logged = outer.stamp.filter(|_| outer.logged);
    let of_line = [logged, head.stamp, head.own_stamp];
    let zoned = of_line.iter().flatten().find(|stamp| stamp.zoned);
    let local = of_line.iter().flatten().find(|stamp| !stamp.zoned);
    let offset = zoned.zip(local).and_then(|(zoned, local)| when::offset_between(local.at, zoned.at));
    let best = zoned.or(local).copied().or(outer.stamp);
    (best.map(|stamp| stamp.at), best.is_some_and(|stamp| stamp.zoned), offset)
}
