//! How often `carrick diagnose` names the true root first, over a folder of cases: what a person would paste, and what was
//! really wrong.
//!
//! A case is a folder with an `expected.toml` and the texts, or a `NAME.txt` with a table `[NAME]` in the `expected.toml` beside
//! it. A third of the cases, by the hash of their names, is set aside: nobody develops against them, and only their sum is shown.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// The bars, in per cent of the cases that have a root.
const DEVELOPED: usize = 95;
const SET_ASIDE: usize = 85;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Part {
    Developed,
    SetAside,
}

impl Part {
    const ALL: [Part; 2] = [Part::Developed, Part::SetAside];

    /// By FNV-1a of the name: a case stays in its part whatever is added, and nobody chose it.
    fn of(name: &str) -> Part {
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        if hash % 3 == 0 { Part::SetAside } else { Part::Developed }
    }

    fn name(self) -> &'static str {
        match self {
            Part::Developed => "developed",
            Part::SetAside => "set aside",
        }
    }

    fn bar(self) -> usize {
        match self {
            Part::Developed => DEVELOPED,
            Part::SetAside => SET_ASIDE,
        }
    }
}

/// What `expected.toml` says of a case.
#[derive(Debug, Deserialize)]
struct Expected {
    /// What is really wrong, in a sentence: written before anybody looked for its id.
    #[serde(default)]
    root: String,
    /// Ids that name it. None, where there is a root: Carrick does not know it, and the case is missed.
    #[serde(default)]
    answers: Vec<String>,
    /// Ids that must not be named first: the tempting wrong ones.
    #[serde(default)]
    never_first: Vec<String>,
    /// No cause may be named: the machine is healthy.
    #[serde(default)]
    healthy: bool,
    /// Nobody could tell from this: no cause may be named for more than a possible one, which is what happened and not why.
    #[serde(default)]
    insufficient: bool,
    /// As the lab's captures say it: one id, or none.
    cause: Option<String>,
}

impl Expected {
    fn is_healthy(&self) -> bool {
        self.healthy || self.cause.as_deref() == Some("none")
    }

    fn counts(&self, id: &str) -> bool {
        !self.never_first.iter().any(|never| never == id)
            && (self.cause.as_deref() == Some(id) || self.answers.iter().any(|answer| answer == id))
    }

    /// What should have been named.
    fn wanted(&self) -> String {
        match (&self.cause, self.answers.as_slice()) {
            _ if self.is_healthy() => "no cause".to_owned(),
            _ if self.insufficient => "no cause, or a possible one".to_owned(),
            (Some(cause), _) => cause.clone(),
            (None, []) => format!("no id: {}", self.root),
            (None, answers) => answers.join(" or "),
        }
    }
}

/// The binary as tests have it: its answers are those of a release, which takes minutes to build.
fn built() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--quiet", "--package", "carrick"]).status()?;
    ensure!(built.success(), "the build failed");
    crate::target().join("debug/carrick").canonicalize().context("target/debug/carrick")
}

/// What is named first.
struct Named {
    id: String,
    confidence: String,
}

struct Case {
    name: String,
    place: PathBuf,
    texts: Vec<PathBuf>,
    expected: Expected,
}

/// What was made of one part.
#[derive(Default)]
struct Score {
    cases: usize,
    first: usize,
    healthy: usize,
    insufficient: usize,
    false_alarms: usize,
    /// Case, what was wanted, what was named.
    misses: Vec<(String, String, String)>,
}

impl Score {
    fn take(&mut self, case: &Case, named: Option<&Named>) {
        let Case { expected, .. } = case;
        let right = match named {
            None => expected.is_healthy() || expected.insufficient,
            Some(named) if expected.insufficient => named.confidence == "possible",
            Some(named) => expected.counts(&named.id),
        };
        if expected.is_healthy() || expected.insufficient {
            self.healthy += usize::from(!expected.insufficient);
            self.insufficient += usize::from(expected.insufficient);
            self.false_alarms += usize::from(!right);
        } else {
            self.cases += 1;
            self.first += usize::from(right);
        }
        if !right {
            let named = named.map_or("no cause", |named| &named.id).to_owned();
            self.misses.push((case.name.clone(), expected.wanted(), named));
        }
    }

    fn holds(&self, bar: usize) -> bool {
        self.false_alarms == 0 && self.first * 100 >= self.cases * bar
    }

    fn line(&self, part: Part) -> String {
        let Score { cases, first, healthy, insufficient, false_alarms, .. } = self;
        let percent = if *cases == 0 { 100 } else { first * 100 / cases };
        format!(
            "{}: root first in {first} of {cases} ({percent} %, bar {} %), {false_alarms} false alarms in {healthy} healthy \
             and {insufficient} insufficient",
            part.name(),
            part.bar()
        )
    }
}

pub fn run(folder: &Path, parts: &[Part]) -> anyhow::Result<()> {
    let carrick = built()?;
    let asked = |case: &Case| parts.is_empty() || parts.contains(&Part::of(&case.name));
    let cases: Vec<Case> = cases(folder)?.into_iter().filter(asked).collect();
    ensure!(!cases.is_empty(), "{}: no cases (a folder with expected.toml, or NAME.txt)", folder.display());
    let mut scores: BTreeMap<Part, Score> = BTreeMap::new();
    for case in &cases {
        let named = first_cause(&carrick, case)?;
        scores.entry(Part::of(&case.name)).or_default().take(case, named.as_ref());
    }
    // Who has seen what was missed of the other part has developed against it.
    for (name, wanted, named) in scores.get(&Part::Developed).into_iter().flat_map(|score| &score.misses) {
        println!("{name}: wanted {wanted}, named {named}");
    }
    let lines: Vec<String> = scores.iter().map(|(part, score)| score.line(*part)).collect();
    println!("score: {}", lines.join("; "));
    let short = Part::ALL.into_iter().filter_map(|part| Some((part, scores.get(&part)?)));
    let short: Vec<&str> =
        short.filter(|(part, score)| !score.holds(part.bar())).map(|(part, _)| part.name()).collect();
    if short.is_empty() { Ok(()) } else { bail!("below the bar: {}", short.join(", ")) }
}

fn first_cause(carrick: &Path, case: &Case) -> anyhow::Result<Option<Named>> {
    let done =
        Command::new(carrick).args(["diagnose", "-o", "json"]).args(&case.texts).current_dir(&case.place).output()?;
    let report: Value = serde_json::from_slice(&done.stdout)
        .with_context(|| format!("{}: {}", case.name, String::from_utf8_lossy(&done.stderr)))?;
    let first = &report["causes"][0];
    let text = |key: &str| first[key].as_str().map(str::to_owned);
    Ok(text("id").zip(text("confidence")).map(|(id, confidence)| Named { id, confidence }))
}

fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let shared = folder.join("expected.toml");
    let mut tables: BTreeMap<String, Expected> = if shared.exists() { read(&shared)? } else { BTreeMap::new() };
    let mut cases = Vec::new();
    for place in listed(folder)? {
        let name = place.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if place.is_dir() {
            let expected = read(&place.join("expected.toml"))?;
            let texts = texts(&place)?;
            let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
            cases.push(Case { name, place, texts, expected });
        } else if place.extension().is_some_and(|extension| extension == "txt") {
            let expected = tables.remove(&name).with_context(|| format!("{}: no [{name}]", shared.display()))?;
            let texts = place.file_name().map(PathBuf::from).into_iter().collect();
            cases.push(Case { name, place: folder.to_owned(), texts, expected });
        }
    }
    if let Some(name) = tables.keys().next() {
        bail!("{}: [{name}] has no {name}.txt", shared.display());
    }
    Ok(cases)
}

/// What a person would hand over of a folder: the paste where there is one, else every file, whose names say what they are.
fn texts(place: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let names = listed(place)?.into_iter().filter_map(|path| path.file_name().map(PathBuf::from));
    let all: Vec<PathBuf> = names.filter(|name| name != Path::new("expected.toml")).collect();
    let paste = all.iter().find(|name| *name == Path::new("paste.txt") && all.contains(&"bundle.tar.gz".into()));
    ensure!(!all.is_empty(), "{}: nothing to diagnose", place.display());
    Ok(paste.map_or(all.clone(), |paste| vec![paste.clone()]))
}

fn listed(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(expected: &str) -> Case {
        let expected = toml::from_str(expected).expect("a case");
        Case { name: "x".to_owned(), place: PathBuf::new(), texts: Vec::new(), expected }
    }

    #[test]
    fn a_case_is_right_where_its_root_is_named_first() {
        let (sure, maybe) = ("certain", "possible");
        for (expected, named, right) in [
            ("answers = ['a.b', 'c.d']", Some(("c.d", sure)), true),
            ("answers = ['a.b']", Some(("c.d", sure)), false),
            ("answers = ['a.b']", None, false),
            ("answers = ['a.b']\nnever_first = ['a.b']", Some(("a.b", sure)), false),
            // A root that no id names is missed, whatever is named.
            ("root = 'the moon is full'", Some(("a.b", sure)), false),
            ("root = 'the moon is full'", None, false),
            ("healthy = true", None, true),
            ("healthy = true", Some(("a.b", maybe)), false),
            ("insufficient = true", None, true),
            ("insufficient = true", Some(("a.b", maybe)), true),
            ("insufficient = true", Some(("a.b", "likely")), false),
            ("cause = 'a.b'", Some(("a.b", sure)), true),
            ("cause = 'none'", None, true),
            ("cause = 'none'", Some(("a.b", sure)), false),
        ] {
            let mut score = Score::default();
            let named = named.map(|(id, confidence)| Named { id: id.to_owned(), confidence: confidence.to_owned() });
            score.take(&case(expected), named.as_ref());
            assert_eq!(score.misses.is_empty(), right, "{expected}");
            assert_eq!(score.holds(100), right, "{expected}");
        }
    }

    #[test]
    fn a_case_stays_in_its_part() {
        for (name, part) in
            [("swap-on", Part::Developed), ("token-expired", Part::Developed), ("dns-fails", Part::SetAside)]
        {
            assert_eq!(Part::of(name), part, "{name}");
        }
    }
}
