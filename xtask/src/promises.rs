//! `cargo xtask promises`: promises.toml lists one-line changes, each of which breaks something that Carrick promises. They are
//! made one at a time, in a copy of the tree, and a hermetic test (or a lint) has to notice.
//!
//! Everything is below `target/promises`: `tree` (the copy), `build` (what cargo makes of it, kept for the next run) and `logs`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::fmt::files;

/// For one check, its build included: a cold one takes minutes on a small machine.
const SECONDS: u32 = 900;
/// Of a log, what is read: a broken program may print without end.
const LONGEST_LOG: u64 = 16 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promises {
    promise: Vec<Promise>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    name: String,
    file: PathBuf,
    /// Stands exactly once in the file.
    find: String,
    replace: String,
    /// What cargo is told; the test's name is added.
    check: Vec<String>,
    /// The test that fails, by its whole name; of `clippy`, the lint.
    caught_by: String,
}

impl Promise {
    fn is_test(&self) -> bool {
        self.check.first().is_some_and(|verb| verb == "test")
    }

    /// Whole: only the test that is meant is run.
    fn arguments(&self) -> Vec<String> {
        let test = ["--", "--exact", self.caught_by.as_str()].map(str::to_owned);
        self.check.iter().cloned().chain(test.into_iter().filter(|_| self.is_test())).collect()
    }

    /// The file with its one line changed.
    fn broken(&self, text: &str) -> anyhow::Result<String> {
        let times = text.matches(&self.find).count();
        ensure!(times == 1, "`{}` stands {times} times in {}, not once", self.find, self.file.display());
        Ok(text.replacen(&self.find, &self.replace, 1))
    }

    /// The check as it is: it passes, and there is such a test.
    fn holds(&self, status: Option<i32>, log: &str) -> Result<(), String> {
        let ran = !self.is_test() || log.lines().any(|line| line == format!("test {} ... ok", self.caught_by));
        match status {
            Some(0) if ran => Ok(()),
            Some(0) => Err(format!("there is no test {}", self.caught_by)),
            status => Err(format!("fails without the change: {}", ended(status))),
        }
    }

    /// The check of the broken tree: it fails, and for no other reason.
    fn is_caught(&self, status: Option<i32>, log: &str) -> Result<(), String> {
        let caught = if self.is_test() {
            log.lines().any(|line| line == format!("test {} ... FAILED", self.caught_by))
        } else {
            log.contains(&self.caught_by) && !log.contains("error[E")
        };
        match status {
            Some(0) => Err("nothing notices it".to_owned()),
            Some(_) if caught => Ok(()),
            status => Err(format!("{} does not fail: {}", self.caught_by, ended(status))),
        }
    }
}

/// As `timeout` ends: 124 where it asked, 137 where it had to kill.
fn ended(status: Option<i32>) -> String {
    match status {
        Some(124 | 137) | None => format!("no end after {SECONDS} s"),
        Some(101) => "cargo ended with status 101 (see the log: does it compile?)".to_owned(),
        Some(status) => format!("cargo ended with status {status}"),
    }
}

pub fn run(names: &[String]) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let promises = chosen(all(&root)?, names)?;
    let place = crate::target().join("promises");
    fs::create_dir_all(place.join("logs")).with_context(|| place.display().to_string())?;
    let place = place.canonicalize()?;
    copy(&root, &place.join("tree")).context("cannot copy the tree")?;
    let (mut sound, mut passed, mut failed) = (Vec::new(), 0, 0);
    for promise in &promises {
        let (seconds, verdict) = check(promise, &place, "unchanged", Promise::holds)?;
        match verdict {
            Ok(()) => sound.push(promise),
            Err(why) => {
                failed += 1;
                say("FAILED", promise, seconds, &why);
            }
        }
    }
    for promise in sound {
        let (seconds, verdict) = break_and_check(promise, &place)?;
        match verdict {
            Ok(()) => {
                passed += 1;
                say("ok", promise, seconds, &promise.caught_by);
            }
            Err(why) => {
                failed += 1;
                say("FAILED", promise, seconds, &why);
            }
        }
    }
    println!("promises: {passed} passed, {failed} failed");
    ensure!(failed == 0, "what cargo said is in {}", place.join("logs").display());
    Ok(())
}

fn say(word: &str, promise: &Promise, seconds: u64, what: &str) {
    println!("{word:<6}  {:<36} {seconds:>4} s  {what}", promise.name);
}

fn all(root: &Path) -> anyhow::Result<Vec<Promise>> {
    let path = root.join("xtask/promises.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let Promises { promise } = toml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(promise)
}

fn chosen(all: Vec<Promise>, names: &[String]) -> anyhow::Result<Vec<Promise>> {
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|promise| promise.name != **name)) {
        let known: Vec<&str> = all.iter().map(|promise| promise.name.as_str()).collect();
        bail!("promises.toml has no `{unknown}`; it has {}", known.join(", "));
    }
    Ok(all.into_iter().filter(|promise| names.is_empty() || names.contains(&promise.name)).collect())
}

/// Seconds, and the verdict. The file is as it was when this returns; where it does not, the next copy sets it right.
fn break_and_check(promise: &Promise, place: &Path) -> anyhow::Result<(u64, Result<(), String>)> {
    let file = place.join("tree").join(&promise.file);
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let broken = match promise.broken(&text) {
        Ok(broken) => broken,
        Err(error) => return Ok((0, Err(error.to_string()))),
    };
    fs::write(&file, broken)?;
    let checked = check(promise, place, "broken", Promise::is_caught);
    fs::write(&file, text)?;
    checked
}

type Judge = fn(&Promise, Option<i32>, &str) -> Result<(), String>;

fn check(promise: &Promise, place: &Path, which: &str, judge: Judge) -> anyhow::Result<(u64, Result<(), String>)> {
    let path = place.join("logs").join(format!("{}-{which}.log", promise.name));
    let log = File::create(&path).with_context(|| path.display().to_string())?;
    let begun = Instant::now();
    let status = Command::new("timeout")
        .args(["--kill-after=10", &SECONDS.to_string()])
        .arg(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(promise.arguments())
        .current_dir(place.join("tree"))
        .env("CARGO_TARGET_DIR", place.join("build"))
        .env("CARGO_TERM_COLOR", "never")
        // A property test that fails writes no file beside the source.
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("cannot run timeout (package coreutils)")?;
    let mut bytes = Vec::new();
    File::open(&path)?.take(LONGEST_LOG).read_to_end(&mut bytes)?;
    Ok((begun.elapsed().as_secs(), judge(promise, status.code(), &String::from_utf8_lossy(&bytes))))
}

/// Makes the copy like the tree. A file that is the same is not touched: cargo goes by the time it was written.
fn copy(root: &Path, tree: &Path) -> anyhow::Result<()> {
    let files: BTreeSet<PathBuf> = files(root, &[])?.into_iter().collect();
    for file in &files {
        let (from, to) = (root.join(file), tree.join(file));
        if fs::read(&to).ok() != Some(fs::read(&from).with_context(|| from.display().to_string())?) {
            fs::create_dir_all(to.parent().unwrap_or(tree))?;
            fs::copy(&from, &to).with_context(|| to.display().to_string())?;
        }
    }
    remove_others(tree, tree, &files)
}

fn remove_others(dir: &Path, tree: &Path, files: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, tree, files)?;
        } else if !files.contains(path.strip_prefix(tree)?) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(verb: &str, caught_by: &str) -> Promise {
        Promise {
            name: "word".into(),
            file: "a.rs".into(),
            find: "= 1;".into(),
            replace: "= 3600;".into(),
            check: [verb, "-p", "carrick-core"].map(str::to_owned).to_vec(),
            caught_by: caught_by.into(),
        }
    }

    #[test]
    fn only_a_change_that_can_be_made_in_one_place_is_made() {
        let promise = promise("test", "a::word");
        assert_eq!(promise.broken("const WORD: u8 = 1;\n").unwrap(), "const WORD: u8 = 3600;\n");
        for (text, times) in [("", "0 times"), ("a = 1; b = 1;", "2 times")] {
            let error = promise.broken(text).unwrap_err().to_string();
            assert!(error.contains(times), "{error}");
        }
    }

    #[test]
    fn a_change_is_caught_by_the_test_or_lint_that_is_named() {
        let compiles_not = "error[E0425]: cannot find value\nerror: could not compile `carrick-core`\n";
        let lint = "error: wildcard\nnote: the lint level is defined here\n#![deny(clippy::wildcard)]\n";
        for (verb, by, status, log, caught) in [
            ("test", "a::word", Some(101), "test a::word ... FAILED\n", true),
            ("test", "a::word", Some(101), "test a::words ... FAILED\n", false),
            ("test", "a::word", Some(101), compiles_not, false),
            ("test", "a::word", Some(124), "running 1 test\n", false),
            ("test", "a::word", Some(0), "test a::word ... ok\n", false),
            ("clippy", "clippy::wildcard", Some(101), lint, true),
            ("clippy", "clippy::wildcard", Some(101), &format!("{lint}{compiles_not}"), false),
            ("clippy", "clippy::wildcard", Some(0), "", false),
        ] {
            assert_eq!(promise(verb, by).is_caught(status, log).is_ok(), caught, "{verb} {status:?} {log}");
        }
    }

    #[test]
    fn without_the_change_the_test_is_there_and_passes() {
        for (verb, status, log, holds) in [
            ("test", Some(0), "test a::word ... ok\n", true),
            ("test", Some(0), "running 0 tests\n", false),
            ("test", Some(101), "test a::word ... FAILED\n", false),
            ("clippy", Some(0), "", true),
            ("clippy", None, "", false),
        ] {
            assert_eq!(promise(verb, "a::word").holds(status, log).is_ok(), holds, "{verb} {status:?} {log}");
        }
    }

    #[test]
    fn only_what_was_asked_for_is_checked() {
        let names = |asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(|&name| name.to_owned()).collect();
            let all = vec![promise("test", "x"), Promise { name: "look".into(), ..promise("test", "y") }];
            chosen(all, &asked).map(|it| it.into_iter().map(|promise| promise.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["word", "look"]);
        assert_eq!(names(&["look"]).unwrap(), ["look"]);
        assert!(names(&["lok"]).unwrap_err().to_string().contains("word, look"));
    }

    /// The table keeps up with the code without being run.
    #[test]
    fn every_change_of_the_table_can_be_made() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let promises = all(&root).unwrap();
        let names: BTreeSet<&str> = promises.iter().map(|promise| promise.name.as_str()).collect();
        assert_eq!(names.len(), promises.len(), "two of one name");
        for promise in &promises {
            let text = fs::read_to_string(root.join(&promise.file)).unwrap();
            assert_ne!(promise.broken(&text).unwrap(), text, "{}", promise.name);
            assert!(
                promise.is_test() || promise.check.first().is_some_and(|verb| verb == "clippy"),
                "{}",
                promise.name
            );
        }
    }

    /// Where a test, or a lint, would have to stand: of a test by its crate and its whole name.
    fn places(promise: &Promise) -> Vec<PathBuf> {
        let after = |word: &str| promise.check.iter().skip_while(|it| *it != word).nth(1).cloned();
        let package = after("-p").unwrap();
        let home = PathBuf::from("crates").join(package.strip_prefix("carrick-").unwrap_or("cli"));
        if !promise.is_test() {
            return ["mod.rs", "lib.rs"].map(|name| promise.file.with_file_name(name)).into();
        }
        if let Some(test) = after("--test") {
            return vec![home.join("tests").join(test).with_extension("rs")];
        }
        let module = promise.caught_by.split("::").take_while(|part| *part != "tests").collect::<PathBuf>();
        let file = home.join("src").join(module);
        vec![file.with_extension("rs"), file.join("mod.rs"), file.join("tests.rs")]
    }

    #[test]
    fn whoever_is_to_catch_a_change_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for promise in all(&root).unwrap() {
            let name = promise.caught_by.rsplit("::").next().unwrap_or_default();
            let line = if promise.is_test() { format!("fn {name}(") } else { promise.caught_by.clone() };
            let places = places(&promise);
            let there =
                places.iter().any(|place| fs::read_to_string(root.join(place)).is_ok_and(|it| it.contains(&line)));
            assert!(there, "{}: {} is not in {places:?}", promise.name, promise.caught_by);
        }
    }
}
