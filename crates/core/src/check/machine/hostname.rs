//! The host name can be a node's name.
//!
//! The Node is named after the host, in lower case. The API server takes only letters, digits, `-` and `.`, each part
//! beginning and ending with a letter or digit, and at most 63 characters in all, since the name also becomes the value
//! of the label `kubernetes.io/hostname`. With any other name the kubelet starts and never registers. A machine still
//! called `localhost` would share its Node with every other machine nobody has named. Where a join asks for another name
//! (`--node-name`), the host's does not matter.
//!
//! See it yourself: `hostname`
//! Fix: `hostnamectl set-hostname NAME`, and the old name in /etc/hosts; or join with `nodeRegistration.name`.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::identity::HOSTNAME;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "machine.hostname",
    title: "the host name can be a node's name",
    subsystem: Subsystem::Machine,
    kubeadm: &["Hostname"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("a machine's name is a choice"),
    accounts_for: nothing,
    judge,
};

/// The longest value of a label. A Node's name may have 253 characters, but it is also its label
/// `kubernetes.io/hostname`.
const LONGEST: usize = 63;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    if let Some(asked) = facts.asked_node_name().filter(|_| !facts.has_joined()) {
        return Ok(pass(format!("the node will be {asked}, as asked for")));
    }
    let hostname = facts.hostname()?;
    let node = facts.node_name()?;
    // It names no node any more: what that means, machine.renamed tells.
    if facts.kubelet_node_name().is_ok_and(|joined| joined != facts.coming_node_name().unwrap_or_default()) {
        return Ok(skip("not judged: see machine.renamed"));
    }
    let seen = Evidence::at(HOSTNAME, 1, &hostname);
    let rename = format!("hostnamectl set-hostname {}    # or another: letters, digits, '-'; at most 63", fit(&node));
    if let Some(wrong) = wrong_with(&node) {
        return Ok(fail(format!("{hostname:?} cannot be a node's name: {wrong}"))
            .seen(seen)
            .fix(rename)
            .explains([id!("node.never-registered")]));
    }
    if node == "localhost" || node.starts_with("localhost.") {
        return Ok(warn(format!("the machine is still called {hostname}: so would the next one be"))
            .seen(seen)
            .fix(rename));
    }
    if node != hostname {
        return Ok(warn(format!("{hostname} has upper-case letters: its node will be {node}"))
            .seen(seen)
            .fix(format!("hostnamectl set-hostname {node}")));
    }
    Ok(pass(format!("the node will be {node}")))
}

/// A name that a node may have, as close to this one as can be.
fn fit(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let host = name.split('.').next().unwrap_or_default();
    let fit: String = host.chars().take(LONGEST).map(letter).collect();
    let fit = fit.trim_matches('-');
    if fit.is_empty() || fit == "localhost" { "worker-1".to_owned() } else { fit.to_owned() }
}

/// Why a name is no RFC 1123 subdomain that also fits a label.
fn wrong_with(name: &str) -> Option<String> {
    if name.is_empty() || name == "(none)" {
        return Some("it is empty".to_owned());
    }
    if let Some(c) = name.chars().find(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))) {
        return Some(format!("it holds {c:?}"));
    }
    let is_edge = |part: &str| part.starts_with('-') || part.ends_with('-') || part.is_empty();
    if name.split('.').any(is_edge) {
        return Some("each part must begin and end with a letter or digit".to_owned());
    }
    (name.len() > LONGEST).then(|| format!("it has {} characters, {LONGEST} fit", name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::join_state::sample::joined;
    use crate::fact::pki::sample::SampleAuthority;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn named(name: &str) -> Facts {
        facts().with_file(HOSTNAME, &format!("{name}\n"))
    }

    fn asked(mut facts: Facts) -> Facts {
        facts.ask_for_node_name("w9");
        facts
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("plain", named("w1"), Pass),
                ("qualified", named("w1.lab.example.com"), Pass),
                ("digits first", named("3rd-floor"), Pass),
                ("as long as a label", named(&"a".repeat(63)), Pass),
                ("one more", named(&"a".repeat(64)), Fail),
                ("upper case", named("StorageNodeT3500"), Warn),
                ("underscore", named("my_node"), Fail),
                ("umlaut", named("küche"), Fail),
                ("dash at the start", named("-w1"), Fail),
                ("dash at the end of a part", named("w1-.lab"), Fail),
                ("empty part", named("w1..lab"), Fail),
                ("never set", named("(none)"), Fail),
                ("empty", named(""), Fail),
                ("localhost", named("localhost"), Warn),
                ("localhost.localdomain", named("localhost.localdomain"), Warn),
                ("a host whose name only begins so", named("localhostile"), Pass),
                ("joined under another name", joined(&SampleAuthority::make()).with_file(HOSTNAME, "my_node\n"), Skip),
                ("another name is asked for", asked(named("my_node")), Pass),
                (
                    "another name is asked for, too late",
                    asked(joined(&SampleAuthority::make()).with_file(HOSTNAME, "my_node\n")),
                    Skip,
                ),
                ("unreadable", facts().without(Source::File(HOSTNAME), Why::Denied), Unknown),
            ],
        );
    }

    #[test]
    fn says_what_is_wrong_and_what_the_node_is_called() {
        let says = |name: &str| CHECK.verdict(&named(name), &CheckPolicy::default()).says;
        assert_eq!(says("my_node"), "\"my_node\" cannot be a node's name: it holds '_'");
        assert_eq!(says("W1"), "W1 has upper-case letters: its node will be w1");
        assert!(says(&"a".repeat(64)).ends_with("it has 64 characters, 63 fit"));
        assert!(says("(none)").ends_with("it is empty"));
    }

    #[test]
    fn the_name_it_offers_passes() {
        let long = "a".repeat(64);
        for name in ["my_node", "küche", "-w1", "w1-.lab", &long, "(none)", "", "localhost", "Bad_Host.example.org"] {
            let offered = fit(&name.to_lowercase());
            assert_eq!(CHECK.verdict(&named(&offered), &CheckPolicy::default()).outcome, Pass, "{name}: {offered}");
        }
    }
}
