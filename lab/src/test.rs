//! `test`: runs the cases, several at a time, and sums up.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::build::{self, Parts};
use crate::cache::{Cache, discard};
use crate::case::{Bench, CASES, Case, Schedule};
use crate::coverage::Covers;
use crate::error::{During, Error, Result, said};
use crate::fault::{FAULTS, Fault};
use crate::lab::Lab;
use crate::need::{Need, ROOM, Tools};
use crate::sighting::{self, ToldCause};
use crate::tier::{Choice, Tier};
use crate::{coverage, fault, join, say, stop, up};

/// The lab the shared cluster is in; a person's own may be up beside it.
const LAB: &str = "test";

/// What the names of the labs begin with that cases make for themselves.
const CASES_LABS: &str = "case-";

#[derive(clap::Args)]
pub struct Options {
    /// Run the cases whose names contain one of these, whatever their tier
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// How much to run (default: quick), and with how many repeats (default with FILTER: as in standard)
    #[arg(long)]
    tier: Option<Tier>,
    /// How many at a time; what has to be alone is, afterwards
    #[arg(long, default_value_t = 3)]
    jobs: usize,
    /// Say which there are of the tier (default here: full), with theirs, and run none
    #[arg(long)]
    list: bool,
    /// Where the logs of failed cases stay (default: in the lab's cache)
    #[arg(long)]
    logs: Option<PathBuf>,
}

impl Options {
    fn choice(&self) -> Choice<'_> {
        let tier = self.tier.or(self.list.then_some(Tier::Full));
        Choice::new(&self.filters, tier)
    }
}

/// Something to run: a case, or a fault that must show its symptoms.
#[derive(Clone)]
struct Item {
    name: String,
    about: &'static str,
    tier: Tier,
    covers: Vec<Covers>,
    needs: Vec<Need>,
    work: Work,
}

#[derive(Clone, Copy)]
enum Work {
    Case(&'static Case),
    Fault(&'static Fault),
    /// carrick joins a machine with a fault.
    Join(&'static join::Row),
}

impl Item {
    fn all() -> Result<Vec<Self>> {
        let cases = CASES.iter().map(|one| {
            Ok(Self {
                name: one.name.to_owned(),
                about: one.case.about,
                tier: one.case.tier,
                covers: one.case.covers.to_vec(),
                needs: one.case.needs.to_vec(),
                work: Work::Case(one.case),
            })
        });
        let faults = FAULTS.iter().map(|one| {
            Ok(Self {
                name: format!("fault-{}", one.name),
                about: one.fault.about,
                tier: one.fault.tier,
                covers: Vec::new(),
                needs: one.fault.needs(),
                work: Work::Fault(one.fault),
            })
        });
        let joins = join::ROWS.iter().filter(|row| row.is_played()).map(|row| {
            let fault = fault::find(row.fault)?.fault;
            Ok(Self {
                name: format!("join-with-{}", row.fault),
                about: "carrick join names the fault, or joins all the same",
                tier: row.tier,
                covers: coverage::of_row(row, fault.cause),
                needs: fault.needs(),
                work: Work::Join(row),
            })
        });
        cases.chain(faults).chain(joins).collect()
    }

    /// Whether it is played when all others have ended, by itself.
    fn is_alone(&self, tier: Tier) -> bool {
        let timed = matches!(self.work, Work::Join(row) if row.tells() && row.alone <= tier);
        timed || self.needs.contains(&Need::Alone)
    }
}

struct Ending {
    name: String,
    error: Option<Error>,
    /// What a fault asked to hold.
    demanded: BTreeSet<String>,
    sightings: Vec<ToldCause>,
    /// What carrick is to do, and does not yet.
    owed: Option<String>,
}

pub fn test(cache: &Cache, lab: Option<&str>, options: &Options) -> Result<ExitCode> {
    let choice = options.choice();
    let chosen: Vec<Item> = Item::all()?.into_iter().filter(|item| choice.takes(&item.name, item.tier)).collect();
    if chosen.is_empty() {
        let filters = options.filters.join("\", \"");
        return said(format!("no case is called like \"{filters}\"; `test --list` says which there are"));
    }
    if options.list {
        for Item { name, about, tier, covers, .. } in chosen {
            let covers: Vec<String> = covers.iter().map(ToString::to_string).collect();
            let covers = if covers.is_empty() { String::new() } else { format!(" ({})", covers.join(", ")) };
            say::plain(&format!("{:<9} {name:<32} {about}{covers}", tier.name()));
        }
        return Ok(ExitCode::SUCCESS);
    }
    // carrick refuses a machine whose disk is full: how full the real one is must not decide a case.
    let lab = Lab::take(cache, lab.unwrap_or(LAB))?.with_own_disk();
    match play(cache, &lab, options, &choice, &chosen) {
        // Where nothing could be played the last line says so, too.
        Err(error) if !stop::asked() => {
            say::plain(&format!("\n{error}"));
            say::plain(&choice.closing(0, chosen.len()));
            Ok(ExitCode::FAILURE)
        }
        ended => ended,
    }
}

fn play(cache: &Cache, lab: &Lab, options: &Options, choice: &Choice, chosen: &[Item]) -> Result<ExitCode> {
    let begun = Instant::now();
    tools(cache, chosen)?.ask()?;
    let parts = build::build(cache, parts(chosen))?;
    lab.clear_leftovers()?;
    let logs = options.logs.clone().unwrap_or_else(|| cache.root().join("logs").join(lab.name()));
    discard(&logs)?;
    let endings = run(cache, lab, &parts, chosen, &Pace { tier: choice.tier(), jobs: options.jobs.max(1) }, &logs);
    // Also where the cluster itself did not come up.
    lab.clear()?;
    if stop::asked() {
        return Lab::clear_all(cache, CASES_LABS).and(Err(Error::Stopped));
    }
    let endings = endings?;
    how_soon(&endings, options.jobs, &logs)?;
    say::plain(&owed(&endings));
    Ok(sum_up(&endings, choice, begun.elapsed(), &logs))
}

fn parts(chosen: &[Item]) -> impl Iterator<Item = build::Part> {
    chosen.iter().flat_map(|item| &item.needs).copied().flat_map(Need::parts)
}

/// All that has to be installed here, for building and for playing.
fn tools(cache: &Cache, chosen: &[Item]) -> Result<Tools> {
    let mut tools = Tools::default();
    tools.wanted(ROOM, "every test");
    for item in chosen {
        tools.of_needs(&item.needs, &item.name);
    }
    build::tools_to_build(cache, &build::with_all_below(parts(chosen)), &mut tools)?;
    Ok(tools)
}

/// Prints how soon causes were told, and keeps it beside the logs.
fn how_soon(endings: &[Ending], jobs: usize, logs: &Path) -> Result<()> {
    let mut sightings: Vec<&ToldCause> = endings.iter().flat_map(|ending| &ending.sightings).collect();
    if sightings.is_empty() {
        return Ok(());
    }
    sightings.sort_by_key(|sighting| sighting.fault);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let table = sighting::table(&sightings);
    let table = format!("{table}\n({jobs} at a time, or alone; load averages at the end: {})", load.trim());
    say::plain(&format!("\n{table}"));
    let place = logs.join("told.md");
    fs::write(&place, table).at("write", &place)
}

/// What ends as it does today, and is to end otherwise.
fn owed(endings: &[Ending]) -> String {
    let lines = endings.iter().filter_map(|one| Some(format!("\n  {:<32} {}", one.name, one.owed.as_ref()?)));
    let lines: Vec<String> = lines.collect();
    format!("\nowed: {}{}", lines.len(), lines.concat())
}

struct Pace {
    tier: Tier,
    jobs: usize,
}

fn run(cache: &Cache, lab: &Lab, parts: &Parts, chosen: &[Item], pace: &Pace, logs: &Path) -> Result<Vec<Ending>> {
    lab.prepare()?;
    let needed = chosen.iter().any(|item| item.needs.contains(&Need::Cluster));
    let cluster = needed.then(|| up::start_cluster(lab, parts)).transpose()?;
    let endings = Mutex::new(Vec::new());
    let (alone, together): (Vec<&Item>, Vec<&Item>) = chosen.iter().partition(|item| item.is_alone(pace.tier));
    for (items, jobs) in [(together, pace.jobs), (alone, 1)] {
        let queue = Mutex::new(VecDeque::from(items));
        let manner = Schedule { tier: pace.tier, alone: jobs == 1 };
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while !stop::asked()
                        && let Some(item) = queue.lock().ok().and_then(|mut queue| queue.pop_front())
                    {
                        let own = logs.join(&item.name);
                        let bench = Bench::new(cache, parts, lab, cluster.as_ref(), manner, &own);
                        let ending = one(bench, item);
                        if let Ok(mut endings) = endings.lock() {
                            endings.push(ending);
                        }
                    }
                });
            }
        });
    }
    endings.into_inner().or_else(|_| said("a case took the runner down with it"))
}

fn one(bench: Result<Bench>, item: &Item) -> Ending {
    let begun = Instant::now();
    let (mut times, mut demanded, mut sightings) = (Vec::new(), BTreeSet::new(), Vec::new());
    let ended = bench.and_then(|mut bench| {
        let ended = catch_unwind(AssertUnwindSafe(|| match item.work {
            Work::Case(case) => (case.run)(&mut bench),
            Work::Fault(fault) => bench.plays(fault).map(|asked| demanded = asked),
            Work::Join(row) => join::play(&mut bench, row),
        }));
        let ended = ended.unwrap_or_else(|_| said("it panicked"));
        if let Err(error) = &ended {
            bench.say(format_args!("FAILED: {error}"));
            bench.keep_evidence();
        }
        (times, sightings) = (std::mem::take(&mut bench.times), std::mem::take(&mut bench.sightings));
        // What it leaves behind would fail another case: that is a failure too.
        let cleared = bench.clear();
        if ended.is_ok() && cleared.is_ok() {
            let _ = discard(&bench.logs);
        }
        ended.and(cleared)
    });
    if !stop::asked() {
        report(&item.name, ended.is_ok(), begun.elapsed(), &times);
    }
    let owed = if let Work::Join(row) = item.work { row.owes() } else { None };
    Ending { name: item.name.clone(), error: ended.err(), demanded, sightings, owed }
}

fn report(name: &str, passed: bool, took: Duration, times: &[(String, Duration)]) {
    let times =
        times.iter().map(|(what, took)| format!("{what} {}", say::seconds(*took))).collect::<Vec<_>>().join(", ");
    let verdict = if passed { "ok    " } else { "FAILED" };
    say::line(&format!("{verdict} {name:<30} {:>7}  {times}", say::seconds(took)));
}

fn sum_up(endings: &[Ending], choice: &Choice, took: Duration, logs: &Path) -> ExitCode {
    let failed: Vec<(&str, &Error)> =
        endings.iter().filter_map(|ending| Some((ending.name.as_str(), ending.error.as_ref()?))).collect();
    for (name, error) in &failed {
        say::plain(&format!("\n{name}: {error}\n    log: {}", logs.join(name).display()));
    }
    let alike = alike(endings);
    for (one, other) in &alike {
        say::plain(&format!("\n{one} and {other} ask for the same: nothing tells one from the other"));
    }
    say::plain(&format!("\nplayed in {}", say::seconds(took)));
    let (passed, broken) = counts(endings, &alike);
    say::plain(&choice.closing(passed, broken));
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many passed, and how many did not: together, all of them. Of two that are alike one is no test of its own.
fn counts(endings: &[Ending], alike: &[(&str, &str)]) -> (usize, usize) {
    let failed = endings.iter().filter(|ending| ending.error.is_some()).map(|ending| ending.name.as_str());
    let broken: BTreeSet<&str> = failed.chain(alike.iter().map(|(_, other)| *other)).collect();
    (endings.len() - broken.len(), broken.len())
}

/// Faults of which one asked for the very same as another: one of them would pass in the other's place.
fn alike(endings: &[Ending]) -> Vec<(&str, &str)> {
    let faults: Vec<&Ending> =
        endings.iter().filter(|ending| ending.error.is_none() && !ending.demanded.is_empty()).collect();
    let pairs = faults.iter().enumerate().flat_map(|(n, one)| faults.iter().skip(n + 1).map(move |other| (one, other)));
    pairs
        .filter(|(one, other)| one.demanded == other.demanded)
        .map(|(one, other)| (one.name.as_str(), other.name.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::need;

    #[test]
    fn two_faults_that_ask_for_the_same_are_found() {
        let ending = |name: &str, demanded: &[&str]| Ending {
            name: name.to_owned(),
            error: None,
            demanded: demanded.iter().map(|&what| what.to_owned()).collect(),
            sightings: Vec::new(),
            owed: None,
        };
        let endings = [
            ending("a", &["kubeadm fails", "no Node"]),
            ending("b", &["kubeadm fails"]),
            ending("c", &["no Node", "kubeadm fails"]),
            ending("a case", &[]),
            ending("another case", &[]),
        ];
        assert_eq!(alike(&endings), [("a", "c")]);
    }

    #[test]
    fn what_passed_and_what_did_not_is_all_there_is() {
        let ending = |name: &str, fails: bool| Ending {
            name: name.to_owned(),
            error: fails.then(|| Error::Said("no".to_owned())),
            demanded: BTreeSet::new(),
            sightings: Vec::new(),
            owed: None,
        };
        let endings = [ending("a", false), ending("b", true), ending("c", false), ending("d", false)];
        for (alike, expected) in [
            (&[][..], (3, 1)),
            (&[("a", "c")], (2, 2)),
            // Three that are alike are three pairs, and two tests too few.
            (&[("a", "c"), ("a", "d"), ("c", "d")], (1, 3)),
        ] {
            assert_eq!(counts(&endings, alike), expected, "{alike:?}");
        }
    }

    #[test]
    fn what_is_owed_is_counted_and_named() {
        let ending = |name: &str, owed: Option<&str>| Ending {
            name: name.to_owned(),
            error: None,
            demanded: BTreeSet::new(),
            sightings: Vec::new(),
            owed: owed.map(str::to_owned),
        };
        assert_eq!(owed(&[ending("verify", None)]), "\nowed: 0");
        let endings = [ending("verify", None), ending("join-with-ufw-on", Some("ends joined"))];
        let line = "\n  join-with-ufw-on                 ends joined";
        assert_eq!(owed(&endings), format!("\nowed: 1{line}"));
    }

    #[test]
    fn quick_has_every_kind_of_work_but_plain_faults_and_a_few_that_are_timed_alone() {
        let all = Item::all().unwrap();
        let quick: Vec<&Item> = all.iter().filter(|item| item.tier == Tier::Quick).collect();
        assert!(quick.iter().all(|item| !matches!(item.work, Work::Fault(_))));
        assert!(quick.iter().any(|item| matches!(item.work, Work::Case(_))));
        let timed = |tier| quick.iter().filter(|item| item.is_alone(tier)).count();
        assert!((2..=4).contains(&timed(Tier::Quick)), "{} rows are timed in quick", timed(Tier::Quick));
        assert!(timed(Tier::Full) > timed(Tier::Quick));
    }

    /// Verbs that no machine is needed for: tests of the workspace have them.
    const HERMETIC: [&str; 2] = ["demo", "explain"];

    /// As they are typed, by the files they are in.
    fn verbs() -> BTreeSet<String> {
        let names = |dir: &Path| -> Vec<String> {
            let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
            entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
        };
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/cli/src/verb");
        let of_cni = names(&dir.join("cni")).into_iter().filter(|name| name != "mod").map(|name| format!("cni {name}"));
        let others = names(&dir).into_iter().filter(|name| !["mod", "cni"].contains(&name.as_str()));
        others.filter(|name| !HERMETIC.contains(&name.as_str())).chain(of_cni).collect()
    }

    #[test]
    fn quick_has_one_of_each_verb_promise_and_family_of_causes() {
        let all = Item::all().unwrap();
        let quick: BTreeSet<Covers> =
            all.iter().filter(|item| item.tier == Tier::Quick).flat_map(|item| item.covers.clone()).collect();
        let verbs = verbs();
        assert!(verbs.contains("join") && verbs.contains("cni sync"), "{verbs:?}");
        for verb in &verbs {
            assert!(quick.iter().any(|it| matches!(it, Covers::Verb(known) if known == verb)), "no case plays {verb}");
        }
        for number in 1..=9 {
            assert!(quick.contains(&Covers::Promise(number)), "no case shows promise {number}");
        }
        for one in FAULTS.iter().filter(|one| one.fault.cause != "none") {
            let family = coverage::family(one.fault.cause);
            assert!(quick.contains(&Covers::Family(family)), "no case has a cause of {family}: {}", one.name);
        }
    }

    #[test]
    fn what_a_case_covers_is_there() {
        let verbs = verbs();
        for item in Item::all().unwrap() {
            for covers in &item.covers {
                let known = match covers {
                    Covers::Verb(verb) => verbs.contains(*verb) || HERMETIC.contains(verb),
                    Covers::Promise(number) => (1..=9).contains(number),
                    Covers::Family(family) => FAULTS.iter().any(|one| coverage::family(one.fault.cause) == *family),
                };
                assert!(known, "{}: {covers:?}", item.name);
            }
        }
    }

    #[test]
    fn ci_installs_every_tool_that_a_case_can_ask_for() {
        let mut tools = Tools::default();
        for tools_of in need::BESIDE_CASES {
            tools.wanted(tools_of, "the lab");
        }
        for item in Item::all().unwrap() {
            tools.of_needs(&item.needs, &item.name);
        }
        let ci = include_str!("../../.ci/run");
        let block = ci.split_once("\npackages=(\n").unwrap().1.split_once("\n)\n").unwrap().0;
        let lines = block.lines().filter(|line| !line.trim_start().starts_with('#'));
        let installed: BTreeSet<&str> = lines.flat_map(str::split_whitespace).collect();
        for package in tools.packages() {
            assert!(installed.contains(package), ".ci/run does not install {package}");
        }
    }

    #[test]
    fn names_are_unique() {
        let all = Item::all().unwrap();
        let names: BTreeSet<&str> = all.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
    }
}
