//! `carrick controller`: keeps the taints of all nodes as the NodeReadinessRules say.
//!
//! ```text
//! watch of nodes ─┐                        ┌─▶ writes of nodes, as many at once as the server takes
//! watch of rules ─┼─▶ one task that owns ──┼─▶ writes of rules: finalizers, statuses
//! answers ────────┘   the RuleIndex (pure) └─▶ events, in a queue that never holds anything up
//! election ──▶ whether it may write        webhook, /metrics, /readyz ──▶ ask the same task
//! ```
//!
//! * `work`: the task that owns the index
//! * `election`: who leads
//! * [`http`]: `/healthz`, `/readyz`, `/metrics`
//! * [`webhook`]: admission, over TLS
//! * [`tls`]: the certificate that both are served with
//!
//! Every task is watched over: one that ends, for whatever reason, ends all, and the process with them. A new one begins clean.

use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::ClusterClient;
use carrick_core::lease::LeaseTiming;
use carrick_core::rule::{Admission, ControllerMetrics, NodeReadinessRule};
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Stop;

mod election;
pub mod http;
pub mod tls;
pub mod webhook;
mod work;

/// What watches have read and nobody has heard yet: whole objects. Beyond that the API server waits, which has them anyway.
const HEARD: usize = 64;
/// Writes that are under way when it is told to stop are waited for.
const LAST_WRITES: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Which process this is, for its Lease and its events: a host name.
    pub instance: String,
    /// `None`: no election, it leads from the start.
    pub election: Option<ElectionOptions>,
    /// Writes of nodes at once, at most.
    pub workers: u32,
    /// Writes a second and at once; `None`: as the server takes them.
    pub rate: Option<(f64, u32)>,
    pub node_state_metrics: bool,
    pub version: String,
}

#[derive(Clone, Debug)]
pub struct ElectionOptions {
    pub namespace: String,
    /// The host name and something of its own.
    pub identity: String,
    pub timing: LeaseTiming,
}

/// How the controller stands, for `/readyz` and for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerHealth {
    /// All nodes and rules have been seen.
    pub synced: bool,
    pub leads: bool,
    /// A task has ended: the process is about to.
    pub broken: bool,
}

impl ControllerHealth {
    /// A standby is ready too: it has everything to take over with.
    pub fn is_ready(self) -> bool {
        self.synced && !self.broken
    }
}

/// A line of the log: one a happening, none an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerNotice {
    pub level: NoticeLevel,
    pub says: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeLevel {
    Info,
    Warning,
    Error,
}

pub type NoticeSink = Arc<dyn Fn(ControllerNotice) + Send + Sync>;

/// Asks the task that owns the index.
#[derive(Clone)]
pub struct ControllerHandle {
    ask: mpsc::Sender<Question>,
    health: watch::Receiver<ControllerHealth>,
}

enum Question {
    Metrics(oneshot::Sender<ControllerMetrics>),
    Admit { rule: Box<NodeReadinessRule>, old: Option<Box<NodeReadinessRule>>, answer: oneshot::Sender<Admission> },
}

impl ControllerHandle {
    pub fn health(&self) -> ControllerHealth {
        *self.health.borrow()
    }

    /// `None`: it does not answer.
    pub async fn metrics(&self) -> Option<ControllerMetrics> {
        let (answer, answered) = oneshot::channel();
        self.ask.send(Question::Metrics(answer)).await.ok()?;
        answered.await.ok()
    }

    pub async fn admit(&self, rule: NodeReadinessRule, old: Option<NodeReadinessRule>) -> Option<Admission> {
        let (answer, answered) = oneshot::channel();
        let question = Question::Admit { rule: Box::new(rule), old: old.map(Box::new), answer };
        self.ask.send(question).await.ok()?;
        answered.await.ok()
    }
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControllerEnd {
    #[error("this instance does not hold the lease any more")]
    LostLease,
    #[error("the task {0} ended: {1}")]
    TaskEnded(&'static str, String),
}

/// The clock of one run: moments count from its beginning.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> Duration {
        self.0.elapsed()
    }
}

/// A controller that is set up, and what asks it.
pub struct Controller {
    client: ClusterClient,
    options: ControllerOptions,
    notices: NoticeSink,
    questions: mpsc::Receiver<Question>,
    health: watch::Sender<ControllerHealth>,
}

impl Controller {
    pub fn new(client: ClusterClient, options: ControllerOptions, notices: NoticeSink) -> (Self, ControllerHandle) {
        let (ask, questions) = mpsc::channel(64);
        let (health, heard) = watch::channel(ControllerHealth::default());
        (Controller { client, options, notices, questions, health }, ControllerHandle { ask, health: heard })
    }

    /// Runs until it is told to stop (`Ok`), or something ended that must not.
    pub async fn run(self, stop: Stop) -> Result<(), ControllerEnd> {
        let Controller { client, options, notices, questions, health } = self;
        let clock = Clock(Instant::now());
        let (told, tell) = (mpsc::channel(HEARD), mpsc::channel(1024));
        // Until when it leads: who cannot renew stops by itself, whatever else is going on.
        let (leads, led) = watch::channel(options.election.is_none().then_some(Duration::MAX));
        // Only the election tells it to go, after the last write.
        let (ended, end) = watch::channel(false);
        let mut tasks: JoinSet<(&'static str, Result<(), String>)> = JoinSet::new();
        tasks.spawn(work::follow_nodes(client.clone(), told.0.clone(), notices.clone()));
        tasks.spawn(work::follow_rules(client.clone(), told.0, notices.clone()));
        tasks.spawn(work::tell_events(client.clone(), tell.1, options.instance.clone(), notices.clone()));
        if let Some(election) = options.election.clone() {
            tasks.spawn(election::lead(client.clone(), election, clock, leads, end, notices.clone()));
        }
        let worker = work::Worker::new(client, &options, clock, tell.0, health.clone(), notices.clone());
        // Whoever lets go of this future ends them all.
        let mut working = JoinSet::new();
        working.spawn(worker.run(told.1, questions, led, stop));
        let end = tokio::select! {
            biased;
            Some(done) = working.join_next() => match done {
                // Told to stop: the lease is given up once nothing is written any more.
                Ok(()) => {
                    let _ = ended.send(true);
                    let released = async { while tasks.join_next().await.is_some_and(|done| !is_election(&done)) {} };
                    if options.election.is_some() {
                        let _ = tokio::time::timeout(LAST_WRITES, released).await;
                    }
                    Ok(())
                }
                Err(error) => Err(ControllerEnd::TaskEnded("that decides", error.to_string())),
            },
            done = tasks.join_next() => Err(match done {
                Some(Ok((name, Err(why)))) if name == election::NAME => {
                    notices(ControllerNotice { level: NoticeLevel::Error, says: why });
                    ControllerEnd::LostLease
                }
                Some(Ok((name, result))) => ControllerEnd::TaskEnded(name, result.err().unwrap_or_default()),
                Some(Err(error)) => ControllerEnd::TaskEnded("of the controller", error.to_string()),
                None => ControllerEnd::TaskEnded("of the controller", "there is none".to_owned()),
            }),
        };
        health.send_modify(|health| health.broken = true);
        working.shutdown().await;
        tasks.shutdown().await;
        end
    }
}

fn is_election(done: &Result<(&'static str, Result<(), String>), tokio::task::JoinError>) -> bool {
    matches!(done, Ok((name, _)) if *name == election::NAME)
}

fn notice(sink: &NoticeSink, level: NoticeLevel, says: impl Into<String>) {
    sink(ControllerNotice { level, says: says.into() });
}

/// The wall's clock, by the machine that the cluster is asked from.
fn wall(client: &ClusterClient) -> Timestamp {
    client.now()
}

#[cfg(test)]
mod tests;
