//! Forwarding and bridged traffic: set now, and written down for the next boot.

use super::Fix;
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { mends: &["kernel.bridge-nf", "kernel.ip-forward", "kernel.sysctl-after-boot"], plan };

const FILE: &str = "/etc/sysctl.d/90-carrick.conf";

/// What a node of any CNI needs.
const WANTED: [&str; 3] =
    ["net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"];

#[allow(clippy::unnecessary_wraps)] // As every fix is called.
fn plan(_: &Facts) -> Known<Vec<Effect>> {
    let text: String = ["# Written by carrick check --fix; carrick undo takes it back.\n".to_owned()]
        .into_iter()
        .chain(WANTED.iter().map(|key| format!("{key} = 1\n")))
        .collect();
    let write = Effect::Write { path: FILE.to_owned(), text, mode: 0o644, in_place: false };
    let set = WANTED.iter().map(|&key| Effect::Sysctl { key: key.to_owned(), value: "1".to_owned() });
    Ok([write].into_iter().chain(set).collect())
}
