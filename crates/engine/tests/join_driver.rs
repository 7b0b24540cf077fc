//! The whole driver, from the first look to "joined": a worker whose programs are scripted, and an API server in memory that
//! answers as a real one. Time is tokio's and stands still, so that minutes of a join take milliseconds.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::{ClusterClient, ClusterCredentials};
use carrick_core::StopSignal;
use carrick_core::check::Outcome;
use carrick_core::discovery;
use carrick_core::fact::identity::MachineIdentity;
use carrick_core::fact::{Facts, Why};
use carrick_core::join::ending::WhatRemains;
use carrick_core::join::failure::JoinFailure;
use carrick_core::join::request::Request;
use carrick_core::join::state::{JoinPolicy, Stage};
use carrick_core::join::step::{JoinOutcome, Withdrawal};
use carrick_core::join::verify::{ClientCertificate, DialledFrom, Until, report};
use carrick_core::judge::Ignore;
use carrick_core::plan::live::LiveNode;
use carrick_core::plan::protect::Protected;
use carrick_core::record::printed;
use carrick_core::report::{Confidence, Overall, Report};
use carrick_core::reset::CORDONED;
use carrick_core::signature::Library;
use carrick_core::testing::secret::{KINDS, Plant, pieces_found, plant_one};
use carrick_engine::act::{self, Actor, journal, undo};
use carrick_engine::dialer;
use carrick_engine::join::inspect::LiveDiagnosis;
use carrick_engine::join::verify::look;
use carrick_engine::join::{Fixer, JoinOptions, JoinProgress, JoinReport, NodeObserver, NotFixed, join, joins};
use carrick_engine::{Stop, StopTeller, unit};
use carrick_host::{BoxFuture, Host, Locked, PathEntry, Probe};
use carrick_testkit::memory_api::Fault;
use carrick_testkit::memory_api::controller::Controller;
use carrick_testkit::memory_api::tls::kubeconfig;
use carrick_testkit::{API, Authority, Kubeadm, Machine, MemoryCluster, NODE, SYSTEM_UUID, Worker};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

const BEGAN: &str = "2026-11-16T12:00:00Z";
const TOKEN: &str = "abcdef.0123456789abcdef";
const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
const BOOTSTRAP_CONF: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
const CONFIG: &str = "/run/carrick/join.yaml";
const DROP_IN: &str = "/run/systemd/system/kubelet.service.d/90-carrick-join.conf";

fn cluster() -> MemoryCluster {
    let cluster = MemoryCluster::start(BEGAN.parse().unwrap()).unwrap();
    cluster.token(TOKEN);
    cluster
}

fn options(cluster: &MemoryCluster) -> JoinOptions<'static> {
    let pins = discovery::pins(cluster.authority.pem()).unwrap();
    let request = Request {
        api: format!("{}:{}", API.0, API.1).parse().ok(),
        token: TOKEN.parse().ok(),
        pins: pins.iter().map(|pin| pin.parse().unwrap()).collect(),
        ..Request::default()
    };
    JoinOptions {
        request,
        policy: JoinPolicy::default(),
        ignore: Ignore::default(),
        admin: None,
        asker: None,
        protect: Vec::new(),
        time_box: Duration::from_secs(10),
    }
}

async fn joined(machine: &Arc<Machine>, options: JoinOptions<'_>) -> (JoinReport, Vec<JoinProgress>) {
    joined_and(machine, options, |_| {}).await
}

/// The same, for who acts on what is told while it goes on.
async fn joined_and(
    machine: &Arc<Machine>,
    options: JoinOptions<'_>,
    act: impl FnMut(&JoinProgress) + Send,
) -> (JoinReport, Vec<JoinProgress>) {
    joined_until(Stop::never(), machine, options, act).await
}

/// The same, for who may be told to stop.
async fn joined_until(
    stop: Stop,
    machine: &Arc<Machine>,
    options: JoinOptions<'_>,
    act: impl FnMut(&JoinProgress) + Send,
) -> (JoinReport, Vec<JoinProgress>) {
    joined_fixing(None, stop, machine, options, act).await
}

/// The same, with somebody who fixes.
async fn joined_fixing(
    fixer: Option<&mut dyn Fixer>,
    stop: Stop,
    machine: &Arc<Machine>,
    options: JoinOptions<'_>,
    mut act: impl FnMut(&JoinProgress) + Send,
) -> (JoinReport, Vec<JoinProgress>) {
    /// A look every 0.4 s and a word every second: whoever waits twice as long hears nothing.
    const SILENCE: Duration = Duration::from_secs(2);
    let library = Library::built_in().unwrap();
    let actor = Actor { verb: "join".into(), by: "root".into(), version: "0".into(), stop };
    let (mut told, mut longest, mut last) = (Vec::new(), Duration::ZERO, Instant::now());
    let mut tell = |it| {
        longest = longest.max(std::mem::replace(&mut last, Instant::now()).elapsed());
        act(&it);
        told.push(it);
    };
    let host: Arc<dyn Host> = machine.clone();
    let ended = join(&host, &actor, options, &library, fixer, &mut tell).await;
    longest = longest.max(last.elapsed());
    assert!(longest < SILENCE, "nothing was said for {longest:?}: {told:#?}");
    (ended, told)
}

/// A cluster in which nobody decides about certificate requests, until the test does.
fn undecided() -> MemoryCluster {
    let cluster = MemoryCluster::without_controllers(BEGAN.parse().unwrap()).unwrap();
    cluster.token(TOKEN);
    cluster.api.start(Controller::TokenSigner);
    cluster
}

fn deny(cluster: &MemoryCluster) {
    cluster.api.start(Controller::Denier("not this one".to_owned()));
}

fn waits_for_its_certificate(told: &JoinProgress) -> bool {
    matches!(told, JoinProgress::Waits { stage: Stage::CertificateRequested, .. })
}

/// An admin's kubeconfig in place of a token.
fn admin(cluster: &MemoryCluster, machine: &Arc<Machine>) -> ClusterClient {
    let issued = cluster.authority.client("kubernetes-admin", &["kubeadm:cluster-admins"]).unwrap();
    let server = format!("https://{}:{}", API.0, API.1);
    let text = kubeconfig(&server, cluster.authority.pem(), Some(&issued));
    let credentials = ClusterCredentials::parse(&text, |path| Err(format!("{path} was not read"))).unwrap();
    let probe: Arc<dyn Probe> = machine.clone();
    dialer::client(&credentials, Arc::downgrade(&probe))
}

fn with_admin<'a>(cluster: &MemoryCluster, admin: &'a ClusterClient, replace_node: bool) -> JoinOptions<'a> {
    let options = options(cluster);
    let request = Request { token: None, ..options.request };
    JoinOptions { request, admin: Some(admin), policy: JoinPolicy { replace_node, ..JoinPolicy::default() }, ..options }
}

fn stages(told: &[JoinProgress]) -> Vec<Stage> {
    told.iter()
        .filter_map(|it| if let JoinProgress::Reached { stage, .. } = it { Some(*stage) } else { None })
        .collect()
}

/// Everything on the machine but our own records.
fn files(machine: &Machine) -> BTreeMap<String, PathEntry> {
    machine.all_but("/var/lib/carrick").files
}

/// The machine is as it was, and so is the kubelet's unit.
#[track_caller]
fn assert_put_back(machine: &Machine, unit: &str, before: &(BTreeMap<String, PathEntry>, &str), what: &str) {
    let now = files(machine);
    let changed =
        |(path, entry): &(&String, &PathEntry), other: &BTreeMap<String, PathEntry>| other.get(*path) != Some(entry);
    let gone: Vec<_> = before.0.iter().filter(|it| changed(it, &now)).collect();
    let new: Vec<_> = now.iter().filter(|it| changed(it, &before.0)).collect();
    assert_eq!((gone, new, unit), (Vec::new(), Vec::new(), before.1), "{what}");
}

#[track_caller]
fn assert_joined(ended: &JoinReport, told: &[JoinProgress]) {
    assert!(matches!(ended.outcome, JoinOutcome::Joined { .. }), "{:#?}\n{told:#?}", ended.outcome);
}

#[tokio::test(start_paused = true)]
async fn a_worker_joins() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&ended, &told);
    let expected = [
        Stage::Unjoined,
        Stage::Probed,
        Stage::Prepared,
        Stage::Joining,
        Stage::KubeletUp,
        Stage::CertificateRequested,
        Stage::CertificateIssued,
    ];
    assert_eq!(stages(&told).get(..7), Some(&expected[..]), "{told:#?}");
    assert_eq!(stages(&told).last(), Some(&Stage::Verified));
    let node = cluster.api.object("/api/v1/nodes/w1").unwrap();
    assert_eq!((&node["spec"]["podCIDR"], node["metadata"]["name"].as_str()), (&"10.244.0.0/24".into(), Some(NODE)));
    // What was only for the join is gone: the token, the drop-in, the unit, the sandbox.
    for path in [CONFIG, BOOTSTRAP_CONF, "/run/systemd/system/kubelet.service.d/90-carrick-join.conf"] {
        assert_eq!(machine.text(path), None, "{path}");
    }
    assert_eq!(machine.mode("/run/carrick"), None, "the directory that was made for the token's file");
    assert_eq!((worker.kubeadm_runs(), worker.sandboxes(), worker.config_modes()), (1, 0, Some((0o600, 0o700))));
    assert!(machine.changes().iter().all(|change| !change.contains("0123456789abcdef")), "{:?}", machine.changes());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_has_joined_is_verified_and_left_alone() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&ended, &told);
    let (before, changes) = (machine.all_but("/never"), machine.changes().len());
    let (ended, told) = joined(&machine, options(&cluster)).await;
    assert!(matches!(ended.outcome, JoinOutcome::Joined { already: true, .. }), "{:#?}\n{told:#?}", ended.outcome);
    assert_eq!(machine.all_but("/never"), before);
    assert_eq!(machine.changes().split_off(changes), [""; 0]);
    assert_eq!((worker.kubeadm_runs(), worker.sandboxes(), ended.record), (1, 0, None));
}

fn says(told: &[JoinProgress], words: &str) -> bool {
    told.iter().any(|it| matches!(it, JoinProgress::Says(says) if says.contains(words)))
}

/// The name that a host has by now says nothing of the node it is.
#[tokio::test(start_paused = true)]
async fn a_node_whose_host_was_renamed_is_verified_and_left_alone() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let (first, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&first, &told);
    machine.meddle("/proc/sys/kernel/hostname", "w1-dhcp\n");
    let before = (files(&machine), worker.kubelet_starts());
    let (again, told) = joined(&machine, options(&cluster)).await;
    assert!(matches!(again.outcome, JoinOutcome::Joined { already: true, .. }), "{:#?}\n{told:#?}", again.outcome);
    assert!(says(&told, "has joined already, as w1: verifying it. Its host name is w1-dhcp now"), "{told:#?}");
    assert_eq!((files(&machine), worker.kubelet_starts()), before);
}

/// With its certificate a machine is in the cluster, also where kubeadm stumbles right behind it.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_has_its_certificate_is_not_cleaned_up_after_kubeadm() {
    let cluster = cluster();
    let words = "error execution phase kubelet-start: error writing CRISocket for this node: timed out";
    let (machine, worker) = Worker::start(&cluster, [Kubeadm::FailsLate(words)]);
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&ended, &told);
    assert!(says(&told, "the kubelet has its certificate by now"), "{told:#?}");
    assert_eq!((worker.kubeadm_runs(), worker.kubelet_starts()), (1, 1), "{told:#?}");
    assert_eq!((machine.text(DROP_IN), machine.text(BOOTSTRAP_CONF)), (None, None));
}

/// While a cluster's CA is rotated it shows two: the pin may be of either, and either may have signed.
#[tokio::test(start_paused = true)]
async fn any_ca_that_the_cluster_shows_is_the_clusters() {
    for pinned_old in [true, false] {
        let (cluster, other) = (cluster(), Authority::new().unwrap());
        let cas = [other.pem(), cluster.authority.pem()];
        cluster.show_cas(&cas.concat());
        let pins = discovery::pins(cas[usize::from(pinned_old)]).unwrap();
        let asked = || {
            let options = options(&cluster);
            let pins = pins.iter().map(|pin| pin.parse().unwrap()).collect();
            JoinOptions { request: Request { pins, ..options.request }, ..options }
        };
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        let (ended, told) = joined(&machine, asked()).await;
        assert_joined(&ended, &told);
        let (again, told) = joined(&machine, asked()).await;
        assert!(matches!(again.outcome, JoinOutcome::Joined { already: true, .. }), "{:#?}\n{told:#?}", again.outcome);
        assert_eq!(worker.kubeadm_runs(), 1);
    }
}

/// The Node of this name, of a machine with the same UUID and another machine-id.
fn of_the_same_uuid(cluster: &MemoryCluster, ready: &str) {
    renew(cluster, "2026-11-16T11:59:55.000000Z");
    cluster.api.put(&json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "reason": "x"}],
            "nodeInfo": {"machineID": "f".repeat(32), "systemUUID": SYSTEM_UUID.to_uppercase()},
        },
    }));
}

fn renew(cluster: &MemoryCluster, at: &str) {
    cluster.api.put(&json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": NODE, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": at},
    }));
}

/// Same UUID, another machine-id: set up anew, or one of two. What is heard of the other's kubelet tells.
#[tokio::test(start_paused = true)]
async fn a_machine_with_the_uuid_of_its_node_is_set_up_anew_or_one_of_two() {
    let cluster = cluster();
    of_the_same_uuid(&cluster, "Unknown");
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&ended, &told);
    assert!(says(&told, "no kubelet keeps it alive: this machine was set up anew"), "{told:#?}");
    for (with_lease, ready, within) in
        [(false, "True", 80), (false, "False", 80), (true, "True", 20), (true, "False", 20)]
    {
        let cluster = self::cluster();
        of_the_same_uuid(&cluster, ready);
        let (machine, worker) = Worker::start(&cluster, []);
        let (admin, begun) = (admin(&cluster, &machine), Instant::now());
        let asked = if with_lease { with_admin(&cluster, &admin, true) } else { options(&cluster) };
        let alive = |it: &JoinProgress| {
            if let JoinProgress::Waits { stage: Stage::Blocked, elapsed, .. } = it
                && elapsed.as_secs() == 8
            {
                renew(&cluster, "2026-11-16T12:00:05.000000Z");
            }
        };
        let (ended, told) = joined_and(&machine, asked, alive).await;
        let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
        let told = failure.causes.iter().map(|cause| (cause.id.as_str(), cause.says.contains("with the same UUID")));
        assert_eq!(told.collect::<Vec<_>>(), [("api.node-name", true)], "{failure:#?}");
        assert!(begun.elapsed() < Duration::from_secs(within), "{with_lease} {ready}: {:?}", begun.elapsed());
        assert_eq!((worker.kubeadm_runs(), machine.text(DROP_IN)), (0, None));
    }
}

/// What is made in the cluster is dated by it: where the clocks are apart nothing is.
#[tokio::test(start_paused = true)]
async fn no_token_is_made_for_a_machine_whose_clock_is_wrong() {
    for minutes in [-60, 60] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.set_clock_ahead(SignedDuration::from_mins(minutes));
        let admin = admin(&cluster, &machine);
        let (ended, told) = joined(&machine, with_admin(&cluster, &admin, false)).await;
        let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
        assert!(failure.causes.iter().any(|cause| cause.id == "time.skew"), "{failure:#?}");
        assert_eq!((cluster.api.count("create secrets"), worker.kubeadm_runs()), (0, 0), "{minutes} min");
    }
}

/// That all was put back is said of a unit that was looked at.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_does_not_come_back_is_told() {
    let cluster = undecided();
    deny(&cluster);
    let (machine, worker) = Worker::start(&cluster, []);
    worker.start_unconfigured_kubelet();
    let (ended, told) = joined_and(&machine, options(&cluster), |it| {
        if matches!(it, JoinProgress::Waits { stage: Stage::KubeletUp, .. }) {
            worker.never_start_kubelet();
        }
    })
    .await;
    assert!(matches!(ended.outcome, JoinOutcome::Failed(_)), "{:#?}", ended.outcome);
    assert!(ended.left.stuck, "{told:#?}");
    assert!(says(&told, "kubelet.service is stopped, enabled; it was being started, enabled"), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_tried_again() {
    const REFUSED: &str = "error execution phase preflight: couldn't validate the identity of the API Server: failed to request the cluster-info ConfigMap: Get \"https://10.0.0.11:6443/api/v1/namespaces/kube-public/configmaps/cluster-info?timeout=10s\": dial tcp 10.0.0.11:6443: connect: connection refused";
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, [Kubeadm::Fails(REFUSED)]);
    worker.connect_network("10.244.0.7");
    // The first look gets no answer in time; the second reaches the API server, and kubeadm does not.
    cluster.api.fail("get configmaps", Some(1), Fault::Delay(Duration::from_secs(10)));
    let (ended, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&ended, &told);
    let again: Vec<u32> = told
        .iter()
        .filter_map(|it| if let JoinProgress::Again { attempt, .. } = it { Some(*attempt) } else { None })
        .collect();
    assert_eq!((again, ended.state.attempt, worker.kubeadm_runs()), (vec![1, 2], 3, 2), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_here_and_on_the_way_is_told_in_one_run() {
    const SWAP: &str = "Filename Type Size Used Priority\n/swapfile file 2097148 0 -2\n";
    for (swap, told_ids, attempts) in [(false, &["api.tcp"][..], 3), (true, &["machine.swap", "api.tcp"], 1)] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        if swap {
            machine.meddle("/proc/swaps", SWAP);
        }
        cluster.api.fail("get configmaps", None, Fault::Refuse);
        let (ended, told) = joined(&machine, options(&cluster)).await;
        let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
        let ids: Vec<&str> = failure.causes.iter().map(|cause| cause.id.as_str()).collect();
        assert_eq!((ids.as_slice(), ended.state.attempt, worker.kubeadm_runs()), (told_ids, attempts, 0), "{told:#?}");
        assert!(failure.causes.iter().all(|cause| !cause.remedy.is_empty()), "{failure:#?}");
    }
}

/// A way for a cluster to have a token, or what tokens need, out of order; and its undoing.
struct TokenCase {
    name: &'static str,
    breaks: fn(&MemoryCluster),
    /// What is told without an admin: first what is certain, then what is possible.
    told: &'static [&'static str],
    /// What is told with one.
    by_admin: &'static [&'static str],
    mends: fn(&MemoryCluster),
}

const SIGNS_NOTHING: &str = "usage-bootstrap-signing";
const LOGS_IN_NOWHERE: &str = "usage-bootstrap-authentication";
const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const KUBELET_CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/kubelet-config";
const KUBEADM_CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";
const SECRET: &str = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef";

/// Everything but the token's own Secret is as kubeadm leaves it: a new one mends it.
fn with_new_token(cluster: &MemoryCluster) {
    cluster.api.take(SECRET);
    cluster.token(TOKEN);
}

const TOKEN_CASES: &[TokenCase] = &[
    TokenCase {
        name: "unknown",
        breaks: |_| {},
        told: &["api.token", "api.token-expired", "api.token-unknown"],
        by_admin: &["api.token-unknown"],
        mends: with_new_token,
    },
    TokenCase {
        name: "expired, and not yet cleaned away",
        breaks: |cluster| cluster.token_with(TOKEN, &json!({"expiration": "2026-11-16T11:00:00Z"})),
        told: &["api.token", "api.token-expired", "api.token-unknown"],
        by_admin: &["api.token-expired"],
        mends: with_new_token,
    },
    TokenCase {
        name: "another secret",
        breaks: |cluster| cluster.token("abcdef.zzzzzzzzzzzzzzzz"),
        told: &["api.token"],
        by_admin: &["api.token"],
        mends: with_new_token,
    },
    TokenCase {
        name: "without signing",
        breaks: |cluster| cluster.token_with(TOKEN, &json!({SIGNS_NOTHING: "false"})),
        told: &["api.token", "api.token-signing", "api.token-unsigned"],
        by_admin: &["api.token-signing"],
        mends: with_new_token,
    },
    TokenCase {
        name: "without authentication",
        breaks: |cluster| cluster.token_with(TOKEN, &json!({LOGS_IN_NOWHERE: "false"})),
        told: &["api.auth", "api.token-authentication", "api.token-expired", "api.token-unknown"],
        by_admin: &["api.token-authentication"],
        mends: with_new_token,
    },
    TokenCase {
        name: "without the group",
        breaks: |cluster| cluster.token_with(TOKEN, &json!({"auth-extra-groups": "system:bootstrappers:other"})),
        told: &["api.token-group"],
        by_admin: &["api.token-group"],
        mends: with_new_token,
    },
    TokenCase {
        name: "no cluster-info",
        breaks: |cluster| {
            cluster.token(TOKEN);
            cluster.api.take(CLUSTER_INFO);
        },
        told: &["api.cluster-info"],
        by_admin: &["api.cluster-info"],
        mends: |cluster| cluster.configure(),
    },
    TokenCase {
        name: "nobody may read cluster-info",
        breaks: |cluster| {
            cluster.token(TOKEN);
            cluster.api.unbind("kubeadm:bootstrap-signer-clusterinfo");
        },
        told: &["api.cluster-info-role"],
        by_admin: &["api.cluster-info-role"],
        mends: |cluster| cluster.api.bind("kubeadm:bootstrap-signer-clusterinfo"),
    },
    TokenCase {
        name: "no kubelet-config",
        breaks: |cluster| {
            cluster.token(TOKEN);
            cluster.api.take(KUBELET_CONFIG);
        },
        told: &["api.kubelet-config"],
        by_admin: &["api.kubelet-config"],
        mends: |cluster| cluster.configure(),
    },
    TokenCase {
        name: "no kubeadm-config, and nobody may read kubelet-config",
        breaks: |cluster| {
            cluster.token(TOKEN);
            cluster.api.take(KUBEADM_CONFIG);
            cluster.api.unbind("kubeadm:kubelet-config");
        },
        told: &["api.kubeadm-config", "api.kubelet-config"],
        by_admin: &["api.kubeadm-config", "api.kubelet-config"],
        mends: |cluster| {
            cluster.configure();
            cluster.api.bind("kubeadm:kubelet-config");
        },
    },
    TokenCase {
        name: "nobody may get Nodes",
        breaks: |cluster| {
            cluster.token(TOKEN);
            cluster.api.unbind("kubeadm:get-nodes");
        },
        told: &["api.get-node"],
        by_admin: &["api.get-node"],
        mends: |cluster| cluster.api.bind("kubeadm:get-nodes"),
    },
    TokenCase {
        name: "nobody may ask for a certificate",
        breaks: |cluster| {
            cluster.token(TOKEN);
            cluster.api.unbind("kubeadm:kubelet-bootstrap");
        },
        told: &["api.certificate-requests"],
        by_admin: &["api.certificate-requests"],
        mends: |cluster| cluster.api.bind("kubeadm:kubelet-bootstrap"),
    },
];

fn certain_and_possible(failure: &JoinFailure) -> Vec<&str> {
    let (certain, mut possible): (Vec<_>, Vec<_>) =
        failure.causes.iter().partition(|cause| cause.confidence > Confidence::Possible);
    possible.sort_by_key(|cause| &cause.id);
    certain.into_iter().chain(possible).map(|cause| cause.id.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_token_is_told_apart_and_mended() {
    for TokenCase { name, breaks, told: expected, by_admin, mends } in TOKEN_CASES {
        let cluster = MemoryCluster::start(BEGAN.parse().unwrap()).unwrap();
        breaks(&cluster);
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        let admin = admin(&cluster, &machine);
        for (admin, expected) in [(None, expected), (Some(&admin), by_admin)] {
            let (ended, told) = joined(&machine, JoinOptions { admin, ..options(&cluster) }).await;
            let JoinOutcome::Failed(failure) = &ended.outcome else {
                panic!("{name}: {:#?}\n{told:#?}", ended.outcome)
            };
            assert_eq!(certain_and_possible(failure), *expected, "{name}: {failure:#?}");
            assert_eq!(worker.kubeadm_runs(), 0, "{name}");
            for cause in &failure.causes {
                let remedy = cause.remedy.join("\n");
                assert!(!remedy.is_empty() && !remedy.contains('{') || remedy.contains("{.data"), "{name}: {remedy}");
            }
        }
        mends(&cluster);
        let (ended, told) = joined(&machine, options(&cluster)).await;
        assert_joined(&ended, &told);
    }
}

/// An admin's own join knows as well: it makes the token, and waits for the signature.
#[tokio::test(start_paused = true)]
async fn that_nobody_signs_is_told_as_such() {
    let cluster = MemoryCluster::without_controllers(BEGAN.parse().unwrap()).unwrap();
    cluster.token(TOKEN);
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let admin = admin(&cluster, &machine);
    sleep(Duration::from_mins(1)).await;
    let first = |ended: &JoinReport| match &ended.outcome {
        JoinOutcome::Failed(failure) => certain_and_possible(failure).join(" "),
        other => panic!("{other:#?}"),
    };
    let (alone, _) = joined(&machine, options(&cluster)).await;
    assert_eq!(first(&alone), "api.token api.token-signing api.token-unsigned");
    assert_eq!(alone.state.attempt, 3, "the token is alive: its signature may come");
    let (with_token, _) = joined(&machine, JoinOptions { admin: Some(&admin), ..options(&cluster) }).await;
    assert_eq!(first(&with_token), "api.token-unsigned");
    let (with_admin, _) = joined(&machine, with_admin(&cluster, &admin, false)).await;
    assert_eq!(first(&with_admin), "api.token-unsigned");
    assert_eq!(worker.kubeadm_runs(), 0);
}

/// kubeadm goes on with the server that cluster-info names.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_names_another_address_is_told_before_kubeadm_runs() {
    let cluster = cluster();
    cluster.name_server("https://10.9.9.9:6443");
    let (machine, worker) = Worker::start(&cluster, []);
    let (ended, told) = joined(&machine, options(&cluster)).await;
    let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    assert_eq!((certain_and_possible(failure), worker.kubeadm_runs()), (vec!["api.advertised"], 0), "{failure:#?}");
    assert!(failure.causes[0].says.contains("10.9.9.9:6443"), "{failure:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_join_that_failed_late_is_continued_by_the_next() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    let impatient = JoinPolicy { join_timeout: 30, ..JoinPolicy::default() };
    let (ended, told) = joined(&machine, JoinOptions { policy: impatient, ..options(&cluster) }).await;
    let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    assert!(failure.stage >= Stage::Registered, "{failure:#?}");
    // It is in the cluster: it stays there, and what was only for the join is gone.
    assert!(machine.text(KUBELET_CONF).is_some());
    for path in [CONFIG, BOOTSTRAP_CONF, "/run/systemd/system/kubelet.service.d/90-carrick-join.conf"] {
        assert_eq!(machine.text(path), None, "{path}");
    }
    let uid = cluster.api.object("/api/v1/nodes/w1").unwrap()["metadata"]["uid"].clone();
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&ended, &told);
    assert_eq!(cluster.api.object("/api/v1/nodes/w1").unwrap()["metadata"]["uid"], uid);
    assert_eq!((worker.kubeadm_runs(), worker.sandboxes()), (1, 0));
}

/// What the API server says of a Node that is Ready and takes no pods, or cannot be reached.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_ready_and_runs_no_pods_is_not_joined() {
    type Change = fn(&mut serde_json::Value, &Worker);
    let pressed: Change = |node, _| {
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "MemoryPressure", "status": "True", "reason": "KubeletHasInsufficientMemory"}));
    };
    let elsewhere: Change = |node, worker| {
        node["status"]["addresses"][0]["address"] = json!("10.0.0.99");
        worker.set_node_ip("10.0.0.99");
    };
    for (change, cause, says) in [
        (pressed, "node.memory-pressure", "node w1 is short of memory and takes no pods"),
        (elsewhere, "verify.node-address", "node w1 has the InternalIP 10.0.0.99, which this machine has not"),
    ] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        let (mut changed, mut since) = (false, Instant::now());
        let (ended, told) = joined_and(&machine, options(&cluster), |it| {
            if matches!(it, JoinProgress::Reached { stage, .. } if *stage >= Stage::Registered) && !changed {
                (changed, since) = (true, Instant::now());
                let mut node = cluster.api.object("/api/v1/nodes/w1").unwrap();
                change(&mut node, &worker);
                cluster.api.put(&node);
            }
        })
        .await;
        let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{cause}: {:#?}\n{told:#?}", ended.outcome) };
        let took = since.elapsed().as_secs();
        assert!((120..130).contains(&took), "{cause}: {took} s");
        assert_eq!((failure.stage, failure.causes[0].id.as_str()), (Stage::NetworkReady, cause), "{failure:#?}");
        assert!(failure.says.starts_with(says), "{failure:#?}");
        // Told long before, with what to do in the end; the machine stays in the cluster.
        assert!(told.iter().any(|it| matches!(it, JoinProgress::Says(_))), "{told:#?}");
        assert!(!failure.causes[0].remedy.is_empty() && machine.text(KUBELET_CONF).is_some(), "{failure:#?}");
        assert_eq!((machine.text(CONFIG), worker.sandboxes()), (None, 0));
    }
}

/// The node is Ready, and live diagnosis knows better.
#[tokio::test(start_paused = true)]
async fn a_cause_that_keeps_pods_from_others_ends_a_join_unless_it_is_ignored() {
    const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
    for ignored in [&[][..], &["kernel.ip-forward"]] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        let ignore = Ignore::of(ignored.iter().copied()).unwrap();
        let mut since = None;
        let (ended, told) = joined_and(&machine, JoinOptions { ignore, ..options(&cluster) }, |it| {
            if matches!(it, JoinProgress::Reached { stage, .. } if *stage >= Stage::Registered) && since.is_none() {
                since = Some(Instant::now());
                machine.meddle(FORWARD, "0\n");
            }
        })
        .await;
        if ignored.is_empty() {
            let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
            assert_eq!((failure.stage, failure.causes[0].id.as_str()), (Stage::NetworkReady, "kernel.ip-forward"));
            assert!(!failure.overdue && !failure.causes[0].remedy.is_empty(), "{failure:#?}");
            assert!(since.unwrap().elapsed() < Duration::from_secs(15), "{told:#?}");
            assert!(machine.text(KUBELET_CONF).is_some(), "it stays in the cluster");
            // What was said to do is done: the next join verifies it.
            machine.meddle(FORWARD, "1\n");
            let (ended, told) = joined(&machine, options(&cluster)).await;
            assert!(
                matches!(ended.outcome, JoinOutcome::Joined { already: true, .. }),
                "{:#?}\n{told:#?}",
                ended.outcome
            );
        } else {
            assert_joined(&ended, &told);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn kube_proxys_pod_is_waited_for_where_the_node_has_one() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    cluster.api.put(&kube_proxy("Pending", "False", &json!({"waiting": {"reason": "ErrImagePull", "message": "EOF"}})));
    let mut since = None;
    let (ended, told) = joined_and(&machine, options(&cluster), |it| {
        if !matches!(it, JoinProgress::Waits { stage: Stage::NetworkReady, .. }) {
            return;
        }
        if since.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(20) {
            cluster.api.put(&kube_proxy("Running", "True", &json!({"running": {}})));
        }
    })
    .await;
    assert_joined(&ended, &told);
    let says = "the image of kube-system/kube-proxy-x cannot be pulled: ErrImagePull";
    assert_eq!(told.iter().filter(|it| **it == JoinProgress::Says(says.to_owned())).count(), 1, "{told:#?}");
    assert!(since.unwrap().elapsed() < Duration::from_secs(22) && ended.state.troubles.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_join_that_failed_early_puts_back_what_it_changed() {
    // What is in the kubelet's directories before a join is somebody's, whatever it is called.
    const THEIRS: [&str; 4] = [
        "/var/lib/kubelet/pki/kubelet.key",
        "/var/lib/kubelet/device-plugins/nvidia.sock",
        "/var/lib/kubelet/pods/a/etc-hosts",
        "/var/lib/kubelet/cpu_manager_state",
    ];
    for (theirs, starts) in [(&[][..], false), (&[][..], true), (&THEIRS[..], true)] {
        let cluster = undecided();
        deny(&cluster);
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        for path in theirs {
            machine.meddle(path, "theirs");
        }
        if starts {
            worker.start_unconfigured_kubelet();
        }
        let before = (files(&machine), worker.kubelet_unit());
        let (ended, told) = joined(&machine, options(&cluster)).await;
        let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
        assert!(failure.stage < Stage::CertificateIssued, "{failure:#?}");
        assert!(failure.causes.iter().any(|cause| cause.says.contains("not this one")), "{failure:#?}");
        assert_put_back(&machine, worker.kubelet_unit(), &before, &format!("{theirs:?}, {starts}: {told:#?}"));
        assert_eq!((worker.kubeadm_runs(), ended.left.stuck), (1, false));
    }
}

/// A static pod that the kubelet of the attempt has started may still run on what is there.
#[tokio::test(start_paused = true)]
async fn what_a_pod_may_run_on_stays_and_is_told() {
    let cluster = undecided();
    let (machine, _) = Worker::start(&cluster, []);
    let mut denied = false;
    let (ended, told) = joined_and(&machine, options(&cluster), |it| {
        if waits_for_its_certificate(it) && !denied {
            machine.meddle("/var/lib/kubelet/pods/a/etc-hosts", "127.0.0.1 localhost");
            deny(&cluster);
            denied = true;
        }
    })
    .await;
    assert!(ended.left.stuck && machine.text("/var/lib/kubelet/pods/a/etc-hosts").is_some());
    let says = |it: &JoinProgress| matches!(it, JoinProgress::Says(says) if says.contains("/var/lib/kubelet/pods is not empty"));
    assert!(told.iter().any(says), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_admin_needs_no_token_and_the_one_that_is_made_does_not_stay() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let admin = admin(&cluster, &machine);
    let (ended, told) = joined(&machine, with_admin(&cluster, &admin, false)).await;
    assert_joined(&ended, &told);
    let made = cluster.api.sent("create secrets");
    let [secret] = made.as_slice() else { panic!("{} tokens were made", made.len()) };
    let expires: Timestamp = secret["stringData"]["expiration"].as_str().unwrap().parse().unwrap();
    let began: Timestamp = BEGAN.parse().unwrap();
    assert!(expires.duration_since(began) <= SignedDuration::from_hours(1), "it is good until {expires}");
    let place = format!("/api/v1/namespaces/kube-system/secrets/{}", secret["metadata"]["name"].as_str().unwrap());
    assert_eq!(cluster.api.object(&place), None, "it was revoked");
}

/// The agent of a pod network whose plugin serves nobody but Pods of the cluster.
fn deploy_calico(cluster: &MemoryCluster, ready: &str) {
    cluster.api.put(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "calico-node-x", "namespace": "kube-system",
            "ownerReferences": [{"kind": "DaemonSet", "name": "calico-node", "apiVersion": "apps/v1", "uid": "u"}],
        },
        "spec": {"nodeName": NODE, "hostNetwork": true, "containers": [{"name": "a", "image": "a"}]},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"restartCount": 0, "state": {"running": {"startedAt": "2026-11-16T12:00:01Z"}}}],
        },
    }));
}

/// The throw-away Pods that were asked for, as they are now.
fn trial_pods(cluster: &MemoryCluster) -> Vec<Option<serde_json::Value>> {
    let made = cluster.api.sent("create pods");
    let place = |pod: &serde_json::Value| {
        format!("/api/v1/namespaces/default/pods/{}", pod["metadata"]["name"].as_str().unwrap())
    };
    made.iter().map(|pod| cluster.api.object(&place(pod))).collect()
}

/// The kubelet gives every one of them an address.
fn address_pods(cluster: &MemoryCluster) {
    for mut pod in trial_pods(cluster).into_iter().flatten() {
        pod["status"] = json!({"phase": "Running", "podIP": "10.9.0.7"});
        cluster.api.put(&pod);
    }
}

/// All of them are gone, or about to be.
fn are_going(pods: &[Option<serde_json::Value>]) -> bool {
    pods.iter().flatten().all(|pod| pod["metadata"]["deletionTimestamp"].is_string())
}

#[tokio::test(start_paused = true)]
async fn a_network_that_serves_only_pods_is_not_proven_without_one() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    deploy_calico(&cluster, "True");
    let (ended, told) = joined(&machine, options(&cluster)).await;
    let JoinOutcome::Unproven { says } = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    assert!(says.contains("serves only Pods"), "{says}");
    // It is in the cluster, and stays there; what was only for the join is gone.
    assert!(machine.text(KUBELET_CONF).is_some() && cluster.api.object("/api/v1/nodes/w1").is_some());
    for path in [CONFIG, BOOTSTRAP_CONF, DROP_IN] {
        assert_eq!(machine.text(path), None, "{path}");
    }
    assert_eq!((worker.sandboxes(), cluster.api.count("create pods")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_admin_proves_it_with_a_throw_away_pod() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    deploy_calico(&cluster, "True");
    let admin = admin(&cluster, &machine);
    let (ended, told) = joined_and(&machine, with_admin(&cluster, &admin, false), |_| address_pods(&cluster)).await;
    assert_joined(&ended, &told);
    let proven = ended.state.seen.sandbox.as_ref().unwrap();
    let made = cluster.api.sent("create pods");
    let [pod] = made.as_slice() else { panic!("{} were made", made.len()) };
    assert_eq!(proven.pod, Some(format!("default/{}", pod["metadata"]["name"].as_str().unwrap())));
    assert_eq!((&pod["spec"]["nodeName"], &pod["spec"]["automountServiceAccountToken"]), (&NODE.into(), &false.into()));
    assert_eq!(pod["spec"]["containers"][0]["image"], "registry.k8s.io/pause:3.10.1", "the one that is on the node");
    assert!(are_going(&trial_pods(&cluster)), "{:?}", trial_pods(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_cluster_does_not_take_is_no_failure() {
    // A policy says no; a webhook that fails says nothing, and is asked until the time is over.
    for (status, expected) in [(403, "did not take a throw-away Pod"), (500, "answered 500")] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        deploy_calico(&cluster, "True");
        cluster.api.fail("create pods", None, Fault::Status(status));
        let admin = admin(&cluster, &machine);
        let (ended, told) = joined(&machine, with_admin(&cluster, &admin, false)).await;
        let JoinOutcome::Unproven { says } = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
        assert!(says.contains(expected) && says.contains(&status.to_string()), "{says}");
        assert!(machine.text(KUBELET_CONF).is_some(), "it stays in the cluster");
    }
}

/// A pod of somebody's on the node, with an address or without.
fn put_pod(cluster: &MemoryCluster, made: &str, status: &serde_json::Value) {
    cluster.api.put(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "web", "creationTimestamp": made},
        "spec": {"nodeName": NODE, "containers": [{"name": "a", "image": "a"}]},
        "status": status,
    }));
}

/// It waits for a Secret that is not there, and for ever: whether the network would serve it is not known.
#[tokio::test(start_paused = true)]
async fn a_pod_that_hangs_is_not_waited_for_to_the_end() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    deploy_calico(&cluster, "True");
    put_pod(&cluster, "2026-11-16T11:00:00Z", &json!({"phase": "Pending"}));
    let begun = Instant::now();
    let (ended, told) = joined(&machine, options(&cluster)).await;
    let JoinOutcome::Unproven { says } = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    assert!(says.contains("serves only Pods") && begun.elapsed() < Duration::from_mins(1), "{says}");
}

/// A network whose plugin is in no list may serve nobody but Pods of the cluster: that it refuses another is no failure.
#[tokio::test(start_paused = true)]
async fn a_refusal_counts_where_the_plugins_are_known_to_serve_sandboxes() {
    const OVN: &str =
        r#"{"name":"ovn-kubernetes","cniVersion":"0.4.0","type":"ovn-k8s-cni-overlay","ipam":{},"dns":{}}"#;
    for (file, conf, fails) in [("10-flannel.conflist", None, true), ("10-ovn-kubernetes.conf", Some(OVN), false)] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        if let Some(conf) = conf {
            machine.meddle_remove("/etc/cni/net.d/10-flannel.conflist");
            machine.meddle(&format!("/etc/cni/net.d/{file}"), conf);
        }
        worker.refuse_sandboxes();
        let (ended, told) = joined(&machine, options(&cluster)).await;
        match &ended.outcome {
            JoinOutcome::Failed(failure) if fails => assert!(failure.says.contains("no pod can start"), "{failure:#?}"),
            JoinOutcome::Unproven { says } if !fails => assert!(says.contains("refused a sandbox"), "{says}"),
            outcome => panic!("{file}: {outcome:#?}\n{told:#?}"),
        }
    }
}

/// A pod that is younger than the agent stands in for ours, and is the one that others have to answer.
#[tokio::test(start_paused = true)]
async fn peers_are_dialled_from_the_pod_that_proves_the_network() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    deploy_calico(&cluster, "True");
    put_peer(&cluster);
    worker.lose_packets_of_pods(("10.244.9.2", 53));
    cluster.api.fail("create pods", None, Fault::Status(403));
    let admin = admin(&cluster, &machine);
    let mut made = false;
    let (ended, told) = joined_and(&machine, with_admin(&cluster, &admin, false), |it| {
        // Later than the second in which the agent was started.
        let later = |elapsed: &Duration| *elapsed >= Duration::from_secs(2);
        let is_due = matches!(it, JoinProgress::Waits { stage: Stage::NetworkReady, elapsed, .. } if later(elapsed));
        if is_due && !std::mem::replace(&mut made, true) {
            put_pod(&cluster, "2026-11-16T12:00:05Z", &json!({"phase": "Running", "podIP": "10.9.0.7"}));
            let pod = cluster.api.object("/api/v1/namespaces/default/pods/web").unwrap();
            worker.run_sandbox(pod["metadata"]["uid"].as_str().unwrap());
        }
    })
    .await;
    assert_joined(&ended, &told);
    let dialled = ended.state.seen.peers.as_ref().unwrap();
    assert!(dialled.is_unanswered() && dialled.reached_by_machine, "{dialled:#?}");
    assert!(dialled.peers.iter().all(|peer| peer.from == DialledFrom::Pod), "{dialled:#?}");
}

/// The cluster's DNS on another node that is Ready.
fn put_peer(cluster: &MemoryCluster) {
    cluster.api.put(&json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "cp1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }));
    cluster.api.put(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "coredns-1", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
        "spec": {"nodeName": "cp1", "containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 53, "protocol": "TCP"}]}]},
        "status": {"phase": "Running", "podIP": "10.244.9.2", "conditions": [{"type": "Ready", "status": "True"}]},
    }));
}

/// Its pod is Ready as soon as it runs.
#[tokio::test(start_paused = true)]
async fn a_kube_proxy_that_writes_no_rules_is_waited_for() {
    const BEHIND: &str = "HTTP/1.0 503 Service Unavailable\r\n\r\n{\"lastUpdated\": \"2026-11-16 12:00:00 +0000 UTC\"}";
    const WELL: &str = "HTTP/1.0 200 OK\r\n\r\n{\"lastUpdated\": \"2026-11-16 12:00:30 +0000 UTC\"}";
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    worker.answer_as_kube_proxy(BEHIND);
    cluster.api.put(&kube_proxy("Running", "True", &json!({"running": {}})));
    let mut since = None;
    let (ended, told) = joined_and(&machine, options(&cluster), |it| {
        let waits = matches!(it, JoinProgress::Waits { stage: Stage::NetworkReady, .. });
        if waits && since.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(20) {
            worker.answer_as_kube_proxy(WELL);
        }
    })
    .await;
    assert_joined(&ended, &told);
    assert!(since.is_some_and(|since| since.elapsed() > Duration::from_secs(20)), "{told:#?}");
    assert!(says(&told, "runs and does not write its rules"), "{told:#?}");
}

fn kube_proxy(phase: &str, ready: &str, state: &serde_json::Value) -> serde_json::Value {
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "kube-proxy", "uid": "1"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "kube-proxy-x", "namespace": "kube-system", "ownerReferences": [set]},
        "spec": {"nodeName": NODE, "hostNetwork": true, "containers": [{"name": "kube-proxy", "image": "x"}]},
        "status": {
            "phase": phase, "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "kube-proxy", "restartCount": 0, "state": state}],
        },
    })
}

/// A policy may let a kubelet make its lease, and not renew it: the Node is Ready for most of a minute.
#[tokio::test(start_paused = true)]
async fn a_lease_that_may_not_be_renewed_is_told() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    cluster.api.fail("update leases.coordination.k8s.io", None, Fault::Status(500));
    let (ended, told) = joined(&machine, options(&cluster)).await;
    let asked: Vec<String> = cluster.api.asked().into_iter().filter(|it| it.contains("leases")).collect();
    let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}\n{asked:#?}", ended.outcome) };
    assert_eq!(failure.causes[0].id, "verify.lease", "{failure:#?}");
    assert!(failure.causes[0].remedy.iter().any(|fix| fix.contains("can-i update leases/w1 ")), "{failure:#?}");
}

/// Its journal was rotated away; our own record of the join tells that the Node was there.
#[tokio::test(start_paused = true)]
async fn a_node_that_a_join_of_ours_has_seen_was_deleted() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&ended, &told);
    worker.forget_journal();
    cluster.api.take("/api/v1/nodes/w1");
    let (ended, told) = joined(&machine, options(&cluster)).await;
    let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    assert_eq!(failure.causes[0].id, "node.deleted", "{failure:#?}");
}

/// What a look at a node that has joined sees of whether its kubelet starts containers.
#[tokio::test(start_paused = true)]
async fn that_a_kubelet_starts_containers_is_proven_by_one_that_it_has_started() {
    let full = json!({"waiting": {"reason": "CreateContainerError", "message": "no space"}});
    let pod = |status: &serde_json::Value| json!({"phase": "Pending", "podIP": "10.244.0.9", "containerStatuses": [{"name": "pause", "state": status}]});
    for (state, expected) in [
        (Some(json!({"running": {"startedAt": "2026-11-16T12:05:00Z"}})), Outcome::Pass),
        (Some(full), Outcome::Fail),
        (None, Outcome::Unknown),
    ] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        let (ended, told) = joined(&machine, options(&cluster)).await;
        assert_joined(&ended, &told);
        let (host, admin): (Arc<dyn Host>, _) = (machine.clone(), admin(&cluster, &machine));
        let own = MachineIdentity { uuid: Some(SYSTEM_UUID.to_owned()), machine_id: None };
        let asker = state.is_some().then_some(&admin);
        let mut observer = NodeObserver::new(&host, NODE.to_owned(), own, asker);
        let (library, ignore) = (Library::built_in().unwrap(), Ignore::default());
        let diagnosis = LiveDiagnosis { library: &library, ignore: &ignore, time_box: Duration::from_secs(10) };
        let mut tell = |_: &str| ();
        let looking = look(&mut observer, Until::Verified, None, &diagnosis, &mut tell);
        let kubelet = async {
            loop {
                for mut made in trial_pods(&cluster).into_iter().flatten() {
                    made["status"] = pod(state.as_ref().unwrap_or(&serde_json::Value::Null));
                    cluster.api.put(&made);
                }
                sleep(Duration::from_secs(1)).await;
            }
        };
        let seen = tokio::select! {
            seen = looking => seen,
            () = kubelet => unreachable!("it goes on for ever"),
        };
        let judged = report("w1", &seen, Until::Verified);
        let finding = judged.findings.iter().find(|it| it.id == "verify.container").unwrap();
        assert_eq!(finding.verdict, expected, "{state:?}: {finding:#?}");
        let is_unproven = judged.verdict != Overall::Fail;
        assert_eq!(is_unproven, expected != Outcome::Fail, "{state:?}: {:#?}", judged.findings);
        assert!(are_going(&trial_pods(&cluster)) && worker.sandboxes() == 0, "{state:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_gets_ready_is_a_failure() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    deploy_calico(&cluster, "False");
    let (ended, told) = joined(&machine, options(&cluster)).await;
    let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    assert!(failure.overdue && failure.stage == Stage::Registered, "{failure:#?}");
    assert_eq!(failure.causes[0].id, "cni.daemon-set");
}

#[tokio::test(start_paused = true)]
async fn who_is_stopped_leaves_no_pod_behind() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    deploy_calico(&cluster, "True");
    let admin = admin(&cluster, &machine);
    let (teller, stop) = StopTeller::new();
    let (ended, told) = joined_until(stop, &machine, with_admin(&cluster, &admin, false), |_| {
        if cluster.api.count("create pods") > 0 {
            teller.tell(StopSignal::Terminate);
        }
    })
    .await;
    assert!(matches!(ended.outcome, JoinOutcome::Interrupted { .. }), "{:#?}\n{told:#?}", ended.outcome);
    assert!(!trial_pods(&cluster).is_empty() && are_going(&trial_pods(&cluster)), "{:?}", trial_pods(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_kubelet_the_api_server_does_not_reach_is_not_joined() {
    let refused = "dial tcp 10.0.0.21:10250: connect: no route to host";
    for (ignored, joins) in [(&[][..], false), (&["firewall.kubelet"][..], true)] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        cluster.api.set_kubelet(NODE, Some(refused));
        let admin = admin(&cluster, &machine);
        let ignore = Ignore::of(ignored.iter().copied()).unwrap();
        let (ended, told) = joined(&machine, JoinOptions { ignore, ..with_admin(&cluster, &admin, false) }).await;
        if joins {
            assert_joined(&ended, &told);
            continue;
        }
        let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
        assert_eq!((failure.causes[0].id.as_str(), failure.stage), ("kubelet.unreached", Stage::NetworkReady));
        assert!(failure.causes[0].seen[0].text.contains(refused), "{failure:#?}");
        assert!(machine.text(KUBELET_CONF).is_some(), "it stays in the cluster");
    }
}

/// The Node of a machine of this name that fell silent a while ago.
fn of_the_dead(cluster: &MemoryCluster) -> serde_json::Value {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": NODE, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": "2026-11-16T11:00:00.000000Z"},
    });
    cluster.api.put(&lease);
    cluster.api.put(&json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
        "status": {
            "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}],
            "nodeInfo": {"machineID": "f".repeat(32), "systemUUID": "99999999-8888-4777-8666-555555555555"},
        },
    }))
}

#[tokio::test(start_paused = true)]
async fn the_node_of_a_dead_machine_goes_as_it_was_seen() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let old = of_the_dead(&cluster)["metadata"].clone();
    let admin = admin(&cluster, &machine);
    let (ended, told) = joined(&machine, with_admin(&cluster, &admin, true)).await;
    assert_joined(&ended, &told);
    let [options] = cluster.api.sent("delete nodes").try_into().unwrap();
    assert_eq!(options["preconditions"]["uid"], old["uid"], "{options}");
    assert!(options["preconditions"]["resourceVersion"].is_string(), "{options}");
    assert_ne!(cluster.api.object("/api/v1/nodes/w1").unwrap()["metadata"]["uid"], old["uid"]);
}

/// Files of a join to another cluster, long over.
fn leave_behind(machine: &Machine) {
    machine.meddle(KUBELET_CONF, "not a kubeconfig");
    machine.meddle("/etc/kubernetes/pki/ca.crt", "not a certificate");
}

#[tokio::test(start_paused = true)]
async fn what_another_join_left_stays_where_this_one_does_not_begin() {
    for (what, refuses) in [("the API server refuses", true), ("the pause image cannot be pulled", false)] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        leave_behind(&machine);
        if refuses {
            cluster.api.fail("get configmaps", None, Fault::Refuse);
        } else {
            worker.lose_pause_image();
        }
        let before = files(&machine);
        let (ended, told) = joined(&machine, options(&cluster)).await;
        assert!(matches!(ended.outcome, JoinOutcome::Failed(_)), "{what}: {told:#?}");
        assert_eq!((files(&machine), worker.kubeadm_runs()), (before, 0), "{what}: {:?}", ended.outcome);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_hears_a_word_every_second() {
    // Slower than a word, quicker than what counts as no answer.
    const SLOW: Duration = Duration::from_millis(2500);
    for (what, slow_machine) in [("a slow machine", true), ("a slow API server", false)] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        of_the_dead(&cluster);
        if slow_machine {
            machine.slow_down(SLOW);
        } else {
            // All that a join asks but cluster-info: a path as slow as that is no path.
            for verb in ["get", "list", "create", "delete"] {
                for resource in ["nodes", "leases", "pods", "certificatesigningrequests", "secrets"] {
                    cluster.api.fail(&format!("{verb} {resource}"), None, Fault::Delay(SLOW));
                }
            }
        }
        let admin = admin(&cluster, &machine);
        // That nobody waited in silence is asserted there.
        let (ended, told) = joined(&machine, with_admin(&cluster, &admin, true)).await;
        assert!(matches!(ended.outcome, JoinOutcome::Joined { .. }), "{what}: {:#?}\n{told:#?}", ended.outcome);
    }
}

/// A systemctl, a CNI plugin, a runtime that never comes back. That somebody says a word all the time is asserted where they join.
#[tokio::test(start_paused = true)]
async fn what_hangs_ends_with_its_stage_and_says_so() {
    const RELOAD: &[&str] = &["systemctl", "daemon-reload"];
    const ALL: &[&str] = &["systemctl"];
    // From when on, what, and within how long the join has ended: the stage at hand, and what is put back after it.
    for (at, hangs, ends_within) in [
        (Stage::Begun, Hangs::Command(RELOAD), 120 + 180),
        (Stage::Begun, Hangs::Command(ALL), 3 * (60 + 120)),
        (Stage::Probed, Hangs::Command(ALL), 120 + 300),
        (Stage::Joining, Hangs::Command(ALL), 120 + 400),
        (Stage::Joining, Hangs::Runtime, 120 + 300 + 300),
        (Stage::Registered, Hangs::Plugin, 300 + 120 + 60),
        (Stage::Begun, Hangs::Runtime, 3 * 60),
    ] {
        let (cluster, what) = (cluster(), format!("{hangs:?} from {} on", at.name()));
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        let before = (files(&machine), worker.kubelet_unit());
        let hang = || match hangs {
            Hangs::Command(words) => machine.hang(words),
            Hangs::Runtime => worker.freeze_runtime(true),
            Hangs::Plugin => worker.hang_plugin(),
        };
        if at == Stage::Begun {
            hang();
        }
        let (begun, mut is_stuck) = (Instant::now(), at == Stage::Begun);
        let one = JoinPolicy { attempts: 1, ..JoinPolicy::default() };
        let (ended, told) = joined_and(&machine, JoinOptions { policy: one, ..options(&cluster) }, |it| {
            if !is_stuck && is_at(it, at) {
                hang();
                is_stuck = true;
            }
        })
        .await;
        let took = begun.elapsed();
        let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{what}: {:#?}", ended.outcome) };
        assert!(took < Duration::from_secs(ends_within), "{what}: took {took:?}: {failure:#?}");
        assert!(!failure.causes.is_empty(), "{what}: {failure:#?}");
        assert_eq!(machine.text(CONFIG), None, "{what}: the token");
        let says = |it: &JoinProgress| matches!(it, JoinProgress::Says(says) if says.contains("could be cleaned up"));
        if failure.stage >= Stage::CertificateIssued {
            assert!(machine.text(KUBELET_CONF).is_some(), "{what}: it is in the cluster");
        } else if ended.left.stuck {
            assert!(told.iter().any(says), "{what}: what is left is told: {told:#?}");
        } else {
            assert_put_back(&machine, worker.kubelet_unit(), &before, &what);
        }
        // Whatever was left: once nothing hangs any more, the next join joins.
        machine.thaw();
        worker.freeze_runtime(false);
        if !matches!(hangs, Hangs::Plugin) {
            let (again, told) = joined(&machine, options(&cluster)).await;
            assert!(matches!(again.outcome, JoinOutcome::Joined { .. }), "{what}, then: {again:#?} {told:#?}");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Hangs {
    Command(&'static [&'static str]),
    Runtime,
    Plugin,
}

/// Who says stop in the middle of a look must not cost the knowledge of whom to ask whether the kubelet has its certificate.
#[tokio::test(start_paused = true)]
async fn told_to_stop_in_the_middle_of_a_look_a_machine_with_a_certificate_stays() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    // A look takes longer than a word: the word comes while it is taken.
    machine.slow_down(Duration::from_millis(2500));
    let (teller, stop) = StopTeller::new();
    let (ended, told) = joined_until(stop, &machine, options(&cluster), |told| {
        let looks = matches!(told, JoinProgress::Waits { stage, .. } if (Stage::Joining..Stage::CertificateIssued).contains(stage));
        if looks && machine.text(KUBELET_CONF).is_some() {
            teller.tell(StopSignal::Interrupt);
        }
    })
    .await;
    let JoinOutcome::Interrupted { stays, .. } = ended.outcome else { panic!("{:#?} {told:#?}", ended.outcome) };
    assert_eq!(stays, Withdrawal::InCluster, "{told:#?}");
    assert!(machine.text(KUBELET_CONF).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_can_be_seen_is_told_within_a_second() {
    const SECOND: Duration = Duration::from_secs(1);
    let cluster = undecided();
    let (machine, _) = Worker::start(&cluster, []);
    let mut denied: Option<Instant> = None;
    let (ended, _) = joined_and(&machine, options(&cluster), |it| {
        // Right before the driver pauses: it cannot have seen this yet.
        if waits_for_its_certificate(it) && denied.is_none() {
            deny(&cluster);
            denied = Some(Instant::now());
        }
    })
    .await;
    assert!(matches!(ended.outcome, JoinOutcome::Failed(_)), "{:#?}", ended.outcome);
    let after = denied.unwrap().elapsed();
    assert!(after < SECOND, "the request was denied, and that was told {after:?} later");

    let cluster = self::cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    let (mut connected, mut after): (Option<Instant>, _) = (None, None);
    let (ended, told) = joined_and(&machine, options(&cluster), |it| match it {
        JoinProgress::Waits { stage: Stage::Registered, .. } if connected.is_none() => {
            worker.connect_network("10.244.0.7");
            connected = Some(Instant::now());
        }
        JoinProgress::Reached { stage: Stage::NetworkReady, .. } => after = connected.map(|at| at.elapsed()),
        _ => {}
    })
    .await;
    assert_joined(&ended, &told);
    assert!(after.unwrap() < SECOND, "the pod network came, and that was told {after:?} later");
}

/// When something was told for the first time, after the test began.
fn told_at(at: &mut Option<Duration>, begun: Instant, told: &JoinProgress, words: &str) {
    if matches!(told, JoinProgress::Says(says) | JoinProgress::Again { says, .. } if says.contains(words))
        && at.is_none()
    {
        *at = Some(begun.elapsed());
    }
}

const FLAG: &str = "E1116 12:00:00.0     812 run.go:72] \"command failed\" err=\"failed to parse kubelet flag: unknown flag: --bogus\"";
const MOON: &str =
    "E1116 12:00:00.0     812 run.go:72] \"command failed\" err=\"failed to run Kubelet: the moon is full\"";

/// A kubelet that ends at its first start ends the join, where its words say why; the file that carries the flag is named.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_ends_is_told_by_its_last_words() {
    for (words, id, restarts, says) in [
        (FLAG, "kubelet.removed-flags", 0, "does not know --bogus"),
        (MOON, "kubelet.restart-loop", 1, "the moon is full"),
    ] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        worker.break_kubelet(Some(words));
        machine.meddle("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--bogus\n");
        let before = (files(&machine), worker.kubelet_unit());
        let (mut began, mut told_after): (Option<Instant>, Option<Duration>) = (None, None);
        let (ended, told) = joined_and(&machine, options(&cluster), |it| {
            if is_at(it, Stage::Joining) {
                began.get_or_insert_with(Instant::now);
            }
            told_at(&mut told_after, began.unwrap_or_else(Instant::now), it, says);
        })
        .await;
        let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{words}: {:#?}\n{told:#?}", ended.outcome) };
        let cause = &failure.causes[0];
        assert_eq!((cause.id.as_str(), ended.state.attempt), (id, 1), "{failure:#?}");
        assert!(cause.says.contains(says), "{cause:#?}");
        let took = began.unwrap().elapsed();
        if restarts == 0 {
            assert!(took < Duration::from_secs(5), "told after {took:?}");
            assert!(cause.seen.iter().any(|seen| seen.source == "/etc/default/kubelet"), "{cause:#?}");
        } else {
            // Once more: then nobody doubts it.
            assert!(
                told_after.unwrap() < Duration::from_secs(5) && took < Duration::from_secs(25),
                "{told_after:?}, {took:?}"
            );
        }
        assert_put_back(&machine, worker.kubelet_unit(), &before, &format!("{told:#?}"));
        // The remedy.
        worker.break_kubelet(None);
        let (again, told) = joined(&machine, options(&cluster)).await;
        assert_joined(&again, &told);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_refused_is_told_as_refused_and_goes_on_once_it_is_not() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    worker.deny_node(Some("admission webhook \\\"nodes.example.com\\\" denied the request: not in the inventory"));
    let mut issued: Option<Instant> = None;
    let (ended, told) = joined_and(&machine, options(&cluster), |it| {
        if is_at(it, Stage::CertificateIssued) {
            issued.get_or_insert_with(Instant::now);
        }
    })
    .await;
    let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    assert_eq!((failure.causes[0].id.as_str(), failure.stage), ("node.registration-denied", Stage::CertificateIssued));
    assert!(failure.says.contains("not in the inventory"), "{failure:#?}");
    assert!(issued.unwrap().elapsed() < Duration::from_secs(5), "{:?}", issued.unwrap().elapsed());
    worker.deny_node(None);
    let (again, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&again, &told);
    assert_eq!(worker.kubeadm_runs(), 1, "it went on where it stopped");
}

/// A rule that is changed while the kubelet asks ends nothing.
#[tokio::test(start_paused = true)]
async fn a_line_that_a_later_one_clears_ends_nothing() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    worker.deny_node(Some("admission webhook \\\"x\\\" denied the request: wait"));
    let mut issued: Option<Instant> = None;
    let (ended, told) = joined_and(&machine, options(&cluster), |it| {
        if is_at(it, Stage::CertificateIssued)
            && issued.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(1)
        {
            worker.deny_node(None);
        }
    })
    .await;
    assert_joined(&ended, &told);
    assert!(
        told.iter().any(|it| matches!(it, JoinProgress::Says(says) if says.contains("refuses the Node"))),
        "{told:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_network_agent_that_ends_is_told_by_its_last_words() {
    const POD: (&str, &str) = ("kube-flannel", "kube-flannel-ds-x7k2p");
    const CIDR: &str = "E1116 12:00:00.0       1 main.go:280] Error registering network: failed to acquire lease: node \"w1\" pod cidr not assigned";
    const MOON: &str = "F1116 12:00:00.0       1 main.go:39] the moon is full";
    for (line, id, says) in
        [(CIDR, "cni.no-pod-cidr", "has no podCIDR"), (MOON, "cni.daemon-crash-loop", "the moon is full")]
    {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        let (mut ended_at, mut told_after): (Option<Instant>, Option<Duration>) = (None, None);
        let (ended, told) = joined_and(&machine, options(&cluster), |it| {
            if is_at(it, Stage::Registered) && ended_at.is_none() {
                worker.end_container(POD, "kube-flannel", 1, &["I1116 12:00:00.0       1 main.go:1] hello", line]);
                // Of somebody else's pod: nothing.
                worker.end_container(("default", "web-1"), "web", 1, &["panic: no matter"]);
                ended_at = Some(Instant::now());
            }
            told_at(&mut told_after, ended_at.unwrap_or_else(Instant::now), it, says);
        })
        .await;
        let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
        assert!(told_after.is_some_and(|after| after < Duration::from_secs(5)), "{told_after:?}: {told:#?}");
        assert_eq!(
            (failure.stage, failure.overdue, failure.causes[0].id.as_str()),
            (Stage::Registered, true, id),
            "{failure:#?}"
        );
        assert!(!told.iter().any(|it| format!("{it:?}").contains("no matter")), "{told:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_hangs_is_told_within_five_seconds_and_forgotten_when_it_goes_on() {
    for (what, says) in
        [("kubelet", "the kubelet does not answer"), ("runtime", "the container runtime does not answer")]
    {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        let freeze =
            |frozen| if what == "kubelet" { worker.freeze_kubelet(frozen) } else { worker.freeze_runtime(frozen) };
        let (mut frozen_at, mut told_after): (Option<Instant>, Option<Duration>) = (None, None);
        let (ended, told) = joined_and(&machine, options(&cluster), |it| {
            if is_at(it, Stage::Registered) && frozen_at.is_none() {
                freeze(true);
                frozen_at = Some(Instant::now());
            }
            told_at(&mut told_after, frozen_at.unwrap_or_else(Instant::now), it, says);
            if told_after.is_some() {
                freeze(false);
                worker.connect_network("10.244.0.7");
            }
        })
        .await;
        assert!(told_after.is_some_and(|after| after < Duration::from_secs(5)), "{what}: {told_after:?}: {told:#?}");
        assert_joined(&ended, &told);
    }
}

/// A kubelet that hangs to the end of its stage is the cause.
#[tokio::test(start_paused = true)]
async fn who_hangs_for_good_is_the_cause() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    let (ended, told) = joined_and(&machine, options(&cluster), |it| {
        if is_at(it, Stage::Registered) {
            worker.freeze_kubelet(true);
        }
    })
    .await;
    let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    assert_eq!(failure.causes[0].id, "kubelet.not-answering", "{failure:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_reset_by_hand_in_mid_join_is_noticed() {
    for at in [Stage::CertificateRequested, Stage::Registered] {
        let cluster = if at == Stage::Registered { cluster() } else { undecided() };
        let (machine, worker) = Worker::start(&cluster, []);
        let mut reset: Option<Instant> = None;
        let (ended, told) = joined_and(&machine, options(&cluster), |it| {
            if matches!(it, JoinProgress::Waits { stage, .. } if *stage == at) && reset.is_none() {
                worker.reset();
                reset = Some(Instant::now());
            }
        })
        .await;
        let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
        assert_eq!((failure.causes[0].id.as_str(), ended.state.attempt), ("join.reset-meanwhile", 1), "{failure:#?}");
        assert!(reset.unwrap().elapsed() < Duration::from_secs(6), "{:?}", reset.unwrap().elapsed());
    }
}

/// What a join that was killed had changed, the next one takes back where it fails; unless somebody has done so in between.
#[tokio::test(start_paused = true)]
async fn what_a_killed_join_changed_is_taken_back_once() {
    for undone in [false, true] {
        let cluster = undecided();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.start_unconfigured_kubelet();
        let (before, killed) = ((files(&machine), worker.kubelet_unit()), Notify::new());
        let kill = |it: &JoinProgress| {
            if waits_for_its_certificate(it) {
                killed.notify_one();
            }
        };
        tokio::select! {
            (ended, _) = joined_and(&machine, options(&cluster), kill) => panic!("{:#?}", ended.outcome),
            () = killed.notified() => {}
        }
        assert_ne!(files(&machine), before.0);
        if undone {
            let back = undo::plan(machine.as_ref(), None).await.unwrap();
            undo::apply(&machine.shared(), &back, &Protected::default(), &Stop::never(), &mut |_| {}).await.unwrap();
        }
        let mut denied = false;
        let (ended, told) = joined_and(&machine, options(&cluster), |it| {
            if waits_for_its_certificate(it) && !denied {
                deny(&cluster);
                denied = true;
            }
        })
        .await;
        assert!(matches!(ended.outcome, JoinOutcome::Failed(_)), "{:#?}", ended.outcome);
        assert!(!ended.left.stuck, "undone before: {undone}: {told:#?}");
        assert_put_back(&machine, worker.kubelet_unit(), &before, &format!("undone before: {undone}: {told:#?}"));
    }
}

/// A join that is killed while its kubelet waits for its certificate, and kubeadm with it: the power is cut.
async fn cut_off(cluster: &MemoryCluster, machine: &Arc<Machine>, worker: &Worker) {
    let killed = Notify::new();
    let kill = |it: &JoinProgress| {
        if waits_for_its_certificate(it) {
            killed.notify_one();
        }
    };
    tokio::select! {
        (ended, _) = joined_and(machine, options(cluster), kill) => panic!("{:#?}", ended.outcome),
        () = killed.notified() => {}
    }
    machine.run(&["systemctl", "stop", "carrick-kubeadm.service"], Duration::ZERO).await.unwrap();
    worker.stop_kubelet();
}

const REFUSES: &str = "error execution phase preflight: [preflight] Some fatal errors occurred:\n\t[ERROR NumCPU]: no";

/// One attempt that fails before its kubeadm has done anything.
async fn fails(cluster: &MemoryCluster, machine: &Arc<Machine>) -> Vec<String> {
    let once = JoinPolicy { attempts: 1, ..JoinPolicy::default() };
    let (ended, told) = joined(machine, JoinOptions { policy: once, ..options(cluster) }).await;
    assert!(matches!(ended.outcome, JoinOutcome::Failed(_)), "{told:#?}");
    let says = told.into_iter().filter_map(|it| if let JoinProgress::Says(says) = it { Some(says) } else { None });
    says.collect()
}

/// What is not proven to be of the join that was cut off stays, where the next one fails.
#[tokio::test(start_paused = true)]
async fn what_a_person_did_after_a_cut_off_join_is_theirs() {
    const DATA: &str = "/var/lib/kubelet/data";
    const CONF: &str = "/var/lib/kubelet/config.yaml";
    // What they do; what of it stays, and a word of what is told.
    type Row<'a> = (&'a str, fn(&Machine, &Worker), &'a [(&'a str, &'a str)], &'a str);
    let rows: [Row<'_>; 4] = [
        ("nothing", |_, _| {}, &[], "was cut off"),
        (
            "put a file there",
            |machine, _| machine.meddle(DATA, "theirs"),
            &[(DATA, "theirs")],
            "data is newer than that join",
        ),
        (
            "kubeadm reset and kubeadm join, which failed",
            |machine, worker| {
                worker.reset();
                machine.meddle(BOOTSTRAP_CONF, "theirs");
                machine.meddle(CONF, "theirs");
                machine.meddle(DATA, "theirs");
            },
            &[(BOOTSTRAP_CONF, "theirs"), (CONF, "theirs"), (DATA, "theirs")],
            "what they made stays: /etc/kubernetes/bootstrap-kubelet.conf, /var/lib/kubelet/config.yaml",
        ),
        (
            "a configuration that is managed",
            |machine, _| machine.meddle(CONF, "theirs"),
            &[(CONF, "theirs")],
            "somebody else has been at work since",
        ),
    ];
    for (what, by_hand, stays, says) in rows {
        let cluster = undecided();
        let (machine, worker) = Worker::start(&cluster, [Kubeadm::Joins, Kubeadm::Fails(REFUSES)]);
        let before = files(&machine);
        cut_off(&cluster, &machine, &worker).await;
        tokio::time::advance(Duration::from_mins(5)).await;
        by_hand(&machine, &worker);
        let told = fails(&cluster, &machine).await;
        assert!(told.iter().any(|it| it.contains(says)), "{what}: {told:#?}");
        for (path, text) in stays {
            assert_eq!(machine.text(path).as_deref(), Some(*text), "{what}: {path}: {told:#?}");
        }
        assert_eq!(worker.kubeadm_runs(), 2, "{what}: {told:#?}");
        if !says.contains("somebody") && !says.contains("they") {
            let mut now = files(&machine);
            now.retain(|path, _| !stays.iter().any(|(stays, _)| stays == path));
            assert_eq!(now, before, "{what}: what was ours is gone: {told:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn history_knows_joins_and_what_to_do_about_one_that_was_cut_off() {
    let told = |machine: Arc<Machine>| async move {
        let lines = joins(machine.as_ref()).await.unwrap().into_iter().map(Result::unwrap);
        lines.map(|join| (join.state, join.runs, join.next.join(", "))).collect::<Vec<_>>()
    };
    let cluster = undecided();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    assert_eq!(told(machine.clone()).await, []);
    let killed = Notify::new();
    let kill = |it: &JoinProgress| {
        if waits_for_its_certificate(it) {
            killed.notify_one();
        }
    };
    tokio::select! {
        (ended, _) = joined_and(&machine, options(&cluster), kill) => panic!("{:#?}", ended.outcome),
        () = killed.notified() => {}
    }
    let at_work = (printed::JoinEnd::AtWork, vec![1], "carrick join".to_owned());
    assert_eq!(told(machine.clone()).await, [at_work], "kubeadm runs on");
    machine.run(&["systemctl", "stop", "carrick-kubeadm.service"], Duration::ZERO).await.unwrap();
    let cut_off = (printed::JoinEnd::CutOff, vec![1], "carrick join, carrick reset".to_owned());
    assert_eq!(told(machine.clone()).await, [cut_off]);
    cluster.api.start(Controller::Approver);
    cluster.api.start(Controller::Signer(Arc::clone(&cluster.authority)));
    cluster.api.start(Controller::PodCidr);
    cluster.api.start(Controller::NodeLifecycle);
    tokio::time::advance(Duration::from_secs(2)).await;
    let (ended, progress) = joined(&machine, options(&cluster)).await;
    assert_joined(&ended, &progress);
    let went_on = (printed::JoinEnd::Superseded, vec![1], String::new());
    assert_eq!(told(machine.clone()).await, [went_on, (printed::JoinEnd::Joined, vec![1], String::new())]);
    // One that cannot be read keeps nobody from reading the others.
    machine.meddle("/var/lib/carrick/joins/7.json", "{");
    let lines = joins(machine.as_ref()).await.unwrap();
    assert_eq!(lines.iter().filter(|line| line.is_ok()).count(), 2, "{lines:?}");
    assert_eq!(lines.len(), 3);
}

/// A machine with the files of a join to another cluster, credentials and all.
fn with_credentials(machine: &Machine) -> String {
    let other = Authority::new().unwrap();
    let own = other.client("system:node:w1", &["system:nodes"]).unwrap();
    let stale = kubeconfig("https://10.0.0.99:6443", other.pem(), Some(&own));
    machine.meddle(KUBELET_CONF, &stale);
    machine.meddle("/etc/kubernetes/pki/ca.crt", other.pem());
    stale
}

#[tokio::test(start_paused = true)]
async fn no_key_stays_in_a_backup_once_the_join_is_verified() {
    for (until, stays) in [(Until::Verified, false), (Until::Registered, true)] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        let stale = with_credentials(&machine);
        let policy = JoinPolicy { until, ..JoinPolicy::default() };
        let (ended, told) = joined(&machine, JoinOptions { policy, ..options(&cluster) }).await;
        assert_joined(&ended, &told);
        let kept = |entry: &PathEntry| matches!(entry, PathEntry::File(file) if file.bytes == stale.as_bytes());
        assert_eq!(machine.all_but("/none").files.values().any(kept), stays, "{until:?}");
        let past = journal::load(machine.as_ref(), 1).await.unwrap();
        assert_eq!(past.final_steps().is_empty(), stays);
        if !stays {
            let back = undo::plan(machine.as_ref(), Some(1)).await;
            // What stands there now is of the join: nothing is put back over it.
            let refused = back.unwrap_err().to_string();
            assert!(refused.contains("/etc/kubernetes/pki/ca.crt was changed since"), "{refused}");
            let node = LiveNode::joined_at(machine.now().as_second());
            let back = undo::plan_beside(machine.as_ref(), Some(1), Some(&node)).await.unwrap();
            let final_one = format!("{KUBELET_CONF} cannot be put back any more: its backup held a key");
            assert!(back.stays.iter().any(|stays| stays.starts_with(&final_one)), "{:?}", back.stays);
            let needed: Vec<&str> = back.needed.iter().map(|needs| needs.sentence.as_str()).collect();
            assert_eq!(needed, ["put /etc/kubernetes/pki/ca.crt back as it was"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_nothing_can_be_written_down_nothing_is_begun() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    with_credentials(&machine);
    // Before it is even tried to pull an image.
    worker.lose_pause_image();
    let before = files(&machine);
    machine.fill("/var/lib/carrick");
    let (ended, told) = joined(&machine, options(&cluster)).await;
    let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{told:#?}") };
    let says = "No space left on device; every change is recorded in /var/lib/carrick before it is made";
    assert!(failure.causes.iter().any(|cause| cause.says.contains(says)), "{failure:#?}");
    assert_eq!((files(&machine), worker.kubeadm_runs()), (before, 0), "{told:#?}");
}

/// A worker that has joined.
async fn rejoining(cluster: &MemoryCluster) -> (Arc<Machine>, Arc<Worker>) {
    let (machine, worker) = Worker::start(cluster, []);
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, options(cluster)).await;
    assert_joined(&ended, &told);
    (machine, worker)
}

fn node_of(cluster: &MemoryCluster) -> serde_json::Value {
    cluster.api.object("/api/v1/nodes/w1").unwrap()
}

/// kubeadm refuses a name whose Node is Ready: an admin says of it what is true, once no kubelet renews its lease.
#[tokio::test(start_paused = true)]
async fn a_machine_that_was_reset_joins_again_though_its_node_is_still_ready() {
    let cluster = cluster();
    let (machine, worker) = rejoining(&cluster).await;
    let before = node_of(&cluster);
    assert_eq!(before["status"]["conditions"][0]["status"], "True", "{before}");
    worker.reset();
    let admin = admin(&cluster, &machine);
    let (ended, told) = joined(&machine, with_admin(&cluster, &admin, false)).await;
    assert_joined(&ended, &told);
    let patches = cluster.api.sent("patch nodes/status");
    let marked = |patch: &&serde_json::Value| patch["status"]["conditions"][0]["reason"] == "CarrickJoin";
    assert_eq!(patches.iter().filter(marked).count(), 1, "{told:#?}");
    assert_eq!(node_of(&cluster)["metadata"]["uid"], before["metadata"]["uid"], "it is the same Node");
    assert_eq!((worker.kubeadm_runs(), cluster.api.count("delete nodes")), (2, 0));
}

/// One answer that does not come costs an attempt, not the join; one that will not change ends it at once.
#[tokio::test(start_paused = true)]
async fn a_busy_api_server_does_not_end_a_join_that_has_to_mark_or_remove_a_node() {
    let slow = Fault::Delay(Duration::from_secs(10));
    for (on, fault, joins) in [
        ("patch nodes/status", Fault::TooManyRequests, true),
        ("patch nodes/status", slow, true),
        ("patch nodes/status", Fault::Status(400), false),
        ("delete nodes", Fault::TooManyRequests, true),
        ("delete nodes", slow, true),
        // It changed since it was seen: the next attempt sees it as it is.
        ("delete nodes", Fault::Conflict, true),
        ("delete nodes", Fault::Status(400), false),
    ] {
        let (cluster, removes) = (cluster(), on == "delete nodes");
        let (machine, worker) = if removes { Worker::start(&cluster, []) } else { rejoining(&cluster).await };
        if removes {
            of_the_dead(&cluster);
            worker.connect_network("10.244.0.7");
        } else {
            worker.reset();
        }
        cluster.api.fail(on, Some(1), fault);
        let admin = admin(&cluster, &machine);
        let (ended, told) = joined(&machine, with_admin(&cluster, &admin, true)).await;
        let has_joined = matches!(ended.outcome, JoinOutcome::Joined { .. });
        assert_eq!(has_joined, joins, "{on}, {fault:?}: {:#?}\n{told:#?}", ended.outcome);
        // The kubelet's own words are not about this.
        let ours = |sent: &&serde_json::Value| removes || sent["status"]["conditions"][0]["reason"] == "CarrickJoin";
        let tried = cluster.api.sent(on).iter().filter(ours).count();
        assert_eq!(tried, if joins { 2 } else { 1 }, "{on}, {fault:?}: {told:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_was_stopped_is_started_and_not_joined_again() {
    let cluster = cluster();
    let (machine, worker) = rejoining(&cluster).await;
    let before = node_of(&cluster)["metadata"]["uid"].clone();
    worker.stop_kubelet();
    let (ended, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&ended, &told);
    let started = machine.changes().iter().filter(|change| change.contains("start kubelet")).count();
    assert!(started >= 1, "{:?}", machine.changes());
    assert_eq!((worker.kubeadm_runs(), &node_of(&cluster)["metadata"]["uid"]), (1, &before));
}

/// kubeadm itself refuses a machine with such files.
#[tokio::test(start_paused = true)]
async fn what_an_earlier_join_left_is_cleared_for_this_one() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let other = Authority::new().unwrap();
    let own = other.client("system:node:w1", &["system:nodes"]).unwrap();
    let stale = kubeconfig("https://10.0.0.99:6443", other.pem(), Some(&own));
    machine.meddle(KUBELET_CONF, &stale);
    machine.meddle("/etc/kubernetes/pki/ca.crt", other.pem());
    let (ended, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&ended, &told);
    assert_eq!(worker.kubeadm_runs(), 1, "kubeadm found nothing to refuse: {told:#?}");
    assert_ne!(machine.text(KUBELET_CONF).as_deref(), Some(stale.as_str()));
    assert_eq!(machine.text("/etc/kubernetes/pki/ca.crt").as_deref(), Some(cluster.authority.pem()));
}

/// What a reset of ours has cordoned is uncordoned; what somebody else has, stays.
#[tokio::test(start_paused = true)]
async fn a_node_that_our_reset_cordoned_is_uncordoned() {
    for ours in [true, false] {
        let cluster = cluster();
        let (machine, worker) = rejoining(&cluster).await;
        worker.reset();
        let mut node = node_of(&cluster);
        node["spec"]["unschedulable"] = true.into();
        node["status"]["conditions"][0]["status"] = "False".into();
        if ours {
            node["metadata"]["annotations"] = json!({ CORDONED: "2026-11-16T12:00:00Z" });
        }
        cluster.api.put(&node);
        let (ended, told) = joined(&machine, options(&cluster)).await;
        assert_joined(&ended, &told);
        let node = node_of(&cluster);
        assert_eq!(node["spec"]["unschedulable"] == true, !ours, "{node}");
        assert_eq!(node.pointer("/metadata/annotations").and_then(|all| all.get(CORDONED)), None, "{node}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_minted_does_not_outlive_a_join_that_fails() {
    let cluster = undecided();
    deny(&cluster);
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let admin = admin(&cluster, &machine);
    let (ended, told) = joined(&machine, with_admin(&cluster, &admin, false)).await;
    assert!(matches!(ended.outcome, JoinOutcome::Failed(_)), "{told:#?}");
    let made = cluster.api.sent("create secrets");
    assert!(!made.is_empty() && worker.kubeadm_runs() == 1, "it failed before: {told:#?}");
    for secret in made {
        let name = secret["metadata"]["name"].as_str().unwrap();
        let place = format!("/api/v1/namespaces/kube-system/secrets/{name}");
        assert_eq!(cluster.api.object(&place), None, "{name} was not revoked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_api_server_is_asked_for_the_token_again() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    cluster.api.fail("create secrets", Some(1), Fault::TooManyRequests);
    let admin = admin(&cluster, &machine);
    let (ended, told) = joined(&machine, with_admin(&cluster, &admin, false)).await;
    assert_joined(&ended, &told);
    assert_eq!((ended.state.attempt, cluster.api.count("create secrets")), (1, 2), "{told:#?}");
}

/// What tells that a join is at a stage: also one that is passed within a look.
fn is_at(told: &JoinProgress, at: Stage) -> bool {
    matches!(told, JoinProgress::Reached { stage, .. } | JoinProgress::Waits { stage, .. } if *stage >= at && !stage.is_over())
}

#[tokio::test(start_paused = true)]
async fn told_to_stop_at_any_stage_it_puts_back_or_stays_in_the_cluster_and_the_next_join_joins() {
    for (signal, at) in [StopSignal::Interrupt, StopSignal::Terminate, StopSignal::Hangup]
        .into_iter()
        .flat_map(|signal| Stage::ALL.into_iter().filter(|at| *at < Stage::Verified).map(move |at| (signal, at)))
    {
        let (cluster, what) = (cluster(), format!("{} at {}", signal.name(), at.name()));
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        let before = (files(&machine), worker.kubelet_unit());
        let (teller, stop) = StopTeller::new();
        let (ended, told) = joined_until(stop, &machine, options(&cluster), |told| {
            if is_at(told, at) {
                teller.tell(signal);
            }
        })
        .await;
        let JoinOutcome::Interrupted { signal: by, stays, .. } = ended.outcome else {
            panic!("{what}: {ended:#?} {told:#?}")
        };
        assert_eq!(by, signal, "{what}");
        match stays {
            Withdrawal::PutBack => assert_put_back(&machine, worker.kubelet_unit(), &before, &what),
            Withdrawal::InCluster => {
                assert!(machine.text(KUBELET_CONF).is_some() && machine.text(BOOTSTRAP_CONF).is_none(), "{what}");
                assert_eq!((machine.text(CONFIG), machine.text(DROP_IN)), (None, None), "{what}");
            }
            Withdrawal::AtWork => assert!(signal == StopSignal::Hangup && at >= Stage::Joining, "{what}"),
        }
        let must_go_on = signal == StopSignal::Hangup && (Stage::Joining..Stage::CertificateIssued).contains(&at);
        assert!(stays == Withdrawal::AtWork || !must_go_on, "{what}: {stays:?}");
        let (again, told) = joined(&machine, options(&cluster)).await;
        assert!(matches!(again.outcome, JoinOutcome::Joined { .. }), "{what}, then: {again:#?} {told:#?}");
        assert_eq!(
            (machine.text(CONFIG), machine.text(DROP_IN), machine.text(BOOTSTRAP_CONF)),
            (None, None, None),
            "{what}"
        );
    }
}

/// `--fix` of somebody who is told to stop: at the question, or while something is changed.
struct Disturbed<'a> {
    teller: &'a StopTeller,
    signal: StopSignal,
    changed: bool,
}

impl Fixer for Disturbed<'_> {
    fn fix<'a>(&'a mut self, _: &'a Facts, _: &'a Report) -> BoxFuture<'a, Result<bool, NotFixed>> {
        self.teller.tell(self.signal);
        let says = format!("stopped by {}", self.signal.name());
        Box::pin(std::future::ready(Err(NotFixed { says, changed: self.changed, declined: false })))
    }
}

/// Who is asked whether to fix, and presses Ctrl-C, has not had a join that failed.
#[tokio::test(start_paused = true)]
async fn told_to_stop_while_it_fixes_it_is_stopped_and_says_whether_something_stays() {
    for signal in [StopSignal::Interrupt, StopSignal::Terminate, StopSignal::Hangup] {
        for (changed, remains) in [(false, WhatRemains::Untouched), (true, WhatRemains::Fixes)] {
            let what = format!("{} with changed: {changed}", signal.name());
            let cluster = cluster();
            let (machine, worker) = Worker::start(&cluster, []);
            worker.connect_network("10.244.0.7");
            let (teller, stop) = StopTeller::new();
            let asked = options(&cluster);
            let asked = JoinOptions { policy: JoinPolicy { fix: true, ..JoinPolicy::default() }, ..asked };
            let mut fixer = Disturbed { teller: &teller, signal, changed };
            let (ended, told) = joined_fixing(Some(&mut fixer), stop, &machine, asked, |_| {}).await;
            let JoinOutcome::Interrupted { signal: by, stays, .. } = ended.outcome else {
                panic!("{what}: {ended:#?} {told:#?}")
            };
            assert_eq!(by, signal, "{what}");
            assert_eq!(WhatRemains::after_stop(stays, ended.state.changed, &ended.left), remains, "{what}");
            assert_eq!(worker.kubeadm_runs(), 0, "{what}");
            let (again, told) = joined(&machine, options(&cluster)).await;
            assert!(matches!(again.outcome, JoinOutcome::Joined { .. }), "{what}, then: {again:#?} {told:#?}");
        }
    }
}

/// A signal that comes while a join fails ends what is only looked for; what was changed is put back all the same.
#[tokio::test(start_paused = true)]
async fn told_to_stop_while_it_fails_it_looks_for_no_cause_and_puts_back() {
    const REFUSED: &str = "error execution phase preflight: [preflight] Some fatal errors occurred:\n\t[ERROR Port-10250]: Port 10250 is in use\n";
    for signal in [StopSignal::Interrupt, StopSignal::Terminate, StopSignal::Hangup] {
        for (says, diagnosed) in [("the cause is looked for", false), ("what was changed is put back", true)] {
            let what = format!("{} while {says}", signal.name());
            let cluster = cluster();
            let (machine, worker) = Worker::start(&cluster, [Kubeadm::Fails(REFUSED)]);
            worker.connect_network("10.244.0.7");
            let before = (files(&machine), worker.kubelet_unit());
            let (teller, stop) = StopTeller::new();
            let (ended, told) = joined_until(stop, &machine, options(&cluster), |told| match told {
                // A look takes longer than a word, so that there is one.
                JoinProgress::Reached { stage: Stage::Joining, .. } => machine.slow_down(Duration::from_millis(1500)),
                JoinProgress::Waits { says: it, .. } if it == says => teller.tell(signal),
                _ => {}
            })
            .await;
            machine.slow_down(Duration::ZERO);
            assert!(matches!(ended.outcome, JoinOutcome::Failed(_)), "{what}: {ended:#?} {told:#?}");
            assert_eq!((ended.stopped, ended.diagnosis.is_some()), (Some(signal), diagnosed), "{what}: {told:#?}");
            assert_put_back(&machine, worker.kubelet_unit(), &before, &what);
        }
    }
}

/// A credential that cannot be read just now says nothing of what it is worth.
#[tokio::test(start_paused = true)]
async fn a_certificate_that_cannot_be_read_is_unknown_and_not_stale() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, options(&cluster)).await;
    assert_joined(&ended, &told);
    let (shared, library): (Arc<dyn Host>, _) = (machine.clone(), Library::built_in().unwrap());
    let identity = MachineIdentity { uuid: Some(SYSTEM_UUID.to_owned()), machine_id: None };
    let diagnosis = LiveDiagnosis { library: &library, ignore: &Ignore::default(), time_box: Duration::from_secs(1) };
    for (times, expected) in [(0, Ok(ClientCertificate::Trusted)), (1000, Err("Input/output error"))] {
        machine.fail_looks(KUBELET_CONF, times);
        let mut observer = NodeObserver::new(&shared, NODE.to_owned(), identity.clone(), None);
        let seen = look(&mut observer, Until::Registered, None, &diagnosis, &mut |_| ()).await;
        match (&seen.certificate, expected) {
            (Ok(seen), Ok(expected)) => assert_eq!(*seen, expected),
            (Err(Why::Broken(why)), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (seen, expected) => panic!("{seen:?} in place of {expected:?}"),
        }
    }
}

/// Whoever changes the machine while kubeadm runs in its unit would change it under a join; but for who follows that join.
#[tokio::test(start_paused = true)]
async fn a_kubeadm_that_still_runs_is_as_good_as_a_lock_but_for_a_join() {
    let cluster = cluster();
    let (machine, _worker) = Worker::start(&cluster, []);
    let (teller, stop) = StopTeller::new();
    let (ended, told) = joined_until(stop, &machine, options(&cluster), |told| {
        if is_at(told, Stage::Joining) {
            teller.tell(StopSignal::Hangup);
        }
    })
    .await;
    assert!(
        matches!(ended.outcome, JoinOutcome::Interrupted { stays: Withdrawal::AtWork, .. }),
        "{ended:#?} {told:#?}"
    );
    let as_verb = |verb: &str| Actor { verb: verb.into(), by: "root".into(), version: "0".into(), stop: Stop::never() };
    for verb in ["check --fix", "undo", "cni sync", "history --prune"] {
        let taken = act::lock(machine.as_ref(), &as_verb(verb), &[]).await;
        let Err(Locked::By(says)) = taken else { panic!("{verb}: {taken:?}") };
        assert_eq!(says, "kubeadm join, started by carrick, in carrick-kubeadm.service", "{verb}");
    }
    for (verb, may_find) in [("join", &[unit::JOIN][..]), ("reset", &[unit::JOIN, unit::RESET])] {
        act::lock(machine.as_ref(), &as_verb(verb), may_find).await.unwrap();
    }
    // One that has ended is none.
    machine.run(&["systemctl", "stop", "carrick-kubeadm.service"], Duration::ZERO).await.unwrap();
    act::lock(machine.as_ref(), &as_verb("undo"), &[]).await.unwrap();
}

/// What kubeadm says is not always to be had at once: nothing is concluded from that.
#[tokio::test(start_paused = true)]
async fn a_kubeadm_whose_words_cannot_be_read_yet_is_not_judged_without_them() {
    let words = "error execution phase preflight: [preflight] Some fatal errors occurred:\n\t[ERROR Port-10250]: Port 10250 is in use\n";
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, [Kubeadm::Fails(words)]);
    worker.connect_network("10.244.0.7");
    let mut unreadable = false;
    let (ended, told) = joined_and(&machine, options(&cluster), |told| {
        if is_at(told, Stage::Joining) && !std::mem::replace(&mut unreadable, true) {
            machine.fail_looks("-kubeadm-1.log", 4);
        }
    })
    .await;
    let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    let causes: Vec<&str> = failure.causes.iter().map(|cause| cause.id.as_str()).collect();
    assert_eq!((causes, ended.state.attempt, worker.kubeadm_runs()), (vec!["network.ports"], 1, 1), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_a_join_had_to_leave_is_revoked_by_the_next_with_the_same_admin() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let admin = admin(&cluster, &machine);
    let (teller, stop) = StopTeller::new();
    // Those that are still there.
    let made = |cluster: &MemoryCluster| {
        let sent = cluster.api.sent("create secrets");
        let places = sent.iter().map(|secret| secret["metadata"]["name"].as_str().unwrap().to_owned());
        let is_there =
            |name: &String| cluster.api.object(&format!("/api/v1/namespaces/kube-system/secrets/{name}")).is_some();
        places.filter(is_there).collect::<Vec<_>>()
    };
    let (ended, _) = joined_until(stop, &machine, with_admin(&cluster, &admin, false), |told| {
        if is_at(told, Stage::Joining) {
            teller.tell(StopSignal::Hangup);
        }
    })
    .await;
    assert!(matches!(ended.outcome, JoinOutcome::Interrupted { stays: Withdrawal::AtWork, .. }), "{ended:#?}");
    assert_eq!(made(&cluster).len(), 1, "kubeadm needs it");
    let (again, _) = joined(&machine, with_admin(&cluster, &admin, false)).await;
    assert!(matches!(again.outcome, JoinOutcome::Joined { .. }), "{again:#?}");
    assert_eq!(made(&cluster), Vec::<String>::new());
    assert_eq!(machine.text("/var/lib/carrick/joins/tokens"), None);
}
/// Whatever kubeadm prints, what is told, what the report says and what is written down hold no secret, nor half of one.
#[tokio::test(start_paused = true)]
async fn no_secret_that_kubeadm_prints_is_told_or_written_down() {
    let mut secrets = Vec::new();
    let mut printed = String::new();
    for kind in KINDS {
        let Plant { text, secrets: of_one } = plant_one(kind, "kubeadm");
        secrets.extend(of_one);
        let quoted = format!("[preflight] Some fatal errors occurred:\n\t[ERROR Swap]: {text}\n");
        printed.extend([text.as_str(), "\n"]);
        printed.extend(Some(quoted).filter(|_| !text.contains('\n')));
    }
    let token = plant_one(&KINDS[0], "the end");
    let failed = format!("error execution phase preflight: running with swap on is not supported: {}", token.text);
    secrets.extend(token.secrets);
    let cluster = cluster();
    let (machine, _) =
        Worker::start(&cluster, [Kubeadm::Fails(Box::leak(format!("{printed}{failed}\n").into_boxed_str()))]);
    let policy = JoinPolicy { join_timeout: 60, ..JoinPolicy::default() };
    let (ended, told) = joined(&machine, JoinOptions { policy, ..options(&cluster) }).await;
    assert!(matches!(ended.outcome, JoinOutcome::Failed(_)), "{:?}", ended.outcome);
    let record = ended.record.as_deref().and_then(|place| machine.text(place)).unwrap();
    let report = ended.diagnosis.as_ref().map(|report| serde_json::to_string(report).unwrap()).unwrap_or_default();
    // What kubeadm said last is told where the time was up; here it is known why kubeadm stopped.
    assert_eq!(pieces_found(ended.last_words.join("\n").as_bytes(), &secrets), Vec::<String>::new());
    for shown in [format!("{told:?}"), format!("{:?}", ended.outcome), report, record] {
        assert!(!shown.is_empty());
        assert_eq!(pieces_found(shown.as_bytes(), &secrets), Vec::<String>::new(), "{shown}");
    }
}
