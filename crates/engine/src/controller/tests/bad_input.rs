//! What is wrong is told, harms nothing else, and ends no process but by a mistake of our own.

use serde_json::Value;

use super::*;
use crate::dialer::stub::asking_by;

/// No line of the log has it.
const NEVER_SAID: &str = "\u{0}";

fn condition(api: &MemoryApi, rule: &str, kind: &str) -> Value {
    let rule = api.object(&format!("{RULES}/{rule}")).unwrap_or_default();
    let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|it| it["type"] == kind).unwrap_or_default()
}

fn notes(api: &MemoryApi, reason: &str) -> Vec<String> {
    let told = api.sent("create events.events.k8s.io as json");
    let of = told.iter().filter(|it| it["reason"] == reason);
    of.map(|it| it["note"].as_str().unwrap_or_default().to_owned()).collect()
}

/// With a definition that lets everything through.
#[tokio::test(start_paused = true)]
async fn a_rule_that_cannot_be_applied_is_told_and_the_others_go_on() {
    let mut unreadable = json!(rule("unreadable").0);
    unreadable["spec"]["enforcementMode"] = "sometimes".into();
    for paged in [false, true] {
        let api = MemoryApi::new(clock);
        put_rule(&api, &rule("good"));
        put_rule(&api, &rule("value").with(|it| it.spec.taint.value = Some("no value".into())));
        put_rule(&api, &rule("empty").with(|it| it.spec.conditions.clear()));
        if paged {
            api.fail("watch", Some(2), Fault::Status(422));
        }
        api.put(&unreadable);
        many(&api, 3);
        let running = Running::start(&api, options("a", false));
        until("all are held", || (0..3).all(|n| is_held(&api, &format!("n{n}")))).await;
        sleep(Duration::from_secs(20)).await;
        for (rule, says) in [("value", "\"no value\" is not a label value"), ("empty", "a rule without conditions")] {
            let enforced = condition(&api, rule, "Enforced");
            assert_eq!((&enforced["status"], &enforced["reason"]), (&json!("False"), &json!("Invalid")), "{rule}");
            assert!(enforced["message"].as_str().unwrap().contains(says), "{enforced}");
            assert!(notes(&api, "Invalid").iter().any(|note| note.contains(says)), "{:?}", notes(&api, "Invalid"));
        }
        assert!(running.said.lock().unwrap().iter().any(|says| says.starts_with("rule unreadable cannot be read")));
        assert_eq!(api.count(PATCH), 3, "paged: {paged}");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_rules_on_one_taint_do_not_flap() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("old"));
    let second = [("second", carrick_core::rule::ConditionStatus::True, None)];
    put_rule(&api, &rule("young").conditions(&second));
    many(&api, 2);
    let running = Running::start(&api, options("a", false));
    until("both are held", || (0..2).all(|n| is_held(&api, &format!("n{n}")))).await;
    // The one is satisfied, the other is not.
    set_ready(&api, "n0", "True");
    sleep(Duration::from_mins(2)).await;
    assert!(is_held(&api, "n0"));
    assert_eq!(api.count(PATCH), 2);
    let younger = if condition(&api, "old", "Conflicting")["status"] == "True" { "old" } else { "young" };
    let conflicting = condition(&api, younger, "Conflicting");
    assert!(conflicting["message"].as_str().unwrap().contains("conflicts with existing rule"), "{conflicting}");
    assert_eq!(notes(&api, "Conflicting").len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_for_no_node_at_all_says_so() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("r").labels(&[("nobody", "has-it")]));
    many(&api, 2);
    let running = Running::start(&api, options("a", false));
    sleep(Duration::from_secs(20)).await;
    let status = api.object(&format!("{RULES}/r")).unwrap()["status"].clone();
    assert_eq!((&status["observedGeneration"], &status["summary"]["matchedNodes"]), (&json!(1), &json!(0)));
    assert_eq!(api.count(PATCH), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn three_hundred_rules_are_one_write_a_node() {
    let api = MemoryApi::new(clock);
    for n in 0..300 {
        let key = format!("readiness.k8s.io/gate-{n}");
        put_rule(&api, &rule(&format!("r{n}")).with(|it| it.spec.taint.key = key.as_str().into()).claimed());
    }
    many(&api, 4);
    let running = Running::start(&api, options("a", false));
    let gates = |n: usize| taints(&api, &format!("n{n}")).iter().filter(|key| key.contains("/gate-")).count();
    until("all are held", || (0..4).all(|n| gates(n) == 300)).await;
    assert_eq!(api.count(PATCH), 4);
    for n in 0..4 {
        set_ready(&api, &format!("n{n}"), "True");
    }
    until("all are released", || (0..4).all(|n| gates(n) == 0)).await;
    assert_eq!(api.count(PATCH), 8);
    let counts = |n: usize| api.object(&format!("{RULES}/r{n}")).unwrap()["status"]["summary"]["releasedNodes"].clone();
    until("all statuses say so", || (0..300).all(|n| counts(n) == 4)).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_taints_of_others_stay_as_they_are() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("r"));
    let crowded = (0..200).fold(node("n0"), |node, n| node.taint(&format!("example.com/t{n}")));
    put_node(&api, crowded);
    let before = taints(&api, "n0");
    let running = Running::start(&api, options("a", false));
    until("it is held", || is_held(&api, "n0")).await;
    assert_eq!(taints(&api, "n0")[..before.len()], before[..]);
    set_ready(&api, "n0", "True");
    until("it is released", || !is_held(&api, "n0")).await;
    assert_eq!(taints(&api, "n0"), before);
    running.stop().await;
}

/// Nothing is decided by the wall's clock: neither who leads nor what is written.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_changes_nothing() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("r").with(|it| it.spec.max_age = Some("1h".to_owned())));
    many(&api, 3);
    set_ready(&api, "n0", "True");
    let wall = Arc::new(Mutex::new(clock()));
    let running = Running::start_with(asking_by(&api, wall.clone()), options("a", true));
    until("the others are held", || is_held(&api, "n1") && is_held(&api, "n2")).await;
    for jump in ["2031-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "2026-11-18T12:00:00Z"] {
        *wall.lock().unwrap() = jump.parse().unwrap();
        sleep(Duration::from_mins(1)).await;
        assert!(running.handle.health().leads, "{jump}");
    }
    assert_eq!(api.count(PATCH), 2);
    set_ready(&api, "n1", "True");
    until("it is released", || !is_held(&api, "n1")).await;
    assert!(is_held(&api, "n2") && !is_held(&api, "n0"));
    let metrics = running.handle.metrics().await.unwrap().render();
    let latency = metrics
        .lines()
        .find(|it| it.starts_with("node_readiness_enforcement_latency_seconds_sum{rule=\"r\",operation=\"remove\"}"));
    let sum: f64 = latency.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap();
    assert!(sum >= 0.0, "{sum}");
    running.stop().await;
}

/// Where a server streams no lists: the watch begins behind the list, not behind one of its objects.
#[tokio::test(start_paused = true)]
async fn a_list_in_pages_goes_on_where_it_ended() {
    let api = MemoryApi::new(clock);
    put_rule(&api, &rule("r"));
    many(&api, 3);
    for n in 0..200 {
        set_ready(&api, "n2", if n % 2 == 0 { "False" } else { "Unknown" });
    }
    // Of what the list has, most is older than what is still known.
    api.compact();
    api.fail("watch", Some(2), Fault::Status(422));
    let running = Running::start(&api, options("a", false));
    until("all are held", || (0..3).all(|n| is_held(&api, &format!("n{n}")))).await;
    sleep(Duration::from_mins(3)).await;
    assert!(api.count("list nodes") == 1, "{} lists", api.count("list nodes"));
    running.stop().await;
}

/// Whatever task it is: the controller ends, and a new process begins clean.
#[tokio::test(start_paused = true)]
async fn a_panic_in_any_task_ends_the_controller() {
    for (task, on, fault) in [
        ("that decides", "are known", None),
        ("watch of nodes", "watch of nodes", Some(("watch nodes", Fault::Refuse))),
        ("watch of rules", "watch of rules", Some(("watch nodereadinessrules.readiness.node.x-k8s.io", Fault::Refuse))),
        ("election", "this instance leads", None),
        ("events", "event TaintAdded", Some(("create events.events.k8s.io", Fault::Status(500)))),
        ("a write of a node", NEVER_SAID, Some(("patch nodes", Fault::Panic))),
        ("a write of a rule", NEVER_SAID, Some(("patch nodereadinessrules.readiness.node.x-k8s.io", Fault::Panic))),
        (
            "a write of a status",
            NEVER_SAID,
            Some(("patch nodereadinessrules.readiness.node.x-k8s.io/status", Fault::Panic)),
        ),
    ] {
        let api = MemoryApi::new(clock);
        put_rule(&api, &rule("r"));
        many(&api, 1);
        if let Some((shape, fault)) = fault {
            api.fail(shape, Some(1), fault);
        }
        let panics: NoticeSink =
            Arc::new(move |notice| assert!(!notice.says.contains(on), "as if by a mistake of ours"));
        let (controller, handle) = Controller::new(asking_for_long(&api, clock()), options("a", true), panics);
        let ended = timeout(Duration::from_mins(1), controller.run(Stop::never())).await;
        assert!(matches!(ended, Ok(Err(ControllerEnd::TaskEnded(..)))), "{task}: {ended:?}");
        assert!(handle.health().broken && !handle.health().is_ready(), "{task}");
        let again = Running::start(&api, options("b", true));
        until("a new one does the work", || is_held(&api, "n0")).await;
        again.stop().await;
    }
}
