//! `test`: runs the cases, several at a time, and sums up.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::build::{self, Parts};
use crate::cache::{Cache, discard};
use crate::case::{Bench, CASES, Needs, Registered};
use crate::cluster::Cluster;
use crate::error::{During, Error, Result, said};
use crate::lab::Lab;
use crate::{say, up};

/// The lab the shared cluster is in; a person's own may be up beside it.
const LAB: &str = "test";

#[derive(clap::Args)]
pub struct Options {
    /// Run only the cases whose names contain this
    filter: Option<String>,
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

struct Ending {
    name: &'static str,
    error: Option<Error>,
}

pub fn test(cache: &Cache, lab: Option<&str>, options: &Options) -> Result<ExitCode> {
    let wanted = |case: &&Registered| options.filter.as_ref().is_none_or(|filter| case.name.contains(filter.as_str()));
    let cases: Vec<&Registered> = CASES.iter().filter(wanted).collect();
    if cases.is_empty() {
        return said(format!("no case is called like \"{}\"; `test --list` says which there are", options.filter.as_deref().unwrap_or("")));
    }
    if options.list {
        for registered in cases {
            say::plain(&format!("{:<28} {}", registered.name, registered.case.about));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let begun = Instant::now();
    let parts = build::build(cache)?;
    let lab = Lab::take(cache, lab.unwrap_or(LAB))?;
    lab.clear_leftovers()?;
    let logs = options.logs.clone().unwrap_or_else(|| cache.root().join("logs").join(lab.name()));
    discard(&logs)?;
    let endings = run(cache, &lab, &parts, &cases, options.jobs.max(1), &logs);
    // Also where the cluster itself did not come up.
    lab.clear()?;
    Ok(sum_up(&endings?, begun.elapsed(), &logs))
}

fn run(cache: &Cache, lab: &Lab, parts: &Parts, cases: &[&'static Registered], jobs: usize, logs: &Path) -> Result<Vec<Ending>> {
    lab.prepare()?;
    let needed = cases.iter().any(|registered| registered.case.needs == Needs::Cluster);
    let cluster = needed.then(|| up::start_cluster(lab, parts)).transpose()?;
    let queue = Mutex::new(cases.iter().copied().collect::<VecDeque<_>>());
    let endings = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(registered) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) {
                    let ending = one(cache, lab, parts, cluster.as_ref(), registered, &logs.join(registered.name));
                    if let Ok(mut endings) = endings.lock() {
                        endings.push(ending);
                    }
                }
            });
        }
    });
    endings.into_inner().or_else(|_| said("a case took the runner down with it"))
}

fn one(cache: &Cache, lab: &Lab, parts: &Parts, cluster: Option<&Cluster>, registered: &'static Registered, logs: &Path) -> Ending {
    let begun = Instant::now();
    let mut times = Vec::new();
    let ended = fs::create_dir_all(logs).at("make", logs).and_then(|()| {
        let mut bench = Bench::new(cache, parts, lab, cluster, logs)?;
        let ended = catch_unwind(AssertUnwindSafe(|| (registered.case.run)(&mut bench)));
        let ended = ended.unwrap_or_else(|_| said("it panicked"));
        if let Err(error) = &ended {
            bench.say(format_args!("FAILED: {error}"));
            bench.keep_evidence();
        }
        times = std::mem::take(&mut bench.times);
        // What it leaves behind would fail another case: that is a failure too.
        let cleared = bench.clear();
        ended.and(cleared)
    });
    report(registered.name, ended.is_ok(), begun.elapsed(), &times);
    if ended.is_ok() {
        let _ = discard(logs);
    }
    Ending { name: registered.name, error: ended.err() }
}

fn report(name: &str, passed: bool, took: Duration, times: &[(String, Duration)]) {
    let times = times.iter().map(|(what, took)| format!("{what} {}", say::seconds(*took))).collect::<Vec<_>>().join(", ");
    let verdict = if passed { "ok    " } else { "FAILED" };
    say::line(&format!("{verdict} {name:<26} {:>7}  {times}", say::seconds(took)));
}

fn sum_up(endings: &[Ending], took: Duration, logs: &Path) -> ExitCode {
    let failed: Vec<(&str, &Error)> = endings.iter().filter_map(|ending| Some((ending.name, ending.error.as_ref()?))).collect();
    for (name, error) in &failed {
        say::plain(&format!("\n{name}: {error}\n    log: {}", logs.join(name).display()));
    }
    let (passed, broken) = (endings.len() - failed.len(), failed.len());
    say::plain(&format!("\n{passed} passed, {broken} failed in {}", say::seconds(took)));
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
