//! The task that owns the index: it hears what happens, lets the index decide, and has the writes made.

use std::time::Duration;

use carrick_cluster::nodes::NodeWatch;
use carrick_cluster::rules::RuleWatch;
use carrick_cluster::{ApiError, ApiProblem, ClusterClient, Watched, events, nodes, rules};
use carrick_core::rule::{
    CompiledRule, ControllerMetrics, NodeAnswer, NodeJob, NodeReadinessRule, Pace, PaceAnswer, RuleAnswer, RuleEvent,
    RuleIndex, RuleJob, SlimNode, WireNode, admit,
};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Clock, ControllerHealth, ControllerOptions, LAST_WRITES, NoticeLevel, NoticeSink, Question, notice, wall};
use crate::Stop;

/// Every node is looked at once more, whatever the watch said.
const REPAIR: Duration = Duration::from_mins(10);
/// As many messages as are taken at once, before writes are started again.
const BATCH: usize = 256;
/// A watch that fails is tried again after this, and ever later up to the second.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Statuses and finalizers at once.
const RULES_AT_ONCE: usize = 4;

/// What a failure is told of.
const RULES: &str = "rules";

pub(super) enum Told {
    Node(Watched<WireNode>),
    Rule(Box<Watched<NodeReadinessRule>>),
}

enum Done {
    Node(Box<NodeJob>, NodeAnswer, Duration),
    Rule(Box<RuleJob>, RuleAnswer, Duration),
}

pub(super) async fn follow_nodes(
    client: ClusterClient,
    told: mpsc::Sender<Told>,
    notices: NoticeSink,
) -> (&'static str, Result<(), String>) {
    let mut watch: NodeWatch = nodes::watch(&client);
    let mut failures = Failures::new("nodes", notices);
    loop {
        match watch.next().await {
            Ok(event) => {
                failures.over();
                if told.send(Told::Node(event)).await.is_err() {
                    return ("watch of nodes", Err("nobody listens".to_owned()));
                }
            }
            Err(error) => failures.wait(&error).await,
        }
    }
}

pub(super) async fn follow_rules(
    client: ClusterClient,
    told: mpsc::Sender<Told>,
    notices: NoticeSink,
) -> (&'static str, Result<(), String>) {
    let mut watch: RuleWatch = rules::watch(&client);
    let mut failures = Failures::new(RULES, notices);
    loop {
        match watch.next().await {
            Ok(event) => {
                failures.over();
                if told.send(Told::Rule(Box::new(event))).await.is_err() {
                    return ("watch of rules", Err("nobody listens".to_owned()));
                }
            }
            Err(error) => failures.wait(&error).await,
        }
    }
}

/// Of a watch that fails: how long to wait, and a word about it when it is a new one.
struct Failures {
    of: &'static str,
    count: u32,
    last: String,
    notices: NoticeSink,
}

impl Failures {
    fn new(of: &'static str, notices: NoticeSink) -> Self {
        Failures { of, count: 0, last: String::new(), notices }
    }

    fn over(&mut self) {
        if self.count > 0 {
            notice(&self.notices, NoticeLevel::Info, format!("watch of {}: it goes on", self.of));
        }
        self.count = 0;
        self.last.clear();
    }

    async fn wait(&mut self, error: &ApiError) {
        let says = error.to_string();
        if says != self.last {
            let missing = self.of == RULES && error.is_not_found();
            let hint = if missing { "; is the definition installed? kubectl apply -f deploy/crd/" } else { "" };
            notice(&self.notices, NoticeLevel::Warning, format!("watch of {}: {says}{hint}", self.of));
            self.last = says;
        }
        let (least, most) = AGAIN;
        let grown = least.saturating_mul(1 << self.count.min(10)).min(most);
        self.count += 1;
        sleep(error.retry_after().unwrap_or(grown)).await;
    }
}

/// Tells events one by one. Those that do not fit into the queue are not told: nodes go first.
pub(super) async fn tell_events(
    client: ClusterClient,
    mut queue: mpsc::Receiver<RuleEvent>,
    instance: String,
    notices: NoticeSink,
) -> (&'static str, Result<(), String>) {
    let mut last = String::new();
    let mut before = 0;
    while let Some(event) = queue.recv().await {
        // Two in one nanosecond would have one name.
        let nanos = client.now().as_nanosecond().max(before + 1);
        before = nanos;
        if let Err(error) = events::tell(&client, &event, &instance, nanos).await {
            if let Some(pause) = error.retry_after() {
                sleep(pause).await;
            }
            let says = error.to_string();
            if says != last {
                notice(&notices, NoticeLevel::Warning, format!("event {}: {says}", event.kind.reason()));
                last = says;
            }
        }
    }
    // Whoever decides has ended: that is told elsewhere.
    std::future::pending().await
}

pub(super) struct Worker {
    client: ClusterClient,
    index: RuleIndex,
    pace: Pace,
    clock: Clock,
    tell: mpsc::Sender<RuleEvent>,
    health: watch::Sender<ControllerHealth>,
    notices: NoticeSink,
    rules_under_way: usize,
    jobs: JoinSet<Done>,
    leads_until: Option<Duration>,
    elected: bool,
    repair: Duration,
    started: f64,
    options: ControllerOptions,
}

impl Worker {
    pub(super) fn new(
        client: ClusterClient,
        options: &ControllerOptions,
        clock: Clock,
        tell: mpsc::Sender<RuleEvent>,
        health: watch::Sender<ControllerHealth>,
        notices: NoticeSink,
    ) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "of seconds")]
        let started = wall(&client).as_second() as f64;
        let mut index = RuleIndex::default();
        index.node_queue.workers = options.workers.into();
        index.rule_queue.workers = RULES_AT_ONCE as u64;
        Worker {
            client,
            index,
            pace: Pace::new(options.workers, options.rate),
            clock,
            tell,
            health,
            notices,
            rules_under_way: 0,
            jobs: JoinSet::new(),
            leads_until: None,
            elected: options.election.is_some(),
            repair: REPAIR,
            started,
            options: options.clone(),
        }
    }

    /// Until it is told to stop: then nothing new is written, and what is under way is waited for.
    pub(super) async fn run(
        mut self,
        mut told: mpsc::Receiver<Told>,
        mut questions: mpsc::Receiver<Question>,
        mut led: watch::Receiver<Option<Duration>>,
        stop: Stop,
    ) {
        self.leads_until = *led.borrow_and_update();
        loop {
            let due = self.act();
            tokio::select! {
                biased;
                _ = stop.until_told() => break,
                Ok(()) = led.changed() => self.leads_until = *led.borrow_and_update(),
                Some(done) = self.jobs.join_next() => {
                    self.hear_answer(done);
                    while let Some(done) = self.jobs.try_join_next() {
                        self.hear_answer(done);
                    }
                }
                Some(question) = questions.recv() => self.say(question),
                Some(event) = told.recv() => {
                    self.hear(event);
                    for _ in 0..BATCH {
                        let Ok(event) = told.try_recv() else { break };
                        self.hear(event);
                    }
                }
                () = sleep_until(self.clock.0 + due) => {}
            }
        }
        let last = async {
            while let Some(done) = self.jobs.join_next().await {
                self.hear_answer(done);
            }
        };
        let _ = timeout(LAST_WRITES, last).await;
    }

    /// Starts what may be started; when to look again.
    fn act(&mut self) -> Duration {
        let (now, wall) = (self.clock.now(), wall(&self.client));
        let leads = self.leads_until.is_some_and(|until| now < until);
        let health = ControllerHealth { synced: self.index.is_synced(), leads, broken: false };
        let first = health.synced && !self.health.borrow().synced;
        self.health.send_if_modified(|told| std::mem::replace(told, health) != health);
        if first {
            let says = format!("{} nodes and {} rules are known", self.index.node_count(), self.index.rules().count());
            notice(&self.notices, NoticeLevel::Info, says);
        }
        let idle = now + Duration::from_secs(1);
        if !leads {
            // A standby tells nothing.
            self.index.take_events(now);
            return idle;
        }
        if now >= self.repair {
            self.repair = now + REPAIR;
            self.index.queue_all(now, wall);
        }
        let nodes_due = self.write_nodes();
        let free = RULES_AT_ONCE.saturating_sub(self.rules_under_way);
        for job in self.index.rule_jobs(free, now, wall) {
            self.rules_under_way += 1;
            self.jobs.spawn(write_rule(self.client.clone(), job));
        }
        // With none free, an answer comes first.
        let rules_due = self.index.next_rule_due().filter(|_| self.rules_under_way < RULES_AT_ONCE);
        for event in self.index.take_events(now) {
            // Where the queue is full, the nodes are more important than what is told of them.
            let _ = self.tell.try_send(event);
        }
        let due = [nodes_due, rules_due].into_iter().flatten().min();
        due.unwrap_or(idle).clamp(now + Duration::from_millis(10), idle)
    }

    /// As many as may go out; when to look again though no answer comes.
    fn write_nodes(&mut self) -> Option<Duration> {
        let (now, wall) = (self.clock.now(), wall(&self.client));
        loop {
            match self.pace.ask(now) {
                PaceAnswer::Go => {}
                PaceAnswer::AfterAnAnswer => return None,
                PaceAnswer::NotBefore(at) => return Some(at),
            }
            let Some(job) = self.index.next_node(now, wall) else { return self.index.next_node_due() };
            self.pace.sent();
            self.jobs.spawn(write_node(self.client.clone(), job));
        }
    }

    fn hear(&mut self, told: Told) {
        let now = self.clock.now();
        match told {
            Told::Node(Watched::Begin) => self.index.begin_nodes(),
            Told::Node(Watched::Applied(wire)) => {
                let node = SlimNode::of(wire, &mut self.index.texts, now);
                self.index.apply_node(node, now);
            }
            Told::Node(Watched::Deleted(wire)) => self.index.delete_node(wire.name(), now),
            Told::Node(Watched::Synced) => self.index.end_nodes(now),
            Told::Rule(event) => self.hear_rule(*event),
            Told::Node(Watched::Unreadable { name, why }) => {
                notice(&self.notices, NoticeLevel::Warning, format!("node {name} cannot be read: {why}"));
            }
        }
    }

    fn hear_rule(&mut self, event: Watched<NodeReadinessRule>) {
        let now = self.clock.now();
        match event {
            Watched::Begin => self.index.begin_rules(),
            Watched::Applied(rule) => self.index.apply_rule(rule, now),
            Watched::Deleted(rule) => self.index.delete_rule(&rule.metadata.name, now),
            Watched::Synced => self.index.end_rules(now),
            Watched::Unreadable { name, why } => {
                notice(&self.notices, NoticeLevel::Warning, format!("rule {name} cannot be read: {why}"));
            }
        }
    }

    /// A write that panicked ends the task that owns the index, and so the process.
    fn hear_answer(&mut self, done: Result<Done, JoinError>) {
        let (now, wall) = (self.clock.now(), wall(&self.client));
        let done = match done {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => return,
        };
        match done {
            Done::Node(job, answer, took) => {
                let busy = match &answer {
                    NodeAnswer::Later(after) => Some(*after),
                    _ => None,
                };
                self.pace.answered(now, busy);
                self.index.node_took(&job, took);
                if let NodeAnswer::Refused(why) = &answer {
                    notice(&self.notices, NoticeLevel::Warning, format!("node {}: {why}", job.node));
                }
                self.index.answer_node(&job, answer, now, wall);
            }
            Done::Rule(job, answer, took) => {
                self.index.rule_took(took);
                self.rules_under_way = self.rules_under_way.saturating_sub(1);
                if let RuleAnswer::Refused(why) = &answer {
                    notice(&self.notices, NoticeLevel::Warning, format!("rule {}: {why}", job.rule));
                }
                self.index.answer_rule(&job, answer, now);
            }
        }
    }

    fn say(&self, question: Question) {
        match question {
            Question::Metrics(answer) => drop(answer.send(self.metrics())),
            Question::Admit { rule, old, answer } => {
                let others: Vec<&CompiledRule> = self.index.rules().collect();
                drop(answer.send(admit(&rule, old.as_deref(), others)));
            }
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        let requests = self.client.request_counts().into_iter().map(|((method, status), count)| {
            let code = if status == 0 { "<error>".to_owned() } else { status.to_string() };
            ((code, method), count)
        });
        let (cpu_seconds, resident_bytes) = super::http::process();
        let (nodes, rule_queue) = self.index.queue_metrics(self.clock.now());
        ControllerMetrics {
            version: self.options.version.clone(),
            rules: self.index.counters_and_gauges(self.clock.now()),
            node_states: self.options.node_state_metrics,
            nodes,
            rule_queue,
            requests: requests.collect(),
            host: self.client.server().to_string(),
            leader: self.elected.then_some(self.leads_until.is_some_and(|until| self.clock.now() < until)),
            cpu_seconds,
            resident_bytes,
            start_time: self.started,
        }
    }
}

async fn write_node(client: ClusterClient, job: NodeJob) -> Done {
    let begun = Instant::now();
    let done = match nodes::write(&client, &job).await {
        Ok(version) => NodeAnswer::Written(version),
        Err(error) => match kind_of(&error) {
            Problem::Conflict => NodeAnswer::Conflict,
            Problem::Gone => NodeAnswer::Gone,
            Problem::Later => NodeAnswer::Later(error.retry_after()),
            Problem::Refused => NodeAnswer::Refused(error.problem.to_string()),
        },
    };
    Done::Node(Box::new(job), done, begun.elapsed())
}

async fn write_rule(client: ClusterClient, job: RuleJob) -> Done {
    let begun = Instant::now();
    let done = match rules::write(&client, &job).await {
        Ok(rule) => RuleAnswer::Written(rule.map(Box::new)),
        Err(error) => match kind_of(&error) {
            Problem::Conflict => RuleAnswer::Conflict,
            Problem::Gone => RuleAnswer::Gone,
            Problem::Later => RuleAnswer::Later(error.retry_after()),
            Problem::Refused => RuleAnswer::Refused(error.problem.to_string()),
        },
    };
    Done::Rule(Box::new(job), done, begun.elapsed())
}

enum Problem {
    Conflict,
    Gone,
    Later,
    Refused,
}

fn kind_of(error: &ApiError) -> Problem {
    match &error.problem {
        ApiProblem::Conflict(_) => Problem::Conflict,
        ApiProblem::NotFound(_) => Problem::Gone,
        // A token that has just been replaced, or rights that are still being given.
        ApiProblem::Unauthorized(_) => Problem::Later,
        _ if error.may_pass() => Problem::Later,
        _ => Problem::Refused,
    }
}
