//! An example machine: a Debian 12 worker of the lab, ready to join, as `carrick collect` saw it.
//!
//! `carrick demo` judges it with three faults put in; tests take it as the healthy machine they break.

use super::{Capture, Facts, Why, dir_key, file_key, record};

const WORKER: &str = include_str!("../../example/worker.json");

/// The worker as it was: every check that applies passes.
#[allow(clippy::expect_used)] // A constant of this crate; the tests read it.
pub fn worker() -> Facts {
    record::from_json(WORKER).expect("the example is a record")
}

/// The worker with what the first join of many a homelab fails on: a kubelet without its drop-in, a configuration that
/// wins by its name, and swap that comes back with the next boot.
pub fn troubled_worker() -> Facts {
    let mut facts = worker();
    let bare = "# /usr/lib/systemd/system/kubelet.service\n[Unit]\nDescription=kubelet: The Kubernetes Node Agent\n\n\
                [Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n\n[Install]\nWantedBy=multi-user.target\n";
    put(&mut facts, "query systemctl cat kubelet", bare);
    let fstab = "UUID=6d4c / ext4 errors=remount-ro 0 1\n/dev/vg/swap none swap sw 0 0\n";
    put(&mut facts, &file_key("/etc/fstab"), fstab);
    let conf_dir = "/etc/cni/net.d";
    put(
        &mut facts,
        &dir_key(conf_dir),
        "-rw-r--r-- 0 0 180 1794700000 00-placeholder.conflist\t\n-rw-r--r-- 0 0 292 1794700000 10-flannel.conflist\t\n",
    );
    put(
        &mut facts,
        &file_key("/etc/cni/net.d/00-placeholder.conflist"),
        r#"{"cniVersion":"0.3.1","name":"placeholder","plugins":[{"type":"bridge","bridge":"cni0","ipam":{"type":"host-local","subnet":"10.244.0.0/16"}}]}"#,
    );
    put(
        &mut facts,
        &file_key("/etc/cni/net.d/10-flannel.conflist"),
        r#"{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel","delegate":{"isDefaultGateway":true}},{"type":"portmap","capabilities":{"portMappings":true}}]}"#,
    );
    facts.insert("query nft -j list ruleset".to_owned(), Err(Why::Denied));
    facts
}

fn put(facts: &mut Facts, key: &str, text: &str) {
    facts.insert(key.to_owned(), Ok(Capture { exit: key.starts_with("query").then_some(0), ..Capture::text(text) }));
}
