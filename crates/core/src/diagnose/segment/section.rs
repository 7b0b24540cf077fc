//! One section of a paste: what it is, its lines, and what of them becomes facts.

use super::heading::{Heading, Strength};
use super::listing::Listed;
use super::plain::{indent, is_chatter, is_gap};
use super::{Segment, cri, file, listing, machine, mounts, net, process, shape, space, unit};
use crate::fact::keep::{Keeper, USUAL};
use crate::fact::{Capture, Query, Why};

/// What a section holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// Known, and nothing in it that a check reads.
    Passed,
    File(String),
    /// A path by itself: its content, or a list of it.
    Place(String),
    /// `cat` of several: known only where all but one are not there.
    Files(Vec<String>),
    /// `cat DIR/*`.
    Glob(String),
    Listing {
        paths: Vec<String>,
        long: bool,
        /// With `*` and `/` behind names, as `ls -F` has it.
        marks: bool,
    },
    Status,
    Cat,
    Show,
    Info,
    RuntimeConfig,
    CrictlVersion,
    CtrVersion,
    /// As Carrick itself would have asked.
    Query(&'static Query),
    Df(Vec<String>),
    Mountinfo,
    Mount,
    Findmnt,
    Swaps,
    SwapShow,
    /// What a bare number counts, where the command says it.
    Free(Option<u64>),
    Sysctl,
    Clock,
    Hostnamectl,
    Hostname,
    Release,
    Uname,
    Modules,
    Processes,
    Firewalld,
    Sockets {
        udp: bool,
        netstat: bool,
    },
    Links,
    Routes,
    Json,
    KubeletConfig,
    Kubeconfig,
    ContainerdConfig,
    OsRelease,
}

impl Form {
    /// Any line may be part of it: only a heading ends it.
    fn swallows(&self) -> bool {
        use Form::{Cat, File, Files, Glob, Passed, Place, Query};
        matches!(self, Passed | File(_) | Place(_) | Files(_) | Glob(_) | Cat | Query(_))
    }

    /// It is a JSON document, which says itself where it ends.
    fn is_json(&self) -> bool {
        matches!(self, Form::Info | Form::Json | Form::RuntimeConfig)
    }
}

/// A section while it is read.
pub(super) struct Section {
    pub(super) form: Form,
    pub(super) host: Option<String>,
    /// `None` where it was known by its shape.
    strength: Option<Strength>,
    limit: Option<usize>,
    echoes: Vec<String>,
    quiet: bool,
    lines: Vec<(u64, String)>,
    bytes: usize,
    /// Where the heading stands.
    heading: u64,
    heading_indent: usize,
    /// Part of it is missing.
    cut: bool,
    /// Paths of its command that are not there.
    refused: Vec<String>,
    json: Document,
}

impl Section {
    /// `None` where the heading does not say what follows.
    pub(super) fn headed(heading: Heading, number: u64, indent: usize) -> Option<Self> {
        let Heading { host, asked, strength } = heading;
        Some(Section {
            strength: Some(strength),
            limit: asked.limit,
            echoes: asked.echoes,
            quiet: asked.quiet,
            heading_indent: indent,
            ..Self::shaped(asked.form?, host, number)
        })
    }

    pub(super) fn shaped(form: Form, host: Option<String>, number: u64) -> Self {
        Section {
            form,
            host,
            strength: None,
            limit: None,
            echoes: Vec::new(),
            quiet: false,
            lines: Vec::new(),
            bytes: 0,
            heading: number,
            heading_indent: 0,
            cut: false,
            refused: Vec::new(),
            json: Document::default(),
        }
    }

    /// Whether a heading of this strength is one here.
    pub(super) fn gives_way_to(&self, strength: Strength) -> bool {
        strength == Strength::Full || !self.form.swallows() || self.strength == Some(Strength::Bare)
    }

    /// A log ends every section but that of a program that prints its errors so.
    pub(super) fn takes_logs(&self) -> bool {
        self.form == Form::Info || (self.strength.is_some() && self.lines.is_empty())
    }

    /// Whether a shape may begin here at all.
    pub(super) fn has_shapes(&self) -> bool {
        !self.form.swallows() && !self.form.is_json() && (self.strength.is_none() || !self.lines.is_empty())
    }

    /// Whether it is of another kind.
    pub(super) fn is_not(&self, form: &Form) -> bool {
        std::mem::discriminant(&self.form) != std::mem::discriminant(form)
    }

    pub(super) fn fits(&self, text: &str) -> bool {
        if self.form.is_json() && self.json.ended() {
            return false;
        }
        let last = self.lines.last().map(|(_, line)| line.as_str());
        self.strength.is_some() || shape::fits(&self.form, text, last)
    }

    pub(super) fn push(&mut self, number: u64, text: &str) {
        if self.form == Form::Passed || (self.lines.is_empty() && text.trim().is_empty()) {
            return;
        }
        if is_gap(text) || self.bytes >= USUAL.limit() {
            self.cut = true;
        } else if !is_chatter(text) && !self.echoes.iter().any(|echo| echo == text.trim()) {
            self.json.push(text);
            self.bytes += text.len() + 1;
            self.lines.push((number, text.to_owned()));
        }
    }

    /// What was left out of it makes the rest no evidence.
    pub(super) fn lose(&mut self) {
        self.cut = true;
    }

    /// It already shows what is in a file: that it is not there was said of it later.
    pub(super) fn shows(&self, path: &str) -> bool {
        !self.lines.is_empty() && matches!(&self.form, Form::File(own) if own == path)
    }

    pub(super) fn refuse(&mut self, path: &str) {
        self.refused.push(path.to_owned());
    }

    /// A rule above the next heading belongs to that.
    pub(super) fn drop_rule(&mut self) {
        if self.lines.last().is_some_and(|(_, line)| super::heading::is_rule(line)) {
            self.lines.pop();
        }
    }

    /// What it says.
    pub(super) fn read(mut self) -> Harvest {
        let mut harvest = Harvest::default();
        while self.lines.last().is_some_and(|(_, line)| line.trim().is_empty()) {
            self.lines.pop();
        }
        let over = self.limit.is_some_and(|limit| self.lines.len() >= limit);
        // A status is told by its head; the log below it may end anywhere.
        if (self.cut || over) && self.form != Form::Status {
            return harvest;
        }
        let seen_empty = self.lines.is_empty() && self.strength == Some(Strength::Full) && !self.quiet;
        if let Some(body) = self.body() {
            let Section { form, refused, .. } = self;
            read(&form, &refused, &body, seen_empty, &mut harvest);
        }
        harvest
    }

    /// The lines, secrets taken out; `None` where that is too much.
    fn body(&self) -> Option<Body> {
        let least =
            || self.lines.iter().filter(|(_, line)| !line.trim().is_empty()).map(|(_, line)| indent(line)).min();
        let indent =
            if self.strength.is_some() { self.heading_indent.min(least().unwrap_or(0)) } else { least().unwrap_or(0) };
        let mut keeper = Keeper::new(USUAL);
        for (_, line) in &self.lines {
            keeper.push(line.get(indent..).unwrap_or_default().as_bytes());
            keeper.push(b"\n");
        }
        let (capture, _) = keeper.finish();
        let clean: Vec<String> = capture.text.lines().map(str::to_owned).collect();
        let first = self.lines.first().map_or(self.heading, |(number, _)| *number);
        // A private key that was taken out is one line where it was many: the numbers are lost then.
        let numbers: Vec<u64> = if clean.len() == self.lines.len() {
            self.lines.iter().map(|(number, _)| *number).collect()
        } else {
            vec![first; clean.len()]
        };
        let lines = numbers.into_iter().zip(clean).collect();
        (capture.dropped == 0).then_some(Body { lines, first, host: self.host.clone() })
    }
}

fn read(form: &Form, refused: &[String], body: &Body, seen_empty: bool, harvest: &mut Harvest) {
    match form {
        Form::File(path) if !refused.contains(path) => file::read(path, body, harvest),
        Form::Passed | Form::File(_) => {}
        Form::Files(paths) => {
            let mut there = paths.iter().filter(|path| !refused.contains(path));
            if let (Some(path), None) = (there.next(), there.next()) {
                file::read(path, body, harvest);
            }
        }
        Form::Place(path) => file::read_place(path, body, harvest),
        Form::Glob(dir) => file::read_glob(dir, body, harvest),
        Form::Listing { paths, long, marks } => listing::read(paths, *long, *marks, body, harvest),
        Form::Status => unit::read_status(body, harvest),
        Form::Cat => unit::read_cat(body, harvest),
        Form::Show => unit::read_show(body, harvest),
        Form::Info => cri::read_info(body, harvest),
        Form::RuntimeConfig => cri::read_runtime_config(body, harvest),
        Form::CrictlVersion => cri::read_crictl_version(body, harvest),
        Form::CtrVersion => cri::read_ctr_version(body, harvest),
        Form::Query(query) => machine::read_query(query, body, harvest),
        Form::Df(paths) => space::read(paths, body, harvest),
        Form::Mountinfo => mounts::read_mountinfo(body, harvest),
        Form::Mount => mounts::read_mount(body, harvest),
        Form::Findmnt => mounts::read_findmnt(body, harvest),
        Form::Swaps => machine::read_swaps(body, harvest),
        Form::SwapShow => machine::read_swap_show(body, seen_empty, harvest),
        Form::Free(unit) => machine::read_free(*unit, body, harvest),
        Form::Sysctl => machine::read_sysctl(body, harvest),
        Form::Clock => machine::read_clock(body, harvest),
        Form::Hostnamectl => machine::read_hostnamectl(body, harvest),
        Form::Hostname => machine::read_hostname(body, harvest),
        Form::Release => machine::read_release(body, harvest),
        Form::Uname => machine::read_uname(body, harvest),
        Form::Modules => machine::read_modules(body, harvest),
        Form::Processes => process::read(body, harvest),
        Form::Firewalld => net::read_firewalld(body, harvest),
        Form::Sockets { udp, netstat } => net::read_sockets(*udp, *netstat, body, harvest),
        Form::Links => net::read_links(body, harvest),
        Form::Routes => net::read_routes(body, harvest),
        Form::Json => cri::read_json(body, harvest),
        Form::KubeletConfig | Form::Kubeconfig | Form::ContainerdConfig | Form::OsRelease => {
            file::read_by_content(form, body, harvest);
        }
    }
}

/// What a section gives.
#[derive(Default)]
pub(super) struct Harvest {
    pub(super) segments: Vec<Segment>,
    /// Directories that were listed whole.
    pub(super) listed: Vec<Listed>,
    /// Documents of CNI whose file's name is not told.
    pub(super) nameless: Vec<file::Nameless>,
    /// Tables of `df`, which are put together at the end.
    pub(super) spaces: Vec<space::Table>,
}

impl Harvest {
    /// How much was found, of every kind.
    pub(super) fn len(&self) -> usize {
        self.segments.len() + self.listed.len() + self.nameless.len() + self.spaces.len()
    }
}

/// The lines of a section, clean.
pub(super) struct Body {
    pub(super) lines: Vec<(u64, String)>,
    /// The first line's number, or the heading's where there is none.
    pub(super) first: u64,
    pub(super) host: Option<String>,
}

impl Body {
    pub(super) fn text(&self) -> String {
        self.lines.iter().flat_map(|(_, line)| [line.as_str(), "\n"]).collect()
    }

    /// The lines without those around them.
    pub(super) fn part(&self, from: usize, to: usize) -> Body {
        let lines: Vec<(u64, String)> = self.lines.get(from..to.min(self.lines.len())).unwrap_or_default().to_vec();
        Body { first: lines.first().map_or(self.first, |(number, _)| *number), lines, host: self.host.clone() }
    }

    /// As it stands in the paste.
    pub(super) fn whole(&self, key: String) -> Segment {
        let follows =
            |(index, (number, _)): (usize, &(u64, String))| *number == self.first.saturating_add(index as u64);
        let verbatim = !self.lines.is_empty() && self.lines.iter().enumerate().all(follows);
        Segment { verbatim, ..self.told(key, self.first, self.text()) }
    }

    /// In the words a fact's parser reads, from a line of the paste.
    pub(super) fn told(&self, key: String, line: u64, text: String) -> Segment {
        Segment { key, capture: Ok(Capture::text(text)), first_line: line, verbatim: false, host: self.host.clone() }
    }

    pub(super) fn refused(&self, key: String, line: u64, why: Why) -> Segment {
        Segment { key, capture: Err(why), first_line: line, verbatim: false, host: self.host.clone() }
    }
}

/// How deep in a JSON document the reading is.
#[derive(Default)]
struct Document {
    depth: u64,
    began: bool,
    in_string: bool,
    escaped: bool,
}

impl Document {
    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' if self.began => self.in_string = !self.in_string,
                b'{' | b'[' if !self.in_string && (self.began || text.trim_start().starts_with(['{', '['])) => {
                    self.began = true;
                    self.depth += 1;
                }
                b'}' | b']' if !self.in_string => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn ended(&self) -> bool {
        self.began && self.depth == 0
    }
}
