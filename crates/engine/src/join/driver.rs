//! Carries a join out: looks, acts and keeps the time. What follows from what is seen is decided in `core::join::step`.

use std::time::Duration;

use carrick_cluster::client::Client;
use carrick_core::aim::Aim;
use carrick_core::check::{self, Outcome as Judgement};
use carrick_core::diagnose::Case;
use carrick_core::fact::{Facts, Known, Why};
use carrick_core::join::existing::{Found, Local};
use carrick_core::join::failure::{Cause, by_the_clock};
use carrick_core::join::input::Request;
use carrick_core::join::output;
use carrick_core::join::state::{Policy, Stage, State};
use carrick_core::join::step::{Effect, Event, Outcome, step};
use carrick_core::join::verify::{Certificate, first_missing};
use carrick_core::join::{config, prepare, sight};
use carrick_core::plan::Plan;
use carrick_core::plan::protect::Protected;
use carrick_core::report::{self, Ignore, Report};
use carrick_core::signature::Library;
use carrick_host::host::{Entry, File, How, Trouble};
use carrick_host::{Host, Progress};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::look::Eyes;
use super::unit::{self, Kubeadm};
use super::verify::of_machine;
use crate::act::journal::HOME;
use crate::act::{self, Actor, undo};
use crate::observe::{FromMachine, observe};

/// Between two looks. A look costs 50 ms; what can be seen is told within 5 s of being there.
const LOOK: Duration = Duration::from_millis(400);
/// How often a machine that is too busy to answer is asked what is there.
const LOOKS: u32 = 3;
/// kubeadm's file: the token is in it. Below /run, so that it outlives no boot.
const CONFIG_DIR: &str = "/run/carrick";
const CONFIG: &str = "/run/carrick/join.yaml";

/// What a person asked for.
pub struct Wish<'a> {
    pub request: Request,
    pub policy: Policy,
    pub ignore: Ignore,
    pub admin: Option<&'a Client>,
    pub protect: Vec<String>,
    pub time_box: Duration,
}

/// What is told while it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A stage was reached, by what, after how long.
    Reached {
        stage: Stage,
        says: String,
        after: Duration,
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

/// How it ended, with everything that is known about it.
#[derive(Debug)]
pub struct Ended {
    pub outcome: Outcome,
    pub state: State,
    /// Live diagnosis, where it failed.
    pub diagnosis: Option<Report>,
    /// Where kubeadm's own words are.
    pub log: Option<String>,
}

/// `--fix`: somebody who can mend what the checks found, and says whether something was changed.
pub trait Mender: Send {
    fn mend<'a>(
        &'a mut self,
        facts: &'a Facts,
        report: &'a Report,
    ) -> carrick_host::probe::Answer<'a, Result<bool, String>>;
}

/// Joins a machine. The caller holds its lock.
pub async fn join(
    host: &dyn Host,
    actor: &Actor,
    wish: Wish<'_>,
    library: &Library,
    mender: Option<&mut dyn Mender>,
    tell: &mut (dyn FnMut(Told) + Send),
) -> Ended {
    let mut driver = Driver::new(host, actor, wish, library, mender);
    driver.run(tell).await
}

/// What a join would do.
#[derive(Debug)]
pub struct Planned {
    /// Before kubeadm runs.
    pub steps: Vec<act::Grounded>,
    /// What follows, as sentences.
    pub then: Vec<String>,
}

/// Looks, and says what a join would do; changes nothing.
pub async fn plan(host: &dyn Host, wish: &Wish<'_>) -> Result<Planned, Trouble> {
    let (facts, _) = observe(host, wish.request.aim().as_ref(), wish.admin, wish.time_box, &Progress::default()).await;
    let plan = preparation(&facts)?;
    let then = [
        format!("write {CONFIG} for root alone, run kubeadm join with it in {}, remove it", unit::UNIT),
        "watch the kubelet until its Node is verified; run one sandbox, and remove it".to_owned(),
        format!("remove {}", prepare::DROP_IN),
    ];
    Ok(Planned { steps: act::ground(host, &plan).await?, then: then.into() })
}

/// The plan of preparation for a machine as it is.
fn preparation(facts: &Facts) -> Result<Plan, Trouble> {
    let report = report::check(facts, &check::Policy::default(), &Ignore::default());
    let wrong: Vec<&str> =
        report.findings.iter().filter(|it| it.verdict > Judgement::Pass).map(|finding| finding.id).collect();
    let stale = !matches!(Local::of(facts), Ok(Local::Joined | Local::Stopped | Local::Bootstrapping));
    let steps = prepare::plan(facts, &wrong, stale).map_err(|missing| Trouble::new("prepare", missing))?;
    Plan::of(steps).map_err(|conflict| Trouble::new("prepare", conflict))
}

struct Driver<'a, 'm> {
    host: &'a dyn Host,
    actor: &'a Actor,
    wish: Wish<'a>,
    library: &'a Library,
    mender: Option<&'m mut dyn Mender>,
    /// The wall clock at the beginning, and what a steady one has counted since.
    began: (Timestamp, Instant),
    /// Of the last full look.
    facts: Option<Facts>,
    /// Asks with the token, once the cluster has proven itself.
    asker: Option<Client>,
    eyes: Option<Eyes<'a>>,
    node: Result<Value, Why>,
    /// Runs of preparation, to be taken back where the join fails.
    runs: Vec<u32>,
    /// kubeadm's output, and how much of it was read.
    log: Option<String>,
    read: usize,
    kubeadm_over: bool,
    /// How often the kubelet had been restarted before kubeadm started it: systemd goes on counting.
    restarts_before: u64,
    /// When the requests of this attempt begin.
    attempt_began: Timestamp,
    sandbox_at: Option<Timestamp>,
    /// Ids of troubles that were told.
    troubled: Vec<String>,
    diagnosis: Option<Report>,
}

impl<'a, 'm> Driver<'a, 'm> {
    fn new(
        host: &'a dyn Host,
        actor: &'a Actor,
        wish: Wish<'a>,
        library: &'a Library,
        mender: Option<&'m mut dyn Mender>,
    ) -> Self {
        let now = host.now();
        Driver {
            host,
            actor,
            wish,
            library,
            mender,
            began: (now, Instant::now()),
            facts: None,
            asker: None,
            eyes: None,
            node: Err(Why::NotCollected),
            runs: Vec::new(),
            log: None,
            read: 0,
            kubeadm_over: false,
            restarts_before: 0,
            attempt_began: now,
            sandbox_at: None,
            troubled: Vec::new(),
            diagnosis: None,
        }
    }

    /// The run's own time: a clock that is set in mid-join ends nothing early.
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.began.1.elapsed()).unwrap_or(SignedDuration::MAX);
        self.began.0.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    async fn run(&mut self, tell: &mut (dyn FnMut(Told) + Send)) -> Ended {
        let (mut state, effects) = State::begin(self.wish.policy.clone(), self.now());
        let mut pending: Vec<Effect> = effects;
        loop {
            let mut events = Vec::new();
            for effect in std::mem::take(&mut pending) {
                if let Effect::Report(outcome) = effect {
                    let (diagnosis, log) = (self.diagnosis.take(), self.log.clone());
                    return Ended { outcome, state, diagnosis, log };
                }
                events.extend(self.perform(effect, &state, tell).await);
            }
            if events.is_empty() {
                self.wait(&state, tell).await;
                events = self.look(&state).await;
                events.push(Event::Tick);
            }
            for event in events {
                let (next, effects) = step(&state, &event, self.now());
                self.tell_change(&state, &next, tell);
                state = next;
                pending.extend(effects);
            }
        }
    }

    async fn wait(&self, state: &State, tell: &mut (dyn FnMut(Told) + Send)) {
        let passed = |from: Timestamp, to: Timestamp| Duration::try_from(to.duration_since(from)).unwrap_or_default();
        let missing = first_missing(&state.seen, state.policy.until).map(|(_, says)| says);
        let troubled = state.troubles.last().map(|trouble| trouble.says.clone());
        let says = troubled.or_else(|| missing.filter(|_| state.stage >= Stage::CertificateIssued));
        tell(Told::Waits {
            stage: state.stage,
            elapsed: passed(state.since, self.now()),
            limit: passed(state.since, state.deadline),
            says: says.unwrap_or_else(|| state.stage.awaits().to_owned()),
            attempt: state.attempt,
        });
        sleep(LOOK).await;
    }

    fn tell_change(&mut self, before: &State, after: &State, tell: &mut (dyn FnMut(Told) + Send)) {
        let after_begun = Duration::try_from(self.now().duration_since(before.since)).unwrap_or_default();
        if after.stage == Stage::Waiting && before.stage != Stage::Waiting {
            let says = after.failures.last().map(|failure| failure.says.clone()).unwrap_or_default();
            let pause = Duration::try_from(after.deadline.duration_since(self.now())).unwrap_or_default();
            tell(Told::Again { says, after: pause, attempt: after.attempt });
        } else if after.stage > before.stage && !after.stage.is_over() {
            tell(Told::Reached { stage: after.stage, says: reached(after), after: after_begun });
        }
        if after.attempt > before.attempt {
            self.attempt_began = self.host.now();
            self.troubled.clear();
        }
    }

    async fn perform(&mut self, effect: Effect, state: &State, tell: &mut (dyn FnMut(Told) + Send)) -> Vec<Event> {
        match effect {
            Effect::Observe => vec![self.observe().await],
            Effect::RemoveNode { name, says } => {
                tell(Told::Says(says));
                vec![self.remove_node(&name).await]
            }
            Effect::Check => vec![self.check(tell).await],
            Effect::Prepare => vec![self.prepare().await.unwrap_or_else(|trouble| troubled("act", &trouble))],
            Effect::StartKubeadm => {
                vec![self.start(state).await.unwrap_or_else(|trouble| troubled("kubeadm", &trouble))]
            }
            Effect::Attach => {
                self.attach().await;
                Vec::new()
            }
            Effect::Sandbox { not_before } => {
                self.sandbox_at = Some(not_before);
                Vec::new()
            }
            Effect::Tell(says) => {
                tell(Told::Says(says));
                Vec::new()
            }
            Effect::Finish => {
                for problem in self.finish().await {
                    tell(Told::Says(problem));
                }
                vec![Event::Finished]
            }
            Effect::Leave => {
                for problem in self.finish().await {
                    tell(Told::Says(problem));
                }
                Vec::new()
            }
            Effect::CleanUp => {
                if let Err(problem) = self.clean_up().await {
                    tell(Told::Says(format!("not all of it could be cleaned up: {problem}")));
                }
                Vec::new()
            }
            Effect::Diagnose => {
                self.diagnosis = Some(self.diagnose().await);
                Vec::new()
            }
            Effect::Report(_) => Vec::new(),
        }
    }

    fn aim(&self) -> Option<Aim> {
        self.wish.request.aim()
    }

    async fn observe(&mut self) -> Event {
        for _ in 1..LOOKS {
            match self.observe_once().await {
                Err(missing) if missing.why == Why::TimedOut => {}
                seen => return seen.map_or_else(|missing| unseen(&missing), Event::Found),
            }
        }
        self.observe_once().await.map_or_else(|missing| unseen(&missing), Event::Found)
    }

    async fn observe_once(&mut self) -> Known<Found> {
        let (facts, _) =
            observe(self.host, self.aim().as_ref(), self.wish.admin, self.wish.time_box, &Progress::default()).await;
        let kubeadm = match unit::state(self.host).await {
            Ok(Kubeadm::Running) => Some(self.began.0),
            _ => None,
        };
        let found = self.found(&facts, kubeadm).await;
        self.facts = Some(facts);
        found
    }

    /// The facts as `core::join::existing` wants them, and the eyes for what follows.
    async fn found(&mut self, facts: &Facts, kubeadm: Option<Timestamp>) -> Known<Found> {
        let local = Local::of(facts)?;
        let node_name = match &self.wish.request.node_name {
            Some(name) => name.clone(),
            None => facts.node_name()?,
        };
        let ca = facts.cluster_ca().ok();
        if let (Some(aim), Some(text), None) = (self.aim(), facts.api("cluster-ca").ok(), &self.asker)
            && let Some(token) = &aim.token
        {
            self.asker = Client::with_token(&aim.endpoint, &text.text, token).ok();
        }
        // The driver outlives its eyes by nothing: both see through the same host.
        let mut eyes = Eyes::new(self.host, node_name, facts.identity()?, self.wish.admin);
        eyes.ca = ca;
        let node = self.ask_node(&eyes).await;
        let lease_age = match self.wish.admin {
            Some(_) => self.lease_age(&eyes).await,
            None => None,
        };
        let admin = self.wish.admin.is_some();
        let found = Found { local, kubeadm, node: eyes.node(&node), lease_age, admin, path: broken_path(facts) };
        self.node = node;
        self.eyes = Some(eyes);
        Ok(found)
    }

    /// With the admin's rights, else with the token's.
    async fn ask_node(&self, eyes: &Eyes<'_>) -> Result<Value, Why> {
        match (self.wish.admin, &self.asker) {
            (Some(_), _) => eyes.node_object().await,
            (None, Some(asker)) => asker.get(&FromMachine(self.host), &format!("/api/v1/nodes/{}", eyes.node)).await,
            (None, None) => Err(Why::Broken("the API server was not reached".to_owned())),
        }
    }

    async fn lease_age(&self, eyes: &Eyes<'_>) -> Option<SignedDuration> {
        let renewed = eyes.lease().await.ok()?.renewed_at?;
        Some(self.host.now().duration_since(renewed))
    }

    async fn remove_node(&self, name: &str) -> Event {
        let Some(admin) = self.wish.admin else {
            return Event::Trouble(Cause::of("api.node-name", "a Node can be removed only with an admin's kubeconfig"));
        };
        match admin.delete(&FromMachine(self.host), &format!("/api/v1/nodes/{name}")).await {
            Ok(()) => Event::NodeRemoved,
            Err(why) => {
                Event::Trouble(Cause::of("api.node-name", format!("the Node {name} could not be removed: {why}")))
            }
        }
    }

    /// What forbids a join. What prepare sets right, and what the decision about the Node has settled, does not.
    async fn check(&mut self, tell: &mut (dyn FnMut(Told) + Send)) -> Event {
        let Some(facts) = &self.facts else { return Event::Checked { blockers: Vec::new(), fixed: false } };
        let mut report = report::check(facts, &check::Policy::default(), &self.wish.ignore);
        let mut fixed = false;
        if self.wish.policy.fix
            && let Some(mender) = self.mender.as_mut()
        {
            match mender.mend(facts, &report).await {
                Ok(changed) => fixed = changed,
                Err(says) => return Event::Trouble(Cause::of("machine.privileges", says)),
            }
        }
        if fixed {
            let (facts, _) =
                observe(self.host, self.aim().as_ref(), self.wish.admin, self.wish.time_box, &Progress::default())
                    .await;
            report = report::check(&facts, &check::Policy::default(), &self.wish.ignore);
            self.facts = Some(facts);
        }
        let blockers = blockers(&report);
        // Of a machine that will not be joined, only what forbids it.
        for warning in report.findings.iter().filter(|it| it.verdict == Judgement::Warn && blockers.is_empty()) {
            tell(Told::Says(format!("warning: {}  {}", warning.id, warning.title)));
        }
        Event::Checked { blockers, fixed }
    }

    async fn prepare(&mut self) -> Result<Event, Trouble> {
        let Some(facts) = &self.facts else { return Err(Trouble::new("prepare", "the machine was not looked at")) };
        let missing = |missing: carrick_core::fact::Missing| Trouble::new("prepare", missing);
        let plan = preparation(facts)?;
        let protected = Protected::on(facts, self.wish.protect.clone()).map_err(missing)?;
        let steps = act::ground(self.host, &plan).await?;
        match act::apply(self.host, self.actor, &steps, &protected, &mut |_| {}).await {
            Ok(run) => self.runs.push(run),
            Err(stopped) => return Err(Trouble::new("prepare", stopped)),
        }
        Ok(Event::Prepared)
    }

    async fn start(&mut self, state: &State) -> Result<Event, Trouble> {
        let facts = self.facts.as_ref().ok_or_else(|| Trouble::new("kubeadm", "the machine was not looked at"))?;
        let kubeadm = facts.tool("kubeadm").ok().flatten();
        let kubeadm = kubeadm.ok_or_else(|| Trouble::new("kubeadm", "is not installed"))?;
        let version = facts.kubeadm_version().map_err(|missing| Trouble::new("kubeadm", missing))?;
        let rendered = config::render(&self.wish.request, version, &self.wish.policy);
        let rendered = rendered.map_err(|bad| Trouble::new("JoinConfiguration", bad))?;
        self.host.make_dir(CONFIG_DIR, 0o700).await?;
        self.host.write(CONFIG, &File::new(rendered.text(), 0o600), How::Replace).await?;
        let dir = format!("{HOME}/joins");
        self.host.make_dir(HOME, 0o700).await?;
        self.host.make_dir(&dir, 0o700).await?;
        let log = format!("{dir}/{}-kubeadm-{}.log", self.began.0.as_second(), state.attempt);
        if let Some(eyes) = &self.eyes {
            self.restarts_before = sight::kubelet(&eyes.machine().await).map_or(0, |kubelet| kubelet.restarts);
        }
        unit::start(self.host, &kubeadm, CONFIG, &log).await?;
        self.host.write(&format!("{dir}/last"), &File::new(log.clone(), 0o600), How::Replace).await?;
        (self.log, self.read, self.kubeadm_over) = (Some(log), 0, false);
        Ok(Event::Started)
    }

    /// The unit that a driver before this one started; it wrote down where the output goes.
    async fn attach(&mut self) {
        if let Ok(Some(Entry::File(file))) = self.host.look(&format!("{HOME}/joins/last")).await {
            self.log = String::from_utf8(file.bytes).ok();
        }
        (self.read, self.kubeadm_over) = (0, false);
    }

    /// Everything that may have changed, as events.
    async fn look(&mut self, state: &State) -> Vec<Event> {
        if !(Stage::Joining..Stage::Verified).contains(&state.stage) {
            return Vec::new();
        }
        let mut events = self.follow_kubeadm().await;
        let Some(mut eyes) = self.eyes.take() else { return events };
        let facts = eyes.machine().await;
        let mut seen = of_machine(&eyes, &facts);
        if let Ok(kubelet) = &mut seen.kubelet {
            self.restarts_before = self.restarts_before.min(kubelet.restarts);
            kubelet.restarts -= self.restarts_before;
        }
        if seen.certificate == Ok(Certificate::Trusted)
            && let Err(why) = eyes.take_own().await
        {
            events.push(Event::Node(Err(Why::Broken(why))));
        }
        let issued = seen.certificate == Ok(Certificate::Trusted);
        events.extend([
            Event::Runtime(seen.runtime),
            Event::Kubelet(seen.kubelet),
            Event::Cluster(seen.cluster),
            Event::Certificate(seen.certificate),
        ]);
        if issued {
            let (node, lease) = tokio::join!(eyes.node_object(), eyes.lease());
            events.extend([Event::Node(eyes.node(&node)), Event::Lease(lease)]);
            self.node = node;
        } else if state.stage >= Stage::KubeletUp {
            let request = self.request(&eyes).await;
            if let Err(why @ (Why::TimedOut | Why::Broken(_))) = &request {
                let cause = Cause::of("api.tcp", format!("the API server does not answer any more: {why}"));
                events.extend(self.newly(cause));
            }
            events.push(Event::Request(request));
            events.extend(self.kubelet_troubles().await);
        }
        if self.sandbox_at.is_some_and(|at| at <= self.now()) {
            self.sandbox_at = None;
            let answer = eyes.sandbox(&facts, &self.node).await;
            if let Err(Why::Broken(says)) = &answer {
                events.extend(self.known(says, "the runtime"));
            }
            events.push(Event::Sandbox(answer));
        }
        self.eyes = Some(eyes);
        events
    }

    async fn request(&self, eyes: &Eyes<'_>) -> Result<carrick_core::join::verify::CertificateRequest, Why> {
        match (&self.asker, self.wish.admin) {
            (Some(asker), None) => {
                let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
                let list = asker.get(&FromMachine(self.host), path).await?;
                sight::request(&list, &eyes.node, self.attempt_began)
            }
            _ => eyes.request(self.attempt_began).await,
        }
    }

    /// New lines of kubeadm's output, and its end.
    async fn follow_kubeadm(&mut self) -> Vec<Event> {
        if self.kubeadm_over {
            return Vec::new();
        }
        // Before its output: what it wrote last is there once it has ended.
        let kubeadm = unit::state(self.host).await;
        let output = self.output().await;
        let new = output.get(self.read..).unwrap_or_default();
        let whole = new.rfind('\n').map_or(0, |end| end + 1);
        let lines = new.get(..whole).unwrap_or_default();
        let mut events: Vec<Event> = lines.lines().filter_map(output::milestone).map(Event::Kubeadm).collect();
        let retried = output::causes(lines, self.library).into_iter();
        let retried: Vec<Cause> = retried.filter(|_| matches!(kubeadm, Ok(Kubeadm::Running))).collect();
        events.extend(retried.into_iter().filter_map(|cause| self.newly(cause)));
        self.read += whole;
        if let Ok(Kubeadm::Ended(status)) = kubeadm {
            self.kubeadm_over = true;
            events.push(Event::KubeadmEnded { status, causes: output::causes(&output, self.library) });
        }
        events
    }

    async fn output(&self) -> String {
        let Some(log) = &self.log else { return String::new() };
        match self.host.look(log).await {
            Ok(Some(Entry::File(file))) => String::from_utf8_lossy(&file.bytes).into_owned(),
            _ => String::new(),
        }
    }

    /// What the kubelet complains of, where it will not pass by itself.
    async fn kubelet_troubles(&mut self) -> Vec<Event> {
        let argv = ["journalctl", "--no-pager", "-q", "-o", "cat", "-n", "60", "-u", "kubelet.service", "--since"];
        let since = format!("@{}", self.attempt_began.as_second());
        let argv: Vec<&str> = argv.into_iter().chain([since.as_str()]).collect();
        let Ok(ended) = self.host.run(&argv, Duration::from_secs(5)).await else { return Vec::new() };
        let mut found = Vec::new();
        for line in ended.out.lines() {
            for at in self.library.recognise(line) {
                let signature = self.library.get(at);
                if signature.severity == carrick_core::signature::Severity::Fatal
                    && signature.phase <= carrick_core::signature::Phase::Joining
                    && signature.lasts.is_none()
                {
                    let says = self.library.cause(at, line);
                    let seen = check::Evidence::of("journalctl -u kubelet", carrick_core::redact::redact(line));
                    found.push(Cause::of(signature.cause_id(), says).seen([seen]));
                }
            }
        }
        found.into_iter().filter_map(|cause| self.newly(cause)).collect()
    }

    /// What a sentence of another program is known to mean.
    fn known(&mut self, says: &str, who: &str) -> Vec<Event> {
        let mut found = Vec::new();
        for at in self.library.recognise(says) {
            let seen = check::Evidence::of(who, carrick_core::redact::redact(says));
            found.push(Cause::of(self.library.get(at).cause_id(), self.library.cause(at, says)).seen([seen]));
        }
        found.into_iter().filter_map(|cause| self.newly(cause)).collect()
    }

    /// Each trouble once an attempt.
    fn newly(&mut self, cause: Cause) -> Option<Event> {
        if self.troubled.contains(&cause.id) {
            return None;
        }
        self.troubled.push(cause.id.clone());
        Some(Event::Trouble(cause))
    }

    /// What is ours and no longer needed. What could not be taken away is told.
    async fn finish(&mut self) -> Vec<String> {
        let mut problems = Vec::new();
        for done in [self.host.remove(CONFIG).await, self.release().await, unit::clear(self.host).await] {
            problems.extend(done.err().map(|trouble| trouble.to_string()));
        }
        problems
    }

    /// The kubelet may start by itself again.
    async fn release(&self) -> Result<(), Trouble> {
        self.host.remove(prepare::DROP_IN).await?;
        let argv = ["systemctl", "daemon-reload"];
        self.host.run(&argv, Duration::from_secs(30)).await?.well(&argv).map(drop)
    }

    /// Ends what runs, removes what the attempt made, and puts back what preparation changed.
    async fn clean_up(&mut self) -> Result<(), String> {
        let text = |trouble: Trouble| trouble.to_string();
        unit::clear(self.host).await.map_err(text)?;
        self.host.remove(CONFIG).await.map_err(text)?;
        let argv = ["systemctl", "stop", "kubelet.service"];
        self.host.run(&argv, Duration::from_mins(2)).await.map_err(text)?;
        let (facts, _) = observe(self.host, None, None, self.wish.time_box, &Progress::default()).await;
        // kubeadm made them in this attempt: what was there before it began, preparation has put aside.
        for path in prepare::leftovers(&facts).map_err(|missing| missing.to_string())? {
            self.host.remove(&path).await.map_err(text)?;
        }
        let protected = Protected::on(&facts, self.wish.protect.clone()).map_err(|missing| missing.to_string())?;
        while let Some(run) = self.runs.pop() {
            let back = undo::plan(self.host, Some(run)).await.map_err(|error| error.to_string())?;
            undo::apply(self.host, &back, &protected, &mut |_| {}).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The cause, while everything still stands as it failed.
    async fn diagnose(&self) -> Report {
        let (facts, _) =
            observe(self.host, self.aim().as_ref(), self.wish.admin, self.wish.time_box, &Progress::default()).await;
        let node = self.eyes.as_ref().map(|eyes| eyes.node.clone());
        let output = self.output().await;
        let texts = [("kubeadm join", output.as_str())];
        Case::of_facts_and(self.library, facts, &texts, node).report(&self.wish.ignore)
    }
}

/// What is here could not be told. Only who is refused lacks a right.
fn unseen(missing: &carrick_core::fact::Missing) -> Event {
    let id = if missing.why == Why::Denied { "machine.privileges" } else { "machine.systemd" };
    Event::Trouble(Cause::of(id, format!("cannot tell what is here: {missing}")))
}

/// Preparation that failed. `act` has said what, and undone nothing: the attempt's clean-up does.
fn troubled(what: &str, trouble: &Trouble) -> Event {
    let id = if what == "kubeadm" { "kubeadm.installed" } else { "machine.privileges" };
    Event::Trouble(Cause::of(id, trouble.to_string()))
}

/// The step on the way to the API server that failed.
fn broken_path(facts: &Facts) -> Option<Cause> {
    let report = report::check(facts, &check::Policy::default(), &Ignore::default());
    let failed = |finding: &&report::Judged| finding.id.starts_with("api.") && finding.verdict == Judgement::Fail;
    let finding = report.findings.iter().find(failed)?;
    Some(by_the_clock(cause_of(finding)))
}

/// A finding as the cause of a failed attempt. An API server that is only slow to answer the token is no reason to stop: a
/// token that it refuses is.
fn cause_of(finding: &report::Judged) -> Cause {
    let slow = finding.id == "api.auth" && finding.title.contains("no answer");
    let id = if slow { "api.slow" } else { finding.id };
    Cause::of(id, finding.title.clone()).seen(finding.evidence.clone())
}

fn blockers(report: &Report) -> Vec<Cause> {
    let settled = |id: &str| id == "api.node-name" || id.starts_with("stale.") || prepare::SET_RIGHT.contains(&id);
    let failed = report.findings.iter().filter(|finding| finding.verdict == Judgement::Fail && !finding.ignored);
    let blocking = failed.filter(|finding| !settled(finding.id));
    blocking.map(cause_of).collect()
}

/// What a stage was reached by, in the words of a person.
fn reached(state: &State) -> String {
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
            Ok(node) => format!("node {} is this machine; its lease is renewing", node.name),
            Err(_) => "the node is this machine".to_owned(),
        },
        Stage::NetworkReady => "the runtime's pod network is ready".to_owned(),
        Stage::Verified => match &seen.sandbox {
            Ok(sandbox) => format!("Ready, and a sandbox got {}", sandbox.address),
            Err(_) => "as far as was asked for".to_owned(),
        },
        other => other.awaits().to_owned(),
    }
}
