//! docs/reference/join.md: the stages of a join, drawn by taking `step` through every stage with every kind of event. What
//! the page shows is what the code does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use jiff::{SignedDuration, Timestamp};

use super::existing::{ExistingJoin, LocalJoin};
use super::failure::{Circumstance, JoinCause};
use super::output::Milestone;
use super::state::{JoinPolicy, JoinStatus, Stage, later};
use super::step::{JoinEffect, JoinEvent, PodTrial, step};
use super::verify::{
    CertificateRequest, ClientCertificate, Kubelet, LeaseRenewal, Node, PROOFS, RuntimeConditions, Sandbox, Signing,
    Until,
};
use crate::fact::Why;
use crate::id;

/// When the drawing begins; no particular time.
const BEGIN: Timestamp = Timestamp::UNIX_EPOCH;
/// The machine's.
const OWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 21));
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// One way from a stage to another: what leads there, and what is done then.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transition {
    pub from: Stage,
    pub to: Stage,
    pub when: &'static str,
    pub done: Vec<&'static str>,
}

fn tried(sandbox: Result<Sandbox, Why>) -> JoinEvent {
    JoinEvent::Tried(Box::new(PodTrial::of(sandbox)))
}

/// One of each kind of event, with its name on the drawing.
fn events() -> Vec<(&'static str, JoinEvent)> {
    let started = Some(BEGIN);
    let found = |local, node, admin, age: Option<i64>| {
        let lease_age = age.map(SignedDuration::from_secs);
        JoinEvent::Found(ExistingJoin { local, node, lease_age, admin, ..ExistingJoin::nothing("w1") })
    };
    let node = |identity, ready| Node {
        name: "w1".into(),
        identity: Some(identity),
        other_machine_id: false,
        silent: false,
        whose: "another".into(),
        ready,
        internal_ips: vec![OWN_ADDRESS],
        ..Node::default()
    };
    let kubelet = |standalone| Kubelet { active: true, standalone, started_at: started, ..Kubelet::default() };
    let refused = || JoinCause::of(id!("kubelet.config-invalid"), "");
    let ended = |cause| JoinEvent::ProgramEnded { who: "the kubelet".into(), causes: vec![cause] };
    let request = |state| JoinEvent::Request(Ok(CertificateRequest { name: "csr".into(), state }));
    let attached = ExistingJoin { kubeadm: started, ..ExistingJoin::nothing("w1") };
    vec![
        ("nothing here, name free", found(LocalJoin::Nothing, Err(Why::Absent), false, None)),
        ("kubeadm still at work", JoinEvent::Found(attached)),
        ("kubelet bootstrapping", found(LocalJoin::Bootstrapping, Err(Why::Absent), false, None)),
        ("a live join here", found(LocalJoin::Joined, Ok(node(true, true)), false, None)),
        ("a join here, its kubelet stopped", found(LocalJoin::Stopped, Ok(node(true, false)), false, None)),
        ("kubelet started", JoinEvent::Woken),
        ("own old Node still Ready", found(LocalJoin::Nothing, Ok(node(true, true)), false, None)),
        (
            "own old Node still Ready and an admin at hand",
            found(LocalJoin::Nothing, Ok(node(true, true)), true, Some(60)),
        ),
        ("another machine's Node", found(LocalJoin::Nothing, Ok(node(false, true)), false, None)),
        ("the cluster cannot be asked", found(LocalJoin::Nothing, Err(Why::TimedOut), false, None)),
        ("the machine cannot be looked at", JoinEvent::Unfit(vec![JoinCause::of(id!("machine.privileges"), "")])),
        ("Node cleared", JoinEvent::NodeCleared),
        ("checks pass", JoinEvent::Checked { blockers: Vec::new(), fixed: false }),
        ("checks pass after --fix", JoinEvent::Checked { blockers: Vec::new(), fixed: true }),
        ("a check fails", JoinEvent::Checked { blockers: vec![JoinCause::of(id!("machine.swap"), "")], fixed: false }),
        ("prepared", JoinEvent::Prepared),
        ("kubeadm started", JoinEvent::Started),
        ("kubeadm starts the kubelet", JoinEvent::Kubeadm(Milestone::KubeletStarted)),
        ("kubeadm fails, may pass", JoinEvent::KubeadmEnded { status: Some(1), causes: Vec::new() }),
        (
            "kubeadm fails, must be fixed",
            JoinEvent::KubeadmEnded {
                status: Some(1),
                causes: vec![JoinCause::of(id!("kubeadm.token-not-signed"), "")],
            },
        ),
        ("kubelet runs", JoinEvent::Kubelet(Ok(kubelet(false)))),
        ("kubelet runs alone", JoinEvent::Kubelet(Ok(kubelet(true)))),
        ("kubelet ends, may pass", ended(refused().under(Circumstance::GoesOn))),
        ("kubelet ends, must be fixed", ended(refused())),
        ("certificate requested", request(Signing::Pending)),
        ("request denied", request(Signing::Denied { why: String::new() })),
        ("certificate issued", JoinEvent::Certificate(Ok(ClientCertificate::Trusted))),
        ("certificate stale", JoinEvent::Certificate(Ok(ClientCertificate::Stale { why: String::new() }))),
        ("Node is this machine", JoinEvent::Node(Ok(node(true, true)))),
        (
            "lease renewed",
            JoinEvent::Lease(Ok(LeaseRenewal { version: "1".into(), renewed_at: started, ..LeaseRenewal::default() })),
        ),
        (
            "runtime's network ready",
            JoinEvent::Runtime(Ok(RuntimeConditions { ready: true, network_ready: true, says: String::new() })),
        ),
        ("sandbox got an address", tried(Ok(Sandbox::new(IpAddr::from([10, 244, 1, 2]), Vec::new())))),
        ("sandbox got none", tried(Err(Why::Broken(String::new())))),
        ("no cause stands in the way", JoinEvent::Standing(Ok(Vec::new()))),
        ("a cause that must be fixed", JoinEvent::Trouble(JoinCause::of(id!("filesystem.space"), ""))),
        ("what was to be done failed", JoinEvent::Failed(JoinCause::of(id!("kubeadm.installed"), ""))),
        (
            "what was to be done failed, may pass",
            JoinEvent::Failed(JoinCause::of(id!("api.node-name"), "").may_pass(true)),
        ),
        ("tidied up", JoinEvent::Finished { changed: false }),
        ("deadline", JoinEvent::Tick),
    ]
}

fn beside_the_node() -> [JoinEvent; 2] {
    [JoinEvent::Addresses(Ok(vec![OWN_ADDRESS])), JoinEvent::Agents(Ok(Vec::new()))]
}

fn name_of(effect: &JoinEffect) -> Option<&'static str> {
    Some(match effect {
        JoinEffect::Observe => "observe",
        JoinEffect::RemoveNode { .. } => "remove Node",
        JoinEffect::MarkNotReady { .. } => "mark Node not ready",
        JoinEffect::WakeKubelet => "start the kubelet",
        JoinEffect::Check => "check",
        JoinEffect::Prepare => "prepare",
        JoinEffect::StartKubeadm => "start kubeadm",
        JoinEffect::Attach => "attach",
        JoinEffect::Sandbox { .. } => "run sandbox",
        JoinEffect::LookForCauses { .. } => "look for causes",
        JoinEffect::Finish => "tidy up",
        JoinEffect::Leave => "leave it joined",
        JoinEffect::CleanUp => "clean up",
        JoinEffect::Halt => "end kubeadm",
        JoinEffect::Diagnose => "diagnose",
        JoinEffect::Report(_) => "report",
        JoinEffect::Tell(_) => return None,
    })
}

/// Every way there is, found by walking: each state that differs in stage or evidence is left by every event.
pub fn ways() -> BTreeSet<Transition> {
    let mut ways = BTreeSet::new();
    for until in [Until::Registered, Until::Verified] {
        let policy = JoinPolicy { until, attempts: 2, ..JoinPolicy::default() };
        let mut open = vec![JoinStatus::begin(policy, BEGIN).0];
        let mut walked = BTreeSet::new();
        while let Some(state) = open.pop() {
            // What a state is, apart from its times.
            let started = state.memory.bootstrap_since.is_some();
            let kind = format!("{:?} {} {:?} {started}", state.stage, state.attempt, state.seen);
            if !walked.insert(kind) {
                continue;
            }
            for (when, event) in events() {
                let now = if event == JoinEvent::Tick { state.deadline } else { later(state.since, SECOND) };
                let (mut next, mut effects) = step(&state, &event, now);
                // What is looked at together with the Node, and would be a drawing of its own each.
                if let JoinEvent::Node(Ok(_)) = &event {
                    for event in beside_the_node() {
                        let more;
                        (next, more) = step(&next, &event, now);
                        effects.extend(more);
                    }
                }
                if is_one_step(state.stage, next.stage) {
                    let done = effects.iter().filter_map(name_of).collect();
                    ways.insert(Transition { from: state.stage, to: next.stage, when, done });
                }
                if next != state && !next.stage.is_over() {
                    open.push(next);
                }
            }
        }
    }
    ways
}

/// Evidence that came early takes a join through several stages at once; drawn is each by itself.
fn is_one_step(from: Stage, to: Stage) -> bool {
    let place = |stage| Stage::ALL.iter().position(|it| *it == stage).unwrap_or_default();
    let by_evidence = from >= Stage::Joining && to <= Stage::Verified;
    from != to && (!by_evidence || place(to) == place(from) + 1 || to == Stage::Begun)
}

/// The page.
pub fn page() -> String {
    let mut page = "# A join, stage by stage\n\nWhat `carrick join` waits for, for how long, and what follows. This page is drawn \
                    from the code: `cargo xtask docs`.\n\n"
        .to_owned();
    let policy = JoinPolicy::default();
    page.push_str("| stage | waits for | at most |\n|---|---|---|\n");
    for stage in Stage::ALL {
        let most = match stage {
            Stage::Joined | Stage::Failed => "the end".to_owned(),
            Stage::Waiting => format!("{} s, twice as long each time", policy.pause(1).as_secs()),
            Stage::KubeletUp | Stage::CertificateRequested => {
                format!("{} s from the start of the kubelet", policy.bootstrap().as_secs())
            }
            _ => format!("{} s", policy.wait(stage).as_secs()),
        };
        let _ = writeln!(page, "| {} | {} | {most} |", stage.name(), stage.awaits());
    }
    page.push_str(
        "\n`JOIN_TIMEOUT` (seconds, 300 unless set) is for the certificate, decided on at nine tenths of it and never after 270 s. \
         More than 300\nlengthens the other waits. What may pass is tried again, three times unless `MAX_RETRIES` says otherwise; \
         before each attempt\neverything is looked at anew. From *certificate-issued* on nothing is cleaned up: the machine is in \
         the cluster.\nWith `--until registered` the stage *registered* leads to *verified* at once, with `--until network` the pod network does.\n\n\
         A pod network whose plugin serves only Pods of the cluster (calico, cilium, antrea, kube-ovn, multus) is proven by a pod \
         that has got its\naddress since the kubelet and the network's agent started, or with `--kubeconfig` by a throw-away Pod. Where all \
         else holds and no pod is\non its way, the join ends after 5 s: *registered, network ready, pods not proven*, exit code 4. A node that \
         the API server does not\nreach, or that reaches no other, for 10 s (`--kubeconfig`) is *registered, not verified*, exit code 3. In both \
         cases the machine stays in the\ncluster.\n\n```mermaid\nstateDiagram-v2\n    [*] --> begun\n",
    );
    let mut labels: BTreeMap<(Stage, Stage), Vec<&str>> = BTreeMap::new();
    for way in drawn() {
        let labels = labels.entry((way.from, way.to)).or_default();
        if !labels.contains(&way.when) {
            labels.push(way.when);
        }
    }
    for ((from, to), when) in &labels {
        let _ = writeln!(page, "    {} --> {}: {}", drawn_name(*from), drawn_name(*to), when.join(", "));
    }
    page.push_str("    joined --> [*]\n    failed --> [*]\n```\n\nEvery way, with what is done on it:\n\n");
    page.push_str("| from | when | to | done |\n|---|---|---|---|\n");
    for Transition { from, to, when, done } in ways() {
        let _ = writeln!(page, "| {} | {when} | {} | {} |", from.name(), to.name(), done.join(", "));
    }
    page.push_str("\n## The evidence\n\n`carrick join` says *joined* when all of this holds, up to what `--until` asks for; `carrick verify` \
                   judges the same.\n\n| id | needed for | what holds |\n|---|---|---|\n");
    for proof in PROOFS {
        let _ = writeln!(page, "| {} | {} | {} |", proof.id, proof.until.name(), proof.title);
    }
    page
}

/// The ways of the drawing: how everything may fail is in the table; here, where its time being over leads at first.
fn drawn() -> Vec<Transition> {
    let ways = ways();
    let tried_again = |from| ways.iter().any(|way| way.from == from && way.to == Stage::Waiting);
    let is_drawn = |way: &&Transition| match way.to {
        Stage::Waiting => way.when == "deadline",
        Stage::Failed => way.when == "deadline" && (way.from == Stage::Blocked || !tried_again(way.from)),
        _ => true,
    };
    ways.iter().filter(is_drawn).cloned().collect()
}

/// Mermaid takes a hyphen for the beginning of an arrow.
fn drawn_name(stage: Stage) -> String {
    stage.name().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_is_reached_and_left() {
        let ways = ways();
        for stage in Stage::ALL {
            assert!(
                stage == Stage::Begun || ways.iter().any(|way| way.to == stage),
                "{} is never reached",
                stage.name()
            );
            assert!(
                stage.is_over() || ways.iter().any(|way| way.from == stage && way.when == "deadline"),
                "{} is never left",
                stage.name()
            );
        }
    }

    #[test]
    fn joined_comes_after_verified_and_nothing_else() {
        let before: BTreeSet<Stage> =
            ways().into_iter().filter(|way| way.to == Stage::Joined).map(|way| way.from).collect();
        assert_eq!(before, BTreeSet::from([Stage::Verified]));
        let cleaned = ways().into_iter().filter(|way| way.done.contains(&"clean up"));
        assert!(cleaned.into_iter().all(|way| way.from >= Stage::Probed && way.from < Stage::CertificateIssued));
    }
}
