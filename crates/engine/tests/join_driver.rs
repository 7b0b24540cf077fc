//! The whole driver, from the first look to "joined": a worker whose programs are scripted, and an API server in memory that
//! answers as a real one. Time is tokio's and stands still, so that minutes of a join take milliseconds.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carrick_core::discovery;
use carrick_core::join::input::Request;
use carrick_core::join::state::{Policy, Stage};
use carrick_core::join::step::Outcome;
use carrick_core::report::Ignore;
use carrick_core::signature::Library;
use carrick_engine::act::Actor;
use carrick_engine::join::driver::{Ended, Told, Wish, join};
use carrick_host::Host;
use carrick_host::host::Entry;
use carrick_testkit::memory_api::Fault;
use carrick_testkit::memory_api::controller::Controller;
use carrick_testkit::{API, Cluster, Kubeadm, Machine, NODE, Worker};

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
    let library = Library::built_in().unwrap();
    let actor = Actor { verb: "join".into(), by: "root".into(), version: "0".into() };
    let mut told = Vec::new();
    let host: Arc<dyn Host> = machine.clone();
    let ended = join(&host, &actor, wish, &library, None, &mut |it| told.push(it)).await;
    (ended, told)
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
    let cluster = Cluster::without_controllers("2026-11-16T12:00:00Z".parse().unwrap()).unwrap();
    cluster.token(TOKEN);
    cluster.api.start(Controller::TokenSigner);
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
