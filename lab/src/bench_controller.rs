//! `bench-controller`: `carrick controller` on a real API server, beside a bare client that writes the same with nothing to decide.
//!
//! By turns, on one API server: the conditions of all nodes flip, and either the controller or the bare client writes their
//! taints. Both with the same rights, the same number of writes at once and the same bodies; beside both the same writer of conditions, and
//! two watches of all Nodes. What the API server gives to the bare client is what there is to be had. CPU and writes are counted over as
//! long a time for both: until the last taint, and then until the rule's status has come to rest.
//!
//! With fewer nodes, and what no clock is needed for: the case `controller-steady`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use carrick_testkit::{Api, Caller};
use http::Method;
use serde_json::json;
use tokio::sync::mpsc;

use crate::build;
use crate::cache::{Cache, discard};
use crate::error::{During, Error, Result, said};
use crate::need::Need;
use crate::say;

mod load;
mod observer;
mod process;

use observer::{Observer, second_watch};
use process::{Controller, cpu_seconds, peak_mebibytes, private_mebibytes};

const CRD: &str = include_str!("../../deploy/crd/nodereadinessrules.readiness.node.x-k8s.io.yaml");
const RBAC: &str = include_str!("../../deploy/controller/rbac.yaml");
const RULES: &str = "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules";
const TAINT: &str = "readiness.k8s.io/bench";
const CONDITION: &str = "bench.example.com/Ready";

/// Of what the bare client gets, the controller gets at least this.
const THROUGHPUT: f64 = 0.9;
/// Up to as many nodes, at most so many MiB.
const MEMORY: [(u32, f64); 2] = [(5_000, 40.0), (15_000, 80.0)];
/// A node of the largest cluster costs at most so many times what one of the smallest does.
const FLAT: f64 = 1.3;
/// Ten times what the slowest machine took.
const DEADLINE: Duration = Duration::from_mins(10);
/// A status comes to rest within this: ten seconds after one that took long, and the time that it takes itself.
const REST: Duration = Duration::from_secs(12);
/// Of a cluster in CI, without the pages of the program: those of a debug build are many. It was 8.6, and 13 before that.
const PRIVATE_MEMORY: f64 = 11.0;

#[derive(clap::Args)]
pub struct Options {
    /// The carrick to measure: a release build
    #[arg(long, value_name = "FILE")]
    carrick: PathBuf,
    /// How many nodes, one cluster after the other
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 5_000, 15_000])]
    nodes: Vec<u32>,
    /// How often both flip all nodes there and back
    #[arg(long, default_value_t = 2)]
    rounds: u32,
    /// For how many seconds nothing but heartbeats comes
    #[arg(long, default_value_t = 30)]
    steady: u64,
}

/// One row of the table.
struct Figure {
    nodes: u32,
    what: &'static str,
    took: Duration,
    /// For how long CPU and writes were counted.
    counted: Duration,
    /// From a node's condition, or the rule, to its taint.
    latencies: Vec<Duration>,
    /// Of the controller and of the API server.
    cpu: [f64; 2],
    writes: Writes,
}

/// What the API server was asked to write, by its own count.
#[derive(Clone, Copy, Default)]
struct Writes {
    nodes: u64,
    statuses: u64,
    events: u64,
    leases: u64,
}

/// What was measured with one number of nodes.
struct Measured {
    nodes: u32,
    figures: Vec<Figure>,
    peak: f64,
    carrick: Duration,
    bare: Duration,
    /// Of the controller, a node and flip.
    cpu_each: f64,
}

pub fn bench_controller(cache: &Cache, options: &Options) -> Result<ExitCode> {
    if options.nodes.is_empty() || options.nodes.contains(&0) || options.rounds == 0 {
        return said("--nodes 0 and --rounds 0 measure nothing");
    }
    build::build(cache, Need::ApiServer.parts())?;
    let logs = cache.root().join("logs").join("bench-controller");
    discard(&logs)?;
    std::fs::create_dir_all(&logs).at("make", &logs)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.during(|| "no runtime".to_owned())?;
    let mut measured = Vec::new();
    for nodes in &options.nodes {
        let log = logs.join(format!("{nodes}.log"));
        let mut bench = runtime.block_on(Bench::new(&options.carrick, *nodes, log, Rest::Lasts(REST)))?;
        measured.push(runtime.block_on(bench.measure(options))?);
    }
    Ok(told(&measured))
}

/// What needs no clock, with nodes of real size: what was expected, and whether it was so.
pub fn without_a_clock(carrick: &Path, nodes: u32, log: PathBuf) -> Result<Vec<(String, bool)>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.during(|| "no runtime".to_owned())?.block_on(async {
        let mut bench = Bench::new(carrick, nodes, log, Rest::UntilTold).await?;
        bench.without_a_clock().await
    })
}

/// How the end of a rule's status is waited for, once all taints are right.
enum Rest {
    /// Nobody asks for it meanwhile: that would be counted.
    Lasts(Duration),
    UntilTold,
}

/// What was spent and written so far.
struct Mark {
    at: Instant,
    cpu: [f64; 2],
    writes: Writes,
}

struct Bench<'a> {
    api: Api,
    nodes: u32,
    token: String,
    observer: Observer,
    carrick: &'a Path,
    log: PathBuf,
    rest: Rest,
    figures: Vec<Figure>,
    peak: f64,
}

impl<'a> Bench<'a> {
    async fn new(carrick: &'a Path, nodes: u32, log: PathBuf, rest: Rest) -> Result<Self> {
        let api = Api::start().map_err(said_by)?;
        for (name, text) in [("crd.yaml", CRD), ("rbac.yaml", RBAC)] {
            let file = api.kubeconfig().with_file_name(name);
            std::fs::write(&file, text).at("write", &file)?;
            api.kubectl(&["apply", "--server-side", "-f", &file.display().to_string()]).map_err(said_by)?;
        }
        let established = "crd/nodereadinessrules.readiness.node.x-k8s.io";
        api.kubectl(&["wait", "--for=condition=Established", established]).map_err(said_by)?;
        let words = ["create", "token", "carrick-controller", "--namespace=kube-system", "--duration=12h"];
        let token = api.kubectl(&words).map_err(said_by)?.trim().to_owned();
        let kubeconfig = api.kubeconfig().with_file_name("controller");
        std::fs::write(&kubeconfig, api.kubeconfig_text(&token)).at("write", &kubeconfig)?;
        say::line(&format!("creating {nodes} nodes; load {}", load_average()));
        load::create_nodes(&api, nodes).await?;
        let observer = Observer::start(&api, nodes).await?;
        let (figures, peak) = (Vec::new(), 0.0);
        Ok(Bench { api, nodes, token, observer, carrick, log, rest, figures, peak })
    }

    fn start(&self) -> Result<Controller> {
        Controller::start(self.carrick, &self.api.kubeconfig().with_file_name("controller"), &self.log)
    }

    async fn measure(&mut self, options: &Options) -> Result<Measured> {
        let mut controller = self.start()?;
        controller.wait_ready()?;
        self.rule_applied(&controller).await?;
        let (mut carrick, mut bare, mut cpu) = (Duration::ZERO, Duration::ZERO, 0.0);
        for _ in 0..options.rounds {
            for status in ["True", "False"] {
                carrick += self.flip(Some(&controller), status).await?;
                cpu += self.figures.last().map_or(0.0, |it| it.cpu[0]);
            }
            self.peak = self.peak.max(peak_mebibytes(controller.process()));
            controller.stop()?;
            let watch = second_watch(&self.api, &self.token).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            for status in ["True", "False"] {
                bare += self.flip(None, status).await?;
            }
            watch.abort();
            controller = self.restart().await?;
        }
        self.steady(&controller, Duration::from_secs(options.steady)).await?;
        self.peak = self.peak.max(peak_mebibytes(controller.process()));
        controller.stop()?;
        let cpu_each = cpu / f64::from(self.nodes * options.rounds * 2);
        let figures = std::mem::take(&mut self.figures);
        Ok(Measured { nodes: self.nodes, figures, peak: self.peak, carrick, bare, cpu_each })
    }

    /// A rule comes, all conditions flip; then another instance takes over, and every node has a heartbeat.
    async fn without_a_clock(&mut self) -> Result<Vec<(String, bool)>> {
        let mut controller = self.start()?;
        controller.wait_ready()?;
        self.rule_applied(&controller).await?;
        self.flip(Some(&controller), "True").await?;
        let private = private_mebibytes(controller.process());
        controller.stop()?;
        let (mark, begun) = (self.mark(None).await?, Instant::now());
        controller = self.start()?;
        controller.wait_ready()?;
        let (tell, _told) = mpsc::unbounded_channel();
        load::set_conditions(&self.api, self.nodes, "True", tell).await?;
        // Longer than a status would wait for nodes to come to rest.
        tokio::time::sleep(Duration::from_secs(2)).await;
        self.note_at_once("heartbeats", begun.elapsed(), Vec::new(), mark, Some(&controller)).await?;
        controller.stop()?;
        let mut bars: Vec<(String, bool)> = self.figures.iter().filter_map(economy).collect();
        let says = format!("{private:.1} MiB of its own (bar {PRIVATE_MEMORY} MiB)");
        bars.push((says, private > 0.0 && private <= PRIVATE_MEMORY));
        Ok(bars)
    }

    /// A rule comes whose condition no node has: all are tainted.
    async fn rule_applied(&mut self, controller: &Controller) -> Result<()> {
        let mark = self.mark(Some(controller)).await?;
        let rule = json!({
            "apiVersion": "readiness.node.x-k8s.io/v1alpha1", "kind": "NodeReadinessRule", "metadata": {"name": "bench"},
            "spec": {
                "conditions": [{"type": CONDITION, "requiredStatus": "True"}],
                "enforcementMode": "continuous",
                "nodeSelector": {"matchLabels": {"kubernetes.io/os": "linux"}},
                "taint": {"key": TAINT, "effect": "NoSchedule"},
            },
        });
        let mut caller = self.caller().await?;
        let begun = Instant::now();
        let made = caller.send(Method::POST, RULES, "application/json", rule.to_string()).await;
        let (status, body) = made.during(|| "the rule was not created".to_owned())?;
        if status != 201 {
            return said(format!("the rule was answered {status}: {}", String::from_utf8_lossy(&body)));
        }
        self.observer.until(self.nodes as usize, DEADLINE).await?;
        let took = begun.elapsed();
        let since: Vec<Option<Instant>> = vec![Some(begun); self.nodes as usize];
        self.rest(self.nodes).await?;
        self.note("rule applied", took, &since, mark, Some(controller)).await
    }

    /// All conditions flip; how long it took until every taint had followed.
    async fn flip(&mut self, controller: Option<&Controller>, status: &'static str) -> Result<Duration> {
        let held = status == "False";
        let mark = self.mark(controller).await?;
        let (tell, mut told) = mpsc::unbounded_channel();
        let begun = Instant::now();
        let set = load::set_conditions(&self.api, self.nodes, status, tell);
        if controller.is_some() {
            set.await?;
        } else {
            let (passed, acknowledged) = mpsc::unbounded_channel();
            let written = load::write_taints(&self.api, &self.token, held, told, passed);
            let (set, written) = tokio::join!(set, written);
            set.and(written)?;
            told = acknowledged;
        }
        self.observer.until(if held { self.nodes as usize } else { 0 }, DEADLINE).await?;
        let took = begun.elapsed();
        let mut since = vec![None; self.nodes as usize];
        while let Ok((n, at, _)) = told.try_recv() {
            since[n as usize] = Some(at);
        }
        self.rest(if held { self.nodes } else { 0 }).await?;
        let what = if controller.is_some() { "flip" } else { "flip, bare client" };
        self.note(what, took, &since, mark, controller).await?;
        Ok(took)
    }

    /// One node in a hundred has changed while no controller ran: from its start until all of them are right.
    async fn restart(&mut self) -> Result<Controller> {
        let drifted = (self.nodes / 100).max(1);
        let (tell, _told) = mpsc::unbounded_channel();
        load::set_conditions(&self.api, drifted, "True", tell).await?;
        let mark = self.mark(None).await?;
        let begun = Instant::now();
        let mut controller = self.start()?;
        self.observer.until((self.nodes - drifted) as usize, DEADLINE).await?;
        let took = begun.elapsed();
        controller.wait_ready()?;
        let since: Vec<Option<Instant>> = (0..drifted).map(|_| Some(begun)).collect();
        self.rest(self.nodes - drifted).await?;
        self.note("restart, 1 % changed", took, &since, mark, Some(&controller)).await?;
        let (tell, _told) = mpsc::unbounded_channel();
        load::set_conditions(&self.api, drifted, "False", tell).await?;
        self.observer.until(self.nodes as usize, DEADLINE).await?;
        self.rest(self.nodes).await?;
        Ok(controller)
    }

    /// Until the rule's status is about as many nodes that are held: its writes belong to what was measured.
    async fn rest(&self, held: u32) -> Result<()> {
        if let Rest::Lasts(lasts) = self.rest {
            tokio::time::sleep(lasts).await;
            return Ok(());
        }
        let mut caller = self.caller().await?;
        let begun = Instant::now();
        loop {
            let asked = caller.send(Method::GET, &format!("{RULES}/bench"), "application/json", String::new()).await;
            let (_, text) = asked.during(|| "the rule".to_owned())?;
            let rule: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            let summary = &rule["status"]["summary"];
            if summary["heldNodes"] == held && summary["matchedNodes"] == self.nodes {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                let what = format!("a status of {held} nodes that are held");
                return Err(Error::Deadline { what, after: DEADLINE, last: summary.to_string() });
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn steady(&mut self, controller: &Controller, lasts: Duration) -> Result<()> {
        let mark = self.mark(Some(controller)).await?;
        let begun = Instant::now();
        let beats = load::beat(&self.api, self.nodes, lasts).await?;
        say::line(&format!("{beats} heartbeats"));
        self.note_at_once("heartbeats", begun.elapsed(), Vec::new(), mark, Some(controller)).await
    }

    async fn caller(&self) -> Result<Caller> {
        Caller::dial(&self.api, self.api.admin_token()).await.during(|| "cannot reach the API server".to_owned())
    }

    async fn mark(&self, controller: Option<&Controller>) -> Result<Mark> {
        let server = self.api.processes()[0].map_or(0.0, cpu_seconds);
        let own = controller.map_or(0.0, |it| cpu_seconds(it.process()));
        let mut caller = self.caller().await?;
        let asked = caller.send(Method::GET, "/metrics", "text/plain", String::new()).await;
        let (_, text) = asked.during(|| "the API server's metrics".to_owned())?;
        let writes = Writes::of(&String::from_utf8_lossy(&text));
        Ok(Mark { at: Instant::now(), cpu: [own, server], writes })
    }

    async fn note(
        &mut self,
        what: &'static str,
        took: Duration,
        since: &[Option<Instant>],
        mark: Mark,
        controller: Option<&Controller>,
    ) -> Result<()> {
        let times = self.observer.times();
        let pairs = since.iter().zip(&times);
        let latencies = pairs.filter_map(|(since, seen)| Some((*seen)?.saturating_duration_since((*since)?))).collect();
        self.note_at_once(what, took, latencies, mark, controller).await
    }

    async fn note_at_once(
        &mut self,
        what: &'static str,
        took: Duration,
        mut latencies: Vec<Duration>,
        before: Mark,
        controller: Option<&Controller>,
    ) -> Result<()> {
        let after = self.mark(controller).await?;
        latencies.sort();
        let cpu = [(after.cpu[0] - before.cpu[0]).max(0.0), (after.cpu[1] - before.cpu[1]).max(0.0)];
        let (counted, writes) = (after.at - before.at, after.writes.since(before.writes));
        let figure = Figure { nodes: self.nodes, what, took, counted, latencies, cpu, writes };
        say::line(&format!("{}; load {}", figure.row(), load_average()));
        self.figures.push(figure);
        Ok(())
    }
}

impl Writes {
    /// Of the API server's own metrics: requests that succeeded.
    fn of(metrics: &str) -> Self {
        let count = |verb: &str, resource: &str, subresource: &str| -> u64 {
            let labels = [
                format!("verb=\"{verb}\""),
                format!("resource=\"{resource}\""),
                format!("subresource=\"{subresource}\""),
                "code=\"20".to_owned(),
            ];
            let lines = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
            let of = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
            of.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        Writes {
            nodes: count("PATCH", "nodes", ""),
            statuses: count("PATCH", "nodereadinessrules", "status"),
            events: count("POST", "events", ""),
            leases: count("PUT", "leases", "") + count("POST", "leases", ""),
        }
    }

    fn since(self, before: Writes) -> Writes {
        Writes {
            nodes: self.nodes.saturating_sub(before.nodes),
            statuses: self.statuses.saturating_sub(before.statuses),
            events: self.events.saturating_sub(before.events),
            leases: self.leases.saturating_sub(before.leases),
        }
    }
}

impl Figure {
    fn quantile(&self, hundredths: usize) -> String {
        let at = (self.latencies.len() * hundredths / 100).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).map_or_else(|| "–".to_owned(), |it| format!("{:.2}", it.as_secs_f64()))
    }

    fn row(&self) -> String {
        let Figure { nodes, what, took, cpu, writes, .. } = self;
        let rate = f64::from(*nodes) / took.as_secs_f64();
        let rate = if what.starts_with("flip") { format!("{rate:.0}") } else { "–".to_owned() };
        format!(
            "| {nodes} | {what} | {:.1} | {rate} | {} / {} / {} | {:.2} / {:.1} | {} / {} / {} / {} |",
            took.as_secs_f64(),
            self.quantile(50),
            self.quantile(99),
            self.quantile(100),
            cpu[0],
            cpu[1],
            writes.nodes,
            writes.statuses,
            writes.events,
            writes.leases,
        )
    }
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

#[allow(clippy::needless_pass_by_value, reason = "the shape map_err wants")]
fn said_by(error: carrick_testkit::Error) -> Error {
    Error::Said(error.to_string())
}

fn told(measured: &[Measured]) -> ExitCode {
    say::plain(
        "\n| nodes | what | s | nodes/s | latency p50 / p99 / max, s | CPU s, controller / API server | writes: nodes / statuses / events / leases |",
    );
    say::plain("|---|---|---|---|---|---|---|");
    for figure in measured.iter().flat_map(|it| &it.figures) {
        say::plain(&figure.row());
    }
    let bars: Vec<(String, bool)> = measured.iter().flat_map(bars).chain(flat(measured)).collect();
    say::plain("");
    for (bar, holds) in &bars {
        say::plain(&format!("{} {bar}", if *holds { "holds:        " } else { "does not hold:" }));
    }
    let holds = bars.iter().all(|(_, holds)| *holds);
    say::plain(&format!("bench controller: {}", if holds { "the bars hold" } else { "a bar does not hold" }));
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Of one number of nodes: what is asked for, and whether it is so.
fn bars(it: &Measured) -> Vec<(String, bool)> {
    let Measured { nodes, peak, carrick, bare, .. } = it;
    let share = bare.as_secs_f64() / carrick.as_secs_f64();
    // Wall times say little on a machine that does other work as well; this says much there.
    let spent = |what: &str| -> f64 {
        it.figures.iter().filter(|figure| figure.what == what).map(|figure| figure.cpu[1]).sum()
    };
    let cost = spent("flip") / spent("flip, bare client");
    let mut bars = vec![(
        format!(
            "{nodes} nodes: flips at {:.0} % of what the bare client gets (at least {:.0} %), for {cost:.2} times the API server's CPU",
            share * 100.0,
            THROUGHPUT * 100.0
        ),
        share >= THROUGHPUT,
    )];
    if let Some((_, most)) = MEMORY.iter().find(|(up_to, _)| nodes <= up_to) {
        bars.push((format!("{nodes} nodes: {peak:.1} MiB resident at most (bar {most} MiB)"), peak <= most));
    }
    bars.extend(it.figures.iter().filter_map(economy));
    bars
}

/// Whether no more was written than had to be: one write a node and change, one status a second at most, and for heartbeats nothing.
/// Of the bare client nothing is asked.
fn economy(figure: &Figure) -> Option<(String, bool)> {
    let Figure { nodes, what, writes: Writes { nodes: written, statuses, events, .. }, counted, .. } = figure;
    let expected = match *what {
        "flip, bare client" => return None,
        "heartbeats" => {
            let says =
                format!("{nodes} nodes, heartbeats: {written} writes, {statuses} statuses and {events} events (none)");
            return Some((says, written + statuses + events == 0));
        }
        "restart, 1 % changed" => u64::from((nodes / 100).max(1)),
        _ => u64::from(*nodes),
    };
    let most = counted.as_secs() + 1;
    let says =
        format!("{nodes} nodes, {what}: {written} writes for {expected} changes, {statuses} statuses in {most} s");
    Some((says, *written == expected && (1..=most).contains(statuses)))
}

/// What a node costs with the most nodes, beside what it costs with the fewest.
fn flat(measured: &[Measured]) -> Option<(String, bool)> {
    let least = measured.iter().min_by_key(|it| it.nodes)?;
    let most = measured.iter().max_by_key(|it| it.nodes).filter(|it| it.nodes > least.nodes)?;
    let ratio = most.cpu_each / least.cpu_each;
    let says = format!(
        "a node of {} costs {ratio:.2} times the CPU of one of {} ({:.2} and {:.2} ms; at most {FLAT} times)",
        most.nodes,
        least.nodes,
        most.cpu_each * 1000.0,
        least.cpu_each * 1000.0
    );
    Some((says, ratio <= FLAT))
}
