//! The API server can reach the kubelet on TCP 10250.
//!
//! Without it `kubectl logs`, `exec` and `port-forward` hang, and metrics are missing for the node's pods. Judged by the
//! rules of iptables and nftables for a new connection from this machine's own networks: it fails where every way
//! through them ends in drop or reject, whichever card the cluster is on. Where a rule depends on something that is not
//! known, so does the answer; the word of firewalld or ufw alone is a warning. It is this machine's own ruleset: what
//! stands between the machines is not seen. On a joined node `carrick verify --kubeconfig` asks the API server to reach
//! the kubelet, and any answer overrules this.
//!
//! See it yourself: `nc -vz THIS-MACHINE 10250` from the control plane; `iptables-save; nft list ruleset`
//! Fix: `ufw allow 10250/tcp`, or `firewall-cmd --permanent --add-port=10250/tcp && firewall-cmd --reload`; where the
//! API server reaches kubelets another way (konnectivity): `--ignore firewall.kubelet`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::firewall::found;
use crate::fact::listen::Proto;
use crate::fact::netfilter::Passage;
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "firewall.kubelet",
    title: "the API server can reach the kubelet on TCP 10250",
    subsystem: Subsystem::Network,
    kubeadm: &["Firewalld"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("whom a firewall lets in is your decision"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    const SAYS: &str = "TCP 10250 is blocked: kubectl logs and exec would hang";
    let (verdict, rule) = match facts.inbound(Proto::Tcp, 10250)? {
        Passage::Open => return Ok(pass("TCP 10250 is open")),
        Passage::CannotTell(rule) => return Err(Missing::broken("TCP 10250", format!("hangs on {rule}"))),
        Passage::Blocked(rule) => (fail(SAYS), rule),
        Passage::SaidBlocked(word) => (warn(SAYS), word),
    };
    let (source, rule) = found(&rule);
    Ok(verdict
        .seen(Evidence::of(source, rule))
        .fix(facts.firewall().opens(Proto::Tcp, 10250, rule))
        .explains([id!("kubelet.unreached")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::firewall::{IPTABLES, NFT, UFW};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn filter(rules: &str) -> Facts {
        let text =
            format!("*filter\n:INPUT DROP [0:0]\n-A INPUT -p udp -m udp --dport 10250 -j ACCEPT\n{rules}COMMIT\n");
        facts().with_query(&NFT, r#"{"nftables":[]}"#).with_query(&IPTABLES, &text)
    }

    const DENIES: &str = "Status: active\nDefault: deny (incoming), allow (outgoing), disabled (routed)\n";

    #[test]
    fn judges() {
        let some = "-A INPUT -s 10.0.0.11/32 -p tcp -m tcp --dport 10250 -j ACCEPT\n";
        table(
            &CHECK,
            [
                ("no firewall", filter("").with_query(&IPTABLES, ""), Pass),
                ("opened", filter("-A INPUT -p tcp -m tcp --dport 10250 -j ACCEPT\n"), Pass),
                ("closed", filter(""), Fail),
                ("for some", filter(some), Unknown),
                (
                    "by ufw's word alone",
                    filter("").without(Source::Query(&NFT), Why::Denied).with_query(&UFW, DENIES),
                    Warn,
                ),
                ("not root", filter("").without(Source::Query(&NFT), Why::Denied), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&filter(""), &CheckPolicy::default());
        assert_eq!(verdict.evidence[0], Evidence::of("iptables-save", ":INPUT DROP"));
        assert!(verdict.remedy[0].contains("-p tcp --dport 10250"));
        assert!(CHECK.verdict(&filter(some), &CheckPolicy::default()).says.contains("10.0.0.11/32"));
    }
}
