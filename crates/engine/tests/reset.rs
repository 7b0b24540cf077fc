//! A worker is taken out of its cluster, undisturbed and cut off anywhere, on a machine in memory. No cluster answers there.
#![allow(clippy::unwrap_used)] // What helps a test is a test.

use std::time::Duration;

use carrick_core::fact::{Facts, Source, sources};
use carrick_core::plan::protect::Protected;
use carrick_core::plan::{Effect, Plan, Step};
use carrick_core::reset::{self, ResetOptions};
use carrick_engine::Stop;
use carrick_engine::act::journal::{self, End};
use carrick_engine::act::keep::{self, Seal};
use carrick_engine::act::undo::{self, UndoError};
use carrick_engine::act::{self, Actor, StepProgress, Stopped};
use carrick_host::{PathEntry, Probe, Progress, gather};
use carrick_testkit::Machine;

const HOME: &str = "/var/lib/carrick";
const MOUNTS: &str = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
    2 1 0:9 / /mnt/media rw - nfs4 nas:/media rw\n\
    3 1 0:1 / /var/lib/kubelet/pods/a/volumes/kubernetes.io~nfs/v rw - nfs4 nas:/v rw\n\
    4 3 0:2 / /var/lib/kubelet/pods/a/volume-subpaths/v/c/0 rw - nfs4 nas:/v rw\n";
const RULES: &str = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:MINE - [0:0]\n\
    -A PREROUTING -j KUBE-SERVICES\n-A PREROUTING -j MINE\n-A KUBE-SERVICES -j RETURN\n-A MINE -j ACCEPT\nCOMMIT\n";
const RULES_AFTER: &str =
    "*nat\n:PREROUTING ACCEPT [0:0]\n:MINE - [0:0]\n-A PREROUTING -j MINE\n-A MINE -j ACCEPT\nCOMMIT\n";

fn machine() -> Machine {
    let files = [
        ("/proc/sys/kernel/hostname", "w1\n"),
        ("/proc/self/mountinfo", MOUNTS),
        ("/etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("/etc/kubernetes/kubelet.conf", "{}"),
        ("/etc/kubernetes/pki/ca.crt", "CA"),
        ("/etc/kubernetes/manifests/x.yaml", "x"),
        ("/var/lib/kubelet/config.yaml", "x"),
        ("/var/lib/kubelet/pods/a/etc-hosts", "x"),
        ("/etc/cni/net.d/10-flannel.conflist", "{}"),
        ("/run/flannel/subnet.env", "x"),
        ("/var/lib/cni/networks/cbr0/10.244.1.2", "x"),
        ("/etc/containerd/config.toml", "version = 2\n"),
        ("/mnt/media/film", "data"),
        ("/opt/cni/bin/bridge", "ELF"),
    ];
    let machine = Machine::with(&files).with_running("kubelet").with_running("containerd");
    machine.with_card("eth0").with_card("cni0").with_card("flannel.1").with_rules("iptables-nft", RULES)
}

async fn facts(machine: &Machine) -> Facts {
    let all: Vec<Source> = sources().collect();
    let (facts, _) = gather("w1", machine.now(), machine.observe(&all, &Progress::default()).await);
    carrick_engine::reset::look(machine, facts, Duration::from_secs(1)).await
}

fn actor() -> Actor {
    Actor { verb: "reset".into(), by: "root".into(), version: "1".into(), stop: Stop::never() }
}

/// As the verb does it: look, plan, carry out. What was told, or why it stopped.
async fn take_out(machine: &Machine) -> Result<Vec<String>, Stopped> {
    let facts = facts(machine).await;
    let plan = reset::plan(&facts, &ResetOptions::default()).unwrap().plan;
    let protected = Protected::on(&facts, Vec::new()).unwrap();
    let steps = act::ground(machine, &plan).await.map_err(Stopped::Before)?;
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    let mut told = Vec::new();
    let mut tell = |said: StepProgress<'_>| match said {
        StepProgress::Begins(_, doing) => told.push(doing),
        StepProgress::Passed(_, why) => told.push(format!("passed: {why}")),
        _ => {}
    };
    act::apply_in(&machine.shared(), None, &actor(), &steps, &protected, &mut tell).await?;
    Ok(told)
}

fn text(entry: &PathEntry) -> String {
    match entry {
        PathEntry::File(file) => String::from_utf8(file.bytes.clone()).unwrap(),
        _ => String::new(),
    }
}

#[tokio::test]
async fn what_was_of_the_join_is_gone_and_nothing_else() {
    let machine = machine();
    let told = take_out(&machine).await.unwrap();
    assert_eq!(told.len(), 9, "{told:#?}");
    let sight = machine.all_but(HOME);
    let is_file = |entry: &&PathEntry| matches!(entry, PathEntry::File(_));
    let files: Vec<&str> =
        sight.files.iter().filter(|(_, entry)| is_file(entry)).map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        files,
        [
            "/etc/containerd/config.toml",
            "/etc/machine-id",
            "/mnt/media/film",
            "/opt/cni/bin/bridge",
            "/proc/net/dev",
            "/proc/self/mountinfo",
            "/proc/sys/kernel/hostname",
        ]
    );
    assert!(sight.files.contains_key("/etc/cni/net.d"), "the directory is watched");
    assert_eq!(text(&sight.files["/proc/net/dev"]), "eth0: 0 0\n");
    assert_eq!(sight.rules["iptables-nft"], RULES_AFTER);
    assert_eq!(sight.units, ["active containerd"]);
    let stay: String = MOUNTS.lines().take(2).map(|line| format!("{line}\n")).collect();
    assert_eq!(text(&sight.files["/proc/self/mountinfo"]), stay);
    assert_eq!(take_out(&machine).await.unwrap(), Vec::<String>::new(), "twice is once");
}

#[tokio::test]
async fn cut_off_anywhere_the_next_reset_ends_as_an_undisturbed_one() {
    let whole = machine();
    take_out(&whole).await.unwrap();
    for power in 0..whole.changes().len() {
        let machine = machine();
        machine.power(Some(power));
        assert!(take_out(&machine).await.is_err(), "{power}");
        machine.power(None);
        take_out(&machine).await.unwrap();
        assert_eq!(machine.all_but(HOME), whole.all_but(HOME), "cut off after {power} changes");
    }
}

#[tokio::test]
async fn before_kubeadm_began_it_can_be_taken_back_and_after_that_undo_says_no() {
    let whole = machine();
    take_out(&whole).await.unwrap();
    let refused = undo::plan(&whole, None).await.unwrap_err();
    assert!(matches!(&refused, UndoError::Final { run: 1, .. }), "{refused}");
    assert!(refused.to_string().contains("join again"), "{refused}");

    let begins = whole.changes().iter().position(|change| change.starts_with("clear /var/lib/kubelet")).unwrap();
    for power in 0..begins {
        let machine = machine();
        machine.power(Some(power));
        assert!(take_out(&machine).await.is_err());
        machine.power(None);
        match undo::plan(&machine, None).await {
            Ok(back) => {
                undo::apply(&machine.shared(), &back, &Protected::default(), &Stop::never(), &mut |_| {})
                    .await
                    .unwrap();
                assert!(machine.all_but(HOME).units.contains(&"active kubelet".to_owned()), "{power}");
                assert!(machine.all_but(HOME).files.contains_key("/etc/kubernetes/kubelet.conf"));
            }
            // Nothing was done yet; or kubeadm was about to begin, and who can tell that it had not.
            Err(UndoError::Nothing | UndoError::Final { .. }) => {}
            Err(error) => panic!("cut off after {power} changes: {error}"),
        }
    }
}

#[tokio::test]
async fn what_is_mounted_since_the_plan_was_made_stops_it_before_anything_is_deleted() {
    let machine = machine();
    let facts = facts(&machine).await;
    let plan = reset::plan(&facts, &ResetOptions::default()).unwrap().plan;
    let steps = act::ground(&machine, &plan).await.unwrap();
    machine.meddle("/proc/self/mountinfo", &format!("{MOUNTS}9 1 8:9 / /var/lib/kubelet/data rw - ext4 /dev/sdb rw\n"));
    let stopped =
        act::apply(&machine.shared(), &actor(), &steps, &Protected::default(), &mut |_| {}).await.unwrap_err();
    assert!(stopped.to_string().contains("/var/lib/kubelet/data: is mounted there"), "{stopped}");
    assert!(stopped.to_string().ends_with("carrick undo 1"), "{stopped}");
    assert!(machine.all_but(HOME).files.contains_key("/var/lib/kubelet/config.yaml"));
    assert!(matches!(journal::load(&machine, 1).await.unwrap().end(), End::CutOff { .. }));
}

/// A runtime that stops answering while its pods are removed has said nothing of those that are left.
#[tokio::test]
async fn pods_that_cannot_be_listed_behind_kubeadm_reset_are_not_taken_for_none() {
    const ROOTFS: &str = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/8c1f0e3b5a7d/rootfs";
    let machine = machine();
    let facts = facts(&machine).await;
    let plan = reset::plan(&facts, &ResetOptions::default()).unwrap().plan;
    let steps = act::ground(&machine, &plan).await.unwrap();
    let mut meddling = |told: StepProgress<'_>| {
        if matches!(&told, StepProgress::Begins(_, doing) if doing.starts_with("run kubeadm reset")) {
            let now = machine.text("/proc/self/mountinfo").unwrap();
            machine.meddle("/proc/self/mountinfo", &format!("{now}40 1 0:9 / {ROOTFS} rw - overlay overlay rw\n"));
        }
    };
    let stopped = act::apply(&machine.shared(), &actor(), &steps, &Protected::default(), &mut meddling).await;
    let stopped = stopped.unwrap_err();
    assert!(matches!(stopped, Stopped::Midway { .. }), "{stopped:?}");
    assert!(stopped.to_string().contains("pods that are left"), "{stopped}");
}

/// Right after a join the kubelet mounts what its pods need, until it is stopped.
#[tokio::test]
async fn what_a_pod_mounts_meanwhile_is_planned_for_and_what_is_mounted_again_and_again_stops_it() {
    let volume = |number: u32| {
        format!(
            "{number} 1 0:1 / /var/lib/kubelet/pods/b/volumes/kubernetes.io~projected/{number} rw - tmpfs tmpfs rw\n"
        )
    };
    for (mounted, plans, fits) in [(0, 1, true), (1, 2, true), (2, 3, true), (3, 3, false)] {
        let machine = machine();
        let (mut left, mut planned) = (mounted, 0);
        let attempt = async || {
            planned += 1;
            let facts = facts(&machine).await;
            let plan = reset::plan(&facts, &ResetOptions::default()).unwrap().plan;
            let protected = Protected::on(&facts, Vec::new()).unwrap();
            let steps = act::ground(&machine, &plan).await.map_err(Stopped::Before)?;
            // When all is unmounted, and before kubeadm begins.
            let mut meddling = |told: StepProgress<'_>| {
                if matches!(&told, StepProgress::Begins(_, doing) if doing.starts_with("run kubeadm reset")) && left > 0
                {
                    left -= 1;
                    let now = machine.text("/proc/self/mountinfo").unwrap();
                    machine.meddle("/proc/self/mountinfo", &(now + &volume(20 + left)));
                }
            };
            act::apply(&machine.shared(), &actor(), &steps, &protected, &mut meddling).await
        };
        let outdated = |stopped: &Stopped| matches!(stopped, Stopped::Outdated { .. });
        let ended = carrick_engine::reset::until_it_fits(attempt, outdated).await;
        assert_eq!((planned, ended.is_ok()), (plans, fits), "mounted {mounted} times: {ended:?}");
        let kubelet = machine.all_but(HOME).files.contains_key("/var/lib/kubelet/config.yaml");
        assert_eq!(kubelet, !fits);
        if !fits {
            let stopped = ended.unwrap_err().to_string();
            assert!(stopped.contains("is mounted there") && stopped.ends_with("carrick undo 3"), "{stopped}");
            // All that was done until then is taken back as one.
            let back = undo::plan(&machine, None).await.unwrap();
            assert_eq!(back.runs, [3, 2, 1]);
            undo::apply(&machine.shared(), &back, &Protected::default(), &Stop::never(), &mut |_| {}).await.unwrap();
            assert!(machine.all_but(HOME).units.contains(&"active kubelet".to_owned()));
        }
    }
}

/// An agent of the pod network writes while kubeadm reset ends its container, and after that no more; or somebody joins anew.
#[tokio::test]
async fn what_comes_back_meanwhile_is_removed_in_rounds_and_what_does_not_stay_away_is_told() {
    const CONF: &str = "/etc/cni/net.d/10-flannel.conflist";
    const JOINED: &str = "/etc/kubernetes/kubelet.conf";
    const ROUNDS: usize = carrick_engine::reset::ROUNDS;
    for (path, comes, rounds, left) in [
        (CONF, 0, 0, None),
        (CONF, 1, 1, None),
        ("/var/lib/cni/networks/cbr0/10.244.1.9", 2, 2, None),
        (CONF, ROUNDS, ROUNDS, None),
        (CONF, ROUNDS + 1, ROUNDS, Some("remove /etc/cni/net.d/10-flannel.conflist")),
        (JOINED, 1, 0, Some("run kubeadm reset")),
    ] {
        let machine = machine();
        take_out(&machine).await.unwrap();
        let (mut comes_again, mut removed) = (comes, 0);
        let mut come = |machine: &Machine| {
            if comes_again > 0 {
                comes_again -= 1;
                machine.meddle(path, "{}");
            }
        };
        come(&machine);
        let look = async || {
            let plan = reset::plan(&facts(&machine).await, &ResetOptions::default()).unwrap().plan;
            act::ground(&machine, &plan).await
        };
        let remove = async |steps: &[act::Grounded]| {
            removed += 1;
            let host = machine.shared();
            act::apply(&host, &actor(), steps, &Protected::default(), &mut |_| {}).await.unwrap();
            come(&machine);
            Ok(())
        };
        let still = carrick_engine::reset::until_all_is_gone(look, remove).await.unwrap();
        let still = still.first().map(|step| step.step.effect.to_string());
        assert_eq!(removed, rounds, "{path} {comes} times");
        assert_eq!(still.is_some(), left.is_some(), "{path} {comes} times: {still:?}");
        assert!(still.unwrap_or_default().starts_with(left.unwrap_or_default()));
        assert_eq!(machine.text(path).is_some(), left.is_some(), "{path} {comes} times");
    }
}

#[tokio::test]
async fn backups_with_tokens_of_a_pod_network_go_once_the_machine_is_reset() {
    let machine = machine();
    let token = "users:\n- user:\n    token: zyxwvu.9876543210fedcba\n";
    machine.meddle("/etc/cni/net.d/calico-kubeconfig", token);
    take_out(&machine).await.unwrap();
    let holds = |machine: &Machine| {
        let files = machine.all_but("/none").files;
        files.values().filter(|entry| text(entry).contains("9876543210fedcba")).count()
    };
    assert_eq!(holds(&machine), 1, "until it is known that all is gone");
    keep::seal(&machine, Seal::Reset).await.unwrap();
    assert_eq!(holds(&machine), 0);
    let refused = undo::plan(&machine, None).await.unwrap_err().to_string();
    assert!(refused.ends_with("/runs/0001/backup, but for what held a key"), "{refused}");
}

#[tokio::test]
async fn a_link_goes_and_what_it_leads_to_stays() {
    let machine = machine()
        .with_link("/var/lib/kubelet/seccomp", "/mnt/media")
        .with_link("/etc/kubernetes/pki/extra.crt", "/mnt/media/film")
        .with_link("/etc/cni/net.d/05-linked.conflist", "/mnt/media/film")
        .with_link("/etc/kubernetes/audit", "/mnt/media");
    let told = reset::plan(&facts(&machine).await, &ResetOptions::default()).unwrap();
    let items: Vec<String> = told.plan.steps.iter().flat_map(|step| step.effect.items().all().to_vec()).collect();
    for shown in ["/var/lib/kubelet/seccomp -> /mnt/media", "/etc/kubernetes/pki/extra.crt -> /mnt/media/film"] {
        assert!(items.contains(&format!("{shown} (the link alone)")), "{items:#?}");
    }
    assert_eq!(told.stays, ["/etc/kubernetes/audit (a link to /mnt/media)"]);
    take_out(&machine).await.unwrap();
    let files = machine.all_but(HOME).files;
    let links: Vec<&str> =
        files.iter().filter(|(_, entry)| matches!(entry, PathEntry::Link(_))).map(|(path, _)| path.as_str()).collect();
    assert_eq!(links, ["/etc/kubernetes/audit"]);
    assert_eq!(text(&files["/mnt/media/film"]), "data");
    assert_eq!(take_out(&machine).await.unwrap(), Vec::<String>::new(), "twice is once");
}

#[tokio::test]
async fn a_link_in_the_place_of_a_directory_is_refused_also_one_that_came_since() {
    for place in ["/etc/kubernetes/pki", "/etc/kubernetes/manifests", "/etc/cni/net.d", "/var/lib/kubelet"] {
        let linked = machine().with_link(place, "/mnt/media");
        let refusal = reset::plan(&facts(&linked).await, &ResetOptions::default()).unwrap_err().to_string();
        assert!(refusal.contains(place) && refusal.contains("/mnt/media"), "{refusal}");

        let machine = machine();
        let plan = reset::plan(&facts(&machine).await, &ResetOptions::default()).unwrap().plan;
        let steps = act::ground(&machine, &plan).await.unwrap();
        machine.meddle_link(place, "/mnt/media");
        let applied = act::apply(&machine.shared(), &actor(), &steps, &Protected::default(), &mut |_| {}).await;
        let stopped = applied.unwrap_err().to_string();
        assert!(stopped.contains(&format!("{place}: is a link to /mnt/media")), "{stopped}");
        // What lies in a directory of its own is looked at before the first change.
        let untouched = place == "/etc/cni/net.d";
        let says =
            if untouched { stopped.starts_with("nothing was changed") } else { stopped.ends_with("carrick undo 1") };
        assert!(says, "{stopped}");
        assert_eq!(text(&machine.all_but(HOME).files["/mnt/media/film"]), "data");
    }
}

#[tokio::test]
async fn twenty_thousand_rules_do_not_stop_it_half_way() {
    let rules = carrick_core::testing::rules::iptables_save(20_000);
    let machine = machine().with_rules("iptables-nft", &rules);
    take_out(&machine).await.unwrap();
    let left = &machine.all_but(HOME).rules["iptables-nft"];
    assert!(!left.contains("KUBE-"), "{}", left.lines().find(|line| line.contains("KUBE-")).unwrap_or_default());
    let others =
        |rules: &str| rules.lines().filter(|line| !line.contains("KUBE-")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(others(left), others(&rules), "and nothing else went");
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_told_and_not_waited_for() {
    let machine = machine();
    let mark = Effect::MarkNotReady { node: "w1".into(), system_uuid: String::new(), machine_id: String::new() };
    let stop = Effect::Run { unit: "kubelet".into(), running: false };
    let steps = [mark, stop].map(|effect| Step { effect, why: Vec::new() }).to_vec();
    let steps = act::ground(&machine, &Plan { steps }).await.unwrap();
    let mut passed = Vec::new();
    let mut tell = |told: StepProgress<'_>| {
        if let StepProgress::Passed(at, why) = told {
            passed.push((at, why));
        }
    };
    act::apply(&machine.shared(), &actor(), &steps, &Protected::default(), &mut tell).await.unwrap();
    assert_eq!(passed.len(), 1);
    assert!(passed[0].1.contains("kubelet.conf"), "{}", passed[0].1);
    assert_eq!(machine.all_but(HOME).units, ["active containerd"], "and the rest was done");
    assert_eq!(journal::load(&machine, 1).await.unwrap().end(), End::Finished);
}

#[tokio::test]
async fn nothing_is_drained_without_an_admins_word() {
    let machine = machine();
    let drain = Effect::Drain { node: "w1".into(), pods: Vec::new(), seconds: 1 };
    let plan = Plan { steps: vec![Step { effect: drain, why: Vec::new() }] };
    let steps = act::ground(&machine, &plan).await.unwrap();
    let stopped =
        act::apply(&machine.shared(), &actor(), &steps, &Protected::default(), &mut |_| {}).await.unwrap_err();
    assert!(stopped.to_string().contains("needs an admin's --kubeconfig"), "{stopped}");
}
