//! A paste cut into facts, so that the checks judge pasted text as they judge a machine.
//!
//! A person, or a script, prints one command after another: `systemctl status kubelet`, `cat /etc/containerd/config.toml`,
//! `df -h` … Sections begin at a prompt, at a banner, or by their own look, and end where the next begins or the look no
//! longer fits. Each becomes the capture of the source that Carrick itself would have asked; where that has another form,
//! it is put into that form, with what the paste says and nothing else. What was filtered or cut short is left out: what
//! it does not show would look like what is not there.
//!
//! * [`plain`]: a line without colours; which lines are a log's
//! * [`heading`], [`command`]: what a prompt or banner says that follows; [`named`]: what a file's name says
//! * [`shape`]: output that says itself what it is
//! * [`refusal`], [`absent`]: what is not there
//! * [`section`]: one section, and who reads it; then one file per kind

mod absent;
mod command;
mod cri;
mod file;
mod heading;
mod listing;
mod machine;
mod mounts;
mod named;
mod net;
mod plain;
mod process;
mod refusal;
mod section;
mod shape;
mod space;
mod unit;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::refusal::Refusal;
use self::section::{Body, Harvest, Section};
use crate::fact::mounts::{MOUNTINFO, parse};
use crate::fact::unit::KUBELET;
use crate::fact::{Capture, Source, Why, file_key, unit_status, version};

/// After so much input a segmenter stops looking: a paste has 100 kB, a large one 1 MB; what is larger is a journal, with
/// no facts in it.
const MOST_INPUT: u64 = 2 << 20;

/// A longer line is no line of a command: the longest, `ip -j` and `nft -j` on a busy node, print about 600 kB.
const LONGEST_LINE: usize = 1 << 20;

/// More facts than there are sources, several times over: a paste of many machines, or nonsense.
const MOST_SEGMENTS: usize = 1000;

/// A fact that a paste holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// As `Facts` keeps it: [`Source::key`].
    pub key: String,
    pub capture: Result<Capture, Why>,
    /// The line of the paste that it begins at, or that says it.
    pub first_line: u64,
    /// Line n of the capture is line `first_line + n - 1` of the paste.
    pub verbatim: bool,
    /// The machine, where the prompt or banner above names it.
    pub host: Option<String>,
}

/// A path that is not there, by the word of `ls` or `cat`.
struct Gone {
    path: String,
    line: u64,
    host: Option<String>,
}

/// Whether something begins with this line: a prompt, a banner, the output of a command.
pub(super) fn begins(text: &str) -> bool {
    heading::is_rule(text)
        || heading::read(text, false).is_some()
        || shape::begins(text).is_some()
        || refusal::read(text).is_some()
}

/// Takes the lines of a paste, gives the facts in it.
#[derive(Default)]
pub struct Segmenter {
    /// Bytes looked at.
    read: u64,
    open: Option<Section>,
    /// The machine of the last prompt.
    host: Option<String>,
    /// The last line was a rule: a title may follow.
    after_rule: bool,
    /// Within a list of quoted lines, as Ansible prints `stdout_lines`.
    quoted: bool,
    found: Harvest,
    gone: Vec<Gone>,
}

impl Segmenter {
    pub fn new() -> Self {
        Self::default()
    }

    /// Of a text whose name may say what it is: `hosts`, `containerd-config.toml`, `etc/resolv.conf`.
    pub fn named(source: &str) -> Self {
        let heading = named::heading(source);
        let open = heading.and_then(|heading| Section::headed(heading, 1, 0));
        Segmenter { open, ..Self::default() }
    }

    /// Takes the next line: its number in the paste, and its bytes. Lines that were unescaped out of one share its number.
    pub fn push(&mut self, number: u64, line: &[u8]) {
        if self.is_full() {
            return;
        }
        self.read = self.read.saturating_add(line.len() as u64 + 1);
        if self.read >= MOST_INPUT || line.len() > LONGEST_LINE {
            self.open.iter_mut().for_each(Section::lose);
            return;
        }
        let text = plain::plain(line);
        if let Some(text) = self.unquoted(text) {
            self.take(number, &text);
        }
    }

    /// It looks at nothing more.
    pub fn is_full(&self) -> bool {
        self.read >= MOST_INPUT
    }

    /// The facts, each once for each machine; where a paste tells one twice, what it told last.
    pub fn finish(mut self) -> Vec<Segment> {
        self.close();
        let Harvest { segments, listed, nameless, spaces } = self.found;
        let mut all = absent::derive(&listed, &self.gone);
        let mounts = |host: Option<&str>| {
            let is_it = |it: &&Segment| it.key == file_key(MOUNTINFO) && it.host.as_deref() == host;
            segments.iter().rfind(is_it).and_then(|it| it.capture.as_ref().ok()).map(|it| parse(&it.text))
        };
        all.extend(space::joined(&spaces, mounts));
        all.extend(segments);
        all.extend(nameless.into_iter().flat_map(|it| it.named(&listed)));
        let mut kept: BTreeMap<(Option<String>, String), Segment> = BTreeMap::new();
        for segment in all {
            let place = (segment.host.clone(), segment.key.clone());
            // Who may not look, or has not the tool, says nothing about what was seen before.
            let says_less = matches!(segment.capture, Err(Why::Denied | Why::NoTool));
            if !(says_less && kept.contains_key(&place)) {
                kept.insert(place, segment);
            }
        }
        let mut kept: Vec<Segment> = kept.into_values().collect();
        kept.sort_by(|a, b| (a.first_line, &a.key).cmp(&(b.first_line, &b.key)));
        kept.truncate(MOST_SEGMENTS);
        kept
    }

    /// A line of a quoted list without its quotes; `None` for the brackets around it.
    fn unquoted(&mut self, text: String) -> Option<String> {
        let line = text.trim();
        if line.ends_with("\"stdout_lines\": [") || line == "stdout_lines: [" {
            self.close();
            self.quoted = true;
            return None;
        }
        if !self.quoted {
            return Some(text);
        }
        let inner = serde_json::from_str::<String>(line.trim_end_matches(',')).ok();
        if inner.is_none() {
            self.quoted = false;
            self.close();
        }
        inner
    }

    fn take(&mut self, number: u64, text: &str) {
        let after_rule = std::mem::replace(&mut self.after_rule, heading::is_rule(text));
        if plain::is_log(text) {
            if !self.open.as_ref().is_some_and(Section::takes_logs) {
                self.close();
                return;
            }
        } else if let Some(refusal) = refusal::read(text) {
            self.refuse(&refusal, number);
            return;
        } else if text.trim_start().starts_with("```") {
            self.close();
            return;
        } else if self.heading(number, text, after_rule) {
            return;
        }
        if self.open.as_ref().is_some_and(|open| !open.fits(text)) {
            self.close();
        }
        self.begin_shape(number, text);
        if let Some(open) = &mut self.open {
            open.push(number, text);
        }
    }

    /// Ends what is open and begins what a heading says, where this is one.
    fn heading(&mut self, number: u64, text: &str, after_rule: bool) -> bool {
        let Some(heading) = heading::read(text, after_rule) else { return false };
        if self.open.as_ref().is_some_and(|open| !open.gives_way_to(heading.strength)) {
            return false;
        }
        if let Some(open) = self.open.as_mut().filter(|_| after_rule) {
            open.drop_rule();
        }
        self.close();
        self.host = heading.host.clone().or_else(|| self.host.take());
        let heading = heading::Heading { host: self.host.clone(), ..heading };
        self.open = Section::headed(heading, number, plain::indent(text));
        true
    }

    fn begin_shape(&mut self, number: u64, text: &str) {
        if self.open.as_ref().is_some_and(|open| !open.has_shapes()) {
            return;
        }
        let Some(form) = shape::begins(text) else { return };
        if self.open.as_ref().is_none_or(|open| open.is_not(&form)) {
            self.close();
            self.open = Some(Section::shaped(form, self.host.clone(), number));
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if self.found.len() >= MOST_SEGMENTS {
            return;
        }
        let Harvest { segments, listed, nameless, spaces } = open.read();
        self.found.segments.extend(segments);
        self.found.listed.extend(listed);
        self.found.nameless.extend(nameless);
        self.found.spaces.extend(spaces);
    }

    fn refuse(&mut self, refusal: &Refusal<'_>, number: u64) {
        if self.found.len() >= MOST_SEGMENTS {
            return;
        }
        let body = Body { lines: Vec::new(), first: number, host: self.host.clone() };
        match refusal {
            Refusal::Path(path, why) => {
                if self.open.as_ref().is_some_and(|open| open.shows(path)) {
                    self.close();
                }
                self.open.iter_mut().for_each(|open| open.refuse(path));
                let path = command::trimmed(path);
                let of_dir = file::place(&path) != file_key(&path);
                self.found.segments.push(body.refused(file::place(&path), number, why.clone()));
                if *why == Why::Absent {
                    self.found.segments.extend(listing::without(&path, &body, number).filter(|_| of_dir));
                    self.gone.push(Gone { path, line: number, host: self.host.clone() });
                }
            }
            // Of other programs: a user's search path may lack where they are.
            Refusal::Tool(name) => {
                let queries = [
                    ("kubelet", &version::KUBELET),
                    ("kubeadm", &version::KUBEADM),
                    ("containerd", &version::CONTAINERD),
                ];
                let query = queries.into_iter().find(|(tool, _)| tool == name).map(|(_, query)| query);
                self.found
                    .segments
                    .extend(query.map(|query| body.refused(Source::Query(query).key(), number, Why::NoTool)));
            }
            Refusal::Unit(name) => {
                let text = format!("Unit {name}.service could not be found.\n");
                self.found.segments.push(body.told(unit_status::key(name), number, text));
                if *name == "kubelet" {
                    let errors = format!("No files found for {name}.service.\n");
                    let capture = Ok(Capture { errors, exit: Some(1), ..Capture::default() });
                    self.found
                        .segments
                        .push(Segment { capture, ..body.told(Source::Query(&KUBELET).key(), number, String::new()) });
                }
            }
        }
    }
}
