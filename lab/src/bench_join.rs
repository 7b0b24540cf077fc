//! `bench-join`: `carrick join` to its end beside plain `kubeadm join` until the node works, by turns, each on a fresh
//! worker of the same cluster; then the same worker is taken out and joined again: `carrick reset` and `carrick join` beside
//! `kubeadm reset`, the Node marked as lost, and `kubeadm join`.
//!
//! Plain kubeadm ends before the node can run anything. What a person does then is done here at the machine's own speed:
//! the Node is watched for Ready, a sandbox is tried again and again, and kube-proxy's pod is asked for, all from the beginning.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use carrick_host::{Local, cri, cri::sandbox};
use jiff::Timestamp;
use serde_json::Value;

use crate::build::{self, Part};
use crate::cache::{Cache, discard};
use crate::case::{Bench, Schedule};
use crate::cluster::{Cluster, condition};
use crate::error::{During, Error, Result, said};
use crate::join::{PROGRAM, is_joined, join, line};
use crate::lab::Lab;
use crate::machine::{Kind, Machine};
use crate::run::{OWN, Polled, pause, wait_for};
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
/// kube-proxy's image is on every machine of the lab.
const PROXY_DEADLINE: Duration = Duration::from_mins(2);
const RESET_DEADLINE: Duration = Duration::from_mins(3);
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
    proxy: Times,
    plain: Times,
    carrick: Times,
    /// Out and in again.
    plain_again: Times,
    carrick_again: Times,
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
        let carrick = by_carrick(bench, &options.carrick, &mut figures)?;
        let [plain, plain_again] = plain.map(say::seconds);
        let [carrick, carrick_again] = carrick.map(say::seconds);
        say::line(&format!(
            "{run} of {}: plain {plain}, again {plain_again}, carrick {carrick}, again {carrick_again}; load {}",
            options.runs,
            load()
        ));
    }
    Ok(figures)
}

/// After how long the node worked that plain kubeadm joined, and joined again.
fn by_kubeadm(bench: &mut Bench, figures: &mut Figures) -> Result<[Duration; 2]> {
    let (cluster, worker) = (bench.cluster()?, bench.worker(KIND)?);
    worker.replace(TRIER, Path::new(OWN))?;
    let first = until_it_works(cluster, &worker)?;
    figures.kubeadm.push(first.joined);
    figures.ready.push(first.ready);
    figures.address.push(first.address);
    figures.proxy.push(first.proxy);
    figures.plain.push(first.works());
    let begun = Instant::now();
    worker.ok(["kubeadm", "reset", "--force"])?;
    // kubeadm refuses a name whose Node is Ready, and nobody has noticed yet.
    cluster.declare_lost(&worker.identity.name)?;
    let again = begun.elapsed() + until_it_works(cluster, &worker)?.works();
    figures.plain_again.push(again);
    bench.clear().map(|()| [first.works(), again])
}

/// After how long each of what `carrick join` asks for was there.
struct Worked {
    joined: Duration,
    ready: Duration,
    address: Duration,
    proxy: Duration,
}

impl Worked {
    fn works(&self) -> Duration {
        self.ready.max(self.address).max(self.proxy)
    }
}

/// Plain `kubeadm join`, until the Node is Ready, a sandbox has an address and kube-proxy's pod is ready.
fn until_it_works(cluster: &Cluster, worker: &Machine) -> Result<Worked> {
    let (begun, since) = (Instant::now(), Timestamp::now());
    let name = worker.identity.name.as_str();
    let (joined, ready, address, proxy) = thread::scope(|scope| {
        let ready = scope.spawn(|| cluster.wait_ready(name));
        let address = scope.spawn(|| first_address(worker, begun));
        let proxy = scope.spawn(|| proxy_ready(cluster, name, since));
        let joined = cluster.join(worker);
        let ended = |watcher: thread::ScopedJoinHandle<'_, Result<Duration>>| {
            watcher.join().unwrap_or_else(|_| said("a watcher panicked"))
        };
        (joined, ended(ready), ended(address), ended(proxy))
    });
    Ok(Worked { joined: joined?, ready: ready?, address: address?, proxy: proxy? })
}

/// After how long kube-proxy's pod on the node was ready, with a container of this join.
fn proxy_ready(cluster: &Cluster, node: &str, since: Timestamp) -> Result<Duration> {
    let begun = Instant::now();
    let field = format!("--field-selector=spec.nodeName={node}");
    let is_up = |pod: &Value| {
        let started = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"].as_str();
        // The API server has whole seconds.
        let is_new =
            started.and_then(|at| at.parse::<Timestamp>().ok()).is_some_and(|at| at.as_second() >= since.as_second());
        is_new && condition(pod, "Ready")["status"] == "True"
    };
    wait_for("kube-proxy's pod to be ready", PROXY_DEADLINE, || {
        let pods = cluster.get(["pods", "-n", "kube-system", "-l", "k8s-app=kube-proxy", &field])?;
        let up = pods["items"].as_array().is_some_and(|pods| pods.iter().any(is_up));
        Ok(if up { Polled::Seen(()) } else { Polled::NotYet(pods["items"][0]["status"].to_string()) })
    })?;
    Ok(begun.elapsed())
}

/// After how long a sandbox had an address; that it was taken away again afterwards does not count.
fn first_address(worker: &Machine, begun: Instant) -> Result<Duration> {
    let tried = worker.run([TRIER, TRY]).deadline(TRIER_DEADLINE).done()?.success()?;
    let ended = begun.elapsed();
    let afterwards = tried.out.trim().parse().map(Duration::from_millis);
    let afterwards = afterwards.map_err(|_| Error::Said(format!("{TRY} printed no time: {:?}", tried.text())))?;
    Ok(ended.saturating_sub(afterwards))
}

/// After how long `carrick join` ended, and `carrick reset` and `carrick join` after it.
fn by_carrick(bench: &mut Bench, carrick: &Path, figures: &mut Figures) -> Result<[Duration; 2]> {
    let (cluster, worker) = (bench.cluster()?, bench.worker(KIND)?);
    worker.replace(PROGRAM, carrick)?;
    let first = verified(bench, cluster, &worker)?;
    figures.carrick.push(first);
    let reset = worker.run([PROGRAM, "reset", "--yes"]).deadline(RESET_DEADLINE).done()?.success()?.took;
    let again = reset + verified(bench, cluster, &worker)?;
    figures.carrick_again.push(again);
    bench.clear().map(|()| [first, again])
}

fn verified(bench: &mut Bench, cluster: &Cluster, worker: &Machine) -> Result<Duration> {
    let done = join(worker, &[], &["-"], &line(cluster))?;
    bench.say(format_args!("carrick join ended with {} after {:?}\n{}", done.code(), done.took, done.text()));
    demand!(done.code() == 0, "carrick join ended with {}:\n{}", done.code(), done.text());
    is_joined(cluster, worker)?;
    Ok(done.took)
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
        ("kube-proxy's pod was ready", &figures.proxy),
        ("plain: all of the last three", &figures.plain),
        ("carrick join, verified", &figures.carrick),
        ("plain: kubeadm reset, Node marked, kubeadm join, all three", &figures.plain_again),
        ("carrick reset, carrick join, verified", &figures.carrick_again),
    ];
    say::plain(&format!("\n{runs} fresh {} workers each, by turns; wall time from the beginning", KIND.name()));
    say::plain("| what | median | fastest | slowest |\n|---|---|---|---|");
    for (what, times) in rows {
        let [median, fastest, slowest] = [times.median(), times.fastest(), times.slowest()].map(say::seconds);
        say::plain(&format!("| {what} | {median} | {fastest} | {slowest} |"));
    }
    let bars =
        [("join", &figures.carrick, &figures.plain), ("reset and join", &figures.carrick_again, &figures.plain_again)];
    let held = bars.map(|(what, carrick, plain)| {
        let ratio = carrick.median().as_secs_f64() / plain.median().as_secs_f64();
        let verdict = if ratio <= BAR { "the bar holds" } else { "the bar does not hold" };
        say::plain(&format!(
            "bench {what}: carrick takes {ratio:.2} times as long as plain kubeadm (bar {BAR}): {verdict}"
        ));
        ratio <= BAR
    });
    if held == [true; 2] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
