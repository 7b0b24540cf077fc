//! What is already there before a join: on the machine, and in the cluster under this node's name.
//!
//! A Node is never deleted, nor taken over, on its name alone: identity says whose it is, the age of its lease whether that
//! machine lives. A bootstrap token may not read leases; then Ready has to do, which lags by the cluster's grace period.

use jiff::{SignedDuration, Timestamp};

use super::causes;
use super::failure::{Circumstance, JoinCause};
use super::verify::Node;
use crate::catalogue::Class;
use crate::check::Evidence;
use crate::discovery::Pin;
use crate::fact::join_state::JoinState;
use crate::fact::kubeconfig::Kubeconfig;
use crate::fact::pki::{self, Certificate};
use crate::fact::{Facts, Known, OrAbsent, Why, journal};
use crate::id;

/// A kubelet renews its lease every 10 s; with one missed renewal somebody is still there.
const RENEWED_LATELY: SignedDuration = SignedDuration::from_secs(25);
/// A lease is good for 40 s; whoever has not renewed it by then is taken for dead by the cluster itself.
const LEASE_LASTS: SignedDuration = SignedDuration::from_secs(40);

/// The join on this machine, as its own files and units tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalJoin {
    /// None.
    Nothing,
    /// Files with which no kubelet can be in the cluster, and why.
    Leftovers { why: String },
    /// A kubelet that is about to get its certificate: kubeadm was killed, or the machine rebooted in mid-join.
    Bootstrapping,
    /// A kubelet runs in the cluster that was asked for.
    Joined,
    /// As before, and the kubelet does not run.
    Stopped,
    /// A kubelet lives here, and the `kubelet.conf` that it has read is gone, or cannot be read any more.
    Detached { why: String },
    /// A live join to another cluster.
    Elsewhere { server: String },
    /// A kubelet runs that kubeadm did not set up, with this kubeconfig: it may well live by that.
    Foreign { kubeconfig: String },
}

/// The cluster that was asked for: by the CAs it has shown, of which there are several while they are rotated, and by the keys
/// that were pinned. As for kubeadm, one that fits is enough.
#[derive(Clone, Debug, Default)]
pub struct RequestedCluster {
    pub cas: Vec<Certificate>,
    pub pins: Vec<Pin>,
}

impl RequestedCluster {
    /// Nobody said which.
    pub fn is_unknown(&self) -> bool {
        self.cas.is_empty() && self.pins.is_empty()
    }

    /// The keys it is known by.
    pub fn keys(&self) -> Vec<String> {
        let pinned = self.pins.iter().map(Pin::to_string).filter(|_| self.cas.is_empty());
        self.cas.iter().map(|ca| ca.pin.clone()).chain(pinned).collect()
    }

    /// Whether a kubeconfig of the kubelet is for this cluster; `None`: that cannot be told.
    pub fn is_in(&self, facts: &Facts, conf: &Kubeconfig) -> Option<bool> {
        let (trusted, client) = (facts.trusted_by(conf), facts.client_certificate().ok());
        let pins: Vec<String> = self.pins.iter().map(Pin::to_string).collect();
        pki::is_in_cluster(&trusted, client.as_ref(), &self.cas, &pins)
    }
}

impl LocalJoin {
    pub fn of(facts: &Facts, asked: &RequestedCluster) -> Known<Self> {
        // What lives here may be stopped by no join: who cannot tell goes no further.
        facts.live_node()?;
        let state = facts.join_state()?;
        if bootstraps(facts, asked)? && matches!(state, JoinState::Left { .. } | JoinState::Unjoined) {
            return Ok(LocalJoin::Bootstrapping);
        }
        let of_another = facts.kubelet_kubeconfig().is_ok_and(|conf| asked.is_in(facts, &conf) == Some(false));
        if let (JoinState::Joined { .. }, Err(missing)) = (&state, facts.kubelet_kubeconfig()) {
            return Ok(LocalJoin::Detached { why: missing.why.to_string() });
        }
        if let (JoinState::Unjoined | JoinState::Left { .. }, Ok(Some(kubeconfig))) =
            (&state, facts.foreign_kubeconfig())
        {
            return Ok(LocalJoin::Foreign { kubeconfig });
        }
        Ok(match state {
            JoinState::Joined { server, .. } if of_another => LocalJoin::Elsewhere { server },
            JoinState::Joined { .. } => LocalJoin::Joined,
            JoinState::Unjoined => LocalJoin::Nothing,
            JoinState::Stopped { .. } | JoinState::Left { .. } if of_another => {
                LocalJoin::Leftovers { why: "it trusts another cluster's CA".to_owned() }
            }
            JoinState::Stopped { .. } => LocalJoin::Stopped,
            JoinState::Left { why, .. } => LocalJoin::Leftovers { why },
        })
    }
}

/// A kubelet runs that still has a token to get a certificate with, of the cluster that was asked for.
fn bootstraps(facts: &Facts, asked: &RequestedCluster) -> Known<bool> {
    if facts.client_certificate().or_absent()?.is_some() || !facts.has_bootstrap_conf()? {
        return Ok(false);
    }
    let elsewhere = facts.bootstrap_kubeconfig().is_ok_and(|conf| asked.is_in(facts, &conf) == Some(false));
    Ok(!elsewhere && facts.unit_state("kubelet")?.is_active())
}

/// Whether the cluster that was asked for has proven to be the one of the kubelet here.
pub fn is_proven(facts: &Facts, asked: &RequestedCluster) -> bool {
    let confs = [facts.kubelet_kubeconfig(), facts.bootstrap_kubeconfig()];
    confs.iter().flatten().any(|conf| asked.is_in(facts, conf) == Some(true))
}

/// What the kubelet says once the API server has taken its Node; of an earlier life of it nothing is known.
pub fn was_registered(facts: &Facts) -> bool {
    let says = |entry: &journal::JournalEntry| {
        entry.message.as_deref().is_some_and(|message| message.contains("Successfully registered node"))
    };
    facts.journal("kubelet").is_ok_and(|entries| entries.iter().any(says))
}

/// What the look before a join found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not depend on one another")]
pub struct ExistingJoin {
    pub local: LocalJoin,
    /// What the Node is called, or is to be.
    pub name: String,
    /// Our own kubeadm unit runs, since when.
    pub kubeadm: Option<Timestamp>,
    /// `Err(Why::Absent)`: there is no Node of this name.
    pub node: Result<Node, Why>,
    /// How long ago the Node's lease was renewed, where it may be read (an admin's kubeconfig).
    pub lease_age: Option<SignedDuration>,
    /// It was renewed between two looks of this join: somebody keeps it.
    pub lease_renews: bool,
    /// There is an admin's kubeconfig: a Node can be deleted.
    pub admin: bool,
    /// The step on the way to the API server that failed: why nothing could be asked.
    pub path: Option<Box<JoinCause>>,
    /// The kubelet here is of the cluster that was asked for.
    pub proven: bool,
    /// It has joined under this name, and another was asked for.
    pub named: Option<String>,
    /// It has joined under another name than this, which its kubelet would take at its next start.
    pub renamed: Option<String>,
    /// This kubelet had registered its Node.
    pub registered: bool,
    /// What the checks find that forbids a join, here and on the way to the cluster.
    pub blockers: Vec<JoinCause>,
}

impl ExistingJoin {
    /// Of a machine on which nothing of a join is, and a name that is free.
    pub fn nothing(name: &str) -> Self {
        ExistingJoin {
            local: LocalJoin::Nothing,
            name: name.to_owned(),
            kubeadm: None,
            node: Err(Why::Absent),
            lease_age: None,
            lease_renews: false,
            admin: false,
            path: None,
            proven: true,
            named: None,
            renamed: None,
            registered: true,
            blockers: Vec::new(),
        }
    }

    /// What forbids a join beside the reason for which it is refused. A machine on which a kubelet lives is fit, whatever
    /// the checks find on it now.
    pub fn other_blockers(&self, refused: &JoinCause) -> impl Iterator<Item = &JoinCause> {
        let is_unjoined =
            matches!(self.local, LocalJoin::Nothing | LocalJoin::Leftovers { .. } | LocalJoin::Foreign { .. });
        self.blockers.iter().filter(move |other| is_unjoined && other.id != refused.id)
    }

    /// The token is not signed for: it may have been made a moment ago.
    pub fn awaits_signature(&self) -> bool {
        let unsigned = [id!("api.token").id, id!("api.token-unsigned").id];
        self.path.as_ref().is_some_and(|broken| unsigned.contains(&broken.id.as_str()))
    }
}

/// What follows from it, with a sentence for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing stands in the way.
    Join { says: String },
    /// Our kubeadm is at work: follow it.
    Attach { since: Timestamp, says: String },
    /// The kubelet is in the cluster, or on its way: watch it.
    Watch { bootstrapping: bool, says: String },
    /// All a kubelet needs to be in the cluster is here: start it, and watch it.
    Wake { says: String },
    /// The old Node must no longer be Ready first; what is to be said where it stays so.
    Wait { says: String, else_told: JoinCause },
    /// The old Node goes first; it is recorded.
    Remove { node: String, says: String },
    /// The old Node is this machine's own: it is said to be not ready, as it is, and taken up again. To remove it would cost
    /// its labels, its taints and its range of pod addresses, to which the pod network here still holds.
    Unready { node: String, says: String },
    /// Not to be joined; whether it is tried again, the cause says.
    Refuse { cause: JoinCause },
}

/// The decision table. `replace` is `--replace-node`: the person says that the other machine is gone for good. `anew`: the
/// kubelet here was watched before, and got no certificate.
pub fn decide(found: &ExistingJoin, replace: bool, anew: bool) -> Decision {
    if let LocalJoin::Elsewhere { server } = &found.local {
        let says =
            format!("this machine is a live node of another cluster ({server}); take it out first: carrick reset");
        let lives = || JoinCause::of(id!("stale.kubelet-conf"), says).under(Circumstance::InUseElsewhere);
        // Two clusters, or one and a wrong pin: who asked has to say which was meant.
        let pin = found.path.as_deref().cloned().filter(|broken| broken.class() == Class::Fatal);
        return Decision::Refuse { cause: pin.unwrap_or_else(lives) };
    }
    if let LocalJoin::Detached { why } = &found.local {
        let says = format!(
            "a kubelet lives here as a node, without the kubelet.conf that it was started with ({why}): restore \
             /etc/kubernetes/kubelet.conf, or take the machine out first: carrick reset"
        );
        let cause = JoinCause::of(id!("stale.kubelet-conf"), says).under(Circumstance::NotLeftover);
        return Decision::Refuse { cause };
    }
    if let LocalJoin::Foreign { kubeconfig } = &found.local {
        return foreign(found, kubeconfig);
    }
    if let Some(since) = found.kubeadm {
        return Decision::Attach { since, says: "kubeadm is still at work here: following it".into() };
    }
    match &found.local {
        LocalJoin::Joined | LocalJoin::Stopped | LocalJoin::Bootstrapping if !found.proven => unproven(found),
        LocalJoin::Joined | LocalJoin::Stopped if found.named.is_some() => named(found),
        LocalJoin::Joined | LocalJoin::Stopped if is_copied(found) => copied(),
        LocalJoin::Stopped if found.renamed.is_some() => renamed(found),
        LocalJoin::Joined | LocalJoin::Stopped if found.node == Err(Why::Absent) && found.registered => deleted(),
        // It may have got its certificate a moment ago.
        LocalJoin::Joined if found.node == Err(Why::Absent) => Decision::Watch {
            bootstrapping: false,
            says: "the kubelet has its certificate, and has not registered its Node yet: watching it".into(),
        },
        LocalJoin::Stopped if found.node == Err(Why::Absent) => Decision::Wake {
            says: "the kubelet has its certificate, did not register its Node and does not run: starting it".into(),
        },
        LocalJoin::Joined | LocalJoin::Stopped if found.node.is_err() => by_node(found, replace),
        LocalJoin::Joined => match has_another_machine_id(found) {
            Some(node) => Decision::Wait { says: another_machine_id(node), else_told: not_told_its_id(node) },
            None => Decision::Watch { bootstrapping: false, says: joined(found) },
        },
        LocalJoin::Stopped => {
            let says = "this machine has joined already, and its kubelet does not run: starting it".to_owned();
            let wake = Decision::Wake { says };
            has_another_machine_id(found).map_or(wake.clone(), |node| once_silent(found, node, wake))
        }
        LocalJoin::Bootstrapping if !anew => Decision::Watch {
            bootstrapping: true,
            says: "the kubelet is about to get its certificate: watching it".into(),
        },
        _ => by_node(found, replace),
    }
}

/// Also where the check that says so is ignored: what is ignored is not taken down.
fn foreign(found: &ExistingJoin, kubeconfig: &str) -> Decision {
    let about = id!("machine.other-kubernetes");
    let says = format!("a kubelet runs here with {kubeconfig}: kubeadm did not set it up, and would replace it");
    let fix = format!("grep server: {kubeconfig}    # the cluster it is in; take it out of that first");
    let own = || JoinCause::of(about, says).fixed_by([fix]);
    let of_check = found.blockers.iter().find(|blocker| blocker.id == about.id).cloned();
    Decision::Refuse { cause: of_check.unwrap_or_else(own) }
}

fn named(found: &ExistingJoin) -> Decision {
    let name = found.named.as_deref().unwrap_or("another");
    let says = format!("this machine has joined as {name}; for another name take it out first: carrick reset");
    Decision::Refuse { cause: JoinCause::of(id!("api.node-name"), says) }
}

fn joined(found: &ExistingJoin) -> String {
    let name = &found.name;
    match &found.renamed {
        None => "this machine has joined already: verifying it".to_owned(),
        Some(now) => format!(
            "this machine has joined already, as {name}: verifying it. Its host name is {now} now: carrick explain machine.renamed"
        ),
    }
}

/// A kubelet that is started under another name than the one in its certificate is refused.
fn renamed(found: &ExistingJoin) -> Decision {
    let (now, name) = (found.renamed.as_deref().unwrap_or("another"), &found.name);
    let says = format!(
        "this machine has joined as {name}, its host name is {now} now, and its kubelet does not run: started under this name it \
         would be refused; hostnamectl hostname {name} gives the old one back, carrick reset takes the machine out"
    );
    Decision::Refuse { cause: JoinCause::of(id!("machine.renamed"), says) }
}

/// A kubelet that runs under its Node's name corrects what the Node says of its machine, within seconds; no other does.
fn is_copied(found: &ExistingJoin) -> bool {
    let Ok(node) = &found.node else { return false };
    match found.local {
        LocalJoin::Stopped => node.identity != Some(true),
        _ => found.renamed.is_some() && node.identity == Some(false),
    }
}

/// The files of a join are here, and the Node they are for is another machine's: a disk that was copied.
fn copied() -> Decision {
    let says = "the files of a join are here, and its Node is another machine's: this one was copied from it; take them away \
                first: carrick reset";
    Decision::Refuse { cause: JoinCause::of(id!("api.node-name"), says) }
}

/// A kubelet that is started anew would register again, and be Ready; a pod network that goes by the Node's range (flannel)
/// would go on with the old one, and pods would come to a node on which nothing reaches them.
fn deleted() -> Decision {
    let says = "this machine has joined, and its Node was deleted since; to have it back as a new one: carrick reset, then \
                carrick join";
    Decision::Refuse { cause: JoinCause::of(id!("node.deleted"), says) }
}

/// A kubelet lives here, and whether in the cluster that was asked for nobody can tell: that is no success.
fn unproven(found: &ExistingJoin) -> Decision {
    let cause = found.path.as_deref().cloned().unwrap_or_else(|| {
        let says = "whether this machine has joined the cluster that was asked for cannot be told: it shows no CA";
        JoinCause::of(id!("api.http"), says)
    });
    Decision::Refuse { cause }
}

/// Nothing lives here, or it could not be asked: the Node of this name decides.
fn by_node(found: &ExistingJoin, replace: bool) -> Decision {
    let node = match &found.node {
        Ok(node) => node,
        Err(Why::Absent) => return Decision::Join { says: "no Node of this name is in the cluster".into() },
        Err(why) => {
            let cause = found.path.as_deref().cloned().unwrap_or_else(|| causes::of_unasked(why));
            return Decision::Refuse { cause };
        }
    };
    match node.identity {
        Some(true) if node.other_machine_id => {
            let says = format!(
                "the Node {} has this machine's UUID and another machine-id, and no kubelet keeps it alive: this machine was set \
                 up anew, and takes it up again",
                node.name
            );
            once_silent(found, node, Decision::Join { says })
        }
        Some(true) => ours(found, node),
        Some(false) => theirs(found, node, replace, "is another machine's"),
        None => theirs(found, node, replace, "cannot be told from this machine's: its ids are empty or shared"),
    }
}

/// The Node of this very machine, of a join that is over: kubeadm refuses while it is Ready.
fn ours(found: &ExistingJoin, node: &Node) -> Decision {
    let name = &node.name;
    if !node.ready {
        return Decision::Join {
            says: format!("the Node {name} of an earlier join is this machine: it will be taken up again"),
        };
    }
    let renewed_lately = found.lease_age.is_some_and(|age| age < RENEWED_LATELY);
    if found.admin && found.lease_age.is_some() && !renewed_lately {
        let says = format!(
            "the Node {name} is this machine's, is still Ready, and no kubelet renews it: marking it as not ready"
        );
        return Decision::Unready { node: name.clone(), says };
    }
    let says =
        format!("the Node {name} of an earlier join is still Ready; without a kubelet that ends within a minute");
    Decision::Wait { says, else_told: kept_alive(node) }
}

fn kept_alive(node: &Node) -> JoinCause {
    let says = "the old Node stays Ready: somebody else with this machine's ids keeps it alive";
    JoinCause::of(id!("api.node-name"), says).seen(whose(node))
}

/// The Node, where it has this machine's UUID and another machine-id: the machine was set up anew, or there are two.
fn has_another_machine_id(found: &ExistingJoin) -> Option<&Node> {
    found.node.as_ref().ok().filter(|node| node.other_machine_id)
}

fn another_machine_id(node: &Node) -> String {
    let name = &node.name;
    format!(
        "the Node {name} has this machine's UUID and another machine-id: whether a kubelet keeps it so shows within a minute"
    )
}

/// Which of the two it is, a kubelet says that is heard of: by a lease that is renewed, else by what the cluster says of the Node
/// once nobody renews it.
fn once_silent(found: &ExistingJoin, node: &Node, then: Decision) -> Decision {
    let two = || {
        let says = format!(
            "the Node {} is another machine's with the same UUID, and its kubelet is alive; give this machine another name: \
             --node-name",
            node.name
        );
        JoinCause::of(id!("api.node-name"), says).seen(whose(node))
    };
    match node.silent {
        true => then,
        false if found.lease_renews => Decision::Refuse { cause: two() },
        false => Decision::Wait { says: another_machine_id(node), else_told: two() },
    }
}

/// A kubelet tells the cluster its machine's id when it starts, within seconds.
fn not_told_its_id(node: &Node) -> JoinCause {
    let says = format!(
        "the Node {} has another machine-id than this machine: it was changed since its kubelet started (systemctl restart kubelet \
         tells the cluster), or a second machine with the same UUID has this name",
        node.name
    );
    JoinCause::of(id!("api.node-name"), says).seen(whose(node))
}

fn whose(node: &Node) -> Evidence {
    Evidence::of(format!("Node {}", node.name), node.whose.as_str())
}

/// A Node that is, or may be, another machine's.
fn theirs(found: &ExistingJoin, node: &Node, replace: bool, whose: &str) -> Decision {
    let name = &node.name;
    let age = found.lease_age.map_or_else(String::new, |age| format!(", its lease renewed {} s ago", age.as_secs()));
    let alive = found.lease_age.map_or(node.ready, |age| age < LEASE_LASTS);
    let refuse = |says: String| {
        let seen = Evidence::of(format!("Node {name}"), format!("{}{age}", node.whose));
        Decision::Refuse { cause: JoinCause::of(id!("api.node-name"), says).seen(seen) }
    };
    if alive {
        return refuse(format!(
            "the Node {name} {whose}, and it is alive; give this machine another name: --node-name"
        ));
    }
    if !replace {
        return refuse(format!(
            "the Node {name} {whose}, and it is down; if that machine is gone for good: --replace-node"
        ));
    }
    if found.admin {
        return Decision::Remove {
            node: name.clone(),
            says: format!("the Node {name} {whose}; removing it, as --replace-node says"),
        };
    }
    if node.ready {
        let says = format!("the Node {name} {whose}, and is still Ready; without a kubelet that ends within a minute");
        return Decision::Wait { says, else_told: kept_alive(node) };
    }
    Decision::Join { says: format!("the Node {name} {whose}; this machine takes it over, as --replace-node says") }
}

/// Whatever may be found, for tests.
#[cfg(test)]
pub mod sample {
    use proptest::prelude::*;

    use super::{ExistingJoin, LocalJoin, Node, SignedDuration, Why};
    use crate::join::verify::testing::node;
    use crate::testing::NOW;

    /// The Node of this name: whose it is, and whether it is Ready.
    pub fn the(identity: Option<bool>, ready: bool) -> Node {
        Node { identity, ready, ..node() }
    }

    pub fn any_found() -> impl Strategy<Value = ExistingJoin> {
        let local = prop_oneof![
            Just(LocalJoin::Nothing),
            Just(LocalJoin::Leftovers { why: "x".into() }),
            Just(LocalJoin::Bootstrapping),
            Just(LocalJoin::Joined),
            Just(LocalJoin::Stopped),
            Just(LocalJoin::Detached { why: "not there".into() }),
            Just(LocalJoin::Elsewhere { server: "s".into() }),
            Just(LocalJoin::Foreign { kubeconfig: "/var/lib/kubelet/kubeconfig".into() }),
        ];
        let seen = prop_oneof![
            Just(Err(Why::Absent)),
            Just(Err(Why::TimedOut)),
            (any::<Option<bool>>(), any::<bool>()).prop_map(|(identity, ready)| Ok(the(identity, ready))),
            any::<bool>().prop_map(|silent| Ok(Node { other_machine_id: true, silent, ..the(Some(true), !silent) })),
        ];
        let age = proptest::option::of(0i64..200);
        (local, any::<bool>(), seen, age, any::<bool>()).prop_map(|(local, kubeadm, node, age, admin)| ExistingJoin {
            local,
            kubeadm: kubeadm.then_some(NOW),
            node,
            lease_age: age.map(SignedDuration::from_secs),
            admin,
            ..ExistingJoin::nothing("w1")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::sample::{any_found, the};
    use super::*;
    use crate::catalogue;
    use crate::fact::join_state::sample as machine;
    use crate::fact::pki::sample::SampleAuthority;
    use crate::fact::{kubeconfig, pki, process, unit};
    use crate::fix::FIXES;
    use crate::join::prepare::{self, PreparationError};
    use crate::plan::Effect;
    use proptest::prelude::*;

    const T: Timestamp = crate::testing::NOW;

    fn found(local: LocalJoin, node: Result<Node, Why>) -> ExistingJoin {
        ExistingJoin { local, node, ..ExistingJoin::nothing("w1") }
    }

    fn kind(decision: &Decision) -> &'static str {
        match decision {
            Decision::Join { .. } => "join",
            Decision::Attach { .. } => "attach",
            Decision::Watch { .. } => "watch",
            Decision::Wake { .. } => "wake",
            Decision::Wait { .. } => "wait",
            Decision::Remove { .. } => "remove",
            Decision::Unready { .. } => "unready",
            Decision::Refuse { cause } if cause.class().may_pass() => "retry",
            Decision::Refuse { .. } => "refuse",
        }
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table")]
    fn decides() {
        let (ours, theirs, nobodys) = (Some(true), Some(false), None);
        let nothing = || LocalJoin::Nothing;
        let left = || LocalJoin::Leftovers { why: "x".into() };
        let aged = |seconds, of: ExistingJoin| ExistingJoin {
            lease_age: Some(SignedDuration::from_secs(seconds)),
            admin: true,
            ..of
        };
        let unregistered = |local| ExistingJoin { registered: false, ..found(local, Err(Why::Absent)) };
        let anew = |ready, silent| Node { other_machine_id: true, silent, ..the(ours, ready) };
        let renewed = |local, node| ExistingJoin { lease_renews: true, ..aged(5, found(local, Ok(node))) };
        let renamed = |local, node| ExistingJoin { renamed: Some("w1-dhcp".into()), ..found(local, node) };
        for (name, found, replace, expected) in vec![
            ("a fresh machine", found(nothing(), Err(Why::Absent)), false, "join"),
            ("leftovers, no Node", found(left(), Err(Why::Absent)), false, "join"),
            ("the API server does not answer", found(nothing(), Err(Why::TimedOut)), false, "retry"),
            ("the API server is not reached", found(nothing(), Err(Why::Broken("x".into()))), false, "retry"),
            ("who asks may not ask for Nodes", found(nothing(), Err(Why::Denied)), false, "refuse"),
            (
                "in another cluster",
                found(LocalJoin::Elsewhere { server: "s".into() }, Err(Why::Absent)),
                true,
                "refuse",
            ),
            (
                "in another cluster than the one pinned",
                ExistingJoin {
                    path: Some(Box::new(JoinCause::of(id!("api.ca-pin"), "x"))),
                    ..found(LocalJoin::Elsewhere { server: "s".into() }, Err(Why::Absent))
                },
                true,
                "refuse",
            ),
            (
                "kubelet.conf removed under a kubelet that lives",
                found(LocalJoin::Detached { why: "not there".into() }, Err(Why::Absent)),
                true,
                "refuse",
            ),
            (
                "the kubelet of another installer",
                found(LocalJoin::Foreign { kubeconfig: "/var/lib/kubelet/kubeconfig".into() }, Err(Why::Absent)),
                true,
                "refuse",
            ),
            (
                "kubeadm at work",
                ExistingJoin { kubeadm: Some(T), ..found(left(), Ok(the(ours, true))) },
                false,
                "attach",
            ),
            ("joined", found(LocalJoin::Joined, Ok(the(ours, true))), false, "watch"),
            ("joined, and nobody to ask", found(LocalJoin::Joined, Err(Why::TimedOut)), false, "retry"),
            ("joined, and renamed since", renamed(LocalJoin::Joined, Ok(the(ours, true))), false, "watch"),
            ("joined, down, and renamed since", renamed(LocalJoin::Joined, Ok(the(ours, false))), false, "watch"),
            ("stopped, and renamed since", renamed(LocalJoin::Stopped, Ok(the(ours, false))), false, "refuse"),
            ("stopped, renamed, its Node deleted", renamed(LocalJoin::Stopped, Err(Why::Absent)), true, "refuse"),
            ("a running copy under another name", renamed(LocalJoin::Joined, Ok(the(theirs, true))), true, "refuse"),
            ("rebooted in mid-join", found(LocalJoin::Bootstrapping, Err(Why::Absent)), false, "watch"),
            ("joined, and its Node deleted", found(LocalJoin::Joined, Err(Why::Absent)), false, "refuse"),
            ("certificate issued, not registered yet", unregistered(LocalJoin::Joined), false, "watch"),
            ("kubelet stopped before it registered", unregistered(LocalJoin::Stopped), false, "wake"),
            (
                "a copy of another machine that is down",
                found(LocalJoin::Stopped, Ok(the(theirs, false))),
                true,
                "refuse",
            ),
            ("kubelet stopped, its Node down", found(LocalJoin::Stopped, Ok(the(ours, false))), false, "wake"),
            ("kubelet stopped, its Node deleted", found(LocalJoin::Stopped, Err(Why::Absent)), false, "refuse"),
            ("kubelet stopped, and nobody to ask", found(LocalJoin::Stopped, Err(Why::TimedOut)), false, "retry"),
            ("a copy of another machine", found(LocalJoin::Stopped, Ok(the(theirs, true))), false, "refuse"),
            (
                "joined, to nobody knows what",
                ExistingJoin { proven: false, ..found(LocalJoin::Joined, Err(Why::TimedOut)) },
                false,
                "retry",
            ),
            (
                "joined under another name",
                ExistingJoin { named: Some("w9".into()), ..found(LocalJoin::Joined, Err(Why::Absent)) },
                false,
                "refuse",
            ),
            ("reset, the old Node down", found(nothing(), Ok(the(ours, false))), false, "join"),
            ("reset, the old Node Ready", found(nothing(), Ok(the(ours, true))), false, "wait"),
            ("reset, Ready, admin, lease old", aged(30, found(nothing(), Ok(the(ours, true)))), false, "unready"),
            ("reset, Ready, admin, lease young", aged(5, found(nothing(), Ok(the(ours, true)))), false, "wait"),
            (
                "reset, Ready, admin, lease unread",
                ExistingJoin { admin: true, ..found(nothing(), Ok(the(ours, true))) },
                false,
                "wait",
            ),
            ("set up anew, the old Node silent", found(nothing(), Ok(anew(false, true))), false, "join"),
            ("same UUID, Ready", found(nothing(), Ok(anew(true, false))), false, "wait"),
            ("same UUID, NotReady by its own kubelet", found(nothing(), Ok(anew(false, false))), true, "wait"),
            ("same UUID, its lease seen renewed", renewed(nothing(), anew(true, false)), true, "refuse"),
            (
                "same UUID, its lease old by this clock",
                aged(300, found(nothing(), Ok(anew(true, false)))),
                true,
                "wait",
            ),
            ("stopped, same UUID, silent", found(LocalJoin::Stopped, Ok(anew(false, true))), false, "wake"),
            ("stopped, same UUID, alive", renewed(LocalJoin::Stopped, anew(true, false)), false, "refuse"),
            ("joined, its machine-id changed since", found(LocalJoin::Joined, Ok(anew(true, false))), false, "wait"),
            ("another's, alive", found(nothing(), Ok(the(theirs, true))), false, "refuse"),
            ("another's, alive, to be replaced", found(nothing(), Ok(the(theirs, true))), true, "refuse"),
            ("another's, alive by its lease", aged(20, found(nothing(), Ok(the(theirs, false)))), true, "refuse"),
            ("another's, its lease not yet over", aged(39, found(nothing(), Ok(the(theirs, false)))), true, "refuse"),
            ("another's, its lease just over", aged(40, found(nothing(), Ok(the(theirs, false)))), true, "remove"),
            ("another's, down", found(nothing(), Ok(the(theirs, false))), false, "refuse"),
            ("another's, down, replaced", found(nothing(), Ok(the(theirs, false))), true, "join"),
            ("another's, down, replaced, admin", aged(90, found(nothing(), Ok(the(theirs, false)))), true, "remove"),
            ("another's, dead lease, still Ready", aged(45, found(nothing(), Ok(the(theirs, true)))), true, "remove"),
            (
                "another's, dead lease, still Ready, no admin",
                ExistingJoin { admin: false, ..aged(45, found(nothing(), Ok(the(theirs, true)))) },
                true,
                "wait",
            ),
            ("nobody's, alive", found(nothing(), Ok(the(nobodys, true))), false, "refuse"),
            ("nobody's, down", found(nothing(), Ok(the(nobodys, false))), false, "refuse"),
            ("nobody's, down, replaced", found(nothing(), Ok(the(nobodys, false))), true, "join"),
        ] {
            let decision = decide(&found, replace, false);
            assert_eq!(kind(&decision), expected, "{name}: {decision:?}");
        }
    }

    #[test]
    fn who_got_no_certificate_is_joined_anew_as_anybody_is() {
        for (node, expected) in [(Err(Why::Absent), "join"), (Ok(the(Some(false), false)), "refuse")] {
            let found = found(LocalJoin::Bootstrapping, node);
            assert_eq!(kind(&decide(&found, false, false)), "watch");
            assert_eq!(kind(&decide(&found, false, true)), expected);
        }
    }

    #[test]
    fn a_refusal_says_which_machine() {
        let Decision::Refuse { cause } = decide(&found(LocalJoin::Nothing, Ok(the(Some(false), true))), false, false)
        else {
            panic!()
        };
        assert_eq!(
            cause.says,
            "the Node w1 is another machine's, and it is alive; give this machine another name: --node-name"
        );
        assert_eq!(cause.seen[0].text, "systemUUID a, machineID b, 10.0.0.21");
        assert_eq!(cause.id, "api.node-name");
    }

    #[test]
    fn reads_the_join_on_the_machine() {
        let (ca, other) = (SampleAuthority::make(), SampleAuthority::make());
        let joined = || machine::joined(&ca);
        let stopped = machine::kubelet_state("inactive", "dead");
        let boots = || {
            machine::clean()
                .with_file(kubeconfig::BOOTSTRAP, &kubeconfig::sample::bootstrap(machine::SERVER, &ca.pem))
                .with_query(&unit::SHOW, &machine::kubelet_state("active", "running"))
        };
        let pinned = |authority: &SampleAuthority| {
            let ca = pki::parse_certificates(&authority.pem).unwrap().remove(0);
            RequestedCluster { cas: Vec::new(), pins: vec![ca.pin.parse().unwrap()] }
        };
        for (name, facts, asked, expected) in [
            ("joined, by the pin alone", joined(), pinned(&ca), LocalJoin::Joined),
            (
                "of another cluster, by the pin alone",
                joined(),
                pinned(&other),
                LocalJoin::Elsewhere { server: machine::SERVER.into() },
            ),
            (
                "of another cluster by the pin alone, stopped",
                joined().with_query(&unit::SHOW, &stopped),
                pinned(&other),
                LocalJoin::Leftovers { why: "it trusts another cluster's CA".into() },
            ),
            ("in mid-join to another cluster", boots(), pinned(&other), LocalJoin::Nothing),
            ("in mid-join, by the pin alone", boots(), pinned(&ca), LocalJoin::Bootstrapping),
        ] {
            assert_eq!(LocalJoin::of(&facts, &asked), Ok(expected), "{name}");
            assert_eq!(is_proven(&facts, &asked), asked.pins == pinned(&ca).pins, "{name}");
            assert!(!is_proven(&facts, &RequestedCluster::default()), "{name}");
        }
        for (name, facts, expected) in [
            ("clean", machine::clean(), LocalJoin::Nothing),
            ("joined", joined(), LocalJoin::Joined),
            ("stopped", joined().with_query(&unit::SHOW, &stopped), LocalJoin::Stopped),
            (
                "its kubelet.conf removed since",
                joined().without_file(kubeconfig::KUBELET),
                LocalJoin::Detached { why: "not there".into() },
            ),
            ("renamed since", joined().with_file("/proc/sys/kernel/hostname", "w1-dhcp\n"), LocalJoin::Joined),
            ("in rotation", joined().with_api("cluster-ca", &format!("{}{}", other.pem, ca.pem)), LocalJoin::Joined),
            ("in mid-join", boots(), LocalJoin::Bootstrapping),
            (
                "in mid-join, kubelet.conf written early",
                boots().with_file(kubeconfig::KUBELET, &kubeconfig::sample::kubelet(machine::SERVER, &ca.pem)),
                LocalJoin::Bootstrapping,
            ),
            (
                "a kubelet of another installer",
                machine::clean()
                    .with_query(&unit::SHOW, &format!("{}MainPID=17\n", machine::kubelet_state("active", "running")))
                    .with_query(&process::KUBELET, "17 60 /usr/bin/kubelet --kubeconfig=/var/lib/kubelet/kubeconfig\n"),
                LocalJoin::Foreign { kubeconfig: "/var/lib/kubelet/kubeconfig".into() },
            ),
            ("token left, no kubelet", boots().with_query(&unit::SHOW, &stopped), LocalJoin::Nothing),
            (
                "no certificate",
                joined().without_file(pki::CLIENT),
                LocalJoin::Leftovers { why: "the kubelet has no certificate".into() },
            ),
            (
                "of another cluster",
                joined().with_api("cluster-ca", &other.pem),
                LocalJoin::Elsewhere { server: machine::SERVER.into() },
            ),
            (
                "of another cluster, stopped",
                joined().with_api("cluster-ca", &other.pem).with_query(&unit::SHOW, &stopped),
                LocalJoin::Leftovers { why: "it trusts another cluster's CA".into() },
            ),
        ] {
            let asked = RequestedCluster { cas: facts.cluster_cas().unwrap_or_default(), pins: Vec::new() };
            assert_eq!(LocalJoin::of(&facts, &asked), Ok(expected), "{name}");
        }
        assert!(LocalJoin::of(&crate::testing::facts(), &RequestedCluster::default()).is_err());
    }

    /// Two clusters' CAs, and one for clients alone, made once.
    fn authorities() -> &'static [SampleAuthority; 3] {
        static MADE: OnceLock<[SampleAuthority; 3]> = OnceLock::new();
        MADE.get_or_init(|| std::array::from_fn(|_| SampleAuthority::make()))
    }

    /// A machine whose kubelet lives, by a certificate that its own CA has signed, or one that nobody here knows, whatever else is
    /// the matter with it; and the cluster that somebody asks for on it.
    fn any_live() -> impl Strategy<Value = (Facts, RequestedCluster)> {
        let [own, other, clients] = authorities();
        let signed = prop::sample::select([own, clients].map(|ca| ca.node("system:node:w1", 2027)).to_vec());
        let pems = [own.pem.clone(), format!("{}{}", other.pem, own.pem), format!("{}{}", own.pem, other.pem)];
        let by_file = kubeconfig::sample::kubelet(machine::SERVER, "").replace("-data: ", &format!(": {}", pki::CA));
        let confs = pems.iter().map(|pem| kubeconfig::sample::kubelet(machine::SERVER, pem));
        let confs: Vec<Option<String>> = confs.chain([by_file, "{".to_owned()]).map(Some).chain([None]).collect();
        let cluster = vec![None, Some(own.pem.clone()), Some(other.pem.clone()), Some(pems[1].clone())];
        let pins = vec![None, Some(own.pem.clone()), Some(other.pem.clone())];
        let host = prop::sample::select(vec!["w1", "W1", "w1-dhcp", "(none)", "my_node", "localhost"]);
        let flags = prop::sample::select(vec!["", "--hostname-override=w1", "--hostname-override=w9"]);
        let (conf, bootstraps) = (prop::sample::select(confs), any::<bool>());
        let (cluster, pins) = (prop::sample::select(cluster), prop::sample::select(pins));
        let machine = (host, flags, conf, bootstraps, signed);
        (machine, cluster, pins).prop_map(|((host, flags, conf, bootstraps, signed), cluster, pins)| {
            let ca = &authorities()[0];
            let mut facts = machine::joined(ca)
                .with_file(pki::CLIENT, &signed)
                .with_file("/proc/sys/kernel/hostname", &format!("{host}\n"))
                .with_query(&unit::KUBELET, &unit::sample::packaged())
                .with_file(unit::KUBEADM_FLAGS, &format!("KUBELET_KUBEADM_ARGS=\"{flags}\"\n"))
                .with_dir(pki::DIR, &[("lrwxrwxrwx", "kubelet-client-current.pem")]);
            facts = match conf {
                Some(conf) => facts.with_file(kubeconfig::KUBELET, &conf),
                None => facts.without_file(kubeconfig::KUBELET),
            };
            if bootstraps {
                facts =
                    facts.with_file(kubeconfig::BOOTSTRAP, &kubeconfig::sample::bootstrap(machine::SERVER, &ca.pem));
            }
            if let Some(pem) = cluster {
                facts = facts.with_api("cluster-ca", &pem);
            }
            let pins = pins.map(|pem| pki::parse_certificates(&pem).unwrap().remove(0).pin.parse().unwrap());
            let asked =
                RequestedCluster { cas: facts.cluster_cas().unwrap_or_default(), pins: pins.into_iter().collect() };
            (facts, asked)
        })
    }

    fn harms(effect: &Effect) -> bool {
        let dirs = ["/etc/kubernetes", "/var/lib/kubelet", "/run/systemd"];
        let is_of_kubelet = |path: &str| dirs.iter().any(|dir| path.starts_with(dir));
        match effect {
            Effect::Run { unit, running } => unit == "kubelet" && !running,
            Effect::Remove { path } | Effect::Write { path, .. } => is_of_kubelet(path),
            Effect::KubeadmReset { .. } | Effect::ClearDir { .. } => true,
            _ => false,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

        /// The promise of a live node: whatever a host is called by now, whatever became of its files, whichever cluster is asked
        /// for and whatever that says of it, no join stops a kubelet that lives, configures it anew or removes its files. What
        /// follows from a decision is in the tests of `step`.
        #[test]
        fn nothing_that_lives_is_taken_down(
            (facts, asked) in any_live(),
            found in any_found(),
            (replace, anew, proven, registered, renewed) in any::<(bool, bool, bool, bool, bool)>(),
        ) {
            let local = LocalJoin::of(&facts, &asked).unwrap();
            let lives = matches!(local, LocalJoin::Joined | LocalJoin::Elsewhere { .. } | LocalJoin::Detached { .. });
            prop_assert!(lives, "{:?}", local);
            prop_assert_eq!(facts.kubelet_node_name(), Ok("w1".to_owned()));
            let renamed = facts.coming_node_name().ok().filter(|coming| coming != "w1");
            let found = ExistingJoin { local, kubeadm: None, proven, registered, renamed, lease_renews: renewed, ..found };
            let decision = decide(&found, replace, anew);
            prop_assert!(
                matches!(decision, Decision::Watch { bootstrapping: false, .. } | Decision::Wait { .. } | Decision::Refuse { .. }),
                "{:?}", decision
            );
            prop_assert!(matches!(prepare::plan(&facts, &["stale.kubelet-conf"]), Err(PreparationError::Live(_))));
            let fixes = FIXES.iter().flat_map(|fix| (fix.fix.plan)(&facts).unwrap_or_default());
            prop_assert_eq!(fixes.filter(harms).collect::<Vec<_>>(), []);
        }
    }

    proptest! {
        #[test]
        fn a_refusal_is_taken_as_its_file_says_unless_it_says_why_not(found in any_found(), replace in any::<bool>()) {
            if let Decision::Refuse { cause } = decide(&found, replace, false) {
                let in_file = catalogue::about(&cause.id).unwrap().class;
                prop_assert_eq!(cause.class(), cause.circumstance.map_or(in_file, Circumstance::class), "{:?}", cause);
            }
        }

        #[test]
        fn no_living_node_of_another_is_removed_or_taken(found in any_found(), replace in any::<bool>()) {
            let decision = decide(&found, replace, false);
            let Ok(node) = &found.node else { return Ok(()) };
            let alive = found.lease_age.map_or(node.ready, |age| age < LEASE_LASTS);
            let touches = matches!(decision, Decision::Remove { .. } | Decision::Join { .. });
            if node.identity != Some(true) && (alive || !replace) {
                prop_assert!(!touches, "{:?} {:?}", found, decision);
            }
            if matches!(decision, Decision::Remove { .. } | Decision::Unready { .. }) {
                prop_assert!(found.admin);
            }
            if matches!(decision, Decision::Unready { .. }) {
                prop_assert!(node.identity == Some(true) && !node.other_machine_id);
            }
            if node.other_machine_id && !node.silent {
                prop_assert!(!touches && !matches!(decision, Decision::Wake { .. }), "{:?} {:?}", found, decision);
            }
        }
    }
}
