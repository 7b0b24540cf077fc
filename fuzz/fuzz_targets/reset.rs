//! What a reset reads of a machine: rules, mounts, links, units, lists. What it would tell iptables-restore removes chains of
//! Kubernetes' names and the rules that lead there, and does nothing else.
#![no_main]

use carrick_core::fact::unit::{parse_cat, parse_environment_file, parse_show};
use carrick_core::fact::{listing, mounts};
use carrick_core::reset::{chains, symlinks, volumes};
use libfuzzer_sys::fuzz_target;

fn is_ours(chain: &str) -> bool {
    ["KUBE-", "CNI-", "FLANNEL-"].iter().any(|name| chain.starts_with(name))
}

fuzz_target!(|text: &str| {
    let _ = (parse_show(text), parse_cat(text), parse_environment_file(text), listing::parse(text));
    let _ = (volumes::below(&mounts::parse(text).0), volumes::parse_holders(text));
    let links = symlinks::parse(text);
    symlinks::followed(&links);
    let save = format!("*nat\n:KUBE-X - [0:0]\n-A PREROUTING -j KUBE-X\n{text}\nCOMMIT\n");
    for rules in [text, &save] {
        for line in chains::removal(&chains::find(rules)).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["-F" | "-X", chain] => assert!(is_ours(chain), "{line}"),
                ["-D", chain, ..] => assert!(!is_ours(chain), "{line}"),
                _ => assert!(line.starts_with('*') || line == "COMMIT", "{line}"),
            }
        }
    }
});
