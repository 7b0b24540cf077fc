//! Plans carried out, cut off and taken back, on a machine in memory.
#![allow(clippy::unwrap_used)] // What helps a test is a test.

use carrick_core::StopSignal;
use carrick_core::fact::{Source, sources};
use carrick_core::plan::edit::{Edit, Set};
use carrick_core::plan::live::LiveNode;
use carrick_core::plan::protect::{PlanRefusal, Protected};
use carrick_core::plan::{Effect, PlaceState, Plan, Step};
use carrick_core::record::keep::{DAYS, RUNS};
use carrick_core::testing::every_effect;
use carrick_engine::act::journal::{self, End, JournalError, Mark};
use carrick_engine::act::keep::{self, Seal};
use carrick_engine::act::undo::{self, UndoError};
use carrick_engine::act::{self, Actor, Grounded, StepProgress, Stopped};
use carrick_engine::{Stop, StopTeller};
use carrick_host::{File, Host, PathEntry, Probe, Progress, WriteMode, gather};
use carrick_testkit::Machine;
use jiff::{SignedDuration, Timestamp};

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
    apply_as("check --fix", machine, plan).await
}

async fn apply_as(verb: &str, machine: &Machine, plan: &Plan) -> Result<u32, Stopped> {
    let steps = act::ground(machine, plan).await.map_err(Stopped::Before)?;
    let actor = Actor { verb: verb.into(), ..actor() };
    act::apply(&machine.shared(), &actor, &steps, &Protected::default(), &mut |_| {}).await
}

fn of(effects: impl IntoIterator<Item = Effect>) -> Plan {
    Plan { steps: effects.into_iter().map(|effect| Step { effect, why: vec!["a.check".into()] }).collect() }
}

async fn take_back(machine: &Machine, run: Option<u32>) -> Result<(), UndoError> {
    let back = undo::plan(machine, run).await?;
    undo::apply(&machine.shared(), &back, &Protected::default(), &Stop::never(), &mut |_| {}).await
}

#[tokio::test]
async fn a_plan_is_carried_out_once_and_taken_back_byte_for_byte() {
    let (machine, before) = (machine(), machine().all_but(HOME));
    assert_eq!(apply(&machine, &plan()).await.unwrap(), 1);
    let text = |path: &str| match machine.all_but(HOME).files.get(path) {
        Some(PathEntry::File(file)) => String::from_utf8(file.bytes.clone()).unwrap(),
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
    assert!(matches!(take_back(&machine, None).await, Err(UndoError::Nothing)));
    assert!(matches!(take_back(&machine, Some(1)).await, Err(UndoError::Already(1))));
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
            Ok(()) | Err(UndoError::Nothing) => {}
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
async fn a_disk_that_cannot_be_written_to_while_journaling_changes_nothing() {
    type Breaks = fn(&Machine);
    let rows: [(Breaks, &str); 2] = [
        (|machine| machine.fill(HOME), "No space left on device"),
        (|machine| machine.mount_read_only(HOME), "Read-only file system"),
    ];
    for (breaks, says) in rows {
        for has_run in [false, true] {
            let machine = machine();
            if has_run {
                apply(&machine, &plan()).await.unwrap();
                take_back(&machine, None).await.unwrap();
            }
            let before = machine.all_but(HOME);
            breaks(&machine);
            let stopped = apply(&machine, &plan()).await.unwrap_err().to_string();
            assert!(stopped.starts_with("nothing was changed: /var/lib/carrick"), "{stopped}");
            assert!(
                stopped.ends_with(&format!(": {says}; every change is recorded in {HOME} before it is made")),
                "{stopped}"
            );
            assert_eq!(machine.all_but(HOME), before);
        }
    }
}

/// A disk that others fill while a run is at work: what is done is written down, and can be taken back.
#[tokio::test]
async fn a_disk_that_fills_up_on_the_way_leaves_room_for_the_journal() {
    let before = machine().all_but(HOME);
    let all = act::ground(&machine(), &plan()).await.unwrap().len();
    for last in 0..all {
        let machine = machine();
        let steps = act::ground(&machine, &plan()).await.unwrap();
        let mut tell = |told: StepProgress<'_>| {
            if matches!(told, StepProgress::Begins(at, _) if at == last) {
                machine.leave_room(HOME, 10);
            }
        };
        act::apply(&machine.shared(), &actor(), &steps, &Protected::default(), &mut tell).await.unwrap();
        assert_eq!(journal::load(&machine, 1).await.unwrap().end(), End::Finished, "{last}");
        take_back(&machine, None).await.unwrap();
        assert_eq!(machine.all_but(HOME), before, "filled up at {last}");
        // The next run finds no room for its own, and says so before it changes anything.
        let stopped = apply(&machine, &plan()).await.unwrap_err().to_string();
        assert!(stopped.contains("No space left on device; every change is recorded"), "{stopped}");
        assert_eq!(machine.all_but(HOME), before);
    }
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
    assert_eq!(journal::load(&machine, 7).await.unwrap_err(), JournalError::Unknown(7));
    let record = format!("{HOME}/runs/0001/run.json");
    let Some(PathEntry::File(whole)) = machine.look(&record).await.unwrap() else { panic!("no record") };
    let newer = String::from_utf8(whole.bytes.clone()).unwrap().replace("carrick.run/v1", "carrick.run/v2");
    for (text, says) in [
        (newer.as_bytes(), "run 1 was recorded by a newer Carrick (carrick.run/v2); take that version"),
        (&whole.bytes[..whole.bytes.len() / 2], "the record of run 1 cannot be read (run.json: "),
    ] {
        machine.write(&record, &File::new(text, 0o600), WriteMode::Replace).await.unwrap();
        let told = take_back(&machine, Some(1)).await.unwrap_err().to_string();
        assert!(told.starts_with(says), "{told}");
    }
}

/// What lies where a block of a journal was lost: after a power cut, or because somebody wrote on behind half a line.
#[tokio::test]
async fn a_journal_is_read_up_to_the_damage_and_its_run_is_taken_back() {
    let (done, before) = (machine(), machine().all_but(HOME));
    apply(&done, &plan()).await.unwrap();
    let journal = format!("{HOME}/runs/0001/journal.jsonl");
    let whole = done.text(&journal).unwrap();
    let lines = whole.lines().count();
    for damage in ["\0".repeat(512) + "\n", "{\"at\":\"2026\n".to_owned(), "{\"at\":\"2026".to_owned()] {
        for at in 0..=lines {
            let machine = done.copy();
            let kept: String = whole.split_inclusive('\n').take(at).collect();
            let rest: String = whole.split_inclusive('\n').skip(at + 1).collect();
            machine.meddle(&journal, &format!("{kept}{damage}{rest}"));
            let past = journal::load(&machine, 1).await.unwrap();
            assert_eq!(past.lines.len(), at, "{damage:?} at {at}");
            assert_eq!(past.damage.is_some(), !rest.is_empty() || damage.ends_with('\n'), "{damage:?} at {at}");
            let back = undo::plan(&machine, Some(1)).await;
            // Torn in its first line, and nothing behind it: nothing was begun.
            if at == 0 && past.damage.is_none() {
                continue;
            }
            assert_eq!(back.unwrap().notes.is_empty(), past.damage.is_none());
            take_back(&machine, Some(1)).await.unwrap();
            assert_eq!(machine.all_but(HOME), before, "{damage:?} at {at}");
            assert!(matches!(take_back(&machine, Some(1)).await, Err(UndoError::Already(1))), "{damage:?} at {at}");
            let kept = machine.text(&format!("{HOME}/runs/0001/journal.damaged"));
            assert_eq!(kept.is_some(), past.damage.is_some(), "as it was found");
        }
    }
}

#[tokio::test]
async fn a_setting_is_not_taken_for_ours_where_the_journal_does_not_say_so() {
    let machine = machine();
    let forward = |value: &str| Effect::Sysctl { key: "net.ipv4.ip_forward".into(), value: value.into() };
    apply(&machine, &of([forward("1")])).await.unwrap();
    machine.meddle(&format!("{HOME}/runs/0001/journal.jsonl"), "?\n");
    machine.meddle("/proc/sys/net/ipv4/ip_forward", "2\n");
    let back = undo::plan(&machine, Some(1)).await.unwrap();
    assert!(back.backs.is_empty() && back.stays[0].contains("set net.ipv4.ip_forward to 0"), "{back:?}");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_keeps_nobody_from_taking_back_another() {
    let forward = of([Effect::Sysctl { key: "net.ipv4.ip_forward".into(), value: "1".into() }]);
    let load = of([Effect::SwapOff { device: "/swap".into() }]);
    let machine = machine();
    let before = machine.all_but(HOME);
    apply(&machine, &forward).await.unwrap();
    apply(&machine, &load).await.unwrap();
    take_back(&machine, Some(2)).await.unwrap();
    for broken in ["{", "", "{\"schema\": \"carrick.run/v9\"}"] {
        let machine = machine.copy();
        machine.meddle(&format!("{HOME}/runs/0002/run.json"), broken);
        let history = journal::history(&machine).await.unwrap();
        assert!(matches!(&history[..], [Ok(_), Err(_)]), "{history:?}");
        let back = undo::plan(&machine, None).await.unwrap();
        assert_eq!((back.runs, back.notes.len()), (vec![1], 1));
        take_back(&machine, None).await.unwrap();
        assert_eq!(machine.all_but(HOME), before);
    }
    // Nor from fixing what is wrong now.
    machine.meddle(&format!("{HOME}/runs/0002/run.json"), "{");
    assert_eq!(journal::owed(&machine).await.unwrap(), []);
    assert_eq!(apply(&machine, &load).await.unwrap(), 3);

    // One that completed a run whose record cannot be read is taken back alone, and that is told.
    let machine = self::machine();
    machine.power(Some(changes_of_a_whole_run().await / 2));
    assert!(apply(&machine, &plan()).await.is_err());
    machine.power(None);
    apply(&machine, &plan()).await.unwrap();
    machine.meddle(&format!("{HOME}/runs/0001/run.json"), "{");
    let back = undo::plan(&machine, None).await.unwrap();
    assert_eq!(back.runs, [2]);
    assert!(back.notes[0].starts_with("run 1, which run 2 completed, stays: the record of run 1"), "{:?}", back.notes);
}

/// Cut off, cut off again while its record was begun, and completed: all of it is one change.
#[tokio::test]
async fn a_run_completes_the_last_one_that_has_a_record() {
    let before = machine().all_but(HOME);
    for again in 0..12 {
        let machine = machine();
        machine.power(Some(changes_of_a_whole_run().await / 2));
        assert!(apply(&machine, &plan()).await.is_err());
        machine.power(Some(again));
        assert!(apply(&machine, &plan()).await.is_err());
        machine.power(None);
        apply(&machine, &plan()).await.unwrap();
        take_back(&machine, None).await.unwrap();
        assert_eq!(machine.all_but(HOME), before, "cut off again after {again} changes");
    }
}

/// A file that is written over in place, killed half way.
async fn half_written(old: Option<&str>, new: &str) -> Machine {
    let machine = machine();
    if let Some(old) = old {
        machine.meddle(CONFLIST, old);
    }
    let write = Effect::Write { path: CONFLIST.into(), text: new.into(), mode: 0o644, in_place: true };
    let whole = machine.copy();
    apply_as("cni sync", &whole, &of([write.clone()])).await.unwrap();
    let half = whole.changes().iter().position(|change| change.starts_with("write half of")).unwrap();
    machine.power(Some(half + 1));
    assert!(apply_as("cni sync", &machine, &of([write])).await.is_err());
    machine.power(None);
    machine
}

const CONFLIST: &str = "/etc/cni/net.d/10-flannel.conflist";

#[tokio::test]
async fn a_file_that_was_half_written_is_put_back_and_an_edit_in_between_is_kept() {
    for old in [None, Some("{\"name\": \"old\", \"cniVersion\": \"0.3.1\"}"), Some("{}")] {
        let machine = half_written(old, "[{\"name\": \"fresh\"}]").await;
        assert!(
            machine.text(CONFLIST).is_some_and(|text| Some(text.as_str()) != old && !text.contains("fresh")),
            "half"
        );
        let edited = machine.copy();
        take_back(&machine, None).await.unwrap();
        assert_eq!(machine.text(CONFLIST).as_deref(), old);
        assert_eq!(machine.list(&format!("{HOME}/runs/0001/found")).await.unwrap(), [""; 0], "nothing was anybody's");

        // Somebody found it broken, and fixed it.
        edited.meddle(CONFLIST, "theirs");
        let back = undo::plan(&edited, None).await.unwrap();
        let kept = format!("{HOME}/runs/0001/found");
        assert!(back.backs[0].sentence().ends_with(&format!("; what is there now is kept in {kept}")), "{back:?}");
        let whole = edited.copy();
        take_back(&whole, None).await.unwrap();
        for power in 0..whole.changes().len() {
            let machine = edited.copy();
            machine.power(Some(power));
            assert!(take_back(&machine, None).await.is_err());
            machine.power(None);
            take_back(&machine, None).await.unwrap();
            assert_eq!(machine.text(CONFLIST).as_deref(), old, "cut off after {power} changes");
            assert_eq!(machine.text(&format!("{kept}/0")).as_deref(), Some("theirs"), "cut off after {power} changes");
        }
    }
    // Where the write was done, what is there now is somebody's.
    let machine = machine();
    let write = Effect::Write { path: CONFLIST.into(), text: "new".into(), mode: 0o644, in_place: true };
    apply(&machine, &of([write])).await.unwrap();
    machine.meddle(CONFLIST, "ne");
    assert!(matches!(take_back(&machine, None).await, Err(UndoError::Changed { .. })));
}

const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
const CA: &str = "/etc/kubernetes/pki/ca.crt";

/// A machine that was prepared for a join, with what an earlier one had left removed.
async fn prepared() -> Machine {
    let machine = machine();
    machine.meddle(KUBELET_CONF, "users:\n- user:\n    client-key: /k\n");
    machine.meddle(CA, "CA");
    machine.meddle("/var/lib/kubelet/pki/kubelet-client-1.pem", "PEM");
    let remove = |path: &str| Effect::Remove { path: path.into() };
    let forward = Effect::Sysctl { key: "net.ipv4.ip_forward".into(), value: "1".into() };
    let leftovers = [remove(KUBELET_CONF), remove(CA), remove("/var/lib/kubelet/pki/kubelet-client-1.pem"), forward];
    apply_as("join", &machine, &of(leftovers)).await.unwrap();
    machine
}

fn backups(machine: &Machine) -> Vec<String> {
    let files = machine.all_but("/none").files;
    files.into_keys().filter(|path| path.contains("/backup/")).collect()
}

#[tokio::test]
async fn backups_with_keys_go_once_the_join_is_verified_and_undo_takes_back_the_rest() {
    let whole = prepared().await;
    let before = whole.changes().len();
    assert_eq!(keep::seal(&whole, Seal::Verified).await.unwrap(), 2);
    assert_eq!(backups(&whole), [format!("{HOME}/runs/0001/backup/1")], "that of the CA");
    let changes = whole.changes().len();
    assert_eq!(keep::seal(&whole, Seal::Verified).await.unwrap(), 0);
    assert_eq!(whole.changes().len(), changes, "twice is once");
    for power in 0..changes - before {
        let machine = prepared().await;
        machine.power(Some(power));
        assert!(keep::seal(&machine, Seal::Verified).await.is_err(), "{power}");
        machine.power(None);
        let past = journal::load(&machine, 1).await.unwrap();
        for step in [0, 2] {
            let is_there = backups(&machine).contains(&format!("{HOME}/runs/0001/backup/{step}"));
            assert!(is_there || past.is_final(step).is_some(), "deleted before it was final: {power}");
        }
        // Whatever comes next completes what was begun, once it was noted.
        if machine.text(&format!("{HOME}/pending.json")).is_some() {
            apply(&machine, &of([Effect::SwapOff { device: "/swap".into() }])).await.unwrap();
            take_back(&machine, Some(2)).await.unwrap();
        } else {
            keep::seal(&machine, Seal::Verified).await.unwrap();
        }
        assert_eq!(backups(&machine), backups(&whole), "cut off after {power} changes");
        assert_eq!(machine.text(&format!("{HOME}/pending.json")), None);
        let back = undo::plan(&machine, Some(1)).await.unwrap();
        let says =
            "cannot be put back any more: its backup held a key or a token, and was deleted once the join was verified";
        let named = [format!("/var/lib/kubelet/pki/kubelet-client-1.pem {says}"), format!("{KUBELET_CONF} {says}")];
        assert_eq!(back.stays, named);
        take_back(&machine, Some(1)).await.unwrap();
        assert_eq!(machine.text(CA).as_deref(), Some("CA"));
        assert_eq!(machine.text("/proc/sys/net/ipv4/ip_forward").as_deref(), Some("0\n"));
        assert_eq!((machine.text(KUBELET_CONF), journal::load(&machine, 1).await.unwrap().end()), (None, End::Undone));
    }
}

#[tokio::test]
async fn what_guards_no_join_keeps_its_backup() {
    let machine = machine();
    machine.meddle(
        "/etc/containerd/config.toml",
        "# password = \"hunter2hunter2\"\nversion = 2\ndisabled_plugins = [\"cri\"]\n",
    );
    apply(&machine, &plan()).await.unwrap();
    assert_eq!(keep::seal(&machine, Seal::Reset).await.unwrap(), 0);
    take_back(&machine, None).await.unwrap();
}

/// So many runs that each changed something, a day after the other.
async fn after_runs(count: usize) -> Machine {
    let machine = machine();
    for run in 0..count {
        machine.set_time(day(run));
        let value = if run % 2 == 0 { "1" } else { "0" };
        let key = "net.ipv4.ip_forward".to_owned();
        apply(&machine, &of([Effect::Sysctl { key, value: value.into() }])).await.unwrap();
    }
    machine
}

fn day(day: usize) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * i64::try_from(day).unwrap())
}

async fn runs(machine: &Machine) -> Vec<u32> {
    journal::history(machine).await.unwrap().iter().map(|past| past.as_ref().unwrap().run.run).collect()
}

#[tokio::test]
async fn records_go_by_number_and_age_and_the_last_run_can_always_be_taken_back() {
    let machine = after_runs(RUNS + 3).await;
    assert_eq!(runs(&machine).await, (4..=53).collect::<Vec<u32>>(), "each run makes room for itself");
    let gone = keep::superfluous(&machine, 2).await.unwrap();
    assert_eq!(gone, (4..=51).collect::<Vec<u32>>());
    let (whole, before) = (machine.copy(), machine.all_but(HOME));
    keep::prune(&whole, &gone).await.unwrap();
    assert_eq!(runs(&whole).await, [52, 53]);
    // Cut off anywhere, the next run completes it. The table has a point in each part of it.
    let changes = whole.changes().len();
    for power in (0..changes).step_by(7).chain([1, 2, 3, 4, 5, changes - 2, changes - 1]) {
        let machine = machine.copy();
        machine.power(Some(power));
        assert!(keep::prune(&machine, &gone).await.is_err(), "{power}");
        machine.power(None);
        let loaded = journal::history(&machine).await.unwrap();
        assert!(loaded.iter().all(Result::is_ok), "half a record is none: {power}");
        if machine.text(&format!("{HOME}/pending.json")).is_none() {
            assert_eq!(loaded.len(), RUNS, "one was deleted before it was noted: {power}");
            keep::prune(&machine, &gone).await.unwrap();
        }
        let swap = of([Effect::SwapOff { device: "/swap".into() }]);
        assert_eq!(apply(&machine, &swap).await.unwrap(), 54);
        assert_eq!(machine.list(&format!("{HOME}/runs")).await.unwrap(), ["0052", "0053", "0054"], "{power}");
        take_back(&machine, None).await.unwrap();
        assert_eq!(machine.all_but(HOME), before, "{power}");
    }

    // Half a year later.
    machine.set_time(day(52 + usize::try_from(DAYS).unwrap() + 1));
    let gone = keep::superfluous(&machine, RUNS).await.unwrap();
    assert_eq!(gone, (4..=52).collect::<Vec<u32>>(), "the last one stays, however old it is");
    apply(&machine, &of([Effect::SwapOff { device: "/swap".into() }])).await.unwrap();
    assert_eq!(runs(&machine).await, [53, 54]);
}

#[tokio::test]
async fn what_a_live_node_needs_stays_unless_it_joined_before() {
    let machine = machine();
    machine.set_time(day(1));
    apply(&machine, &plan()).await.unwrap();
    let done = machine.all_but(HOME);
    let since = LiveNode::joined_at(day(2).as_second());
    let back = undo::plan_beside(&machine, None, Some(&since)).await.unwrap();
    let needed: Vec<&str> = back.needed.iter().map(|needs| needs.sentence.as_str()).collect();
    assert_eq!(
        needed,
        [
            "stop containerd",
            "disable kubelet",
            "turn swap on /swap on",
            "set net.ipv4.ip_forward to 0",
            "put /etc/cni/net.d/link back as it was",
            "put /etc/cni/net.d/00-stray.conf back as it was",
            "put /etc/modules-load.d/other.conf back as it was",
            "put /etc/fstab back as it was",
            "put /etc/containerd/config.toml back as it was",
            "remove /etc/systemd/system/x.service",
            "remove /etc/sysctl.d/90-carrick.conf",
        ]
    );
    let taken: Vec<String> = back.backs.iter().map(undo::UndoStep::sentence).collect();
    let dirs = ["/etc/systemd/system", "/etc/systemd"].map(|dir| format!("remove the directory {dir} if it is empty"));
    assert_eq!(taken, dirs, "nothing is reloaded for what stays");
    undo::apply(&machine.shared(), &back, &Protected::default(), &Stop::never(), &mut |_| {}).await.unwrap();
    assert_eq!(machine.all_but(HOME), done, "they are not empty");
    let past = journal::load(&machine, 1).await.unwrap();
    assert_eq!((past.end(), past.taken_back()), (End::Finished, 2), "the rest can still be taken back");

    // On a node that lived before, and by force.
    let before = LiveNode::joined_at(day(0).as_second());
    for node in [Some(&before), None] {
        let back = undo::plan_beside(&machine, None, node).await.unwrap();
        assert_eq!((back.needed.len(), back.backs.len()), (0, 12), "{node:?}");
    }
    take_back(&machine, None).await.unwrap();
    assert_eq!(journal::load(&machine, 1).await.unwrap().lines.last().unwrap().mark, Mark::Undone);
    // But for the directories, which were left because something was in them.
    let mut now = machine.all_but(HOME);
    now.files.retain(|path, _| !path.starts_with("/etc/systemd"));
    assert_eq!(now, self::machine().all_but(HOME));
}

/// /etc/cni/net.d may be shared with another program by a link: what is there is not this machine's join's alone.
#[tokio::test]
async fn no_change_is_made_through_a_link_and_it_is_shown_where_that_leads() {
    let of = |effect: Effect| Plan { steps: vec![Step { effect, why: Vec::new() }] };
    let remove = |path: &str| of(Effect::Remove { path: path.into() });
    let write = |path: &str| of(Effect::Write { path: path.into(), text: "x".into(), mode: 0o644, in_place: false });
    let machine_with = |dir: &str| machine().with_link(dir, "/srv/shared");
    for (dir, plan) in [
        ("/etc/cni/net.d", remove("/etc/cni/net.d/00-stray.conf")),
        ("/etc/cni", remove("/etc/cni/net.d/00-stray.conf")),
        ("/etc/cni/net.d", write("/etc/cni/net.d/10-flannel.conflist")),
        ("/etc/containerd", remove("/etc/containerd/config.toml")),
        ("/etc/systemd/system", of(Effect::MakeDir { path: "/etc/systemd/system/x.d".into(), mode: 0o755 })),
        ("/var/lib/kubelet/pki", remove("/var/lib/kubelet/pki/kubelet-client-current.pem")),
    ] {
        let linked = machine_with(dir);
        let before = linked.all_but("/none");
        let refused = apply(&linked, &plan).await.unwrap_err().to_string();
        let expected = format!("nothing was changed: {dir}: is a link to /srv/shared");
        assert!(refused.starts_with(&expected), "{refused}");
        assert_eq!(linked.all_but("/none"), before);
    }
    // Came while somebody was asked.
    let meddled = machine();
    let steps = act::ground(&meddled, &remove("/etc/cni/net.d/00-stray.conf")).await.unwrap();
    meddled.meddle_link("/etc/cni/net.d", "/srv/shared");
    let refused = act::apply(&meddled.shared(), &actor(), &steps, &Protected::default(), &mut |_| {}).await;
    assert!(matches!(refused, Err(Stopped::Before(_))), "{refused:?}");
    assert!(meddled.text("/etc/cni/net.d/00-stray.conf").is_some());
    // Nor is anything put back through one.
    let undone = machine();
    apply(&undone, &remove("/etc/cni/net.d/00-stray.conf")).await.unwrap();
    undone.meddle_link("/etc/cni/net.d", "/srv/shared");
    let refused = undo::plan(&undone, None).await.unwrap_err().to_string();
    assert!(refused.contains("/etc/cni/net.d: is a link to /srv/shared"), "{refused}");
    // Where a machine has its disks is its own affair; and a link itself may go.
    let path = "/var/lib/kubelet/config.yaml";
    let elsewhere = machine();
    elsewhere.meddle(path, "x");
    elsewhere.meddle_link("/var/lib/kubelet", "/data/kubelet");
    apply(&elsewhere, &remove(path)).await.unwrap();
    assert_eq!(elsewhere.text(path), None);
    let machine = machine();
    apply(&machine, &remove("/etc/cni/net.d/link")).await.unwrap();
    assert!(machine.text("/etc/cni/net.d/00-stray.conf").is_some());
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_step_hears_a_word_within_every_ten_seconds() {
    let machine = machine();
    machine.hang(&["systemctl", "daemon-reload"]);
    let plan = Plan { steps: vec![Step { effect: Effect::ReloadUnits, why: Vec::new() }] };
    let steps = act::ground(&machine, &plan).await.unwrap();
    let (mut last, mut longest, mut words) = (tokio::time::Instant::now(), std::time::Duration::ZERO, 0);
    let mut tell = |told: StepProgress<'_>| {
        longest = longest.max(last.elapsed());
        last = tokio::time::Instant::now();
        words += u32::from(matches!(told, StepProgress::Waits(..)));
    };
    let stopped = act::apply(&machine.shared(), &actor(), &steps, &Protected::default(), &mut tell).await.unwrap_err();
    assert!(stopped.to_string().contains("systemctl daemon-reload: no end in 30 s"), "{stopped}");
    assert!(longest.max(last.elapsed()).as_secs() < 10 && words >= 4, "{words} words, {longest:?}");
}
