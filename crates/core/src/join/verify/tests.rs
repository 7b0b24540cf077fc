use std::net::IpAddr;

use super::testing::{joined, joined_with, looked_at, node, pod, with};
use super::*;
use crate::report::Overall;
use Outcome::{Fail, Pass, Skip, Unknown};

#[test]
fn nothing_seen_holds_nothing() {
    for until in [Until::Registered, Until::Network, Until::Verified] {
        assert!(!holds(&NodeEvidence::default(), until));
        assert!(holds(&joined(), until));
        assert!(judge(&NodeEvidence::default(), until).iter().all(|judged| matches!(judged.verdict, Unknown | Skip)));
        assert_eq!(first_missing(&NodeEvidence::default(), until).map(|it| it.0), Some("verify.kubelet"));
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
    assert_eq!(skipped, 16);
}

#[test]
fn every_id_that_is_named_can_be_explained() {
    let signatures = crate::signature::built_in().unwrap();
    let mut worst = NodeEvidence {
        node: Ok(Node { identity: Some(false), ready: false, network_unavailable: Some("x".into()), ..node() }),
        ..joined()
    };
    worst.kubelet = Ok(Kubelet { standalone: true, ..Kubelet::default() });
    worst.certificate = Ok(ClientCertificate::Stale { why: "x".into() });
    worst.cluster = Ok(ClusterPins { own: "a".into(), asked: "b".into(), is_same: false });
    worst.runtime = Ok(RuntimeConditions { ready: false, network_ready: false, says: "x".into() });
    worst.sandbox = Ok(Sandbox::new(IpAddr::from([1, 1, 1, 1]), vec!["10.0.0.0/8".into()]));
    worst.pods = Ok(vec![pod(2, None)]);
    let named = judge(&worst, Until::Verified).into_iter().flat_map(|judged| judged.explains);
    for id in named.chain(["node.never-registered", "kubelet.not-running", "pod.no-address"]) {
        assert!(crate::check::ids().any(|known| known == id) || signatures.iter().any(|it| it.id == id), "{id}");
    }
}

#[test]
fn what_is_not_known_because_of_a_failure_is_told_there() {
    let outcomes = |seen: &NodeEvidence| -> Vec<(&'static str, Outcome)> {
        judge(seen, Until::Verified).iter().map(|it| (it.id, it.verdict)).filter(|it| it.1 != Pass).collect()
    };
    let never =
        NodeEvidence { kubelet: Ok(Kubelet::default()), certificate: Err(Why::Absent), ..NodeEvidence::default() };
    let runtime = Ok(RuntimeConditions { ready: true, network_ready: false, says: String::new() });
    let never = NodeEvidence { runtime, ..never };
    let failed: Vec<_> = outcomes(&never).into_iter().filter(|it| it.1 != Skip).collect();
    assert_eq!(failed, [("verify.certificate", Fail)]);
    assert!(!holds(&never, Until::Registered));
    let unplugged = with(|s| s.sandbox = Err(Why::Broken("failed to find plugin".into())));
    assert_eq!(
        outcomes(&unplugged),
        [
            ("verify.cluster", Skip),
            ("verify.agent-address", Skip),
            ("verify.sandbox", Fail),
            ("verify.address", Skip),
            ("verify.kubelet-reached", Skip),
            ("verify.peer", Skip),
            ("verify.restarts", Skip),
        ]
    );
    // Without a failure before it nothing is excused.
    let silent = with(|s| s.node = Err(Why::TimedOut));
    assert!(outcomes(&silent).contains(&("verify.identity", Unknown)));
    assert!(outcomes(&silent).contains(&("verify.ready", Unknown)));
}

#[test]
fn the_report_names_the_first_failure_first_and_how_far_it_got() {
    let told = |seen: &NodeEvidence, until| {
        let report = report("w1", seen, until);
        let causes: Vec<String> = report.causes.iter().map(|cause| cause.id.clone()).collect();
        (report.verdict, report.reached.unwrap().reached, causes)
    };
    assert_eq!(told(&joined(), Until::Verified), (Overall::Pass, Some(Until::Verified), vec![]));
    assert_eq!(told(&joined(), Until::Registered), (Overall::Pass, Some(Until::Registered), vec![]));
    assert_eq!(told(&NodeEvidence::default(), Until::Verified), (Overall::Unknown, None, vec![]));
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
fn what_is_only_not_proven_is_shown_and_fails_nothing() {
    let denied = with(|s| s.reach = Err(Why::Denied));
    let told = report("w1", &denied, Until::Verified);
    assert_eq!((told.verdict, told.reached.unwrap().reached), (Overall::Pass, Some(Until::Verified)));
    let finding = told.findings.iter().find(|it| it.id == "verify.kubelet-reached").unwrap();
    assert_eq!(finding.verdict, Unknown, "{}", finding.title);
    let warned = with(|s| s.reach = Ok(KubeletReach::Untrusted { says: "x509: x".into() }));
    let told = report("w1", &warned, Until::Verified);
    assert_eq!((told.verdict, told.reached.unwrap().reached), (Overall::Warn, Some(Until::Verified)));
    assert!(told.causes.is_empty());
}

#[test]
fn a_renewal_is_waited_for_where_a_kubelet_could_bring_it() {
    assert_eq!(awaits_renewal(&joined()), None);
    assert!(awaits_renewal(&with(|s| s.lease = Ok(looked_at(2, 17)))).is_some());
    assert_eq!(awaits_renewal(&with(|s| s.lease = Ok(looked_at(2, 42)))), None);
    assert_eq!(awaits_renewal(&with(|s| s.lease = Err(Why::TimedOut))), None);
    let deleted = || joined_with(|s| s.lease = Err(Why::Absent));
    assert!(awaits_renewal(&deleted()).is_some(), "the kubelet makes it anew");
    assert_eq!(awaits_renewal(&NodeEvidence { lease_refusal: Some("no".into()), ..deleted() }), None);
    assert_eq!(awaits_renewal(&NodeEvidence { node: Err(Why::Absent), ..deleted() }), None);
    let stopped = with(|s| (s.lease, s.kubelet) = (Ok(looked_at(2, 17)), Ok(Kubelet::default())));
    assert_eq!(awaits_renewal(&stopped), None);
}

#[test]
fn every_proof_comes_after_proofs_before_it() {
    for (at, proof) in PROOFS.into_iter().enumerate() {
        assert!(proof.after.iter().all(|id| PROOFS[..at].iter().any(|before| before.id == *id)), "{}", proof.id);
        assert!(proof.explain().lines().count() >= 3 && proof.explain().contains("See it yourself"), "{}", proof.id);
    }
}
