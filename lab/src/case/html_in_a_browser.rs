//! The HTML report in a real browser, as people will read it: on a phone and on a desk, by day and by night, on paper.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Bench, Case, workspace};
use crate::browser::{Browser, View};
use crate::coverage::Covers;
use crate::demand;
use crate::error::{During, Result, said};
use crate::need::{CHROMIUM, Need};
use crate::run::Run;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "the HTML report fits a phone and a desk, can be read in light, dark and print, and asks nothing of the network",
    tier: Tier::Standard,
    covers: &[Covers::Verb("diagnose"), Covers::Verb("demo")],
    needs: &[Need::Tool(CHROMIUM)],
    run,
};

/// Pages as the program itself makes them.
const MADE: [(&str, &[&str]); 2] =
    [("demo", &["demo", "--output", "html"]), ("capture", &["diagnose", CAPTURE, "--output", "html"])];
const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/captures/flannel-crash-looping/paste.txt");
/// Pages kept by the renderer's tests: a diagnosis, and one with hostile text and more of everything than there is room.
const KEPT: &str = "crates/cli/src/render/html/snapshots";

const MEASURE: &str = include_str!("../../files/measure-page.js");
const PHONE: (u32, u32) = (390, 844);
const DESK: (u32, u32) = (1440, 900);
/// A4 between its margins.
const PAPER: (u32, u32) = (688, 1000);

/// Everything this case must be able to see, on one page. What it asks for goes no further than this machine.
const BAD: &str = r#"<!doctype html><title>bad</title><body style="background:#fff">
<p style="color:#bbb">pale</p><div style="width:3000px">wide</div>
<svg role="img" viewBox="0 0 300 40"><g class="node"><rect class="box" width="20" height="20"/>
<text y="10">outside of its box</text><text y="12">over the other</text></g></svg>
<details><summary>folded</summary><p>never seen on paper</p></details>
<img src="http://127.0.0.1:9/picture.png"><script>console.error("a word")</script>"#;

fn run(bench: &mut Bench) -> Result<()> {
    let pages = pages(bench)?;
    // Beside the case's own folder, which goes when it passes: these are to be looked at.
    let pictures = bench.logs.with_file_name("screenshots");
    fs::create_dir_all(&pictures).at("make", &pictures)?;
    let begun = Instant::now();
    let mut browser = Browser::start(&bench.logs)?;
    bench.time("browser", begun.elapsed());
    sees_what_is_bad(bench, &mut browser)?;
    for page in &pages {
        let begun = Instant::now();
        looks_good(bench, &mut browser, page, &pictures)?;
        bench.time(name(page), begun.elapsed());
    }
    Ok(())
}

fn sees_what_is_bad(bench: &mut Bench, browser: &mut Browser) -> Result<()> {
    let bad = bench.logs.join("bad.html");
    fs::write(&bad, BAD).at("write", &bad)?;
    let (width, height) = PHONE;
    let seen = complaints(browser, &bad, View { width, height, scheme: "light", media: "print" })?;
    bench.say(format_args!("of a bad page: {seen:#?}"));
    for kind in ["console: ", "request: ", "wide: ", "pale: ", "box: ", "covered: ", "folded: "] {
        demand!(seen.iter().any(|one| one.starts_with(kind)), "this case would not see a \"{kind}\": {seen:?}");
    }
    Ok(())
}

fn looks_good(bench: &mut Bench, browser: &mut Browser, page: &Path, pictures: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    for (media, sizes) in [("screen", &[PHONE, DESK][..]), ("print", &[PAPER])] {
        for (&(width, height), scheme) in sizes.iter().flat_map(|size| [(size, "light"), (size, "dark")]) {
            let seen = complaints(browser, page, View { width, height, scheme, media })?;
            wrong.extend(seen.into_iter().map(|one| format!("{media} {scheme} {width}: {one}")));
            browser.screenshot(&pictures.join(format!("{}-{media}-{scheme}-{width}.png", name(page))))?;
        }
    }
    browser.print(&pictures.join(format!("{}.pdf", name(page))))?;
    bench.say(format_args!("{}: {wrong:#?}", page.display()));
    demand!(wrong.is_empty(), "{}: {}", name(page), wrong.join("\n"));
    Ok(())
}

fn complaints(browser: &mut Browser, page: &Path, view: View) -> Result<Vec<String>> {
    browser.open(page, view)?;
    let measured = browser.evaluate(MEASURE, view.width)?;
    let Some(measured) = measured.as_array() else { return said(format!("measuring gave {measured}")) };
    let measured = measured.iter().map(|one| one.as_str().unwrap_or_default().to_owned());
    Ok(browser.complaints(page).into_iter().chain(measured).collect())
}

/// All pages to be looked at, as files of this case.
fn pages(bench: &mut Bench) -> Result<Vec<PathBuf>> {
    let carrick = bench.carrick()?;
    let mut pages = Vec::new();
    for (name, words) in MADE {
        let page = bench.logs.join(format!("{name}.html"));
        // A page is printed whatever the verdict.
        let text = Run::new(&carrick).args(words).done()?.out;
        demand!(text.starts_with("<!doctype html>"), "carrick {} printed no page: {text:.80}", words.join(" "));
        fs::write(&page, text).at("write", &page)?;
        pages.push(page);
    }
    let kept = workspace().join(KEPT);
    let mut files: Vec<PathBuf> = fs::read_dir(&kept).at("list", &kept)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "html"));
    files.sort();
    demand!(!files.is_empty(), "there is no page in {}", kept.display());
    for file in files {
        let name = name(&file).rsplit("__").next().unwrap_or_default().replace(".snap", "");
        let page = bench.logs.join(format!("{name}.html"));
        fs::copy(&file, &page).at("copy", &file)?;
        pages.push(page);
    }
    Ok(pages)
}

fn name(page: &Path) -> String {
    page.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
