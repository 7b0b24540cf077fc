//! An example machine: a Debian 12 worker of the lab, ready to join, as `carrick collect` saw it.
//!
//! Shared: `carrick demo` judges it with faults put in; tests take it as the healthy machine they break.

use super::{Capture, Facts, Query, Source, Why, file_key, firewall, listen, process, record, unit};

const WORKER: &str = include_str!("../../example/worker.json");

/// The worker as it was: every check that applies passes.
#[allow(clippy::expect_used)] // A constant of this crate; the tests read it.
pub fn worker() -> Facts {
    record::from_json(WORKER).expect("the example is a record")
}

/// The worker with what the first join of many a homelab fails on: a kubelet that lost its drop-in and runs alone, swap
/// that comes back with the next boot, and rules that only root may read.
pub fn troubled_worker() -> Facts {
    let mut facts = worker();
    let bare = "# /lib/systemd/system/kubelet.service\n[Unit]\nDescription=kubelet: The Kubernetes Node Agent\n\n\
                [Service]\nExecStart=/usr/bin/kubelet\nRestart=always\nStartLimitInterval=0\nRestartSec=10\n\n\
                [Install]\nWantedBy=multi-user.target\n";
    put(&mut facts, &unit::KUBELET, bare);
    let states = read(&facts, &unit::SHOW);
    let running = states
        .replacen("MainPID=0\nResult=exit-code", "MainPID=3350\nResult=success", 1)
        .replacen("ActiveState=activating\nSubState=auto-restart", "ActiveState=active\nSubState=running", 1)
        .replacen("DropInPaths=/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf", "DropInPaths=", 1);
    put(&mut facts, &unit::SHOW, &running);
    put(&mut facts, &process::KUBELET, "   3350 /usr/bin/kubelet\n");
    let listening = read(&facts, &listen::LISTENERS);
    let kubelet = "tcp LISTEN 0      4096             *:10250      *:*    users:((\"kubelet\",pid=3350,fd=11))\n";
    put(&mut facts, &listen::LISTENERS, &(listening + kubelet));
    let fstab =
        "UUID=6d4c05a1-4f5b-4e43-9c1b-8a5a0a2f7c11 / ext4 errors=remount-ro 0 1\n/dev/vg/swap none swap sw 0 0\n";
    facts.insert(file_key("/etc/fstab"), Ok(Capture::text(fstab)));
    facts.insert(Source::Query(&firewall::NFT).key(), Err(Why::Denied));
    facts
}

fn read(facts: &Facts, query: &Query) -> String {
    facts.query(query).map(|capture| capture.text.clone()).unwrap_or_default()
}

fn put(facts: &mut Facts, query: &Query, text: &str) {
    facts.insert(super::query_key(query), Ok(Capture { exit: Some(0), ..Capture::text(text) }));
}
