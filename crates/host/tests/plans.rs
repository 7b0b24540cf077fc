//! What `check --fix` would change on every machine that was recorded in the lab: a plan that is made, that is the same when it
//! is made again, that touches nothing that is protected; and that is not carried out on a control plane.

#![allow(clippy::unwrap_used)] // What helps a test is a test.

use std::path::Path;

use carrick_core::check::CheckPolicy;
use carrick_core::fact::{Capture, Facts, dir_key};
use carrick_core::fix;
use carrick_core::judge::{self, Ignore};
use carrick_core::plan::Plan;
use carrick_core::plan::protect::{PlanRefusal, Protected};
use carrick_host::bundle;

/// The facts of every capture, by its name.
fn machines() -> Vec<(String, Facts)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/captures");
    let mut places: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    places.sort();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    places.iter().map(|path| (name(path), bundle::open(&path.join("bundle.tar.gz")).unwrap())).collect()
}

fn planned(facts: &Facts) -> Plan {
    let report = judge::check(facts, &CheckPolicy::default(), &Ignore::default());
    fix::plan(facts, &report).unwrap()
}

fn sentences(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| step.effect.to_string()).collect()
}

#[test]
fn every_plan_is_stable_and_touches_nothing_that_is_protected() {
    let machines = machines();
    assert!(machines.len() >= 30, "only {} captures", machines.len());
    for (name, facts) in machines {
        let plan = planned(&facts);
        assert_eq!(plan, planned(&facts), "{name}");
        let protected = Protected::on(&facts, Vec::new()).unwrap();
        assert_eq!(protected.refusal(&plan), None, "{name}");
        assert!(plan.steps.iter().all(|step| !step.why.is_empty()), "{name}: a change without a reason");
    }
}

#[test]
fn on_a_control_plane_no_plan_is_carried_out() {
    let mut refused = 0;
    for (name, mut facts) in machines() {
        let plan = planned(&facts);
        let admin = Capture::text("-rw------- 0 0 100 1763228400 admin.conf\t\n");
        facts.insert(dir_key("/etc/kubernetes"), Ok(admin));
        let refusal = Protected::on(&facts, Vec::new()).unwrap().refusal(&plan);
        if plan.is_empty() {
            continue;
        }
        refused += 1;
        assert_eq!(refusal, Some(PlanRefusal::ControlPlane("/etc/kubernetes/admin.conf".into())), "{name}");
        let report = judge::check(&facts, &CheckPolicy::default(), &Ignore::default());
        let offers = report.findings.iter().flat_map(|finding| &finding.remedy).find(|it| it.contains("--fix"));
        assert_eq!(offers, None, "{name}: a fix is offered on a control plane");
    }
    assert!(refused >= 5, "only {refused} machines had anything to fix");
}

/// What was put in is what is fixed.
#[test]
fn known_faults_have_their_fix() {
    let machines = machines();
    let of = |name: &str| sentences(&planned(&machines.iter().find(|(other, _)| other == name).unwrap().1));
    for (name, sentence) in [
        ("cgroup-driver-mismatch", "restart containerd and wait for it to answer; what runs on it could not be told"),
        ("cri-disabled", "edit /etc/containerd/config.toml: disabled_plugins = []"),
        ("containerd-stopped", "start containerd"),
        ("dropin-missing", "write /etc/systemd/system/kubelet.service.d/05-carrick.conf"),
        ("dropin-missing-running", "stop kubelet"),
        ("ip-forward-off", "set net.ipv4.ip_forward to 1"),
        ("kubelet-stopped-later", "start kubelet"),
        ("cni-folder-removed", "make the directory /etc/cni/net.d (mode 0755)"),
        ("cni-watch-lost", "restart containerd and wait for it to answer; what runs on it could not be told"),
    ] {
        assert!(of(name).iter().any(|told| told == sentence), "{name}: {:?}", of(name));
    }
    for name in ["sound-join-debian12", "sound-join-debian13", "sound-rejoin"] {
        assert_eq!(of(name), Vec::<String>::new(), "{name}: nothing is wrong");
    }
}
