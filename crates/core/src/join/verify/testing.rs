//! A machine that has joined, but for one thing; and the judge of a proof's table.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use jiff::Timestamp;

use super::{
    AgentPod, CertificateRequest, ClientCertificate, ContainerStart, Dialled, DialledFrom, Kubelet, LeaseRenewal, Node,
    NodeEvidence, NodeLease, Peer, PeerDial, Proof, RuntimeConditions, Sandbox, Signing, StandingCause, Until, holds,
};
use crate::catalogue::{Class, Role, Stops};
use crate::check::Outcome::{self, Fail, Pass};
use crate::check::{Evidence, Subsystem, Verdict};
use crate::fact::Why;

pub const STARTED: Timestamp = Timestamp::constant(1_794_744_000, 0);

pub fn renewal(version: &str, seconds: i64) -> LeaseRenewal {
    let renewed_at = Timestamp::from_second(STARTED.as_second() + seconds).ok();
    LeaseRenewal { version: version.into(), renewed_at, ..LeaseRenewal::default() }
}

pub fn node() -> Node {
    Node {
        name: "w1".into(),
        identity: Some(true),
        other_machine_id: false,
        silent: false,
        whose: "systemUUID a, machineID b, 10.0.0.21".into(),
        ready: true,
        says: "KubeletReady".into(),
        internal_ips: vec![OWN_ADDRESS],
        ..Node::default()
    }
}

/// The address of the machine, and the one its Node has.
pub const OWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 21));

pub fn joined() -> NodeEvidence {
    NodeEvidence {
        kubelet: Ok(Kubelet { active: true, started_at: Some(STARTED), ..Kubelet::default() }),
        request: Ok(CertificateRequest { name: "csr-1".into(), state: Signing::Approved }),
        certificate: Ok(ClientCertificate::Trusted),
        node: Ok(node()),
        lease: Ok(NodeLease { first: renewal("1", 2), last: renewal("2", 12) }),
        runtime: Ok(RuntimeConditions { ready: true, network_ready: true, says: String::new() }),
        sandbox: Ok(Sandbox::new(IpAddr::from([10, 244, 1, 7]), vec!["10.244.1.0/24".into()])),
        addresses: Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST), OWN_ADDRESS]),
        standing: Ok(Vec::new()),
        container: Some(ContainerStart::Runs { pod: "kube-system/kube-proxy-1".into() }),
        agents: Ok(vec![agent("kube-system/kube-proxy-1"), agent("kube-flannel/kube-flannel-ds-1")]),
        reach: Err(Why::NotAdmin),
        peers: Err(Why::NotAdmin),
        ..NodeEvidence::default()
    }
}

pub fn pod(restarts: u64, down: Option<&str>) -> AgentPod {
    let (name, why, down) = ("net/p".into(), "Error 2".into(), down.map(str::to_owned));
    AgentPod { name, restarts, why, down, ..AgentPod::default() }
}

/// One that is up.
pub fn agent(name: &str) -> AgentPod {
    let is_kube_proxy = name.contains("kube-proxy");
    AgentPod { name: name.into(), is_kube_proxy, ready: true, ..AgentPod::default() }
}

/// A Node without a lease: made, and looked at, so many seconds after the kubelet started.
pub fn young(made: i64, looked: i64) -> NodeEvidence {
    let at = |seconds| Timestamp::from_second(STARTED.as_second() + seconds).ok();
    let own = Node { created_at: at(made), seen_at: at(looked), ..node() };
    NodeEvidence { node: Ok(own), lease: Err(Why::Absent), ..joined() }
}

/// A lease that did not move while it was watched: renewed, and last looked at, so many seconds after the kubelet started.
pub fn looked_at(renewed: i64, seen: i64) -> NodeLease {
    let at = |seconds: i64| Timestamp::from_second(STARTED.as_second() + seconds).ok();
    let first = LeaseRenewal { seen_at: at(1), ..renewal("1", renewed) };
    NodeLease { last: LeaseRenewal { seen_at: at(seen), ..first.clone() }, first }
}

/// A machine that has joined, but for this.
pub fn with(change: fn(&mut NodeEvidence)) -> NodeEvidence {
    let mut seen = joined();
    change(&mut seen);
    seen
}

/// What a proof says where everything was asked for.
pub fn judged(proof: &Proof, seen: &NodeEvidence) -> Verdict {
    proof.verdict(seen, Until::Verified)
}

/// A cause that stands, and what it stops.
pub fn standing(id: &str, stops: Stops) -> StandingCause {
    StandingCause {
        id: id.into(),
        class: Class::Configuration,
        role: Role::Root,
        stops,
        subsystem: Subsystem::Network,
        title: "it is so".into(),
        evidence: vec![Evidence::of(id, "seen")],
        remedy: vec![format!("fix {id}")],
        denies_addresses: false,
    }
}

/// The same, for what a row of a table made.
pub fn joined_with(change: impl FnOnce(&mut NodeEvidence)) -> NodeEvidence {
    let mut seen = joined();
    change(&mut seen);
    seen
}

/// Given what was seen, this outcome. A table has a row that passes and one that does not.
pub fn table<'n>(proof: &Proof, rows: impl IntoIterator<Item = (&'n str, NodeEvidence, Outcome)>) {
    let rows: Vec<_> = rows.into_iter().collect();
    let outcomes: Vec<Outcome> = rows.iter().map(|row| row.2).collect();
    assert!(outcomes.contains(&Pass) && outcomes.contains(&Fail), "{}", proof.id);
    for (name, seen, expected) in rows {
        let found = judged(proof, &seen);
        assert_eq!(found.outcome, expected, "{}, {name}: {}", proof.id, found.says);
        if expected == Fail {
            assert!(!found.evidence.is_empty() && !found.remedy.is_empty(), "{}, {name}", proof.id);
            assert!(!holds(&seen, Until::Verified), "{}, {name}", proof.id);
        }
    }
}

/// A pod of another node that was dialled from within one here, and answered so, one time after the other.
pub fn peer_dial(answers: &[Dialled], signs: &[&str]) -> PeerDial {
    let peer = |answer: &Dialled| Peer {
        pod: "kube-system/coredns-1".into(),
        node: "cp1".into(),
        at: SocketAddr::from(([10, 244, 0, 2], 53)),
        from: DialledFrom::Pod,
        answer: answer.clone(),
    };
    let signs = signs.iter().map(|text| Evidence::of("iptables-save", *text)).collect();
    PeerDial { peers: answers.iter().map(peer).collect(), signs, ..PeerDial::default() }
}
