//! Carries a join out: looks, acts and keeps the time. What follows from what is seen is decided in `core::join::step`.

#![deny(clippy::match_wildcard_for_single_variants, clippy::wildcard_enum_match_arm)]

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::{ClusterClient, bootstrap_tokens};
use carrick_core::StopSignal;
use carrick_core::discovery::Discovery;
use carrick_core::fact::{Facts, Why};
use carrick_core::join::before::MachineBefore;
use carrick_core::join::causes::FailedAction;
use carrick_core::join::ending::{self, SideEffects};
use carrick_core::join::looked::InspectedMachine;
use carrick_core::join::request::Request;
use carrick_core::join::state::{JoinPolicy, JoinStatus, Stage};
use carrick_core::join::step::{JoinEffect, JoinEvent, JoinOutcome, Withdrawal, step};
use carrick_core::join::verify::{Sandbox, first_missing};
use carrick_core::judge::Ignore;
use carrick_core::names::Names;
use carrick_core::redact::redact;
use carrick_core::report::Report;
use carrick_core::shown;
use carrick_core::signature::Library;
use carrick_host::{Host, Progress, Trouble, cri};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::listen::Ears;
use super::minted;
use super::observer::NodeObserver;
use super::past;
use super::record::{self, Record, Saved, Standing};
use crate::act::Actor;
use crate::observe::observe_for;

/// Between two looks. A look costs 50 ms; what can be seen is told within 5 s of being there.
const LOOK: Duration = Duration::from_millis(400);
/// Whoever waits is told so this often.
const WORD: Duration = Duration::from_secs(1);

/// What may be left of a sandbox is taken away in a second, or by the next run.
const LET_GO: Duration = Duration::from_secs(10);

const EARLIER: &str = "what an earlier join has left is looked at";

/// What a person asked for.
pub struct JoinOptions<'a> {
    pub request: Request,
    pub policy: JoinPolicy,
    pub ignore: Ignore,
    pub admin: Option<&'a ClusterClient>,
    /// Who may ask as the file says that discovery goes by.
    pub asker: Option<ClusterClient>,
    pub protect: Vec<String>,
    pub time_box: Duration,
}

/// What is told while it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinProgress {
    /// A stage was reached, by what, after how long.
    Reached {
        stage: Stage,
        says: String,
        after: Duration,
        /// How long this stage may take.
        limit: Duration,
        attempt: u32,
    },
    /// For how long, of how much, and what is still missing.
    Waits {
        stage: Stage,
        elapsed: Duration,
        limit: Duration,
        says: String,
        attempt: u32,
    },
    Says(String),
    /// An attempt failed; the next comes after so long.
    Again {
        says: String,
        after: Duration,
        attempt: u32,
    },
}

impl JoinProgress {
    /// As it may be shown and written down: whole sentences of other programs, their secrets redacted before any is cut to fit,
    /// each within its line: what a cluster says of a request may have lines of its own, and none of them is one of ours.
    fn redacted(mut self) -> Self {
        let (JoinProgress::Reached { says, .. }
        | JoinProgress::Waits { says, .. }
        | JoinProgress::Says(says)
        | JoinProgress::Again { says, .. }) = &mut self;
        *says = shown::in_line(&redact(says));
        self
    }
}

/// How it ended, with everything that is known about it.
#[derive(Debug)]
pub struct JoinReport {
    pub outcome: JoinOutcome,
    pub state: JoinStatus,
    /// Live diagnosis, where it failed.
    pub diagnosis: Option<Report>,
    /// Where kubeadm's own words are.
    pub log: Option<String>,
    /// Where it is written down what was done, where something was.
    pub record: Option<String>,
    /// What the units say of themselves, and their last lines, where it failed.
    pub last_words: Vec<String>,
    pub left: SideEffects,
    /// Nobody said yes to what `--fix` would change.
    pub declined: bool,
    /// The word to stop, whenever it came: one that came while a join failed has cut short what was left of that.
    pub stopped: Option<StopSignal>,
}

/// Why nothing was fixed, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFixed {
    pub says: String,
    /// It was stopped on its way: something was changed, and stays.
    pub changed: bool,
    /// Nobody said yes.
    pub declined: bool,
}

/// `--fix`: somebody who can fix what the checks found, and says whether something was changed.
pub trait Fixer: Send {
    fn fix<'a>(
        &'a mut self,
        facts: &'a Facts,
        report: &'a Report,
    ) -> carrick_host::BoxFuture<'a, Result<bool, NotFixed>>;
}

/// Joins a machine. The caller holds its lock.
pub async fn join(
    machine: &Arc<dyn Host>,
    actor: &Actor,
    options: JoinOptions<'_>,
    library: &Library,
    fixer: Option<&mut dyn Fixer>,
    tell: &mut (dyn FnMut(JoinProgress) + Send),
) -> JoinReport {
    let mut driver = Driver::new(machine, actor, options, library, fixer);
    Box::pin(driver.run(tell)).await
}

pub(super) struct Driver<'a, 'm> {
    pub(super) machine: &'a Arc<dyn Host>,
    /// The same, to look at and to change.
    pub(super) host: &'a dyn Host,
    pub(super) actor: &'a Actor,
    pub(super) options: JoinOptions<'a>,
    pub(super) library: &'a Library,
    pub(super) fixer: Option<&'m mut dyn Fixer>,
    /// The wall clock at the beginning, and what a steady one has counted since.
    pub(super) began: (Timestamp, Instant),
    /// The last full look.
    pub(super) looked: Option<InspectedMachine>,
    /// Asks with the token, once the cluster has proven itself.
    pub(super) asker: Option<ClusterClient>,
    pub(super) observer: Option<NodeObserver<'a>>,
    pub(super) node: Result<Value, Why>,
    /// The version of the Node's lease when it was first looked at.
    pub(super) lease_version: Option<String>,
    /// Runs of preparation, to be taken back where the join fails.
    pub(super) runs: Vec<u32>,
    /// kubeadm's output, and how much of it was read.
    pub(super) log: Option<String>,
    pub(super) read: usize,
    /// There is no kubeadm to follow.
    pub(super) kubeadm_over: bool,
    /// How often the kubelet had been restarted before kubeadm started it: systemd goes on counting.
    pub(super) restarts_before: u64,
    /// When the kubelet's process was started that was there before kubeadm started one, in microseconds after the boot.
    pub(super) kubelet_before: Option<u64>,
    /// Since when what programs say is of this attempt, by the machine's clock.
    pub(super) attempt_began: Timestamp,
    /// What they have said; `None` until somebody listens.
    pub(super) ears: Option<Ears<'a>>,
    /// Since when a kubeadm runs that a driver before this one started.
    pub(super) kubeadm_since: Option<Timestamp>,
    /// The names of certificate requests that are not of this attempt; `None` until they were asked for.
    pub(super) requests_before: Option<Vec<String>>,
    pub(super) sandbox_at: Option<Timestamp>,
    /// When the API server was last asked whether it takes the lease, and whether there was one.
    pub(super) lease_tried: Option<(bool, Timestamp)>,
    /// What kubeadm tries again for, until it comes further.
    pub(super) retried: Vec<String>,
    pub(super) causes_at: Option<Timestamp>,
    /// Ids of troubles that were told.
    pub(super) troubled: Vec<String>,
    /// kubeadm was started here by this driver, or by one of ours before it: what it left is ours to remove.
    pub(super) ours: bool,
    /// How many of the runs are those of a join that was cut off, where what it left is ours.
    pub(super) adopted: Option<usize>,
    /// The machine as it was, to be put back where the join fails.
    pub(super) before: Option<MachineBefore>,
    pub(super) left: SideEffects,
    pub(super) declined: bool,
    /// The word to stop, once it was taken.
    heeded: Option<StopSignal>,
    diagnosis: Option<Report>,
    last_words: Vec<String>,
}

impl<'a, 'm> Driver<'a, 'm> {
    pub(super) fn new(
        machine: &'a Arc<dyn Host>,
        actor: &'a Actor,
        mut options: JoinOptions<'a>,
        library: &'a Library,
        fixer: Option<&'m mut dyn Fixer>,
    ) -> Self {
        let (host, asker) = (machine.as_ref(), options.asker.take());
        let now = host.now();
        Driver {
            machine,
            host,
            actor,
            options,
            library,
            fixer,
            began: (now, Instant::now()),
            looked: None,
            asker,
            observer: None,
            node: Err(Why::NotCollected),
            lease_version: None,
            runs: Vec::new(),
            log: None,
            read: 0,
            kubeadm_over: true,
            restarts_before: 0,
            kubelet_before: None,
            attempt_began: now,
            ears: None,
            kubeadm_since: None,
            requests_before: None,
            sandbox_at: None,
            lease_tried: None,
            retried: Vec::new(),
            causes_at: None,
            troubled: Vec::new(),
            ours: false,
            adopted: None,
            before: None,
            left: SideEffects::default(),
            declined: false,
            heeded: None,
            diagnosis: None,
            last_words: Vec::new(),
        }
    }

    /// The run's own time: a clock that is set in mid-join ends nothing early.
    pub(super) fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.began.1.elapsed()).unwrap_or(SignedDuration::MAX);
        self.began.0.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    async fn run(&mut self, tell: &mut (dyn FnMut(JoinProgress) + Send)) -> JoinReport {
        let (mut state, mut effects) = JoinStatus::begin(self.options.policy.clone(), self.now());
        let (host, mut record) = (self.host, Record::begin(self.began.0));
        let mut told_unwritten = false;
        let earlier = async {
            let saved = record::cut_off(host).await?;
            Some((past::whose(host, &saved).await, saved))
        };
        if let Some((whose, saved)) = attended(Box::pin(earlier), EARLIER, &state, tell).await {
            let Saved { begun, state: before, runs, .. } = saved;
            let at = begun.strftime("%Y-%m-%d %H:%M:%SZ");
            let how = if before.stage.is_over() {
                "could not end what one before it had begun".to_owned()
            } else {
                format!("was cut off ({})", before.stage.name())
            };
            tell(JoinProgress::Says(format!("the join of {at} {how}; this one goes on")));
            whose.says.into_iter().for_each(|says| tell(JoinProgress::Says(says)));
            // What it had begun is ours to end, and to tell of.
            self.adopted = whose.ours.then_some(runs.len());
            (self.runs, self.ours, self.before) = (runs, whose.ours, whose.before);
            state.changed = true;
        }
        loop {
            let mut telling = |told: JoinProgress| {
                let told = told.redacted();
                record.note(host.now(), &told);
                tell(told);
            };
            let over = self.turn(&mut state, &mut effects, &mut telling).await;
            self.heed_stop(&mut state, &mut effects);
            if let Some(outcome) = &over {
                record.end(host.now(), outcome);
                let ours = (self.ours || !self.runs.is_empty()) && !self.left.in_cluster;
                self.left.unfinished = ending::is_unfinished(outcome, ours);
            }
            let kept = if state.changed {
                let standing = self.standing();
                let keeping = Box::pin(record.keep(host, &state, &standing));
                attended(keeping, "what is done is written down", &state, tell).await
            } else {
                Ok(())
            };
            if let Err(trouble) = kept
                && !std::mem::replace(&mut told_unwritten, true)
            {
                tell(JoinProgress::Says(format!("what is done cannot be written down: {trouble}")));
            }
            if let Some(outcome) = over {
                let (diagnosis, last_words) = (self.diagnosis.take(), std::mem::take(&mut self.last_words));
                let (log, record) = (self.log.clone(), record.place());
                let (left, declined) = (self.left.clone(), self.declined);
                // kubeadm, where it goes on, needs it; the next join revokes it.
                if !matches!(outcome, JoinOutcome::Interrupted { stays: Withdrawal::AtWork, .. }) {
                    self.revoke_minted(&state, tell).await;
                }
                let stopped = self.actor.stop.told();
                return JoinReport { outcome, state, diagnosis, log, record, last_words, left, declined, stopped };
            }
        }
    }

    /// What is to be put back.
    fn standing(&self) -> Standing<'_> {
        Standing { runs: &self.runs, before: self.before.as_ref(), unfinished: self.left.unfinished }
    }

    /// The token that was made for this join is good for nothing any more, nor is one that a join before it had to leave.
    async fn revoke_minted(&mut self, state: &JoinStatus, tell: &mut (dyn FnMut(JoinProgress) + Send)) {
        let revoking = Box::pin(self.revoke_tokens());
        for (id, why) in attended(revoking, "the token of this join is revoked", state, tell).await {
            tell(JoinProgress::Says(format!("the token {id} could not be revoked ({why}); it ends by itself")));
        }
    }

    /// Those that could not be, and why.
    pub(super) async fn revoke_tokens(&self) -> Vec<(String, String)> {
        let Some(admin) = self.options.admin else { return Vec::new() };
        let server = admin.server().to_string();
        let mut failed = Vec::new();
        for id in minted::of(self.host, &server).await.unwrap_or_default() {
            let revoked = bootstrap_tokens::revoke(admin, &id).await.map_err(|error| error.to_string());
            let forgotten = match revoked {
                Ok(()) => minted::forget(self.host, &id, &server).await.map_err(|trouble| trouble.to_string()),
                Err(why) => Err(why),
            };
            failed.extend(forgotten.err().map(|why| (id, why)));
        }
        failed
    }

    /// Does what is to be done, looks where there is nothing, and takes what follows; how it ended, once it has.
    async fn turn(
        &mut self,
        state: &mut JoinStatus,
        effects: &mut Vec<JoinEffect>,
        tell: &mut (dyn FnMut(JoinProgress) + Send),
    ) -> Option<JoinOutcome> {
        let mut events = Vec::new();
        for effect in std::mem::take(effects) {
            if let JoinEffect::Report(mut outcome) = effect {
                ending::complete(&mut outcome, self.library, &self.names(state));
                return Some(outcome);
            }
            events.extend(self.perform(effect, state, tell).await);
        }
        if events.is_empty() && self.actor.stop.told().is_none() {
            events = self.look_around(state, tell).await;
        }
        for event in events {
            let (next, follows) = step(state, &event, self.now());
            self.tell_change(state, &next, tell);
            *state = next;
            effects.extend(follows);
        }
        None
    }

    /// Waits a moment and looks. Where the stage's time is over before that ends, or somebody says stop, what was being looked
    /// at is let go of.
    async fn look_around(&mut self, state: &JoinStatus, tell: &mut (dyn FnMut(JoinProgress) + Send)) -> Vec<JoinEvent> {
        let stop = self.actor.stop.clone();
        // A sandbox that is due, or the look for causes, is the last proof: it is not waited for.
        let due = self.sandbox_at.is_some_and(|at| at <= self.now());
        let looks = self.causes_at.is_some_and(|at| at <= self.now());
        if !(looks || (due && state.stage == Stage::NetworkReady)) {
            self.wait(state, tell).await;
        }
        let (so_far, says) = self.waits_for(state);
        let word = |passed| waits(state, so_far + passed, &says);
        let left = Duration::try_from(state.deadline.duration_since(self.now())).unwrap_or_default();
        let looking = with_word(Box::pin(self.look(state)), word, tell);
        let looked = stop.or(timeout(left.max(LOOK), looking)).await;
        if let Ok(Ok(events)) = looked {
            return events.into_iter().chain([JoinEvent::Tick]).collect();
        }
        if due {
            // It may have been about to take away what it had made.
            let endpoints = cri::endpoints(self.host);
            let clearing = async {
                let in_cluster = async {
                    if let Some(observer) = &self.observer {
                        let _ = observer.clear().await;
                    }
                };
                let _ = tokio::join!(cri::sandbox::clear(self.host, &endpoints), in_cluster);
            };
            let clearing = timeout(LET_GO, Box::pin(clearing));
            let _ = attended(clearing, "what was tried is removed", state, tell).await;
        }
        vec![JoinEvent::Tick]
    }

    /// The word to stop is taken once, behind what has happened by then; nothing new is begun after it.
    fn heed_stop(&mut self, state: &mut JoinStatus, effects: &mut Vec<JoinEffect>) {
        let Some(signal) = self.actor.stop.told().filter(|_| self.heeded.is_none()) else { return };
        self.heeded = Some(signal);
        let at_work = !self.kubeadm_over;
        let (next, follows) = step(state, &JoinEvent::Interrupted { signal, at_work }, self.now());
        *state = next;
        if !follows.is_empty() {
            effects.retain(JoinEffect::ends);
            effects.extend(follows);
        }
    }

    /// For how long already, and for what.
    fn waits_for(&self, state: &JoinStatus) -> (Duration, String) {
        let missing = first_missing(&state.seen, state.policy.until).map(|(_, says)| says);
        let troubled = state.troubles.last().map(|trouble| trouble.says.clone());
        let says = troubled.or_else(|| missing.filter(|_| state.stage >= Stage::CertificateIssued));
        let elapsed = Duration::try_from(self.now().duration_since(state.since)).unwrap_or_default();
        (elapsed, says.unwrap_or_else(|| state.stage.awaits().to_owned()))
    }

    async fn wait(&self, state: &JoinStatus, tell: &mut (dyn FnMut(JoinProgress) + Send)) {
        let (elapsed, says) = self.waits_for(state);
        tell(waits(state, elapsed, &says));
        sleep(LOOK).await;
    }

    fn tell_change(&mut self, before: &JoinStatus, after: &JoinStatus, tell: &mut (dyn FnMut(JoinProgress) + Send)) {
        let after_begun = Duration::try_from(self.now().duration_since(before.since)).unwrap_or_default();
        if after.stage == Stage::Waiting && before.stage != Stage::Waiting {
            let says = after.failures.last().map(|failure| failure.says.clone()).unwrap_or_default();
            let pause = Duration::try_from(after.deadline.duration_since(self.now())).unwrap_or_default();
            tell(JoinProgress::Again { says, after: pause, attempt: after.attempt });
        } else if after.stage > before.stage && !after.stage.is_over() {
            let (stage, says, limit, attempt) = (after.stage, reached(after), after.limit(), after.attempt);
            tell(JoinProgress::Reached { stage, says, after: after_begun, limit, attempt });
        }
        if after.attempt > before.attempt {
            self.attempt_began = self.host.now();
            self.ears = None;
            self.requests_before = None;
            self.troubled.clear();
            self.retried.clear();
        }
    }

    async fn perform(
        &mut self,
        effect: JoinEffect,
        state: &JoinStatus,
        tell: &mut (dyn FnMut(JoinProgress) + Send),
    ) -> Vec<JoinEvent> {
        match effect {
            JoinEffect::Observe => {
                let (says, stop) = ("the machine and the cluster are looked at", self.actor.stop.clone());
                let observing = attended(Box::pin(self.observe()), says, state, tell);
                stop.or(observing).await.into_iter().collect()
            }
            JoinEffect::RemoveNode { name, says } => {
                tell(JoinProgress::Says(says.clone()));
                vec![attended(Box::pin(self.remove_node(&name)), &says, state, tell).await]
            }
            JoinEffect::MarkNotReady { name, says } => {
                tell(JoinProgress::Says(says.clone()));
                vec![attended(Box::pin(self.mark_not_ready(&name)), &says, state, tell).await]
            }
            JoinEffect::WakeKubelet => {
                vec![attended(Box::pin(self.wake_kubelet()), "systemd starts the kubelet", state, tell).await]
            }
            JoinEffect::Check => self.provide_and_check(state, tell).await.into_iter().collect(),
            JoinEffect::Prepare => {
                let prepared = self.prepare(state, tell).await;
                if self.actor.stop.told().is_some() && prepared != Ok(JoinEvent::Prepared) {
                    return Vec::new();
                }
                // What was done of it, the attempt's clean-up takes back.
                vec![prepared.unwrap_or_else(|trouble| JoinEvent::Failed(self.undone(&trouble).unprepared()))]
            }
            JoinEffect::StartKubeadm => {
                let started = attended(Box::pin(self.start(state)), "kubeadm is started", state, tell).await;
                vec![started.unwrap_or_else(|trouble| JoinEvent::Failed(self.undone(&trouble).unstarted()))]
            }
            JoinEffect::Attach => {
                let says = "what kubeadm has said so far is looked for";
                attended(Box::pin(self.attach()), says, state, tell).await;
                Vec::new()
            }
            JoinEffect::Sandbox { not_before } => {
                self.sandbox_at = Some(not_before);
                Vec::new()
            }
            JoinEffect::LookForCauses { not_before } => {
                self.causes_at = Some(not_before);
                Vec::new()
            }
            JoinEffect::Tell(says) => {
                tell(JoinProgress::Says(says));
                Vec::new()
            }
            JoinEffect::Finish => {
                let changed = self.uncordon(state, tell).await;
                self.tidy_up(state, tell).await;
                self.seal(state, tell).await;
                vec![JoinEvent::Finished { changed }]
            }
            JoinEffect::Leave => {
                self.tidy_up(state, tell).await;
                Vec::new()
            }
            JoinEffect::CleanUp => {
                self.put_back(state, tell).await;
                Vec::new()
            }
            JoinEffect::Halt => {
                let says = "kubeadm is to come to its end";
                let certificate = attended(Box::pin(self.halt()), says, state, tell).await;
                vec![JoinEvent::Halted { certificate }]
            }
            JoinEffect::Diagnose => {
                self.look_for_the_cause(state, tell).await;
                Vec::new()
            }
            JoinEffect::Report(_) => Vec::new(),
        }
    }

    /// Nothing where it was told to stop meanwhile.
    async fn provide_and_check(
        &mut self,
        state: &JoinStatus,
        tell: &mut (dyn FnMut(JoinProgress) + Send),
    ) -> Option<JoinEvent> {
        let (says, stop) = ("a token is made for this join", self.actor.stop.clone());
        // Where it was made already, its id is known.
        let provided = stop.or(attended(Box::pin(self.provide_token()), says, state, tell)).await.ok()?;
        if let Err(event) = provided {
            return Some(event);
        }
        let checked = self.check(state, tell).await;
        // Who was told to stop while `--fix` asked, or fixed, has not failed.
        let is_cut_short = stop.told().is_some() && matches!(checked, JoinEvent::Failed(_));
        (!is_cut_short).then_some(checked)
    }

    async fn put_back(&mut self, state: &JoinStatus, tell: &mut (dyn FnMut(JoinProgress) + Send)) {
        let cleaned = attended(Box::pin(self.clean_up()), "what was changed is put back", state, tell).await;
        self.left.stuck = cleaned.is_err();
        if let Err(problem) = cleaned {
            tell(JoinProgress::Says(format!("not all of it could be cleaned up: {problem}")));
        }
        if self.left.in_cluster {
            let says = "the kubelet has its certificate by now: the machine is in the cluster, and is left there";
            tell(JoinProgress::Says(says.to_owned()));
        }
    }

    async fn look_for_the_cause(&mut self, state: &JoinStatus, tell: &mut (dyn FnMut(JoinProgress) + Send)) {
        let overdue = state.failures.last().is_some_and(|failure| failure.overdue);
        let stop = self.actor.stop.clone();
        // The look before it may have been let go of a second after its last word.
        tell(waits(state, Duration::ZERO, "the cause is looked for"));
        let looking = async {
            let words = if overdue { self.last_words().await } else { Vec::new() };
            (self.diagnose(state).await, words)
        };
        let looked = stop.or(attended(Box::pin(looking), "the cause is looked for", state, tell)).await;
        if let Ok((diagnosis, words)) = looked {
            (self.diagnosis, self.last_words) = (Some(diagnosis), words);
        }
    }

    async fn tidy_up(&mut self, state: &JoinStatus, tell: &mut (dyn FnMut(JoinProgress) + Send)) {
        for problem in
            attended(Box::pin(self.finish(state.changed)), "kubeadm is to come to its end", state, tell).await
        {
            tell(JoinProgress::Says(problem));
        }
    }

    pub(super) fn undone(&self, trouble: &Trouble) -> FailedAction<'a> {
        FailedAction { library: self.library, says: trouble.to_string(), of_the_link: trouble.of_the_link }
    }

    /// What is known of this join, for the remedies of what it failed for.
    fn names(&self, state: &JoinStatus) -> Names {
        let names = self.looked.as_ref().map(|looked| Names::of(&looked.facts)).unwrap_or_default();
        let request = &self.options.request;
        let server = request.api.as_ref().or_else(|| self.options.admin.map(ClusterClient::server));
        names
            .with_server(server.map(ToString::to_string).as_deref())
            .with("node", self.observer.as_ref().map(|observer| observer.node.as_str()))
            .with("token_id", request.token.as_ref().map(|token| token.id.as_str()))
            .with("request", state.seen.request.as_ref().ok().map(|request| request.name.as_str()))
    }

    pub(super) fn target(&self) -> Option<Discovery> {
        self.options.request.target()
    }

    /// All there is to see, at the machine and at the cluster, judged.
    pub(super) async fn see(&self) -> InspectedMachine {
        InspectedMachine::at(self.facts().await, &self.options.ignore)
    }

    pub(super) async fn facts(&self) -> Facts {
        let (target, options) = (self.target(), &self.options);
        let asked = options.request.node_name.as_deref();
        observe_for(asked, self.host, target.as_ref(), options.admin, options.time_box, &Progress::default()).await.0
    }
}

/// Does something that may take long, and says every second that it is still being done.
pub(super) async fn attended<T>(
    work: impl Future<Output = T>,
    says: &str,
    state: &JoinStatus,
    tell: &mut (dyn FnMut(JoinProgress) + Send),
) -> T {
    with_word(work, |passed| waits(state, passed, says), tell).await
}

/// Does something that may take long, and tells a word of how long it has taken, every second.
async fn with_word<T>(
    work: impl Future<Output = T>,
    progress: impl Fn(Duration) -> JoinProgress,
    tell: &mut (dyn FnMut(JoinProgress) + Send),
) -> T {
    let (began, mut work) = (Instant::now(), pin!(work));
    loop {
        if let Ok(done) = timeout(WORD, &mut work).await {
            return done;
        }
        tell(progress(began.elapsed()));
    }
}

fn waits(status: &JoinStatus, elapsed: Duration, says: &str) -> JoinProgress {
    let (limit, says) = (status.limit(), says.to_owned());
    JoinProgress::Waits { stage: status.stage, elapsed, limit, says, attempt: status.attempt }
}

/// What a stage was reached by, in the words of a person.
fn reached(state: &JoinStatus) -> String {
    let seen = &state.seen;
    match state.stage {
        Stage::Unjoined => "nothing of a live join is here".to_owned(),
        Stage::Probed => "the prerequisites hold".to_owned(),
        Stage::Prepared => "kubelet held back until it is configured".to_owned(),
        Stage::Joining => "kubeadm is at work".to_owned(),
        Stage::KubeletUp => "the kubelet runs, with a kubeconfig".to_owned(),
        Stage::CertificateRequested => match &seen.request {
            Ok(request) => format!("request {}", request.name),
            Err(_) => "the kubelet asked for it".to_owned(),
        },
        Stage::CertificateIssued => "issued for this node by this cluster".to_owned(),
        Stage::Registered => match &seen.node {
            Ok(node) if seen.lease.is_ok() => format!("node {} is this machine; its lease is renewing", node.name),
            Ok(node) => format!("node {} is this machine, and this kubelet has made it", node.name),
            Err(_) => "the node is this machine".to_owned(),
        },
        Stage::NetworkReady => "the runtime's pod network is ready".to_owned(),
        Stage::Verified => match &seen.sandbox {
            Ok(Sandbox { address, pod: Some(pod), .. }) => format!("Ready, and pod {pod} got {address}"),
            Ok(sandbox) => format!("Ready, and a sandbox got {}", sandbox.address),
            Err(_) => "as far as was asked for".to_owned(),
        },
        other @ (Stage::Begun | Stage::Blocked | Stage::Waiting | Stage::Joined | Stage::Failed) => {
            other.awaits().to_owned()
        }
    }
}
