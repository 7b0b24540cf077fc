//! The end of a join, or of an attempt: what is ours and no longer needed is taken away; where it failed, the cause is looked for.

use std::time::Duration;

use carrick_cluster::nodes;
use carrick_core::diagnose::Case;
use carrick_core::fact::kubeconfig;
use carrick_core::fact::unit::{UnitState, parse_show};
use carrick_core::join::prepare;
use carrick_core::join::state::{JoinStatus, Stage};
use carrick_core::join::verify::Until;
use carrick_core::plan::protect::Protected;
use carrick_core::redact::redact;
use carrick_core::report::Report;
use carrick_host::{Progress, Trouble};

use super::driver::{CONFIG, Driver, JoinProgress, attended};
use super::unit::{self, Kubeadm};
use crate::act::undo;
use crate::observe::observe;

/// systemd is asked, and answers at once or not at all.
const ASK: Duration = Duration::from_secs(5);
/// Once the kubelet has its certificate kubeadm looks for it every second, and ends a second or two later.
const LAST_PHASES: Duration = Duration::from_secs(10);
/// Of each: what stands last is mostly the complaint.
const LINES: usize = 3;

impl Driver<'_, '_> {
    /// What is ours and no longer needed. What could not be taken away is told.
    pub(super) async fn finish(&mut self, changed: bool) -> Vec<String> {
        let mut problems = Vec::new();
        for done in [self.end_kubeadm(changed).await, self.host.remove(CONFIG).await, self.release().await] {
            problems.extend(done.err().map(|trouble| trouble.to_string()));
        }
        problems
    }

    /// It has yet to remove the kubelet's token, and writes to the Node. One that was killed, or never came back from a boot,
    /// leaves the token to us.
    async fn end_kubeadm(&self, changed: bool) -> Result<(), Trouble> {
        let last = unit::ends_within(self.host, LAST_PHASES).await?;
        unit::clear(self.host).await?;
        let has_tidied = last == Kubeadm::Ended(Some(0)) || !changed;
        if has_tidied { Ok(()) } else { self.host.remove(kubeconfig::BOOTSTRAP).await }
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

    /// The kubelet may start by itself again.
    async fn release(&self) -> Result<(), Trouble> {
        if self.host.look(prepare::DROP_IN).await?.is_none() {
            return Ok(());
        }
        self.host.remove(prepare::DROP_IN).await?;
        let argv = ["systemctl", "daemon-reload"];
        self.host.run(&argv, Duration::from_secs(30)).await?.well(&argv).map(drop)
    }

    /// Ends what runs, removes what the attempt made, and puts back what preparation changed.
    pub(super) async fn clean_up(&mut self) -> Result<(), String> {
        let text = |trouble: Trouble| trouble.to_string();
        // The token first, whatever comes of the rest.
        self.host.remove(CONFIG).await.map_err(text)?;
        unit::clear(self.host).await.map_err(text)?;
        self.kubeadm_over = true;
        if self.ours {
            let argv = ["systemctl", "stop", "kubelet.service"];
            self.host.run(&argv, Duration::from_mins(2)).await.map_err(text)?;
        }
        let (facts, _) = observe(self.host, None, None, self.options.time_box, &Progress::default()).await;
        // kubeadm made them: what was there before it began, preparation has put aside.
        for path in prepare::leftovers(&facts).map_err(|missing| missing.to_string())?.iter().filter(|_| self.ours) {
            self.host.remove(path).await.map_err(text)?;
        }
        self.ours = false;
        let protected = Protected::on(&facts, self.options.protect.clone()).map_err(|missing| missing.to_string())?;
        while let Some(run) = self.runs.last().copied() {
            let back = undo::plan(self.host, Some(run)).await.map_err(|error| error.to_string())?;
            undo::apply(self.machine, &back, &protected, &mut |_| {}).await.map_err(|error| error.to_string())?;
            self.runs.pop();
        }
        Ok(())
    }

    /// The cause, while everything still stands as it failed.
    pub(super) async fn diagnose(&self, state: &JoinStatus) -> Report {
        // What failed before anything was done was seen a moment ago.
        let nothing_done = state.failures.last().is_some_and(|failure| failure.stage < Stage::Probed);
        let facts = match &self.looked {
            Some(looked) if nothing_done => looked.facts.clone(),
            _ => self.see().await.facts,
        };
        let node = self.observer.as_ref().map(|observer| observer.node.clone());
        let output = self.output().await;
        let texts = [("kubeadm join", output.as_str())];
        Case::of_facts_and(self.library, facts, &texts, node).report(&self.options.ignore)
    }

    /// How the units stand, and the last lines of each: what a person would look at next.
    pub(super) async fn last_words(&self) -> Vec<String> {
        let output = self.output().await;
        // Of a unit that is not there systemd says that all went well.
        let mut said = match unit::state(self.host).await {
            Ok(Kubeadm::None) | Err(_) => Vec::new(),
            Ok(_) => self.unit_says(unit::UNIT, "kubeadm").await,
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
        let actor = Actor { verb: "join".into(), by: "root".into(), version: "0".into() };
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
