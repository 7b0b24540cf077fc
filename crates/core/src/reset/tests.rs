//! Machines as they stand before, during and after a reset.

use serde_json::json;

use super::*;
use crate::fact::identity::{MACHINE_ID, PRODUCT_UUID};
use crate::fact::join_state::sample;
use crate::fact::mounts::{ANSWERS, MOUNTINFO};
use crate::fact::net::{LINKS, ROUTES};
use crate::fact::pki::sample::SampleAuthority;
use crate::fact::{leftovers, pki, unit};
use crate::testing::facts;

const VOLUME: &str = "/var/lib/kubelet/pods/6f1c/volumes/kubernetes.io~projected/token";
const ROOT: &str = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n";
const MEDIA: &str = "9 1 0:9 / /mnt/media rw - nfs4 nas:/media rw\n";

fn volume() -> String {
    format!("{ROOT}{MEDIA}3 1 0:1 / {VOLUME} rw - tmpfs tmpfs rw\n")
}

fn links(names: &[(&str, &str)]) -> String {
    let link = |(name, kind): &(&str, &str)| json!({"ifname": name, "linkinfo": {"info_kind": kind}});
    json!(names.iter().map(link).collect::<Vec<_>>()).to_string()
}

fn sandbox(name: &str, of_daemon_set: bool) -> serde_json::Value {
    let labels = json!({"controller-revision-hash": "5f", "pod-template-generation": "1"});
    let labels = if of_daemon_set { labels } else { json!({}) };
    json!({"metadata": {"namespace": "default", "name": name}, "state": "SANDBOX_READY", "labels": labels})
}

fn runs(sandboxes: &[serde_json::Value]) -> String {
    json!({ "items": sandboxes }).to_string()
}

/// A machine on which no join was ever tried.
fn untouched() -> Facts {
    facts()
        .with_file("/proc/sys/kernel/hostname", "w1\n")
        .with_file(MOUNTINFO, &format!("{ROOT}{MEDIA}"))
        .with_file(MACHINE_ID, "0123456789abcdef0123456789abcdef\n")
        .with_file(PRODUCT_UUID, "11111111-2222-3333-4444-555555555555\n")
        .with_dir("/etc/kubernetes", &[("drwxr-xr-x", "manifests")])
        .with_dir("/etc/kubernetes/manifests", &[])
        .without_dir("/var/lib/etcd")
        .without_dir(PKI)
        .with_dir("/var/lib", &[("drwxr-xr-x", "kubelet")])
        .with_dir(volumes::DIR, &[])
        .with_dir(CNI_DIR, &[])
        .without_file(kubeconfig::KUBELET)
        .without_file(kubeconfig::BOOTSTRAP)
        .without_file(pki::CLIENT)
        .without_file(cni::SUBNET_ENV)
        .with_query(&JOIN_AT_WORK, "Id=carrick-kubeadm.service\nLoadState=not-found\nActiveState=inactive\n")
        .without_dir(place::CONFIG_DIR)
        .without_dir(place::DROP_IN_DIR)
        .with_query(&leftovers::OTHERS, "")
        .with_query(&version::KUBEADM, "v1.34.4\n")
        .with_query(&unit::SHOW, &sample::kubelet_state("inactive", "dead"))
        .with_query(&LINKS, &links(&[("eth0", "")]))
        .with_query(&ROUTES, "[]")
        .with_query(&ANSWERS, "ok /mnt/media\n")
        .with_query(&volumes::HOLDERS, "")
        .with_query(&NOTES, "")
        .with_query(&symlinks::LINKED, "")
        .with_cri(pods::CALL, &runs(&[]))
}

/// A worker with pods of DaemonSets, in a cluster with flannel.
fn joined() -> Facts {
    let ca = SampleAuthority::make();
    untouched()
        .with_file(MOUNTINFO, &volume())
        .with_file(kubeconfig::KUBELET, &kubeconfig::sample::kubelet(sample::SERVER, &ca.pem))
        .with_file(pki::CLIENT, &ca.node("system:node:node-7", 2027))
        .with_dir(PKI, &[("-rw-r--r--", "ca.crt")])
        .with_dir(volumes::DIR, &[("-rw-r--r--", "config.yaml"), ("drwxr-xr-x", "pods")])
        .with_dir(CNI_DIR, &[("-rw-r--r--", "10-flannel.conflist"), ("-rw-r--r--", "87-podman-bridge.conflist")])
        .with_file(cni::SUBNET_ENV, "FLANNEL_NETWORK=10.244.0.0/16\n")
        .with_query(&unit::SHOW, &sample::kubelet_state("active", "running"))
        .with_query(&LINKS, &links(&[("eth0", ""), ("cni0", "bridge"), ("flannel.1", "vxlan")]))
        .with_query(&crate::fact::firewall::LEGACY, chains::tests::SAVE)
        .with_query(
            &NOTES,
            "/var/lib/cni/networks/cbr0/10.244.1.2\n/var/lib/cni/networks/cbr0/lock\n/var/lib/cni/bin/x/y\n\
             /var/lib/cni/networks/podman/10.88.0.2\n/var/lib/cni/results/podman-1\n/var/lib/cni/results/cbr0-1\n",
        )
        .with_cri(pods::CALL, &runs(&[sandbox("kube-proxy-x", true)]))
}

fn sentences(facts: &Facts, options: &ResetOptions) -> Vec<String> {
    plan(facts, options).unwrap().plan.steps.iter().map(|step| step.effect.to_string()).collect()
}

#[test]
fn a_worker_is_taken_out_in_this_order() {
    let facts = joined();
    let reset = plan(&facts, &ResetOptions::default()).unwrap();
    assert_eq!(
        sentences(&facts, &ResetOptions::default()),
        [
            "stop kubelet",
            "mark node node-7 not ready and cordon it",
            "unmount 1 volume of pods",
            "run kubeadm reset --force --cri-socket unix:///run/containerd/containerd.sock",
            "delete the link cni0",
            "delete the link flannel.1",
            "remove 3 chains from iptables-legacy, and the rules that lead there",
            "remove /etc/cni/net.d/10-flannel.conflist",
            "remove /run/flannel/subnet.env",
            "remove what is in /var/lib/cni/networks/cbr0",
        ]
    );
    let removes = reset.plan.steps[3].effect.items().all();
    assert_eq!(
        removes,
        [
            "/etc/kubernetes/kubelet.conf",
            "/etc/kubernetes/pki/ca.crt",
            "/var/lib/kubelet/config.yaml",
            "/var/lib/kubelet/pods/",
            "pod default/kube-proxy-x"
        ]
    );
    assert_eq!(reset.stays, ["/etc/cni/net.d/87-podman-bridge.conflist (of a package)"]);
    assert_eq!(crate::plan::protect::Protected::on(&facts, Vec::new()).unwrap().refusal(&reset.plan), None);
}

#[test]
fn on_a_machine_without_traces_of_a_join_there_is_nothing_to_do() {
    assert_eq!(plan(&untouched(), &ResetOptions::default()), Ok(Reset::default()));
    let silent = untouched().without(Source::Cri(pods::CALL), Why::Broken("connection refused".into()));
    assert_eq!(plan(&silent, &ResetOptions::default()), Ok(Reset::default()));
}

#[test]
fn what_a_failed_join_or_a_cut_off_reset_left_is_finished() {
    let half = untouched()
        .with_file(kubeconfig::BOOTSTRAP, "token")
        .with_dir(PKI, &[("-rw-r--r--", "ca.crt")])
        .with_query(&unit::SHOW, &sample::kubelet_state("activating", "auto-restart"));
    let reset = "run kubeadm reset --force --cri-socket unix:///run/containerd/containerd.sock";
    assert_eq!(sentences(&half, &ResetOptions::default()), ["stop kubelet", reset]);
    let cut = untouched().with_query(&LINKS, &links(&[("cni0", "bridge")]));
    assert_eq!(sentences(&cut, &ResetOptions::default()), ["delete the link cni0"]);
    let ca = SampleAuthority::make();
    let without_key = joined().without_file(pki::CLIENT);
    let expired = joined().with_file(pki::CLIENT, &ca.node("system:node:w1", 2026));
    for facts in [without_key, expired] {
        assert!(!sentences(&facts, &ResetOptions::default()).iter().any(|step| step.starts_with("mark")));
    }
}

/// A source of which not all was kept.
fn cut(mut facts: Facts, source: Source) -> Facts {
    let whole = facts.get(&source.key()).unwrap().clone();
    facts.insert(source.key(), Ok(crate::fact::Capture { dropped: 1, ..whole }));
    facts
}

#[test]
fn links_are_shown_with_where_they_lead_and_go_alone() {
    let linked = joined()
        .with_dir(volumes::DIR, &[("lrwxrwxrwx", "pods -> /data/pods"), ("drwxr-xr-x", "pki")])
        .with_dir(CNI_DIR, &[("lrwxrwxrwx", "10-flannel.conflist -> /srv/flannel.conflist")])
        .with_query(
            &symlinks::LINKED,
            "/var/lib/kubelet/pods -> /data/pods\n\
             /var/lib/kubelet/pki/kubelet-client-current.pem -> kubelet-client-2026.pem\n\
             /etc/kubernetes/kubelet.conf -> /srv/kubelet.conf\n/etc/kubernetes/audit -> /srv/audit\n\
             /etc/cni/net.d/10-flannel.conflist -> /srv/flannel.conflist\n/etc/cni/multus -> /srv/multus\n",
        );
    let reset = plan(&linked, &ResetOptions::default()).unwrap();
    let of_kubeadm = reset.plan.steps.iter().find(|step| matches!(step.effect, Effect::KubeadmReset { .. })).unwrap();
    assert_eq!(
        of_kubeadm.effect.items().all(),
        [
            "/etc/kubernetes/pki/ca.crt",
            "/var/lib/kubelet/pki/",
            "/var/lib/kubelet/pods -> /data/pods (the link alone)",
            "/var/lib/kubelet/pki/kubelet-client-current.pem -> kubelet-client-2026.pem (the link alone)",
            "/etc/kubernetes/kubelet.conf -> /srv/kubelet.conf (the link alone)",
            "pod default/kube-proxy-x"
        ]
    );
    let remove = Effect::Remove { path: "/etc/cni/net.d/10-flannel.conflist".into() };
    let file = reset.plan.steps.iter().find(|step| step.effect == remove).unwrap();
    assert!(file.why[0].starts_with("a link to /srv/flannel.conflist, which stays; "), "{:?}", file.why);
    assert_eq!(
        reset.stays,
        ["/etc/kubernetes/audit (a link to /srv/audit)", "/etc/cni/multus (a link to /srv/multus)"]
    );
    for place in symlinks::PLACES {
        let linked = joined().with_query(&symlinks::LINKED, &format!("{place} -> /data\n"));
        let refusal = plan(&linked, &ResetOptions::default()).unwrap_err();
        assert_eq!(refusal, ResetRefusal::Linked(format!("{place} is a link to /data")));
    }
}

#[test]
fn twenty_thousand_rules_are_planned_like_any_others() {
    let facts = joined().with_query(&crate::fact::firewall::LEGACY, &crate::testing::rules::iptables_save(20_000));
    let said = sentences(&facts, &ResetOptions::default());
    assert!(said.iter().any(|step| step.starts_with("remove 5002 chains from iptables-legacy")), "{said:#?}");
}

#[test]
fn five_hundred_pods_are_all_seen() {
    let pods: Vec<_> = (0..500).map(|n| sandbox(&format!("web-{n}"), false)).collect();
    let facts = joined().with_cri(pods::CALL, &runs(&pods));
    assert!(plan(&facts, &ResetOptions::default()).unwrap_err().to_string().contains("and 495 more"));
    let stopped = ResetOptions { stop_pods: true, ..ResetOptions::default() };
    let reset = plan(&facts, &stopped).unwrap();
    let removes = reset.plan.steps.iter().find(|step| matches!(step.effect, Effect::KubeadmReset { .. })).unwrap();
    assert_eq!(removes.effect.items().all().iter().filter(|item| item.starts_with("pod ")).count(), 500);
}

#[test]
fn a_join_that_is_at_work_or_was_cut_off_is_ended_first() {
    let unit = |load| format!("Id={}\nLoadState={load}\nActiveState=activating\n", place::UNIT);
    let (yaml, drop_in) = (("-rw-------", "join.yaml"), ("-rw-r--r--", "90-carrick-join.conf"));
    let at_work = joined()
        .with_query(&JOIN_AT_WORK, &unit("loaded"))
        .with_dir(place::CONFIG_DIR, &[yaml])
        .with_dir(place::DROP_IN_DIR, &[drop_in, ("-rw-r--r--", "10-theirs.conf")]);
    let plan = plan(&at_work, &ResetOptions::default()).unwrap().plan;
    let removes = place::OF_A_JOIN.map(str::to_owned).to_vec();
    assert_eq!(plan.steps.first().map(|step| &step.effect), Some(&Effect::EndJoin { removes }));
    let token_alone = untouched().with_dir(place::CONFIG_DIR, &[yaml]);
    assert_eq!(sentences(&token_alone, &ResetOptions::default()), ["end the join that was begun here"]);
    assert_eq!(sentences(&untouched(), &ResetOptions::default()), Vec::<String>::new());
    let silent = untouched().without(Source::Query(&JOIN_AT_WORK), Why::TimedOut);
    assert!(matches!(super::plan(&silent, &ResetOptions::default()), Err(ResetRefusal::Unknown(_))));
}

#[test]
fn refuses_what_could_be_lost() {
    let broken = || Why::Broken("connection refused".into());
    let container =
        format!("{ROOT}5 1 0:1 / /run/containerd/io.containerd.runtime.v2.task/k8s.io/a/rootfs rw - overlay o rw\n");
    let data = format!("{ROOT}5 1 8:17 / /var/lib/kubelet/data rw - ext4 /dev/sdc1 rw\n");
    let rows = [
        (
            "a control plane",
            joined().with_dir("/var/lib/etcd", &[("drwx------", "member")]),
            "control plane (/var/lib/etcd/member)",
        ),
        (
            "the CA's key",
            joined().with_dir(PKI, &[("-rw-------", "ca.key")]),
            "control plane (/etc/kubernetes/pki/ca.key)",
        ),
        (
            "k3s",
            joined().with_query(&leftovers::OTHERS, "listens /run/k3s/containerd/containerd.sock\n"),
            "k3s or RKE2 runs here",
        ),
        (
            "a linked directory",
            joined().with_dir("/var/lib", &[("lrwxrwxrwx", "kubelet -> /data")]),
            "leads to \"/data\"",
        ),
        (
            "a linked place",
            joined().with_query(&symlinks::LINKED, "/etc/cni/net.d -> /srv/cni\n"),
            "/etc/cni/net.d is a link to /srv/cni, and what is there would be deleted",
        ),
        ("links not known", joined().without(Source::Query(&symlinks::LINKED), Why::Denied), "try as root"),
        (
            "links not found",
            joined().with_exit(&symlinks::LINKED, 1, "", "find: unknown predicate -printf"),
            "ended with status 1: find: unknown",
        ),
        (
            "too many rules",
            cut(joined(), Source::Query(&crate::fact::firewall::LEGACY)),
            "iptables-legacy-save: longer than 8 MiB",
        ),
        (
            "rules not in time",
            joined().without(Source::Query(&crate::fact::firewall::LEGACY), Why::TimedOut),
            "try again",
        ),
        ("too many notes", cut(joined(), Source::Query(&NOTES)), "longer than 8 MiB"),
        ("too many mounts", cut(joined(), Source::File(MOUNTINFO)), "longer than 8 MiB"),
        ("a data mount", joined().with_file(MOUNTINFO, &data), "/dev/sdc1 on /var/lib/kubelet/data"),
        (
            "a busy volume",
            joined().with_query(&volumes::HOLDERS, &format!("7 bash {VOLUME}/x\n")),
            "bash (process 7) uses",
        ),
        ("a hung volume", joined().with_query(&ANSWERS, &format!("hung {VOLUME}\n")), "does not answer"),
        ("pods", joined().with_cri(pods::CALL, &runs(&[sandbox("db-0", false)])), "brings back: default/db-0;"),
        (
            "a silent runtime",
            joined().without(Source::Cri(pods::CALL), broken()).with_file(MOUNTINFO, &container),
            "start it, then again",
        ),
        ("somebody's bridge", joined().with_query(&LINKS, &links(&[("cni0", "")])), "cni0 stays"),
        ("a socket", joined().with_dir(CNI_DIR, &[("srwxrwxrwx", "a.sock")]), "a.sock is neither a file nor a link"),
        ("no kubeadm", joined().without(Source::Query(&version::KUBEADM), Why::NoTool), "kubeadm is not installed"),
        ("not root", joined().without(Source::Dir(PKI), Why::Denied), "try as root"),
        ("too busy", joined().without(Source::Dir(PKI), Why::TimedOut), "try again"),
        ("no word of pods", joined().without(Source::Cri(pods::CALL), Why::Denied), "try as root"),
    ];
    for (name, facts, says) in rows {
        let refusal = plan(&facts, &ResetOptions::default()).expect_err(name).to_string();
        assert!(refusal.contains(says), "{name}: {refusal}");
    }
}

#[test]
fn what_is_busy_elsewhere_is_nobodys_business() {
    let elsewhere = joined().with_query(&volumes::HOLDERS, "7 bash /var/lib/kubelet/config.yaml\n8 kubelet /var/lib/kubelet/pods/6f1c/volumes/kubernetes.io~projected/token\n");
    assert!(plan(&elsewhere, &ResetOptions::default()).is_ok());
    assert!(plan(&joined().with_query(&ANSWERS, "hung /mnt/media\n"), &ResetOptions::default()).is_ok());
}

#[test]
fn pods_that_can_be_elsewhere_are_drained_where_the_cluster_can_be_asked() {
    let pod = |name: &str, controller: Option<&str>| Pod {
        namespace: "default".into(),
        name: name.into(),
        controller: controller.map(str::to_owned),
        has_empty_dir: name == "db-0",
        ..Pod::default()
    };
    let with = |pods: Vec<Pod>, stop_pods| ResetOptions { pods: Some(pods), stop_pods, drain_seconds: 300 };
    let facts = joined().with_cri(pods::CALL, &runs(&[sandbox("web", false), sandbox("db-0", false)]));
    let managed =
        vec![pod("web", Some("ReplicaSet")), pod("db-0", Some("StatefulSet")), pod("proxy", Some("DaemonSet"))];
    let first = plan(&facts, &with(managed, false)).unwrap().plan.steps.remove(0);
    assert_eq!(first.effect.to_string(), "drain node node-7: 2 pods to evict within 300 s");
    assert_eq!(first.effect.items().all(), ["default/web", "default/db-0"]);
    assert_eq!(first.why[1], "data in emptyDir is lost: default/db-0");

    let bare = vec![pod("alone", None)];
    assert_eq!(plan(&facts, &with(bare.clone(), false)), Err(ResetRefusal::Bare("default/alone".into())));
    assert_eq!(sentences(&facts, &with(bare, true))[0], "drain node node-7: 1 pod to evict within 300 s");
    assert_eq!(sentences(&facts, &with(Vec::new(), false))[0], "stop kubelet");
    let stopped = ResetOptions { stop_pods: true, ..ResetOptions::default() };
    assert_eq!(sentences(&facts, &stopped)[0], "stop kubelet");
}
