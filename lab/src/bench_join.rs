//! `bench-join`: `carrick join` to its end beside plain `kubeadm join` until the node works, by turns, each on a fresh
//! worker of the same cluster.
//!
//! Plain kubeadm ends before the node can run anything. What a person does then is done here at the machine's own speed:
//! the Node is watched for Ready, and a sandbox is tried again and again, both from the beginning of the join.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use carrick_host::{Local, cri, cri::sandbox};

use crate::build::{self, Part};
use crate::cache::{Cache, discard};
use crate::case::{Bench, Schedule};
use crate::error::{During, Error, Result, said};
use crate::join::{PROGRAM, is_joined, join, line};
use crate::lab::Lab;
use crate::machine::{Kind, Machine};
use crate::run::{OWN, pause};
use crate::tier::Tier;
use crate::times::Times;
use crate::{demand, need, say, stop, up};

/// The lab it is done in, beside a person's and the tests'.
const LAB: &str = "bench";
/// How much longer than plain kubeadm a join that is proven may take.
const BAR: f64 = 1.25;
/// Every machine is of this kind: one kind is compared with itself.
const KIND: Kind = Kind::Debian12;

/// The verb (not for people) under which this program tries sandboxes on a worker, and its place there.
pub const TRY: &str = "try-sandbox";
const TRIER: &str = "/usr/local/bin/carrick-lab";
/// From the beginning of one try to that of the next.
const TRY_EVERY: Duration = Duration::from_millis(500);
/// A node of the lab has its network after seconds.
const TRY_DEADLINE: Duration = Duration::from_mins(3);
/// The trier must be the one that gives up.
const TRIER_DEADLINE: Duration = Duration::from_mins(4);

#[derive(clap::Args)]
pub struct Options {
    /// The carrick to measure: a release build
    #[arg(long, value_name = "FILE")]
    carrick: PathBuf,
    /// How often each joins
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// What was measured of each.
#[derive(Default)]
struct Figures {
    kubeadm: Times,
    ready: Times,
    address: Times,
    plain: Times,
    carrick: Times,
}

pub fn bench_join(cache: &Cache, lab: Option<&str>, options: &Options) -> Result<ExitCode> {
    if options.runs == 0 {
        return said("--runs 0 measures nothing");
    }
    need::for_machines("bench join")?;
    let parts = build::build(cache, Part::of(KIND).into_iter().chain(Part::CONTROL_PLANE.iter().copied()))?;
    let lab = Lab::take(cache, lab.unwrap_or(LAB))?.with_own_disk();
    lab.clear_leftovers()?;
    let logs = cache.root().join("logs").join(lab.name());
    discard(&logs)?;
    let measured = std::fs::create_dir_all(&logs).at("make", &logs).and_then(|()| {
        lab.prepare()?;
        let cluster = up::start_cluster(&lab, &parts)?;
        let mut bench =
            Bench::new(cache, &parts, &lab, Some(&cluster), Schedule { tier: Tier::Full, alone: true }, &logs)?;
        measure(&mut bench, options).inspect_err(|_| bench.keep_evidence())
    });
    lab.clear()?;
    stop::check()?;
    Ok(told(&measured?, options.runs))
}

/// By turns: what else the machine does meets both.
fn measure(bench: &mut Bench, options: &Options) -> Result<Figures> {
    let mut figures = Figures::default();
    for run in 1..=options.runs {
        let plain = by_kubeadm(bench, &mut figures)?;
        let carrick = by_carrick(bench, &options.carrick)?;
        figures.carrick.push(carrick);
        let (plain, carrick) = (say::seconds(plain), say::seconds(carrick));
        say::line(&format!("{run} of {}: plain {plain}, carrick {carrick}; load {}", options.runs, load()));
    }
    Ok(figures)
}

/// After how long the Node was Ready and a sandbox had an address.
fn by_kubeadm(bench: &mut Bench, figures: &mut Figures) -> Result<Duration> {
    let (cluster, worker) = (bench.cluster()?, bench.worker(KIND)?);
    worker.replace(TRIER, Path::new(OWN))?;
    let begun = Instant::now();
    let (joined, ready, address) = thread::scope(|scope| {
        let ready = scope.spawn(|| cluster.wait_ready(&worker.identity.name));
        let address = scope.spawn(|| first_address(&worker, begun));
        let joined = cluster.join(&worker);
        let panicked = || said("a watcher panicked");
        (joined, ready.join().unwrap_or_else(|_| panicked()), address.join().unwrap_or_else(|_| panicked()))
    });
    let (joined, ready, address) = (joined?, ready?, address?);
    figures.kubeadm.push(joined);
    figures.ready.push(ready);
    figures.address.push(address);
    let plain = ready.max(address);
    figures.plain.push(plain);
    bench.clear().map(|()| plain)
}

/// After how long a sandbox had an address; that it was taken away again afterwards does not count.
fn first_address(worker: &Machine, begun: Instant) -> Result<Duration> {
    let tried = worker.run([TRIER, TRY]).deadline(TRIER_DEADLINE).done()?.success()?;
    let ended = begun.elapsed();
    let afterwards = tried.out.trim().parse().map(Duration::from_millis);
    let afterwards = afterwards.map_err(|_| Error::Said(format!("{TRY} printed no time: {:?}", tried.text())))?;
    Ok(ended.saturating_sub(afterwards))
}

fn by_carrick(bench: &mut Bench, carrick: &Path) -> Result<Duration> {
    let (cluster, worker) = (bench.cluster()?, bench.worker(KIND)?);
    worker.replace(PROGRAM, carrick)?;
    let done = join(&worker, &[], &["-"], &line(cluster))?;
    bench.say(format_args!("carrick join ended with {} after {:?}\n{}", done.code(), done.took, done.text()));
    demand!(done.code() == 0, "carrick join ended with {}:\n{}", done.code(), done.text());
    is_joined(cluster, &worker)?;
    bench.clear().map(|()| done.took)
}

/// Tries a sandbox every half second until one gets an address; prints for how many milliseconds it lived on after that.
pub fn try_sandboxes() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.during(|| "no runtime".to_owned())?;
    let machine = Local::new(sandbox::PLUGIN);
    let how = sandbox::SandboxOptions { endpoints: cri::ENDPOINTS, image: None, time: sandbox::PLUGIN, peers: &[] };
    let begun = Instant::now();
    loop {
        let tried_at = Instant::now();
        match runtime.block_on(sandbox::try_one(&machine, &how)) {
            Ok(tried) => {
                say::plain(&tried_at.elapsed().saturating_sub(tried.took).as_millis().to_string());
                return Ok(());
            }
            Err(failed) if begun.elapsed() > TRY_DEADLINE => {
                return Err(Error::Deadline {
                    what: "a sandbox to get an address".to_owned(),
                    after: begun.elapsed(),
                    last: failed.to_string(),
                });
            }
            Err(_) => pause(TRY_EVERY.saturating_sub(tried_at.elapsed()))?,
        }
    }
}

/// How busy the machine was in the last minute: what else it does is in every figure.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn told(figures: &Figures, runs: usize) -> ExitCode {
    let rows = [
        ("kubeadm join ended", &figures.kubeadm),
        ("the Node was Ready", &figures.ready),
        ("a sandbox had an address", &figures.address),
        ("plain: both of the last two", &figures.plain),
        ("carrick join, verified", &figures.carrick),
    ];
    say::plain(&format!(
        "\n{runs} fresh {} workers each, by turns; wall time from the beginning of the join",
        KIND.name()
    ));
    say::plain("| what | median | fastest | slowest |\n|---|---|---|---|");
    for (what, times) in rows {
        let [median, fastest, slowest] = [times.median(), times.fastest(), times.slowest()].map(say::seconds);
        say::plain(&format!("| {what} | {median} | {fastest} | {slowest} |"));
    }
    let ratio = figures.carrick.median().as_secs_f64() / figures.plain.median().as_secs_f64();
    let holds = ratio <= BAR;
    let verdict = if holds { "the bar holds" } else { "the bar does not hold" };
    say::plain(&format!("bench join: carrick takes {ratio:.2} times as long as plain kubeadm (bar {BAR}): {verdict}"));
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
