//! The whole controller against an API server in memory: what it asks, what it writes, and what it does when things go wrong.

use std::sync::Mutex;

use carrick_core::StopSignal;
use carrick_core::lease::CONTROLLER_LEASE;
use carrick_core::rule::testing::{CONDITION, NodeBuilder, RuleBuilder, TAINT, node, rule};
use carrick_testkit::MemoryApi;
use carrick_testkit::memory_api::Fault;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::StopTeller;
use crate::dialer::stub::asking_for_long;

mod any_way;
mod bad_input;

const PATCH: &str = "patch nodes as merge-patch+json for PartialObjectMetadata";
const STATUS: &str = "patch nodereadinessrules.readiness.node.x-k8s.io/status as merge-patch+json";
const RULES: &str = "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn clock() -> Timestamp {
    "2026-11-18T12:00:00Z".parse().unwrap()
}

/// Of every controller under test.
pub(super) fn options(name: &str, elect: bool) -> ControllerOptions {
    let election = elect.then(|| ElectionOptions {
        namespace: "kube-system".to_owned(),
        identity: name.to_owned(),
        timing: LeaseTiming::default(),
    });
    let (workers, rate, version) = (16, None, "test".to_owned());
    ControllerOptions { instance: name.to_owned(), election, workers, rate, node_state_metrics: false, version }
}

/// One that runs.
struct Running {
    handle: ControllerHandle,
    teller: StopTeller,
    task: JoinHandle<Result<(), ControllerEnd>>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Running {
    fn start(api: &MemoryApi, options: ControllerOptions) -> Self {
        Self::start_with(asking_for_long(api, clock()), options)
    }

    fn start_with(client: ClusterClient, options: ControllerOptions) -> Self {
        let said = Arc::new(Mutex::new(Vec::new()));
        let sink = said.clone();
        let notices: NoticeSink = Arc::new(move |notice| sink.lock().unwrap().push(notice.says));
        let (controller, handle) = Controller::new(client, options, notices);
        let (teller, stop) = StopTeller::new();
        Running { handle, teller, task: tokio::spawn(controller.run(stop)), said }
    }

    async fn stop(self) {
        self.teller.tell(StopSignal::Terminate);
        let ended = timeout(Duration::from_secs(20), self.task).await;
        assert_eq!(ended.unwrap().unwrap(), Ok(()), "{:?}", self.said.lock().unwrap());
    }
}

async fn until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..3000 {
        if is() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("never: {what}");
}

fn put_rule(api: &MemoryApi, rule: &RuleBuilder) {
    api.put(&json!(rule.0));
}

fn put_node(api: &MemoryApi, node: NodeBuilder) {
    let mut wire = node.wire;
    wire["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    api.put(&wire);
}

fn taints(api: &MemoryApi, name: &str) -> Vec<String> {
    let node = api.object(&format!("/api/v1/nodes/{name}")).unwrap_or_default();
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.iter().map(|taint| taint["key"].as_str().unwrap_or_default().to_owned()).collect()
}

fn is_held(api: &MemoryApi, name: &str) -> bool {
    taints(api, name).contains(&TAINT.to_owned())
}

fn set_ready(api: &MemoryApi, name: &str, status: &str) {
    let mut node = api.object(&format!("/api/v1/nodes/{name}")).unwrap();
    node["status"]["conditions"] = json!([{
        "type": CONDITION, "status": status, "lastHeartbeatTime": "2026-11-18T12:00:00Z", "lastTransitionTime": "2026-11-18T12:00:00Z",
    }]);
    api.put(&node);
}

fn many(api: &MemoryApi, count: usize) {
    for n in 0..count {
        put_node(api, node(&format!("n{n}")));
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_are_held_until_their_condition_holds_with_one_write_each() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("r"));
    many(&api, 50);
    let running = Running::start(&api, options("a", false));
    until("all are held", || (0..50).all(|n| is_held(&api, &format!("n{n}")))).await;
    assert_eq!(api.count(PATCH), 50);
    assert!(running.handle.health().is_ready());
    for n in 0..50 {
        set_ready(&api, &format!("n{n}"), "True");
    }
    until("all are released", || (0..50).all(|n| !is_held(&api, &format!("n{n}")))).await;
    assert_eq!(api.count(PATCH), 100);
    sleep(Duration::from_secs(20)).await;
    let status = api.object(&format!("{RULES}/r")).unwrap()["status"].clone();
    assert_eq!(status["summary"]["releasedNodes"], 50, "{status}");
    assert_eq!(status["appliedNodes"].as_array().map(Vec::len), Some(50));
    assert!(api.count(STATUS) <= 4, "{}", api.count(STATUS));
    // A line a happening, none an evaluation.
    let said = running.said.lock().unwrap().clone();
    assert_eq!(said, ["50 nodes and 1 rules are known"]);
    // Nothing changes: nothing is written, for an hour.
    let before = api.asked().iter().filter(|shape| !shape.starts_with("watch") && !shape.starts_with("list")).count();
    sleep(Duration::from_hours(1)).await;
    let after = api.asked().iter().filter(|shape| !shape.starts_with("watch") && !shape.starts_with("list")).count();
    assert_eq!(before, after);
    let metrics = running.handle.metrics().await.unwrap().render();
    for line in [
        "node_readiness_taint_operations_total{rule=\"r\",operation=\"add\"} 50",
        "node_readiness_taint_operations_total{rule=\"r\",operation=\"remove\"} 50",
        "node_readiness_rule_nodes{rule=\"r\",state=\"released\"} 50",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}\n{metrics}");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn events_say_what_was_done_and_a_flip_does_not_flood_them() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("r").claimed());
    many(&api, 200);
    let running = Running::start(&api, options("a", false));
    until("all are held", || (0..200).all(|n| is_held(&api, &format!("n{n}")))).await;
    sleep(Duration::from_secs(30)).await;
    let told = api.sent("create events.events.k8s.io as json");
    let notes: Vec<&str> = told.iter().map(|it| it["note"].as_str().unwrap_or_default()).collect();
    assert!(notes.contains(&"Taint 'readiness.k8s.io/gate:NoSchedule' added by rule 'r'"), "{notes:?}");
    assert!(notes.contains(&"Taint 'readiness.k8s.io/gate:NoSchedule' added on 175 more nodes"), "{notes:?}");
    assert_eq!(told.len(), 26);
    let first = &told[0];
    assert_eq!(
        (&first["reason"], &first["action"], &first["type"]),
        (&json!("TaintAdded"), &json!("AddTaint"), &json!("Normal"))
    );
    assert_eq!(first["reportingController"], "node-readiness-controller");
    assert_eq!(first["regarding"]["kind"], "Node");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_on_the_way_changes_nothing_in_the_end() {
    for (case, shape, fault) in [
        ("too many requests", "patch nodes", Fault::TooManyRequests),
        ("a conflict", "patch nodes", Fault::Conflict),
        ("a server error", "patch nodes", Fault::Status(503)),
        ("an answer that breaks off", "patch nodes", Fault::Cut),
        ("a slow answer", "patch nodes", Fault::Delay(Duration::from_secs(5))),
        ("a status that is refused", "patch nodereadinessrules.readiness.node.x-k8s.io/status", Fault::Status(500)),
        ("a refused connection", "watch nodes", Fault::Refuse),
        ("a watch that breaks", "watch nodes", Fault::Cut),
        ("a watch from too long ago", "watch nodes", Fault::Gone),
        ("a server that does not stream lists", "watch", Fault::Status(422)),
        ("events that cannot be told", "create events.events.k8s.io", Fault::TooManyRequests),
    ] {
        let api = MemoryApi::new(clock);
        put_rule(&api, &rule("r"));
        many(&api, 20);
        api.fail(shape, Some(3), fault);
        let running = Running::start(&api, options("a", false));
        until(case, || (0..20).all(|n| is_held(&api, &format!("n{n}")))).await;
        api.cut_watches();
        set_ready(&api, "n1", "True");
        api.expire_watches();
        set_ready(&api, "n2", "True");
        until(case, || !is_held(&api, "n1") && !is_held(&api, "n2")).await;
        api.end_watches();
        set_ready(&api, "n3", "True");
        until(case, || !is_held(&api, "n3")).await;
        assert!(is_held(&api, "n4"), "{case}");
        sleep(Duration::from_secs(30)).await;
        let status = api.object(&format!("{RULES}/r")).unwrap()["status"].clone();
        assert_eq!(
            (&status["summary"]["heldNodes"], &status["summary"]["releasedNodes"]),
            (&json!(17), &json!(3)),
            "{case}: {status}"
        );
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_down_at_the_start_is_waited_for() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("r"));
    many(&api, 3);
    api.fail("watch", Some(12), Fault::Refuse);
    let running = Running::start(&api, options("a", false));
    sleep(Duration::from_secs(5)).await;
    assert!(!running.handle.health().is_ready());
    assert!(running.said.lock().unwrap().iter().any(|says| says.contains("refused the connection")));
    until("all are held", || (0..3).all(|n| is_held(&api, &format!("n{n}")))).await;
    assert!(running.handle.health().is_ready());
    running.stop().await;
}

/// Two replicas; the one that leads is killed without a word.
#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_and_the_two_never_write_at_once() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("r"));
    many(&api, 5);
    let first = Running::start(&api, options("a", true));
    until("the first leads", || first.handle.health().leads).await;
    until("all are held", || (0..5).all(|n| is_held(&api, &format!("n{n}")))).await;
    let second = Running::start(&api, options("b", true));
    until("the second knows all", || second.handle.health().is_ready()).await;
    sleep(Duration::from_mins(1)).await;
    assert!(!second.handle.health().leads);
    assert_eq!(api.count(PATCH), 5);
    first.task.abort();
    let killed = Instant::now();
    set_ready(&api, "n0", "True");
    until("the second has done it", || !is_held(&api, "n0")).await;
    let took = killed.elapsed();
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(20), "{took:?}");
    assert_eq!(api.count(PATCH), 6);
    assert_eq!(api.object(&format!("{LEASE}/{CONTROLLER_LEASE}")).unwrap()["spec"]["holderIdentity"], "b");
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_is_told_to_stop_gives_the_lease_up() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("r"));
    many(&api, 1);
    let first = Running::start(&api, options("a", true));
    let second = Running::start(&api, options("b", true));
    until("one leads", || first.handle.health().leads || second.handle.health().leads).await;
    let (leader, standby) = if first.handle.health().leads { (first, second) } else { (second, first) };
    sleep(Duration::from_secs(30)).await;
    leader.stop().await;
    let released = Instant::now();
    until("the other leads", || standby.handle.health().leads).await;
    assert!(released.elapsed() <= Duration::from_secs(3), "{:?}", released.elapsed());
    standby.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_cannot_renew_ends() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("r"));
    let running = Running::start(&api, options("a", true));
    until("it leads", || running.handle.health().leads).await;
    api.fail("update leases.coordination.k8s.io", None, Fault::Status(500));
    let ended = timeout(Duration::from_secs(15), running.task).await.unwrap().unwrap();
    assert_eq!(ended, Err(ControllerEnd::LostLease));
    assert!(!running.handle.health().is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_rule_takes_its_taints_with_it() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("r"));
    many(&api, 3);
    let running = Running::start(&api, options("a", false));
    until("all are held", || (0..3).all(|n| is_held(&api, &format!("n{n}")))).await;
    let mut deleted = api.object(&format!("{RULES}/r")).unwrap();
    deleted["metadata"]["deletionTimestamp"] = "2026-11-18T12:00:00Z".into();
    deleted["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    api.put(&deleted);
    until("the rule is gone", || api.object(&format!("{RULES}/r")).is_none()).await;
    assert!((0..3).all(|n| !is_held(&api, &format!("n{n}"))));
    running.stop().await;
}

/// Objects as upstream leaves them: nothing is written to any Node.
#[tokio::test(start_paused = true)]
async fn taking_over_from_upstream_writes_no_node() {
    let api = MemoryApi::new(clock);
    let evaluated = |name: &str, status: &str, taint: &str| {
        json!({
            "nodeName": name, "taintStatus": taint, "lastEvaluationTime": "2026-08-23T12:00:00Z",
            "conditionResults": [{"type": CONDITION, "currentStatus": status, "requiredStatus": "True", "defaultStatus": "Unknown"}],
        })
    };
    let mut continuous = json!(rule("r").claimed().0);
    continuous["status"] = json!({
        "observedGeneration": 1, "appliedNodes": ["held", "legacy", "released"],
        "nodeEvaluations": [
            evaluated("held", "Unknown", "Present"), evaluated("legacy", "True", "Absent"), evaluated("released", "True", "Absent"),
        ],
    });
    api.put(&continuous);
    let other = rule("b").claimed().bootstrap_only().with(|it| it.spec.taint.key = "readiness.k8s.io/b".into());
    put_rule(&api, &other);
    let uid = api.object(&format!("{RULES}/b")).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let completed = format!("readiness.k8s.io/bootstrap-completed-{uid}");
    put_node(&api, node("held").taint(TAINT).annotation(&completed, "{\"rule-name\":\"b\"}"));
    put_node(&api, node("released").ready().annotation(&completed, "{\"rule-name\":\"b\"}"));
    put_node(&api, node("legacy").ready().annotation("readiness.k8s.io/bootstrap-completed-b", "true"));
    let running = Running::start(&api, options("a", true));
    sleep(Duration::from_mins(2)).await;
    assert!(running.handle.health().leads);
    assert_eq!(api.count("patch nodes"), 0, "{:?}", api.sent("patch nodes"));
    assert_eq!(api.count("create events.events.k8s.io"), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_webhook_asks_the_same_rules() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("old").claimed());
    let running = Running::start(&api, options("a", true));
    until("it is synced", || running.handle.health().is_ready()).await;
    let admission = running.handle.admit(rule("new").0, None).await.unwrap();
    assert!(admission.message().contains("conflicts with existing rule 'old'"), "{}", admission.message());
    let unchanged = running.handle.admit(rule("new").claimed().0, Some(rule("new").0)).await.unwrap();
    assert!(unchanged.is_allowed());
    running.stop().await;
}
