//! The whole driver, from the first look to "joined": a worker whose programs are scripted, and an API server in memory that
//! answers as a real one. Time is tokio's and stands still, so that minutes of a join take milliseconds.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::{ClusterClient, ClusterCredentials};
use carrick_core::discovery;
use carrick_core::join::request::Request;
use carrick_core::join::state::{JoinPolicy, Stage};
use carrick_core::join::step::JoinOutcome;
use carrick_core::judge::Ignore;
use carrick_core::plan::protect::Protected;
use carrick_core::signature::Library;
use carrick_core::testing::secret::{KINDS, Plant, pieces_found, plant_one};
use carrick_engine::act::{Actor, undo};
use carrick_engine::dialer;
use carrick_engine::join::{JoinEnd, JoinOptions, JoinProgress, join};
use carrick_host::{Entry, Host, Probe};
use carrick_testkit::memory_api::Fault;
use carrick_testkit::memory_api::controller::Controller;
use carrick_testkit::memory_api::tls::kubeconfig;
use carrick_testkit::{API, Cluster, Kubeadm, Machine, NODE, Worker};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

const BEGAN: &str = "2026-11-16T12:00:00Z";
const TOKEN: &str = "abcdef.0123456789abcdef";
const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
const BOOTSTRAP_CONF: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
const CONFIG: &str = "/run/carrick/join.yaml";

fn cluster() -> Cluster {
    let cluster = Cluster::start(BEGAN.parse().unwrap()).unwrap();
    cluster.token(TOKEN);
    cluster
}

fn options(cluster: &Cluster) -> JoinOptions<'static> {
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

async fn joined(machine: &Arc<Machine>, options: JoinOptions<'_>) -> (JoinEnd, Vec<JoinProgress>) {
    joined_and(machine, options, |_| {}).await
}

/// The same, for who acts on what is told while it goes on.
async fn joined_and(
    machine: &Arc<Machine>,
    options: JoinOptions<'_>,
    mut act: impl FnMut(&JoinProgress) + Send,
) -> (JoinEnd, Vec<JoinProgress>) {
    /// A look every 0.4 s and a word every second: whoever waits twice as long hears nothing.
    const SILENCE: Duration = Duration::from_secs(2);
    let library = Library::built_in().unwrap();
    let actor = Actor { verb: "join".into(), by: "root".into(), version: "0".into() };
    let (mut told, mut longest, mut last) = (Vec::new(), Duration::ZERO, Instant::now());
    let mut tell = |it| {
        longest = longest.max(std::mem::replace(&mut last, Instant::now()).elapsed());
        act(&it);
        told.push(it);
    };
    let host: Arc<dyn Host> = machine.clone();
    let ended = join(&host, &actor, options, &library, None, &mut tell).await;
    longest = longest.max(last.elapsed());
    assert!(longest < SILENCE, "nothing was said for {longest:?}: {told:#?}");
    (ended, told)
}

/// A cluster in which nobody decides about certificate requests, until the test does.
fn undecided() -> Cluster {
    let cluster = Cluster::without_controllers(BEGAN.parse().unwrap()).unwrap();
    cluster.token(TOKEN);
    cluster.api.start(Controller::TokenSigner);
    cluster
}

fn deny(cluster: &Cluster) {
    cluster.api.start(Controller::Denier("not this one".to_owned()));
}

fn waits_for_its_certificate(told: &JoinProgress) -> bool {
    matches!(told, JoinProgress::Waits { stage: Stage::CertificateRequested, .. })
}

/// An admin's kubeconfig in place of a token.
fn admin(cluster: &Cluster, machine: &Arc<Machine>) -> ClusterClient {
    let issued = cluster.authority.client("kubernetes-admin", &["kubeadm:cluster-admins"]).unwrap();
    let server = format!("https://{}:{}", API.0, API.1);
    let text = kubeconfig(&server, cluster.authority.pem(), Some(&issued));
    let credentials = ClusterCredentials::parse(&text, |path| Err(format!("{path} was not read"))).unwrap();
    let probe: Arc<dyn Probe> = machine.clone();
    dialer::client(&credentials, Arc::downgrade(&probe))
}

fn with_admin<'a>(cluster: &Cluster, admin: &'a ClusterClient, replace_node: bool) -> JoinOptions<'a> {
    let options = options(cluster);
    let request = Request { token: None, ..options.request };
    JoinOptions { request, admin: Some(admin), policy: JoinPolicy { replace_node, ..JoinPolicy::default() }, ..options }
}

fn stages(told: &[JoinProgress]) -> Vec<Stage> {
    told.iter()
        .filter_map(|it| if let JoinProgress::Reached { stage, .. } = it { Some(*stage) } else { None })
        .collect()
}

/// Everything on the machine but our own records; and but directories, of which kubeadm leaves empty ones.
fn files(machine: &Machine) -> BTreeMap<String, Entry> {
    let all = machine.all_but("/var/lib/carrick").files.into_iter();
    all.filter(|(_, entry)| !matches!(entry, Entry::Dir { .. })).collect()
}

#[track_caller]
fn assert_joined(ended: &JoinEnd, told: &[JoinProgress]) {
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

#[tokio::test(start_paused = true)]
async fn a_join_that_failed_early_puts_back_what_it_changed() {
    let cluster = undecided();
    deny(&cluster);
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let before = files(&machine);
    let (ended, told) = joined(&machine, options(&cluster)).await;
    let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    assert!(failure.stage < Stage::CertificateIssued, "{failure:#?}");
    assert!(failure.causes.iter().any(|cause| cause.says.contains("not this one")), "{failure:#?}");
    assert_eq!(files(&machine), before);
    assert_eq!(worker.kubeadm_runs(), 1);
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

/// The Node of a machine of this name that fell silent a while ago.
fn of_the_dead(cluster: &Cluster) -> serde_json::Value {
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

/// What a join that was killed had changed, the next one takes back where it fails; unless somebody has done so in between.
#[tokio::test(start_paused = true)]
async fn what_a_killed_join_changed_is_taken_back_once() {
    for undone in [false, true] {
        let cluster = undecided();
        let (machine, _) = Worker::start(&cluster, []);
        let (before, killed) = (files(&machine), Notify::new());
        let kill = |it: &JoinProgress| {
            if waits_for_its_certificate(it) {
                killed.notify_one();
            }
        };
        tokio::select! {
            (ended, _) = joined_and(&machine, options(&cluster), kill) => panic!("{:#?}", ended.outcome),
            () = killed.notified() => {}
        }
        assert_ne!(files(&machine), before);
        if undone {
            let back = undo::plan(machine.as_ref(), None).await.unwrap();
            undo::apply(&machine.shared(), &back, &Protected::default(), &mut |_| {}).await.unwrap();
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
        assert_eq!(files(&machine), before, "undone before: {undone}: {told:#?}");
    }
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
    for shown in [format!("{told:?}"), format!("{:?}", ended.outcome), ended.last_words.join("\n"), report, record] {
        assert!(!shown.is_empty());
        assert_eq!(pieces_found(shown.as_bytes(), &secrets), Vec::<String>::new(), "{shown}");
    }
}
