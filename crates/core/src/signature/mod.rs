//! Failures as they read in text: one TOML file each, `signatures/FAMILY/NAME.toml` for the id `FAMILY.NAME`.
//!
//! A [`Signature`] recognises one line: a literal leads to it, a regular expression decides. It says from which phase on
//! the line matters, what it proves and what it brings about. The [`Library`] holds all of them, those built in and those
//! of the operator; [`lint`] says what is wrong with one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use serde::{Deserialize, Serialize};

use crate::catalogue::{About, Class, Role, Stops};
use crate::check::{self, Needed, Subsystem};
use crate::names::{Names, is_name, put_in, server_in};
use crate::report::Confidence;

mod expression;
pub mod finder;
pub mod lint;

use expression::Expression;
use finder::Finder;

pub use expression::Taken;

include!(concat!(env!("OUT_DIR"), "/signatures.rs"));

/// What is known of a check is known of the signature that shows it.
const fn shown(check: &str) -> About<'static> {
    match check::about(check) {
        Some(about) => about,
        None => panic!("a signature shows what is no check"),
    }
}

/// One failure, or one good or harmless sign, as it reads in a line of text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    pub id: String,
    /// What is wrong (or, of a good sign, what went well), in a few words.
    pub title: String,
    pub subsystem: Subsystem,
    /// From when on it counts; of a sign: what it proves to be reached.
    pub phase: Phase,
    pub severity: Severity,
    /// What a join does about it. A cause of its own has one; where it shows a check, the check's counts.
    #[serde(default)]
    pub class: Option<Class>,
    /// Whether it says why, or only that. As with the class.
    #[serde(default)]
    pub role: Option<Role>,
    /// What it stops on a node while it lasts. As with the class.
    #[serde(default)]
    pub stops: Option<Stops>,
    /// What a hit proves about the cause.
    #[serde(default = "likely")]
    pub certainty: Confidence,
    /// One of these stands in every line that can hit. Free of characters that JSON escapes.
    pub literals: Vec<String>,
    pub regex: String,
    /// What it means, in a sentence; `{name}` is a named capture.
    pub cause: String,
    /// The check that judges the very same thing: one id for one cause.
    #[serde(default)]
    pub shows: Option<String>,
    /// Where that check passes: what it is then.
    #[serde(default)]
    pub otherwise: Option<String>,
    /// Ids of what it brings about.
    #[serde(default)]
    pub explains: Vec<String>,
    /// Where both hit a line, this one speaks and these do not.
    #[serde(default)]
    pub over: Vec<String>,
    /// It speaks with a program's last words, where no signature says why on their line. It needs no literal: only lines that read
    /// like an error are held against it.
    #[serde(default)]
    pub last_words: bool,
    /// Good signs after which it is past.
    #[serde(default)]
    pub cleared_by: Vec<String>,
    /// For how many seconds it must go on before it counts.
    #[serde(default)]
    pub lasts: Option<u32>,
    #[serde(default)]
    pub remedy: Vec<String>,
    /// So that it does not come again.
    #[serde(default)]
    pub prevent: Vec<String>,
    /// Where to look when nothing else explains it.
    #[serde(default)]
    pub next: Vec<String>,
    #[serde(default)]
    pub references: Vec<String>,
    #[serde(default)]
    pub hit: Vec<HitExample>,
    #[serde(default)]
    pub miss: Vec<MissExample>,
}

/// A line it must recognise.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HitExample {
    pub line: String,
}

/// A line it must not be fooled by.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissExample {
    pub line: String,
    pub why: String,
}

/// How far the machine is; a signature names the one from which on it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Phase {
    /// No join was tried yet.
    #[default]
    Before,
    /// A join runs, or ended without a Node.
    Joining,
    /// The Node is registered.
    Joined,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Severity {
    /// Neither good nor bad: it only shows how far the machine is.
    Sign,
    /// A sign of progress or of health.
    Good,
    /// Noise: never a cause.
    Benign,
    /// It may break later.
    Warning,
    /// Something does not work.
    Error,
    /// Alone it stops a join, or makes it only look joined.
    Fatal,
}

impl Phase {
    /// As a signature's file has it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Before => "before",
            Phase::Joining => "joining",
            Phase::Joined => "joined",
        }
    }
}

impl Severity {
    /// As a signature's file has it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Sign => "sign",
            Severity::Good => "good",
            Severity::Benign => "benign",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Fatal => "fatal",
        }
    }
}

fn likely() -> Confidence {
    Confidence::Likely
}

impl Signature {
    /// The id under which its cause is told.
    pub fn cause_id(&self) -> &str {
        self.shows.as_deref().unwrap_or(&self.id)
    }

    /// What is known of the id under which its cause is told; `None` where it is never a cause.
    pub fn about(&self) -> Option<About<'_>> {
        if let Some(check) = &self.shows {
            return check::about(check);
        }
        let (class, role, stops) = (self.class?, self.role?, self.stops?);
        Some(About { id: &self.id, class, role, stops, subsystem: self.subsystem, needed: Needed::Always })
    }

    /// All lines that its file shows.
    fn lines(&self) -> impl Iterator<Item = &str> {
        let hits = self.hit.iter().map(|hit| hit.line.as_str());
        hits.chain(self.miss.iter().map(|miss| miss.line.as_str()))
    }

    /// A text of this signature with the captures of a hit put in; what is known beside it, [`crate::names`] puts in later.
    pub fn filled(text: &str, taken: &Taken) -> String {
        put_in(text, |name| taken.named(name).map(str::to_owned))
    }

    /// A sentence of this signature where there is no hit: what a line would say is left open.
    pub fn open(sentence: &str) -> String {
        put_in(sentence, |name| is_capture(name).then(|| "…".to_owned()))
    }

    /// A command of this signature where there is no hit: the reader has to put something in for `NAME`.
    pub fn open_command(command: &str) -> String {
        put_in(command, |name| is_capture(name).then(|| name.to_uppercase()))
    }

    /// The same where a machine is known: its [`crate::names`] are put in later.
    pub fn command_without_hit(command: &str) -> String {
        put_in(command, |name| (is_capture(name) && !is_name(name)).then(|| name.to_uppercase()))
    }
}

/// What may stand in braces for a capture: `{id}`; `{print $1}` is awk's.
fn is_capture(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// How much of a literal a line that was cut has to end with: a word or two, which few literals have in common.
const LEAST_OF_A_LITERAL: usize = 14;

/// Every signature there is, ready to be looked for.
pub struct Library {
    entries: Vec<Entry>,
    by_id: BTreeMap<String, usize>,
    /// Finds the lines of a text that have a literal.
    finder: Finder,
    /// Tells which literals a line has.
    literals: AhoCorasick,
    /// The same, as text.
    texts: Vec<Box<str>>,
    /// Which signatures a literal may lead to.
    led_to: Vec<Vec<usize>>,
    /// Those that speak with a program's last words.
    last_words: Vec<usize>,
    broken: OnceLock<Complaint>,
}

struct Entry {
    signature: Signature,
    expression: Expression,
    /// It may have a capture `node`: few have, and a capture costs more than to recognise a line.
    names_node: bool,
}

/// What is wrong with a signature, in one line that names it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{signature}: {what}")]
pub struct Complaint {
    pub signature: String,
    pub what: String,
}

impl Complaint {
    fn of(signature: &str, what: impl Into<String>) -> Self {
        Complaint { signature: signature.to_owned(), what: what.into() }
    }
}

/// One signature out of its file; `name` is how messages call it.
pub fn parse(name: &str, text: &str) -> Result<Signature, Complaint> {
    toml::from_str(text).map_err(|error| Complaint::of(name, error.to_string().trim_end()))
}

/// Those of this program.
pub fn built_in() -> Result<Vec<Signature>, Complaint> {
    BUILT_IN.iter().map(|(id, text)| parse(id, text)).collect()
}

impl Library {
    /// Those of this program.
    pub fn built_in() -> Result<Self, Complaint> {
        Library::new(built_in()?)
    }

    /// These, which [`lint`] found nothing wrong with.
    pub fn new(signatures: Vec<Signature>) -> Result<Self, Complaint> {
        let mut literals: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut by_id = BTreeMap::new();
        for (n, signature) in signatures.iter().enumerate() {
            if by_id.insert(signature.id.clone(), n).is_some() {
                return Err(Complaint::of(&signature.id, "the id is there twice"));
            }
            for literal in signature.literals.iter().filter(|_| !signature.last_words) {
                literals.entry(literal).or_default().push(n);
            }
        }
        let wrong = |error: aho_corasick::BuildError| Complaint::of("the literals", error.to_string());
        let finder =
            Finder::new(literals.keys().copied(), signatures.iter().flat_map(Signature::lines)).map_err(wrong)?;
        // The small kind: it sees only the lines that were found.
        let builder = AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(literals.keys());
        let all = builder.map_err(wrong)?;
        let texts = literals.keys().map(|literal| Box::from(*literal)).collect();
        let led_to = literals.into_values().collect();
        let last_words = (0..signatures.len()).filter(|&n| signatures[n].last_words).collect();
        let entry = |signature: Signature| Entry {
            names_node: signature.regex.contains("<node>"),
            signature,
            expression: Expression::default(),
        };
        let entries = signatures.into_iter().map(entry).collect();
        Ok(Library { entries, by_id, finder, literals: all, texts, led_to, last_words, broken: OnceLock::new() })
    }

    pub fn find(&self, id: &str) -> Option<&Signature> {
        self.by_id.get(id).map(|&n| self.get(n))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Signature> {
        self.entries.iter().map(|entry| &entry.signature)
    }

    pub fn get(&self, n: usize) -> &Signature {
        &self.entries[n].signature
    }

    /// What finds the lines that may hit.
    pub fn finder(&self) -> &Finder {
        &self.finder
    }

    /// The signatures that recognise a (decoded) line. Of two of which one is `over` the other, only the first.
    pub fn recognise(&self, line: &str) -> Vec<usize> {
        let found = self.literals.find_overlapping_iter(line);
        let led_to: BTreeSet<usize> =
            found.flat_map(|found| self.led_to[found.pattern().as_usize()].iter().copied()).collect();
        let is_match = |&n: &usize| {
            let Entry { signature, expression, .. } = &self.entries[n];
            self.compiled(n, expression.is_match(&signature.regex, line)).unwrap_or_default()
        };
        let mut hits: Vec<usize> = led_to.into_iter().filter(is_match).collect();
        if hits.len() > 1 {
            let under: BTreeSet<&str> =
                hits.iter().flat_map(|&n| self.get(n).over.iter().map(String::as_str)).collect();
            hits.retain(|&n| !under.contains(self.get(n).id.as_str()));
        }
        hits
    }

    /// The signature whose words these are, where none of those that recognise the line says what it means.
    pub fn last_words(&self, line: &str, recognised: &[usize]) -> Option<usize> {
        let says_why = |&n: &usize| {
            let signature = self.get(n);
            signature.severity > Severity::Sign && signature.about().is_none_or(|about| about.role == Role::Root)
        };
        if recognised.iter().any(says_why) {
            return None;
        }
        let is_under = |id: &str| recognised.iter().any(|&n| self.get(n).over.iter().any(|under| under == id));
        let speaks = |&n: &usize| {
            let Entry { signature, expression, .. } = &self.entries[n];
            !is_under(&signature.id)
                && self.compiled(n, expression.is_match(&signature.regex, line)).unwrap_or_default()
        };
        self.last_words.iter().copied().find(speaks)
    }

    /// A line that a pager cut at the right, with the rest of the only literal that can have stood there.
    pub fn completed(&self, line: &str) -> Option<String> {
        let cut = line.trim_end().strip_suffix(['>', '…'])?;
        let mut rest: Option<&str> = None;
        for literal in &self.texts {
            let begun = |at: &usize| literal.get(..*at).is_some_and(|begun| cut.ends_with(begun));
            let end = (LEAST_OF_A_LITERAL..literal.len()).rev().find(begun).and_then(|at| literal.get(at..));
            match (rest, end) {
                (Some(rest), Some(end)) if rest != end => return None,
                (_, Some(_)) => rest = end,
                (_, None) => {}
            }
        }
        rest.map(|rest| format!("{cut}{rest}"))
    }

    /// What a signature takes from a line it recognises.
    pub fn take<'line>(&self, n: usize, line: &'line str) -> Option<Taken<'line>> {
        let Entry { signature, expression, .. } = &self.entries[n];
        self.compiled(n, expression.take(&signature.regex, line)).flatten()
    }

    /// The cause a signature names, with what it takes from a line; open where it does not recognise the line.
    pub fn cause(&self, n: usize, line: &str) -> String {
        let cause = &self.get(n).cause;
        self.take(n, line).map_or_else(|| Signature::open(cause), |taken| Signature::filled(cause, &taken))
    }

    /// The remedy a signature names, with what it takes from a line.
    pub fn remedy(&self, n: usize, line: &str) -> Vec<String> {
        let (taken, names) = (self.take(n, line), Names::default().with_server(server_in(line)));
        let fill = |command: &String| {
            let unhit = || Signature::command_without_hit(command);
            names.fill_known(&taken.as_ref().map_or_else(unhit, |taken| Signature::filled(command, taken)))
        };
        self.get(n).remedy.iter().map(fill).collect()
    }

    /// The node that a line speaks of, where its signature takes it from there.
    pub fn node<'line>(&self, n: usize, line: &'line str) -> Option<&'line str> {
        self.entries[n].names_node.then(|| self.take(n, line)).flatten()?.named("node")
    }

    fn compiled<T>(&self, n: usize, outcome: Result<T, regex::Error>) -> Option<T> {
        let broken = |error: regex::Error| Complaint::of(&self.get(n).id, error.to_string());
        outcome.map_err(|error| self.broken.get_or_init(|| broken(error))).ok()
    }

    /// A signature that was needed and does not compile: what was found without it is not the whole.
    pub fn broken(&self) -> Option<&Complaint> {
        self.broken.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_keeps_the_rules() {
        let signatures: Vec<Signature> = BUILT_IN
            .iter()
            .map(|(id, text)| {
                let signature = parse(id, text).unwrap_or_else(|complaint| panic!("{complaint}"));
                assert_eq!(signature.id, *id, "the id is not the file's place");
                signature
            })
            .collect();
        let complaints = lint::complaints(&signatures, &[]);
        let all: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        assert!(all.is_empty(), "{} complaints:\n{}", all.len(), all.join("\n"));
    }

    #[test]
    fn captures_are_put_into_a_text_and_other_braces_stay() {
        let expression = Expression::default();
        let taken = expression.take("(?P<id>[a-z]+) (?P<n>[0-9]+)", "abc 12").unwrap().unwrap();
        for (text, filled) in [
            ("token {id}", "token abc"),
            ("{id} and {n}", "abc and 12"),
            ("{no such} {", "{no such} {"),
            ("awk '{print $1}' {n}", "awk '{print $1}' 12"),
        ] {
            assert_eq!(Signature::filled(text, &taken), filled);
        }
    }

    #[test]
    fn without_a_hit_what_a_line_would_say_stays_open() {
        for (text, sentence, command) in [
            ("the token {id} is unknown", "the token … is unknown", "the token ID is unknown"),
            ("rm {config_file}", "rm …", "rm CONFIG_FILE"),
            ("awk '{print $1}' {}", "awk '{print $1}' {}", "awk '{print $1}' {}"),
        ] {
            assert_eq!(Signature::open(text), sentence);
            assert_eq!(Signature::open_command(text), command);
        }
    }
}
