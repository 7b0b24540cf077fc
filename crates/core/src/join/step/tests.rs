use std::net::IpAddr;

use jiff::SignedDuration;
use proptest::prelude::*;

use super::causes::{CAUSES_AGAIN, MOST_TROUBLES};
use super::trial::{POD_AGAIN, REACH_AGAIN, SANDBOX_AGAIN};
use super::*;
use crate::catalogue::{Class, about};
use crate::fact::Why;
use crate::id;
use crate::join::existing::sample::any_found;
use crate::join::existing::{ExistingJoin, LocalJoin};
use crate::join::failure::{Circumstance, JoinFailure};
use crate::join::output::Milestone;
use crate::join::taint::Taint;
use crate::join::verify::testing as sample;
use crate::join::verify::{
    AgentPod, CertificateRequest, Dialled, DialledFrom, KeptOff, Kubelet, KubeletHalt, KubeletReach, Node, PeerDial,
    Pressure, Resource, RuntimeConditions, Sandbox, Signing, StandIn, StandingCause,
};
use crate::testing::NOW;

fn at(seconds: i64) -> Timestamp {
    later(NOW, SignedDuration::from_secs(seconds))
}

fn tried(sandbox: Result<Sandbox, Why>) -> JoinEvent {
    JoinEvent::Tried(Box::new(PodTrial::of(sandbox)))
}

/// A join that is taken through events, each with the second at which it comes.
#[derive(Clone)]
struct Story {
    state: JoinStatus,
    effects: Vec<JoinEffect>,
}

impl Story {
    fn new(policy: JoinPolicy) -> Self {
        let (state, effects) = JoinStatus::begin(policy, NOW);
        Story { state, effects }
    }

    #[allow(clippy::needless_pass_by_value)] // So that a story reads as one.
    fn then(mut self, second: i64, event: JoinEvent) -> Self {
        (self.state, self.effects) = step(&self.state, &event, at(second));
        self
    }

    /// Up to kubeadm at work, at second 3.
    fn joining(policy: JoinPolicy) -> Self {
        Story::new(policy)
            .then(1, JoinEvent::Found(nothing()))
            .then(2, JoinEvent::Checked { blockers: vec![], fixed: false })
            .then(2, JoinEvent::Prepared)
            .then(3, JoinEvent::Started)
    }

    /// Up to a kubelet that waits for its certificate, started at second 4.
    fn requested(policy: JoinPolicy) -> Self {
        Story::joining(policy)
            .then(4, JoinEvent::Kubeadm(Milestone::KubeletStarted))
            .then(5, kubelet())
            .then(6, request(Signing::Pending))
    }

    /// Up to the kubelet's certificate, at second 7.
    fn issued(policy: JoinPolicy) -> Self {
        Story::requested(policy).then(7, JoinEvent::Certificate(Ok(ClientCertificate::Trusted)))
    }

    /// Up to a Node with a lease, at second 9.
    fn registered(policy: JoinPolicy) -> Self {
        Story::issued(policy)
            .then(8, JoinEvent::Node(Ok(Node { ready: false, ..sample::node() })))
            .then(9, JoinEvent::Addresses(sample::joined().addresses))
            .then(9, JoinEvent::Agents(sample::joined().agents))
            .then(9, JoinEvent::Lease(Ok(sample::renewal("1", 5))))
    }

    /// Up to a pod network, at second 10.
    fn networked(policy: JoinPolicy) -> Self {
        Story::registered(policy).then(10, JoinEvent::Runtime(sample::joined().runtime))
    }

    fn failure(&self) -> &JoinFailure {
        self.state.failures.last().expect("a failure")
    }
}

fn nothing() -> ExistingJoin {
    ExistingJoin::nothing("w1")
}

fn kubelet() -> JoinEvent {
    JoinEvent::Kubelet(Ok(Kubelet { active: true, started_at: Some(at(4)), ..Kubelet::default() }))
}

fn ended_by(causes: Vec<JoinCause>) -> JoinEvent {
    JoinEvent::ProgramEnded { who: "the kubelet".into(), causes }
}

fn request(state: Signing) -> JoinEvent {
    JoinEvent::Request(Ok(CertificateRequest { name: "csr-1".into(), state }))
}

#[test]
fn a_network_that_refuses_every_sandbox_is_given_twenty_seconds() {
    let refused = || tried(Err(Why::Broken("failed to find plugin \"flannel\"".into())));
    let network = JoinEvent::Runtime(Ok(RuntimeConditions { ready: true, network_ready: true, says: String::new() }));
    let story = Story::registered(JoinPolicy::default()).then(10, JoinEvent::Lease(Ok(sample::renewal("2", 15))));
    let story = story.then(11, network).then(12, refused()).then(31, refused());
    assert_eq!(story.state.stage, Stage::NetworkReady);
    let again = story.then(31, tried(Err(Why::TimedOut)));
    let again = again.then(40, refused()).then(59, refused());
    assert_eq!(again.state.stage, Stage::NetworkReady, "a silent one refused nothing");
    let known = again.then(59, JoinEvent::Trouble(JoinCause::of(id!("cni.no-subnet-env"), "flannel is behind")));
    assert!(known.effects.is_empty(), "every join sees that: {:?}", known.effects);
    let ended = known.then(60, refused());
    assert_eq!(ended.state.stage, Stage::Failed);
    let ids: Vec<&str> = ended.failure().causes.iter().map(|cause| cause.id.as_str()).collect();
    assert_eq!(ids, ["cni.no-subnet-env", "verify.sandbox"], "whether the node is Ready, its Node says");
    assert!(!ended.failure().overdue && !ended.effects.contains(&JoinEffect::CleanUp), "{:?}", ended.effects);
    assert!(ended.effects.contains(&JoinEffect::Leave), "its token must not stay: {:?}", ended.effects);
}

#[test]
fn an_address_of_another_range_is_no_proof_and_is_asked_for_again() {
    let got = |address: [u8; 4]| tried(Ok(Sandbox::new(IpAddr::from(address), vec!["10.244.2.0/24".to_owned()])));
    let network = JoinEvent::Runtime(sample::joined().runtime);
    let story = Story::registered(JoinPolicy::default()).then(11, network).then(12, got([10, 244, 1, 4]));
    let again = JoinEffect::Sandbox { not_before: later(at(12), SANDBOX_AGAIN) };
    assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::NetworkReady, [again].as_slice()));
    let right = story.clone().then(13, got([10, 244, 2, 4]));
    let right = right.then(14, JoinEvent::Node(Ok(sample::node())));
    assert_eq!(right.then(15, JoinEvent::Standing(Ok(vec![]))).state.stage, Stage::Verified);
    let ended = story.then(32, got([10, 244, 1, 4]));
    assert_eq!(ended.state.stage, Stage::Failed);
    assert_eq!(ended.failure().says, "a pod gets 10.244.1.4, which is not of this node's range");
}

#[test]
fn what_no_network_agent_sets_right_is_believed_the_second_time() {
    for (id, expected) in [("cni.plugins", Stage::Failed), ("cni.no-subnet-env", Stage::NetworkReady)] {
        let network = JoinEvent::Runtime(sample::joined().runtime);
        let known = Story::registered(JoinPolicy::default()).then(11, network).then(12, refused(id));
        assert_eq!(known.state.stage, Stage::NetworkReady);
        let again = known.then(13, refused(id));
        assert_eq!(again.state.stage, expected, "{id}");
        if expected == Stage::Failed {
            assert_eq!((again.failure().causes[0].id.as_str(), again.failure().class), (id, about(id).unwrap().class));
        }
    }
}

#[test]
fn who_refuses_sandboxes_while_the_networks_agent_is_down_is_asked_again() {
    let network = JoinEvent::Runtime(sample::joined().runtime);
    let agent = |ready| {
        let pod =
            AgentPod { ready, network: Some("flannel".into()), ..sample::agent("kube-flannel/kube-flannel-ds-a") };
        JoinEvent::Agents(Ok(vec![pod]))
    };
    let refused = || tried(Err(Why::Broken("open /run/flannel/subnet.env: no such file or directory".into())));
    let down = Story::registered(JoinPolicy::default()).then(11, network).then(12, agent(false));
    let waits = down.then(13, refused()).then(60, refused());
    assert_eq!(waits.state.stage, Stage::NetworkReady, "it may be in its back-off");
    let up = waits.then(61, agent(true)).then(62, refused()).then(81, refused());
    assert_eq!(up.state.stage, Stage::NetworkReady, "its twenty seconds begin now");
    assert_eq!(up.then(82, refused()).state.stage, Stage::Failed);
}

/// A sandbox that the runtime refuses for something that is known.
fn refused(id: &str) -> JoinEvent {
    let refused_for = vec![JoinCause::of(about(id).unwrap(), "x").under(Circumstance::GoesOn)];
    JoinEvent::Tried(Box::new(PodTrial { refused_for, ..PodTrial::of(Err(Why::Broken("no".into()))) }))
}

#[test]
fn what_a_sandbox_was_refused_for_is_over_when_one_is_made() {
    let network = JoinEvent::Runtime(sample::joined().runtime);
    let story = Story::registered(JoinPolicy::default()).then(11, network).then(12, refused("cni.no-subnet-env"));
    assert_eq!(story.state.troubles.len(), 1);
    assert_eq!(story.then(13, tried(sample::joined().sandbox)).state.troubles, []);
}

#[test]
fn what_is_only_possible_ends_nothing() {
    let possible = JoinCause::of(id!("runtime.config-syntax"), "x").sure(Confidence::Possible);
    let story = Story::requested(JoinPolicy::default()).then(8, JoinEvent::Trouble(possible));
    assert_eq!((story.state.stage, story.state.troubles.len()), (Stage::CertificateRequested, 1));
}

#[test]
fn an_api_server_that_answers_again_was_never_the_cause() {
    let silent = JoinCause::of(id!("api.tcp"), "no answer").may_pass(true);
    let story = Story::requested(JoinPolicy::default()).then(8, JoinEvent::Trouble(silent));
    assert_eq!(story.clone().then(9, JoinEvent::Request(Err(Why::TimedOut))).state.troubles.len(), 1);
    let answered = story.then(9, request(Signing::Pending));
    assert_eq!(answered.then(4 + 270, JoinEvent::Tick).failure().causes[0].id, "csr.pending");
}

#[test]
fn nobody_says_joined_over_what_kube_proxy_is_heard_to_say() {
    let broken = || JoinCause::of(id!("kube-proxy.iptables-broken"), "x").under(Circumstance::GoesOn);
    let well = || JoinEvent::Standing(Ok(vec![]));
    let story = networked().then(21, JoinEvent::Trouble(broken())).then(22, tried(sample::joined().sandbox));
    let story = story.then(23, well());
    assert_eq!(story.state.stage, Stage::NetworkReady, "{:?}", story.state.troubles);
    let over = story.clone().then(24, JoinEvent::Passed("kube-proxy.iptables-broken".into())).then(25, well());
    assert_eq!(over.state.stage, Stage::Verified);
    let ended = story.then(150, JoinEvent::Tick);
    assert_eq!(ended.failure().causes[0].id, "kube-proxy.iptables-broken");
    let possible = JoinEvent::Trouble(broken().sure(Confidence::Likely));
    let story = networked().then(21, possible).then(22, tried(sample::joined().sandbox)).then(23, well());
    assert_eq!(story.state.stage, Stage::Verified, "only what is certain");
}

/// What `carrick explain` says a join does about an id is what it does; where it does otherwise, the cause says why.
fn taken_as_its_file_says(failure: &JoinFailure) -> Class {
    // A proof that fails is not known to be for ever.
    let of_file = |id: &str| about(id).map_or(Class::Transient, |about| about.class);
    let class = |cause: &JoinCause| cause.circumstance.map_or(of_file(&cause.id), Circumstance::class);
    failure.causes.iter().map(class).max().unwrap_or(Class::Transient)
}

#[test]
fn what_is_overdue_is_taken_as_its_file_says() {
    let mut symptoms = 0;
    for stage in Stage::ALL {
        let (Some(symptom), _) = stage.overdue() else { continue };
        let mut story = Story::new(JoinPolicy::default());
        story.state.enter(stage, NOW);
        let second = story.state.deadline.duration_since(NOW).as_secs();
        let ended = story.then(second, JoinEvent::Tick);
        let failure = ended.failure();
        assert_eq!((failure.class, failure.causes.len()), (symptom.class, 1), "{}", symptom.id);
        let again = symptom.class.may_pass() && stage < Stage::CertificateIssued;
        assert_eq!(ended.state.stage, if again { Stage::Waiting } else { Stage::Failed }, "{}", symptom.id);
        symptoms += 1;
    }
    assert_eq!(symptoms, 7);
}

#[test]
fn what_may_pass_is_told_once() {
    let trouble = || JoinEvent::Trouble(JoinCause::of(id!("cni.image-pull"), "no image"));
    let told = Story::registered(JoinPolicy::default()).then(10, trouble());
    assert_eq!(told.effects, [JoinEffect::Tell("no image".to_owned())]);
    let again = told.then(20, trouble());
    assert!(again.effects.is_empty() && again.state.stage == Stage::Registered, "{:?}", again.effects);
}

#[test]
fn what_holds_agents_up_is_told_once_and_forgotten_when_they_are_up() {
    let proxy = |restarts, down| {
        let pod =
            AgentPod { is_kube_proxy: true, name: "kube-system/kube-proxy-1".into(), ..sample::pod(restarts, down) };
        JoinEvent::Agents(Ok(vec![pod]))
    };
    let pulls = || proxy(0, Some("ErrImagePull"));
    let story = Story::networked(JoinPolicy::default()).then(12, JoinEvent::Node(Ok(sample::node())));
    let told = story.then(13, pulls());
    let says = "the image of kube-system/kube-proxy-1 cannot be pulled: ErrImagePull".to_owned();
    assert_eq!(told.effects, [JoinEffect::Tell(says)]);
    let again = told.then(20, pulls());
    assert_eq!((again.effects.as_slice(), again.state.troubles.len()), (&[][..], 1));
    let up = again.then(30, JoinEvent::Agents(sample::joined().agents));
    assert!(up.state.troubles.is_empty(), "{:?}", up.state.troubles);
}

#[test]
fn kube_proxy_has_as_long_as_images_take_to_be_pulled() {
    let proxy = |down| {
        let pod =
            AgentPod { is_kube_proxy: true, name: "kube-system/kube-proxy-1".into(), ..sample::pod(0, Some(down)) };
        JoinEvent::Agents(Ok(vec![pod]))
    };
    let lacks_kube_proxy = |ready| {
        Story::networked(JoinPolicy::default())
            .then(11, tried(sample::joined().sandbox))
            .then(11, proxy("ContainerCreating"))
            .then(12, JoinEvent::Node(Ok(Node { ready, ..sample::node() })))
    };
    let late = lacks_kube_proxy(true).then(131, JoinEvent::Tick);
    assert_eq!((late.state.stage, late.state.deadline), (Stage::NetworkReady, at(9 + 300)));
    let over = late.then(9 + 300, JoinEvent::Tick);
    let failure = over.failure();
    assert_eq!((over.state.stage, failure.overdue), (Stage::Failed, true));
    assert!(failure.says.starts_with("kube-proxy's pod kube-system/kube-proxy-1 is not ready"), "{failure:?}");
    assert_eq!(failure.causes.iter().map(|cause| cause.id.as_str()).collect::<Vec<_>>(), ["verify.kube-proxy"]);
    assert!(!failure.causes[0].remedy.is_empty());
    // What else is missing is not waited for any longer.
    assert_eq!(lacks_kube_proxy(false).then(131, JoinEvent::Tick).state.stage, Stage::Failed);
}

#[test]
fn what_fails_once_the_network_is_there_is_told_after_seconds_and_is_the_cause_in_the_end() {
    let short = || {
        let pressures = vec![Pressure { of: Resource::Disk, says: "KubeletHasDiskPressure".into() }];
        JoinEvent::Node(Ok(Node { pressures, ..sample::node() }))
    };
    let story = Story::networked(JoinPolicy::default()).then(11, tried(sample::joined().sandbox));
    let story = story.then(12, short()).then(14, short());
    assert_eq!(story.effects, [], "a moment of it is nothing");
    let told = story.then(16, short());
    assert_eq!(told.effects, [JoinEffect::Tell("node w1 is short of disk and takes no pods".to_owned())]);
    let told = told.then(17, short());
    assert_eq!(told.effects, []);
    let passed = told.clone().then(20, JoinEvent::Node(Ok(sample::node())));
    assert_eq!(passed.then(21, JoinEvent::Standing(Ok(vec![]))).state.stage, Stage::Verified);
    let ended = told.then(130, JoinEvent::Tick);
    let failure = ended.failure();
    assert_eq!(failure.causes.iter().map(|cause| cause.id.as_str()).collect::<Vec<_>>(), ["node.disk-pressure"]);
    assert_eq!(failure.says, "node w1 is short of disk and takes no pods (120 s)");
    assert!(ended.effects.contains(&JoinEffect::Leave), "it stays in the cluster: {:?}", ended.effects);
}

fn until(until: Until) -> JoinPolicy {
    JoinPolicy { until, ..JoinPolicy::default() }
}

#[test]
fn a_join_as_it_should_be() {
    let story = Story::new(JoinPolicy::default());
    assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Begun, [JoinEffect::Observe].as_slice()));
    let story = story.then(1, JoinEvent::Found(nothing()));
    assert_eq!((story.state.stage, story.effects.last()), (Stage::Unjoined, Some(&JoinEffect::Check)));
    let story = story.then(2, JoinEvent::Checked { blockers: vec![], fixed: false });
    assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Probed, [JoinEffect::Prepare].as_slice()));
    let story = story.then(2, JoinEvent::Prepared);
    assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Prepared, [JoinEffect::StartKubeadm].as_slice()));

    let story = Story::registered(JoinPolicy::default());
    assert_eq!(story.state.stage, Stage::Registered);
    let story = story.then(9, JoinEvent::KubeadmEnded { status: Some(0), causes: vec![] });
    assert_eq!(story.state.stage, Stage::Registered, "kubeadm's word is no evidence");
    let story = story.then(20, JoinEvent::Runtime(sample::joined().runtime));
    assert_eq!(
        (story.state.stage, story.effects.as_slice()),
        (Stage::NetworkReady, [JoinEffect::Sandbox { not_before: at(20) }].as_slice())
    );
    let story = story.then(21, tried(Err(Why::Broken("no subnet.env".into()))));
    assert_eq!(story.effects, [JoinEffect::Sandbox { not_before: later(at(21), SANDBOX_AGAIN) }], "it is tried again");
    let story = story.then(23, tried(sample::joined().sandbox));
    assert_eq!(story.state.stage, Stage::NetworkReady, "not Ready yet");
    let story = story.then(24, JoinEvent::Node(Ok(sample::node())));
    let look = JoinEffect::LookForCauses { not_before: at(24) };
    assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::NetworkReady, [look].as_slice()));
    let story = story.then(24, JoinEvent::Tick);
    assert_eq!(story.effects, [], "it is asked for once");
    let story = story.then(25, JoinEvent::Standing(Ok(vec![])));
    assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Verified, [JoinEffect::Finish].as_slice()));
    let story = story.then(25, JoinEvent::Finished { changed: false });
    assert_eq!(story.effects, [JoinEffect::Report(JoinOutcome::Joined { until: Until::Verified, already: false })]);
    assert_eq!(story.state.stage, Stage::Joined);
}

/// Up to the pod network, with a Node that is Ready, at second 20.
fn networked() -> Story {
    Story::registered(JoinPolicy::default())
        .then(10, JoinEvent::Node(Ok(sample::node())))
        .then(20, JoinEvent::Runtime(sample::joined().runtime))
}

fn needs_pod(stand_in: StandIn) -> JoinEvent {
    JoinEvent::Tried(Box::new(PodTrial { stand_in: Some(stand_in), ..PodTrial::of(Err(Why::Absent)) }))
}

fn blocked() -> JoinEvent {
    JoinEvent::Standing(Ok(vec![sample::standing("firewall.vxlan", Stops::Traffic)]))
}

#[test]
fn what_nobody_can_prove_is_said_so_once_no_pod_is_on_its_way() {
    let coming = || needs_pod(StandIn::OnItsWay { pod: "default/web".into() });
    let story = networked().then(21, coming());
    let again = JoinEffect::Sandbox { not_before: later(at(21), POD_AGAIN) };
    assert_eq!(story.effects, [again, JoinEffect::LookForCauses { not_before: at(21) }]);
    let story = story.then(60, coming()).then(62, needs_pod(StandIn::Nobody));
    let condemned = story.clone().then(63, blocked()).then(66, blocked());
    assert_eq!(condemned.failure().causes[0].id, "firewall.vxlan", "what is known to be wrong is said instead");
    let story = story.then(63, JoinEvent::Standing(Ok(vec![]))).then(64, needs_pod(StandIn::Nobody));
    assert_eq!(story.state.stage, Stage::NetworkReady, "one may come yet");
    let story = story.then(69, needs_pod(StandIn::Nobody));
    let Some(JoinEffect::Report(JoinOutcome::Unproven { says })) = story.effects.last() else {
        panic!("{:?}", story.effects)
    };
    assert!(says.contains("serves only Pods"), "{says}");
    assert_eq!((story.effects.first(), story.state.failures.len()), (Some(&JoinEffect::Leave), 0));
    assert!(story.state.stage.is_over());
}

/// A webhook that fails, a pod that hangs: nothing of that says that no pod can start here.
#[test]
fn what_could_not_be_tried_is_no_failure_when_the_time_is_over() {
    let busy = || JoinEvent::Tried(Box::new(PodTrial::of(Err(Why::Busy("500".into())))));
    let waits = networked().then(21, busy()).then(22, JoinEvent::Standing(Ok(vec![]))).then(100, busy());
    assert_eq!(waits.state.stage, Stage::NetworkReady);
    let story = waits.clone().then(141, busy());
    assert!(
        matches!(story.effects.last(), Some(JoinEffect::Report(JoinOutcome::Unproven { .. }))),
        "{:?}",
        story.effects
    );
    let heard = JoinCause::of(id!("kube-proxy.crash-loop"), "it ends");
    let told = waits.then(101, JoinEvent::Trouble(heard)).then(141, busy());
    assert!(told.failure().overdue, "what was heard for certain is said instead");
}

#[test]
fn a_pod_that_comes_after_all_proves_it() {
    let story = networked().then(21, needs_pod(StandIn::Nobody)).then(23, tried(sample::joined().sandbox));
    assert_eq!(story.then(24, JoinEvent::Standing(Ok(vec![]))).state.stage, Stage::Verified);
}

#[test]
fn an_agent_that_is_not_ready_when_the_time_is_over_is_a_failure() {
    let down = || needs_pod(StandIn::AgentDown { pod: "kube-system/calico-node-x".into() });
    let story = networked().then(21, down()).then(100, down());
    assert_eq!(story.state.stage, Stage::NetworkReady);
    let story = story.then(141, down());
    assert!(story.failure().overdue && story.state.stage == Stage::Failed, "{:?}", story.state);
    assert_eq!(story.failure().causes[0].id, "cni.daemon-set");
    let came_up = networked().then(21, down()).then(30, needs_pod(StandIn::OnItsWay { pod: "a/b".into() }));
    let over = came_up.then(141, JoinEvent::Tick);
    assert!(over.failure().causes.iter().all(|cause| cause.id != "cni.daemon-set"), "{:?}", over.failure());
}

#[test]
fn a_node_that_nobody_reaches_is_registered_and_not_joined() {
    let with = |reach: KubeletReach| PodTrial { reach: Ok(reach), ..PodTrial::of(sample::joined().sandbox) };
    let unanswered = || JoinEvent::Tried(Box::new(with(KubeletReach::Unanswered { says: "i/o timeout".into() })));
    let story = networked().then(21, unanswered());
    assert_eq!(story.effects, [JoinEffect::Sandbox { not_before: later(at(21), REACH_AGAIN) }], "{:?}", story.state);
    let reached = JoinEvent::Tried(Box::new(with(KubeletReach::Answered)));
    let answered = story.clone().then(25, reached);
    let shut = || JoinEvent::Standing(Ok(vec![sample::standing("firewall.kubelet", Stops::Traffic)]));
    assert_eq!(
        answered.then(26, shut()).state.stage,
        Stage::Verified,
        "who was reached is reached, whatever a rule says"
    );
    let story = story.then(32, unanswered());
    assert_eq!((story.failure().causes[0].id.as_str(), story.failure().overdue), ("kubelet.unreached", false));
    assert!(story.effects.contains(&JoinEffect::Leave) && !story.effects.contains(&JoinEffect::CleanUp));
}

#[test]
fn a_pod_that_gets_no_answer_is_tried_for_seconds_and_then_believed() {
    let with = |answer: Dialled, signs: &[&str]| {
        let peers = Ok(sample::peer_dial(&[answer], signs));
        JoinEvent::Tried(Box::new(PodTrial { peers, ..PodTrial::of(sample::joined().sandbox) }))
    };
    let silent = || with(Dialled::Silent, &[]);
    let story = networked().then(21, silent());
    assert_eq!(story.effects, [JoinEffect::Sandbox { not_before: later(at(21), REACH_AGAIN) }], "{:?}", story.state);
    let well = || JoinEvent::Standing(Ok(vec![]));
    let answered = story.clone().then(25, with(Dialled::Answered, &[])).then(26, well());
    assert_eq!(answered.state.stage, Stage::Verified, "other nodes have learnt of this one");
    let warned = story.clone().then(32, silent());
    assert!(warned.effects.contains(&JoinEffect::LookForCauses { not_before: at(32) }), "{:?}", warned.effects);
    assert_eq!(warned.then(33, well()).state.stage, Stage::Verified, "a NetworkPolicy may forbid it");
    let forward = || JoinEvent::Standing(Ok(vec![sample::standing("firewall.forward", Stops::Traffic)]));
    let dropped = story.clone().then(32, with(Dialled::Silent, &["chain forward: policy drop"]));
    assert_eq!(dropped.failure().causes[0].id, "pod.no-route");
    let by_machine = |mut dialled: PeerDial| {
        dialled.peers.iter_mut().for_each(|peer| peer.from = DialledFrom::Machine);
        Ok(dialled)
    };
    let peers = by_machine(sample::peer_dial(&[Dialled::Answered], &[]));
    let only_machine = JoinEvent::Tried(Box::new(PodTrial { peers, ..PodTrial::of(sample::joined().sandbox) }));
    let condemned = networked().then(21, only_machine).then(22, forward()).then(25, forward());
    assert_eq!(condemned.failure().causes[0].id, "firewall.forward", "the machine's own packets are not forwarded");
    let overruled = networked().then(21, with(Dialled::Answered, &[])).then(22, forward());
    assert_eq!(overruled.state.stage, Stage::Verified, "a pod here got an answer, whatever a rule says");
}

#[test]
fn far_enough_is_what_was_asked_for() {
    let well = || JoinEvent::Standing(Ok(vec![]));
    let registered = Story::registered(until(Until::Registered));
    assert_eq!(registered.effects, [JoinEffect::LookForCauses { not_before: at(9) }]);
    assert_eq!(registered.then(10, well()).state.stage, Stage::Verified);
    let network = Story::registered(until(Until::Network));
    assert_eq!((network.state.stage, network.effects.as_slice()), (Stage::Registered, &[][..]));
    let network = network.then(20, JoinEvent::Runtime(sample::joined().runtime));
    assert_eq!(network.state.stage, Stage::NetworkReady);
    assert_eq!(network.then(21, well()).state.stage, Stage::Verified);
}

#[test]
fn a_join_that_holds_changes_nothing() {
    let found = ExistingJoin { local: LocalJoin::Joined, node: Ok(sample::node()), ..nothing() };
    let mut story = Story::new(JoinPolicy::default()).then(1, JoinEvent::Found(found));
    assert_eq!(story.state.stage, Stage::CertificateIssued);
    let seen = sample::joined();
    for event in [
        JoinEvent::Kubelet(seen.kubelet),
        JoinEvent::Certificate(seen.certificate),
        JoinEvent::Addresses(seen.addresses),
        JoinEvent::Agents(seen.agents),
        JoinEvent::Node(seen.node),
        JoinEvent::Lease(Ok(sample::renewal("7", 3))),
        JoinEvent::Runtime(seen.runtime),
        tried(seen.sandbox),
        JoinEvent::Standing(seen.standing),
        JoinEvent::Finished { changed: false },
    ] {
        story = story.then(2, event);
    }
    assert_eq!(story.effects, [JoinEffect::Report(JoinOutcome::Joined { until: Until::Verified, already: true })]);
}

#[test]
fn a_kubelet_that_was_stopped_is_started_and_watched() {
    let found = ExistingJoin { local: LocalJoin::Stopped, node: Ok(sample::node()), ..nothing() };
    let story = Story::new(JoinPolicy::default()).then(1, JoinEvent::Found(found));
    assert_eq!((story.state.stage, story.effects.last()), (Stage::Begun, Some(&JoinEffect::WakeKubelet)));
    let failed = story.clone().then(2, JoinEvent::Failed(JoinCause::of(id!("kubelet.masked"), "it is masked")));
    assert_eq!((failed.state.stage, failed.failure().causes[0].id.as_str()), (Stage::Failed, "kubelet.masked"));
    let woken = story.then(2, JoinEvent::Woken);
    assert_eq!((woken.state.stage, woken.state.changed), (Stage::CertificateIssued, true));
}

#[test]
fn a_kubelet_that_got_no_certificate_is_joined_anew() {
    let bootstrapping = || JoinEvent::Found(ExistingJoin { local: LocalJoin::Bootstrapping, ..nothing() });
    let watched = Story::new(JoinPolicy::default()).then(1, bootstrapping());
    assert_eq!(watched.state.stage, Stage::KubeletUp);
    let deadline = watched.state.deadline.duration_since(NOW).as_secs();
    let waiting = watched.then(deadline, JoinEvent::Tick);
    assert_eq!(waiting.state.stage, Stage::Waiting);
    let again = waiting.then(deadline + 60, JoinEvent::Tick).then(deadline + 61, bootstrapping());
    assert_eq!((again.state.stage, again.effects.last()), (Stage::Unjoined, Some(&JoinEffect::Check)));
}

#[test]
fn what_no_waiting_fixes_ends_it_at_once() {
    let alone = || JoinEvent::Kubelet(Ok(Kubelet { active: true, standalone: true, ..Kubelet::default() }));
    let crashed = |restarts, exit| JoinEvent::Kubelet(Ok(Kubelet { restarts, exit, ..Kubelet::default() }));
    let ended = |status, causes: &[&str]| JoinEvent::KubeadmEnded {
        status,
        causes: causes.iter().map(|id| JoinCause::of(about(id).unwrap(), "x")).collect(),
    };
    let started = || Story::joining(JoinPolicy::default()).then(4, JoinEvent::Kubeadm(Milestone::KubeletStarted));
    for (name, story, id) in vec![
        ("alone", started().then(5, alone()), "kubelet.standalone"),
        ("not executable", started().then(5, crashed(0, Some(203))), "kubelet.cannot-execute"),
        ("crashes", started().then(25, crashed(2, Some(1))), "kubelet.restart-loop"),
        (
            "denied",
            Story::requested(JoinPolicy::default()).then(7, request(Signing::Denied { why: "no".into() })),
            "csr.denied",
        ),
        (
            "failed",
            Story::requested(JoinPolicy::default()).then(7, request(Signing::Failed { why: "no".into() })),
            "csr.failed",
        ),
        (
            "stale certificate",
            started().then(5, JoinEvent::Certificate(Ok(ClientCertificate::Stale { why: "of another CA".into() }))),
            "stale.client-certificate",
        ),
        (
            "disk full",
            Story::joining(JoinPolicy::default())
                .then(4, JoinEvent::Trouble(JoinCause::of(id!("filesystem.space"), "full"))),
            "filesystem.space",
        ),
        ("no kubeadm", Story::joining(JoinPolicy::default()).then(4, ended(Some(203), &[])), "kubeadm.installed"),
        (
            "no token",
            Story::joining(JoinPolicy::default()).then(4, ended(Some(1), &["kubeadm.token-not-signed"])),
            "kubeadm.token-not-signed",
        ),
        (
            "not fit",
            Story::new(JoinPolicy::default())
                .then(1, JoinEvent::Found(nothing()))
                .then(2, JoinEvent::Checked { blockers: vec![JoinCause::of(id!("machine.swap"), "on")], fixed: false }),
            "machine.swap",
        ),
    ] {
        assert_eq!(story.state.stage, Stage::Failed, "{name}");
        assert_eq!(story.failure().causes[0].id, id, "{name}");
        assert_eq!(story.effects.first(), Some(&JoinEffect::Diagnose), "{name}");
        assert!(matches!(story.effects.last(), Some(JoinEffect::Report(JoinOutcome::Failed(_)))), "{name}");
    }
}

#[test]
fn all_that_forbids_a_join_is_told_at_once() {
    let cause = |id: &str| JoinCause::of(about(id).unwrap(), id);
    let unreached = |blockers: &[&str]| ExistingJoin {
        node: Err(Why::Broken("not reached".into())),
        path: Some(Box::new(cause("api.tcp"))),
        blockers: blockers.iter().map(|id| cause(id)).collect(),
        ..nothing()
    };
    let taken = || ExistingJoin { node: Ok(Node { identity: Some(false), ..sample::node() }), ..nothing() };
    let old = || ExistingJoin { node: Ok(sample::node()), ..nothing() };
    let live = || ExistingJoin { local: LocalJoin::Joined, proven: false, ..unreached(&["api.tcp", "machine.swap"]) };
    let with = |found: ExistingJoin, blockers: &[&str]| ExistingJoin {
        blockers: blockers.iter().map(|id| cause(id)).collect(),
        ..found
    };
    for (name, found, stage, told) in [
        ("the way alone may pass", unreached(&["api.tcp"]), Stage::Waiting, &["api.tcp"][..]),
        (
            "the way and the machine",
            unreached(&["api.tcp", "machine.swap", "kernel.modules"]),
            Stage::Failed,
            &["machine.swap", "kernel.modules", "api.tcp"],
        ),
        ("a name that is taken", with(taken(), &["machine.swap"]), Stage::Failed, &["machine.swap", "api.node-name"]),
        ("no Node is waited for", with(old(), &["machine.swap"]), Stage::Failed, &["machine.swap"]),
        ("unless that may pass, too", with(old(), &["machine.package-lock"]), Stage::Blocked, &[]),
        ("a live node is fit", live(), Stage::Waiting, &["api.tcp"]),
    ] {
        let story = Story::new(JoinPolicy::default()).then(1, JoinEvent::Found(found));
        assert_eq!(story.state.stage, stage, "{name}");
        let causes = story.state.failures.last().map(|failure| failure.causes.clone()).unwrap_or_default();
        assert_eq!(causes.iter().map(|cause| cause.id.as_str()).collect::<Vec<_>>(), told, "{name}");
    }
    // With --fix there is somebody who may set it right.
    let fixing = JoinPolicy { fix: true, ..JoinPolicy::default() };
    let story = Story::new(fixing).then(1, JoinEvent::Found(with(old(), &["machine.swap"])));
    assert_eq!(story.state.stage, Stage::Blocked);
    let unseen = vec![cause("api.token"), cause("machine.privileges"), cause("api.token")];
    let story = Story::new(JoinPolicy::default()).then(1, JoinEvent::Unfit(unseen));
    assert_eq!(story.failure().says, "2 causes keep this machine from joining: machine.privileges, api.token");
}

#[test]
fn a_kubelet_that_ends_is_told_by_its_last_words_at_the_first_time() {
    let ended = ended_by;
    let started = || Story::joining(JoinPolicy::default()).then(4, JoinEvent::Kubeadm(Milestone::KubeletStarted));
    let refuses = started().then(5, ended(vec![JoinCause::of(id!("kubelet.config-invalid"), "strict decoding error")]));
    assert_eq!(
        (refuses.state.stage, refuses.failure().causes[0].id.as_str()),
        (Stage::Failed, "kubelet.config-invalid")
    );
    assert_eq!(refuses.failure().says, "the kubelet ended: strict decoding error");

    let unknown = || JoinCause::of(id!("kubelet.restart-loop"), "the kubelet ended (exit status 1): the moon is full");
    let unknown = || ended(vec![unknown().sure(Confidence::Possible).under(Circumstance::GoesOn)]);
    let crashed = |restarts| JoinEvent::Kubelet(Ok(Kubelet { restarts, ..Kubelet::default() }));
    let told = started().then(5, unknown());
    assert!(matches!(told.effects.as_slice(), [JoinEffect::Tell(says)] if says.contains("the moon is full")));
    let told = told.then(5, crashed(0)).then(16, unknown());
    assert_eq!((told.state.stage, told.effects.as_slice()), (Stage::Joining, [].as_slice()), "told once");
    let looped = told.then(26, crashed(2));
    assert_eq!((looped.state.stage, looped.failure().class), (Stage::Failed, Class::Configuration));
    let says = "the kubelet ended (exit status 1): the moon is full; 2 times by now";
    let cause = &looped.failure().causes[0];
    assert_eq!((cause.says.as_str(), cause.confidence), (says, Confidence::Likely));
}

#[test]
fn what_a_program_complains_of_is_waited_for_and_is_the_cause_in_the_end() {
    let said = || JoinCause::of(id!("filesystem.space"), "full").under(Circumstance::GoesOn);
    let told = Story::registered(JoinPolicy::default()).then(10, JoinEvent::Trouble(said()));
    assert_eq!(
        (told.state.stage, told.effects.as_slice()),
        (Stage::Registered, [JoinEffect::Tell("full".into())].as_slice())
    );
    let second = told.state.deadline.duration_since(NOW).as_secs();
    let story = || told.clone();
    assert_eq!(story().then(second, JoinEvent::Tick).failure().causes[0].id, "filesystem.space");
    let passed = story().then(11, JoinEvent::Passed("filesystem.space".into())).then(second, JoinEvent::Tick);
    assert_eq!(passed.failure().causes[0].id, "node.network-not-ready", "it is over");
    let unsure = said().sure(Confidence::Possible);
    let silent = Story::registered(JoinPolicy::default()).then(10, JoinEvent::Trouble(unsure));
    assert_eq!(
        (silent.effects.as_slice(), silent.state.troubles.len()),
        ([].as_slice(), 1),
        "what may be none is no news"
    );
}

#[test]
fn who_does_not_answer_is_told_at_once_and_forgotten_when_it_does() {
    let answers = |silent| {
        JoinEvent::Kubelet(Ok(Kubelet { active: true, halt: silent, started_at: Some(at(4)), ..Kubelet::default() }))
    };
    let runtime = |seen: Result<RuntimeConditions, Why>| JoinEvent::Runtime(seen);
    for (name, silent, back, id) in [
        ("kubelet", answers(Some(KubeletHalt::Silent)), answers(None), "kubelet.not-answering"),
        ("kubelet", answers(Some(KubeletHalt::Suspended)), answers(None), "kubelet.not-answering"),
        ("runtime", runtime(Err(Why::TimedOut)), runtime(sample::joined().runtime), "runtime.socket"),
    ] {
        let told = Story::requested(JoinPolicy::default()).then(10, silent.clone());
        assert!(
            matches!(told.effects.as_slice(), [JoinEffect::Tell(says)] if says.contains(name) && says.contains("does not answer")),
            "{name}"
        );
        assert_eq!(told.clone().then(11, silent.clone()).effects, [], "{name}: once");
        let well = told.clone().then(11, back);
        assert_eq!(well.state.troubles, [], "{name}");
        let second = told.state.deadline.duration_since(NOW).as_secs();
        let over = told.then(second, JoinEvent::Tick);
        assert_eq!(over.failure().causes[0].id, id, "{name}");
    }
}

#[test]
fn who_stops_the_kubelet_in_mid_join_is_noticed() {
    let stopped = |halt| JoinEvent::Kubelet(Ok(Kubelet { halt: Some(halt), ..Kubelet::default() }));
    let reset = Story::requested(JoinPolicy::default()).then(8, stopped(KubeletHalt::Removed));
    assert_eq!((reset.state.stage, reset.failure().causes[0].id.as_str()), (Stage::Failed, "join.reset-meanwhile"));
    let story = Story::requested(JoinPolicy::default())
        .then(8, stopped(KubeletHalt::Stopped))
        .then(10, stopped(KubeletHalt::Stopped));
    assert_eq!(story.state.stage, Stage::CertificateRequested, "it may be restarted");
    let back = story.clone().then(10, kubelet()).then(12, stopped(KubeletHalt::Stopped));
    assert_eq!(back.state.stage, Stage::CertificateRequested);
    let gone = story.then(11, stopped(KubeletHalt::Stopped));
    assert_eq!((gone.state.stage, gone.failure().causes[0].id.as_str()), (Stage::Failed, "kubelet.not-running"));
    let before = Story::joining(JoinPolicy::default())
        .then(4, JoinEvent::Kubeadm(Milestone::KubeletStarted))
        .then(5, stopped(KubeletHalt::Removed));
    assert_eq!(
        before.then(60, stopped(KubeletHalt::Removed)).state.stage,
        Stage::Joining,
        "kubeadm has not started it yet"
    );
}

#[test]
fn a_kubelet_before_this_one_accuses_nobody() {
    let alone = JoinEvent::Kubelet(Ok(Kubelet { active: true, standalone: true, restarts: 900, ..Kubelet::default() }));
    let story = Story::joining(JoinPolicy::default())
        .then(4, alone)
        .then(4, request(Signing::Denied { why: "of last week".into() }))
        .then(5, JoinEvent::Kubeadm(Milestone::KubeletStarted))
        .then(5, JoinEvent::Tick);
    assert_eq!(story.state.stage, Stage::Joining);
    assert_eq!(story.then(6, kubelet()).state.stage, Stage::KubeletUp);
    let found = ExistingJoin { local: LocalJoin::Joined, node: Ok(sample::node()), ..nothing() };
    let restarted = |restarts| JoinEvent::Kubelet(Ok(Kubelet { active: true, restarts, ..Kubelet::default() }));
    let joined = Story::new(JoinPolicy::default()).then(1, JoinEvent::Found(found)).then(2, restarted(7));
    assert_eq!(joined.state.stage, Stage::CertificateIssued, "that was long ago");
    assert_eq!(joined.then(30, restarted(9)).state.stage, Stage::Failed);
}

#[test]
fn a_runtime_may_be_restarted_and_not_stay_away() {
    let gone = || JoinEvent::Runtime(Err(Why::Broken("connection refused".into())));
    let story = Story::joining(JoinPolicy::default()).then(4, gone());
    let back = story.clone().then(6, JoinEvent::Runtime(sample::joined().runtime)).then(20, gone());
    assert_eq!(back.state.stage, Stage::Joining);
    let dead = story.then(7, gone());
    assert_eq!((dead.state.stage, dead.failure().causes[0].id.as_str()), (Stage::Failed, "runtime.socket"));
    assert_eq!(dead.failure().says, "the container runtime does not answer: connection refused");
    let silent = || JoinEvent::Runtime(Err(Why::TimedOut));
    let story = Story::joining(JoinPolicy::default()).then(4, silent()).then(23, silent());
    assert_eq!(story.state.stage, Stage::Joining, "it may only be busy");
    let refused = story.clone().then(24, gone());
    assert_eq!(refused.state.stage, Stage::Joining, "it may be restarted just now");
    assert_eq!(story.then(24, silent()).state.stage, Stage::Waiting, "and be less so the next time");
}

#[test]
fn what_could_not_be_done_ends_the_attempt() {
    let begun = || Story::new(JoinPolicy::default());
    let unjoined = || begun().then(1, JoinEvent::Found(nothing()));
    let probed = || unjoined().then(2, JoinEvent::Checked { blockers: vec![], fixed: false });
    let blocked = || begun().then(1, JoinEvent::Found(ExistingJoin { node: Ok(sample::node()), ..nothing() }));
    let prepared = || probed().then(2, JoinEvent::Prepared);
    for story in [begun(), blocked(), unjoined(), probed(), prepared()] {
        let name = story.state.stage.name();
        let failed =
            |may_pass| JoinEvent::Failed(JoinCause::of(id!("runtime.sandbox-image"), "no image").may_pass(may_pass));
        let again = story.clone().then(3, failed(true));
        assert_eq!(again.state.stage, Stage::Waiting, "{name}: nothing is waited for but the next attempt");
        let ended = story.then(3, failed(false));
        assert_eq!((ended.state.stage, ended.failure().says.as_str()), (Stage::Failed, "no image"), "{name}");
    }
    let declined = JoinCause::of(id!("cni.config"), "nothing was changed").under(Circumstance::NotFixed);
    let declined = unjoined().then(3, JoinEvent::Failed(declined));
    assert_eq!(declined.state.stage, Stage::Failed, "who said no to --fix is not asked again");
    let joining =
        Story::joining(JoinPolicy::default()).then(9, JoinEvent::Failed(JoinCause::of(id!("kubeadm.installed"), "x")));
    assert_eq!(joining.state.stage, Stage::Joining, "kubeadm runs: that was of something before it");
}

#[test]
fn a_request_nobody_signs_is_told_once_after_twenty_seconds() {
    let story = Story::requested(JoinPolicy::default()).then(25, request(Signing::Pending));
    assert_eq!(story.effects, []);
    let story = story.then(26, request(Signing::Pending));
    assert!(
        matches!(story.effects.as_slice(), [JoinEffect::Tell(says)] if says.contains("csr-1")),
        "{:?}",
        story.effects
    );
    assert_eq!(story.then(27, request(Signing::Pending)).effects, []);
}

#[test]
fn a_request_that_is_approved_and_not_issued_waits_for_no_approval() {
    let story = Story::requested(JoinPolicy::default()).then(26, request(Signing::Approved));
    assert!(
        matches!(story.effects.as_slice(), [JoinEffect::Tell(says)] if says.contains("kube-controller-manager")),
        "{:?}",
        story.effects
    );
    let overdue = story.then(4 + 270, JoinEvent::Tick);
    assert_eq!(overdue.failure().causes[0].id, "csr.not-issued");
    let issued = Story::requested(JoinPolicy::default()).then(26, request(Signing::Issued));
    assert!(
        matches!(issued.effects.as_slice(), [JoinEffect::Tell(says)] if says.contains("has not stored it")),
        "{:?}",
        issued.effects
    );
    assert_eq!(issued.then(4 + 270, JoinEvent::Tick).failure().causes[0].id, "kubelet.certificate-not-stored");
}

#[test]
fn a_node_that_could_not_be_asked_for_is_not_said_to_be_missing() {
    let issued = || Story::issued(JoinPolicy::default());
    let over = |story: Story| story.then(120, JoinEvent::Tick).failure().causes[0].clone();
    assert_eq!(over(issued().then(9, JoinEvent::Node(Err(Why::Absent)))).id, "node.never-registered");
    let silent = over(issued().then(9, JoinEvent::Node(Err(Why::TimedOut))));
    assert_eq!((silent.id.as_str(), silent.confidence), ("verify.identity", Confidence::Possible));
    let unknown = Node { identity: None, ..sample::node() };
    assert_eq!(over(issued().then(9, JoinEvent::Node(Ok(unknown)))).id, "verify.identity");
}

#[test]
fn the_certificate_is_decided_on_before_kubelet_and_kubeadm_give_up() {
    let story = Story::requested(JoinPolicy::default());
    assert_eq!(story.state.deadline, at(4 + 270), "from the start of the kubelet, whatever came between");
    let story = story.then(4 + 270, JoinEvent::Tick);
    assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Waiting, [JoinEffect::CleanUp].as_slice()));
    let failure = story.failure();
    assert_eq!(
        (failure.class, failure.overdue, failure.causes[0].id.as_str()),
        (Class::Transient, true, "csr.pending")
    );
}

#[test]
fn a_killed_kubeadm_leaves_a_kubelet_that_goes_on() {
    let killed = || JoinEvent::KubeadmEnded { status: None, causes: vec![] };
    assert_eq!(Story::requested(JoinPolicy::default()).then(7, killed()).state.stage, Stage::CertificateRequested);
    assert_eq!(Story::joining(JoinPolicy::default()).then(4, killed()).state.stage, Stage::Waiting);
    let restarted =
        JoinEvent::KubeadmEnded { status: Some(1), causes: vec![JoinCause::of(id!("runtime.socket"), "refused")] };
    assert_eq!(Story::joining(JoinPolicy::default()).then(4, restarted).state.stage, Stage::Waiting);
    let failed = JoinEvent::KubeadmEnded { status: Some(1), causes: vec![] };
    assert_eq!(Story::registered(JoinPolicy::default()).then(10, failed).state.stage, Stage::Registered);
}

#[test]
fn attempts_end() {
    let mut story = Story::new(JoinPolicy::default());
    for (attempt, pause) in [(1, 5), (2, 10)] {
        assert_eq!(story.state.attempt, attempt);
        let second = story.state.deadline.duration_since(NOW).as_secs();
        story = story.then(second, JoinEvent::Tick);
        assert_eq!(
            (story.state.stage, story.effects.len()),
            (Stage::Waiting, 0),
            "nothing was done, nothing is cleaned up"
        );
        assert_eq!(story.state.deadline, at(second + pause));
        story = story.then(second + pause, JoinEvent::Tick);
        assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Begun, [JoinEffect::Observe].as_slice()));
    }
    let second = story.state.deadline.duration_since(NOW).as_secs();
    story = story.then(second, JoinEvent::Tick);
    assert_eq!((story.state.stage, story.state.failures.len()), (Stage::Failed, 3));
}

#[test]
fn a_machine_with_its_certificate_is_left_in_the_cluster() {
    let story = Story::registered(JoinPolicy::default());
    let second = story.state.deadline.duration_since(NOW).as_secs();
    let story = story.then(second, JoinEvent::Tick);
    assert_eq!(story.state.stage, Stage::Failed);
    assert!(!story.effects.contains(&JoinEffect::CleanUp), "{:?}", story.effects);
    assert_eq!(story.failure().causes[0].id, "node.network-not-ready");
}

#[test]
fn what_may_pass_is_told_when_the_time_is_over() {
    let story = Story::registered(JoinPolicy::default())
        .then(20, JoinEvent::Trouble(JoinCause::of(id!("cni.no-subnet-env"), "flannel is not up")));
    assert_eq!(story.state.stage, Stage::Registered);
    let second = story.state.deadline.duration_since(NOW).as_secs();
    let story = story.then(second, JoinEvent::Tick);
    let ids: Vec<&str> = story.failure().causes.iter().map(|cause| cause.id.as_str()).collect();
    assert_eq!(ids, ["cni.no-subnet-env", "node.network-not-ready"]);
}

#[test]
fn an_old_node_is_waited_for_or_marked_once() {
    let ready = |admin: bool| ExistingJoin {
        node: Ok(sample::node()),
        lease_age: admin.then(|| SignedDuration::from_secs(60)),
        lease_renews: false,
        admin,
        ..nothing()
    };
    let story = Story::new(JoinPolicy::default()).then(1, JoinEvent::Found(ready(false)));
    assert_eq!(story.state.stage, Stage::Blocked);
    let deadline = story.state.deadline;
    let story = story.then(2, JoinEvent::Tick);
    assert_eq!(story.effects, []);
    let story = story.then(6, JoinEvent::Tick);
    assert_eq!(story.effects, [JoinEffect::Observe]);
    let story = story.then(7, JoinEvent::Found(ready(false)));
    assert_eq!(
        (story.state.deadline, story.effects.as_slice()),
        (deadline, [].as_slice()),
        "told once, and no longer for it"
    );
    let gone = ExistingJoin { node: Ok(Node { ready: false, ..sample::node() }), ..nothing() };
    assert_eq!(story.then(12, JoinEvent::Found(gone)).state.stage, Stage::Unjoined);

    let story = Story::new(JoinPolicy::default()).then(1, JoinEvent::Found(ready(true)));
    assert!(matches!(story.effects.as_slice(), [JoinEffect::MarkNotReady { name, .. }] if name == "w1"));
    let story = story.then(2, JoinEvent::NodeCleared);
    assert_eq!(story.effects, [JoinEffect::Observe]);
    let story = story.then(3, JoinEvent::Found(ready(true)));
    assert_eq!(story.state.stage, Stage::Failed, "it came back");
}

#[test]
fn the_node_of_a_machine_that_is_gone_for_good_is_removed_once() {
    let dead = || ExistingJoin {
        node: Ok(Node { identity: Some(false), ready: false, ..sample::node() }),
        lease_age: Some(SignedDuration::from_secs(90)),
        lease_renews: false,
        admin: true,
        ..nothing()
    };
    let replaces = JoinPolicy { replace_node: true, ..JoinPolicy::default() };
    let story = Story::new(replaces).then(1, JoinEvent::Found(dead()));
    assert!(matches!(story.effects.as_slice(), [JoinEffect::RemoveNode { name, .. }] if name == "w1"));
    let cleared = story.then(2, JoinEvent::NodeCleared);
    assert_eq!(cleared.effects, [JoinEffect::Observe]);
    let gone = Story { state: cleared.state.clone(), effects: vec![] }.then(3, JoinEvent::Found(nothing()));
    assert_eq!(gone.state.stage, Stage::Unjoined);
    assert_eq!(cleared.then(3, JoinEvent::Found(dead())).state.stage, Stage::Failed, "it came back");
}

#[test]
fn what_was_fixed_is_looked_at_once_more() {
    let fixed = || JoinEvent::Checked { blockers: vec![], fixed: true };
    let story = Story::new(JoinPolicy::default()).then(1, JoinEvent::Found(nothing())).then(2, fixed());
    assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Begun, [JoinEffect::Observe].as_slice()));
    assert_eq!(story.then(3, JoinEvent::Found(nothing())).then(4, fixed()).state.stage, Stage::Probed);
}

#[test]
fn a_kubeadm_that_an_earlier_driver_started_is_followed_within_its_own_time() {
    let running = ExistingJoin { kubeadm: Some(at(3)), ..nothing() };
    let attached = Story::new(JoinPolicy::default()).then(31, JoinEvent::Found(running));
    assert_eq!((attached.state.stage, attached.effects.last()), (Stage::Joining, Some(&JoinEffect::Attach)));
    let replayed = attached.then(31, JoinEvent::Kubeadm(Milestone::KubeletStarted)).then(32, kubelet());
    assert_eq!((replayed.state.stage, replayed.state.deadline), (Stage::KubeletUp, at(3 + 270)));
}

fn standing() -> impl Strategy<Value = StandingCause> {
    let ids =
        prop_oneof![Just("firewall.vxlan"), Just("kube-proxy.crash-loop"), Just("cni.config"), Just("runtime.keyring")];
    ids.prop_map(stands)
}

/// A cause as its file has it.
fn stands(id: &str) -> StandingCause {
    let about = about(id).unwrap();
    StandingCause { class: about.class, role: about.role, ..sample::standing(id, about.stops) }
}

/// All else holds, at second 12.
fn all_but_causes(policy: JoinPolicy) -> Story {
    Story::networked(policy).then(11, tried(sample::joined().sandbox)).then(12, JoinEvent::Node(Ok(sample::node())))
}

#[test]
fn a_cause_that_no_waiting_fixes_is_looked_for_once_more_and_believed() {
    let found = |ids: &[&str]| JoinEvent::Standing(Ok(ids.iter().map(|id| stands(id)).collect()));
    let story = all_but_causes(JoinPolicy::default()).then(13, found(&["kube-proxy.crash-loop", "firewall.vxlan"]));
    let again = JoinEffect::LookForCauses { not_before: later(at(13), CAUSES_AGAIN) };
    assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::NetworkReady, [again].as_slice()));
    let gone = story.clone().then(16, found(&[]));
    assert_eq!(gone.state.stage, Stage::Verified, "it was of a moment");
    let ended = story.then(16, found(&["kube-proxy.crash-loop", "firewall.vxlan"]));
    assert_eq!(ended.state.stage, Stage::Failed);
    let failure = ended.failure();
    let ids: Vec<&str> = failure.causes.iter().map(|cause| cause.id.as_str()).collect();
    assert_eq!((ids.as_slice(), failure.overdue), (&["firewall.vxlan", "kube-proxy.crash-loop"][..], false));
    assert_eq!(failure.causes[0].remedy, ["fix firewall.vxlan"]);
    assert!(ended.effects.contains(&JoinEffect::Leave) && !ended.effects.contains(&JoinEffect::CleanUp));
}

#[test]
fn an_address_that_a_pod_got_overrules_lines_that_none_is_left() {
    let none_left = || JoinCause::of(id!("cni.no-addresses-left"), "none").explaining(["pod.no-address".to_owned()]);
    let heard = |cause: JoinCause| {
        Story::networked(JoinPolicy::default())
            .then(10, JoinEvent::Trouble(cause.under(Circumstance::GoesOn)))
            .then(11, tried(sample::joined().sandbox))
            .then(12, JoinEvent::Node(Ok(sample::node())))
            .then(13, JoinEvent::Standing(Ok(vec![])))
    };
    assert_eq!(heard(none_left()).state.stage, Stage::Verified);
    // containerd read the file while it was being written; the check of this id passes by now.
    let half = || JoinCause::of(id!("cni.config"), "unexpected end").explaining(["pod.no-address".to_owned()]);
    assert_eq!(heard(half()).state.stage, Stage::Verified);
    let loops = || JoinCause::of(id!("kube-proxy.crash-loop"), "it ends");
    assert_eq!(heard(loops()).state.stage, Stage::NetworkReady, "of that an address says nothing");
    let read = StandingCause { denies_addresses: true, ..stands("cni.no-addresses-left") };
    let story = all_but_causes(JoinPolicy::default()).then(13, JoinEvent::Standing(Ok(vec![read])));
    assert_eq!(story.state.stage, Stage::Verified);
}

#[test]
fn a_taint_that_keeps_the_network_off_is_told_by_name_and_is_the_cause_when_time_is_over() {
    let taint = |key: &str| Taint { key: key.into(), value: String::new(), effect: "NoExecute".into() };
    let tainted = |key: &str| JoinEvent::Node(Ok(Node { taints: vec![taint(key)], ready: false, ..sample::node() }));
    let only_proxy = || JoinEvent::Agents(Ok(vec![sample::agent("kube-system/kube-proxy-1")]));
    let kept = |taint: Option<Taint>| {
        JoinEvent::KeptOff(Ok(taint.map(|taint| KeptOff { set: "kube-flannel/kube-flannel-ds".into(), taint })))
    };
    let causes = |story: Story| -> Vec<(String, Confidence)> {
        let failure = story.then(400, JoinEvent::Tick).failure().clone();
        failure.causes.iter().take(1).map(|cause| (cause.id.clone(), cause.confidence)).collect()
    };
    let registered =
        || Story::registered(JoinPolicy::default()).then(10, JoinEvent::Lease(Ok(sample::renewal("2", 15))));
    let agent_taint = |sure| [("cni.agent-taint".to_owned(), sure)];

    let seen =
        registered().then(10, tainted("dedicated")).then(10, kept(Some(taint("dedicated")))).then(11, only_proxy());
    assert!(seen.effects.is_empty(), "its pod may be placed a moment later: {:?}", seen.effects);
    let told = seen.then(15, only_proxy());
    let [JoinEffect::Tell(says)] = told.effects.as_slice() else { panic!("{:?}", told.effects) };
    assert_eq!(says, "DaemonSet kube-flannel/kube-flannel-ds does not tolerate the node's taint dedicated:NoExecute");
    assert!(told.clone().then(16, only_proxy()).effects.is_empty(), "once");
    assert_eq!(causes(told.clone()), agent_taint(Confidence::Certain));
    let taken_away = told.then(17, kept(None)).then(17, only_proxy());
    assert_ne!(causes(taken_away), agent_taint(Confidence::Certain));

    // Who may not look at DaemonSets.
    let blind = registered().then(10, tainted("dedicated")).then(15, only_proxy());
    assert!(blind.effects.is_empty(), "{:?}", blind.effects);
    assert_eq!(causes(blind), agent_taint(Confidence::Possible));
    let own = registered().then(10, tainted("node.kubernetes.io/not-ready")).then(15, only_proxy());
    assert!(!causes(own).iter().any(|(id, _)| id == "cni.agent-taint"), "every network tolerates that");
}

#[test]
fn a_cause_that_may_pass_is_looked_at_until_the_time_is_over() {
    let loops = || JoinEvent::Standing(Ok(vec![stands("kube-proxy.crash-loop")]));
    let mut story = all_but_causes(JoinPolicy::default());
    for second in [13, 16, 19, 60, 129] {
        story = story.then(second, loops());
        assert_eq!(story.state.stage, Stage::NetworkReady, "{second}");
    }
    let passed = story.clone().then(129, JoinEvent::Standing(Ok(vec![])));
    assert_eq!(passed.state.stage, Stage::Verified);
    let failure = story.then(130, JoinEvent::Tick).failure().clone();
    assert_eq!((failure.causes[0].id.as_str(), failure.overdue), ("kube-proxy.crash-loop", true));
    // What it stops was not asked for.
    let network = Story::networked(until(Until::Network)).then(13, loops());
    assert_eq!(network.state.stage, Stage::Verified);
}

#[test]
fn what_was_found_of_another_moment_does_not_count() {
    let story =
        all_but_causes(JoinPolicy::default()).then(13, JoinEvent::Node(Ok(Node { ready: false, ..sample::node() })));
    let story = story.then(14, JoinEvent::Standing(Ok(vec![])));
    assert_eq!((story.state.stage, story.state.seen.standing.clone()), (Stage::NetworkReady, Err(Why::NotCollected)));
    let ready = story.then(15, JoinEvent::Node(Ok(sample::node())));
    assert_eq!(ready.effects, [JoinEffect::LookForCauses { not_before: at(15) }], "it is looked for anew");
}

fn any_event() -> impl Strategy<Value = JoinEvent> {
    let seen = sample::joined();
    let cause = prop_oneof![
        Just("api.refused"),
        Just("filesystem.space"),
        Just("cni.plugins"),
        Just("cni.no-subnet-env"),
        Just("kubeadm.ca-hash-mismatch")
    ];
    let cause = cause.prop_map(|id| JoinCause::of(about(id).unwrap(), "x"));
    let causes = prop::collection::vec(cause.clone(), 0..2);
    let kubelet = (any::<bool>(), any::<bool>(), 0u64..3, proptest::option::of(-1i32..204)).prop_map(
        |(active, alone, restarts, exit)| {
            JoinEvent::Kubelet(Ok(Kubelet {
                active,
                standalone: alone && active,
                restarts,
                exit,
                started_at: Some(NOW),
                halt: match (active, exit) {
                    (true, _) => (restarts == 1).then_some(KubeletHalt::Silent),
                    (false, None) => Some(if alone { KubeletHalt::Removed } else { KubeletHalt::Stopped }),
                    (false, Some(_)) => None,
                },
                ..Kubelet::default()
            }))
        },
    );
    let node =
        (any::<Option<bool>>(), any::<[bool; 4]>()).prop_map(|(identity, [ready, unavailable, short, placed])| {
            let network_unavailable = unavailable.then(|| "x".to_owned());
            let pressures =
                if short { vec![Pressure { of: Resource::Disk, says: "x".to_owned() }] } else { Vec::new() };
            let internal_ips = if placed { sample::node().internal_ips } else { Vec::new() };
            JoinEvent::Node(Ok(Node {
                identity,
                ready,
                network_unavailable,
                pressures,
                internal_ips,
                ..sample::node()
            }))
        });
    let agents = (any::<bool>(), 0u64..5, proptest::option::of("CrashLoopBackOff|ErrImagePull|ContainerCreating"))
        .prop_map(|(is_kube_proxy, restarts, down)| {
            let pod = sample::pod(restarts, down.as_deref());
            JoinEvent::Agents(Ok(vec![AgentPod { is_kube_proxy, ready: down.is_none(), ..pod }]))
        });
    prop_oneof![
        any_found().prop_map(JoinEvent::Found),
        Just(JoinEvent::Found(nothing())),
        Just(JoinEvent::NodeCleared),
        Just(JoinEvent::Woken),
        (causes.clone(), any::<bool>()).prop_map(|(blockers, fixed)| JoinEvent::Checked { blockers, fixed }),
        Just(JoinEvent::Checked { blockers: vec![], fixed: false }),
        Just(JoinEvent::Prepared),
        Just(JoinEvent::Started),
        Just(JoinEvent::Kubeadm(Milestone::KubeletStarted)),
        Just(JoinEvent::Kubeadm(Milestone::Done)),
        (proptest::option::of(0i32..4), causes).prop_map(|(status, causes)| JoinEvent::KubeadmEnded { status, causes }),
        kubelet,
        Just(JoinEvent::Kubelet(seen.kubelet)),
        Just(request(Signing::Pending)),
        Just(request(Signing::Approved)),
        Just(request(Signing::Issued)),
        Just(JoinEvent::Certificate(Ok(ClientCertificate::Trusted))),
        Just(JoinEvent::Certificate(Err(Why::Absent))),
        node,
        Just(JoinEvent::Node(seen.node)),
        Just(JoinEvent::Node(Err(Why::Absent))),
        (0u8..3, -20i64..20)
            .prop_map(|(version, seconds)| JoinEvent::Lease(Ok(sample::renewal(&version.to_string(), seconds)))),
        agents,
        Just(JoinEvent::Agents(seen.agents)),
        Just(JoinEvent::Addresses(seen.addresses)),
        Just(JoinEvent::KeptOff(Ok(None))),
        Just(JoinEvent::KubeProxySet(Ok(Some("kube-system/kube-proxy".to_owned())))),
        Just(JoinEvent::Runtime(seen.runtime)),
        Just(JoinEvent::Runtime(Err(Why::TimedOut))),
        Just(tried(seen.sandbox.clone())),
        Just(tried(Err(Why::Broken("x".into())))),
        any_trial(seen.sandbox),
        prop::collection::vec(standing(), 0..3).prop_map(|causes| JoinEvent::Standing(Ok(causes))),
        Just(JoinEvent::Standing(Ok(vec![]))),
        cause.clone().prop_map(JoinEvent::Trouble),
        cause.clone().prop_map(|cause| JoinEvent::Trouble(cause.under(Circumstance::GoesOn))),
        cause.clone().prop_map(|cause| ended_by(vec![cause])),
        cause.clone().prop_map(|cause| JoinEvent::Passed(cause.id)),
        (cause, any::<bool>()).prop_map(|(cause, may_pass)| JoinEvent::Failed(cause.may_pass(may_pass))),
        Just(JoinEvent::Finished { changed: false }),
        Just(JoinEvent::Tick),
    ]
}

/// What may come of trying, whatever else was seen.
fn any_trial(sandbox: Result<Sandbox, Why>) -> impl Strategy<Value = JoinEvent> {
    let sandbox = prop_oneof![Just(sandbox), Just(Err(Why::Absent)), Just(Err(Why::TimedOut))];
    let stand_in = prop_oneof![
        Just(None),
        Just(Some(StandIn::Nobody)),
        Just(Some(StandIn::Unlisted { says: "refused".into() })),
        Just(Some(StandIn::OnItsWay { pod: "a/b".into() })),
        Just(Some(StandIn::AgentDown { pod: "a/b".into() })),
    ];
    let reach = prop_oneof![
        Just(Ok(KubeletReach::Answered)),
        Just(Ok(KubeletReach::Unanswered { says: "i/o timeout".into() })),
        Just(Err(Why::NotCollected)),
        Just(Err(Why::Denied)),
    ];
    (sandbox, stand_in, reach, any::<bool>()).prop_map(|(sandbox, stand_in, reach, looked)| {
        let peers = if looked { Ok(PeerDial::default()) } else { Err(Why::NotCollected) };
        JoinEvent::Tried(Box::new(PodTrial {
            sandbox,
            stand_in,
            container: None,
            reach,
            peers,
            refused_for: Vec::new(),
        }))
    })
}

fn any_policy() -> impl Strategy<Value = JoinPolicy> {
    let goal = prop_oneof![Just(Until::Registered), Just(Until::Network), Just(Until::Verified)];
    (goal, 1u32..4, 1u32..2000, any::<bool>(), any::<bool>(), 0u8..=100).prop_map(
        |(until, attempts, join_timeout, replace_node, fix, jitter)| JoinPolicy {
            until,
            attempts,
            join_timeout,
            replace_node,
            fix,
            jitter,
        },
    )
}

/// What must hold of every state.
fn keeps_its_promises(state: &JoinStatus) -> Result<(), TestCaseError> {
    prop_assert!(
        state.stage.is_over() || state.deadline >= state.since || state.memory.bootstrap_since.is_some(),
        "no deadline: {:?}",
        state
    );
    prop_assert!(state.deadline < Timestamp::MAX);
    prop_assert!(state.attempt <= state.policy.attempts);
    prop_assert!(state.failures.len() <= state.policy.attempts as usize && state.troubles.len() <= MOST_TROUBLES);
    let bootstraps = matches!(state.stage, Stage::KubeletUp | Stage::CertificateRequested)
        || (state.stage == Stage::Joining && state.memory.bootstrap_since.is_some());
    if let (true, Some(began)) = (bootstraps, state.memory.bootstrap_since) {
        prop_assert!(state.deadline.duration_since(began).as_secs() <= 270, "{:?}", state);
    }
    if matches!(state.stage, Stage::Verified | Stage::Joined) {
        prop_assert!(holds(&state.seen, state.policy.until), "joined without evidence: {:?}", state);
    }
    let text = serde_json::to_string(state).unwrap();
    prop_assert_eq!(&serde_json::from_str::<JoinStatus>(&text).unwrap(), state);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_every_state_keeps_its_promises(policy in any_policy(), events in prop::collection::vec((any_event(), 0i64..40), 0..60)) {
        let (mut state, _) = JoinStatus::begin(policy, NOW);
        let mut second = 0;
        for (event, wait) in events {
            second += wait;
            let before = state.clone();
            let effects;
            (state, effects) = step(&state, &event, at(second));
            keeps_its_promises(&state)?;
            let reports = effects.iter().filter(|effect| matches!(effect, JoinEffect::Report(_))).count();
            prop_assert_eq!(reports, usize::from(state.stage.is_over() && !before.stage.is_over()));
            if effects.contains(&JoinEffect::CleanUp) {
                prop_assert!(before.stage < Stage::CertificateIssued);
            }
            if let Some(failure) = state.failures.get(before.failures.len()) {
                prop_assert_eq!(failure.class, taken_as_its_file_says(failure), "{:?}", failure);
                let again = failure.class.may_pass() && before.attempt < before.policy.attempts;
                prop_assert_eq!(state.stage == Stage::Waiting, again && before.stage < Stage::CertificateIssued);
            }
        }
    }

    /// With `existing::nothing_that_lives_is_taken_down`: what a live kubelet is decided on leads to looks alone.
    #[test]
    fn a_machine_that_lives_is_only_looked_at(
        policy in any_policy(),
        found in any_found(),
        lives in 0usize..4,
        (proven, registered, renewed) in any::<(bool, bool, bool)>(),
        events in prop::collection::vec((any_event(), 0i64..40), 0..40),
    ) {
        let local = match lives {
            0 => LocalJoin::Joined,
            1 => LocalJoin::Elsewhere { server: "s".into() },
            2 => LocalJoin::Foreign { kubeconfig: "/var/lib/kubelet/kubeconfig".into() },
            _ => LocalJoin::Detached { why: "not there".into() },
        };
        let found = ExistingJoin { local, kubeadm: None, proven, registered, lease_renews: renewed, ..found };
        let (mut state, effects) = JoinStatus::begin(policy, NOW);
        let (mut second, mut looks) = (0, effects.contains(&JoinEffect::Observe));
        for (event, wait) in events {
            second += wait;
            let look = std::mem::take(&mut looks).then(|| JoinEvent::Found(found.clone()));
            let event = Some(event).filter(|event| !matches!(event, JoinEvent::Found(_) | JoinEvent::Woken));
            for event in look.into_iter().chain(event) {
                let effects;
                (state, effects) = step(&state, &event, at(second));
                let acts = |effect: &JoinEffect| match effect {
                    JoinEffect::Check | JoinEffect::Prepare | JoinEffect::StartKubeadm | JoinEffect::CleanUp
                    | JoinEffect::RemoveNode { .. } | JoinEffect::MarkNotReady { .. } | JoinEffect::WakeKubelet
                    | JoinEffect::Attach | JoinEffect::Halt => true,
                    JoinEffect::Observe | JoinEffect::Sandbox { .. } | JoinEffect::LookForCauses { .. } | JoinEffect::Tell(_) | JoinEffect::Finish
                    | JoinEffect::Leave | JoinEffect::Diagnose | JoinEffect::Report(_) => false,
                };
                prop_assert!(!effects.iter().any(acts), "{:?}: {:?}", event, effects);
                looks |= effects.contains(&JoinEffect::Observe);
            }
        }
    }

    #[test]
    fn whatever_came_time_ends_it(policy in any_policy(), events in prop::collection::vec(any_event(), 0..40), noise in prop::collection::vec(any_event(), 1..8)) {
        let (mut state, _) = JoinStatus::begin(policy, NOW);
        for event in events {
            state = step(&state, &event, NOW).0;
        }
        // At each deadline one of any events: no more than the stages of the attempts that are left.
        let mut turns = 0usize;
        while !state.stage.is_over() {
            let event = noise.get(turns % noise.len()).cloned().unwrap_or(JoinEvent::Tick);
            let now = state.deadline.max(state.since);
            state = step(&state, &event, now).0;
            keeps_its_promises(&state)?;
            turns += 1;
            prop_assert!(turns <= 16 * state.policy.attempts as usize, "does not end: {:?}", state);
        }
    }

    #[test]
    fn joined_needs_all_of_the_evidence(policy in any_policy(), missing in 0usize..10) {
        let seen = sample::joined();
        let needed = |n: usize| n == 8 || n < match policy.until {
            Until::Registered => 4,
            Until::Network => 6,
            Until::Verified => 8,
        };
        let all = [
            kubelet(),
            JoinEvent::Certificate(seen.certificate),
            JoinEvent::Node(seen.node),
            JoinEvent::Lease(Ok(sample::renewal("1", 9))),
            JoinEvent::Runtime(seen.runtime),
            JoinEvent::Agents(seen.agents),
            JoinEvent::Addresses(seen.addresses),
            tried(seen.sandbox),
            JoinEvent::Standing(seen.standing),
        ];
        let found = ExistingJoin { local: LocalJoin::Joined, node: Ok(sample::node()), ..nothing() };
        let mut story = Story::new(policy.clone()).then(1, JoinEvent::Found(found));
        for (n, event) in all.into_iter().enumerate() {
            if n != missing {
                story = story.then(5, event);
            }
        }
        story = story.then(6, JoinEvent::Finished { changed: false });
        prop_assert_eq!(story.state.stage == Stage::Joined, !needed(missing), "{:?}", story.state);
    }
}
