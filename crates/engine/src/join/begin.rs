//! A join until kubeadm runs: what is there, whether it is fit, what is made ready.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::nodes::{self, UnmarkedNode};
use carrick_cluster::{ApiError, ClusterClient, ClusterCredentials};
use carrick_core::StopSignal;
use carrick_core::fact::{Facts, Known, Missing, Why};
use carrick_core::join::before::MachineBefore;
use carrick_core::join::existing::{self, Decision, ExistingJoin, LocalJoin, RequestedCluster};
use carrick_core::join::failure::{JoinCause, in_order};
use carrick_core::join::looked::InspectedMachine;
use carrick_core::join::place::{self, CONFIG, CONFIG_DIR};
use carrick_core::join::prepare::PreparationError;
use carrick_core::join::request::configuration;
use carrick_core::join::state::JoinStatus;
use carrick_core::join::step::JoinEvent;
use carrick_core::join::verify::Node;
use carrick_core::join::{causes, observed};
use carrick_core::plan::protect::Protected;
use carrick_core::signature::Library;
use carrick_host::{File, Host, PathEntry, Trouble, WriteMode, cri};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::driver::{Driver, JoinOptions, JoinProgress, NotFixed, attended};
use super::observer::NodeObserver;
use super::token::{self, Unminted};
use super::{end, minted, record};
use crate::act::{self, Actor, Stopped, journal};
use crate::dialer;
use crate::unit::{self, UnitProgress};

/// How often a machine that is too busy to answer is asked what is there.
const LOOKS: u32 = 3;
/// A token that the control plane has not signed for may have been made a moment ago: it signs within a second or two.
const SIGNING: Duration = Duration::from_secs(2);
/// systemd starts a kubelet at once; where the unit waits for others, that takes longer.
const WAKE: Duration = Duration::from_secs(30);
/// The pause image is 300 kB. A runtime that reaches no registry says so after 30 s at the latest.
const PULL: Duration = Duration::from_secs(45);
const PREPARES: &str = "the machine is prepared for kubeadm";

impl Driver<'_, '_> {
    pub(super) async fn observe(&mut self) -> JoinEvent {
        let found = self.find().await;
        let unfit = |cause: JoinCause| {
            let blockers = self.looked.as_ref().map(InspectedMachine::blockers).unwrap_or_default();
            JoinEvent::Unfit([cause].into_iter().chain(blockers).collect())
        };
        if let Some(cause) = self.looked.as_ref().and_then(InspectedMachine::unprivileged) {
            return unfit(cause);
        }
        found.map_or_else(|missing| unfit(causes::of_missing(&missing)), JoinEvent::Found)
    }

    /// What is here, and in the cluster under this node's name.
    async fn find(&mut self) -> Known<ExistingJoin> {
        let mut seen = self.observe_once().await;
        for _ in 1..LOOKS {
            let too_busy = match &seen {
                Err(missing) => missing.why == Why::TimedOut,
                Ok(_) => self.looked.as_ref().is_some_and(InspectedMachine::is_short),
            };
            if !too_busy {
                break;
            }
            seen = self.observe_once().await;
        }
        if seen.as_ref().is_ok_and(ExistingJoin::awaits_signature) {
            sleep(SIGNING).await;
            seen = self.observe_once().await;
        }
        seen
    }

    async fn observe_once(&mut self) -> Known<ExistingJoin> {
        let looked = self.see().await;
        let kubeadm = match unit::state(self.host, unit::JOIN).await {
            Ok(UnitProgress::Running) => {
                let elapsed =
                    unit::runs_for(self.host, unit::JOIN).await.and_then(|it| SignedDuration::try_from(it).ok());
                // By the run's own clock, which its deadlines go by.
                Some(elapsed.and_then(|it| self.now().checked_sub(it).ok()).unwrap_or(self.began.0))
            }
            _ => None,
        };
        self.kubeadm_since = kubeadm;
        let found = self.found(&looked, kubeadm).await;
        self.looked = Some(looked);
        found
    }

    /// The facts as `core::join::existing` wants them, and the observer for what follows.
    async fn found(&mut self, looked: &InspectedMachine, kubeadm: Option<Timestamp>) -> Known<ExistingJoin> {
        let facts = &looked.facts;
        let (cas, pins) = (facts.cluster_cas().unwrap_or_default(), self.options.request.pins.clone());
        let asked = RequestedCluster { cas, pins };
        let local = LocalJoin::of(facts, &asked)?;
        let (node_name, named) = self.node_name(facts, &local)?;
        if let (Some(target), Some(text), None) = (self.target(), facts.api("cluster-ca").ok(), &self.asker)
            && let Some(token) = &target.token
        {
            let credentials = ClusterCredentials::of_token(&target.endpoint, &text.text, token).ok();
            self.asker =
                credentials.map(|credentials| dialer::client(&credentials, Arc::<dyn Host>::downgrade(self.machine)));
        }
        // The driver outlives its observer by nothing: both see through the same host.
        let mut observer = NodeObserver::new(self.machine, node_name.clone(), facts.identity()?, self.options.admin);
        let proven = existing::is_proven(facts, &asked);
        observer.asked = asked;
        let node = self.ask_node(&mut observer, &local).await;
        let of_node = observer.node(&node);
        let (lease_age, lease_renews) = match self.options.admin {
            Some(admin) => self.lease(admin, &observer, &of_node).await,
            None => (None, false),
        };
        let admin = self.options.admin.is_some();
        let path = looked.broken_path().map(Box::new);
        let registered = existing::was_registered(facts) || record::has_registered(self.host, facts, &node_name).await;
        let has_joined = matches!(local, LocalJoin::Joined | LocalJoin::Stopped);
        let renamed = facts.coming_node_name().ok().filter(|coming| has_joined && *coming != node_name);
        let blockers = looked.blockers();
        let found = ExistingJoin {
            local,
            name: node_name,
            kubeadm,
            node: of_node,
            lease_age,
            lease_renews,
            admin,
            path,
            proven,
            named,
            renamed,
            registered,
            blockers,
        };
        self.node = node;
        self.observer = Some(observer);
        Ok(found)
    }

    /// What the Node is to be called; and what this machine has joined as, where that is something else.
    fn node_name(&self, facts: &Facts, local: &LocalJoin) -> Known<(String, Option<String>)> {
        let asked = self.options.request.node_name.clone();
        match local {
            LocalJoin::Joined | LocalJoin::Stopped => {}
            // It has its name from the join that was cut off.
            LocalJoin::Bootstrapping => return Ok((asked.map_or_else(|| facts.coming_node_name(), Ok)?, None)),
            LocalJoin::Nothing
            | LocalJoin::Leftovers { .. }
            | LocalJoin::Elsewhere { .. }
            | LocalJoin::Foreign { .. }
            | LocalJoin::Detached { .. } => {
                return Ok((asked.map_or_else(|| facts.node_name(), Ok)?, None));
            }
        }
        let own = facts.kubelet_node_name()?;
        let named = asked.filter(|asked| *asked != own).map(|_| own.clone());
        Ok((own, named))
    }

    /// With the kubelet's own rights where it has joined: a token may be long gone. Else with the admin's, or the token's.
    async fn ask_node(&self, observer: &mut NodeObserver<'_>, local: &LocalJoin) -> Result<Value, Why> {
        if matches!(local, LocalJoin::Joined | LocalJoin::Stopped)
            && observer.take_own().await.is_ok()
            && let known @ (Ok(_) | Err(Why::Absent)) = observer.node_object().await
        {
            return known;
        }
        match (self.options.admin, &self.asker) {
            (Some(_), asker) => match (observer.node_object().await, asker) {
                // A kubeconfig that may not look at Nodes: the token may.
                (Err(Why::Denied), Some(asker)) => Ok(nodes::get(asker, &observer.node).await?),
                (answer, _) => answer,
            },
            (None, Some(asker)) => Ok(nodes::get(asker, &observer.node).await?),
            (None, None) => Err(Why::Unreachable("the API server was not reached".to_owned())),
        }
    }

    /// For how long the lease was not renewed, and whether it was since this join first looked at it. By the clock of the API
    /// server: that of a machine which is about to join is no measure. A Node whose kubelet has made none yet is renewed by
    /// nobody since it was made.
    async fn lease(
        &mut self,
        admin: &ClusterClient,
        observer: &NodeObserver<'_>,
        node: &Result<Node, Why>,
    ) -> (Option<SignedDuration>, bool) {
        let lease = observer.lease().await;
        let (renewed, renews) = match lease {
            Ok(lease) => {
                let first = self.lease_version.get_or_insert_with(|| lease.version.clone());
                (lease.renewed_at, *first != lease.version)
            }
            Err(Why::Absent) => (node.as_ref().ok().and_then(|node| node.created_at), false),
            Err(_) => (None, false),
        };
        let now = admin.server_now().unwrap_or_else(|| self.host.now());
        (renewed.map(|renewed| now.duration_since(renewed)), renews)
    }

    pub(super) async fn remove_node(&mut self, name: &str) -> JoinEvent {
        let failed = |why: &dyn fmt::Display, may_pass| {
            let says = format!("the Node {name} could not be removed: {why}");
            JoinEvent::Failed(causes::of_standing_node(says, may_pass))
        };
        let (Some(admin), Ok(seen)) = (self.options.admin, &self.node) else {
            return failed(&"that needs an admin's kubeconfig", false);
        };
        match nodes::delete_as_seen(admin, name, seen).await {
            Ok(()) => {
                self.left.node_removed = Some(name.to_owned());
                JoinEvent::NodeCleared
            }
            Err(error) => failed(&error, is_worth_another_look(&error)),
        }
    }

    pub(super) async fn mark_not_ready(&self, name: &str) -> JoinEvent {
        let failed = |why: &dyn fmt::Display, may_pass| {
            let says = format!("the Node {name} could not be marked as not ready: {why}");
            JoinEvent::Failed(causes::of_standing_node(says, may_pass))
        };
        let (Some(admin), Some(observer)) = (self.options.admin, &self.observer) else {
            return failed(&"that needs an admin's kubeconfig", false);
        };
        match nodes::mark_not_ready(admin, name, &observer.identity).await {
            Ok(()) => JoinEvent::NodeCleared,
            Err(UnmarkedNode::Api(error)) => failed(&error, is_worth_another_look(&error)),
            Err(why @ (UnmarkedNode::AnotherMachine(_) | UnmarkedNode::ControlPlane(_))) => failed(&why, false),
        }
    }

    pub(super) async fn wake_kubelet(&mut self) -> JoinEvent {
        let before = self.looked.as_ref().map(|looked| MachineBefore::unprepared(&looked.facts));
        let argv = ["systemctl", "start", "kubelet.service"];
        let woken = async { self.host.run(&argv, WAKE).await?.well(&argv) };
        match woken.await {
            Ok(_) => JoinEvent::Woken,
            Err(trouble) => {
                // Nothing was changed: that is said only of a unit that is as it was.
                let stopped = self.host.run(&["systemctl", "stop", "kubelet.service"], WAKE).await.is_ok();
                let cleared = match before.filter(|_| stopped) {
                    Some(before) => self.is_kubelet_back(&before).await,
                    None => false,
                };
                self.left.stuck |= !cleared;
                JoinEvent::Failed(self.undone(&trouble).unwoken())
            }
        }
    }

    /// The checks, and what `--fix` does about them.
    pub(super) async fn check(&mut self, state: &JoinStatus, tell: &mut (dyn FnMut(JoinProgress) + Send)) -> JoinEvent {
        let mut fixed = false;
        if let (true, Some(looked), Some(fixer)) = (self.options.policy.fix, &self.looked, self.fixer.as_mut()) {
            match fixer.fix(&looked.facts, &looked.checked).await {
                Ok(changed) => fixed = changed,
                Err(NotFixed { says, changed, declined }) => {
                    self.left.fixed |= changed;
                    self.declined = declined;
                    return JoinEvent::Failed(looked.unfixed(says));
                }
            }
        }
        if fixed {
            self.left.fixed = true;
            let says = "the machine is looked at again";
            self.looked = Some(attended(Box::pin(self.see()), says, state, tell).await);
        }
        let Some(looked) = &self.looked else { return JoinEvent::Checked { blockers: Vec::new(), fixed } };
        let blockers = looked.blockers();
        // Of a machine that will not be joined, only what forbids it.
        for warning in looked.warnings().filter(|_| blockers.is_empty()) {
            tell(JoinProgress::Says(format!("warning: {}  {}", warning.id, warning.title)));
        }
        if blockers.is_empty() {
            // Preparation holds the kubelet back. What a join before this one noted, and did not come to put back, holds.
            self.before.get_or_insert_with(|| MachineBefore::unprepared(&looked.facts));
        }
        JoinEvent::Checked { blockers, fixed }
    }

    /// An admin's kubeconfig stands for a token: it is made only once there is something to join, and never where the clocks
    /// are so far apart that a join by it could only fail.
    pub(super) async fn provide_token(&mut self) -> Result<(), JoinEvent> {
        let Some(admin) = self.options.admin.filter(|_| self.options.request.token.is_none()) else { return Ok(()) };
        let is_blocked = self.looked.as_ref().is_some_and(|looked| !looked.blockers().is_empty());
        if is_blocked && !self.options.policy.fix {
            return Ok(());
        }
        if let Some(blockers) = self.looked.as_ref().and_then(InspectedMachine::blockers_by_clock) {
            return Err(JoinEvent::Checked { blockers, fixed: false });
        }
        let unminted = |unminted: Unminted| JoinEvent::Failed(unminted.cause());
        let token = token::drawn().map_err(unminted)?;
        // Before it is made: whoever comes after us knows of it.
        let noted = minted::note(self.host, &token.id, &admin.server().to_string()).await;
        noted.map_err(|trouble| JoinEvent::Failed(self.undone(&trouble).unprepared()))?;
        if let Err(failed) = token::mint(admin, &token).await {
            // It may have been made all the same: an attempt leaves none behind.
            self.revoke_tokens().await;
            return Err(unminted(failed));
        }
        self.options.request.token = Some(token);
        // The cluster shows more to who has one: its version and configuration, which the checks want.
        self.looked = Some(self.see().await);
        Ok(())
    }

    pub(super) async fn prepare(
        &mut self,
        state: &JoinStatus,
        tell: &mut (dyn FnMut(JoinProgress) + Send),
    ) -> Result<JoinEvent, Trouble> {
        let Some(looked) = &self.looked else { return Err(Trouble::new("prepare", "the machine was not looked at")) };
        let missing = |missing: Missing| Trouble::missing("prepare", &missing);
        let plan = looked.preparation().map_err(unprepared)?;
        let protected = Protected::on(&looked.facts, self.options.protect.clone()).map_err(missing)?;
        let left = self.time_left(state);
        let grounding = timeout(left, attended(Box::pin(act::ground(self.host, &plan)), PREPARES, state, tell));
        let steps = grounding.await.unwrap_or_else(|_| Err(overdue(left)))?;
        // What cannot be written down is not begun.
        let readying = attended(Box::pin(journal::prepare(self.host)), PREPARES, state, tell);
        readying.await.map_err(|broken| Trouble::new("prepare", broken))?;
        // Before anything else is changed: where it fails there is nothing to put back.
        if let Some(image) = looked.image_to_pull(&self.options.ignore) {
            let endpoints = cri::endpoints(self.host);
            let pulling = cri::image::pull(self.host, &endpoints, &image, PULL);
            let says = format!("the runtime pulls the pause image {image}");
            let pulled = self.actor.stop.or(attended(Box::pin(pulling), &says, state, tell)).await;
            let stopped = |signal: StopSignal| Trouble::new(image.as_str(), format!("stopped by {}", signal.name()));
            if let Err(why) = pulled.map_err(stopped)? {
                return Ok(JoinEvent::Failed(causes::of_unpulled(self.library, &image, &why)));
            }
        }
        let mut silent = |_: act::StepProgress<'_>| {};
        let earlier = journal::latest(self.host).await?;
        let applying = async {
            let applied = act::apply(self.machine, self.actor, &steps, &protected, &mut silent).await;
            (applied, end::places(self.host).await)
        };
        // What hangs is let go of when the stage's time is over: it stands in the journal, and is put back like all of it.
        let left = self.time_left(state);
        let Ok((applied, places)) = timeout(left, attended(Box::pin(applying), PREPARES, state, tell)).await else {
            self.runs.extend(journal::latest(self.host).await?.filter(|run| Some(*run) != earlier));
            return Err(overdue(left));
        };
        match applied {
            Ok(run) => {
                self.runs.push(run);
                self.note_places(&places);
            }
            Err(stopped) => {
                // What was done of it is put back, too.
                if let Stopped::At { run, .. }
                | Stopped::Outdated { run, .. }
                | Stopped::Midway { run, .. }
                | Stopped::Told { run, .. } = &stopped
                {
                    self.runs.push(*run);
                }
                return Err(Trouble { of_the_link: stopped.is_of_the_link(), ..Trouble::new("prepare", stopped) });
            }
        }
        Ok(JoinEvent::Prepared)
    }

    /// Until the stage's time is over.
    fn time_left(&self, state: &JoinStatus) -> Duration {
        Duration::try_from(state.deadline.duration_since(self.now())).unwrap_or_default()
    }

    pub(super) async fn start(&mut self, state: &JoinStatus) -> Result<JoinEvent, Trouble> {
        let looked = self.looked.as_ref().ok_or_else(|| Trouble::new("kubeadm", "the machine was not looked at"))?;
        let facts = &looked.facts;
        let Some(kubeadm) = facts.tool("kubeadm").ok().flatten() else {
            return Ok(JoinEvent::Failed(causes::of_no_kubeadm()));
        };
        let version = match facts.kubeadm_version() {
            Err(missing) => return Ok(JoinEvent::Failed(causes::of_missing(&missing))),
            Ok(version) => version,
        };
        let rendered = configuration::render(&self.options.request, version, &self.options.policy);
        let rendered = rendered.map_err(|bad| Trouble::new("JoinConfiguration", bad))?;
        self.host.make_dir(CONFIG_DIR, 0o700).await?;
        self.host.write(CONFIG, &File::new(rendered.text(), 0o600), WriteMode::Replace).await?;
        record::make_room(self.host).await?;
        let log = record::of_kubeadm(self.began.0, state.attempt);
        if let Some(observer) = &self.observer {
            let facts = observer.machine().await;
            self.restarts_before = observed::kubelet(&facts).map_or(0, |kubelet| kubelet.restarts);
            self.kubelet_before = facts.unit_state("kubelet").ok().and_then(|state| state.started_after_boot);
            let requests = self.requests(observer, None).await;
            self.requests_before = requests.ok().map(|list| observed::requests(&list, &observer.node, |_| true));
        }
        // Before it starts: who comes after us must not follow the words of a join before this one.
        self.host.write(record::LAST, &File::new(log.clone(), 0o600), WriteMode::Replace).await?;
        self.ours = true;
        self.attempt_began = self.host.now();
        self.listen_anew(self.attempt_began, Some(0));
        let all = self.options.request.ignores_all().then_some("--ignore-preflight-errors=all");
        let program = [&*kubeadm, "join", "--config", CONFIG, "--v=5"];
        let program: Vec<&str> = program.into_iter().chain(all).collect();
        unit::start(self.host, unit::JOIN, &program, &log).await?;
        (self.log, self.read, self.kubeadm_over) = (Some(log), 0, false);
        Ok(JoinEvent::Started)
    }

    /// The unit that a driver before this one started; it wrote down where the output goes.
    pub(super) async fn attach(&mut self) {
        if let Ok(Some(PathEntry::File(file))) = self.host.look(record::LAST).await {
            self.log = String::from_utf8(file.bytes).ok();
        }
        (self.read, self.kubeadm_over, self.ours) = (0, false, true);
        // What was said since that kubeadm was started is of this join.
        self.listen_anew(self.kubeadm_since.unwrap_or(self.attempt_began), Some(0));
    }
}

fn overdue(limit: Duration) -> Trouble {
    Trouble::new("prepare", format!("no end in {} s", limit.as_secs()))
}

/// What a join would do.
#[derive(Debug)]
pub struct PlannedJoin {
    /// The machine as it is.
    pub facts: Facts,
    /// Before kubeadm runs.
    pub steps: Vec<act::Grounded>,
    /// What follows, as sentences.
    pub then: Vec<String>,
    /// Why it would not be joined; empty where it would be.
    pub refused: Vec<JoinCause>,
}

/// Looks, and says what a join would do; changes nothing.
pub async fn plan(
    machine: &Arc<dyn Host>,
    actor: &Actor,
    options: JoinOptions<'_>,
    library: &Library,
) -> Result<PlannedJoin, Trouble> {
    let (replace, fix) = (options.policy.replace_node, options.policy.fix);
    let mut driver = Driver::new(machine, actor, options, library, None);
    let found = driver.find().await.map_err(|missing| Trouble::new("cannot tell what is here", missing))?;
    let Some(looked) = driver.looked.take() else { return Err(Trouble::new("plan", "the machine was not looked at")) };
    let (mut then, mut refused) = (Vec::new(), Vec::new());
    let joins = match existing::decide(&found, replace, false) {
        Decision::Refuse { cause } => {
            let others: Vec<JoinCause> = found.other_blockers(&cause).cloned().collect();
            refused = in_order([cause].into_iter().chain(others));
            false
        }
        Decision::Attach { says, .. } | Decision::Watch { says, .. } | Decision::Wake { says } => {
            then.push(says);
            false
        }
        Decision::Wait { says, .. }
        | Decision::Remove { says, .. }
        | Decision::Unready { says, .. }
        | Decision::Join { says } => {
            then.push(says);
            refused = in_order(found.blockers.iter().filter(|_| !fix).cloned());
            refused.is_empty()
        }
    };
    if !joins {
        return Ok(PlannedJoin { facts: looked.facts, steps: Vec::new(), then, refused });
    }
    let steps = act::ground(machine.as_ref(), &looked.preparation().map_err(unprepared)?).await?;
    let token = driver.options.admin.filter(|_| driver.options.request.token.is_none());
    then.extend(token.map(|_| "make a token for this join in the cluster, and revoke it after".to_owned()));
    then.extend(looked.image_to_pull(&driver.options.ignore).map(|image| format!("have the runtime pull {image}")));
    then.extend([
        format!("write {CONFIG} for root alone, run kubeadm join with it in {}, remove it", place::UNIT),
        "watch the kubelet until its Node is verified; run one sandbox, and remove it".to_owned(),
        format!("remove {}", place::DROP_IN),
    ]);
    Ok(PlannedJoin { facts: looked.facts, steps, then, refused })
}

/// The API server was not heard, or the Node was changed since it was looked at: the next attempt looks at it anew.
fn is_worth_another_look(error: &ApiError) -> bool {
    error.may_pass() || error.is_conflict()
}

fn unprepared(why: PreparationError) -> Trouble {
    match why {
        PreparationError::Missing(missing) => Trouble::missing("prepare", &missing),
        why @ (PreparationError::Conflict(_) | PreparationError::Live(_) | PreparationError::Foreign(_)) => {
            Trouble::new("prepare", why)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use carrick_core::catalogue::Class;
    use carrick_core::join::request::Request;
    use carrick_core::join::state::JoinPolicy;
    use carrick_core::judge::Ignore;
    use carrick_testkit::Machine;
    use serde_json::json;

    use super::*;
    use crate::dialer::stub::saying;

    #[tokio::test(start_paused = true)]
    async fn a_node_that_may_not_be_removed_is_not_tried_again() {
        let actor =
            Actor { verb: "join".into(), by: "root".into(), version: "0".into(), stop: crate::stop::Stop::never() };
        let library = Library::built_in().unwrap();
        for (said, class) in [
            (None, Class::Transient),
            (Some((503, "")), Class::Transient),
            (Some((409, "{}")), Class::Transient),
            (Some((403, "{}")), Class::Configuration),
            (Some((401, "{}")), Class::Configuration),
            (Some((422, "{}")), Class::Configuration),
        ] {
            let admin = saying(said.map(|(status, body)| Ok((status, body))));
            let (request, policy, ignore) = (Request::default(), JoinPolicy::default(), Ignore::default());
            let (protect, time_box) = (Vec::new(), Duration::from_secs(5));
            let options = JoinOptions { request, policy, ignore, admin: Some(&admin), asker: None, protect, time_box };
            let host = Machine::with(&[]).shared();
            let mut driver = Driver::new(&host, &actor, options, &library, None);
            driver.node = Ok(json!({"metadata": {"name": "w1", "uid": "u", "resourceVersion": "1"}}));
            let JoinEvent::Failed(cause) = driver.remove_node("w1").await else { panic!("{said:?}") };
            assert_eq!((cause.id.as_str(), cause.class()), ("api.node-name", class), "{}", cause.says);
            assert_eq!(driver.left.node_removed, None);
        }
    }
}
