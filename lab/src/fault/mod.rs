//! Faults: machines broken on purpose, one file each. A fault says what it does, and what kubeadm, the kubelet, containerd
//! and the API server then show: seen on real ones, and checked again by a test per fault (`fault-NAME`).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::build::Parts;
use crate::cluster::{Cluster, NO_CRICTL, condition};
use crate::demand;
use crate::error::{Error, Result, said};
use crate::lab::Lab;
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::{Done, Polled, Run, pause, wait_for};
use crate::tier::Tier;
use crate::up;

pub struct Fault {
    /// What is wrong, as one would tell it.
    pub about: &'static str,
    /// The id of the cause, as `carrick diagnose` is to name it.
    pub cause: &'static str,
    /// From which tier on it is played by plain kubeadm.
    pub tier: Tier,
    /// What the machine is before.
    pub on: Kind,
    /// What it needs besides that machine and the cluster.
    pub also: &'static [Need],
    /// Breaks the machine, or the way it is going to join.
    pub put_in: fn(&mut Scene) -> Result<()>,
    /// What must be seen; ends with an error where it is not.
    pub shows: fn(&mut Scene) -> Result<()>,
    /// Where it can be fixed in place: fixes it, and ends with an error where that did not help.
    pub fixes: Option<fn(&mut Scene) -> Result<()>>,
}

pub struct RegisteredFault {
    pub name: &'static str,
    pub fault: &'static Fault,
}

include!(concat!(env!("OUT_DIR"), "/faults.rs"));

pub fn find(name: &str) -> Result<&'static RegisteredFault> {
    let known = || FAULTS.iter().map(|registered| registered.name).collect::<Vec<_>>().join(", ");
    FAULTS
        .iter()
        .find(|registered| registered.name == name)
        .ok_or_else(|| Error::Said(format!("no fault \"{name}\"; there are: {}", known())))
}

/// kubeadm's own waits are minutes; what it says at their end is the same after seconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KubeadmTimeouts {
    Short,
    AsKubeadm,
}

/// A machine that is about to join, and everything around it.
pub struct Scene<'a> {
    pub lab: &'a Lab,
    pub parts: &'a Parts,
    pub cluster: &'a Cluster,
    pub machine: Arc<Machine>,
    pub plan: Plan,
    /// Machines beside it that the fault needs; taken away with it.
    pub others: Vec<Arc<Machine>>,
    /// What a fault notes for later.
    pub noted: String,
    patience: KubeadmTimeouts,
    attempts: RefCell<Vec<Done>>,
    typed: RefCell<Vec<Typed>>,
    demanded: Rc<Demanded>,
}

/// What a person typed, where, and what came of it.
#[derive(Clone)]
pub struct Typed {
    pub host: String,
    pub line: String,
    pub said: String,
    /// How it ended, where the person asked.
    pub exit: Option<i32>,
}

/// What was asked to hold while a fault played: kinds of assertion with the text that was expected. Two faults that asked
/// for the same would not be told apart.
#[derive(Default)]
pub struct Demanded(RefCell<BTreeSet<String>>);

impl Demanded {
    fn note(&self, what: impl Display) {
        self.0.borrow_mut().insert(what.to_string());
    }
}

/// How the machine is going to join.
#[derive(Clone)]
pub struct Plan {
    pub token: String,
    pub ca_hash: String,
    /// Where the node is not to have the machine's name.
    pub node_name: Option<&'static str>,
    /// Who runs it: root, or a user that is not.
    pub as_root: bool,
}

/// What came of kubeadm.
pub struct Joined {
    pub done: Done,
    patience: KubeadmTimeouts,
    demanded: Rc<Demanded>,
}

impl Fault {
    pub fn needs(&self) -> Vec<Need> {
        [Need::Cluster, Need::Machine(self.on)].into_iter().chain(self.also.iter().copied()).collect()
    }
}

impl<'a> Scene<'a> {
    pub fn new(
        lab: &'a Lab,
        parts: &'a Parts,
        cluster: &'a Cluster,
        machine: Arc<Machine>,
        patience: KubeadmTimeouts,
    ) -> Result<Self> {
        let word_after = |flag: &str| {
            let at = cluster.join.iter().position(|word| word == flag);
            at.and_then(|at| cluster.join.get(at + 1))
                .cloned()
                .ok_or_else(|| Error::Said(format!("kubeadm printed no {flag}")))
        };
        let (token, ca_hash) = (word_after("--token")?, word_after("--discovery-token-ca-cert-hash")?);
        let plan = Plan { token, ca_hash, node_name: None, as_root: true };
        Ok(Self {
            lab,
            parts,
            cluster,
            machine,
            plan,
            others: Vec::new(),
            noted: String::new(),
            patience,
            attempts: RefCell::default(),
            typed: RefCell::default(),
            demanded: Rc::default(),
        })
    }

    pub fn node_name(&self) -> &str {
        &self.machine.identity.name
    }

    /// A command on the machine that has to work.
    pub fn on(&self, argv: &[&str]) -> Result<String> {
        self.machine.ok(argv)
    }

    /// A constant script on the machine that has to work.
    pub fn script(&self, text: &str) -> Result<String> {
        self.machine.run(["sh", "-ec", text]).ok()
    }

    /// A worker beside the machine, joined and Ready.
    pub fn other(&mut self) -> Result<Arc<Machine>> {
        let other = up::worker(self.lab, self.parts, Kind::Debian12)?;
        self.others.push(Arc::clone(&other));
        self.cluster.join(&other)?;
        self.cluster.wait_ready(&other.identity.name)?;
        Ok(other)
    }

    /// kubeadm joins the machine as planned, whatever comes of it.
    pub fn join(&self) -> Result<Joined> {
        let argv = self.join_argv()?;
        let done = self.types(&argv)?;
        self.attempts.borrow_mut().push(done.clone());
        Ok(Joined { done, patience: self.patience, demanded: Rc::clone(&self.demanded) })
    }

    /// A command on the machine as a person types it: both streams in one, in the order they were written.
    pub fn types<A: AsRef<str>>(&self, argv: &[A]) -> Result<Done> {
        /// Longer than kubeadm's longest wait of five minutes and what comes before it: kubeadm must be the one that gives up.
        const DEADLINE: Duration = Duration::from_mins(8);
        let words: Vec<&str> = argv.iter().map(AsRef::as_ref).collect();
        let shell = ["bash", "-c", "\"$@\" 2>&1", "bash"];
        let done = self.machine.run(shell.iter().chain(&words)).deadline(DEADLINE).done()?;
        self.note_typed(&self.hostname()?, &words, done.text(), Some(done.code()));
        Ok(done)
    }

    /// The same on the control plane; what it printed.
    pub fn types_on_control(&self, argv: &[&str]) -> Result<String> {
        let said = self.cluster.control.run(argv).done()?.text();
        self.note_typed(self.lab.site().control_name, argv, said.clone(), None);
        Ok(said)
    }

    fn note_typed(&self, host: &str, words: &[&str], said: String, exit: Option<i32>) {
        self.typed.borrow_mut().push(Typed { host: host.to_owned(), line: words.join(" "), said, exit });
    }

    /// What the machine calls itself now: a fault may have renamed it.
    pub fn hostname(&self) -> Result<String> {
        Ok(self.on(&["hostname"])?.trim().to_owned())
    }

    /// What kubeadm did in this scene so far.
    pub fn attempts(&self) -> Vec<Done> {
        self.attempts.borrow().clone()
    }

    /// What was typed in this scene so far.
    pub fn typed(&self) -> Vec<Typed> {
        self.typed.borrow().clone()
    }

    /// What was asked to hold so far, whatever this machine and its token are called.
    pub fn demanded(&self) -> BTreeSet<String> {
        let id: String = self.plan.token.chars().take_while(|letter| *letter != '.').collect();
        let plain = |what: &String| what.replace(self.node_name(), "NODE").replace(&id, "TOKEN-ID");
        self.demanded.0.borrow().iter().map(plain).collect()
    }

    /// An assertion of a fault's own; `seen` is told where it does not hold.
    pub fn holds(&self, what: &str, condition: bool, seen: impl Display) -> Result<()> {
        self.demanded.note(what);
        demand!(condition, "it does not hold that {what}: {seen}");
        Ok(())
    }

    /// An assertion of a fault's own that comes to hold within a time.
    pub fn holds_in_the_end<T>(
        &self,
        what: &str,
        within: Duration,
        look: impl FnMut() -> Result<Polled<T>>,
    ) -> Result<T> {
        self.demanded.note(what);
        wait_for(what, within, look)
    }

    fn join_argv(&self) -> Result<Vec<String>> {
        let with_config =
            self.patience == KubeadmTimeouts::Short && self.machine.identity.kind != Kind::Debian12Kube129;
        if !with_config {
            return Ok(self.join_words());
        }
        let config = include_str!("../../files/kubeadm-join.yaml");
        let control = self.lab.site().control().to_string();
        let config = config.replace("@ADDRESS@", &control).replace("@TOKEN@", &self.plan.token);
        let name = self.plan.node_name.map(|name| format!("nodeRegistration:\n  name: {name}\n")).unwrap_or_default();
        self.machine.write("/root/join.yaml", &(config.replace("@HASH@", &self.plan.ca_hash) + &name))?;
        let words = ["kubeadm", "join", "--config", "/root/join.yaml"].map(str::to_owned);
        Ok(self.runner().chain(words).collect())
    }

    /// The join as a person would type it.
    fn join_words(&self) -> Vec<String> {
        let Plan { token, ca_hash, node_name, .. } = &self.plan;
        let endpoint = format!("{}:6443", self.lab.site().control());
        let words = ["kubeadm", "join", &endpoint, "--token", token, "--discovery-token-ca-cert-hash", ca_hash];
        let name = node_name.map(|name| format!("--node-name={name}"));
        let old = (self.machine.identity.kind == Kind::Debian12Kube129).then(|| NO_CRICTL.to_owned());
        self.runner().chain(words.map(str::to_owned)).chain(name).chain(old).collect()
    }

    pub fn join_line(&self) -> String {
        self.join_words().join(" ")
    }

    /// The same without who types it.
    pub fn plain_join_line(&self) -> String {
        self.join_words().split_off(self.runner().count()).join(" ")
    }

    fn runner(&self) -> impl Iterator<Item = String> + use<> {
        let words: &[&str] = if self.plan.as_root { &[] } else { &["runuser", "-u", "nobody", "--"] };
        words.iter().map(|&word| word.to_owned())
    }

    pub fn join_fails(&self) -> Result<Joined> {
        let joined = self.join()?;
        self.holds("kubeadm fails", !joined.done.status.success(), joined.done.text())?;
        Ok(joined)
    }

    /// kubeadm ends with success, whatever the machine is like.
    pub fn join_seems_to_work(&self) -> Result<Joined> {
        let joined = self.join()?;
        joined.says("This node has joined the cluster")?;
        demand!(joined.done.status.success(), "kubeadm ended with {}: {}", joined.done.status, joined.done.text());
        Ok(joined)
    }

    /// A sound machine, joined and Ready, for what goes wrong later.
    pub fn join_and_be_ready(&self) -> Result<()> {
        self.join_seems_to_work()?;
        self.cluster.wait_ready(self.node_name()).map(drop)
    }

    pub fn journal(&self, unit: &str) -> Result<String> {
        self.on(&["journalctl", "-b", "-u", unit, "-o", "cat", "--no-pager"])
    }

    /// The unit's journal says this, now or soon.
    pub fn journal_says(&self, unit: &str, text: &str) -> Result<()> {
        self.demanded.note(format_args!("{unit} says {text:?}"));
        wait_for(&format!("{unit} to say {text:?}"), Duration::from_secs(40), || {
            let journal = self.journal(unit)?;
            let end = journal.lines().rev().take(5).collect::<Vec<_>>().join("\n");
            Ok(if journal.contains(text) { Polled::Seen(()) } else { Polled::NotYet(end) })
        })
    }

    /// The Node, if there is one.
    pub fn node(&self) -> Result<Option<Value>> {
        let done = self.cluster.kubectl(["get", "node", self.node_name(), "-o", "json"]).done()?;
        if done.err.contains("NotFound") {
            return Ok(None);
        }
        serde_json::from_str(&done.success()?.out).map(Some).map_err(|error| Error::Said(error.to_string()))
    }

    pub fn no_node(&self) -> Result<()> {
        self.holds("there is no Node", self.node()?.is_none(), self.node_name())
    }

    /// The Node's condition has this status and says this, now or within a time.
    pub fn condition_is(&self, kind: &str, status: &str, message: &str, within: Duration) -> Result<Duration> {
        let begun = Instant::now();
        self.demanded.note(format_args!("{kind}={status} saying {message:?}"));
        wait_for(&format!("{kind}={status} saying {message:?}"), within, || {
            let node = self.node()?.unwrap_or_default();
            let condition = condition(&node, kind);
            let matches = condition["status"] == status
                && condition["message"].as_str().is_some_and(|said| said.contains(message));
            Ok(if matches { Polled::Seen(()) } else { Polled::NotYet(condition.to_string()) })
        })?;
        Ok(begun.elapsed())
    }

    /// The Node is there, is not Ready for this reason, and stays so.
    pub fn stays_not_ready(&self, message: &str) -> Result<()> {
        const WATCHED: Duration = Duration::from_secs(8);
        self.condition_is("Ready", "False", message, Duration::from_secs(30))?;
        pause(WATCHED)?;
        self.condition_is("Ready", "False", message, Duration::ZERO).map(drop)
    }

    pub fn becomes_ready(&self) -> Result<()> {
        self.demanded.note("the Node is Ready");
        self.cluster.wait_ready(self.node_name()).map(drop)
    }

    /// Puts a web server on the node; the pod's name.
    pub fn start_pod(&self) -> Result<String> {
        let manifest = include_str!("../../files/pod.yaml").replace("@NODE@", self.node_name());
        self.cluster.apply(&manifest.replace("@BUSYBOX@", crate::build::image::BUSYBOX))?;
        Ok(format!("web-{}", self.node_name()))
    }

    pub fn delete_pod(&self, pod: &str) -> Result<()> {
        self.kubectl(&["delete", "pod", pod, "--grace-period=0", "--force"]).ok().map(drop)
    }

    /// A pod put on the node does not start, and its events say this.
    pub fn pod_does_not_start(&self, text: &str) -> Result<()> {
        self.demanded.note(format_args!("a pod does not start: {text:?}"));
        let pod = self.start_pod()?;
        let seen = wait_for(&format!("the pod's events to say {text:?}"), Duration::from_secs(40), || {
            let said = self.cluster.kubectl(["describe", "pod", &pod]).done()?.text();
            Ok(if said.contains(text) { Polled::Seen(()) } else { Polled::NotYet(said) })
        });
        let phase = self.cluster.get(["pod", &pod])?["status"]["phase"].clone();
        self.delete_pod(&pod)?;
        seen?;
        demand!(phase == "Pending", "the pod is {phase}");
        Ok(())
    }

    /// What `kubectl logs` says of the node's kube-proxy: the API server has to reach the kubelet for it.
    pub fn logs_of_kube_proxy(&self) -> Result<String> {
        let field = format!("spec.nodeName={}", self.node_name());
        let pods =
            self.cluster.get(["pods", "-n", "kube-system", "-l", "k8s-app=kube-proxy", "--field-selector", &field])?;
        let pod = pods["items"][0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(self.kubectl(&["logs", "-n", "kube-system", &pod]).done()?.text())
    }

    /// Puts a relay between the machine and the API server: to everything on the machine it *is* the API server. The relay
    /// runs as a user of its own, whose packets go straight through.
    pub fn relay(&self, upstream: &str, tls: &[&str]) -> Result<()> {
        let kind = if tls.is_empty() { "TCP-LISTEN" } else { "OPENSSL-LISTEN" };
        let listen: Vec<&str> = ["16443", "fork", "reuseaddr"].into_iter().chain(tls.iter().copied()).collect();
        let listen = format!("{kind}:{}", listen.join(","));
        self.on(&["systemd-run", "--quiet", "--unit=relay", "--uid=nobody", "socat", &listen, upstream])?;
        let control = self.lab.site().control().to_string();
        let rule = ["-t", "nat", "-A", "OUTPUT", "-d", &control, "-p", "tcp", "--dport", "6443"];
        let own = ["-m", "owner", "--uid-owner", "nobody", "-j", "RETURN"];
        let others = ["-j", "REDIRECT", "--to-ports", "16443"];
        for target in [&own[..], &others[..]] {
            let argv: Vec<&str> = ["iptables"].into_iter().chain(rule).chain(target.iter().copied()).collect();
            self.on(&argv)?;
        }
        Ok(())
    }

    /// Joins with a token that may ask for a certificate, and whose requests nobody approves.
    pub fn use_token_without_approval(&mut self) -> Result<()> {
        const GROUP: &str = "system:bootstrappers:unapproved";
        self.cluster.apply(include_str!("../../files/unapproved.yaml"))?;
        let created = self.cluster.control.ok(["kubeadm", "token", "create", "--groups", GROUP])?;
        created.trim().clone_into(&mut self.plan.token);
        Ok(())
    }

    /// Joins with a token of whose Secret one entry is another than kubeadm makes it.
    pub fn use_token_with(&mut self, entry: &str, value: &str) -> Result<()> {
        let created = self.cluster.control.ok(["kubeadm", "token", "create", "--ttl", "1h"])?;
        created.trim().clone_into(&mut self.plan.token);
        let (id, _) = self.plan.token.split_once('.').unwrap_or_default();
        let changed = format!(r#"{{"stringData":{{"{entry}":"{value}"}}}}"#);
        self.kubectl(&["-n", "kube-system", "patch", "secret", &format!("bootstrap-token-{id}"), "-p", &changed])
            .ok()?;
        Ok(())
    }

    /// Until cluster-info is signed for the token, or is not any more.
    pub fn wait_signed(&self, signed: bool) -> Result<()> {
        let key = format!("jws-kubeconfig-{}", self.plan.token.split('.').next().unwrap_or_default());
        wait_for(&format!("{key} to be there: {signed}"), Duration::from_secs(30), || {
            let info = self.cluster.get(["configmap", "-n", "kube-public", "cluster-info"])?;
            let there = info["data"][&key].is_string();
            Ok(if there == signed { Polled::Seen(()) } else { Polled::NotYet(info["data"].to_string()) })
        })
    }

    /// Which of kubeadm's files are on the machine.
    pub fn has_files(&self, files: &[&str], there: bool) -> Result<()> {
        for file in files {
            let found = self.machine.run(["test", "-e", file]).done()?.status.success();
            let what = format!("{file} is {}", if there { "there" } else { "not there" });
            self.holds(&what, found == there, "it is the other way round")?;
        }
        Ok(())
    }

    pub fn kubectl(&self, words: &[&str]) -> Run {
        self.cluster.kubectl(words)
    }

    /// Takes away what the fault made beside the machine.
    pub fn clear(&mut self) -> Result<()> {
        for other in std::mem::take(&mut self.others) {
            other.remove()?;
            self.cluster.delete_node(&other.identity.name)?;
        }
        Ok(())
    }
}

impl Joined {
    pub fn says(&self, text: &str) -> Result<&Self> {
        self.demanded.note(format_args!("kubeadm says {text:?}"));
        if self.done.text().contains(text) {
            return Ok(self);
        }
        said(format!("kubeadm ({}) does not say {text:?} but:\n{}", self.done.status, self.done.text()))
    }

    /// How long kubeadm took to give up; it must lie between these. With its own timeouts only the first counts: the second
    /// is then minutes, and the deadline of the command.
    pub fn took(&self, from: u64, to: u64) -> Result<&Self> {
        let took = self.done.took.as_secs();
        let most = if self.patience == KubeadmTimeouts::Short { to } else { u64::MAX };
        demand!((from..=most).contains(&took), "kubeadm took {took} s, not {from} to {to}");
        Ok(self)
    }
}

/// The signing request a kubelet made with a token, now or soon.
pub fn csr_by(cluster: &Cluster, token: &str) -> Result<Value> {
    wait_for("a signing request with the token", Duration::from_secs(30), || {
        let first = csrs_by(cluster, token)?.into_iter().next();
        Ok(first.map_or(Polled::NotYet(String::new()), Polled::Seen))
    })
}

/// All signing requests that were made with a token.
pub fn csrs_by(cluster: &Cluster, token: &str) -> Result<Vec<Value>> {
    let id: String = token.chars().take_while(|letter| *letter != '.').collect();
    let user = format!("system:bootstrap:{id}");
    let all = cluster.get(["certificatesigningrequests"])?;
    let own = all["items"].as_array().into_iter().flatten().filter(|one| one["spec"]["username"] == user.as_str());
    Ok(own.cloned().collect())
}

/// Runs a fault from its beginning to what it shows, and on to its fixing; what was asked to hold.
pub fn play(scene: &mut Scene, fault: &Fault) -> Result<BTreeSet<String>> {
    let played = show(scene, fault).and_then(|()| {
        let demanded = scene.demanded();
        fault.fixes.map_or(Ok(()), |fixes| fixes(scene)).map(|()| demanded)
    });
    let cleared = scene.clear();
    played.and_then(|demanded| cleared.map(|()| demanded))
}

/// Runs a fault from its beginning to what it shows.
pub fn show(scene: &mut Scene, fault: &Fault) -> Result<()> {
    (fault.put_in)(scene)?;
    (fault.shows)(scene)
}
