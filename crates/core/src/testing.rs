//! Builders of facts and the judge of tables, so that a check's tests read: given these facts, this verdict.

pub mod secret;

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::check::{Check, CheckPolicy, Outcome};
use crate::fact::listing::{self, DirectoryEntry};
use crate::fact::{Capture, Facts, Query, Source, Why, dir_key, file_key};
use crate::fix::Fix;
use crate::plan::Effect;
use crate::plan::protect::Protected;

pub mod rules;

/// 2026-11-15 12:00 UTC: when the facts of a test were taken.
pub const NOW: Timestamp = Timestamp::constant(1_794_744_000, 0);

/// A machine nothing is known about yet.
pub fn facts() -> Facts {
    Facts::new("w1", NOW)
}

/// One effect of each kind, as a plan for a worker has it and as journals on disk have it.
pub const EFFECTS: [&str; 20] = [
    r#"{"effect":"make-dir","path":"/etc/cni/net.d","mode":493}"#,
    r#"{"effect":"write","path":"/etc/sysctl.d/zzz-carrick.conf","text":"a = 1\n","mode":420}"#,
    r#"{"effect":"edit","path":"/etc/containerd/config.toml","edit":{"edit":"toml","set":[{"key":["disabled_plugins"],"to":"[]"}]}}"#,
    r#"{"effect":"set-mode","path":"/etc/cni/net.d","mode":493}"#,
    r#"{"effect":"remove","path":"/etc/cni/net.d/00-stray.conf"}"#,
    r#"{"effect":"reload-units"}"#,
    r#"{"effect":"load-module","name":"br_netfilter"}"#,
    r#"{"effect":"sysctl","key":"net.ipv4.ip_forward","value":"1"}"#,
    r#"{"effect":"swap-off","device":"/swap.img"}"#,
    r#"{"effect":"enable","unit":"kubelet","enabled":true}"#,
    r#"{"effect":"run","unit":"kubelet","running":true}"#,
    r#"{"effect":"restart-runtime","unit":"containerd","running":{"containers":2,"go_on":true}}"#,
    r#"{"effect":"drain","node":"w1","pods":["default/web"],"seconds":300}"#,
    r#"{"effect":"mark-not-ready","node":"w1","system_uuid":"","machine_id":"0123456789abcdef0123456789abcdef"}"#,
    r#"{"effect":"end-join","removes":["carrick-kubeadm.service","/run/carrick/join.yaml"]}"#,
    r#"{"effect":"unmount","points":["/var/lib/kubelet/pods/a/volumes/v/data"]}"#,
    r#"{"effect":"kubeadm-reset","socket":"unix:///run/containerd/containerd.sock","removes":["/etc/kubernetes/kubelet.conf"]}"#,
    r#"{"effect":"delete-link","name":"cni0"}"#,
    r#"{"effect":"remove-chains","tool":"iptables-nft","chains":["nat KUBE-SERVICES"]}"#,
    r#"{"effect":"clear-dir","path":"/var/lib/cni/networks/cbr0","holds":["10.244.1.2"]}"#,
];

/// [`EFFECTS`], read. A test holds that no kind is missing.
#[allow(clippy::expect_used)] // What cannot be read fails the test.
pub fn every_effect() -> Vec<Effect> {
    EFFECTS.iter().map(|json| serde_json::from_str(json).expect("an effect")).collect()
}

impl Facts {
    /// With this content in a file.
    pub fn with_file(mut self, path: &str, text: &str) -> Self {
        self.insert(file_key(path), Ok(Capture::text(text)));
        self
    }

    /// With a directory of these entries: `(mode, name)`, as in `("-rw-r--r--", "10-flannel.conflist")`.
    pub fn with_dir(mut self, path: &str, entries: &[(&str, &str)]) -> Self {
        let lines: String = entries.iter().map(|(mode, name)| listing::render(&entry(mode, name))).collect();
        self.insert(dir_key(path), Ok(Capture::text(lines)));
        self
    }

    /// With a command that printed this and ended well.
    pub fn with_query(self, query: &Query, text: &str) -> Self {
        self.with_exit(query, 0, text, "")
    }

    /// With a command that ended with this status, having printed this on stdout and stderr.
    pub fn with_exit(mut self, query: &Query, exit: i32, text: &str, errors: &str) -> Self {
        let capture = Capture { exit: Some(exit), errors: errors.to_owned(), ..Capture::text(text) };
        self.insert(format!("query {}", query.name), Ok(capture));
        self
    }

    /// With an answer of the container runtime.
    pub fn with_cri(mut self, call: &str, json: &str) -> Self {
        self.insert(format!("cri {call}"), Ok(Capture::text(json)));
        self
    }

    /// With an answer of the cluster.
    pub fn with_api(mut self, call: &str, text: &str) -> Self {
        self.insert(format!("api {call}"), Ok(Capture::text(text)));
        self
    }

    /// With a source that could not be had.
    pub fn without(mut self, source: Source, why: Why) -> Self {
        self.insert(source.key(), Err(why));
        self
    }

    /// With a file that was looked for and is not there.
    pub fn without_file(mut self, path: &str) -> Self {
        self.insert(file_key(path), Err(Why::Absent));
        self
    }

    /// With a directory that was looked for and is not there.
    pub fn without_dir(mut self, path: &str) -> Self {
        self.insert(dir_key(path), Err(Why::Absent));
        self
    }
}

fn entry(mode: &str, name: &str) -> DirectoryEntry {
    let (name, target) = name.split_once(" -> ").map_or((name, None), |(name, target)| (name, Some(target.to_owned())));
    DirectoryEntry {
        mode: mode.to_owned(),
        uid: 0,
        gid: 0,
        size: 100,
        mtime: NOW.as_second() - 86_400,
        name: name.to_owned(),
        target,
    }
}

/// Judges rows of (name, facts, outcome). A table holds a pass, something wrong, and a missing fact: a check that cannot
/// fail, or that passes on what it does not know, is no check.
#[track_caller]
pub fn table<const N: usize>(check: &Check, rows: [(&str, Facts, Outcome); N]) {
    table_with(check, &CheckPolicy::default(), rows);
}

/// As [`table`], under a policy.
#[track_caller]
pub fn table_with<const N: usize>(check: &Check, policy: &CheckPolicy, rows: [(&str, Facts, Outcome); N]) {
    let outcomes: BTreeSet<Outcome> = rows.iter().map(|row| row.2).collect();
    assert!(outcomes.contains(&Outcome::Pass), "{}: no row passes", check.id);
    assert!(outcomes.contains(&Outcome::Fail) || outcomes.contains(&Outcome::Warn), "{}: no row fails", check.id);
    assert!(outcomes.contains(&Outcome::Unknown), "{}: no row misses a fact", check.id);
    for (name, facts, expected) in rows {
        judge_row(check, policy, name, &facts, expected);
    }
}

/// Judges single rows beside a table: another policy, a special case.
#[track_caller]
pub fn judge_row(check: &Check, policy: &CheckPolicy, name: &str, facts: &Facts, expected: Outcome) {
    let verdict = check.verdict(facts, policy);
    assert_eq!(verdict.outcome, expected, "{}: {name}: {}", check.id, verdict.says);
    if matches!(expected, Outcome::Fail | Outcome::Warn) {
        assert!(!verdict.evidence.is_empty(), "{}: {name}: says {:?} without evidence", check.id, verdict.says);
        assert!(
            !verdict.remedy.is_empty(),
            "{}: {name}: says {:?} and leaves the reader there",
            check.id,
            verdict.says
        );
    }
}

/// Holds what a fix would change against its sentences, row by row. A table holds a machine that is changed and one that is
/// left alone.
#[track_caller]
pub fn plans<const N: usize>(fix: &Fix, rows: [(&str, Facts, &[&str]); N]) {
    assert!(rows.iter().any(|row| row.2.is_empty()), "{:?}: no row is left alone", fix.fixes);
    assert!(rows.iter().any(|row| !row.2.is_empty()), "{:?}: no row is changed", fix.fixes);
    for (name, facts, expected) in rows {
        let effects = (fix.plan)(&facts).unwrap_or_default();
        let told: Vec<String> = effects.iter().map(ToString::to_string).collect();
        assert_eq!(told, expected, "{:?}: {name}", fix.fixes);
        let refused = effects.iter().find_map(|effect| Protected::default().refuse(effect));
        assert_eq!(refused, None, "{:?}: {name}: planned, and would not be carried out", fix.fixes);
    }
}
