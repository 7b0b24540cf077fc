//! Metrics under upstream's names, the old and the new ones side by side, as text for Prometheus. Labels are rules, operations
//! and conditions, never nodes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// Counts that only grow, of one rule.
#[derive(Clone, Debug, Default)]
pub struct RuleCounters {
    pub taints_added: u64,
    pub taints_removed: u64,
    pub bootstraps_completed: u64,
    /// By reason: `EvaluationError`, `AddTaintError`, `RemoveTaintError`.
    pub failures: BTreeMap<&'static str, u64>,
    /// By condition.
    pub condition_failures: BTreeMap<Arc<str>, u64>,
    /// By operation.
    pub conflicts: BTreeMap<&'static str, u64>,
    pub evaluation: Histogram,
    pub add_latency: Histogram,
    pub remove_latency: Histogram,
    pub bootstrap: Histogram,
    /// Unix time of the last time all its nodes were looked at.
    pub last_reconciliation: Option<i64>,
}

/// How many nodes are how, of one rule, at this moment.
#[derive(Clone, Debug, Default)]
pub struct RuleGauges {
    pub enforcement_mode: &'static str,
    pub dry_run: bool,
    pub deleting: bool,
    pub matched: u64,
    pub held: u64,
    pub released: u64,
    /// Nodes with the taint, by the condition that keeps it there.
    pub blocked: BTreeMap<Arc<str>, u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// How many fell into each bucket, and above all of them.
    counts: Vec<u64>,
    sum: f64,
}

/// Prometheus' default.
pub(super) const EVALUATION: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
pub(super) const LATENCY: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
pub(super) const BOOTSTRAP: &[f64] = &[1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0];
/// controller-runtime's.
pub(super) const RECONCILE: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];
pub(super) const QUEUE: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

impl Histogram {
    pub fn observe(&mut self, buckets: &[f64], value: Duration) {
        let seconds = value.as_secs_f64();
        self.counts.resize(buckets.len() + 1, 0);
        let at = buckets.iter().position(|bound| seconds <= *bound).unwrap_or(buckets.len());
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
        self.sum += seconds;
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// What a workqueue and a reconciler of controller-runtime tell of themselves; here it is the dirty set and its workers.
#[derive(Clone, Debug, Default)]
pub struct QueueMetrics {
    pub depth: u64,
    pub adds: u64,
    pub retries: u64,
    pub waited: Histogram,
    pub worked: Histogram,
    pub reconcile: Histogram,
    pub succeeded: u64,
    pub failed: u64,
    pub requeued: u64,
    pub active: u64,
    pub workers: u64,
    /// How long those that are under way have taken so far: all together, and the longest.
    pub unfinished: Duration,
    pub longest: Duration,
}

impl QueueMetrics {
    pub(super) fn under_way(&mut self, times: impl Iterator<Item = Duration>) {
        (self.unfinished, self.longest) =
            times.fold((Duration::ZERO, Duration::ZERO), |(sum, most), it| (sum + it, most.max(it)));
    }
}

/// Everything that a scrape shows.
#[derive(Clone, Debug, Default)]
pub struct ControllerMetrics {
    pub version: String,
    pub rules: BTreeMap<Arc<str>, (RuleCounters, RuleGauges)>,
    /// Only where they are asked for: `--enable-node-state-metrics`.
    pub node_states: bool,
    pub nodes: QueueMetrics,
    pub rule_queue: QueueMetrics,
    /// By code and method.
    pub requests: BTreeMap<(String, String), u64>,
    pub host: String,
    /// `None`: no leader election.
    pub leader: Option<bool>,
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub start_time: f64,
}

/// A metric of a queue: its name, kind, help, and where it is.
type QueueNumber = (&'static str, &'static str, &'static str, fn(&QueueMetrics) -> u64);
type QueueTime = (&'static str, &'static str, fn(&QueueMetrics) -> &Histogram);
type QueueWait = (&'static str, &'static str, fn(&QueueMetrics) -> Duration);

/// One family: its head once, then its samples.
struct Family<'t> {
    text: &'t mut String,
    name: &'static str,
}

fn family<'t>(text: &'t mut String, name: &'static str, kind: &str, help: &str) -> Family<'t> {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    Family { text, name }
}

fn labelled(labels: &[(&str, &str)]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

impl Family<'_> {
    #[allow(clippy::cast_precision_loss, reason = "a count beyond 2^53 does not come")]
    fn count(&mut self, labels: &[(&str, &str)], value: u64) {
        self.value(labels, value as f64);
    }

    fn value(&mut self, labels: &[(&str, &str)], value: f64) {
        let _ = writeln!(self.text, "{}{} {value}", self.name, labelled(labels));
    }

    fn histogram(&mut self, labels: &[(&str, &str)], buckets: &[f64], of: &Histogram) {
        let mut so_far = 0;
        for (at, bound) in buckets.iter().enumerate() {
            so_far += of.counts.get(at).copied().unwrap_or_default();
            let bound = bound.to_string();
            let with: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            let _ = writeln!(self.text, "{}_bucket{} {so_far}", self.name, labelled(&with));
        }
        let with: Vec<(&str, &str)> = labels.iter().copied().chain([("le", "+Inf")]).collect();
        let _ = writeln!(self.text, "{}_bucket{} {}", self.name, labelled(&with), of.count());
        let _ = writeln!(self.text, "{}_sum{} {}", self.name, labelled(labels), of.sum);
        let _ = writeln!(self.text, "{}_count{} {}", self.name, labelled(labels), of.count());
    }
}

impl ControllerMetrics {
    pub fn render(&self) -> String {
        let mut text = String::new();
        self.about_rules(&mut text);
        self.about_nodes(&mut text);
        self.about_work(&mut text);
        self.about_process(&mut text);
        text
    }

    fn each(&self) -> impl Iterator<Item = (&str, &RuleCounters, &RuleGauges)> {
        self.rules.iter().map(|(rule, (counters, gauges))| (rule.as_ref(), counters, gauges))
    }

    fn about_rules(&self, text: &mut String) {
        family(text, "node_readiness_rules_total", "gauge", "Number of NodeReadinessRules")
            .count(&[], self.rules.len() as u64);
        let mut kinds: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for mode in ["bootstrap-only", "continuous"] {
            for dry_run in ["false", "true"] {
                kinds.insert((mode, dry_run), 0);
            }
        }
        for (_, _, gauges) in self.each() {
            let dry_run = if gauges.dry_run { "true" } else { "false" };
            *kinds.entry((gauges.enforcement_mode, dry_run)).or_default() += 1;
        }
        let help = "Number of NodeReadinessRules by enforcement mode and dry-run state";
        let mut rules = family(text, "node_readiness_rules", "gauge", help);
        for ((mode, dry_run), count) in kinds {
            rules.count(&[("enforcement_mode", mode), ("dry_run", dry_run)], count);
        }
        let help = "Total number of taint operations performed by the controller";
        let mut operations = family(text, "node_readiness_taint_operations_total", "counter", help);
        for (rule, counters, _) in self.each() {
            operations.count(&[("rule", rule), ("operation", "add")], counters.taints_added);
            operations.count(&[("rule", rule), ("operation", "remove")], counters.taints_removed);
        }
        let help = "Duration of rule evaluations per rule";
        let mut evaluations = family(text, "node_readiness_evaluation_duration_seconds", "histogram", help);
        for (rule, counters, _) in self.each() {
            evaluations.histogram(&[("rule", rule)], EVALUATION, &counters.evaluation);
        }
        let mut failures =
            family(text, "node_readiness_failures_total", "counter", "Total number of operational failures");
        for (rule, counters, _) in self.each() {
            for reason in ["EvaluationError", "AddTaintError", "RemoveTaintError"] {
                let count = counters.failures.get(reason).copied().unwrap_or_default();
                failures.count(&[("rule", rule), ("reason", reason)], count);
            }
        }
        let help = "Total number of failed condition evaluations by rule and condition name";
        let mut unmet = family(text, "node_readiness_condition_failures_total", "counter", help);
        for (rule, counters, _) in self.each() {
            for (condition, count) in &counters.condition_failures {
                unmet.count(&[("rule", rule), ("condition", condition)], *count);
            }
        }
        let help = "Total number of API conflicts by rule and operation";
        let mut conflicts = family(text, "node_readiness_api_conflicts_total", "counter", help);
        for (rule, counters, _) in self.each() {
            for (operation, count) in &counters.conflicts {
                conflicts.count(&[("rule", rule), ("operation", operation)], *count);
            }
        }
        let name = "node_readiness_rule_last_reconciliation_timestamp_seconds";
        let mut last = family(text, name, "gauge", "Unix timestamp of the last rule reconciliation");
        for (rule, counters, _) in self.each() {
            if let Some(time) = counters.last_reconciliation {
                last.value(&[("rule", rule)], f64::from(u32::try_from(time).unwrap_or(u32::MAX)));
            }
        }
        self.about_time(text);
    }

    fn about_time(&self, text: &mut String) {
        let help = "Total number of nodes that have completed bootstrap";
        let mut completed = family(text, "node_readiness_bootstrap_completed_total", "counter", help);
        for (rule, counters, _) in self.each() {
            completed.count(&[("rule", rule)], counters.bootstraps_completed);
        }
        let help = "Time from node creation to bootstrap completion (taint removal) for bootstrap-only rules";
        let mut bootstrap = family(text, "node_readiness_bootstrap_duration_seconds", "histogram", help);
        for (rule, counters, _) in self.each() {
            bootstrap.histogram(&[("rule", rule)], BOOTSTRAP, &counters.bootstrap);
        }
        // The old name and its successor, with the operations as each spells them.
        let help = "End-to-end latency from node condition change to taint operation completion";
        for (name, add, remove) in [
            ("node_readiness_reconciliation_latency_seconds", "add_taint", "remove_taint"),
            ("node_readiness_enforcement_latency_seconds", "add", "remove"),
        ] {
            let mut latency = family(text, name, "histogram", help);
            for (rule, counters, _) in self.each() {
                latency.histogram(&[("rule", rule), ("operation", add)], LATENCY, &counters.add_latency);
                latency.histogram(&[("rule", rule), ("operation", remove)], LATENCY, &counters.remove_latency);
            }
        }
    }

    fn about_nodes(&self, text: &mut String) {
        let help = "Number of nodes currently gated or released by the rule.";
        let mut nodes = family(text, "node_readiness_rule_nodes", "gauge", help);
        for (rule, _, gauges) in self.each().filter(|(_, _, gauges)| !gauges.dry_run) {
            nodes.count(&[("rule", rule), ("state", "held")], gauges.held);
            nodes.count(&[("rule", rule), ("state", "released")], gauges.released);
        }
        let help = "Number of nodes matched by a rule's NodeSelector.";
        let mut matched = family(text, "node_readiness_rule_matched_nodes", "gauge", help);
        for (rule, _, gauges) in self.each() {
            matched.count(&[("rule", rule)], gauges.matched);
        }
        let help = "Number of nodes blocked by each required condition.";
        let mut blocked = family(text, "node_readiness_blocked_nodes", "gauge", help);
        for (rule, _, gauges) in self.each().filter(|(_, _, gauges)| !gauges.dry_run && !gauges.deleting) {
            for (condition, count) in &gauges.blocked {
                blocked.count(&[("rule", rule), ("condition", condition)], *count);
            }
        }
        if !self.node_states {
            return;
        }
        let help = "Number of nodes in each readiness state per rule";
        let mut states = family(text, "node_readiness_nodes_by_state", "gauge", help);
        for (rule, _, gauges) in self.each().filter(|(_, _, gauges)| !gauges.dry_run) {
            let bootstrapping = gauges.enforcement_mode == "bootstrap-only";
            let (not_ready, starting) = if bootstrapping { (0, gauges.held) } else { (gauges.held, 0) };
            for (state, count) in [("ready", gauges.released), ("not_ready", not_ready), ("bootstrapping", starting)] {
                states.count(&[("rule", rule), ("state", state)], count);
            }
        }
    }

    /// As controller-runtime's queues, for dashboards that know those.
    fn about_work(&self, text: &mut String) {
        let queues = [("node", &self.nodes), ("nodereadiness-controller", &self.rule_queue)];
        let help = "Length of time per reconciliation per controller";
        let mut time = family(text, "controller_runtime_reconcile_time_seconds", "histogram", help);
        for (name, queue) in queues {
            time.histogram(&[("controller", name)], RECONCILE, &queue.reconcile);
        }
        let mut total = family(
            text,
            "controller_runtime_reconcile_total",
            "counter",
            "Total number of reconciliations per controller",
        );
        for (name, queue) in queues {
            for (result, count) in [
                ("success", queue.succeeded),
                ("error", queue.failed),
                ("requeue", queue.requeued),
                ("requeue_after", 0),
            ] {
                total.count(&[("controller", name), ("result", result)], count);
            }
        }
        let plain: [QueueNumber; 3] = [
            (
                "controller_runtime_reconcile_errors_total",
                "counter",
                "Total number of reconciliation errors per controller",
                |queue| queue.failed,
            ),
            (
                "controller_runtime_max_concurrent_reconciles",
                "gauge",
                "Maximum number of concurrent reconciles per controller",
                |queue| queue.workers,
            ),
            (
                "controller_runtime_active_workers",
                "gauge",
                "Number of currently used workers per controller",
                |queue| queue.active,
            ),
        ];
        for (metric, kind, help, of) in plain {
            let mut samples = family(text, metric, kind, help);
            for (name, queue) in queues {
                samples.count(&[("controller", name)], of(queue));
            }
        }
        self.about_queues(text);
    }

    fn about_queues(&self, text: &mut String) {
        let queues = [("node", &self.nodes), ("nodereadiness-controller", &self.rule_queue)];
        let mut depth =
            family(text, "workqueue_depth", "gauge", "Current depth of workqueue by workqueue and priority");
        for (name, queue) in queues {
            depth.count(&[("name", name), ("controller", name), ("priority", "0")], queue.depth);
        }
        let plain: [QueueNumber; 2] = [
            ("workqueue_adds_total", "counter", "Total number of adds handled by workqueue", |queue| queue.adds),
            ("workqueue_retries_total", "counter", "Total number of retries handled by workqueue", |queue| {
                queue.retries
            }),
        ];
        for (metric, kind, help, of) in plain {
            let mut samples = family(text, metric, kind, help);
            for (name, queue) in queues {
                samples.count(&[("name", name), ("controller", name)], of(queue));
            }
        }
        let open: [QueueWait; 2] = [
            (
                "workqueue_unfinished_work_seconds",
                "How many seconds of work has been done that is in progress and hasn't been observed by work_duration.",
                |queue| queue.unfinished,
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "How many seconds has the longest running processor for workqueue been running.",
                |queue| queue.longest,
            ),
        ];
        for (metric, help, of) in open {
            let mut samples = family(text, metric, "gauge", help);
            for (name, queue) in queues {
                samples.value(&[("name", name), ("controller", name)], of(queue).as_secs_f64());
            }
        }
        let times: [QueueTime; 2] = [
            (
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested",
                |queue| &queue.waited,
            ),
            (
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes.",
                |queue| &queue.worked,
            ),
        ];
        for (metric, help, of) in times {
            let mut samples = family(text, metric, "histogram", help);
            for (name, queue) in queues {
                samples.histogram(&[("name", name), ("controller", name)], QUEUE, of(queue));
            }
        }
    }

    fn about_process(&self, text: &mut String) {
        let help = "Build information for the node-readiness-controller binary.";
        family(text, "node_readiness_build_info", "gauge", help).count(&[("version", &self.version)], 1);
        let help = "Number of HTTP requests, partitioned by status code, method, and host.";
        let mut requests = family(text, "rest_client_requests_total", "counter", help);
        for ((code, method), count) in &self.requests {
            requests.count(&[("code", code), ("method", method), ("host", &self.host)], *count);
        }
        if let Some(leads) = self.leader {
            let help = "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master.";
            let name = crate::lease::CONTROLLER_LEASE;
            family(text, "leader_election_master_status", "gauge", help).count(&[("name", name)], u64::from(leads));
        }
        let help = "Total user and system CPU time spent in seconds.";
        family(text, "process_cpu_seconds_total", "counter", help).value(&[], self.cpu_seconds);
        family(text, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.")
            .count(&[], self.resident_bytes);
        let help = "Start time of the process since unix epoch in seconds.";
        family(text, "process_start_time_seconds", "gauge", help).value(&[], self.start_time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scraped() -> String {
        let mut counters = RuleCounters { taints_added: 3, ..RuleCounters::default() };
        counters.add_latency.observe(LATENCY, Duration::from_millis(60));
        counters.add_latency.observe(LATENCY, Duration::from_secs(1000));
        let gauges =
            RuleGauges { enforcement_mode: "continuous", held: 2, released: 5, matched: 7, ..RuleGauges::default() };
        let rules = BTreeMap::from([(Arc::from("r\"1"), (counters, gauges))]);
        ControllerMetrics { rules, leader: Some(true), version: "0.1.0".to_owned(), ..ControllerMetrics::default() }
            .render()
    }

    #[test]
    fn samples_read_as_prometheus_takes_them() {
        let text = scraped();
        for line in [
            "node_readiness_rules_total 1",
            "node_readiness_rules{enforcement_mode=\"continuous\",dry_run=\"false\"} 1",
            "node_readiness_taint_operations_total{rule=\"r\\\"1\",operation=\"add\"} 3",
            "node_readiness_reconciliation_latency_seconds_bucket{rule=\"r\\\"1\",operation=\"add_taint\",le=\"0.05\"} 0",
            "node_readiness_enforcement_latency_seconds_bucket{rule=\"r\\\"1\",operation=\"add\",le=\"0.1\"} 1",
            "node_readiness_enforcement_latency_seconds_bucket{rule=\"r\\\"1\",operation=\"add\",le=\"+Inf\"} 2",
            "node_readiness_enforcement_latency_seconds_count{rule=\"r\\\"1\",operation=\"add\"} 2",
            "node_readiness_rule_nodes{rule=\"r\\\"1\",state=\"held\"} 2",
            "leader_election_master_status{name=\"ba65f13e.readiness.node.x-k8s.io\"} 1",
            "workqueue_depth{name=\"node\",controller=\"node\",priority=\"0\"} 0",
        ] {
            assert!(text.lines().any(|its| its == line), "{line}\n{text}");
        }
        assert!(!text.contains("nodes_by_state"));
    }

    /// Prometheus refuses a text that says a family's head twice, or has a sample of another family in between.
    #[test]
    fn every_family_is_told_once() {
        let mut seen = std::collections::BTreeSet::new();
        let text = scraped();
        let mut current = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                current = rest.split(' ').next().unwrap();
                assert!(seen.insert(current), "{current} is told twice");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                let suffixes = ["_bucket", "_sum", "_count"];
                let base = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
                assert!(name == current || base == current, "{name} is under {current}");
            }
        }
    }
}
