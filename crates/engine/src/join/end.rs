//! The end of a join, or of an attempt: what is ours and no longer needed is taken away; where it failed, the machine is put back
//! as it was before, and the cause is looked for.

use std::time::Duration;

use carrick_cluster::nodes;
use carrick_core::diagnose::Case;
use carrick_core::fact::join_state::JoinState;
use carrick_core::fact::unit::{UnitState, parse_show};
use carrick_core::fact::{Facts, Known, Missing, Source, kubeconfig};
use carrick_core::join::before::{self, CameSince, MachineBefore};
use carrick_core::join::place::{self, CONFIG, CONFIG_DIR};
use carrick_core::join::state::{JoinStatus, Stage};
use carrick_core::join::verify::Until;
use carrick_core::join::{observed, prepare};
use carrick_core::plan::protect::Protected;
use carrick_core::redact::redact;
use carrick_core::report::Report;
use carrick_host::{Host, Progress, Trouble, gather};
use tokio::time::{Instant, sleep};

use super::driver::{Driver, JoinProgress, attended};
use crate::act::keep::{self, Seal};
use crate::act::undo;
use crate::observe::observe;
use crate::stop::Stop;
use crate::unit::{self, UnitProgress};

/// systemd is asked, and answers at once or not at all.
const ASK: Duration = Duration::from_secs(5);
/// Once the kubelet has its certificate kubeadm looks for it every second, and ends a second or two later.
const LAST_PHASES: Duration = Duration::from_secs(10);
/// systemd gives a unit 90 s to stop; the command waits for it.
const STOP: Duration = Duration::from_mins(2);
const AGAIN: Duration = Duration::from_millis(200);
/// Of each: what stands last is mostly the complaint.
const LINES: usize = 3;

impl Driver<'_, '_> {
    /// What is ours and no longer needed. What could not be taken away is told.
    pub(super) async fn finish(&mut self, changed: bool) -> Vec<String> {
        let mut problems = Vec::new();
        for done in [self.end_kubeadm(changed).await, self.remove_config().await, self.release().await] {
            problems.extend(done.err().map(|trouble| trouble.to_string()));
        }
        problems
    }

    /// It has yet to remove the kubelet's token, and writes to the Node. One that was killed, or never came back from a boot,
    /// leaves the token to us.
    async fn end_kubeadm(&self, changed: bool) -> Result<(), Trouble> {
        let last = unit::ends_within(self.host, unit::JOIN, LAST_PHASES).await?;
        unit::clear(self.host, unit::JOIN).await?;
        let has_tidied = last == UnitProgress::Ended(Some(0)) || !changed;
        if has_tidied { Ok(()) } else { self.host.remove(kubeconfig::BOOTSTRAP).await }
    }

    /// For who was told to stop: kubeadm is ended, unless the kubelet has its certificate, which is asked once more when kubeadm
    /// has stopped. Whether it has.
    pub(super) async fn halt(&mut self) -> bool {
        if self.has_certificate().await {
            return true;
        }
        // Where that fails there is nothing to be asked, and the clean-up tries again, and tells.
        let _ = unit::clear(self.host, unit::JOIN).await;
        self.has_certificate().await
    }

    async fn has_certificate(&self) -> bool {
        self.live_node().await.is_ok_and(|node| node.is_some())
    }

    /// The Node as which a kubelet lives here by now, whoever it is of.
    async fn live_node(&self) -> Known<Option<String>> {
        self.glance(observed::WATCHED).await.live_node()
    }

    async fn glance(&self, sources: &[Source]) -> Facts {
        let seen = self.host.observe(sources, &Progress::default()).await;
        gather(self.host.name(), self.host.now(), seen).0
    }

    /// A Node that our reset cordoned takes pods again once it is verified; one that somebody else cordoned stays so.
    /// Whether something was changed.
    pub(super) async fn uncordon(&self, state: &JoinStatus, tell: &mut (dyn FnMut(JoinProgress) + Send)) -> bool {
        let ours = self.node.as_ref().is_ok_and(nodes::has_our_mark);
        let Some(observer) = self.observer.as_ref().filter(|_| ours) else { return false };
        let name = &observer.node;
        if state.policy.until != Until::Verified {
            tell(JoinProgress::Says(format!(
                "the Node {name} stays cordoned, as carrick reset left it, until it is verified"
            )));
            return false;
        }
        let says = format!("the Node {name} is uncordoned");
        let opened = attended(Box::pin(observer.uncordon()), &says, state, tell).await;
        tell(JoinProgress::Says(match &opened {
            Ok(_) => format!("the Node {name}, which carrick reset had cordoned, takes pods again"),
            Err(why) => format!("the Node {name} is still cordoned by carrick reset ({why}): kubectl uncordon {name}"),
        }));
        opened == Ok(true)
    }

    /// Nobody goes back behind a join that is verified: keys and tokens that were kept for that go.
    pub(super) async fn seal(&self, state: &JoinStatus, tell: &mut (dyn FnMut(JoinProgress) + Send)) {
        if state.policy.until != Until::Verified {
            return;
        }
        let sealing = Box::pin(keep::seal(self.host, Seal::Verified));
        if let Err(broken) = attended(sealing, "backups that hold keys are deleted", state, tell).await {
            tell(JoinProgress::Says(format!("backups that hold keys could not all be deleted: {broken}")));
        }
    }

    /// The kubelet may start by itself again.
    async fn release(&self) -> Result<(), Trouble> {
        if self.host.look(place::DROP_IN).await?.is_none() {
            return Ok(());
        }
        self.host.remove(place::DROP_IN).await?;
        let argv = ["systemctl", "daemon-reload"];
        self.host.run(&argv, Duration::from_secs(30)).await?.well(&argv).map(drop)
    }

    /// kubeadm's file, and its directory: it is made for that file alone.
    async fn remove_config(&self) -> Result<(), Trouble> {
        self.host.remove(CONFIG).await?;
        undo::remove_empty(self.host, CONFIG_DIR).await
    }

    /// What is there once the machine is prepared, and before kubeadm makes more of it. Where a join that was cut off has been at
    /// work, it is too late for that.
    pub(super) fn note_places(&mut self, places: &Facts) {
        if !self.ours {
            self.before = self.before.take().map(|before| before.with_places(places));
        }
    }

    /// Ends what runs, removes what the attempt made, and puts back what preparation changed.
    pub(super) async fn clean_up(&mut self) -> Result<(), String> {
        let text = |trouble: Trouble| trouble.to_string();
        // The token first, whatever comes of the rest.
        self.remove_config().await.map_err(text)?;
        unit::clear(self.host, unit::JOIN).await.map_err(text)?;
        self.kubeadm_over = true;
        // Whatever led here, and however late: what lives stays as it is.
        if self.live_node().await.map_err(|missing| unseen(&missing))?.is_some() {
            return self.leave_in_cluster().await;
        }
        if self.ours {
            self.host.run(&["systemctl", "stop", "kubelet.service"], STOP).await.map_err(text)?;
        }
        let (mut facts, _) = observe(self.host, None, None, self.options.time_box, &Progress::default()).await;
        if self.ours && matches!(facts.join_state(), Ok(JoinState::Stopped { .. })) {
            // The certificate came between the look and the stop.
            let argv = ["systemctl", "start", "kubelet.service"];
            self.host.run(&argv, STOP).await.and_then(|ended| ended.well(&argv)).map_err(text)?;
            return self.leave_in_cluster().await;
        }
        let protected = Protected::on(&facts, self.options.protect.clone()).map_err(|missing| missing.to_string())?;
        if let Some(adopted) = self.adopted.take().filter(|adopted| self.ours && self.runs.len() > *adopted) {
            // What this one has put aside is of the join that was cut off: it comes back, and goes with the rest of that.
            self.remove_leftovers(&facts, &protected).await?;
            self.undo_runs(adopted, &protected).await?;
            (facts, _) = observe(self.host, None, None, self.options.time_box, &Progress::default()).await;
        }
        let stays = if self.ours { self.remove_made(&facts, &protected).await? } else { Vec::new() };
        self.ours = false;
        self.before = self.before.take().map(MachineBefore::without_places);
        self.undo_runs(0, &protected).await?;
        let mut differs: Vec<String> = stays.into_iter().map(|path| format!("{path} is not empty")).collect();
        if let Some(before) = self.before.clone() {
            differs.extend(before.differing_files(&self.compared().await).map_err(|missing| unseen(&missing))?);
            self.put_back_kubelet(&before).await.map_err(text)?;
            self.before = None;
            differs.extend(self.differing_kubelet(&before).await.map_err(|missing| unseen(&missing))?);
        }
        if differs.is_empty() { Ok(()) } else { Err(differs.join("; ")) }
    }

    /// The kubelet got its certificate while this attempt was given up: with it the machine is in the cluster, and stays.
    async fn leave_in_cluster(&mut self) -> Result<(), String> {
        self.left.in_cluster = true;
        let problems = self.finish(true).await;
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }

    /// The kubelet's unit is put back, and is as it was.
    pub(super) async fn is_kubelet_back(&self, before: &MachineBefore) -> bool {
        self.put_back_kubelet(before).await.is_ok() && self.differing_kubelet(before).await == Ok(None)
    }

    async fn compared(&self) -> Facts {
        let sources: Vec<Source> = before::compared().collect();
        self.glance(&sources).await
    }

    /// A unit that is started takes a moment.
    async fn differing_kubelet(&self, before: &MachineBefore) -> Known<Option<String>> {
        let begun = Instant::now();
        loop {
            let differs = before.differing_kubelet(&self.compared().await)?;
            if differs.is_none() || begun.elapsed() >= ASK {
                return Ok(differs);
            }
            sleep(AGAIN).await;
        }
    }

    /// Puts back what preparation changed, the last first, but for the first runs.
    async fn undo_runs(&mut self, kept: usize, protected: &Protected) -> Result<(), String> {
        while let Some(run) = self.runs.get(kept..).and_then(<[u32]>::last).copied() {
            let back = undo::plan(self.host, Some(run)).await.map_err(|error| error.to_string())?;
            undo::apply(self.machine, &back, protected, &Stop::never(), &mut |_| {})
                .await
                .map_err(|error| error.to_string())?;
            self.runs.pop();
        }
        Ok(())
    }

    /// Also where it is not known what was there: preparation has put aside whatever there was of these.
    async fn remove_leftovers(&self, facts: &Facts, protected: &Protected) -> Result<(), String> {
        let files = prepare::leftovers(facts).map_err(|missing| missing.to_string())?;
        for path in files.iter().filter(|path| protected.keeps(path).is_none()) {
            self.host.remove(path).await.map_err(|trouble| trouble.to_string())?;
        }
        Ok(())
    }

    /// What kubeadm and the kubelet made; what of it stays, because there is something in it.
    async fn remove_made(&self, facts: &Facts, protected: &Protected) -> Result<Vec<String>, String> {
        self.remove_leftovers(facts, protected).await?;
        let Some(before) = &self.before else { return Ok(Vec::new()) };
        let came = before.came_since(&places(self.host).await, protected).map_err(|missing| missing.to_string())?;
        self.remove_paths(&came).await.map_err(|trouble| trouble.to_string())
    }

    async fn remove_paths(&self, came: &CameSince) -> Result<Vec<String>, Trouble> {
        let mut stays = Vec::new();
        for path in &came.made {
            match self.host.remove(path).await {
                Err(_) if !self.host.list(path).await?.is_empty() => stays.push(path.clone()),
                removed => removed?,
            }
        }
        for path in &came.shared {
            undo::remove_empty(self.host, path).await?;
        }
        Ok(stays)
    }

    /// The kubelet runs, or does not, as it did before the machine was prepared.
    async fn put_back_kubelet(&self, before: &MachineBefore) -> Result<(), Trouble> {
        match before.kubelet_up() {
            Some(true) => {
                // One that waits for a configuration ends at once, as it did before: its start is not waited for.
                let argv = ["systemctl", "start", "--no-block", "kubelet.service"];
                self.host.run(&argv, STOP).await?.well(&argv)?;
            }
            // One that was stopped may have ended with an error: without this systemd would show it as failed.
            Some(false) => drop(self.host.run(&["systemctl", "reset-failed", "kubelet.service"], ASK).await?),
            None => {}
        }
        Ok(())
    }

    /// The cause, while everything still stands as it failed.
    pub(super) async fn diagnose(&self, state: &JoinStatus) -> Report {
        // What failed before anything was done was seen a moment ago.
        let nothing_done = state.failures.last().is_some_and(|failure| failure.stage < Stage::Probed);
        let node = self.observer.as_ref().map(|observer| observer.node.clone());
        let output = self.output().await.ok();
        let texts: Vec<(&str, &str)> = output.iter().map(|output| ("kubeadm join", output.as_str())).collect();
        let case = match &self.looked {
            Some(looked) if nothing_done => Case::of_looked(self.library, looked, &texts, node),
            _ => {
                // A kubeadm of this join began it: what was wrong with an earlier one says nothing of this.
                let begun = self.kubeadm_since.map_or(self.attempt_began, |since| since.min(self.attempt_began));
                Case::of_facts_and(self.library, self.facts().await, &texts, node, self.ours.then_some(begun))
            }
        };
        case.report(&self.options.ignore)
    }

    /// How the units stand, and the last lines of each: what a person would look at next.
    pub(super) async fn last_words(&self) -> Vec<String> {
        let output = self.output().await;
        let output = output.unwrap_or_else(|trouble| format!("what kubeadm has printed cannot be read: {trouble}"));
        // Of a unit that is not there systemd says that all went well.
        let mut said = match unit::state(self.host, unit::JOIN).await {
            Ok(UnitProgress::None) | Err(_) => Vec::new(),
            Ok(_) => self.unit_says(place::UNIT, "kubeadm").await,
        };
        said.extend(last(&output));
        said.extend(self.unit_says("kubelet.service", "kubelet").await);
        let argv = ["journalctl", "--no-pager", "-q", "-o", "cat", "-n", "3", "-u", "kubelet.service"];
        if let Ok(ended) = self.host.run(&argv, ASK).await {
            said.extend(last(&ended.out));
        }
        said
    }

    async fn unit_says(&self, unit: &str, name: &str) -> Vec<String> {
        let argv = ["systemctl", "show", "--property=Id,ActiveState,SubState,Result,ExecMainStatus", unit];
        let Ok(ended) = self.host.run(&argv, ASK).await else { return Vec::new() };
        let told = |it: UnitState| {
            let status = it.exec_main_status.map(|status| format!(", exit status {status}")).unwrap_or_default();
            format!("{name}: {} ({}), result {}{status}", it.active_state, it.sub_state, it.result)
        };
        parse_show(&ended.out).into_iter().map(told).collect()
    }
}

/// What could not be looked at is not as it was, as far as anybody knows.
fn unseen(missing: &Missing) -> String {
    format!("whether all is as it was cannot be seen: {missing}")
}

/// Where kubeadm and the kubelet write, as it is now.
pub(super) async fn places(host: &dyn Host) -> Facts {
    let sources: Vec<Source> = before::sources().collect();
    let seen = host.observe(&sources, &Progress::default()).await;
    gather(host.name(), host.now(), seen).0
}

/// The last lines of a text, as they stand under a line about who wrote them.
fn last(text: &str) -> Vec<String> {
    // As a whole: a key's last line is known by its first.
    let clean = redact(text);
    let lines: Vec<&str> = clean.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.iter().rev().take(LINES).rev().map(|line| format!("  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use carrick_core::join::request::Request;
    use carrick_core::join::state::JoinPolicy;
    use carrick_core::judge::Ignore;
    use carrick_core::signature::Library;
    use carrick_testkit::Machine;

    use super::*;
    use crate::act::Actor;
    use crate::join::driver::JoinOptions;

    fn options() -> JoinOptions<'static> {
        let (request, policy, ignore) = (Request::default(), JoinPolicy::default(), Ignore::default());
        JoinOptions { request, policy, ignore, admin: None, asker: None, protect: Vec::new(), time_box: ASK }
    }

    #[tokio::test]
    async fn a_clean_up_removes_only_what_our_kubeadm_made() {
        let actor = Actor { verb: "join".into(), by: "root".into(), version: "0".into(), stop: Stop::never() };
        let library = Library::built_in().unwrap();
        for ours in [false, true] {
            let mounts = ("/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
            let machine = Machine::with(&[(kubeconfig::KUBELET, "{}"), (CONFIG, "token"), mounts]);
            let machine = machine.with_running("kubelet.service");
            let host = machine.shared();
            let mut driver = Driver::new(&host, &actor, options(), &library, None);
            driver.ours = ours;
            driver.clean_up().await.unwrap();
            let now = machine.all_but("/none");
            let stays = now.files.contains_key(kubeconfig::KUBELET);
            assert_eq!((stays, now.units.is_empty()), (!ours, ours), "ours: {ours}");
            assert!(!now.files.contains_key(CONFIG), "the token goes in any case");
        }
    }
}
