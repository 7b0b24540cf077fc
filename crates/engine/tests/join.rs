//! A join on a machine in memory from which no API server can be reached: tried again, told, and nothing is changed. What a
//! join before it had begun is not forgotten.

use std::time::Duration;

use carrick_core::join::request::Request;
use carrick_core::join::state::{JoinPolicy, Stage};
use carrick_core::join::step::JoinOutcome;
use carrick_core::judge::Ignore;
use carrick_core::signature::Library;
use carrick_engine::Stop;
use carrick_engine::act::Actor;
use carrick_engine::join::{JoinOptions, JoinProgress, JoinReport, join};
use carrick_host::{Host as _, PathEntry};
use carrick_testkit::Machine;

const RECORDS: &str = "/var/lib/carrick/joins";

fn machine() -> Machine {
    Machine::with(&[
        ("/proc/sys/kernel/hostname", "w1\n"),
        ("/etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("/sys/class/dmi/id/product_uuid", "11111111-2222-3333-4444-555555555555\n"),
        ("/var/lib/x", ""),
    ])
}

fn options() -> JoinOptions<'static> {
    let request = Request {
        api: "10.0.0.11:6443".parse().ok(),
        token: "abcdef.0123456789abcdef".parse().ok(),
        pins: format!("sha256:{}", "0".repeat(64)).parse().into_iter().collect(),
        ..Request::default()
    };
    JoinOptions {
        request,
        policy: JoinPolicy::default(),
        // Nothing is on this machine that a join needs: only the way counts here.
        ignore: Ignore::of(["all"]).unwrap_or_default(),
        admin: None,
        asker: None,
        protect: Vec::new(),
        time_box: Duration::from_secs(10),
    }
}

async fn joined(machine: &Machine, library: &Library) -> (JoinReport, Vec<JoinProgress>) {
    let actor = Actor { verb: "join".into(), by: "root".into(), version: "0".into(), stop: Stop::never() };
    let mut told = Vec::new();
    let ended = join(&machine.shared(), &actor, options(), library, None, &mut |it| told.push(it)).await;
    (ended, told)
}

#[tokio::test(start_paused = true)]
async fn an_api_server_out_of_reach_is_tried_again_and_nothing_is_changed() {
    let (machine, library) = (machine(), Library::built_in().unwrap());
    let (ended, told) = joined(&machine, &library).await;
    let JoinOutcome::Failed(failure) = &ended.outcome else { panic!("{ended:?}") };
    assert_eq!((failure.stage, failure.causes[0].id.as_str()), (Stage::Begun, "api.tcp"), "{failure:?}");
    let again: Vec<u32> = told
        .iter()
        .filter_map(|it| if let JoinProgress::Again { attempt, .. } = it { Some(*attempt) } else { None })
        .collect();
    assert_eq!((again, ended.state.attempt), (vec![1, 2], 3));
    assert_eq!(machine.changes(), [""; 0], "it only looked");
    assert_eq!((ended.record, ended.left.unfinished), (None, false));
}

#[tokio::test(start_paused = true)]
async fn what_was_cut_off_is_remembered_until_a_join_can_end_it() {
    let (machine, library) = (machine(), Library::built_in().unwrap());
    // As a join leaves it that is killed while kubeadm runs.
    let (mut before, _) =
        carrick_core::join::state::JoinStatus::begin(JoinPolicy::default(), "2026-11-16T02:00:00Z".parse().unwrap());
    before.stage = Stage::Joining;
    let saved =
        serde_json::json!({"schema": "carrick.join/v1", "begun": "2026-11-16T02:00:00Z", "state": before, "runs": []});
    machine.meddle(&format!("{RECORDS}/0.json"), &saved.to_string());
    let told_first = "was cut off (joining); this one goes on";
    let told_then = "could not end what one before it had begun; this one goes on";
    for (run, expected) in [(1, told_first), (2, told_then)] {
        let (ended, told) = joined(&machine, &library).await;
        assert!(
            told.iter().any(|it| matches!(it, JoinProgress::Says(says) if says.ends_with(expected))),
            "{run}: {told:?}"
        );
        assert!(ended.left.unfinished, "{run}: {ended:?}");
        let log = machine.look(ended.record.as_deref().unwrap()).await.unwrap();
        let Some(PathEntry::File(log)) = log else { panic!("{log:?}") };
        let log = String::from_utf8(log.bytes).unwrap();
        assert!(log.contains("not joined, at begun") && !log.contains("0123456789abcdef"), "{log}");
    }
}
