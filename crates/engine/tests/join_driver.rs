//! The whole driver, from the first look to "joined": a worker whose programs are scripted, and an API server in memory that
//! answers as a real one. Time is tokio's and stands still, so that minutes of a join take milliseconds.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::client::ClusterClient;
use carrick_cluster::credentials::ClusterCredentials;
use carrick_core::discovery;
use carrick_core::join::input::Request;
use carrick_core::join::state::{Policy, Stage};
use carrick_core::join::step::Outcome;
use carrick_core::plan::protect::Protected;
use carrick_core::report::Ignore;
use carrick_core::signature::Library;
use carrick_engine::act::{Actor, undo};
use carrick_engine::dialer;
use carrick_engine::join::driver::{Ended, Told, Wish, join};
use carrick_host::host::Entry;
use carrick_host::{Host, Probe as _};
use carrick_testkit::memory_api::Fault;
use carrick_testkit::memory_api::controller::Controller;
use carrick_testkit::memory_api::tls::kubeconfig;
use carrick_testkit::{API, Cluster, Kubeadm, Machine, NODE, Worker};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;

const TOKEN: &str = "abcdef.0123456789abcdef";
const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
const BOOTSTRAP_CONF: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
const CONFIG: &str = "/run/carrick/join.yaml";

fn cluster() -> Cluster {
    let cluster = Cluster::start("2026-11-16T12:00:00Z".parse().unwrap()).unwrap();
    cluster.token(TOKEN);
    cluster
}

fn wish(cluster: &Cluster) -> Wish<'static> {
    let pins = discovery::pins(cluster.authority.pem()).unwrap();
    let request = Request {
        api: format!("{}:{}", API.0, API.1).parse().ok(),
        token: TOKEN.parse().ok(),
        pins: pins.iter().map(|pin| pin.parse().unwrap()).collect(),
        ..Request::default()
    };
    Wish {
        request,
        policy: Policy::default(),
        ignore: Ignore::default(),
        admin: None,
        asker: None,
        protect: Vec::new(),
        time_box: Duration::from_secs(10),
    }
}

async fn joined(machine: &Arc<Machine>, wish: Wish<'_>) -> (Ended, Vec<Told>) {
    let mut told = Vec::new();
    let ended = joined_and_told(machine, wish, &mut |it| told.push(it.clone())).await;
    (ended, told)
}

/// The same, for who acts on what is told while it goes on.
async fn joined_and_told(machine: &Arc<Machine>, wish: Wish<'_>, tell: &mut (dyn FnMut(&Told) + Send)) -> Ended {
    let library = Library::built_in().unwrap();
    let actor = Actor { verb: "join".into(), by: "root".into(), version: "0".into() };
    let host: Arc<dyn Host> = machine.clone();
    join(&host, &actor, wish, &library, None, &mut |it| tell(&it)).await
}

/// With an admin's kubeconfig, by way of this machine.
fn admin(cluster: &Cluster, machine: &Arc<Machine>) -> ClusterClient {
    let admin = cluster.authority.client("kubernetes-super-admin", &["system:masters"]).unwrap();
    let server = format!("https://{}:{}", API.0, API.1);
    let conf = kubeconfig(&server, cluster.authority.pem(), Some(&admin));
    let credentials = ClusterCredentials::parse(&conf, |file| Err(file.to_owned())).unwrap();
    dialer::client(&credentials, Arc::<Machine>::downgrade(machine))
}

/// A cluster in which nobody decides about certificate requests, until the test does.
fn undecided() -> Cluster {
    let cluster = Cluster::without_controllers("2026-11-16T12:00:00Z".parse().unwrap()).unwrap();
    cluster.token(TOKEN);
    cluster.api.start(Controller::TokenSigner);
    cluster
}

fn stages(told: &[Told]) -> Vec<Stage> {
    told.iter().filter_map(|it| if let Told::Reached { stage, .. } = it { Some(*stage) } else { None }).collect()
}

/// Everything on the machine but our own records; and but directories, of which kubeadm leaves empty ones.
fn files(machine: &Machine) -> BTreeMap<String, Entry> {
    let all = machine.all_but("/var/lib/carrick").files.into_iter();
    all.filter(|(_, entry)| !matches!(entry, Entry::Dir { .. })).collect()
}

#[track_caller]
fn assert_joined(ended: &Ended, told: &[Told]) {
    assert!(matches!(ended.outcome, Outcome::Joined { .. }), "{:#?}\n{told:#?}", ended.outcome);
}

#[tokio::test(start_paused = true)]
async fn a_worker_joins() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, wish(&cluster)).await;
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
    assert_eq!((worker.kubeadm_runs(), worker.sandboxes()), (1, 0));
    assert!(machine.changes().iter().all(|change| !change.contains("0123456789abcdef")), "{:?}", machine.changes());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_has_joined_is_verified_and_left_alone() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, wish(&cluster)).await;
    assert_joined(&ended, &told);
    let (before, changes) = (machine.all_but("/never"), machine.changes().len());
    let (ended, told) = joined(&machine, wish(&cluster)).await;
    assert!(matches!(ended.outcome, Outcome::Joined { already: true, .. }), "{:#?}\n{told:#?}", ended.outcome);
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
    let (ended, told) = joined(&machine, wish(&cluster)).await;
    assert_joined(&ended, &told);
    let again: Vec<u32> =
        told.iter().filter_map(|it| if let Told::Again { attempt, .. } = it { Some(*attempt) } else { None }).collect();
    assert_eq!((again, ended.state.attempt, worker.kubeadm_runs()), (vec![1, 2], 3, 2), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_join_that_failed_late_is_continued_by_the_next() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    let impatient = Policy { join_timeout: 30, ..Policy::default() };
    let (ended, told) = joined(&machine, Wish { policy: impatient, ..wish(&cluster) }).await;
    let Outcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    assert!(failure.stage >= Stage::Registered, "{failure:#?}");
    // It is in the cluster: it stays there, and what was only for the join is gone.
    assert!(machine.text(KUBELET_CONF).is_some());
    for path in [CONFIG, BOOTSTRAP_CONF, "/run/systemd/system/kubelet.service.d/90-carrick-join.conf"] {
        assert_eq!(machine.text(path), None, "{path}");
    }
    let uid = cluster.api.object("/api/v1/nodes/w1").unwrap()["metadata"]["uid"].clone();
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, wish(&cluster)).await;
    assert_joined(&ended, &told);
    assert_eq!(cluster.api.object("/api/v1/nodes/w1").unwrap()["metadata"]["uid"], uid);
    assert_eq!((worker.kubeadm_runs(), worker.sandboxes()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_join_that_failed_early_puts_back_what_it_changed() {
    let cluster = undecided();
    cluster.api.start(Controller::Denier("not this one".to_owned()));
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let before = files(&machine);
    let (ended, told) = joined(&machine, wish(&cluster)).await;
    let Outcome::Failed(failure) = &ended.outcome else { panic!("{:#?}\n{told:#?}", ended.outcome) };
    assert!(failure.stage < Stage::CertificateIssued, "{failure:#?}");
    assert!(failure.causes.iter().any(|cause| cause.says.contains("not this one")), "{failure:#?}");
    assert_eq!(files(&machine), before);
    assert_eq!(worker.kubeadm_runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_hears_a_word_every_second() {
    // Slower than a word, quicker than what counts as no answer.
    let slow = Duration::from_millis(2500);
    let slow_api = |cluster: &Cluster, _: &Machine| {
        // All that a join asks but cluster-info: a path as slow as that is no path.
        for verb in ["get", "list", "create", "delete"] {
            for resource in ["nodes", "leases", "pods", "certificatesigningrequests", "secrets"] {
                cluster.api.fail(&format!("{verb} {resource}"), None, Fault::Delay(slow));
            }
        }
    };
    let slow_machine = |_: &Cluster, machine: &Machine| machine.slow_down(slow);
    type Slow<'a> = &'a dyn Fn(&Cluster, &Machine);
    for (what, slow) in [("the API server", &slow_api as Slow<'_>), ("the machine", &slow_machine)] {
        let cluster = cluster();
        let (machine, worker) = Worker::start(&cluster, []);
        worker.connect_network("10.244.0.7");
        slow(&cluster, &machine);
        let admin = admin(&cluster, &machine);
        let mut wish = Wish { admin: Some(&admin), ..wish(&cluster) };
        wish.request.token = None;
        let (mut last, mut told) = (Instant::now(), Vec::new());
        let ended = joined_and_told(&machine, wish, &mut |it| {
            told.push((last.elapsed(), it.clone()));
            last = Instant::now();
        })
        .await;
        assert!(matches!(ended.outcome, Outcome::Joined { .. }), "{what}: {:#?}\n{told:#?}", ended.outcome);
        told.push((last.elapsed(), Told::Says("the end".to_owned())));
        // Two things may follow one another that take almost a second each.
        let silence = told.iter().position(|(silence, _)| *silence >= Duration::from_secs(2));
        assert_eq!(silence, None, "{what}: {:#?}", silence.and_then(|at| told.get(at.saturating_sub(3)..=at)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_be_seen_is_told_within_a_second() {
    let second = Duration::from_secs(1);
    let cluster = undecided();
    let (machine, _) = Worker::start(&cluster, []);
    let mut denied: Option<Instant> = None;
    let ended = joined_and_told(&machine, wish(&cluster), &mut |it| {
        // Right before the driver pauses: it cannot have seen this yet.
        if matches!(it, Told::Waits { stage: Stage::CertificateRequested, .. }) && denied.is_none() {
            cluster.api.start(Controller::Denier("not this one".to_owned()));
            denied = Some(Instant::now());
        }
    })
    .await;
    assert!(matches!(ended.outcome, Outcome::Failed(_)), "{:#?}", ended.outcome);
    assert!(denied.unwrap().elapsed() < second, "denied, and told after {:?}", denied.unwrap().elapsed());

    let cluster = self::cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    let (mut connected, mut seen) = (None, None);
    let ended = joined_and_told(&machine, wish(&cluster), &mut |it| match it {
        Told::Waits { stage: Stage::Registered, .. } if connected.is_none() => {
            worker.connect_network("10.244.0.7");
            connected = Some(Instant::now());
        }
        Told::Reached { stage: Stage::NetworkReady, .. } => seen = connected.map(|at| at.elapsed()),
        _ => {}
    })
    .await;
    assert!(matches!(ended.outcome, Outcome::Joined { .. }), "{:#?}", ended.outcome);
    assert!(seen.unwrap() < second, "the network came, and was told after {seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_token_made_for_a_join_is_short_lived_and_revoked() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let admin = admin(&cluster, &machine);
    let mut wish = Wish { admin: Some(&admin), ..wish(&cluster) };
    wish.request.token = None;
    let mut seen = None;
    let ended = joined_and_told(&machine, wish, &mut |it| {
        if !matches!(it, Told::Reached { stage: Stage::Joining, .. }) {
            return;
        }
        let config = machine.text(CONFIG).unwrap();
        let token = config.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
        let id = token.trim_matches('"').split('.').next().unwrap();
        let secret = format!("/api/v1/namespaces/kube-system/secrets/bootstrap-token-{id}");
        let expires: Timestamp = cluster.api.secret_entry(&secret, "expiration").unwrap().parse().unwrap();
        seen = Some((secret, expires.duration_since(machine.now())));
    })
    .await;
    assert!(matches!(ended.outcome, Outcome::Joined { .. }), "{:#?}", ended.outcome);
    let (secret, left) = seen.unwrap();
    // Longer than a join, and no longer than anybody would leave one lying about.
    assert!(left > SignedDuration::from_mins(10) && left <= SignedDuration::from_hours(1), "{left:#}");
    assert_eq!(cluster.api.object(&secret), None, "revoked");
}

#[tokio::test(start_paused = true)]
async fn only_root_can_read_the_token_while_kubeadm_runs() {
    let cluster = cluster();
    let (machine, worker) = Worker::start(&cluster, []);
    worker.connect_network("10.244.0.7");
    let (ended, told) = joined(&machine, wish(&cluster)).await;
    assert_joined(&ended, &told);
    assert_eq!(worker.config_modes(), Some((0o600, 0o700)));
}

/// What a join had changed that was killed, the next takes back where it fails; unless somebody has done so in between.
#[tokio::test(start_paused = true)]
async fn what_a_killed_join_changed_is_taken_back_once() {
    for undone in [false, true] {
        let cluster = undecided();
        let (machine, _) = Worker::start(&cluster, []);
        let before = files(&machine);
        let cut = Notify::new();
        let mut until_it_waits = |it: &Told| {
            if matches!(it, Told::Waits { stage: Stage::CertificateRequested, .. }) {
                cut.notify_one();
            }
        };
        tokio::select! {
            ended = joined_and_told(&machine, wish(&cluster), &mut until_it_waits) => panic!("{:#?}", ended.outcome),
            () = cut.notified() => {}
        }
        assert_ne!(files(&machine), before);
        if undone {
            let back = undo::plan(machine.as_ref(), None).await.unwrap();
            undo::apply(&machine.shared(), &back, &Protected::default(), &mut |_| {}).await.unwrap();
        }
        let (mut told, mut denied) = (Vec::new(), false);
        let ended = joined_and_told(&machine, wish(&cluster), &mut |it| {
            told.push(it.clone());
            if matches!(it, Told::Waits { stage: Stage::CertificateRequested, .. }) && !denied {
                cluster.api.start(Controller::Denier("not this one".to_owned()));
                denied = true;
            }
        })
        .await;
        assert!(matches!(ended.outcome, Outcome::Failed(_)), "{:#?}", ended.outcome);
        assert!(!ended.left.stuck, "undone before: {undone}: {told:#?}");
        assert_eq!(files(&machine), before, "undone before: {undone}: {told:#?}");
    }
}
