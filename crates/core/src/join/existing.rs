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
use crate::fact::{Facts, Known, OrAbsent, Why, journal, pki};
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
    /// A live join to another cluster.
    Elsewhere { server: String },
}

/// The cluster that was asked for: by the CA it has shown, else by the keys that were pinned.
#[derive(Clone, Debug, Default)]
pub struct RequestedCluster {
    pub ca: Option<pki::Certificate>,
    pub pins: Vec<Pin>,
}

impl RequestedCluster {
    /// The key of its CA, as far as another is not it; `None`: it has neither shown one, nor was one pinned.
    pub fn pin(&self, own: &str) -> Option<String> {
        if let Some(ca) = &self.ca {
            return Some(ca.pin.clone());
        }
        let pins = || self.pins.iter().map(Pin::to_string);
        pins().find(|pin| pin == own).or_else(|| pins().next())
    }

    /// Whether a kubeconfig of the kubelet is for this cluster; `None`: that cannot be told.
    fn is_in(&self, conf: &Kubeconfig) -> Option<bool> {
        let own = conf.ca()?.pin;
        Some(self.pin(&own)? == own)
    }
}

impl LocalJoin {
    pub fn of(facts: &Facts, asked: &RequestedCluster) -> Known<Self> {
        let state = facts.join_state()?;
        if bootstraps(facts, asked)? && matches!(state, JoinState::Left { .. } | JoinState::Unjoined) {
            return Ok(LocalJoin::Bootstrapping);
        }
        let (server, is_live, why) = match state {
            JoinState::Unjoined => return Ok(LocalJoin::Nothing),
            JoinState::Joined { server } => (server, true, None),
            JoinState::Stopped { server, .. } => (server, false, None),
            JoinState::Left { server, why, .. } => (server, runs_on_its_own(facts)?, Some(why)),
        };
        let of_another = facts.kubelet_kubeconfig().is_ok_and(|conf| asked.is_in(&conf) == Some(false));
        Ok(match why {
            _ if of_another && is_live => LocalJoin::Elsewhere { server },
            _ if of_another => LocalJoin::Leftovers { why: "it trusts another cluster's CA".to_owned() },
            Some(why) => LocalJoin::Leftovers { why },
            None if is_live => LocalJoin::Joined,
            None => LocalJoin::Stopped,
        })
    }
}

/// A kubelet runs on a certificate that its own `kubelet.conf` vouches for, whatever the cluster that was asked for says.
fn runs_on_its_own(facts: &Facts) -> Known<bool> {
    let Some(own) = facts.kubelet_kubeconfig().ok().and_then(|conf| conf.ca()) else { return Ok(false) };
    let client = facts.client_certificate().or_absent()?;
    let vouched = client.is_some_and(|client| client.is_signed_by(&own) && client.is_valid_at(facts.taken_at));
    Ok(vouched && facts.unit_state("kubelet")?.is_active())
}

/// A kubelet runs that still has a token to get a certificate with, of the cluster that was asked for.
fn bootstraps(facts: &Facts, asked: &RequestedCluster) -> Known<bool> {
    if facts.client_certificate().or_absent()?.is_some() || !facts.has_bootstrap_conf()? {
        return Ok(false);
    }
    let elsewhere = facts.bootstrap_kubeconfig().is_ok_and(|conf| asked.is_in(&conf) == Some(false));
    Ok(!elsewhere && facts.unit_state("kubelet")?.is_active())
}

/// Whether the cluster that was asked for has proven to be the one of the kubelet here.
pub fn is_proven(facts: &Facts, asked: &RequestedCluster) -> bool {
    let confs = [facts.kubelet_kubeconfig(), facts.bootstrap_kubeconfig()];
    confs.iter().flatten().any(|conf| asked.is_in(conf) == Some(true))
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
pub struct ExistingJoin {
    pub local: LocalJoin,
    /// Our own kubeadm unit runs, since when.
    pub kubeadm: Option<Timestamp>,
    /// `Err(Why::Absent)`: there is no Node of this name.
    pub node: Result<Node, Why>,
    /// How long ago the Node's lease was renewed, where it may be read (an admin's kubeconfig).
    pub lease_age: Option<SignedDuration>,
    /// There is an admin's kubeconfig: a Node can be deleted.
    pub admin: bool,
    /// The step on the way to the API server that failed: why nothing could be asked.
    pub path: Option<JoinCause>,
    /// The kubelet here is of the cluster that was asked for.
    pub proven: bool,
    /// It has joined under this name, and another was asked for.
    pub named: Option<String>,
    /// This kubelet had registered its Node.
    pub registered: bool,
}

impl ExistingJoin {
    /// The token is not signed for: it may have been made a moment ago.
    pub fn awaits_signature(&self) -> bool {
        self.path.as_ref().is_some_and(|broken| broken.id == id!("api.token").id)
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
    /// The old Node must no longer be Ready first.
    Wait { says: String },
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
        let pin = found.path.clone().filter(|broken| broken.class() == Class::Fatal);
        return Decision::Refuse { cause: pin.unwrap_or_else(lives) };
    }
    if let Some(since) = found.kubeadm {
        return Decision::Attach { since, says: "kubeadm is still at work here: following it".into() };
    }
    match &found.local {
        LocalJoin::Joined | LocalJoin::Stopped | LocalJoin::Bootstrapping if !found.proven => unproven(found),
        LocalJoin::Joined | LocalJoin::Stopped if found.named.is_some() => named(found),
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
        LocalJoin::Joined => {
            Decision::Watch { bootstrapping: false, says: "this machine has joined already: verifying it".into() }
        }
        LocalJoin::Stopped if found.node.as_ref().is_ok_and(|node| node.identity != Some(true)) => copied(),
        LocalJoin::Stopped => {
            Decision::Wake { says: "this machine has joined already, and its kubelet does not run: starting it".into() }
        }
        LocalJoin::Bootstrapping if !anew => Decision::Watch {
            bootstrapping: true,
            says: "the kubelet is about to get its certificate: watching it".into(),
        },
        _ => by_node(found, replace),
    }
}

fn named(found: &ExistingJoin) -> Decision {
    let name = found.named.as_deref().unwrap_or("another");
    let says = format!("this machine has joined as {name}; for another name take it out first: carrick reset");
    Decision::Refuse { cause: JoinCause::of(id!("api.node-name"), says) }
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
    let cause = found.path.clone().unwrap_or_else(|| {
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
            let cause = found.path.clone().unwrap_or_else(|| causes::of_unasked(why));
            return Decision::Refuse { cause };
        }
    };
    match node.identity {
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
    Decision::Wait {
        says: format!("the Node {name} of an earlier join is still Ready; without a kubelet that ends within a minute"),
    }
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
        return Decision::Wait {
            says: format!("the Node {name} {whose}, and is still Ready; without a kubelet that ends within a minute"),
        };
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
            Just(LocalJoin::Elsewhere { server: "s".into() }),
        ];
        let seen = prop_oneof![
            Just(Err(Why::Absent)),
            Just(Err(Why::TimedOut)),
            (any::<Option<bool>>(), any::<bool>()).prop_map(|(identity, ready)| Ok(the(identity, ready))),
        ];
        let age = proptest::option::of(0i64..200);
        (local, any::<bool>(), seen, age, any::<bool>()).prop_map(|(local, kubeadm, node, age, admin)| ExistingJoin {
            local,
            kubeadm: kubeadm.then_some(NOW),
            node,
            lease_age: age.map(SignedDuration::from_secs),
            admin,
            path: None,
            proven: true,
            named: None,
            registered: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::sample::{any_found, the};
    use super::*;
    use crate::catalogue;
    use crate::fact::join_state::sample as machine;
    use crate::fact::kubeconfig;
    use crate::fact::pki::sample::SampleAuthority;
    use crate::fact::{pki, unit};
    use proptest::prelude::*;

    const T: Timestamp = crate::testing::NOW;

    fn found(local: LocalJoin, node: Result<Node, Why>) -> ExistingJoin {
        ExistingJoin {
            local,
            kubeadm: None,
            node,
            lease_age: None,
            admin: false,
            path: None,
            proven: true,
            named: None,
            registered: true,
        }
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
                    path: Some(JoinCause::of(id!("api.ca-pin"), "x")),
                    ..found(LocalJoin::Elsewhere { server: "s".into() }, Err(Why::Absent))
                },
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
            RequestedCluster { ca: None, pins: vec![ca.pin.parse().unwrap()] }
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
            ("in mid-join", boots(), LocalJoin::Bootstrapping),
            (
                "in mid-join, kubelet.conf written early",
                boots().with_file(kubeconfig::KUBELET, &kubeconfig::sample::kubelet(machine::SERVER, &ca.pem)),
                LocalJoin::Bootstrapping,
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
            let asked = RequestedCluster { ca: facts.cluster_ca().ok(), pins: Vec::new() };
            assert_eq!(LocalJoin::of(&facts, &asked), Ok(expected), "{name}");
        }
        assert!(LocalJoin::of(&crate::testing::facts(), &RequestedCluster::default()).is_err());
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
                prop_assert!(node.identity == Some(true));
            }
        }
    }
}
