//! Plans carried out, cut off and taken back, on a machine in memory.
#![allow(clippy::unwrap_used)] // What helps a test is a test.

use carrick_core::fact::{Source, sources};
use carrick_core::plan::edit::{Edit, Set};
use carrick_core::plan::protect::{PlanRefusal, Protected};
use carrick_core::plan::{Effect, PlaceState, Plan, Step};
use carrick_core::stop::StopSignal;
use carrick_core::testing::every_effect;
use carrick_engine::act::journal::{self, Broken, End};
use carrick_engine::act::undo::{self, NotUndone};
use carrick_engine::act::{self, Actor, Grounded, StepProgress, Stopped};
use carrick_engine::{Stop, StopTeller};
use carrick_host::{Entry, File, Host, How, Probe, Progress, gather};
use carrick_testkit::Machine;

const HOME: &str = "/var/lib/carrick";
const FSTAB: &str = "/dev/sda1 / ext4 defaults 0 1\n/swap none swap sw 0 0\n";

fn machine() -> Machine {
    let files = [
        ("/etc/fstab", FSTAB),
        ("/etc/containerd/config.toml", "# mine\nversion = 2\ndisabled_plugins = [\"cri\"]\n"),
        ("/etc/sysctl.d/10-other.conf", "vm.swappiness = 10\n"),
        ("/etc/modules-load.d/other.conf", "loop\n"),
        ("/etc/cni/net.d/00-stray.conf", "{}"),
        ("/proc/sys/net/ipv4/ip_forward", "0\n"),
        ("/var/lib/dpkg/status", ""),
    ];
    Machine::with(&files).with_swap("/swap").with_link("/etc/cni/net.d/link", "00-stray.conf")
}

/// One effect of every kind that needs no runtime.
fn plan() -> Plan {
    let write = |path: &str, text: &str, in_place| {
        let (path, text) = (path.to_owned(), text.to_owned());
        Effect::Write { path, text, mode: 0o644, in_place }
    };
    let effects = [
        Effect::MakeDir { path: "/etc/systemd".into(), mode: 0o755 },
        Effect::MakeDir { path: "/etc/systemd/system".into(), mode: 0o755 },
        write("/etc/sysctl.d/90-carrick.conf", "a = 1\n", false),
        write("/etc/systemd/system/x.service", "[Unit]\n", true),
        Effect::Edit {
            path: "/etc/containerd/config.toml".into(),
            edit: Edit::Toml { set: vec![Set { key: vec!["disabled_plugins".into()], to: "[]".into() }] },
        },
        Effect::Edit {
            path: "/etc/fstab".into(),
            edit: Edit::CommentOut { lines: vec!["/swap none swap sw 0 0".into()] },
        },
        Effect::SetMode { path: "/etc/modules-load.d/other.conf".into(), mode: 0o600 },
        Effect::Remove { path: "/etc/cni/net.d/00-stray.conf".into() },
        Effect::Remove { path: "/etc/cni/net.d/link".into() },
        Effect::ReloadUnits,
        Effect::LoadModule { name: "br_netfilter".into() },
        Effect::Sysctl { key: "net.ipv4.ip_forward".into(), value: "1".into() },
        Effect::SwapOff { device: "/swap".into() },
        Effect::Enable { unit: "kubelet".into(), enabled: true },
        Effect::Run { unit: "containerd".into(), running: true },
    ];
    Plan { steps: effects.into_iter().map(|effect| Step { effect, why: vec!["a.check".into()] }).collect() }
}

fn actor() -> Actor {
    Actor { verb: "check --fix".into(), by: "root".into(), version: "1".into(), stop: Stop::never() }
}

async fn apply(machine: &Machine, plan: &Plan) -> Result<u32, Stopped> {
    let steps = act::ground(machine, plan).await.map_err(Stopped::Before)?;
    act::apply(&machine.shared(), &actor(), &steps, &Protected::default(), &mut |_| {}).await
}

async fn take_back(machine: &Machine, run: Option<u32>) -> Result<(), NotUndone> {
    let back = undo::plan(machine, run).await?;
    undo::apply(&machine.shared(), &back, &Protected::default(), &Stop::never(), &mut |_| {}).await
}

#[tokio::test]
async fn a_plan_is_carried_out_once_and_taken_back_byte_for_byte() {
    let (machine, before) = (machine(), machine().all_but(HOME));
    assert_eq!(apply(&machine, &plan()).await.unwrap(), 1);
    let text = |path: &str| match machine.all_but(HOME).files.get(path) {
        Some(Entry::File(file)) => String::from_utf8(file.bytes.clone()).unwrap(),
        other => panic!("{path}: {other:?}"),
    };
    assert_eq!(text("/etc/containerd/config.toml"), "# mine\nversion = 2\ndisabled_plugins = []\n");
    assert_eq!(text("/etc/fstab"), FSTAB.replace("/swap", "# carrick: /swap"));
    assert_eq!(text("/proc/sys/net/ipv4/ip_forward"), "1\n");

    // What is so already is no change; that a module is loaded cannot be seen on this machine, and a reload always is one.
    let again = act::ground(&machine, &plan()).await.unwrap();
    let again: Vec<String> = again.iter().map(|step| step.step.effect.to_string()).collect();
    assert_eq!(again, ["make systemd read its unit files anew", "load the kernel module br_netfilter"]);

    take_back(&machine, None).await.unwrap();
    assert_eq!(machine.all_but(HOME), before);
    assert!(matches!(take_back(&machine, None).await, Err(NotUndone::Nothing)));
    assert!(matches!(take_back(&machine, Some(1)).await, Err(NotUndone::Already(1))));
}

/// Where the power may go: after every single change that an undisturbed run makes, the journal's own included.
async fn changes_of_a_whole_run() -> usize {
    let machine = machine();
    apply(&machine, &plan()).await.unwrap();
    machine.changes().len()
}

#[tokio::test]
async fn cut_off_anywhere_the_next_run_ends_as_an_undisturbed_one() {
    let (before, whole) = (machine().all_but(HOME), machine());
    apply(&whole, &plan()).await.unwrap();
    for power in 0..changes_of_a_whole_run().await {
        let machine = machine();
        machine.power(Some(power));
        assert!(apply(&machine, &plan()).await.is_err(), "{power}");
        machine.power(None);
        apply(&machine, &plan()).await.unwrap();
        assert_eq!(machine.all_but(HOME), whole.all_but(HOME), "cut off after {power} changes");
        // Both runs are taken back as one.
        take_back(&machine, None).await.unwrap();
        assert_eq!(machine.all_but(HOME), before, "cut off after {power} changes, completed, taken back");
    }
}

#[tokio::test]
async fn told_to_stop_it_finishes_the_change_at_hand_and_says_how_to_go_on() {
    let (before, whole) = (machine().all_but(HOME), machine());
    apply(&whole, &plan()).await.unwrap();
    let all = act::ground(&machine(), &plan()).await.unwrap();
    for last in 0..all.len() {
        let (machine, (teller, stop)) = (machine(), StopTeller::new());
        let mut tell = |told: StepProgress<'_>| {
            if matches!(told, StepProgress::Begins(at, _) if at == last) {
                teller.tell(StopSignal::Interrupt);
            }
        };
        let steps = act::ground(&machine, &plan()).await.unwrap();
        let actor = Actor { stop, ..actor() };
        let done = act::apply(&machine.shared(), &actor, &steps, &Protected::default(), &mut tell).await;
        let expected = format!(
            "stopped by SIGINT after {} of {} steps; go on: carrick check --fix; take back what was done: carrick undo 1",
            last + 1,
            all.len(),
        );
        match done {
            // Behind the last change there is nothing left to stop.
            Ok(run) => assert_eq!((run, last), (1, all.len() - 1)),
            Err(stopped) => {
                assert_eq!((stopped.to_string(), stopped.signal()), (expected, Some(StopSignal::Interrupt)));
            }
        }
        // Nothing more is changed for who was told to stop, not even a record.
        let untouched = act::apply(&machine.shared(), &actor, &steps, &Protected::default(), &mut |_| {}).await;
        assert_eq!(untouched.unwrap_err().to_string(), "stopped by SIGINT; nothing was changed");
        apply(&machine, &plan()).await.unwrap();
        assert_eq!(machine.all_but(HOME), whole.all_but(HOME), "stopped after {last}");
        take_back(&machine, None).await.unwrap();
        if last + 1 < all.len() {
            assert_eq!(machine.all_but(HOME), before, "stopped after {last}, completed, taken back");
        }
    }
}

#[tokio::test]
async fn an_undo_that_is_told_to_stop_is_completed_by_the_next() {
    let (machine, before) = (machine(), machine().all_but(HOME));
    apply(&machine, &plan()).await.unwrap();
    let (teller, stop) = StopTeller::new();
    let mut tell = |told: StepProgress<'_>| {
        if matches!(told, StepProgress::Begins(2, _)) {
            teller.tell(StopSignal::Terminate);
        }
    };
    let back = undo::plan(&machine, None).await.unwrap();
    let stopped = undo::apply(&machine.shared(), &back, &Protected::default(), &stop, &mut tell).await.unwrap_err();
    assert_eq!(
        stopped.to_string(),
        format!("stopped by SIGTERM: 3 of {} taken back; go on: carrick undo 1", back.backs.len())
    );
    take_back(&machine, None).await.unwrap();
    assert_eq!(machine.all_but(HOME), before);
}

#[tokio::test]
async fn cut_off_anywhere_it_can_be_taken_back_at_once() {
    let before = machine().all_but(HOME);
    for power in 0..changes_of_a_whole_run().await {
        let machine = machine();
        machine.power(Some(power));
        assert!(apply(&machine, &plan()).await.is_err());
        machine.power(None);
        match take_back(&machine, None).await {
            Ok(()) | Err(NotUndone::Nothing) => {}
            Err(error) => panic!("cut off after {power} changes: {error}"),
        }
        assert_eq!(machine.all_but(HOME), before, "cut off after {power} changes");
    }
}

#[tokio::test]
async fn cut_off_while_taking_back_the_next_undo_completes_it() {
    let done = machine();
    apply(&done, &plan()).await.unwrap();
    let whole = done.copy();
    take_back(&whole, None).await.unwrap();
    for power in 0..whole.changes().len() {
        let machine = done.copy();
        machine.power(Some(power));
        assert!(take_back(&machine, None).await.is_err());
        machine.power(None);
        take_back(&machine, None).await.unwrap();
        assert_eq!(machine.all_but(HOME), whole.all_but(HOME), "cut off after {power} changes");
        assert_eq!(journal::load(&machine, 1).await.unwrap().end(), End::Undone);
    }
}

#[tokio::test]
async fn a_restart_that_a_kill_left_undone_is_owed() {
    let machine = machine();
    machine.power(Some(changes_of_a_whole_run().await / 2));
    assert!(apply(&machine, &plan()).await.is_err());
    machine.power(None);
    let owed: Vec<String> = journal::owed(&machine).await.unwrap().iter().map(|step| step.effect.to_string()).collect();
    assert_eq!(owed, ["make systemd read its unit files anew"]);
    apply(&machine, &plan()).await.unwrap();
    assert_eq!(journal::owed(&machine).await.unwrap(), []);
}

#[tokio::test]
async fn a_full_disk_while_journaling_changes_nothing() {
    let (machine, before) = (machine(), machine().all_but(HOME));
    machine.fill(HOME);
    let stopped = apply(&machine, &plan()).await.unwrap_err().to_string();
    assert_eq!(stopped, "nothing was changed: /var/lib/carrick: No space left on device");
    assert_eq!(machine.all_but(HOME), before);
}

#[tokio::test]
async fn what_somebody_changed_meanwhile_is_not_written_over() {
    let machine = machine();
    let steps = act::ground(&machine, &plan()).await.unwrap();
    machine.meddle("/etc/fstab", "new\n");
    let stopped = act::apply(&machine.shared(), &actor(), &steps, &Protected::default(), &mut |_| {}).await;
    let stopped = stopped.unwrap_err().to_string();
    assert!(stopped.contains("/etc/fstab: was changed by somebody else since the plan was made"), "{stopped}");
    assert!(stopped.ends_with("carrick undo 1"), "{stopped}");

    let machine = self::machine();
    apply(&machine, &plan()).await.unwrap();
    machine.meddle("/etc/fstab", "new\n");
    let meddled = machine.all_but("/none");
    let refused = take_back(&machine, None).await.unwrap_err().to_string();
    assert!(refused.starts_with("run 1: /etc/fstab was changed since; nothing was taken back."), "{refused}");
    assert_eq!(machine.all_but("/none"), meddled);
}

#[tokio::test]
async fn a_protected_path_stops_the_whole_plan_before_it_begins() {
    let (machine, before) = (machine(), machine().all_but("/none"));
    let protected = Protected { named: vec!["/etc/fstab".into()], ..Protected::default() };
    let steps = act::ground(&machine, &plan()).await.unwrap();
    let refused = act::apply(&machine.shared(), &actor(), &steps, &protected, &mut |_| {}).await.unwrap_err();
    assert!(matches!(refused, Stopped::Refused(_)), "{refused}");
    assert_eq!(machine.all_but("/none"), before);
}

#[tokio::test]
async fn on_a_control_plane_no_effect_is_begun() {
    let marks = [("/etc/kubernetes/admin.conf", ""), ("/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")];
    let machine = Machine::with(&marks);
    let all: Vec<Source> = sources().collect();
    let (facts, _) = gather("m1", machine.now(), machine.observe(&all, &Progress::default()).await);
    let protected = Protected::on(&facts, Vec::new()).unwrap();
    for effect in every_effect() {
        let step = Step { effect: effect.clone(), why: Vec::new() };
        let grounded = Grounded { step, was: PlaceState::Absent, becomes: PlaceState::Moment, old: None, new: None };
        let refused = act::apply(&machine.shared(), &actor(), &[grounded], &protected, &mut |_| {}).await.unwrap_err();
        assert!(matches!(refused, Stopped::Refused(PlanRefusal::ControlPlane(_))), "{effect}: {refused}");
    }
    assert_eq!(machine.changes(), [""; 0]);
}

#[tokio::test]
async fn what_had_no_value_stays_and_a_directory_comes_back() {
    let machine = Machine::with(&[("/etc/cni/net.d/stray/x", ""), ("/var/lib/x", "")]);
    machine.remove("/etc/cni/net.d/stray/x").await.unwrap();
    let before = machine.all_but("/none").files["/etc/cni/net.d/stray"].clone();
    let effects = [
        Effect::Remove { path: "/etc/cni/net.d/stray".into() },
        Effect::Sysctl { key: "net.bridge.bridge-nf-call-iptables".into(), value: "1".into() },
    ];
    let steps = effects.map(|effect| Step { effect, why: Vec::new() }).to_vec();
    apply(&machine, &Plan { steps }).await.unwrap();
    assert!(!machine.all_but("/none").files.contains_key("/etc/cni/net.d/stray"));
    let back = undo::plan(&machine, None).await.unwrap();
    let mut passed = Vec::new();
    let mut tell = |told: StepProgress<'_>| {
        if let StepProgress::Passed(_, why) = told {
            passed.push(why);
        }
    };
    undo::apply(&machine.shared(), &back, &Protected::default(), &Stop::never(), &mut tell).await.unwrap();
    assert_eq!(passed, ["net.bridge.bridge-nf-call-iptables had no value before"]);
    assert_eq!(machine.all_but("/none").files["/etc/cni/net.d/stray"], before);
}

#[tokio::test]
async fn records_that_cannot_be_relied_on_are_told() {
    let machine = machine();
    apply(&machine, &plan()).await.unwrap();
    assert_eq!(journal::load(&machine, 1).await.unwrap().end(), End::Finished);
    assert_eq!(journal::load(&machine, 7).await.unwrap_err(), Broken::Unknown(7));
    let record = format!("{HOME}/runs/0001/run.json");
    let Some(Entry::File(whole)) = machine.look(&record).await.unwrap() else { panic!("no record") };
    let newer = String::from_utf8(whole.bytes.clone()).unwrap().replace("carrick.run/v1", "carrick.run/v2");
    for (text, says) in [
        (newer.as_bytes(), "run 1 was recorded by a newer Carrick (carrick.run/v2); take that version"),
        (&whole.bytes[..whole.bytes.len() / 2], "the record of run 1 cannot be read (run.json: "),
    ] {
        machine.write(&record, &File::new(text, 0o600), How::Replace).await.unwrap();
        let told = take_back(&machine, Some(1)).await.unwrap_err().to_string();
        assert!(told.starts_with(says), "{told}");
    }
}
