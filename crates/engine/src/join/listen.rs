//! What the programs of a join say while it goes on: the journal of the kubelet and of the runtime, and the logs of the pod
//! network's containers and kube-proxy's. What follows from a line is decided in `carrick_core::diagnose::listen`.
//!
//! Both are read from where they were read to, and no more than a bounded part at a time.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use carrick_core::diagnose::BoundPods;
use carrick_core::diagnose::last_words::Weight;
use carrick_core::diagnose::listen::{Heard, Listener};
use carrick_core::fact::{Facts, Why};
use carrick_core::join::causes::{self, EndedContainer};
use carrick_core::join::failure::Circumstance;
use carrick_core::join::observed;
use carrick_core::join::state::{JoinStatus, Stage};
use carrick_core::join::step::JoinEvent;
use carrick_core::redact::redact;
use carrick_core::signature::Phase;
use carrick_host::{Host, PathEntry, cri};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::driver::Driver;
use crate::health;

/// journalctl answers in 20 ms.
const ASK: Duration = Duration::from_secs(3);
/// How often containers are asked after: a network that comes up needs a second or two.
const LOGS: Duration = Duration::from_secs(2);
/// How often the kubelet is asked whether it lives.
const HEALTHZ: Duration = Duration::from_secs(1);
/// What a kubelet said last is in the journal a moment after systemd knows that it ended.
const WRITTEN: SignedDuration = SignedDuration::from_millis(1500);

/// The beginning of the command; behind it stands from where on.
const JOURNAL: [&str; 16] = [
    "journalctl",
    "--no-pager",
    "-q",
    "-o",
    "json",
    "--output-fields=MESSAGE,_PID,SYSLOG_IDENTIFIER,UNIT,_SYSTEMD_UNIT",
    // A look is taken every 0.4 s: who writes more than this in it is heard to the end a little later.
    "-n",
    "2000",
    "-u",
    "kubelet.service",
    "-u",
    "containerd.service",
    "-u",
    "crio.service",
    "-u",
    "cri-docker.service",
];
/// More files, and larger ones, are no configuration that somebody wrote.
const MOST_FILES: usize = 32;
const LARGEST_FILE: usize = 64 << 10;
/// The end of a log.
const TAIL: &str = "32768";

/// What was heard of one attempt, and where it goes on.
pub(super) struct Ears<'l> {
    listener: Listener<'l>,
    /// Since when what is said is of this attempt, by the machine's clock.
    since: Timestamp,
    logs_at: Option<Instant>,
    /// Containers that have ended and were heard to their end.
    over: BTreeSet<String>,
    health_at: Option<Instant>,
    silent: bool,
    /// How often the kubelet had ended when that was last told; `None` until it was first looked at.
    exits: Option<u64>,
    /// Since when one more end is seen, and its words are waited for.
    ended_at: Option<Timestamp>,
}

impl Driver<'_, '_> {
    /// A new attempt hears nothing of what was said before.
    pub(super) fn listen_anew(&mut self, since: Timestamp, exits: Option<u64>) {
        let node = self.observer.as_ref().map(|observer| observer.node.clone());
        self.ears = Some(Ears {
            listener: Listener::new(self.library, node, since),
            since,
            logs_at: None,
            over: BTreeSet::new(),
            health_at: None,
            silent: false,
            exits,
            ended_at: None,
        });
    }

    /// What the kubelet and the runtime have written since the last look.
    pub(super) async fn hear_journal(&mut self) {
        if self.ears.is_none() {
            self.listen_anew(self.attempt_began, None);
        }
        let Some(ears) = &mut self.ears else { return };
        let since = format!("--since=@{}.{:06}", ears.since.as_second(), ears.since.subsec_microsecond().max(0));
        let from = ears.listener.cursor().map_or(since, |cursor| format!("--after-cursor={cursor}"));
        let argv: Vec<&str> = JOURNAL.into_iter().chain([from.as_str()]).collect();
        // Who cannot read it hears nothing; what is looked at besides does not depend on it.
        if let Ok(ended) = self.host.run(&argv, ASK).await {
            ears.listener.hear_journal(&ended.out);
        }
    }

    /// What the agents of the pod network and kube-proxy have written, and which of them ended, and why.
    pub(super) async fn hear_logs(&mut self, state: &JoinStatus) -> Vec<JoinEvent> {
        let Some(ears) = &mut self.ears else { return Vec::new() };
        // Before there is a Node, no pod is put on it.
        let is_due = ears.logs_at.is_none_or(|at| at.elapsed() >= LOGS) && state.stage >= Stage::Registered;
        if !is_due {
            return Vec::new();
        }
        ears.logs_at = Some(Instant::now());
        let endpoints = cri::endpoints(self.host);
        let is_known = |id: &str| ears.over.contains(id);
        let Ok(logs) = cri::logs::list(self.host, &endpoints, ASK, observed::is_agent, is_known).await else {
            return Vec::new();
        };
        let mut events = Vec::new();
        for log in logs {
            let ended = log.ended;
            let is_past = ended.is_some_and(|(_, at)| at.is_some_and(|at| at < ears.since));
            if !is_past {
                let Ok(tail) = self.host.run(&["tail", "-c", TAIL, "--", &log.path], ASK).await else { continue };
                let words = ears.listener.hear_log(&log.id, &format!("pod {}", log.pod), &tail.out, ears.since);
                if let Some((exit, _)) = ended.filter(|(exit, _)| *exit != 0) {
                    let (pod, name, line) = (log.pod.as_str(), log.name.as_str(), words.line(Weight::Plain));
                    let is_kube_proxy = name == "kube-proxy";
                    let container = EndedContainer { pod, name, exit, line, is_kube_proxy };
                    let who = format!("{name} of pod {pod}");
                    let causes = causes::of_ended_container(self.library, &container);
                    events.push(JoinEvent::ProgramEnded { who, causes });
                }
            }
            if ended.is_some() {
                ears.over.insert(log.id);
            }
        }
        events
    }

    /// What was said of a pod that is gone is over.
    pub(super) fn hear_of_pods(&mut self, pods: BoundPods) {
        if let Some(ears) = &mut self.ears {
            ears.listener.has_pods(pods);
        }
    }

    /// What counts of all that was heard.
    pub(super) fn heard(&mut self, state: &JoinStatus) -> Vec<JoinEvent> {
        let reached = if state.stage >= Stage::Registered { Phase::Joined } else { Phase::Joining };
        let now = self.now();
        let Some(ears) = &mut self.ears else { return Vec::new() };
        let heard = ears.listener.weigh(reached, now).into_iter();
        let event = |heard: Heard| match heard {
            Heard::Counts(cause) => {
                causes::of_heard(cause).map(|cause| JoinEvent::Trouble(cause.under(Circumstance::GoesOn)))
            }
            Heard::Stands(cause) => causes::of_heard(cause).map(JoinEvent::Trouble),
            Heard::Over(id) => Some(JoinEvent::Passed(id)),
        };
        heard.filter_map(event).collect()
    }

    /// The kubelet of this attempt ended once more: why, as soon as its words are there.
    pub(super) async fn kubelet_ended(&mut self, facts: &Facts) -> Option<JoinEvent> {
        let (now, before) = (self.now(), self.kubelet_before);
        let state = facts.unit_state("kubelet").ok()?;
        let restarts = state.restarts.unwrap_or_default().saturating_sub(self.restarts_before);
        let ears = self.ears.as_mut()?;
        // The process that was there before kubeadm started one is not of this attempt.
        let is_ours = state.started_after_boot.is_some() && state.started_after_boot != before;
        let is_down = is_ours && matches!(state.sub_state.as_str(), "auto-restart" | "auto-restart-queued" | "failed");
        let told = ears.exits.get_or_insert(restarts);
        let exits = restarts + u64::from(is_down);
        if exits <= *told {
            return None;
        }
        let words = ears.listener.kubelet_words(state.is_active());
        let since = *ears.ended_at.get_or_insert(now);
        if words.line(Weight::Error).is_none() && now.duration_since(since) < WRITTEN {
            return None;
        }
        let laid_over = laid_over(self.host, facts).await;
        let causes = causes::of_ended_kubelet(self.library, words, facts, &laid_over);
        (*told, ears.ended_at) = (exits, None);
        Some(JoinEvent::ProgramEnded { who: "the kubelet".to_owned(), causes })
    }

    /// Whether a kubelet that runs takes connections, and answers none.
    pub(super) async fn is_silent(&mut self, facts: &Facts) -> bool {
        let Some(ears) = &mut self.ears else { return false };
        if ears.health_at.is_none_or(|at| at.elapsed() >= HEALTHZ)
            && let Some(port) = facts.kubelet_healthz_port()
        {
            let answer = health::healthz(self.host, port, health::ANSWERS).await;
            ears.silent = answer == Err(Why::TimedOut);
            ears.health_at = Some(Instant::now());
        }
        ears.silent
    }
}

/// The files of the kubelet's `--config-dir`, those that it reads; what cannot be read is none.
async fn laid_over(host: &dyn Host, facts: &Facts) -> Vec<(String, String)> {
    let Some(dir) = facts.kubelet_config_dir() else { return Vec::new() };
    let mut names = host.list(&dir).await.unwrap_or_default();
    names.retain(|name| Path::new(name).extension().is_some_and(|extension| extension == "conf"));
    names.sort();
    let mut files = Vec::new();
    for name in names.into_iter().take(MOST_FILES) {
        let path = format!("{}/{name}", dir.trim_end_matches('/'));
        if let Ok(Some(PathEntry::File(file))) = host.look(&path).await
            && file.bytes.len() <= LARGEST_FILE
        {
            files.push((path, redact(&String::from_utf8_lossy(&file.bytes))));
        }
    }
    files
}
