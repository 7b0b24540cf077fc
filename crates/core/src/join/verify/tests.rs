use super::sample::{STARTED, joined, node, renewal};
use super::*;
use crate::report::Overall;
use Outcome::{Fail, Pass, Skip, Unknown};

fn verdict(seen: &Seen, id: &str) -> Verdict {
    (ITEMS.iter().find(|item| item.id == id).unwrap().judge)(seen)
}

type Row = (&'static str, &'static str, Seen, Outcome);

fn pod(restarts: u64, down: Option<&str>) -> Pod {
    Pod { name: "net/p".into(), restarts, why: "Error 2".into(), down: down.map(str::to_owned) }
}

/// A Node without a lease: made, and looked at, so many seconds after the kubelet started.
fn young(made: i64, looked: i64) -> Seen {
    let at = |seconds| Timestamp::from_second(STARTED.as_second() + seconds).ok();
    let own = Node { created_at: at(made), seen_at: at(looked), ..node() };
    Seen { node: Ok(own), lease: Err(Why::Absent), ..joined() }
}

/// A lease that did not move while it was watched: renewed, and last looked at, so many seconds after the kubelet started.
fn looked_at(renewed: i64, seen: i64) -> Lease {
    let at = |seconds: i64| Timestamp::from_second(STARTED.as_second() + seconds).ok();
    let first = Renewal { seen_at: at(1), ..renewal("1", renewed) };
    Lease { last: Renewal { seen_at: at(seen), ..first.clone() }, first }
}

/// A machine that has joined, but for this.
fn with(change: fn(&mut Seen)) -> Seen {
    let mut seen = joined();
    change(&mut seen);
    seen
}

fn rows_of_registration() -> Vec<Row> {
    vec![
        ("verify.kubelet", "runs", joined(), Pass),
        (
            "verify.kubelet",
            "alone",
            with(|s| s.kubelet = Ok(Kubelet { active: true, standalone: true, ..Kubelet::default() })),
            Fail,
        ),
        ("verify.kubelet", "stopped", with(|s| s.kubelet = Ok(Kubelet::default())), Fail),
        ("verify.kubelet", "systemctl hangs", with(|s| s.kubelet = Err(Why::TimedOut)), Unknown),
        (
            "verify.kubelet",
            "waits for a join",
            with(|s| (s.kubelet, s.certificate) = (Ok(Kubelet::default()), Err(Why::Absent))),
            Skip,
        ),
        ("verify.certificate", "of this cluster", joined(), Pass),
        (
            "verify.certificate",
            "of another",
            with(|s| s.certificate = Ok(Certificate::Stale { why: "x".into() })),
            Fail,
        ),
        ("verify.certificate", "never joined", with(|s| s.certificate = Err(Why::Absent)), Fail),
        ("verify.certificate", "unreadable", with(|s| s.certificate = Err(Why::Denied)), Unknown),
        ("verify.cluster", "nobody asked", joined(), Skip),
        ("verify.cluster", "the same", with(|s| s.cluster = Ok(Cluster { own: "a".into(), asked: "a".into() })), Pass),
        ("verify.cluster", "another", with(|s| s.cluster = Ok(Cluster { own: "a".into(), asked: "b".into() })), Fail),
        ("verify.cluster", "unreadable", with(|s| s.cluster = Err(Why::Denied)), Unknown),
        ("verify.identity", "this machine", joined(), Pass),
        ("verify.identity", "another machine", with(|s| s.node = Ok(Node { identity: Some(false), ..node() })), Fail),
        ("verify.identity", "shared ids", with(|s| s.node = Ok(Node { identity: None, ..node() })), Unknown),
        ("verify.identity", "no such Node", with(|s| s.node = Err(Why::Absent)), Fail),
        ("verify.identity", "no API server", with(|s| s.node = Err(Why::TimedOut)), Unknown),
        ("verify.identity", "nobody may ask", with(|s| s.node = Err(Why::NotAsked)), Unknown),
        ("verify.lease", "its version moved", joined(), Pass),
        (
            "verify.lease",
            "renewed since",
            with(|s| s.lease = Ok(Lease { first: renewal("1", 2), last: renewal("1", 2) })),
            Pass,
        ),
        (
            "verify.lease",
            "not seen when",
            with(|s| s.lease = Ok(Lease { first: renewal("1", -9), last: renewal("1", -9) })),
            Unknown,
        ),
        (
            "verify.lease",
            "since when the kubelet runs is not known",
            with(|s| {
                s.lease = Ok(Lease { first: renewal("1", 9), last: renewal("1", 9) });
                s.kubelet = Ok(Kubelet { active: true, ..Kubelet::default() });
            }),
            Unknown,
        ),
        ("verify.lease", "renewed since, a moment ago", with(|s| s.lease = Ok(looked_at(2, 12))), Pass),
        ("verify.lease", "renewed since, and late", with(|s| s.lease = Ok(looked_at(2, 17))), Unknown),
        ("verify.lease", "renewed since, and run out", with(|s| s.lease = Ok(looked_at(2, 42))), Fail),
        (
            "verify.lease",
            "of the kubelet before, which this one may still renew",
            with(|s| s.lease = Ok(looked_at(-900, 39))),
            Unknown,
        ),
        ("verify.lease", "of the kubelet before", with(|s| s.lease = Ok(looked_at(-900, 40))), Fail),
        (
            "verify.lease",
            "of a kubelet that was stopped",
            with(|s| {
                s.lease = Ok(looked_at(2, 3));
                s.kubelet = Ok(Kubelet { active: false, started_at: Some(STARTED), ..Kubelet::default() });
            }),
            Unknown,
        ),
        ("verify.lease", "none", with(|s| s.lease = Err(Why::Absent)), Fail),
        ("verify.lease", "none yet", young(2, 9), Pass),
        ("verify.lease", "none, and late", young(2, 18), Fail),
        ("verify.lease", "none, of a Node before this kubelet", young(-60, 3), Fail),
        ("verify.lease", "nor a Node", with(|s| (s.node, s.lease) = (Err(Why::Absent), Err(Why::Absent))), Skip),
        ("verify.lease", "denied", with(|s| s.lease = Err(Why::Denied)), Unknown),
    ]
}

fn rows_of_the_network() -> Vec<Row> {
    vec![
        ("verify.runtime-network", "ready", joined(), Pass),
        (
            "verify.runtime-network",
            "no CNI",
            with(|s| s.runtime = Ok(Runtime { ready: true, network_ready: false, says: "x".into() })),
            Fail,
        ),
        ("verify.runtime-network", "no answer", with(|s| s.runtime = Err(Why::TimedOut)), Unknown),
        ("verify.network-available", "nothing said", joined(), Pass),
        (
            "verify.network-available",
            "at work",
            with(|s| s.node = Ok(Node { network_unavailable: Some("NoRouteCreated".into()), ..node() })),
            Fail,
        ),
        ("verify.ready", "Ready", joined(), Pass),
        ("verify.ready", "NotReady", with(|s| s.node = Ok(Node { ready: false, ..node() })), Fail),
        ("verify.sandbox", "an address", joined(), Pass),
        (
            "verify.sandbox",
            "no plugin",
            with(|s| s.sandbox = Err(Why::Broken("failed to find plugin \"flannel\"".into()))),
            Fail,
        ),
        ("verify.sandbox", "not tried", with(|s| s.sandbox = Err(Why::NotCollected)), Unknown),
        ("verify.sandbox", "only for Pods, and there is none", with(|s| s.sandbox = Err(Why::Absent)), Unknown),
        ("verify.address", "of its range", joined(), Pass),
        (
            "verify.address",
            "of the cluster before",
            with(|s| {
                s.sandbox = Ok(Sandbox::new(IpAddr::from([10, 244, 9, 7]), vec!["10.244.1.0/24".into()]));
            }),
            Fail,
        ),
        (
            "verify.address",
            "allotted by the network",
            with(|s| s.sandbox = Ok(Sandbox::new(IpAddr::from([10, 0, 0, 1]), vec![]))),
            Skip,
        ),
        ("verify.address", "no sandbox", with(|s| s.sandbox = Err(Why::TimedOut)), Unknown),
        ("verify.restarts", "not watched", joined(), Skip),
        ("verify.restarts", "stayed up", with(|s| s.pods = Ok(vec![pod(0, None)])), Pass),
        ("verify.restarts", "again and again", with(|s| s.pods = Ok(vec![pod(2, None)])), Fail),
        (
            "verify.restarts",
            "held back all the while",
            with(|s| s.pods = Ok(vec![pod(0, None), pod(0, Some("CrashLoopBackOff"))])),
            Fail,
        ),
        ("verify.restarts", "nobody to watch", with(|s| s.pods = Ok(vec![])), Unknown),
        ("verify.restarts", "denied", with(|s| s.pods = Err(Why::Denied)), Unknown),
    ]
}

#[test]
fn judges_each_piece() {
    let rows: Vec<Row> = rows_of_registration().into_iter().chain(rows_of_the_network()).collect();
    for (id, name, seen, expected) in &rows {
        let verdict = verdict(seen, id);
        assert_eq!(verdict.outcome, *expected, "{id}, {name}: {}", verdict.says);
        if *expected == Fail {
            assert!(!verdict.evidence.is_empty() && !verdict.remedy.is_empty(), "{id}, {name}");
            assert!(!holds(seen, Until::Verified), "{id}, {name}");
        }
    }
    for item in &ITEMS {
        let of: Vec<Outcome> = rows.iter().filter(|row| row.0 == item.id).map(|row| row.3).collect();
        assert!(of.contains(&Pass) && of.contains(&Fail), "{}", item.id);
        assert!(item.id.starts_with("verify.") && !item.explain.is_empty());
    }
}

#[test]
fn nothing_seen_holds_nothing() {
    for until in [Until::Registered, Until::Network, Until::Verified] {
        assert!(!holds(&Seen::default(), until));
        assert!(holds(&joined(), until));
        assert!(judge(&Seen::default(), until).iter().all(|judged| matches!(judged.verdict, Unknown | Skip)));
        assert_eq!(first_missing(&Seen::default(), until).map(|it| it.0), Some("verify.kubelet"));
        assert_eq!(until.name().parse(), Ok(until));
    }
    assert!("ready".parse::<Until>().is_err());
}

#[test]
fn how_far_decides_what_is_needed() {
    let mut seen = joined();
    seen.sandbox = Err(Why::NotCollected);
    assert!(holds(&seen, Until::Network) && !holds(&seen, Until::Verified));
    seen.runtime = Err(Why::TimedOut);
    assert!(holds(&seen, Until::Registered) && !holds(&seen, Until::Network));
    let skipped = judge(&seen, Until::Registered).iter().filter(|it| it.verdict == Skip).count();
    assert_eq!(skipped, 7);
}

#[test]
fn every_id_that_is_named_can_be_explained() {
    let signatures = crate::signature::built_in().unwrap();
    let mut worst = Seen {
        node: Ok(Node { identity: Some(false), ready: false, network_unavailable: Some("x".into()), ..node() }),
        ..joined()
    };
    worst.kubelet = Ok(Kubelet { standalone: true, ..Kubelet::default() });
    worst.certificate = Ok(Certificate::Stale { why: "x".into() });
    worst.cluster = Ok(Cluster { own: "a".into(), asked: "b".into() });
    worst.runtime = Ok(Runtime { ready: false, network_ready: false, says: "x".into() });
    worst.sandbox = Ok(Sandbox::new(IpAddr::from([1, 1, 1, 1]), vec!["10.0.0.0/8".into()]));
    worst.pods = Ok(vec![pod(2, None)]);
    let named = judge(&worst, Until::Verified).into_iter().flat_map(|judged| judged.explains);
    for id in named.chain(["node.never-registered", "kubelet.not-running", "pod.no-address"]) {
        assert!(crate::check::ids().any(|known| known == id) || signatures.iter().any(|it| it.id == id), "{id}");
    }
}

#[test]
fn what_is_not_known_because_of_a_failure_is_told_there() {
    let outcomes = |seen: &Seen| -> Vec<(&'static str, Outcome)> {
        judge(seen, Until::Verified).iter().map(|it| (it.id, it.verdict)).filter(|it| it.1 != Pass).collect()
    };
    let never = Seen { kubelet: Ok(Kubelet::default()), certificate: Err(Why::Absent), ..Seen::default() };
    let runtime = Ok(Runtime { ready: true, network_ready: false, says: String::new() });
    let never = Seen { runtime, ..never };
    let failed: Vec<_> = outcomes(&never).into_iter().filter(|it| it.1 != Skip).collect();
    assert_eq!(failed, [("verify.certificate", Fail)]);
    assert!(!holds(&never, Until::Registered));
    let unplugged = with(|s| s.sandbox = Err(Why::Broken("failed to find plugin".into())));
    assert_eq!(
        outcomes(&unplugged),
        [("verify.cluster", Skip), ("verify.sandbox", Fail), ("verify.address", Skip), ("verify.restarts", Skip)]
    );
    // Without a failure before it nothing is excused.
    let silent = with(|s| s.node = Err(Why::TimedOut));
    assert!(outcomes(&silent).contains(&("verify.identity", Unknown)));
    assert!(outcomes(&silent).contains(&("verify.ready", Unknown)));
}

#[test]
fn the_report_names_the_first_failure_first_and_how_far_it_got() {
    let told = |seen: &Seen, until| {
        let report = report("w1", seen, until);
        let causes: Vec<String> = report.causes.iter().map(|cause| cause.id.clone()).collect();
        (report.verdict, report.reached.unwrap().reached, causes)
    };
    assert_eq!(told(&joined(), Until::Verified), (Overall::Pass, Some(Until::Verified), vec![]));
    assert_eq!(told(&joined(), Until::Registered), (Overall::Pass, Some(Until::Registered), vec![]));
    assert_eq!(told(&Seen::default(), Until::Verified), (Overall::Unknown, None, vec![]));
    let deleted = with(|s| (s.node, s.lease) = (Err(Why::Absent), Err(Why::Absent)));
    let (verdict, reached, causes) = told(&deleted, Until::Verified);
    assert_eq!((verdict, reached), (Overall::Fail, None));
    assert_eq!(causes, ["verify.identity"]);
    let explains = &report("w1", &deleted, Until::Verified).causes[0].explains;
    assert!(explains.iter().any(|id| id == "verify.lease") && explains.iter().any(|id| id == "node.never-registered"));
    let unplugged = with(|s| s.sandbox = Err(Why::Broken("failed to find plugin".into())));
    assert_eq!(told(&unplugged, Until::Verified).1, Some(Until::Network));
}

#[test]
fn a_renewal_is_waited_for_where_a_kubelet_could_bring_it() {
    assert_eq!(awaits_renewal(&joined()), None);
    assert!(awaits_renewal(&with(|s| s.lease = Ok(looked_at(2, 17)))).is_some());
    assert_eq!(awaits_renewal(&with(|s| s.lease = Ok(looked_at(2, 42)))), None);
    assert_eq!(awaits_renewal(&with(|s| s.lease = Err(Why::TimedOut))), None);
    let stopped = with(|s| (s.lease, s.kubelet) = (Ok(looked_at(2, 17)), Ok(Kubelet::default())));
    assert_eq!(awaits_renewal(&stopped), None);
}

#[test]
fn every_item_comes_after_items_before_it() {
    for (at, item) in ITEMS.iter().enumerate() {
        assert!(item.after.iter().all(|id| ITEMS[..at].iter().any(|before| before.id == *id)), "{}", item.id);
        assert!(item.explain.lines().count() >= 3 && item.explain.contains("See it yourself"), "{}", item.id);
    }
}
