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
use crate::case::{Bench, CASES, Case, Needs};
use crate::error::{During, Error, Result, said};
use crate::fault::{FAULTS, Fault};
use crate::lab::Lab;
use crate::sighting::{self, Sighting};
use crate::{join, say, stop, up};

/// The lab the shared cluster is in; a person's own may be up beside it.
const LAB: &str = "test";

/// What the names of the labs begin with that cases make for themselves.
const CASES_LABS: &str = "case-";

#[derive(clap::Args)]
pub struct Options {
    /// Run only the cases whose names contain one of these
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// How many at a time
    #[arg(long, default_value_t = 3)]
    jobs: usize,
    /// Say which there are, and run none
    #[arg(long)]
    list: bool,
    /// Where the logs of failed cases stay (default: in the lab's cache)
    #[arg(long)]
    logs: Option<PathBuf>,
}

/// What changes something that all machines share, as the kernel's swap: run when all others have ended, one at a time.
const ALONE: [&str; 1] = ["fix-swap"];

/// Something to run: a case, or a fault that must show its symptoms.
#[derive(Clone)]
struct Item {
    name: String,
    about: &'static str,
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
    fn all() -> impl Iterator<Item = Self> {
        let cases = CASES.iter().map(|one| Self {
            name: one.name.to_owned(),
            about: one.case.about,
            work: Work::Case(one.case),
        });
        let faults = FAULTS.iter().map(|one| Self {
            name: format!("fault-{}", one.name),
            about: one.fault.about,
            work: Work::Fault(one.fault),
        });
        let joins = join::ROWS.iter().filter(|row| row.is_played()).map(|row| Self {
            name: format!("join-with-{}", row.fault),
            about: "carrick join names the fault, or joins all the same",
            work: Work::Join(row),
        });
        cases.chain(faults).chain(joins)
    }

    fn needs_cluster(&self) -> bool {
        match self.work {
            Work::Case(case) => case.needs == Needs::Cluster,
            Work::Fault(_) | Work::Join(_) => true,
        }
    }
}

struct Ending {
    name: String,
    error: Option<Error>,
    /// What a fault asked to hold.
    demanded: BTreeSet<String>,
    sightings: Vec<Sighting>,
}

pub fn test(cache: &Cache, lab: Option<&str>, options: &Options) -> Result<ExitCode> {
    let filters = &options.filters;
    let named = |item: &Item| filters.iter().any(|filter| item.name.contains(filter.as_str()));
    let wanted = |item: &Item| filters.is_empty() || named(item);
    let cases: Vec<Item> = Item::all().filter(wanted).collect();
    if cases.is_empty() {
        let filters = filters.join("\", \"");
        return said(format!("no case is called like \"{filters}\"; `test --list` says which there are"));
    }
    if options.list {
        for item in cases {
            say::plain(&format!("{:<32} {}", item.name, item.about));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let begun = Instant::now();
    let parts = build::build(cache)?;
    // carrick refuses a machine whose disk is full: how full the real one is must not decide a case.
    let lab = Lab::take(cache, lab.unwrap_or(LAB))?.with_own_disk();
    lab.clear_leftovers()?;
    let logs = options.logs.clone().unwrap_or_else(|| cache.root().join("logs").join(lab.name()));
    discard(&logs)?;
    let endings = run(cache, &lab, &parts, &cases, options.jobs.max(1), &logs);
    // Also where the cluster itself did not come up.
    lab.clear()?;
    if stop::asked() {
        return Lab::clear_all(cache, CASES_LABS).and(Err(Error::Stopped));
    }
    let endings = endings?;
    how_soon(&endings, options.jobs, &logs)?;
    Ok(sum_up(&endings, begun.elapsed(), &logs))
}

/// Prints how soon causes were told, and keeps it beside the logs.
fn how_soon(endings: &[Ending], jobs: usize, logs: &Path) -> Result<()> {
    let mut sightings: Vec<&Sighting> = endings.iter().flat_map(|ending| &ending.sightings).collect();
    if sightings.is_empty() {
        return Ok(());
    }
    sightings.sort_by_key(|sighting| sighting.fault);
    let judged = format!("{jobs} at a time: held to {} s", sighting::latest(jobs <= 1).as_secs());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let table = format!("{}\n({judged}; load averages at the end: {})", sighting::table(&sightings), load.trim());
    say::plain(&format!("\n{table}"));
    let place = logs.join("told.md");
    fs::write(&place, table).at("write", &place)
}

fn run(cache: &Cache, lab: &Lab, parts: &Parts, cases: &[Item], jobs: usize, logs: &Path) -> Result<Vec<Ending>> {
    lab.prepare()?;
    let needed = cases.iter().any(Item::needs_cluster);
    let cluster = needed.then(|| up::start_cluster(lab, parts)).transpose()?;
    let endings = Mutex::new(Vec::new());
    let (alone, together): (Vec<&Item>, Vec<&Item>) =
        cases.iter().partition(|item| ALONE.contains(&item.name.as_str()));
    for (items, jobs) in [(together, jobs), (alone, 1)] {
        let queue = Mutex::new(VecDeque::from(items));
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while !stop::asked()
                        && let Some(item) = queue.lock().ok().and_then(|mut queue| queue.pop_front())
                    {
                        let place = logs.join(&item.name);
                        let bench = Bench::new(cache, parts, lab, cluster.as_ref(), &place, jobs == 1);
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
    Ending { name: item.name.clone(), error: ended.err(), demanded, sightings }
}

fn report(name: &str, passed: bool, took: Duration, times: &[(String, Duration)]) {
    let times =
        times.iter().map(|(what, took)| format!("{what} {}", say::seconds(*took))).collect::<Vec<_>>().join(", ");
    let verdict = if passed { "ok    " } else { "FAILED" };
    say::line(&format!("{verdict} {name:<30} {:>7}  {times}", say::seconds(took)));
}

fn sum_up(endings: &[Ending], took: Duration, logs: &Path) -> ExitCode {
    let failed: Vec<(&str, &Error)> =
        endings.iter().filter_map(|ending| Some((ending.name.as_str(), ending.error.as_ref()?))).collect();
    for (name, error) in &failed {
        say::plain(&format!("\n{name}: {error}\n    log: {}", logs.join(name).display()));
    }
    let alike = alike(endings);
    for (one, other) in &alike {
        say::plain(&format!("\n{one} and {other} ask for the same: nothing tells one from the other"));
    }
    let (passed, broken) = (endings.len() - failed.len(), failed.len());
    say::plain(&format!("\n{passed} passed, {broken} failed in {}", say::seconds(took)));
    if broken == 0 && alike.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

    #[test]
    fn two_faults_that_ask_for_the_same_are_found() {
        let ending = |name: &str, demanded: &[&str]| Ending {
            name: name.to_owned(),
            error: None,
            demanded: demanded.iter().map(|&what| what.to_owned()).collect(),
            sightings: Vec::new(),
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
}
